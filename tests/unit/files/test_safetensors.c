/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_files.h"

typedef struct st_file {
  char bytes[1024];
  size_t n;
} st_file;

static st_file st(const char *json, size_t data_bytes) {
  st_file f = {.n = 8 + strlen(json) + data_bytes};
  size_t length = strlen(json);
  for (int i = 0; i < 8; i++) f.bytes[i] = (char)(length >> (8 * i));
  memcpy(f.bytes + 8, json, length);
  for (size_t i = 0; i < data_bytes; i++) f.bytes[8 + length + i] = (char)(i + 1);
  return f;
}

#define U8(name, n, begin, end) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" n "],\"data_offsets\":[" begin "," end "]}"

START_TEST(reads) {
  sn_bundle *b;
  st_file f = st("{\"__metadata__\":{\"k\":\"v\"}," U8("b", "1,2", "2", "4") "," U8("a", "2", "0", "2") "}  ", 4);
  ck_assert_int_eq(sn_files_read_memory(NULL, "test", f.bytes, f.n, &b), SN_OK);
  ck_assert_uint_eq(sn_bundle_count(b), 2);
  ck_assert_str_eq(sn_bundle_name(b, 0), "b"); /* the header's order, not the data's */
  ck_assert_int_eq(((uint8_t *)sn_array_data(sn_bundle_get(b, "b")))[0], 3);
  ck_assert_str_eq(sn_bundle_metadata(b, "k"), "v");
  sn_bundle_destroy(b);
}
END_TEST

