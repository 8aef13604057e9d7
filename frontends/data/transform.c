/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* preprocessor_config.json and what it does to an image. */
#include <cjson/cJSON.h>
#include <string.h>

#include "data_internal.h"
#include "sinter/json.h"

#define MAX_SIDE 65536

void sn_image_transform_init(sn_image_transform *t, int64_t height, int64_t width) {
  *t = (sn_image_transform){.do_resize = true, .resize_height = height, .resize_width = width, .resample = SN_RESAMPLE_BILINEAR,
                            .do_rescale = true, .rescale_factor = 1.0 / 255.0, .do_normalize = true};
  for (int c = 0; c < 4; c++) t->mean[c] = t->deviation[c] = 0.5;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* A number, {"height", "width"} or {"shortest_edge"}. */
static sn_status read_size(const sn_json *j, const char *key, int64_t *height, int64_t *width, int64_t *shortest) {
  const cJSON *e = sn_json_entry(j, key);
  if (!e) return SN_OK;
  int64_t side = 0;
  *shortest = *height = *width = 0;
  if (cJSON_IsNumber(e)) {
    SN_TRY(sn_json_int(j, j->root, key, 1, MAX_SIDE, &side));
    *height = *width = side;
    return SN_OK;
  }
  SN_TRY(sn_json_int(j, e, "height", 1, MAX_SIDE, height));
  SN_TRY(sn_json_int(j, e, "width", 1, MAX_SIDE, width));
  SN_TRY(sn_json_int(j, e, "shortest_edge", 1, MAX_SIDE, shortest));
  if ((*height && *width && !*shortest) || (!*height && !*width && *shortest)) return SN_OK;
  sn_status s = sn_error(j->d, sn_json_loc(j, key), SN_ERR_UNSUPPORTED, "`%s` has a form that is not known here", key);
  sn_hint(j->d, "a number, {\"height\", \"width\"} or {\"shortest_edge\"} is understood");
  return s;
}

static sn_status read_channels(const sn_json *j, const char *key, double *out) {
  const cJSON *e = sn_json_entry(j, key);
  int n = e ? cJSON_GetArraySize(e) : 0;
  if (!e) return SN_OK;
  if (!cJSON_IsArray(e) || n < 1 || n > 4) return sn_error(j->d, sn_json_loc(j, key), SN_ERR_ATTRIBUTE, "`%s` must be a list of 1 to 4 numbers", key);
  for (int c = 0; c < 4; c++) {
    const cJSON *v = cJSON_GetArrayItem(e, c < n ? c : n - 1);
    if (!cJSON_IsNumber(v)) return sn_error(j->d, sn_json_loc(j, key), SN_ERR_ATTRIBUTE, "`%s` must hold numbers", key);
    out[c] = v->valuedouble;
  }
  return SN_OK;
}

static sn_status check_type(const sn_json *j) {
  static const char *const known[] = {"ViTImageProcessor", "ViTImageProcessorFast", "ViTFeatureExtractor"};
  const char *type = NULL;
  SN_TRY(sn_json_text(j, j->root, "image_processor_type", &type));
  if (!type) return SN_OK;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(type, known[i]) == 0) return SN_OK;
  return sn_error(j->d, sn_json_loc(j, "image_processor_type"), SN_ERR_UNSUPPORTED, "`%s` is not known here; ViTImageProcessor is", type);
}

static sn_status read_fields(const sn_json *j, sn_image_transform *t) {
  int64_t resample = t->resample, none = 0;
  SN_TRY(check_type(j));
  SN_TRY(sn_json_bool(j, j->root, "do_resize", &t->do_resize));
  SN_TRY(read_size(j, "size", &t->resize_height, &t->resize_width, &t->shortest_edge));
  SN_TRY(sn_json_int(j, j->root, "resample", 0, 5, &resample));
  if (resample != SN_RESAMPLE_NEAREST && resample != SN_RESAMPLE_BILINEAR && resample != SN_RESAMPLE_BICUBIC)
    return sn_error(j->d, sn_json_loc(j, "resample"), SN_ERR_UNSUPPORTED, "`resample` %lld; 0 (nearest), 2 (bilinear), 3 (bicubic) are known", (long long)resample);
  t->resample = (sn_resample)resample;
  SN_TRY(sn_json_bool(j, j->root, "do_center_crop", &t->do_center_crop));
  SN_TRY(read_size(j, "crop_size", &t->crop_height, &t->crop_width, &none));
  if (none || (t->do_center_crop && !t->crop_height))
    return sn_error(j->d, sn_json_loc(j, "crop_size"), SN_ERR_ATTRIBUTE, "`do_center_crop` needs a `crop_size` with height and width");
  SN_TRY(sn_json_bool(j, j->root, "do_rescale", &t->do_rescale));
  SN_TRY(sn_json_number(j, j->root, "rescale_factor", &t->rescale_factor));
  SN_TRY(sn_json_bool(j, j->root, "do_normalize", &t->do_normalize));
  SN_TRY(read_channels(j, "image_mean", t->mean));
  SN_TRY(read_channels(j, "image_std", t->deviation));
  for (int c = 0; c < 4; c++)
    if (t->deviation[c] == 0) return sn_error(j->d, sn_json_loc(j, "image_std"), SN_ERR_ATTRIBUTE, "`image_std` must not hold 0");
  return SN_OK;
}

