/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* .npz: a zip of .npy members, read by its central directory (PKWARE APPNOTE.TXT 6.3.10), stored or deflated.
 *
 *   local header | name | extra | data     …once a member
 *   central header | name | extra | comment  …once a member
 *   end of central directory | comment
 *
 * A type without a NumPy name is kept in the comment of its member, `sinter.type=bf16`, which NumPy ignores. */
#include "files_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, DEFLATE_MAX_RATIO = 1040 };
#define LOCAL_MAGIC 0x04034b50u
#define CENTRAL_MAGIC 0x02014b50u
#define END_MAGIC 0x06054b50u
#define TYPE_COMMENT "sinter.type="

typedef struct zip_member {
  const char *name; /* in the arena */
  const char *type; /* from its comment, or NULL */
  uint16_t flags, method;
  uint32_t crc, packed, size, local;
  uint64_t data, end; /* offsets in the file */
} zip_member;

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) | (uint32_t)get16(p + 2) << 16; }

static sn_status zip_fault(const sn_files_input *in, const char *what) {
  return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "zip: %s", what);
}

static sn_status member_fault(const sn_files_input *in, const zip_member *m, sn_status status, const char *what) {
  return sn_error(in->d, SN_FILES_AT(in), status, "zip member '%s': %s", m->name, what);
}

bool sn_npz_is(const uint8_t *data, size_t n_bytes) {
  if (n_bytes < 4) return false;
  return get32(data) == LOCAL_MAGIC || get32(data) == END_MAGIC;
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */

/* The end record is the last one whose comment runs to the end of the file. */
static sn_status find_end(const sn_files_input *in, size_t *at) {
  for (size_t comment = 0; comment <= 0xffff && comment + END_BYTES <= in->n_bytes; comment++) {
    size_t i = in->n_bytes - END_BYTES - comment;
    if (get32(in->data + i) == END_MAGIC && get16(in->data + i + 20) == comment) {
      *at = i;
      return SN_OK;
    }
  }
  return zip_fault(in, "no end of central directory; the file is cut short");
}

static sn_status read_end(const sn_files_input *in, size_t *begin, size_t *end, uint32_t *n) {
  size_t at = 0;
  SN_TRY(find_end(in, &at));
  const uint8_t *p = in->data + at;
  uint32_t size = get32(p + 12), offset = get32(p + 16);
  *n = get16(p + 10);
  if (*n == 0xffff || size == UINT32_MAX || offset == UINT32_MAX) {
    sn_status status = sn_error(in->d, SN_FILES_AT(in), SN_ERR_UNSUPPORTED, "zip64 archives are not read");
    sn_hint(in->d, "above 4 GiB use .safetensors");
    return status;
  }
  if (get16(p + 4) != 0 || get16(p + 6) != 0 || get16(p + 8) != *n) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_UNSUPPORTED, "zip archives in several parts are not read");
  }
  if ((uint64_t)offset + size > at) return zip_fault(in, "the central directory lies outside the file");
  *begin = offset;
  *end = (size_t)offset + size;
  return SN_OK;
}

static sn_status read_comment(sn_arena *arena, const uint8_t *comment, size_t n, zip_member *m) {
  size_t prefix = strlen(TYPE_COMMENT);
  if (n <= prefix || memcmp(comment, TYPE_COMMENT, prefix) != 0) return SN_OK;
  m->type = sn_arena_string_n(arena, (const char *)comment + prefix, n - prefix);
  return m->type ? SN_OK : SN_ERR_MEMORY;
}

static sn_status read_name(const sn_files_input *in, sn_arena *arena, const uint8_t *name, size_t n, zip_member *m) {
  size_t bad = 0;
  if (n == 0 || memchr(name, 0, n) || !sn_utf8_valid((const char *)name, n, &bad)) {
    return zip_fault(in, "a member's name is empty, holds a NUL or is no UTF-8");
  }
  m->name = sn_arena_string_n(arena, (const char *)name, n);
  return m->name ? SN_OK : sn_out_of_memory(in->d, n);
}

static sn_status check_member(const sn_files_input *in, const zip_member *m) {
  if (m->flags & 1) return member_fault(in, m, SN_ERR_UNSUPPORTED, "encrypted members are not read");
  if (m->packed == UINT32_MAX || m->size == UINT32_MAX || m->local == UINT32_MAX) {
    return member_fault(in, m, SN_ERR_UNSUPPORTED, "zip64 members (above 4 GiB) are not read; use .safetensors");
  }
  if (m->method != 0 && m->method != 8) {
    return member_fault(in, m, SN_ERR_UNSUPPORTED, "compressed by a method other than deflate");
  }
  if (m->method == 0 && m->packed != m->size) {
    return member_fault(in, m, SN_ERR_CORRUPT, "stored, but its two sizes differ");
  }
  /* Deflate cannot do better than about 1032:1; a claim beyond is refused before memory is spent on it. */
  if (m->method == 8 && m->size > (uint64_t)m->packed * DEFLATE_MAX_RATIO + 64) {
    return member_fault(in, m, SN_ERR_CORRUPT, "its size cannot come from so few compressed bytes");
  }
  return SN_OK;
}

