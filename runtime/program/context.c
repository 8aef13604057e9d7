/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Execution contexts: the memory of a run, made beforehand, and the walk over the commands. */
#include "program_internal.h"
#include "sinter/device.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Where a slice begins: bases[base] + offset. Bases: the arena, then constants, arguments, results. */
typedef struct place {
  uint32_t base;
  int64_t offset;
} place;

/* A phase as it will be run: into how many chunks its items are cut does not change from run to run. */
typedef struct phase_run {
  sn_kernel_fn fn;
  int64_t n_items, n_chunks; /* n_chunks 1: the caller's thread alone */
} phase_run;

struct sn_context {
  sn_program *program;
  sn_context_options options;
  uint8_t *arena;
  uint8_t *scratch; /* of all workers */
  int64_t scratch_stride, scratch_bytes;
  int n_workers;
  uint8_t **bases;
  place *places;          /* all commands' slices, one after the other */
  uint32_t *first_place;  /* by command */
  void **buffers;         /* of the running command */
  uint32_t *first_phase;  /* by kernel */
  phase_run *phases;
  bool *needed;           /* by argument, then result: does it have elements, so that its memory must be there? */
  atomic_bool cancelled;
  const sn_driver *driver; /* NULL: the host runs it */
  void *driver_state;
};

/* A phase that takes less than this runs on the caller's thread alone: waking a worker costs about as much. Longer ones are cut into pieces of at least CHUNK_NS. */
enum { PARALLEL_NS = 4000, CHUNK_NS = 1000, CHUNKS_A_WORKER = 8 };
/* Items from here on are claimed one by one: the last ones decide how long the slowest thread takes. */
enum { LONG_ITEM_NS = 20000 };
enum { LARGE_PAGE = 2 << 20 };

void sn_context_options_init(sn_context_options *o) {
  memset(o, 0, sizeof *o);
  o->struct_size = sizeof *o;
  o->n_devices = 1;
}

static uint32_t base_of(const sn_program *p, const sn_slice *s) {
  switch (s->kind) {
    case SN_ALLOCATION_ARENA: return 0;
    case SN_ALLOCATION_CONSTANT: return 1 + s->index;
    case SN_ALLOCATION_ARGUMENT: return 1 + p->n_constants + s->index;
    case SN_ALLOCATION_RESULT: return 1 + p->n_constants + p->n_arguments + s->index;
  }
  return 0;
}

static sn_status make_tables(sn_context *c) {
  const sn_program *p = c->program;
  size_t n_places = 0, most = 0;
  for (uint32_t i = 0; i < p->n_commands; i++) {
    n_places += p->commands[i].n_slices;
    if (p->commands[i].n_slices > most) most = p->commands[i].n_slices;
  }
  c->bases = sn_alloc_zero(1 + (size_t)p->n_constants + p->n_arguments + p->n_results, sizeof *c->bases);
  c->places = sn_alloc_zero(n_places + 1, sizeof *c->places);
  c->first_place = sn_alloc_zero(p->n_commands + 1u, sizeof *c->first_place);
  c->buffers = sn_alloc_zero(most + 1, sizeof *c->buffers);
  if (!c->bases || !c->places || !c->first_place || !c->buffers) return SN_ERR_MEMORY;
  uint32_t at = 0;
  for (uint32_t i = 0; i < p->n_commands; i++) {
    c->first_place[i] = at;
    for (uint32_t k = 0; k < p->commands[i].n_slices; k++) c->places[at++] = (place){base_of(p, &p->commands[i].slices[k]), p->commands[i].slices[k].offset};
  }
  for (uint32_t i = 0; i < p->n_constants; i++) c->bases[1 + i] = (uint8_t *)p->constants[i];
  return SN_OK;
}

/* Cut by counts and costs alone. */
static int64_t chunks_of(const sn_context *c, const sn_program_phase *f) {
  double ns = (double)f->cost_ns * (double)f->n_items; /* 0: unknown */
  if (c->n_workers == 1 || f->n_items <= 1 || (ns > 0 && ns < PARALLEL_NS)) return 1;
  int64_t most = (int64_t)c->n_workers * CHUNKS_A_WORKER;
  if (ns > 0 && ns < (double)most * CHUNK_NS) most = (int64_t)(ns / CHUNK_NS);
  return f->n_items < most || f->cost_ns >= LONG_ITEM_NS ? f->n_items : most;
}

