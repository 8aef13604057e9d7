/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Token ids that a tokenizer wrote: DIR/train and DIR/test (or val) as .safetensors or .npz, each with `input_ids` [n, length] and, as the model learns,
 * `labels`: [n] classes, or [n, length] the tokens themselves with those not to be counted negative (transformers' -100). A language model without labels
 * learns its inputs. Without a test file a share of train, chosen by seed, is the test part. */
#include <string.h>

#include "data_internal.h"

typedef struct token_set {
  int64_t length;
  int32_t *ids, *labels; /* [n, length]; labels NULL: one a sample, or the ids */
} token_set;

static const char *find_file(const sn_dataset *s, const char *dir, const char *name) {
  static const char *const ends[] = {".safetensors", ".npz"};
  for (int e = 0; e < 2; e++) {
    const char *path = sn_arena_printf(s->arena, "%s/%s%s", dir, name, ends[e]);
    if (path && sn_file_exists(path)) return path;
  }
  return NULL;
}

/* Integers of any width as s32; what does not fit becomes INT32_MAX, which no vocabulary holds. */
static sn_status take_integers(sn_diag *d, sn_dataset *s, const char *path, const char *name, const sn_array *a, int32_t **out) {
  const sn_shape *shape = sn_array_shape(a);
  int64_t n = sn_shape_elements(shape);
  size_t each = sn_type_bytes(shape->type);
  if (!sn_type_is_integer(shape->type)) return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_TYPE, "`%s` holds %s; integers are expected", name, sn_type_text(shape->type));
  *out = SN_NEW_N(s->arena, int32_t, n + 1);
  if (!*out) return sn_out_of_memory(d, (size_t)n * sizeof **out);
  for (int64_t i = 0; i < n; i++) {
    int64_t v = sn_load_i64(shape->type, (const char *)sn_array_data(a) + (size_t)i * each);
    (*out)[i] = v > INT32_MAX ? INT32_MAX : v < -1 ? -1 : (int32_t)v;
  }
  return SN_OK;
}

static sn_status wrong_shape(sn_diag *d, const char *path, const char *name, const sn_array *a, const char *want) {
  sn_str text = {0};
  sn_shape_print(&text, sn_array_shape(a), 0);
  sn_status s = sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_SHAPE, "`%s` is %s; expected is %s", name, text.data ? text.data : "", want);
  sn_str_finish(&text);
  return s;
}

static sn_status take_ids(sn_diag *d, sn_dataset *s, const char *path, const sn_bundle *b) {
  token_set *set = s->state;
  const sn_array *a = sn_bundle_get(b, "input_ids");
  if (!a) {
    sn_status e = sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_NAME, "no array `input_ids` here");
    sn_hint(d, "expected %s", s->kind->expects);
    return e;
  }
  const sn_shape *shape = sn_array_shape(a);
  if (shape->rank != 2 || sn_shape_elements(shape) == 0) return wrong_shape(d, path, "input_ids", a, "[samples, length]");
  s->info = (sn_dataset_info){.n = shape->dims[0], .length = set->length = shape->dims[1]};
  SN_TRY(take_integers(d, s, path, "input_ids", a, &set->ids));
  for (int64_t i = 0; i < s->info.n * set->length; i++) {
    if (set->ids[i] < 0)
      return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_MISMATCH, "sample %lld: token %d; ids begin at 0", (long long)(i / set->length), set->ids[i]);
    if (set->ids[i] >= s->info.vocabulary) s->info.vocabulary = (int64_t)set->ids[i] + 1;
  }
  return SN_OK;
}

static sn_status take_labels(sn_diag *d, sn_dataset *s, const char *path, const sn_bundle *b) {
  token_set *set = s->state;
  const sn_array *a = sn_bundle_get(b, "labels");
  s->labels = SN_NEW_N(s->arena, int32_t, s->info.n);
  if (!s->labels) return sn_out_of_memory(d, (size_t)s->info.n * sizeof *s->labels);
  if (!a) return SN_OK;
  const sn_shape *shape = sn_array_shape(a);
  bool classes = shape->rank == 1 && shape->dims[0] == s->info.n;
  if (!classes && !(shape->rank == 2 && shape->dims[0] == s->info.n && shape->dims[1] == set->length))
    return wrong_shape(d, path, "labels", a, "a label a sample, [samples], or a token a position, [samples, length]");
  if (!classes) return take_integers(d, s, path, "labels", a, &set->labels);
  SN_TRY(take_integers(d, s, path, "labels", a, &s->labels));
  for (int64_t i = 0; i < s->info.n; i++) {
    if (s->labels[i] < 0) return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_MISMATCH, "sample %lld: a negative label", (long long)i);
    if (s->labels[i] >= s->info.n_classes) s->info.n_classes = (int64_t)s->labels[i] + 1;
  }
  return SN_OK;
}

