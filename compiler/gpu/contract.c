/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Contractions and tile copies. The general form: every thread takes elements of the tile in turn, each a chain of fused multiply-adds in the order of k. */
#include "emit.h"

#include <string.h>

/* base + i * stride0 + j * stride1 as text. */
static const char *tile_offset(gpu_emit *e, const sn_ktile *t, const char *i, const char *j) {
  const char *base = gpu_offset(e, t->buffer, t->at), *text = strcmp(base, "0") == 0 ? "" : gpu_text(e, "(%s) + ", base);
  const char *name[2] = {i, j};
  for (int k = 0; k < 2; k++) {
    const char *term = t->stride[k] == 1 ? name[k] : gpu_text(e, "%s * %lld", name[k], (long long)t->stride[k]);
    if (t->stride[k] == 0) continue;
    text = gpu_text(e, "%s%s%s", text, k && t->stride[0] ? " + " : "", term);
  }
  return *text ? text : "0";
}

static const char *tile_element(gpu_emit *e, const sn_ktile *t, const char *i, const char *j) { return gpu_element(e, t->buffer, tile_offset(e, t, i, j)); }

/* for (x = lane; x < m * n; x += threads), i and j its digits. */
static void open_elements(gpu_emit *e, const sn_ix *m, const sn_ix *n) {
  const char *rows = gpu_index(e, m), *columns = gpu_index(e, n);
  if (e->lane) gpu_line(e, "for (int x = 0; x < (int)(%s) * (int)(%s); x++) {", rows, columns);
  else gpu_line(e, "for (int x = lane; x < (int)(%s) * (int)(%s); x += %d) {", rows, columns, e->threads);
  e->depth++;
  gpu_line(e, "const int i = x / (int)(%s), j = x %% (int)(%s);", columns, columns);
}

static void close_elements(gpu_emit *e) {
  e->depth--;
  gpu_line(e, "}");
}

static const char *multiply_add(gpu_emit *e, sn_type t, const char *a, const char *b, const char *sum) {
  if (t == SN_TYPE_F32 || gpu_is_narrow_float(t)) return gpu_text(e, "fmaf(%s, %s, %s)", a, b, sum);
  if (t == SN_TYPE_F64) return gpu_text(e, "fma(%s, %s, %s)", a, b, sum);
  gpu_line(e, "const %s product = %s;", gpu_value_type(t), gpu_binary(e, SN_OP_MULTIPLY, t, a, b));
  return gpu_binary(e, SN_OP_ADD, t, sum, "product");
}

static void plain(gpu_emit *e, const sn_kcontract *c) {
  sn_type t = e->k->buffers[c->acc.buffer].type, ta = e->k->buffers[c->a.buffer].type, tb = e->k->buffers[c->b.buffer].type;
  /* Sums of narrow floats are kept in f32 within one step. */
  sn_type wide = gpu_is_narrow_float(t) ? SN_TYPE_F32 : t;
  const char *acc = tile_element(e, &c->acc, "i", "j");
  open_elements(e, c->m, c->n);
  gpu_line(e, "%s sum = %s;", gpu_value_type(wide), c->accumulate ? gpu_from_memory(e, t, acc) : gpu_constant(e, wide, (const uint64_t[2]){0, 0}));
  gpu_line(e, "for (int k = 0; k < %s; k++) {", gpu_index(e, c->k));
  e->depth++;
  gpu_line(e, "const %s a = %s;", gpu_value_type(wide), gpu_convert(e, wide, ta, gpu_from_memory(e, ta, tile_element(e, &c->a, "i", "k"))));
  gpu_line(e, "const %s b = %s;", gpu_value_type(wide), gpu_convert(e, wide, tb, gpu_from_memory(e, tb, tile_element(e, &c->b, "k", "j"))));
  gpu_line(e, "sum = %s;", multiply_add(e, wide, "a", "b", "sum"));
  close_elements(e);
  gpu_line(e, "%s = %s;", acc, gpu_to_memory(e, t, "sum"));
  close_elements(e);
}

void gpu_contract(gpu_emit *e, const sn_knode *n) {
  const sn_kcontract *c = n->contract;
  const char *sums = e->buffers[c->acc.buffer].name, *lhs = e->buffers[c->a.buffer].name, *rhs = e->buffers[c->b.buffer].name;
  if (c->k->kind == SN_IX_CONST && c->k->value == 0) gpu_line(e, "/* %s = 0 */", sums);
  else gpu_line(e, "/* %s %s %s x %s: %d x %d%s%s */", sums, c->accumulate ? "+=" : "=", lhs, rhs, c->mr, c->nr, n->comment ? ": " : "", n->comment ? n->comment : "");
  if (e->buffers[c->acc.buffer].home == HOME_SPREAD) gpu_spread_contract(e, c);
  else plain(e, c);
}

static bool is_one(const sn_ix *e) { return e->kind == SN_IX_CONST && e->value == 1; }

/* One thread's 4, 8 or 16 neighbouring bytes from memory to shared memory, which the lowering has placed on as many: cp.async. */
static bool copy_async(gpu_emit *e, const sn_knode *n) {
  const sn_kcopy *c = n->copy;
  int64_t bytes = c->n->kind == SN_IX_CONST ? c->n->value * (int64_t)sn_type_bytes(e->k->buffers[c->to.buffer].type) : 0;
  if (!c->async || !e->lane || c->m->hi != 1 || c->m->lo < 0 || c->to.stride[1] != 1 || c->from.stride[1] != 1 || (bytes != 4 && bytes != 8 && bytes != 16)) return false;
  if (e->buffers[c->to.buffer].home != HOME_SHARED || e->buffers[c->from.buffer].home != HOME_GLOBAL) return false;
  const char *guard = gpu_guards(e, n->n_guards, n->guards), *some = is_one(c->m) ? "" : gpu_text(e, "if (%s > 0) ", gpu_index(e, c->m));
  gpu_line(e, "%ssn_copy_async<%d>(&%s, &%s%s%s);", some, (int)bytes, gpu_element(e, c->to.buffer, gpu_offset(e, c->to.buffer, c->to.at)),
           gpu_element(e, c->from.buffer, gpu_offset(e, c->from.buffer, c->from.at)), guard ? ", " : "", guard ? guard : "");
  return true;
}

void gpu_copy(gpu_emit *e, const sn_knode *n) {
  const sn_kcopy *c = n->copy;
  const char *guard = gpu_guards(e, n->n_guards, n->guards);
  sn_type to = e->k->buffers[c->to.buffer].type, from = e->k->buffers[c->from.buffer].type;
  if (to != from) {
    gpu_fail(e, SN_ERR_INTERNAL, "a tile copy changes the type");
    return;
  }
  if (copy_async(e, n)) return;
  open_elements(e, c->m, c->n);
  gpu_line(e, "%s = %s%s%s%s;", tile_element(e, &c->to, "i", "j"), guard ? guard : "", guard ? " ? " : "", tile_element(e, &c->from, "i", "j"),
           guard ? gpu_text(e, " : %s{}", gpu_memory_type(to)) : "");
  close_elements(e);
}
