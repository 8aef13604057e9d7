/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the kinds of data sets offer to dataset.c. */
#ifndef SINTER_DATA_INTERNAL_H
#define SINTER_DATA_INTERNAL_H

#include "sinter/data.h"
#include "sinter/files.h"

typedef struct sn_data_kind {
  const char *name, *expects; /* "digits", "what lies in DIR" for messages */
  bool sized;                 /* the model must say height and width: the images have none in common */
  /* Fills s->info (n, channels, height, width of the raw images, n_classes, class_names), s->labels and s->state. */
  sn_status (*open)(sn_diag *d, sn_dataset *s, const char *dir, const sn_dataset_options *o);
  /* Raw image i; called from several threads. Exactly one of the three. */
  sn_status (*read)(sn_diag *d, const sn_dataset *s, int64_t i, sn_image *out);
  void (*fill)(const sn_dataset *s, int64_t i, float *out); /* channels x height x width, ready for the model */
  void (*tokens)(const sn_dataset *s, int64_t i, int32_t *ids, int32_t *labels); /* length of each; labels NULL: not wanted */
  void (*close)(sn_dataset *s);
} sn_data_kind;

extern const sn_data_kind sn_data_digits, sn_data_idx, sn_data_cifar10, sn_data_folder, sn_data_tokens, sn_data_synthetic;

struct sn_dataset {
  const sn_data_kind *kind;
  sn_arena *arena;
  sn_dataset_info info;
  sn_image_transform transform;
  bool token_labels;
  int32_t *labels; /* info.n of them */
  void *state;
};

/* Which of n samples are the test part, for kinds without one of their own; false: out of memory. */
bool sn_dataset_split(const sn_dataset_options *o, size_t n, bool *is_test);
/* One channel from three or three from one; false: out of memory. */
bool sn_image_match_channels(sn_image *i, int64_t channels);
/* Sample i: its pixels after the transform, in the given layout. */
SN_NODISCARD sn_status sn_dataset_sample(sn_diag *d, const sn_dataset *s, int64_t i, sn_image_layout layout, float *pixels);
/* Where sample i comes from, for messages. */
const char *sn_dataset_sample_name(const sn_dataset *s, int64_t i, char *buffer, size_t size);

#endif
