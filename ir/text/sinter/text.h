/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* HLO text in and out: XLA's grammar (INTEROP: the newest parser), XLA's printing. */
#ifndef SINTER_TEXT_H
#define SINTER_TEXT_H

#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parses one module. `file` names the text in locations (copied). Reports as many faults as it can find at file:line:col, with the line and a hint;
 * then SN_ERR_SYNTAX (or the first fault's status). Does not verify beyond what parsing needs: call sn_module_verify after it.
 * Never crashes, hangs or recurses by user-controlled depth. The text may be any bytes.
 * Registers `text` on d as the source of `file` (sn_diag_set_source), so that later reports show its lines: keep it while d reports on this module. */
SN_NODISCARD sn_status sn_hlo_parse(sn_diag *d, const char *file, const char *text, size_t n_bytes, sn_module **out);

/* Small pieces in the same syntax, for tools and tests: a shape, a literal behind its shape (`f32[2] {1, 2}`), a window, a sharding. */
SN_NODISCARD sn_status sn_hlo_parse_shape(sn_diag *d, sn_arena *a, const char *text, const sn_shape **out);
SN_NODISCARD sn_status sn_hlo_parse_literal(sn_diag *d, const char *text, sn_array **out);
SN_NODISCARD sn_status sn_hlo_parse_sharding(sn_diag *d, sn_arena *a, const char *text, const sn_sharding **out);

typedef struct sn_print_options {
  size_t struct_size;
  bool percent;            /* %names */
  bool program_shape;      /* (params) -> result on computation headers */
  bool result_layout;      /* layouts on result shapes */
  bool operand_shapes;
  bool metadata;
  bool backend_config;
  bool debug_tables;
  bool index_comments;     /* the index=5 comments */
  bool large_constants;    /* else constants of more than 10 elements print as {...} */
  bool async_sugar;
  bool default_layouts;    /* print {1,0} also where the instruction carries no layout (XLA's own files do) */
} sn_print_options;
/* Default: XLA's own print (`--print=xla`): exactly what its dump of the same module says, large constants included. */
void sn_print_options_init(sn_print_options *o);
/* XLA's ShortParsable: no percent, no metadata, no program shapes, full constants. */
void sn_print_options_init_short(sn_print_options *o);

/* o NULL: the default. Out of memory shows as to->failed. */
void sn_hlo_print(sn_str *to, const sn_module *m, const sn_print_options *o);
void sn_hlo_print_computation(sn_str *to, const sn_computation *c, const sn_print_options *o);
void sn_hlo_print_instr(sn_str *to, const sn_instr *i, const sn_print_options *o); /* one line, no newline */
void sn_hlo_print_literal(sn_str *to, const sn_array *a); /* as in constant(…) */
void sn_hlo_print_sharding(sn_str *to, const sn_sharding *s);

#ifdef __cplusplus
}
#endif
#endif
