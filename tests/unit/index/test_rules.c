/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Every rule by brute force: the map of an instruction is walked over all elements and symbols,
 * what it reads is combined as the op says, and the result is compared with the interpreter's. */
#include "test_index.h"

#include <stdlib.h>
#include <string.h>

#include "sinter/eval.h"
#include "sinter/text.h"

/* How what is read becomes the result. */
typedef enum how {
  LAST,   /* the last data access whose guards hold (concatenate; the update of dynamic-update-slice
             over the array) */
  PADDED, /* access 0 where its guards hold, else the scalar operand 1 */
  SUM,    /* operand 1 + the sum of access 0 over the symbols */
  PRODUCT, /* the sum of access 0 x access 1 over the symbols */
  LANDED   /* access 0 + the sum of access 1 over the symbols of the updates */
} how;

typedef struct rule_case {
  const char *text; /* parameters and the root */
  how how;
  const char *reads; /* expected text of the first access, or NULL */
} rule_case;

static const rule_case cases[] = {
    {"x = f32[2,3] parameter(0) ROOT r = f32[2,3] copy(x)", LAST, "0[d0, d1]"},
    {"x = f32[3] parameter(0) ROOT r = f32[2,3,4] broadcast(x), dimensions={1}", LAST, "0[d1]"},
    {"x = f32[] parameter(0) ROOT r = f32[2,3] broadcast(x), dimensions={}", LAST, "0[]"},
    {"x = f32[2,3,4] parameter(0) ROOT r = f32[4,2,3] transpose(x), dimensions={2,0,1}", LAST,
     "0[d1, d2, d0]"},
    {"x = f32[2,3] parameter(0) ROOT r = f32[2,3] reverse(x), dimensions={1}", LAST,
     "0[d0, 2 - d1]"},
    {"x = f32[2,3,4] parameter(0) ROOT r = f32[6,4] reshape(x)", LAST,
     "0[d0 floordiv 3, d0 mod 3, d1]"},
    {"x = f32[6,4] parameter(0) ROOT r = f32[2,3,4] reshape(x)", LAST, "0[d0 * 3 + d1, d2]"},
    {"x = f32[6,4] parameter(0) ROOT r = f32[8,3] reshape(x)", LAST, NULL},
    {"x = f32[6,4] parameter(0) ROOT r = f32[1,24,1] reshape(x)", LAST,
     "0[d1 floordiv 4, d1 mod 4]"},
    {"x = f32[1] parameter(0) ROOT r = f32[] reshape(x)", LAST, "0[0]"},
    {"x = f32[6,4]{1,0} parameter(0) ROOT r = f32[4,6]{0,1} bitcast(x)", LAST, "0[d1, d0]"},
    {"x = f32[6,4]{0,1} parameter(0) ROOT r = f32[2,12]{1,0} bitcast(x)", LAST, NULL},
    {"x = f32[7,5] parameter(0) ROOT r = f32[3,2] slice(x), slice={[1:7:2],[3:5:1]}", LAST,
     "0[d0 * 2 + 1, d1 + 3]"},
    {"x = f32[5,6] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) ROOT r = f32[2,6] "
     "dynamic-slice(x, i, j), dynamic_slice_sizes={2,6}",
     LAST, "0[d0 + max(min(load1[], 3), 0), d1]"},
    {"x = f32[5,6] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) ROOT r = f32[3,2] "
     "dynamic-slice(x, i, j), dynamic_slice_sizes={3,2}",
     LAST, NULL},
    {"x = f32[5,6] parameter(0) u = f32[2,3] parameter(1) i = s32[] parameter(2) j = s32[] "
     "parameter(3) ROOT r = f32[5,6] dynamic-update-slice(x, u, i, j)",
     LAST, "0[d0, d1]"},
    {"x = f32[5,4] parameter(0) v = f32[] parameter(1) ROOT r = f32[8,6] pad(x, v), "
     "padding=1_2x-1_3",
     PADDED, "0[d0 - 1, d1 + 1]"},
    {"x = f32[4] parameter(0) v = f32[] parameter(1) ROOT r = f32[11] pad(x, v), padding=2_-1_2",
     PADDED, "0[(d0 + 1) floordiv 3 - 1]"},
    {"x = f32[0] parameter(0) v = f32[] parameter(1) ROOT r = f32[3] pad(x, v), padding=1_2_1",
     PADDED, NULL},
    {"x = f32[2,3] parameter(0) y = f32[2,0] parameter(1) z = f32[2,4] parameter(2) ROOT r = "
     "f32[2,7] concatenate(x, y, z), dimensions={1}",
     LAST, "0[d0, d1]"},
    {"x = f32[3,4,5] parameter(0) v = f32[] parameter(1) ROOT r = f32[4] reduce(x, v), "
     "dimensions={2,0}, to_apply=add",
     SUM, "0[s0, d0, s1]"},
    {"x = f32[3,4] parameter(0) y = f32[4,5] parameter(1) ROOT r = f32[3,5] dot(x, y), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     PRODUCT, "0[d0, s0]"},
    {"x = f32[2,3,4,5] parameter(0) y = f32[5,2,6,3] parameter(1) ROOT r = f32[2,4,6] dot(x, y), "
     "lhs_batch_dims={0}, rhs_batch_dims={1}, "
     "lhs_contracting_dims={3,1}, rhs_contracting_dims={0,3}",
     PRODUCT, "0[d0, s1, d1, s0]"},
    {"x = f32[3] parameter(0) y = f32[4] parameter(1) ROOT r = f32[3,4] dot(x, y)", PRODUCT,
     "0[d0]"},
    {"x = f32[9,4] parameter(0) v = f32[] parameter(1) ROOT r = f32[4,4] reduce-window(x, v), "
     "window={size=3x2 stride=2x1 pad=1_0x0_1}, to_apply=add",
     SUM, "0[d0 * 2 + s0 - 1, d1 + s1]"},
    {"x = f32[4] parameter(0) v = f32[] parameter(1) ROOT r = f32[5] reduce-window(x, v), "
     "window={size=3 pad=1_1 lhs_dilate=2 rhs_dilate=2}, to_apply=add",
     SUM, NULL},
    {"x = f32[2,7,6,3] parameter(0) k = f32[3,2,3,4] parameter(1) ROOT r = f32[2,4,6,4] "
     "convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x1_0}, "
     "dim_labels=b01f_01io->b01f",
     PRODUCT, NULL},
    {"x = f32[2,5,4] parameter(0) k = f32[3,2,6] parameter(1) ROOT r = f32[2,7,6] convolution(x, "
     "k), window={size=3 lhs_dilate=2 rhs_reversal=1}, "
     "dim_labels=b0f_0io->b0f, feature_group_count=2",
     PRODUCT, NULL},
    {"x = f32[6,5,2] parameter(0) k = f32[3,2,6] parameter(1) ROOT r = f32[2,1,6] convolution(x, "
     "k), window={size=3 rhs_dilate=2}, "
     "dim_labels=b0f_0io->b0f, batch_group_count=3",
     PRODUCT, NULL},
    {"x = f32[5,4] parameter(0) i = s32[3,1] parameter(1) ROOT r = f32[3,4] gather(x, i), "
     "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}",
     LAST, "0[max(min(load1[d0, 0], 4), 0), d1]"},
    {"x = f32[5,4] parameter(0) i = s32[2,3] parameter(1) ROOT r = f32[2,3,3] gather(x, i), "
     "offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1,0}, "
     "index_vector_dim=0, slice_sizes={2,3}",
     LAST, NULL},
    {"x = f32[3,5,4] parameter(0) i = s32[3,2] parameter(1) ROOT r = f32[3,2,4] gather(x, i), "
     "offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
     "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
     "slice_sizes={1,1,4}",
     LAST, NULL},
    {"x = f32[5,4] parameter(0) i = s32[3,1] parameter(1) u = f32[3,4] parameter(2) ROOT r = "
     "f32[5,4] scatter(x, i, u), update_window_dims={1}, "
     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     LANDED, "0[d0, d1]"},
    {"x = f32[3,5] parameter(0) i = s32[3,2] parameter(1) u = f32[3,2] parameter(2) ROOT r = "
     "f32[3,5] scatter(x, i, u), update_window_dims={}, "
     "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
     "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add",
     LANDED, NULL},
};

/* ---- reading through a map
 * ----------------------------------------------------------------------------------------------------
 */

typedef struct world {
  const sn_index_map *map;
  const sn_instr *i;
  sn_array *values[8]; /* of the operands */
  const int64_t *dims, *syms;
} world;

static int64_t flat(const sn_shape *s, const int64_t *at) {
  int64_t strides[SN_MAX_RANK], place = 0;
  sn_shape_strides(s, strides);
  for (int k = 0; k < s->rank; k++) place += at[k] * strides[k];
  return place;
}

static double read_at(const world *w, uint32_t operand, const int64_t *at) {
  const sn_shape *s = sn_operand_shape(w->i, operand);
  for (int k = 0; k < s->rank; k++)
    ck_assert_msg(at[k] >= 0 && at[k] < s->dims[k], "operand %u is read outside", operand);
  return sn_load_f64(s->type, (const char *)sn_array_data(w->values[operand]) +
                                  flat(s, at) * (int64_t)sn_type_bytes(s->type));
}

static int64_t value_of(const world *w, const sn_ix *e) {
  int64_t at[SN_MAX_RANK], a, b;
  if (e->kind == SN_IX_LOAD) {
    for (int k = 0; k < e->n_args; k++) at[k] = value_of(w, e->args[k]);
    return (int64_t)read_at(w, (uint32_t)e->value, at);
  }
  if (e->kind <= SN_IX_SYM) return sn_ix_eval(e, w->dims, w->syms);
  a = value_of(w, e->a);
  b = value_of(w, e->b);
  switch (e->kind) {
    case SN_IX_ADD:
      return a + b;
    case SN_IX_MUL:
      return a * b;
    case SN_IX_DIV:
      return a >= 0 ? a / b : -((-a + b - 1) / b);
    case SN_IX_MOD:
      return (a % b + b) % b;
    case SN_IX_MIN:
      return a < b ? a : b;
    default:
      return a > b ? a : b;
  }
}

/* Guards hold: *out is what the access reads. */
static bool access_read(const world *w, const sn_access *a, double *out) {
  int64_t at[SN_MAX_RANK];
  for (int k = 0; k < a->n_guards; k++) {
    int64_t v = value_of(w, a->guards[k].e);
    if (v < a->guards[k].lo || v > a->guards[k].hi) return false;
  }
  for (int k = 0; k < a->rank; k++) {
    at[k] = value_of(w, a->at[k]);
    ck_assert(at[k] >= a->at[k]->lo && at[k] <= a->at[k]->hi);
  }
  *out = read_at(w, a->operand, at);
  return true;
}

static bool advance(int n, const int64_t *sizes, int64_t *at) {
  for (int k = n - 1; k >= 0; k--) {
    if (++at[k] < sizes[k]) return true;
    at[k] = 0;
  }
  return false;
}

static bool empty(int n, const int64_t *sizes) {
  for (int k = 0; k < n; k++) {
    if (sizes[k] == 0) return true;
  }
  return false;
}

static double last_of(const world *w) {
  double v = 0, got;
  bool any = false;
  for (int k = 0; k < w->map->n_accesses; k++) {
    const sn_access *a = &w->map->accesses[k];
    if (sn_operand_shape(w->i, a->operand)->type != SN_TYPE_F32 || !access_read(w, a, &got))
      continue; /* index operands decide, they are no data */
    v = got;
    any = true;
  }
  ck_assert(any);
  return v;
}

static double combine(world *w, how h, int n_syms, int64_t *syms) {
  const sn_access *a = w->map->accesses;
  double total = 0, x, y;
  memset(syms, 0, 80 * sizeof *syms);
  w->syms = syms;
  if (h == LAST) return last_of(w);
  if (h == PADDED) {
    if (access_read(w, &a[0], &x)) return x;
    ck_assert(access_read(w, &a[1], &x));
    return x;
  }
  if (!empty(n_syms, w->map->sym_sizes)) {
    do {
      if (h == PRODUCT) {
        if (access_read(w, &a[0], &x) && access_read(w, &a[1], &y)) total += x * y;
      } else if (access_read(w, &a[h == LANDED ? 1 : 0], &x)) {
        total += x;
      }
    } while (advance(n_syms, w->map->sym_sizes, syms));
  }
  if (h == SUM) ck_assert(access_read(w, &a[1], &x));
  if (h == LANDED) ck_assert(access_read(w, &a[0], &x));
  return h == PRODUCT ? total : total + x;
}

/* ---- the cases
 * --------------------------------------------------------------------------------------------------------------------
 */

static sn_array *fill(const sn_shape *s, uint32_t *r) {
  sn_array *a;
  ck_assert_int_eq(sn_array_create(s, &a), SN_OK);
  for (int64_t k = 0; k < sn_shape_elements(s); k++) {
    *r = *r * 1664525u + 1013904223u;
    /* Small integers: sums of products are exact. Indices reach outside on both sides. */
    int64_t v = (int64_t)(*r >> 8) % 13 - (s->type == SN_TYPE_F32 ? 6 : 3);
    sn_store_i64(s->type, (char *)sn_array_data(a) + k * (int64_t)sn_type_bytes(s->type), v);
  }
  return a;
}

static void check_reads(const sn_access *a, const char *want) {
  sn_str s = {NULL, 0, 0, false};
  sn_str_u64(&s, a->operand);
  sn_str_char(&s, '[');
  for (int k = 0; k < a->rank; k++) {
    if (k) sn_str_add(&s, ", ");
    sn_ix_print(&s, a->at[k]);
  }
  sn_str_char(&s, ']');
  ck_assert_str_eq(s.data, want);
  sn_str_finish(&s);
}

static void check_values(world *w, const rule_case *c, sn_array *want) {
  const sn_shape *s = w->i->shape;
  int64_t dims[SN_MAX_RANK] = {0}, syms[80];
  int n_syms = c->how == LANDED ? sn_operand_shape(w->i, 2)->rank : w->map->n_syms;
  w->dims = dims;
  if (empty(s->rank, s->dims)) return;
  do {
    double got = combine(w, c->how, n_syms, syms);
    double expected = sn_load_f64(s->type, (const char *)sn_array_data(want) +
                                               flat(s, dims) * (int64_t)sn_type_bytes(s->type));
    ck_assert_msg(got == expected, "%s: %g, the interpreter gives %g", c->text, got, expected);
  } while (advance(s->rank, s->dims, dims));
}

static sn_module *parse(sn_diag *d, const char *entry) {
  char text[2048];
  sn_module *m = NULL;
  snprintf(text, sizeof text,
           "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, "
           "b) }\nENTRY e { %s }\n",
           entry);
  ck_assert_msg(sn_hlo_parse(d, "case", text, strlen(text), &m) == SN_OK, "%s: %s", entry,
                sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "");
  ck_assert_msg(sn_module_verify(d, m, 0) == SN_OK, "%s: %s", entry,
                sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "");
  return m;
}

START_TEST(test_rules) {
  const rule_case *c = &cases[_i];
  sn_diag *d;
  sn_arena *a;
  sn_ix_context *x;
  sn_index_map map;
  sn_array *args[8], *want = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_ix_context_create(a, &x), SN_OK);
  sn_module *m = parse(d, c->text);
  const sn_computation *e = m->entry;
  world w = {.map = &map, .i = e->root};
  ck_assert_int_eq(sn_index_map_of(x, e->root, 0, &map), SN_OK);
  ck_assert(!map.opaque);
  if (c->reads) check_reads(&map.accesses[0], c->reads);
  sn_eval_options o;
  sn_eval_options_init(&o);
  for (uint32_t seed = 1; seed <= 5; seed++) {
    uint32_t r = seed * 7919u + (uint32_t)_i;
    for (uint32_t k = 0; k < e->n_params; k++) args[k] = fill(e->params[k]->shape, &r);
    for (uint32_t k = 0; k < e->root->n_operands; k++)
      w.values[k] = args[sn_instr_int(sn_instr_operand(e->root, k), SN_ATTR_PARAMETER_NUMBER)];
    sn_status s = sn_eval(d, m, &o, (int)e->n_params, args, &want);
    ck_assert_msg(s == SN_OK, "%s", sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "");
    check_values(&w, c, want);
    sn_array_release(want);
    for (uint32_t k = 0; k < e->n_params; k++) sn_array_release(args[k]);
  }
  sn_module_destroy(m);
  sn_arena_destroy(a);
  sn_diag_destroy(d);
}
END_TEST

