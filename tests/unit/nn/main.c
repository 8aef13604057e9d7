/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>

#include "nn_tests.h"

void must(sn_diag *d, sn_status s) {
  if (s == SN_OK) return;
  sn_diag_print(d, stderr, false);
  ck_abort_msg("%s", sn_status_text(s));
}

const char *data_path(const char *name) {
  static char path[4][512];
  static int n;
  const char *data = getenv("SINTER_TEST_DATA");
  ck_assert_msg(data, "SINTER_TEST_DATA is not set");
  n = (n + 1) % 4;
  snprintf(path[n], sizeof path[0], "%s/%s", data, name);
  return path[n];
}

static sn_array *make_array(sn_type t, int rank, const int64_t *dims, const void *values) {
  sn_arena *a;
  sn_array *x = NULL;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_array_create_from(sn_shape_array(a, t, rank, dims), values, &x), SN_OK);
  sn_arena_destroy(a);
  return x;
}

sn_array *f32_array(int rank, const int64_t *dims, const float *values) { return make_array(SN_TYPE_F32, rank, dims, values); }
sn_array *s32_array(int rank, const int64_t *dims, const int32_t *values) { return make_array(SN_TYPE_S32, rank, dims, values); }

sn_array *run_step(const sn_step *s, const sn_params *t, const sn_bundle *params, const sn_bundle *state, int n_inputs, sn_array *const *inputs) {
  sn_array *args[1024], *out = NULL;
  int n = 0;
  sn_diag *d;
  sn_eval_options o;
  ck_assert_int_le(s->n_params + s->n_state + n_inputs, 1024);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  for (int i = 0; i < s->n_params; i++) args[n++] = sn_bundle_get(params, sn_params_at(t, (size_t)i)->name);
  for (int i = 0; i < s->n_state; i++) args[n++] = sn_bundle_get(state, sn_params_at(s->state, (size_t)i)->name);
  for (int i = 0; i < n_inputs; i++) args[n++] = inputs[i];
  sn_eval_options_init(&o);
  must(d, sn_eval(d, s->module, &o, n, args, &out));
  sn_diag_destroy(d);
  return out;
}

void take_step(const sn_step *s, const sn_params *t, sn_array *result, sn_bundle *params, sn_bundle *state) {
  for (int i = 0; i < s->n_params; i++) ck_assert_int_eq(sn_bundle_set(params, sn_params_at(t, (size_t)i)->name, sn_array_element(result, i)), SN_OK);
  for (int i = 0; i < s->n_state; i++)
    ck_assert_int_eq(sn_bundle_set(state, sn_params_at(s->state, (size_t)i)->name, sn_array_element(result, s->n_params + i)), SN_OK);
}

int main(void) {
  Suite *s = suite_create("nn");
  suite_add_tcase(s, params_tests());
  suite_add_tcase(s, layers_tests());
  suite_add_tcase(s, models_tests());
  suite_add_tcase(s, steps_tests());
  suite_add_tcase(s, vit_tiny_tests());
  suite_add_tcase(s, text_models_tests());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
