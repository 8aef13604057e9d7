/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* HLO `convert` between every pair of array types.
 *
 * Thirteen types have a direct loop to each other (the table below, generated). The rest are reached through the direct type that
 * holds them exactly: s1 s2 s4 through s8, u1 u2 u4 through u8, floats of at most 8 bits through f32, complex through its parts; in
 * blocks that stay in cache. Elements are moved by memcpy, so that data may be unaligned and may be converted in place. */
#include "float_formats.h"

#include <string.h>

/* ---- one element ----------------------------------------------------------------------------------------------- */

/* f32 that rounds to any narrower float as the exact value would; see float_formats.h, where narrow_f64 is. */
static inline float narrow_f32(float v) { return v; }

/* More than 53 bits do not fit a double: rounds to odd at the twelfth bit, then once more to odd at f32's. */
static inline float narrow_u64(uint64_t v) {
  if (v >> 53) v = (v & ~(uint64_t)0x7ff) | (v & 0x7ff ? 0x800 : 0);
  return narrow_f64((double)v);
}

static inline float narrow_s64(int64_t v) {
  return v < 0 ? -narrow_u64(0 - (uint64_t)v) : narrow_u64((uint64_t)v);
}

static inline float narrow_s32(int32_t v) { return narrow_f64((double)v); }
static inline float narrow_u32(uint32_t v) { return narrow_f64((double)v); }
static inline float narrow_small(int32_t v) { return (float)v; } /* at most 16 bits: exact */

#define NARROW(v)                                                                                       \
  _Generic((v), float: narrow_f32, double: narrow_f64, int32_t: narrow_s32, uint32_t: narrow_u32,       \
           int64_t: narrow_s64, uint64_t: narrow_u64, default: narrow_small)(v)

/* To an integer. From a float: truncation, then the nearest end of the range; `end` is max + 1, exact in f32. From an integer: the
 * low bits (the unsigned argument takes a signed value modulo 2^64). */
#define DEFINE_TO_INTEGER(name, ctype, min, max, end)                                                   \
  static inline ctype trunc_f32_##name(float v) {                                                       \
    return v != v ? 0 : v >= end ? max : v <= (float)(min) ? min : (ctype)v;                            \
  }                                                                                                     \
  static inline ctype trunc_f64_##name(double v) {                                                      \
    return v != v ? 0 : v >= end ? max : v <= (double)(min) ? min : (ctype)v;                           \
  }                                                                                                     \
  static inline ctype wrap_##name(uint64_t v) { return (ctype)v; }

DEFINE_TO_INTEGER(S8, int8_t, INT8_MIN, INT8_MAX, 128.0f)
DEFINE_TO_INTEGER(S16, int16_t, INT16_MIN, INT16_MAX, 32768.0f)
DEFINE_TO_INTEGER(S32, int32_t, INT32_MIN, INT32_MAX, 2147483648.0f)
DEFINE_TO_INTEGER(S64, int64_t, INT64_MIN, INT64_MAX, 9223372036854775808.0f)
DEFINE_TO_INTEGER(U8, uint8_t, 0, UINT8_MAX, 256.0f)
DEFINE_TO_INTEGER(U16, uint16_t, 0, UINT16_MAX, 65536.0f)
DEFINE_TO_INTEGER(U32, uint32_t, 0, UINT32_MAX, 4294967296.0f)
DEFINE_TO_INTEGER(U64, uint64_t, 0, UINT64_MAX, 18446744073709551616.0f)