/* Moves the samples of one part to the front. */
static sn_status keep_part(sn_diag *d, sn_dataset *s, const sn_dataset_options *o) {
  token_set *set = s->state;
  bool *is_test = sn_alloc((size_t)s->info.n);
  int64_t kept = 0;
  size_t row = (size_t)set->length * sizeof *set->ids;
  if (!is_test || !sn_dataset_split(o, (size_t)s->info.n, is_test)) {
    sn_free(is_test);
    return sn_out_of_memory(d, (size_t)s->info.n * 5);
  }
  for (int64_t i = 0; i < s->info.n; i++) {
    if (is_test[i] == o->train) continue;
    memmove(set->ids + kept * set->length, set->ids + i * set->length, row);
    if (set->labels) memmove(set->labels + kept * set->length, set->labels + i * set->length, row);
    s->labels[kept++] = s->labels[i];
  }
  sn_free(is_test);
  s->info.n = kept;
  return SN_OK;
}

/* What the model learns from must be there, and fit. */
static sn_status check_wanted(sn_diag *d, const sn_dataset *s, const char *path, const sn_dataset_options *o) {
  const token_set *set = s->state;
  if (s->info.n == 0) return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_IO, "no samples are left for the %s part", o->train ? "training" : "test");
  if (o->length && o->length != set->length)
    return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_SHAPE, "samples of %lld tokens, the model takes %lld", (long long)set->length, (long long)o->length);
  if (o->n_classes && !s->info.n_classes) {
    sn_status e = sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_MISMATCH, "no class labels here, and the model learns classes");
    sn_hint(d, "add `labels`, an integer a sample");
    return e;
  }
  for (int64_t i = 0; o->vocabulary && i < s->info.n * set->length; i++) {
    int32_t id = set->ids[i], label = set->labels ? set->labels[i] : 0;
    if (id < o->vocabulary && label < o->vocabulary) continue;
    return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_MISMATCH, "sample %lld, position %lld: token %d, but the model has %lld (0 to %lld)", (long long)(i / set->length),
                    (long long)(i % set->length), id < o->vocabulary ? label : id, (long long)o->vocabulary, (long long)o->vocabulary - 1);
  }
  return SN_OK;
}

static sn_status tokens_open(sn_diag *d, sn_dataset *s, const char *dir, const sn_dataset_options *o) {
  sn_bundle *b = NULL;
  const char *train = find_file(s, dir, "train"), *test = find_file(s, dir, "test"), *path;
  s->state = SN_NEW(s->arena, token_set);
  if (!s->state) return sn_out_of_memory(d, sizeof(token_set));
  if (!test) test = find_file(s, dir, "val");
  path = o->train || !test ? train : test;
  if (!path) {
    sn_status e = sn_error(d, (sn_loc){dir, 0, 0}, SN_ERR_IO, "no train.safetensors and no train.npz here");
    sn_hint(d, "expected %s", s->kind->expects);
    return e;
  }
  SN_TRY(sn_files_read(d, path, &b));
  sn_status status = take_ids(d, s, path, b);
  if (status == SN_OK) status = take_labels(d, s, path, b);
  sn_bundle_destroy(b);
  if (status == SN_OK && !test) status = keep_part(d, s, o);
  return status == SN_OK ? check_wanted(d, s, path, o) : status;
}

static void tokens_give(const sn_dataset *s, int64_t i, int32_t *ids, int32_t *labels) {
  const token_set *set = s->state;
  size_t row = (size_t)set->length * sizeof *ids;
  memcpy(ids, set->ids + i * set->length, row);
  if (labels) memcpy(labels, (set->labels ? set->labels : set->ids) + i * set->length, row);
}

const sn_data_kind sn_data_tokens = {.name = "tokens", .expects = "train.safetensors and test.safetensors (or .npz) with input_ids [samples, length] and labels, integers",
                                     .open = tokens_open, .tokens = tokens_give};
