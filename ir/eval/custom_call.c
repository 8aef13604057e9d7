/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* custom-call: the caller's table first, then the targets that JAX and XLA put into CPU programs. Anything else is
 * refused by name. */
#include "linalg.h"

/* ---- markers of the partitioner: identities on values ---- */

static sn_status identity(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  if (!sn_shape_is_tuple(i->shape) && i->n_operands >= 1) {
    if (!sn_shape_equal(sn_array_shape(in[0]), i->shape, SN_EQ_IGNORE_DYNAMIC))
      return sn_ev_error(e, i, SN_ERR_UNSUPPORTED,
                         "changes the shape between whole and parts: run the partitioned module");
    *out = sn_array_retain(in[0]);
    return SN_OK;
  }
  if (i->n_operands == 1) {
    *out = sn_array_retain(in[0]);
    return SN_OK;
  }
  sn_status s = sn_array_create_tuple((int)i->n_operands, in, out);
  return s == SN_OK ? s : sn_ev_error(e, i, s, "no memory for a tuple");
}

/* The called comparator's direction says which end; without one, the largest. */
static sn_status top_k(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  bool largest = true;
  if (i->n_called > 0) SN_FOR_INSTRS(q, i->called[0])
  if (q->op == SN_OP_COMPARE)
    largest =
        sn_instr_int(q, SN_ATTR_DIRECTION) == SN_DIRECTION_GT || sn_instr_int(q, SN_ATTR_DIRECTION) == SN_DIRECTION_GE;
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements < 1 || i->n_operands < 1 || i->shape->elements[0]->rank < 1)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives values and positions");
  const sn_shape *s = i->shape->elements[0];
  return sn_ev_topk(e, i, in[0], s->dims[s->rank - 1], largest, out);
}

/* ---- LAPACK: JAX's typed calls; matrices are values, so column-major layouts do not matter here ---- */

/* `key = 76 : ui8` of the dictionary: a character of LAPACK's interface. */
static int option(const sn_instr *i, const char *key, int otherwise) {
  const char *at = i->backend_config ? strstr(i->backend_config, key) : NULL;
  if (!at) return otherwise;
  at = strchr(at, '=');
  int v = 0;
  for (at = at ? at + 1 : ""; *at == ' '; at++) {
  }
  for (; *at >= '0' && *at <= '9'; at++) v = v * 10 + (*at - '0');
  return v ? v : otherwise;
}

enum { MAX_RESULTS = 5 };
typedef struct lapack {
  sn_ev_ctx *e;
  const sn_instr *i;
  int n_outs;
  sn_array *outs[MAX_RESULTS];
  int64_t count, rows, cols; /* matrices of the first operand */
  sn_ev_c *a, *b;            /* scratch of rows x cols, and of whatever the call asked for */
} lapack;

static sn_status lapack_open(sn_ev_ctx *e, const sn_instr *i, const sn_array *first, int n_outs, int64_t extra,
                             lapack *l) {
  const sn_shape *s = sn_array_shape(first);
  void *memory = NULL;
  memset(l, 0, sizeof *l);
  l->e = e;
  l->i = i;
  if (s->rank < 2) return sn_ev_error(e, i, SN_ERR_SHAPE, "needs matrices");
  if (n_outs > 1 && (!sn_shape_is_tuple(i->shape) || i->shape->n_elements != n_outs))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives %d arrays", n_outs);
  l->rows = s->dims[s->rank - 2];
  l->cols = s->dims[s->rank - 1];
  l->count = l->rows * l->cols > 0 ? sn_ev_product(s->rank - 2, s->dims) : 0;
  sn_status status = sn_ev_scratch(e, i, (size_t)(l->rows * l->cols + extra), sizeof(sn_ev_c), &memory);
  l->a = memory;
  l->b = l->a ? l->a + l->rows * l->cols : NULL;
  for (; l->n_outs < n_outs && status == SN_OK; l->n_outs++)
    status = sn_ev_new_zero(e, i, n_outs == 1 ? i->shape : i->shape->elements[l->n_outs], &l->outs[l->n_outs]);
  if (status != SN_OK) {
    for (int k = 0; k < n_outs; k++) sn_ev_release(e, l->outs[k]);
    sn_free(memory);
  }
  return status;
}

static sn_status lapack_close(lapack *l, sn_array **out) {
  sn_free(l->a);
  if (l->n_outs > 1) return sn_ev_new_tuple(l->e, l->i, l->n_outs, l->outs, out);
  *out = l->outs[0];
  return SN_OK;
}

static void put_info(sn_array *info, int64_t k, int64_t v) {
  sn_type t = sn_array_shape(info)->type;
  if (k < sn_shape_elements(sn_array_shape(info)))
    sn_store_i64(t, (char *)sn_array_data(info) + (size_t)k * sn_type_bytes(t), v);
}

