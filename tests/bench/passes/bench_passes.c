/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* bench-passes FOLDER: how long the cpu pipeline takes for the ViT-B/16 training step, and how that grows when the layers double, 12 to 96. Time that the processor spent on it,
 * the best of several runs: the machine may be busy with something else, which then takes caches but no time. FOLDER takes the configurations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sinter/models.h"
#include "sinter/passes.h"

#define TARGET_MS 60.0      /* ViT-B/16, batch 32, one core */
#define TARGET_GROWTH 2.3   /* a doubling */
#define SLOW_SHARE 0.02     /* passes below this share of the whole are too short to judge */

enum { BATCH = 32, N_SIZES = 4, LEAST = 12, RUNS = 7 };

typedef struct timing { double all, pass[SN_PASS_COUNT]; } timing;

static sn_status build(sn_diag *d, const char *folder, int layers, sn_module **out) {
  char path[1024], text[256];
  sn_model_options mo;
  sn_step_options so;
  sn_model *model = NULL;
  sn_params *tree = NULL;
  sn_step step;
  snprintf(path, sizeof path, "%s/vit-%d.json", folder, layers);
  int n = snprintf(text, sizeof text, "{\"model_type\": \"vit\", \"num_hidden_layers\": %d}\n", layers);
  SN_TRY(sn_file_write(d, path, text, (size_t)n));
  sn_model_options_init(&mo);
  sn_step_options_init(&so);
  mo.layout = SN_NCHW;
  mo.n_labels = 1000;
  so.batch = BATCH;
  sn_optimizer_init(&so.optimizer, SN_SGD);
  so.optimizer.rate = 1e-3;
  sn_status s = sn_model_create(d, NULL, path, &mo, &model);
  if (s == SN_OK) s = sn_model_declare(d, sn_model_get_spec(model), &tree);
  if (s == SN_OK) s = sn_train_step_build(d, sn_model_get_spec(model), tree, &so, &step);
  if (s == SN_OK) {
    s = sn_module_clone(step.module, out);
    sn_step_finish(&step);
  }
  sn_params_destroy(tree);
  sn_model_destroy(model);
  return s;
}

static double processor_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct watch { double last, pass[SN_PASS_COUNT]; } watch;

/* What passed since the pass before is this one's, the runner's checks included. */
static void stamp(void *ctx, sn_pass_id p, int pass_run, const sn_module *m, bool changed) {
  watch *w = ctx;
  double now = processor_s();
  (void)pass_run, (void)m, (void)changed;
  w->pass[p] += now - w->last;
  w->last = now;
}

/* Keeps the least of each. */
static sn_status run(sn_diag *d, const sn_module *m, timing *best) {
  sn_module *copy;
  sn_pass_options o;
  watch w = {0};
  SN_TRY(sn_module_clone(m, &copy));
  sn_pass_options_init(&o);
  o.after = stamp;
  o.after_ctx = &w;
  double begin = w.last = processor_s();
  sn_status s = sn_pipeline_run(d, copy, "cpu", &o, NULL);
  double all = processor_s() - begin;
  if (s == SN_OK && all < best->all) best->all = all;
  for (int p = 0; s == SN_OK && p < SN_PASS_COUNT; p++) {
    if (w.pass[p] > 0 && w.pass[p] < best->pass[p]) best->pass[p] = w.pass[p];
  }
  sn_module_destroy(copy);
  return s;
}

static sn_status measure(sn_diag *d, const char *folder, int layers, timing *best) {
  sn_module *m = NULL;
  best->all = 1e9;
  for (int p = 0; p < SN_PASS_COUNT; p++) best->pass[p] = 1e9;
  sn_status s = build(d, folder, layers, &m);
  for (int k = 0; k < RUNS && s == SN_OK; k++) s = run(d, m, best);
  sn_module_destroy(m);
  return s;
}

/* The passes that take long, and by how much they grew. */
static void print_passes(const timing *small, const timing *large) {
  for (int p = 0; p < SN_PASS_COUNT; p++) {
    if (large->pass[p] > 1e8 || large->pass[p] < SLOW_SHARE * large->all) continue;
    printf("    %-18s %9.2f ms   %.2f times\n", sn_passes[p].text, large->pass[p] * 1e3, large->pass[p] / small->pass[p]);
  }
}

int main(int argc, char **argv) {
  static timing t[N_SIZES];
  sn_diag *d = NULL;
  bool good = true;
  if (argc != 2 || sn_diag_create(&d) != SN_OK) {
    fprintf(stderr, "usage: bench-passes FOLDER\n");
    return 2;
  }
  sn_status s = sn_dir_make(d, argv[1]);
  for (int k = 0; k < N_SIZES && s == SN_OK; k++) {
    int layers = LEAST << k;
    s = measure(d, argv[1], layers, &t[k]);
    if (s != SN_OK) break;
    if (k == 0) {
      printf("%d layers: %.1f ms (target %.0f)\n", layers, t[k].all * 1e3, TARGET_MS);
      good = t[k].all * 1e3 <= TARGET_MS;
    } else {
      double growth = t[k].all / t[k - 1].all;
      printf("%d layers: %.1f ms, %.2f times %d layers (target %.1f)\n", layers, t[k].all * 1e3, growth, layers / 2, TARGET_GROWTH);
      good = good && growth <= TARGET_GROWTH;
    }
    print_passes(k ? &t[k - 1] : &t[k], &t[k]);
  }
  sn_diag_print(d, stderr, false);
  sn_diag_destroy(d);
  return s == SN_OK && good ? 0 : 1;
}
