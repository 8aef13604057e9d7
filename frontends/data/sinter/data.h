/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sets of labelled images or of token ids and the loader that makes batches of them, ahead of time, in an order that seed and epoch decide. */
#ifndef SINTER_DATA_H
#define SINTER_DATA_H

#include "sinter/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- from an image file to what the model eats ---------------------------------------------------------------- */

/* Resampling filters by Pillow's numbers, as preprocessor_config.json has them. */
typedef enum sn_resample { SN_RESAMPLE_NEAREST = 0, SN_RESAMPLE_BILINEAR = 2, SN_RESAMPLE_BICUBIC = 3 } sn_resample;

/* The fields of Hugging Face's preprocessor_config.json that change a pixel, in the order in which they act. */
typedef struct sn_image_transform {
  bool do_resize;
  int64_t resize_height, resize_width; /* both, or: */
  int64_t shortest_edge;               /* 0: not used. The longer edge keeps the proportion */
  sn_resample resample;                /* anti-aliased, in 8 bits, as Pillow does */
  bool do_center_crop;
  int64_t crop_height, crop_width;     /* pads with black where the image is smaller */
  bool do_rescale;
  double rescale_factor;               /* 1/255 */
  bool do_normalize;
  double mean[4], deviation[4];        /* a channel */
} sn_image_transform;

/* ViTImageProcessor's defaults for height x width: bilinear, 1/255, mean 0.5, deviation 0.5. */
void sn_image_transform_init(sn_image_transform *t, int64_t height, int64_t width);
/* Reads preprocessor_config.json over what t holds. Unknown image_processor_type, resample or size forms are refused by name, at file:line. */
SN_NODISCARD sn_status sn_image_transform_read(sn_diag *d, const char *path, sn_image_transform *t);
/* Writes it as Hugging Face does (ViTImageProcessor); channels: how many means to write. */
SN_NODISCARD sn_status sn_image_transform_write(sn_diag *d, const char *path, const sn_image_transform *t, int channels);

/* Eight bits a channel, channels interleaved. */
typedef struct sn_image {
  int64_t height, width, channels;
  uint8_t *data; /* sn_free */
} sn_image;
void sn_image_finish(sn_image *i);
/* JPEG or PNG, told by content, converted to 1 or 3 channels. SN_ERR_CORRUPT for a damaged or cut file, SN_ERR_UNSUPPORTED for another format. */
SN_NODISCARD sn_status sn_image_read(sn_diag *d, const char *path, int64_t channels, sn_image *out);
SN_NODISCARD sn_status sn_image_decode(sn_diag *d, const char *name, const void *bytes, size_t n_bytes, int64_t channels, sn_image *out);
SN_NODISCARD sn_status sn_image_resize(const sn_image *from, int64_t height, int64_t width, sn_resample r, sn_image *out);

typedef enum sn_image_layout { SN_IMAGE_NCHW, SN_IMAGE_NHWC } sn_image_layout;
/* All steps of t on one image; `out` has room for channels x height x width floats (what sn_image_transform_size says). */
SN_NODISCARD sn_status sn_image_apply(const sn_image_transform *t, const sn_image *from, sn_image_layout layout, float *out);
/* Size after the transform of an image of the given size. */
void sn_image_transform_size(const sn_image_transform *t, int64_t height, int64_t width, int64_t *out_height, int64_t *out_width);

/* ---- sets ------------------------------------------------------------------------------------------------------ */

typedef struct sn_dataset sn_dataset;

typedef struct sn_dataset_options {
  size_t struct_size;
  bool train;                /* the training part, else the test part */
  int64_t height, width;     /* what the model wants; 0: as the data have it (refused for `folder` and `synthetic`) */
  int64_t channels;          /* 0: as the data have it; 1 and 3 are converted into each other */
  int64_t n_classes;         /* of the model; 0: as the data have it. A label at or beyond it is an error naming the sample */
  const sn_image_transform *transform; /* NULL: sn_image_transform_init(height, width) */
  int64_t length;            /* tokens a sample, as the model wants them; 0: as the data have it (of `synthetic`: images) */
  int64_t vocabulary;        /* of the model; 0: any. A token at or beyond it is an error naming sample and position */
  bool token_labels;         /* a label a token: the model learns to write. Without labels in the data the tokens are their own */
  double val_fraction;       /* `folder` without val/, `tokens` without test file: this share, chosen by seed, is the test part. Default 0.1 */
  int64_t synthetic_samples; /* default 1024 */
  uint64_t seed;             /* split and synthetic images */
} sn_dataset_options;
void sn_dataset_options_init(sn_dataset_options *o);

