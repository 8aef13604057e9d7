/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mma.sync. Fragments: lane l is row g = l / 4 and column t = l mod 4 of its kind; a register of A holds p values of row g + 8 (i mod 2) from column p t + 4p (i / 2) on, one of B p
 * values of column g from row p t + 4p i on, one of C and D the columns 2t, 2t + 1 of row g + 8 (i / 2).
 *
 * Sums round as tensor cores do (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021): products are exact; the products of a step and the sum so far
 * are shifted to the largest exponent among them, three bits are kept below f32's last one, the rest is cut off; the total is cut to f32. */
#include "exec.h"

typedef struct product {
  int m, k, each;     /* rows, terms; values in a register of A and B */
  int a, b, c;        /* registers */
  int step;           /* terms that are added at once */
} product;

static uint32_t word(const emu_warp *w, uint32_t place, int lane) { return EMU_AT(const uint32_t, place)[lane]; }

/* ---- values of fragments ---- */

static double value(emu_type t, uint32_t bits, int e) {
  float f;
  switch (t) {
    case EMU_F16: return emu_half_to_f32((uint16_t)(bits >> (16 * e)));
    case EMU_BF16: return emu_bfloat_to_f32((uint16_t)(bits >> (16 * e)));
    case EMU_TF32:
      bits &= 0xffffe000u; /* the low 13 bits are not looked at */
      memcpy(&f, &bits, 4);
      return f;
    case EMU_S8: return (int8_t)(bits >> (8 * e));
    case EMU_U8: return (uint8_t)(bits >> (8 * e));
    default: return 0;
  }
}

static void gather(const emu_warp *w, const emu_ins *i, const product *p, double *a, double *b) {
  for (int l = 0; l < EMU_LANES; l++) {
    int g = l / 4, t = l % 4;
    for (int r = 0; r < p->a; r++) {
      uint32_t bits = word(w, i->list[p->c + r], l);
      int row = g + 8 * (r % 2), column = p->each * t + 4 * p->each * (r / 2);
      for (int e = 0; e < p->each; e++) a[row * p->k + column + e] = value((emu_type)i->from, bits, e);
    }
    for (int r = 0; r < p->b; r++) {
      uint32_t bits = word(w, i->list[p->c + p->a + r], l);
      for (int e = 0; e < p->each; e++) b[g * p->k + p->each * t + 4 * p->each * r + e] = value((emu_type)i->sub, bits, e);
    }
  }
}

/* ---- sums ---- */

static int exponent(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return (int)(u >> 52 & 2047); /* biased; values are normal in f64 or zero */
}

static double power(int biased) {
  uint64_t u = (uint64_t)biased << 52;
  double x;
  memcpy(&x, &u, 8);
  return x;
}

static float cut_to_f32(double x) {
  float f = (float)x;
  if (fabs((double)f) > fabs(x)) f = nextafterf(f, 0);
  return f;
}

static float add_step(float sum, const double *a, const double *b, int n) {
  double terms[16], total = 0;
  int most = exponent(sum);
  for (int k = 0; k < n; k++) {
    terms[k] = a[k] * b[k]; /* 22 bits: exact */
    if (terms[k] != 0) {
      int e = exponent(a[k]) + exponent(b[k]) - 1023;
      most = e > most ? e : most;
    }
  }
  if (!isfinite(sum)) return sum + (float)(a[0] * b[0]);
  if (most <= 26) return 0;
  double unit = power(most - 26), inverse = power(2046 - most + 26);
  for (int k = 0; k < n; k++) total += trunc(terms[k] * inverse);
  total += trunc(sum * inverse);
  return cut_to_f32(total * unit);
}

static bool all_finite(const double *x, int n) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += x[k] * 0; /* NaN where one is not */
  return sum == 0;
}

static float float_sum(const product *p, float sum, const double *a, const double *b) {
  if (!all_finite(a, p->k) || !all_finite(b, p->k)) {
    for (int k = 0; k < p->k; k++) sum += (float)(a[k] * b[k]);
    return sum;
  }
  for (int k = 0; k < p->k; k += p->step) sum = add_step(sum, a + k, b + k, p->step);
  return sum;
}

static int32_t integer_sum(const product *p, const emu_ins *i, int32_t sum, const double *a, const double *b) {
  int64_t s = sum;
  for (int k = 0; k < p->k; k++) s += (int64_t)(a[k] * b[k]);
  if (!(i->flags & EMU_F(SATFINITE))) return (int32_t)(uint32_t)s;
  return s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : (int32_t)s;
}

/* ---- the instruction ---- */

static bool whole_warp(emu_warp *w, const emu_ins *i, uint32_t mask) {
  w->block->counters.products++;
  if (mask == EMU_FULL) return true;
  emu_fail(w, i, __builtin_ctz(mask), EMU_ERROR_ILLEGAL_INSTRUCTION, "mma.sync by lanes %08x", mask);
  return false;
}

static uint32_t one_result(const product *p, const emu_ins *i, uint32_t c, const double *a, const double *b) {
  if (i->type == EMU_S32) return (uint32_t)integer_sum(p, i, (int32_t)c, a, b);
  float sum;
  memcpy(&sum, &c, 4);
  sum = float_sum(p, sum, a, b);
  memcpy(&c, &sum, 4);
  return c;
}

