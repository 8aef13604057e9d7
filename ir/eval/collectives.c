/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Collectives: the members of a group meet at (instruction, group, round). Who comes early leaves its operands and
 * waits; the last one computes every member's result, in the order of the group, so that no result depends on who came
 * when. */
#include "eval_internal.h"

typedef struct sn_ev_meeting {
  struct sn_ev_meeting *next;
  const sn_instr *i;
  int64_t group;
  uint64_t round;
  int n, n_operands, n_arrived, n_taken;
  int *members;
  sn_array **in;      /* member * n_operands + operand */
  sn_array **results; /* by member */
  bool *arrived, done;
} meeting;

/* One member's result from everybody's operands. */
typedef sn_status (*member_fn)(sn_ev_ctx *e, meeting *m, int member, sn_array **out);

static void meeting_destroy(meeting *m, sn_ev_ctx *e) {
  for (int k = 0; k < m->n * m->n_operands; k++) {
    if (e)
      sn_ev_release(e, m->in[k]);
    else
      sn_array_release(m->in[k]);
  }
  for (int k = 0; k < m->n; k++) sn_array_release(m->results[k]);
  sn_free(m->members);
  sn_free(m->in);
  sn_free(m->results);
  sn_free(m->arrived);
  sn_free(m);
}

/* ---- who takes part ---- */

/* What the ids of groups and pairs mean (XLA's CollectiveOpGroupMode): replicas of one's own partition; partitions of
 * one's own replica; replicas with all their partitions; or all processes. */
typedef enum id_mode { BY_REPLICA, BY_PARTITION, BY_REPLICA_ALL, BY_PROCESS } id_mode;

static id_mode mode_of(const sn_instr *i) {
  bool must;
  if (!sn_instr_attr(i, SN_ATTR_CHANNEL_ID)) return BY_REPLICA;
  if (!sn_op_takes(i->op, SN_ATTR_USE_GLOBAL_DEVICE_IDS, &must)) return BY_PARTITION;
  return sn_instr_bool(i, SN_ATTR_USE_GLOBAL_DEVICE_IDS) ? BY_PROCESS : BY_REPLICA_ALL;
}

static int64_t own_id(const sn_ev_ctx *e, id_mode mode) {
  return mode == BY_PROCESS ? e->process : mode == BY_PARTITION ? e->partition : e->replica;
}
static int64_t n_ids(const sn_ev_world *w, id_mode mode) {
  return mode == BY_PROCESS ? w->n : mode == BY_PARTITION ? w->partitions : w->replicas;
}

static int add_processes(const sn_ev_ctx *e, id_mode mode, int64_t id, int *members, int n) {
  const sn_ev_world *w = e->world;
  if (id < 0 || id >= n_ids(w, mode)) return n;
  if (mode == BY_PROCESS) members[n++] = (int)id;
  if (mode == BY_PARTITION) members[n++] = e->replica * w->partitions + (int)id;
  if (mode == BY_REPLICA) members[n++] = (int)id * w->partitions + e->partition;
  for (int p = 0; mode == BY_REPLICA_ALL && p < w->partitions; p++) members[n++] = (int)id * w->partitions + p;
  return n;
}

/* Members in the order of the group; *group tells groups apart. 0: this process is in no group. */
static int members_of(const sn_ev_ctx *e, const sn_instr *i, bool everyone, int *members, int64_t *group) {
  const sn_attr *a = everyone ? NULL : sn_instr_attr(i, SN_ATTR_REPLICA_GROUPS);
  id_mode mode = mode_of(i);
  int n = 0;
  if (!a || a->u.groups->n_groups == 0) {
    for (int64_t id = 0; id < n_ids(e->world, mode); id++) n = add_processes(e, mode, id, members, n);
  } else {
    for (int64_t g = 0; g < a->u.groups->n_groups && n == 0; g++) {
      const sn_ints *ids = &a->u.groups->groups[g];
      for (int64_t k = 0; k < ids->n; k++)
        if (ids->v[k] == own_id(e, mode))
          for (int64_t q = 0; q < ids->n && n < e->world->n; q++) n = add_processes(e, mode, ids->v[q], members, n);
    }
  }
  *group = n ? members[0] : 0;
  return n;
}

