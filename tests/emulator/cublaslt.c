/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* libcublasLt-emu.so: the calls of cuBLASLt that runtime/library makes, on the CPU. Products are sums in f64 in the order of k, rounded once; f32 operands are rounded to tf32 where the
 * description asks. Matrices are column-major, as the library has them. SINTER_EMU_CUBLASLT: `version:N` what it says it is; `none` no algorithm for anything. */
#include "cublaslt.h"
#include "driver.h"

#include <stdlib.h>

#define PUBLIC SN_API int

struct lt_handle_st { int unused; };
struct lt_desc_st { int compute, scale, transposed[2]; };
struct lt_layout_st { int type; uint64_t rows, columns; int64_t ld, stride; int32_t batch; };
struct lt_preference_st { uint64_t workspace; };

enum { INVALID = 7 };

static const char *setting(void) { return getenv("SINTER_EMU_CUBLASLT") ? getenv("SINTER_EMU_CUBLASLT") : ""; }

SN_API size_t cublasLtGetVersion(void) { return strncmp(setting(), "version:", 8) == 0 ? (size_t)atol(setting() + 8) : 130000; }

/* ---- objects ---- */

static int make(void **out, size_t bytes) {
  *out = sn_alloc_zero(1, bytes);
  return *out ? 0 : LT_ALLOC_FAILED;
}

static int drop(void *x) {
  sn_free(x);
  return 0;
}

PUBLIC cublasLtCreate(lt_handle *out) { return make((void **)out, sizeof **out); }
PUBLIC cublasLtDestroy(lt_handle h) { return drop(h); }

PUBLIC cublasLtMatmulDescCreate(lt_desc *out, int compute, int scale) {
  if (make((void **)out, sizeof **out)) return LT_ALLOC_FAILED;
  (*out)->compute = compute;
  (*out)->scale = scale;
  return 0;
}
PUBLIC cublasLtMatmulDescSetAttribute(lt_desc d, int what, const void *value, size_t bytes) {
  if ((what != LT_DESC_TRANSA && what != LT_DESC_TRANSB) || bytes != 4) return INVALID;
  memcpy(&d->transposed[what == LT_DESC_TRANSB], value, 4);
  return 0;
}
PUBLIC cublasLtMatmulDescDestroy(lt_desc d) { return drop(d); }

PUBLIC cublasLtMatrixLayoutCreate(lt_layout *out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  if (make((void **)out, sizeof **out)) return LT_ALLOC_FAILED;
  **out = (struct lt_layout_st){type, rows, columns, ld, 0, 1};
  return ld >= (int64_t)rows ? 0 : INVALID;
}
PUBLIC cublasLtMatrixLayoutSetAttribute(lt_layout l, int what, const void *value, size_t bytes) {
  if (what == LT_LAYOUT_BATCH && bytes == 4) memcpy(&l->batch, value, 4);
  else if (what == LT_LAYOUT_STRIDE && bytes == 8) memcpy(&l->stride, value, 8);
  else return INVALID;
  return 0;
}
PUBLIC cublasLtMatrixLayoutDestroy(lt_layout l) { return drop(l); }

PUBLIC cublasLtMatmulPreferenceCreate(lt_preference *out) { return make((void **)out, sizeof **out); }
PUBLIC cublasLtMatmulPreferenceSetAttribute(lt_preference p, int what, const void *value, size_t bytes) {
  if (what == LT_PREFERENCE_WORKSPACE && bytes == 8) memcpy(&p->workspace, value, 8);
  else if (what < LT_PREFERENCE_ALIGNMENT_A || what > LT_PREFERENCE_ALIGNMENT_D || bytes != 4) return INVALID;
  return 0;
}
PUBLIC cublasLtMatmulPreferenceDestroy(lt_preference p) { return drop(p); }

/* ---- products ---- */

typedef struct matmul {
  struct lt_desc_st d;
  struct lt_layout_st a, b, out;
  uint64_t at[3];
} matmul;

static size_t element(int type) { return type == LT_F32 ? 4 : 2; }

static uint64_t extent(const struct lt_layout_st *l) {
  return (uint64_t)(l->batch - 1) * (uint64_t)l->stride + (l->columns - 1) * (uint64_t)l->ld + l->rows; /* elements */
}

