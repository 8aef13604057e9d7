/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef TESTS_DATA_TESTS_H
#define TESTS_DATA_TESTS_H

#include <check.h>

#include "sinter/data.h"

TCase *random_tests(void);
TCase *image_tests(void);
TCase *dataset_tests(void);
TCase *loader_tests(void);
TCase *token_tests(void);

/* A fresh directory below TMPDIR, and a file in it (its folders are made). Paths live until the process ends. */
const char *temp_dir(void);
const char *temp_file(const char *dir, const char *name, const void *bytes, size_t n);
void temp_remove(const char *dir); /* with all that is in it */

#endif
