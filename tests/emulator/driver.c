/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Devices, contexts, modules, functions, launches. Work is done when it is asked for; faults show at the next call, as they would on a device. */
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>

emu_driver emu_the_driver;
static emu_settings settings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int context_depth; /* contexts pushed by this thread: all the primary one */

#define PUBLIC SN_API cu_result

void emu_lock(void) { pthread_mutex_lock(&lock); }
void emu_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- settings ---- */

static uint64_t number_from(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void read_settings(void) {
  const char *checks = getenv("SINTER_EMU_CHECK"), *report = getenv("SINTER_EMU_REPORT"), *fault = getenv("SINTER_EMU_FAULT"), *target = getenv("SINTER_EMU_TARGET");
  int cpus = sn_cpu_count();
  settings.check_races = checks && strstr(checks, "races");
  settings.check_uninitialised = checks && strstr(checks, "uninitialised");
  settings.threads = (int)number_from("SINTER_EMU_THREADS", (uint64_t)(cpus < 4 ? cpus : 4));
  settings.compute = target && strncmp(target, "sm_", 3) == 0 ? atoi(target + 3) : 80;
  settings.memory_bytes = number_from("SINTER_EMU_MEMORY", 16ull << 30);
  settings.hang_instructions = number_from("SINTER_EMU_LIMIT", 20000000000ull);
  settings.order = number_from("SINTER_EMU_ORDER", 0);
  settings.driver_version = (int)number_from("SINTER_EMU_DRIVER_VERSION", 13000);
  settings.report = report && *report ? report : NULL;
  settings.fault = fault && *fault ? fault : NULL;
}

const emu_settings *emu_settings_get(void) {
  if (settings.compute == 0) read_settings();
  return &settings;
}

bool emu_fault_is_due(const char *kind, uint64_t count) {
  const char *f = emu_settings_get()->fault;
  size_t n = strlen(kind);
  if (!f || strncmp(f, kind, n) != 0 || (f[n] && f[n] != ':')) return false;
  return f[n] ? count == strtoull(f + n + 1, NULL, 10) : true;
}

cu_result emu_usable(void) {
  if (!emu_the_driver.initialised) return EMU_NOT_INITIALIZED;
  if (context_depth == 0 || emu_the_driver.retained == 0) return EMU_INVALID_CONTEXT;
  return emu_the_driver.sticky;
}

/* ---- errors ---- */

PUBLIC cuGetErrorName(cu_result code, const char **out) {
  static const struct { int code; const char *name; } rows[] = {
#define EMU_RESULT(number, name, text) {number, name},
      EMU_RESULTS(EMU_RESULT)
#undef EMU_RESULT
  };
  *out = NULL;
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k].code == code) *out = rows[k].name;
  }
  return *out ? CU_OK : EMU_INVALID_VALUE;
}

PUBLIC cuGetErrorString(cu_result code, const char **out) {
  static const struct { int code; const char *text; } rows[] = {
#define EMU_RESULT(number, name, text) {number, text},
      EMU_RESULTS(EMU_RESULT)
#undef EMU_RESULT
  };
  *out = NULL;
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k].code == code) *out = rows[k].text;
  }
  return *out ? CU_OK : EMU_INVALID_VALUE;
}

/* ---- the device ---- */

PUBLIC cuDriverGetVersion(int *version) {
  emu_lock();
  if (emu_the_driver.retained == 0) read_settings(); /* a process that sets the environment and begins again is heard */
  *version = settings.driver_version;
  emu_unlock();
  return CU_OK;
}

PUBLIC cuInit(unsigned flags) {
  if (flags) return EMU_INVALID_VALUE;
  emu_lock();
  if (emu_the_driver.retained == 0) read_settings();
  bool none = emu_fault_is_due("no-device", 1);
  emu_the_driver.initialised = !none;
  emu_unlock();
  return none ? CU_NO_DEVICE : CU_OK;
}

PUBLIC cuDeviceGetCount(int *n) {
  *n = emu_the_driver.initialised;
  return emu_the_driver.initialised ? CU_OK : EMU_NOT_INITIALIZED;
}

PUBLIC cuDeviceGet(cu_device *out, int ordinal) {
  *out = 0;
  return !emu_the_driver.initialised ? EMU_NOT_INITIALIZED : ordinal == 0 ? CU_OK : EMU_INVALID_DEVICE;
}

PUBLIC cuDeviceGetName(char *to, int bytes, cu_device device) {
  if (device != 0 || bytes <= 0) return EMU_INVALID_VALUE;
  snprintf(to, (size_t)bytes, "emulated sm_%d", settings.compute);
  return CU_OK;
}

