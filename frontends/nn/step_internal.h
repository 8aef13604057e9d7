/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the builders of training, evaluation and prediction steps share. */
#ifndef SINTER_NN_STEP_INTERNAL_H
#define SINTER_NN_STEP_INTERNAL_H

#include "nn_internal.h"

/* A step under construction. Failures of the graph stick in it; others are in `status`. */
typedef struct sn_step_builder {
  sn_diag *d;
  const sn_model_spec *m;
  sn_params *tree, *state;
  const sn_step_options *o;
  sn_graph *g;
  sn_arena *arena;
  size_t n_params, n_state, n_train;
  sn_tensor *params, *states;    /* as they come in */
  size_t *train;                 /* indices of the trainable ones */
  sn_tensor input, labels;
} sn_step_builder;

/* Makes graph, parameters (all of the tree), state (when b->state is set), the input and, if asked, the labels. */
SN_NODISCARD sn_status sn_step_begin(sn_step_builder *b, const char *suffix, bool labels);
/* Finishes the graph into out (unless s is a failure already) and frees the builder's own things. */
SN_NODISCARD sn_status sn_step_end(sn_step_builder *b, sn_status s, int n_inputs, int n_metrics, sn_step *out);

/* Runs the model: f32 logits. updated: NULL or room for the new values of all parameters (buffers that moved, the others as they are). */
SN_NODISCARD sn_status sn_step_logits(sn_step_builder *b, const sn_tensor *values, sn_tensor x, bool train, sn_tensor key, sn_tensor *logits, sn_tensor *updated);
/* Mean loss of a batch, and how many predictions are right (s32). */
void sn_step_loss(const sn_step_builder *b, sn_tensor logits, sn_tensor labels, sn_tensor *loss, sn_tensor *correct);

#endif
