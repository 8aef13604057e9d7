/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Finding the CUDA driver, and its errors as statuses. */
#include "cuda_api.h"

#include <string.h>

static const char *find_functions(cuda_api *api) {
  void *at;
#define SN_CU(field, name, parameters)                          \
  if (!(at = sn_library_symbol(api->library, name))) return name; \
  memcpy(&api->field, &at, sizeof at);
  SN_CUDA_FUNCTIONS(SN_CU)
#undef SN_CU
  return NULL;
}

static sn_status find_library(sn_diag *d, cuda_api *api) {
  const char *chosen = sn_env("SINTER_LIBCUDA"), *names[2] = {chosen ? chosen : "libcuda.so.1"};
  if (sn_library_open(NULL, names, 1, &api->library) == SN_OK) return SN_OK;
  sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "no CUDA driver: %s cannot be loaded", names[0]);
  sn_hint(d, chosen ? "SINTER_LIBCUDA names the library" : "--device=cuda needs NVIDIA's driver; SINTER_LIBCUDA names another library");
  return SN_ERR_UNAVAILABLE;
}

sn_status sn_cuda_api_open(sn_diag *d, cuda_api *api) {
  memset(api, 0, sizeof *api);
  SN_TRY(find_library(d, api));
  const char *missing = find_functions(api);
  sn_status s = SN_OK;
  int n = 0;
  cu_result r;
  if (missing) {
    s = sn_error(d, SN_NOWHERE, SN_ERR_VERSION, "the CUDA driver is too old: it has no %s", missing);
  } else if ((r = api->driver_version(&api->version)) != CU_OK || api->version < CU_LEAST_VERSION) {
    s = sn_error(d, SN_NOWHERE, SN_ERR_VERSION, "the CUDA driver is too old: CUDA %d.%d, 12.0 or later is needed", api->version / 1000, api->version % 1000 / 10);
  } else if ((r = api->init(0)) != CU_OK) {
    s = r == CU_NO_DEVICE ? sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "the CUDA driver finds no device") : sn_cuda_error(d, api, r, NULL, "the CUDA driver does not start");
  } else if ((r = api->device_count(&n)) != CU_OK || n == 0) {
    s = sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "the CUDA driver finds no device");
  }
  if (s != SN_OK) sn_cuda_api_close(api);
  return s;
}

void sn_cuda_api_close(cuda_api *api) {
  if (api->library) sn_library_close(api->library);
  memset(api, 0, sizeof *api);
}

sn_status sn_cuda_error(sn_diag *d, const cuda_api *api, cu_result code, const char *where, const char *what) {
  const char *name = NULL, *text = NULL;
  if (api->error_name(code, &name) != CU_OK || !name) name = "an unknown error";
  if (api->error_text(code, &text) != CU_OK || !text) text = "no description";
  sn_status s = code == CU_OUT_OF_MEMORY ? SN_ERR_MEMORY : code == CU_NO_DEVICE ? SN_ERR_UNAVAILABLE : SN_ERR_DEVICE;
  return sn_error(d, (sn_loc){where, 0, 0}, s, "%s: %s (%s)", what, name, text);
}
