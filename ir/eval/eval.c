/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver: walks computations instruction by instruction, frees values after their last use, and takes processes in
 * turn. */
#include "eval_internal.h"

/* Which slot an instruction's value has. Ids are dense in the module, not in the computation: hence a table from the
 * smallest to the largest. */
typedef struct sn_ev_plan {
  uint32_t base, n_slots;
  uint32_t slot[];
} sn_ev_plan;

static const sn_ev_op_fn evaluators[SN_OP_COUNT] = {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) sn_eval_##eval,
#include "sinter/ops.def"
#undef SN_OP
};

enum { MAX_NESTED = 64 }; /* applied computations inside one another: these do recurse */
enum {
  MAX_DEPTH = 10000
}; /* computations inside one another; the verifier refuses cycles, a hand-made module may hold one */

void sn_eval_options_init(sn_eval_options *o) {
  memset(o, 0, sizeof *o);
  o->struct_size = sizeof *o;
}

/* ---- plans ---- */

static sn_status plan_create(const sn_computation *c, sn_ev_plan **out) {
  uint32_t lo = UINT32_MAX, hi = 0, n = 0;
  SN_FOR_INSTRS(i, c) {
    if (i->id < lo) lo = i->id;
    if (i->id > hi) hi = i->id;
  }
  if (lo > hi) lo = hi;
  sn_ev_plan *p = sn_alloc(sizeof *p + ((size_t)(hi - lo) + 1) * sizeof p->slot[0]);
  *out = p;
  if (!p) return SN_ERR_MEMORY;
  p->base = lo;
  SN_FOR_INSTRS(i, c) p->slot[i->id - lo] = n++;
  p->n_slots = n;
  return SN_OK;
}

static sn_status plan_of(sn_ev_world *w, const sn_computation *c, const sn_ev_plan **out) {
  sn_ev_plan *p = sn_map_get_u64(w->plans, (uint64_t)(uintptr_t)c);
  *out = p;
  if (p) return SN_OK;
  SN_TRY(plan_create(c, &p));
  sn_status s = sn_map_set_u64(w->plans, (uint64_t)(uintptr_t)c, p);
  if (s != SN_OK) {
    sn_free(p);
    return s;
  }
  *out = p;
  return SN_OK;
}

static uint32_t slot_of(const sn_ev_frame *f, const sn_instr *i) { return f->plan->slot[i->id - f->plan->base]; }

/* ---- frames ---- */

static void frame_drop_operands(sn_ev_ctx *e, sn_ev_frame *f) {
  for (int k = 0; k < f->n_in; k++) {
    sn_ev_release(e, f->in[k]);
    f->in[k] = NULL;
  }
  sn_ev_release(e, f->returned);
  f->returned = NULL;
  f->in_ready = false;
  f->phase = 0;
  f->wait = NULL;
  f->seconds = 0;
}

static void frame_destroy(sn_ev_ctx *e, sn_ev_frame *f) {
  frame_drop_operands(e, f);
  for (int k = 0; k < f->n_args; k++) sn_ev_release(e, f->args[k]);
  if (f->values)
    for (uint32_t k = 0; k < f->plan->n_slots; k++) sn_ev_release(e, f->values[k]);
  sn_free(f->args);
  sn_free(f->values);
  sn_free(f->uses_left);
  sn_free(f->in);
  sn_free(f);
}

static sn_status frame_tables(sn_ev_ctx *e, sn_ev_frame *f) {
  SN_TRY(plan_of(e->world, f->c, &f->plan));
  uint32_t most = 0;
  SN_FOR_INSTRS(i, f->c) if (i->n_operands > most) most = i->n_operands;
  f->values = sn_alloc_zero((size_t)f->plan->n_slots + 1, sizeof *f->values);
  f->uses_left = sn_alloc_zero((size_t)f->plan->n_slots + 1, sizeof *f->uses_left);
  f->in = sn_alloc_zero((size_t)most + 1, sizeof *f->in);
  if (!f->values || !f->uses_left || !f->in) return SN_ERR_MEMORY;
  SN_FOR_INSTRS(i, f->c) f->uses_left[slot_of(f, i)] = i->n_uses + (i == f->c->root);
  return SN_OK;
}

