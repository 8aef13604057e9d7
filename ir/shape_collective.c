/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of collectives and of asynchronous pairs. */
#include "infer.h"

#include <inttypes.h>

enum { COLLECTIVE_MAX_DEVICES = 1 << 24 }; /* ids beyond are refused: they size a bitmap here */

static sn_status collective_mark(sn_diag *d, const sn_infer *in, uint8_t *seen, int64_t n,
                                 int64_t id, const char *what) {
  if (id < 0 || id >= n)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "%s names device %" PRId64 " of %" PRId64, what,
                         id, n);
  if (seen[id])
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "%s names device %" PRId64 " twice", what, id);
  seen[id] = 1;
  return SN_OK;
}

/* Every device stands in exactly one group; in those of collective-broadcast, in one at most. uniform: groups must be equally large. */
static sn_status collective_groups(sn_diag *d, const sn_infer *in, bool uniform) {
  const sn_attr *a = sn_infer_attr(in, SN_ATTR_REPLICA_GROUPS);
  const sn_groups *g = a ? a->u.groups : NULL;
  if (!g || g->n_groups == 0) return SN_OK;
  int64_t total = 0;
  for (int64_t i = 0; i < g->n_groups; i++) {
    total += g->groups[i].n;
    if (g->groups[i].n == 0)
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "replica_groups= holds an empty group");
    if (uniform && g->groups[i].n != g->groups[0].n) {
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                           "replica_groups= must be equally large, found %" PRId64 " and %" PRId64
                           " devices",
                           g->groups[0].n, g->groups[i].n);
    }
    if (total > COLLECTIVE_MAX_DEVICES)
      return sn_infer_fail(d, in, SN_ERR_UNSUPPORTED, "more than %d devices",
                           COLLECTIVE_MAX_DEVICES);
  }
  if (in->op == SN_OP_COLLECTIVE_BROADCAST) { /* who is in no group gets zeros */
    for (int64_t i = 0; i < g->n_groups; i++)
      for (int64_t j = 0; j < g->groups[i].n; j++)
        if (g->groups[i].v[j] >= total && g->groups[i].v[j] < COLLECTIVE_MAX_DEVICES) total = g->groups[i].v[j] + 1;
  }
  uint8_t *seen = SN_NEW_N(in->arena, uint8_t, total);
  if (!seen) return sn_out_of_memory(d, (size_t)total);
  for (int64_t i = 0; i < g->n_groups; i++) {
    for (int64_t j = 0; j < g->groups[i].n; j++)
      SN_TRY(collective_mark(d, in, seen, total, g->groups[i].v[j], "replica_groups="));
  }
  return SN_OK;
}

/* Devices in a group; 0 when it cannot be told. What ids mean depends on the attributes (XLA's
 * CollectiveOpGroupMode):
 *   no channel_id                                replica ids
 *   channel_id, use_global_device_ids            ids of all devices
 *   channel_id without it                        replica ids, each with all its partitions
 *   channel_id on an op that knows no such flag  partition ids */
static int64_t collective_group_size(const sn_infer *in) {
  const sn_attr *a = sn_infer_attr(in, SN_ATTR_REPLICA_GROUPS);
  int64_t n = a && a->u.groups->n_groups ? a->u.groups->groups[0].n : 0;
  bool channel = sn_infer_attr(in, SN_ATTR_CHANNEL_ID) != NULL, must;
  int64_t replicas = in->replica_count, partitions = in->num_partitions, size = 0;
  if (!channel) return n ? n : replicas;
  if (!sn_op_takes(in->op, SN_ATTR_USE_GLOBAL_DEVICE_IDS, &must)) return n ? n : partitions;
  if (sn_infer_int(in, SN_ATTR_USE_GLOBAL_DEVICE_IDS))
    return n ? n : sn_mul_i64(replicas, partitions, &size) ? size : 0;
  return sn_mul_i64(n ? n : replicas, partitions, &size) ? size : 0;
}

/* The stated shape of result k, or NULL. */
static const sn_shape *collective_given(const sn_infer *in, const sn_shape *given, uint32_t k) {
  if (in->n_operands == 1 && sn_shape_is_array(given)) return given;
  return sn_shape_is_tuple(given) && k < (uint32_t)given->n_elements ? given->elements[k] : NULL;
}

