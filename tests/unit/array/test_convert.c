/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_array.h"

#include "slow_floats.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Check marks every ck_assert in a file; in loops of millions that would be most of the time. */
#define EXPECT(condition, ...) do { if (!(condition)) ck_abort_msg(__VA_ARGS__); } while (0)

/* ---- narrow floats, every code ----------------------------------------------------------------------------------- */

static uint32_t load_code(const slow_format *f, const void *p) {
  uint16_t wide;
  uint8_t narrow;
  if (f->bits > 8) {
    memcpy(&wide, p, 2);
    return wide;
  }
  memcpy(&narrow, p, 1);
  return narrow;
}

static void store_code(const slow_format *f, void *p, uint32_t code) {
  uint16_t wide = (uint16_t)code;
  uint8_t narrow = (uint8_t)code;
  memcpy(p, f->bits > 8 ? (void *)&wide : (void *)&narrow, f->bits > 8 ? 2 : 1);
}

START_TEST(decode_every_code) {
  const slow_format *f = &slow_formats[_i];
  for (uint32_t code = 0; code < 1u << f->bits; code++) {
    uint16_t stored;
    float narrow;
    store_code(f, &stored, code);
    double want = slow_decode(f, code), got = sn_load_f64(f->type, &stored);
    sn_convert(SN_TYPE_F32, &narrow, f->type, &stored, 1);
    EXPECT(same_f64(got, want), "%s 0x%x: %a, not %a", sn_type_text(f->type), code, got, want);
    EXPECT(same_f64(narrow, want), "%s 0x%x: f32 %a", sn_type_text(f->type), code, (double)narrow);
  }
}
END_TEST

static void check_f64(const slow_format *f, double v) {
  uint16_t stored = 0;
  float single = (float)v;
  sn_store_f64(f->type, &stored, v);
  EXPECT(slow_is_conversion(f, (long double)v, load_code(f, &stored)), "f64 %a -> %s gave 0x%x", v,
                sn_type_text(f->type), load_code(f, &stored));
  sn_convert(f->type, &stored, SN_TYPE_F32, &single, 1);
  EXPECT(slow_is_conversion(f, single, load_code(f, &stored)), "f32 %a -> %s gave 0x%x", (double)single,
                sn_type_text(f->type), load_code(f, &stored));
}

/* Each value, and each point halfway to the next with the doubles beside it: where a second rounding would show. */
START_TEST(encode_every_boundary) {
  const slow_format *f = &slow_formats[_i];
  uint32_t max = slow_max(f);
  for (uint32_t code = 0; code <= max; code++) {
    double v = slow_decode(f, code);
    double next = code < max ? slow_decode(f, code + 1) : 2 * v - (max > 1 ? slow_decode(f, max - 1) : 0);
    double middle = v + (next - v) / 2;
    double points[] = {v, middle, nextafter(middle, 0), nextafter(middle, INFINITY), nextafter(v, 0), nextafter(v, INFINITY)};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
      check_f64(f, points[i]);
      check_f64(f, -points[i]);
    }
  }
}
END_TEST

START_TEST(encode_extremes) {
  const slow_format *f = &slow_formats[_i];
  double points[] = {0, NAN, INFINITY, DBL_MAX, DBL_MIN, DBL_TRUE_MIN, FLT_MAX, FLT_MIN, FLT_TRUE_MIN, 1, 1e300, 1e-300};
  for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
    check_f64(f, points[i]);
    check_f64(f, -points[i]);
  }
}
END_TEST

/* Every 16-bit float to every narrower one. */
START_TEST(encode_every_16_bit_pattern) {
  const slow_format *f = &slow_formats[_i];
  for (int from = 0; from < 2; from++) {
    const slow_format *source = &slow_formats[from];
    if (f == source) continue;
    for (uint32_t code = 0; code < 65536; code++) {
      uint16_t in = (uint16_t)code, out = 0;
      sn_convert(f->type, &out, source->type, &in, 1);
      EXPECT(slow_is_conversion(f, (long double)slow_decode(source, code), load_code(f, &out)),
                    "%s 0x%x -> %s gave 0x%x", sn_type_text(source->type), code, sn_type_text(f->type),
                    load_code(f, &out));
    }
  }
}
END_TEST

/* ---- every pair of types ----------------------------------------------------------------------------------------- */

typedef struct slow_value {
  long double re, im;
  bool floating;
  uint64_t bits; /* integers and pred: the value modulo 2^64 */
} slow_value;

