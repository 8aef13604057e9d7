/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef TEST_INDEX_H
#define TEST_INDEX_H

#include <check.h>

#include "sinter/index.h"

void add_expression_tests(TCase *t);
void add_rule_tests(TCase *t);

#endif