/* Dimension `dim` of operand k times (gather) or divided by (scatter) the size of a group. Without
 * one the stated shape must tell the factor. */
static sn_status collective_scale(sn_diag *d, const sn_infer *in, const sn_shape *given, uint32_t k,
                                  int64_t dim, bool gather, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
  const sn_shape *x = in->operands[k], *g = collective_given(in, given, k);
  SN_TRY(sn_infer_want_dim(d, in, "dimensions=", dim, x->rank));
  int64_t n = collective_group_size(in);
  sn_dims dims;
  sn_dims_of(x, &dims);
  if (dims.size[dim] == SN_DIM_UNBOUNDED) return sn_infer_make(d, in, x->type, &dims, out);
  if (n < 1) {
    if (!sn_shape_is_array(g) || g->rank != x->rank) {
      return sn_infer_fail(
          d, in, SN_ERR_SHAPE,
          "the result shape must be stated: the number of devices is not known here");
    }
    int64_t whole = gather ? g->dims[dim] : x->dims[dim],
            part = gather ? x->dims[dim] : g->dims[dim];
    n = part > 0 && whole % part == 0 ? whole / part : 1;
  }
  if (gather && !sn_mul_i64(dims.size[dim], n, &dims.size[dim])) {
    return sn_infer_fail(d, in, SN_ERR_OVERFLOW,
                         "dimension %" PRId64 " of the result does not fit 64 bits", dim);
  }
  if (!gather && dims.size[dim] % n) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "dimension %" PRId64 " of %s does not split into %" PRId64
                         " equal parts, one for each device of a group",
                         dim, sn_infer_text(in, x), n);
  }
  if (!gather) dims.size[dim] /= n;
  return sn_infer_make(d, in, x->type, &dims, out);
}

static sn_status collective_scale_all(sn_diag *d, const sn_infer *in, const sn_shape *given,
                                      bool gather, const sn_shape **out) {
  sn_ints at = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  if (at.n != 1)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "dimensions= must name one dimension, found %s",
                         sn_infer_ints_text(in, at));
  SN_TRY(collective_groups(d, in, true));
  const sn_shape **e = SN_NEW_N(in->arena, const sn_shape *, in->n_operands);
  if (!e) return sn_out_of_memory(d, in->n_operands * sizeof *e);
  for (uint32_t k = 0; k < in->n_operands; k++)
    SN_TRY(collective_scale(d, in, given, k, at.v[0], gather, &e[k]));
  return sn_infer_one_or_tuple(d, in, in->n_operands, e, out);
}

static sn_status collective_operands(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape **e = SN_NEW_N(in->arena, const sn_shape *, in->n_operands);
  if (!e) return sn_out_of_memory(d, in->n_operands * sizeof *e);
  for (uint32_t k = 0; k < in->n_operands; k++)
    SN_TRY(sn_infer_strip(d, in, in->operands[k], &e[k]));
  return sn_infer_one_or_tuple(d, in, in->n_operands, e, out);
}

/* A reducer of two scalars of each operand's type. */
static sn_status collective_reducer(sn_diag *d, const sn_infer *in) {
  for (uint32_t k = 0; k < in->n_operands; k++) {
    sn_type t, accumulated;
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    t = in->operands[k]->type;
    SN_TRY(sn_infer_want_reducer(d, in, 0, 1, &t, &t, &accumulated));
  }
  return SN_OK;
}

sn_status sn_shape_rule_all_gather(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return collective_scale_all(d, in, in->given, true, out);
}

/* (operands, results) */
sn_status sn_shape_rule_all_gather_start(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *e[2], *given = sn_shape_is_tuple(in->given) && in->given->n_elements >= 2
                                     ? in->given->elements[1]
                                     : NULL;
  SN_TRY(collective_operands(d, in, &e[0]));
  SN_TRY(collective_scale_all(d, in, given, true, &e[1]));
  return sn_infer_make_tuple(d, in, 2, e, out);
}

sn_status sn_shape_rule_all_reduce(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(collective_reducer(d, in));
  SN_TRY(collective_groups(d, in, false));
  return collective_operands(d, in, out);
}

