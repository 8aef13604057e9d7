/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a launch runs: parts beside each other, each a phase whose items its blocks go through, and the phases that finish it.
 *
 *   int block = blockIdx.x;
 *   if (block < 264) {                                   two parts that do the same with other buffers: written once
 *     const int part = block / 132;
 *     const float *const p1 = part == 0 ? in1 : in4;
 *     for (int item = block % 132; item < 132; item += 132) { … }
 *   } else if ((block -= 264) < 24) {
 *     for (int item = block; item < 24; item += 24) { … }
 *   }
 */
#include "emit.h"

#include <string.h>

int64_t gpu_items(const sn_kphase *p) {
  int64_t n = 1;
  for (int g = 0; g < p->n_grid; g++) n *= p->grid[g];
  return n;
}

/* ---- parts that do the same ---- */

/* Adds what the phase at `at` and the one at `other` have at equal places; false: they do different things, or a buffer would stand for two. */
static bool add_places(gpu_emit *e, int at, int other, int *buffer) {
  sn_kphase_key a, b;
  const sn_kphase *p = &e->k->phases[at], *q = &e->k->phases[other];
  if (p->finishes != q->finishes || p->n_grid != q->n_grid) return false;
  if (sn_kphase_key_of(e->arena, e->k, at, &a) != SN_OK || sn_kphase_key_of(e->arena, e->k, other, &b) != SN_OK) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return false;
  }
  if (a.n_bytes != b.n_bytes || a.n_buffers != b.n_buffers || memcmp(a.bytes, b.bytes, a.n_bytes) != 0) return false;
  for (int k = 0; k < a.n_buffers; k++) {
    int *to = &buffer[a.buffers[k]];
    if (*to >= 0 && *to != b.buffers[k]) return false;
    *to = b.buffers[k];
  }
  return true;
}

void gpu_find_like(gpu_emit *e, gpu_part *parts, int p) {
  for (int o = 0; o < p && e->status == SN_OK; o++) {
    if (parts[o].like != o || parts[o].n != parts[p].n || parts[o].items != parts[p].items) continue;
    int *buffer = SN_NEW_N(e->arena, int, e->k->n_buffers + 1);
    if (!buffer) {
      gpu_fail(e, SN_ERR_MEMORY, NULL);
      return;
    }
    memset(buffer, 0xff, (size_t)e->k->n_buffers * sizeof *buffer);
    bool same = true;
    for (int f = 0; f < parts[p].n && same; f++) same = add_places(e, parts[o].first + f, parts[p].first + f, buffer);
    if (!same) continue;
    parts[p].like = o;
    parts[p].buffer = buffer;
    return;
  }
}

/* ---- items ---- */

/* Grid variables from the number of an item, of which there are `items`; `inner` items differ in what lies inside of them alone. */
static void grid_variables(gpu_emit *e, const sn_kphase *p, int64_t items, int64_t inner) {
  for (int g = p->n_grid - 1; g >= 0; g--) {
    e->dim64[g] = p->grid[g] > (1 << 30);
    const char *x = inner == 1 ? "item" : gpu_text(e, "item / %lld", (long long)inner);
    if (p->grid[g] == 1) x = "0";
    else if (g > 0) x = gpu_text(e, inner == 1 ? "%s %% %lld" : "(%s) %% %lld", x, (long long)p->grid[g]);
    gpu_line(e, "const %s d%d = %s%s%s;", e->dim64[g] ? "long long" : "int", g, items > (1 << 29) && !e->dim64[g] ? "(int)(" : "", x,
             items > (1 << 29) && !e->dim64[g] ? ")" : "");
    inner *= p->grid[g];
  }
}

static void open_items(gpu_emit *e, const gpu_part *p, bool alone, int n_like) {
  const char *type = p->items > (1 << 29) ? "long long" : "int";
  long long items = p->items, blocks = p->blocks;
  if (e->item_per_thread) gpu_line(e, "for (%s item = blockIdx.x * %d + lane; item < %lld; item += gridDim.x * %d) {", type, e->threads, items, e->threads);
  else if (alone) gpu_line(e, "for (%s item = blockIdx.x; item < %lld; item += gridDim.x) {", type, items);
  else if (n_like > 1) gpu_line(e, "for (%s item = block %% %lld; item < %lld; item += %lld) {", type, blocks, items, blocks);
  else gpu_line(e, "for (%s item = block; item < %lld; item += %lld) {", type, items, blocks);
  e->depth++;
}

/* The phase behind p, which finishes it: each item by the block that is the last one to be done with what it needs. Every thread's stores are seen by all before the
 * block takes a ticket; whoever draws the last one sets the counter back to zero. */
