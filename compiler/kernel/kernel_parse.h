/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What kernel_parse.c and kernel_parse_terms.c share: the place in the text, and what is smaller than a statement. After a fault each returns at once with nothing. */
#ifndef SINTER_KERNEL_PARSE_H
#define SINTER_KERNEL_PARSE_H

#include "sinter/kernel.h"

enum { MAX_NESTING = 128, MAX_OPERANDS = 64, MAX_NUMBER = 1 << 20 };

typedef struct kernel_parser {
  sn_diag *d;
  sn_arena *a;
  const char *file;
  const char *at, *end, *line_start;
  uint32_t line;
  sn_kernel *k;
  sn_kbuilder b;
  sn_kvalue **values; /* by id */
  const sn_ix **vars[2]; /* DIM and SYM expressions by number, where bound */
  int n_table;        /* length of the three tables */
  int depth;
  sn_status status;
} kernel_parser;

void kparse_failed(kernel_parser *p, const char *fmt, ...) SN_PRINTF(2, 3); /* the first fault is reported, where the parser stands */
void kparse_no_memory(kernel_parser *p);
void kparse_skip_space(kernel_parser *p);
bool kparse_peek(kernel_parser *p, const char *text); /* whether the text comes next */
bool kparse_take(kernel_parser *p, const char *text); /* … and passes it */
void kparse_want(kernel_parser *p, const char *text); /* a fault where it does not */
int64_t kparse_integer(kernel_parser *p);
const char *kparse_word(kernel_parser *p);
sn_type kparse_type_name(kernel_parser *p);
sn_opcode kparse_opcode(kernel_parser *p);
int kparse_numbered(kernel_parser *p, char letter); /* letter and number: v12 */
void kparse_grow_tables(kernel_parser *p, int number);
void kparse_name_value(kernel_parser *p, sn_kvalue *v, int id); /* the value takes the id it has in the text */
sn_kvalue *kparse_value(kernel_parser *p); /* one that is defined */
const sn_ix *kparse_sum(kernel_parser *p); /* an index expression */
void kparse_indices(kernel_parser *p, int want_n, const sn_ix **at); /* […] of so many */
int kparse_buffer_number(kernel_parser *p);
int kparse_guards(kernel_parser *p, sn_ix_guard *out); /* how many */

#endif
