/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_files.h"

#include <zlib.h>

/* A zip of one member, made by hand so that each field can be wrong. */
typedef struct zip_file {
  uint8_t bytes[1024];
  size_t n, central, end;
} zip_file;

static void put(zip_file *z, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++, v >>= 8) z->bytes[z->n++] = (uint8_t)v;
}

static void put_text(zip_file *z, const void *text, size_t n) {
  memcpy(z->bytes + z->n, text, n);
  z->n += n;
}

typedef struct zip_data {
  uint8_t packed[512];
  size_t n_packed, n;
  uint32_t crc;
  int method;
} zip_data;

static void put_common(zip_file *z, const zip_data *m, const char *name) {
  put(z, 20, 2);
  put(z, 0, 2); /* flags */
  put(z, (uint64_t)m->method, 2);
  put(z, 0, 4); /* time, date */
  put(z, m->crc, 4);
  put(z, m->n_packed, 4);
  put(z, m->n, 4);
  put(z, strlen(name), 2);
  put(z, 0, 2); /* extra */
}

static zip_file zip(const zip_data *m, const char *name) {
  zip_file z = {.n = 0};
  put(&z, 0x04034b50, 4);
  put_common(&z, m, name);
  put_text(&z, name, strlen(name));
  put_text(&z, m->packed, m->n_packed);
  z.central = z.n;
  put(&z, 0x02014b50, 4);
  put(&z, 20, 2);
  put_common(&z, m, name);
  put(&z, 0, 2 + 2 + 2 + 4 + 4); /* comment, disk, attributes, place */
  put_text(&z, name, strlen(name));
  z.end = z.n;
  put(&z, 0x06054b50, 4);
  put(&z, 0, 4);
  put(&z, 1, 2);
  put(&z, 1, 2);
  put(&z, z.end - z.central, 4);
  put(&z, z.central, 4);
  put(&z, 0, 2);
  return z;
}

static const char header[] = "\x93NUMPY\x01\x00\x3a\x00{'descr':'<i2','fortran_order':False,'shape':(2,3)}       \n";
static const int16_t six[] = {1, 2, 3, 4, 5, 6};
enum { HEADER = 10 + 0x3a, SIZE = HEADER + 12 };