/* ---- meeting ---- */

/* How often this process ran the instruction before. */
static sn_status next_round(sn_ev_ctx *e, const sn_instr *i, uint64_t *round) {
  struct {
    uint64_t instr, process;
  } key = {(uint64_t)(uintptr_t)i, (uint64_t)e->process};
  *round = 0;
  (void)sn_map_get(e->world->occurrences, &key, sizeof key, round);
  return sn_map_set(e->world->occurrences, &key, sizeof key, *round + 1);
}

static sn_status meeting_create(sn_ev_ctx *e, const sn_instr *i, const int *members, int n, int64_t group,
                                uint64_t round, meeting **out) {
  meeting *m = sn_alloc_zero(1, sizeof *m);
  *out = m;
  if (!m) return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory to meet");
  m->i = i;
  m->group = group;
  m->round = round;
  m->n = n;
  m->n_operands = (int)i->n_operands;
  m->members = sn_alloc_zero((size_t)n, sizeof *m->members);
  m->in = sn_alloc_zero((size_t)n * (size_t)m->n_operands + 1, sizeof *m->in);
  m->results = sn_alloc_zero((size_t)n, sizeof *m->results);
  m->arrived = sn_alloc_zero((size_t)n, sizeof *m->arrived);
  if (!m->members || !m->in || !m->results || !m->arrived) {
    m->n = m->members && m->in && m->results && m->arrived ? n : 0;
    meeting_destroy(m, NULL);
    *out = NULL;
    return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory to meet");
  }
  memcpy(m->members, members, (size_t)n * sizeof *members);
  m->next = e->world->meetings;
  e->world->meetings = m;
  return SN_OK;
}

static sn_status join(sn_ev_ctx *e, const sn_instr *i, bool everyone, meeting **out) {
  void *memory;
  uint64_t round;
  int64_t group;
  *out = NULL;
  if (e->nested)
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED,
                       "a collective cannot stand in a computation that is applied to elements");
  SN_TRY(sn_ev_scratch(e, i, (size_t)e->world->n, sizeof(int), &memory));
  int *members = memory, n = members_of(e, i, everyone, members, &group);
  sn_status s = next_round(e, i, &round);
  meeting *m = e->world->meetings;
  while (m && (m->i != i || m->group != group || m->round != round)) m = m->next;
  if (s == SN_OK && n == 0) s = sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "process %d is in none of its groups", e->process);
  if (s == SN_OK && !m) s = meeting_create(e, i, members, n, group, round, &m);
  sn_free(memory);
  *out = m;
  return s;
}

static int seat_of(const sn_ev_ctx *e, const meeting *m) {
  for (int k = 0; k < m->n; k++)
    if (m->members[k] == e->process) return k;
  return 0;
}

static void unlink_meeting(sn_ev_ctx *e, meeting *m) {
  meeting **at = &e->world->meetings;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  meeting_destroy(m, e);
}

/* Phase 0: sit down. Later: is everybody's result there? */
static sn_status meet(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, bool everyone, member_fn fn,
                      sn_array **out) {
  sn_ev_frame *f = e->top;
  meeting *m = f->wait;
  if (f->phase == 0) {
    SN_TRY(join(e, i, everyone, &m));
    int seat = seat_of(e, m);
    for (int k = 0; k < m->n_operands; k++) m->in[seat * m->n_operands + k] = sn_array_retain(in[k]);
    m->arrived[seat] = true;
    m->n_arrived++;
    f->phase = 1;
    f->wait = m;
    e->world->progress++;
  }
  if (!m->done && m->n_arrived == m->n) {
    for (int k = 0; k < m->n; k++) SN_TRY(fn(e, m, k, &m->results[k]));
    m->done = true;
  }
  if (!m->done) {
    e->blocked = true;
    return SN_OK;
  }
  int seat = seat_of(e, m);
  *out = m->results[seat];
  m->results[seat] = NULL;
  f->wait = NULL;
  if (++m->n_taken == m->n) unlink_meeting(e, m);
  return SN_OK;
}

