/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Collectives. Groups are n x size tables of replica or partition ids (-1: no device), or axes of a mesh. */
#include <inttypes.h>
#include <string.h>

#include "map.h"

enum { MAX_DEVICES = 1 << 16 };

/* ---- groups written as mesh axes ---- */

typedef struct mesh_axis { const char *name; int64_t size; } mesh_axis;
typedef struct mesh {
  mesh_axis axes[SN_MAX_RANK];
  int n;
  int64_t devices;
} mesh;

static sn_status mesh_read(sn_sm *s, const sn_mlir_op *op, const sn_mlir_attr *a, mesh *m) {
  memset(m, 0, sizeof *m);
  m->devices = 1;
  const sn_mlir_attr *axes = sn_mlir_member(a, "axes");
  if (axes == NULL || axes->kind != SN_MA_ARRAY || axes->n > SN_MAX_RANK) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "replica groups name a mesh that is not written in place");
  for (int64_t i = 0; i < axes->n; i++) {
    const sn_mlir_attr *name = sn_mlir_member(axes->items[i], "name"), *size = sn_mlir_member(axes->items[i], "size");
    if (name == NULL || name->s == NULL || size == NULL || size->i < 1 || size->i > MAX_DEVICES || m->devices * size->i > MAX_DEVICES)
      return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected mesh axes with names and sizes of at most %d devices", (int)MAX_DEVICES);
    m->axes[m->n++] = (mesh_axis){name->s, size->i};
    m->devices *= size->i;
  }
  return SN_OK;
}

/* Devices that differ along the named axes only form a group; ids run over the mesh in row-major order. */
static sn_status mesh_groups(sn_sm *s, const sn_mlir_op *op, const sn_mlir_attr *g, int64_t *n_groups, int64_t *size, const int64_t **ids) {
  mesh m;
  bool in_group[SN_MAX_RANK] = {false};
  SN_TRY(mesh_read(s, op, sn_mlir_member(g, "mesh"), &m));
  const sn_mlir_attr *axes = sn_mlir_member(g, "axes");
  *size = 1;
  for (int64_t i = 0; axes != NULL && axes->kind == SN_MA_ARRAY && i < axes->n; i++) {
    const sn_mlir_attr *name = sn_mlir_member(axes->items[i], "name");
    int k = 0;
    if (sn_mlir_member(axes->items[i], "sub_axis_info") != NULL) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "replica groups over a piece of an axis are not supported");
    while (k < m.n && (name == NULL || name->s == NULL || strcmp(m.axes[k].name, name->s) != 0)) k++;
    if (k == m.n) return sn_sm_fail(s, op, SN_ERR_NAME, "replica groups name an axis that the mesh has not");
    in_group[k] = true;
    *size *= m.axes[k].size;
  }
  *n_groups = m.devices / *size;
  int64_t *v = SN_NEW_N(s->scratch, int64_t, m.devices + 1);
  if (v == NULL) return sn_sm_memory(s);
  for (int64_t d = 0; d < m.devices; d++) {
    int64_t rest = d, place = 0, group = 0, place_step = 1, group_step = 1;
    for (int k = m.n - 1; k >= 0; k--) {
      int64_t at = rest % m.axes[k].size;
      rest /= m.axes[k].size;
      (in_group[k] ? (place += at * place_step, place_step *= m.axes[k].size) : (group += at * group_step, group_step *= m.axes[k].size));
    }
    v[group * *size + place] = d;
  }
  *ids = v;
  return SN_OK;
}

/* ---- groups ---- */

static sn_status groups_table(sn_sm *s, const sn_mlir_op *op, int64_t *n_groups, int64_t *size, const int64_t **ids) {
  const sn_mlir_attr *a = sn_mlir_find(op, "replica_groups");
  int64_t n = 0;
  *n_groups = *size = 0;
  if (a == NULL) return SN_OK;
  if (a->kind == SN_MA_STRUCT) return mesh_groups(s, op, a, n_groups, size, ids);
  if (!sn_mlir_ints(s->scratch, a, &n, ids) || n > MAX_DEVICES) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected a table of at most %d device ids for replica_groups", (int)MAX_DEVICES);
  if (n == 0) return SN_OK;
  *n_groups = a->kind == SN_MA_DENSE && a->type->rank == 2 ? a->type->dims[0] : 1;
  *size = n / *n_groups;
  return SN_OK;
}

