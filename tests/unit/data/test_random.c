/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "data_tests.h"
#include "sinter/random.h"

/* Known answers of the authors' Random123 distribution (kat_vectors, philox4x32 with 10 rounds). */
START_TEST(known_answers) {
  static const struct { uint32_t counter[4], key[2], want[4]; } cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (size_t i = 0; i < 3; i++) {
    uint32_t got[4];
    sn_philox(cases[i].counter, cases[i].key, got);
    for (int k = 0; k < 4; k++) ck_assert_uint_eq(got[k], cases[i].want[k]);
  }
}
END_TEST

START_TEST(streams_differ_and_repeat) {
  sn_random a, b, c;
  sn_random_init(&a, 7, sn_random_stream("x", 0));
  sn_random_init(&b, 7, sn_random_stream("x", 0));
  sn_random_init(&c, 7, sn_random_stream("x", 1));
  int equal = 0;
  for (int i = 0; i < 100; i++) {
    uint32_t v = sn_random_u32(&a);
    ck_assert_uint_eq(v, sn_random_u32(&b));
    equal += v == sn_random_u32(&c);
  }
  ck_assert_int_le(equal, 2);
}
END_TEST

/* Mean and deviation of 40,000 draws: standard errors are 0.005 and 0.0035; bounds are six of them. */
START_TEST(normal_is_normal) {
  sn_random r;
  double sum = 0, squares = 0;
  sn_random_init(&r, 1, 2);
  for (int i = 0; i < 40000; i++) {
    double v = sn_random_normal(&r);
    sum += v;
    squares += v * v;
  }
  ck_assert(fabs(sum / 40000) < 0.03);
  ck_assert(fabs(sqrt(squares / 40000) - 1) < 0.021);
}
END_TEST

START_TEST(truncated_stays_inside) {
  sn_random r;
  sn_random_init(&r, 1, 3);
  for (int i = 0; i < 2000; i++) {
    double v = sn_random_truncated(&r, 0, 1, -0.5, 1.5);
    ck_assert(v >= -0.5 && v <= 1.5);
  }
}
END_TEST

START_TEST(shuffle_is_a_permutation) {
  uint32_t order[1000], seen[1000] = {0};
  sn_random r;
  sn_random_init(&r, 1, 4);
  sn_random_shuffle(&r, order, 1000);
  int fixed = 0;
  for (uint32_t i = 0; i < 1000; i++) {
    seen[order[i]]++;
    fixed += order[i] == i;
  }
  for (int i = 0; i < 1000; i++) ck_assert_uint_eq(seen[i], 1);
  ck_assert_int_lt(fixed, 10); /* one is expected */
}
END_TEST

TCase *random_tests(void) {
  TCase *t = tcase_create("random");
  tcase_add_test(t, known_answers);
  tcase_add_test(t, streams_differ_and_repeat);
  tcase_add_test(t, normal_is_normal);
  tcase_add_test(t, truncated_stays_inside);
  tcase_add_test(t, shuffle_is_a_permutation);
  return t;
}
