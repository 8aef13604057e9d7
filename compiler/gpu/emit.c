/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A kernel as one CUDA C translation unit: a __global__ function for each launch. */
#include "emit.h"

#include <stdarg.h>
#include <string.h>

enum { SHARED_RESERVE = 1024, SMALL_TILE_BYTES = 1024, ITEM_THREADS = 128, STATIC_SHARED = 48 << 10 };

/* ---- text ---- */

sn_status gpu_fail(gpu_emit *e, sn_status s, const char *fmt, ...) {
  if (e->status != SN_OK) return e->status;
  e->status = s;
  if (s == SN_ERR_MEMORY || !fmt) return s == SN_ERR_MEMORY ? sn_out_of_memory(e->d, 1) : s;
  char message[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  return sn_error(e->d, (sn_loc){e->k->name, 0, 0}, s, "%s: %s", e->k->name, message);
}

void gpu_line(gpu_emit *e, const char *fmt, ...) {
  char *text;
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  text = n >= 0 ? sn_arena_alloc(e->arena, (size_t)n + 1) : NULL;
  if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  if (!text) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return;
  }
  /* Preprocessor lines begin in the first column. */
  for (int i = 0; text[0] != '#' && i < e->depth; i++) sn_str_add(&e->out, "  ");
  sn_str_add(&e->out, text);
  sn_str_char(&e->out, '\n');
}

const char *gpu_text(gpu_emit *e, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *text = n >= 0 ? sn_arena_alloc(e->arena, (size_t)n + 1) : NULL;
  if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  if (text) return text;
  gpu_fail(e, SN_ERR_MEMORY, NULL);
  return "0";
}

const char *gpu_name(gpu_emit *e, const sn_kvalue *v) {
  if (e->names[v->id]) return e->names[v->id];
  gpu_fail(e, SN_ERR_INTERNAL, "v%u is used before it is defined", v->id);
  return "0";
}

/* ---- what a phase holds ---- */

typedef struct survey {
  int lanes;                    /* of the widest vector loop; 0: none */
  bool whole_block;             /* nodes that need all threads */
  const sn_kcontract *spread[256]; /* by buffer: the contraction whose sums are spread over registers */
  int private_loop[256];        /* by buffer: 0 untouched, -1 shared between lanes, else 1 + the lane loop's variable, or 1 << 20 for the whole block */
  int by_thread[256];           /* by buffer: 0 untouched, 1 each thread touches the part that its number names, -1 not so */
  int first[256], last[256];    /* by buffer: nodes of the phase's body between which it is alive */
  int loaded[256], multiplied[256]; /* by buffer: loads of elements; contractions that read it, -1: not on tensor cores */
  int node;                     /* of the body that is being looked at */
  int thread_var;               /* of the open loop over threads; -1: none */
} survey;

enum { WHOLE = 1 << 20 };

static void survey_touch(const gpu_emit *e, survey *s, int buffer, int where) {
  if (buffer >= 256 || buffer >= e->k->n_buffers) return;
  int *p = &s->private_loop[buffer];
  if (*p == 0) s->first[buffer] = s->node;
  s->last[buffer] = s->node;
  *p = *p == 0 || *p == where ? where : -1;
}

static void survey_access(const gpu_emit *e, survey *s, const sn_knode *n, int where) {
  survey_touch(e, s, n->buffer, where);
  if (n->buffer >= 256) return;
  const sn_kbuffer *b = &e->k->buffers[n->buffer];
  bool own = s->thread_var >= 0 && n->n_at > 1 && b->dims[0] == SPREAD_THREADS && n->at[0]->kind == SN_IX_DIM && n->at[0]->value == s->thread_var && n->op != SN_K_ATOMIC;
  int *p = &s->by_thread[n->buffer];
  *p = own && *p >= 0 ? 1 : -1;
  s->loaded[n->buffer] += n->op != SN_K_STORE;
}

static void survey_operand(const gpu_emit *e, survey *s, const sn_kcontract *c, int buffer) {
  survey_touch(e, s, buffer, -1);
  if (buffer >= 256) return;
  s->by_thread[buffer] = -1;
  int *p = &s->multiplied[buffer];
  *p = gpu_tensor_terms(e->k, c) == GPU_TF32_TERMS && *p >= 0 ? *p + 1 : -1;
}

