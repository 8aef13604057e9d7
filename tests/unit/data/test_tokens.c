/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "data_tests.h"
#include "sinter/files.h"

enum { N = 5, LENGTH = 3 };
static const int32_t ids[N * LENGTH] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 1, 0}, classes[N] = {0, 1, 2, 1, 0};
static const int32_t masked[N * LENGTH] = {1, 2, -100, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, -1, 0}; /* as transformers masks */

static sn_array *integers(int rank, int64_t rows, int64_t columns, const int32_t *values) {
  const int64_t dims[2] = {rows, columns};
  sn_arena *a;
  sn_array *x;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_array_create_from(sn_shape_array(a, SN_TYPE_S32, rank, dims), values, &x), SN_OK);
  sn_arena_destroy(a);
  return x;
}

static void put(sn_bundle *b, const char *name, sn_array *x) {
  ck_assert_int_eq(sn_bundle_set(b, name, x), SN_OK);
  sn_array_release(x);
}

/* labels: 0 none, 1 a class, 2 a token a position. */
static void write_part(const char *dir, const char *file, int labels) {
  char path[512];
  sn_bundle *b;
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  put(b, "input_ids", integers(2, N, LENGTH, ids));
  if (labels) put(b, "labels", labels == 1 ? integers(1, N, 0, classes) : integers(2, N, LENGTH, masked));
  snprintf(path, sizeof path, "%s/%s", dir, file);
  ck_assert_int_eq(sn_files_write(NULL, path, b), SN_OK);
  sn_bundle_destroy(b);
}

static sn_status open_tokens(const char *dir, const sn_dataset_options *o, sn_diag *d, sn_dataset **out) {
  char spec[600];
  snprintf(spec, sizeof spec, "tokens:%s", dir);
  return sn_dataset_open(d, spec, o, out);
}

static sn_batch first_batch(sn_dataset *s, int64_t batch, sn_loader **l) {
  sn_loader_options o;
  sn_batch b;
  sn_loader_options_init(&o);
  o.batch = batch;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, l), SN_OK);
  ck_assert_int_eq(sn_loader_next(NULL, *l, &b), SN_OK);
  return b;
}

static void finish(sn_batch *b, sn_loader *l, sn_dataset *s) {
  sn_array_release(b->inputs);
  sn_array_release(b->labels);
  sn_loader_destroy(l);
  sn_dataset_close(s);
}

START_TEST(classes_come_with_their_tokens) {
  const char *dir = temp_dir();
  sn_dataset_options o;
  sn_dataset *s;
  sn_loader *l;
  write_part(dir, "train.safetensors", 1);
  sn_dataset_options_init(&o);
  o.val_fraction = 0;
  ck_assert_int_eq(open_tokens(dir, &o, NULL, &s), SN_OK);
  const sn_dataset_info *i = sn_dataset_get_info(s);
  ck_assert(i->n == N && i->length == LENGTH && i->vocabulary == 13 && i->n_classes == 3 && i->channels == 0);
  sn_batch b = first_batch(s, N + 1, &l); /* one more than there are: a row of its own that does not count */
  ck_assert_int_eq(b.n, N);
  ck_assert_mem_eq(sn_array_data(b.inputs), ids, sizeof ids);
  ck_assert_mem_eq(sn_array_data(b.labels), classes, sizeof classes);
  ck_assert_int_eq(((const int32_t *)sn_array_data(b.labels))[N], -1);
  finish(&b, l, s);
  temp_remove(dir);
}
END_TEST

START_TEST(language_models_learn_tokens) {
  for (int labels = 0; labels <= 2; labels += 2) { /* without any their own */
    const char *dir = temp_dir();
    sn_dataset_options o;
    sn_dataset *s;
    sn_loader *l;
    write_part(dir, "train.npz", labels);
    write_part(dir, "val.safetensors", labels);
    sn_dataset_options_init(&o);
    o.train = false;
    o.token_labels = true;
    o.vocabulary = 13;
    o.length = LENGTH;
    ck_assert_int_eq(open_tokens(dir, &o, NULL, &s), SN_OK);
    sn_batch b = first_batch(s, N, &l);
    const int32_t *got = sn_array_data(b.labels), *want = labels ? masked : ids;
    for (int k = 0; k < N * LENGTH; k++) ck_assert_int_eq(got[k], want[k] < 0 ? -1 : want[k]);
    finish(&b, l, s);
    temp_remove(dir);
  }
}
END_TEST

START_TEST(parts_share_nothing) {
  const char *dir = temp_dir();
  sn_dataset_options o;
  int seen[N] = {0};
  write_part(dir, "train.safetensors", 1);
  for (int train = 0; train < 2; train++) {
    sn_dataset *s;
    sn_loader *l;
    sn_dataset_options_init(&o);
    o.train = train;
    o.val_fraction = 0.4;
    ck_assert_int_eq(open_tokens(dir, &o, NULL, &s), SN_OK);
    int64_t n = sn_dataset_get_info(s)->n;
    ck_assert_int_eq(n, train ? 3 : 2);
    sn_batch b = first_batch(s, n, &l);
    const int32_t *x = sn_array_data(b.inputs);
    for (int64_t r = 0; r < n; r++)
      for (int k = 0; k < N; k++) seen[k] += x[r * LENGTH] == ids[k * LENGTH];
    finish(&b, l, s);
  }
  for (int k = 0; k < N; k++) ck_assert_int_eq(seen[k], 1);
  temp_remove(dir);
}
END_TEST

