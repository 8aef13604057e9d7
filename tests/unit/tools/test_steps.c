/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the pipelines make of whole training steps, of our frontend's and of others': layouts, commands, memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "sinter/compiler.h"
#include "sinter/cost.h"
#include "sinter/gpu.h"
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
  snprintf(path, sizeof path - 3, "%s/golden/hlo/%s.before.hlo", data ? data : "tests/data", name);
  if (access(path, R_OK) != 0) strcat(path, ".gz");
  gzFile f = gzopen(path, "rb");
  ck_assert_msg(f != NULL, "%s cannot be read", path);
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
  check_layouts("convnet_step", golden);
}
END_TEST

/* ---- the ViT-B/16 step, batch 32 ---- */

static int64_t commands(const sn_module *m) {
  sn_call_graph g;
  int64_t n = 0;
  ck_assert_int_eq(sn_call_graph_build(arena, m, &g), SN_OK);
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id] || g.is_applied[c->id]) continue;
    SN_FOR_INSTRS(i, c) {
      sn_cost cost;
      sn_cost_of(&target, i, &cost);
      n += cost.us > 0;
    }
  }
  return n;
}

/* Multiply-adds of products that are not over heads. */
static double outside_attention(const sn_computation *c) {
  double n = 0;
  SN_FOR_INSTRS(i, c) {
    sn_cost cost;
    if (i->op == SN_OP_FUSION) n += outside_attention(i->called[0]);
    if (i->op != SN_OP_DOT || sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n) continue;
    sn_cost_of(&target, i, &cost);
    n += cost.products;
  }
  return n;
}

typedef struct outcome { int64_t commands, peak; double us, products; } outcome;

/* Takes the module. */
static outcome outcome_of(sn_module *m, const char *pipeline, int64_t limit, bool remat) {
  static const char *const off[] = {"remat", NULL};
  sn_pass_options o;
  sn_plan p;
  sn_cost c;
  outcome out;
  sn_pass_options_init(&o);
  o.target = &target;
  o.memory_limit = limit;
  o.disable = remat ? NULL : off;
  ck_assert_int_eq(sn_pipeline_run(diag, m, pipeline, &o, NULL), SN_OK);
  SN_FOR_INSTRS(i, m->entry) {
    ck_assert_msg(!sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_COPY, "%s: %s stands outside all fusions", pipeline, i->name);
    ck_assert_msg(i->op != SN_OP_TRANSPOSE, "%s: %s stands outside all fusions", pipeline, i->name);
  }
  ck_assert_int_eq(sn_plan_make(diag, arena, m, &p), SN_OK);
  sn_cost_of_computation(&target, m->entry, &c);
  out.commands = commands(m);
  out.peak = p.arena_bytes;
  out.us = c.us;
  out.products = outside_attention(m->entry);
  sn_module_destroy(m);
  return out;
}

enum { MOST_COMMANDS = 300 };
static const int64_t MOST_BYTES = 3000000000, LIMIT = 1500000000;
static const double MOST_TIMES = 1.2; /* of the modelled time, to stay below the limit */

static void check_vit(const char *name, sn_module *(*make)(void)) {
  for (int cuda = 0; cuda < 2; cuda++) {
    const char *pipeline = cuda ? "cuda" : "cpu";
    outcome free = outcome_of(make(), pipeline, 0, true), limited = outcome_of(make(), pipeline, LIMIT, true), once = outcome_of(make(), pipeline, 0, false);
    ck_assert_msg(free.commands <= MOST_COMMANDS, "%s, %s: %lld commands", name, pipeline, (long long)free.commands);
    ck_assert_msg(free.peak <= MOST_BYTES, "%s, %s: %lld bytes", name, pipeline, (long long)free.peak);
    ck_assert_msg(free.products == once.products, "%s, %s: %.0f operations of products outside attention, %.0f without recomputation", name, pipeline, free.products, once.products);
    ck_assert_msg(limited.peak <= LIMIT, "%s, %s: %lld bytes under the limit", name, pipeline, (long long)limited.peak);
    ck_assert_msg(limited.us <= MOST_TIMES * free.us, "%s, %s: %.3f times the time under the limit", name, pipeline, limited.us / free.us);
  }
}

static sn_module *our_vit(void) { return our_step("vit-b16", SN_NCHW, 32, NULL); }
static sn_module *our_vit_nhwc(void) { return our_step("vit-b16", SN_NHWC, 32, NULL); }
static sn_module *golden_vit(void) { return golden_step("vit_base_b32_sgd_step"); }

START_TEST(a_vit_step_is_few_commands_in_little_memory) {
  check_vit("our ViT-B/16", our_vit);
  check_vit("JAX's ViT-B/16", golden_vit);
}
END_TEST

