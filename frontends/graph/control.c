/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loops, branches and calls whose bodies are C callbacks. */
#include <string.h>

#include "graph_internal.h"

/* Operands of a tensor list in the current frame; NULL after an error. */
static sn_instr **use_all(sn_graph *g, sn_loc at, int n, const sn_tensor *xs) {
  sn_instr **list = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!list) sn_graph_no_memory(g);
  for (int k = 0; list && k < n; k++)
    if (!(list[k] = sn_graph_use(g, at, xs[k]))) return NULL;
  return list;
}

static const sn_shape **shapes_of(sn_graph *g, int n, sn_instr *const *list) {
  const sn_shape **s = (const sn_shape **)SN_NEW_N(g->arena, const sn_shape *, n + 1);
  if (!s) sn_graph_no_memory(g);
  for (int k = 0; s && k < n; k++) s[k] = list[k]->shape;
  return s;
}

static void clear(sn_graph *g, int n, sn_tensor *out) {
  for (int k = 0; k < n; k++) out[k] = sn_graph_empty(g);
}

/* ---- while ---- */

typedef struct loop {
  sn_graph *g;
  sn_loc at;
  int n; /* carried */
  sn_instr **init;
  const sn_shape **shapes;
  sn_computation *called[2];
  sn_instr **captured; /* of condition and body */
  int n_captured;
  int n_ys; /* rows that a scan's body stacks: carried behind the captured ones, because only the body tells their
               shapes */
  sn_tensor *rows;
  sn_tensor *row; /* where they go, in the body */
  int64_t length;
  const sn_shape **ys;
} loop;

/* Parameter tuples of condition and body must be one shape: carried, then everything either captured. */
static void widen(loop *l, sn_computation *c, const sn_shape *tuple) {
  if (c->n_params) {
    sn_instr_set_shape(c->params[0], tuple);
    return;
  }
  sn_builder b = l->g->b; /* a condition that looks at nothing still takes the tuple */
  b.c = c;
  sn_build_parameter(&b, 0, tuple, "arg");
  if (b.status != SN_OK) l->g->b.status = b.status;
}

static bool loop_condition(loop *l, sn_fn fn, void *ctx) {
  sn_graph *g = l->g;
  sn_tensor p;
  sn_frame *f = sn_frame_run(g, l->at, SN_FRAME_TUPLE, "condition", fn, ctx, l->n, l->shapes, 0, NULL, 1, &p);
  if (!f) return false;
  if (sn_tensor_type(p) != SN_TYPE_PRED || sn_tensor_rank(p)) {
    sn_graph_fail(g, l->at, SN_ERR_TYPE, "while: the condition gives %s, not a pred scalar", sn_tensor_text(p));
  } else {
    l->called[0] = f->comp;
    sn_computation_set_root(f->comp, p.instr);
    l->n_captured = f->n_captured;
    l->captured = sn_arena_copy(g->arena, f->captured, (size_t)f->n_captured * sizeof *f->captured);
    if (f->n_captured && !l->captured) sn_graph_no_memory(g);
  }
  sn_frame_pop(g);
  return g->b.status == SN_OK;
}

static bool check_carried(loop *l, const sn_tensor *out) {
  for (int k = 0; k < l->n; k++) {
    if (sn_shape_equal(l->shapes[k], out[k].instr->shape, 0)) continue;
    sn_graph_fail(l->g, l->at, SN_ERR_SHAPE, "while: carried tensor %d starts as %s, the body gives %s", k,
                  sn_graph_shape_text(l->g, l->shapes[k]), sn_tensor_text(out[k]));
    sn_graph_hint(l->g, "a loop keeps its shapes and types");
    return false;
  }
  return true;
}