/* a -> (factor with the rest of a, info) */
static sn_status potrf(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  lapack l;
  SN_TRY(lapack_open(e, i, in[0], 2, 0, &l));
  for (int64_t k = 0; k < l.count; k++) {
    sn_ev_matrix_load(in[0], k, l.rows * l.cols, l.a);
    put_info(l.outs[1], k, sn_ev_cholesky(l.a, l.cols, option(i, "uplo", 'L') == 'L'));
    sn_ev_matrix_store(l.outs[0], k, l.rows * l.cols, l.a);
  }
  return lapack_close(&l, out);
}

/* a, b -> x */
static sn_status trsm(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *sb = sn_array_shape(in[1]);
  if (sb->rank < 2) return sn_ev_error(e, i, SN_ERR_SHAPE, "needs matrices");
  int64_t rows = sb->dims[sb->rank - 2], cols = sb->dims[sb->rank - 1];
  int trans = option(i, "trans_x", 'N');
  sn_ev_solve how = {option(i, "side", 'L') == 'L', option(i, "uplo", 'L') == 'L', option(i, "diag", 'N') == 'U',
                     trans == 'N'   ? SN_TRANSPOSE_NO_TRANSPOSE
                     : trans == 'C' ? SN_TRANSPOSE_ADJOINT
                                    : SN_TRANSPOSE_TRANSPOSE};
  lapack l;
  SN_TRY(lapack_open(e, i, in[0], 1, rows * cols, &l));
  if (l.rows != l.cols || l.rows != (how.left ? rows : cols)) {
    sn_free(l.a);
    sn_ev_release(e, l.outs[0]);
    return sn_ev_error(e, i, SN_ERR_SHAPE, "matrices do not fit");
  }
  for (int64_t k = 0; k < l.count; k++) {
    sn_ev_matrix_load(in[0], k, l.rows * l.cols, l.a);
    sn_ev_matrix_load(in[1], k, rows * cols, l.b);
    sn_ev_triangular_solve(&how, l.a, l.b, rows, cols);
    sn_ev_matrix_store(l.outs[0], k, rows * cols, l.b);
  }
  return lapack_close(&l, out);
}

/* a -> (LU, pivots from 1, info) */
static sn_status getrf(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  lapack l;
  SN_TRY(lapack_open(e, i, in[0], 3, 0, &l));
  int64_t least = l.rows < l.cols ? l.rows : l.cols;
  for (int64_t k = 0; k < l.count; k++) {
    sn_ev_matrix_load(in[0], k, l.rows * l.cols, l.a);
    int32_t *pivots = (int32_t *)sn_array_data(l.outs[1]) + k * least;
    put_info(l.outs[2], k, sn_ev_lu(l.a, l.rows, l.cols, pivots));
    sn_ev_matrix_store(l.outs[0], k, l.rows * l.cols, l.a);
  }
  return lapack_close(&l, out);
}

static void store_reals(sn_array *a, int64_t first, int64_t n, const double *from) {
  sn_type t = sn_array_shape(a)->type;
  sn_ev_store_carrier(SN_EV_F64, t, (char *)sn_array_data(a) + (size_t)first * sn_type_bytes(t), from, n);
}

/* a -> (eigenvectors, eigenvalues, info); real symmetric. */
static sn_status syevd(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  lapack l;
  const sn_shape *s = sn_array_shape(in[0]);
  int64_t n = s->rank ? s->dims[s->rank - 1] : 0;
  SN_TRY(lapack_open(e, i, in[0], 3, n * n + n, &l));
  bool lower = option(i, "uplo", 'L') == 'L';
  double *full = (double *)(void *)l.b, *v = full + n * n,
         *w = (double *)(void *)l.a; /* 2 n (n + 1) doubles behind l.b */
  for (int64_t k = 0; k < l.count; k++) {
    sn_ev_matrix_load(in[0], k, n * n, l.a);
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = 0; q < n; q++)
        full[p * n + q] = (q > p) == lower && p != q ? l.a[q * n + p].re : l.a[p * n + q].re;
    sn_ev_eigen(full, v, w, n);
    store_reals(l.outs[1], k * n, n, w);
    store_reals(l.outs[0], k * n * n, n * n, v);
  }
  return lapack_close(&l, out);
}