static sn_array *operand(const meeting *m, int member, int k) { return m->in[member * m->n_operands + k]; }

/* Results for each operand by `one`, as a tuple where there are several (or where the instruction gives a tuple). */
typedef sn_status (*operand_fn)(sn_ev_ctx *e, meeting *m, int member, int k, const sn_shape *shape, sn_array **out);

static bool starts(sn_opcode op) { return op == SN_OP_ALL_GATHER_START || op == SN_OP_COLLECTIVE_PERMUTE_START; }

static sn_status each_operand(sn_ev_ctx *e, meeting *m, int member, int n, operand_fn one, sn_array **out) {
  const sn_shape *shape = starts(m->i->op) && sn_shape_is_tuple(m->i->shape) && m->i->shape->n_elements >= 2
                              ? m->i->shape->elements[1]
                              : m->i->shape;
  bool tuple = sn_shape_is_tuple(shape);
  void *memory;
  if (tuple && shape->n_elements != n)
    return sn_ev_error(e, m->i, SN_ERR_SHAPE, "gives %d arrays for %d operands", shape->n_elements, n);
  SN_TRY(sn_ev_scratch(e, m->i, (size_t)n, sizeof(sn_array *), &memory));
  sn_array **outs = memory;
  sn_status s = SN_OK;
  for (int k = 0; k < n && s == SN_OK; k++) s = one(e, m, member, k, tuple ? shape->elements[k] : shape, &outs[k]);
  if (s == SN_OK && tuple) {
    s = sn_ev_new_tuple(e, m->i, n, outs, out);
  } else if (s == SN_OK) {
    *out = outs[0];
    outs[0] = NULL;
  }
  for (int k = 0; k < n; k++) sn_ev_release(e, outs[k]);
  sn_free(memory);
  if (s != SN_OK || !starts(m->i->op)) return s;
  sn_array *operands = NULL, *result = *out;
  *out = NULL;
  if (n == 1)
    operands = sn_array_retain(operand(m, member, 0));
  else if (sn_array_create_tuple(n, &m->in[member * m->n_operands], &operands) != SN_OK) {
    sn_ev_release(e, result);
    return sn_ev_error(e, m->i, SN_ERR_MEMORY, "no memory for a tuple");
  }
  s = sn_ev_start_tuple(e, m->i, operands, result, out);
  sn_ev_release(e, operands);
  return s;
}

/* Copies `from` (whole) into `to` at position `at` of dimension `dim`; or the piece of `from` at `at` that fills `to`.
 */
static void place(sn_ev_ctx *e, const sn_array *from, sn_array *to, int64_t dim, int64_t at, bool take) {
  const sn_shape *piece = sn_array_shape(take ? to : from), *whole = sn_array_shape(take ? from : to);
  sn_ev_copy c;
  c.bytes = sn_type_bytes(piece->type);
  c.rank = piece->rank;
  memcpy(c.dims, piece->dims, (size_t)piece->rank * sizeof c.dims[0]);
  sn_ev_strides(piece->rank, piece->dims, take ? c.dst_stride : c.src_stride);
  sn_ev_strides(whole->rank, whole->dims, take ? c.src_stride : c.dst_stride);
  c.src = sn_array_data(from);
  c.dst = sn_array_data(to);
  if (piece->rank == 0) at = 0;
  if (take)
    c.src += piece->rank ? at * c.src_stride[dim] * (int64_t)c.bytes : 0;
  else
    c.dst += piece->rank ? at * c.dst_stride[dim] * (int64_t)c.bytes : 0;
  sn_ev_copy_run(e, &c);
}

/* ---- all-gather ---- */