/* One more carried tensor a row: the rows so far, with this round's put in. */
static void stack_rows(loop *l, sn_instr **roots) {
  sn_graph *g = l->g;
  for (int k = 0; k < l->n_ys && g->b.status == SN_OK; k++) {
    sn_instr *row = sn_graph_use(g, l->at, l->rows[k]);
    int64_t dims[SN_MAX_RANK] = {l->length};
    if (!row) return;
    if (row->shape->rank + 1 > SN_MAX_RANK) {
      sn_graph_fail(g, l->at, SN_ERR_UNSUPPORTED, "scan: ys[%d] of rank %d has no room for one more axis", k,
                    row->shape->rank);
      return;
    }
    for (int j = 0; j < row->shape->rank; j++) dims[j + 1] = row->shape->dims[j];
    l->ys[k] = sn_shape_array(g->module->arena, row->shape->type, row->shape->rank + 1, dims);
    if (!l->ys[k]) {
      sn_graph_no_memory(g);
      return;
    }
    sn_tensor stack = sn_graph_tensor(g, sn_frame_input(g, l->ys[k]));
    sn_tensor one = sn_expand_dims_at(l->at, sn_graph_tensor(g, row), 0);
    roots[k] = sn_dynamic_update_slice_axis_at(l->at, stack, one, 0, *l->row).instr;
  }
}

static bool loop_body(loop *l, sn_fn fn, void *ctx) {
  sn_graph *g = l->g;
  sn_tensor *out = SN_NEW_N(g->arena, sn_tensor, l->n + 1);
  if (!out) sn_graph_no_memory(g);
  sn_frame *f = out ? sn_frame_run(g, l->at, SN_FRAME_TUPLE, "body", fn, ctx, l->n, l->shapes, l->n_captured,
                                   l->captured, l->n, out)
                    : NULL;
  if (!f) return false;
  int total = f->n_inputs;
  sn_instr **roots = check_carried(l, out) ? SN_NEW_N(g->arena, sn_instr *, total + l->n_ys + 1) : NULL;
  if (!roots && g->b.status == SN_OK) sn_graph_no_memory(g);
  for (int k = 0; roots && k < total; k++) roots[k] = k < l->n ? out[k].instr : sn_build_get(&g->b, f->param, k);
  if (roots) {
    l->called[1] = f->comp;
    l->n_captured = total - l->n;
    l->captured = sn_arena_copy(g->arena, f->captured, (size_t)f->n_captured * sizeof *f->captured);
    if (l->n_captured && !l->captured) sn_graph_no_memory(g);
    stack_rows(l, roots + total);
    sn_computation_set_root(f->comp, sn_build_tuple(&g->b, (uint32_t)(total + l->n_ys), roots));
  }
  sn_frame_pop(g);
  return g->b.status == SN_OK;
}

/* The while instruction itself, or NULL. trips >= 0: known number of rounds. */
static sn_instr *build_while(loop *l, int64_t trips) {
  sn_graph *g = l->g;
  if (!sn_graph_open(g, l->at)) return NULL;
  int total = l->n + l->n_captured + l->n_ys, first_y = l->n + l->n_captured;
  sn_instr **all = SN_NEW_N(g->arena, sn_instr *, total + 1);
  if (!all) {
    sn_graph_no_memory(g);
    return NULL;
  }
  for (int k = 0; k < first_y; k++) all[k] = k < l->n ? l->init[k] : l->captured[k - l->n];
  for (int k = 0; k < l->n_ys; k++)
    all[first_y + k] = sn_graph_full(g, l->ys[k]->type, l->ys[k]->rank, l->ys[k]->dims, 0);
  sn_instr *tuple = sn_build_tuple(&g->b, (uint32_t)total, all);
  if (!tuple) return NULL;
  for (int k = 0; k < 2; k++) widen(l, l->called[k], tuple->shape);
  sn_instr *w = sn_build(&g->b, SN_OP_WHILE, NULL, 1, &tuple, 0, NULL, 2, l->called);
  if (w && trips >= 0) {
    char text[80];
    snprintf(text, sizeof text, "{\"known_trip_count\":{\"n\":\"%lld\"}}", (long long)trips);
    if (sn_instr_set_backend_config(w, text, false) != SN_OK) sn_graph_no_memory(g);
  }
  return w;
}

static void run_while(sn_loc at, sn_graph *g, sn_fn cond, sn_fn body, void *ctx, int n, const sn_tensor *init,
                      sn_tensor *out, int64_t trips) {
  init = sn_graph_list(g, n, init);
  clear(g, n, out);
  if (!sn_graph_open(g, at)) return;
  loop l = {.g = g, .at = at, .n = n};
  l.init = use_all(g, at, n, init);
  l.shapes = l.init ? shapes_of(g, n, l.init) : NULL;
  if (!l.shapes || !loop_condition(&l, cond, ctx) || !loop_body(&l, body, ctx)) return;
  sn_instr *w = build_while(&l, trips);
  if (w) sn_graph_elements(g, w, n, out);
}