static bool agree(const matmul *m, uint64_t *terms) {
  uint64_t rows = m->d.transposed[0] ? m->a.columns : m->a.rows, columns = m->d.transposed[1] ? m->b.rows : m->b.columns;
  *terms = m->d.transposed[0] ? m->a.rows : m->a.columns;
  bool types = m->a.type == m->b.type && (m->out.type == LT_F32 || m->out.type == m->a.type) && (m->d.compute != LT_COMPUTE_TF32 || m->a.type == LT_F32);
  return types && m->d.scale == LT_F32 && rows == m->out.rows && columns == m->out.columns && *terms == (m->d.transposed[1] ? m->b.columns : m->b.rows) && m->a.batch == m->out.batch &&
         m->b.batch == m->out.batch;
}

/* Element of op(x): row, column. */
static double value(const matmul *m, int side, const uint8_t *base, int64_t batch, uint64_t row, uint64_t column) {
  const struct lt_layout_st *l = side ? &m->b : &m->a;
  uint64_t r = m->d.transposed[side] ? column : row, c = m->d.transposed[side] ? row : column;
  const uint8_t *at = base + ((uint64_t)(batch * l->stride) + c * (uint64_t)l->ld + r) * element(l->type);
  sn_type t = l->type == LT_F32 ? SN_TYPE_F32 : l->type == LT_F16 ? SN_TYPE_F16 : SN_TYPE_BF16;
  double v = sn_load_f64(t, at);
  if (m->d.compute != LT_COMPUTE_TF32 || !(v - v == 0)) return v;
  float f = (float)v;
  uint32_t u;
  memcpy(&u, &f, 4);
  u = (u + 0xfff + (u >> 13 & 1)) & 0xffffe000u;
  memcpy(&f, &u, 4);
  return f;
}

static bool run(const void *params) {
  const matmul *m = params;
  uint64_t terms;
  agree(m, &terms);
  const uint8_t *a = sn_emu_memory(m->at[0], extent(&m->a) * element(m->a.type), false), *b = sn_emu_memory(m->at[1], extent(&m->b) * element(m->b.type), false);
  uint8_t *out = sn_emu_memory(m->at[2], extent(&m->out) * element(m->out.type), true);
  sn_type t = m->out.type == LT_F32 ? SN_TYPE_F32 : m->out.type == LT_F16 ? SN_TYPE_F16 : SN_TYPE_BF16;
  if (!a || !b || !out) return false;
  for (int64_t batch = 0; batch < m->out.batch; batch++) {
    for (uint64_t j = 0; j < m->out.columns; j++) {
      for (uint64_t i = 0; i < m->out.rows; i++) {
        double sum = 0;
        for (uint64_t k = 0; k < terms; k++) sum += value(m, 0, a, batch, i, k) * value(m, 1, b, batch, k, j);
        sn_store_f64(t, out + ((uint64_t)(batch * m->out.stride) + j * (uint64_t)m->out.ld + i) * element(m->out.type), sum);
      }
    }
  }
  return true;
}

PUBLIC cublasLtMatmulAlgoGetHeuristic(lt_handle h, lt_desc d, lt_layout a, lt_layout b, lt_layout c, lt_layout out, lt_preference p, int asked, lt_heuristic *to, int *n) {
  matmul m = {*d, *a, *b, *out, {0, 0, 0}};
  uint64_t terms;
  *n = 0;
  if (!h || c != out || asked < 1) return INVALID;
  if (strcmp(setting(), "none") == 0 || !agree(&m, &terms)) return LT_NOT_SUPPORTED;
  memset(to, 0, sizeof *to);
  to->algorithm.data[0] = 1;
  to->workspace = (size_t)p->workspace;
  *n = 1;
  return 0;
}

PUBLIC cublasLtMatmul(lt_handle h, lt_desc d, const void *alpha, uint64_t a, lt_layout la, uint64_t b, lt_layout lb, const void *beta, uint64_t c, lt_layout lc, uint64_t out, lt_layout lo,
                      const lt_algorithm *algorithm, uint64_t workspace, size_t workspace_bytes, void *stream) {
  matmul m = {*d, *la, *lb, *lo, {a, b, out}};
  float one, zero;
  uint64_t terms;
  memcpy(&one, alpha, 4);
  memcpy(&zero, beta, 4);
  if (!h || one != 1 || zero != 0 || c != out || lc != lo || algorithm->data[0] != 1 || !agree(&m, &terms) || (workspace_bytes && workspace % 16)) return INVALID;
  return sn_emu_enqueue(stream, run, &m, sizeof m) == CU_OK ? 0 : 13; /* CUBLAS_STATUS_EXECUTION_FAILED */
}
