/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "fixture.h"

#include <string.h>

sn_graph *open_graph(void) {
  sn_graph *g;
  ck_assert_int_eq(sn_graph_create("test", &g), SN_OK);
  return g;
}

sn_module *finish(sn_graph *g) {
  sn_diag *d;
  sn_module *m;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_graph_finish(g, d, &m);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  sn_diag_destroy(d);
  sn_graph_destroy(g);
  return m;
}

sn_array *run(const sn_module *m, int n, sn_array *const *args) {
  sn_diag *d;
  sn_array *out = NULL;
  sn_eval_options o;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_eval_options_init(&o);
  sn_status s = sn_eval(d, m, &o, n, args, &out);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  sn_diag_destroy(d);
  return out;
}

void value_of(sn_graph *g, sn_tensor x, int n, double *out) {
  sn_output(g, x, NULL);
  sn_module *m = finish(g);
  sn_array *r = run(m, 0, NULL);
  const sn_array *e = sn_array_element(r, 0);
  sn_type t = sn_array_shape(e)->type;
  ck_assert_int_eq(sn_shape_elements(sn_array_shape(e)), n);
  for (int k = 0; k < n; k++) out[k] = sn_load_f64(t, (const char *)sn_array_data(e) + (size_t)k * sn_type_bytes(t));
  sn_array_release(r);
  sn_module_destroy(m);
}

sn_tensor vec(sn_graph *g, int n, const double *v) {
  float f[64];
  for (int k = 0; k < n; k++) f[k] = (float)v[k];
  return sn_constant_data(g, SN_TYPE_F32, SN_DIMS(n), f);
}

void expect_error(sn_graph *g, sn_status status, const char *text, uint32_t line) {
  ck_assert_int_eq(sn_graph_status(g), status);
  ck_assert_uint_eq(sn_diag_count(sn_graph_diag(g), SN_ERROR), 1);
  const sn_diagnostic *e = sn_diag_get(sn_graph_diag(g), 0);
  ck_assert_msg(strstr(e->message, text) != NULL, "message: %s", e->message);
  ck_assert_uint_eq(e->loc.line, line);
  sn_graph_destroy(g);
}
