/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Convolutions large enough for the packed template, and some that are not: orders of dimensions x windows x groups, alone and between elementwise work, as one module each. */
#include <stdio.h>
#include <string.h>

#include "engines.h"
#include "sinter/text.h"

enum { MAX_SPACE = 3, UNITS = 16 };

/* As in dim_labels: forward passes, gradients of the input (features of the kernel exchanged) and of the kernel (batch and features exchanged), channels last, first, apart. */
typedef struct layout { const char *input, *kernel, *result; } layout;
static const layout planes[] = {
    {"b01f", "01io", "b01f"}, {"bf01", "oi01", "bf01"}, {"b01f", "01oi", "b01f"}, {"bf01", "io01", "bf01"}, {"f01b", "i01o", "01bf"},
    {"fb01", "io01", "fb01"}, {"bf01", "oi01", "b01f"}, {"01bf", "01io", "01fb"}, {"f01b", "o01i", "f01b"},
};
static const layout lines[] = {{"b0f", "0io", "b0f"}, {"bf0", "oi0", "bf0"}, {"f0b", "i0o", "0bf"}};
static const layout solids[] = {{"b012f", "012io", "b012f"}, {"bf012", "oi012", "bf012"}, {"f012b", "i012o", "012bf"}};

typedef struct window { int64_t size, stride, low, high, lhs_dilate, rhs_dilate; bool reversal; } window;
typedef struct problem {
  const char *name;
  int64_t batch, in, out, feature_groups, batch_groups; /* in: of the input, all groups */
  int64_t image[MAX_SPACE];
  window w[MAX_SPACE];
} problem;

static const problem plane_problems[] = {
    {"plain", 2, 8, 20, 1, 1, {9, 11}, {{3, 1, 0, 0, 1, 1, 0}, {3, 1, 0, 0, 1, 1, 0}}},
    {"padded", 2, 5, 33, 1, 1, {9, 10}, {{3, 1, 1, 1, 1, 1, 0}, {5, 1, 2, 2, 1, 1, 0}}},
    {"strided", 3, 6, 17, 1, 1, {13, 12}, {{3, 2, 1, 0, 1, 1, 0}, {2, 3, 0, 2, 1, 1, 0}}},
    {"dilated window", 2, 7, 16, 1, 1, {12, 11}, {{3, 1, 2, 2, 1, 2, 0}, {2, 1, 0, 0, 1, 3, 0}}},
    {"dilated input", 2, 9, 19, 1, 1, {6, 5}, {{3, 1, 2, 1, 2, 1, 0}, {3, 1, 1, 2, 3, 1, 0}}},
    {"dilated, strided", 1, 8, 18, 1, 1, {9, 9}, {{3, 2, 1, 1, 3, 1, 0}, {3, 3, 2, 2, 2, 2, 0}}},
    {"cut", 2, 8, 24, 1, 1, {11, 12}, {{3, 1, -2, 1, 1, 1, 0}, {3, 1, 1, -3, 1, 1, 0}}},
    {"reversed", 2, 8, 16, 1, 1, {8, 9}, {{3, 1, 1, 1, 1, 1, 1}, {2, 1, 0, 1, 1, 1, 0}}},
    {"one pixel", 2, 32, 40, 1, 1, {7, 8}, {{1, 2, 0, 0, 1, 1, 0}, {1, 2, 0, 0, 1, 1, 0}}},
    {"one pixel, dilated", 2, 32, 40, 1, 1, {7, 8}, {{1, 1, 0, 1, 2, 1, 0}, {1, 1, 1, 0, 2, 1, 0}}},
    {"large window", 12, 13, 21, 1, 1, {9, 8}, {{8, 1, 1, 1, 1, 1, 0}, {7, 1, 1, 1, 1, 1, 0}}},
    {"large, dilated window", 10, 14, 20, 1, 1, {9, 10}, {{5, 1, 1, 1, 1, 2, 0}, {4, 1, 0, 1, 1, 2, 0}}},
    {"few features", 4, 3, 5, 1, 1, {20, 19}, {{7, 2, 3, 3, 1, 1, 0}, {7, 2, 3, 3, 1, 1, 0}}},
    {"one feature", 2, 1, 1, 1, 1, {24, 23}, {{5, 1, 2, 2, 1, 1, 0}, {5, 1, 2, 2, 1, 1, 0}}},
    {"groups", 2, 12, 36, 3, 1, {9, 8}, {{3, 1, 1, 1, 1, 1, 0}, {3, 1, 1, 1, 1, 1, 0}}},
    {"depthwise", 2, 20, 20, 20, 1, {9, 17}, {{3, 1, 1, 1, 1, 1, 0}, {3, 1, 1, 1, 1, 1, 0}}},
    {"depthwise, twice", 2, 10, 20, 10, 1, {9, 8}, {{3, 2, 1, 1, 1, 1, 0}, {3, 2, 1, 0, 1, 1, 0}}},
    {"groups of the batch", 6, 12, 36, 1, 3, {9, 8}, {{3, 1, 1, 1, 1, 1, 0}, {3, 1, 1, 1, 1, 1, 0}}},
    {"many terms", 2, 150, 24, 1, 1, {5, 6}, {{3, 1, 1, 1, 1, 1, 0}, {3, 1, 1, 1, 1, 1, 0}}},
};
static const problem line_problems[] = {
    {"line", 3, 9, 24, 1, 1, {40}, {{5, 1, 2, 2, 1, 1, 0}}},
    {"strided line", 2, 16, 18, 1, 1, {41}, {{4, 2, 1, 2, 1, 1, 0}}},
    {"dilated line", 2, 10, 20, 1, 1, {30}, {{4, 1, 3, 3, 2, 3, 0}}},
};
static const problem solid_problems[] = {
    {"solid", 2, 6, 18, 1, 1, {5, 6, 7}, {{3, 1, 1, 1, 1, 1, 0}, {2, 1, 0, 1, 1, 1, 0}, {3, 1, 1, 0, 1, 1, 0}}},
    {"strided solid", 1, 8, 17, 1, 1, {7, 8, 9}, {{3, 2, 1, 1, 1, 1, 0}, {3, 2, 0, 1, 1, 1, 0}, {2, 2, 0, 0, 1, 1, 0}}},
};