static void survey_copied(const gpu_emit *e, survey *s, int buffer) {
  survey_touch(e, s, buffer, -1);
  if (buffer < 256) s->by_thread[buffer] = s->multiplied[buffer] = -1;
}

static void survey_region(const gpu_emit *e, survey *s, const sn_kregion *r, int where) {
  for (const sn_knode *n = r->first; n; n = n->next) {
    int inside = where;
    if (where == WHOLE && !r->parent) s->node++;
    if (n->op == SN_K_LOAD || n->op == SN_K_STORE) survey_access(e, s, n, where);
    if (n->op == SN_K_ATOMIC) survey_access(e, s, n, -1);
    if (n->op == SN_K_CONTRACT) {
      int acc = n->contract->acc.buffer;
      s->whole_block = true;
      if (acc < 256 && gpu_spread_fits(e, n->contract)) s->spread[acc] = n->contract;
      survey_operand(e, s, n->contract, acc);
      survey_operand(e, s, n->contract, n->contract->a.buffer);
      survey_operand(e, s, n->contract, n->contract->b.buffer);
    }
    if (n->op == SN_K_COPY) {
      s->whole_block = true;
      survey_copied(e, s, n->copy->to.buffer);
      survey_copied(e, s, n->copy->from.buffer);
    }
    if (n->op == SN_K_FOR && (n->loop == SN_KLOOP_VECTOR || n->loop == SN_KLOOP_THREADS || n->loop == SN_KLOOP_WARPS)) {
      int width = n->loop == SN_KLOOP_VECTOR ? n->width : 256;
      if (where == WHOLE && width > s->lanes) s->lanes = width;
      if (where == WHOLE) inside = n->loop == SN_KLOOP_WARPS ? -1 : 1 + n->var;
    }
    int outer = s->thread_var;
    if (n->op == SN_K_FOR && n->loop == SN_KLOOP_THREADS && where == WHOLE) s->thread_var = n->var;
    for (int k = 0; k < n->n_regions; k++) survey_region(e, s, n->regions[k], inside);
    s->thread_var = outer;
  }
}

/* ---- homes of buffers ---- */

static bool is_argument(const sn_kbuffer *b) { return b->memory <= SN_KMEM_WORK; }

static int64_t tile_bytes(const sn_kbuffer *b) { return (sn_kbuffer_bytes(b) + 15) / 16 * 16; }

static bool touched(const survey *s, int b) { return b < 256 && s->private_loop[b] != 0; }

/* The lowest place in shared memory where nothing lies that is alive at the same time. */
static int64_t shared_place(const gpu_emit *e, const survey *s, int b, int64_t bytes) {
  int64_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int o = 0; o < b && o < 256; o++) {
      const gpu_buffer *g = &e->buffers[o];
      if (g->home != HOME_SHARED || s->last[o] < s->first[b] || s->last[b] < s->first[o]) continue;
      if (at + bytes <= g->offset || g->offset + g->bytes <= at) continue;
      at = g->offset + g->bytes;
      moved = true;
    }
  }
  return at;
}

/* Tiles of one thread's own use are its array; the others lie in shared memory while they fit, else in the block's slice of scratch. */
static void place_tiles(gpu_emit *e, const survey *s, sn_gpu_phase *p) {
  int64_t limit = (e->target->l1_bytes ? e->target->l1_bytes : STATIC_SHARED) - SHARED_RESERVE - 16 * (int64_t)e->threads, shared = 0, slice = 0;
  for (int b = 0; b < e->k->n_buffers; b++) {
    const sn_kbuffer *kb = &e->k->buffers[b];
    gpu_buffer *g = &e->buffers[b];
    if (is_argument(kb)) continue;
    g->operand = false;
    int64_t bytes = tile_bytes(kb);
    bool alone = b < 256 && s->private_loop[b] >= 0 && bytes <= SMALL_TILE_BYTES && (kb->memory == SN_KMEM_REGISTER || e->item_per_thread);
    if (b < 256 && s->spread[b] && e->threads == 256) {
      g->home = HOME_SPREAD;
      g->tensor = gpu_tensor_terms(e->k, s->spread[b]) > 0;
    } else if (b < 256 && s->by_thread[b] == 1 && e->threads == SPREAD_THREADS && kb->memory == SN_KMEM_REGISTER) {
      g->home = HOME_THREAD;
    } else if (!touched(s, b) || alone) {
      g->home = HOME_PRIVATE;
    } else if (b < 256 && shared_place(e, s, b, bytes) + bytes <= limit) {
      g->offset = shared_place(e, s, b, bytes);
      g->bytes = bytes;
      g->home = HOME_SHARED;
      g->operand = s->multiplied[b] > 0 && s->loaded[b] == 0;
      if (g->offset + bytes > shared) shared = g->offset + bytes;
    } else {
      g->home = HOME_SLICE;
      g->offset = slice;
      slice += (bytes + 255) / 256 * 256;
    }
  }
  p->shared_bytes = shared;
  p->scratch_bytes = slice; /* of a block, until the grid is known */
}

