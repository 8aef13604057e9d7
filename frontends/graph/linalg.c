/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "graph_internal.h"

sn_tensor sn_fft_at(sn_loc at, sn_tensor x, int64_t kind, int n, const int64_t *lengths) {
  sn_attr attrs[2] = {sn_attr_int(SN_ATTR_FFT_TYPE, kind), sn_attr_ints(SN_ATTR_FFT_LENGTH, n, lengths)};
  return sn_op_at(at, x.graph, SN_OP_FFT, NULL, 1, &x, 2, attrs);
}

/* HLO leaves the other triangle open; here it is zero. */
sn_tensor sn_cholesky_at(sn_loc at, sn_tensor x) {
  sn_attr lower = sn_attr_int(SN_ATTR_LOWER, 1);
  return sn_tril_at(at, sn_op_at(at, x.graph, SN_OP_CHOLESKY, NULL, 1, &x, 1, &lower), 0);
}

sn_tensor sn_triangular_solve_at(sn_loc at, sn_tensor a, sn_tensor b, bool left, bool lower, bool unit_diagonal,
                                 int64_t transpose) {
  sn_attr attrs[4] = {sn_attr_int(SN_ATTR_LEFT_SIDE, left), sn_attr_int(SN_ATTR_LOWER, lower),
                      sn_attr_int(SN_ATTR_UNIT_DIAGONAL, unit_diagonal), sn_attr_int(SN_ATTR_TRANSPOSE_A, transpose)};
  return sn_op_at(at, a.graph, SN_OP_TRIANGULAR_SOLVE, NULL, 2, (sn_tensor[]){a, b}, 4, attrs);
}
