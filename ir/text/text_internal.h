/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of ir/text share: the cursor over the text, the parser's state, the attribute parsers, the pieces of the printer. */
#ifndef SINTER_TEXT_INTERNAL_H
#define SINTER_TEXT_INTERNAL_H

#include "sinter/text.h"

/* A piece of the text. Not NUL-terminated. */
typedef struct sn_span {
  const char *s;
  size_t n;
} sn_span;

/* Nesting that the text controls is parsed by recursion up to these depths and refused beyond. */
enum {
  SN_TX_MAX_NEST = 64,          /* tuples in shapes, operands written in place, computations written in place */
  SN_TX_MAX_DEVICES = 1 << 16,  /* ids that one group list or tile assignment may expand to */
  SN_TX_MAX_IDS = 1 << 25,      /* ids of all lists of a text together: a few bytes must not take gigabytes */
  SN_TX_MAX_FAULTS = 200        /* then the rest of the text is not looked at */
};

/* Names of computations (scope 0) and of instructions (a scope for each computation). `value` NULL: its definition had a fault, which was reported. */
typedef struct sn_tx_name {
  const char *s; /* in the text */
  uint32_t n;
  uint32_t scope;
  uint64_t hash;
  void *value;
} sn_tx_name;

typedef struct sn_tx_names {
  sn_tx_name *entries; /* in order of definition */
  uint32_t n, cap;
  uint32_t *table;     /* entry + 1; 0 empty */
  uint32_t mask;       /* size - 1 */
} sn_tx_names;

/* Growing stack of pointers: operands, called computations. Users remember where they began and cut back to there. */
typedef struct sn_tx_stack {
  void **v;
  uint32_t n, cap;
} sn_tx_stack;

typedef struct sn_tx {
  sn_diag *d;
  const char *file;        /* in the module's arena */
  char *text;              /* own copy, NUL-terminated: no NUL occurs before the end */
  const char *at, *end;
  sn_arena *scratch;       /* of the top-level instruction under way */
  sn_arena *outer;         /* of the top-level computation under way */
  sn_arena *keep;          /* what goes into the module; the caller's arena for small pieces */
  sn_module *m;
  sn_computation *c;       /* under way */
  uint32_t scope, n_scopes;
  int depth;               /* of nesting */
  int64_t n_ids;           /* of devices, expanded so far */
  int64_t n_gaps;          /* parameter numbers skipped so far */
  bool bare;               /* instructions without a computation: unknown operands with a shape become parameters */
  sn_status status;        /* of the first fault */
  uint32_t n_faults;
  sn_tx_names names;
  sn_tx_stack stack;
  const char *loc_at, *loc_line_begin; /* the last place asked for */
  uint32_t loc_line;
} sn_tx;

/* ---- lexer.c: the cursor ----------------------------------------------------------------------------------------- */

enum { SN_TX_SPACE = 1, SN_TX_IDENT_START = 2, SN_TX_IDENT = 4, SN_TX_DIGIT = 8 };
extern const uint8_t sn_tx_class[256];
static inline bool sn_tx_is(char c, int classes) { return (sn_tx_class[(unsigned char)c] & classes) != 0; }

/* Takes a copy of the text; refuses NUL bytes and invalid UTF-8. */
sn_status sn_tx_begin(sn_tx *p, sn_diag *d, const char *file, const char *text, size_t n_bytes);
void sn_tx_end(sn_tx *p);

void sn_tx_skip_slow(sn_tx *p);
/* Blanks, line ends, comments. */
static inline void sn_tx_skip(sn_tx *p) {
  if (*p->at == ' ') p->at++;
  if (SN_UNLIKELY(sn_tx_is(*p->at, SN_TX_SPACE) || *p->at == '/')) sn_tx_skip_slow(p);
}
/* After blanks: is the next character c? If so takes it. */
static inline bool sn_tx_accept(sn_tx *p, char c) {
  sn_tx_skip(p);
  if (*p->at != c) return false;
  p->at++;
  return true;
}
static inline char sn_tx_peek(sn_tx *p) {
  sn_tx_skip(p);
  return *p->at;
}
bool sn_tx_accept_text(sn_tx *p, const char *text); /* punctuation of several characters: `<=`, `->` */
bool sn_tx_accept_word(sn_tx *p, const char *word); /* a whole identifier */
static inline bool sn_tx_span_is(sn_span s, const char *word) {
  size_t i = 0;
  while (i < s.n && word[i] == s.s[i]) i++; /* no NUL in the text: stops at the word's end */
  return i == s.n && word[i] == '\0';
}