static sn_status make_phases(sn_context *c) {
  const sn_program *p = c->program;
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->n_kernels; k++) n += (uint32_t)p->kernels[k].n_phases;
  c->first_phase = sn_alloc_zero(p->n_kernels + 1u, sizeof *c->first_phase);
  c->phases = sn_alloc_zero(n + 1u, sizeof *c->phases);
  if (!c->first_phase || !c->phases) return SN_ERR_MEMORY;
  n = 0;
  for (uint32_t k = 0; k < p->n_kernels; k++) {
    c->first_phase[k] = n;
    for (int f = 0; f < p->kernels[k].n_phases; f++) {
      const sn_program_phase *from = &p->kernels[k].phases[f];
      void *at = (uint8_t *)p->code + from->code_offset;
      c->phases[n] = (phase_run){NULL, from->n_items, chunks_of(c, from)};
      memcpy(&c->phases[n++].fn, &at, sizeof at);
    }
  }
  return SN_OK;
}

static sn_status find_needed(sn_diag *d, sn_context *c) {
  const sn_program *p = c->program;
  c->needed = sn_alloc_zero((size_t)p->n_arguments + p->n_results + 1, sizeof *c->needed);
  if (!c->needed) return sn_out_of_memory(d, (size_t)p->n_arguments + p->n_results);
  for (uint32_t i = 0; i < p->n_arguments + p->n_results; i++) {
    const sn_program_leaf *l = i < p->n_arguments ? &p->arguments[i] : &p->results[i - p->n_arguments];
    c->needed[i] = sn_shape_bytes(l->shape) != 0;
  }
  return SN_OK;
}

static sn_status make_memory(sn_diag *d, sn_context *c) {
  const sn_program *p = c->program;
  /* Scratch is what kernels count on to stay in caches: pages that lie together in them, which only large ones are sure to. */
  c->scratch_stride = (p->scratch_bytes + 4095) / 4096 * 4096 + 64;
  c->scratch_bytes = c->scratch_stride * c->n_workers;
  if (c->scratch_bytes >= LARGE_PAGE / 8 && c->scratch_bytes < LARGE_PAGE) c->scratch_bytes = LARGE_PAGE;
  if (p->arena_bytes && !(c->arena = sn_pages_alloc((size_t)p->arena_bytes))) return sn_out_of_memory(d, (size_t)p->arena_bytes);
  if (p->scratch_bytes && !(c->scratch = sn_pages_alloc((size_t)c->scratch_bytes))) return sn_out_of_memory(d, (size_t)c->scratch_bytes);
  c->bases[0] = c->arena;
  return SN_OK;
}

static sn_status make_on_device(sn_diag *d, sn_context *c) {
  const char *name = c->program->device;
  c->driver = sn_driver_find(name);
  if (!c->driver) return sn_error(d, (sn_loc){sn_program_name(c->program), 0, 0}, SN_ERR_UNAVAILABLE, "the program is for '%s', for which there is no driver here", name);
  return c->driver->create(d, c->program, &c->options, &c->driver_state);
}

static sn_status make_on_host(sn_diag *d, sn_context *c) {
  SN_TRY(sn_program_check_isa(d, sn_program_name(c->program), c->program));
  if (make_tables(c) != SN_OK || make_phases(c) != SN_OK) return sn_out_of_memory(d, sizeof *c->places);
  return make_memory(d, c);
}

sn_status sn_context_create(sn_diag *d, sn_program *p, const sn_context_options *o, sn_context **out) {
  *out = NULL;
  sn_context *c = sn_alloc_zero(1, sizeof *c);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  sn_context_options_init(&c->options);
  if (o) memcpy(&c->options, o, o->struct_size && o->struct_size < sizeof c->options ? o->struct_size : sizeof c->options);
  c->program = sn_program_retain(p);
  c->n_workers = sn_pool_threads(c->options.pool);
  sn_status s = find_needed(d, c);
  if (s == SN_OK) s = p->device ? make_on_device(d, c) : make_on_host(d, c);
  if (s != SN_OK) sn_context_destroy(c);
  else *out = c;
  return s;
}

