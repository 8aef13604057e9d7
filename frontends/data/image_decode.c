/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* JPEG through libjpeg, PNG through libpng's simplified interface; both optional at build time. */
#include "data_internal.h"

#include <setjmp.h>
#include <string.h>

#ifdef SINTER_HAVE_JPEG
#include <jpeglib.h>
#include <jerror.h> /* needs jpeglib.h before it */
#endif
#ifdef SINTER_HAVE_PNG
#include <png.h>
#endif

#define MAX_PIXELS (INT64_C(1) << 28) /* beyond: taken for damage, before memory is asked for */

void sn_image_finish(sn_image *i) {
  sn_free(i->data);
  *i = (sn_image){0};
}

static sn_status damaged(sn_diag *d, const char *name, const char *why) { return sn_error(d, (sn_loc){name, 0, 0}, SN_ERR_CORRUPT, "damaged image: %s", why); }

static sn_status make_room(sn_diag *d, const char *name, int64_t height, int64_t width, int64_t channels, sn_image *out) {
  if (height <= 0 || width <= 0 || height > MAX_PIXELS / width) return damaged(d, name, "impossible size");
  *out = (sn_image){height, width, channels, sn_alloc((size_t)(height * width * channels))};
  return out->data ? SN_OK : sn_out_of_memory(d, (size_t)(height * width * channels));
}

#ifdef SINTER_HAVE_JPEG
/* libjpeg's way out of an error is a long jump; warnings that mean lost data count as errors, as Pillow has it. */
typedef struct jpeg_fault {
  struct jpeg_error_mgr base;
  jmp_buf out;
  char message[JMSG_LENGTH_MAX];
} jpeg_fault;

static void jpeg_leave(j_common_ptr c) {
  jpeg_fault *f = (jpeg_fault *)c->err;
  c->err->format_message(c, f->message);
  longjmp(f->out, 1);
}

static void jpeg_warning(j_common_ptr c, int level) {
  if (level >= 0) return;
  if (c->err->msg_code == JWRN_JPEG_EOF || c->err->msg_code == JWRN_HIT_MARKER || c->err->msg_code == JWRN_HUFF_BAD_CODE) jpeg_leave(c);
}

/* CMYK is stored inverted by all that write it (Adobe). */
static void cmyk_to_rgb(uint8_t *row, const uint8_t *cmyk, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (int c = 0; c < 3; c++) row[3 * i + c] = (uint8_t)((cmyk[4 * i + c] * cmyk[4 * i + 3] + 127) / 255);
}

typedef struct jpeg_job {
  sn_diag *d;
  const char *name;
  int64_t channels;
  sn_image *out;
  uint8_t *cmyk; /* a row */
} jpeg_job;

static sn_status jpeg_rows(struct jpeg_decompress_struct *c, jpeg_job *j) {
  jpeg_read_header(c, TRUE);
  bool cmyk = c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK;
  c->out_color_space = cmyk ? JCS_CMYK : j->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (c->out_color_space == JCS_GRAYSCALE && c->jpeg_color_space == JCS_RGB) c->out_color_space = JCS_RGB;
  c->dct_method = JDCT_ISLOW;
  SN_TRY(make_room(j->d, j->name, c->image_height, c->image_width, cmyk ? 3 : c->out_color_space == JCS_RGB ? 3 : 1, j->out));
  if (cmyk && !(j->cmyk = sn_alloc((size_t)c->image_width * 4))) return sn_out_of_memory(j->d, (size_t)c->image_width * 4);
  jpeg_start_decompress(c);
  size_t stride = (size_t)(j->out->width * j->out->channels);
  while (c->output_scanline < c->output_height) {
    uint8_t *row = j->out->data + stride * c->output_scanline;
    JSAMPROW into = cmyk ? j->cmyk : row;
    jpeg_read_scanlines(c, &into, 1);
    if (cmyk) cmyk_to_rgb(row, j->cmyk, (size_t)j->out->width);
  }
  jpeg_finish_decompress(c);
  return SN_OK;
}

