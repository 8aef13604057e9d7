/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "data_tests.h"
#include "pillow.h"

static uint8_t pattern(int64_t x, int64_t y, int c) {
  int64_t v = c == 0 ? 37 * x + 11 * y : c == 1 ? 13 * x * x + 59 * y : 255 - 29 * x - 17 * y;
  return (uint8_t)(((v % 256) + 256) % 256);
}

static sn_image pattern_image(void) {
  sn_image i = {5, 7, 3, sn_alloc(5 * 7 * 3)};
  ck_assert_ptr_nonnull(i.data);
  for (int64_t p = 0; p < 5 * 7 * 3; p++) i.data[p] = pattern(p / 3 % 7, p / 21, (int)(p % 3));
  return i;
}

static bool unavailable(sn_status s, const char *what) {
  if (s == SN_ERR_UNAVAILABLE) printf("not run: unit data: built without %s\n", what);
  return s == SN_ERR_UNAVAILABLE;
}

START_TEST(png_reads) {
  sn_image i, want = pattern_image();
  sn_status s = sn_image_decode(NULL, "x.png", png_7x5, sizeof png_7x5, 3, &i);
  if (!unavailable(s, "libpng")) {
    ck_assert_int_eq(s, SN_OK);
    ck_assert_int_eq(i.height, 5);
    ck_assert_int_eq(i.width, 7);
    ck_assert_mem_eq(i.data, want.data, 5 * 7 * 3);
    sn_image_finish(&i);
    ck_assert_int_eq(sn_image_decode(NULL, "x.png", png_alpha, sizeof png_alpha, 3, &i), SN_OK);
    ck_assert_mem_eq(i.data, want.data, 5 * 7 * 3); /* alpha is dropped, not blended */
    sn_image_finish(&i);
    ck_assert_int_eq(sn_image_decode(NULL, "x.png", png_7x5, sizeof png_7x5, 1, &i), SN_OK);
    ck_assert_mem_eq(i.data, grey_7x5, sizeof grey_7x5);
    sn_image_finish(&i);
  }
  sn_image_finish(&want);
}
END_TEST

START_TEST(jpeg_reads) {
  sn_image i;
  sn_status s = sn_image_decode(NULL, "x.jpg", jpeg_16x12, sizeof jpeg_16x12, 3, &i);
  if (unavailable(s, "libjpeg")) return;
  ck_assert_int_eq(s, SN_OK);
  ck_assert_int_eq(i.height, 12);
  ck_assert_int_eq(i.width, 16);
  static const int want[] = {31, 51, 198}; /* Pillow's; decoders may differ by a few units in chroma upsampling */
  for (int c = 0; c < 3; c++) ck_assert_int_le(abs(i.data[(2 * 16 + 3) * 3 + c] - want[c]), 6);
  sn_image_finish(&i);
}
END_TEST

/* Every cut of either file is refused with a status, or (at the very end) read; nothing crashes. */
START_TEST(cut_files_are_refused) {
  const struct { const uint8_t *bytes; size_t n, end; } files[] = {{png_7x5, sizeof png_7x5, 16}, {jpeg_16x12, sizeof jpeg_16x12, 24}};
  for (int f = 0; f < 2; f++)
    for (size_t n = 0; n < files[f].n; n++) {
      sn_image i;
      sn_diag *d;
      ck_assert_int_eq(sn_diag_create(&d), SN_OK);
      sn_status s = sn_image_decode(d, "x", files[f].bytes, n, 3, &i);
      if (n + files[f].end < files[f].n) ck_assert_int_ne(s, SN_OK);
      ck_assert(s == SN_OK || (sn_diag_count(d, SN_ERROR) == 1 && i.data == NULL));
      sn_image_finish(&i);
      sn_diag_destroy(d);
    }
}
END_TEST

START_TEST(resizes_as_pillow) {
  static const struct { sn_resample r; int64_t h, w; const uint8_t *want; } cases[] = {
      {SN_RESAMPLE_BILINEAR, 3, 4, bilinear_4x3}, {SN_RESAMPLE_BILINEAR, 8, 9, bilinear_9x8}, {SN_RESAMPLE_BICUBIC, 3, 4, bicubic_4x3},
      {SN_RESAMPLE_BICUBIC, 8, 9, bicubic_9x8},   {SN_RESAMPLE_NEAREST, 3, 4, nearest_4x3},   {SN_RESAMPLE_NEAREST, 8, 9, nearest_9x8}};
  sn_image from = pattern_image(), to;
  ck_assert_int_eq(sn_image_resize(&from, cases[_i].h, cases[_i].w, cases[_i].r, &to), SN_OK);
  ck_assert_mem_eq(to.data, cases[_i].want, (size_t)(cases[_i].h * cases[_i].w * 3));
  sn_image_finish(&to);
  sn_image_finish(&from);
}
END_TEST

