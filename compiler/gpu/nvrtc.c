/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* NVRTC behind dlopen: CUDA C to PTX and cubin, with the numeric contract's flags. */
#include "sinter/gpu.h"

#include <stdlib.h>
#include <string.h>

typedef struct nvrtc_program *program;

struct sn_nvrtc {
  sn_library *library;
  int major, minor;
  int (*version)(int *major, int *minor);
  int (*create)(program *p, const char *source, const char *name, int n_headers, const char *const *headers, const char *const *names);
  int (*destroy)(program *p);
  int (*compile)(program p, int n_options, const char *const *options);
  int (*log_size)(program p, size_t *bytes);
  int (*log)(program p, char *to);
  int (*ptx_size)(program p, size_t *bytes);
  int (*ptx)(program p, char *to);
  int (*cubin_size)(program p, size_t *bytes);
  int (*cubin)(program p, char *to);
  const char *(*error_text)(int code);
};

/* ---- finding the library ---- */

static bool find_functions(sn_nvrtc *n) {
  const struct {
    const char *name;
    void *to;
  } rows[] = {
      {"nvrtcVersion", &n->version},           {"nvrtcCreateProgram", &n->create},   {"nvrtcDestroyProgram", &n->destroy}, {"nvrtcCompileProgram", &n->compile},
      {"nvrtcGetProgramLogSize", &n->log_size}, {"nvrtcGetProgramLog", &n->log},      {"nvrtcGetPTXSize", &n->ptx_size},    {"nvrtcGetPTX", &n->ptx},
      {"nvrtcGetCUBINSize", &n->cubin_size},   {"nvrtcGetCUBIN", &n->cubin},         {"nvrtcGetErrorString", &n->error_text},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    void *at = sn_library_symbol(n->library, rows[i].name);
    if (!at) return false;
    memcpy(rows[i].to, &at, sizeof at);
  }
  return true;
}

enum { MAX_NAMES = 12 };

/* Wheels put it below site-packages: the 13 series in one folder for all, the 12 series in its own. */
static size_t library_names(char wheels[2][512], const char **names) {
  size_t n = 0;
  const char *chosen = sn_env("SINTER_LIBNVRTC"), *site = sn_env("SINTER_PYTHON_SITE");
  if (chosen) {
    names[n++] = chosen;
    return n; /* what was asked for, or nothing */
  }
  names[n++] = "libnvrtc.so.13";
  names[n++] = "libnvrtc.so.12";
  names[n++] = "libnvrtc.so";
  names[n++] = "/usr/local/cuda/lib64/libnvrtc.so";
  names[n++] = "/usr/local/cuda-13.0/lib/libnvrtc.so.13";
  names[n++] = "/usr/local/cuda-13.0/lib64/libnvrtc.so.13";
  if (!site) return n;
  snprintf(wheels[0], sizeof wheels[0], "%s/nvidia/cu13/lib/libnvrtc.so.13", site);
  snprintf(wheels[1], sizeof wheels[1], "%s/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", site);
  names[n++] = wheels[0];
  names[n++] = wheels[1];
  return n;
}

sn_status sn_nvrtc_open(sn_diag *d, sn_nvrtc **out) {
  char wheels[2][512];
  const char *names[MAX_NAMES];
  *out = NULL;
  sn_nvrtc *n = sn_alloc_zero(1, sizeof *n);
  if (!n) return sn_out_of_memory(d, sizeof *n);
  if (sn_library_open(NULL, names, library_names(wheels, names), &n->library) != SN_OK) {
    sn_free(n);
    const char *chosen = sn_env("SINTER_LIBNVRTC");
    if (chosen) return sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "NVRTC, which compiles CUDA code, is not at %s (SINTER_LIBNVRTC)", chosen);
    sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "NVRTC, which compiles CUDA code, was not found (libnvrtc.so.13 or .12)");
    sn_hint(d, "install the CUDA toolkit or the wheel nvidia-cuda-nvrtc, or name the library in SINTER_LIBNVRTC");
    return SN_ERR_UNAVAILABLE;
  }
  if (!find_functions(n) || n->version(&n->major, &n->minor) != 0 || n->major < 12) {
    int major = n->major;
    sn_nvrtc_close(n);
    return sn_error(d, SN_NOWHERE, SN_ERR_VERSION, "NVRTC is too old: version 12 or later is needed, this is %d", major);
  }
  *out = n;
  return SN_OK;
}

void sn_nvrtc_close(sn_nvrtc *n) {
  if (!n) return;
  sn_library_keep(n->library); /* it keeps memory of threads' own */
  sn_free(n);
}

void sn_nvrtc_version(const sn_nvrtc *n, int *major, int *minor) {
  *major = n->major;
  *minor = n->minor;
}

/* ---- one kernel ---- */

/* What a worker brings back; memory of its own, as arenas are one thread's. */
typedef struct result {
  int code;
  char *log, *ptx, *cubin;
  size_t log_bytes, ptx_bytes, cubin_bytes;
  bool out_of_memory;
} result;