/* ---- composition: a chain read through gives the identity
 * ------------------------------------------------------------------------- */

static const char *const chains[] = {
    "x = f32[6,4] parameter(0) a = f32[2,3,4] reshape(x) ROOT r = f32[6,4] reshape(a)",
    "x = f32[6,4] parameter(0) a = f32[8,3] reshape(x) ROOT r = f32[6,4] reshape(a)",
    "x = f32[6,4,35] parameter(0) a = f32[840] reshape(x) b = f32[10,84] reshape(a) ROOT r = "
    "f32[6,4,35] reshape(b)",
    "x = f32[2,3,4] parameter(0) a = f32[4,2,3] transpose(x), dimensions={2,0,1} ROOT r = "
    "f32[2,3,4] transpose(a), dimensions={1,2,0}",
    ("x = f32[2,3,4] parameter(0) a = f32[6,4] reshape(x) b = f32[4,6] transpose(a), "
     "dimensions={1,0} "
     "c = f32[4,2,3] reshape(b) ROOT r = f32[2,3,4] transpose(c), dimensions={1,2,0}"),
    "x = f32[5,3] parameter(0) a = f32[5,3] reverse(x), dimensions={0,1} ROOT r = f32[5,3] "
    "reverse(a), dimensions={0,1}",
    "x = f32[1,12,1] parameter(0) a = f32[12] reshape(x) b = f32[3,4] reshape(a) c = f32[12] "
    "reshape(b) ROOT r = f32[1,12,1] reshape(c)",
    "x = f32[6,4]{1,0} parameter(0) a = f32[4,6]{0,1} bitcast(x) ROOT r = f32[6,4]{1,0} bitcast(a)",
    "x = f32[7] parameter(0) v = f32[] constant(0) a = f32[12] pad(x, v), padding=2_3 ROOT r = "
    "f32[7] slice(a), slice={[2:9]}",
};