/* Whoever wrote the step: what JAX lowered costs at most 3 % more than our own. */
START_TEST(a_step_of_jax_costs_what_ours_does) {
  static const double MOST = 1.03;
  outcome theirs = outcome_of(golden_vit(), "cpu", 0, true), ours = outcome_of(our_vit(), "cpu", 0, true);
  ck_assert_msg(theirs.us <= MOST * ours.us, "%.0f us by the model against %.0f", theirs.us, ours.us);
  ck_assert_msg((double)theirs.peak <= MOST * (double)ours.peak, "%lld bytes against %lld", (long long)theirs.peak, (long long)ours.peak);
}
END_TEST

START_TEST(images_in_either_layout_give_the_same_plan) {
  outcome nchw = outcome_of(our_vit(), "cpu", 0, true), nhwc = outcome_of(our_vit_nhwc(), "cpu", 0, true);
  ck_assert_int_eq(nchw.commands, nhwc.commands);
  ck_assert_int_eq(nchw.peak, nhwc.peak);
  ck_assert_double_eq_tol(nchw.us, nhwc.us, 1e-6 * nchw.us);
}
END_TEST

/* ---- memory ---- */

static int64_t arena_of(const char *name, const char *pipeline) {
  sn_module *m = golden_step(name);
  sn_plan p;
  optimise(m, pipeline, "auto");
  ck_assert_int_eq(sn_plan_make(diag, arena, m, &p), SN_OK);
  sn_module_destroy(m);
  return p.arena_bytes;
}

/* Fused, no golden program needs more memory than one kernel an op. */
START_TEST(fusion_takes_no_memory) {
  static const char suffix[] = ".before.hlo";
  char folder[1024], name[256];
  const char *const *files, *data = getenv("SINTER_TEST_DATA");
  size_t n, programs = 0;
  snprintf(folder, sizeof folder, "%s/golden/hlo", data ? data : "tests/data");
  ck_assert_int_eq(sn_dir_list(diag, arena, folder, &files, &n), SN_OK);
  for (size_t k = 0; k < n; k++) {
    const char *end = strstr(files[k], suffix);
    if (!end || (end[sizeof suffix - 1] != '\0' && strcmp(end + sizeof suffix - 1, ".gz") != 0)) continue;
    snprintf(name, sizeof name, "%.*s", (int)(end - files[k]), files[k]);
    int64_t fused = arena_of(name, "cpu"), apart = arena_of(name, "op-by-op");
    ck_assert_msg(fused <= apart, "%s: %lld bytes fused, %lld op by op", name, (long long)fused, (long long)apart);
    programs++;
  }
  ck_assert_int_gt(programs, 0);
}
END_TEST

/* ---- launches ---- */

/* Of what runs in the entry, behind the cuda pipeline. */
static int64_t launches(const sn_module *m, const sn_target *gpu) {
  int64_t n = 0;
  SN_FOR_INSTRS(i, m->entry) {
    sn_cost cost;
    sn_kernel *k;
    sn_gpu_kernel g;
    sn_cost_of(gpu, i, &cost);
    if (cost.us <= 0 || i->op == SN_OP_COPY) continue;
    ck_assert_int_eq(sn_lower_instr(diag, arena, i, gpu, &k), SN_OK);
    ck_assert_int_eq(sn_gpu_emit(diag, arena, k, gpu, SN_GPU_AS_IS, &g), SN_OK);
    n += g.n_phases;
  }
  return n;
}

/* A launch costs a microsecond or two, whatever it does. Attention in full f32 costs less as it was written, without tensor cores, and is six launches of a layer more. */
static void check_launches(const char *name, sn_module *m, bool tf32) {
  sn_target gpu;
  sn_pass_options o;
  ck_assert_int_eq(sn_target_find(diag, arena, "sm_90a", &gpu), SN_OK);
  sn_pass_options_init(&o);
  o.target = &gpu;
  o.tf32 = tf32;
  ck_assert_int_eq(sn_pipeline_run(diag, m, "cuda", &o, NULL), SN_OK);
  int64_t n = launches(m, &gpu), most = tf32 ? 300 : 320;
  ck_assert_msg(n <= most, "%s: %lld launches, %lld at most", name, (long long)n, (long long)most);
  sn_module_destroy(m);
}

START_TEST(a_vit_step_is_few_launches) {
  for (int tf32 = 0; tf32 < 2; tf32++) {
    check_launches("our ViT-B/16", our_vit(), tf32);
    check_launches("JAX's ViT-B/16", golden_vit(), tf32);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("steps");
  TCase *t = tcase_create("steps");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, the_chosen_layout_costs_least);
  tcase_add_test(t, a_vit_step_is_few_commands_in_little_memory);
  tcase_add_test(t, a_vit_step_is_few_launches);
  tcase_add_test(t, a_step_of_jax_costs_what_ours_does);
  tcase_add_test(t, images_in_either_layout_give_the_same_plan);
  tcase_add_test(t, fusion_takes_no_memory);
  tcase_set_timeout(t, 100);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
