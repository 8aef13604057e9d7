/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_TESTS_FILES_H
#define SINTER_TESTS_FILES_H

#include "sinter/files.h"

#include <check.h>
#include <string.h>

TCase *npy_cases(void);
TCase *npz_cases(void);
TCase *safetensors_cases(void);

/* Arrays and paths for one test. */
sn_array *test_array(sn_type t, int rank, const int64_t *dims, const void *data);
const char *test_path(const char *name); /* in a folder of this process; valid until the next call */
void test_remove(const char *name);

/* Reads bytes, which must be refused with `want` and a message that has `part`. */
void check_refused(const void *data, size_t n, sn_status want, const char *part);
/* Every prefix and every single-byte change of a good file: any answer, but no crash and no leak. */
void check_mutations(const void *data, size_t n);
/* Every allocation fails once; reading answers SN_ERR_MEMORY (or works, or the parser underneath says no). */
void check_allocations(const void *data, size_t n);
/* One array per element type, four values each, among them the type's odd ones. */
sn_bundle *test_every_type(void);
/* Same names in the same order with the same bits. */
void check_equal(const sn_bundle *a, const sn_bundle *b);
void read_file(const char *name, char **data, size_t *n);

#endif
