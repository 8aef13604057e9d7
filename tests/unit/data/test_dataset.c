/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "data_tests.h"
#include "pillow.h"

static sn_status open_set(const char *kind, const char *dir, sn_dataset_options *o, sn_diag *d, sn_dataset **out) {
  char spec[600];
  snprintf(spec, sizeof spec, "%s:%s", kind, dir);
  return sn_dataset_open(d, spec, o, out);
}

static const char *digits_dir(void) {
  static char dir[512];
  const char *data = getenv("SINTER_TEST_DATA");
  ck_assert_msg(data, "SINTER_TEST_DATA is not set");
  snprintf(dir, sizeof dir, "%s/digits", data);
  return dir;
}

START_TEST(digits_open) {
  sn_dataset_options o;
  sn_dataset *s;
  sn_dataset_options_init(&o);
  o.train = _i == 0;
  o.n_classes = 10;
  ck_assert_int_eq(open_set("digits", digits_dir(), &o, NULL, &s), SN_OK);
  const sn_dataset_info *i = sn_dataset_get_info(s);
  ck_assert_int_eq(i->n, o.train ? 1437 : 360);
  ck_assert(i->channels == 1 && i->height == 8 && i->width == 8 && i->n_classes == 10);
  sn_dataset_close(s);
}
END_TEST

START_TEST(labels_beyond_the_model) {
  sn_dataset_options o;
  sn_dataset *s;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_dataset_options_init(&o);
  o.n_classes = 9;
  ck_assert_int_eq(open_set("digits", digits_dir(), &o, d, &s), SN_ERR_MISMATCH);
  ck_assert_ptr_null(s);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, "label 9"));
  sn_diag_destroy(d);
}
END_TEST

/* 3 images of 2 x 2, and what is done to it before it is read. */
static const uint8_t tiny_images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 255, 128, 1, 2, 3, 4, 5, 6, 7, 8, 9};
static const uint8_t tiny_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1};
static const struct { size_t at, n; uint8_t value; sn_status want; } idx_faults[] = {
    {0, sizeof tiny_images, 1, SN_ERR_CORRUPT},      /* magic */
    {2, sizeof tiny_images, 0x0d, SN_ERR_UNSUPPORTED}, /* floats */
    {3, sizeof tiny_images, 1, SN_ERR_SHAPE},
    {7, sizeof tiny_images, 2, SN_ERR_CORRUPT},      /* promises less than it holds */
    {4, sizeof tiny_images, 0xff, SN_ERR_CORRUPT},   /* impossible size */
    {7, sizeof tiny_images, 0, SN_ERR_CORRUPT},
    {0, 10, 0, SN_ERR_CORRUPT},                      /* cut within the header */
    {0, sizeof tiny_images - 1, 0, SN_ERR_CORRUPT},
    {0, 0, 0, SN_ERR_CORRUPT},
};

START_TEST(torn_idx) {
  uint8_t bytes[sizeof tiny_images];
  sn_dataset_options o;
  sn_dataset *s;
  const char *dir = temp_dir();
  memcpy(bytes, tiny_images, sizeof bytes);
  bytes[idx_faults[_i].at] = idx_faults[_i].value;
  temp_file(dir, "train-images-idx3-ubyte", bytes, idx_faults[_i].n);
  temp_file(dir, "train-labels-idx1-ubyte", tiny_labels, sizeof tiny_labels);
  sn_dataset_options_init(&o);
  ck_assert_int_eq(open_set("idx", dir, &o, NULL, &s), idx_faults[_i].want);
  ck_assert_ptr_null(s);
  temp_remove(dir);
}
END_TEST

START_TEST(wrong_specs) {
  static const struct { const char *spec; sn_status want; } specs[] = {{"digit:/tmp", SN_ERR_USAGE}, {"digits", SN_ERR_USAGE}, {"digits:", SN_ERR_USAGE},
      {"digits:/nonexistent", SN_ERR_IO}, {"folder:/nonexistent", SN_ERR_IO}, {"cifar10:/nonexistent", SN_ERR_IO}, {"", SN_ERR_USAGE}};
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    sn_dataset_options o;
    sn_dataset *s;
    sn_diag *d;
    ck_assert_int_eq(sn_diag_create(&d), SN_OK);
    sn_dataset_options_init(&o);
    o.height = o.width = 4;
    ck_assert_int_eq(sn_dataset_open(d, specs[i].spec, &o, &s), specs[i].want);
    ck_assert_uint_eq(sn_diag_count(d, SN_ERROR), 1);
    sn_diag_destroy(d);
  }
}
END_TEST

