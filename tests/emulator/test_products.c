/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mma.sync of every shape against a product of small integers, by the fragment tables of the PTX manual (9.7.14); how sums round; ldmatrix. */
#include "test_emulator.h"

#include <math.h>

typedef struct shape { const char *text; int m, k, bits, a, b, c; char kind; } shape; /* bits of an element of A and B; registers; kind: t f(16) b(16) h (f16 sums) s u d */
static const shape shapes[] = {
    {"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4, 32, 2, 1, 4, 't'},   {"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 32, 4, 2, 4, 't'},
    {"m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 16, 2, 1, 4, 'f'},     {"m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 16, 4, 2, 4, 'f'},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 16, 2, 1, 4, 'b'},   {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, 16, 4, 2, 4, 'b'},
    {"m16n8k16.row.col.f16.f16.f16.f16", 16, 16, 16, 4, 2, 2, 'h'},   {"m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 16, 2, 1, 2, 'h'},
    {"m16n8k16.row.col.s32.s8.s8.s32", 16, 16, 8, 2, 1, 4, 's'},      {"m16n8k32.row.col.s32.s8.s8.s32", 16, 32, 8, 4, 2, 4, 's'},
    {"m16n8k32.row.col.s32.u8.s8.s32", 16, 32, 8, 4, 2, 4, 'u'},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static uint32_t half_bits(int v) { /* of a small integer */
  float f = (float)abs(v);
  uint32_t u;
  memcpy(&u, &f, 4);
  return v == 0 ? 0 : (v < 0 ? 0x8000u : 0) | (((u >> 23) - 112) << 10) | ((u >> 13) & 1023);
}

static uint32_t element(const shape *s, int v) {
  float f = (float)v;
  uint32_t u;
  memcpy(&u, &f, 4);
  return s->kind == 't' ? u : s->kind == 'b' ? u >> 16 : s->kind == 's' || s->kind == 'u' ? (uint32_t)v & 255 : half_bits(v);
}

static int a_at(const shape *s, int row, int k) { return (row * 7 + k * 3) % 11 - (s->kind == 'u' ? 0 : 5); }
static int b_at(int k, int column) { return (k * 5 + column * 2) % 9 - 4; }
static int c_at(int row, int column) { return (row + 3 * column) % 13 - 6; }

/* "groupID" and "threadID_in_group" of the manual. */
static void fragment(const shape *s, uint32_t registers[12][32]) {
  int per = 32 / s->bits;
  for (int lane = 0; lane < 32; lane++) {
    int group = lane >> 2, thread = lane & 3;
    for (int r = 0; r < s->a; r++) {
      registers[r][lane] = 0;
      for (int e = 0; e < per; e++) {
        int row = r % 2 == 0 ? group : group + 8, column = r < 2 ? thread * per + e : thread * per + e + 4 * per;
        registers[r][lane] |= element(s, a_at(s, row, column)) << (s->bits * e);
      }
    }
    for (int r = 0; r < s->b; r++) {
      registers[s->a + r][lane] = 0;
      for (int e = 0; e < per; e++) registers[s->a + r][lane] |= element(s, b_at(thread * per + e + r * 4 * per, group)) << (s->bits * e);
    }
    for (int r = 0; r < 4; r++) {
      int v = c_at(r < 2 ? group : group + 8, thread * 2 + (r & 1));
      float f = (float)v;
      uint32_t u = (uint32_t)v;
      if (s->kind != 's' && s->kind != 'u') memcpy(&u, &f, 4);
      if (s->kind == 'h') registers[s->a + s->b + r / 2][lane] = r % 2 ? registers[s->a + s->b + r / 2][lane] | half_bits(v) << 16 : half_bits(v);
      else registers[s->a + s->b + r][lane] = u;
    }
  }
}

static char *product_module(const shape *s) {
  char body[3000] = "", *at = body;
  const char *kind = s->kind == 's' || s->kind == 'u' || s->kind == 'h' ? "%r" : "%f";
  at += sprintf(at, "mul.wide.u32 %%d1, %%r0, 4;\nadd.s64 %%d2, %%d30, %%d1;\nadd.s64 %%d3, %%d31, %%d1;\n");
  for (int r = 0; r < s->a + s->b; r++) at += sprintf(at, "ld.global.u32 %%r%d, [%%d2+%d];\n", r + 1, 128 * r);
  for (int r = 0; r < s->c; r++) at += sprintf(at, "ld.global.b32 %s%d, [%%d2+%d];\n", kind, r + 20, 128 * (s->a + s->b + r));
  at += sprintf(at, "mma.sync.aligned.%s {", s->text);
  for (int r = 0; r < s->c; r++) at += sprintf(at, "%s%s%d", r ? ", " : "", kind, r + 24);
  at += sprintf(at, "}, {");
  for (int r = 0; r < s->a; r++) at += sprintf(at, "%s%%r%d", r ? ", " : "", r + 1);
  at += sprintf(at, "}, {");
  for (int r = 0; r < s->b; r++) at += sprintf(at, "%s%%r%d", r ? ", " : "", s->a + r + 1);
  at += sprintf(at, "}, {");
  for (int r = 0; r < s->c; r++) at += sprintf(at, "%s%s%d", r ? ", " : "", kind, r + 20);
  at += sprintf(at, "};\n");
  for (int r = 0; r < s->c; r++) at += sprintf(at, "st.global.b32 [%%d3+%d], %s%d;\n", 128 * r, kind, r + 24);
  return test_module("", body);
}

START_TEST(products_of_small_integers_are_exact) {
  const shape *s = &shapes[_i];
  uint32_t in[12][32], out[4][32];
  memset(out, 0, sizeof out);
  fragment(s, in);
  char *text = product_module(s);
  test_run r = {.in = in, .in_bytes = sizeof in, .out = out, .out_bytes = sizeof out};
  ck_assert_msg(test_execute(text, &r), "%s", r.fault.text);
  for (int lane = 0; lane < 32; lane++) {
    for (int e = 0; e < 4; e++) {
      int row = (lane >> 2) + (e < 2 ? 0 : 8), column = (lane & 3) * 2 + (e & 1), want = c_at(row, column);
      for (int k = 0; k < s->k; k++) want += a_at(s, row, k) * b_at(k, column);
      uint32_t bits = (uint32_t)want, got = s->kind == 'h' ? out[e / 2][lane] >> (16 * (e % 2)) & 0xffff : out[e][lane];
      float f = (float)want;
      if (s->kind == 'h') bits = half_bits(want);
      else if (s->kind != 's' && s->kind != 'u') memcpy(&bits, &f, 4);
      ck_assert_msg(got == bits || (want == 0 && (got & 0x7fffffff) == 0), "%s: row %d, column %d: 0x%x, not 0x%x (%d)", s->text, row, column, got, bits, want);
    }
  }
  ck_assert_uint_eq(r.counters.products, 1);
  free(text);
}
END_TEST

/* One row times one column, the other operands zero: c + sum of a[k] * b[k], a and b f32 bits. */
static float tf32_dot(const float *a, const float *b, float c) {
  const shape *s = &shapes[1];
  uint32_t in[12][32] = {{0}}, out[4][32] = {{0}};
  for (int k = 0; k < 8; k++) {
    memcpy(&in[k < 4 ? 0 : 2][k % 4], &a[k], 4);
    memcpy(&in[4 + k / 4][k % 4], &b[k], 4);
  }
  memcpy(&in[6][0], &c, 4);
  char *text = product_module(s);
  test_run r = {.in = in, .in_bytes = sizeof in, .out = out, .out_bytes = sizeof out};
  ck_assert(test_execute(text, &r));
  free(text);
  float f;
  memcpy(&f, &out[0][0], 4);
  return f;
}

START_TEST(sums_are_cut_not_rounded) {
  float zero[8] = {0}, one[8] = {1}, a[8] = {0};
  /* the low 13 bits of an operand are not looked at */
  a[0] = 1.0f + 0x1p-11f;
  ck_assert(tf32_dot(a, one, 0) == 1.0f);
  a[0] = 1.0f + 0x1p-10f;
  ck_assert(tf32_dot(a, one, 0) == 1.0f + 0x1p-10f);
  /* three quarters of a last place is cut off; to nearest it would be one */
  a[0] = 0x1.8p-24f;
  ck_assert(tf32_dot(a, one, 1.0f) == 1.0f);
  ck_assert(tf32_dot(zero, one, 3.25f) == 3.25f);
  /* what cancels is exact: only the last places are at stake */
  float big[8] = {0x1p60f, -0x1p60f, 1, 0, 0, 0, 0, 0}, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  ck_assert(tf32_dot(big, ones, 0) == 0.0f); /* the 1 was shifted out beside 2^60 */
  float apart[8] = {0x1p60f, -0x1p60f, 0, 0, 1, 0, 0, 0};
  ck_assert(tf32_dot(apart, ones, 0) == 1.0f); /* another step of four terms */
  float infinite[8] = {INFINITY, 1};
  ck_assert(isinf(tf32_dot(infinite, ones, 0)));
  ck_assert(isnan(tf32_dot(infinite, zero, 0)));
}
END_TEST

/* Fused multiply-adds of f64: m8n8k4. */
START_TEST(f64_products) {
  double in[4][32], out[2][32] = {{0}};
  for (int l = 0; l < 32; l++) {
    in[0][l] = l / 4 * 3 + l % 4 + 0.5;  /* A[l / 4][l % 4] */
    in[1][l] = l % 4 * 2 - l / 4;        /* B[l % 4][l / 4] */
    in[2][l] = l;                        /* C[l / 4][2 (l % 4)], and its neighbour */
    in[3][l] = -l;
  }
  char *text = test_module("", "mul.wide.u32 %d1, %r0, 8;\nadd.s64 %d2, %d30, %d1;\nadd.s64 %d3, %d31, %d1;\nld.global.f64 %fd1, [%d2];\nld.global.f64 %fd2, [%d2+256];\nld.global.f64 %fd3, [%d2+512];\nld.global.f64 %fd4, "
                               "[%d2+768];\nmma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd5, %fd6}, {%fd1}, {%fd2}, {%fd3, %fd4};\nst.global.f64 [%d3], %fd5;\nst.global.f64 [%d3+256], %fd6;");
  test_run r = {.in = in, .in_bytes = sizeof in, .out = out, .out_bytes = sizeof out};
  ck_assert_msg(test_execute(text, &r), "%s", r.fault.text);
  for (int l = 0; l < 32; l++) {
    for (int e = 0; e < 2; e++) {
      double want = e ? -l : l;
      for (int k = 0; k < 4; k++) want += in[0][l / 4 * 4 + k] * in[1][(2 * (l % 4) + e) * 4 + k];
      ck_assert_double_eq(out[e][l], want);
    }
  }
  free(text);
}
END_TEST

/* Four 8 x 8 matrices of 16 bits: element value 64 matrix + 8 row + column. */
START_TEST(matrices_from_shared_memory) {
  for (int trans = 0; trans < 2; trans++) {
    uint16_t in[256];
    uint32_t out[4][32] = {{0}};
    char body[1200];
    for (int k = 0; k < 256; k++) in[k] = (uint16_t)k;
    snprintf(body, sizeof body,
             "mul.wide.u32 %%d1, %%r0, 16;\nadd.s64 %%d2, %%d30, %%d1;\nld.global.v4.u32 {%%r1, %%r2, %%r3, %%r4}, [%%d2];\nmov.u32 %%r5, s;\nmad.lo.u32 %%r6, %%r0, 16, %%r5;\nst.shared.v4.u32 [%%r6], {%%r1, %%r2, %%r3, "
             "%%r4};\nbar.sync 0;\nldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%r11, %%r12, %%r13, %%r14}, [%%r6];\nmul.wide.u32 %%d1, %%r0, 4;\nadd.s64 %%d3, %%d31, %%d1;\nst.global.u32 [%%d3], %%r11;\n"
             "st.global.u32 [%%d3+128], %%r12;\nst.global.u32 [%%d3+256], %%r13;\nst.global.u32 [%%d3+384], %%r14;",
             trans ? ".trans" : "");
    char *text = test_module(".shared .align 16 .b8 s[512];", body);
    test_run r = {.in = in, .in_bytes = sizeof in, .out = out, .out_bytes = sizeof out};
    ck_assert_msg(test_execute(text, &r), "%s", r.fault.text);
    for (uint32_t k = 0; k < 4; k++) {
      for (uint32_t l = 0; l < 32; l++) {
        uint32_t row = l / 4, column = l % 4 * 2, low = trans ? 8 * column + row : 8 * row + column, high = trans ? low + 8 : low + 1;
        ck_assert_uint_eq(out[k][l], (64 * k + low) | (64 * k + high) << 16);
      }
    }
    free(text);
  }
}
END_TEST

Suite *product_suite(void) {
  Suite *s = suite_create("products");
  TCase *t = tcase_create("products");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, products_of_small_integers_are_exact, 0, N_SHAPES);
  tcase_add_test(t, sums_are_cut_not_rounded);
  tcase_add_test(t, f64_products);
  tcase_add_test(t, matrices_from_shared_memory);
  suite_add_tcase(s, t);
  return s;
}
