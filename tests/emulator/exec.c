/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Warps, blocks, launches. A block's warps run one after the other, each until it waits at a barrier or ends; blocks are shared by a few threads. */
#include "exec.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { QUANTUM = 1 << 20 }; /* instructions before another warp gets a turn: one may spin until another has done something */

/* ---- faults ---- */

static void instruction_text(const emu_ins *i, const emu_function *f, char *to, size_t bytes) {
  const char *at = f->module->text;
  for (uint32_t line = 1; at && line < i->line; line++) {
    at = strchr(at, '\n');
    if (at) at++;
  }
  snprintf(to, bytes, "%.*s", at ? (int)strcspn(at, ";\n") : 0, at ? at + strspn(at, " \t") : "");
  for (char *c = to; *c; c++) *c = *c == '\t' ? ' ' : *c;
}

void emu_fail(emu_warp *w, const emu_ins *i, int lane, int code, const char *fmt, ...) {
  emu_block *b = w->block;
  char what[300], text[120];
  if (b->fault.code) return;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  instruction_text(i, w->f, text, sizeof text);
  b->fault.code = code;
  snprintf(b->fault.text, sizeof b->fault.text, "%s, block %u,%u,%u, thread %u: %s\n  %s  (PTX line %u, kernel.cu:%u)", b->f->name, b->id[0], b->id[1], b->id[2],
           w->number * EMU_LANES + (uint32_t)lane, what, text, i->line, i->source_line);
}

/* ---- lanes that part and meet ---- */

static bool push(emu_warp *w, const emu_ins *i, emu_branch b) {
  if (w->depth == EMU_MAX_STACK) {
    emu_fail(w, i, 0, EMU_ERROR_LAUNCH_FAILED, "branches within branches, deeper than %d", EMU_MAX_STACK);
    return false;
  }
  w->stack[w->depth++] = b;
  return true;
}

static void leave_function(emu_warp *w) {
  const emu_function *callee = w->f;
  emu_frame *f = &w->frames[--w->calls];
  const emu_ins *call = &f->f->code[f->pc - 1];
  EMU_FOR_LANES(l, f->mask) {
    uint8_t *lane = w->local + (size_t)l * w->local_bytes;
    for (uint32_t k = 0; k < callee->n_results; k++) memcpy(lane + f->frame + call->list[k], lane + w->frame + callee->results[k].offset, callee->results[k].bytes);
  }
  w->f = f->f;
  w->registers = f->registers;
  w->constants = f->f->constants;
  w->pc = f->pc;
  w->meet = f->meet;
  w->mask = f->mask & w->live;
  w->depth = f->depth;
  w->frame = f->frame;
}

/* To the lanes that wait; false: none are left. */
static bool resume(emu_warp *w) {
  for (;;) {
    uint32_t base = w->calls ? w->frames[w->calls - 1].depth : 0;
    if (w->depth > base) {
      emu_branch b = w->stack[--w->depth];
      w->pc = b.pc;
      w->meet = b.meet;
      w->mask = b.mask & w->live;
    } else if (w->calls) {
      leave_function(w);
    } else {
      return false;
    }
    if (w->mask) return true;
  }
}

static void branch(emu_warp *w, const emu_ins *i, uint32_t taken) {
  uint32_t others = w->mask & ~taken, next = w->pc + 1;
  if (!others) {
    w->pc = i->target;
    return;
  }
  if (!taken) {
    w->pc = next;
    return;
  }
  w->block->counters.divergent_branches++;
  if (w->meet != i->meet && !push(w, i, (emu_branch){i->meet, w->meet, w->mask})) return;
  w->meet = i->meet;
  if (i->target == i->meet) {
    w->pc = next;
    w->mask = others;
  } else if (next == i->meet) {
    w->pc = i->target;
    w->mask = taken;
  } else if (push(w, i, (emu_branch){i->target, i->meet, taken})) {
    w->pc = next;
    w->mask = others;
  }
}

