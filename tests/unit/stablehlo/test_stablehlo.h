/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the tests of frontends/stablehlo share. */
#ifndef TESTS_UNIT_STABLEHLO_H
#define TESTS_UNIT_STABLEHLO_H

#include <check.h>

#include "mlir.h"
#include "sinter/stablehlo.h"

TCase *text_cases(void);
TCase *map_cases(void);
TCase *hostile_cases(void);
TCase *write_cases(void);

/* Reads, maps and runs `main` with its checks. */
sn_status run_text(sn_diag *d, const char *text);

#endif
