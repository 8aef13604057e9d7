/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a model file offers to model.c: one row there. */
#ifndef SINTER_MODEL_INTERNAL_H
#define SINTER_MODEL_INTERNAL_H

#include "sinter/json.h"
#include "sinter/models.h"

typedef struct sn_model_kind {
  const char *type; /* model_type */
  /* Reads the fields of m->json into m->config (made in m->arena), sets m->spec and m->info. Options have been laid over m->info already where given. */
  sn_status (*read)(sn_diag *d, sn_model *m, const sn_model_options *o);
} sn_model_kind;

extern const sn_model_kind sn_model_vit, sn_model_mlp, sn_model_linear, sn_model_convnet, sn_model_bert, sn_model_gpt;

struct sn_model {
  const sn_model_kind *kind;
  sn_arena *arena;
  sn_json json;
  void *config;
  sn_model_info info;
  sn_model_spec spec;
  int64_t input_dims[4];
};

/* One field of a config.json and where it goes. */
typedef enum sn_field_kind { SN_FIELD_INT, SN_FIELD_NUMBER, SN_FIELD_BOOL, SN_FIELD_TEXT } sn_field_kind;
typedef struct sn_field {
  const char *key; /* NULL ends the table */
  sn_field_kind kind;
  size_t offset;
  double least, most; /* INT, NUMBER */
} sn_field;
/* Reads the fields of the table into `config`. Keys that are neither in it nor in `neutral` (NULL-ended; may be NULL) nor among those that never change
 * the maths of a forward pass are refused by name: all of them, in one go. */
SN_NODISCARD sn_status sn_model_read_fields(sn_model *m, const sn_field *table, const char *const *neutral, void *config);
/* m->info.n_labels and label_names from options, else num_labels and id2label. */
SN_NODISCARD sn_status sn_model_read_labels(sn_model *m, const sn_model_options *o);
/* An image model's input: channels, height and width of m->info in its layout. */
void sn_model_image_input(sn_model *m);
/* A token model's input: `length` ids (0: as many as there are positions). */
SN_NODISCARD sn_status sn_model_token_input(sn_model *m, int64_t length, int64_t positions);
/* Finds hidden_act and the like; refuses unknown ones with the list of those known. */
SN_NODISCARD sn_status sn_model_activation(const sn_model *m, const char *key, const char *name, sn_activation *out);

#endif
