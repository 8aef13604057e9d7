/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of transfers and collectives. */
#include <stdio.h>
#include <string.h>

#include "unmap.h"

static sn_status channel(sn_sw *s, const sn_instr *i, sn_mlir_op *op, int64_t type) {
  sn_mlir_named v[] = {{"channel_id", sn_sw_number(s, sn_instr_int(i, SN_ATTR_CHANNEL_ID))}, {"channel_type", sn_sw_number(s, type)}};
  sn_sw_attr(op, "channel_handle", sn_sw_members(s, "stablehlo.channel_handle", 2, v));
  return SN_OK;
}

static const sn_instr *partner(const sn_instr *i, sn_opcode done) {
  SN_FOR_USES(u, i)
  if (u->user->op == done) return u->user;
  return NULL;
}

/* `{{0,1},{1,2}}` of the frontend attribute. */
static const sn_mlir_attr *pairs(sn_sw *s, const sn_instr *i) {
  const char *note = sn_instr_frontend(i, "_xla_send_recv_source_target_pairs");
  int64_t v[256], n = 0;
  while (note != NULL && n < 254 && (note = strchr(note + 1, '{')) != NULL) {
    long long a = 0, b = 0;
    if (sscanf(note, "{%lld,%lld}", &a, &b) != 2) return NULL;
    v[n++] = a;
    v[n++] = b;
  }
  return sn_sw_table(s, n / 2, 2, v, SN_TYPE_S64, false);
}

sn_status sn_sw_send(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *done = partner(i, SN_OP_SEND_DONE);
  const sn_mlir_type *token = sn_mlir_type_of(s->out, SN_MT_TOKEN);
  bool host = sn_instr_bool(i, SN_ATTR_IS_HOST_TRANSFER);
  if (done == NULL) return sn_sw_fail(s, i, "a send without its end");
  sn_instr bare = *i;
  bare.n_frontend = 0;
  sn_mlir_op *op = token != NULL ? sn_sw_spread(s, row->name, &bare, sn_instr_operand(i, 1), 1, &token) : NULL;
  if (op == NULL) return sn_sw_memory(s);
  SN_TRY(channel(s, i, op, host ? 2 : 1));
  sn_sw_attr(op, "is_host_transfer", sn_sw_truth(s, host));
  sn_sw_attr(op, "source_target_pairs", pairs(s, i));
  s->nodes[done->id] = (sn_sw_node){.whole = op->results};
  return SN_OK;
}

/* (data, token): the data's values, then the token. */
static sn_status received(sn_sw *s, const sn_instr *i, const sn_shape *pair, const char *name, const sn_instr *token, sn_mlir_op **out) {
  const sn_shape *data = pair->elements[0];
  uint32_t n = sn_sw_count(data);
  const sn_mlir_type **types = SN_NEW_N(s->out->arena, const sn_mlir_type *, n + 1);
  sn_mlir_value *in = sn_sw_value(s, token), **parts = SN_NEW_N(s->out->arena, sn_mlir_value *, 2);
  if (types == NULL || in == NULL || parts == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k <= n; k++)
    if ((types[k] = sn_sw_type(s, k == n ? pair->elements[1] : n == 1 ? data : data->elements[k])) == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = sn_sw_op(s, name, 1, &in, n + 1, types, 0);
  *out = op;
  if (op == NULL) return sn_sw_memory(s);
  parts[1] = &op->results[n];
  parts[0] = op->results;
  s->nodes[i->id] = (sn_sw_node){.parts = parts};
  if (n == 1) return SN_OK;
  /* Elements of the data, wherever it is taken apart. */
  SN_FOR_USES(u, i) {
    if (u->user->op != SN_OP_GET_TUPLE_ELEMENT) return sn_sw_fail(s, i, "a pair that is not taken apart");
    if (sn_instr_int(u->user, SN_ATTR_INDEX) != 0) continue;
    sn_mlir_value **all = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 1);
    if (all == NULL) return sn_sw_memory(s);
    for (uint32_t k = 0; k < n; k++) all[k] = &op->results[k];
    s->nodes[u->user->id] = (sn_sw_node){.parts = all};
  }
  return SN_OK;
}

sn_status sn_sw_recv(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *done = partner(i, SN_OP_RECV_DONE);
  bool host = sn_instr_bool(i, SN_ATTR_IS_HOST_TRANSFER);
  sn_mlir_op *op = NULL;
  if (done == NULL) return sn_sw_fail(s, i, "a receive without its end");
  SN_TRY(received(s, done, done->shape, row->name, sn_instr_operand(i, 0), &op));
  SN_TRY(channel(s, i, op, host ? 3 : 1));
  sn_sw_attr(op, "is_host_transfer", sn_sw_truth(s, host));
  sn_sw_attr(op, "source_target_pairs", pairs(s, i));
  return SN_OK;
}