/* Where the data lies: behind a local header that must agree with the directory's name. */
static sn_status locate(const sn_files_input *in, size_t directory, zip_member *m) {
  if ((uint64_t)m->local + LOCAL_BYTES > directory || get32(in->data + m->local) != LOCAL_MAGIC) {
    return member_fault(in, m, SN_ERR_CORRUPT, "no local header where the directory says");
  }
  const uint8_t *p = in->data + m->local;
  size_t name = get16(p + 26), extra = get16(p + 28);
  m->data = (uint64_t)m->local + LOCAL_BYTES + name + extra;
  m->end = m->data + m->packed;
  if (m->end > directory) return member_fault(in, m, SN_ERR_CORRUPT, "its data runs into the directory");
  if (name != strlen(m->name) || memcmp(p + LOCAL_BYTES, m->name, name) != 0) {
    return member_fault(in, m, SN_ERR_CORRUPT, "its local header has another name");
  }
  return SN_OK;
}

static sn_status read_central(const sn_files_input *in, sn_arena *arena, size_t directory, size_t end, size_t *at,
                              zip_member *m) {
  const uint8_t *p = in->data + *at;
  if (end - *at < CENTRAL_BYTES || get32(p) != CENTRAL_MAGIC) return zip_fault(in, "the central directory is damaged");
  size_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32);
  if (end - *at - CENTRAL_BYTES < name + extra + comment) return zip_fault(in, "the central directory is cut short");
  *m = (zip_member){.flags = get16(p + 8), .method = get16(p + 10), .crc = get32(p + 16), .packed = get32(p + 20),
                    .size = get32(p + 24), .local = get32(p + 42)};
  SN_TRY(read_name(in, arena, p + CENTRAL_BYTES, name, m));
  SN_TRY(check_member(in, m));
  if (read_comment(arena, p + CENTRAL_BYTES + name + extra, comment, m) != SN_OK) return sn_out_of_memory(in->d, comment);
  SN_TRY(locate(in, directory, m));
  *at += CENTRAL_BYTES + name + extra + comment;
  return SN_OK;
}

static int by_place(const void *a, const void *b) {
  uint32_t x = ((const zip_member *)a)->local, y = ((const zip_member *)b)->local;
  return x < y ? -1 : x > y;
}

/* No byte belongs to two members, so that a small file cannot stand for a huge one. */
static sn_status check_overlap(const sn_files_input *in, const zip_member *members, uint32_t n) {
  zip_member *sorted = sn_alloc_zero(n, sizeof *sorted);
  if (!sorted) return sn_out_of_memory(in->d, n * sizeof *sorted);
  if (n > 0) memcpy(sorted, members, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_place);
  sn_status status = SN_OK;
  for (uint32_t i = 1; i < n && status == SN_OK; i++) {
    if (sorted[i].local < sorted[i - 1].end) status = member_fault(in, &sorted[i], SN_ERR_CORRUPT, "overlaps another");
  }
  sn_free(sorted);
  return status;
}

/* ---- one member -------------------------------------------------------------------------------------------------- */

typedef struct inflate_stream {
  sn_files_stream stream; /* first: the reader casts back */
  z_stream z;
  const zip_member *member;
  uLong crc;
} inflate_stream;

static void *zlib_alloc(void *unused, uInt n, uInt each) {
  (void)unused;
  return sn_alloc_zero(n, each);
}

static void zlib_free(void *unused, void *p) {
  (void)unused;
  sn_free(p);
}

static sn_status inflate_read(sn_files_stream *s, void *to, size_t n_bytes) {
  inflate_stream *i = (inflate_stream *)s;
  uint8_t *next = to;
  size_t left = n_bytes;
  while (left > 0) {
    uInt piece = left < 1u << 30 ? (uInt)left : 1u << 30; /* zlib counts in unsigned int */
    i->z.next_out = next;
    i->z.avail_out = piece;
    int result = inflate(&i->z, Z_SYNC_FLUSH);
    size_t got = piece - i->z.avail_out;
    i->crc = crc32(i->crc, next, (uInt)got);
    next += got;
    left -= got;
    if (result == Z_MEM_ERROR) return sn_out_of_memory(s->in->d, 0);
    if (left > 0 && (result != Z_OK || got == 0)) {
      return member_fault(s->in, i->member, SN_ERR_CORRUPT, "its compressed data is damaged or cut short");
    }
  }
  s->left -= n_bytes;
  return SN_OK;
}

