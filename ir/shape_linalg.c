/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of fft, linear algebra, batch normalisation and random bits. */
#include "infer.h"

#include <inttypes.h>

/* ---- fft
 * --------------------------------------------------------------------------------------------------------------------
 */

static sn_status fft_check_length(sn_diag *d, const sn_infer *in, sn_ints length,
                                  bool inverse_real) {
  const sn_shape *x = in->operands[0];
  if (length.n < 1 || length.n > 3 || length.n > x->rank) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "fft_length=%s must name 1 to 3 sizes, at most the rank of %s",
                         sn_infer_ints_text(in, length), sn_infer_text(in, x));
  }
  for (int64_t i = 0; i < length.n; i++) {
    int64_t want = length.v[i], found = x->dims[x->rank - length.n + i];
    if (want < 0)
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "fft_length=%s holds a negative size",
                           sn_infer_ints_text(in, length));
    if (inverse_real && i == length.n - 1 && found != 0) want = want / 2 + 1;
    if (found == want || found == SN_DIM_UNBOUNDED) continue;
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE, "the last dimensions of %s do not match fft_length=%s",
                      sn_infer_text(in, x), sn_infer_ints_text(in, length));
    if (inverse_real) sn_hint(d, "IRFFT reads n/2+1 elements of the last dimension and gives n");
    return st;
  }
  return SN_OK;
}

sn_status sn_shape_rule_fft(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  int64_t kind = sn_infer_int(in, SN_ATTR_FFT_TYPE);
  sn_ints length = sn_infer_ints(in, SN_ATTR_FFT_LENGTH);
  SN_TRY(
      sn_infer_want_array(d, in, 0, kind == SN_FFT_TYPE_RFFT ? SN_TAKES_FLOAT : SN_TAKES_COMPLEX));
  const sn_shape *x = in->operands[0];
  SN_TRY(fft_check_length(d, in, length, kind == SN_FFT_TYPE_IRFFT));
  sn_type t = x->type;
  sn_dims dims;
  sn_dims_of(x, &dims);
  int64_t *last = &dims.size[x->rank - 1];
  if (kind == SN_FFT_TYPE_RFFT) {
    t = sn_type_complex_of(t);
    if (t == SN_TYPE_INVALID)
      return sn_infer_fail(d, in, SN_ERR_TYPE, "RFFT takes f32 or f64, found %s",
                           sn_infer_text(in, x));
    if (*last > 0) *last = *last / 2 + 1;
  } else if (kind == SN_FFT_TYPE_IRFFT) {
    t = sn_type_real_part(t);
    *last = length.v[length.n - 1];
    dims.dynamic[x->rank - 1] = false;
  }
  return sn_infer_make(d, in, t, &dims, out);
}

/* ---- solvers
 * -----------------------------------------------------------------------------------------------------------------
 */

static sn_status linalg_square(sn_diag *d, const sn_infer *in) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_FLOAT | SN_TAKES_COMPLEX));
  const sn_shape *x = in->operands[0];
  if (x->rank >= 2 && x->dims[x->rank - 1] == x->dims[x->rank - 2]) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE, "the last two dimensions must be equal, found %s",
                       sn_infer_text(in, x));
}

sn_status sn_shape_rule_cholesky(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(linalg_square(d, in));
  return sn_infer_strip(d, in, in->operands[0], out);
}

sn_status sn_shape_rule_triangular_solve(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(linalg_square(d, in));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_FLOAT | SN_TAKES_COMPLEX));
  SN_TRY(sn_infer_want_same_type(d, in, 0, 1));
  const sn_shape *a = in->operands[0], *b = in->operands[1];
  SN_TRY(sn_infer_want_rank(d, in, 1, a->rank));
  bool left = sn_infer_int(in, SN_ATTR_LEFT_SIDE) != 0;
  bool same = a->dims[a->rank - 1] == b->dims[b->rank - (left ? 2 : 1)];
  for (int k = 0; k < a->rank - 2; k++) same = same && a->dims[k] == b->dims[k];
  if (!same) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE, "the right-hand side %s does not fit the matrix %s",
                      sn_infer_text(in, b), sn_infer_text(in, a));
    sn_hint(d, left ? "left_side=true solves a x = b: b has as many rows as a, and the same batch "
                      "dimensions"
                    : "left_side=false solves x a = b: b has as many columns as a, and the same "
                      "batch dimensions");
    return st;
  }
  return sn_infer_strip(d, in, b, out);
}

