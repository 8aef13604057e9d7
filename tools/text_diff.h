/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef TOOLS_TEXT_DIFF_H
#define TOOLS_TEXT_DIFF_H

#include "sinter/base.h"

/* A unified diff of two texts by lines, with three lines around; nothing when they are equal. NULL is the empty text. */
SN_NODISCARD sn_status sn_text_diff(sn_diag *d, const char *old_name, const char *old_text, const char *new_name, const char *new_text, sn_str *to);

#endif