static void open_finish(gpu_emit *e, sn_gpu_phase *out, const gpu_part *part, const sn_kphase *p, const sn_kphase *f, int n_like) {
  int64_t items = gpu_items(f), inner = part->items / items, members = gpu_items(p) / items;
  const char *group = inner == 1 ? "item" : items == 1 ? "0" : gpu_text(e, "item / %lld", (long long)inner);
  if (n_like > 1) group = gpu_text(e, "part * %lld + %s", (long long)items, group);
  gpu_line(e, "__threadfence();");
  gpu_barrier(e);
  gpu_line(e, "if (lane == 0) sn_last = atomicInc(&tickets[%lld + %s], %lldu) == %lldu;", (long long)out->n_tickets, group, (long long)members - 1, (long long)members - 1);
  gpu_barrier(e);
  gpu_line(e, "if (sn_last) {");
  e->depth++;
  gpu_line(e, "__threadfence();");
  out->n_tickets += items * n_like;
  grid_variables(e, f, part->items, inner);
}

static void run_items(gpu_emit *e, sn_gpu_phase *out, const gpu_part *part, bool alone, int n_like) {
  const sn_kphase *p = &e->k->phases[part->first];
  bool hot = part->n > 1;
  int depth = e->depth;
  e->lane = e->item_per_thread;
  gpu_find_hot(e, p->body);
  for (int b = 0; b < e->k->n_buffers; b++) hot |= e->buffers[b].hot && e->buffers[b].home != HOME_GLOBAL;
  open_items(e, part, alone, n_like);
  if (hot && part->blocks < part->items) gpu_barrier(e);
  grid_variables(e, p, part->items, 1);
  gpu_region(e, p->body);
  for (int f = 1; f < part->n; f++) {
    open_finish(e, out, part, &p[f - 1], &p[f], n_like);
    gpu_find_hot(e, p[f].body);
    gpu_region(e, p[f].body);
  }
  while (e->depth > depth) {
    e->depth--;
    gpu_line(e, "}");
  }
}

/* ---- parts ---- */

static int count_like(const gpu_part *parts, int n, int p) {
  int like = 0;
  for (int o = p; o < n; o++) like += parts[o].like == p;
  return like;
}

/* `const float *const p1 = part == 0 ? in1 : part == 1 ? in4 : in7;` for each argument in which the parts differ. */
static void choose_buffers(gpu_emit *e, const gpu_part *parts, int n, int p, const gpu_buffer *names) {
  for (int b = 0; b < e->k->n_buffers; b++) {
    const sn_kbuffer *kb = &e->k->buffers[b];
    if (kb->memory > SN_KMEM_WORK) continue;
    const char *all = NULL, *former = NULL;
    bool differ = false, constant = kb->memory == SN_KMEM_IN;
    for (int o = n - 1, at = count_like(parts, n, p) - 1; o >= p; o--) {
      if (parts[o].like != p) continue;
      int buffer = o == p ? b : parts[o].buffer[b];
      if (buffer < 0) break; /* not one of theirs */
      constant &= e->k->buffers[buffer].memory == SN_KMEM_IN;
      differ |= buffer != b;
      former = names[buffer].name;
      all = all ? gpu_text(e, "part == %d ? %s : %s", at, former, all) : former;
      at--;
    }
    if (!differ || !all) continue;
    gpu_line(e, "%s%s *const p%d = %s;", constant ? "const " : "", gpu_memory_type(kb->type), b, all);
    snprintf(e->buffers[b].name, sizeof e->buffers[b].name, "p%d", b);
  }
}

static void run_like(gpu_emit *e, sn_gpu_phase *out, const gpu_part *parts, int n, int p, int n_like) {
  const gpu_buffer *names = sn_arena_copy(e->arena, e->buffers, (size_t)e->k->n_buffers * sizeof *names);
  if (!names) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return;
  }
  if (n_like > 1) {
    gpu_line(e, "const int part = block / %lld;", (long long)parts[p].blocks);
    choose_buffers(e, parts, n, p, names);
  }
  run_items(e, out, &parts[p], false, n_like);
  for (int b = 0; b < e->k->n_buffers; b++) memcpy(e->buffers[b].name, names[b].name, sizeof names[b].name);
}

void gpu_parts(gpu_emit *e, sn_gpu_phase *out, const gpu_part *parts, int n) {
  int64_t before = 0;
  if (n == 1) run_items(e, out, &parts[0], true, 1);
  else gpu_line(e, "int block = blockIdx.x;");
  for (int p = 0; p < n && n > 1 && e->status == SN_OK; p++) {
    int n_like = parts[p].like == p ? count_like(parts, n, p) : 0;
    int64_t blocks = n_like * parts[p].blocks;
    if (n_like == 0) continue;
    if (p == 0) gpu_line(e, "if (block < %lld) {", (long long)blocks);
    else gpu_line(e, "} else if ((block -= %lld) < %lld) {", (long long)before, (long long)blocks);
    e->depth++;
    run_like(e, out, parts, n, p, n_like);
    e->depth--;
    before = blocks;
  }
  if (n > 1) gpu_line(e, "}");
  e->depth = 0;
  gpu_line(e, "}");
}
