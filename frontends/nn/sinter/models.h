/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Models by name or by Hugging Face config.json. */
#ifndef SINTER_MODELS_H
#define SINTER_MODELS_H

#include "sinter/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_model sn_model;

typedef struct sn_model_options {
  size_t struct_size;
  int64_t n_labels;                /* replaces the configuration's; 0: as it says */
  int64_t default_labels;          /* where the configuration says nothing; 0: 2, as transformers has it */
  const char *const *label_names;  /* as many as there will be labels, or NULL: the configuration's, else LABEL_0, … */
  int64_t n_label_names;           /* used only when this is the number of labels */
  int64_t channels, height, width; /* of the images; 0: as the configuration says */
  sn_conv_layout layout;           /* how images come; SN_NHWC is the zero value */
  int64_t length;                  /* of bert's and gpt's inputs; 0: all positions of the model */
  bool mask_padding;               /* bert: do not attend to tokens equal to pad_token_id */
  int64_t lora_rank;               /* gpt: low-rank companions of attention's projection, named …lora_A.weight and …lora_B.weight; 0: none */
  double lora_alpha;               /* their scale is alpha / rank */
} sn_model_options;
/* layout is SN_NCHW, as Hugging Face's pixel_values are. */
void sn_model_options_init(sn_model_options *o);

/* name: a preset (sn_model_presets), or NULL; config: path of a config.json, or NULL. With both, the config's model_type must be the name's or the name a
 * model type. Every field that changes the maths is obeyed; what is not known is refused by name, at file:line. */
SN_NODISCARD sn_status sn_model_create(sn_diag *d, const char *name, const char *config, const sn_model_options *o, sn_model **out);
void sn_model_destroy(sn_model *m);
const char *sn_model_presets(void); /* "vit-b16, vit-tiny, …" for messages */
bool sn_model_is_preset(const char *name);

typedef struct sn_model_info {
  const char *type;   /* model_type: "vit" */
  int64_t n_labels;       /* 0: a language model */
  const char *const *label_names;
  int64_t channels, height, width; /* 0: not a model of images */
  int64_t vocabulary; /* token ids are below it; 0: not a model of tokens */
  sn_conv_layout layout;
  const char *const *head; /* names of the classifier's parameters begin with one of these; ends with NULL */
} sn_model_info;
const sn_model_info *sn_model_get_info(const sn_model *m);
const sn_model_spec *sn_model_get_spec(const sn_model *m);
/* Generation with a key-value cache, a gpt only: (parameters, keys, values, position s32, input_ids s32[batch, chunk]) -> (keys, values, position + chunk,
 * next s32[batch]: the likeliest token behind the chunk, its logits f32[batch, vocabulary]). keys and values are f32[layers, batch, positions, heads, head
 * size], at first of any content; caches and position are aliased. Chunks may be as long as a prompt, or 1. position + chunk must not pass `positions`. */
SN_NODISCARD sn_status sn_decode_step_build(sn_diag *d, const sn_model *m, sn_params *t, int64_t batch, int64_t chunk, int64_t positions, sn_module **out);
/* The weights with each low-rank companion added into the weight beside it and left out: what any reader of the model knows. */
SN_NODISCARD sn_status sn_model_merge_lora(sn_diag *d, const sn_model *m, const sn_bundle *weights, sn_bundle **out);
/* Writes config.json: the one that was read, with what the options changed. */
SN_NODISCARD sn_status sn_model_write_config(sn_diag *d, const sn_model *m, const char *path);

#ifdef __cplusplus
}
#endif
#endif
