/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Options that concern passes, shared by the tools that run them. */
#ifndef TOOLS_PASS_OPTIONS_H
#define TOOLS_PASS_OPTIONS_H

#include "options.h"
#include "sinter/compiler.h"
#include "sinter/passes.h"

/* -O, --numeric, --layout, --attention, --memory-limit, --limit, --disable-pass, --stop-after, --verify-each, --time-passes, --remarks, --why-not-fused, --json */
extern const sn_option sn_options_passes[];

typedef struct sn_pass_setup {
  sn_pass_options options; /* for the runner */
  const char **disabled;
  sn_remarks *remarks;     /* NULL: not asked for */
} sn_pass_setup;

SN_NODISCARD sn_status sn_pass_setup_init(sn_diag *d, const sn_options *o, sn_pass_setup *out);
void sn_pass_setup_finish(sn_pass_setup *s);
/* The plan of a scheduled module on stderr: sizes, who owns the peak, commands and modelled time, what donation would save, and, where the pipeline it came through and
 * the module before are given (else NULL), what recomputing to half of the peak would. */
SN_NODISCARD sn_status sn_print_memory(sn_diag *d, const sn_module *m, const char *pipeline, const sn_module *before, const sn_pass_options *o);
/* What --remarks, --why-not-fused and --time-passes ask for, on stderr. SN_ERR_USAGE for a bad regular expression. */
SN_NODISCARD sn_status sn_pass_setup_report(sn_diag *d, const sn_options *o, const sn_pass_setup *s, const sn_pass_report *report);
/* Behind the passes' times: those of lowering, code and all of a compile, on stderr. */
void sn_compile_print_times(const sn_compile_report *r, bool json);

#endif