void sn_while_at(sn_loc at, sn_graph *g, sn_fn cond, sn_fn body, void *ctx, int n, const sn_tensor *init,
                 sn_tensor *out) {
  run_while(at, g, cond, body, ctx, n, init, out, -1);
}

/* ---- counted loops ---- */

typedef struct counted {
  sn_loc at;
  int64_t lo, hi;
  sn_fn body;
  void *ctx;
  const sn_scan_spec *scan; /* NULL: fori */
  const sn_tensor *xs;
  sn_tensor *rows, row; /* what a scan's body leaves for the loop to stack, and where */
} counted;

/* All counted loops run a counter from 0 below the number of rounds: the form derivatives and passes recognise. */
static void counted_condition(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n, (void)n_out;
  counted *c = ctx;
  out[0] = sn_compare_at(c->at, SN_DIRECTION_LT, in[0], sn_scalar_at(c->at, g, SN_TYPE_S32, (double)(c->hi - c->lo)));
}

static void fori_body(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n_out;
  counted *c = ctx;
  sn_tensor *args = SN_NEW_N(g->arena, sn_tensor, n);
  if (!args) {
    sn_graph_no_memory(g);
    return;
  }
  memcpy(args, in, (size_t)n * sizeof *in);
  if (c->lo) args[0] = sn_binary_c_at(c->at, SN_OP_ADD, in[0], (double)c->lo);
  c->body(c->ctx, g, n, args, n - 1, out + 1);
  out[0] = sn_binary_c_at(c->at, SN_OP_ADD, in[0], 1);
}

void sn_fori_at(sn_loc at, sn_graph *g, int64_t lo, int64_t hi, sn_fn body, void *ctx, int n, const sn_tensor *init,
                sn_tensor *out) {
  init = sn_graph_list(g, n, init);
  clear(g, n, out);
  if (hi < lo) hi = lo;
  if (lo < INT32_MIN || hi > INT32_MAX || hi - lo > INT32_MAX) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "fori: bounds %lld and %lld do not fit the s32 counter", (long long)lo,
                  (long long)hi);
    return;
  }
  if (!sn_graph_open(g, at)) return;
  counted c = {.at = at, .lo = lo, .hi = hi, .body = body, .ctx = ctx};
  sn_tensor *all = SN_NEW_N(g->arena, sn_tensor, 2 * (n + 1));
  if (!all) {
    sn_graph_no_memory(g);
    return;
  }
  all[0] = sn_scalar_at(at, g, SN_TYPE_S32, 0);
  for (int k = 0; k < n; k++) all[k + 1] = init[k];
  run_while(at, g, counted_condition, fori_body, &c, n + 1, all, all + n + 1, hi - lo);
  for (int k = 0; k < n; k++) out[k] = all[n + 2 + k];
}

/* Carried: counter, carry…; xs are captured. */
static void scan_body(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n, (void)n_out;
  counted *c = ctx;
  const sn_scan_spec *s = c->scan;
  sn_tensor i = in[0];
  if (s->reverse) {
    i = sn_binary_at(c->at, SN_OP_SUBTRACT, sn_scalar_at(c->at, g, SN_TYPE_S32, (double)(c->hi - 1)), i);
  }
  int n_in = s->n_carry + s->n_xs, n_res = s->n_carry + s->n_ys;
  sn_tensor *args = SN_NEW_N(g->arena, sn_tensor, n_in + n_res + 1);
  if (!args) {
    sn_graph_no_memory(g);
    return;
  }
  sn_tensor *res = args + n_in;
  for (int k = 0; k < s->n_carry; k++) args[k] = in[1 + k];
  for (int k = 0; k < s->n_xs; k++) {
    args[s->n_carry + k] = sn_squeeze_at(c->at, sn_dynamic_slice_axis_at(c->at, c->xs[k], 0, i, 1), 0);
  }
  clear(g, n_res, res);
  c->body(c->ctx, g, n_in, args, n_res, res);
  out[0] = sn_binary_c_at(c->at, SN_OP_ADD, in[0], 1);
  for (int k = 0; k < s->n_carry; k++) out[1 + k] = res[k];
  for (int k = 0; k < s->n_ys; k++) c->rows[k] = res[s->n_carry + k];
  c->row = i;
}