START_TEST(test_chains) {
  sn_diag *d;
  sn_arena *a;
  sn_ix_context *x;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_ix_context_create(a, &x), SN_OK);
  sn_module *m = parse(d, chains[_i]);
  const sn_instr *i = m->entry->root;
  const sn_ix *at[SN_MAX_RANK], *next[SN_MAX_RANK];
  for (int k = 0; k < i->shape->rank; k++) at[k] = sn_ix_dim(x, k, i->shape->dims[k]);
  for (; i->op != SN_OP_PARAMETER; i = sn_instr_operand(i, 0)) {
    sn_index_map map;
    ck_assert_int_eq(sn_index_map_of(x, i, 0, &map), SN_OK);
    for (int k = 0; k < map.accesses[0].rank; k++)
      next[k] = sn_ix_substitute(x, map.accesses[0].at[k], map.n_dims, at, 0, NULL);
    memcpy(at, next, sizeof at);
  }
  for (int k = 0; k < i->shape->rank; k++) {
    /* A dimension of one element is the constant 0. */
    const sn_ix *want =
        i->shape->dims[k] == 1 ? sn_ix_const(x, 0) : sn_ix_dim(x, k, i->shape->dims[k]);
    if (at[k] != want) {
      sn_str s = {NULL, 0, 0, false};
      sn_ix_print(&s, at[k]);
      ck_abort_msg("%s: dimension %d is %s", chains[_i], k, s.data);
    }
  }
  sn_module_destroy(m);
  sn_arena_destroy(a);
  sn_diag_destroy(d);
}
END_TEST