/* spec: KIND:DIRECTORY.
 *   digits:DIR, idx:DIR   MNIST's IDX files, plain or gzipped: train-images-idx3-ubyte, train-labels-idx1-ubyte, test-… (or t10k-…)
 *   cifar10:DIR           data_batch_1.bin … data_batch_5.bin, test_batch.bin
 *   folder:DIR            DIR/train/CLASS/x.jpg, DIR/val/CLASS/x.png; classes in the order of their names
 *   tokens:DIR            train.safetensors (or .npz), test.safetensors: input_ids [n, length]; labels [n] classes, or [n, length], negative: not counted
 *   synthetic             normal noise, label = index mod n_classes; for models of tokens: uniform ones
 * Errors name the file and what was expected in it. */
SN_NODISCARD sn_status sn_dataset_open(sn_diag *d, const char *spec, const sn_dataset_options *o, sn_dataset **out);
void sn_dataset_close(sn_dataset *s);

typedef struct sn_dataset_info {
  int64_t n, channels, height, width; /* after the transform; no channels: tokens */
  int64_t length, vocabulary;         /* of token sets: tokens a sample, largest id + 1 */
  int64_t n_classes;                  /* 0: no class labels */
  const char *const *class_names; /* n_classes of them, or NULL */
} sn_dataset_info;
const sn_dataset_info *sn_dataset_get_info(const sn_dataset *s);

/* ---- batches --------------------------------------------------------------------------------------------------- */

typedef struct sn_loader sn_loader;

typedef struct sn_loader_options {
  size_t struct_size;
  int64_t batch;
  bool shuffle;   /* order of epoch e: sn_random_shuffle over the stream ("shuffle", e) of the seed */
  bool drop_last; /* drop a last batch that is not full; else it is filled up with label -1 */
  bool flip;      /* mirror images at random (half of them), by the stream ("flip", e) */
  uint64_t seed;
  sn_image_layout layout;
  sn_pool *pool;  /* its background threads decode; NULL: decoding happens in sn_loader_next. Must outlive the loader */
  int ahead;      /* batches decoded ahead, default 3 */
} sn_loader_options;
void sn_loader_options_init(sn_loader_options *o);

typedef struct sn_batch {
  sn_array *inputs; /* f32[batch, …] images or s32[batch, length] tokens; the caller releases both */
  sn_array *labels; /* s32[batch], or s32[batch, length] with token_labels; -1: no sample, not counted */
  int64_t n;        /* real samples; 0: the epoch is over, arrays NULL */
} sn_batch;

SN_NODISCARD sn_status sn_loader_create(sn_diag *d, sn_dataset *s, const sn_loader_options *o, sn_loader **out);
void sn_loader_destroy(sn_loader *l);
int64_t sn_loader_batches(const sn_loader *l); /* an epoch */
/* The next batch to be given is number `batch` of epoch `epoch`, whatever was asked before. */
SN_NODISCARD sn_status sn_loader_seek(sn_loader *l, int64_t epoch, int64_t batch);
/* A sample whose file is damaged is named once in a warning on d and counted; with `drop_last` (training) the next one in the order takes its place,
 * else its label is -1. More than half a batch's worth of tries in a row, or no good sample at all, is an error. */
SN_NODISCARD sn_status sn_loader_next(sn_diag *d, sn_loader *l, sn_batch *out);
int64_t sn_loader_skipped(const sn_loader *l); /* damaged samples met so far */

#ifdef __cplusplus
}
#endif
#endif
