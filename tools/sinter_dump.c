/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-dump: shows a module, as it came or as passes leave it. */
#include <string.h>

#include "dot_graph.h"
#include "pass_options.h"
#include "sinter/compiler.h"
#include "sinter/text.h"
#include "source.h"
#include "text_diff.h"

static const sn_option own[] = {
    {"output", 'o', SN_OPT_TEXT, "FILE", "-", "where it goes", 0, 0},
    {"stage", 0, SN_OPT_CHOICE, "hlo|optimized|schedule|buffers|kernels|llvm|asm|cuda|ptx|resources|program|all", "hlo",
     "the module as read, behind the pipeline, or what the compiler makes of it for --target: the order of the run, the memory plan, loop nests, code, commands", 0, 0},
    {"out-dir", 0, SN_OPT_TEXT, "DIR", NULL, "write files DIR/MODULE.N/STAGE.* instead, N the first number that is free", 0, 0},
    {"diff", 0, SN_OPT_TEXT, "OTHER", NULL, "show how the stage of FILE differs from that of OTHER, as a unified diff; exit 1 if it does", 0, 0},
    {"format", 0, SN_OPT_CHOICE, "text|dot", "text", "HLO text, or a graph for Graphviz", 0, 0},
    {"pipeline", 0, SN_OPT_CHOICE, "cpu|cuda|op-by-op", "cpu", "for --stage=optimized", 0, 0},
    {"target", 0, SN_OPT_TEXT, "NAME", NULL, "for the compiler's stages (default: native; sm_90a for cuda, ptx and resources)", 0, 0},
    {"engine", 0, SN_OPT_CHOICE, "op-by-op|fused", "fused", "for the compiler's stages", 0, 0},
    {"split", 0, SN_OPT_FLAG, NULL, "on", "treat what stands between `// -----` lines as modules of their own", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"What to show", own}, {"Passes", sn_options_passes}, {NULL, NULL}};
static const sn_tool tool = {"sinter-dump", "shows a module at any stage", "FILE", 1, 1, groups, NULL};

typedef struct job {
  sn_diag *d;
  const sn_options *o;
  sn_pass_setup setup;
  const char *stage;
} job;

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* ---- what the compiler makes of it ---- */

static void add_stages(const sn_compile_report *r, sn_str *to) {
  for (int i = 0; sn_compile_stage(i); i++) {
    const char *name = sn_compile_stage(i), *text = sn_compile_report_text(r, name);
    if (text) sn_str_printf(to, "// ---- %s\n%s\n", name, text);
  }
}

static sn_status add_compiled(const job *j, const sn_module *m, const sn_compile_report *r, const char *target, sn_str *to) {
  const char *dir = sn_opt_text(j->o, "out-dir"), *text = sn_compile_report_text(r, j->stage);
  bool all = is(j->stage, "all");
  if (!all && !text) return sn_error(j->d, SN_NOWHERE, SN_ERR_USAGE, "--target=%s has no stage '%s'", target ? target : "native", j->stage);
  if (dir) return sn_compile_report_write(j->d, r, dir, m->name, all ? NULL : j->stage);
  if (all) add_stages(r, to);
  else sn_str_add(to, text);
  return SN_OK;
}

static sn_status show_compiled(const job *j, const sn_module *m, sn_str *to) {
  static const char *const cuda[] = {"cuda", "ptx", "resources"};
  sn_compile_options c;
  sn_compile_report report;
  sn_program *p = NULL;
  sn_compile_options_init(&c);
  c.passes = j->setup.options;
  c.opt_level = j->setup.options.opt_level;
  c.engine = sn_opt_text(j->o, "engine");
  c.target = sn_opt_given(j->o, "target") ? sn_opt_text(j->o, "target") : NULL;
  for (size_t i = 0; i < sizeof cuda / sizeof *cuda && !c.target; i++) c.target = is(j->stage, cuda[i]) ? "sm_90a" : NULL;
  c.keep_texts = true;
  sn_status s = sn_compile(j->d, m, &c, &p, &report);
  if (s == SN_OK) s = add_compiled(j, m, &report, c.target, to);
  if (s == SN_OK) s = sn_pass_setup_report(j->d, j->o, &j->setup, &report.passes);
  if (s == SN_OK && sn_opt_flag(j->o, "time-passes")) sn_compile_print_times(&report, sn_opt_flag(j->o, "json"));
  sn_compile_report_finish(&report);
  sn_program_release(p);
  return s;
}

