/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The modelled step: what each launch does, read from its loops, and how long a machine is taken to need for it. Nothing here is measured.
 *
 *   maths    products: the multiprocessor with most items decides (waves), at the share of gpu_rates.def; other operations at half the rate of multiply-adds
 *   memory   each element of each argument once, however often it is loaded, at the share of heroes.def and as far as the launch's threads can ask for it
 *   L2       every load and store that is made
 *   time     the longest of these, the launch, and what the last block does alone where it finishes what others began */
#include "emit.h"

#include <string.h>

#include "sinter/cost.h"
#include "sinter/gpu_cost.h"

/* Threads of a multiprocessor that keep its share of memory busy, with some 16 bytes each on their way; asynchronous copies have 80 bytes a stage of 64 x 256 or more on theirs, up to
 * three stages, so that a thread counts as so many. */
enum { FILLING_THREADS = 512, THREADS_OF_A_COPY = 8 };

/* ---- what a phase does ---- */

typedef struct walk {
  const sn_kernel *k;
  sn_gpu_work *w;
  double *loaded, *stored; /* elements, by buffer, as often as they are touched */
  double *read;            /* bytes, by buffer, that the launch has read so far */
} walk;

static double trips(const sn_knode *n) {
  int64_t span = n->hi->hi - n->lo->lo; /* a loop that some items leave early counts in full */
  return span <= 0 || n->step <= 0 ? 0 : (double)((span + n->step - 1) / n->step);
}

static double weight(const sn_knode *n) {
  if (sn_op_has(n->hlo, SN_T_TRANS)) return 14;
  return n->hlo == SN_OP_DIVIDE || n->hlo == SN_OP_SQRT ? 4 : n->hlo == SN_OP_RSQRT ? 6 : 1;
}

static void contraction(walk *x, const sn_kcontract *c, double times) {
  double flops = 2.0 * c->mr * c->nr * (double)c->k->hi * times;
  bool tensor = gpu_tensor_terms(x->k, c) > 0;
  if (flops == 0) return;
  x->w->products += flops;
  x->w->spent += flops / sn_gpu_tile_share(tensor, c->mr, c->nr);
  x->w->rows = c->mr;
  x->w->columns = c->nr;
  x->w->tensor |= tensor;
  x->w->operand_bytes = (int)sn_type_bytes(x->k->buffers[c->a.buffer].type);
}

/* Of a node's iterations, those that its guards let through, as if each guarded value came equally often. */
static double share_under(const sn_knode *n) {
  double share = 1;
  for (int g = 0; g < n->n_guards; g++) {
    const sn_ix_guard *q = &n->guards[g];
    double lo = (double)(q->lo > q->e->lo ? q->lo : q->e->lo), hi = (double)(q->hi < q->e->hi ? q->hi : q->e->hi);
    share *= hi < lo ? 0 : (hi - lo + 1) / ((double)q->e->hi - (double)q->e->lo + 1);
  }
  return share;
}

static void region(walk *x, const sn_kregion *r, double times) {
  for (const sn_knode *n = r->first; n; n = n->next) {
    double inside = times;
    switch (n->op) {
      case SN_K_LOAD: x->loaded[n->buffer] += times; break;
      case SN_K_STORE: x->stored[n->buffer] += times; break;
      case SN_K_ATOMIC:
        x->loaded[n->buffer] += times;
        x->stored[n->buffer] += times;
        break;
      case SN_K_COPY:
        x->w->ahead |= n->copy->async;
        x->loaded[n->copy->from.buffer] += times * (double)n->copy->m->hi * (double)n->copy->n->hi * share_under(n);
        x->stored[n->copy->to.buffer] += times * (double)n->copy->m->hi * (double)n->copy->n->hi;
        break;
      case SN_K_ELT: x->w->ops += times * weight(n); break;
      case SN_K_FMA: x->w->ops += times * 2; break;
      case SN_K_CONTRACT: contraction(x, n->contract, times); break;
      case SN_K_FOR: inside = times * trips(n); break;
      default: break;
    }
    for (int k = 0; k < n->n_regions; k++) region(x, n->regions[k], inside);
  }
}

