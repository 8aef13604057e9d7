/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Conversions and copies. `bitcast` is the one op that looks at layouts. */
#include <math.h>

#include "eval_internal.h"

sn_status sn_eval_convert(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}
sn_status sn_eval_reduce_precision(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}

/* Values never change in place while others hold them, so that a copy may share. */
sn_status sn_eval_copy(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  (void)e;
  (void)i;
  *out = sn_array_retain(in[0]);
  return SN_OK;
}
sn_status sn_eval_identity(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_eval_copy(e, i, in, out);
}
sn_status sn_eval_shuffle(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_eval_copy(e, i, in, out);
}

/* ---- bitcast-convert ---- */

/* Sub-byte values are packed low bits first before they are read again at another width. */
static uint8_t low_mask(int bits) { return (uint8_t)((1u << bits) - 1); }

static void bits_split(sn_type to, uint8_t *dst, const uint8_t *src, int64_t n, int ratio) {
  int bits = sn_type_bits(to);
  for (int64_t j = 0; j < n; j++)
    for (int q = 0; q < ratio; q++) {
      int at = q * bits;
      dst[j * ratio + q] =
          (uint8_t)(src[(j * ratio * bits + at) / 8] >> ((j * ratio * bits + at) % 8)) & low_mask(bits);
    }
  if (sn_type_is_integer(to)) sn_ev_wrap(to, n * ratio, dst);
}

static void bits_join(sn_type from, uint8_t *dst, const uint8_t *src, int64_t n, int ratio) {
  int bits = sn_type_bits(from);
  memset(dst, 0, (size_t)(n * ratio * bits / 8));
  for (int64_t j = 0; j < n * ratio; j++) dst[j * bits / 8] |= (uint8_t)((src[j] & low_mask(bits)) << (j * bits % 8));
}

sn_status sn_eval_bitcast_convert(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_type from = sn_operand_shape(i, 0)->type, to = i->shape->type;
  int fb = sn_type_bits(from), tb = sn_type_bits(to);
  if (from == SN_TYPE_PRED) fb = 8; /* a byte in memory */
  if (to == SN_TYPE_PRED) tb = 8;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  const uint8_t *src = sn_array_data(in[0]);
  uint8_t *dst = sn_array_data(*out);
  int64_t n_from = sn_shape_elements(sn_array_shape(in[0])), n_to = sn_shape_elements(i->shape);
  if (n_from * fb != n_to * tb)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "%lld elements of %d bits do not make %lld of %d", (long long)n_from, fb,
                       (long long)n_to, tb);
  if (fb == tb && fb < 8) {
    memcpy(dst, src, (size_t)n_to);
    if (sn_type_is_integer(to))
      sn_ev_wrap(to, n_to, dst);
    else
      for (int64_t j = 0; j < n_to; j++) dst[j] &= low_mask(tb);
  } else if (fb >= 8 && tb >= 8) {
    if (n_to) memcpy(dst, src, sn_array_bytes(*out));
  } else if (tb < fb && fb >= 8) {
    bits_split(to, dst, src, n_from, fb / tb);
  } else if (fb < tb && tb >= 8) {
    bits_join(from, dst, src, n_to, tb / fb);
  } else {
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "between %s and %s", sn_type_text(from), sn_type_text(to));
  }
  return SN_OK;
}

/* ---- bitcast ---- */

static void physical_strides(const sn_shape *s, int64_t *strides) {
  int64_t at = 1;
  for (int k = 0; k < s->rank; k++) {
    int64_t d = s->layout ? s->layout->minor_to_major[k] : s->rank - 1 - k;
    strides[d] = at;
    at *= s->dims[d];
  }
}

/* Row-major <-> physical order of a shape's layout. */
static void permute(sn_ev_ctx *e, const sn_shape *s, char *dst, const char *src, bool to_physical) {
  sn_ev_copy c;
  c.bytes = sn_type_bytes(s->type);
  c.rank = s->rank;
  c.dst = dst;
  c.src = src;
  memcpy(c.dims, s->dims, (size_t)s->rank * sizeof c.dims[0]);
  sn_ev_strides(s->rank, s->dims, to_physical ? c.src_stride : c.dst_stride);
  physical_strides(s, to_physical ? c.dst_stride : c.src_stride);
  sn_ev_copy_run(e, &c);
}

