/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "data_tests.h"
#include "pillow.h"

static sn_dataset *digits(bool train) {
  char spec[600];
  sn_dataset_options o;
  sn_dataset *s;
  const char *data = getenv("SINTER_TEST_DATA");
  ck_assert_msg(data, "SINTER_TEST_DATA is not set");
  snprintf(spec, sizeof spec, "digits:%s/digits", data);
  sn_dataset_options_init(&o);
  o.train = train;
  ck_assert_int_eq(sn_dataset_open(NULL, spec, &o, &s), SN_OK);
  return s;
}

static void release(sn_batch *b) {
  sn_array_release(b->inputs);
  sn_array_release(b->labels);
}

/* Two epochs: hashes of all batches folded into one. */
static uint64_t run_epochs(sn_dataset *s, sn_pool *pool, uint64_t seed, int64_t *n_samples) {
  sn_loader_options o;
  sn_loader *l;
  uint64_t h = 0;
  sn_loader_options_init(&o);
  o.batch = 64;
  o.shuffle = o.drop_last = o.flip = true;
  o.seed = seed;
  o.pool = pool;
  *n_samples = 0;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, &l), SN_OK);
  for (int epoch = 0; epoch < 2; epoch++) {
    sn_batch b;
    for (;;) {
      ck_assert_int_eq(sn_loader_next(NULL, l, &b), SN_OK);
      if (b.n == 0) break;
      h = sn_array_hash(b.labels, sn_array_hash(b.inputs, h));
      *n_samples += b.n;
      release(&b);
    }
  }
  sn_loader_destroy(l);
  return h;
}

START_TEST(same_bits_with_any_threads) {
  sn_dataset *s = digits(true);
  sn_pool *pool;
  int64_t n, m;
  ck_assert_int_eq(sn_pool_create(2, &pool), SN_OK);
  uint64_t alone = run_epochs(s, NULL, 5, &n), threads = run_epochs(s, pool, 5, &m), other = run_epochs(s, pool, 6, &m);
  ck_assert(alone == threads);
  ck_assert(alone != other);
  ck_assert_int_eq(n, 2 * (1437 / 64) * 64);
  sn_pool_destroy(pool);
  sn_dataset_close(s);
}
END_TEST

START_TEST(every_sample_once_and_padding) {
  sn_dataset *s = digits(false);
  sn_loader_options o;
  sn_loader *l;
  sn_batch b;
  int64_t n = 0, padded = 0, labels[10] = {0};
  sn_loader_options_init(&o);
  o.batch = 64;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, &l), SN_OK);
  ck_assert_int_eq(sn_loader_batches(l), 6);
  for (;;) {
    ck_assert_int_eq(sn_loader_next(NULL, l, &b), SN_OK);
    if (b.n == 0) break;
    n += b.n;
    for (int k = 0; k < 64; k++) {
      int32_t label = ((const int32_t *)sn_array_data(b.labels))[k];
      if (label < 0) padded++;
      else labels[label]++;
    }
    release(&b);
  }
  ck_assert_int_eq(n, 360);
  ck_assert_int_eq(padded, 6 * 64 - 360);
  for (int k = 0; k < 10; k++) ck_assert_int_gt(labels[k], 25);
  sn_loader_destroy(l);
  sn_dataset_close(s);
}
END_TEST

START_TEST(seek_gives_the_same_batch) {
  sn_dataset *s = digits(true);
  sn_loader_options o;
  sn_loader *l;
  sn_batch b;
  uint64_t third = 0;
  sn_loader_options_init(&o);
  o.batch = 32;
  o.shuffle = o.drop_last = true;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, &l), SN_OK);
  for (int pass = 0; pass < 2; pass++) {
    ck_assert_int_eq(sn_loader_seek(l, 4, pass ? 2 : 0), SN_OK);
    for (int k = pass ? 2 : 0; k < 3; k++) {
      ck_assert_int_eq(sn_loader_next(NULL, l, &b), SN_OK);
      if (k == 2 && !pass) third = sn_array_hash(b.inputs, 0);
      if (k == 2 && pass) ck_assert(third == sn_array_hash(b.inputs, 0));
      release(&b);
    }
  }
  ck_assert_int_eq(sn_loader_seek(l, 0, sn_loader_batches(l)), SN_OK);
  ck_assert_int_eq(sn_loader_next(NULL, l, &b), SN_OK);
  ck_assert_int_eq(b.n, 0);
  ck_assert_int_eq(sn_loader_next(NULL, l, &b), SN_OK);
  ck_assert_int_eq(b.n, 32);
  release(&b);
  ck_assert_int_eq(sn_loader_seek(l, -1, 0), SN_ERR_USAGE);
  sn_loader_destroy(l);
  sn_dataset_close(s);
}
END_TEST