/* a -> (a, s, u, v^T, info); u and v^T only where the mode asks for the thin ones and a is tall. */
static sn_status gesdd(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  lapack l;
  const sn_shape *s = sn_array_shape(in[0]);
  int64_t m = s->rank >= 2 ? s->dims[s->rank - 2] : 0, n = s->rank >= 2 ? s->dims[s->rank - 1] : 0,
          least = m < n ? m : n, most = m < n ? n : m;
  int mode = option(i, "mode", 'N');
  if (mode == 'A' && m != n)
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "full singular vectors of a matrix that is not square");
  SN_TRY(lapack_open(e, i, in[0], 5, most * least + least * least + least + most, &l));
  double *a = (double *)(void *)l.b, *v = a + most * least,
         *w = v + least * least; /* one-sided Jacobi on the tall one of a and a^T */
  double *t = (double *)(void *)l.a;
  for (int64_t k = 0; k < l.count; k++) {
    sn_ev_matrix_load(in[0], k, m * n, l.a);
    for (int64_t p = 0; p < m; p++)
      for (int64_t q = 0; q < n; q++) a[m >= n ? p * n + q : q * m + p] = l.a[p * n + q].re;
    sn_ev_svd(a, w, v, most, least);
    store_reals(l.outs[1], k * least, least, w);
    if (mode == 'N') continue;
    const double *u = m >= n ? a : v, *right = m >= n ? v : a; /* both with `least` columns */
    store_reals(l.outs[2], k * m * least, m * least, u);
    for (int64_t p = 0; p < least; p++)
      for (int64_t q = 0; q < n; q++) t[p * n + q] = right[q * least + p];
    store_reals(l.outs[3], k * least * n, least * n, t);
  }
  return lapack_close(&l, out);
}

/* ---- the table ---- */

typedef struct target_row {
  const char *name;
  int operands; /* at least */
  sn_status (*fn)(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out);
} target_row;
static const target_row targets[] = {
    {"Sharding", 1, identity},
    {"SPMDFullToShardShape", 1, identity},
    {"SPMDShardToFullShape", 1, identity},
    {"xla.sdy.FuncResultSharding", 1, identity},
    {"xla.sdy.GlobalToLocalShape", 0, identity},
    {"xla.sdy.LocalToGlobalShape", 0, identity},
    {"xla.sdy.PropagationBarrier", 1, identity},
    {"MoveToDevice", 1, identity},
    {"MoveToHost", 1, identity},
    {"annotate_device_placement", 1, identity},
    {"TopK", 1, top_k},
    {"lapack_spotrf_ffi", 1, potrf},
    {"lapack_dpotrf_ffi", 1, potrf},
    {"lapack_cpotrf_ffi", 1, potrf},
    {"lapack_zpotrf_ffi", 1, potrf},
    {"lapack_strsm_ffi", 2, trsm},
    {"lapack_dtrsm_ffi", 2, trsm},
    {"lapack_ctrsm_ffi", 2, trsm},
    {"lapack_ztrsm_ffi", 2, trsm},
    {"lapack_sgetrf_ffi", 1, getrf},
    {"lapack_dgetrf_ffi", 1, getrf},
    {"lapack_cgetrf_ffi", 1, getrf},
    {"lapack_zgetrf_ffi", 1, getrf},
    {"lapack_ssyevd_ffi", 1, syevd},
    {"lapack_dsyevd_ffi", 1, syevd},
    {"lapack_sgesdd_ffi", 1, gesdd},
    {"lapack_dgesdd_ffi", 1, gesdd},
};

static sn_status call_user(sn_ev_ctx *e, const sn_instr *i, const sn_eval_custom *c, sn_array *const *in,
                           sn_array **out) {
  SN_TRY(c->fn(c->ctx, e->d, i, (int)i->n_operands, in, out));
  if (!*out || !sn_shape_equal(sn_array_shape(*out), i->shape, 0))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "the implementation of \"%s\" gave another shape than the instruction's",
                       c->target);
  sn_ev_adopt(e, *out);
  return SN_OK;
}

sn_status sn_eval_custom_call(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const char *name = sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET);
  if (!name) name = "";
  for (const sn_eval_custom *c = e->o->customs; c && c->target; c++)
    if (strcmp(c->target, name) == 0) return call_user(e, i, c, in, out);
  for (size_t r = 0; r < sizeof targets / sizeof targets[0]; r++)
    if (strcmp(targets[r].name, name) == 0) {
      if ((int)i->n_operands < targets[r].operands)
        return sn_ev_error(e, i, SN_ERR_VERIFY, "\"%s\" takes %d operands", name, targets[r].operands);
      return targets[r].fn(e, i, in, out);
    }
  const char *names[sizeof targets / sizeof targets[0]];
  for (size_t r = 0; r < sizeof targets / sizeof targets[0]; r++) names[r] = targets[r].name;
  const char *near = sn_nearest(name, names, sizeof names / sizeof names[0]);
  (void)sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "no implementation of the custom call \"%s\"", name);
  if (near)
    sn_hint(e->d, "did you mean \"%s\"? Others can be given in sn_eval_options.customs", near);
  else
    sn_hint(e->d, "implementations can be given in sn_eval_options.customs");
  return SN_ERR_UNSUPPORTED;
}
