/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "values.h"

#include <string.h>

static void fill(const sn_shape *s, char *data) {
  for (int64_t i = 0; i < sn_shape_elements(s); i++) {
    void *to = data + (size_t)i * sn_type_bytes(s->type);
    if (sn_type_is_complex(s->type)) sn_store_c128(s->type, to, (double)(i % 7) + 1, 0.5);
    else if (sn_type_is_float(s->type)) sn_store_f64(s->type, to, (double)(i % 7) * 0.125 + 0.0625);
    else sn_store_i64(s->type, to, i % 3);
  }
}

static sn_status make(const sn_module *m, sn_array **args) {
  for (uint32_t k = 0; k < m->entry->n_params; k++) {
    const sn_shape *s = m->entry->params[k]->shape;
    if (!sn_shape_is_array(s)) return SN_ERR_UNSUPPORTED;
    SN_TRY(sn_array_create_zero(s, &args[k]));
    fill(s, sn_array_data(args[k]));
  }
  return SN_OK;
}

sn_status values_make(const sn_module *m, sn_array ***out) {
  *out = sn_alloc_zero((size_t)m->entry->n_params + 1, sizeof **out);
  return *out != NULL ? make(m, *out) : SN_ERR_MEMORY;
}

void values_release(const sn_module *m, sn_array **args) {
  for (uint32_t k = 0; args != NULL && k < m->entry->n_params; k++) sn_array_release(args[k]);
  sn_free(args);
}

sn_status values_interpret(sn_diag *d, const sn_module *m, sn_array **args, bool stepwise, sn_array **out) {
  sn_array **own = NULL;
  sn_eval_options o;
  *out = NULL;
  sn_eval_options_init(&o);
  o.customs = sn_stablehlo_customs();
  o.replicas = o.partitions = 1;
  o.stepwise = stepwise;
  o.max_steps = 1 << 20; /* loops may not end on arguments that were not made for them */
  sn_status st = args != NULL ? SN_OK : values_make(m, &own);
  if (st == SN_OK) st = sn_eval(d, m, &o, (int)m->entry->n_params, args != NULL ? args : own, out);
  values_release(m, own);
  return st;
}

static bool near(double want, double got, double rel, double abs) {
  double off = want > got ? want - got : got - want, scale = want > 0 ? want : -want;
  return want == got || (want != want && got != got) || off <= rel * scale + abs;
}

bool values_close(const sn_array *want, const sn_array *got, double rel, double abs) {
  const sn_shape *s = sn_array_shape(want);
  if (!sn_shape_equal(s, sn_array_shape(got), 0)) return false;
  if (sn_shape_is_tuple(s)) {
    for (int k = 0; k < s->n_elements; k++)
      if (!values_close(sn_array_element(want, k), sn_array_element(got, k), rel, abs)) return false;
    return true;
  }
  const char *x = sn_array_data(want), *y = sn_array_data(got);
  bool complex = sn_type_is_complex(s->type);
  sn_type part = complex ? sn_type_real_part(s->type) : s->type;
  size_t each = sn_type_bytes(part), n = (size_t)sn_shape_elements(s) * (complex ? 2 : 1);
  if (!sn_type_is_float(part)) return memcmp(x, y, n * each) == 0;
  for (size_t i = 0; i < n; i++)
    if (!near(sn_load_f64(part, x + i * each), sn_load_f64(part, y + i * each), rel, abs)) return false;
  return true;
}