START_TEST(normalises_and_crops) {
  sn_image_transform t;
  sn_image_transform_init(&t, 5, 7);
  t.do_center_crop = true;
  t.crop_height = 3;
  t.crop_width = 9; /* wider than the image: black at both sides */
  sn_image from = pattern_image();
  float out[3 * 3 * 9];
  ck_assert_int_eq(sn_image_apply(&t, &from, SN_IMAGE_NCHW, out), SN_OK);
  ck_assert(out[0] == -1.0f); /* black is (0 - 0.5) / 0.5 */
  ck_assert(out[1] == (float)((pattern(0, 1, 0) / 255.0 - 0.5) / 0.5));
  ck_assert(out[2 * 27 + 9 + 4] == (float)((pattern(3, 2, 2) / 255.0 - 0.5) / 0.5));
  ck_assert_int_eq(sn_image_apply(&t, &from, SN_IMAGE_NHWC, out), SN_OK);
  ck_assert(out[(9 + 4) * 3 + 2] == (float)((pattern(3, 2, 2) / 255.0 - 0.5) / 0.5));
  sn_image_finish(&from);
}
END_TEST

static sn_status read_config(const char *text, sn_image_transform *t, sn_diag *d) {
  const char *dir = temp_dir(), *path = temp_file(dir, "preprocessor_config.json", text, strlen(text));
  sn_image_transform_init(t, 8, 8);
  sn_status s = sn_image_transform_read(d, path, t);
  temp_remove(dir);
  return s;
}

START_TEST(preprocessor_config) {
  sn_image_transform t;
  ck_assert_int_eq(read_config("{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"height\": 224, \"width\": 192}, \"resample\": 3,"
                               "\"image_mean\": [0.1, 0.2, 0.3], \"do_rescale\": false}", &t, NULL), SN_OK);
  ck_assert_int_eq(t.resize_height, 224);
  ck_assert_int_eq(t.resize_width, 192);
  ck_assert_int_eq(t.resample, SN_RESAMPLE_BICUBIC);
  ck_assert(t.mean[2] == 0.3 && t.deviation[2] == 0.5 && !t.do_rescale);
  const char *dir = temp_dir();
  char path[600];
  snprintf(path, sizeof path, "%s/p.json", dir);
  ck_assert_int_eq(sn_image_transform_write(NULL, path, &t, 3), SN_OK);
  sn_image_transform back;
  sn_image_transform_init(&back, 1, 1);
  ck_assert_int_eq(sn_image_transform_read(NULL, path, &back), SN_OK);
  ck_assert(back.mean[1] == t.mean[1] && back.resize_height == 224 && back.resample == t.resample && !back.do_rescale);
  temp_remove(dir);
}
END_TEST

static const struct { const char *text; sn_status want; uint32_t line; } bad_configs[] = {
    {"{\"resample\": 1}", SN_ERR_UNSUPPORTED, 1},
    {"{\n\"size\": {\"longest_edge\": 3}}", SN_ERR_UNSUPPORTED, 2},
    {"{\n\n\"image_std\": [0]}", SN_ERR_ATTRIBUTE, 3},
    {"{\"image_processor_type\": \"CLIPImageProcessor\"}", SN_ERR_UNSUPPORTED, 1},
    {"{\"do_resize\": 1}", SN_ERR_ATTRIBUTE, 1},
    {"{\n  \"size\": \n}", SN_ERR_SYNTAX, 3},
    {"", SN_ERR_SYNTAX, 1},
};

START_TEST(bad_preprocessor_config) {
  sn_image_transform t;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(read_config(bad_configs[_i].text, &t, d), bad_configs[_i].want);
  ck_assert_uint_eq(sn_diag_get(d, 0)->loc.line, bad_configs[_i].line);
  sn_diag_destroy(d);
}
END_TEST

TCase *image_tests(void) {
  TCase *t = tcase_create("image");
  tcase_add_test(t, png_reads);
  tcase_add_test(t, jpeg_reads);
  tcase_add_test(t, cut_files_are_refused);
  tcase_add_loop_test(t, resizes_as_pillow, 0, 6);
  tcase_add_test(t, normalises_and_crops);
  tcase_add_test(t, preprocessor_config);
  tcase_add_loop_test(t, bad_preprocessor_config, 0, (int)(sizeof bad_configs / sizeof *bad_configs));
  return t;
}
