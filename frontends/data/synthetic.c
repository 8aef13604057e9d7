/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Noise of mean 0 and deviation 1 for images, or uniform tokens; index mod classes for labels: measures everything but the data. */
#include "data_internal.h"
#include "sinter/random.h"

static sn_status synthetic_open(sn_diag *d, sn_dataset *s, const char *dir, const sn_dataset_options *o) {
  (void)dir;
  int64_t n = o->synthetic_samples;
  s->info = (sn_dataset_info){.n = n, .length = o->length, .vocabulary = o->vocabulary, .n_classes = o->n_classes ? o->n_classes : 1000};
  if (!o->length) {
    s->info.channels = o->channels ? o->channels : 3;
    s->info.height = o->height;
    s->info.width = o->width;
  }
  s->labels = SN_NEW_N(s->arena, int32_t, n);
  uint64_t *seed = s->state = sn_alloc(sizeof *seed);
  if (!s->labels || !seed) return sn_out_of_memory(d, (size_t)n * 4);
  for (int64_t i = 0; i < n; i++) s->labels[i] = (int32_t)(i % s->info.n_classes);
  *seed = o->seed + (o->train ? 0 : 1);
  return SN_OK;
}

static void synthetic_fill(const sn_dataset *s, int64_t i, float *out) {
  sn_random r;
  sn_random_init(&r, *(const uint64_t *)s->state, sn_random_stream("image", (uint64_t)i));
  int64_t n = s->info.channels * s->info.height * s->info.width;
  for (int64_t k = 0; k < n; k++) out[k] = (float)sn_random_normal(&r);
}

static void synthetic_tokens(const sn_dataset *s, int64_t i, int32_t *ids, int32_t *labels) {
  sn_random r;
  uint32_t most = (uint32_t)(s->info.vocabulary > 0 ? s->info.vocabulary : 2);
  sn_random_init(&r, *(const uint64_t *)s->state, sn_random_stream("tokens", (uint64_t)i));
  for (int64_t k = 0; k < s->info.length; k++) ids[k] = (int32_t)(sn_random_u32(&r) % most);
  for (int64_t k = 0; labels && k < s->info.length; k++) labels[k] = ids[k];
}

static void synthetic_close(sn_dataset *s) { sn_free(s->state); }

const sn_data_kind sn_data_synthetic = {"synthetic", "nothing", true, synthetic_open, NULL, synthetic_fill, synthetic_tokens, synthetic_close};