/* All input used, stream ended, checksum right. */
static sn_status inflate_end_check(inflate_stream *i) {
  uint8_t none[1];
  i->z.next_out = none;
  i->z.avail_out = 1;
  int result = inflate(&i->z, Z_FINISH); /* says the same again when it was at the end already */
  if (result != Z_STREAM_END || i->z.avail_out != 1 || i->z.avail_in != 0) {
    return member_fault(i->stream.in, i->member, SN_ERR_CORRUPT, "its compressed data does not end where it should");
  }
  return i->crc == i->member->crc ? SN_OK
                                  : member_fault(i->stream.in, i->member, SN_ERR_CORRUPT, "its checksum is wrong");
}

static sn_status read_deflated(const sn_files_input *in, const zip_member *m, const char *name, sn_array **out) {
  inflate_stream i = {.stream = {inflate_read, m->size, in, NULL}, .member = m, .crc = crc32(0, NULL, 0)};
  i.z.zalloc = zlib_alloc;
  i.z.zfree = zlib_free;
  i.z.next_in = (Bytef *)(uintptr_t)(in->data + m->data); /* zlib's field is not const; it only reads */
  i.z.avail_in = m->packed;
  if (inflateInit2(&i.z, -MAX_WBITS) != Z_OK) return sn_out_of_memory(in->d, 0);
  sn_status status = sn_npy_read(&i.stream, name, out);
  if (status == SN_OK) status = inflate_end_check(&i);
  inflateEnd(&i.z);
  if (status != SN_OK) {
    sn_array_release(*out);
    *out = NULL;
  }
  return status;
}

/* crc32 counts in unsigned int, which a member below 4 GiB fits. */
static sn_status read_stored(const sn_files_input *in, const zip_member *m, const char *name, sn_array **out) {
  if (crc32(crc32(0, NULL, 0), in->data + m->data, m->size) != m->crc) {
    return member_fault(in, m, SN_ERR_CORRUPT, "its checksum is wrong");
  }
  sn_files_stream s;
  sn_files_stream_memory(&s, in, in->data + m->data, m->size);
  return sn_npy_read(&s, name, out);
}

/* The stored unsigned integers seen as the type they stand for. */
static sn_status retype(const sn_files_input *in, const char *name, const char *text, sn_array **a) {
  const sn_shape *stored = sn_array_shape(*a);
  sn_shape shape = *stored;
  SN_TRY(sn_files_true_type(in, name, text, stored->type, &shape.type));
  sn_array *typed;
  sn_status status = sn_array_create_from(&shape, sn_array_data(*a), &typed);
  if (status != SN_OK) return sn_out_of_memory(in->d, sn_array_bytes(*a));
  sn_files_normalise(shape.type, sn_array_data(typed), sn_shape_elements(&shape));
  sn_array_release(*a);
  *a = typed;
  return SN_OK;
}

static sn_status read_member(const sn_files_input *in, sn_arena *arena, const zip_member *m, sn_bundle *b) {
  size_t n = strlen(m->name);
  if (m->name[n - 1] == '/' && m->size == 0) return SN_OK; /* a folder */
  if (n < 5 || strcmp(m->name + n - 4, ".npy") != 0) {
    return member_fault(in, m, SN_ERR_UNSUPPORTED, "not an .npy file; an .npz holds nothing else");
  }
  const char *name = sn_arena_string_n(arena, m->name, n - 4);
  if (!name) return sn_out_of_memory(in->d, n);
  if (sn_bundle_get(b, name)) return member_fault(in, m, SN_ERR_CORRUPT, "its name is there twice");
  sn_array *a = NULL;
  sn_status status = m->method == 8 ? read_deflated(in, m, name, &a) : read_stored(in, m, name, &a);
  if (status == SN_OK && m->type) status = retype(in, name, m->type, &a);
  if (status == SN_OK && sn_bundle_set(b, name, a) != SN_OK) status = sn_out_of_memory(in->d, n);
  sn_array_release(a);
  return status;
}

static sn_status read_members(const sn_files_input *in, sn_arena *arena, sn_bundle *b) {
  size_t begin = 0, end = 0;
  uint32_t n = 0;
  SN_TRY(read_end(in, &begin, &end, &n));
  zip_member *members = SN_NEW_N(arena, zip_member, n);
  if (!members) return sn_out_of_memory(in->d, n * sizeof *members);
  size_t at = begin;
  for (uint32_t i = 0; i < n; i++) SN_TRY(read_central(in, arena, begin, end, &at, &members[i]));
  if (at != end) return zip_fault(in, "the central directory is longer than its members");
  SN_TRY(check_overlap(in, members, n));
  for (uint32_t i = 0; i < n; i++) SN_TRY(read_member(in, arena, &members[i], b));
  return SN_OK;
}

sn_status sn_npz_read(const sn_files_input *in, sn_bundle *b) {
  sn_arena *arena;
  if (sn_arena_create(&arena) != SN_OK) return sn_out_of_memory(in->d, 0);
  sn_status status = read_members(in, arena, b);
  sn_arena_destroy(arena);
  return status;
}
