/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Arguments: bundles fill parameter N from `argN`; single arrays, literals and seeds fill the next parameter that is still empty (a seed: all that are left). */
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "sinter/text.h"

void sn_arrays_release(size_t n, sn_array **v) {
  for (size_t i = 0; v && i < n; i++) sn_array_release(v[i]);
  sn_free(v);
}

typedef struct filler {
  sn_diag *d;
  const sn_computation *entry;
  const sn_golden *g;
  sn_array **args;
} filler;

static int next_empty(const filler *f) {
  for (uint32_t k = 0; k < f->entry->n_params; k++) {
    if (!f->args[k]) return (int)k;
  }
  return -1;
}

/* The parameter's shape with the dimensions of the global array. */
static bool dims_fit(const filler *f, uint32_t k, const sn_shape *s) {
  const sn_shape *p = f->entry->params[k]->shape;
  if (sn_shape_is_tuple(p) != sn_shape_is_tuple(s) || p->rank != s->rank) return false;
  const sn_expectation *e = f->g && (int)k < f->g->n_args ? &f->g->args[k] : NULL;
  for (int d = 0; d < p->rank; d++) {
    int64_t parts = e && e->part_of && d < e->rank ? e->parts[d] : 1;
    if (s->dims[d] != p->dims[d] && s->dims[d] != p->dims[d] * parts && !(p->dynamic && p->dynamic[d] && s->dims[d] <= p->dims[d])) return false;
  }
  return true;
}

/* Types that files have no name for come as the unsigned integer of their width. */
static sn_status as_type(sn_diag *d, sn_array *a, sn_type t, sn_array **out) {
  const sn_shape *s = sn_array_shape(a);
  sn_shape want = *s;
  *out = NULL;
  if (s->type == t || sn_shape_is_tuple(s)) {
    *out = sn_array_retain(a);
    return SN_OK;
  }
  want.type = t;
  bool same_bits = sn_type_bytes(s->type) == sn_type_bytes(t) && (sn_type_is_unsigned(s->type) || s->type == SN_TYPE_PRED || t == SN_TYPE_PRED);
  if (!same_bits) return sn_error(d, SN_NOWHERE, SN_ERR_TYPE, "the array holds %s, the parameter wants %s", sn_type_text(s->type), sn_type_text(t));
  return sn_array_create_from(&want, sn_array_data(a), out);
}

static sn_status fill(filler *f, uint32_t k, sn_array *a, const char *from) {
  const sn_instr *p = f->entry->params[k];
  if (!dims_fit(f, k, sn_array_shape(a))) {
    sn_str got = {0}, want = {0};
    sn_shape_print(&got, sn_array_shape(a), 0);
    sn_shape_print(&want, p->shape, 0);
    sn_status s = sn_error(f->d, p->loc, SN_ERR_SHAPE, "argument %u from %s is %s, the parameter %s wants %s", (unsigned)k, from, got.data, p->name, want.data);
    sn_str_finish(&got);
    sn_str_finish(&want);
    return s;
  }
  sn_array_release(f->args[k]);
  f->args[k] = NULL;
  return as_type(f->d, a, p->shape->type, &f->args[k]);
}

static sn_status fill_bundle(filler *f, const char *path) {
  sn_bundle *b = NULL;
  SN_TRY(sn_files_read(f->d, path, &b));
  sn_status s = SN_OK;
  bool named = false;
  for (uint32_t k = 0; k < f->entry->n_params && s == SN_OK; k++) {
    char name[32];
    snprintf(name, sizeof name, "arg%u", (unsigned)k);
    sn_array *a = sn_bundle_get(b, name);
    named |= a != NULL;
    if (a) s = fill(f, k, a, path);
  }
  for (size_t i = 0; !named && i < sn_bundle_count(b) && s == SN_OK; i++) {
    int k = next_empty(f);
    if (k < 0) s = sn_error(f->d, SN_NOWHERE, SN_ERR_USAGE, "%s: more arrays than parameters", path);
    else s = fill(f, (uint32_t)k, sn_bundle_at(b, i), path);
  }
  sn_bundle_destroy(b);
  return s;
}