static int64_t dilated(int64_t n, int64_t by) { return n ? (n - 1) * by + 1 : 0; }

static int64_t result_size(const problem *p, int k) {
  const window *w = &p->w[k];
  return (dilated(p->image[k], w->lhs_dilate) + w->low + w->high - dilated(w->size, w->rhs_dilate)) / w->stride + 1;
}

/* The size that a letter of dim_labels stands for in one of the three arrays. */
static int64_t size_of(const problem *p, int array, char letter) {
  if (letter >= '0' && letter <= '9') return array == 0 ? p->image[letter - '0'] : array == 1 ? p->w[letter - '0'].size : result_size(p, letter - '0');
  switch (letter) {
    case 'b': return array == 0 ? p->batch : p->batch / p->batch_groups;
    case 'f': return array == 0 ? p->in : p->out;
    case 'i': return p->in / p->feature_groups;
    default: return p->out;
  }
}

static void add_shape(sn_str *to, const char *type, const problem *p, int array, const char *letters) {
  sn_str_printf(to, "%s[", type);
  for (int k = 0; letters[k]; k++) sn_str_printf(to, "%s%lld", k ? "," : "", (long long)size_of(p, array, letters[k]));
  sn_str_add(to, "]");
}

static void add_window(sn_str *to, const problem *p, int rank) {
  static const char *const names[] = {"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"};
  for (int a = 0; a < 6; a++) {
    sn_str_printf(to, "%s%s=", a ? " " : "", names[a]);
    for (int k = 0; k < rank; k++) {
      const window *w = &p->w[k];
      const long long values[6] = {w->size, w->stride, w->low, w->lhs_dilate, w->rhs_dilate, w->reversal};
      sn_str_printf(to, "%s%lld", k ? "x" : "", values[a]);
      if (a == 2) sn_str_printf(to, "_%lld", (long long)w->high);
    }
  }
}

