/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the bytecode reader share. Not included outside this folder.
 *
 *   magic, version, producer, sections ──container.c──> strings, dialects, op names, entries (attributes, types), properties
 *   entry  ──value.c──> builtin.c, vhlo.c, sdy.c ──> sn_mlir_attr, sn_mlir_type   read at first use, then shared
 *   IR     ──ir.c──> blocks and ops, with names and properties by vhlo.def (rows.c)
 *
 * Every count is checked against the bytes that are left before anything is allocated for it: an item takes at least one byte. */
#ifndef SINTER_STABLEHLO_BYTECODE_H
#define SINTER_STABLEHLO_BYTECODE_H

#include "../mlir.h"

enum { SN_BC_MAX_VERSION = 6, SN_BC_SECTIONS = 9 };

/* Bytes of the file, and the section they stand in, for messages. */
typedef struct sn_bc_cursor {
  const uint8_t *at, *end;
  const char *section;
} sn_bc_cursor;

typedef struct sn_bc_string {
  const char *s; /* in the tree's arena, NUL behind it */
  size_t n;
} sn_bc_string;

typedef enum sn_bc_dialect { SN_BC_OTHER, SN_BC_BUILTIN, SN_BC_VHLO, SN_BC_SDY } sn_bc_dialect;

/* One op of one version: the attributes of its properties, in the order of the file. */
typedef struct sn_bc_row {
  const char *name;  /* as in the file: "vhlo.gather_v2" */
  const char *to;    /* in the tree; NULL: without dialect and version, in stablehlo */
  int since;         /* version of VHLO: 9 is 0.9, 1004 is 1.4 */
  const char *attrs; /* separated by blanks; `?`: optional, `@`: strings are symbols */
} sn_bc_row;

typedef struct sn_bc_op_name {
  const char *name;     /* in the tree */
  const sn_bc_row *row; /* NULL: an op without properties that we know of */
  const char *full;     /* as in the file */
  bool registered;
} sn_bc_op_name;

typedef enum sn_bc_state { SN_BC_UNREAD, SN_BC_READING, SN_BC_READ } sn_bc_state;

/* An attribute or a type. */
typedef struct sn_bc_entry {
  const uint8_t *at, *end;
  uint16_t dialect;
  uint8_t state; /* sn_bc_state */
  bool custom;   /* false: text */
  uint8_t depth; /* of what it is made of */
  uint32_t weight; /* of it and all it is made of, each counted as often as it is referred to */
  const void *value; /* sn_mlir_attr or sn_mlir_type */
  const sn_mlir_debug *debug; /* of a location, once asked for */
} sn_bc_entry;

typedef struct sn_bc_props {
  const uint8_t *at, *end;
} sn_bc_props;

typedef struct sn_bc {
  sn_diag *d;
  const char *file;
  const uint8_t *base;
  size_t n_bytes;
  sn_mlir *m;
  uint64_t version;
  const char *producer;
  sn_bc_cursor sections[SN_BC_SECTIONS];
  bool have[SN_BC_SECTIONS];
  sn_bc_string *strings;
  uint64_t n_strings;
  const char **dialects;
  sn_bc_dialect *dialect_kinds;
  uint64_t n_dialects;
  sn_bc_op_name *op_names;
  uint64_t n_op_names;
  sn_bc_entry *attrs, *types;
  uint64_t n_attrs, n_types;
  sn_bc_props *props;
  uint64_t n_props;
  sn_mlir_value **values; /* of all open scopes; NULL: not defined yet */
  uint64_t n_values, cap_values, floor;
  int depth; /* of regions */
  int nest;  /* of entries being read */
  uint32_t weight; /* of what the entry being read refers to */
  uint8_t deepest; /* of the same */
} sn_bc;

/* ---- container.c ---- */

sn_status sn_bc_fail(sn_bc *b, const sn_bc_cursor *c, sn_status s, const char *fmt, ...) SN_PRINTF(4, 5);
sn_status sn_bc_memory(sn_bc *b);
static inline size_t sn_bc_left(const sn_bc_cursor *c) { return (size_t)(c->end - c->at); }
sn_status sn_bc_byte(sn_bc *b, sn_bc_cursor *c, const char *what, uint8_t *out);
sn_status sn_bc_uint(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t *out);
sn_status sn_bc_int(sn_bc *b, sn_bc_cursor *c, const char *what, int64_t *out); /* zigzag */
/* A count of items of at least one byte each. */
sn_status sn_bc_count(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t *out);
/* An index below n. */
sn_status sn_bc_index(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t n, uint64_t *out);
sn_status sn_bc_bytes(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t n, const uint8_t **out);
sn_status sn_bc_string_ref(sn_bc *b, sn_bc_cursor *c, const char *what, sn_bc_string *out);
/* The header of a section; *out its data. */
sn_status sn_bc_section(sn_bc *b, sn_bc_cursor *c, uint8_t *id, sn_bc_cursor *out);
/* Everything but attributes, types and IR. */
sn_status sn_bc_container(sn_bc *b);

