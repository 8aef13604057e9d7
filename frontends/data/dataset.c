/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <string.h>

#include "data_internal.h"
#include "sinter/random.h"

static const sn_data_kind *const kinds[] = {&sn_data_digits, &sn_data_idx, &sn_data_cifar10, &sn_data_folder, &sn_data_tokens, &sn_data_synthetic};
enum { N_KINDS = (int)(sizeof kinds / sizeof *kinds) };

void sn_dataset_options_init(sn_dataset_options *o) {
  *o = (sn_dataset_options){.struct_size = sizeof *o, .train = true, .val_fraction = 0.1, .synthetic_samples = 1024};
}

static sn_status find_kind(sn_diag *d, const char *spec, const sn_data_kind **kind, const char **dir) {
  size_t n = strcspn(spec, ":");
  *dir = spec[n] ? spec + n + 1 : "";
  for (int i = 0; i < N_KINDS; i++) {
    *kind = kinds[i];
    if (strlen(kinds[i]->name) != n || memcmp(kinds[i]->name, spec, n)) continue;
    if (**dir || kinds[i] == &sn_data_synthetic) return SN_OK;
    sn_status s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "data `%s`: no directory", spec);
    sn_hint(d, "write %s:DIR; in DIR lie %s", (*kind)->name, (*kind)->expects);
    return s;
  }
  sn_status s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "data `%s`: unknown kind", spec);
  sn_hint(d, "write digits:DIR, idx:DIR, cifar10:DIR, folder:DIR, tokens:DIR or synthetic");
  return s;
}

static sn_status check_options(sn_diag *d, const sn_data_kind *kind, const sn_dataset_options *o) {
  if (o->height < 0 || o->width < 0 || o->channels < 0 || o->channels > 4 || o->val_fraction < 0 || o->val_fraction >= 1 || o->synthetic_samples < 1 ||
      o->synthetic_samples > INT32_MAX || o->length < 0 || o->vocabulary < 0)
    return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "data: an option is out of its range");
  bool images = kind->read || kind->fill; /* synthetic has both */
  if (o->length && !kind->tokens) return sn_error(d, SN_NOWHERE, SN_ERR_MISMATCH, "the model reads tokens, `%s` are images", kind->name);
  if (o->channels && !images) return sn_error(d, SN_NOWHERE, SN_ERR_MISMATCH, "the model looks at images, `%s` are token ids", kind->name);
  if (kind->sized && !o->length && !(o->height && o->width)) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "data `%s`: the size of the images must be given", kind->name);
  return SN_OK;
}

/* Size and channels after the transform become the set's. */
static sn_status settle_transform(sn_diag *d, sn_dataset *s, const sn_dataset_options *o) {
  sn_dataset_info *i = &s->info;
  if (i->length) return SN_OK; /* no images */
  int64_t h = o->height ? o->height : i->height, w = o->width ? o->width : i->width;
  sn_image_transform_init(&s->transform, h, w);
  if (o->transform) s->transform = *o->transform;
  if (!s->kind->fill) sn_image_transform_size(&s->transform, i->height, i->width, &i->height, &i->width);
  if (s->transform.shortest_edge && !s->transform.do_center_crop)
    return sn_error(d, SN_NOWHERE, SN_ERR_ATTRIBUTE, "resizing by the shortest edge gives images of different sizes: it needs a centre crop");
  if (s->kind->sized && !s->transform.do_resize && !s->transform.do_center_crop)
    return sn_error(d, SN_NOWHERE, SN_ERR_ATTRIBUTE, "images of different sizes need a resize or a centre crop");
  if ((o->height && i->height != o->height) || (o->width && i->width != o->width)) {
    sn_status e = sn_error(d, SN_NOWHERE, SN_ERR_SHAPE, "images of %s become %lld x %lld, the model takes %lld x %lld", s->kind->name, (long long)i->height,
                           (long long)i->width, (long long)o->height, (long long)o->width);
    sn_hint(d, "set `size` in preprocessor_config.json to the model's image_size");
    return e;
  }
  int64_t c = o->channels ? o->channels : i->channels;
  if (c != i->channels && c != 1 && c != 3)
    return sn_error(d, SN_NOWHERE, SN_ERR_SHAPE, "images of %s have %lld channels, the model takes %lld", s->kind->name, (long long)i->channels, (long long)c);
  i->channels = c;
  return SN_OK;
}

