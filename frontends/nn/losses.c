/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "nn_internal.h"

/* -sum(targets * log softmax(logits)) over the classes: one number a row. */
static sn_tensor soft_rows(sn_tensor logits, sn_tensor targets) {
  sn_tensor p = sn_mul(targets, sn_log_softmax(logits, -1));
  return sn_neg(sn_sum(p, SN_DIMS(-1), false));
}

/* One-hot, softened: (1 - s) at the label and s / classes everywhere. */
static sn_tensor targets_of(sn_tensor logits, sn_tensor labels, double smoothing) {
  int64_t classes = sn_tensor_dim(logits, -1);
  sn_tensor hot = sn_one_hot(labels, classes, sn_tensor_type(logits));
  if (smoothing == 0) return hot;
  return sn_add_c(sn_mul_c(hot, 1 - smoothing), smoothing / (double)(classes ? classes : 1));
}

sn_tensor sn_cross_entropy_at(sn_loc at, sn_tensor logits, sn_tensor labels, double smoothing) {
  if (!sn_tensor_ok(logits)) return logits;
  sn_graph_pin(logits.graph, at);
  sn_tensor loss = sn_mean(soft_rows(logits, targets_of(logits, labels, smoothing)), SN_ALL, false);
  sn_graph_unpin(logits.graph);
  return loss;
}

sn_tensor sn_soft_cross_entropy_at(sn_loc at, sn_tensor logits, sn_tensor targets) {
  if (!sn_tensor_ok(logits)) return logits;
  sn_graph_pin(logits.graph, at);
  sn_tensor loss = sn_mean(soft_rows(logits, targets), SN_ALL, false);
  sn_graph_unpin(logits.graph);
  return loss;
}

sn_tensor sn_cross_entropy_rows_at(sn_loc at, sn_tensor logits, sn_tensor labels, double smoothing) {
  if (!sn_tensor_ok(logits)) return logits;
  sn_graph_pin(logits.graph, at);
  sn_tensor rows = soft_rows(logits, targets_of(logits, labels, smoothing));
  sn_tensor counts = sn_ge(labels, sn_zeros_like(labels));
  rows = sn_select(counts, rows, sn_zeros_like(rows));
  sn_graph_unpin(logits.graph);
  return rows;
}

sn_tensor sn_mse_at(sn_loc at, sn_tensor x, sn_tensor y) {
  if (!sn_tensor_ok(x)) return x;
  sn_graph_pin(x.graph, at);
  sn_tensor loss = sn_mean(sn_square(sn_sub(x, y)), SN_ALL, false);
  sn_graph_unpin(x.graph);
  return loss;
}

sn_tensor sn_bce_at(sn_loc at, sn_tensor logits, sn_tensor targets) {
  if (!sn_tensor_ok(logits)) return logits;
  sn_graph_pin(logits.graph, at);
  sn_tensor loss = sn_add(sn_sub(sn_maximum_c(logits, 0), sn_mul(logits, targets)), sn_log1p(sn_exp(sn_neg(sn_abs(logits)))));
  loss = sn_mean(loss, SN_ALL, false);
  sn_graph_unpin(logits.graph);
  return loss;
}