static void wrong_rank(sn_bundle *b) { put(b, "input_ids", integers(1, N, 0, ids)); }
static void negative(sn_bundle *b) { put(b, "input_ids", integers(2, N, LENGTH, masked)); }
static void fewer_labels(sn_bundle *b) { put(b, "labels", integers(1, N - 1, 0, classes)); }
static void negative_class(sn_bundle *b) { put(b, "labels", integers(1, N, 0, masked)); }
static void nothing(sn_bundle *b) { (void)b; }
static const struct { void (*change)(sn_bundle *b); int64_t length, vocabulary, n_classes, channels; sn_status want; const char *says; } faults[] = {
    {wrong_rank, 0, 0, 0, 0, SN_ERR_SHAPE, "`input_ids` is s32[5]; expected is [samples, length]"},
    {negative, 0, 0, 0, 0, SN_ERR_MISMATCH, "sample 0: token -1"},
    {fewer_labels, 0, 0, 0, 0, SN_ERR_SHAPE, "`labels` is s32[4]"},
    {negative_class, 0, 0, 0, 0, SN_ERR_MISMATCH, "sample 2: a negative label"},
    {nothing, 0, 12, 0, 0, SN_ERR_MISMATCH, "sample 3, position 2: token 12, but the model has 12 (0 to 11)"},
    {nothing, 8, 0, 0, 0, SN_ERR_SHAPE, "samples of 3 tokens, the model takes 8"},
    {nothing, 0, 0, 2, 0, SN_ERR_MISMATCH, "no class labels here"},
    {nothing, 0, 0, 0, 3, SN_ERR_MISMATCH, "the model looks at images"},
};

START_TEST(what_is_wrong_is_told) {
  const char *dir = temp_dir();
  char path[512];
  sn_bundle *b;
  sn_diag *d;
  sn_dataset *s;
  sn_dataset_options o;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  put(b, "input_ids", integers(2, N, LENGTH, ids));
  faults[_i].change(b);
  snprintf(path, sizeof path, "%s/train.safetensors", dir);
  ck_assert_int_eq(sn_files_write(NULL, path, b), SN_OK);
  sn_bundle_destroy(b);
  sn_dataset_options_init(&o);
  o.val_fraction = 0;
  o.length = faults[_i].length;
  o.vocabulary = faults[_i].vocabulary;
  o.n_classes = faults[_i].n_classes;
  o.channels = faults[_i].channels;
  ck_assert_int_eq(open_tokens(dir, &o, d, &s), faults[_i].want);
  ck_assert_ptr_null(s);
  ck_assert_msg(strstr(sn_diag_get(d, 0)->message, faults[_i].says), "`%s` does not say `%s`", sn_diag_get(d, 0)->message, faults[_i].says);
  sn_diag_destroy(d);
  temp_remove(dir);
}
END_TEST

START_TEST(files_that_are_not_there) {
  const char *dir = temp_dir();
  sn_dataset_options o;
  sn_dataset *s;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_dataset_options_init(&o);
  ck_assert_int_eq(open_tokens(dir, &o, d, &s), SN_ERR_IO);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, "no train.safetensors"));
  temp_file(dir, "train.safetensors", "torn", 4);
  ck_assert_int_eq(open_tokens(dir, &o, d, &s), SN_ERR_CORRUPT);
  sn_diag_destroy(d);
  temp_remove(dir);
}
END_TEST

START_TEST(synthetic_tokens_fill_the_vocabulary) {
  sn_dataset_options o;
  sn_dataset *s;
  sn_loader *l;
  sn_dataset_options_init(&o);
  o.length = 50;
  o.vocabulary = 7;
  o.token_labels = true;
  ck_assert_int_eq(sn_dataset_open(NULL, "synthetic", &o, &s), SN_OK);
  sn_batch b = first_batch(s, 8, &l);
  const int32_t *x = sn_array_data(b.inputs);
  int count[7] = {0};
  for (int k = 0; k < 400; k++) {
    ck_assert(x[k] >= 0 && x[k] < 7);
    count[x[k]]++;
  }
  for (int k = 0; k < 7; k++) ck_assert_int_gt(count[k], 20); /* 57 on average */
  ck_assert_mem_eq(sn_array_data(b.labels), x, 400 * sizeof *x);
  finish(&b, l, s);
}
END_TEST

TCase *token_tests(void) {
  TCase *t = tcase_create("tokens");
  tcase_add_test(t, classes_come_with_their_tokens);
  tcase_add_test(t, language_models_learn_tokens);
  tcase_add_test(t, parts_share_nothing);
  tcase_add_loop_test(t, what_is_wrong_is_told, 0, (int)(sizeof faults / sizeof *faults));
  tcase_add_test(t, files_that_are_not_there);
  tcase_add_test(t, synthetic_tokens_fill_the_vocabulary);
  return t;
}
