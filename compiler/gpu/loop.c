/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loops. In a vector loop of the whole block the lanes are threads; inside a lane, the lanes of a further vector loop are taken one after the other, combined in the
 * same order. */
#include "emit.h"

#include <string.h>

static const char *variable_type(const gpu_emit *e, int var) { return e->dim64[var] ? "long long" : "int"; }

/* Parameters become variables that hold the carried values; the loop's results are their last values. */
static void declare_carries(gpu_emit *e, const sn_knode *n, bool identities) {
  const sn_kregion *r = n->regions[0];
  for (int i = 0; i < n->n_operands; i++) {
    sn_type t = n->operands[i]->type;
    const char *name = gpu_text(e, "v%u", r->params[i].id);
    const char *start = identities ? gpu_identity(e, n->combine[i], t) : gpu_name(e, n->operands[i]);
    e->names[r->params[i].id] = name;
    gpu_line(e, "%s %s = %s;", gpu_value_type(t), name, start);
  }
}

static void body(gpu_emit *e, const sn_knode *n) {
  const sn_kregion *r = n->regions[0];
  const char *to[64];
  for (int i = 0; i < n->n_operands; i++) to[i] = e->names[r->params[i].id];
  e->depth++;
  gpu_region(e, r);
  gpu_assign_yields(e, r, n->n_operands, to);
  e->depth--;
  gpu_line(e, "}");
}

static void open_loop(gpu_emit *e, const sn_knode *n, const char *start, int64_t stride, const char *note) {
  const char *hi = gpu_index(e, n->hi), *lo = gpu_index(e, n->lo);
  if (start) lo = strcmp(lo, "0") == 0 ? start : gpu_text(e, "%s + %s", lo, start);
  const char *step = stride == 1 ? gpu_text(e, "d%d++", n->var) : gpu_text(e, "d%d += %lld", n->var, (long long)stride);
  gpu_line(e, "for (%s d%d = %s; d%d < %s; %s) {%s", variable_type(e, n->var), n->var, lo, n->var, hi, step, note);
}

static void serial(gpu_emit *e, const sn_knode *n) {
  declare_carries(e, n, false);
  gpu_buffer *before;
  bool barrier = gpu_enter_loop(e, n, &before);
  gpu_open_wide(e, n);
  if (n->loop == SN_KLOOP_SEQ && e->schedule == SN_GPU_NOT_UNROLLED) gpu_line(e, "#pragma unroll 1");
  if (n->loop == SN_KLOOP_UNROLL) gpu_line(e, n->width ? "#pragma unroll %d" : "#pragma unroll", n->width);
  open_loop(e, n, NULL, n->step, "");
  if (barrier) {
    e->depth++;
    gpu_barrier(e);
    e->depth--;
  }
  body(e, n);
  gpu_close_wide(e, n);
  gpu_after_loop(e, n, before);
  for (int i = 0; i < n->n_operands; i++) e->names[n->results[i].id] = e->names[n->regions[0]->params[i].id];
}

/* A lambda of the associative op. */
static const char *combiner(gpu_emit *e, sn_opcode op, sn_type t) {
  const char *type = gpu_value_type(t);
  return gpu_text(e, "[](%s a, %s b) -> %s { return %s; }", type, type, type, gpu_binary(e, op, t, "a", "b"));
}

/* init op tree. */
static void name_result(gpu_emit *e, const sn_knode *n, int i, const char *tree) {
  sn_type t = n->operands[i]->type;
  const char *name = gpu_text(e, "v%u", n->results[i].id);
  e->names[n->results[i].id] = name;
  gpu_line(e, "const %s %s = %s;", gpu_value_type(t), name, gpu_binary(e, n->combine[i], t, gpu_name(e, n->operands[i]), tree));
}

static void lanes_of_block(gpu_emit *e, const sn_knode *n) {
  int64_t lanes = n->loop == SN_KLOOP_THREADS ? e->threads : n->width;
  const char *lane = n->step == 1 ? "lane" : gpu_text(e, "lane * %lld", (long long)n->step);
  bool once = n->loop == SN_KLOOP_THREADS && n->step == 1 && n->lo->kind == SN_IX_CONST && n->lo->value == 0 && n->hi->kind == SN_IX_CONST && n->hi->value == lanes;
  declare_carries(e, n, true);
  bool idle = lanes < e->threads;
  if (idle) gpu_line(e, "if (lane < %lld)", (long long)lanes);
  e->depth += idle;
  if (once) { /* each thread has its turn, and only one */
    gpu_line(e, "{");
    gpu_line(e, "  const int d%d = lane;", n->var);
  } else {
    open_loop(e, n, lane, n->step * lanes, "");
  }
  e->lane = true;
  e->thread_var = n->loop == SN_KLOOP_THREADS ? n->var : -1;
  body(e, n);
  e->thread_var = -1;
  e->lane = false;
  e->depth -= idle;
  for (int i = 0; i < n->n_operands; i++) {
    sn_type t = n->operands[i]->type;
    const char *tree = gpu_text(e, "t%d", e->n_temporaries++);
    int64_t bytes = lanes * (int64_t)sn_type_bytes(t);
    if (bytes > e->tree_bytes) e->tree_bytes = bytes;
    gpu_line(e, "const %s %s = sn_tree<%d, %d>(%s, sn_tree_values, %s);", gpu_value_type(t), tree, n->width, e->threads, e->names[n->regions[0]->params[i].id],
             combiner(e, n->combine[i], t));
    name_result(e, n, i, tree);
  }
  /* The trees' barriers settle all that came before. */
  for (int b = 0; n->n_operands && e->threads > 32 && b < e->k->n_buffers; b++) e->buffers[b].read = e->buffers[b].written = false;
}

