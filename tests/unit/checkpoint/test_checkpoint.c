/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../scratch.h"
#include "sinter/checkpoint.h"
#include "sinter/json.h"

static char dir[SCRATCH_BYTES];

static void setup(void) { scratch_make(dir, "run"); }

static void teardown(void) { scratch_remove(dir); }

static const char *in_dir(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

static sn_array *numbers(int64_t n, float first) {
  sn_arena *a;
  sn_array *x;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_array_create(sn_shape_array(a, SN_TYPE_F32, 1, &n), &x), SN_OK);
  for (int64_t i = 0; i < n; i++) ((float *)sn_array_data(x))[i] = first + (float)i;
  sn_arena_destroy(a);
  return x;
}

static void put(sn_bundle *b, const char *name, int64_t n, float first) {
  sn_array *x = numbers(n, first);
  ck_assert_int_eq(sn_bundle_set(b, name, x), SN_OK);
  sn_array_release(x);
}

static sn_status save(int64_t step, int keep, sn_diag *d) {
  sn_run_state s = {.step = step, .epoch = step / 10, .batch = step % 10, .seed = UINT64_MAX - 5};
  ck_assert_int_eq(sn_bundle_create(&s.arrays), SN_OK);
  put(s.arrays, "param/w", 4096, (float)step);
  put(s.arrays, "state/m/w", 3, -(float)step);
  sn_status status = sn_run_save(d, dir, &s, keep);
  sn_run_state_finish(&s);
  return status;
}

static const char *state_file(int64_t step) {
  char name[64];
  snprintf(name, sizeof name, "run/step-%012lld.safetensors", (long long)step);
  return in_dir(name);
}

static void damage(const char *path, long at, bool cut) {
  char *bytes;
  size_t n;
  ck_assert_int_eq(sn_file_read(NULL, path, &bytes, &n), SN_OK);
  if (!cut) bytes[at < 0 ? (long)n + at : at] ^= 1;
  ck_assert_int_eq(sn_file_write(NULL, path, bytes, cut ? (size_t)at : n), SN_OK);
  sn_free(bytes);
}

START_TEST(comes_back_as_it_was) {
  sn_run_state s;
  ck_assert(!sn_run_exists(dir));
  ck_assert_int_eq(save(1234, 2, NULL), SN_OK);
  ck_assert(sn_run_exists(dir));
  ck_assert_int_eq(sn_run_load(NULL, dir, NULL, NULL, &s), SN_OK);
  ck_assert(s.step == 1234 && s.epoch == 123 && s.batch == 4 && s.seed == UINT64_MAX - 5);
  sn_array *want = numbers(4096, 1234);
  ck_assert(sn_array_equal(sn_bundle_get(s.arrays, "param/w"), want));
  ck_assert_str_eq(s.path, state_file(1234));
  sn_array_release(want);
  sn_run_state_finish(&s);
}
END_TEST

START_TEST(keeps_the_last) {
  for (int64_t step = 95; step < 103; step++) ck_assert_int_eq(save(step, 3, NULL), SN_OK);
  for (int64_t step = 95; step < 103; step++) ck_assert_int_eq(sn_file_exists(state_file(step)), step >= 100);
}
END_TEST

START_TEST(a_new_run_replaces_the_old) {
  sn_run_state s = {.step = 5};
  for (int64_t step = 95; step < 103; step++) ck_assert_int_eq(save(step, 9, NULL), SN_OK);
  ck_assert_int_eq(sn_bundle_create(&s.arrays), SN_OK);
  put(s.arrays, "param/w", 3, 0);
  ck_assert_int_eq(sn_run_replace(NULL, dir, &s), SN_OK);
  sn_run_state_finish(&s);
  ck_assert_int_eq(sn_run_load(NULL, dir, NULL, NULL, &s), SN_OK);
  ck_assert_int_eq(s.step, 5);
  for (int64_t step = 95; step < 103; step++) ck_assert(!sn_file_exists(state_file(step)));
  sn_run_state_finish(&s);
}
END_TEST

static const struct { long at; bool cut; } damages[] = {{0, true}, {5, true}, {100, true}, {8000, true}, {-1, false}, {-9000, false}, {0, false}, {20, false}};

