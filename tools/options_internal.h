/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What options.c and options_print.c share. */
#ifndef TOOLS_OPTIONS_INTERNAL_H
#define TOOLS_OPTIONS_INTERNAL_H

#include "options.h"

/* --help, --version, --man, --completion: behind every tool's own rows. */
extern const sn_option sn_options_builtin[];
/* Row i over all groups, then the built-in ones; NULL: past the end. */
const sn_option *sn_options_row(const sn_tool *tool, size_t i);

#endif
