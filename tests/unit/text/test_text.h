/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_TEST_TEXT_H
#define SINTER_TEST_TEXT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/text.h"

TCase *case_faults(void);
TCase *case_forms(void);
TCase *case_golden(void);
TCase *case_hostile(void);
TCase *case_pieces(void);

/* Parses what must be right; prints the diagnostics and fails the test otherwise. */
sn_module *must_parse(const char *text, size_t n);
/* By default options, or short; freed by sn_str_finish. */
sn_str print_text(const sn_module *m, bool brief);

#endif