static bool check_scan(sn_loc at, sn_graph *g, const sn_scan_spec *s, int64_t *length) {
  for (int k = 0; k < s->n_carry; k++)
    if (!sn_graph_use(g, at, s->init[k])) return false;
  *length = s->length;
  for (int k = 0; k < s->n_xs; k++) {
    if (!sn_graph_use(g, at, s->xs[k])) return false;
    int64_t have = sn_tensor_dim(s->xs[k], 0);
    if (!*length) *length = have;
    if (sn_tensor_rank(s->xs[k]) && have == *length) continue;
    sn_graph_fail(g, at, SN_ERR_SHAPE, "scan: xs[%d] is %s, the scan has %lld rounds", k, sn_tensor_text(s->xs[k]),
                  (long long)*length);
    sn_graph_hint(g, "axis 0 of every xs is the scan's length");
    return false;
  }
  if (*length >= 0 && *length <= INT32_MAX) return true;
  sn_graph_fail(g, at, SN_ERR_USAGE, "scan: length %lld", (long long)*length);
  return false;
}

void sn_scan_at(sn_loc at, sn_graph *g, const sn_scan_spec *spec, sn_fn body, void *ctx, sn_tensor *carry_out,
                sn_tensor *ys_out) {
  sn_scan_spec copy = *spec;
  const sn_scan_spec *s = &copy;
  copy.init = sn_graph_list(g, s->n_carry, s->init);
  copy.xs = sn_graph_list(g, s->n_xs, s->xs);
  clear(g, s->n_carry, carry_out);
  clear(g, s->n_ys, ys_out);
  int64_t length;
  if (!sn_graph_open(g, at) || !check_scan(at, g, s, &length)) return;
  int n = 1 + s->n_carry;
  counted c = {.at = at, .hi = length, .body = body, .ctx = ctx, .scan = s, .xs = s->xs};
  loop l = {.g = g, .at = at, .n = n, .n_ys = s->n_ys, .row = &c.row, .length = length};
  sn_tensor *init = SN_NEW_N(g->arena, sn_tensor, n);
  c.rows = l.rows = SN_NEW_N(g->arena, sn_tensor, s->n_ys + 1);
  l.ys = (const sn_shape **)SN_NEW_N(g->arena, const sn_shape *, s->n_ys + 1);
  if (!init || !l.rows || !l.ys) {
    sn_graph_no_memory(g);
    return;
  }
  init[0] = sn_scalar_at(at, g, SN_TYPE_S32, 0);
  for (int k = 0; k < s->n_carry; k++) init[1 + k] = s->init[k];
  l.init = use_all(g, at, n, init);
  l.shapes = l.init ? shapes_of(g, n, l.init) : NULL;
  if (!l.shapes || !loop_condition(&l, counted_condition, &c) || !loop_body(&l, scan_body, &c)) return;
  sn_instr *w = build_while(&l, length);
  for (int k = 0; w && k < s->n_carry; k++) carry_out[k] = sn_graph_tensor(g, sn_build_get(&g->b, w, 1 + k));
  for (int k = 0; w && k < s->n_ys; k++) ys_out[k] = sn_graph_tensor(g, sn_build_get(&g->b, w, n + l.n_captured + k));
}

/* ---- branches ---- */