/* Numbers of an A100, an L4, an H200 where they differ. */
PUBLIC cuDeviceGetAttribute(int *out, int attribute, cu_device device) {
  int c = emu_settings_get()->compute;
  int shared = c >= 90 ? 227 << 10 : c == 80 ? 163 << 10 : 99 << 10;
  const int rows[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, INT32_MAX}, {6, 65535}, {7, 65535}, {8, 48 << 10}, {10, 32}, {12, 65536}, {13, 1500000},
                         {16, c >= 90 ? 132 : c == 80 ? 108 : 58}, {39, c == 89 ? 1536 : 2048}, {75, c / 10}, {76, c % 10}, {81, shared + 1024}, {82, 65536}, {97, shared}, {106, 1}, {115, 1}};
  if (device != 0) return EMU_INVALID_DEVICE;
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k][0] != attribute) continue;
    *out = rows[k][1];
    return CU_OK;
  }
  *out = 0;
  return EMU_INVALID_VALUE;
}

PUBLIC cuDeviceTotalMem_v2(size_t *out, cu_device device) {
  *out = (size_t)emu_settings_get()->memory_bytes;
  return device == 0 ? CU_OK : EMU_INVALID_DEVICE;
}

/* ---- the primary context ---- */

PUBLIC cuDevicePrimaryCtxRetain(cu_context *out, cu_device device) {
  *out = NULL;
  if (!emu_the_driver.initialised) return EMU_NOT_INITIALIZED;
  if (device != 0) return EMU_INVALID_DEVICE;
  emu_lock();
  bool ok = emu_memory_open(settings.memory_bytes, settings.check_uninitialised);
  if (ok) emu_the_driver.retained++;
  emu_unlock();
  if (ok) *out = (cu_context)(void *)&emu_the_driver;
  return ok ? CU_OK : CU_OUT_OF_MEMORY;
}

/* The last release clears everything away, faults too. */
PUBLIC cuDevicePrimaryCtxRelease_v2(cu_device device) {
  if (device != 0) return EMU_INVALID_DEVICE;
  emu_lock();
  bool held = emu_the_driver.retained > 0;
  if (held && --emu_the_driver.retained == 0) {
    emu_report_write();
    emu_memory_close();
    emu_the_driver.sticky = CU_OK;
    emu_the_driver.n_launches = emu_the_driver.n_allocs = emu_the_driver.n_modules = 0;
  }
  emu_unlock();
  return held ? CU_OK : EMU_INVALID_CONTEXT;
}

PUBLIC cuCtxPushCurrent_v2(cu_context context) {
  if (context != (cu_context)(void *)&emu_the_driver || emu_the_driver.retained == 0) return EMU_INVALID_CONTEXT;
  context_depth++;
  return CU_OK;
}

PUBLIC cuCtxPopCurrent_v2(cu_context *out) {
  if (context_depth == 0) return EMU_INVALID_CONTEXT;
  context_depth--;
  if (out) *out = (cu_context)(void *)&emu_the_driver;
  return CU_OK;
}

PUBLIC cuCtxSynchronize(void) { return emu_usable(); }

/* ---- modules ---- */

static cu_result refuse(const char *why, cu_result code) {
  snprintf(emu_the_driver.fault, sizeof emu_the_driver.fault, "%s", why);
  if (why[0]) fprintf(stderr, "emulator: PTX: %s\n", why);
  return code;
}

static cu_result check_target(const emu_module *m) {
  if (m->version >= 90 && settings.driver_version < 13000) return refuse("", CU_UNSUPPORTED_PTX);
  bool other = m->arch_specific && m->target != settings.compute;
  return other || m->target > settings.compute ? refuse("", CU_NO_BINARY) : CU_OK;
}

/* A cubin is for a real device: refused, as by a device of another kind, and the program's PTX is asked for instead. */
static cu_result load(const char *image, emu_module **out) {
  char why[400] = "";
  if (memcmp(image, "\177ELF", 4) == 0 || memcmp(image, "\x50\xed\x55\xba", 4) == 0) return CU_NO_BINARY;
  if (!emu_module_read(image, out, why, sizeof why)) return refuse(why, CU_INVALID_PTX);
  cu_result r = check_target(*out);
  if (r != CU_OK) {
    emu_module_destroy(*out);
    *out = NULL;
  }
  return r;
}

PUBLIC cuModuleLoadData(cu_module *out, const void *image) {
  emu_module *m = NULL;
  *out = NULL;
  emu_lock();
  cu_result r = emu_usable();
  if (r == CU_OK && !image) r = EMU_INVALID_VALUE;
  if (r == CU_OK && emu_fault_is_due("module", ++emu_the_driver.n_modules)) r = CU_OUT_OF_MEMORY;
  if (r == CU_OK) r = load(image, &m);
  emu_unlock();
  *out = (cu_module)(void *)m;
  return r;
}

PUBLIC cuModuleUnload(cu_module module) {
  emu_module *m = (emu_module *)(void *)module;
  emu_lock();
  for (uint32_t k = 0; m && k < m->n_functions; k++) emu_report_keep(m->functions[k]);
  emu_module_destroy(m);
  emu_unlock();
  return emu_usable();
}