static sn_status check_dim(sn_ev_ctx *e, const meeting *m, const sn_shape *piece, const sn_shape *whole, int64_t dim,
                           int64_t times) {
  if (dim >= 0 && dim < piece->rank && piece->rank == whole->rank && whole->dims[dim] == piece->dims[dim] * times)
    return SN_OK;
  return sn_ev_error(e, m->i, SN_ERR_SHAPE, "dimension %lld does not divide among %lld processes", (long long)dim,
                     (long long)times);
}

static sn_status gather_one(sn_ev_ctx *e, meeting *m, int member, int k, const sn_shape *shape, sn_array **out) {
  sn_ints dims = sn_instr_ints(m->i, SN_ATTR_DIMENSIONS);
  const sn_shape *piece = sn_array_shape(operand(m, member, k));
  SN_TRY(sn_ev_new(e, m->i, shape, out));
  SN_TRY(check_dim(e, m, piece, shape, dims.v[0], m->n));
  for (int q = 0; q < m->n; q++) place(e, operand(m, q, k), *out, dims.v[0], q * piece->dims[dims.v[0]], false);
  return SN_OK;
}
static sn_status gather_member(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  return each_operand(e, m, member, m->n_operands, gather_one, out);
}
sn_status sn_eval_all_gather(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return meet(e, i, in, false, gather_member, out);
}

/* ---- reductions ---- */

/* Elements [first, first + n) of the sum over members, in order. */
static sn_status sum_block(sn_ev_reducer *r, const meeting *m, int k, int64_t first, int64_t n, char *to) {
  double acc[2 * SN_EV_LANES], next[2 * SN_EV_LANES];
  sn_type t = r->types[0], a = sn_ev_acc_type(r, 0);
  size_t at = (size_t)first * sn_type_bytes(t);
  sn_convert(a, acc, t, (const char *)sn_array_data(operand(m, 0, k)) + at, n);
  for (int q = 1; q < m->n; q++) {
    void *into = acc;
    const void *x = next;
    sn_convert(a, next, t, (const char *)sn_array_data(operand(m, q, k)) + at, n);
    SN_TRY(sn_ev_combine(r, n, &into, &x));
  }
  sn_convert(t, to + at, a, acc, n);
  return SN_OK;
}

static sn_status sum_operand(sn_ev_ctx *e, const meeting *m, int k, sn_array **out) {
  const sn_shape *s = sn_array_shape(operand(m, 0, k));
  sn_ev_reducer r;
  int64_t total = sn_shape_elements(s);
  SN_TRY(sn_ev_new(e, m->i, s, out));
  SN_TRY(sn_ev_reducer_init(e, m->i, m->i->called[0], 1, &s->type, &r));
  sn_status status = SN_OK;
  for (int64_t at = 0; at < total && status == SN_OK; at += SN_EV_LANES)
    status = sum_block(&r, m, k, at, total - at < SN_EV_LANES ? total - at : SN_EV_LANES, sn_array_data(*out));
  sn_ev_reducer_finish(&r);
  return status;
}

static sn_status reduce_one(sn_ev_ctx *e, meeting *m, int member, int k, const sn_shape *shape, sn_array **out) {
  (void)member;
  (void)shape;
  return sum_operand(e, m, k, out);
}
static sn_status reduce_member(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  if (member > 0) { /* everybody gets the same values */
    *out = sn_array_retain(m->results[0]);
    return SN_OK;
  }
  return each_operand(e, m, member, m->n_operands, reduce_one, out);
}
sn_status sn_eval_all_reduce(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return meet(e, i, in, false, reduce_member, out);
}
/* Only the root's result is defined; here everybody has it. */
sn_status sn_eval_collective_reduce(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return meet(e, i, in, false, reduce_member, out);
}