static int64_t small_tiles(const gpu_emit *e, const survey *s) {
  int64_t sum = 0;
  for (int b = 0; b < e->k->n_buffers; b++) {
    if (!is_argument(&e->k->buffers[b]) && touched(s, b)) sum += tile_bytes(&e->k->buffers[b]);
  }
  return sum;
}

/* Tiles keep the names that a template gave them, where they are the only ones of that name. */
static bool has_own_name(const gpu_emit *e, int b) {
  const char *name = e->k->buffers[b].name;
  if (e->k->buffers[b].memory <= SN_KMEM_WORK || !name || !*name || strlen(name) >= sizeof e->buffers->name) return false;
  for (const char *c = name; *c; c++) {
    if ((*c < 'a' || *c > 'z') && *c != '_') return false;
  }
  static const char *const taken[] = {"lane", "item", "scratch", "slice", "row", "column", "product", "sum", "was", "seen", "old", "next", "q", "k", "a", "b", "i", "j", "r", "s", "x"};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
    if (strcmp(name, taken[i]) == 0) return false;
  }
  for (int o = 0; o < e->k->n_buffers; o++) {
    const sn_kbuffer *other = &e->k->buffers[o];
    if (o != b && other->memory > SN_KMEM_WORK && other->name && strcmp(other->name, name) == 0) return false;
  }
  return true;
}

static void name_buffers(gpu_emit *e) {
  static const char *const prefixes[SN_KMEM_COUNT] = {"in", "out", "io", "work", "reg", "tile"};
  for (int b = 0; b < e->k->n_buffers; b++) {
    gpu_buffer *g = &e->buffers[b];
    if (has_own_name(e, b)) snprintf(g->name, sizeof g->name, "%s", e->k->buffers[b].name);
    else snprintf(g->name, sizeof g->name, "%s%d", prefixes[e->k->buffers[b].memory], b);
    g->home = HOME_GLOBAL;
  }
}

/* ---- a phase ---- */

static void declare_tiles(gpu_emit *e, const sn_gpu_phase *p, const survey *s) {
  if (p->shared_bytes) gpu_line(e, "extern __shared__ __align__(16) unsigned char sn_shared[];");
  if (p->scratch_bytes) gpu_line(e, "unsigned char *const slice = scratch + (long long)blockIdx.x * %lldLL;", (long long)p->scratch_bytes);
  for (int b = 0; b < e->k->n_buffers; b++) {
    const sn_kbuffer *kb = &e->k->buffers[b];
    const gpu_buffer *g = &e->buffers[b];
    const char *type = gpu_memory_type(kb->type);
    if (is_argument(kb) || !touched(s, b)) continue;
    if (g->home == HOME_SPREAD) gpu_line(e, "%s %s[%d];", type, g->name, gpu_spread_registers(kb));
    else if (g->home == HOME_THREAD) gpu_line(e, "%s %s[%lld];", type, g->name, (long long)(sn_kbuffer_bytes(kb) / (int64_t)sn_type_bytes(kb->type) / SPREAD_THREADS));
    else if (g->home == HOME_PRIVATE) gpu_line(e, "%s %s[%lld];", type, g->name, (long long)(sn_kbuffer_bytes(kb) / (int64_t)sn_type_bytes(kb->type)));
    else gpu_line(e, "%s *const %s = (%s *)(%s + %lld);", type, g->name, type, g->home == HOME_SHARED ? "sn_shared" : "slice", (long long)g->offset);
  }
}

