/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_TEST_BASE_H
#define SINTER_TEST_BASE_H

#include "base_internal.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

TCase *case_status(void);
TCase *case_memory(void);
TCase *case_text(void);
TCase *case_diag(void);
TCase *case_map(void);
TCase *case_pool(void);
TCase *case_os(void);
TCase *case_env(void);

/* Runs `attempt` with 0, 1, 2, … allocations allowed until it says SN_OK; every earlier status must be
 * SN_ERR_MEMORY and nothing may stay behind. Returns how many allocations it needs. */
int64_t check_allocation_failures(sn_status (*attempt)(void));

/* What sn_diag_print writes; freed by free(). */
char *print_diag(const sn_diag *d, bool colour);

#endif
