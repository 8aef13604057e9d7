/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_TEST_TRANSFORMS_CASES_H
#define SINTER_TEST_TRANSFORMS_CASES_H

#include <check.h>

void add_eltwise(Suite *s);
void add_structure(Suite *s);
void add_control(Suite *s);
void add_linalg(Suite *s);
void add_api(Suite *s);
void add_random(Suite *s);
void add_random_windows(Suite *s);
void add_collective(Suite *s);
void add_coverage(Suite *s); /* last: it looks at what the others did */

#endif
