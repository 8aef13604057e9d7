/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ops x types x shapes as one module each: what the verifier takes and the interpreter runs, the engines must run too. */
#include <stdio.h>
#include <string.h>

#include "engines.h"
#include "sinter/text.h"

/* Functions of 2 units on values a unit off are a few units off, where the function is no steeper than its value. */
enum { UNITS = 16 };

static const char *const unary[] = {"abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cosh", "cosine", "count-leading-zeros", "erf", "exponential",
                                    "exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "negate", "not", "popcnt", "round-nearest-afz", "round-nearest-even",
                                    "rsqrt", "sign", "sine", "sinh", "sqrt", "tan", "tanh", "copy"};
static const char *const binary[] = {"add", "and", "atan2", "divide", "maximum", "minimum", "mulhi", "multiply", "or", "power", "remainder", "shift-left",
                                     "shift-right-arithmetic", "shift-right-logical", "subtract", "xor"};
static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
static const char *const shapes[] = {"", "1", "7", "0,3", "3,5", "2,3,33"};

/* $ is the type. Each a program of its own. */
static const char *const programs[] = {
    "broadcast: x = $[3,5] parameter(0) ROOT r = $[2,3,4,5] broadcast(x), dimensions={1,3}",
    "transpose: x = $[3,5,2] parameter(0) ROOT r = $[2,3,5] transpose(x), dimensions={2,0,1}",
    "reverse: x = $[3,17] parameter(0) ROOT r = $[3,17] reverse(x), dimensions={1}",
    "reshape: x = $[3,4,5] parameter(0) ROOT r = $[6,10] reshape(x)",
    "slice: x = $[5,40] parameter(0) ROOT r = $[2,13] slice(x), slice={[1:5:2], [0:39:3]}",
    "pad: x = $[3,5] parameter(0) v = $[] parameter(1) ROOT r = $[4,12] pad(x, v), padding=1_0_0x-1_2_2",
    "concatenate: x = $[3,5] parameter(0) y = $[3,0] parameter(1) z = $[3,18] parameter(2) ROOT r = $[3,23] concatenate(x, y, z), dimensions={1}",
    "dynamic_slice: x = $[5,40] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) ROOT r = $[2,17] dynamic-slice(x, i, j), dynamic_slice_sizes={2,17}",
    "dynamic_update: x = $[5,40] parameter(0) u = $[2,17] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) ROOT r = $[5,40] dynamic-update-slice(x, u, i, j)",
    "gather: x = $[9,40] parameter(0) i = s32[6,1] parameter(1) ROOT r = $[6,40] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,40}",
    "select: p = pred[3,21] parameter(0) x = $[3,21] parameter(1) y = $[3,21] parameter(2) ROOT r = $[3,21] select(p, x, y)",
    "select_scalar: p = pred[] parameter(0) x = $[3,21] parameter(1) y = $[3,21] parameter(2) ROOT r = $[3,21] select(p, x, y)",
    "clamp: l = $[] parameter(0) x = $[3,21] parameter(1) h = $[] parameter(2) ROOT r = $[3,21] clamp(l, x, h)",
    "layout: x = $[3,21]{0,1} parameter(0) ROOT r = $[3,21]{0,1} copy(x)",
    "transposed_layout: x = $[5,21]{1,0} parameter(0) ROOT r = $[5,21]{0,1} copy(x)",
    "loop: x = $[5] parameter(0) z = s32[] constant(0) t = (s32[], $[5]) tuple(z, x) w = (s32[], $[5]) while(t), condition=below, body=step ROOT r = $[5] "
    "get-tuple-element(w), index=1",
    "branch: p = pred[] parameter(0) x = $[5] parameter(1) ROOT r = $[5] conditional(p, x, x), true_computation=turn, false_computation=keep",
};