static sn_status groups(sn_sm *s, const sn_mlir_op *op, sn_groups *g) {
  int64_t n = 0, size = 0;
  const int64_t *ids = NULL;
  memset(g, 0, sizeof *g);
  g->form = SN_GROUPS_LIST;
  SN_TRY(groups_table(s, op, &n, &size, &ids));
  sn_ints *v = SN_NEW_N(s->scratch, sn_ints, n + 1);
  if (v == NULL) return sn_sm_memory(s);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = size;
    while (k > 0 && ids[i * size + k - 1] < 0) k--; /* rows of unequal length end with -1 */
    v[i] = (sn_ints){k, ids + i * size};
  }
  g->n_groups = n;
  g->groups = v;
  return SN_OK;
}

/* Replica ids with all their partitions, where both are many: written as ids of all devices, in StableHLO's order (partition by partition). */
static sn_status flatten(sn_sm *s, const sn_mlir_op *op, sn_groups *g) {
  int64_t partitions = s->m->num_partitions, replicas = s->m->replica_count;
  if (partitions > MAX_DEVICES / replicas) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "groups of replicas over more than %d devices", (int)MAX_DEVICES);
  sn_ints *v = SN_NEW_N(s->scratch, sn_ints, g->n_groups + 1);
  if (v == NULL) return sn_sm_memory(s);
  for (int64_t i = 0; i < g->n_groups; i++) {
    int64_t n = g->groups[i].n, *ids = SN_NEW_N(s->scratch, int64_t, n * partitions + 1);
    if (ids == NULL) return sn_sm_memory(s);
    for (int64_t k = 0; k < n; k++) {
      int64_t id = g->groups[i].v[k];
      if (id < 0 || id >= replicas) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "replica_groups names the replica %" PRId64 ", there are %" PRId64, id, replicas);
    }
    for (int64_t q = 0; q < partitions; q++)
      for (int64_t k = 0; k < n; k++) ids[q * n + k] = g->groups[i].v[k] * partitions + q;
    v[i] = (sn_ints){n * partitions, ids};
  }
  g->groups = v;
  return SN_OK;
}

static int64_t group_size(const sn_sm *s, const sn_mlir_op *op, const sn_groups *g) {
  if (g->n_groups != 0) return g->groups[0].n;
  int64_t replicas = s->m->replica_count, partitions = s->m->num_partitions;
  if (sn_sm_bool(op, "use_global_device_ids")) return replicas > INT64_MAX / partitions ? INT64_MAX : replicas * partitions;
  return sn_sm_int_or(op, "channel_id", 0) != 0 ? partitions : replicas;
}

/* channel_id (1, whatever was written, so that equal collectives are equal; 0 means across replicas), groups, use_global_device_ids. */
static sn_status common(sn_sm *s, const sn_mlir_op *op, sn_groups *g, sn_attr *a, uint32_t *n, bool global) {
  int64_t id = sn_sm_int_or(op, "channel_id", 0);
  SN_TRY(groups(s, op, g));
  bool flat = sn_sm_bool(op, "use_global_device_ids");
  if (id > 0) a[(*n)++] = sn_attr_int(SN_ATTR_CHANNEL_ID, id);
  if (global && id > 0 && !flat && g->n_groups != 0 && s->m->num_partitions > 1 && s->m->replica_count > 1) {
    SN_TRY(flatten(s, op, g));
    flat = true;
  }
  a[*n].id = SN_ATTR_REPLICA_GROUPS;
  a[(*n)++].u.groups = g;
  if (global && flat) a[(*n)++] = sn_attr_int(SN_ATTR_USE_GLOBAL_DEVICE_IDS, 1);
  return SN_OK;
}