#define TO_INTEGER(name, v) \
  _Generic((v), float: trunc_f32_##name, double: trunc_f64_##name, default: wrap_##name)(v)

/* What each of the direct types is in memory (c_), in C (v_), and how it is loaded and made from another's C value. */
typedef uint8_t c_PRED, v_PRED;
typedef int8_t c_S8, v_S8;
typedef int16_t c_S16, v_S16;
typedef int32_t c_S32, v_S32;
typedef int64_t c_S64, v_S64;
typedef uint8_t c_U8, v_U8;
typedef uint16_t c_U16, v_U16;
typedef uint32_t c_U32, v_U32;
typedef uint64_t c_U64, v_U64;
typedef double c_F64, v_F64;
typedef float c_F32, v_F32;
typedef uint16_t c_BF16, c_F16;
typedef float v_BF16, v_F16;

#define GET_PRED(x) ((uint8_t)((x) != 0))
#define GET_S8(x) (x)
#define GET_S16(x) (x)
#define GET_S32(x) (x)
#define GET_S64(x) (x)
#define GET_U8(x) (x)
#define GET_U16(x) (x)
#define GET_U32(x) (x)
#define GET_U64(x) (x)
#define GET_F64(x) (x)
#define GET_F32(x) (x)
#define GET_BF16(x) sn_bf16_to_f32(x)
#define GET_F16(x) decode_f16(x)

#define PUT_PRED(v) ((uint8_t)((v) != 0))
#define PUT_S8(v) TO_INTEGER(S8, v)
#define PUT_S16(v) TO_INTEGER(S16, v)
#define PUT_S32(v) TO_INTEGER(S32, v)
#define PUT_S64(v) TO_INTEGER(S64, v)
#define PUT_U8(v) TO_INTEGER(U8, v)
#define PUT_U16(v) TO_INTEGER(U16, v)
#define PUT_U32(v) TO_INTEGER(U32, v)
#define PUT_U64(v) TO_INTEGER(U64, v)
#define PUT_F64(v) ((double)(v))
#define PUT_F32(v) ((float)(v))
#define PUT_BF16(v) encode_bf16(NARROW(v))
#define PUT_F16(v) encode_f16(NARROW(v))

/* ---- direct loops ---------------------------------------------------------------------------------------------- */

typedef void (*convert_fn)(uint8_t *dst, const uint8_t *src, int64_t n);

/* Loops from and to f32 and f64 are for speed; the others, most of 169, for size: they would be half of the runtime. */
#define FOR_SIZE __attribute__((cold))
#define HEAT_PRED FOR_SIZE
#define HEAT_S8 FOR_SIZE
#define HEAT_S16 FOR_SIZE
#define HEAT_S32 FOR_SIZE
#define HEAT_S64 FOR_SIZE
#define HEAT_U8 FOR_SIZE
#define HEAT_U16 FOR_SIZE
#define HEAT_U32 FOR_SIZE
#define HEAT_U64 FOR_SIZE
#define HEAT_F64
#define HEAT_F32
#define HEAT_BF16 FOR_SIZE
#define HEAT_F16 FOR_SIZE

#define DEFINE_LOOP(from, to)                                                                           \
  static void convert_##from##_##to(uint8_t *dst, const uint8_t *src, int64_t n) {                      \
    for (int64_t i = 0; i < n; i++) {                                                                   \
      c_##from x;                                                                                       \
      memcpy(&x, src + (size_t)i * sizeof x, sizeof x);                                                 \
      v_##from v = GET_##from(x);                                                                       \
      c_##to y = PUT_##to(v);                                                                           \
      memcpy(dst + (size_t)i * sizeof y, &y, sizeof y);                                                 \
    }                                                                                                   \
  }
#define DEFINE_SMALL_LOOP(from, to) HEAT_##to DEFINE_LOOP(from, to)

#define DIRECT_PAIRS(X, from)                                                                           \
  X(from, PRED) X(from, S8) X(from, S16) X(from, S32) X(from, S64) X(from, U8) X(from, U16)             \
  X(from, U32) X(from, U64) X(from, F64) X(from, F32) X(from, BF16) X(from, F16)

DIRECT_PAIRS(DEFINE_SMALL_LOOP, PRED)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, S8)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, S16)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, S32)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, S64)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, U8)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, U16)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, U32)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, U64)
DIRECT_PAIRS(DEFINE_LOOP, F64)
DIRECT_PAIRS(DEFINE_LOOP, F32)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, BF16)
DIRECT_PAIRS(DEFINE_SMALL_LOOP, F16)

#define TABLE_ENTRY(from, to) [SN_TYPE_##to] = convert_##from##_##to,
#define TABLE_ROW(from) [SN_TYPE_##from] = {DIRECT_PAIRS(TABLE_ENTRY, from)},

/* NULL where either type is not a direct one. */
static const convert_fn direct[SN_TYPE_TOKEN][SN_TYPE_TOKEN] = {
    TABLE_ROW(PRED) TABLE_ROW(S8) TABLE_ROW(S16) TABLE_ROW(S32) TABLE_ROW(S64) TABLE_ROW(U8) TABLE_ROW(U16)
    TABLE_ROW(U32) TABLE_ROW(U64) TABLE_ROW(F64) TABLE_ROW(F32) TABLE_ROW(BF16) TABLE_ROW(F16)};

/* ---- indirect types -------------------------------------------------------------------------------------------- */

enum { BLOCK = 256 };

/* The direct type that holds every value of `t`, where `t` itself has no loops; else `t`. */
static sn_type carrier(sn_type t) {
  switch (t) {
    case SN_TYPE_S1: case SN_TYPE_S2: case SN_TYPE_S4: return SN_TYPE_S8;
    case SN_TYPE_U1: case SN_TYPE_U2: case SN_TYPE_U4: return SN_TYPE_U8;
    default: return sn_float_format_of(t) ? SN_TYPE_F32 : t;
  }
}

static uint8_t sub_byte_wrap(sn_type t, uint8_t v) {
  int bits = sn_types[t].bits;
  uint8_t low = (uint8_t)(v & ((1u << bits) - 1));
  if (sn_type_is_signed(t) && low >> (bits - 1)) low = (uint8_t)(low | (0xffu << bits));
  return low;
}