/* A branch as a computation of one tuple; *operand: that tuple, made in the frame outside. */
static sn_computation *branch(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, sn_instr *const *in,
                              const sn_shape *const *like, int n_out, sn_tensor *out, sn_instr **operand) {
  *operand = NULL;
  sn_frame *f = sn_frame_run(g, at, SN_FRAME_TUPLE, "branch", fn, ctx, n, like, 0, NULL, n_out, out);
  if (!f) return NULL;
  sn_computation *c = f->comp;
  int total = f->n_inputs;
  sn_instr **roots = SN_NEW_N(g->arena, sn_instr *, n_out + 1), **all = SN_NEW_N(g->arena, sn_instr *, total + 1);
  if (!roots || !all) sn_graph_no_memory(g);
  for (int k = 0; roots && k < n_out; k++) roots[k] = out[k].instr;
  for (int k = 0; all && k < total; k++) all[k] = k < n ? in[k] : f->captured[k - n];
  if (g->b.status == SN_OK) {
    if (!f->param) {
      const sn_shape *nothing = sn_shape_tuple(g->module->arena, 0, NULL);
      if (nothing)
        sn_build_parameter(&g->b, 0, nothing, "arg");
      else
        sn_graph_no_memory(g);
    }
    sn_instr *root = sn_build_tuple(&g->b, (uint32_t)n_out, roots);
    if (root) sn_computation_set_root(c, root);
  }
  sn_frame_pop(g);
  if (sn_graph_open(g, at)) *operand = sn_build_tuple(&g->b, (uint32_t)total, all);
  return *operand ? c : NULL;
}

static bool check_branch(sn_loc at, sn_graph *g, int which, int n_out, const sn_tensor *first, const sn_tensor *this) {
  for (int k = 0; k < n_out; k++) {
    if (sn_shape_equal(first[k].instr->shape, this[k].instr->shape, 0)) continue;
    sn_graph_fail(g, at, SN_ERR_SHAPE, "branch %d gives %s as result %d, branch 0 gives %s", which,
                  sn_tensor_text(this[k]), k, sn_tensor_text(first[k]));
    sn_graph_hint(g, "all branches give the same shapes and types");
    return false;
  }
  return true;
}

void sn_graph_branches(sn_loc at, sn_tensor selector, int n_branches, const sn_fn *fns, void *const *ctxs, int n,
                       const sn_tensor *in, int n_out, sn_tensor *out) {
  sn_graph *g = selector.graph;
  in = sn_graph_list(g, n, in);
  clear(g, n_out, out);
  if (!sn_graph_open(g, at)) return;
  sn_instr **list = use_all(g, at, n, in);
  const sn_shape **like = list ? shapes_of(g, n, list) : NULL;
  sn_instr **operands = SN_NEW_N(g->arena, sn_instr *, n_branches + 1);
  sn_computation **called = SN_NEW_N(g->arena, sn_computation *, n_branches + 1);
  sn_tensor *results = SN_NEW_N(g->arena, sn_tensor, 2 * n_out + 1);
  if (g->b.status == SN_OK && (!like || !operands || !called || !results)) sn_graph_no_memory(g);
  if (g->b.status != SN_OK || !(operands[0] = sn_graph_use(g, at, selector))) return;
  for (int k = 0; k < n_branches; k++) {
    sn_tensor *mine = k ? results + n_out : results;
    called[k] = branch(at, g, fns[k], ctxs ? ctxs[k] : NULL, n, list, like, n_out, mine, &operands[k + 1]);
    if (!called[k] || !check_branch(at, g, k, n_out, results, mine)) return;
  }
  if (!sn_graph_open(g, at)) return;
  sn_graph_elements(g,
                    sn_build(&g->b, SN_OP_CONDITIONAL, NULL, (uint32_t)n_branches + 1, operands, 0, NULL,
                             (uint32_t)n_branches, called),
                    n_out, out);
}

void sn_cond_at(sn_loc at, sn_tensor pred, sn_fn on_true, sn_fn on_false, void *ctx, int n, const sn_tensor *in,
                int n_out, sn_tensor *out) {
  in = sn_graph_list(pred.graph, n, in);
  clear(pred.graph, n_out, out);
  if (!pred.instr) return;
  if (sn_tensor_type(pred) != SN_TYPE_PRED || sn_tensor_rank(pred)) {
    sn_graph_fail(pred.graph, at, SN_ERR_TYPE, "cond: the predicate is %s, not a pred scalar", sn_tensor_text(pred));
    return;
  }
  sn_graph_branches(at, pred, 2, (sn_fn[]){on_true, on_false}, (void *[]){ctx, ctx}, n, in, n_out, out);
}