static slow_value slow_load(sn_type t, const uint8_t *p) {
  slow_value v = {0};
  const slow_format *f = slow_find(t);
  v.floating = sn_type_is_float(t) || sn_type_is_complex(t);
  if (f) {
    v.re = (long double)slow_decode(f, load_code(f, p) & ((1u << f->bits) - 1)); /* bits above the width say nothing */
  } else if (v.floating) {
    float single[2] = {0, 0};
    double twice[2] = {0, 0};
    bool is_single = sn_type_real_part(t) == SN_TYPE_F32;
    memcpy(is_single ? (void *)single : (void *)twice, p, sn_type_bytes(t));
    v.re = is_single ? (long double)single[0] : (long double)twice[0];
    v.im = is_single ? (long double)single[1] : (long double)twice[1];
  } else {
    memcpy(&v.bits, p, sn_type_bytes(t)); /* little-endian */
    int bits = sn_type_bits(t);
    if (bits < 64) v.bits &= ((uint64_t)1 << bits) - 1;
    if (sn_type_is_signed(t) && v.bits >> (bits - 1) & 1) v.bits |= bits < 64 ? ~(uint64_t)0 << bits : 0;
    v.re = sn_type_is_signed(t) ? (long double)(int64_t)v.bits : (long double)v.bits;
  }
  return v;
}

static bool slow_matches_integer(sn_type t, slow_value v, uint64_t got) {
  int bits = sn_type_bits(t);
  uint64_t mask = bits < 64 ? ((uint64_t)1 << bits) - 1 : ~(uint64_t)0;
  if (!v.floating) return (got & mask) == (v.bits & mask);
  bool is_signed = sn_type_is_signed(t);
  long double max = is_signed ? ldexpl(1, bits - 1) - 1 : ldexpl(1, bits) - 1, min = is_signed ? -max - 1 : 0;
  long double want = isnan(v.re) ? 0 : v.re >= max ? max : v.re <= min ? min : truncl(v.re);
  return (is_signed ? (long double)(int64_t)got : (long double)got) == want;
}

static bool slow_matches(sn_type t, slow_value v, const uint8_t *p) {
  const slow_format *f = slow_find(t);
  if (t == SN_TYPE_PRED) return *p == (v.floating ? v.re != 0 || v.im != 0 : v.bits != 0);
  if (f) return slow_is_conversion(f, v.re, load_code(f, p));
  slow_value got = slow_load(t, p);
  if (!got.floating) return slow_matches_integer(t, v, got.bits);
  bool is_single = sn_type_real_part(t) == SN_TYPE_F32;
  double re = is_single ? (double)(float)v.re : (double)v.re, im = is_single ? (double)(float)v.im : (double)v.im;
  return same_f64((double)got.re, re) && (!sn_type_is_complex(t) || same_f64((double)got.im, im));
}

enum { N_VALUES = 1500 }; /* above the length at which conversions of bytes go through a table */

/* Half the floats near the integers' ranges, the rest any bits. */
static void random_values(sn_type t, uint8_t *data, uint64_t *seed) {
  size_t n = N_VALUES * sn_type_bytes(t);
  for (size_t i = 0; i < n; i++) data[i] = (uint8_t)random_u64(seed);
  sn_type part = sn_type_real_part(t);
  size_t each = sn_type_bytes(part);
  for (size_t i = 0; i < n / each; i++) {
    if (t == SN_TYPE_PRED) data[i] &= 1;
    if (sn_type_is_float(part) && i % 2) {
      sn_store_f64(part, data + i * each, ldexp((double)(int64_t)random_u64(seed), -(int)(random_u64(seed) % 70)));
    }
    if (i % 16 == 3) memset(data + i * each, 0, each);
  }
}

START_TEST(every_pair) {
  sn_type from = (sn_type)_i;
  if (!sn_type_is_array(from)) return;
  uint64_t seed = 1234567 + (uint64_t)from;
  static uint8_t src[N_VALUES * 16], bulk[N_VALUES * 16], shifted[N_VALUES * 16 + 1];
  random_values(from, src, &seed);
  for (sn_type to = (sn_type)0; sn_type_is_array(to); to++) {
    size_t to_bytes = sn_type_bytes(to), from_bytes = sn_type_bytes(from);
    sn_convert(to, bulk, from, src, N_VALUES);
    sn_convert(to, shifted + 1, from, src, N_VALUES); /* unaligned, in blocks and in one go alike */
    ck_assert(memcmp(bulk, shifted + 1, N_VALUES * to_bytes) == 0);
    for (int i = 0; i < N_VALUES; i += 3) { /* a third keeps this in seconds */
      uint8_t one[16];
      sn_convert(to, one, from, src + (size_t)i * from_bytes, 1);
      EXPECT(memcmp(one, bulk + (size_t)i * to_bytes, to_bytes) == 0, "%s -> %s: element %d in bulk differs",
                    sn_type_text(from), sn_type_text(to), i);
      slow_value v = slow_load(from, src + (size_t)i * from_bytes);
      if (to != from) {
        EXPECT(slow_matches(to, v, one), "%s -> %s: %Lg (%d)", sn_type_text(from), sn_type_text(to), v.re, i);
      }
    }
  }
}
END_TEST