/* ---- random arguments ---- */

static uint64_t mix(uint64_t *state) { /* splitmix64 (public domain, Vigna) */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Floats in [-1, 1), integers in [0, 8), predicates by a coin. */
static void random_elements(sn_array *a, uint64_t *state) {
  sn_type t = sn_array_shape(a)->type;
  int64_t n = sn_shape_elements(sn_array_shape(a));
  char *p = sn_array_data(a);
  for (int64_t i = 0; i < n; i++, p += sn_type_bytes(t)) {
    double u = (double)(mix(state) >> 11) / 9007199254740992.0;
    if (t == SN_TYPE_PRED) sn_store_i64(t, p, u < 0.5);
    else if (sn_type_is_integer(t)) sn_store_i64(t, p, (int64_t)(u * 8) & (sn_type_bits(t) < 4 ? 1 : 7));
    else if (sn_type_is_complex(t)) sn_store_c128(t, p, 2 * u - 1, (double)(mix(state) >> 11) / 4503599627370496.0 - 1);
    else sn_store_f64(t, p, 2 * u - 1);
  }
}
static sn_status random_array(const sn_shape *s, uint64_t *state, sn_array **out) {
  *out = NULL;
  if (!sn_shape_is_tuple(s)) {
    SN_TRY(sn_array_create_zero(s, out));
    if (sn_shape_is_array(s)) random_elements(*out, state);
    return SN_OK;
  }
  sn_array **v = sn_alloc_zero((size_t)s->n_elements + 1, sizeof *v);
  if (!v) return SN_ERR_MEMORY;
  sn_status status = SN_OK;
  for (int k = 0; k < s->n_elements && status == SN_OK; k++) status = random_array(s->elements[k], state, &v[k]);
  if (status == SN_OK) status = sn_array_create_tuple(s->n_elements, v, out);
  sn_arrays_release((size_t)s->n_elements, v);
  return status;
}
static sn_status fill_random(filler *f, const char *seed) {
  char *end;
  uint64_t state = strtoull(seed, &end, 10);
  if (end == seed || *end) return sn_error(f->d, SN_NOWHERE, SN_ERR_USAGE, "--input=random:SEED wants a number, not '%s'", seed);
  for (int k = next_empty(f); k >= 0; k = next_empty(f)) SN_TRY(random_array(f->entry->params[k]->shape, &state, &f->args[k]));
  return SN_OK;
}

/* ---- all of them ---- */

static sn_status fill_one(filler *f, const char *input) {
  if (strncmp(input, "random:", 7) == 0) return fill_random(f, input + 7);
  if (!strpbrk(input, "[({") || sn_file_exists(input)) return fill_bundle(f, input);
  sn_array *a = NULL;
  SN_TRY(sn_hlo_parse_literal(f->d, input, &a));
  int k = next_empty(f);
  sn_status s = k < 0 ? sn_error(f->d, SN_NOWHERE, SN_ERR_USAGE, "more inputs than parameters") : fill(f, (uint32_t)k, a, "--input");
  sn_array_release(a);
  return s;
}

sn_status sn_inputs_read(sn_diag *d, const sn_module *m, size_t n, const char *const *inputs, const sn_golden *g, sn_array ***out) {
  filler f = {d, m->entry, g, NULL};
  *out = f.args = sn_alloc_zero(m->entry->n_params + 1u, sizeof *f.args);
  if (!f.args) return sn_out_of_memory(d, sizeof *f.args);
  for (size_t i = 0; i < n; i++) SN_TRY(fill_one(&f, inputs[i]));
  int missing = next_empty(&f);
  if (missing < 0) return SN_OK;
  sn_error(d, m->entry->params[missing]->loc, SN_ERR_USAGE, "no input for parameter %d (%s)", missing, m->entry->params[missing]->name);
  sn_hint(d, "--input=FILE.safetensors with arg%d, --input='f32[2] {1, 2}', or --input=random:SEED for all that are left", missing);
  return SN_ERR_USAGE;
}
