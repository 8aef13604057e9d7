/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-opt: HLO in, HLO out, through passes. */
#include <string.h>

#include "pass_options.h"
#include "sinter/stablehlo.h"
#include "sinter/target.h"
#include "sinter/text.h"
#include "source.h"

static const sn_option own[] = {
    {"output", 'o', SN_OPT_TEXT, "FILE", "-", "where the modules go", 0, 0},
    {"passes", 0, SN_OPT_TEXT, "A,B,…", NULL, "run these passes, in this order", 0, 0},
    {"pipeline", 0, SN_OPT_CHOICE, "cpu|cuda|op-by-op", NULL, "run a pipeline, behind --passes", 0, 0},
    {"target", 0, SN_OPT_TEXT, "NAME", NULL, "whose figures decide and are shown: native, x86-64-v3, sm_80, …, or a file that describes a machine; default: those of no machine in particular", 0, 0},
    {"print-after", 0, SN_OPT_TEXT, "PASS|all", NULL, "print the module to stderr behind each run of PASS that changed it", 0, 0},
    {"print", 0, SN_OPT_CHOICES, "xla|short|large-constants|no-metadata|stablehlo|stablehlo-bytecode", "xla",
     "how to print: as XLA's dumps, short (XLA's ShortParsable), every constant in full, no metadata; as StableHLO text, or its portable bytecode", 0, 0},
    {"stablehlo-version", 0, SN_OPT_TEXT, "1.X.Y", NULL, "of --print=stablehlo-bytecode: the oldest reader of it; default: the newest version", 0, 0},
    {"memory", 0, SN_OPT_FLAG, NULL, NULL, "print the plan to stderr: sizes, who owns the peak, what donation and recomputing would save", 0, 0},
    {"list-passes", 0, SN_OPT_FLAG, NULL, NULL, "print every pass with its numeric class and leave", 0, 0},
    {"split", 0, SN_OPT_FLAG, NULL, "on", "treat what stands between `// -----` lines as modules of their own", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"What to do", own}, {"Passes", sn_options_passes}, {NULL, NULL}};

static const sn_tool tool = {"sinter-opt", "HLO in, HLO out, through passes", "FILE", 0, 1, groups,
                             "Without --passes and --pipeline the module is parsed, verified and printed. FILE may be gzipped; `-` is standard input."};

/* ---- --list-passes ---- */

static void print_set(uint32_t set) {
  static const struct { uint32_t bit; const char *text; } names[] = {
      {SN_P_CANONICAL, "canonical"}, {SN_P_LAYOUT, "layout"}, {SN_P_FUSED, "fused"}, {SN_P_SCHEDULE, "schedule"}, {SN_P_BUFFERS, "buffers"}};
  const char *comma = "";
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    if (!(set & names[k].bit)) continue;
    printf("%s%s", comma, names[k].text);
    comma = ",";
  }
}

static int list_passes(void) {
  static const char *const classes[] = {"exact", "reassoc", "formula"};
  for (int p = 0; p < SN_PASS_COUNT; p++) {
    printf("%-22s %-8s %s", sn_passes[p].text, classes[sn_passes[p].numeric], sn_passes[p].what);
    if (sn_passes[p].needs) fputs("; needs ", stdout), print_set(sn_passes[p].needs);
    if (sn_passes[p].makes) fputs("; makes ", stdout), print_set(sn_passes[p].makes);
    putchar('\n');
  }
  return sn_tool_report(&tool, NULL, SN_OK);
}

/* ---- one module ---- */

typedef struct job {
  sn_diag *d;
  const sn_options *o;
  sn_print_options print;
  sn_pass_setup setup;
  sn_arena *arena;         /* strings of target */
  sn_target target;
  sn_pass_id print_after;
  bool print_after_all, print_after_one;
  sn_str out;
  int n_modules;
} job;

static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; p && *p;) {
    size_t length = strcspn(p, ",");
    if (length == n && memcmp(p, word, n) == 0) return true;
    p += length + (p[length] == ',');
  }
  return false;
}

static void choose_print(job *j) {
  const char *words = sn_opt_text(j->o, "print");
  sn_print_options_init(&j->print);
  if (has_word(words, "short")) sn_print_options_init_short(&j->print);
  if (has_word(words, "no-metadata")) {
    j->print.metadata = false;
    j->print.debug_tables = false;
  }
  if (has_word(words, "large-constants")) j->print.large_constants = true;
}

static void after_pass(void *ctx, sn_pass_id p, int run, const sn_module *m, bool changed) {
  job *j = ctx;
  if (!changed || (!j->print_after_all && !(j->print_after_one && p == j->print_after))) return;
  sn_str text = {0};
  sn_hlo_print(&text, m, &j->print);
  if (!text.failed) fprintf(stderr, "// after %s#%d\n%s\n", sn_passes[p].text, run, text.data);
  sn_str_finish(&text);
}