/* ---- any stage ---- */

static sn_status show(const job *j, sn_module *m, sn_str *to) {
  sn_pass_report report;
  bool module = is(j->stage, "hlo") || is(j->stage, "optimized"), dot = is(sn_opt_text(j->o, "format"), "dot");
  memset(&report, 0, sizeof report);
  sn_remarks_clear(j->setup.remarks); /* those of the module before were reported with it */
  if (!module && dot) return sn_error(j->d, SN_NOWHERE, SN_ERR_USAGE, "--format=dot draws modules: --stage=hlo or --stage=optimized");
  if (!module || sn_opt_text(j->o, "out-dir")) return show_compiled(j, m, to);
  if (is(j->stage, "optimized")) SN_TRY(sn_pipeline_run(j->d, m, sn_opt_text(j->o, "pipeline"), &j->setup.options, &report));
  if (dot) sn_dot_graph(to, m);
  else sn_hlo_print(to, m, NULL);
  return sn_pass_setup_report(j->d, j->o, &j->setup, &report);
}

/* A file that sinter-compile wrote has one stage left. */
static sn_status show_program(const job *j, const sn_source *source, sn_str *to) {
  sn_program *p;
  if (!is(j->stage, "program")) return sn_error(j->d, SN_NOWHERE, SN_ERR_USAGE, "%s was compiled already: --stage=program shows it", source->name);
  SN_TRY(sn_program_read_memory(j->d, source->name, source->text, source->n_bytes, &p));
  sn_program_print(to, p);
  sn_program_release(p);
  return SN_OK;
}

/* The stage of each module of the file. */
static sn_status show_file(const job *j, const char *path, sn_source *source, sn_str *to) {
  sn_status worst = SN_OK, s;
  sn_module *m;
  SN_TRY(sn_source_open(j->d, path, sn_opt_flag(j->o, "split"), source));
  if (sn_program_is(source->text, source->n_bytes)) return show_program(j, source, to);
  while (sn_source_next(j->d, source, &s, &m)) {
    if (s == SN_OK) s = show(j, m, to);
    sn_module_destroy(m);
    if (worst == SN_OK) worst = s;
  }
  if (worst == SN_OK && to->failed) return sn_out_of_memory(j->d, to->n);
  return worst;
}

typedef struct texts {
  sn_source source, other_source;
  sn_str text, other, diff;
} texts;

static sn_status run(job *j, texts *t) {
  const char *file = sn_opt_operand(j->o, 0), *other = sn_opt_text(j->o, "diff"), *output = sn_opt_text(j->o, "output");
  if (other && sn_opt_text(j->o, "out-dir")) return sn_error(j->d, SN_NOWHERE, SN_ERR_USAGE, "--diff and --out-dir do not go together");
  SN_TRY(sn_pass_setup_init(j->d, j->o, &j->setup));
  SN_TRY(show_file(j, file, &t->source, &t->text));
  sn_str *show = &t->text;
  if (other) {
    SN_TRY(show_file(j, other, &t->other_source, &t->other));
    SN_TRY(sn_text_diff(j->d, other, t->other.data, file, t->text.data, &t->diff));
    show = &t->diff;
  }
  if (!sn_opt_text(j->o, "out-dir")) SN_TRY(sn_file_write(j->d, output, show->data ? show->data : "", show->n));
  return other && t->diff.n ? sn_error(j->d, SN_NOWHERE, SN_ERR_MISMATCH, "%s and %s differ at stage %s", other, file, j->stage) : SN_OK;
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  job j;
  texts t;
  memset(&j, 0, sizeof j);
  memset(&t, 0, sizeof t);
  j.o = o;
  j.stage = sn_opt_text(o, "stage");
  sn_status s = sn_diag_create(&j.d);
  if (s == SN_OK) s = run(&j, &t);
  code = sn_tool_report(&tool, j.d, s);
  sn_pass_setup_finish(&j.setup);
  sn_str_finish(&t.text);
  sn_str_finish(&t.other);
  sn_str_finish(&t.diff);
  sn_diag_destroy(j.d);
  sn_source_finish(&t.source);
  sn_source_finish(&t.other_source);
  sn_options_destroy(o);
  return code;
}