START_TEST(a_damaged_state_is_refused_and_the_previous_used) {
  sn_run_state s;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(save(10, 5, NULL), SN_OK);
  ck_assert_int_eq(save(20, 5, NULL), SN_OK);
  damage(state_file(20), damages[_i].at, damages[_i].cut);
  ck_assert_int_eq(sn_run_load(d, dir, NULL, NULL, &s), SN_OK);
  ck_assert_int_eq(s.step, 10);
  ck_assert_uint_eq(sn_diag_count(d, SN_ERROR), 0);
  ck_assert_uint_ge(sn_diag_count(d, SN_WARNING), 1);
  sn_run_state_finish(&s);
  damage(state_file(10), 0, true);
  ck_assert_int_eq(sn_run_load(d, dir, NULL, NULL, &s), SN_ERR_CORRUPT);
  ck_assert_ptr_null(s.arrays);
  sn_diag_destroy(d);
}
END_TEST

static sn_status only_old(void *ctx, sn_diag *d, const sn_run_state *s) {
  (void)ctx;
  return s->step < 20 ? SN_OK : sn_error(d, SN_NOWHERE, SN_ERR_MISMATCH, "of another model");
}

START_TEST(a_foreign_state_is_refused) {
  sn_run_state s;
  sn_diag *d;
  sn_bundle *b;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_run_load(d, dir, NULL, NULL, &s), SN_ERR_IO);
  sn_diag_clear(d);
  ck_assert_int_eq(save(10, 5, NULL), SN_OK);
  ck_assert_int_eq(save(20, 5, NULL), SN_OK);
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  put(b, "w", 3, 0);
  ck_assert_int_eq(sn_files_write(NULL, state_file(30), b), SN_OK);
  sn_bundle_destroy(b);
  ck_assert_int_eq(sn_run_load(d, dir, only_old, NULL, &s), SN_OK);
  ck_assert_int_eq(s.step, 10);
  ck_assert_uint_eq(sn_diag_count(d, SN_WARNING), 2);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 1)->message, "of another model"));
  sn_run_state_finish(&s);
  sn_diag_destroy(d);
}
END_TEST

/* A limit on the size of files stands in for a full disk. */
START_TEST(a_full_disk_loses_nothing) {
  struct rlimit old, small;
  sn_run_state s;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(save(10, 1, NULL), SN_OK);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 4096;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  sn_status status = save(20, 1, d);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  ck_assert_int_eq(status, SN_ERR_IO);
  ck_assert_uint_ge(sn_diag_count(d, SN_ERROR), 1);
  ck_assert_int_eq(sn_run_load(NULL, dir, NULL, NULL, &s), SN_OK);
  ck_assert_int_eq(s.step, 10);
  sn_run_state_finish(&s);
  sn_diag_destroy(d);
}
END_TEST

START_TEST(weights_round_trip) {
  sn_bundle *a, *b;
  char *file, path[512];
  snprintf(path, sizeof path, "%s/vit_tiny", getenv("SINTER_TEST_DATA"));
  ck_assert_int_eq(sn_weights_read(NULL, path, &a, &file), SN_OK);
  ck_assert_ptr_nonnull(strstr(file, "vit_tiny/model.safetensors"));
  sn_free(file);
  ck_assert_uint_eq(sn_bundle_count(a), 56);
  ck_assert_int_eq(sn_weights_write(NULL, in_dir("out/deep"), a), SN_OK);
  ck_assert_int_eq(sn_weights_read(NULL, in_dir("out/deep"), &b, &file), SN_OK);
  sn_free(file);
  ck_assert_str_eq(sn_bundle_metadata(b, "format"), "pt");
  for (size_t i = 0; i < 56; i++) ck_assert(sn_array_equal(sn_bundle_at(a, i), sn_bundle_get(b, sn_bundle_name(a, i))));
  sn_bundle_destroy(a);
  sn_bundle_destroy(b);
}
END_TEST

