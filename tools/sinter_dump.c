/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-dump: shows a module, as it came or as passes leave it. */
#include <string.h>

#include "dot_graph.h"
#include "pass_options.h"
#include "sinter/compiler.h"
#include "sinter/text.h"
#include "source.h"

static const sn_option own[] = {
    {"output", 'o', SN_OPT_TEXT, "FILE", "-", "where it goes", 0, 0},
    {"stage", 0, SN_OPT_CHOICE, "hlo|optimized|kernels|program|cuda|ptx|resources|llvm|asm", "hlo",
     "the module as read, behind the pipeline, or what the compiler makes of it for --target", 0, 0},
    {"format", 0, SN_OPT_CHOICE, "text|dot", "text", "HLO text, or a graph for Graphviz", 0, 0},
    {"pipeline", 0, SN_OPT_CHOICE, "cpu|cuda|op-by-op", "cpu", "for --stage=optimized", 0, 0},
    {"target", 0, SN_OPT_TEXT, "NAME", NULL, "for the compiler's stages (default: native; sm_90a for cuda, ptx and resources)", 0, 0},
    {"engine", 0, SN_OPT_CHOICE, "op-by-op|fused", "fused", "for the compiler's stages", 0, 0},
    {"split", 0, SN_OPT_FLAG, NULL, "on", "treat what stands between `// -----` lines as modules of their own", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"What to show", own}, {"Passes", sn_options_passes}, {NULL, NULL}};
static const sn_tool tool = {"sinter-dump", "shows a module at any stage", "FILE", 1, 1, groups, NULL};

/* ---- what the compiler makes of it ---- */

static bool is_compiled(const char *stage) { return strcmp(stage, "hlo") != 0 && strcmp(stage, "optimized") != 0; }

static const char *stage_text(const sn_compile_report *r, const char *stage) {
  const struct {
    const char *name, *text;
  } rows[] = {{"kernels", r->kernels}, {"cuda", r->cuda}, {"ptx", r->ptx}, {"resources", r->resources}, {"llvm", r->llvm}, {"asm", r->assembly}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].name, stage) == 0) return rows[i].text;
  }
  return NULL;
}

static sn_status show_compiled(sn_diag *d, const sn_options *o, const sn_pass_setup *setup, const sn_module *m, const char *stage, sn_str *to) {
  sn_compile_options c;
  sn_compile_report report;
  sn_program *p = NULL;
  bool cuda = strcmp(stage, "cuda") == 0 || strcmp(stage, "ptx") == 0 || strcmp(stage, "resources") == 0;
  sn_compile_options_init(&c);
  c.passes = setup->options;
  c.engine = sn_opt_text(o, "engine");
  c.target = sn_opt_given(o, "target") ? sn_opt_text(o, "target") : cuda ? "sm_90a" : NULL;
  c.keep_texts = true;
  SN_TRY(sn_compile(d, m, &c, &p, &report));
  const char *text = stage_text(&report, stage);
  sn_status s = SN_OK;
  if (strcmp(stage, "program") == 0) sn_program_print(to, p);
  else if (text) sn_str_add(to, text);
  else s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--target=%s has no stage '%s'", c.target ? c.target : "native", stage);
  sn_compile_report_finish(&report);
  sn_program_release(p);
  return s;
}

static sn_status show(sn_diag *d, const sn_options *o, sn_pass_setup *setup, sn_module *m, sn_str *to) {
  sn_pass_report report;
  const char *stage = sn_opt_text(o, "stage");
  memset(&report, 0, sizeof report);
  if (is_compiled(stage)) return show_compiled(d, o, setup, m, stage, to);
  if (strcmp(stage, "optimized") == 0) SN_TRY(sn_pipeline_run(d, m, sn_opt_text(o, "pipeline"), &setup->options, &report));
  if (strcmp(sn_opt_text(o, "format"), "dot") == 0) sn_dot_graph(to, m);
  else sn_hlo_print(to, m, NULL);
  return sn_pass_setup_report(d, o, setup, &report);
}

static sn_status run(sn_diag *d, const sn_options *o, sn_source *source, sn_pass_setup *setup, sn_str *to) {
  sn_status worst = SN_OK, s;
  sn_module *m;
  SN_TRY(sn_pass_setup_init(d, o, setup));
  SN_TRY(sn_source_open(d, sn_opt_operand(o, 0), sn_opt_flag(o, "split"), source));
  while (sn_source_next(d, source, &s, &m)) {
    if (s == SN_OK) s = show(d, o, setup, m, to);
    sn_module_destroy(m);
    if (worst == SN_OK) worst = s;
  }
  if (to->failed) return sn_out_of_memory(d, to->n);
  return worst != SN_OK ? worst : sn_file_write(d, sn_opt_text(o, "output"), to->data ? to->data : "", to->n);
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  sn_source source;
  sn_pass_setup setup;
  sn_str to = {0};
  sn_diag *d = NULL;
  memset(&source, 0, sizeof source);
  memset(&setup, 0, sizeof setup);
  sn_status s = sn_diag_create(&d);
  if (s == SN_OK) s = run(d, o, &source, &setup, &to);
  code = sn_tool_report(&tool, d, s);
  sn_pass_setup_finish(&setup);
  sn_str_finish(&to);
  sn_diag_destroy(d);
  sn_source_finish(&source);
  sn_options_destroy(o);
  return code;
}