/* Faults. All return the status to hand up; the location is that of `at`. */
sn_loc sn_tx_loc(sn_tx *p, const char *at);
sn_status sn_tx_fail(sn_tx *p, const char *at, sn_status status, const char *fmt, ...) SN_PRINTF(4, 5);
sn_status sn_tx_expected(sn_tx *p, const char *what); /* "expected WHAT, found …" at the cursor */
sn_status sn_tx_need(sn_tx *p, char c, const char *where); /* takes c or complains */
sn_status sn_tx_too_deep(sn_tx *p, const char *at); /* p->depth has reached SN_TX_MAX_NEST */
sn_status sn_tx_memory(sn_tx *p);
/* "did you mean" among n words. */
void sn_tx_hint_nearest(sn_tx *p, sn_span word, const char *const *words, size_t n);
const char *sn_tx_cstring(sn_tx *p, sn_span s); /* NUL-terminated in scratch; "" when memory lacks */

/* Tokens; each skips blanks first. */
sn_status sn_tx_ident(sn_tx *p, const char *what, sn_span *out);
bool sn_tx_try_ident(sn_tx *p, sn_span *out);
sn_status sn_tx_name_token(sn_tx *p, const char *what, sn_span *out); /* with or without % */
sn_status sn_tx_int(sn_tx *p, const char *what, int64_t *out);
sn_status sn_tx_int_in(sn_tx *p, const char *what, int64_t lo, int64_t hi, int64_t *out);
sn_status sn_tx_bool(sn_tx *p, bool *out);
sn_status sn_tx_float(sn_tx *p, const char *what, double *out); /* inf, nan, decimal */
/* "…" or '…' with C escapes; the content in `a`. */
sn_status sn_tx_string(sn_tx *p, sn_arena *a, const char **out, size_t *n);
/* Balanced brackets with strings in mind, or a run up to a comma, blank or closing bracket. */
sn_status sn_tx_raw(sn_tx *p, sn_span *out);
/* `open INT sep INT … close`; in p->keep. */
sn_status sn_tx_ints(sn_tx *p, char open, char close, sn_ints *out);
/* Ints joined by 'x', no blanks: 3x3. */
sn_status sn_tx_ints_by_x(sn_tx *p, const char *what, int64_t *v, int max, int *n);

/* ---- names.c -------------------------------------------------------------------------------------------------------- */

sn_tx_name *sn_tx_find(const sn_tx *p, uint32_t scope, sn_span name);
sn_status sn_tx_define(sn_tx *p, uint32_t scope, sn_span name, void *value); /* the name must be new */
void sn_tx_hint_name(sn_tx *p, uint32_t scope, sn_span name);
sn_status sn_tx_stack_init(sn_tx *p);
sn_status sn_tx_push(sn_tx *p, void *v);

/* ---- parse_*.c ------------------------------------------------------------------------------------------------------ */