static void branch_indexed(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const uint32_t *index = EMU_AT(const uint32_t, i->s[0]);
  uint32_t left = mask, first = index[__builtin_ctz(mask)], same = 0;
  EMU_FOR_LANES(l, mask) {
    if (index[l] >= (uint64_t)i->offset) {
      emu_fail(w, i, (int)l, EMU_ERROR_INVALID_PC, "index %u of a table of %lld", index[l], (long long)i->offset);
      return;
    }
    same |= (uint32_t)(index[l] == first) << l;
  }
  if (same != mask && w->meet != i->meet && !push(w, i, (emu_branch){i->meet, w->meet, w->mask})) return;
  if (same != mask) w->meet = i->meet;
  for (left &= ~same; left;) {
    uint32_t at = index[__builtin_ctz(left)], these = 0;
    EMU_FOR_LANES(l, left) these |= (uint32_t)(index[l] == at) << l;
    if (i->targets[at] != i->meet && !push(w, i, (emu_branch){i->targets[at], i->meet, these})) return;
    left &= ~these;
  }
  w->pc = i->targets[first];
  w->mask = same;
}

static void call(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const emu_function *to = i->callee;
  uint32_t frame = w->frame + (w->f->frame_bytes + 15) / 16 * 16;
  if (w->calls == EMU_MAX_CALLS) {
    emu_fail(w, i, 0, EMU_ERROR_LAUNCH_FAILED, "calls within calls, deeper than %d", EMU_MAX_CALLS);
    return;
  }
  if (mask != w->mask) {
    if (!push(w, i, (emu_branch){w->pc + 1, w->meet, w->mask})) return;
    w->meet = w->pc + 1;
    w->mask = mask;
  }
  EMU_FOR_LANES(l, mask) {
    uint8_t *lane = w->local + (size_t)l * w->local_bytes;
    for (uint32_t k = 0; k < to->n_params; k++) memcpy(lane + frame + to->params[k].offset, lane + w->frame + i->list[to->n_results + k], to->params[k].bytes);
  }
  w->frames[w->calls++] = (emu_frame){w->f, w->registers, w->pc + 1, w->meet, mask, w->depth, w->frame};
  w->registers += w->f->register_bytes;
  w->constants = to->constants;
  w->f = to;
  w->frame = frame;
  w->pc = 0;
  w->meet = EMU_NOWHERE;
}

static void leave_lanes(emu_warp *w, uint32_t mask) {
  w->live &= ~mask;
  w->mask &= ~mask;
  w->pc++;
}

/* ---- registers that hold where a lane is ---- */

static uint64_t special(const emu_warp *w, uint8_t which, uint32_t l) {
  const emu_block *b = w->block;
  const emu_launch *n = b->launch;
  uint32_t thread = w->number * EMU_LANES + l;
  switch (which) {
    case EMU_TID_X: return thread % n->block[0];
    case EMU_TID_Y: return thread / n->block[0] % n->block[1];
    case EMU_TID_Z: return thread / n->block[0] / n->block[1];
    case EMU_NTID_X: case EMU_NTID_Y: case EMU_NTID_Z: return n->block[which - EMU_NTID_X];
    case EMU_CTAID_X: case EMU_CTAID_Y: case EMU_CTAID_Z: return b->id[which - EMU_CTAID_X];
    case EMU_NCTAID_X: case EMU_NCTAID_Y: case EMU_NCTAID_Z: return n->grid[which - EMU_NCTAID_X];
    case EMU_LANEID: return l;
    case EMU_WARPID: return w->number;
    case EMU_NWARPID: return b->n_warps;
    case EMU_LANEMASK_EQ: return 1u << l;
    case EMU_LANEMASK_LE: return (2ull << l) - 1;
    case EMU_LANEMASK_LT: return (1u << l) - 1;
    case EMU_LANEMASK_GE: return EMU_FULL << l;
    case EMU_LANEMASK_GT: return EMU_FULL - (uint32_t)((2ull << l) - 1);
    case EMU_NSMID: return 1;
    case EMU_DYNAMIC_SMEM: return b->dynamic_bytes;
    case EMU_TOTAL_SMEM: return b->dynamic_bytes + b->static_bytes;
    case EMU_CLOCK: case EMU_CLOCK64: return w->executed;
    case EMU_GLOBALTIMER: return (uint64_t)(sn_time() * 1e9);
    default: return 0;
  }
}

static void set_specials(emu_warp *w) {
  for (uint32_t k = 0; k < w->f->n_specials; k++) {
    const emu_special *s = &w->f->specials[k];
    bool wide = s->which == EMU_CLOCK64 || s->which == EMU_GLOBALTIMER;
    for (uint32_t l = 0; l < EMU_LANES; l++) {
      uint64_t v = special(w, s->which, l);
      memcpy(w->registers + s->slot + l * (wide ? 8 : 4), &v, wide ? 8 : 4);
    }
  }
}