/* Takes over args (the array and its references), also when it fails. */
sn_status sn_ev_push(sn_ev_ctx *e, const sn_computation *c, int n, sn_array **args) {
  sn_ev_frame *f = sn_alloc_zero(1, sizeof *f);
  if (!f) {
    for (int k = 0; k < n; k++) sn_ev_release(e, args[k]);
    sn_free(args);
    return sn_out_of_memory(e->d, sizeof *f);
  }
  f->c = c;
  f->cur = c->first;
  f->args = args;
  f->n_args = n;
  sn_status s = frame_tables(e, f);
  if (s == SN_OK && e->depth >= MAX_DEPTH)
    s = sn_error(e->d, c->loc, SN_ERR_VERIFY,
                 "computation %s: %d computations run inside one another; is the call cyclic?", c->name, MAX_DEPTH);
  else if (s != SN_OK)
    s = sn_out_of_memory(e->d, c->n_instrs * sizeof *f->values);
  if (s != SN_OK) {
    frame_destroy(e, f);
    return s;
  }
  f->caller = e->top;
  e->top = f;
  e->depth++;
  return SN_OK;
}

static void frame_pop(sn_ev_ctx *e) {
  sn_ev_frame *f = e->top;
  e->top = f->caller;
  e->depth--;
  frame_destroy(e, f);
}

void sn_ev_unwind(sn_ev_ctx *e, sn_ev_frame *down_to) {
  for (int k = 0; k < e->n_enter_args; k++) sn_ev_release(e, e->enter_args[k]);
  sn_free(e->enter_args);
  e->enter = NULL;
  e->enter_args = NULL;
  e->n_enter_args = 0;
  e->blocked = false;
  while (e->top != down_to) frame_pop(e);
}

/* ---- one instruction ---- */

/* Operands: the last user takes the frame's reference along, so that the evaluator can see a value nobody else needs.
 */
static void frame_take_operands(sn_ev_frame *f) {
  const sn_instr *i = f->cur;
  f->n_in = (int)i->n_operands;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    uint32_t s = slot_of(f, sn_instr_operand(i, k));
    if (--f->uses_left[s] == 0) {
      f->in[k] = f->values[s];
      f->values[s] = NULL;
    } else {
      f->in[k] = sn_array_retain(f->values[s]);
    }
  }
  f->in_ready = true;
}

/* What an op applies to elements is not traced: its instructions run once an element, or inside a lane program. */
static bool wants_trace(const sn_ev_ctx *e, const sn_instr *i) {
  const sn_eval_options *o = e->o;
  if (!o->trace || e->nested > 0) return false;
  if (!o->trace_only) return true;
  for (const char *const *n = o->trace_only; *n; n++)
    if (strcmp(*n, i->name) == 0) return true;
  return false;
}

static sn_status frame_finish_instr(sn_ev_ctx *e, sn_ev_frame *f, sn_array *value) {
  const sn_instr *i = f->cur;
  if (wants_trace(e, i)) sn_ev_trace(e, i, value, f->seconds);
  sn_status s = e->o->stop_at_nan && e->nested == 0 ? sn_ev_check_nan(e, i, f->in, value) : SN_OK;
  frame_drop_operands(e, f);
  if (s != SN_OK || f->single) {
    if (s == SN_OK) {
      e->result = value;
      f->cur = NULL;
    } else {
      sn_ev_release(e, value);
    }
    return s;
  }
  uint32_t slot = slot_of(f, i);
  if (f->uses_left[slot] == 0)
    sn_ev_release(e, value);
  else
    f->values[slot] = value;
  f->cur = i->next;
  return SN_OK;
}

static sn_status check_operands(sn_ev_ctx *e, const sn_ev_frame *f) {
  for (int k = 0; k < f->n_in; k++)
    if (!f->in[k]) return sn_ev_error(e, f->cur, SN_ERR_VERIFY, "operand %d is used before it is defined", k);
  return SN_OK;
}

static sn_status count_step(sn_ev_ctx *e, const sn_instr *i) {
  e->world->steps++;
  if (e->o->max_steps > 0 && e->world->steps > e->o->max_steps)
    return sn_ev_error(e, i, SN_ERR_CANCELLED, "the limit of %lld instructions is used up", (long long)e->o->max_steps);
  return SN_OK;
}

static sn_status enter_requested(sn_ev_ctx *e) {
  const sn_computation *c = e->enter;
  sn_array **args = e->enter_args;
  int n = e->n_enter_args;
  e->enter = NULL;
  e->enter_args = NULL;
  e->n_enter_args = 0;
  return sn_ev_push(e, c, n, args);
}