void sn_context_destroy(sn_context *c) {
  if (!c) return;
  if (c->driver_state) c->driver->destroy(c->driver_state);
  if (c->arena) sn_pages_free(c->arena, (size_t)c->program->arena_bytes);
  if (c->scratch) sn_pages_free(c->scratch, (size_t)c->scratch_bytes);
  sn_free(c->bases);
  sn_free(c->places);
  sn_free(c->first_place);
  sn_free(c->buffers);
  sn_free(c->first_phase);
  sn_free(c->phases);
  sn_free(c->needed);
  sn_program_release(c->program);
  sn_free(c);
}

void sn_context_cancel(sn_context *c) {
  atomic_store(&c->cancelled, true);
  if (c->driver) c->driver->cancel(c->driver_state);
}

/* ---- kernels ---- */

typedef struct launch {
  sn_context *c;
  sn_kernel_fn fn;
  void *const *buffers;
  int64_t n_items, n_chunks;
} launch;

static void run_chunk(void *ctx, int64_t chunk, int worker) {
  const launch *l = ctx;
  sn_kernel_env env = {l->buffers, l->c->scratch ? l->c->scratch + worker * l->c->scratch_stride : NULL, sn_imports()};
  /* Cut so that the boundaries depend on the counts alone. */
  int64_t each = l->n_items / l->n_chunks, more = l->n_items % l->n_chunks;
  int64_t begin = chunk * each + (chunk < more ? chunk : more);
  l->fn(&env, begin, begin + each + (chunk < more));
}

static void run_phase(sn_context *c, const phase_run *f) {
  launch l = {c, f->fn, c->buffers, f->n_items, f->n_chunks};
  if (f->n_items <= 0) return;
  if (f->n_chunks == 1) run_chunk(&l, 0, 0);
  else sn_pool_run(c->options.pool, l.n_chunks, run_chunk, &l);
}

static void run_kernel(sn_context *c, const sn_command *m) {
  const phase_run *f = &c->phases[c->first_phase[m->kernel]];
  for (int n = c->program->kernels[m->kernel].n_phases; n > 0; n--) run_phase(c, f++);
}

/* ---- the walk ---- */

static void fill(void *to, int64_t bytes, uint64_t pattern, uint32_t width) {
  uint8_t *p = to;
  if (width == 1) {
    memset(p, (int)(pattern & 0xff), (size_t)bytes);
    return;
  }
  for (int64_t i = 0; i + width <= bytes; i += width) memcpy(p + i, &pattern, width);
}

static void bind_buffers(sn_context *c, uint32_t i) {
  const place *p = &c->places[c->first_place[i]];
  for (uint32_t k = 0; k < c->program->commands[i].n_slices; k++) c->buffers[k] = (void *)((uintptr_t)c->bases[p[k].base] + (size_t)p[k].offset); /* empty arrays have no address */
}

static sn_status run_range(sn_diag *d, sn_context *c, uint32_t first, uint32_t n);

static sn_status run_while(sn_diag *d, sn_context *c, uint32_t i) {
  const sn_command *m = &c->program->commands[i];
  for (;;) {
    SN_TRY(run_range(d, c, m->ranges[0].first, m->ranges[0].n));
    bind_buffers(c, i);
    if (!*(const uint8_t *)c->buffers[0]) return SN_OK;
    SN_TRY(run_range(d, c, m->ranges[1].first, m->ranges[1].n));
  }
}

static sn_status run_conditional(sn_diag *d, sn_context *c, uint32_t i) {
  const sn_command *m = &c->program->commands[i];
  int32_t index;
  if (m->index_is_pred) {
    index = *(const uint8_t *)c->buffers[0] ? 0 : 1;
  } else {
    memcpy(&index, c->buffers[0], sizeof index);
  }
  /* HLO: an index out of range takes the last branch. */
  if (index < 0 || index >= (int32_t)m->n_ranges) index = (int32_t)m->n_ranges - 1;
  return run_range(d, c, m->ranges[index].first, m->ranges[index].n);
}

static sn_status run_custom(sn_diag *d, sn_context *c, const sn_command *m) {
  sn_loc loc = {m->name, 0, 0};
  bool foreign = m->kind == SN_COMMAND_CUSTOM_CALL || m->kind == SN_COMMAND_INTERPRET;
  if (foreign && c->options.custom_call) return c->options.custom_call(c->options.custom_call_ctx, d, m, c->buffers);
  if (m->kind == SN_COMMAND_INTERPRET) return sn_error(d, loc, SN_ERR_UNSUPPORTED, "the instruction has no code, and nothing here interprets it");
  return sn_error(d, loc, SN_ERR_UNSUPPORTED, "nothing here runs the call to %s", m->target ? m->target : "an unnamed target");
}