static bool row_major(const sn_shape *s) {
  for (int k = 0; s->layout && k < s->rank; k++)
    if (s->layout->minor_to_major[k] != s->rank - 1 - k) return false;
  return true;
}

sn_status sn_eval_bitcast(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *from = sn_operand_shape(i, 0), *to = i->shape;
  if (!sn_shape_is_array(from) || !sn_shape_is_array(to)) return sn_eval_copy(e, i, in, out);
  if (sn_shape_bytes(from) != sn_shape_bytes(to))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "%lld bytes cannot be read as %lld", (long long)sn_shape_bytes(from),
                       (long long)sn_shape_bytes(to));
  SN_TRY(sn_ev_new(e, i, to, out));
  size_t bytes = sn_array_bytes(*out);
  const char *src = sn_array_data(in[0]);
  char *dst = sn_array_data(*out);
  if (bytes == 0) return SN_OK;
  if (row_major(from) && row_major(to)) {
    memcpy(dst, src, bytes);
  } else if (row_major(to)) {
    permute(e, from, dst, src, true);
  } else if (row_major(from)) {
    permute(e, to, dst, src, false);
  } else {
    void *physical;
    SN_TRY(sn_ev_scratch(e, i, bytes, 1, &physical));
    permute(e, from, physical, src, true);
    permute(e, to, dst, physical, false);
    sn_free(physical);
  }
  return SN_OK;
}

/* ---- stochastic-convert ---- */

/* Rounds away from zero with the probability of the part cut off: where the random number, read as a fraction, is below
 * it. */
static double stochastic(double x, double fraction, sn_type to, const void *toward_zero) {
  double below = sn_load_f64(to, toward_zero);
  if (isnan(x) || isinf(x) || below == x) return x;
  char up[16];
  double step = 0;
  if (sn_type_is_float(to)) { /* the next value of the format away from zero */
    double probe = fabs(below) > 0 ? fabs(below) : ldexp(1.0, -1000);
    for (int p = 60; p >= 0 && step == 0; p--) {
      sn_store_f64(to, up, copysign(probe * (1 + ldexp(1.0, -p)), x));
      if (fabs(sn_load_f64(to, up)) > fabs(below)) step = fabs(sn_load_f64(to, up)) - fabs(below);
    }
  } else {
    step = 1;
  }
  return step > 0 && fraction < fabs(x - below) / step ? copysign(fabs(below) + step, x) : below;
}

sn_status sn_eval_stochastic_convert(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_type from = sn_operand_shape(i, 0)->type, noise = sn_operand_shape(i, 1)->type, to = i->shape->type;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  const char *src = sn_array_data(in[0]), *random = sn_array_data(in[1]);
  char *dst = sn_array_data(*out);
  double unit = ldexp(1.0, -sn_type_bits(noise));
  for (int64_t j = 0; j < sn_shape_elements(i->shape); j++) {
    double x = sn_load_f64(from, src + (size_t)j * sn_type_bytes(from));
    double fraction = (double)(uint64_t)sn_load_i64(noise, random + (size_t)j * sn_type_bytes(noise)) * unit;
    char *at = dst + (size_t)j * sn_type_bytes(to);
    sn_store_f64(to, at, x);
    double near = sn_load_f64(to, at);
    if (isnan(x) || isinf(x) || near == x) continue;
    if (sn_type_is_float(to) && fabs(near) > fabs(x)) { /* step back toward zero */
      double ulp = fabs(near) * ldexp(1.0, -sn_types[to].mantissa_bits - 1), low = near;
      for (int q = 0; q < 4 && fabs(low) > fabs(x); q++) {
        sn_store_f64(to, at, copysign(fabs(near) - ulp * (q + 1), x));
        low = sn_load_f64(to, at);
      }
    }
    sn_store_f64(to, at, stochastic(x, fraction, to, at));
  }
  return SN_OK;
}
