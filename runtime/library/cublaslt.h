/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The part of cuBLASLt that we call; a stand-in for it (tests/emulator) defines the same. Device pointers are passed as integers of their width. */
#ifndef SINTER_LIBRARY_CUBLASLT_H
#define SINTER_LIBRARY_CUBLASLT_H

#include "sinter/library.h"

typedef struct lt_handle_st *lt_handle;
typedef struct lt_desc_st *lt_desc;
typedef struct lt_layout_st *lt_layout;
typedef struct lt_preference_st *lt_preference;
typedef struct lt_algorithm { uint64_t data[8]; } lt_algorithm;
typedef struct lt_heuristic {
  lt_algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} lt_heuristic;

enum {
  LT_ALLOC_FAILED = 3,
  LT_NOT_SUPPORTED = 15,
  LT_F32 = 0,
  LT_F16 = 2,
  LT_BF16 = 14,
  LT_COMPUTE_F32 = 68,
  LT_COMPUTE_TF32 = 77,
  LT_DESC_TRANSA = 3,
  LT_DESC_TRANSB = 4,
  LT_LAYOUT_BATCH = 5,
  LT_LAYOUT_STRIDE = 6,
  LT_PREFERENCE_WORKSPACE = 1,
  LT_PREFERENCE_ALIGNMENT_A = 5,
  LT_PREFERENCE_ALIGNMENT_D = 8
};

/* LT_CALL(result, field, "exported name", (parameters)) */
#define LT_CALLS(LT_CALL)                                                                                                                                     \
  LT_CALL(size_t, version, "cublasLtGetVersion", (void))                                                                                                      \
  LT_CALL(int, create, "cublasLtCreate", (lt_handle * out))                                                                                                   \
  LT_CALL(int, destroy, "cublasLtDestroy", (lt_handle handle))                                                                                                \
  LT_CALL(int, desc_create, "cublasLtMatmulDescCreate", (lt_desc * out, int compute, int scale))                                                              \
  LT_CALL(int, desc_set, "cublasLtMatmulDescSetAttribute", (lt_desc desc, int what, const void *value, size_t bytes))                                         \
  LT_CALL(int, desc_destroy, "cublasLtMatmulDescDestroy", (lt_desc desc))                                                                                     \
  LT_CALL(int, layout_create, "cublasLtMatrixLayoutCreate", (lt_layout * out, int type, uint64_t rows, uint64_t columns, int64_t ld))                         \
  LT_CALL(int, layout_set, "cublasLtMatrixLayoutSetAttribute", (lt_layout layout, int what, const void *value, size_t bytes))                                 \
  LT_CALL(int, layout_destroy, "cublasLtMatrixLayoutDestroy", (lt_layout layout))                                                                             \
  LT_CALL(int, preference_create, "cublasLtMatmulPreferenceCreate", (lt_preference * out))                                                                    \
  LT_CALL(int, preference_set, "cublasLtMatmulPreferenceSetAttribute", (lt_preference preference, int what, const void *value, size_t bytes))                 \
  LT_CALL(int, preference_destroy, "cublasLtMatmulPreferenceDestroy", (lt_preference preference))                                                             \
  LT_CALL(int, heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                                                   \
          (lt_handle handle, lt_desc desc, lt_layout a, lt_layout b, lt_layout c, lt_layout out, lt_preference preference, int asked, lt_heuristic *to, int *n)) \
  LT_CALL(int, matmul, "cublasLtMatmul",                                                                                                                      \
          (lt_handle handle, lt_desc desc, const void *alpha, uint64_t a, lt_layout la, uint64_t b, lt_layout lb, const void *beta, uint64_t c, lt_layout lc, \
           uint64_t out, lt_layout lo, const lt_algorithm *algorithm, uint64_t workspace, size_t workspace_bytes, void *stream))

typedef struct lt_api {
#define LT_CALL(result, field, name, parameters) result(*field) parameters;
  LT_CALLS(LT_CALL)
#undef LT_CALL
} lt_api;

#endif