static sn_status run_command(sn_diag *d, sn_context *c, uint32_t i) {
  const sn_command *m = &c->program->commands[i];
  bind_buffers(c, i);
  switch (m->kind) {
    case SN_COMMAND_KERNEL: run_kernel(c, m); return SN_OK;
    case SN_COMMAND_COPY: memmove(c->buffers[0], c->buffers[1], (size_t)m->slices[0].bytes); return SN_OK;
    case SN_COMMAND_FILL: fill(c->buffers[0], m->slices[0].bytes, m->pattern, m->pattern_bytes); return SN_OK;
    case SN_COMMAND_WHILE: return run_while(d, c, i);
    case SN_COMMAND_CONDITIONAL: return run_conditional(d, c, i);
    default: return run_custom(d, c, m);
  }
}

static uint32_t command_end(const sn_command *m, uint32_t i) {
  return m->n_ranges ? m->ranges[m->n_ranges - 1].first + m->ranges[m->n_ranges - 1].n : i + 1;
}

/* Nesting is bounded by SN_MAX_NESTING, which the reader checks. */
static sn_status run_range(sn_diag *d, sn_context *c, uint32_t first, uint32_t n) {
  const sn_program *p = c->program;
  for (uint32_t i = first; i < first + n; i = command_end(&p->commands[i], i)) {
    if (SN_UNLIKELY(atomic_load_explicit(&c->cancelled, memory_order_relaxed))) {
      sn_loc loc = {p->commands[i].name, 0, 0};
      return sn_error(d, loc, SN_ERR_CANCELLED, "the run was cancelled");
    }
    if (!c->options.on_command) {
      SN_TRY(run_command(d, c, i));
      continue;
    }
    double start = sn_time();
    SN_TRY(run_command(d, c, i));
    c->options.on_command(c->options.on_command_ctx, i, &p->commands[i], sn_time() - start);
  }
  return SN_OK;
}

/* Generated code counts on the default floating-point state, the caller may have another. */
static unsigned enter_default_fp(void) {
#if defined(__x86_64__)
  unsigned old = _mm_getcsr();
  _mm_setcsr(0x1f80);
  return old;
#else
  return 0;
#endif
}

static void leave_default_fp(unsigned old) {
#if defined(__x86_64__)
  _mm_setcsr(old);
#else
  (void)old;
#endif
}

static sn_status check_pointers(sn_diag *d, const sn_context *c, void *const *arguments, void *const *results) {
  const sn_program *p = c->program;
  sn_loc loc = {sn_program_name(p), 0, 0};
  for (uint32_t i = 0; i < p->n_arguments + p->n_results; i++) {
    bool is_result = i >= p->n_arguments;
    uint32_t k = is_result ? i - p->n_arguments : i;
    const void *at = is_result ? results[k] : arguments[k];
    const sn_program_leaf *l = is_result ? &p->results[k] : &p->arguments[k];
    if (!c->needed[i]) continue;
    if (!at || (uintptr_t)at % 64) return sn_error(d, loc, SN_ERR_USAGE, "%s %u: memory %s", is_result ? "result" : "argument", k, at ? "is not 64-byte aligned" : "is missing");
    if (is_result && l->alias_of >= 0 && arguments[l->alias_of] != at) {
      return sn_error(d, loc, SN_ERR_USAGE, "result %u shares argument %lld: both must be bound to the same memory", k, (long long)l->alias_of);
    }
  }
  return SN_OK;
}

sn_status sn_context_run(sn_diag *d, sn_context *c, void *const *arguments, void *const *results) {
  const sn_program *p = c->program;
  SN_TRY(check_pointers(d, c, arguments, results));
  if (c->driver) return c->driver->run(d, c->driver_state, arguments, results);
  uint8_t **bases = c->bases + 1 + p->n_constants;
  for (uint32_t i = 0; i < p->n_arguments; i++) bases[i] = arguments[i];
  for (uint32_t i = 0; i < p->n_results; i++) bases[p->n_arguments + i] = results[i];
  unsigned fp = enter_default_fp();
  sn_status s = run_range(d, c, 0, p->n_commands);
  leave_default_fp(fp);
  atomic_store_explicit(&c->cancelled, false, memory_order_relaxed);
  return s;
}

sn_program *sn_context_program(const sn_context *c) { return c->program; }
