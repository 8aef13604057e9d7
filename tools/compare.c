/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <string.h>

#include "arrays.h"

static void print_value(double re, double im, bool complex) {
  if (complex) printf("(%.9g, %.9g)", re, im);
  else printf("%.9g", re);
}

/* The file's array in the type of the result: types without a name in the file are their bits there. */
static sn_status in_type_of(const sn_array *got, sn_array *want, sn_array **out) {
  const sn_shape *g = sn_array_shape(got), *w = sn_array_shape(want);
  *out = NULL;
  if (w->type == g->type || sn_type_bytes(w->type) != sn_type_bytes(g->type) || !(sn_type_is_unsigned(w->type) || w->type == SN_TYPE_PRED)) {
    *out = sn_array_retain(want);
    return SN_OK;
  }
  sn_shape s = *w;
  s.type = g->type;
  return sn_array_create_from(&s, sn_array_data(want), out);
}

static sn_status compare_one(sn_diag *d, const char *name, const sn_array *got, sn_array *named, double rtol, double atol, bool *bad) {
  sn_array *want;
  SN_TRY(in_type_of(got, named, &want));
  const sn_shape *s = sn_array_shape(got);
  sn_array_difference x;
  memset(&x, 0, sizeof x);
  sn_status status = SN_ERR_SHAPE;
  if (sn_shape_equal(s, sn_array_shape(want), SN_EQ_IGNORE_DYNAMIC)) status = sn_array_compare(got, want, rtol, atol, &x);
  if (status == SN_ERR_SHAPE) {
    sn_str a = {0}, b = {0};
    sn_shape_print(&a, s, 0);
    sn_shape_print(&b, sn_array_shape(want), 0);
    sn_error(d, SN_NOWHERE, SN_ERR_MISMATCH, "%s: got %s, expected %s", name, a.data, b.data);
    sn_str_finish(&a);
    sn_str_finish(&b);
    status = SN_OK;
    *bad = true;
  } else if (status == SN_OK) {
    printf("%s: %s, %lld of %lld elements outside", name, x.n_bad ? "DIFFERS" : "ok", (long long)x.n_bad, (long long)sn_shape_elements(s));
    if (x.worst >= 0) {
      printf(", worst at %lld: got ", (long long)x.worst);
      print_value(x.got, x.got_im, sn_type_is_complex(s->type));
      printf(", expected ");
      print_value(x.want, x.want_im, sn_type_is_complex(s->type));
      printf(", %.3g of the tolerance", x.ratio);
    }
    putchar('\n');
    *bad |= x.n_bad > 0;
  }
  sn_array_release(want);
  return status;
}

sn_status sn_results_compare(sn_diag *d, int n, sn_array *const *got, const sn_bundle *want, const sn_golden *g, double rtol, double atol) {
  bool bad = false;
  int n_compared = 0;
  for (int k = 0; k < n; k++) {
    char name[32];
    snprintf(name, sizeof name, "out%d", k);
    sn_array *w = sn_bundle_get(want, name);
    if (!w) continue;
    const sn_expectation *e = g && k < g->n_outs ? &g->outs[k] : NULL;
    SN_TRY(compare_one(d, name, got[k], w, e ? e->rtol : rtol, e ? e->atol : atol, &bad));
    n_compared++;
  }
  if (!n_compared) return sn_error(d, SN_NOWHERE, SN_ERR_MISMATCH, "nothing to compare: the file holds no `out0`");
  return bad ? sn_error(d, SN_NOWHERE, SN_ERR_MISMATCH, "results differ") : SN_OK;
}