/* Every op has an answer: opaque or accesses inside their operands' rank, on every golden program
 * that the folder holds as plain text. */
START_TEST(test_golden) {
  const char *data = sn_env("SINTER_TEST_DATA");
  const char *const *names = NULL;
  size_t n = 0, seen = 0;
  sn_arena *a;
  sn_diag *d;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  const char *dir = sn_arena_printf(a, "%s/golden/hlo", data ? data : "tests/data");
  ck_assert_int_eq(sn_dir_list(d, a, dir, &names, &n), SN_OK);
  for (size_t k = 0; k < n; k++) {
    size_t length = strlen(names[k]), bytes;
    if (length < 4 || strcmp(names[k] + length - 4, ".hlo") != 0) continue;
    char *text;
    sn_module *m = NULL;
    sn_arena *scratch;
    sn_ix_context *x;
    ck_assert_int_eq(sn_arena_create(&scratch), SN_OK);
    ck_assert_int_eq(sn_ix_context_create(scratch, &x), SN_OK);
    ck_assert_int_eq(sn_file_read(d, sn_arena_printf(a, "%s/%s", dir, names[k]), &text, &bytes),
                     SN_OK);
    ck_assert_int_eq(sn_hlo_parse(d, names[k], text, bytes, &m), SN_OK);
    SN_FOR_COMPUTATIONS(c, m) {
      SN_FOR_INSTRS(i, c) {
        sn_index_map map;
        ck_assert_msg(sn_index_map_of(x, i, 0, &map) == SN_OK, "%s: %s", names[k], i->name);
        for (int j = 0; j < map.n_accesses; j++)
          ck_assert_int_eq(map.accesses[j].rank,
                           sn_operand_shape(i, map.accesses[j].operand)->rank);
        seen++;
      }
    }
    sn_module_destroy(m);
    sn_free(text);
    sn_arena_destroy(scratch);
  }
  ck_assert_uint_gt(seen, 1000);
  sn_diag_destroy(d);
  sn_arena_destroy(a);
}
END_TEST

void add_rule_tests(TCase *t) {
  tcase_add_loop_test(t, test_rules, 0, (int)(sizeof cases / sizeof cases[0]));
  tcase_add_loop_test(t, test_chains, 0, (int)(sizeof chains / sizeof chains[0]));
  tcase_add_test(t, test_golden);
}

int main(void) {
  Suite *s = suite_create("index");
  TCase *t = tcase_create("index");
  tcase_set_timeout(t, 60);
  add_expression_tests(t);
  add_rule_tests(t);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