sn_status sn_tx_shape(sn_tx *p, const sn_shape **out);   /* in p->keep */
bool sn_tx_at_shape(sn_tx *p);                           /* does a shape begin here? */
/* The literal behind a shape; *out NULL for `{...}`. */
bool sn_tx_has_payload(sn_type t); /* NaN with a payload in the mantissa */
sn_status sn_tx_literal(sn_tx *p, const sn_shape *shape, sn_array **out);
sn_status sn_tx_sharding(sn_tx *p, const sn_sharding **out); /* in p->keep */
/* The iota form `[reshape]T(transpose)` behind `<=`: n ids in order, in p->keep. */
sn_status sn_tx_iota(sn_tx *p, int64_t n, sn_ints *reshape, sn_ints *transpose, int64_t **ids);
sn_status sn_tx_groups(sn_tx *p, sn_groups *out); /* in p->keep */
sn_status sn_tx_window(sn_tx *p, const sn_window **out); /* in p->keep */
sn_status sn_tx_aliases(sn_tx *p, bool io, int64_t *n, const sn_alias **out);
/* The value of an attribute; called computations go onto the stack. */
sn_status sn_tx_attr_value(sn_tx *p, sn_attr_id id, sn_attr *out);
sn_status sn_tx_computation_ref(sn_tx *p, sn_computation **out);
/* `{k="v", k={raw}}`; in p->keep. */
sn_status sn_tx_pairs(sn_tx *p, int64_t *n, const sn_pair **out);
sn_status sn_tx_metadata(sn_tx *p, const sn_metadata **out);
sn_status sn_tx_debug_tables(sn_tx *p);
sn_status sn_tx_computation(sn_tx *p); /* with its header */
sn_status sn_tx_bare(sn_tx *p);        /* instructions up to the end of the text */
/* Into p->c. *name: what the instruction would be called, for recovery; empty when that name has a meaning already. */
sn_status sn_tx_instr(sn_tx *p, sn_span *name, sn_instr **out, bool *is_root);

/* What stands behind an instruction's operands, gathered before it is made. */
typedef struct sn_tx_notes {
  const sn_sharding *sharding;
  const sn_metadata *metadata;
  int64_t n_frontend;
  const sn_pair *frontend;
  const char *backend_config;
  bool backend_config_quoted;
  int64_t n_extras;
  sn_pair extras[4]; /* key NULL behind the last */
  uint32_t control_from, control_to; /* on the stack */
  bool has_control;
} sn_tx_notes;

enum { SN_TX_MAX_ATTRS = 24, SN_TX_CALLED_SLOTS = 3 };

/* Attributes of one instruction while they are read. Zero-initialise. */
typedef struct sn_tx_attrs {
  bool async;          /* of `<op>-start`: async_execution_thread is known too */
  const char *thread;
  uint32_t n;
  uint64_t seen, seen_notes; /* bits by position in the op's row, and in the table of notes */
  void *called_slots[SN_TX_CALLED_SLOTS]; /* attributes that name one computation, in the order of the row */
  void **called_list;                     /* one that names several; in scratch */
  uint32_t n_called_list;
  uint32_t called_from, n_called; /* all of them, on the stack at the end */
  sn_tx_notes notes;
  sn_attr v[SN_TX_MAX_ATTRS];
} sn_tx_attrs;
/* `, name=value` … when there may be any; then what must be there is. */
sn_status sn_tx_attributes(sn_tx *p, sn_opcode op, sn_tx_attrs *a, bool any, const char *op_at);

/* ---- print_*.c -------------------------------------------------------------------------------------------------------- */

typedef struct sn_tx_printer {
  sn_str *to;
  sn_print_options o;
} sn_tx_printer;

void sn_tx_print_shape(sn_str *to, const sn_shape *s, bool layout, bool default_layouts, bool comments);
void sn_tx_print_attr(sn_tx_printer *w, const sn_attr *a); /* `, name=value` */
void sn_tx_print_index(sn_str *to, uint32_t i); /* the index=N comment */
void sn_tx_print_sharding(sn_str *to, const sn_sharding *s, bool comments);
void sn_tx_print_instr(sn_tx_printer *w, const sn_instr *i);
void sn_tx_print_ints(sn_str *to, sn_ints v, const char *open, const char *separator, const char *close);
void sn_tx_print_aliases(sn_str *to, int64_t n, const sn_alias *v, bool io);
void sn_tx_print_pairs(sn_str *to, int64_t n, const sn_pair *v);
void sn_tx_print_metadata(sn_str *to, const sn_metadata *md);
void sn_tx_print_float(sn_str *to, sn_type t, const void *value); /* real float types, NaN payload included */
void sn_tx_print_f64(sn_str *to, double v);                       /* attributes: 6 digits, more where they are needed */
void sn_tx_print_literal(sn_str *to, const sn_array *a);
void sn_tx_print_debug_tables(sn_str *to, const sn_debug_tables *t);
void sn_tx_print_quoted(sn_str *to, const char *s);
/* Is i an async-start whose computation is one op, printed as `<op>-start`? Gives that op; for update and done, the op of their start. */
const sn_instr *sn_tx_sugar(const sn_instr *i);

#endif