/* Blocks of a launch: all items where they are few, else enough to fill the device a few times over; each then strides through the items. */
static int64_t grid_blocks(const gpu_emit *e, int64_t items, const sn_gpu_phase *p) {
  int64_t cores = e->target->cores > 0 ? e->target->cores : 100, resident = 2048 / p->threads < 32 ? 2048 / p->threads : 32;
  int64_t most = cores * resident * 4, blocks = e->item_per_thread ? (items + p->threads - 1) / p->threads : items;
  if (p->scratch_bytes) most = cores;
  return blocks < 1 ? 1 : blocks < most ? blocks : most;
}

static void signature(gpu_emit *e, sn_str *to, const sn_gpu_phase *p) {
  bool comma = false;
  sn_str_printf(to, "extern \"C\" __global__ void __launch_bounds__(%d%s)\n%s(", p->threads, e->schedule == SN_GPU_AS_IS ? "" : ", 1", p->entry);
  for (int b = 0; b < e->k->n_buffers; b++) {
    const sn_kbuffer *kb = &e->k->buffers[b];
    if (!is_argument(kb)) continue;
    sn_str_printf(to, "%s%s%s *%s", comma ? ", " : "", kb->memory == SN_KMEM_IN ? "const " : "", gpu_memory_type(kb->type), e->buffers[b].name);
    comma = true;
  }
  if (p->scratch_bytes) sn_str_printf(to, "%sunsigned char *scratch", comma ? ", " : "");
  if (p->n_tickets) sn_str_printf(to, "%sunsigned int *tickets", comma || p->scratch_bytes ? ", " : "");
  sn_str_add(to, ") {\n");
  if (p->n_tickets) sn_str_add(to, "  __shared__ int sn_last;\n");
  if (e->tree_bytes) sn_str_printf(to, "  __shared__ __align__(16) unsigned char sn_tree_values[%lld];\n", (long long)e->tree_bytes);
}

static bool takes_threads(const survey *s) { return s->lanes > 0 || s->whole_block; }
static int threads_for(const survey *s) { return s->lanes > 32 ? s->lanes : s->whole_block ? 128 : 32; }

static survey *survey_phases(gpu_emit *e, survey *s, int first, int n) {
  if (!s && !(s = SN_NEW(e->arena, survey))) gpu_fail(e, SN_ERR_MEMORY, NULL);
  if (!s) return NULL;
  s->thread_var = -1;
  for (int f = first; f < first + n; f++) survey_region(e, s, e->k->phases[f].body, WHOLE);
  return s;
}

static int n_finishing(const sn_kernel *k, int first) {
  int n = 1;
  while (first + n < k->n_phases && k->phases[first + n].finishes) n++;
  return n;
}

/* The phases that one launch runs, from out->first on: those beside each other whose blocks have as many threads. */
static int find_parts(gpu_emit *e, sn_gpu_phase *out, gpu_part *parts) {
  int n = 0, at = out->first, threads = 0;
  do {
    gpu_part *p = &parts[n];
    *p = (gpu_part){at, n_finishing(e->k, at), gpu_items(&e->k->phases[at]), 0, n, NULL};
    const survey *s = survey_phases(e, NULL, p->first, p->n);
    if (!s || (n && (!takes_threads(s) || threads_for(s) != threads))) break;
    threads = takes_threads(s) ? threads_for(s) : 0;
    at += p->n;
    n++;
  } while (n < GPU_MOST_PARTS && at < e->k->n_phases && e->k->phases[at].beside && threads);
  out->n = at - out->first;
  return n;
}