START_TEST(weights_in_parts) {
  static const char index[] = "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\", \"c\": \"two.safetensors\"}}";
  static const char outside[] = "{\"weight_map\": {\"a\": \"../one.safetensors\"}}";
  sn_bundle *b;
  char *file;
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  put(b, "a", 2, 1);
  ck_assert_int_eq(sn_files_write(NULL, in_dir("one.safetensors"), b), SN_OK);
  sn_bundle_destroy(b);
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  put(b, "b", 2, 3);
  put(b, "c", 2, 5);
  ck_assert_int_eq(sn_files_write(NULL, in_dir("two.safetensors"), b), SN_OK);
  sn_bundle_destroy(b);
  ck_assert_int_eq(sn_file_write(NULL, in_dir("model.safetensors.index.json"), index, strlen(index)), SN_OK);
  ck_assert_int_eq(sn_weights_read(NULL, dir, &b, &file), SN_OK);
  ck_assert_uint_eq(sn_bundle_count(b), 3);
  sn_bundle_destroy(b);
  sn_free(file);
  ck_assert_int_eq(sn_file_write(NULL, in_dir("model.safetensors.index.json"), outside, strlen(outside)), SN_OK);
  ck_assert_int_eq(sn_weights_read(NULL, dir, &b, &file), SN_ERR_CORRUPT);
}
END_TEST

START_TEST(memory_runs_out) {
  ck_assert_int_eq(save(10, 5, NULL), SN_OK);
  int64_t live = sn_alloc_live();
  for (int64_t n = 0;; n++) {
    sn_run_state s;
    sn_alloc_fail_after(n);
    sn_status status = sn_run_load(NULL, dir, NULL, NULL, &s);
    sn_alloc_fail_after(-1);
    sn_run_state_finish(&s);
    ck_assert_int_eq(sn_alloc_live(), live);
    if (status == SN_OK) break;
    ck_assert_int_lt(n, 500);
  }
}
END_TEST

START_TEST(json_fields) {
  static const char text[] = "{\n \"a\": 3,\n \"b\": true, \"c\": \"x\", \"d\": null,\n \"e\": 1.5}";
  sn_json j;
  int64_t i = 7;
  bool b = false;
  const char *t = NULL;
  double v = 0;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_json_parse(d, "x.json", text, strlen(text), &j), SN_OK);
  ck_assert_int_eq(sn_json_int(&j, j.root, "a", 0, 9, &i), SN_OK);
  ck_assert_int_eq(sn_json_int(&j, j.root, "d", 0, 9, &i), SN_OK);
  ck_assert_int_eq(i, 3);
  ck_assert_int_eq(sn_json_bool(&j, j.root, "b", &b), SN_OK);
  ck_assert_int_eq(sn_json_text(&j, j.root, "c", &t), SN_OK);
  ck_assert_int_eq(sn_json_number(&j, j.root, "e", &v), SN_OK);
  ck_assert(b && v == 1.5 && strcmp(t, "x") == 0);
  ck_assert_int_eq(sn_json_int(&j, j.root, "e", 0, 9, &i), SN_ERR_ATTRIBUTE);
  ck_assert_uint_eq(sn_diag_get(d, 0)->loc.line, 4);
  ck_assert_int_eq(sn_json_int(&j, j.root, "a", 4, 9, &i), SN_ERR_ATTRIBUTE);
  ck_assert_int_eq(sn_json_text(&j, j.root, "a", &t), SN_ERR_ATTRIBUTE);
  sn_json_finish(&j);
  sn_diag_destroy(d);
}
END_TEST

int main(void) {
  Suite *s = suite_create("checkpoint");
  TCase *t = tcase_create("run");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, comes_back_as_it_was);
  tcase_add_test(t, keeps_the_last);
  tcase_add_test(t, a_new_run_replaces_the_old);
  tcase_add_loop_test(t, a_damaged_state_is_refused_and_the_previous_used, 0, (int)(sizeof damages / sizeof *damages));
  tcase_add_test(t, a_foreign_state_is_refused);
  tcase_add_test(t, a_full_disk_loses_nothing);
  tcase_add_test(t, weights_round_trip);
  tcase_add_test(t, weights_in_parts);
  tcase_add_test(t, memory_runs_out);
  tcase_add_test(t, json_fields);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
