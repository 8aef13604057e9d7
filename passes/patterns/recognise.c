/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Says which instructions together are a formula with a name: softmax, layer norm, gelu, cross-entropy, updates of optimisers, and their derivatives, whoever wrote them.
 *
 * From an anchor (an exponential, a reciprocal root, …) everything that it leads to through elementwise ops and reductions of rows is computed on a few numbers (pattern.h);
 * where that gives what a pattern's formula gives, the pattern was found, and what it was computed from are its members. They are marked and left as they are: the fusion pass
 * decides by cost what runs together, and makes a fusion that is a pattern kCustom, by name. One walk over the anchors, with a bound on what each may look at. */
#include "pattern.h"

#include <string.h>

const sn_pattern_info sn_patterns[SN_PATTERN_COUNT] = {
#define SN_PATTERN(id, text, family, of_several, what) {text, SN_FAMILY_##family, SN_PATTERN_##of_several, what},
#include "patterns.def"
#undef SN_PATTERN
};

static bool (*const tests[SN_PATTERN_COUNT])(const probe *, const probe_node *) = {
#define SN_PATTERN(id, text, family, of_several, what) sn_pattern_is_##id,
#include "patterns.def"
#undef SN_PATTERN
};

static const struct { sn_opcode op; sn_family family; bool (*begin)(probe *, const sn_instr *); } anchors[] = {
    {SN_OP_EXPONENTIAL, SN_FAMILY_softmax, sn_family_begin_softmax},
    {SN_OP_EXPONENTIAL, SN_FAMILY_gelu, sn_family_begin_gelu},
    {SN_OP_ERF, SN_FAMILY_gelu, sn_family_begin_gelu},
    {SN_OP_TANH, SN_FAMILY_gelu, sn_family_begin_gelu},
    {SN_OP_RSQRT, SN_FAMILY_norm, sn_family_begin_norm},
    {SN_OP_SQRT, SN_FAMILY_norm, sn_family_begin_norm},
};

enum { MAX_REACHED = 96, MAX_FOUND = 16 };

typedef struct found { sn_pattern pattern; sn_instr *root; } found;

typedef struct recogniser {
  sn_pass_ctx *pc;
  probe p;
  const sn_instr **member; /* by instruction id: the root of the pattern it belongs to */
  int n_found;             /* in this run of the pass: numbers them */
  found found[MAX_FOUND];  /* around one anchor */
  int n;
} recogniser;

/* ---- what was found ---- */

static bool is_mine(const recogniser *r, const sn_instr *i) {
  return i->id < r->p.n_ids && r->p.stamp[i->id] == r->p.run && r->p.node[r->p.slot[i->id]].extent != PROBE_FOREIGN && (r->p.node[r->p.slot[i->id]].leaves & r->p.core);
}
static bool is_leaf(const recogniser *r, const sn_instr *i) {
  for (int k = 0; k < r->p.n_leaves; k++) {
    if (r->p.leaf[k] == i) return true;
  }
  return false;
}

/* An update's rate times the gradient, where nobody else reads the product: of a leaf, only what it was scaled by belongs to the update. */
static bool is_rate(const sn_instr *x) {
  if (x->op != SN_OP_MULTIPLY || x->n_uses != 1) return false;
  for (uint32_t k = 0; k < 2; k++) {
    const sn_instr *s = sn_instr_operand(x, k);
    if (s->op == SN_OP_BROADCAST && sn_shape_is_scalar(sn_operand_shape(s, 0))) return true;
  }
  return false;
}

/* All that the root was computed from, down to the leaves, and belongs to none yet. */
static sn_status mark(recogniser *r, sn_instr *root, const char *text, int64_t *n) {
  sn_list todo = {0};
  sn_status s = sn_list_push(&todo, root);
  while (s == SN_OK && todo.n) {
    sn_instr *i = sn_list_pop(&todo);
    if (r->member[i->id]) continue;
    r->member[i->id] = root;
    s = sn_instr_set_frontend(i, SN_PATTERN_KEY, text);
    ++*n;
    for (uint32_t k = 0; k < i->n_operands && s == SN_OK; k++) {
      sn_instr *x = sn_instr_operand(i, k);
      bool inner = is_leaf(r, x) ? r->p.parameters && is_rate(x) : is_mine(r, x);
      if (inner && !r->member[x->id]) s = sn_list_push(&todo, x);
    }
  }
  sn_list_finish(&todo);
  return s == SN_OK ? SN_OK : sn_out_of_memory(r->pc->diag, sizeof(sn_instr *));
}

static void describe(const recogniser *r, sn_pattern pattern, char *to, size_t cap) {
  size_t n = (size_t)snprintf(to, cap, "%s", sn_patterns[pattern].text);
  const char *comma = "";
  if (!r->p.row_dims) return;
  n += (size_t)snprintf(to + n, cap - n, " over dim%s ", r->p.row_dims & (r->p.row_dims - 1) ? "s" : "");
  for (int d = 0; d < r->p.full->rank && n < cap; d++) {
    if (!(r->p.row_dims >> d & 1)) continue;
    n += (size_t)snprintf(to + n, cap - n, "%s%d", comma, d);
    comma = ",";
  }
}