typedef struct batch {
  sn_nvrtc *n;
  const sn_target *target;
  const sn_cache *cache;
  sn_gpu_kernel *const *kernels;
  result *results;
} batch;

/* The numeric contract, and what is said of each function. */
static const char *const options[] = {"--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--generate-line-info", "--ptxas-options=-v"};

enum { N_OPTIONS = sizeof options / sizeof options[0] };

static char *fetch(result *r, program p, int (*size)(program, size_t *), int (*get)(program, char *), size_t *bytes) {
  if (size(p, bytes) != 0 || *bytes == 0) return NULL;
  char *text = sn_alloc(*bytes + 1);
  if (!text) {
    r->out_of_memory = true;
    return NULL;
  }
  if (get(p, text) != 0) {
    sn_free(text);
    return NULL;
  }
  text[*bytes] = '\0';
  return text;
}

/* ---- the cache's entries: three sizes, then log, PTX, cubin, each with its NUL ---- */

static void make_key(const batch *b, sn_gpu_kernel *k) {
  int version[2] = {b->n->major, b->n->minor};
  sn_cache_key_init(&k->key, "cuda");
  sn_cache_key_add(&k->key, version, sizeof version);
  sn_cache_key_add(&k->key, b->target->name, strlen(b->target->name));
  for (int i = 0; i < N_OPTIONS; i++) sn_cache_key_add(&k->key, options[i], strlen(options[i]) + 1);
  sn_cache_key_add(&k->key, k->source, strlen(k->source));
}

static char *copy_piece(result *r, const char **at, size_t bytes) {
  char *text = sn_alloc(bytes + 1);
  if (text) memcpy(text, *at, bytes + 1);
  else r->out_of_memory = true;
  *at += bytes + 1;
  return text;
}

static bool from_cache(const batch *b, sn_gpu_kernel *k, result *r) {
  void *data;
  size_t bytes;
  uint64_t sizes[3];
  make_key(b, k);
  k->found = sn_cache_get(b->cache, &k->key, &data, &bytes);
  if (k->found != SN_CACHE_HIT) return false;
  bool fits = bytes >= sizeof sizes;
  if (fits) memcpy(sizes, data, sizeof sizes);
  fits = fits && sizes[0] < bytes && sizes[1] < bytes && sizes[2] < bytes && sizeof sizes + sizes[0] + sizes[1] + sizes[2] + 3 == bytes;
  if (fits) {
    const char *at = (const char *)data + sizeof sizes;
    r->log = copy_piece(r, &at, r->log_bytes = sizes[0]);
    r->ptx = copy_piece(r, &at, r->ptx_bytes = sizes[1]);
    r->cubin = copy_piece(r, &at, r->cubin_bytes = sizes[2]);
  } else {
    k->found = SN_CACHE_TORN;
  }
  sn_free(data);
  return fits;
}

static void to_cache(const batch *b, const sn_gpu_kernel *k, const result *r) {
  if (r->code != 0 || !r->log || !r->ptx || !r->cubin) return;
  const char *from[3] = {r->log, r->ptx, r->cubin};
  uint64_t sizes[3] = {strlen(r->log), strlen(r->ptx), r->cubin_bytes};
  size_t bytes = sizeof sizes + sizes[0] + sizes[1] + sizes[2] + 3;
  char *data = sn_alloc(bytes), *at = data;
  if (!data) return;
  memcpy(at, sizes, sizeof sizes);
  at += sizeof sizes;
  for (int i = 0; i < 3; i++) {
    memcpy(at, from[i], sizes[i]);
    at += sizes[i];
    *at++ = '\0';
  }
  sn_cache_put(b->cache, &k->key, data, bytes);
  sn_free(data);
}

static void compile_one(void *ctx, int64_t item, int worker) {
  batch *b = ctx;
  result *r = &b->results[item];
  char architecture[64];
  program p = NULL;
  (void)worker;
  b->kernels[item]->found = SN_CACHE_NONE;
  if (b->cache && from_cache(b, b->kernels[item], r)) return;
  snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", b->target->name);
  const char *all[N_OPTIONS + 1] = {architecture};
  memcpy(all + 1, options, sizeof options);
  r->code = b->n->create(&p, b->kernels[item]->source, "kernel.cu", 0, NULL, NULL);
  if (r->code != 0) return;
  r->code = b->n->compile(p, N_OPTIONS + 1, all);
  r->log = fetch(r, p, b->n->log_size, b->n->log, &r->log_bytes);
  if (r->code == 0) {
    r->ptx = fetch(r, p, b->n->ptx_size, b->n->ptx, &r->ptx_bytes);
    r->cubin = fetch(r, p, b->n->cubin_size, b->n->cubin, &r->cubin_bytes);
  }
  b->n->destroy(&p);
  if (b->cache) to_cache(b, b->kernels[item], r);
}

