/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* cuBLASLt behind dlopen. Types, numbers and the layout of the heuristic's answer are those of NVIDIA's "cuBLAS" reference, chapter "Using the cuBLASLt API".
 *
 * The library counts columns first: a row-major [m, k] is its k x m. So out' = rhs' * lhs' is asked for, n x m, and an operand is transposed where its rows run along k (rhs) or
 * across it (lhs). */
#include "cublaslt.h"

#include <stdio.h>
#include <string.h>

struct sn_cublaslt_product {
  sn_library_product sizes;
  lt_desc desc;
  lt_layout lhs, rhs, out;
  lt_heuristic chosen;
  sn_cublaslt_product *next;
};

struct sn_cublaslt {
  sn_library *library;
  lt_api api;
  lt_handle handle;
  size_t version;
  sn_cublaslt_product *products;
};

/* ---- finding it ---- */

enum { MAX_NAMES = 8, LEAST_VERSION = 120000, ALIGNMENT = 64 };

static const char *find_functions(sn_library *library, lt_api *api) {
  void *at;
#define LT_CALL(result, field, name, parameters)            \
  if (!(at = sn_library_symbol(library, name))) return name; \
  memcpy(&api->field, &at, sizeof at);
  LT_CALLS(LT_CALL)
#undef LT_CALL
  return NULL;
}

static size_t library_names(char wheels[2][512], const char **names) {
  size_t n = 0;
  const char *chosen = sn_env("SINTER_LIBCUBLASLT"), *site = sn_env("SINTER_PYTHON_SITE");
  if (chosen) {
    names[n++] = chosen;
    return n; /* what was asked for, or nothing */
  }
  names[n++] = "libcublasLt.so.13";
  names[n++] = "libcublasLt.so.12";
  names[n++] = "libcublasLt.so";
  names[n++] = "/usr/local/cuda/lib64/libcublasLt.so";
  if (!site) return n;
  snprintf(wheels[0], sizeof wheels[0], "%s/nvidia/cu13/lib/libcublasLt.so.13", site);
  snprintf(wheels[1], sizeof wheels[1], "%s/nvidia/cublas/lib/libcublasLt.so.12", site);
  names[n++] = wheels[0];
  names[n++] = wheels[1];
  return n;
}

static sn_status failed(sn_diag *d, const char *where, int code, const char *what) {
  sn_status s = code == LT_ALLOC_FAILED ? SN_ERR_MEMORY : code == LT_NOT_SUPPORTED ? SN_ERR_UNSUPPORTED : SN_ERR_DEVICE;
  return sn_error(d, (sn_loc){where, 0, 0}, s, "cuBLASLt, %s: status %d", what, code);
}

static sn_status open_library(sn_diag *d, sn_cublaslt *l) {
  char wheels[2][512];
  const char *names[MAX_NAMES], *chosen = sn_env("SINTER_LIBCUBLASLT");
  if (sn_library_open(NULL, names, library_names(wheels, names), &l->library) != SN_OK) {
    if (chosen) return sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "cuBLASLt is not at %s (SINTER_LIBCUBLASLT)", chosen);
    return sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "cuBLASLt was not found (libcublasLt.so.13 or .12)");
  }
  const char *missing = find_functions(l->library, &l->api);
  if (missing) return sn_error(d, SN_NOWHERE, SN_ERR_VERSION, "cuBLASLt is too old: it has no %s", missing);
  l->version = l->api.version();
  if (l->version < LEAST_VERSION) {
    return sn_error(d, SN_NOWHERE, SN_ERR_VERSION, "cuBLASLt is too old: version 12 or later is needed, this is %zu.%zu", l->version / 10000, l->version / 100 % 100);
  }
  int code = l->api.create(&l->handle);
  return code == 0 ? SN_OK : failed(d, NULL, code, "making a handle");
}

sn_status sn_cublaslt_open(sn_diag *d, sn_cublaslt **out) {
  *out = NULL;
  sn_cublaslt *l = sn_alloc_zero(1, sizeof *l);
  if (!l) return sn_out_of_memory(d, sizeof *l);
  sn_status s = open_library(d, l);
  if (s != SN_OK) sn_cublaslt_close(l);
  else *out = l;
  return s;
}

static void release(sn_cublaslt *l, sn_cublaslt_product *p) {
  if (p->lhs) l->api.layout_destroy(p->lhs);
  if (p->rhs) l->api.layout_destroy(p->rhs);
  if (p->out) l->api.layout_destroy(p->out);
  if (p->desc) l->api.desc_destroy(p->desc);
  sn_free(p);
}

void sn_cublaslt_close(sn_cublaslt *l) {
  if (!l) return;
  for (sn_cublaslt_product *p = l->products, *next; p; p = next) {
    next = p->next;
    release(l, p);
  }
  if (l->handle) l->api.destroy(l->handle);
  if (l->library) sn_library_keep(l->library); /* it keeps memory of threads' own */
  sn_free(l);
}