/* ---- rows.c ---- */

const sn_bc_row *sn_bc_row_find(const char *full);
/* Rows of one name stand one behind the other, newest first: more than one where the file does not say which it is. */
const sn_bc_row *sn_bc_row_next(const sn_bc_row *row);
/* The op of the tree in a version of VHLO; NULL: that has none. */
const sn_bc_row *sn_bc_row_for(const char *name, int version);
/* The name in the tree; SN_ERR_UNSUPPORTED with what is known. */
sn_status sn_bc_op_resolve(sn_bc *b, const sn_bc_cursor *c, sn_bc_op_name *op);

/* ---- value.c ---- */

/* References: an index, then the entry it stands for. */
sn_status sn_bc_attr(sn_bc *b, sn_bc_cursor *c, const char *what, const sn_mlir_attr **out);
sn_status sn_bc_attr_optional(sn_bc *b, sn_bc_cursor *c, const char *what, const sn_mlir_attr **out); /* NULL: absent */
sn_status sn_bc_type(sn_bc *b, sn_bc_cursor *c, const char *what, const sn_mlir_type **out);
sn_status sn_bc_type_at(sn_bc *b, const sn_bc_cursor *c, uint64_t k, const sn_mlir_type **out);
sn_status sn_bc_types(sn_bc *b, sn_bc_cursor *c, const char *what, uint32_t *n, const sn_mlir_type *const **out);
sn_status sn_bc_attrs(sn_bc *b, sn_bc_cursor *c, const char *what, int64_t *n, const sn_mlir_attr *const **out);
sn_status sn_bc_debug(sn_bc *b, uint64_t location, const sn_mlir_debug **out);
/* An integer of the type's bits; a float from them. */
sn_status sn_bc_apint(sn_bc *b, sn_bc_cursor *c, int bits, uint64_t *out);
/* Raw elements as a DENSE attribute. Truth values may be eight a byte. */
sn_status sn_bc_dense(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type *t, const sn_mlir_attr **out);
/* An integer of that type whose bits follow, or a float. */
sn_status sn_bc_number(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type *t, sn_mlir_attr_kind kind, const sn_mlir_attr **out);
sn_status sn_bc_shape(sn_bc *b, sn_bc_cursor *c, int64_t *dims, int *rank);

/* ---- builtin.c, vhlo.c: an entry behind its code ---- */

sn_status sn_bc_builtin_attr(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out);
sn_status sn_bc_builtin_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out);
sn_status sn_bc_array(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out);
sn_status sn_bc_dictionary(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out);
sn_status sn_bc_complex_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out);
sn_status sn_bc_function_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out);
sn_status sn_bc_list_type(sn_bc *b, sn_bc_cursor *c, sn_mlir_type_kind kind, const sn_mlir_type **out);
sn_status sn_bc_element_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out);
/* encoded: an attribute stands before the shape. */
sn_status sn_bc_tensor_type(sn_bc *b, sn_bc_cursor *c, sn_mlir_type_kind kind, bool encoded, const sn_mlir_type **out);
sn_status sn_bc_vhlo_attr(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out);
sn_status sn_bc_vhlo_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out);

/* Codes of VHLO, for the writer: of an element type (0 is i1; UINT64_MAX: VHLO has none), and of a word of a domain. */
uint64_t sn_bc_vhlo_scalar_code(sn_type t);
bool sn_bc_vhlo_word(const char *domain, const char *word, uint64_t *code, uint64_t *value);

/* ---- sdy.c ---- */

/* OPAQUE: `name` the kind ("sdy.sharding"), `s` what is between its brackets. */
sn_status sn_bc_sdy_attr(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out);
/* `#sdy.sharding<…>` of such a one, and back; any other attribute as it is. */
sn_status sn_bc_sdy_whole(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out);
sn_status sn_bc_sdy_bare(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out);

/* ---- props.c ---- */

/* All attributes of an op: of its properties (`props`, or NULL), then those of its dictionary (or NULL), in StableHLO's terms. */
sn_status sn_bc_op_attrs(sn_bc *b, const sn_bc_cursor *c, const sn_bc_op_name *name, const sn_bc_props *props, const sn_mlir_attr *dictionary, uint32_t *n,
                         const sn_mlir_named **out);

/* ---- ir.c ---- */

sn_status sn_bc_ir(sn_bc *b);

#endif