static void multiply(emu_warp *w, const emu_ins *i, uint32_t mask, const product *p) {
  double a[16 * 32], b[8 * 32];
  uint32_t results[4][EMU_LANES];
  const uint32_t *c = i->list + p->c + p->a + p->b;
  bool half = i->type == EMU_F16;
  if (!whole_warp(w, i, mask)) return;
  gather(w, i, p, a, b);
  for (int l = 0; l < EMU_LANES; l++) {
    for (int r = 0; r < 4; r++) {
      const double *row = a + (l / 4 + 8 * (r / 2)) * p->k, *column = b + (2 * (l % 4) + r % 2) * p->k;
      if (half) {
        float sum = emu_half_to_f32((uint16_t)(word(w, c[r / 2], l) >> (16 * (r % 2))));
        uint32_t bits = emu_f32_to_half(float_sum(p, sum, row, column));
        results[r / 2][l] = r % 2 ? results[r / 2][l] | bits << 16 : bits;
      } else {
        results[r][l] = one_result(p, i, word(w, c[r], l), row, column);
      }
    }
  }
  for (int r = 0; r < p->c; r++) memcpy(emu_at(w, i->list[r]), results[r], sizeof results[r]);
}

/* f64: fused multiply-adds in order of k, to nearest. */
static void multiply_f64(emu_warp *w, const emu_ins *i, uint32_t mask, const product *p) {
  double results[4][EMU_LANES];
  if (!whole_warp(w, i, mask)) return;
  for (int l = 0; l < EMU_LANES; l++) {
    for (int r = 0; r < p->c; r++) {
      int row = l / 4, column = 2 * (l % 4) + r % 2;
      double sum = EMU_AT(const double, i->list[p->c + p->a + p->b + r])[l];
      for (int k = 0; k < p->k; k++) {
        int from_a = p->m == 8 ? k / 4 : 2 * (k / 4) + r / 2;
        sum = fma(EMU_AT(const double, i->list[p->c + from_a])[row * 4 + k % 4], EMU_AT(const double, i->list[p->c + p->a + k / 4])[column * 4 + k % 4], sum);
      }
      results[r][l] = sum;
    }
  }
  for (int r = 0; r < p->c; r++) memcpy(emu_at(w, i->list[r]), results[r], sizeof results[r]);
}

#define PRODUCT(name, how, ...)                                            \
  static const product name##_shape = {__VA_ARGS__};                       \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) { how(w, i, mask, &name##_shape); }
PRODUCT(tf32_k4, multiply, 16, 4, 1, 2, 1, 4, 4)
PRODUCT(tf32_k8, multiply, 16, 8, 1, 4, 2, 4, 4)
PRODUCT(half_k8, multiply, 16, 8, 2, 2, 1, 4, 8)
PRODUCT(half_k16, multiply, 16, 16, 2, 4, 2, 4, 8)
PRODUCT(half_k8_f16, multiply, 16, 8, 2, 2, 1, 2, 8)
PRODUCT(half_k16_f16, multiply, 16, 16, 2, 4, 2, 2, 8)
PRODUCT(int8_k16, multiply, 16, 16, 4, 2, 1, 4, 16)
PRODUCT(int8_k32, multiply, 16, 32, 4, 4, 2, 4, 16)
PRODUCT(f64_m8, multiply_f64, 8, 4, 1, 1, 1, 2, 4)
PRODUCT(f64_k4, multiply_f64, 16, 4, 1, 2, 1, 4, 4)
PRODUCT(f64_k8, multiply_f64, 16, 8, 1, 4, 2, 4, 4)
PRODUCT(f64_k16, multiply_f64, 16, 16, 1, 8, 4, 4, 4)

emu_run emu_product_run(const char *shape, const emu_type t[4], int sizes[4]) {
  enum { TF32, HALF, HALF_F16, INT8, F64, OTHER };
  static const struct { const char *shape; int kind; emu_run run; const product *p; } rows[] = {
      {"m16n8k4", TF32, tf32_k4, &tf32_k4_shape},          {"m16n8k8", TF32, tf32_k8, &tf32_k8_shape},     {"m16n8k8", HALF, half_k8, &half_k8_shape},
      {"m16n8k16", HALF, half_k16, &half_k16_shape},       {"m16n8k8", HALF_F16, half_k8_f16, &half_k8_f16_shape},
      {"m16n8k16", HALF_F16, half_k16_f16, &half_k16_f16_shape},                                           {"m16n8k16", INT8, int8_k16, &int8_k16_shape},
      {"m16n8k32", INT8, int8_k32, &int8_k32_shape},       {"m8n8k4", F64, f64_m8, &f64_m8_shape},         {"m16n8k4", F64, f64_k4, &f64_k4_shape},
      {"m16n8k8", F64, f64_k8, &f64_k8_shape},             {"m16n8k16", F64, f64_k16, &f64_k16_shape},
  };
  bool f32 = t[0] == EMU_F32 && t[3] == EMU_F32, f16 = t[0] == EMU_F16 && t[3] == EMU_F16, s32 = t[0] == EMU_S32 && t[3] == EMU_S32;
  bool half = t[1] == t[2] && (t[1] == EMU_F16 || t[1] == EMU_BF16), bytes = (t[1] == EMU_S8 || t[1] == EMU_U8) && (t[2] == EMU_S8 || t[2] == EMU_U8);
  int kind = f32 && t[1] == EMU_TF32 && t[2] == EMU_TF32 ? TF32 : f32 && half ? HALF : f16 && half && t[1] == EMU_F16 ? HALF_F16 : s32 && bytes ? INT8 :
             t[0] == EMU_F64 && t[1] == EMU_F64 && t[2] == EMU_F64 && t[3] == EMU_F64 ? F64 : OTHER;
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k].kind != kind || strcmp(rows[k].shape, shape) != 0) continue;
    sizes[0] = sizes[3] = rows[k].p->c;
    sizes[1] = rows[k].p->a;
    sizes[2] = rows[k].p->b;
    return rows[k].run;
  }
  return NULL;
}
