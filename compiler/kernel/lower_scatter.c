/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scatter: the operands are copied to the results, then the updates are applied.
 *
 * Updates of one window position never meet those of another, so window positions run in parallel and in lanes, while the scattered positions of each run in order:
 * the result does not depend on threads even where indices repeat. An update whose target lies outside is skipped. */
#include "elemental.h"

#include <string.h>

typedef struct scatter {
  const sn_instr *i;
  int n;                              /* arrays */
  const sn_shape *x, *indices, *updates;
  sn_ints window, inserted, map, x_batching, index_batching;
  int64_t vector_dim;                 /* of the start indices */
} scatter;

static bool holds(sn_ints v, int64_t d) {
  for (int64_t k = 0; k < v.n; k++) {
    if (v.v[k] == d) return true;
  }
  return false;
}

static void scatter_init(scatter *s, const sn_instr *i) {
  memset(s, 0, sizeof *s);
  s->i = i;
  s->n = (int)(i->n_operands - 1) / 2;
  s->x = sn_operand_shape(i, 0);
  s->indices = sn_operand_shape(i, (uint32_t)s->n);
  s->updates = sn_operand_shape(i, (uint32_t)s->n + 1);
  s->window = sn_instr_ints(i, SN_ATTR_UPDATE_WINDOW_DIMS);
  s->inserted = sn_instr_ints(i, SN_ATTR_INSERTED_WINDOW_DIMS);
  s->map = sn_instr_ints(i, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  s->x_batching = sn_instr_ints(i, SN_ATTR_INPUT_BATCHING_DIMS);
  s->index_batching = sn_instr_ints(i, SN_ATTR_SCATTER_INDICES_BATCHING_DIMS);
  s->vector_dim = sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM);
}

static void copy_operands(lowering *L, const scatter *s) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *nodes[SN_MAX_RANK];
  int rank = s->x->rank, g = rank > 0 ? 1 : 0;
  if (!lower_phase(L, g, s->x->dims)) return;
  for (int k = 0; k < rank; k++) {
    bool vector = k == rank - 1 && k >= g && !sn_type_is_complex(s->x->type);
    idx[k] = k < g ? lower_grid(L, k)
                   : lower_for(L, vector ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, vector ? lower_lanes(L, s->x->type) : 0, lower_const(L, 0), lower_const(L, s->x->dims[k]), 1, 0, NULL,
                               NULL, &nodes[k]);
    if (!idx[k]) return;
  }
  for (int o = 0; o < s->n; o++) sn_kb_store(&L->b, L->output_buffer[o], idx, 0, NULL, lower_value(L, sn_instr_operand(s->i, (uint32_t)o), 0, idx));
  for (int k = rank - 1; k >= g; k--) lower_end(L, 0, NULL, nodes[k]);
}

/* Component c of the start index at the scattered position u (updates' index). */
static const sn_ix *start_component(lowering *L, const scatter *s, const sn_ix *const *u, int64_t c) {
  const sn_ix *at[SN_MAX_RANK];
  int64_t next = 0;
  for (int k = 0; k < s->indices->rank; k++) {
    if (k == s->vector_dim) {
      at[k] = lower_const(L, c);
      continue;
    }
    while (holds(s->window, next)) next++;
    at[k] = u[next++];
  }
  sn_kvalue *v = lower_value(L, sn_instr_operand(s->i, (uint32_t)s->n), 0, at);
  return v ? lower_bind(L, v, -(INT64_C(1) << 40), INT64_C(1) << 40) : NULL;
}

/* Updates' dimension that the batching dimension b of the indices runs along. */
static const sn_ix *batch_position(const scatter *s, const sn_ix *const *u, int64_t b) {
  int64_t next = 0;
  for (int64_t k = 0; k < s->indices->rank; k++) {
    if (k == s->vector_dim) continue;
    while (holds(s->window, next)) next++;
    if (k == b) return u[next];
    next++;
  }
  return NULL;
}

