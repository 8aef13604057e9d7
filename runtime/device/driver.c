/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The table of drivers. */
#include "sinter/device.h"

#include <string.h>

static const sn_driver *const drivers[] = {&sn_driver_cuda, &sn_driver_null};

enum { N_DRIVERS = sizeof drivers / sizeof drivers[0] };

const sn_driver *sn_driver_at(size_t i) { return i < N_DRIVERS ? drivers[i] : NULL; }

const sn_driver *sn_driver_find(const char *name) {
  for (size_t i = 0; i < N_DRIVERS; i++) {
    if (strcmp(drivers[i]->name, name) == 0) return drivers[i];
  }
  return NULL;
}