/* ---- batch normalisation
 * ---------------------------------------------------------------------------------------------------------
 */

/* Operands 1… are vectors over the feature dimension, but `array` (when not 0), which has the
 * dimensions of operand 0. */
static sn_status batch_norm_check(sn_diag *d, const sn_infer *in, uint32_t array) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_FLOAT));
  const sn_shape *x = in->operands[0];
  int64_t f = sn_infer_int(in, SN_ATTR_FEATURE_INDEX);
  SN_TRY(sn_infer_want_dim(d, in, "feature_index=", f, x->rank));
  for (uint32_t k = 1; k < in->n_operands; k++) {
    const sn_shape *s = in->operands[k];
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_FLOAT));
    SN_TRY(sn_infer_want_same_type(d, in, 0, k));
    if (k == array ? sn_dims_compatible(s, x) : s->rank == 1 && s->dims[0] == x->dims[f]) continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "operand %" PRIu32 " must have %s %" PRId64 " of %s, found %s", k,
                         k == array ? "the dimensions of operand 0, here feature"
                                    : "one dimension, as long as feature",
                         f, sn_infer_text(in, x), sn_infer_text(in, s));
  }
  return SN_OK;
}

static sn_status batch_norm_results(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *x = in->operands[0], *results[3];
  sn_dims dims = {.rank = 0};
  sn_dims_push(&dims, x, sn_infer_int(in, SN_ATTR_FEATURE_INDEX));
  SN_TRY(sn_infer_strip(d, in, x, &results[0]));
  SN_TRY(sn_infer_make(d, in, x->type, &dims, &results[1]));
  results[2] = results[1];
  return sn_infer_make_tuple(d, in, 3, results, out);
}

/* x, scale, offset -> x normalised, mean, variance */
sn_status sn_shape_rule_batch_norm_training(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(batch_norm_check(d, in, 0));
  return batch_norm_results(d, in, out);
}

/* x, scale, offset, mean, variance */
sn_status sn_shape_rule_batch_norm_inference(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(batch_norm_check(d, in, 0));
  return sn_infer_strip(d, in, in->operands[0], out);
}

/* x, scale, mean, variance, gradient -> gradients of x, scale, offset */
sn_status sn_shape_rule_batch_norm_grad(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(batch_norm_check(d, in, 4));
  return batch_norm_results(d, in, out);
}

/* ---- random bits
 * --------------------------------------------------------------------------------------------------------------------
 */

static sn_status random_check_bits(sn_diag *d, const sn_infer *in, const sn_shape *bits) {
  if (sn_shape_is_array(bits) && sn_type_is_integer(bits->type)) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_TYPE, "the bits must be an integer array, found %s",
                       sn_infer_text(in, bits));
}

/* (new state, bits), the bits as stated. */
sn_status sn_shape_rule_rng_bit_generator(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_UNSIGNED));
  const sn_shape *g = in->given, *state = in->operands[0];
  if (!g || !sn_shape_is_tuple(g) || g->n_elements != 2) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE, "the result must be stated as (state, bits), found %s",
                      sn_infer_text(in, g));
    sn_hint(d, "such as (u64[2], u32[16])");
    return st;
  }
  SN_TRY(random_check_bits(d, in, g->elements[1]));
  int64_t words = state->rank == 1 && state->type == SN_TYPE_U64   ? state->dims[0]
                  : state->rank == 1 && state->type == SN_TYPE_U32 ? state->dims[0] / 2
                                                                   : 0;
  int64_t algorithm = sn_infer_int(in, SN_ATTR_RNG_ALGORITHM);
  bool ok = algorithm == SN_RNG_ALGORITHM_THREE_FRY ? words == 2 : words == 2 || words == 3;
  if (!ok) {
    sn_status st = sn_infer_fail(d, in, SN_ERR_SHAPE, "the state must be u64[2]%s, found %s",
                                 algorithm == SN_RNG_ALGORITHM_THREE_FRY ? "" : " or u64[3]",
                                 sn_infer_text(in, state));
    sn_hint(d, "a key and a counter, 64 bits a word");
    return st;
  }
  const sn_shape *results[2];
  SN_TRY(sn_infer_strip(d, in, state, &results[0]));
  SN_TRY(sn_infer_strip(d, in, g->elements[1], &results[1]));
  return sn_infer_make_tuple(d, in, 2, results, out);
}
