/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "base_internal.h"

#include <dlfcn.h>

struct sn_library {
  void *handle;
};

static sn_status library_not_found(sn_diag *d, const char *const *names, size_t n, const char *why) {
  sn_str list = {0};
  for (size_t i = 0; i < n; i++) {
    if (i != 0) sn_str_add(&list, ", ");
    sn_str_add(&list, names[i]);
  }
  sn_status s = sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "no library found under %s: %s",
                         list.failed || n == 0 ? "any name" : list.data, why != NULL ? why : "no reason given");
  sn_str_finish(&list);
  return s;
}

sn_status sn_library_open(sn_diag *d, const char *const *names, size_t n, sn_library **out) {
  *out = NULL;
  sn_library *l = sn_alloc(sizeof *l);
  if (l == NULL) return sn_out_of_memory(d, sizeof *l);
  l->handle = NULL;
  for (size_t i = 0; i < n && l->handle == NULL; i++) l->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (l->handle == NULL) {
    sn_free(l);
    return library_not_found(d, names, n, n != 0 ? dlerror() : "no name given");
  }
  *out = l;
  return SN_OK;
}

void *sn_library_symbol(sn_library *l, const char *name) {
  return dlsym(l->handle, name);
}

void sn_library_close(sn_library *l) {
  if (l == NULL) return;
  dlclose(l->handle);
  sn_free(l);
}

void sn_library_keep(sn_library *l) {
  sn_free(l);
}