sn_status sn_sw_infeed(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_mlir_op *op = NULL;
  SN_TRY(received(s, i, i->shape, row->name, sn_instr_operand(i, 0), &op));
  sn_sw_attr(op, "infeed_config", sn_sw_text(s, sn_instr_str(i, SN_ATTR_INFEED_CONFIG)));
  sn_sw_attr(op, "layout", sn_sw_items(s, 0, NULL));
  return SN_OK;
}

sn_status sn_sw_outfeed(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_mlir_type *token = sn_mlir_type_of(s->out, SN_MT_TOKEN);
  sn_mlir_op *op = token != NULL ? sn_sw_spread(s, row->name, i, sn_instr_operand(i, 1), 1, &token) : NULL;
  if (op == NULL) return sn_sw_memory(s);
  sn_sw_attr(op, "outfeed_config", sn_sw_text(s, sn_instr_str(i, SN_ATTR_OUTFEED_CONFIG)));
  return sn_sw_bind(s, i, op);
}

static sn_status groups(sn_sw *s, const sn_instr *i, sn_mlir_op *op, int64_t *size) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_REPLICA_GROUPS);
  const sn_groups *g = a != NULL ? a->u.groups : NULL;
  int64_t n = g != NULL ? g->n_groups : 0, most = 0;
  for (int64_t k = 0; k < n; k++)
    if (g->groups[k].n > most) most = g->groups[k].n;
  int64_t *v = SN_NEW_N(s->scratch, int64_t, n * most + 1);
  if (v == NULL) return sn_sw_memory(s);
  for (int64_t k = 0; k < n; k++)
    for (int64_t e = 0; e < most; e++) v[k * most + e] = e < g->groups[k].n ? g->groups[k].v[e] : -1;
  sn_sw_attr(op, "replica_groups", sn_sw_table(s, n, most, v, SN_TYPE_S64, false));
  *size = most;
  return channel(s, i, op, 0); /* the type says nothing of collectives */
}

static sn_status global(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  if (sn_instr_bool(i, SN_ATTR_USE_GLOBAL_DEVICE_IDS)) sn_sw_attr(op, "use_global_device_ids", sn_sw_unit(s));
  return SN_OK;
}

sn_status sn_sw_all_gather(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0;
  SN_SW_ONLY(SN_ATTR_CHANNEL_ID, SN_ATTR_REPLICA_GROUPS, SN_ATTR_DIMENSIONS, SN_ATTR_USE_GLOBAL_DEVICE_IDS);
  SN_SW_OP(row->name, 0);
  SN_TRY(groups(s, i, op, &size));
  sn_sw_attr(op, "all_gather_dim", sn_sw_number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  return global(s, i, op);
}

sn_status sn_sw_all_reduce(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0;
  SN_SW_ONLY(SN_ATTR_CHANNEL_ID, SN_ATTR_REPLICA_GROUPS, SN_ATTR_DIMENSIONS, SN_ATTR_USE_GLOBAL_DEVICE_IDS);
  SN_SW_OP(row->name, 1);
  SN_TRY(groups(s, i, op, &size));
  if (i->op == SN_OP_REDUCE_SCATTER) sn_sw_attr(op, "scatter_dimension", sn_sw_number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  SN_TRY(global(s, i, op));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_all_to_all(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0, dim = sn_instr_ints(i, SN_ATTR_DIMENSIONS).n == 1 ? sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0] : -1;
  if (dim < 0) return sn_sw_fail(s, i, "an exchange of whole arrays");
  SN_SW_OP(row->name, 0);
  SN_TRY(groups(s, i, op, &size));
  if (size == 0) size = sn_instr_int(i, SN_ATTR_CHANNEL_ID) > 0 ? s->m->num_partitions : s->m->replica_count;
  sn_sw_attr(op, "split_dimension", sn_sw_number(s, dim));
  sn_sw_attr(op, "concat_dimension", sn_sw_number(s, dim));
  sn_sw_attr(op, "split_count", sn_sw_number(s, size));
  return SN_OK;
}

sn_status sn_sw_collective_broadcast(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0;
  SN_SW_OP(row->name, 0);
  return groups(s, i, op, &size);
}

sn_status sn_sw_collective_permute(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_ints v = sn_instr_ints(i, SN_ATTR_SOURCE_TARGET_PAIRS);
  SN_SW_ONLY(SN_ATTR_CHANNEL_ID, SN_ATTR_SOURCE_TARGET_PAIRS);
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "source_target_pairs", sn_sw_table(s, v.n / 2, 2, v.v, SN_TYPE_S64, false));
  return channel(s, i, op, 0); /* the type says nothing of collectives */
}
