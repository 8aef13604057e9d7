/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-dump: shows a module, as it came or as passes leave it. */
#include <string.h>

#include "dot_graph.h"
#include "pass_options.h"
#include "sinter/text.h"
#include "source.h"

static const sn_option own[] = {
    {"output", 'o', SN_OPT_TEXT, "FILE", "-", "where it goes", 0, 0},
    {"stage", 0, SN_OPT_CHOICE, "hlo|optimized", "hlo", "the module as read, or behind the pipeline", 0, 0},
    {"format", 0, SN_OPT_CHOICE, "text|dot", "text", "HLO text, or a graph for Graphviz", 0, 0},
    {"pipeline", 0, SN_OPT_CHOICE, "cpu|cuda|op-by-op", "cpu", "for --stage=optimized", 0, 0},
    {"split", 0, SN_OPT_FLAG, NULL, "on", "treat what stands between `// -----` lines as modules of their own", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"What to show", own}, {"Passes", sn_options_passes}, {NULL, NULL}};
static const sn_tool tool = {"sinter-dump", "shows a module at any stage", "FILE", 1, 1, groups, NULL};

static sn_status show(sn_diag *d, const sn_options *o, sn_pass_setup *setup, sn_module *m, sn_str *to) {
  sn_pass_report report;
  memset(&report, 0, sizeof report);
  if (strcmp(sn_opt_text(o, "stage"), "optimized") == 0) SN_TRY(sn_pipeline_run(d, m, sn_opt_text(o, "pipeline"), &setup->options, &report));
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