START_TEST(refused) {
  const struct { const char *json; size_t n; sn_status status; const char *part; } cases[] = {
      {"{" U8("a", "4", "0", "4") "," U8("b", "2", "2", "4") "}", 4, SN_ERR_CORRUPT, "overlaps"},
      {"{" U8("a", "4", "0", "4") "," U8("b", "4", "0", "4") "}", 4, SN_ERR_CORRUPT, "overlaps"},
      {"{" U8("a", "2", "2", "4") "}", 4, SN_ERR_CORRUPT, "gap"},
      {"{" U8("a", "2", "0", "2") "}", 4, SN_ERR_CORRUPT, "4 bytes of data"},
      {"{" U8("a", "8", "0", "8") "}", 4, SN_ERR_CORRUPT, "in data of 4 bytes"},
      {"{" U8("a", "4", "4", "0") "}", 4, SN_ERR_CORRUPT, "data_offsets"},
      {"{" U8("a", "4", "-4", "0") "}", 4, SN_ERR_CORRUPT, "not two sizes"},
      {"{" U8("a", "4", "0.5", "4") "}", 4, SN_ERR_CORRUPT, "not two sizes"},
      {"{" U8("a", "4", "0", "1e300") "}", 4, SN_ERR_CORRUPT, "not two sizes"},
      {"{" U8("a", "3", "0", "4") "}", 4, SN_ERR_CORRUPT, "takes 3 bytes"},
      {"{" U8("a", "-4", "0", "4") "}", 4, SN_ERR_CORRUPT, "no size"},
      {"{" U8("a", "4611686018427387904,4611686018427387904", "0", "4") "}", 4, SN_ERR_CORRUPT, "no size"},
      {"{" U8("a", "4503599627370496,4503599627370496", "0", "4") "}", 4, SN_ERR_CORRUPT, "overflows"},
      {"{" U8("a", "2", "0", "2") "," U8("a", "2", "2", "4") "}", 4, SN_ERR_CORRUPT, "there twice"},
      {"{\"a\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}}", 4, SN_ERR_UNSUPPORTED, "'F4'"},
      {"{\"a\":{\"dtype\":\"X\",\"shape\":[8],\"data_offsets\":[0,4]}}", 4, SN_ERR_UNSUPPORTED, "'X'"},
      {"{\"a\":{\"dtype\":7,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, SN_ERR_CORRUPT, "no string"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, SN_ERR_CORRUPT, "twice"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, SN_ERR_CORRUPT, "lacks"},
      {"{\"a\":[]}", 0, SN_ERR_CORRUPT, "no object"},
      {"{\"__metadata__\":{\"k\":1}}", 0, SN_ERR_CORRUPT, "no string"},
      {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, SN_ERR_CORRUPT, "twice"},
      {"{\"__metadata__\":{\"sinter.type/a\":\"f64\"}," U8("a", "4", "0", "4") "}", 4, SN_ERR_CORRUPT, "stored as u8"},
      {"{\"__metadata__\":{\"sinter.type/a\":\"q\"}," U8("a", "4", "0", "4") "}", 4, SN_ERR_CORRUPT, "no element type"},
      {"{\"a\\u0000b\":{}}", 0, SN_ERR_CORRUPT, "NUL"},
      {"{\"\xff\":{}}", 0, SN_ERR_CORRUPT, "UTF-8 at byte 10"},
      {"{} x", 0, SN_ERR_CORRUPT, "goes on"},
      {"{\"a\":", 0, SN_ERR_CORRUPT, "no JSON"},
      {"[]", 0, SN_ERR_CORRUPT, "neither"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    st_file f = st(cases[i].json, cases[i].n);
    check_refused(f.bytes, f.n, cases[i].status, cases[i].part);
  }
  st_file f = st("{}", 0);
  f.bytes[0] = 3;
  check_refused(f.bytes, f.n, SN_ERR_CORRUPT, "header of 3 bytes");
  memset(f.bytes, 0xff, 8);
  check_refused(f.bytes, f.n, SN_ERR_CORRUPT, "cut short or damaged");
}
END_TEST

/* `.re` and `.im` are joined only when they fit each other and the whole's name is free. */
START_TEST(complex_halves) {
#define F32(name, begin, end) "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" begin "," end "]}"
  sn_bundle *b;
  st_file f = st("{" F32("z.im", "0", "4") "," F32("z.re", "4", "8") "," F32("r.re", "8", "12") "}", 12);
  ck_assert_int_eq(sn_files_read_memory(NULL, "test", f.bytes, f.n, &b), SN_OK);
  ck_assert_uint_eq(sn_bundle_count(b), 2);
  ck_assert_int_eq(sn_array_shape(sn_bundle_get(b, "z"))->type, SN_TYPE_C64);
  ck_assert_mem_eq(sn_array_data(sn_bundle_get(b, "z")), "\5\6\7\10\1\2\3\4", 8);
  ck_assert_ptr_nonnull(sn_bundle_get(b, "r.re"));
  sn_bundle_destroy(b);
  f = st("{" F32("z.im", "0", "4") "," F32("z.re", "4", "8") "," F32("z", "8", "12") "}", 12);
  ck_assert_int_eq(sn_files_read_memory(NULL, "test", f.bytes, f.n, &b), SN_OK);
  ck_assert_uint_eq(sn_bundle_count(b), 3);
  sn_bundle_destroy(b);
}
END_TEST

/* Every type comes back from the file, mapped and aligned, and writing again gives the same bytes. */
START_TEST(round_trip) {
  sn_bundle *b = test_every_type(), *back;
  char *first, *second;
  size_t n_first, n_second;
  ck_assert_int_eq(sn_bundle_set_metadata(b, "quote\"\\\n", "\xc3\xa9"), SN_OK);
  ck_assert_int_eq(sn_files_write(NULL, test_path("a.safetensors"), b), SN_OK);
  read_file("a.safetensors", &first, &n_first);
  ck_assert_int_eq(first[0] % 8, 0);
  ck_assert_int_eq(sn_files_read(NULL, test_path("a.safetensors"), &back), SN_OK);
  check_equal(b, back);
  ck_assert_str_eq(sn_bundle_metadata(back, "quote\"\\\n"), "\xc3\xa9");
  ck_assert(!sn_array_unique(sn_bundle_get(back, "f64"))); /* borrows the map */
  ck_assert_int_eq(sn_files_write(NULL, test_path("b.safetensors"), back), SN_OK);
  read_file("b.safetensors", &second, &n_second);
  ck_assert_uint_eq(n_first, n_second);
  ck_assert_mem_eq(first, second, n_first);
  check_allocations(first, n_first);
  sn_array *kept = sn_array_retain(sn_bundle_get(back, "f32"));
  sn_bundle_destroy(back); /* the map outlives the bundle */
  ck_assert(sn_array_equal(kept, sn_bundle_get(b, "f32")));
  sn_array_release(kept);
  sn_bundle_destroy(b);
  sn_free(first);
  sn_free(second);
  test_remove("a.safetensors");
  test_remove("b.safetensors");
}
END_TEST

/* A byte before an f32: the data cannot be used where it lies. */
START_TEST(unaligned) {
  sn_bundle *b;
  st_file f = st("{\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}," U8("a", "1", "0", "1") "}", 5);
  const float want = 6.2071626e-36f; /* bytes 2 3 4 5 */
  ck_assert_int_eq(sn_file_write(NULL, test_path("u.safetensors"), f.bytes, f.n), SN_OK);
  ck_assert_int_eq(sn_files_read(NULL, test_path("u.safetensors"), &b), SN_OK);
  sn_array *a = sn_bundle_get(b, "f");
  ck_assert_uint_eq((uintptr_t)sn_array_data(a) % 4, 0);
  ck_assert(sn_load_f64(SN_TYPE_F32, sn_array_data(a)) == (double)want);
  sn_bundle_destroy(b);
  test_remove("u.safetensors");
}
END_TEST

START_TEST(names_that_clash) {
  const float z[] = {1, 2};
  sn_bundle *b;
  sn_array *c = test_array(SN_TYPE_C64, 0, NULL, z), *r = test_array(SN_TYPE_F32, 0, NULL, z);
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "z", c), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "z.re", r), SN_OK);
  ck_assert_int_eq(sn_files_write(NULL, test_path("c.safetensors"), b), SN_ERR_NAME);
  ck_assert(!sn_file_exists(test_path("c.safetensors")));
  sn_bundle_destroy(b);
  sn_array_release(c);
  sn_array_release(r);
}
END_TEST