static zip_data member(int method) {
  uint8_t plain[SIZE];
  zip_data m = {.n = SIZE, .n_packed = SIZE, .method = method};
  memcpy(plain, header, HEADER);
  memcpy(plain + HEADER, six, 12);
  m.crc = (uint32_t)crc32(0, plain, SIZE);
  if (method == 0) {
    memcpy(m.packed, plain, SIZE);
    return m;
  }
  z_stream s = {.next_in = plain, .avail_in = SIZE, .next_out = m.packed, .avail_out = sizeof m.packed};
  ck_assert_int_eq(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  ck_assert_int_eq(deflate(&s, Z_FINISH), Z_STREAM_END);
  m.n_packed = s.total_out;
  deflateEnd(&s);
  return m;
}

START_TEST(stored_and_deflated) {
  const int64_t dims[] = {2, 3};
  zip_data m = member(_i ? 8 : 0);
  zip_file z = zip(&m, "x/y.npy");
  sn_bundle *b;
  ck_assert_int_eq(sn_files_read_memory(NULL, "test", z.bytes, z.n, &b), SN_OK);
  sn_array *want = test_array(SN_TYPE_S16, 2, dims, six);
  ck_assert_uint_eq(sn_bundle_count(b), 1);
  ck_assert(sn_array_equal(sn_bundle_get(b, "x/y"), want));
  sn_array_release(want);
  sn_bundle_destroy(b);
  check_mutations(z.bytes, z.n);
  check_allocations(z.bytes, z.n);
}
END_TEST

/* One field of the central directory or end record set to a wrong value. */
START_TEST(refused) {
  const struct { bool in_end; int at, bytes; uint32_t value; sn_status status; const char *part; } cases[] = {
      {false, 8, 2, 1, SN_ERR_UNSUPPORTED, "encrypted"},
      {false, 10, 2, 14, SN_ERR_UNSUPPORTED, "method other than deflate"},
      {false, 16, 4, 7, SN_ERR_CORRUPT, "checksum"},
      {false, 20, 4, UINT32_MAX, SN_ERR_UNSUPPORTED, "zip64"},
      {false, 24, 4, UINT32_MAX, SN_ERR_UNSUPPORTED, "zip64"},
      {false, 24, 4, 1000000, SN_ERR_CORRUPT, "so few compressed bytes"},
      {false, 24, 4, SIZE + 1, SN_ERR_CORRUPT, "too many"},
      {false, 24, 4, SIZE - 1, SN_ERR_CORRUPT, "cut short"},
      {false, 20, 4, 500, SN_ERR_CORRUPT, "runs into the directory"},
      {false, 42, 4, 5, SN_ERR_CORRUPT, "no local header"},
      {false, 42, 4, 100000, SN_ERR_CORRUPT, "no local header"},
      {false, 46, 1, 'q', SN_ERR_CORRUPT, "another name"},
      {false, 46, 1, 0xff, SN_ERR_CORRUPT, "no UTF-8"},
      {false, 28, 2, 200, SN_ERR_CORRUPT, "cut short"},
      {false, 0, 4, 0, SN_ERR_CORRUPT, "damaged"},
      {true, 10, 2, 0xffff, SN_ERR_UNSUPPORTED, "zip64"},
      {true, 10, 2, 2, SN_ERR_UNSUPPORTED, "several parts"},
      {true, 12, 4, 5000, SN_ERR_CORRUPT, "outside the file"},
      {true, 16, 4, 5000, SN_ERR_CORRUPT, "outside the file"},
      {true, 0, 4, 0, SN_ERR_CORRUPT, "no end of central directory"},
  };
  zip_data m = member(8);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    zip_file z = zip(&m, "x.npy");
    uint8_t *p = z.bytes + (cases[i].in_end ? z.end : z.central) + cases[i].at;
    for (int j = 0; j < cases[i].bytes; j++) p[j] = (uint8_t)(cases[i].value >> (8 * j));
    check_refused(z.bytes, z.n, cases[i].status, cases[i].part);
  }
  zip_file z = zip(&m, "data.pkl");
  check_refused(z.bytes, z.n, SN_ERR_UNSUPPORTED, "not an .npy file");
}
END_TEST

START_TEST(round_trip) {
  sn_bundle *b = test_every_type(), *back;
  char *data;
  size_t n;
  ck_assert_int_eq(sn_files_write(NULL, test_path("a.npz"), b), SN_OK);
  ck_assert_int_eq(sn_files_read(NULL, test_path("a.npz"), &back), SN_OK);
  check_equal(b, back);
  read_file("a.npz", &data, &n);
  check_allocations(data, n);
  sn_free(data);
  sn_bundle_destroy(b);
  sn_bundle_destroy(back);
  test_remove("a.npz");
}
END_TEST

/* The directory names one member twice: their data would be shared. */
START_TEST(shared_data) {
  zip_data m = member(0);
  zip_file z = zip(&m, "x.npy");
  size_t entry = z.end - z.central;
  memmove(z.bytes + z.end + entry, z.bytes + z.end, 22);
  memcpy(z.bytes + z.end, z.bytes + z.central, entry);
  uint8_t *end = z.bytes + z.end + entry;
  end[8] = end[10] = 2;
  end[12] = (uint8_t)(2 * entry);
  check_refused(z.bytes, z.n + entry, SN_ERR_CORRUPT, "overlaps");
}
END_TEST

START_TEST(empty) {
  sn_bundle *b, *back;
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  static const char *const names[] = {"e.npz", "e.safetensors"};
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(sn_files_write(NULL, test_path(names[i]), b), SN_OK);
    ck_assert_int_eq(sn_files_read(NULL, test_path(names[i]), &back), SN_OK);
    ck_assert_uint_eq(sn_bundle_count(back), 0);
    sn_bundle_destroy(back);
    test_remove(names[i]);
  }
  sn_bundle_destroy(b);
}
END_TEST

TCase *npz_cases(void) {
  TCase *t = tcase_create("npz");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, stored_and_deflated, 0, 2);
  tcase_add_test(t, refused);
  tcase_add_test(t, round_trip);
  tcase_add_test(t, shared_data);
  tcase_add_test(t, empty);
  return t;
}