static sn_status step_instr(sn_ev_ctx *e) {
  sn_ev_frame *f = e->top;
  const sn_instr *i = f->cur;
  sn_array *value = NULL;
  bool timed = e->o->trace != NULL;
  if (!f->in_ready) {
    SN_TRY(count_step(e, i));
    frame_take_operands(f);
    SN_TRY(check_operands(e, f));
  }
  double start = timed ? sn_time() : 0;
  sn_status s = evaluators[i->op](e, i, f->in, &value);
  if (timed) f->seconds += sn_time() - start;
  if (s != SN_OK) {
    sn_ev_release(e, value);
    if (s == SN_ERR_MEMORY && e->d && sn_diag_count(e->d, SN_ERROR) == 0) return sn_ev_error(e, i, s, "out of memory");
    return s;
  }
  if (value) {
    e->world->progress++;
    return frame_finish_instr(e, f, value);
  }
  if (e->enter) {
    e->world->progress++;
    return enter_requested(e);
  }
  sn_assert(e->blocked);
  return SN_OK;
}

/* The computation of the top frame is through: its root goes to the caller. */
static sn_status leave(sn_ev_ctx *e, sn_ev_frame *down_to) {
  sn_ev_frame *f = e->top;
  uint32_t slot = slot_of(f, f->c->root);
  sn_array *value = f->values[slot];
  f->values[slot] = NULL;
  sn_ev_frame *caller = f->caller;
  frame_pop(e);
  if (caller == down_to)
    e->result = value;
  else
    caller->returned = value;
  return SN_OK;
}

/* Runs until the frames above `down_to` are gone (result in e->result), or until the process must wait (e->blocked). */
sn_status sn_ev_run(sn_ev_ctx *e, sn_ev_frame *down_to) {
  sn_status s = SN_OK;
  e->blocked = false;
  while (s == SN_OK && e->top != down_to && !e->blocked) {
    sn_ev_frame *f = e->top;
    if (f->cur)
      s = step_instr(e);
    else if (f->single)
      frame_pop(e);
    else
      s = leave(e, down_to);
  }
  if (s != SN_OK) sn_ev_unwind(e, down_to);
  return s;
}

sn_status sn_ev_apply(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, int n, sn_array *const *args,
                      sn_array **out) {
  *out = NULL;
  sn_ev_frame *here = e->top;
  if (e->nested >= MAX_NESTED)
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "more than %d applied computations inside one another", MAX_NESTED);
  SN_TRY(sn_ev_enter(e, i, c, n, args));
  SN_TRY(enter_requested(e));
  e->nested++;
  sn_status s = sn_ev_run(e, here);
  e->nested--;
  if (s != SN_OK) return s;
  *out = e->result;
  e->result = NULL;
  return SN_OK;
}

/* ---- processes ---- */

void sn_eval_draws_init(sn_eval_draws *w, uint64_t seed) { *w = (sn_eval_draws){.state = {seed, 0}}; }

static sn_status world_create(sn_diag *d, const sn_module *m, const sn_eval_options *o, int replicas, int partitions,
                              sn_ev_world *w) {
  (void)m;
  memset(w, 0, sizeof *w);
  w->replicas = replicas;
  w->partitions = partitions;
  w->n = replicas * partitions;
  w->procs = sn_alloc_zero((size_t)w->n, sizeof *w->procs);
  sn_status s = w->procs ? sn_map_create(&w->plans) : SN_ERR_MEMORY;
  if (s == SN_OK) s = sn_map_create(&w->occurrences);
  if (s != SN_OK) {
    sn_ev_world_finish(w);
    return sn_out_of_memory(d, (size_t)w->n * sizeof *w->procs);
  }
  for (int p = 0; p < w->n; p++) {
    sn_ev_ctx *e = &w->procs[p];
    e->d = d;
    e->o = o;
    e->pool = o->pool;
    e->world = w;
    e->process = p;
    e->replica = p / partitions;
    e->partition = p % partitions;
    sn_eval_draws_init(&e->draws, o->seed); /* replicas draw the same numbers, as a compiled program does */
    if (o->draws && w->n == 1) e->draws = *o->draws;
  }
  return SN_OK;
}

void sn_ev_world_finish(sn_ev_world *w) {
  for (int p = 0; w->procs && p < w->n; p++) {
    sn_ev_unwind(&w->procs[p], NULL);
    sn_array_release(w->procs[p].result);
  }
  sn_ev_meetings_finish(w);
  sn_ev_letters_finish(w);
  if (w->plans) {
    const void *key;
    size_t bytes;
    uint64_t value;
    for (size_t k = 0; k < sn_map_slots(w->plans); k++)
      if (sn_map_at(w->plans, k, &key, &bytes, &value)) sn_free((void *)(uintptr_t)value);
  }
  sn_map_destroy(w->plans);
  sn_map_destroy(w->occurrences);
  sn_free(w->procs);
  memset(w, 0, sizeof *w);
}