/* What lives of a dynamic array is what is written. */
START_TEST(dynamic) {
  const int32_t data[] = {1, 2, 3, 4, 5, 6}, want[] = {1, 2, 4, 5};
  const int64_t dims[] = {2, 3}, living[] = {2, 2};
  const bool marks[] = {false, true};
  const sn_shape shape = {.type = SN_TYPE_S32, .rank = 2, .dims = dims, .dynamic = marks};
  sn_array *a, *expected = test_array(SN_TYPE_S32, 2, living, want);
  sn_bundle *b, *back;
  ck_assert_int_eq(sn_array_create_from(&shape, data, &a), SN_OK);
  sn_array_set_dynamic_size(a, 1, 2);
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "a", a), SN_OK);
  ck_assert_int_eq(sn_files_write(NULL, test_path("d.safetensors"), b), SN_OK);
  ck_assert_int_eq(sn_files_read(NULL, test_path("d.safetensors"), &back), SN_OK);
  ck_assert(sn_array_equal(sn_bundle_get(back, "a"), expected));
  sn_bundle_destroy(b);
  sn_bundle_destroy(back);
  sn_array_release(a);
  sn_array_release(expected);
  test_remove("d.safetensors");
}
END_TEST

START_TEST(damage) {
  st_file f = st("{\"__metadata__\":{\"sinter.type/b\":\"s4\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
                 U8("b", "2", "4", "6") "}", 6);
  sn_bundle *b;
  ck_assert_int_eq(sn_files_read_memory(NULL, "test", f.bytes, f.n, &b), SN_OK);
  ck_assert_int_eq(sn_array_shape(sn_bundle_get(b, "b"))->type, SN_TYPE_S4);
  sn_bundle_destroy(b);
  check_mutations(f.bytes, f.n);
}
END_TEST

/* Conversions that XLA made, input and results from one file. */
START_TEST(conversions_as_xla) {
  const char *folder = sn_env("SINTER_TEST_DATA");
  if (!folder) return; /* run by hand */
  char path[1024];
  sn_bundle *b;
  snprintf(path, sizeof path, "%s/golden/io/convert_matrix.safetensors", folder);
  ck_assert_int_eq(sn_files_read(NULL, path, &b), SN_OK);
  static const sn_type types[] = {SN_TYPE_PRED, SN_TYPE_S8, SN_TYPE_S16, SN_TYPE_S32, SN_TYPE_U8,
                                  SN_TYPE_U16, SN_TYPE_U32, SN_TYPE_F16, SN_TYPE_BF16, SN_TYPE_F32};
  int n = 0;
  for (int t = 1; t < 10; t++) {
    for (int s = 0; s < 10; s++) {
      if (s == t || (t >= 7 && s >= 4 && s < 7)) continue; /* the program has none of these */
      const sn_array *x = sn_bundle_get(b, t < 7 ? "arg0" : "arg1");
      int64_t m = sn_shape_elements(sn_array_shape(x));
      uint8_t middle[17 * 4], got[17 * 4];
      char name[16];
      sn_convert(types[t], middle, t < 7 ? SN_TYPE_S32 : SN_TYPE_F32, sn_array_data(x), m);
      sn_convert(types[s], got, types[t], middle, m);
      snprintf(name, sizeof name, "out%d", n++);
      const sn_array *want = sn_bundle_get(b, name);
      ck_assert_int_eq(sn_array_shape(want)->type, types[s]);
      ck_assert_msg(memcmp(got, sn_array_data(want), sn_array_bytes(want)) == 0, "%s: %s -> %s", name,
                    sn_type_text(types[t]), sn_type_text(types[s]));
    }
  }
  ck_assert_int_eq(n, 72);
  sn_bundle_destroy(b);
}
END_TEST

TCase *safetensors_cases(void) {
  TCase *t = tcase_create("safetensors");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, reads);
  tcase_add_test(t, refused);
  tcase_add_test(t, complex_halves);
  tcase_add_test(t, round_trip);
  tcase_add_test(t, unaligned);
  tcase_add_test(t, names_that_clash);
  tcase_add_test(t, dynamic);
  tcase_add_test(t, damage);
  tcase_add_test(t, conversions_as_xla);
  return t;
}