void sn_switch_at(sn_loc at, sn_tensor index, int n_branches, const sn_fn *fns, void *const *ctxs, int n,
                  const sn_tensor *in, int n_out, sn_tensor *out) {
  in = sn_graph_list(index.graph, n, in);
  clear(index.graph, n_out, out);
  if (!index.instr) return;
  if (sn_tensor_type(index) != SN_TYPE_S32 || sn_tensor_rank(index) || n_branches < 1) {
    sn_graph_fail(index.graph, at, SN_ERR_TYPE, "switch: index %s over %d branches", sn_tensor_text(index), n_branches);
    sn_graph_hint(index.graph, "the index is an s32 scalar, and there is at least one branch");
    return;
  }
  sn_graph_branches(at, index, n_branches, fns, ctxs, n, in, n_out, out);
}

/* ---- calls, maps, barriers ---- */

void sn_call_at(sn_loc at, sn_graph *g, const char *name, sn_fn fn, void *ctx, int n, const sn_tensor *in, int n_out,
                sn_tensor *out) {
  in = sn_graph_list(g, n, in);
  clear(g, n_out, out);
  if (!sn_graph_open(g, at)) return;
  sn_instr **list = use_all(g, at, n, in);
  const sn_shape **like = list ? shapes_of(g, n, list) : NULL;
  sn_tensor *res = SN_NEW_N(g->arena, sn_tensor, n_out + 1);
  sn_frame *f = like && res ? sn_frame_run(g, at, SN_FRAME_FLAT, name, fn, ctx, n, like, 0, NULL, n_out, res) : NULL;
  if (!f) return;
  sn_computation *c = f->comp;
  int total = f->n_inputs;
  sn_instr **all = SN_NEW_N(g->arena, sn_instr *, total + 1), **roots = SN_NEW_N(g->arena, sn_instr *, n_out + 1);
  if (!all || !roots) sn_graph_no_memory(g);
  for (int k = 0; all && k < total; k++) all[k] = k < n ? list[k] : f->captured[k - n];
  for (int k = 0; roots && k < n_out; k++) roots[k] = res[k].instr;
  if (g->b.status == SN_OK) {
    sn_instr *root = n_out == 1 ? roots[0] : sn_build_tuple(&g->b, (uint32_t)n_out, roots);
    if (root) sn_computation_set_root(c, root);
  }
  sn_frame_pop(g);
  if (sn_graph_open(g, at)) sn_graph_elements(g, sn_build_call(&g->b, c, (uint32_t)total, all), n_out, out);
}

sn_tensor sn_map_fn_at(sn_loc at, sn_fn fn, void *ctx, int n, const sn_tensor *xs) {
  sn_graph *g = n > 0 ? xs[0].graph : NULL;
  if (!sn_graph_open(g, at)) return sn_graph_empty(g);
  sn_instr **list = use_all(g, at, n, xs);
  const sn_shape **like = list ? shapes_of(g, n, list) : NULL;
  for (int k = 0; like && k < n; k++) {
    like[k] = sn_shape_scalar(g->module->arena, like[k]->type);
    if (!like[k]) sn_graph_no_memory(g);
  }
  sn_tensor r;
  sn_frame *f = like && g->b.status == SN_OK
                    ? sn_frame_run(g, at, SN_FRAME_SCALAR, "map", fn, ctx, n, like, 0, NULL, 1, &r)
                    : NULL;
  if (!f) return sn_graph_empty(g);
  sn_computation *c = f->comp;
  sn_computation_set_root(c, r.instr);
  sn_frame_pop(g);
  if (!sn_graph_open(g, at)) return sn_graph_empty(g);
  int64_t dims[SN_MAX_RANK];
  int rank = list[0]->shape->rank;
  for (int k = 0; k < rank; k++) dims[k] = k;
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, rank, dims);
  return sn_graph_tensor(g, sn_build(&g->b, SN_OP_MAP, NULL, (uint32_t)n, list, 1, &a, 1, &c));
}

void sn_barrier_at(sn_loc at, sn_graph *g, int n, const sn_tensor *in, sn_tensor *out) {
  in = sn_graph_list(g, n, in);
  clear(g, n, out);
  if (!sn_graph_open(g, at)) return;
  sn_instr **list = use_all(g, at, n, in);
  sn_instr *t = list ? sn_build_tuple(&g->b, (uint32_t)n, list) : NULL;
  if (t) sn_graph_elements(g, sn_build_unary(&g->b, SN_OP_OPT_BARRIER, t), n, out);
}