static sn_dataset *damaged_folder(const char *dir, int n, int bad_every) {
  char name[64], spec[600];
  sn_dataset_options o;
  sn_dataset *s;
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "train/c%d/%02d.png", i % 2, i);
    bool bad = i % bad_every == 0;
    temp_file(dir, name, png_7x5, bad ? sizeof png_7x5 / 2 : sizeof png_7x5);
    snprintf(name, sizeof name, "val/c%d/%02d.png", i % 2, i);
    temp_file(dir, name, png_7x5, bad ? 0 : sizeof png_7x5);
  }
  sn_dataset_options_init(&o);
  o.height = o.width = 4;
  o.train = bad_every != 1;
  snprintf(spec, sizeof spec, "folder:%s", dir);
  ck_assert_int_eq(sn_dataset_open(NULL, spec, &o, &s), SN_OK);
  return s;
}

static bool has_png(void) {
  sn_image i;
  sn_status s = sn_image_decode(NULL, "x", png_7x5, sizeof png_7x5, 3, &i);
  sn_image_finish(&i);
  if (s == SN_ERR_UNAVAILABLE) printf("not run: unit data: built without libpng\n");
  return s == SN_OK;
}

START_TEST(damaged_images_are_named_skipped_and_counted) {
  if (!has_png()) return;
  const char *dir = temp_dir();
  sn_dataset *s = damaged_folder(dir, 16, 8);
  sn_loader_options o;
  sn_loader *l;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_loader_options_init(&o);
  o.batch = 4;
  o.drop_last = true;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, &l), SN_OK);
  for (int k = 0; k < 10; k++) { /* two epochs and their ends */
    sn_batch b;
    ck_assert_int_eq(sn_loader_next(d, l, &b), SN_OK);
    if (b.n) ck_assert_int_eq(b.n, 4);
    release(&b);
  }
  ck_assert_int_eq(sn_loader_skipped(l), 2);
  ck_assert_uint_eq(sn_diag_count(d, SN_WARNING), 2);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->loc.file, "00.png"));
  sn_loader_destroy(l);
  sn_dataset_close(s);
  sn_diag_destroy(d);
  temp_remove(dir);
}
END_TEST

START_TEST(only_damaged_images) {
  if (!has_png()) return;
  const char *dir = temp_dir();
  sn_dataset *s = damaged_folder(dir, 4, 1);
  sn_loader_options o;
  sn_loader *l;
  sn_batch b;
  sn_loader_options_init(&o);
  o.batch = 4;
  o.drop_last = true;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, &l), SN_OK);
  ck_assert_int_eq(sn_loader_next(NULL, l, &b), SN_ERR_CORRUPT);
  sn_loader_destroy(l);
  sn_dataset_close(s);
  temp_remove(dir);
}
END_TEST

START_TEST(synthetic_labels) {
  sn_dataset_options o;
  sn_dataset *s;
  sn_loader_options lo;
  sn_loader *l;
  sn_batch nchw, nhwc;
  sn_dataset_options_init(&o);
  o.height = 3;
  o.width = 5;
  o.n_classes = 7;
  ck_assert_int_eq(sn_dataset_open(NULL, "synthetic", &o, &s), SN_OK);
  sn_loader_options_init(&lo);
  lo.batch = 9;
  ck_assert_int_eq(sn_loader_create(NULL, s, &lo, &l), SN_OK);
  ck_assert_int_eq(sn_loader_next(NULL, l, &nchw), SN_OK);
  sn_loader_destroy(l);
  lo.layout = SN_IMAGE_NHWC;
  ck_assert_int_eq(sn_loader_create(NULL, s, &lo, &l), SN_OK);
  ck_assert_int_eq(sn_loader_next(NULL, l, &nhwc), SN_OK);
  for (int k = 0; k < 9; k++) ck_assert_int_eq(((const int32_t *)sn_array_data(nchw.labels))[k], k % 7);
  const float *a = sn_array_data(nchw.inputs), *b = sn_array_data(nhwc.inputs);
  for (int p = 0; p < 15; p++)
    for (int c = 0; c < 3; c++) ck_assert(a[45 + c * 15 + p] == b[45 + p * 3 + c]);
  release(&nchw);
  release(&nhwc);
  sn_loader_destroy(l);
  sn_dataset_close(s);
}
END_TEST

START_TEST(batch_too_large) {
  sn_dataset *s = digits(false);
  sn_loader_options o;
  sn_loader *l;
  sn_loader_options_init(&o);
  o.batch = 361;
  o.drop_last = true;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, &l), SN_ERR_USAGE);
  o.batch = 0;
  ck_assert_int_eq(sn_loader_create(NULL, s, &o, &l), SN_ERR_USAGE);
  sn_dataset_close(s);
}
END_TEST

TCase *loader_tests(void) {
  TCase *t = tcase_create("loader");
  tcase_add_test(t, same_bits_with_any_threads);
  tcase_add_test(t, every_sample_once_and_padding);
  tcase_add_test(t, seek_gives_the_same_batch);
  tcase_add_test(t, damaged_images_are_named_skipped_and_counted);
  tcase_add_test(t, only_damaged_images);
  tcase_add_test(t, synthetic_labels);
  tcase_add_test(t, batch_too_large);
  return t;
}