static sn_status choose_print_after(job *j) {
  const char *name = sn_opt_text(j->o, "print-after");
  if (!name) return SN_OK;
  j->print_after_all = strcmp(name, "all") == 0;
  j->print_after_one = sn_pass_from_text(name, strlen(name), &j->print_after);
  j->setup.options.after = after_pass;
  j->setup.options.after_ctx = j;
  if (j->print_after_all || j->print_after_one) return SN_OK;
  sn_error(j->d, SN_NOWHERE, SN_ERR_USAGE, "--print-after: no pass is called '%s'", name);
  sn_hint(j->d, "--list-passes names them all");
  return SN_ERR_USAGE;
}

static sn_status choose_target(job *j) {
  if (!sn_opt_given(j->o, "target")) return SN_OK;
  SN_TRY(sn_arena_create(&j->arena));
  SN_TRY(sn_target_find(j->d, j->arena, sn_opt_text(j->o, "target"), &j->target));
  j->setup.options.target = &j->target;
  return SN_OK;
}

static sn_status transform(job *j, sn_module *m) {
  const char *passes = sn_opt_text(j->o, "passes"), *pipeline = sn_opt_text(j->o, "pipeline");
  sn_pass_report report;
  memset(&report, 0, sizeof report);
  sn_module *before = NULL;
  sn_status s = SN_OK;
  sn_remarks_clear(j->setup.remarks); /* those of the module before were reported with it */
  if (passes) s = sn_passes_run(j->d, m, passes, &j->setup.options, &report);
  if (s == SN_OK && pipeline && sn_opt_flag(j->o, "memory")) s = sn_module_clone(m, &before);
  if (s == SN_OK && pipeline) s = sn_pipeline_run(j->d, m, pipeline, &j->setup.options, &report);
  if (s == SN_OK && (passes || pipeline)) s = sn_module_verify(j->d, m, 0);
  if (s == SN_OK && sn_opt_flag(j->o, "memory")) s = sn_print_memory(j->d, m, pipeline, before, &j->setup.options);
  sn_module_destroy(before);
  if (s != SN_OK) return s;
  bool bytecode = has_word(sn_opt_text(j->o, "print"), "stablehlo-bytecode");
  if (j->n_modules++ && bytecode) return sn_error(j->d, SN_NOWHERE, SN_ERR_USAGE, "bytecode holds one module, the file several: --no-split, or text");
  if (j->n_modules > 1) sn_str_add(&j->out, "\n// -----\n\n");
  if (bytecode) SN_TRY(sn_stablehlo_write(j->d, m, sn_opt_text(j->o, "stablehlo-version"), &j->out));
  else if (has_word(sn_opt_text(j->o, "print"), "stablehlo")) SN_TRY(sn_stablehlo_print(j->d, m, &j->out));
  else sn_hlo_print(&j->out, m, &j->print);
  return sn_pass_setup_report(j->d, j->o, &j->setup, &report);
}

static sn_status run_file(job *j, sn_source *source) {
  sn_status worst = SN_OK, s;
  sn_module *m;
  SN_TRY(sn_source_open(j->d, sn_opt_operands(j->o) ? sn_opt_operand(j->o, 0) : "-", sn_opt_flag(j->o, "split"), source));
  while (sn_source_next(j->d, source, &s, &m)) {
    if (s == SN_OK) s = transform(j, m);
    sn_module_destroy(m);
    if (worst == SN_OK) worst = s;
  }
  return worst;
}

static sn_status run(job *j, sn_source *source) {
  choose_print(j);
  SN_TRY(sn_pass_setup_init(j->d, j->o, &j->setup));
  SN_TRY(choose_print_after(j));
  SN_TRY(choose_target(j));
  sn_status s = run_file(j, source);
  if (j->out.failed) return sn_out_of_memory(j->d, j->out.n);
  if (s == SN_OK) s = sn_file_write(j->d, sn_opt_text(j->o, "output"), j->out.data ? j->out.data : "", j->out.n);
  return s;
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  if (sn_opt_flag(o, "list-passes")) {
    code = list_passes();
  } else {
    job j;
    sn_source source;
    memset(&j, 0, sizeof j);
    memset(&source, 0, sizeof source);
    j.o = o;
    sn_status s = sn_diag_create(&j.d);
    if (s == SN_OK) s = run(&j, &source);
    code = sn_tool_report(&tool, j.d, s);
    sn_pass_setup_finish(&j.setup);
    sn_arena_destroy(j.arena);
    sn_str_finish(&j.out);
    sn_diag_destroy(j.d);
    sn_source_finish(&source);
  }
  sn_options_destroy(o);
  return code;
}
