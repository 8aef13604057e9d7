/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver's state, and what its files share. Types and numbers are those of runtime/device/cuda/cuda_api.h. A driver is one a process, so this is global. */
#ifndef SINTER_EMU_DRIVER_H
#define SINTER_EMU_DRIVER_H

#include <string.h>

#include "cuda_api.h"
#include "emu.h"

/* EMU_RESULT(number, "name", "text") */
#define EMU_RESULTS(EMU_RESULT)                                                                                          \
  EMU_RESULT(0, "CUDA_SUCCESS", "no error")                                                                              \
  EMU_RESULT(1, "CUDA_ERROR_INVALID_VALUE", "invalid argument")                                                          \
  EMU_RESULT(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")                                                             \
  EMU_RESULT(3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error")                                                    \
  EMU_RESULT(100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected")                                          \
  EMU_RESULT(101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal")                                                 \
  EMU_RESULT(200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid")                                          \
  EMU_RESULT(201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context")                                                \
  EMU_RESULT(209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device")            \
  EMU_RESULT(214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered")                                 \
  EMU_RESULT(218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed")                                              \
  EMU_RESULT(222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.")  \
  EMU_RESULT(400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle")                                                \
  EMU_RESULT(500, "CUDA_ERROR_NOT_FOUND", "named symbol not found")                                                      \
  EMU_RESULT(600, "CUDA_ERROR_NOT_READY", "device not ready")                                                            \
  EMU_RESULT(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered")                              \
  EMU_RESULT(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch")                       \
  EMU_RESULT(702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated")                                \
  EMU_RESULT(710, "CUDA_ERROR_ASSERT", "device-side assert triggered")                                                   \
  EMU_RESULT(715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered")                            \
  EMU_RESULT(716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address")                                                 \
  EMU_RESULT(718, "CUDA_ERROR_INVALID_PC", "invalid program counter")                                                    \
  EMU_RESULT(719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure")                                              \
  EMU_RESULT(801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported")                                                 \
  EMU_RESULT(900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing")           \
  EMU_RESULT(901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture")

enum { EMU_INVALID_VALUE = 1, EMU_NOT_INITIALIZED = 3, EMU_INVALID_DEVICE = 101, EMU_INVALID_CONTEXT = 201, EMU_DEVICE_LOST = 214, EMU_INVALID_HANDLE = 400, EMU_NOT_FOUND = 500, EMU_ILLEGAL_ADDRESS = 700,
       EMU_OUT_OF_RESOURCES = 701, EMU_NOT_SUPPORTED = 801, EMU_CAPTURE_UNSUPPORTED = 900 };

/* One thing that a stream does. */
typedef struct emu_work {
  enum { EMU_WORK_KERNEL, EMU_WORK_COPY, EMU_WORK_FILL, EMU_WORK_HOST } kind;
  emu_function *function;
  uint32_t grid[3], block[3], shared;
  uint8_t *params;
  size_t param_bytes;
  bool (*host)(const void *params); /* false: an access outside allocations */
  uint64_t to, from, n; /* addresses: of the device, or of the host where the flags say so */
  bool to_host, from_host;
  uint32_t pattern, pattern_bytes;
} emu_work;

typedef struct cu_graph_st { emu_work *work; uint32_t n, cap; } emu_graph;
typedef struct cu_graph_exec_st { emu_work *work; uint32_t n; } emu_graph_exec;
typedef struct cu_stream_st { emu_graph *capture; } emu_stream;
typedef struct cu_event_st { double at; bool recorded; } emu_event;
typedef struct cu_function_st emu_handle; /* an emu_function in the driver's eyes */

/* Counters of a kernel, kept beyond its module's life. */
typedef struct emu_row_of_report { char name[160]; emu_counters counters; } emu_row_of_report;
enum { EMU_MAX_ROWS = 4096 }; /* the last one takes what comes beyond: a table that needs no end when the library is closed */

typedef struct emu_driver {
  bool initialised;
  int retained;         /* of the primary context */
  cu_result sticky;     /* after a fault every call that asks the device fails until the context is gone */
  char fault[600];
  uint64_t n_launches, n_allocs, n_modules;
  emu_row_of_report rows[EMU_MAX_ROWS];
  uint32_t n_rows;
} emu_driver;
extern emu_driver emu_the_driver;

void emu_lock(void);
void emu_unlock(void);
/* The N-th event of a kind of SINTER_EMU_FAULT ("kernel:3") has come. */
bool emu_fault_is_due(const char *kind, uint64_t count);
cu_result emu_usable(void);                       /* is there a context, and is it whole? */
cu_result emu_enqueue(cu_stream stream, const emu_work *w); /* runs it, or notes it in the stream's capture */
cu_result emu_run_work(const emu_work *w);
void emu_work_finish(emu_work *w);
bool emu_work_copy(emu_work *to, const emu_work *from);

/* driver_report.c */
void emu_report_keep(const emu_function *f);
void emu_report_write(void);

/* For the stand-ins of libraries that put work of their own on streams; `params` are copied. */
SN_API cu_result sn_emu_enqueue(cu_stream stream, bool (*run)(const void *params), const void *params, size_t bytes);
SN_API uint8_t *sn_emu_memory(uint64_t at, uint64_t bytes, bool writes); /* within `run`; NULL: not in one allocation */

/* For tests, found by dlsym. */
SN_API const char *sn_emu_fault(void);            /* what went wrong last; "" */
SN_API int sn_emu_counters(const char *kernel, emu_counters *out); /* sums of all kernels whose name begins so; how many there are */
SN_API void sn_emu_reset(void);                   /* counters of no kernel */

#endif