sn_status sn_shape_rule_reduce_scatter(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(collective_reducer(d, in));
  return collective_scale_all(d, in, in->given, false, out);
}

/* With dimensions=: one array, cut and joined along that dimension. Without: one array for each
 * device of the group, and a tuple of them. */
sn_status sn_shape_rule_all_to_all(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_attr *a = sn_infer_attr(in, SN_ATTR_DIMENSIONS);
  int64_t n = collective_group_size(in);
  SN_TRY(collective_groups(d, in, true));
  for (uint32_t k = 0; k < in->n_operands; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    if (!sn_infer_same(in->operands[0], in->operands[k])) {
      return sn_infer_fail(d, in, SN_ERR_SHAPE, "operands must have one shape, found %s and %s",
                           sn_infer_text(in, in->operands[0]), sn_infer_text(in, in->operands[k]));
    }
  }
  if (!a) {
    if (n > 1 && in->n_operands != (uint64_t)n) {
      sn_status st = sn_infer_fail(d, in, SN_ERR_SHAPE,
                                   "needs one operand for each of the %" PRId64
                                   " devices of a group, found %" PRIu32,
                                   n, in->n_operands);
      sn_hint(d, "with dimensions={k} it takes a single array");
      return st;
    }
    if (in->n_operands > 1 || sn_shape_is_array(in->given)) return collective_operands(d, in, out);
    const sn_shape *e = NULL;
    SN_TRY(collective_operands(d, in, &e));
    return sn_infer_make_tuple(d, in, 1, &e, out);
  }
  if (a->u.ints.n != 1 || in->n_operands != 1) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "with dimensions= it takes one array and one dimension, found %" PRIu32
                         " and %s",
                         in->n_operands, sn_infer_ints_text(in, a->u.ints));
  }
  const sn_shape *x = in->operands[0];
  int64_t dim = a->u.ints.v[0];
  SN_TRY(sn_infer_want_dim(d, in, "dimensions=", dim, x->rank));
  if (n > 0 && x->dims[dim] != SN_DIM_UNBOUNDED && x->dims[dim] % n) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "dimension %" PRId64 " of %s does not split into %" PRId64
                         " equal parts, one for each device of a group",
                         dim, sn_infer_text(in, x), n);
  }
  return sn_infer_strip(d, in, x, out);
}

/* input, output, input offsets, send sizes, output offsets, receive sizes -> output */
sn_status sn_shape_rule_ragged_all_to_all(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(collective_groups(d, in, true));
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_same_type(d, in, 0, 1));
  const sn_shape *x = in->operands[0], *y = in->operands[1];
  bool rows = x->rank >= 1 && x->rank == y->rank;
  for (int k = 1; rows && k < x->rank; k++) rows = x->dims[k] == y->dims[k];
  if (!rows) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "input and output may differ in dimension 0 alone, found %s and %s",
                         sn_infer_text(in, x), sn_infer_text(in, y));
  }
  for (uint32_t k = 2; k < 6; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_INT));
    if (in->operands[k]->rank >= 1 && sn_infer_same(in->operands[k], in->operands[2])) continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "offsets and sizes must have one shape of rank 1 or more, found %s and %s",
                         sn_infer_text(in, in->operands[2]), sn_infer_text(in, in->operands[k]));
  }
  return sn_infer_strip(d, in, y, out);
}

sn_status sn_shape_rule_collective_same(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(collective_groups(d, in, false));
  for (uint32_t k = 0; k < in->n_operands; k++) SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
  return collective_operands(d, in, out);
}

/* ---- collective-permute
 * ------------------------------------------------------------------------------------------------------------
 */

static sn_status permute_check_pairs(sn_diag *d, const sn_infer *in) {
  sn_ints p = sn_infer_ints(in, SN_ATTR_SOURCE_TARGET_PAIRS);
  int64_t n = 0;
  for (int64_t i = 0; i < p.n; i++) {
    if (p.v[i] < 0 || p.v[i] >= COLLECTIVE_MAX_DEVICES) {
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "source_target_pairs= names device %" PRId64,
                           p.v[i]);
    }
    if (p.v[i] >= n) n = p.v[i] + 1;
  }
  uint8_t *seen = SN_NEW_N(in->arena, uint8_t, 2 * n + 1);
  if (!seen) return sn_out_of_memory(d, 2 * (size_t)n);
  for (int64_t i = 0; i < p.n; i++)
    SN_TRY(collective_mark(
        d, in, seen + i % 2 * n, n, p.v[i],
        i % 2 ? "source_target_pairs= (targets)" : "source_target_pairs= (sources)"));
  return SN_OK;
}

