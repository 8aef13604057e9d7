/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sums of a block's contraction, spread over the registers of its 256 threads.
 *
 *   plain sums     thread t holds rows t / 16 + 16 r, columns t % 16 + 16 c: what a warp reads of a tile are whole rows, or one element for many
 *   tensor cores   2 x 4 warps; a warp's part is cut in tiles of 16 x 8, whose four values lie as PTX says: rows g, g + 8, columns 2 q, 2 q + 1, with g = t % 32 / 4, q = t % 4
 *
 * A load of one of them is only possible where its index expressions name, for every thread, a register of that thread; that is checked by trying all of them. */
#include "emit.h"

#include <string.h>

static bool is_constant(const sn_ix *e, int64_t v) { return e->kind == SN_IX_CONST && e->value == v; }

bool gpu_spread_fits(const gpu_emit *e, const sn_kcontract *c) {
  const sn_kbuffer *b = &e->k->buffers[c->acc.buffer];
  int64_t most = b->type == SN_TYPE_F64 ? 64 : 144; /* registers of a thread */
  if (b->memory != SN_KMEM_REGISTER || b->rank != 2 || b->strides || b->dims[0] % 32 || b->dims[1] % 32 || gpu_spread_registers(b) > most) return false;
  if (c->mr != b->dims[0] || c->nr != b->dims[1] || !is_constant(c->m, c->mr) || !is_constant(c->n, c->nr) || c->k->kind != SN_IX_CONST) return false;
  int mma = gpu_tensor_terms(e->k, c);
  if (b->type != SN_TYPE_F32 && (b->type != SN_TYPE_F64 || mma)) return false;
  if (mma && c->k->value % mma) return false;
  return is_constant(c->acc.at[0], 0) && is_constant(c->acc.at[1], 0) && c->acc.stride[0] == b->dims[1] && c->acc.stride[1] == 1;
}

int gpu_spread_registers(const sn_kbuffer *b) { return (int)(b->dims[0] * b->dims[1] / SPREAD_THREADS); }

/* ---- which register ---- */

/* Owner and register of sums[i, j]. */
static void owner_of(const gpu_buffer *g, const sn_kbuffer *b, int64_t i, int64_t j, int64_t *thread, int64_t *slot) {
  if (!g->tensor) {
    *thread = i % 16 * 16 + j % 16;
    *slot = i / 16 * (b->dims[1] / 16) + j / 16;
    return;
  }
  int64_t rows = b->dims[0] / 2, columns = b->dims[1] / 4, warp = i / rows * 4 + j / columns, wi = i % rows, wj = j % columns;
  *thread = warp * 32 + wi % 8 * 4 + wj % 8 / 2;
  *slot = (wi / 16 * (columns / 8) + wj / 8) * 4 + wi % 16 / 8 * 2 + wj % 2;
}

/* The variables beside the thread's: three at most, loops with constant bounds. */
typedef struct slot_variables {
  int n, var[3];
  int64_t size[3];
  bool fine;
} slot_variables;

static void find_variables(const sn_ix *e, int thread_var, slot_variables *v) {
  if (e->kind == SN_IX_SYM || e->kind == SN_IX_LOAD) v->fine = false;
  if (e->kind == SN_IX_DIM && e->value != thread_var) {
    for (int k = 0; k < v->n; k++) {
      if (v->var[k] == (int)e->value) return;
    }
    if (v->n == 3 || e->hi > 255) {
      v->fine = false;
      return;
    }
    v->var[v->n] = (int)e->value;
    v->size[v->n++] = e->hi + 1;
  }
  if (e->a) find_variables(e->a, thread_var, v);
  if (e->b) find_variables(e->b, thread_var, v);
}

/* Register that thread t would need for the variables' values x; -1: it is another thread's. */
static int64_t needed(const gpu_emit *e, const sn_knode *load, const slot_variables *v, int64_t *dims, int t, const int64_t *x) {
  const sn_kbuffer *b = &e->k->buffers[load->buffer];
  int64_t at[2], thread, slot;
  dims[e->thread_var] = t;
  for (int k = 0; k < v->n; k++) dims[v->var[k]] = x[k];
  for (int k = 0; k < 2; k++) {
    at[k] = sn_ix_eval(load->at[k], dims, NULL);
    if (at[k] < 0 || at[k] >= b->dims[k]) return -1;
  }
  owner_of(&e->buffers[load->buffer], b, at[0], at[1], &thread, &slot);
  return thread == t ? slot : -1;
}