/* Iterations dealt to the block's warps; the lanes of vector loops inside are a warp's. */
static void warps_of_block(gpu_emit *e, const sn_knode *n) {
  open_loop(e, n, n->step == 1 ? "lane / 32" : gpu_text(e, "lane / 32 * %lld", (long long)n->step), n->step * (e->threads / 32), "  // a warp each");
  e->warp = true;
  body(e, n);
  e->warp = false;
}

static void lanes_of_warp(gpu_emit *e, const sn_knode *n) {
  declare_carries(e, n, true);
  open_loop(e, n, n->step == 1 ? "lane % 32" : gpu_text(e, "lane %% 32 * %lld", (long long)n->step), n->step * 32, "");
  e->lane = true;
  body(e, n);
  e->lane = false;
  for (int i = 0; i < n->n_operands; i++) {
    sn_type t = n->operands[i]->type;
    name_result(e, n, i, gpu_text(e, "sn_warp_tree(%s, %s)", e->names[n->regions[0]->params[i].id], combiner(e, n->combine[i], t)));
  }
}

/* All lanes by one thread: partial values in a local array, then the same tree. */
static void lanes_in_lane(gpu_emit *e, const sn_knode *n) {
  int id = e->n_temporaries++, w = n->loop == SN_KLOOP_THREADS ? 1 : n->width;
  if (n->n_operands == 0 || w == 1) {
    declare_carries(e, n, n->combine != NULL);
    open_loop(e, n, NULL, n->step, "");
    body(e, n);
    for (int i = 0; i < n->n_operands; i++) name_result(e, n, i, e->names[n->regions[0]->params[i].id]);
    return;
  }
  for (int i = 0; i < n->n_operands; i++) gpu_line(e, "%s part%d_%d[%d];", gpu_value_type(n->operands[i]->type), id, i, w);
  gpu_line(e, "for (int l%d = 0; l%d < %d; l%d++) {", id, id, w, id);
  e->depth++;
  declare_carries(e, n, true);
  open_loop(e, n, n->step == 1 ? gpu_text(e, "l%d", id) : gpu_text(e, "l%d * %lld", id, (long long)n->step), n->step * w, "");
  body(e, n);
  for (int i = 0; i < n->n_operands; i++) gpu_line(e, "part%d_%d[l%d] = %s;", id, i, id, e->names[n->regions[0]->params[i].id]);
  e->depth--;
  gpu_line(e, "}");
  gpu_line(e, "for (int n = %d; n > 0; n /= 2)", w / 2);
  gpu_line(e, "  for (int i = 0; i < n; i++) {");
  for (int i = 0; i < n->n_operands; i++) {
    sn_type t = n->operands[i]->type;
    gpu_line(e, "    const %s a%d = part%d_%d[i], b%d = part%d_%d[i + n];", gpu_value_type(t), i, id, i, i, id, i);
    gpu_line(e, "    part%d_%d[i] = %s;", id, i, gpu_binary(e, n->combine[i], t, gpu_text(e, "a%d", i), gpu_text(e, "b%d", i)));
  }
  gpu_line(e, "  }");
  for (int i = 0; i < n->n_operands; i++) name_result(e, n, i, gpu_text(e, "part%d_%d[0]", id, i));
}

/* Loop variables run beyond the end by one stride of all lanes. */
static bool needs64(const gpu_emit *e, const sn_knode *n) {
  return gpu_index_is64(e, n->lo) || gpu_index_is64(e, n->hi) || n->step > (1 << 16) || n->hi->hi > (INT64_C(1) << 30);
}

void gpu_for(gpu_emit *e, const sn_knode *n) {
  bool lanes = n->loop == SN_KLOOP_VECTOR || n->loop == SN_KLOOP_THREADS;
  if (n->n_operands > 64 || (lanes && n->n_operands && !n->combine)) {
    gpu_fail(e, SN_ERR_UNSUPPORTED, "a vector loop carries values without an op that combines them");
    return;
  }
  if (n->loop == SN_KLOOP_VECTOR && (n->width < 1 || n->width > 1024 || (n->width & (n->width - 1)))) {
    gpu_fail(e, SN_ERR_UNSUPPORTED, "a vector loop of %d lanes: a block has 1 … 1024, a power of two", n->width);
    return;
  }
  e->dim64[n->var] = needs64(e, n);
  if (n->comment && (n->n_operands || n->loop != SN_KLOOP_VECTOR)) gpu_line(e, "/* %s */", n->comment);
  if (n->loop == SN_KLOOP_WARPS && !e->lane && !e->warp) warps_of_block(e, n);
  else if (!lanes) serial(e, n);
  else if (e->warp && !e->lane && n->loop == SN_KLOOP_VECTOR && n->width == 32) lanes_of_warp(e, n);
  else if (e->warp && !e->lane) gpu_fail(e, SN_ERR_UNSUPPORTED, "a vector loop of %d lanes in a loop over warps, which have 32", n->width);
  else if (e->lane) lanes_in_lane(e, n);
  else lanes_of_block(e, n);
}