sn_status sn_image_transform_read(sn_diag *d, const char *path, sn_image_transform *t) {
  sn_json j;
  SN_TRY(sn_json_read(d, path, &j));
  sn_image_transform read = *t;
  sn_status s = read_fields(&j, &read);
  if (s == SN_OK) *t = read;
  sn_json_finish(&j);
  return s;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void write_channels(sn_str *to, const char *key, const double *v, int n) {
  sn_str_printf(to, "  \"%s\": [", key);
  for (int c = 0; c < n; c++) sn_str_printf(to, "%s%.17g", c ? ", " : "", v[c]);
  sn_str_add(to, "],\n");
}

sn_status sn_image_transform_write(sn_diag *d, const char *path, const sn_image_transform *t, int channels) {
  sn_str s = {0};
  sn_str_printf(&s, "{\n  \"image_processor_type\": \"ViTImageProcessor\",\n");
  sn_str_printf(&s, "  \"do_resize\": %s,\n", t->do_resize ? "true" : "false");
  if (t->shortest_edge) sn_str_printf(&s, "  \"size\": {\"shortest_edge\": %lld},\n", (long long)t->shortest_edge);
  else sn_str_printf(&s, "  \"size\": {\"height\": %lld, \"width\": %lld},\n", (long long)t->resize_height, (long long)t->resize_width);
  sn_str_printf(&s, "  \"resample\": %d,\n", (int)t->resample);
  if (t->do_center_crop)
    sn_str_printf(&s, "  \"do_center_crop\": true,\n  \"crop_size\": {\"height\": %lld, \"width\": %lld},\n", (long long)t->crop_height, (long long)t->crop_width);
  sn_str_printf(&s, "  \"do_rescale\": %s,\n  \"rescale_factor\": %.17g,\n", t->do_rescale ? "true" : "false", t->rescale_factor);
  write_channels(&s, "image_mean", t->mean, channels);
  write_channels(&s, "image_std", t->deviation, channels);
  sn_str_printf(&s, "  \"do_normalize\": %s\n}\n", t->do_normalize ? "true" : "false");
  sn_status status = s.failed ? sn_out_of_memory(d, s.cap) : sn_file_write(d, path, s.data, s.n);
  sn_str_finish(&s);
  return status;
}

/* ---- acting -------------------------------------------------------------------------------------------------------- */

static void resized_size(const sn_image_transform *t, int64_t height, int64_t width, int64_t *h, int64_t *w) {
  *h = height;
  *w = width;
  if (!t->do_resize) return;
  *h = t->resize_height;
  *w = t->resize_width;
  if (!t->shortest_edge) return;
  bool tall = height > width;
  int64_t edge = t->shortest_edge, longer = edge * (tall ? height : width) / (tall ? width : height);
  *h = tall ? longer : edge;
  *w = tall ? edge : longer;
}

void sn_image_transform_size(const sn_image_transform *t, int64_t height, int64_t width, int64_t *out_height, int64_t *out_width) {
  resized_size(t, height, width, out_height, out_width);
  if (!t->do_center_crop) return;
  *out_height = t->crop_height;
  *out_width = t->crop_width;
}

/* Pixels of `i` around its centre, as floats; black (0) outside. */
static void crop_to_floats(const sn_image_transform *t, const sn_image *i, sn_image_layout layout, int64_t height, int64_t width, float *out) {
  int64_t top = (i->height - height) / 2, left = (i->width - width) / 2, plane = height * width;
  double scale = t->do_rescale ? t->rescale_factor : 1;
  for (int64_t y = 0; y < height; y++)
    for (int64_t x = 0; x < width; x++)
      for (int64_t c = 0; c < i->channels; c++) {
        int64_t v = y + top, u = x + left;
        bool inside = v >= 0 && v < i->height && u >= 0 && u < i->width;
        double p = inside ? i->data[(v * i->width + u) * i->channels + c] * scale : 0;
        if (t->do_normalize) p = (p - t->mean[c]) / t->deviation[c];
        out[layout == SN_IMAGE_NCHW ? c * plane + y * width + x : (y * width + x) * i->channels + c] = (float)p;
      }
}

sn_status sn_image_apply(const sn_image_transform *t, const sn_image *from, sn_image_layout layout, float *out) {
  int64_t h, w, height, width;
  resized_size(t, from->height, from->width, &h, &w);
  sn_image_transform_size(t, from->height, from->width, &height, &width);
  sn_image resized = {0};
  if (h != from->height || w != from->width) SN_TRY(sn_image_resize(from, h, w, t->resample, &resized));
  crop_to_floats(t, resized.data ? &resized : from, layout, height, width, out);
  sn_image_finish(&resized);
  return SN_OK;
}