static void emit_phases(gpu_emit *e, sn_gpu_phase *out, sn_str *to) {
  gpu_part parts[GPU_MOST_PARTS];
  survey *s = NULL;
  int n = find_parts(e, out, parts);
  for (int p = 0; p < n && e->status == SN_OK; p++) {
    gpu_find_like(e, parts, p);
    if (parts[p].like == p) s = survey_phases(e, s, parts[p].first, parts[p].n);
  }
  if (e->status != SN_OK) return;
  name_buffers(e);
  out->entry = gpu_text(e, "%s_%d", e->names[e->k->n_values], out->first);
  out->registers = out->spill_bytes = out->static_shared_bytes = out->local_bytes = -1;
  e->item_per_thread = out->n == 1 && !takes_threads(s) && small_tiles(e, s) <= SMALL_TILE_BYTES;
  e->threads = out->threads = e->item_per_thread ? ITEM_THREADS : threads_for(s);
  e->tree_bytes = 0;
  place_tiles(e, s, out);
  for (int p = 0; p < n; p++) {
    out->items += parts[p].items;
    out->blocks += parts[p].blocks = grid_blocks(e, parts[p].items, out);
  }
  sn_str_clear(&e->out);
  e->depth = 1;
  gpu_line(e, "const int lane = threadIdx.x;");
  declare_tiles(e, out, s);
  gpu_parts(e, out, parts, n);
  out->scratch_bytes *= out->blocks;
  sn_str_char(to, '\n');
  signature(e, to, out);
  if (!e->out.failed && e->out.data) sn_str_add(to, e->out.data);
  else gpu_fail(e, SN_ERR_MEMORY, NULL);
}

/* ---- the unit ---- */

/* The HLO name as a C identifier, after a prefix that keeps it clear of C's and CUDA's names. */
static const char *identifier(gpu_emit *e, const char *name) {
  char *text = sn_arena_printf(e->arena, "k_%s", name);
  for (char *c = text; c && *c; c++) {
    bool ok = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_';
    if (!ok) *c = '_';
  }
  if (!text) gpu_fail(e, SN_ERR_MEMORY, NULL);
  return text;
}

static void heading(const gpu_emit *e, sn_str *to) {
  sn_str_printf(to, "/* %s for %s.\n", e->k->name, e->target->name);
  for (int b = 0; b < e->k->n_buffers; b++) {
    const sn_kbuffer *kb = &e->k->buffers[b];
    if (!is_argument(kb)) continue;
    sn_str_printf(to, " *   %s: %s[", e->buffers[b].name, sn_type_text(kb->type));
    for (int k = 0; k < kb->rank; k++) sn_str_printf(to, k ? ",%lld" : "%lld", (long long)kb->dims[k]);
    sn_str_printf(to, "]%s%s\n", kb->name ? " " : "", kb->name ? kb->name : "");
  }
  sn_str_add(to, " */\n");
}

static sn_status emit_unit(gpu_emit *e, sn_gpu_kernel *out, sn_str *unit, sn_str *phases) {
  e->names[e->k->n_values] = identifier(e, e->k->name);
  for (int p = 0; p < e->k->n_phases && e->status == SN_OK; p += out->phases[out->n_phases++].n) {
    sn_gpu_phase *launch = &out->phases[out->n_phases];
    launch->first = p;
    emit_phases(e, launch, phases);
  }
  if (e->status != SN_OK) return e->status;
  name_buffers(e);
  heading(e, unit);
  if (phases->data) {
    gpu_add_helpers(unit, phases->data);
    sn_str_add(unit, phases->data);
  }
  if (phases->failed || unit->failed) return sn_out_of_memory(e->d, 1);
  out->source = sn_arena_string(e->arena, unit->data);
  return out->source ? SN_OK : sn_out_of_memory(e->d, unit->n);
}

sn_status sn_gpu_emit(sn_diag *d, sn_arena *a, const sn_kernel *k, const sn_target *t, sn_gpu_schedule schedule, sn_gpu_kernel *out) {
  sn_str unit = {0}, phases = {0};
  gpu_emit e;
  memset(out, 0, sizeof *out);
  memset(&e, 0, sizeof e);
  e.d = d;
  e.arena = a;
  e.k = k;
  e.target = t;
  e.schedule = schedule;
  out->schedule = schedule;
  e.thread_var = -1;
  e.buffers = SN_NEW_N(a, gpu_buffer, k->n_buffers + 1);
  e.names = SN_NEW_N(a, const char *, (size_t)k->n_values + 1);
  e.dim64 = SN_NEW_N(a, bool, k->n_vars + 1);
  e.sym64 = SN_NEW_N(a, bool, k->n_syms + 1);
  out->phases = SN_NEW_N(a, sn_gpu_phase, k->n_phases + 1);
  if (!e.buffers || !e.names || !e.dim64 || !e.sym64 || !out->phases) return sn_out_of_memory(d, sizeof e);
  sn_status s = emit_unit(&e, out, &unit, &phases);
  sn_str_finish(&unit);
  sn_str_finish(&phases);
  sn_str_finish(&e.out);
  return s;
}