static sn_status deadlock(const sn_ev_world *w) {
  const sn_ev_ctx *first = NULL;
  sn_diag *d = w->procs[0].d;
  for (int p = 0; p < w->n; p++) {
    const sn_ev_ctx *e = &w->procs[p];
    if (!e->top) continue;
    if (!first) {
      first = e;
      (void)sn_error(d, e->top->cur->loc, SN_ERR_DEADLOCK,
                     "%s (%s): process %d waits, and so does every other that still runs", e->top->cur->name,
                     sn_opcode_text(e->top->cur->op), p);
    } else {
      sn_note(d, e->top->cur->loc, "process %d waits in %s (%s)", p, e->top->cur->name,
              sn_opcode_text(e->top->cur->op));
    }
  }
  sn_hint(d, "collectives need every member of a group; a send needs its receive");
  return SN_ERR_DEADLOCK;
}

/* All processes in turn, each until it waits or ends. */
static sn_status world_run(sn_ev_world *w) {
  for (;;) {
    bool alive = false;
    uint64_t before = w->progress;
    for (int p = 0; p < w->n; p++) {
      sn_ev_ctx *e = &w->procs[p];
      if (!e->top) continue;
      SN_TRY(sn_ev_run(e, NULL));
      if (e->top)
        alive = true;
      else
        w->progress++;
    }
    if (!alive) return SN_OK;
    if (w->progress == before) return deadlock(w);
  }
}

static sn_status push_args(sn_ev_ctx *e, const sn_computation *c, int n, sn_array *const *args) {
  sn_array **own = sn_alloc_zero((size_t)n + 1, sizeof *own);
  if (!own) return sn_out_of_memory(e->d, (size_t)n * sizeof *own);
  for (int k = 0; k < n; k++) own[k] = sn_array_retain(args[k]);
  return sn_ev_push(e, c, n, own);
}

static sn_status check_args(sn_diag *d, const sn_computation *c, int n, sn_array *const *args, int process) {
  if ((uint32_t)n != c->n_params)
    return sn_error(d, c->loc, SN_ERR_USAGE, "%s takes %u arguments, got %d", c->name, (unsigned)c->n_params, n);
  for (int k = 0; k < n; k++) {
    const sn_instr *p = c->params[k];
    if (p && args[k] && sn_shape_equal(p->shape, sn_array_shape(args[k]), SN_EQ_IGNORE_DYNAMIC)) continue;
    sn_str want = {0}, got = {0};
    if (p) sn_shape_print(&want, p->shape, 0);
    if (args[k]) sn_shape_print(&got, sn_array_shape(args[k]), 0);
    sn_status s = sn_error(d, p ? p->loc : c->loc, SN_ERR_SHAPE, "argument %d of process %d: %s expects %s, got %s", k,
                           process, c->name, want.data ? want.data : "a parameter", got.data ? got.data : "nothing");
    sn_str_finish(&want);
    sn_str_finish(&got);
    return s;
  }
  return SN_OK;
}

static sn_status run_computation(sn_diag *d, const sn_computation *c, const sn_eval_options *o, int replicas,
                                 int partitions, int n, sn_array *const *args, sn_array **out) {
  sn_ev_world w;
  for (int p = 0; p < replicas * partitions; p++) {
    out[p] = NULL;
    SN_TRY(check_args(d, o->entries ? o->entries[p] : c, n, args ? args + (ptrdiff_t)p * n : NULL, p));
  }
  if (!c->root) return sn_error(d, c->loc, SN_ERR_VERIFY, "computation %s has no root", c->name);
  SN_TRY(world_create(d, c->module, o, replicas, partitions, &w));
  sn_status s = SN_OK;
  for (int p = 0; p < w.n && s == SN_OK; p++) s = push_args(&w.procs[p], o->entries ? o->entries[p] : c, n, n ? args + (ptrdiff_t)p * n : NULL);
  if (s == SN_OK) s = world_run(&w);
  for (int p = 0; p < w.n && s == SN_OK; p++) {
    out[p] = w.procs[p].result;
    w.procs[p].result = NULL;
  }
  if (o->draws && w.n == 1) *o->draws = w.procs[0].draws;
  sn_ev_world_finish(&w);
  return s;
}