/* With a stated or inferred shape. */
static sn_status finish(sn_sm *s, const sn_mlir_op *op, sn_opcode to, sn_instr **in, uint32_t n, sn_attr *a, sn_computation *body, sn_instr **out) {
  uint32_t called = body != NULL ? 1 : 0;
  const sn_shape *shape = NULL;
  if (to == SN_OP_ALL_GATHER || to == SN_OP_REDUCE_SCATTER) { /* the size of a group of all devices is the run's business */
    const sn_shape **v = SN_NEW_N(s->scratch, const sn_shape *, op->n_results + 1);
    if (v == NULL) return sn_sm_memory(s);
    for (uint32_t i = 0; i < op->n_results; i++) SN_TRY(sn_sm_shape(s, op, op->results[i].type, &v[i]));
    shape = op->n_results == 1 ? v[0] : sn_shape_tuple(sn_sm_arena(s), (int)op->n_results, v);
    if (shape == NULL) return sn_sm_memory(s);
  }
  return sn_sm_unpack(s, op, sn_build(&s->b, to, shape, op->n_operands, in, n, a, called, &body), out);
}

sn_status sn_sm_all_gather(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_groups g;
  sn_attr a[6];
  uint32_t n = 0;
  int64_t d = 0;
  SN_TRY(sn_sm_int(s, op, "all_gather_dim", &d));
  SN_TRY(common(s, op, &g, a, &n, true));
  a[n++] = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &d);
  return finish(s, op, row->op, in, n, a, NULL, out);
}

sn_status sn_sm_all_reduce(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_groups g;
  sn_attr a[6];
  uint32_t n = 0;
  int64_t d = 0;
  sn_computation *body = NULL;
  SN_TRY(common(s, op, &g, a, &n, true));
  if (row->op == SN_OP_REDUCE_SCATTER) {
    SN_TRY(sn_sm_int(s, op, "scatter_dimension", &d));
    a[n++] = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &d);
  }
  SN_TRY(sn_sm_scalar_region(s, op, 0, "region", &body));
  return finish(s, op, row->op, in, n, a, body, out);
}

sn_status sn_sm_cross_replica_sum(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_groups g;
  sn_attr a[6];
  uint32_t n = 0;
  (void)row;
  SN_TRY(common(s, op, &g, a, &n, false));
  sn_computation *body = sn_build_reducer(&s->b, SN_OP_ADD, in[0]->shape->type);
  SN_TRY(sn_sm_built(s));
  return finish(s, op, SN_OP_ALL_REDUCE, in, n, a, body, out);
}

/* HLO exchanges blocks of one dimension; those of another are moved there: [.., split, ..] is taken apart and the blocks joined along `concat`. */
static sn_instr *rejoin(sn_sm *s, sn_instr *x, int64_t count, int64_t split, int64_t concat) {
  int64_t dims[SN_MAX_RANK + 1], order[SN_MAX_RANK + 1], final[SN_MAX_RANK];
  int rank = x->shape->rank, n = 0;
  if (split == concat) return x;
  for (int i = 0; i < rank; i++) {
    if (i == split) dims[n++] = count;
    dims[n++] = i == split ? x->shape->dims[i] / count : x->shape->dims[i];
  }
  x = sn_build_reshape(&s->b, x, n, dims);
  int m = 0;
  for (int i = 0; i < rank; i++) { /* dimension i is i or i + 1 now; the blocks go in front of `concat` */
    if (i == concat) order[m++] = split;
    order[m++] = i < split ? i : i + 1;
  }
  x = sn_build_transpose(&s->b, x, order);
  if (x == NULL) return NULL;
  n = 0;
  for (int i = 0; i < m; i++) {
    if (order[i] == split && i + 1 < m) {
      final[n++] = x->shape->dims[i] * x->shape->dims[i + 1];
      i++;
    } else {
      final[n++] = x->shape->dims[i];
    }
  }
  return sn_build_reshape(&s->b, x, n, final);
}

