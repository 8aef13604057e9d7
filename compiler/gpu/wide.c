/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Wide access: a fully unrolled loop over four neighbours, or two, reads and writes them as one float4, or float2.
 *
 *   for (int d5 = 0; d5 < 4; d5++) reg5[d5] = in0[16 * d3 + d5];      becomes      *(float4 *)w0 = *(const float4 *)&in0[16 * d3];
 *                                                                                  for (int d5 = 0; d5 < 4; d5++) reg5[d5] = w0[d5];
 *
 * Elements of 16 bits likewise by eight, four or two, as unsigned integers of that width. Where the index is linear in the loop's variable with step one, and what it is added to a multiple of four (two) by its form. Buffers begin on 64 bytes, tiles on 16. */
#include "emit.h"

/* ---- what an index expression says of itself ---- */

static bool mentions(const sn_ix *e, int var) {
  if (e->kind == SN_IX_DIM) return e->value == var;
  if (e->kind == SN_IX_LOAD) return true;
  return (e->a && mentions(e->a, var)) || (e->b && mentions(e->b, var));
}

static bool multiple_of(const sn_ix *e, int64_t m) {
  if (m == 1) return true;
  switch (e->kind) {
    case SN_IX_CONST: return e->value % m == 0;
    case SN_IX_ADD:
    case SN_IX_MIN:
    case SN_IX_MAX: return multiple_of(e->a, m) && multiple_of(e->b, m);
    case SN_IX_MOD: return e->b->value % m == 0 && multiple_of(e->a, m);
    case SN_IX_MUL: {
      if (e->b->kind != SN_IX_CONST) return multiple_of(e->a, m) || multiple_of(e->b, m);
      int64_t c = e->b->value;
      while (m > 1 && c % 2 == 0 && m % 2 == 0) m /= 2, c /= 2;
      return multiple_of(e->a, m);
    }
    default: return false;
  }
}

/* e * scale = multiple of `width` + steps * var? Adds to *steps. */
static bool linear(const sn_ix *e, int var, int64_t width, int64_t scale, int64_t *steps) {
  if (e->kind == SN_IX_ADD) return linear(e->a, var, width, scale, steps) && linear(e->b, var, width, scale, steps);
  if (e->kind == SN_IX_MUL && e->b->kind == SN_IX_CONST) return linear(e->a, var, width, scale * e->b->value, steps);
  if (e->kind == SN_IX_DIM && e->value == var) {
    *steps += scale;
    return true;
  }
  if (mentions(e, var)) return false;
  return scale % width == 0 || multiple_of(e, scale % 2 == 0 ? width / 2 : width);
}

static bool neighbours(gpu_emit *e, const sn_knode *n, const sn_knode *l) {
  int64_t steps = 0;
  const sn_ix *all = gpu_offset_index(e, n->buffer, n->at);
  return all && linear(all, l->var, l->hi->value, 1, &steps) && steps == 1;
}

/* ---- the loop ---- */

static bool is_wide_loop(const gpu_emit *e, const sn_knode *l) {
  return e->lane && l->loop == SN_KLOOP_UNROLL && l->step == 1 && l->n_operands == 0 && l->lo->kind == SN_IX_CONST && l->lo->value == 0 && l->hi->kind == SN_IX_CONST &&
         (l->hi->value == 8 || l->hi->value == 4 || l->hi->value == 2);
}

/* The type of n neighbours as one; NULL: there is none. */
static const char *wide_type(sn_type t, int64_t n) {
  if (t == SN_TYPE_F32) return n == 4 ? "float4" : n == 2 ? "float2" : NULL;
  if (t == SN_TYPE_F16 || t == SN_TYPE_BF16) return n == 8 ? "uint4" : n == 4 ? "uint2" : "unsigned";
  return NULL;
}

static bool touched_twice(const sn_kregion *r, const sn_knode *n) {
  for (const sn_knode *x = r->first; x; x = x->next) {
    if (x->n_regions) return true; /* what it touches is not looked at */
    if (x != n && (x->op == SN_K_LOAD || x->op == SN_K_STORE || x->op == SN_K_ATOMIC) && x->buffer == n->buffer && (x->op != SN_K_LOAD || n->op != SN_K_LOAD)) return true;
  }
  return false;
}

static bool guards_mention(const sn_knode *n, int var) {
  for (int g = 0; g < n->n_guards; g++) {
    if (mentions(n->guards[g].e, var)) return true;
  }
  return false;
}

static bool can_be_wide(gpu_emit *e, const sn_knode *l, const sn_knode *n) {
  const gpu_buffer *b = &e->buffers[n->buffer];
  if (!wide_type(e->k->buffers[n->buffer].type, l->hi->value) || (b->home != HOME_GLOBAL && b->home != HOME_SHARED)) return false;
  if (n->op == SN_K_LOAD ? n->n_guards > 0 : guards_mention(n, l->var)) return false;
  return e->n_wide < GPU_MOST_WIDE && !touched_twice(l->regions[0], n) && neighbours(e, n, l);
}

/* The first of the four. */
static const char *first_of(gpu_emit *e, const sn_knode *l, const sn_knode *n) {
  const sn_ix **dims = SN_NEW_N(e->arena, const sn_ix *, e->k->n_vars + 1), *at[SN_MAX_RANK];
  if (!dims) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return "0";
  }
  for (int v = 0; v < e->k->n_vars; v++) dims[v] = NULL;
  dims[l->var] = sn_ix_const(e->k->ix, 0);
  for (int k = 0; k < n->n_at; k++) {
    at[k] = gpu_substituted(e, n->at[k], dims);
    if (!at[k]) return "0";
  }
  return gpu_offset(e, n->buffer, at);
}

void gpu_open_wide(gpu_emit *e, const sn_knode *l) {
  if (!is_wide_loop(e, l)) return;
  for (const sn_knode *n = l->regions[0]->first; n; n = n->next) {
    if ((n->op != SN_K_LOAD && n->op != SN_K_STORE) || !can_be_wide(e, l, n)) continue;
    const char *array = gpu_text(e, "w%d", e->n_temporaries++);
    sn_type t = e->k->buffers[n->buffer].type;
    int width = (int)l->hi->value;
    const char *wide = wide_type(t, width);
    gpu_line(e, "__align__(%d) %s %s[%d];", (int)sn_type_bytes(t) * width, gpu_memory_type(t), array, width);
    if (n->op == SN_K_LOAD) gpu_line(e, "*(%s *)%s = *(const %s *)&%s[%s];", wide, array, wide, e->buffers[n->buffer].name, first_of(e, l, n));
    e->wide[e->n_wide++] = (gpu_wide){n, array};
  }
}

void gpu_close_wide(gpu_emit *e, const sn_knode *l) {
  if (!is_wide_loop(e, l)) return;
  for (int i = 0; i < e->n_wide; i++) {
    const sn_knode *n = e->wide[i].node;
    const char *guard = gpu_guards(e, n->n_guards, n->guards), *wide = wide_type(e->k->buffers[n->buffer].type, l->hi->value);
    if (n->op == SN_K_STORE) gpu_line(e, "%s%s%s*(%s *)&%s[%s] = *(const %s *)%s;", guard ? "if (" : "", guard ? guard : "", guard ? ") " : "", wide, e->buffers[n->buffer].name,
                                     first_of(e, l, n), wide, e->wide[i].array);
  }
  e->n_wide = 0;
}

const char *gpu_wide_array(const gpu_emit *e, const sn_knode *n) {
  for (int i = 0; i < e->n_wide; i++) {
    if (e->wide[i].node == n) return e->wide[i].array;
  }
  return NULL;
}