/* In place: source and destination buffers and where in them; the result is the destination. */
static bool permute_in_place(const sn_infer *in) {
  return sn_infer_attr(in, SN_ATTR_PERMUTE_SLICE_SIZES) && in->n_operands == 4;
}

sn_status sn_shape_rule_collective_permute(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(permute_check_pairs(d, in));
  if (permute_in_place(in)) return sn_infer_strip(d, in, in->operands[1], out);
  for (uint32_t k = 0; k < in->n_operands; k++) SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
  return collective_operands(d, in, out);
}

/* ---- asynchronous pairs
 * ----------------------------------------------------------------------------------------------------------------
 */

/* (operands, result, contexts as stated): backends put what they like into the contexts. */
static sn_status async_tuple(sn_diag *d, const sn_infer *in, const sn_shape *operands,
                             const sn_shape *result, const sn_shape **out) {
  int extra =
      sn_shape_is_tuple(in->given) && in->given->n_elements > 2 ? in->given->n_elements - 2 : 0;
  const sn_shape **e = SN_NEW_N(in->arena, const sn_shape *, extra + 2);
  if (!e) return sn_out_of_memory(d, (size_t)(extra + 2) * sizeof *e);
  e[0] = operands;
  e[1] = result;
  for (int i = 0; i < extra; i++)
    SN_TRY(sn_infer_strip(d, in, in->given->elements[i + 2], &e[i + 2]));
  return sn_infer_make_tuple(d, in, extra + 2, e, out);
}

sn_status sn_shape_rule_collective_permute_start(sn_diag *d, const sn_infer *in,
                                                 const sn_shape **out) {
  const sn_shape *from = NULL, *to = NULL;
  SN_TRY(sn_shape_rule_collective_permute(d, in, &to));
  if (permute_in_place(in))
    SN_TRY(sn_infer_strip(d, in, in->operands[0], &from));
  else
    from = to;
  return async_tuple(d, in, from, to, out);
}

/* Element 1 of what the start gave. */
static sn_status async_result(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *s = in->operands[0];
  if (sn_shape_is_tuple(s) && s->n_elements >= 2) return sn_infer_strip(d, in, s->elements[1], out);
  sn_status st = sn_infer_fail(
      d, in, SN_ERR_TYPE, "operand 0 must be what its start gave, (operands, result, …), found %s",
      sn_infer_text(in, s));
  return st;
}

sn_status sn_shape_rule_done(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return async_result(d, in, out);
}

sn_status sn_shape_rule_async_done(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return async_result(d, in, out);
}

sn_status sn_shape_rule_async_start(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *operands = NULL, *root = NULL, *result = NULL;
  SN_TRY(sn_infer_want_arguments(d, in, &root));
  SN_TRY(sn_shape_rule_tuple(d, in, &operands));
  SN_TRY(sn_infer_strip(d, in, root, &result));
  return async_tuple(d, in, operands, result, out);
}

/* (destination, source, context) */
sn_status sn_shape_rule_copy_start(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *x = NULL, *context = sn_shape_scalar(in->arena, SN_TYPE_U32);
  if (!context) return sn_out_of_memory(d, sizeof *context);
  SN_TRY(sn_infer_strip(d, in, in->operands[0], &x));
  if (sn_shape_is_tuple(in->given) && in->given->n_elements == 3)
    SN_TRY(sn_infer_strip(d, in, in->given->elements[2], &context));
  const sn_shape *e[3] = {x, x, context};
  return sn_infer_make_tuple(d, in, 3, e, out);
}

sn_status sn_shape_rule_copy_done(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *s = in->operands[0];
  if (sn_shape_is_tuple(s) && s->n_elements == 3) return sn_infer_strip(d, in, s->elements[0], out);
  return sn_infer_fail(
      d, in, SN_ERR_TYPE,
      "operand 0 must be what copy-start gave, (destination, source, context), found %s",
      sn_infer_text(in, s));
}
