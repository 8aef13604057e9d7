/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the pipelines make of whole training steps, of our frontend's and of others': layouts, commands, memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sinter/cost.h"
#include "sinter/models.h"
#include "sinter/passes.h"
#include "sinter/plan.h"
#include "sinter/text.h"

static sn_diag *diag;
static sn_arena *arena;
static sn_target target;

static void setup(void) {
  ck_assert_int_eq(sn_diag_create(&diag), SN_OK);
  ck_assert_int_eq(sn_arena_create(&arena), SN_OK);
  ck_assert_int_eq(sn_target_find(diag, arena, "x86-64-v4", &target), SN_OK);
}

static void teardown(void) {
  sn_diag_destroy(diag);
  sn_arena_destroy(arena);
}

/* ---- steps ---- */

typedef struct image_size { int64_t channels, side, labels; } image_size;

static sn_module *our_step(const char *model, sn_conv_layout layout, int64_t batch, const image_size *size) {
  sn_model_options mo;
  sn_step_options so;
  sn_model *made;
  sn_params *tree;
  sn_step step;
  sn_module *m;
  sn_model_options_init(&mo);
  sn_step_options_init(&so);
  mo.layout = layout;
  if (size) mo.channels = size->channels, mo.height = mo.width = size->side, mo.n_labels = size->labels;
  so.batch = batch;
  sn_optimizer_init(&so.optimizer, SN_SGD);
  so.optimizer.rate = 1e-3;
  ck_assert_int_eq(sn_model_create(diag, model, NULL, &mo, &made), SN_OK);
  ck_assert_int_eq(sn_model_declare(diag, sn_model_get_spec(made), &tree), SN_OK);
  ck_assert_int_eq(sn_train_step_build(diag, sn_model_get_spec(made), tree, &so, &step), SN_OK);
  ck_assert_int_eq(sn_module_clone(step.module, &m), SN_OK);
  sn_step_finish(&step);
  sn_params_destroy(tree);
  sn_model_destroy(made);
  return m;
}

/* NULL: no golden data here. */
static sn_module *golden_step(const char *name) {
  char path[2048];
  const char *data = getenv("SINTER_TEST_DATA");
  size_t cap = (size_t)1 << 23;
  sn_module *m = NULL;
  snprintf(path, sizeof path, "%s/golden/hlo/%s.before.hlo", data ? data : "tests/data", name);
  gzFile f = gzopen(path, "rb");
  if (!f) return NULL;
  char *text = malloc(cap);
  ck_assert_ptr_nonnull(text);
  int n = gzread(f, text, (unsigned)cap);
  gzclose(f);
  ck_assert_int_gt(n, 0);
  ck_assert_int_eq(sn_hlo_parse(diag, path, text, (size_t)n, &m), SN_OK);
  free(text);
  return m;
}

static void optimise(sn_module *m, const char *pipeline, const char *layout) {
  sn_pass_options o;
  sn_pass_options_init(&o);
  o.layout = layout;
  o.target = &target;
  ck_assert_int_eq(sn_pipeline_run(diag, m, pipeline, &o, NULL), SN_OK);
}

/* ---- layouts ---- */

static double modelled_us(const sn_module *m, const char *layout) {
  sn_module *copy;
  sn_cost c;
  ck_assert_int_eq(sn_module_clone(m, &copy), SN_OK);
  optimise(copy, "cpu", layout);
  sn_cost_of_computation(&target, copy->entry, &c);
  sn_module_destroy(copy);
  return c.us;
}

static void check_layouts(const char *name, sn_module *m) {
  double chosen = modelled_us(m, "auto"), nhwc = modelled_us(m, "nhwc"), nchw = modelled_us(m, "nchw");
  ck_assert_msg(chosen <= nhwc && chosen <= nchw, "%s: chosen %.0f us, nhwc %.0f us, nchw %.0f us", name, chosen, nhwc, nchw);
  sn_module_destroy(m);
}

START_TEST(the_chosen_layout_costs_least) {
  static const image_size size = {3, 32, 10};
  check_layouts("our convnet in NHWC", our_step("convnet", SN_NHWC, 8, &size));
  check_layouts("our convnet in NCHW", our_step("convnet", SN_NCHW, 8, &size));
  sn_module *golden = golden_step("convnet_step");
  if (golden) check_layouts("convnet_step", golden);
}
END_TEST

int main(void) {
  Suite *s = suite_create("steps");
  TCase *t = tcase_create("steps");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, the_chosen_layout_costs_least);
  tcase_set_timeout(t, 100);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