/* fused: what is convolved is computed on the way, and what comes out is biased and cut off at zero. */
static void one_convolution(const char *type, const layout *l, const problem *p, bool fused, sn_pool *pool, tally *t) {
  sn_str text = {0}, shapes[3] = {{0}};
  sn_module *m = NULL;
  sn_diag *d = NULL;
  char name[160];
  int rank = (int)strlen(l->input) - 2, feature = (int)(strchr(l->result, 'f') - l->result);
  const char *letters[3] = {l->input, l->kernel, l->result};
  for (int k = 0; k < 3; k++) add_shape(&shapes[k], type, p, k, letters[k]);
  snprintf(name, sizeof name, "convolution %s%s %s_%s->%s %s", p->name, fused ? ", fused" : "", l->input, l->kernel, l->result, type);
  sn_str_printf(&text, "HloModule convolution\nENTRY e {\n x = %s parameter(0)\n w = %s parameter(1)\n", shapes[0].data, shapes[1].data);
  if (fused) sn_str_printf(&text, " a = %s negate(x)\n b = %s abs(w)\n v = %s[%lld] parameter(2)\n", shapes[0].data, shapes[1].data, type, (long long)p->out);
  sn_str_printf(&text, " %sc = %s convolution(%s, %s), window={", fused ? "" : "ROOT ", shapes[2].data, fused ? "a" : "x", fused ? "b" : "w");
  add_window(&text, p, rank);
  sn_str_printf(&text, "}, dim_labels=%s_%s->%s, feature_group_count=%lld, batch_group_count=%lld\n", l->input, l->kernel, l->result, (long long)p->feature_groups, (long long)p->batch_groups);
  if (fused) {
    sn_str_printf(&text, " e = %s broadcast(v), dimensions={%d}\n s = %s add(c, e)\n z = %s[] constant(0)\n y = %s broadcast(z), dimensions={}\n ROOT r = %s maximum(s, y)\n", shapes[2].data,
                  feature, shapes[2].data, type, shapes[2].data, shapes[2].data);
  }
  sn_str_add(&text, "}\n");
  if (sn_diag_create(&d) == SN_OK && !text.failed && sn_hlo_parse(d, name, text.data, strlen(text.data), &m) == SN_OK && sn_module_verify(d, m, 0) == SN_OK) {
    engines_check(name, m, pool, 7, false, UNITS, t);
  } else {
    printf("FAILED: %s: %s\n", name, d && sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "no module");
    t->n_failed++;
  }
  sn_module_destroy(m);
  sn_diag_destroy(d);
  sn_str_finish(&text);
  for (int k = 0; k < 3; k++) sn_str_finish(&shapes[k]);
}

static void all_of(const char *type, const layout *l, size_t n_layouts, const problem *p, size_t n_problems, sn_pool *pool, tally *t) {
  for (size_t k = 0; k < n_problems; k++) {
    for (size_t j = 0; j < n_layouts; j++) one_convolution(type, &l[j], &p[k], (j + k) % 3 == 0, pool, t);
  }
}

void engines_convolutions(const char *type, sn_pool *pool, tally *t) {
  static const char *const types[] = {"f32", "f64", "bf16", "f16"};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    if (type && strcmp(type, types[k]) != 0) continue;
    all_of(types[k], planes, sizeof planes / sizeof *planes, plane_problems, sizeof plane_problems / sizeof *plane_problems, pool, t);
    all_of(types[k], lines, sizeof lines / sizeof *lines, line_problems, sizeof line_problems / sizeof *line_problems, pool, t);
    all_of(types[k], solids, sizeof solids / sizeof *solids, solid_problems, sizeof solid_problems / sizeof *solid_problems, pool, t);
  }
}
