/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of ir/ share. */
#ifndef SINTER_IR_INTERNAL_H
#define SINTER_IR_INTERNAL_H

#include "sinter/ir.h"

struct sn_module_private {
  sn_map *computations;  /* name -> sn_computation; NULL until somebody looks one up by name */
  uint64_t next_number;  /* above every ".N" suffix seen: a fresh one makes a name unique in the module */
  uint32_t n_kept, cap_kept;
  sn_array **kept;       /* literals, released with the module */
  uint32_t n_control;    /* control edges alive */
};

/* "prefix.N" with a fresh N, in the module's arena. */
const char *sn_module_fresh_name(sn_module *m, const char *prefix);
/* Keeps next_number above the suffix of a name that came from outside. */
void sn_module_note_name(sn_module *m, const char *name);

/* Deep copy of what the attribute points to; literals are kept by the module. False: out of memory. */
bool sn_attr_copy(sn_module *m, const sn_attr *from, sn_attr *to);
const sn_metadata *sn_metadata_copy(sn_arena *a, const sn_metadata *md);
const sn_sharding *sn_sharding_copy(sn_arena *a, const sn_sharding *s);
const sn_pair *sn_pairs_copy(sn_arena *a, int64_t n, const sn_pair *from);
const sn_pair *sn_extras_copy(sn_arena *a, const sn_pair *from);
sn_ints sn_ints_copy(sn_arena *a, sn_ints v, bool *ok);
const sn_alias *sn_aliases_copy(sn_arena *a, int64_t n, const sn_alias *from, bool *ok);
/* Is the value the table's default, so that it is not stored? */
bool sn_attr_is_default(const sn_attr *a);

/* Arity, attributes and number of called computations against the op's row; every fault is reported. */
sn_status sn_row_check(sn_diag *d, sn_loc loc, const char *name, sn_opcode op, uint32_t n_operands, uint32_t n_attrs, const sn_attr *attrs, uint32_t n_called);

void sn_use_link(sn_use *u, sn_instr *def);
void sn_use_unlink(sn_use *u);
void sn_instr_link(sn_instr *i, sn_computation *c, sn_instr *before);
void sn_computation_link(sn_computation *c, sn_computation *before);

#endif
