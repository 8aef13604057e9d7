/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* DIR/train/CLASS/x.jpg and DIR/val/CLASS/x.png, as torchvision's ImageFolder has it. Classes are the sorted names of train's folders. Without val, a
 * share of train, chosen by seed, is the test part. */
#include <string.h>
#include <strings.h>

#include "data_internal.h"

typedef struct folder_set {
  const char **paths; /* info.n of them, in the arena */
} folder_set;

typedef struct listing {
  sn_dataset *s;
  const char *root; /* DIR/train */
  const char *const *classes;
  size_t n_classes;
  const char **paths;
  int32_t *labels;
  size_t n, cap;
} listing;

static bool is_image_name(const char *name) {
  static const char *const ends[] = {".jpg", ".jpeg", ".png", ".jpe"};
  size_t n = strlen(name);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t k = strlen(ends[i]);
    if (n > k && strcasecmp(name + n - k, ends[i]) == 0) return name[0] != '.';
  }
  return false;
}

static sn_status listing_add(sn_diag *d, listing *l, const char *path, int32_t label) {
  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 1024;
    const char **paths = sn_realloc(l->paths, cap * sizeof *paths);
    if (paths) l->paths = paths;
    int32_t *labels = paths ? sn_realloc(l->labels, cap * sizeof *labels) : NULL;
    if (!labels) return sn_out_of_memory(d, cap * sizeof *paths);
    l->labels = labels;
    l->cap = cap;
  }
  l->paths[l->n] = path;
  l->labels[l->n++] = label;
  return SN_OK;
}

static sn_status list_class(sn_diag *d, listing *l, size_t k) {
  sn_arena *a = l->s->arena;
  const char *dir = sn_arena_printf(a, "%s/%s", l->root, l->classes[k]);
  const char *const *names;
  size_t n, before = l->n;
  if (!dir) return sn_out_of_memory(d, 0);
  if (!sn_file_exists(dir)) return SN_OK; /* val need not have every class */
  SN_TRY(sn_dir_list(d, a, dir, &names, &n));
  for (size_t i = 0; i < n; i++) {
    if (!is_image_name(names[i])) continue;
    const char *path = sn_arena_printf(a, "%s/%s", dir, names[i]);
    if (!path) return sn_out_of_memory(d, 0);
    SN_TRY(listing_add(d, l, path, (int32_t)k));
  }
  if (l->n == before) sn_warn(d, (sn_loc){dir, 0, 0}, "no .jpg, .jpeg or .png in here");
  return SN_OK;
}

/* A plain file beside the class folders is no class. */
static sn_status list_classes(sn_diag *d, listing *l, const char *train) {
  const char *const *names;
  size_t n;
  SN_TRY(sn_dir_list(d, l->s->arena, train, &names, &n));
  const char **classes = SN_NEW_N(l->s->arena, const char *, n + 1);
  if (!classes) return sn_out_of_memory(d, n * sizeof *classes);
  for (size_t i = 0; i < n; i++) {
    const char *inside = sn_arena_printf(l->s->arena, "%s/%s/.", train, names[i]);
    if (inside && names[i][0] != '.' && sn_file_exists(inside)) classes[l->n_classes++] = names[i];
  }
  l->classes = classes;
  return SN_OK;
}

/* Keeps the samples of one part. */
static sn_status keep_part(sn_diag *d, listing *l, const sn_dataset_options *o) {
  size_t kept = 0;
  bool *is_test = sn_alloc(l->n + 1), ok = is_test && sn_dataset_split(o, l->n, is_test);
  for (size_t i = 0; ok && i < l->n; i++) {
    if (is_test[i] == o->train) continue;
    l->paths[kept] = l->paths[i];
    l->labels[kept++] = l->labels[i];
  }
  sn_free(is_test);
  if (!ok) return sn_out_of_memory(d, l->n * 5);
  l->n = kept;
  return SN_OK;
}

static sn_status list_all(sn_diag *d, listing *l, const char *dir, const sn_dataset_options *o) {
  sn_arena *a = l->s->arena;
  const char *train = sn_arena_printf(a, "%s/train", dir), *val = sn_arena_printf(a, "%s/val", dir);
  if (!train || !val) return sn_out_of_memory(d, 0);
  if (!sn_file_exists(train)) {
    sn_status s = sn_error(d, (sn_loc){dir, 0, 0}, SN_ERR_IO, "no folder `train` here");
    sn_hint(d, "expected %s", l->s->kind->expects);
    return s;
  }
  bool has_val = sn_file_exists(val);
  SN_TRY(list_classes(d, l, train));
  l->root = o->train || !has_val ? train : val;
  for (size_t k = 0; k < l->n_classes; k++) SN_TRY(list_class(d, l, k));
  if (!has_val) SN_TRY(keep_part(d, l, o));
  if (l->n) return SN_OK;
  sn_status s = sn_error(d, (sn_loc){l->root, 0, 0}, SN_ERR_IO, "no images in the %zu class folders here", l->n_classes);
  sn_hint(d, "expected %s", l->s->kind->expects);
  return s;
}

static sn_status folder_open(sn_diag *d, sn_dataset *s, const char *dir, const sn_dataset_options *o) {
  listing l = {.s = s};
  folder_set *set = s->state = SN_NEW(s->arena, folder_set);
  sn_status status = set ? list_all(d, &l, dir, o) : sn_out_of_memory(d, sizeof *set);
  if (status == SN_OK) {
    s->info = (sn_dataset_info){.n = (int64_t)l.n, .channels = o->channels ? o->channels : 3, .height = o->height, .width = o->width,
                                .n_classes = (int64_t)l.n_classes, .class_names = l.classes};
    set->paths = sn_arena_copy(s->arena, l.paths, l.n * sizeof *l.paths);
    s->labels = sn_arena_copy(s->arena, l.labels, l.n * sizeof *l.labels);
    if (!set->paths || !s->labels) status = sn_out_of_memory(d, l.n * sizeof *l.paths);
  }
  sn_free(l.paths);
  sn_free(l.labels);
  return status;
}

static sn_status folder_read(sn_diag *d, const sn_dataset *s, int64_t i, sn_image *out) {
  return sn_image_read(d, ((const folder_set *)s->state)->paths[i], s->info.channels, out);
}

const sn_data_kind sn_data_folder = {"folder", "train/CLASS/*.jpg (or .png) and val/CLASS/*.jpg", true, folder_open, folder_read, NULL, NULL, NULL};