/* From s8 or u8, by whether the value was saturated there (it came from a float) or wrapped. */
static uint8_t sub_byte_put(sn_type t, uint8_t v, bool saturate) {
  int bits = sn_types[t].bits;
  if (!saturate) return sub_byte_wrap(t, v);
  if (!sn_type_is_signed(t)) {
    int max = (1 << bits) - 1;
    return v > max ? (uint8_t)max : v;
  }
  int value = (int8_t)v, max = (1 << (bits - 1)) - 1, min = -max - 1;
  return (uint8_t)(value > max ? max : value < min ? min : value);
}

/* An indirect type to its carrier. */
static void unpack(sn_type from, uint8_t *dst, const uint8_t *src, int64_t n) {
  const sn_float_format *format = sn_float_format_of(from);
  for (int64_t i = 0; i < n; i++) {
    if (format) {
      float v = sn_float_decode(format, src[i]);
      memcpy(dst + (size_t)i * sizeof v, &v, sizeof v);
    } else {
      dst[i] = sub_byte_wrap(from, src[i]);
    }
  }
}

static void pack(sn_type to, uint8_t *dst, const uint8_t *src, int64_t n, bool saturate) {
  const sn_float_format *format = sn_float_format_of(to);
  for (int64_t i = 0; i < n; i++) {
    if (format) {
      float v;
      memcpy(&v, src + (size_t)i * sizeof v, sizeof v);
      dst[i] = sn_float_encode(format, v);
    } else {
      dst[i] = sub_byte_put(to, src[i], saturate);
    }
  }
}

#define NARROW_CASE(from)                                 \
  case SN_TYPE_##from:                                    \
    for (int64_t i = 0; i < n; i++) {                     \
      c_##from x;                                         \
      memcpy(&x, src + (size_t)i * sizeof x, sizeof x);   \
      dst[i] = NARROW(x);                                 \
    }                                                     \
    return;

/* A direct type to f32, on the way to a narrower float. */
static void narrow_block(sn_type from, float *dst, const uint8_t *src, int64_t n) {
  switch (from) {
    NARROW_CASE(F64)
    NARROW_CASE(S32)
    NARROW_CASE(U32)
    NARROW_CASE(S64)
    NARROW_CASE(U64)
    default:
      if (from == SN_TYPE_F32) memcpy(dst, src, (size_t)n * sizeof *dst);
      else direct[from][SN_TYPE_F32]((uint8_t *)dst, src, n);
  }
}

/* At most BLOCK elements of real types, at least one of them indirect. */
static void convert_block(sn_type to, uint8_t *dst, sn_type from, const uint8_t *src, int64_t n) {
  uint8_t wide[BLOCK * sizeof(float)];
  float narrow[BLOCK];
  sn_type from_carrier = carrier(from), to_carrier = carrier(to);
  if (from_carrier != from) {
    unpack(from, wide, src, n);
    src = wide;
  }
  if (to_carrier == to) {
    if (from_carrier == to) memcpy(dst, src, (size_t)n * sn_type_bytes(to));
    else direct[from_carrier][to](dst, src, n);
    return;
  }
  if (to_carrier == SN_TYPE_F32) {
    narrow_block(from_carrier, narrow, src, n);
  } else if (from_carrier == to_carrier) {
    memcpy(narrow, src, (size_t)n);
  } else {
    direct[from_carrier][to_carrier]((uint8_t *)narrow, src, n);
  }
  pack(to, dst, (const uint8_t *)narrow, n, sn_type_is_float(from));
}

/* One-byte sources with many elements: every code is converted once. */
static void convert_by_table(sn_type to, uint8_t *dst, sn_type from, const uint8_t *src, int64_t n) {
  uint8_t codes[256], table[256 * 8];
  size_t bytes = sn_type_bytes(to);
  for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
  convert_block(to, table, from, codes, 256);
  switch (bytes) { /* constant sizes make each copy one move */
    case 1: for (int64_t i = 0; i < n; i++) dst[i] = table[src[i]]; return;
    case 2: for (int64_t i = 0; i < n; i++) memcpy(dst + i * 2, table + src[i] * 2, 2); return;
    case 4: for (int64_t i = 0; i < n; i++) memcpy(dst + i * 4, table + src[i] * 4, 4); return;
    default: for (int64_t i = 0; i < n; i++) memcpy(dst + i * 8, table + src[i] * 8, 8); return;
  }
}