/* Do all values of the variables, for all threads, need the register that the steps say? */
static bool steps_hold(const gpu_emit *e, const sn_knode *load, const slot_variables *v, int64_t *dims, const int64_t *step) {
  int64_t x[3];
  for (int t = 0; t < SPREAD_THREADS; t++) {
    for (x[0] = 0; x[0] < v->size[0]; x[0]++) {
      for (x[1] = 0; x[1] < v->size[1]; x[1]++) {
        for (x[2] = 0; x[2] < v->size[2]; x[2]++) {
          if (needed(e, load, v, dims, t, x) != x[0] * step[0] + x[1] * step[1] + x[2] * step[2]) return false;
        }
      }
    }
  }
  return true;
}

/* The register's number as text, a sum of multiples of the variables; NULL: the load asks for another thread's sums, or the number is no such sum. */
const char *gpu_spread_slot(gpu_emit *e, const sn_knode *load) {
  slot_variables v = {.fine = e->thread_var >= 0, .size = {1, 1, 1}};
  int64_t *dims = SN_NEW_N(e->arena, int64_t, e->k->n_vars + 1), x[3] = {0, 0, 0}, step[3] = {0, 0, 0};
  const char *text = NULL;
  if (!dims) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return NULL;
  }
  for (int k = 0; k < 2; k++) find_variables(load->at[k], e->thread_var, &v);
  if (!v.fine || v.n == 0 || needed(e, load, &v, dims, 0, x) != 0) return NULL;
  for (int k = 0; k < v.n; k++) {
    x[k] = v.size[k] > 1;
    step[k] = needed(e, load, &v, dims, 0, x);
    x[k] = 0;
  }
  if (!steps_hold(e, load, &v, dims, step)) return NULL;
  for (int k = 0; k < v.n; k++) {
    const char *term = step[k] == 1 ? gpu_text(e, "d%d", v.var[k]) : gpu_text(e, "d%d * %lld", v.var[k], (long long)step[k]);
    text = text ? gpu_text(e, "%s + %s", text, term) : term;
  }
  return text;
}

/* ---- the step ---- */

static const char *scaled(gpu_emit *e, const char *x, int64_t stride) { return stride == 1 ? x : gpu_text(e, "(%s) * %lld", x, (long long)stride); }

const char *gpu_tile_at(gpu_emit *e, const sn_ktile *t, const char *i, const char *j) {
  const char *base = gpu_offset(e, t->buffer, t->at), *text = gpu_text(e, "%s + %s", scaled(e, i, t->stride[0]), scaled(e, j, t->stride[1]));
  return gpu_element(e, t->buffer, strcmp(base, "0") == 0 ? text : gpu_text(e, "(%s) + %s", base, text));
}

static void clear(gpu_emit *e, const char *sums, int n) {
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "for (int r = 0; r < %d; r++) %s[r] = 0;", n, sums);
}

static void plain_step(gpu_emit *e, const sn_kcontract *c, const char *sums) {
  int rows = c->mr / 16, columns = c->nr / 16;
  const char *type = gpu_value_type(e->k->buffers[c->acc.buffer].type), *fma = strcmp(type, "double") == 0 ? "fma" : "fmaf";
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "for (int k = 0; k < %lld; k++) {", (long long)c->k->value);
  gpu_line(e, "  %s a[%d], b[%d];", type, rows, columns);
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "  for (int r = 0; r < %d; r++) a[r] = %s;", rows, gpu_tile_at(e, &c->a, "lane / 16 + 16 * r", "k"));
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "  for (int s = 0; s < %d; s++) b[s] = %s;", columns, gpu_tile_at(e, &c->b, "k", "lane % 16 + 16 * s"));
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "  for (int r = 0; r < %d; r++)", rows);
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "    for (int s = 0; s < %d; s++) %s[r * %d + s] = %s(a[r], b[s], %s[r * %d + s]);", columns, sums, columns, fma, sums, columns);
  gpu_line(e, "}");
}

void gpu_spread_contract(gpu_emit *e, const sn_kcontract *c) {
  const char *sums = e->buffers[c->acc.buffer].name;
  if (!c->accumulate) clear(e, sums, gpu_spread_registers(&e->k->buffers[c->acc.buffer]));
  if (c->k->value == 0) return;
  gpu_line(e, "{");
  e->depth++;
  if (gpu_tensor_terms(e->k, c)) gpu_tensor_step(e, c, sums);
  else plain_step(e, c, sums);
  e->depth--;
  gpu_line(e, "}");
}