static sn_status scatter_one(sn_ev_ctx *e, meeting *m, int member, int k, const sn_shape *shape, sn_array **out) {
  sn_ints dims = sn_instr_ints(m->i, SN_ATTR_DIMENSIONS);
  sn_array *sum = NULL;
  SN_TRY(check_dim(e, m, shape, sn_array_shape(operand(m, member, k)), dims.v[0], m->n));
  sn_status s = sn_ev_new(e, m->i, shape, out);
  if (s == SN_OK) s = sum_operand(e, m, k, &sum);
  if (s == SN_OK) place(e, sum, *out, dims.v[0], member * shape->dims[dims.v[0]], true);
  sn_ev_release(e, sum);
  return s;
}
static sn_status scatter_member(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  return each_operand(e, m, member, m->n_operands, scatter_one, out);
}
sn_status sn_eval_reduce_scatter(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return meet(e, i, in, false, scatter_member, out);
}

/* ---- exchanges ---- */

/* One array cut along a dimension: part `member` of everybody, joined along it. */
static sn_status exchange_cut(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  int64_t dim = sn_instr_ints(m->i, SN_ATTR_DIMENSIONS).v[0], dims[SN_MAX_RANK];
  const sn_shape *s = m->i->shape;
  sn_array *part = NULL;
  if (dim < 0 || dim >= s->rank || s->dims[dim] % m->n)
    return sn_ev_error(e, m->i, SN_ERR_SHAPE, "dimension %lld does not divide among %d processes", (long long)dim,
                       m->n);
  memcpy(dims, s->dims, (size_t)s->rank * sizeof *dims);
  dims[dim] /= m->n;
  SN_TRY(sn_ev_new(e, m->i, s, out));
  SN_TRY(sn_ev_new_dims(e, m->i, s->type, s->rank, dims, &part));
  for (int q = 0; q < m->n; q++) {
    place(e, operand(m, q, 0), part, dim, member * dims[dim], true);
    place(e, part, *out, dim, q * dims[dim], false);
  }
  sn_ev_release(e, part);
  return SN_OK;
}

/* Operand k is for member k: the result is what everybody has for this one. */
static sn_status exchange_one(sn_ev_ctx *e, meeting *m, int member, int k, const sn_shape *shape, sn_array **out) {
  (void)shape;
  if (m->n_operands != m->n)
    return sn_ev_error(e, m->i, SN_ERR_SHAPE, "%d operands for %d processes", m->n_operands, m->n);
  *out = sn_array_retain(operand(m, k, member));
  return SN_OK;
}
static sn_status exchange_member(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  if (sn_instr_ints(m->i, SN_ATTR_DIMENSIONS).n > 0 && !sn_shape_is_tuple(m->i->shape))
    return exchange_cut(e, m, member, out);
  return each_operand(e, m, member, m->n_operands, exchange_one, out);
}
sn_status sn_eval_all_to_all(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return meet(e, i, in, false, exchange_member, out);
}

static int64_t int_at(const sn_array *a, int64_t k) {
  sn_type t = sn_array_shape(a)->type;
  return sn_load_i64(t, (const char *)sn_array_data(a) + (size_t)k * sn_type_bytes(t));
}

/* Operands: input, output, input offsets, send sizes, output offsets, receive sizes. Offsets count rows; entry k is for
 * member k / (entries a member). */
static sn_status ragged_member(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  const sn_shape *s = sn_array_shape(operand(m, member, 1));
  int64_t entries = sn_shape_elements(sn_array_shape(operand(m, member, 2))), each = entries / m->n;
  size_t row = sn_type_bytes(s->type) * (size_t)sn_ev_product(s->rank - 1, s->dims + 1);
  if (entries % m->n)
    return sn_ev_error(e, m->i, SN_ERR_SHAPE, "%lld offsets for %d processes", (long long)entries, m->n);
  SN_TRY(sn_ev_new(e, m->i, s, out));
  memcpy(sn_array_data(*out), sn_array_data(operand(m, member, 1)), sn_array_bytes(*out));
  for (int from = 0; from < m->n; from++)
    for (int64_t k = member * each; k < (member + 1) * each; k++) {
      const sn_array *input = operand(m, from, 0);
      int64_t at = int_at(operand(m, from, 2), k), n = int_at(operand(m, from, 3), k),
              to = int_at(operand(m, from, 4), k);
      if (n < 0 || at < 0 || to < 0 || n > sn_array_shape(input)->dims[0] - at || n > s->dims[0] - to)
        return sn_ev_error(e, m->i, SN_ERR_SHAPE, "%lld rows from %lld to %lld do not lie inside", (long long)n,
                           (long long)at, (long long)to);
      memcpy((char *)sn_array_data(*out) + (size_t)to * row, (const char *)sn_array_data(input) + (size_t)at * row,
             (size_t)n * row);
    }
  return SN_OK;
}
sn_status sn_eval_ragged_all_to_all(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return meet(e, i, in, false, ragged_member, out);
}