static void convert_real(sn_type to, uint8_t *dst, sn_type from, const uint8_t *src, int64_t n) {
  if (to == from) {
    memmove(dst, src, (size_t)n * sn_type_bytes(to));
    return;
  }
  if (direct[from][to]) {
    direct[from][to](dst, src, n);
    return;
  }
  if (sn_type_bytes(from) == 1 && n >= 1024) {
    convert_by_table(to, dst, from, src, n);
    return;
  }
  size_t to_bytes = sn_type_bytes(to), from_bytes = sn_type_bytes(from);
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    convert_block(to, dst + (size_t)i * to_bytes, from, src + (size_t)i * from_bytes, m);
  }
}

/* ---- complex --------------------------------------------------------------------------------------------------- */

/* Picks every second element of `bytes` bytes, or lays elements out with zeros between. */
static void take_even(uint8_t *dst, const uint8_t *src, size_t bytes, int64_t n) {
  for (int64_t i = 0; i < n; i++) memcpy(dst + (size_t)i * bytes, src + (size_t)i * 2 * bytes, bytes);
}

static void put_even(uint8_t *dst, const uint8_t *src, size_t bytes, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    memcpy(dst + (size_t)i * 2 * bytes, src + (size_t)i * bytes, bytes);
    memset(dst + ((size_t)i * 2 + 1) * bytes, 0, bytes);
  }
}

static void complex_to_pred(uint8_t *dst, sn_type part, const uint8_t *src, int64_t n) {
  uint8_t nonzero[2 * BLOCK];
  direct[part][SN_TYPE_PRED](nonzero, src, 2 * n);
  for (int64_t i = 0; i < n; i++) dst[i] = nonzero[2 * i] | nonzero[2 * i + 1];
}

static void convert_complex_block(sn_type to, uint8_t *dst, sn_type from, const uint8_t *src, int64_t n) {
  uint8_t parts[BLOCK * sizeof(double)];
  if (sn_type_is_complex(from)) {
    sn_type part = sn_type_real_part(from);
    if (to == SN_TYPE_PRED) {
      complex_to_pred(dst, part, src, n);
      return;
    }
    take_even(parts, src, sn_type_bytes(part), n);
    convert_real(to, dst, part, parts, n);
  } else {
    sn_type part = sn_type_real_part(to);
    convert_real(part, parts, from, src, n);
    put_even(dst, parts, sn_type_bytes(part), n);
  }
}

void sn_convert(sn_type to, void *dst, sn_type from, const void *src, int64_t n) {
  sn_assert(sn_type_is_array(to) && sn_type_is_array(from) && n >= 0);
  uint8_t *d = dst;
  const uint8_t *s = src;
  if (n <= 0) return; /* pointers may be NULL */
  bool to_complex = sn_type_is_complex(to), from_complex = sn_type_is_complex(from);
  if (to_complex == from_complex) {
    int64_t parts = to_complex ? 2 * n : n;
    convert_real(sn_type_real_part(to), d, sn_type_real_part(from), s, parts);
    return;
  }
  size_t to_bytes = sn_type_bytes(to), from_bytes = sn_type_bytes(from);
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    convert_complex_block(to, d + (size_t)i * to_bytes, from, s + (size_t)i * from_bytes, m);
  }
}

/* ---- scalars --------------------------------------------------------------------------------------------------- */

/* The interpreter's inner loops stand on these, hence the short ways for what it meets most. */
double sn_load_f64(sn_type t, const void *p) {
  float f;
  double v;
  switch (t) {
    case SN_TYPE_F32: memcpy(&f, p, sizeof f); return f;
    case SN_TYPE_F64: memcpy(&v, p, sizeof v); return v;
    default: sn_convert(SN_TYPE_F64, &v, t, p, 1); return v;
  }
}

void sn_store_f64(sn_type t, void *p, double v) {
  float f = (float)v;
  switch (t) {
    case SN_TYPE_F32: memcpy(p, &f, sizeof f); return;
    case SN_TYPE_F64: memcpy(p, &v, sizeof v); return;
    default: sn_convert(t, p, SN_TYPE_F64, &v, 1); return;
  }
}

int64_t sn_load_i64(sn_type t, const void *p) {
  int32_t i;
  int64_t v;
  switch (t) {
    case SN_TYPE_S32: memcpy(&i, p, sizeof i); return i;
    case SN_TYPE_S64: memcpy(&v, p, sizeof v); return v;
    default: sn_convert(SN_TYPE_S64, &v, t, p, 1); return v;
  }
}

void sn_store_i64(sn_type t, void *p, int64_t v) { sn_convert(t, p, SN_TYPE_S64, &v, 1); }

void sn_load_c128(sn_type t, const void *p, double *re, double *im) {
  double parts[2];
  sn_convert(SN_TYPE_C128, parts, t, p, 1);
  *re = parts[0];
  *im = parts[1];
}

void sn_store_c128(sn_type t, void *p, double re, double im) {
  double parts[2] = {re, im};
  sn_convert(t, p, SN_TYPE_C128, parts, 1);
}