/* ---- a warp ---- */

static void reach_barrier(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint32_t lane = (uint32_t)__builtin_ctz(mask);
  if (mask != w->live) {
    emu_fail(w, i, (int)lane, EMU_ERROR_ILLEGAL_INSTRUCTION, "a divergent barrier: lanes %08x of %08x are there", mask, w->live);
    return;
  }
  w->barrier = EMU_AT(uint32_t, i->s[0])[lane];
  w->barrier_count = i->s[1] == EMU_NOWHERE ? 0 : EMU_AT(uint32_t, i->s[1])[lane];
  if (w->barrier >= EMU_BARRIERS || w->barrier_count % EMU_LANES != 0) {
    emu_fail(w, i, (int)lane, EMU_ERROR_ILLEGAL_INSTRUCTION, "barrier %u for %u threads", w->barrier, w->barrier_count);
    return;
  }
  w->block->counters.barriers++;
  w->pc++;
  if (i->sub) {
    w->block->arrived[w->barrier] |= 1u << w->number;
    w->block->expected[w->barrier] = w->barrier_count;
  } else {
    w->waits = true;
  }
}

static void step(emu_warp *w, const emu_ins *i, uint32_t mask) {
  switch (i->kind) {
    case EMU_BRANCH: branch(w, i, mask); break;
    case EMU_INDEXED:
      if (mask) branch_indexed(w, i, mask);
      else w->pc++;
      break;
    case EMU_CALL:
      if (!mask) {
        w->pc++;
        break;
      }
      call(w, i, mask);
      if (!w->block->fault.code) set_specials(w);
      break;
    case EMU_RETURN:
      if (w->calls) {
        leave_function(w);
        if (!w->mask && !resume(w)) w->done = true;
      } else {
        leave_lanes(w, w->mask);
      }
      break;
    case EMU_EXIT: leave_lanes(w, mask); break;
    case EMU_BARRIER:
      if (mask) reach_barrier(w, i, mask);
      else w->pc++;
      break;
    default:
      if (mask) emu_fail(w, i, __builtin_ctz(mask), EMU_ERROR_ILLEGAL_INSTRUCTION, "a trap");
      w->pc++;
      break;
  }
}

/* Until the warp waits, ends, faults, or has had its turn. */
static void run_warp(emu_warp *w) {
  emu_block *b = w->block;
  uint64_t lanes = 0, until = w->executed + QUANTUM, began = w->executed;
  while (!b->fault.code && !w->waits && w->executed < until) {
    if (SN_UNLIKELY(w->pc == w->meet || !w->mask)) {
      if (!resume(w)) {
        w->done = true;
        break;
      }
      continue;
    }
    const emu_ins *i = &w->f->code[w->pc];
    uint32_t mask = w->mask;
    if (i->predicate != EMU_NOWHERE) mask &= emu_mask_at(w, i->predicate) ^ (i->negated ? EMU_FULL : 0);
    w->executed++;
    lanes += (uint64_t)__builtin_popcount(mask);
    if (SN_UNLIKELY(i->kind != EMU_PLAIN)) {
      step(w, i, mask);
      continue;
    }
    if (mask) i->run(w, i, mask);
    w->pc++;
  }
  b->counters.warp_instructions += w->executed - began;
  b->counters.lane_instructions += lanes;
}

/* ---- a block ---- */

static uint32_t block_stride(const emu_function *f) { return (f->stack_registers + 63) / 64 * 64; }

static void start_warp(emu_block *b, uint32_t k) {
  emu_warp *w = &b->warps[k];
  const emu_function *f = b->f;
  uint32_t left = b->n_threads - k * EMU_LANES;
  w->f = f;
  w->block = b;
  w->number = k;
  w->registers = b->registers + (size_t)k * block_stride(f);
  w->constants = f->constants;
  w->local_bytes = (f->stack_bytes + 63) / 64 * 64;
  w->local = b->local + (size_t)k * EMU_LANES * w->local_bytes;
  w->pc = w->depth = w->calls = w->frame = w->carry = 0;
  w->meet = EMU_NOWHERE;
  w->live = w->mask = left >= EMU_LANES ? EMU_FULL : (1u << left) - 1;
  w->waits = w->done = false;
  memset(w->known, 0, sizeof w->known);
  w->known[k] = 1;
  w->syncs = w->n_pending = w->group = 0;
  w->executed = 0;
  set_specials(w);
}