/* Where the update at u goes; guards are pushed for what may lie outside. */
static bool target_index(lowering *L, const scatter *s, const sn_ix *const *u, const sn_ix **idx) {
  sn_ix_context *x = L->k->ix;
  int64_t w = 0;
  for (int k = 0; k < s->x->rank; k++) {
    bool no_window = holds(s->inserted, k) || holds(s->x_batching, k);
    idx[k] = no_window ? lower_const(L, 0) : u[s->window.v[w++]];
  }
  for (int64_t b = 0; b < s->x_batching.n; b++) idx[s->x_batching.v[b]] = batch_position(s, u, s->index_batching.v[b]);
  for (int64_t c = 0; c < s->map.n; c++) {
    const sn_ix *start = start_component(L, s, u, c);
    if (!start) return false;
    idx[s->map.v[c]] = sn_ix_add(x, start, idx[s->map.v[c]]);
  }
  for (int k = 0; k < s->x->rank; k++) {
    if (!idx[k]) return false;
    if (idx[k]->lo >= 0 && idx[k]->hi < s->x->dims[k]) continue;
    if (L->n_guards == LOWER_MAX_GUARDS) {
      lower_fail(L, s->i, "too many dimensions");
      return false;
    }
    L->guards[L->n_guards++] = (sn_ix_guard){idx[k], 0, s->x->dims[k] - 1};
  }
  return true;
}

static void apply_update(lowering *L, const scatter *s, const sn_ix *const *u) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_kvalue *args[64], *results[32];
  int before = L->n_guards;
  if (!target_index(L, s, u, idx)) return;
  for (int o = 0; o < s->n; o++) {
    sn_kvalue *outside = L->n_guards > before ? sn_kb_const_f64(&L->b, L->k->buffers[L->output_buffer[o]].type, 0) : NULL;
    args[o] = sn_kb_load(&L->b, L->output_buffer[o], idx, L->n_guards - before, &L->guards[before], outside);
  }
  int guards = L->n_guards;
  sn_ix_guard kept[LOWER_MAX_GUARDS];
  memcpy(kept, &L->guards[before], (size_t)(guards - before) * sizeof *kept);
  L->n_guards = before; /* updates themselves are always inside */
  for (int o = 0; o < s->n; o++) args[s->n + o] = lower_value(L, sn_instr_operand(s->i, (uint32_t)(s->n + 1 + o)), 0, u);
  if (L->b.status != SN_OK || !lower_apply(L, s->i->called[0], args, s->n, results)) return;
  for (int o = 0; o < s->n; o++) sn_kb_store(&L->b, L->output_buffer[o], idx, guards - before, kept, results[o]);
}

/* The grid: the first window dimension, when there are two or more; the last window dimension runs in lanes. */
static void apply_updates(lowering *L, const scatter *s) {
  const sn_ix *u[SN_MAX_RANK];
  sn_knode *nodes[SN_MAX_RANK];
  int n = 0, rank = s->updates->rank;
  int64_t outer = s->window.n >= 2 ? s->window.v[0] : -1, lanes = s->window.n >= 1 ? s->window.v[s->window.n - 1] : -1;
  int64_t grid = outer >= 0 ? s->updates->dims[outer] : 1;
  if (lanes >= 0 && (s->updates->dims[lanes] < 4 || sn_type_is_complex(s->x->type))) lanes = -1;
  if (!lower_phase(L, outer >= 0, &grid)) return;
  if (outer >= 0) u[outer] = lower_grid(L, 0);
  for (int pass = 0; pass < 3; pass++) { /* scattered dimensions in order, then window dimensions, then the lanes */
    for (int k = 0; k < rank; k++) {
      int mine = k == lanes ? 2 : holds(s->window, k) ? 1 : 0;
      if (k == outer || mine != pass) continue;
      u[k] = lower_for(L, pass == 2 ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, pass == 2 ? lower_lanes(L, s->x->type) : 0, lower_const(L, 0), lower_const(L, s->updates->dims[k]), 1, 0,
                       NULL, NULL, &nodes[n]);
      if (!u[k]) return;
      n++;
    }
  }
  apply_update(L, s, u);
  while (n > 0) lower_end(L, 0, NULL, nodes[--n]);
}

void lower_scatter(lowering *L, const sn_instr *i) {
  scatter s;
  scatter_init(&s, i);
  if (i != L->outputs[0] || s.n > 16 || s.n != L->n_outputs) {
    lower_fail(L, i, "a scatter that is not the whole of its fusion, or of more than 16 arrays");
    return;
  }
  copy_operands(L, &s);
  if (sn_shape_elements(s.updates) > 0) apply_updates(L, &s);
}