static sn_status broadcast_one(sn_ev_ctx *e, meeting *m, int member, int k, const sn_shape *shape, sn_array **out) {
  (void)e;
  (void)member;
  (void)shape;
  *out = sn_array_retain(operand(m, 0, k));
  return SN_OK;
}
static sn_status broadcast_member(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  return each_operand(e, m, member, m->n_operands, broadcast_one, out);
}
/* A process that no group holds gets zeros. */
static sn_status broadcast_zeros(sn_ev_ctx *e, const sn_instr *i, sn_array **out) {
  bool tuple = sn_shape_is_tuple(i->shape);
  int n = tuple ? i->shape->n_elements : 1;
  sn_array **v = sn_alloc_zero((size_t)n + 1, sizeof *v);
  if (!v) return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory for a tuple");
  sn_status s = SN_OK;
  for (int k = 0; k < n && s == SN_OK; k++) s = sn_ev_new_zero(e, i, tuple ? i->shape->elements[k] : i->shape, &v[k]);
  if (s == SN_OK && tuple) s = sn_ev_new_tuple(e, i, n, v, out);
  else if (s == SN_OK) *out = v[0];
  sn_free(v);
  return s;
}

sn_status sn_eval_collective_broadcast(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  void *members;
  int64_t group;
  SN_TRY(sn_ev_scratch(e, i, (size_t)e->world->n, sizeof(int), &members));
  int n = members_of(e, i, false, members, &group);
  sn_free(members);
  if (n == 0) return broadcast_zeros(e, i, out);
  return meet(e, i, in, false, broadcast_member, out);
}

/* Who is nobody's target gets zeros. Seats are ids here, because everybody takes part. */
static sn_status permute_one(sn_ev_ctx *e, meeting *m, int member, int k, const sn_shape *shape, sn_array **out) {
  sn_ints pairs = sn_instr_ints(m->i, SN_ATTR_SOURCE_TARGET_PAIRS);
  for (int64_t q = 0; q + 1 < pairs.n; q += 2)
    if (pairs.v[q + 1] == member && pairs.v[q] >= 0 && pairs.v[q] < m->n) {
      *out = sn_array_retain(operand(m, (int)pairs.v[q], k));
      return SN_OK;
    }
  return sn_ev_new_zero(e, m->i, shape, out);
}
static sn_status permute_member(sn_ev_ctx *e, meeting *m, int member, sn_array **out) {
  if (sn_instr_attr(m->i, SN_ATTR_PERMUTE_SLICE_SIZES))
    return sn_ev_error(e, m->i, SN_ERR_UNSUPPORTED, "the form on slices of buffers is not interpreted");
  return each_operand(e, m, member, m->n_operands, permute_one, out);
}
sn_status sn_eval_collective_permute(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return meet(e, i, in, true, permute_member, out);
}

/* ---- who am I ---- */

static sn_status put_u32(sn_ev_ctx *e, const sn_instr *i, int v, sn_array **out) {
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  sn_store_i64(i->shape->type, sn_array_data(*out), v);
  return SN_OK;
}
sn_status sn_eval_partition_id(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  (void)in;
  return put_u32(e, i, e->partition, out);
}
sn_status sn_eval_replica_id(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  (void)in;
  return put_u32(e, i, e->replica, out);
}

void sn_ev_meetings_finish(sn_ev_world *w) {
  while (w->meetings) {
    meeting *m = w->meetings;
    w->meetings = m->next;
    meeting_destroy(m, NULL);
  }
}