START_TEST(cifar_records) {
  static uint8_t records[2 * 3073];
  static const char *const names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
  const char *dir = temp_dir();
  sn_dataset_options o;
  sn_dataset *s;
  records[0] = 3;
  records[3073] = 9;
  records[3073 + 1 + 1024] = 255; /* green of the first pixel of the second image */
  for (int i = 0; i < 5; i++) temp_file(dir, names[i], records, sizeof records);
  sn_dataset_options_init(&o);
  ck_assert_int_eq(open_set("cifar10", dir, &o, NULL, &s), SN_OK);
  ck_assert_int_eq(sn_dataset_get_info(s)->n, 10);
  ck_assert_str_eq(sn_dataset_get_info(s)->class_names[3], "cat");
  sn_loader_options lo;
  sn_loader *l;
  sn_batch b;
  sn_loader_options_init(&lo);
  lo.batch = 4;
  ck_assert_int_eq(sn_loader_create(NULL, s, &lo, &l), SN_OK);
  ck_assert_int_eq(sn_loader_next(NULL, l, &b), SN_OK);
  ck_assert_int_eq(((const int32_t *)sn_array_data(b.labels))[3], 9);
  ck_assert(((const float *)sn_array_data(b.inputs))[3 * 3072 + 1024] == 1.0f);
  ck_assert(((const float *)sn_array_data(b.inputs))[3 * 3072] == -1.0f);
  sn_array_release(b.inputs);
  sn_array_release(b.labels);
  sn_loader_destroy(l);
  sn_dataset_close(s);
  temp_file(dir, names[4], records, sizeof records - 1);
  ck_assert_int_eq(open_set("cifar10", dir, &o, NULL, &s), SN_ERR_CORRUPT);
  temp_remove(dir);
}
END_TEST

START_TEST(folder_classes_and_split) {
  const char *dir = temp_dir();
  char name[64];
  sn_dataset_options o;
  sn_dataset *train, *test;
  for (int i = 0; i < 20; i++) {
    snprintf(name, sizeof name, "train/%s/%d.png", i % 2 ? "zebra" : "ant", i);
    temp_file(dir, name, png_7x5, sizeof png_7x5);
  }
  temp_file(dir, "train/readme.txt", "x", 1);
  sn_dataset_options_init(&o);
  o.height = o.width = 4;
  o.val_fraction = 0.25;
  ck_assert_int_eq(open_set("folder", dir, &o, NULL, &train), SN_OK);
  o.train = false;
  ck_assert_int_eq(open_set("folder", dir, &o, NULL, &test), SN_OK);
  ck_assert_int_eq(sn_dataset_get_info(train)->n, 15);
  ck_assert_int_eq(sn_dataset_get_info(test)->n, 5);
  ck_assert_int_eq(sn_dataset_get_info(train)->n_classes, 2);
  ck_assert_str_eq(sn_dataset_get_info(train)->class_names[0], "ant");
  sn_dataset_close(train);
  sn_dataset_close(test);
  temp_file(dir, "val/ant/1.png", png_7x5, sizeof png_7x5);
  ck_assert_int_eq(open_set("folder", dir, &o, NULL, &test), SN_OK);
  ck_assert_int_eq(sn_dataset_get_info(test)->n, 1);
  sn_dataset_close(test);
  temp_remove(dir);
}
END_TEST

START_TEST(memory_runs_out) {
  int64_t live = sn_alloc_live();
  for (int64_t n = 0;; n++) {
    sn_dataset_options o;
    sn_dataset *s;
    sn_dataset_options_init(&o);
    sn_alloc_fail_after(n);
    sn_status status = open_set("digits", digits_dir(), &o, NULL, &s);
    sn_alloc_fail_after(-1);
    sn_dataset_close(s);
    ck_assert_int_eq(sn_alloc_live(), live);
    if (status == SN_OK) break;
    ck_assert(s == NULL);
    ck_assert_int_lt(n, 200);
  }
}
END_TEST

TCase *dataset_tests(void) {
  TCase *t = tcase_create("dataset");
  tcase_add_loop_test(t, digits_open, 0, 2);
  tcase_add_test(t, labels_beyond_the_model);
  tcase_add_loop_test(t, torn_idx, 0, (int)(sizeof idx_faults / sizeof *idx_faults));
  tcase_add_test(t, wrong_specs);
  tcase_add_test(t, cifar_records);
  tcase_add_test(t, folder_classes_and_split);
  tcase_add_test(t, memory_runs_out);
  return t;
}
