/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The table that generated code calls through. */
#include "program_internal.h"
#include "sinter/imports.h"

#include <math.h>
#include <string.h>

/* Functions as data pointers: what POSIX asks of dlsym's result, and true on every target here. */
union import {
  void (*function)(void);
  const void *data;
};

#define SN_IMPORT(id, name, meaning) {(void (*)(void))name},
static const union import table[] = {
#include "sinter/imports.def"
};
#undef SN_IMPORT

const void *const *sn_imports(void) { return &table[0].data; }