size_t sn_cublaslt_version(const sn_cublaslt *l) { return l->version; }

/* ---- a product ---- */

static int type_of(sn_type t) { return t == SN_TYPE_F32 ? LT_F32 : t == SN_TYPE_F16 ? LT_F16 : LT_BF16; }

/* A batch of row-major rows x columns. */
static int make_layout(sn_cublaslt *l, sn_type t, int64_t batch, int64_t rows, int64_t columns, lt_layout *out) {
  int32_t n = (int32_t)batch;
  int64_t stride = rows * columns;
  int code = l->api.layout_create(out, type_of(t), (uint64_t)columns, (uint64_t)rows, columns);
  if (code == 0) code = l->api.layout_set(*out, LT_LAYOUT_BATCH, &n, sizeof n);
  return code ? code : l->api.layout_set(*out, LT_LAYOUT_STRIDE, &stride, sizeof stride);
}

static int describe(sn_cublaslt *l, const sn_library_product *s, sn_cublaslt_product *p) {
  int32_t first = s->rhs_along_k, second = !s->lhs_along_k; /* transposed? */
  int code = l->api.desc_create(&p->desc, s->tf32 ? LT_COMPUTE_TF32 : LT_COMPUTE_F32, LT_F32);
  if (code == 0) code = l->api.desc_set(p->desc, LT_DESC_TRANSA, &first, sizeof first);
  if (code == 0) code = l->api.desc_set(p->desc, LT_DESC_TRANSB, &second, sizeof second);
  if (code == 0) code = make_layout(l, s->operand, s->batch, s->lhs_along_k ? s->m : s->k, s->lhs_along_k ? s->k : s->m, &p->lhs);
  if (code == 0) code = make_layout(l, s->operand, s->batch, s->rhs_along_k ? s->n : s->k, s->rhs_along_k ? s->k : s->n, &p->rhs);
  return code ? code : make_layout(l, s->result, s->batch, s->m, s->n, &p->out);
}

static int choose(sn_cublaslt *l, const sn_library_product *s, sn_cublaslt_product *p) {
  lt_preference preference = NULL;
  uint64_t workspace = (uint64_t)s->workspace;
  uint32_t alignment = ALIGNMENT;
  int n = 0, code = l->api.preference_create(&preference);
  if (code == 0) code = l->api.preference_set(preference, LT_PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
  for (int side = LT_PREFERENCE_ALIGNMENT_A; side <= LT_PREFERENCE_ALIGNMENT_D && code == 0; side++) code = l->api.preference_set(preference, side, &alignment, sizeof alignment);
  if (code == 0) code = l->api.heuristic(l->handle, p->desc, p->rhs, p->lhs, p->out, p->out, preference, 1, &p->chosen, &n);
  if (preference) l->api.preference_destroy(preference);
  return code ? code : n < 1 ? LT_NOT_SUPPORTED : p->chosen.state;
}

static bool equal(const sn_library_product *a, const sn_library_product *b) {
  return a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k && a->lhs_along_k == b->lhs_along_k && a->rhs_along_k == b->rhs_along_k && a->operand == b->operand &&
         a->result == b->result && a->tf32 == b->tf32 && a->workspace == b->workspace;
}

sn_status sn_cublaslt_prepare(sn_diag *d, sn_cublaslt *l, const sn_library_product *sizes, const sn_cublaslt_product **out) {
  *out = NULL;
  for (sn_cublaslt_product *p = l->products; p; p = p->next) {
    if (!equal(&p->sizes, sizes)) continue;
    *out = p;
    return SN_OK;
  }
  sn_cublaslt_product *p = sn_alloc_zero(1, sizeof *p);
  if (!p) return sn_out_of_memory(d, sizeof *p);
  p->sizes = *sizes;
  int code = describe(l, sizes, p);
  if (code == 0) code = choose(l, sizes, p);
  if (code) {
    release(l, p);
    return failed(d, NULL, code, "choosing an algorithm");
  }
  p->next = l->products;
  l->products = p;
  *out = p;
  return SN_OK;
}

sn_status sn_cublaslt_run(sn_diag *d, sn_cublaslt *l, const sn_cublaslt_product *p, uint64_t lhs, uint64_t rhs, uint64_t out, uint64_t workspace, void *stream, const char *where) {
  const float one = 1, zero = 0;
  int code = l->api.matmul(l->handle, p->desc, &one, rhs, p->rhs, lhs, p->lhs, &zero, out, p->out, out, p->out, &p->chosen.algorithm, workspace, (size_t)p->sizes.workspace, stream);
  return code == 0 ? SN_OK : failed(d, where, code, "multiplying");
}