sn_status sn_sm_all_to_all(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_groups g;
  int64_t split = 0, concat = 0, count = 0;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "split_dimension", &split));
  SN_TRY(sn_sm_int(s, op, "concat_dimension", &concat));
  SN_TRY(sn_sm_int(s, op, "split_count", &count));
  if (op->n_results != op->n_operands) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected as many results as operands, found %" PRIu32 " and %" PRIu32, op->n_results, op->n_operands);
  for (uint32_t k = 0; k < op->n_operands; k++) {
    sn_attr a[4];
    uint32_t n = 0;
    int rank = in[k]->shape->rank;
    if (split < 0 || split >= rank || concat < 0 || concat >= rank || count < 1 || rank >= SN_MAX_RANK || in[k]->shape->dims[split] % count != 0)
      return sn_sm_fail(s, op, SN_ERR_SHAPE, "%s cannot be split into %" PRId64 " along dimension %" PRId64, sn_shape_text(s->scratch, in[k]->shape), count, split);
    SN_TRY(common(s, op, &g, a, &n, false));
    if (group_size(s, op, &g) != count)
      return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected split_count to be the %" PRId64 " devices of a group, found %" PRId64, group_size(s, op, &g), count);
    a[n++] = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &split);
    sn_instr *x = sn_build(&s->b, SN_OP_ALL_TO_ALL, NULL, 1, &in[k], n, a, 0, NULL);
    SN_TRY(sn_sm_built(s));
    out[k] = rejoin(s, x, count, split, concat);
  }
  return sn_sm_built(s);
}

sn_status sn_sm_collective_permute(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a[2];
  uint32_t n = 0;
  int64_t count = 0, id = sn_sm_int_or(op, "channel_id", 0);
  const int64_t *pairs = NULL;
  (void)row;
  SN_TRY(sn_sm_ints(s, op, "source_target_pairs", true, &count, &pairs));
  if (count % 2 != 0) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected pairs for source_target_pairs, found %" PRId64 " numbers", count);
  if (id > 0) a[n++] = sn_attr_int(SN_ATTR_CHANNEL_ID, id);
  a[n++] = sn_attr_ints(SN_ATTR_SOURCE_TARGET_PAIRS, count, pairs);
  out[0] = sn_build(&s->b, SN_OP_COLLECTIVE_PERMUTE, NULL, 1, in, n, a, 0, NULL);
  return sn_sm_built(s);
}

/* The last operand says which device of the group each value comes from: all of them are gathered, and that one is taken. */
static sn_status dynamic_root(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_groups g;
  sn_attr a[6];
  uint32_t n = 0, values = op->n_operands - 1;
  int64_t first = 0;
  sn_instr *root = in[values];
  SN_TRY(common(s, op, &g, a, &n, false));
  if (g.n_groups == 0 || sn_sm_int_or(op, "channel_id", 0) > 0) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "a root that is a value of the run needs groups of replicas");
  if (root->shape->rank != 1 || root->shape->dims[0] != values || op->n_results != values) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected one root a value");
  a[n++] = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &first);
  for (uint32_t k = 0; k < values; k++) {
    int64_t dims[SN_MAX_RANK + 1] = {1};
    int rank = in[k]->shape->rank;
    sn_instr *starts[SN_MAX_RANK + 1];
    if (rank >= SN_MAX_RANK) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "more than %d dimensions", SN_MAX_RANK);
    for (int d = 0; d < rank; d++) dims[d + 1] = in[k]->shape->dims[d];
    sn_instr *x = sn_build_reshape(&s->b, in[k], rank + 1, dims);
    SN_TRY(sn_sm_built(s));
    x = sn_build(&s->b, SN_OP_ALL_GATHER, NULL, 1, &x, n, a, 0, NULL);
    starts[0] = sn_build_reshape(&s->b, sn_build_slice_dim(&s->b, root, 0, k, k + 1), 0, NULL);
    for (int d = 0; d < rank; d++) starts[d + 1] = sn_build_scalar_i64(&s->b, root->shape->type, 0);
    out[k] = sn_build_reshape(&s->b, sn_build_dynamic_slice(&s->b, x, starts, dims), rank, dims + 1);
  }
  return sn_sm_built(s);
}

sn_status sn_sm_collective_broadcast(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_groups g;
  sn_attr a[4];
  uint32_t n = 0;
  (void)row;
  if (sn_sm_bool(op, "has_dynamic_root") && op->n_operands >= 2) return dynamic_root(s, op, in, out);
  SN_TRY(common(s, op, &g, a, &n, false));
  return finish(s, op, SN_OP_COLLECTIVE_BROADCAST, in, n, a, NULL, out);
}
