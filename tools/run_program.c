/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "run_program.h"

#include <string.h>

#include "sinter/build.h"

sn_status sn_program_signature(sn_diag *d, const sn_program *p, sn_module **out) {
  sn_computation *c;
  sn_builder b;
  *out = NULL;
  if (sn_module_create(sn_program_name(p), out) != SN_OK || sn_computation_create(*out, "main", &c) != SN_OK) return sn_out_of_memory(d, sizeof *c);
  sn_builder_init(&b, d, c);
  for (uint32_t i = 0; i < sn_program_n_arguments(p); i++) {
    char name[32];
    snprintf(name, sizeof name, "arg%u", i);
    sn_build_parameter(&b, i, sn_program_argument(p, i)->shape, name);
  }
  sn_instr *root = sn_build(&b, SN_OP_TUPLE, NULL, 0, NULL, 0, NULL, 0, NULL);
  SN_TRY(b.status);
  sn_computation_set_root(c, root);
  sn_module_set_entry(*out, c);
  return SN_OK;
}

sn_status sn_program_check_options(sn_diag *d, const sn_options *o) {
  static const char *const of_modules[] = {"entry", "passes", "pipeline", "trace", "stop-at-nan", "replicas", "partitions", "tolerances", "target", "precision", "library", "opt-level", "numeric",
                                           "layout", "attention", "memory-limit", "limit", "disable-pass", "stop-after", "verify-each", "time-passes", "remarks", "why-not-fused"};
  for (size_t i = 0; i < sizeof of_modules / sizeof *of_modules; i++) {
    if (sn_opt_given(o, of_modules[i])) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--%s is for modules: %s was compiled already", of_modules[i], sn_opt_operand(o, 0));
  }
  bool compares = sn_opt_given(o, "compare") && strcmp(sn_opt_text(o, "compare"), "interpreter") == 0;
  bool interprets = sn_opt_given(o, "engine") && strcmp(sn_opt_text(o, "engine"), "interpreter") == 0;
  if (!compares && !interprets) return SN_OK;
  return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--%s=interpreter is for modules: %s was compiled already", compares ? "compare" : "engine", sn_opt_operand(o, 0));
}
