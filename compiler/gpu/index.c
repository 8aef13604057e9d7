/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Index expressions as C. 32 bits wherever the ranges say that all of it fits; division and remainder of numbers that cannot be negative are unsigned. */
#include "emit.h"

#include <string.h>

/* Loop variables run past their end by up to one stride of the block before the loop notices. */
static bool fits32(int64_t lo, int64_t hi) { return lo >= -(INT64_C(1) << 30) && hi <= (INT64_C(1) << 30); }

bool gpu_index_is64(const gpu_emit *e, const sn_ix *x) {
  switch (x->kind) {
    case SN_IX_CONST: return !fits32(x->value, x->value);
    case SN_IX_DIM: return e->dim64[x->value];
    case SN_IX_SYM: return e->sym64[x->value];
    case SN_IX_LOAD: return true;
    default: return !fits32(x->lo, x->hi) || gpu_index_is64(e, x->a) || gpu_index_is64(e, x->b);
  }
}

static const char *operand(gpu_emit *e, const sn_ix *x, bool wide) {
  const char *text = gpu_index(e, x);
  if (!wide || gpu_index_is64(e, x)) return text;
  if (x->kind == SN_IX_CONST) return gpu_text(e, "%sLL", text);
  return gpu_text(e, "(long long)%s", text);
}

static const char *divided(gpu_emit *e, const sn_ix *x, bool wide) {
  bool is_div = x->kind == SN_IX_DIV;
  const char *a = operand(e, x->a, wide);
  const char *fn = x->a->lo >= 0 ? (is_div ? "sn_div" : "sn_mod") : (is_div ? "sn_floor_div" : "sn_floor_mod");
  return gpu_text(e, "%s(%s, %lld%s)", fn, a, (long long)x->b->value, wide ? "LL" : "");
}

static const char *sum(gpu_emit *e, const sn_ix *x, bool wide) {
  const char *a = operand(e, x->a, wide);
  if (x->b->kind == SN_IX_CONST && x->b->value < 0 && x->b->value > INT64_MIN) return gpu_text(e, "(%s - %lld%s)", a, (long long)-x->b->value, wide ? "LL" : "");
  if (x->b->kind == SN_IX_MUL && x->b->b->kind == SN_IX_CONST && x->b->b->value == -1) return gpu_text(e, "(%s - %s)", a, operand(e, x->b->a, wide));
  return gpu_text(e, "(%s + %s)", a, operand(e, x->b, wide));
}

const char *gpu_index(gpu_emit *e, const sn_ix *x) {
  bool wide = gpu_index_is64(e, x);
  switch (x->kind) {
    case SN_IX_CONST: return gpu_text(e, wide ? "%lldLL" : "%lld", (long long)x->value);
    case SN_IX_DIM: return gpu_text(e, "d%lld", (long long)x->value);
    case SN_IX_SYM: return gpu_text(e, "s%lld", (long long)x->value);
    case SN_IX_ADD: return sum(e, x, wide);
    case SN_IX_MUL: return gpu_text(e, "%s * %s", operand(e, x->a, wide), operand(e, x->b, wide));
    case SN_IX_DIV:
    case SN_IX_MOD: return divided(e, x, wide);
    case SN_IX_MIN: return gpu_text(e, "sn_min(%s, %s)", operand(e, x->a, wide), operand(e, x->b, wide));
    case SN_IX_MAX: return gpu_text(e, "sn_max(%s, %s)", operand(e, x->a, wide), operand(e, x->b, wide));
    case SN_IX_LOAD: break;
  }
  gpu_fail(e, SN_ERR_INTERNAL, "a loaded index is still in an expression");
  return "0";
}

/* Elements from the buffer's start; expressions are summed as index expressions, so that what can be simplified is. */
const sn_ix *gpu_offset_index(gpu_emit *e, int buffer, const sn_ix *const *at) {
  const sn_kbuffer *b = &e->k->buffers[buffer];
  sn_ix_context *x = e->k->ix;
  const sn_ix *all = sn_ix_const(x, 0);
  int64_t row = 1;
  int first = e->buffers[buffer].home == HOME_THREAD; /* which thread: its own */
  for (int k = b->rank - 1; k >= first; k--) {
    if (b->dims[k] != 1 || b->strides) all = sn_ix_add(x, all, sn_ix_mul(x, at[k], sn_ix_const(x, b->strides ? b->strides[k] : row)));
    row *= b->dims[k];
  }
  if (!all) gpu_fail(e, SN_ERR_MEMORY, NULL);
  return all;
}

const char *gpu_offset(gpu_emit *e, int buffer, const sn_ix *const *at) {
  const sn_ix *all = gpu_offset_index(e, buffer, at);
  if (!all) return "0";
  const char *text = gpu_index(e, all);
  size_t n = strlen(text);
  /* One pair of brackets is enough. */
  return n > 2 && all->kind == SN_IX_ADD ? sn_arena_string_n(e->arena, text + 1, n - 2) : text;
}

/* Every other variable of the expression stands for itself. */
static void keep_variables(const sn_ix *e, const sn_ix **dims) {
  if (e->kind == SN_IX_DIM && !dims[e->value]) dims[e->value] = e;
  if (e->kind == SN_IX_DIM || e->kind == SN_IX_CONST || e->kind == SN_IX_SYM || e->kind == SN_IX_LOAD) return;
  keep_variables(e->a, dims);
  if (e->b) keep_variables(e->b, dims);
}

const sn_ix *gpu_substituted(gpu_emit *e, const sn_ix *x, const sn_ix **dims) {
  keep_variables(x, dims);
  const sn_ix *r = sn_ix_substitute(e->k->ix, x, e->k->n_vars, dims, 0, NULL);
  if (!r) gpu_fail(e, SN_ERR_MEMORY, NULL);
  return r;
}

const char *gpu_guards(gpu_emit *e, int n, const sn_ix_guard *guards) {
  const char *all = NULL;
  for (int g = 0; g < n; g++) {
    const sn_ix *x = guards[g].e;
    const char *text = gpu_index(e, x), *one = NULL;
    if (x->lo < guards[g].lo) one = gpu_text(e, "%s >= %lld%s", text, (long long)guards[g].lo, fits32(guards[g].lo, guards[g].lo) ? "" : "LL");
    if (x->hi > guards[g].hi) {
      const char *below = gpu_text(e, "%s <= %lld%s", text, (long long)guards[g].hi, fits32(guards[g].hi, guards[g].hi) ? "" : "LL");
      one = one ? gpu_text(e, "%s && %s", one, below) : below;
    }
    if (one) all = all ? gpu_text(e, "%s && %s", all, one) : one;
  }
  return all;
}
