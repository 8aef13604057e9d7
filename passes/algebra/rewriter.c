/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The worklist that applies rules. All instructions of a computation are looked at once in order; a rewrite puts what it made, its users and the operands of
 * what died back on the list. A bound on rewrites (a multiple of the module's size) stands behind law 4: rules that run in a circle are named, not followed. */
#include "rules.h"

enum { REWRITES_EACH = 24, REWRITES_SLACK = 1000, N_TABLES = 8 };

typedef struct chain { const sn_rule **v; int n; } chain;

typedef struct rewriter {
  sn_pass_ctx *pc;
  chain by_op[SN_OP_COUNT];
  sn_list todo;
  bool *effects;
  uint8_t *queued;       /* by id, up to n_queued_ids; later ids are always taken */
  uint32_t n_queued_ids;
  int64_t left;          /* rewrites before the rules are stopped */
  const sn_rule *last;
} rewriter;

static const sn_rule *table_at(int k) {
  switch (k) {
    case 0: return sn_rules_arithmetic;
    case 1: return sn_rules_logic;
    case 2: return sn_rules_convert;
    case 3: return sn_rules_shape;
    case 4: return sn_rules_slice;
    case 5: return sn_rules_reduce;
    case 6: return sn_rules_dot;
    default: return sn_rules_gather;
  }
}

/* Rules by root op, in the order of the tables. */
static sn_status index_rules(rewriter *r, sn_numeric numeric) {
  int counts[SN_OP_COUNT] = {0};
  for (int pass = 0; pass < 2; pass++) {
    for (int t = 0; t < N_TABLES; t++) {
      for (const sn_rule *rule = table_at(t); rule->rewrite; rule++) {
        if (rule->numeric != numeric) continue;
        if (pass == 0) counts[rule->root]++;
        else r->by_op[rule->root].v[r->by_op[rule->root].n++] = rule;
      }
    }
    for (int op = 0; op < SN_OP_COUNT && pass == 0; op++) {
      if (counts[op] && !(r->by_op[op].v = SN_NEW_N(r->pc->scratch, const sn_rule *, counts[op]))) return sn_out_of_memory(r->pc->diag, sizeof(void *));
    }
  }
  return SN_OK;
}

static sn_status enqueue(rewriter *r, sn_instr *i) {
  if (r->by_op[i->op].n == 0) return SN_OK;
  if (i->id < r->n_queued_ids) {
    if (r->queued[i->id]) return SN_OK;
    r->queued[i->id] = 1;
  }
  return sn_list_push(&r->todo, i);
}

static bool pattern_fits(const sn_rule *rule, const sn_instr *i) {
  if (rule->a != SN_ANY && (i->n_operands < 1 || sn_in(i, 0)->op != rule->a)) return false;
  return rule->b == SN_ANY || (i->n_operands >= 2 && sn_in(i, 1)->op == rule->b);
}

/* Rules know nothing of dynamic sizes, unknown shapes, control edges or shardings that would be lost. */
static bool eligible(const sn_instr *i) {
  if (i->n_control || !sn_shape_is_static(i->shape) || sn_instr_frontend(i, "sinter.remat")) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!sn_shape_is_static(sn_operand_shape(i, k))) return false;
  }
  return true;
}

static sn_status enqueue_users(rewriter *r, const sn_instr *i) {
  SN_FOR_USES(u, i) SN_TRY(enqueue(r, u->user));
  return SN_OK;
}

/* What the rule made stands between `before` and i. */
static sn_status enqueue_new(rewriter *r, sn_instr *before, sn_instr *i) {
  for (sn_instr *j = before ? before->next : i->parent->first; j && j != i; j = j->next) SN_TRY(enqueue(r, j));
  return SN_OK;
}

static sn_status replace(rewriter *r, sn_instr *i, sn_instr *by, bool is_new) {
  SN_TRY(is_new ? sn_pass_replace(r->pc, i, by) : sn_pass_forward(r->pc, i, by));
  SN_TRY(enqueue_users(r, by));
  for (uint32_t k = 0; k < i->n_operands; k++) SN_TRY(enqueue(r, sn_in(i, k)));
  return sn_pass_drop(r->pc, i, r->effects, NULL);
}

static sn_status apply(rewriter *r, sn_instr *i, bool *applied) {
  const chain *c = &r->by_op[i->op];
  *applied = false;
  for (int k = 0; k < c->n; k++) {
    if (!pattern_fits(c->v[k], i)) continue;
    if (r->pc->applications_left <= 0) return SN_OK;
    sn_builder b;
    sn_builder_init_at(&b, r->pc->diag, i);
    sn_instr *before = i->prev;
    uint32_t first_new = i->parent->module->n_ids;
    sn_instr *by = c->v[k]->rewrite(&b, i);
    SN_TRY(b.status);
    if (!by || by == i) continue;
    sn_assert(sn_shape_equal(by->shape, i->shape, 0));
    (void)sn_pass_may(r->pc);
    sn_pass_remark(r->pc, SN_DONE, SN_REASON_RULE, i, NULL, 0, NULL, c->v[k]->law);
    r->last = c->v[k];
    r->left--;
    *applied = true;
    SN_TRY(enqueue_new(r, before, i));
    return replace(r, i, by, by->id >= first_new);
  }
  return SN_OK;
}

static sn_status drain(rewriter *r) {
  while (r->todo.n && r->left > 0) {
    sn_instr *i = sn_list_pop(&r->todo);
    if (i->id < r->n_queued_ids) r->queued[i->id] = 0;
    bool applied;
    if (!sn_instr_is_linked(i) || !eligible(i) || (!i->n_uses && !sn_instr_is_root(i))) continue;
    SN_TRY(apply(r, i, &applied));
  }
  return SN_OK;
}

static sn_status run_computation(rewriter *r, sn_computation *c) {
  for (sn_instr *i = c->last; i; i = i->prev) SN_TRY(enqueue(r, i)); /* popped in order: operands before users */
  return drain(r);
}

sn_status sn_rules_run(sn_pass_ctx *pc, sn_module *m, sn_numeric numeric) {
  rewriter r = {0};
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  r.pc = pc;
  r.effects = sn_effects(pc->scratch, m);
  r.n_queued_ids = m->n_ids;
  r.queued = sn_arena_zero(pc->scratch, m->n_ids + 1u, 1);
  r.left = REWRITES_SLACK;
  SN_FOR_COMPUTATIONS(c, m) r.left += REWRITES_EACH * (int64_t)c->n_instrs;
  if (!r.effects || !r.queued) return sn_out_of_memory(pc->diag, m->n_ids);
  sn_status s = index_rules(&r, numeric);
  for (sn_computation *c = m->first; c && s == SN_OK; c = c->next) {
    if (!(c->id < g.n && g.in_fusion[c->id])) s = run_computation(&r, c);
  }
  if (s == SN_OK && r.left <= 0) {
    sn_warn(pc->diag, SN_NOWHERE, "rules of %s run in a circle: stopped at `%s`", sn_passes[pc->pass].text, r.last ? r.last->law : "");
    sn_pass_remark(pc, SN_INFO, SN_REASON_FIGHT, NULL, NULL, 0, NULL, r.last ? r.last->law : NULL);
  }
  sn_list_finish(&r.todo);
  return s;
}
