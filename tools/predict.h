/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the parts of sinter-predict share. */
#ifndef TOOLS_PREDICT_H
#define TOOLS_PREDICT_H

#include "engine.h"
#include "sinter/checkpoint.h"
#include "sinter/data.h"
#include "sinter/models.h"

struct cJSON;

/* What is said is collected and printed at the end, so that --json gives one whole object or nothing. */
typedef struct predictor {
  const sn_tool *tool;
  const sn_options *o;
  sn_diag *d;
  sn_pool *pool;
  const sn_engine *engine;

  const char *dir;      /* --model */
  char *config;         /* DIR/config.json */
  sn_model *model;      /* of tokens: as long as it has positions */
  sn_params *tree;
  sn_bundle *weights;   /* in the order of tree */
  sn_image_transform transform;

  sn_str text;
  struct cJSON *json;   /* the object of --json, or NULL */
  struct cJSON *entries; /* its "predictions" */
} predictor;

/* sinter_predict.c: the folder's model for inputs of `length` tokens (0: all it has room for). */
SN_NODISCARD sn_status predict_model_create(predictor *p, int64_t length, sn_model **out);

/* ---- a classifier for batches of one size (predict_classify.c) ------------------------------------------------------- */

typedef struct classifier {
  sn_step step;
  sn_runnable run;
  sn_array **args; /* the weights (borrowed), and room for the input */
} classifier;
SN_NODISCARD sn_status classifier_init(predictor *p, const sn_model *m, int64_t batch, classifier *out);
/* *out: f32[batch, labels]. */
SN_NODISCARD sn_status classifier_call(predictor *p, const classifier *c, sn_array *input, sn_array **out);
void classifier_finish(classifier *c);

/* A new entry of "predictions"; NULL without --json, and when memory is short (told by predict_entry_done). */
struct cJSON *predict_entry(predictor *p);
SN_NODISCARD sn_status predict_entry_done(predictor *p, const struct cJSON *entry, bool ok);
/* The likeliest labels of one row of logits into entry["top"]; without --json as a line "NAME: label (probability), …", name NULL: no line. `what` names
 * the sample in messages. *best: the likeliest. */
SN_NODISCARD sn_status predict_top(predictor *p, struct cJSON *entry, const char *name, const char *what, const float *logits, int64_t *best);

/* ---- what there is to predict ------------------------------------------------------------------------------------------ */

/* predict_images.c. A damaged image is told and does not keep the others from being looked at; the status is the first failure's. */
SN_NODISCARD sn_status predict_images(predictor *p);
SN_NODISCARD sn_status predict_data(predictor *p);

/* predict_tokens.c: labels of a bert's prompts, tokens behind a gpt's. */
SN_NODISCARD sn_status predict_prompts(predictor *p);

#endif
