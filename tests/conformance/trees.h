/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Do two readers give one tree? Attributes are compared by what they mean: a list of integers is one in each of its forms. */
#ifndef SINTER_CONFORMANCE_TREES_H
#define SINTER_CONFORMANCE_TREES_H

#include "mlir.h"
#include "sinter/ir.h"

/* True: `got` says all that `want` says; attributes that only `got` has are defaults written out. Else *difference: where and what, to be finished by the
 * caller. */
bool trees_agree(const sn_mlir *want, const sn_mlir *got, sn_str *difference);

/* Do the entries compute the same graph from their parameters? Order, names and equal instructions written twice do not count. Else *difference: the first
 * instruction of `want` without its like. */
bool graphs_agree(const sn_module *want, const sn_module *got, sn_str *difference);

#endif
