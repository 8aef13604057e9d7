/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The part of the CUDA driver API that we call, found in libcuda.so.1 at run time. Types and numbers are those of NVIDIA's "CUDA Driver API" reference. */
#ifndef SINTER_CUDA_API_H
#define SINTER_CUDA_API_H

#include "sinter/base.h"

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_address;
typedef struct cu_context_st *cu_context;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_exec_st *cu_graph_exec;

enum {
  CU_OK = 0,
  CU_OUT_OF_MEMORY = 2,
  CU_NO_DEVICE = 100,
  CU_INVALID_IMAGE = 200,
  CU_NO_BINARY = 209,
  CU_INVALID_PTX = 218,
  CU_UNSUPPORTED_PTX = 222,
  CU_OLD_DRIVER = 803,
  CU_ATTRIBUTE_MAJOR = 75,
  CU_ATTRIBUTE_MINOR = 76,
  CU_FUNCTION_MAX_SHARED = 8,
  CU_STREAM_NON_BLOCKING = 1,
  CU_CAPTURE_RELAXED = 2,
  CU_LEAST_VERSION = 12000
};

/* One row a function: SN_CU(field, "exported name", result, (parameters)). */
#define SN_CUDA_FUNCTIONS(SN_CU)                                                                                                                     \
  SN_CU(init, "cuInit", (unsigned flags))                                                                                                            \
  SN_CU(driver_version, "cuDriverGetVersion", (int *version))                                                                                        \
  SN_CU(device_count, "cuDeviceGetCount", (int *n))                                                                                                  \
  SN_CU(device_get, "cuDeviceGet", (cu_device * out, int ordinal))                                                                                   \
  SN_CU(device_name, "cuDeviceGetName", (char *to, int bytes, cu_device device))                                                                     \
  SN_CU(device_attribute, "cuDeviceGetAttribute", (int *out, int attribute, cu_device device))                                                       \
  SN_CU(primary_retain, "cuDevicePrimaryCtxRetain", (cu_context * out, cu_device device))                                                            \
  SN_CU(primary_release, "cuDevicePrimaryCtxRelease_v2", (cu_device device))                                                                         \
  SN_CU(context_push, "cuCtxPushCurrent_v2", (cu_context context))                                                                                   \
  SN_CU(context_pop, "cuCtxPopCurrent_v2", (cu_context * out))                                                                                       \
  SN_CU(memory_info, "cuMemGetInfo_v2", (size_t *free, size_t *total))                                                                               \
  SN_CU(alloc, "cuMemAlloc_v2", (cu_address * out, size_t bytes))                                                                                    \
  SN_CU(free, "cuMemFree_v2", (cu_address at))                                                                                                       \
  SN_CU(alloc_host, "cuMemHostAlloc", (void **out, size_t bytes, unsigned flags))                                                                    \
  SN_CU(free_host, "cuMemFreeHost", (void *at))                                                                                                      \
  SN_CU(to_device, "cuMemcpyHtoDAsync_v2", (cu_address to, const void *from, size_t bytes, cu_stream stream))                                        \
  SN_CU(to_host, "cuMemcpyDtoHAsync_v2", (void *to, cu_address from, size_t bytes, cu_stream stream))                                                \
  SN_CU(on_device, "cuMemcpyDtoDAsync_v2", (cu_address to, cu_address from, size_t bytes, cu_stream stream))                                         \
  SN_CU(fill8, "cuMemsetD8Async", (cu_address to, unsigned char value, size_t n, cu_stream stream))                                                  \
  SN_CU(fill16, "cuMemsetD16Async", (cu_address to, unsigned short value, size_t n, cu_stream stream))                                               \
  SN_CU(fill32, "cuMemsetD32Async", (cu_address to, unsigned value, size_t n, cu_stream stream))                                                     \
  SN_CU(module_load, "cuModuleLoadData", (cu_module * out, const void *image))                                                                       \
  SN_CU(module_unload, "cuModuleUnload", (cu_module module))                                                                                         \
  SN_CU(module_function, "cuModuleGetFunction", (cu_function * out, cu_module module, const char *name))                                             \
  SN_CU(function_set, "cuFuncSetAttribute", (cu_function function, int attribute, int value))                                                        \
  SN_CU(launch, "cuLaunchKernel",                                                                                                                    \
        (cu_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, cu_stream stream, void **arguments, void **extra)) \
  SN_CU(stream_create, "cuStreamCreate", (cu_stream * out, unsigned flags))                                                                          \
  SN_CU(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                                                                                    \
  SN_CU(stream_wait, "cuStreamSynchronize", (cu_stream stream))                                                                                      \
  SN_CU(capture_begin, "cuStreamBeginCapture_v2", (cu_stream stream, int mode))                                                                      \
  SN_CU(capture_end, "cuStreamEndCapture", (cu_stream stream, cu_graph * out))                                                                       \
  SN_CU(graph_instantiate, "cuGraphInstantiateWithFlags", (cu_graph_exec * out, cu_graph graph, unsigned long long flags))                           \
  SN_CU(graph_launch, "cuGraphLaunch", (cu_graph_exec graph, cu_stream stream))                                                                      \
  SN_CU(graph_destroy, "cuGraphDestroy", (cu_graph graph))                                                                                           \
  SN_CU(graph_exec_destroy, "cuGraphExecDestroy", (cu_graph_exec graph))                                                                             \
  SN_CU(event_create, "cuEventCreate", (cu_event * out, unsigned flags))                                                                             \
  SN_CU(event_record, "cuEventRecord", (cu_event event, cu_stream stream))                                                                           \
  SN_CU(event_elapsed, "cuEventElapsedTime", (float *milliseconds, cu_event from, cu_event to))                                                      \
  SN_CU(event_destroy, "cuEventDestroy_v2", (cu_event event))                                                                                        \
  SN_CU(error_name, "cuGetErrorName", (cu_result code, const char **out))                                                                            \
  SN_CU(error_text, "cuGetErrorString", (cu_result code, const char **out))

typedef struct cuda_api {
  sn_library *library;
  int version;
#define SN_CU(field, name, parameters) cu_result(*field) parameters;
  SN_CUDA_FUNCTIONS(SN_CU)
#undef SN_CU
} cuda_api;

/* Opens the library, checks its version, initialises it. SN_ERR_UNAVAILABLE or SN_ERR_VERSION with one line. */
sn_status sn_cuda_api_open(sn_diag *d, cuda_api *out);
void sn_cuda_api_close(cuda_api *api);
/* "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)" at `where` (an HLO name, or NULL). */
sn_status sn_cuda_error(sn_diag *d, const cuda_api *api, cu_result code, const char *where, const char *what);

#endif