PUBLIC cuModuleGetFunction(cu_function *out, cu_module module, const char *name) {
  emu_module *m = (emu_module *)(void *)module;
  *out = NULL;
  if (!m || !name) return EMU_INVALID_VALUE;
  *out = (cu_function)(void *)emu_module_find(m, name);
  return *out ? emu_usable() : EMU_NOT_FOUND;
}

/* ---- functions ---- */

static int most_shared(void) {
  int n = 0;
  cuDeviceGetAttribute(&n, 97, 0);
  return n;
}

PUBLIC cuFuncSetAttribute(cu_function function, int attribute, int value) {
  emu_function *f = (emu_function *)(void *)function;
  if (!f) return EMU_INVALID_HANDLE;
  if (attribute == 9) return value >= -1 && value <= 100 ? emu_usable() : EMU_INVALID_VALUE; /* the preferred carve-out: a hint */
  if (attribute != CU_FUNCTION_MAX_SHARED || value < 0 || value + (int)f->shared_bytes > most_shared()) return EMU_INVALID_VALUE;
  f->max_dynamic_shared = value;
  return emu_usable();
}

PUBLIC cuFuncGetAttribute(int *out, int attribute, cu_function function) {
  const emu_function *f = (const emu_function *)(const void *)function;
  if (!f) return EMU_INVALID_HANDLE;
  const int rows[][2] = {{0, (int)(f->required_threads ? f->required_threads : f->max_threads ? f->max_threads : 1024)}, {1, (int)f->shared_bytes}, {2, 0}, {3, (int)f->frame_bytes},
                         {4, 32}, {5, f->module->version}, {6, f->module->target}, {8, f->max_dynamic_shared}};
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k][0] != attribute) continue;
    *out = rows[k][1];
    return emu_usable();
  }
  return EMU_INVALID_VALUE;
}

/* By threads and shared memory alone: how many registers a kernel has is the assembler's to say. */
PUBLIC cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, cu_function function, int threads, size_t dynamic) {
  const emu_function *f = (const emu_function *)(const void *)function;
  int resident = 0, shared = 0;
  *out = 0;
  if (!f || threads <= 0) return EMU_INVALID_VALUE;
  cuDeviceGetAttribute(&resident, 39, 0);
  cuDeviceGetAttribute(&shared, 81, 0);
  size_t each = f->shared_bytes + dynamic + 1024, by_shared = (size_t)shared / each, by_threads = (size_t)resident / (size_t)((threads + 31) / 32 * 32);
  size_t n = by_shared < by_threads ? by_shared : by_threads;
  *out = (int)(n < 32 ? n : 32);
  return emu_usable();
}

/* ---- launching ---- */

static cu_result check_launch(const emu_function *f, const emu_work *w) {
  uint64_t threads = (uint64_t)w->block[0] * w->block[1] * w->block[2];
  if (w->grid[0] == 0 || w->grid[1] == 0 || w->grid[2] == 0 || threads == 0 || threads > 1024 || w->block[2] > 64) return EMU_INVALID_VALUE;
  if (w->grid[0] > INT32_MAX || w->grid[1] > 65535 || w->grid[2] > 65535) return EMU_INVALID_VALUE;
  if ((f->max_threads && threads > f->max_threads) || (f->required_threads && threads != f->required_threads)) return EMU_INVALID_VALUE;
  if ((int64_t)w->shared > f->max_dynamic_shared || (int64_t)w->shared + f->shared_bytes > most_shared()) return EMU_INVALID_VALUE;
  if ((int64_t)w->shared + f->shared_bytes > (48 << 10) && f->max_dynamic_shared <= (48 << 10)) return EMU_INVALID_VALUE;
  return CU_OK;
}

PUBLIC cuLaunchKernel(cu_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, cu_stream stream, void **arguments, void **extra) {
  emu_function *f = (emu_function *)(void *)function;
  if (!f) return EMU_INVALID_HANDLE;
  if (extra || (f->n_params && !arguments)) return EMU_INVALID_VALUE;
  emu_work w = {.kind = EMU_WORK_KERNEL, .function = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
  emu_lock();
  cu_result r = emu_usable();
  if (r == CU_OK) r = check_launch(f, &w);
  if (r == CU_OK && !(w.params = sn_alloc_zero(f->param_bytes + 8u, 1))) r = CU_OUT_OF_MEMORY;
  for (uint32_t k = 0; r == CU_OK && k < f->n_params; k++) {
    if (arguments[k]) memcpy(w.params + f->params[k].offset, arguments[k], f->params[k].bytes);
    else r = EMU_INVALID_VALUE;
  }
  if (r == CU_OK) r = emu_enqueue(stream, &w);
  emu_work_finish(&w);
  emu_unlock();
  return r;
}