static sn_status decode_jpeg(sn_diag *d, const char *name, const uint8_t *bytes, size_t n, int64_t channels, sn_image *out) {
  struct jpeg_decompress_struct c;
  jpeg_fault fault;
  jpeg_job job = {d, name, channels, out, NULL};
  sn_status s;
  c.err = jpeg_std_error(&fault.base);
  fault.base.error_exit = jpeg_leave;
  fault.base.emit_message = jpeg_warning;
  jpeg_create_decompress(&c);
  if (setjmp(fault.out)) {
    s = damaged(d, name, fault.message);
  } else {
    jpeg_mem_src(&c, bytes, (unsigned long)n);
    s = jpeg_rows(&c, &job);
  }
  jpeg_destroy_decompress(&c);
  sn_free(job.cmyk);
  return s;
}
#else
static sn_status decode_jpeg(sn_diag *d, const char *name, const uint8_t *bytes, size_t n, int64_t channels, sn_image *out) {
  (void)bytes, (void)n, (void)channels, (void)out;
  sn_status s = sn_error(d, (sn_loc){name, 0, 0}, SN_ERR_UNAVAILABLE, "this build cannot read JPEG images");
  sn_hint(d, "install libjpeg-dev and build again");
  return s;
}
#endif

#ifdef SINTER_HAVE_PNG
/* Always read as colour with alpha, and the alpha dropped, as Pillow's convert("RGB") does: libpng's own way would blend with a background. */
static sn_status decode_png(sn_diag *d, const char *name, const uint8_t *bytes, size_t n, int64_t channels, sn_image *out) {
  (void)channels;
  png_image p;
  memset(&p, 0, sizeof p);
  p.version = PNG_IMAGE_VERSION;
  sn_status s = SN_OK;
  if (!png_image_begin_read_from_memory(&p, bytes, n)) s = damaged(d, name, p.message);
  if (s == SN_OK) s = make_room(d, name, p.height, p.width, 4, out);
  p.format = PNG_FORMAT_RGBA;
  if (s == SN_OK && !png_image_finish_read(&p, NULL, out->data, 0, NULL)) s = damaged(d, name, p.message);
  png_image_free(&p);
  if (s != SN_OK) return s;
  size_t pixels = (size_t)(out->height * out->width);
  for (size_t i = 0; i < pixels; i++) memmove(out->data + 3 * i, out->data + 4 * i, 3);
  out->channels = 3;
  return SN_OK;
}
#else
static sn_status decode_png(sn_diag *d, const char *name, const uint8_t *bytes, size_t n, int64_t channels, sn_image *out) {
  (void)bytes, (void)n, (void)channels, (void)out;
  sn_status s = sn_error(d, (sn_loc){name, 0, 0}, SN_ERR_UNAVAILABLE, "this build cannot read PNG images");
  sn_hint(d, "install libpng-dev and build again");
  return s;
}
#endif

/* Grey by ITU-R BT.601, as Pillow has it: (299 R + 587 G + 114 B) / 1000, in 16-bit fixed point. */
bool sn_image_match_channels(sn_image *i, int64_t channels) {
  if (i->channels == channels) return true;
  size_t n = (size_t)(i->height * i->width);
  uint8_t *data = sn_alloc(n * (size_t)channels);
  if (!data) return false;
  for (size_t k = 0; k < n; k++) {
    const uint8_t *from = i->data + k * (size_t)i->channels;
    if (channels == 1) data[k] = (uint8_t)((from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 0x8000u) >> 16);
    else memset(data + 3 * k, from[0], 3);
  }
  sn_free(i->data);
  i->data = data;
  i->channels = channels;
  return true;
}

sn_status sn_image_decode(sn_diag *d, const char *name, const void *bytes, size_t n_bytes, int64_t channels, sn_image *out) {
  static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  *out = (sn_image){0};
  sn_status s;
  if (channels != 1 && channels != 3) return sn_error(d, (sn_loc){name, 0, 0}, SN_ERR_UNSUPPORTED, "images have 1 or 3 channels, not %lld", (long long)channels);
  if (n_bytes >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0) s = decode_jpeg(d, name, bytes, n_bytes, channels, out);
  else if (n_bytes >= sizeof png && memcmp(bytes, png, sizeof png) == 0) s = decode_png(d, name, bytes, n_bytes, channels, out);
  else return sn_error(d, (sn_loc){name, 0, 0}, SN_ERR_UNSUPPORTED, n_bytes ? "neither a JPEG nor a PNG image" : "an empty file");
  if (s == SN_OK && !sn_image_match_channels(out, channels)) s = sn_out_of_memory(d, (size_t)(out->height * out->width * channels));
  if (s != SN_OK) sn_image_finish(out);
  return s;
}

sn_status sn_image_read(sn_diag *d, const char *path, int64_t channels, sn_image *out) {
  char *bytes = NULL;
  size_t n = 0;
  *out = (sn_image){0};
  SN_TRY(sn_file_read(d, path, &bytes, &n));
  sn_status s = sn_image_decode(d, path, bytes, n, channels, out);
  sn_free(bytes);
  return s;
}