/* ---- what the assembler says of a function ---- */

/* "Compiling entry function 'NAME' … N bytes spill stores, N bytes spill loads … Used N registers". */
static int number_before(const char *from, const char *end, const char *what) {
  const char *at = strstr(from, what);
  if (!at || at >= end) return -1;
  while (at > from && at[-1] >= '0' && at[-1] <= '9') at--;
  return atoi(at);
}

static void read_resources(const char *log, sn_gpu_phase *p) {
  char marker[300];
  snprintf(marker, sizeof marker, "entry function '%s'", p->entry);
  const char *from = log ? strstr(log, marker) : NULL;
  if (!from) return;
  const char *end = strstr(from + 1, "entry function '");
  if (!end) end = from + strlen(from);
  int stores = number_before(from, end, " bytes spill stores"), loads = number_before(from, end, " bytes spill loads");
  const char *used = strstr(from, "Used ");
  if (used && used < end) p->registers = atoi(used + 5);
  p->spill_bytes = stores < 0 || loads < 0 ? -1 : stores + loads;
  p->local_bytes = number_before(from, end, " bytes stack frame");
}

static void take_resources(const sn_target *t, const result *r, sn_gpu_kernel *k) {
  for (int p = 0; p < k->n_phases; p++) {
    sn_gpu_phase *f = &k->phases[p];
    int registers = -1, statics = -1, local = -1;
    read_resources(r->log, f);
    if (!sn_cubin_resources(k->cubin, k->cubin_bytes, f->entry, &registers, &statics, &local)) continue;
    if (f->registers < 0) f->registers = registers;
    if (f->local_bytes < 0) f->local_bytes = local;
    f->static_shared_bytes = statics;
    f->resident = sn_gpu_resident(t, f);
  }
}

/* ---- errors ---- */

static void line_of(const char *source, int line, const char **begin, int *length) {
  for (int l = 1; l < line && *source; source++) l += *source == '\n';
  *begin = source;
  *length = (int)strcspn(source, "\n");
}

/* The first error of the log, "kernel.cu(12): error: …", with our line under it. */
static sn_status report(sn_diag *d, const sn_nvrtc *n, const result *r, const sn_gpu_kernel *k) {
  const char *entry = k->n_phases ? k->phases[0].entry : "kernel", *error = r->log ? strstr(r->log, "error") : NULL, *at = error;
  if (r->out_of_memory) return sn_out_of_memory(d, r->ptx_bytes + r->cubin_bytes);
  if (!error) return sn_error(d, SN_NOWHERE, SN_ERR_INTERNAL, "NVRTC could not compile %s: %s", entry, n->error_text(r->code));
  while (at > r->log && at[-1] != '\n') at--;
  const char *bracket = strchr(at, '(');
  int line = bracket && bracket < error ? atoi(bracket + 1) : 0, length = 0;
  const char *text = "";
  if (line > 0) line_of(k->source, line, &text, &length);
  sn_loc loc = {"kernel.cu", line > 0 ? (uint32_t)line : 0, 0};
  sn_error(d, loc, SN_ERR_INTERNAL, "NVRTC refused %s: %.*s", entry, (int)strcspn(error, "\n"), error);
  if (length) sn_hint(d, "the line is: %.*s", length, text);
  return SN_ERR_INTERNAL;
}

/* ---- all kernels ---- */

static sn_status take(sn_diag *d, sn_arena *a, const sn_nvrtc *n, const sn_target *t, const result *r, sn_gpu_kernel *k) {
  if (r->code != 0 || r->out_of_memory || !r->ptx || !r->cubin) return report(d, n, r, k);
  k->ptx_bytes = strlen(r->ptx) + 1;
  k->cubin_bytes = r->cubin_bytes;
  k->ptx = sn_arena_copy(a, r->ptx, k->ptx_bytes);
  k->cubin = sn_arena_copy(a, r->cubin, k->cubin_bytes);
  if (!k->ptx || !k->cubin) return sn_out_of_memory(d, k->ptx_bytes + k->cubin_bytes);
  take_resources(t, r, k);
  return SN_OK;
}

sn_status sn_gpu_compile(sn_diag *d, sn_arena *a, sn_nvrtc *n, sn_pool *pool, const sn_cache *cache, const sn_target *t, int n_kernels, sn_gpu_kernel *const *kernels) {
  result *results = sn_alloc_zero((size_t)n_kernels + 1, sizeof *results);
  if (!results) return sn_out_of_memory(d, (size_t)n_kernels * sizeof *results);
  batch b = {n, t, cache, kernels, results};
  sn_status s = SN_OK;
  sn_pool_run(pool, n_kernels, compile_one, &b);
  for (int i = 0; i < n_kernels; i++) {
    if (s == SN_OK) s = take(d, a, n, t, &results[i], kernels[i]);
    sn_free(results[i].log);
    sn_free(results[i].ptx);
    sn_free(results[i].cubin);
  }
  sn_free(results);
  return s;
}