static double smaller(double a, double b) { return a < b ? a : b; }
static double larger(double a, double b) { return a > b ? a : b; }

static double n_items(const sn_kphase *p) {
  double n = 1;
  for (int g = 0; g < p->n_grid; g++) n *= (double)p->grid[g];
  return n;
}

/* What several phases read is read once, where half of L2 holds it meanwhile. */
static void phase_work(walk *x, const sn_target *t, const sn_kphase *p, double *alone) {
  const sn_kernel *k = x->k;
  double moved = x->w->moved, products = x->w->products;
  memset(x->loaded, 0, (size_t)k->n_buffers * sizeof *x->loaded);
  memset(x->stored, 0, (size_t)k->n_buffers * sizeof *x->stored);
  region(x, p->body, n_items(p));
  for (int b = 0; b < k->n_buffers; b++) {
    if (k->buffers[b].memory > SN_KMEM_WORK) continue;
    double each = (double)sn_type_bytes(k->buffers[b].type), all = (double)sn_kbuffer_bytes(&k->buffers[b]), read = smaller(x->loaded[b] * each, all);
    bool kept = k->buffers[b].memory == SN_KMEM_IN && t->l2_bytes > 0 && 2 * all <= (double)t->l2_bytes;
    x->w->bytes += kept ? larger(0, read - x->read[b]) : read;
    x->read[b] = larger(x->read[b], read);
    x->w->bytes += smaller(x->stored[b] * each, all);
    x->w->moved += (x->loaded[b] + x->stored[b]) * each;
  }
  if (x->w->products > products) x->w->product_items += (int64_t)n_items(p);
  *alone = p->finishes ? *alone + (x->w->moved - moved) / n_items(p) : 0;
  x->w->alone = larger(x->w->alone, *alone);
}

sn_status sn_gpu_phase_work(sn_arena *a, const sn_target *t, const sn_kernel *k, const sn_gpu_phase *p, sn_gpu_work *out) {
  walk x = {k, out, SN_NEW_N(a, double, k->n_buffers + 1), SN_NEW_N(a, double, k->n_buffers + 1), SN_NEW_N(a, double, k->n_buffers + 1)};
  double alone = 0;
  memset(out, 0, sizeof *out);
  if (!x.loaded || !x.stored || !x.read) return SN_ERR_MEMORY;
  out->items = p->items;
  for (int f = 0; f < p->n; f++) phase_work(&x, t, &k->phases[p->first + f], &alone);
  return SN_OK;
}

/* ---- how long that takes ---- */

static double products_us(const sn_target *t, const sn_gpu_work *w, double share) {
  double cores = t->cores > 0 ? t->cores : 100, items = (double)w->product_items, waves = (double)((int64_t)((items + cores - 1) / cores));
  double rate = w->tensor ? sn_gpu_tensor_rate(t, share, w->operand_bytes) : t->fma_gflops * 1e3;
  return w->spent / items * waves * cores / rate;
}

double sn_gpu_phase_us(const sn_target *t, const sn_gpu_work *w, const sn_gpu_phase *p, double share, const char **bound) {
  double cores = t->cores > 0 ? t->cores : 100, at_once = p->resident > 0 ? smaller((double)p->blocks, cores * p->resident) : (double)p->blocks, threads = p->threads * at_once;
  double maths = (w->products > 0 ? products_us(t, w, share) : 0) + w->ops / (t->fma_gflops * 1e3 / 2) / larger(1e-3, smaller(1, threads / (cores * 128)));
  double memory = w->bytes / (t->memory_gbs * 1e3 * 0.85) / larger(1e-3, smaller(1, threads * (w->ahead ? THREADS_OF_A_COPY : 1) / (cores * FILLING_THREADS)));
  double cache = w->moved / (sn_gpu_cache_rate(t)), longest = larger(maths, larger(memory, cache));
  *bound = longest <= t->launch_us ? "launch" : longest == maths ? "maths" : longest == memory ? "memory" : "L2";
  return longest + w->alone / sn_gpu_block_rate(t) + t->launch_us;
}
