/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Compiled programs (.sntr) where a module is expected. */
#ifndef TOOLS_RUN_PROGRAM_H
#define TOOLS_RUN_PROGRAM_H

#include "options.h"
#include "sinter/ir.h"
#include "sinter/program.h"

/* A module without work that takes what the program takes, one parameter a leaf: arguments are read for it. */
SN_NODISCARD sn_status sn_program_signature(sn_diag *d, const sn_program *p, sn_module **out);
/* SN_ERR_USAGE when an option was given that only makes sense for a module: what is compiled has no passes, no instructions, no interpreter. */
SN_NODISCARD sn_status sn_program_check_options(sn_diag *d, const sn_options *o);

#endif
