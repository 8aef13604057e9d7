/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Foreign libraries behind one table (library.def), loaded when a program that calls them is. */
#ifndef SINTER_LIBRARY_H
#define SINTER_LIBRARY_H

#include "sinter/array.h"
#include "sinter/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sn_library_call {
#define SN_LIBRARY_CALL(id, target, library, text) SN_LIBRARY_##id,
#include "sinter/library.def"
#undef SN_LIBRARY_CALL
  SN_LIBRARY_COUNT
} sn_library_call;

/* "cublaslt.product", as commands name it; "cuBLASLt". */
const char *sn_library_target(sn_library_call c);
const char *sn_library_name(sn_library_call c);
/* The row of a command's target; SN_LIBRARY_COUNT: there is none. */
sn_library_call sn_library_find(const char *target);

/* A product as a program records it: out[b, m, n] = sum over k of lhs * rhs, all dense and row-major. lhs lies as [b, m, k] or, not along k, as [b, k, m]; rhs as [b, n, k] or
 * [b, k, n]. Sums are f32. */
typedef struct sn_library_product {
  int64_t batch, m, n, k;
  bool lhs_along_k, rhs_along_k;
  sn_type operand, result; /* F32, F16, BF16; the result is f32 or like the operands */
  bool tf32;               /* f32 operands are rounded to tf32 */
  int64_t workspace;       /* bytes that the call may use */
} sn_library_product;

/* As text, for a command's config, and back; false: the text is none, or its sizes are not those of a product. */
void sn_library_product_print(sn_str *to, const sn_library_product *p);
bool sn_library_product_parse(const char *text, sn_library_product *out);

/* ---- cuBLASLt ---- */

/* The library with a handle of its own, for the CUDA context that is current. SN_ERR_UNAVAILABLE where it is not found, tried in order: SINTER_LIBCUBLASLT alone where that is set,
 * libcublasLt.so.13, .12, libcublasLt.so, /usr/local/cuda, the wheel nvidia-cublas below SINTER_PYTHON_SITE; SN_ERR_VERSION where it is older than 12. */
typedef struct sn_cublaslt sn_cublaslt;
SN_NODISCARD sn_status sn_cublaslt_open(sn_diag *d, sn_cublaslt **out);
void sn_cublaslt_close(sn_cublaslt *l);
size_t sn_cublaslt_version(const sn_cublaslt *l); /* 130200: 13.2.0 */

/* A product made ready: its algorithm is the first that the library's heuristic names. Those asked for again with equal sizes are the same one, which lives as long as the library is
 * open. SN_ERR_UNSUPPORTED: the heuristic names none. */
typedef struct sn_cublaslt_product sn_cublaslt_product;
SN_NODISCARD sn_status sn_cublaslt_prepare(sn_diag *d, sn_cublaslt *l, const sn_library_product *p, const sn_cublaslt_product **out);
/* Puts the product on a stream (a CUstream); addresses are the device's, on 64 bytes. where: the HLO instruction, for messages. */
SN_NODISCARD sn_status sn_cublaslt_run(sn_diag *d, sn_cublaslt *l, const sn_cublaslt_product *p, uint64_t lhs, uint64_t rhs, uint64_t out, uint64_t workspace, void *stream, const char *where);

#ifdef __cplusplus
}
#endif
#endif