/* % is an op of two scalars. */
static const char *const reductions[] = {
    "row: x = $[5,37] parameter(0) i = $[] parameter(1) ROOT r = $[5] reduce(x, i), dimensions={1}, to_apply=f",
    "column: x = $[37,5] parameter(0) i = $[] parameter(1) ROOT r = $[5] reduce(x, i), dimensions={0}, to_apply=f",
    "all: x = $[3,4,5] parameter(0) i = $[] parameter(1) ROOT r = $[] reduce(x, i), dimensions={0,1,2}, to_apply=f",
    "middle: x = $[3,7,5] parameter(0) i = $[] parameter(1) ROOT r = $[3,5] reduce(x, i), dimensions={1}, to_apply=f",
    "none: x = $[3,0] parameter(0) i = $[] parameter(1) ROOT r = $[3] reduce(x, i), dimensions={1}, to_apply=f",
    "window: x = $[4,11] parameter(0) i = $[] parameter(1) ROOT r = $[4,6] reduce-window(x, i), window={size=1x3 stride=1x2 pad=0_0x1_1}, to_apply=f",
    ("scatter: x = $[7,9] parameter(0) i = s32[4,1] parameter(1) u = $[4,9] parameter(2) ROOT r = $[7,9] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"),
};
static const char *const combiners[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"};

static const char *const products[] = {
    "dot: x = $[5,17] parameter(0) y = $[17,9] parameter(1) ROOT r = $[5,9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot_batched: x = $[3,17,5] parameter(0) y = $[3,9,17] parameter(1) ROOT r = $[3,5,9] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={2}",
    "dot_vector: x = $[17] parameter(0) y = $[17] parameter(1) ROOT r = $[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot_empty: x = $[5,0] parameter(0) y = $[0,9] parameter(1) ROOT r = $[5,9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution: x = $[2,7,8,3] parameter(0) y = $[3,2,3,4] parameter(1) ROOT r = $[2,4,8,4] convolution(x, y), window={size=3x2 stride=2x1 pad=1_1x0_1}, "
    "dim_labels=b01f_01io->b01f",
    "sort: x = $[3,23] parameter(0) ROOT r = $[3,23] sort(x), dimensions={1}, is_stable=true, to_apply=less",
};

/* Large enough to be packed: several blocks of terms, either operand lying either way, rows that would fall into one set of a cache, fewer rows than a tile, prologues. */
static const char *const packed[] = {
    "packed: x = $[37,1100] parameter(0) y = $[1100,70] parameter(1) ROOT r = $[37,70] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "packed_transposed: x = $[37,300] parameter(0) y = $[64,300] parameter(1) ROOT r = $[37,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "packed_columns: x = $[1100,37] parameter(0) y = $[1100,70] parameter(1) ROOT r = $[37,70] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "packed_apart: x = $[90,1024] parameter(0) y = $[1024,40] parameter(1) ROOT r = $[90,40] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "packed_few_rows: x = $[7,300] parameter(0) y = $[300,200] parameter(1) ROOT r = $[7,200] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "packed_batched: x = $[3,50,70] parameter(0) y = $[3,64,70] parameter(1) ROOT r = $[3,50,64] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={2}",
    "packed_prologue: x = $[37,300] parameter(0) y = $[70,300] parameter(1) a = $[37,300] negate(x) b = $[70,300] abs(y) ROOT r = $[37,70] dot(a, b), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "packed_prologue_columns: x = $[300,37] parameter(0) y = $[300,70] parameter(1) a = $[300,37] negate(x) b = $[300,70] abs(y) ROOT r = $[37,70] dot(a, b), "
    "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
};

static bool run_text(const char *name, const char *text, bool special, sn_pool *pool, tally *t) {
  sn_module *m = NULL;
  sn_diag *d = NULL;
  if (sn_diag_create(&d) != SN_OK) return false;
  bool valid = sn_hlo_parse(d, name, text, strlen(text), &m) == SN_OK && sn_module_verify(d, m, 0) == SN_OK;
  if (valid) engines_check(name, m, pool, 3, special, UNITS, t);
  else t->n_skipped++;
  sn_module_destroy(m);
  sn_diag_destroy(d);
  return valid;
}

static bool valid_text(const char *text) {
  sn_module *m = NULL;
  sn_diag *d = NULL;
  if (sn_diag_create(&d) != SN_OK) return false;
  bool valid = sn_hlo_parse(d, "row", text, strlen(text), &m) == SN_OK && sn_module_verify(d, m, 0) == SN_OK;
  sn_module_destroy(m);
  sn_diag_destroy(d);
  return valid;
}

/* The template with the type put in. */
static void substitute(sn_str *to, const char *from, const char *type) {
  for (; *from; from++) {
    if (*from == '$') sn_str_add(to, type);
    else sn_str_char(to, *from);
  }
}

static void one_program(const char *row, const char *helpers, const char *type, const char *extra, bool special, sn_pool *pool, tally *t) {
  const char *colon = strchr(row, ':');
  char name[128];
  sn_str text = {0};
  snprintf(name, sizeof name, "%.*s %s %s", (int)(colon - row), row, extra, type);
  sn_str_printf(&text, "HloModule %.*s\n", (int)(colon - row), row);
  substitute(&text, helpers, type);
  sn_str_add(&text, "ENTRY e {");
  substitute(&text, colon + 1, type);
  sn_str_add(&text, "}\n");
  if (!text.failed) run_text(name, text.data, special, pool, t);
  sn_str_finish(&text);
}

/* All elementwise ops of a type over a shape as one program with many results. */
static void elementwise(const char *type, const char *shape, sn_pool *pool, tally *t) {
  sn_str body = {0}, roots = {0}, types = {0};
  char line[256], probe[512], name[128];
  int n = 0;
  sn_str_printf(&body, "HloModule elementwise\nENTRY e {\n x = %s[%s] parameter(0)\n y = %s[%s] parameter(1)\n", type, shape, type, shape);
  for (size_t k = 0; k < sizeof unary / sizeof *unary + sizeof binary / sizeof *binary + 6; k++) {
    size_t u = sizeof unary / sizeof *unary, b = u + sizeof binary / sizeof *binary;
    if (k < u) snprintf(line, sizeof line, "%s[%s] %s(x)", type, shape, unary[k]);
    else if (k < b) snprintf(line, sizeof line, "%s[%s] %s(x, y)", type, shape, binary[k - u]);
    else snprintf(line, sizeof line, "pred[%s] compare(x, y), direction=%s", shape, directions[k - b]);
    snprintf(probe, sizeof probe, "HloModule p\nENTRY e {\n x = %s[%s] parameter(0)\n y = %s[%s] parameter(1)\n ROOT r = %s\n}\n", type, shape, type, shape, line);
    if (!valid_text(probe)) continue;
    sn_str_printf(&body, " r%d = %s\n", n, line);
    sn_str_printf(&roots, "%sr%d", n ? ", " : "", n);
    sn_str_printf(&types, "%s%s[%s]", n ? ", " : "", k < b ? type : "pred", shape);
    n++;
  }
  sn_str_printf(&body, " ROOT t = (%s) tuple(%s)\n}\n", types.data ? types.data : "", roots.data ? roots.data : "");
  snprintf(name, sizeof name, "elementwise %s[%s]", type, shape);
  if (n && !body.failed) run_text(name, body.data, true, pool, t);
  sn_str_finish(&body);
  sn_str_finish(&roots);
  sn_str_finish(&types);
}

/* From this type to every other. */
static void conversions(const char *type, sn_pool *pool, tally *t) {
  for (int to = 0; to < SN_TYPE_TOKEN; to++) {
    char text[512], name[128];
    const char *other = sn_type_text((sn_type)to);
    snprintf(text, sizeof text, "HloModule convert\nENTRY e {\n x = %s[3,21] parameter(0)\n ROOT r = %s[3,21] convert(x)\n}\n", type, other);
    snprintf(name, sizeof name, "convert %s to %s", type, other);
    run_text(name, text, true, pool, t);
  }
}

static const char helpers[] =
    "below { s = (s32[], $[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }\n"
    "step { s = (s32[], $[5]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = $[5] get-tuple-element(s), index=1 o = s32[] constant(1) j = s32[] add(i, o) "
    "y = $[5] reverse(x), dimensions={0} ROOT t = (s32[], $[5]) tuple(j, y) }\n"
    "turn { x = $[5] parameter(0) ROOT r = $[5] reverse(x), dimensions={0} }\n"
    "keep { x = $[5] parameter(0) ROOT r = $[5] copy(x) }\n";

static void rows_of_type(const char *type, sn_pool *pool, tally *t) {
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) elementwise(type, shapes[k], pool, t);
  for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) one_program(programs[k], helpers, type, "", true, pool, t);
  for (size_t k = 0; k < sizeof products / sizeof *products; k++) {
    one_program(products[k], "less { a = $[] parameter(0) b = $[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }\n", type, "", false, pool, t);
  }
  for (size_t k = 0; (strcmp(type, "f32") == 0 || strcmp(type, "f64") == 0) && k < sizeof packed / sizeof *packed; k++) one_program(packed[k], "", type, "", false, pool, t);
  for (size_t c = 0; c < sizeof combiners / sizeof *combiners; c++) {
    char combiner[128];
    snprintf(combiner, sizeof combiner, "f { a = $[] parameter(0) b = $[] parameter(1) ROOT r = $[] %s(a, b) }\n", combiners[c]);
    for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++) one_program(reductions[k], combiner, type, combiners[c], false, pool, t);
  }
  conversions(type, pool, t);
}

void engines_table(const char *type, sn_pool *pool, tally *t) {
  for (int k = 0; k < SN_TYPE_TOKEN; k++) {
    const char *text = sn_type_text((sn_type)k);
    if (!type || strcmp(type, text) == 0) rows_of_type(text, pool, t);
  }
}