/* 2^62 + 2^54 + 1 is one above a tie of bf16; through f64 or f32 alone it would look like the tie. */
START_TEST(long_integers_round_once) {
  int64_t v = ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1;
  uint16_t up, even;
  sn_store_i64(SN_TYPE_BF16, &up, v);
  sn_store_i64(SN_TYPE_BF16, &even, v - 1);
  ck_assert_uint_eq(up, 0x5e81);
  ck_assert_uint_eq(even, 0x5e80);
  sn_store_i64(SN_TYPE_BF16, &up, -v);
  ck_assert_uint_eq(up, 0xde81);
}
END_TEST

/* What XLA for CPU gives (the program convert_saturating of the golden data). */
START_TEST(saturating_as_xla) {
  const float x[] = {0, -0.5f, 0.5f, 1.5f, -1.5f, 300, -300, 3e9f, -3e9f, 1e20f, -1e20f, INFINITY, -INFINITY, NAN};
  const int8_t s8[] = {0, 0, 0, 1, -1, 127, -128, 127, -128, 127, -128, 127, -128, 0};
  const int32_t s32[] = {0, 0, 0, 1, -1, 300, -300, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0};
  const uint8_t u8[] = {0, 0, 0, 1, 0, 255, 0, 255, 0, 255, 0, 255, 0, 0};
  const uint32_t u32[] = {0, 0, 0, 1, 0, 300, 0, 3000000000u, 0, UINT32_MAX, 0, UINT32_MAX, 0, 0};
  const uint8_t pred[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const int8_t s4[] = {0, 0, 0, 1, -1, 7, -8, 7, -8, 7, -8, 7, -8, 0};
  const struct { sn_type type; const void *want; } cases[] = {
      {SN_TYPE_S8, s8}, {SN_TYPE_S32, s32}, {SN_TYPE_U8, u8}, {SN_TYPE_U32, u32}, {SN_TYPE_PRED, pred}, {SN_TYPE_S4, s4}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t got[14 * 4];
    sn_convert(cases[i].type, got, SN_TYPE_F32, x, 14);
    EXPECT(memcmp(got, cases[i].want, 14 * sn_type_bytes(cases[i].type)) == 0, "%s", sn_type_text(cases[i].type));
  }
}
END_TEST

START_TEST(in_place) {
  int32_t data[300];
  for (int i = 0; i < 300; i++) data[i] = i - 150;
  sn_convert(SN_TYPE_F32, data, SN_TYPE_S32, data, 300);
  sn_convert(SN_TYPE_S32, data, SN_TYPE_F32, data, 300);
  for (int i = 0; i < 300; i++) ck_assert_int_eq(data[i], i - 150);
}
END_TEST

START_TEST(scalars) {
  double re, im;
  float c64[2];
  uint64_t u = UINT64_MAX;
  uint8_t s4;
  sn_store_c128(SN_TYPE_C64, c64, 1.5, -2);
  sn_load_c128(SN_TYPE_C64, c64, &re, &im);
  ck_assert(re == 1.5 && im == -2);
  ck_assert(sn_load_f64(SN_TYPE_C64, c64) == 1.5);
  ck_assert_int_eq(sn_load_i64(SN_TYPE_U64, &u), -1);
  sn_store_i64(SN_TYPE_S4, &s4, -1);
  ck_assert_uint_eq(s4, 0xff);
  sn_store_i64(SN_TYPE_S4, &s4, 9);
  ck_assert_int_eq(sn_load_i64(SN_TYPE_S4, &s4), -7);
  double big = 1e19;
  ck_assert(sn_load_i64(SN_TYPE_F64, &big) == INT64_MAX);
}
END_TEST

TCase *convert_cases(void) {
  TCase *t = tcase_create("convert");
  tcase_set_timeout(t, 100);
  tcase_add_loop_test(t, decode_every_code, 0, n_slow_formats);
  tcase_add_loop_test(t, encode_every_boundary, 0, n_slow_formats);
  tcase_add_loop_test(t, encode_extremes, 0, n_slow_formats);
  tcase_add_loop_test(t, encode_every_16_bit_pattern, 0, n_slow_formats);
  tcase_add_loop_test(t, every_pair, 0, SN_TYPE_COUNT);
  tcase_add_test(t, long_integers_round_once);
  tcase_add_test(t, saturating_as_xla);
  tcase_add_test(t, in_place);
  tcase_add_test(t, scalars);
  return t;
}