/* A barrier opens when all that it waits for are there: as many threads as it was given, else every warp that still runs. */
static bool open_barriers(emu_block *b) {
  bool opened = false;
  for (uint32_t id = 0; id < EMU_BARRIERS; id++) {
    uint32_t waiting = 0, running = 0, expected = b->expected[id];
    for (uint32_t k = 0; k < b->n_warps; k++) {
      const emu_warp *w = &b->warps[k];
      running |= (uint32_t)!w->done << k;
      if (w->done || !w->waits || w->barrier != id) continue;
      waiting |= 1u << k;
      if (w->barrier_count) expected = w->barrier_count;
    }
    uint32_t there = waiting | b->arrived[id];
    if (!waiting || (expected ? (uint32_t)__builtin_popcount(there) * EMU_LANES < expected : there != (there | running))) continue;
    emu_meet(b, there);
    EMU_FOR_LANES(k, waiting) b->warps[k].waits = false;
    b->arrived[id] = b->expected[id] = 0;
    opened = true;
  }
  return opened;
}

static void run_block(emu_block *b) {
  uint32_t shared = b->dynamic_bytes ? EMU_DYNAMIC_AT + b->dynamic_bytes : b->static_bytes;
  if (b->shared_written) memset(b->shared_written, 0, shared);
  if (b->grains) memset(b->grains, 0, ((size_t)shared + 1) * sizeof *b->grains);
  memset(b->arrived, 0, sizeof b->arrived);
  memset(b->expected, 0, sizeof b->expected);
  for (uint32_t k = 0; k < b->n_warps; k++) start_warp(b, k);
  for (uint32_t left = b->n_warps; left > 0 && !b->fault.code;) {
    bool ran = false;
    for (uint32_t k = 0; k < b->n_warps && !b->fault.code; k++) {
      emu_warp *w = &b->warps[k];
      if (w->done || w->waits) continue;
      run_warp(w);
      ran = true;
      left -= w->done;
      if (b->launch->limit && w->executed > b->launch->limit) emu_fail(w, &w->f->code[w->pc], 0, EMU_ERROR_TIMEOUT, "more than %llu instructions: it hangs", (unsigned long long)b->launch->limit);
    }
    if (left == 0 || b->fault.code) break;
    if (open_barriers(b) || ran) continue;
    for (uint32_t k = 0; k < b->n_warps; k++) {
      emu_warp *w = &b->warps[k];
      if (!w->done) emu_fail(w, &w->f->code[w->pc - 1], 0, EMU_ERROR_TIMEOUT, "waits at barrier %u for warps that never come", w->barrier);
    }
  }
  b->counters.blocks++;
}

/* ---- a launch ---- */

typedef struct launch_state {
  const emu_launch *l;
  atomic_ullong next;
  uint64_t n_blocks;
  atomic_bool stop;
  pthread_mutex_t lock;
  emu_counters counters;
  emu_fault fault;
} launch_state;

static void block_finish(emu_block *b) {
  for (uint32_t k = 0; b->warps && k < b->n_warps; k++) sn_free(b->warps[k].pending);
  sn_free(b->warps);
  sn_free_aligned(b->registers);
  sn_free_aligned(b->shared);
  sn_free(b->local);
  sn_free(b->shared_written);
  sn_free(b->grains);
}

