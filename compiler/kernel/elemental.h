/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the element emitters share among themselves. */
#ifndef SINTER_ELEMENTAL_H
#define SINTER_ELEMENTAL_H

#include "lower.h"

sn_kvalue *lower_constant(lowering *L, const sn_instr *i); /* of one element */
sn_kvalue *lower_elementwise(lowering *L, const sn_instr *i, sn_kvalue *const *xs);

bool lower_index_map(lowering *L, const sn_instr *i, int output, sn_index_map *map); /* false: failed, sticky */
const sn_access *lower_access(lowering *L, const sn_instr *i, const sn_index_map *map, uint32_t operand);
/* The access at result index idx and symbols syms (NULL: none); loaded indices are computed and bound. */
bool lower_at(lowering *L, const sn_instr *i, const sn_index_map *map, const sn_access *a, const sn_ix *const *idx, const sn_ix *const *syms, const sn_ix **at);
/* Pushes the access's guards that are not always true; returns the count before, to be put back into L->n_guards. */
int lower_push_guards(lowering *L, const sn_instr *i, const sn_index_map *map, const sn_access *a, const sn_ix *const *idx, const sn_ix *const *syms);
const sn_ix *lower_start(lowering *L, const sn_instr *start, int64_t full, int64_t size);

sn_kvalue *lower_identity(lowering *L, sn_opcode op, sn_type t); /* of an associative op */

/* Single operations on values; NULL in gives NULL out. lower_convert gives x itself when it has that type. */
sn_kvalue *lower_convert(lowering *L, sn_kvalue *x, sn_type t);
sn_kvalue *lower_unary(lowering *L, sn_opcode op, sn_type t, sn_kvalue *x);
sn_kvalue *lower_binary(lowering *L, sn_opcode op, sn_kvalue *x, sn_kvalue *y);
sn_kvalue *lower_select(lowering *L, sn_kvalue *p, sn_kvalue *t, sn_kvalue *f);

sn_kvalue *lower_emit_reduce(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx);
/* A reduction whose parts lie in a workspace or tile: NULL where it has none. */
const struct lower_partial *lower_find_partial(const lowering *L, const sn_instr *i);
sn_kvalue *lower_emit_partials(lowering *L, const struct lower_partial *p, const sn_ix *const *idx);
sn_kvalue *lower_emit_reduce_window(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx);
sn_kvalue *lower_emit_dot(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx);
sn_kvalue *lower_emit_convolution(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx);

#endif
