/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "fixture.h"

void fixture_open(fixture *f) {
  memset(f, 0, sizeof *f);
  ck_assert_int_eq(sn_diag_create(&f->d), SN_OK);
  ck_assert_int_eq(sn_module_create("test", &f->m), SN_OK);
  ck_assert_int_eq(sn_computation_create(f->m, "main", &f->entry), SN_OK);
  sn_module_set_entry(f->m, f->entry);
  sn_builder_init(&f->b, f->d, f->entry);
}

void fixture_close(fixture *f) {
  sn_module_destroy(f->m);
  sn_diag_destroy(f->d);
}

void fixture_print(const fixture *f) { sn_diag_print(f->d, stderr, false); }

const sn_shape *fixture_shape(fixture *f, sn_type t, int rank, const int64_t *dims) {
  return sn_shape_array(f->m->arena, t, rank, dims);
}

sn_instr *fixture_param(fixture *f, sn_type t, int rank, const int64_t *dims) {
  sn_instr *i = sn_build_parameter(&f->b, f->n_params++, fixture_shape(f, t, rank, dims), NULL);
  if (!i) fixture_print(f);
  ck_assert_ptr_nonnull(i);
  return i;
}

void fixture_helper(fixture *f, const char *name, sn_builder *b) {
  sn_computation *c;
  ck_assert_int_eq(sn_computation_create(f->m, name, &c), SN_OK);
  sn_computation_move_before(c, f->entry);
  sn_builder_init(b, f->d, c);
}

sn_array *fixture_run(fixture *f, sn_instr *root, int n, sn_array *const *args, sn_pool *pool) {
  sn_eval_options o;
  sn_array *out = NULL;
  if (f->b.status != SN_OK) fixture_print(f);
  ck_assert_int_eq(f->b.status, SN_OK);
  sn_computation_set_root(f->entry, root);
  sn_eval_options_init(&o);
  o.pool = pool;
  sn_status s = sn_eval(f->d, f->m, &o, n, args, &out);
  if (s != SN_OK) fixture_print(f);
  ck_assert_int_eq(s, SN_OK);
  ck_assert(sn_shape_equal(sn_array_shape(out), root->shape, 0));
  return out;
}

sn_array *array_of(sn_type t, int rank, const int64_t *dims, const double *values) {
  sn_shape s;
  sn_array *a;
  memset(&s, 0, sizeof s);
  s.type = t;
  s.rank = rank;
  s.dims = dims;
  ck_assert_int_eq(sn_array_create(&s, &a), SN_OK);
  for (int64_t k = 0; k < sn_shape_elements(&s); k++) {
    char *at = (char *)sn_array_data(a) + (size_t)k * sn_type_bytes(t);
    if (sn_type_is_complex(t))
      sn_store_c128(t, at, values[2 * k], values[2 * k + 1]);
    else
      sn_store_f64(t, at, values[k]);
  }
  return a;
}

sn_array *array_random(sn_type t, int rank, const int64_t *dims, uint32_t seed, double scale) {
  sn_shape s;
  memset(&s, 0, sizeof s);
  s.type = t;
  s.rank = rank;
  s.dims = dims;
  int64_t n = sn_shape_elements(&s) * 2;
  double *v = malloc((size_t)n * sizeof *v + 1);
  uint32_t x = seed * 2654435761u + 12345u;
  for (int64_t k = 0; k < n; k++) {
    x = x * 1664525u + 1013904223u;
    v[k] = ((double)(x >> 8) / 8388608.0 - 1.0) * scale;
  }
  sn_array *a = array_of(t, rank, dims, v);
  free(v);
  return a;
}

double array_at(const sn_array *a, int64_t k) {
  sn_type t = sn_array_shape(a)->type;
  const char *at = (const char *)sn_array_data(a) + (size_t)k * sn_type_bytes(t);
  if (sn_type_is_complex(t)) {
    double re, im;
    sn_load_c128(t, at, &re, &im);
    return re;
  }
  return sn_load_f64(t, at);
}
