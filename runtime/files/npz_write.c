/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Writes .npz: members stored, in the bundle's order, all of one fixed date, so that equal bundles give equal files. */
#include "files_internal.h"

#include <string.h>
#include <zlib.h>

#define DOS_DATE 0x0021u /* 1980-01-01 */
#define UTF8_NAME 0x0800u

typedef struct npz_writer {
  sn_diag *d;
  const char *path;
  const sn_bundle *bundle;
  sn_str directory;
  uint64_t offset;
} npz_writer;

static void put16(sn_str *s, uint32_t v) {
  sn_str_char(s, (char)(v & 0xff));
  sn_str_char(s, (char)(v >> 8 & 0xff));
}

static void put32(sn_str *s, uint32_t v) {
  put16(s, v & 0xffff);
  put16(s, v >> 16);
}

static uint32_t checksum(const sn_str *header, const sn_array *a) {
  uLong crc = crc32(0, (const Bytef *)header->data, (uInt)header->n);
  /* A NULL buffer would start over, and an empty borrowed array may have one. */
  return (uint32_t)(sn_array_bytes(a) > 0 ? crc32_z(crc, sn_array_data(a), sn_array_bytes(a)) : crc);
}

/* What local and central header share: version needed to name length. */
static void put_common(sn_str *s, const char *name, uint32_t crc, uint64_t size) {
  put16(s, 20); /* needs version 2.0 */
  put16(s, UTF8_NAME);
  put16(s, 0); /* stored */
  put16(s, 0); /* midnight */
  put16(s, DOS_DATE);
  put32(s, crc);
  put32(s, (uint32_t)size);
  put32(s, (uint32_t)size);
  put16(s, (uint32_t)strlen(name) + 4);
  put16(s, 0); /* extra */
}

static void put_name(sn_str *s, const char *name) {
  sn_str_add(s, name);
  sn_str_add(s, ".npy");
}

static void put_central(npz_writer *w, const char *name, const char *type, uint32_t crc, uint64_t size) {
  sn_str *s = &w->directory;
  sn_str comment = {0};
  if (type) sn_str_printf(&comment, "sinter.type=%s", type);
  put32(s, 0x02014b50u);
  put16(s, 20); /* made by version 2.0 */
  put_common(s, name, crc, size);
  put16(s, (uint32_t)comment.n);
  put16(s, 0); /* disk */
  put16(s, 0); /* internal attributes */
  put32(s, 0); /* external attributes */
  put32(s, (uint32_t)w->offset);
  put_name(s, name);
  if (comment.n > 0) sn_str_add_n(s, comment.data, comment.n);
  s->failed |= comment.failed;
  sn_str_finish(&comment);
}

static sn_status put_bytes(FILE *to, const void *data, size_t n) {
  return n == 0 || fwrite(data, 1, n, to) == n ? SN_OK : SN_ERR_IO;
}

static sn_status write_static(npz_writer *w, const char *name, const sn_array *a, FILE *to) {
  sn_str local = {0}, npy = {0};
  bool unnamed;
  sn_status status = sn_npy_header(a, &npy, &unnamed);
  if (status == SN_OK) {
    uint64_t size = npy.n + sn_array_bytes(a);
    uint32_t crc = checksum(&npy, a);
    put_central(w, name, unnamed ? sn_type_text(sn_array_shape(a)->type) : NULL, crc, size);
    put32(&local, 0x04034b50u);
    put_common(&local, name, crc, size);
    put_name(&local, name);
    if (local.failed || w->directory.failed) status = SN_ERR_MEMORY;
    if (status == SN_OK) status = put_bytes(to, local.data, local.n);
    if (status == SN_OK) status = put_bytes(to, npy.data, npy.n);
    if (status == SN_OK) status = put_bytes(to, sn_array_data(a), sn_array_bytes(a));
    w->offset += local.n + size;
  }
  sn_str_finish(&local);
  sn_str_finish(&npy);
  return status;
}

static sn_status write_member(npz_writer *w, size_t i, FILE *to) {
  sn_array *a;
  SN_TRY(sn_files_static(sn_bundle_at(w->bundle, i), &a));
  sn_status status = write_static(w, sn_bundle_name(w->bundle, i), a, to);
  sn_array_release(a);
  return status;
}

static sn_status write_members(void *ctx, FILE *to) {
  npz_writer *w = ctx;
  size_t n = sn_bundle_count(w->bundle);
  for (size_t i = 0; i < n; i++) {
    sn_status status = write_member(w, i, to);
    if (status == SN_ERR_MEMORY) return sn_out_of_memory(w->d, 0);
    if (status != SN_OK) return status;
  }
  sn_str *s = &w->directory;
  uint64_t directory_bytes = s->n;
  put32(s, 0x06054b50u);
  put32(s, 0); /* disks */
  put16(s, (uint32_t)n);
  put16(s, (uint32_t)n);
  put32(s, (uint32_t)directory_bytes);
  put32(s, (uint32_t)w->offset);
  put16(s, 0); /* comment */
  return s->failed ? sn_out_of_memory(w->d, s->n) : put_bytes(to, s->data, s->n);
}

/* Above these the format needs zip64. An .npy header and a member's two zip headers stay far below 2 KiB beyond the name. */
static sn_status check_limits(sn_diag *d, const char *path, const sn_bundle *b) {
  uint64_t total = 0;
  sn_loc at = {path, 0, 0};
  for (size_t i = 0; i < sn_bundle_count(b); i++) {
    const char *name = sn_bundle_name(b, i);
    size_t n = strlen(name), bad = 0;
    if (n == 0 || n > 0xffff - 4 || !sn_utf8_valid(name, n, &bad)) {
      return sn_error(d, at, SN_ERR_NAME, "array %zu has a name that is empty, too long or no UTF-8", i);
    }
    total += sn_array_bytes(sn_bundle_at(b, i)) + 2 * n + 2048;
  }
  if (total <= UINT32_MAX && sn_bundle_count(b) < 0xffff) return SN_OK;
  sn_status status = sn_error(d, at, SN_ERR_UNSUPPORTED, "%zu arrays of %llu bytes are too much for .npz without zip64",
                              sn_bundle_count(b), (unsigned long long)total);
  sn_hint(d, "write .safetensors");
  return status;
}

sn_status sn_npz_write(sn_diag *d, const char *path, const sn_bundle *b) {
  SN_TRY(check_limits(d, path, b));
  npz_writer w = {.d = d, .path = path, .bundle = b};
  sn_status status = sn_file_write_with(d, path, write_members, &w);
  sn_str_finish(&w.directory);
  return status;
}