static sn_status check_labels(sn_diag *d, sn_dataset *s, const sn_dataset_options *o) {
  char name[512];
  for (int64_t i = 0; o->n_classes && i < s->info.n; i++) {
    if (s->labels[i] < o->n_classes) continue;
    sn_status e = sn_error(d, SN_NOWHERE, SN_ERR_MISMATCH, "%s: label %d, but the model has %lld labels (0 to %lld)", sn_dataset_sample_name(s, i, name, sizeof name),
                           s->labels[i], (long long)o->n_classes, (long long)o->n_classes - 1);
    sn_hint(d, "the data have at least %lld labels; a new classifier of that size is what --new-head makes", (long long)s->info.n_classes);
    return e;
  }
  return SN_OK;
}

/* The permutation is the same for both parts. */
bool sn_dataset_split(const sn_dataset_options *o, size_t n, bool *is_test) {
  size_t n_test = (size_t)((double)n * o->val_fraction + 0.5);
  uint32_t *order = sn_alloc((n + 1) * sizeof *order);
  sn_random r;
  if (!order) return false;
  sn_random_init(&r, o->seed, sn_random_stream("split", 0));
  sn_random_shuffle(&r, order, n);
  for (size_t i = 0; i < n; i++) is_test[order[i]] = i < n_test;
  sn_free(order);
  return true;
}

sn_status sn_dataset_open(sn_diag *d, const char *spec, const sn_dataset_options *o, sn_dataset **out) {
  const sn_data_kind *kind;
  const char *dir;
  *out = NULL;
  SN_TRY(find_kind(d, spec, &kind, &dir));
  SN_TRY(check_options(d, kind, o));
  sn_dataset *s = sn_alloc_zero(1, sizeof *s);
  if (!s) return sn_out_of_memory(d, sizeof *s);
  s->kind = kind;
  s->token_labels = o->token_labels;
  sn_status status = sn_arena_create(&s->arena);
  const char *kept = status == SN_OK ? sn_arena_string(s->arena, dir) : NULL;
  if (!kept) status = sn_out_of_memory(d, sizeof *s);
  if (status == SN_OK) status = kind->open(d, s, kept, o);
  if (status == SN_OK) status = settle_transform(d, s, o);
  if (status == SN_OK) status = check_labels(d, s, o);
  if (status != SN_OK) {
    sn_dataset_close(s);
    return status;
  }
  *out = s;
  return SN_OK;
}

void sn_dataset_close(sn_dataset *s) {
  if (!s) return;
  if (s->kind->close) s->kind->close(s);
  sn_arena_destroy(s->arena);
  sn_free(s);
}

const sn_dataset_info *sn_dataset_get_info(const sn_dataset *s) { return &s->info; }

const char *sn_dataset_sample_name(const sn_dataset *s, int64_t i, char *buffer, size_t size) {
  snprintf(buffer, size, "%s: sample %lld", s->kind->name, (long long)i);
  return buffer;
}

static void to_nhwc(const float *from, int64_t channels, int64_t plane, float *to) {
  for (int64_t p = 0; p < plane; p++)
    for (int64_t c = 0; c < channels; c++) to[p * channels + c] = from[c * plane + p];
}

static sn_status fill_sample(sn_diag *d, const sn_dataset *s, int64_t i, sn_image_layout layout, float *pixels) {
  int64_t plane = s->info.height * s->info.width;
  if (layout == SN_IMAGE_NCHW) {
    s->kind->fill(s, i, pixels);
    return SN_OK;
  }
  float *planes = sn_alloc((size_t)(s->info.channels * plane) * sizeof *planes);
  if (!planes) return sn_out_of_memory(d, (size_t)(s->info.channels * plane) * sizeof *planes);
  s->kind->fill(s, i, planes);
  to_nhwc(planes, s->info.channels, plane, pixels);
  sn_free(planes);
  return SN_OK;
}

sn_status sn_dataset_sample(sn_diag *d, const sn_dataset *s, int64_t i, sn_image_layout layout, float *pixels) {
  if (s->kind->fill) return fill_sample(d, s, i, layout, pixels);
  sn_image image = {0};
  SN_TRY(s->kind->read(d, s, i, &image));
  sn_status status = sn_image_match_channels(&image, s->info.channels) ? sn_image_apply(&s->transform, &image, layout, pixels) : SN_ERR_MEMORY;
  if (status != SN_OK) status = sn_out_of_memory(d, (size_t)(image.height * image.width));
  sn_image_finish(&image);
  return status;
}