static const sn_eval_options *options_or(const sn_eval_options *o, sn_eval_options *fallback) {
  sn_eval_options_init(fallback);
  if (!o) return fallback;
  size_t bytes = o->struct_size < sizeof *fallback ? o->struct_size : sizeof *fallback;
  memcpy(fallback, o, bytes); /* a caller of an older header has fewer fields */
  return fallback;
}

sn_status sn_eval_replicated(sn_diag *d, const sn_module *m, const sn_eval_options *o, int n, sn_array *const *args,
                             sn_array **out) {
  sn_eval_options own;
  const sn_eval_options *opt = options_or(o, &own);
  int64_t replicas = opt->replicas > 0 ? opt->replicas : m->replica_count > 0 ? m->replica_count : 1;
  int64_t partitions = opt->partitions > 0 ? opt->partitions : m->num_partitions > 0 ? m->num_partitions : 1;
  int64_t all = 0;
  if (!sn_mul_i64(replicas, partitions, &all) || all > 65536)
    return sn_error(d, SN_NOWHERE, SN_ERR_USAGE,
                    "%lld replicas x %lld partitions are more than this interpreter runs (65536)", (long long)replicas,
                    (long long)partitions);
  if (!m->entry) return sn_error(d, SN_NOWHERE, SN_ERR_VERIFY, "module %s has no entry computation", m->name);
  return run_computation(d, m->entry, opt, (int)replicas, (int)partitions, n, args, out);
}

sn_status sn_eval(sn_diag *d, const sn_module *m, const sn_eval_options *o, int n, sn_array *const *args,
                  sn_array **out) {
  sn_eval_options own;
  const sn_eval_options *opt = options_or(o, &own);
  *out = NULL;
  int64_t replicas = opt->replicas > 0 ? opt->replicas : m->replica_count;
  int64_t partitions = opt->partitions > 0 ? opt->partitions : m->num_partitions;
  if (replicas > 1 || partitions > 1) {
    (void)sn_error(d, SN_NOWHERE, SN_ERR_USAGE,
                   "module %s runs as %lld replicas x %lld partitions, but one process was asked for", m->name,
                   (long long)replicas, (long long)partitions);
    sn_hint(d,
            "sn_eval_replicated runs all of them; replicas = partitions = 1 in the options only if the module has one "
            "of each");
    return SN_ERR_USAGE;
  }
  return sn_eval_replicated(d, m, opt, n, args, out);
}

sn_status sn_eval_computation(sn_diag *d, const sn_computation *c, const sn_eval_options *o, int n,
                              sn_array *const *args, sn_array **out) {
  sn_eval_options own;
  *out = NULL;
  return run_computation(d, c, options_or(o, &own), 1, 1, n, args, out);
}

/* ---- one instruction for constant folding ---- */

static sn_status push_single(sn_ev_ctx *e, const sn_instr *i, sn_array *const *operands) {
  sn_ev_frame *f = sn_alloc_zero(1, sizeof *f);
  sn_array **in = sn_alloc_zero((size_t)i->n_operands + 1, sizeof *in);
  if (!f || !in) {
    sn_free(f);
    sn_free(in);
    return sn_out_of_memory(e->d, sizeof *f);
  }
  f->c = i->parent;
  f->cur = i;
  f->single = true;
  f->in = in;
  f->n_in = (int)i->n_operands;
  f->in_ready = true;
  for (int k = 0; k < f->n_in; k++) in[k] = sn_array_retain(operands[k]);
  e->top = f;
  e->depth = 1;
  return SN_OK;
}

sn_status sn_eval_instr(sn_diag *d, const sn_instr *i, const sn_eval_options *o, sn_array *const *operands,
                        sn_array **out) {
  sn_eval_options own;
  const sn_eval_options *opt = options_or(o, &own);
  sn_ev_world w;
  *out = NULL;
  if (i->op == SN_OP_PARAMETER)
    return sn_error(d, i->loc, SN_ERR_USAGE, "%s: a parameter has no value of its own", i->name);
  SN_TRY(world_create(d, i->parent ? i->parent->module : NULL, opt, 1, 1, &w));
  sn_status s = push_single(&w.procs[0], i, operands);
  if (s == SN_OK) s = world_run(&w);
  if (s == SN_OK) {
    *out = w.procs[0].result;
    w.procs[0].result = NULL;
  }
  sn_ev_world_finish(&w);
  return s;
}
