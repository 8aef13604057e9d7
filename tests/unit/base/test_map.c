/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_base.h"

START_TEST(map_sets_and_gets) {
  sn_map *m;
  int a, b;
  ck_assert_int_eq(sn_map_create(&m), SN_OK);
  ck_assert_ptr_null(sn_map_get_str(m, "x"));
  ck_assert(!sn_map_erase(m, "x", 1));
  ck_assert_int_eq(sn_map_set_str(m, "x", &a), SN_OK);
  ck_assert_int_eq(sn_map_set_str(m, "a name of more than eight bytes", &b), SN_OK);
  ck_assert_int_eq(sn_map_set_str(m, "", &b), SN_OK);
  ck_assert_ptr_eq(sn_map_get_str(m, "x"), &a);
  ck_assert_ptr_eq(sn_map_get_str(m, "a name of more than eight bytes"), &b);
  ck_assert_ptr_null(sn_map_get_str(m, "a name of more than eight byteS"));
  ck_assert_ptr_eq(sn_map_get_str(m, ""), &b);
  ck_assert_int_eq(sn_map_set_str(m, "x", &b), SN_OK);
  ck_assert_ptr_eq(sn_map_get_str(m, "x"), &b);
  ck_assert_uint_eq(sn_map_count(m), 3);
  uint64_t v;
  ck_assert_int_eq(sn_map_set(m, "k\0l", 3, 99), SN_OK); /* keys are bytes */
  ck_assert(sn_map_get(m, "k\0l", 3, &v));
  ck_assert_uint_eq(v, 99);
  ck_assert(!sn_map_get(m, "k\0m", 3, &v));
  ck_assert(sn_map_get(m, "k\0l", 3, NULL));
  sn_map_clear(m);
  ck_assert_uint_eq(sn_map_count(m), 0);
  ck_assert(!sn_map_get(m, "k\0l", 3, &v));
  sn_map_destroy(m);
  sn_map_destroy(NULL);
}
END_TEST

START_TEST(map_iterates_in_order) {
  sn_map *m;
  ck_assert_int_eq(sn_map_create(&m), SN_OK);
  for (uint64_t i = 0; i < 10000; i++) ck_assert_int_eq(sn_map_set(m, &(uint64_t){i * 7919}, 8, i), SN_OK);
  for (uint64_t i = 0; i < 10000; i += 3) ck_assert(sn_map_erase(m, &(uint64_t){i * 7919}, 8));
  ck_assert_int_eq(sn_map_set(m, &(uint64_t){0}, 8, 10000), SN_OK); /* again: now the last */
  ck_assert_uint_eq(sn_map_slots(m), 10001);
  ck_assert_uint_eq(sn_map_count(m), 10000 - 3334 + 1);
  for (size_t i = 0; i <= 10000; i++) {
    const void *key;
    size_t n;
    uint64_t value, word;
    bool alive = sn_map_at(m, i, &key, &n, &value);
    ck_assert_int_eq(alive, i == 10000 || i % 3 != 0);
    if (!alive) continue;
    memcpy(&word, key, sizeof word);
    ck_assert_uint_eq(n, 8);
    ck_assert_uint_eq(value, i);
    ck_assert_uint_eq(word, i == 10000 ? 0 : i * 7919);
  }
  ck_assert(!sn_map_at(m, 10001, NULL, NULL, NULL));
  sn_map_destroy(m);
}
END_TEST

/* Against a plain array, with many erasures, so that cells are reused and the table rebuilt. */
START_TEST(map_agrees_with_array) {
  enum { KEYS = 257 };
  uint64_t truth[KEYS] = {0}, random = 12345;
  size_t n_alive = 0;
  sn_map *m;
  ck_assert_int_eq(sn_map_create(&m), SN_OK);
  for (uint64_t step = 1; step < 100000; step++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    uint64_t k = (random >> 33) % KEYS;
    char key[32];
    int n = snprintf(key, sizeof key, "%s%llu", k % 2 != 0 ? "a rather long key " : "k", (unsigned long long)k);
    if ((random >> 20) % 2 != 0) {
      ck_assert_int_eq(sn_map_set(m, key, (size_t)n, step), SN_OK);
      n_alive += truth[k] == 0;
      truth[k] = step;
    } else {
      ck_assert_int_eq(sn_map_erase(m, key, (size_t)n), truth[k] != 0);
      n_alive -= truth[k] != 0;
      truth[k] = 0;
    }
    uint64_t value = 0;
    ck_assert_int_eq(sn_map_get(m, key, (size_t)n, &value), truth[k] != 0);
    ck_assert_uint_eq(value, truth[k]);
    ck_assert_uint_eq(sn_map_count(m), n_alive);
  }
  sn_map_destroy(m);
}
END_TEST

/* A failed set leaves the map as it was. */
static sn_status map_attempt(void) {
  sn_map *m;
  SN_TRY(sn_map_create(&m));
  sn_status s = SN_OK;
  uint64_t n = 0;
  while (n < 50 && s == SN_OK) {
    char key[32];
    int length = snprintf(key, sizeof key, "%s%llu", n % 2 != 0 ? "some long key " : "", (unsigned long long)n);
    s = sn_map_set(m, key, (size_t)length, n);
    ck_assert_int_eq(sn_map_get(m, key, (size_t)length, NULL), s == SN_OK);
    if (s == SN_OK) n++;
  }
  ck_assert_uint_eq(sn_map_count(m), n);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t value;
    ck_assert(sn_map_at(m, i, NULL, NULL, &value));
    ck_assert_uint_eq(value, i);
  }
  sn_map_destroy(m);
  return s;
}

START_TEST(map_allocation_failures) {
  ck_assert_int_ge(check_allocation_failures(map_attempt), 30);
}
END_TEST

TCase *case_map(void) {
  TCase *c = tcase_create("map");
  tcase_add_test(c, map_sets_and_gets);
  tcase_add_test(c, map_iterates_in_order);
  tcase_add_test(c, map_agrees_with_array);
  tcase_add_test(c, map_allocation_failures);
  return c;
}