static bool block_init(emu_block *b, const emu_launch *l) {
  const emu_function *f = l->function;
  const emu_settings *s = emu_settings_get();
  memset(b, 0, sizeof *b);
  b->launch = l;
  b->f = f;
  b->n_threads = l->block[0] * l->block[1] * l->block[2];
  b->n_warps = (b->n_threads + EMU_LANES - 1) / EMU_LANES;
  b->static_bytes = f->shared_bytes;
  b->dynamic_bytes = l->shared_bytes;
  size_t shared = b->dynamic_bytes ? EMU_DYNAMIC_AT + b->dynamic_bytes : b->static_bytes, registers = (size_t)b->n_warps * block_stride(f);
  b->warps = sn_alloc_zero(b->n_warps, sizeof *b->warps);
  b->registers = sn_alloc_aligned(64, registers + 64);
  b->shared = sn_alloc_aligned(128, shared + 128);
  b->local = sn_alloc_zero((size_t)b->n_warps * EMU_LANES, (f->stack_bytes + 63) / 64 * 64 + 64);
  if (s->check_uninitialised) b->shared_written = sn_alloc_zero(shared + 1, 1);
  if (s->check_races) b->grains = sn_alloc_zero(shared + 1, sizeof *b->grains);
  bool ok = b->warps && b->registers && b->shared && b->local && (!s->check_uninitialised || b->shared_written) && (!s->check_races || b->grains);
  if (!ok) {
    block_finish(b);
    return false;
  }
  memset(b->registers, 0, registers + 64);
  memset(b->shared, 0xff, shared + 128); /* what was never written is a NaN */
  return true;
}

static void add_counters(emu_counters *to, const emu_counters *from) {
  uint64_t *a = (uint64_t *)(void *)to;
  const uint64_t *b = (const uint64_t *)(const void *)from;
  for (size_t k = 0; k < sizeof *to / sizeof *a; k++) a[k] += b[k];
}

static uint64_t common_divisor(uint64_t a, uint64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Block k of n, in the order of this seed: multiplying by a number without a divisor in common with n goes through all of them. */
static uint64_t in_order(uint64_t seed, uint64_t k, uint64_t n) {
  if (seed == 0 || n < 2 || n > UINT32_MAX) return k;
  uint64_t step = (seed * 0x9e3779b97f4a7c15u >> 32) % n;
  while (common_divisor(step, n) != 1) step = (step + 1) % n;
  return (step * k + seed % n) % n;
}

static void run_blocks(launch_state *s, emu_block *b, uint64_t most) {
  const emu_launch *l = s->l;
  const uint64_t seed = emu_settings_get()->order;
  for (uint64_t n = 0; n < most && !atomic_load(&s->stop); n++) {
    uint64_t k = atomic_fetch_add(&s->next, 1);
    if (k >= s->n_blocks) break;
    k = in_order(seed, k, s->n_blocks);
    b->id[0] = (uint32_t)(k % l->grid[0]);
    b->id[1] = (uint32_t)(k / l->grid[0] % l->grid[1]);
    b->id[2] = (uint32_t)(k / l->grid[0] / l->grid[1]);
    run_block(b);
    if (b->fault.code) atomic_store(&s->stop, true);
  }
}

static void finish_worker(launch_state *s, emu_block *b) {
  pthread_mutex_lock(&s->lock);
  add_counters(&s->counters, &b->counters);
  if (b->fault.code && !s->fault.code) s->fault = b->fault;
  pthread_mutex_unlock(&s->lock);
  block_finish(b);
}

static void *worker(void *ctx) {
  launch_state *s = ctx;
  emu_block b;
  if (!block_init(&b, s->l)) return NULL; /* the others do it */
  run_blocks(s, &b, UINT64_MAX);
  finish_worker(s, &b);
  return NULL;
}

enum { MAX_THREADS = 16, WORTH_A_THREAD = 100000 };

bool emu_execute(const emu_launch *l, emu_counters *c, emu_fault *fault) {
  launch_state s = {.l = l, .n_blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2]};
  pthread_t threads[MAX_THREADS];
  int n = 0;
  emu_block b;
  pthread_mutex_init(&s.lock, NULL);
  if (!block_init(&b, l)) {
    *fault = (emu_fault){2, "no memory for a block"};
    return false;
  }
  run_blocks(&s, &b, 1); /* how long a block takes says whether threads are worth it */
  if (b.counters.warp_instructions * (s.n_blocks - 1) > WORTH_A_THREAD && !b.fault.code) {
    while (n < l->threads - 1 && n < MAX_THREADS && pthread_create(&threads[n], NULL, worker, &s) == 0) n++;
  }
  run_blocks(&s, &b, UINT64_MAX);
  finish_worker(&s, &b);
  while (n > 0) pthread_join(threads[--n], NULL);
  pthread_mutex_destroy(&s.lock);
  s.counters.launches = 1;
  add_counters(c, &s.counters);
  *fault = s.fault;
  return s.fault.code == 0;
}
