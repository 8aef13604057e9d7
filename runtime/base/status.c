/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "sinter/base.h"

#include <stdlib.h>

static const char *const status_texts[] = {
#define SN_STATUS(id, text, meaning) [SN_##id] = text,
#include "sinter/statuses.def"
#undef SN_STATUS
};

const char *sn_status_text(sn_status s) {
  if ((unsigned)s >= (unsigned)SN_STATUS_COUNT) return "unknown status";
  return status_texts[s];
}

#ifndef NDEBUG
void sn_assert_failed(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
  fflush(stderr);
  abort();
}
#endif
