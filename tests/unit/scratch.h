/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A directory of a test's own, under TMPDIR or /tmp. */
#ifndef SINTER_TESTS_UNIT_SCRATCH_H
#define SINTER_TESTS_UNIT_SCRATCH_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCRATCH_BYTES = 256 };

static inline void scratch_make(char dir[SCRATCH_BYTES], const char *room) {
  const char *tmp = getenv("TMPDIR");
  int n = snprintf(dir, SCRATCH_BYTES, "%s/sinter-%s-XXXXXX", tmp != NULL && *tmp != '\0' ? tmp : "/tmp", room);
  ck_assert_int_lt(n, SCRATCH_BYTES);
  ck_assert_ptr_nonnull(mkdtemp(dir));
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
  (void)st, (void)type, (void)where;
  return remove(path);
}

/* With all that is in it. */
static inline void scratch_remove(const char *dir) { ck_assert_int_eq(nftw(dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

#endif
