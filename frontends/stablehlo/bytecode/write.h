/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the bytecode writer share: the tables that fill while the IR is written, each entry once. */
#ifndef SINTER_STABLEHLO_BYTECODE_WRITE_H
#define SINTER_STABLEHLO_BYTECODE_WRITE_H

#include "bytecode.h"

/* Blobs in order of their numbers, each once. */
typedef struct sn_bw_pool {
  sn_map *index; /* bytes, a prefix byte for the dialect in front -> number + 1 */
  const char **bytes;
  uint32_t *sizes;
  uint8_t *dialects;
  uint32_t n, cap;
} sn_bw_pool;

enum { SN_BW_BUILTIN, SN_BW_VHLO };

typedef struct sn_bw {
  sn_diag *d;
  const sn_mlir *m;
  int version;
  sn_arena *arena;
  sn_bw_pool strings, attrs, types, props, ops; /* ops: full names */
  uint64_t *ids; /* of values, by id in the tree */
  sn_status status; /* sticky: what went wrong first */
} sn_bw;

/* ---- write.c: bytes and tables ---- */

void sn_bw_uint(sn_str *to, uint64_t v);
void sn_bw_int(sn_str *to, int64_t v); /* zigzag */
/* Bits of an integer or float of that width. */
void sn_bw_bits(sn_str *to, int width, uint64_t v);
void sn_bw_section(sn_str *to, int id, const sn_str *data);
/* The number of the entry; takes over and empties `bytes`. */
uint64_t sn_bw_entry(sn_bw *w, sn_bw_pool *pool, int dialect, sn_str *bytes);
uint64_t sn_bw_string(sn_bw *w, const char *s, size_t n);
uint64_t sn_bw_type(sn_bw *w, const sn_mlir_type *t);
uint64_t sn_bw_attr(sn_bw *w, const char *name, const sn_mlir_attr *a); /* name: of the attribute, as some are encoded by it */
uint64_t sn_bw_builtin_string(sn_bw *w, const char *s);
uint64_t sn_bw_builtin_attr(sn_bw *w, const sn_mlir_attr *a);
uint64_t sn_bw_unknown_loc(sn_bw *w);
uint64_t sn_bw_none(sn_bw *w); /* Type(None) */
void sn_bw_fail(sn_bw *w, sn_loc loc, const char *fmt, ...) SN_PRINTF(3, 4);

/* ---- write_ir.c ---- */

void sn_bw_ir(sn_bw *w, sn_str *to);

#endif
