/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the text reader share: the cursor, names in scope, and who parses what. Not included outside this folder. */
#ifndef SINTER_STABLEHLO_TEXT_H
#define SINTER_STABLEHLO_TEXT_H

#include "../mlir.h"

typedef struct sn_mx_span {
  const char *s;
  size_t n;
} sn_mx_span;

/* A name in scope: `n` values of one op, or one block argument. */
typedef struct sn_mx_binding {
  sn_mlir_value *first;
  uint32_t n;
  const char *key; /* in the arena */
  size_t key_n;
  uint32_t before; /* the binding of the same name that this one hides, + 1; 0: none */
} sn_mx_binding;

/* An op whose `loc(#alias)` is defined further down. */
typedef struct sn_mx_fixup {
  sn_mlir_op *op;
  const char *alias;
} sn_mx_fixup;

typedef struct sn_mx {
  sn_diag *d;
  const char *file; /* in m's arena */
  char *text;       /* own copy, NUL-terminated; no NUL occurs before the end */
  const char *at, *end;
  sn_mlir *m;
  sn_arena *scratch; /* of one op */
  int depth;
  sn_map *names;          /* name -> binding index + 1 */
  sn_mx_binding *bindings;
  uint32_t n_bindings, cap_bindings, floor; /* below `floor`: outside of the function, not visible */
  sn_map *attr_aliases, *type_aliases, *loc_aliases;
  sn_mx_fixup *fixups;
  uint32_t n_fixups, cap_fixups;
  const char *loc_at, *loc_line_begin; /* the last place asked for */
  uint32_t loc_line;
} sn_mx;

/* ---- lexer.c ---- */

static inline bool sn_mx_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static inline bool sn_mx_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool sn_mx_is_word(char c) { return sn_mx_is_letter(c) || sn_mx_is_digit(c) || c == '$' || c == '.'; }

sn_status sn_mx_begin(sn_mx *p, sn_diag *d, const char *file, const char *text, size_t n_bytes);
void sn_mx_end(sn_mx *p); /* not m */
void sn_mx_skip(sn_mx *p); /* blanks and comments */
char sn_mx_peek(sn_mx *p); /* the next character behind blanks */
bool sn_mx_accept(sn_mx *p, char c);
bool sn_mx_accept_text(sn_mx *p, const char *text); /* `->`, `::` */
bool sn_mx_accept_word(sn_mx *p, const char *word); /* a whole word */
bool sn_mx_at_word(sn_mx *p, const char *word);
sn_loc sn_mx_loc(sn_mx *p, const char *at);
sn_status sn_mx_fail(sn_mx *p, const char *at, sn_status s, const char *fmt, ...) SN_PRINTF(4, 5);
sn_status sn_mx_expected(sn_mx *p, const char *what); /* "expected WHAT, found …" */
sn_status sn_mx_need(sn_mx *p, char c, const char *where);
sn_status sn_mx_memory(sn_mx *p);
sn_status sn_mx_enter(sn_mx *p); /* one level deeper; SN_ERR_UNSUPPORTED beyond SN_MLIR_MAX_NEST */
static inline void sn_mx_leave(sn_mx *p) { p->depth--; }
sn_status sn_mx_word(sn_mx *p, const char *what, sn_mx_span *out); /* letters, digits, _ $ . */
const char *sn_mx_copy(sn_mx *p, sn_mx_span s); /* NUL-terminated in m's arena; NULL: no memory */
static inline bool sn_mx_is(sn_mx_span s, const char *word) {
  size_t i = 0;
  while (i < s.n && word[i] == s.s[i]) i++;
  return i == s.n && word[i] == '\0';
}
/* "…" with MLIR's escapes; in m's arena. */
sn_status sn_mx_string(sn_mx *p, const char **out, size_t *n);
sn_status sn_mx_int(sn_mx *p, const char *what, int64_t *out); /* decimal or hexadecimal, with sign */
/* @name or @"name"; of @a::@b the last. */
sn_status sn_mx_symbol(sn_mx *p, const char **out);
/* Everything up to the bracket that closes the one behind the cursor, strings in mind; the cursor stands behind it. */
sn_status sn_mx_balanced(sn_mx *p, sn_mx_span *out);

/* ---- names.c ---- */

sn_status sn_mx_bind(sn_mx *p, const char *at, sn_mx_span name, sn_mlir_value *first, uint32_t n);
void sn_mx_unbind(sn_mx *p, uint32_t to); /* down to so many bindings */
/* %name or %name#2 */
sn_status sn_mx_use(sn_mx *p, sn_mlir_value **out);
/* The name behind a %, without its number. */
sn_status sn_mx_value_name(sn_mx *p, sn_mx_span *out);