static sn_status keep(recogniser *r, const found *f) {
  char text[64], about[96];
  int64_t n = 0;
  if (r->member[f->root->id] || !sn_pass_may(r->pc)) return SN_OK;
  snprintf(text, sizeof text, "%s#%d", sn_patterns[f->pattern].text, r->n_found++);
  SN_TRY(mark(r, f->root, text, &n));
  r->pc->changed = true;
  describe(r, f->pattern, about, sizeof about);
  sn_number numbers[] = {{"instructions", (double)n}};
  sn_pass_remark(r->pc, SN_DONE, SN_REASON_RECOGNISED, f->root, NULL, 1, numbers, about);
  return SN_OK;
}

/* One of each pattern, in the order of the table. Of norms the last, with gamma and beta; of their derivatives the first: others add what has nothing to do with them. */
static sn_status keep_all(recogniser *r) {
  for (int pattern = 0; pattern < SN_PATTERN_COUNT && r->n; pattern++) {
    int at = -1;
    for (int k = 0; k < r->n; k++) {
      if ((int)r->found[k].pattern == pattern && (at < 0 || sn_patterns[pattern].of_several == SN_PATTERN_LAST)) at = k;
    }
    if (at >= 0) SN_TRY(keep(r, &r->found[at]));
  }
  return SN_OK;
}

/* ---- around an anchor ---- */

static void try_patterns(recogniser *r, sn_family family, sn_instr *i, const probe_node *v) {
  for (int k = 0; k < SN_PATTERN_COUNT && r->n < MAX_FOUND; k++) {
    if (sn_patterns[k].family != family || !tests[k](&r->p, v)) continue;
    r->found[r->n++] = (found){(sn_pattern)k, i};
    return;
  }
}

/* Breadth first, so that what is built from less is met first. */
static void look_around(recogniser *r, sn_family family, sn_instr *anchor, bool norms) {
  sn_instr *reached[MAX_REACHED];
  int n = 1;
  reached[0] = anchor;
  r->n = 0;
  for (int k = 0; k < n; k++) {
    const probe_node *v = sn_probe_of(&r->p, reached[k]);
    if (!v || !v->leaves) continue;
    if (sn_type_is_float(reached[k]->shape->type) && reached[k]->op != SN_OP_BROADCAST) try_patterns(r, family, reached[k], v);
    SN_FOR_USES(u, reached[k]) {
      sn_instr *x = u->user;
      bool known = norms && r->member[x->id];
      for (int q = 0; q < n && !known; q++) known = reached[q] == x;
      if (!known && n < MAX_REACHED) reached[n++] = x;
    }
  }
}

static sn_status try_anchor(recogniser *r, sn_instr *i, bool norms) {
  if (!sn_shape_is_array(i->shape) || r->member[i->id]) return SN_OK;
  r->p.member = norms ? r->member : NULL; /* others may share a square, or a sum */
  for (size_t k = 0; k < sizeof anchors / sizeof *anchors; k++) {
    if (anchors[k].op != i->op || (anchors[k].family == SN_FAMILY_norm) != norms || !anchors[k].begin(&r->p, i)) continue;
    look_around(r, anchors[k].family, i, norms);
    SN_TRY(keep_all(r));
    if (r->member[i->id]) return SN_OK;
  }
  return SN_OK;
}

/* Results of the step: new weights. */
static sn_status try_result(recogniser *r, sn_instr *i) {
  if (!sn_shape_is_array(i->shape) || !sn_type_is_float(i->shape->type) || !sn_op_has(i->op, SN_T_ELTWISE) || r->member[i->id]) return SN_OK;
  (void)sn_family_begin_update(&r->p, i);
  const probe_node *v = sn_probe_of(&r->p, i);
  r->n = 0;
  if (v && v->leaves) try_patterns(r, SN_FAMILY_update, i, v);
  return keep_all(r);
}

/* Functions before their derivatives, which may have anchors of their own. Of norms the last first: along a residual stream the derivative of one is computed from that of the
 * next, which then is known for what it is and not looked into. */
static sn_status run_computation(recogniser *r, sn_computation *c) {
  SN_FOR_INSTRS(i, c) SN_TRY(try_anchor(r, i, false));
  for (sn_instr *i = c->last; i; i = i->prev) SN_TRY(try_anchor(r, i, true));
  if (c->root->op != SN_OP_TUPLE) return try_result(r, c->root);
  for (uint32_t k = 0; k < c->root->n_operands; k++) SN_TRY(try_result(r, sn_instr_operand(c->root, k)));
  return SN_OK;
}

sn_status sn_pass_recognise_patterns(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  recogniser *r = SN_NEW(pc->scratch, recogniser);
  if (!r) return sn_out_of_memory(pc->diag, sizeof *r);
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  r->pc = pc;
  r->member = SN_NEW_N(pc->scratch, const sn_instr *, m->n_ids + 1);
  if (!r->member) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *r->member);
  SN_TRY(sn_probe_init(pc, m, &r->p));
  SN_FOR_COMPUTATIONS(c, m) {
    if (!g.in_fusion[c->id] && !g.is_applied[c->id]) SN_TRY(run_computation(r, c));
  }
  return SN_OK;
}
