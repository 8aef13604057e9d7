/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Dot, NumPy's matmul, and attention. */
#include <math.h>

#include "graph_internal.h"

sn_tensor sn_dot_at(sn_loc at, sn_tensor x, sn_tensor y, const sn_dot_dims *dims) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b), *j = i ? sn_graph_use(x.graph, at, y) : NULL;
  return sn_graph_tensor(x.graph, j ? sn_build_dot(b, i, j, dims, SN_TYPE_INVALID) : NULL);
}

/* Matrices without batch axes on the right: one plain product over the last axis of x. */
static sn_tensor matmul_plain(sn_loc at, sn_tensor x, sn_tensor y) {
  int64_t lhs = sn_tensor_rank(x) - 1, rhs = sn_tensor_rank(y) == 1 ? 0 : sn_tensor_rank(y) - 2;
  return sn_dot_at(at, x, y, &(sn_dot_dims){.n_contracting = 1, .lhs_contracting = &lhs, .rhs_contracting = &rhs});
}

/* Common leading axes of two stacks of matrices; both come back with them in full. */
static bool common_batch(sn_loc at, sn_tensor *x, sn_tensor *y, int *n_batch) {
  int rx = sn_tensor_rank(*x) - 2, ry = sn_tensor_rank(*y) - 2, r = rx > ry ? rx : ry;
  int64_t dx[SN_MAX_RANK], dy[SN_MAX_RANK];
  for (int k = 0; k < r; k++) {
    int64_t p = k - (r - rx) >= 0 ? sn_tensor_dim(*x, k - (r - rx)) : 1,
            q = k - (r - ry) >= 0 ? sn_tensor_dim(*y, k - (r - ry)) : 1;
    if (p != q && p != 1 && q != 1) return false;
    dx[k] = dy[k] = p == 1 ? q : p;
  }
  for (int k = 0; k < 2; k++) dx[r + k] = sn_tensor_dim(*x, rx + k), dy[r + k] = sn_tensor_dim(*y, ry + k);
  *x = sn_broadcast_to_at(at, *x, r + 2, dx);
  *y = sn_broadcast_to_at(at, *y, r + 2, dy);
  *n_batch = r;
  return true;
}

sn_tensor sn_matmul_at(sn_loc at, sn_tensor x, sn_tensor y) {
  sn_graph *g = x.graph ? x.graph : y.graph;
  if (!x.instr || !y.instr) return sn_graph_empty(g);
  int rx = sn_tensor_rank(x), ry = sn_tensor_rank(y);
  bool fits = rx && ry && sn_tensor_dim(x, -1) == sn_tensor_dim(y, ry == 1 ? 0 : -2);
  if (fits && ry <= 2) return matmul_plain(at, x, y);
  bool vector = rx == 1;
  if (fits && vector) x = sn_expand_dims_at(at, x, 0);
  int n = 0;
  if (!fits || !common_batch(at, &x, &y, &n)) {
    sn_graph_fail(g, at, SN_ERR_SHAPE, "matmul: %s by %s", sn_tensor_text(x), sn_tensor_text(y));
    sn_graph_hint(g,
                  "the last axis of the first must equal the last but one of the second, leading axes must broadcast");
    return sn_graph_empty(g);
  }
  int64_t batch[SN_MAX_RANK], lhs = n + 1, rhs = n;
  for (int k = 0; k < n; k++) batch[k] = k;
  sn_tensor r = sn_dot_at(at, x, y,
                          &(sn_dot_dims){.n_batch = n,
                                         .lhs_batch = batch,
                                         .rhs_batch = batch,
                                         .n_contracting = 1,
                                         .lhs_contracting = &lhs,
                                         .rhs_contracting = &rhs});
  return vector ? sn_squeeze_at(at, r, -2) : r;
}

/* k or v with fewer heads than q: each head serves a run of q's heads. */
static sn_tensor repeat_heads(sn_loc at, sn_tensor x, int64_t heads) {
  int64_t have = sn_tensor_dim(x, 2);
  if (!x.instr || have == heads || have <= 0 || heads % have) return x;
  int64_t wide[5] = {sn_tensor_dim(x, 0), sn_tensor_dim(x, 1), have, heads / have, sn_tensor_dim(x, 3)};
  int64_t axes[4] = {0, 1, 2, 4}, dims[4] = {wide[0], wide[1], heads, wide[4]};
  return sn_reshape_at(at, sn_broadcast_in_dim_at(at, x, 5, wide, 4, axes), 4, dims);
}

static sn_tensor causal_mask(sn_loc at, sn_graph *g, int64_t nq, int64_t nk) {
  int64_t dims[2] = {nq, nk};
  sn_tensor row = sn_iota_at(at, g, SN_TYPE_S32, 2, dims, 0), col = sn_iota_at(at, g, SN_TYPE_S32, 2, dims, 1);
  if (nk != nq) row = sn_binary_c_at(at, SN_OP_ADD, row, (double)(nk - nq)); /* the last query sees the last key */
  return sn_compare_at(at, SN_DIRECTION_GE, row, col);
}

sn_tensor sn_attention_at(sn_loc at, sn_tensor q, sn_tensor k, sn_tensor v, const sn_attention_options *o) {
  static const sn_attention_options defaults = {0};
  sn_graph *g = q.graph;
  if (!o) o = &defaults;
  if (!q.instr || !k.instr || !v.instr) return sn_graph_empty(g);
  if (sn_tensor_rank(q) != 4 || sn_tensor_rank(k) != 4 || sn_tensor_rank(v) != 4) {
    sn_graph_fail(g, at, SN_ERR_SHAPE, "attention: q %s, k %s, v %s", sn_tensor_text(q), sn_tensor_text(k),
                  sn_tensor_text(v));
    sn_graph_hint(g, "each is [batch, length, heads, head_dim]");
    return sn_graph_empty(g);
  }
  int64_t heads = sn_tensor_dim(q, 2);
  k = repeat_heads(at, k, heads);
  v = repeat_heads(at, v, heads);
  double scale = o->scale != 0 ? o->scale : 1.0 / sqrt((double)sn_tensor_dim(q, 3));
  sn_tensor s = sn_einsum_at(at, "bqhd,bkhd->bhqk", 2, (sn_tensor[]){q, k});
  s = sn_binary_c_at(at, SN_OP_MULTIPLY, s, scale);
  if (o->bias.instr) s = sn_binary_at(at, SN_OP_ADD, s, o->bias);
  sn_tensor none = sn_scalar_like_at(at, s, -INFINITY);
  if (o->causal) s = sn_select_at(at, causal_mask(at, g, sn_tensor_dim(q, 1), sn_tensor_dim(k, 1)), s, none);
  if (o->mask.instr) s = sn_select_at(at, o->mask, s, none);
  sn_tensor p = sn_softmax_at(at, s, -1);
  if (o->dropout > 0) p = sn_dropout_at(at, p, o->dropout_key, o->dropout);
  return sn_einsum_at(at, "bhqk,bkhd->bqhd", 2, (sn_tensor[]){p, v});
}
