/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Images from files, and the images of a data set. */
#include <cjson/cJSON.h>

#include "predict.h"

static sn_image_layout image_layout(const predictor *p) { return sn_model_get_info(p->model)->layout == SN_NHWC ? SN_IMAGE_NHWC : SN_IMAGE_NCHW; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- files ------------------------------------------------------------------------------------------------------------ */

typedef struct image_batch {
  classifier c;
  int64_t size, each; /* images; floats of one */
  bool *good;
} image_batch;

static sn_status check_size(predictor *p, const char *path, const sn_image *i) {
  const sn_model_info *m = sn_model_get_info(p->model);
  int64_t h, w;
  sn_image_transform_size(&p->transform, i->height, i->width, &h, &w);
  if (h == m->height && w == m->width) return SN_OK;
  sn_status s = sn_error(p->d, (sn_loc){path, 0, 0}, SN_ERR_SHAPE, "the image of %lld x %lld becomes %lld x %lld, the model takes %lld x %lld", (long long)i->height,
                         (long long)i->width, (long long)h, (long long)w, (long long)m->height, (long long)m->width);
  sn_hint(p->d, "set `size` or `crop_size` in %s/preprocessor_config.json to the model's image_size", p->dir);
  return s;
}

static sn_status read_image(predictor *p, const char *path, float *to) {
  sn_image image;
  SN_TRY(sn_image_read(p->d, path, sn_model_get_info(p->model)->channels, &image));
  sn_status s = check_size(p, path, &image);
  if (s == SN_OK) {
    s = sn_image_apply(&p->transform, &image, image_layout(p), to);
    if (s != SN_OK) s = sn_error(p->d, (sn_loc){path, 0, 0}, s, "%s", sn_status_text(s));
  }
  sn_image_finish(&image);
  return s;
}

static sn_status tell_images(predictor *p, const image_batch *b, size_t first, int64_t n, const float *logits) {
  for (int64_t k = 0; k < n; k++) {
    if (!b->good[k]) continue;
    const char *path = sn_opt_operand(p->o, first + (size_t)k);
    int64_t best;
    cJSON *entry = predict_entry(p);
    SN_TRY(predict_entry_done(p, entry, entry && cJSON_AddStringToObject(entry, "image", path)));
    SN_TRY(predict_top(p, entry, path, path, logits + k * sn_model_get_info(p->model)->n_labels, &best));
  }
  return SN_OK;
}

/* Images first … first + n - 1; *failed: the first failure to read one. */
static sn_status one_batch(predictor *p, const image_batch *b, size_t first, int64_t n, sn_status *failed) {
  sn_array *pixels = NULL, *logits = NULL;
  bool any = false;
  if (sn_array_create_zero(b->c.step.module->entry->params[b->c.step.n_params]->shape, &pixels) != SN_OK) return sn_out_of_memory(p->d, (size_t)(b->size * b->each));
  for (int64_t k = 0; k < n; k++) {
    sn_status s = read_image(p, sn_opt_operand(p->o, first + (size_t)k), (float *)sn_array_data(pixels) + k * b->each);
    b->good[k] = s == SN_OK;
    any = any || b->good[k];
    if (*failed == SN_OK) *failed = s;
  }
  sn_status s = any ? classifier_call(p, &b->c, pixels, &logits) : SN_OK;
  if (s == SN_OK && any) s = tell_images(p, b, first, n, sn_array_data(logits));
  sn_array_release(pixels);
  sn_array_release(logits);
  return s;
}

sn_status predict_images(predictor *p) {
  const sn_model_info *m = sn_model_get_info(p->model);
  size_t n = sn_opt_operands(p->o);
  image_batch b = {.size = smaller(sn_opt_int(p->o, "batch"), (int64_t)n), .each = m->channels * m->height * m->width};
  sn_status failed = SN_OK, s = classifier_init(p, p->model, b.size, &b.c);
  b.good = sn_alloc_zero((size_t)b.size, sizeof *b.good);
  if (s == SN_OK && !b.good) s = sn_out_of_memory(p->d, (size_t)b.size);
  for (size_t i = 0; s == SN_OK && i < n; i += (size_t)b.size) s = one_batch(p, &b, i, smaller(b.size, (int64_t)(n - i)), &failed);
  sn_free(b.good);
  classifier_finish(&b.c);
  return s == SN_OK ? failed : s;
}

/* ---- a data set -------------------------------------------------------------------------------------------------------- */

typedef struct data_run {
  sn_dataset *set;
  sn_loader *loader;
  classifier c;
  int64_t batch, seen, right, index; /* index: of the next sample, damaged ones counted */
} data_run;

static sn_status open_data(predictor *p, data_run *r) {
  const sn_model_info *m = sn_model_get_info(p->model);
  sn_dataset_options o;
  sn_dataset_options_init(&o);
  o.train = sn_opt_choice(p->o, "part") == 1;
  o.seed = (uint64_t)sn_opt_int(p->o, "seed");
  o.val_fraction = sn_opt_number(p->o, "val-fraction");
  o.synthetic_samples = sn_opt_int(p->o, "samples");
  o.height = m->height;
  o.width = m->width;
  o.channels = m->channels;
  o.n_classes = m->n_labels;
  o.transform = &p->transform;
  SN_TRY(sn_dataset_open(p->d, sn_opt_text(p->o, "data"), &o, &r->set));
  sn_loader_options lo;
  sn_loader_options_init(&lo);
  lo.batch = r->batch = smaller(sn_opt_int(p->o, "batch"), sn_dataset_get_info(r->set)->n);
  lo.seed = o.seed;
  lo.layout = image_layout(p);
  lo.pool = p->pool;
  return sn_loader_create(p->d, r->set, &lo, &r->loader);
}

static sn_status tell_sample(predictor *p, data_run *r, int32_t label, const float *logits) {
  char what[64];
  int64_t best;
  const char *name = sn_model_get_info(p->model)->label_names[label];
  snprintf(what, sizeof what, "sample %lld", (long long)r->index);
  cJSON *entry = predict_entry(p);
  SN_TRY(predict_entry_done(p, entry, entry && cJSON_AddNumberToObject(entry, "index", (double)r->index) && cJSON_AddNumberToObject(entry, "label_id", label) &&
                                          cJSON_AddStringToObject(entry, "label", name)));
  SN_TRY(predict_top(p, entry, NULL, what, logits, &best));
  r->seen++;
  r->right += best == label;
  return SN_OK;
}

static sn_status data_batch(predictor *p, data_run *r, const sn_batch *b) {
  sn_array *logits = NULL;
  int64_t n_labels = sn_model_get_info(p->model)->n_labels;
  const int32_t *labels = sn_array_data(b->labels);
  sn_status s = classifier_call(p, &r->c, b->inputs, &logits);
  for (int64_t k = 0; s == SN_OK && k < r->batch; k++, r->index++)
    if (labels[k] >= 0) s = tell_sample(p, r, labels[k], (const float *)sn_array_data(logits) + k * n_labels);
  sn_array_release(logits);
  return s;
}

static sn_status tell_accuracy(predictor *p, const data_run *r) {
  const char *part = sn_opt_text(p->o, "part");
  if (!r->seen) return sn_error(p->d, SN_NOWHERE, SN_ERR_CORRUPT, "not one %s image could be read", part);
  double accuracy = (double)r->right / (double)r->seen;
  int64_t skipped = sn_loader_skipped(r->loader);
  if (!p->json) {
    if (skipped) sn_str_printf(&p->text, "%lld damaged images were skipped\n", (long long)skipped);
    sn_str_printf(&p->text, "%s accuracy %.4f\n", part, accuracy);
    return SN_OK;
  }
  bool ok = cJSON_AddNumberToObject(p->json, "accuracy", accuracy) && cJSON_AddNumberToObject(p->json, "samples", (double)r->seen) &&
            cJSON_AddNumberToObject(p->json, "skipped", (double)skipped);
  return predict_entry_done(p, p->json, ok);
}

sn_status predict_data(predictor *p) {
  data_run r = {0};
  sn_status s = open_data(p, &r);
  if (s == SN_OK) s = classifier_init(p, p->model, r.batch, &r.c);
  while (s == SN_OK) {
    sn_batch b;
    s = sn_loader_next(p->d, r.loader, &b);
    if (s != SN_OK || !b.inputs) break;
    s = data_batch(p, &r, &b);
    sn_array_release(b.inputs);
    sn_array_release(b.labels);
  }
  if (s == SN_OK) s = tell_accuracy(p, &r);
  classifier_finish(&r.c);
  sn_loader_destroy(r.loader);
  sn_dataset_close(r.set);
  return s;
}
