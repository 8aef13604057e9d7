/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The device that a numeric test runs on. */
#ifndef SINTER_TESTS_NUMERIC_DEVICE_FIND_H
#define SINTER_TESTS_NUMERIC_DEVICE_FIND_H

#include <stdio.h>

#include "sinter/device.h"
#include "sinter/gpu.h"

/* Finds the device and its compiler, and what to compile for (*target, for the life of the process); a reason on stdout where they are missing. */
static inline bool device_find(const char *test, const char *name, const char **target) {
  static char found[32];
  const sn_driver *driver = sn_driver_find(name);
  sn_nvrtc *n = NULL;
  sn_diag *d = NULL;
  bool ok = driver && sn_diag_create(&d) == SN_OK && driver->target(d, 0, found, sizeof found) == SN_OK && sn_nvrtc_open(d, &n) == SN_OK;
  if (!ok) printf("not run: %s on %s: %s\n", test, name, d && sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "there is no such device");
  sn_nvrtc_close(n);
  sn_diag_destroy(d);
  *target = found;
  return ok;
}

#endif
