/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Arguments for programs that come without, and running them. */
#ifndef SINTER_CONFORMANCE_VALUES_H
#define SINTER_CONFORMANCE_VALUES_H

#include "sinter/stablehlo.h"

/* One array a parameter of the entry, released by values_release: small numbers that differ from element to element. SN_ERR_UNSUPPORTED: a parameter is no
 * array. */
sn_status values_make(const sn_module *m, sn_array ***out);
void values_release(const sn_module *m, sn_array **args); /* NULL is fine */

/* By the interpreter. args NULL: values_make's. stepwise: sums are rounded at every step, as the recorded values of the public test data were. */
sn_status values_interpret(sn_diag *d, const sn_module *m, sn_array **args, bool stepwise, sn_array **out);

/* Equal but for rounding: floats differ by at most rel of the wanted value + abs; NaN is like NaN; integers are equal. */
bool values_close(const sn_array *want, const sn_array *got, double rel, double abs);

#endif