/* ---- type.c, attr.c, dense.c, loc.c ---- */

sn_status sn_mx_type(sn_mx *p, const sn_mlir_type **out);
bool sn_mx_at_type(sn_mx *p); /* does one begin here? */
/* `(T, T) -> (T, T)` or `(T) -> T`: a FUNCTION type */
sn_status sn_mx_function_type(sn_mx *p, const sn_mlir_type **out);

sn_status sn_mx_attr(sn_mx *p, const sn_mlir_attr **out);
/* Appends the members of `{k = v, …}`; the cursor stands at `{`. */
typedef struct sn_mx_attrs {
  sn_mlir_named *v;
  uint32_t n, cap;
} sn_mx_attrs;
sn_status sn_mx_attrs_add(sn_mx *p, sn_mx_attrs *a, const char *name, const sn_mlir_attr *attr);
sn_status sn_mx_dict(sn_mx *p, sn_mx_attrs *a);
sn_status sn_mx_conv_labels(sn_mx *p, const sn_mlir_attr **out); /* [b, 0, f]x[0, i, o]->[b, 0, f] */
sn_status sn_mx_int_list(sn_mx *p, const sn_mlir_attr **out);    /* [1, 2]: INTS */

/* Behind `dense`: `<…> : type`. */
sn_status sn_mx_dense(sn_mx *p, const sn_mlir_attr **out);

/* `loc(…)` behind an op, when there is one. */
sn_status sn_mx_trailing_loc(sn_mx *p, sn_mlir_op *op);
sn_status sn_mx_loc_alias(sn_mx *p, const char *name); /* the value of `#name = loc(…)`; the cursor stands at loc */
sn_status sn_mx_resolve_locs(sn_mx *p);

/* ---- op.c, forms.c, func.c ---- */

/* What an op is made of, gathered before its results are known. */
typedef struct sn_mx_op {
  const char *name, *at;
  sn_loc loc;
  sn_mx_span result_names[64];
  uint32_t result_counts[64];
  uint32_t n_names, n_wanted; /* results on the left of `=` */
  sn_mlir_value **operands;
  uint32_t n_operands, cap_operands;
  sn_mx_attrs attrs;
  sn_mlir_region *regions;
  uint32_t n_regions, cap_regions;
  uint32_t n_results;
  const sn_mlir_type *const *results;
} sn_mx_op;

sn_status sn_mx_op_operand(sn_mx *p, sn_mx_op *o, sn_mlir_value *v);
sn_status sn_mx_op_operands(sn_mx *p, sn_mx_op *o); /* %a, %b, … none is fine */
sn_status sn_mx_op_region(sn_mx *p, sn_mx_op *o, sn_mlir_region **out); /* a new one, empty */
/* `{ … }`: blocks; names: of the arguments of an entry block without a label. */
typedef struct sn_mx_args {
  sn_mx_span *names;
  const sn_mlir_type **types;
  uint32_t n, cap;
} sn_mx_args;
sn_status sn_mx_args_add(sn_mx *p, sn_mx_args *a, sn_mx_span name, const sn_mlir_type *t);
sn_status sn_mx_region(sn_mx *p, sn_mlir_region *to, const sn_mx_args *entry);
/* Links the op behind `to` and binds its names. */
sn_status sn_mx_finish(sn_mx *p, sn_mx_op *o, sn_mlir_block *to, sn_mlir_op **out);
sn_status sn_mx_one_op(sn_mx *p, sn_mlir_block *to);
/* `: (T) -> T` with the operands' types checked. */
sn_status sn_mx_signature(sn_mx *p, sn_mx_op *o);
sn_status sn_mx_set_results(sn_mx *p, sn_mx_op *o, uint32_t n, const sn_mlir_type *const *types);
/* The custom form of the op; the cursor stands behind its name. *linked: the form did that itself (func.func). */
sn_status sn_mx_pretty(sn_mx *p, sn_mx_op *o);
sn_status sn_mx_func(sn_mx *p, sn_mx_op *o); /* func.func: everything behind the name */
sn_status sn_mx_add_int(sn_mx *p, sn_mx_op *o, const char *name, int64_t v);
sn_status sn_mx_add_string(sn_mx *p, sn_mx_op *o, const char *name, sn_mlir_attr_kind kind, const char *s, size_t n);

#endif
