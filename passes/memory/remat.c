/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Rematerialisation: values that wait long in memory are computed again before their late readers, until the peak fits.
 *
 * Works on a scheduled, fused entry. A value is a candidate where it lives across the peak unread and a slice of its fusion's body gives it again from what is in memory
 * then anyway: the fusion's operands, its other results, small values; or from values that slices of their fusions give again in turn, a few steps deep. A slice may hold
 * elementwise work, row reductions and the products inside attention (over heads); other products only to keep a limit. The candidate with the most bytes for a
 * microsecond goes first.
 *
 * With a limit (--memory-limit) until the limit is kept; without one as long as all of it costs at most one part in fifty of the step, where the peak is worth it. What
 * carries a sinter.remat mark was recomputed by the program itself and is left where the schedule put it. (Chen et al., "Training deep nets with sublinear memory cost",
 * 2016; XLA's rematerialisation picks by bytes for cost too.) */
#include "../passes_internal.h"

#include <stdlib.h>
#include <string.h>

#include "leaves.h"
#include "liveness.h"
#include "sinter/cost.h"

enum { MAX_ROUNDS = 24, MAX_SLICE = 512, MAX_STEPS = 4, SMALL_SHARE = 8, KEPT_LONGER = 3, KEPT_FOR_LIMIT = 6, MAX_IDLE = 4 };
static const double FREE_SHARE = 0.02;                 /* of the step's time, without a limit */
static const int64_t WORTH_BYTES = INT64_C(256) << 20; /* no recomputation without a limit below this peak */

typedef struct candidate {
  uint32_t value;
  uint32_t reader;      /* position of the first late reader */
  double us;
} candidate;

typedef struct rematerialiser {
  sn_pass_ctx *pc;
  sn_module *m;
  sn_liveness l;
  uint32_t *last_read;  /* by value: position; UINT32_MAX: for ever */
  uint32_t *next_read;  /* by value: first position from the peak on; UINT32_MAX: none */
  bool *held;           /* by value: something made again in this round reads it, so that it waits for the next */
  uint32_t *gone_at;    /* by position of a parameter: the first writer of what lies over it; UINT32_MAX: none */
  uint32_t peak_at;
  int64_t peak;
  uint8_t *in_slice;    /* by instruction id of the body */
  bool *busy;           /* by instruction id: a slice of this fusion is being looked for or made */
  sn_instr **copy;      /* by instruction id of the body */
  uint32_t n_ids;       /* of the tables */
  int steps;            /* how many fusions deep values may be made again */
  double spent_us, budget_us;
  int64_t limit;
} rematerialiser;

static sn_status no_memory(const rematerialiser *r) { return sn_out_of_memory(r->pc->diag, r->m->n_ids * sizeof(void *)); }

/* ---- where the peak is ---- */

/* Results that are written over arguments: behind the writer the argument is gone. */
static void find_writers(rematerialiser *r) {
  const sn_instr *root = r->m->entry->root;
  for (uint32_t k = 0; k < r->l.n; k++) r->gone_at[k] = UINT32_MAX;
  for (int64_t a = 0; a < r->m->n_aliases; a++) {
    const sn_alias *s = &r->m->aliases[a];
    uint32_t p = r->l.position[r->m->entry->params[s->operand]->id];
    uint32_t w = r->l.position[sn_leaf_source(root, sn_leaf_at(root->shape, s->output_index)).instr->id];
    if (w < r->gone_at[p]) r->gone_at[p] = w;
  }
}

static sn_status look(rematerialiser *r) {
  uint32_t *position = SN_NEW_N(r->pc->scratch, uint32_t, r->m->n_ids + 1);
  if (!position || sn_liveness_find(r->pc->scratch, r->m->entry, position, NULL, &r->l) != SN_OK) return no_memory(r);
  uint32_t *order = SN_NEW_N(r->pc->scratch, uint32_t, r->l.n + 1), *left = SN_NEW_N(r->pc->scratch, uint32_t, r->l.n_values + 1);
  r->last_read = SN_NEW_N(r->pc->scratch, uint32_t, r->l.n_values + 1);
  r->next_read = SN_NEW_N(r->pc->scratch, uint32_t, r->l.n_values + 1);
  r->held = SN_NEW_N(r->pc->scratch, bool, r->l.n_values + 1);
  r->gone_at = SN_NEW_N(r->pc->scratch, uint32_t, r->l.n + 1);
  r->n_ids = r->m->n_ids;
  r->in_slice = SN_NEW_N(r->pc->scratch, uint8_t, r->n_ids + 1);
  r->busy = SN_NEW_N(r->pc->scratch, bool, r->n_ids + 1);
  r->copy = SN_NEW_N(r->pc->scratch, sn_instr *, r->n_ids + 1);
  if (!order || !left || !r->last_read || !r->next_read || !r->held || !r->gone_at || !r->in_slice || !r->busy || !r->copy) return no_memory(r);
  for (uint32_t k = 0; k < r->l.n; k++) order[k] = k;
  r->peak = sn_liveness_peak(&r->l, order, left, &r->peak_at);
  for (uint32_t k = 0; k < r->l.n; k++) {
    for (uint32_t q = r->l.first_read[k]; q < r->l.first_read[k + 1]; q++) r->last_read[r->l.reads[q]] = k;
  }
  for (uint32_t v = 0; v < r->l.n_values; v++) {
    r->next_read[v] = UINT32_MAX;
    if (r->l.values[v].pinned) r->last_read[v] = UINT32_MAX;
  }
  for (uint32_t k = r->l.n; k-- > r->peak_at;) {
    for (uint32_t q = r->l.first_read[k]; q < r->l.first_read[k + 1]; q++) r->next_read[r->l.reads[q]] = k;
  }
  find_writers(r);
  return SN_OK;
}

/* ---- slices ---- */

static const sn_instr *body_result(const sn_instr *fusion, int leaf) {
  const sn_instr *root = fusion->called[0]->root;
  return root->op == SN_OP_TUPLE ? sn_instr_operand(root, (uint32_t)leaf) : root;
}

/* The new reader is not in the tables: were the value made again for its old readers alone, it would have to be made for this one too. */
static void hold(rematerialiser *r, sn_leaf_value s) {
  uint32_t k = s.instr->id < r->n_ids ? r->l.position[s.instr->id] : 0;
  if (s.instr->id < r->n_ids && r->l.first_value[k] != r->l.first_value[k + 1]) r->held[r->l.first_value[k] + (uint32_t)s.leaf] = true;
}

/* Is the value in memory at `reader` anyway, or nearly so long (its other readers may stand just in front), or too small to mind? For a limit a little longer: q, k and v, whose
 * last reader is attention's derivative, then give attention's result again for the weight gradient some commands behind it, where else three products would be needed. */
static bool is_there(const rematerialiser *r, sn_leaf_value s, uint32_t reader, int64_t bytes) {
  if (s.instr->op == SN_OP_CONSTANT) return true;
  if (s.instr->op == SN_OP_PARAMETER) return r->gone_at[r->l.position[s.instr->id]] > reader;
  uint32_t k = r->l.position[s.instr->id];
  if (r->l.first_value[k] == r->l.first_value[k + 1]) return false;
  uint32_t v = r->l.first_value[k] + (uint32_t)s.leaf;
  return r->last_read[v] == UINT32_MAX || r->last_read[v] + (r->limit ? KEPT_FOR_LIMIT : KEPT_LONGER) >= reader || r->l.values[v].bytes * SMALL_SHARE <= bytes;
}

/* The leaf of the fusion that body instruction i is; -1: none. */
static int leaf_of(const sn_instr *fusion, const sn_instr *i) {
  const sn_instr *root = fusion->called[0]->root;
  if (root->op != SN_OP_TUPLE) return root == i ? 0 : -1;
  for (uint32_t k = 0; k < root->n_operands; k++) {
    if (sn_instr_operand(root, k) == i) return (int)k;
  }
  return -1;
}

/* Products over heads belong to attention, which is cheap next to the layers around it. */
static bool may_repeat(const rematerialiser *r, const sn_instr *i) {
  switch (i->op) {
    case SN_OP_DOT: return r->limit > 0 || sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n > 0;
    case SN_OP_CONVOLUTION:
    case SN_OP_REDUCE_WINDOW:
    case SN_OP_GATHER:
    case SN_OP_MAP: return false;
    default: return sn_op_has(i->op, SN_T_PURE);
  }
}

typedef struct slice {
  int n;                         /* instructions, with those of values made on the way */
  double ops, products, bytes;
} slice;

enum { OUT, IN, CUT };

static bool find_slice(rematerialiser *r, const sn_instr *fusion, int leaf, uint32_t reader, int64_t bytes, int depth, slice *s);

/* An operand of the fusion: there, or to be made again as well. */
static bool find_operand(rematerialiser *r, const sn_instr *fusion, const sn_instr *param, uint32_t reader, int64_t bytes, int depth, slice *s) {
  const sn_instr *x = sn_instr_operand(fusion, (uint32_t)sn_instr_int(param, SN_ATTR_PARAMETER_NUMBER));
  if (!sn_shape_is_array(x->shape)) return false;
  sn_leaf_value v = sn_leaf_source(x, 0);
  s->bytes += (double)sn_shape_bytes(x->shape);
  if (is_there(r, v, reader, bytes)) return true;
  if (depth == 0 || v.instr->op != SN_OP_FUSION || r->busy[v.instr->id]) return false;
  s->bytes += (double)sn_shape_bytes(x->shape);
  return find_slice(r, v.instr, v.leaf, reader, bytes, depth - 1, s);
}

/* Counts what instruction i of a slice costs. */
static void count_ops(const sn_instr *i, slice *s) {
  if (i->op == SN_OP_DOT) {
    sn_ints k = sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS);
    double terms = 2;
    for (int64_t d = 0; d < k.n; d++) terms *= (double)sn_operand_shape(i, 0)->dims[k.v[d]];
    s->products += terms * (double)sn_shape_elements(i->shape);
  } else {
    s->ops += i->op == SN_OP_REDUCE ? (double)sn_shape_elements(sn_operand_shape(i, 0)) : sn_cost_element(i) * (double)sn_shape_elements(i->shape);
  }
}

/* Marks the body's instructions that must run for the result (IN) and the results that are read instead (CUT). False: it cannot be had so. */
static bool find_slice(rematerialiser *r, const sn_instr *fusion, int leaf, uint32_t reader, int64_t bytes, int depth, slice *s) {
  const sn_computation *c = fusion->called[0];
  bool ok = true;
  SN_FOR_INSTRS(i, c) r->in_slice[i->id] = OUT;
  r->in_slice[body_result(fusion, leaf)->id] = IN;
  r->busy[fusion->id] = true;
  for (const sn_instr *i = c->last; i && ok; i = i->prev) {
    if (r->in_slice[i->id] != IN) continue;
    if (i->op == SN_OP_PARAMETER) {
      ok = find_operand(r, fusion, i, reader, bytes, depth, s);
      continue;
    }
    int other = leaf_of(fusion, i);
    if (other >= 0 && other != leaf && is_there(r, (sn_leaf_value){fusion, other}, reader, bytes)) {
      r->in_slice[i->id] = CUT;
      s->bytes += (double)sn_shape_bytes(i->shape);
      continue;
    }
    ok = may_repeat(r, i) && ++s->n <= MAX_SLICE;
    count_ops(i, s);
    for (uint32_t k = 0; k < i->n_operands; k++) r->in_slice[sn_instr_operand(i, k)->id] = IN;
  }
  r->busy[fusion->id] = false;
  return ok;
}

/* ---- candidates ---- */

static bool is_candidate(rematerialiser *r, uint32_t v, candidate *out) {
  const sn_live_value *x = &r->l.values[v];
  slice s = {0};
  sn_rates rates;
  if (x->instr->op != SN_OP_FUSION || x->pinned || x->bytes * 512 < r->peak || sn_instr_frontend(x->instr, "sinter.remat")) return false;
  if (r->l.position[x->instr->id] >= r->peak_at || r->last_read[v] <= r->peak_at) return false;
  out->reader = r->next_read[v];
  if (out->reader == UINT32_MAX || out->reader <= r->peak_at + 1) return false; /* it would be made again at once */
  if (!find_slice(r, x->instr, x->leaf, out->reader, x->bytes, r->steps, &s)) return false;
  sn_cost_rates(r->pc->target, &rates);
  double memory = (s.bytes + (double)x->bytes) / rates.bytes, maths = s.ops / rates.ops + s.products / (rates.products * sn_heroes[SN_HERO_PRODUCT].maths);
  out->value = v;
  out->us = rates.launch + (memory > maths ? memory : maths);
  return true;
}

/* More bytes for a microsecond first. */
static bool better(const rematerialiser *r, const candidate *a, const candidate *b) {
  double x = (double)r->l.values[a->value].bytes / a->us, y = (double)r->l.values[b->value].bytes / b->us;
  return x != y ? x > y : a->value < b->value;
}

/* ---- making it again ---- */

static sn_status make_again(rematerialiser *r, const sn_instr *fusion, int leaf, uint32_t reader, int64_t bytes, int depth, sn_instr **out);

/* What the new fusion reads for parameter or cut result i of the old one's body. Names between the value and the operand are made anew. */
static sn_status operand_again(rematerialiser *r, const sn_instr *fusion, const sn_instr *i, uint32_t reader, int64_t bytes, int depth, sn_instr **out) {
  sn_builder b;
  sn_instr *at = r->l.instrs[reader];
  sn_builder_init_at(&b, r->pc->diag, at);
  if (i->op != SN_OP_PARAMETER) {
    *out = sn_build_get(&b, (sn_instr *)fusion, leaf_of(fusion, i));
    hold(r, (sn_leaf_value){fusion, leaf_of(fusion, i)});
    return *out ? SN_OK : b.status;
  }
  *out = sn_instr_operand(fusion, (uint32_t)sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER));
  sn_leaf_value v = sn_leaf_source(*out, 0);
  if (is_there(r, v, reader, bytes)) {
    hold(r, v);
    return SN_OK;
  }
  const sn_shape *as = (*out)->shape;
  SN_TRY(make_again(r, v.instr, v.leaf, reader, bytes, depth - 1, out));
  if (sn_shape_equal(as, (*out)->shape, 0)) return SN_OK;
  *out = sn_build(&b, SN_OP_BITCAST, as, 1, out, 0, NULL, 0, NULL);
  return *out ? SN_OK : b.status;
}

static sn_status copy_slice(rematerialiser *r, const sn_instr *fusion, int leaf, sn_computation *body, sn_list *params) {
  sn_builder b;
  sn_list args = {0};
  sn_status st = SN_OK;
  sn_builder_init(&b, r->pc->diag, body);
  for (sn_instr *i = fusion->called[0]->first; i && st == SN_OK; i = i->next) {
    if (r->in_slice[i->id] == OUT) continue;
    if (i->op == SN_OP_PARAMETER || r->in_slice[i->id] == CUT) {
      r->copy[i->id] = sn_build_parameter(&b, (int64_t)params->n, i->shape, NULL);
      st = r->copy[i->id] ? sn_list_push(params, i) : b.status;
      continue;
    }
    args.n = 0;
    for (uint32_t k = 0; k < i->n_operands && st == SN_OK; k++) st = sn_list_push(&args, r->copy[sn_instr_operand(i, k)->id]);
    if (st == SN_OK) st = sn_instr_clone(i, body, i->n_operands ? args.v : NULL, NULL, &r->copy[i->id]);
  }
  if (st == SN_OK) sn_computation_set_root(body, r->copy[body_result(fusion, leaf)->id]);
  sn_list_finish(&args);
  return st;
}

/* Name, kind and hero as fusion gives them. */
static sn_status mark_kind(sn_instr *fusion, const sn_instr *like) {
  sn_instr *hero = fusion->called[0]->root;
  int n_dots = 0;
  SN_FOR_INSTRS(i, fusion->called[0]) {
    n_dots += i->op == SN_OP_DOT;
    if (i->op == SN_OP_DOT || (i->op == SN_OP_REDUCE && hero->op != SN_OP_DOT)) hero = i;
  }
  sn_hero is = hero->op == SN_OP_DOT ? SN_HERO_PRODUCT : hero->op == SN_OP_REDUCE ? SN_HERO_ROWS : SN_HERO_LOOP;
  if (n_dots > 1 && sn_hero_of(like) == SN_HERO_ATTENTION) is = SN_HERO_ATTENTION; /* scores and what comes of them: no other template takes two products */
  char name[64], text[160];
  snprintf(name, sizeof name, "hero_%s", sn_opcode_text(hero->op));
  SN_TRY(sn_instr_set_name(hero, name));
  snprintf(text, sizeof text, "{\"sinter\":{\"version\":1,\"hero\":\"%s\",\"kind\":\"%s\"}}", hero->name, sn_heroes[is].text);
  int64_t form = is == SN_HERO_ATTENTION ? SN_FUSION_KIND_CUSTOM : is == SN_HERO_PRODUCT ? SN_FUSION_KIND_OUTPUT : is == SN_HERO_ROWS ? SN_FUSION_KIND_INPUT : SN_FUSION_KIND_LOOP;
  SN_TRY(sn_instr_set_attr(fusion, sn_attr_int(SN_ATTR_KIND, form)));
  return sn_instr_set_backend_config(fusion, text, false);
}

static sn_status make_fusion(rematerialiser *r, const sn_instr *like, sn_computation *body, const sn_list *operands, uint32_t reader, sn_instr **out) {
  sn_attr kind = sn_attr_int(SN_ATTR_KIND, SN_FUSION_KIND_LOOP);
  sn_instr_spec spec = {0};
  spec.op = SN_OP_FUSION;
  spec.shape = body->root->shape;
  spec.n_operands = (uint32_t)operands->n;
  spec.operands = operands->v;
  spec.n_attrs = 1;
  spec.attrs = &kind;
  spec.n_called = 1;
  spec.called = &body;
  spec.metadata = like->metadata;
  spec.loc = like->loc;
  SN_TRY(sn_instr_create(r->pc->diag, r->m->entry, &spec, out));
  sn_instr_move_before(*out, r->l.instrs[reader]);
  SN_TRY(mark_kind(*out, like));
  return sn_instr_set_frontend(*out, "sinter.remat", "chosen");
}

/* Result `leaf` of the fusion once more, in front of `reader`; find_slice said that it can be had. */
static sn_status make_again(rematerialiser *r, const sn_instr *fusion, int leaf, uint32_t reader, int64_t bytes, int depth, sn_instr **out) {
  slice s = {0};
  sn_list operands = {0}, params = {0};
  sn_computation *body;
  if (!find_slice(r, fusion, leaf, reader, bytes, depth, &s)) return sn_error(r->pc->diag, fusion->loc, SN_ERR_INTERNAL, "%s: not to be had again", fusion->name);
  SN_TRY(sn_computation_create(r->m, "recomputation", &body));
  sn_computation_move_before(body, r->m->entry);
  sn_status st = copy_slice(r, fusion, leaf, body, &params);
  r->busy[fusion->id] = true;
  for (size_t k = 0; k < params.n && st == SN_OK; k++) {
    sn_instr *x = NULL;
    st = operand_again(r, fusion, params.v[k], reader, bytes, depth, &x);
    if (st == SN_OK) st = sn_list_push(&operands, x);
  }
  r->busy[fusion->id] = false;
  if (st == SN_OK) st = make_fusion(r, fusion, body, &operands, reader, out);
  sn_list_finish(&operands);
  sn_list_finish(&params);
  return st == SN_ERR_MEMORY ? no_memory(r) : st;
}

/* Readers at or behind `reader` read the new value. Names of the old one (bitcasts, get-tuple-elements) that they read it by are made anew for them. */
static sn_status redirect(rematerialiser *r, sn_instr *old, int leaf, sn_instr *fresh, uint32_t reader) {
  for (sn_use *u = old->first_use, *next; u; u = next) {
    sn_instr *x = u->user;
    next = u->next;
    if (x == fresh || x->id >= r->n_ids) continue;
    if (x->op == SN_OP_GET_TUPLE_ELEMENT) {
      if (sn_instr_int(x, SN_ATTR_INDEX) != leaf) continue;
      SN_TRY(redirect(r, x, 0, fresh, reader));
      if (!x->n_uses && !sn_instr_is_root(x)) sn_instr_erase(x);
    } else if (sn_is_rename(x)) {
      sn_instr *name;
      SN_TRY(sn_instr_clone(x, r->m->entry, &fresh, NULL, &name));
      sn_instr_move_before(name, fresh->next);
      SN_TRY(redirect(r, x, 0, name, reader));
      if (!name->n_uses) sn_instr_erase(name);
    } else if (r->l.position[x->id] >= reader && x->op != SN_OP_TUPLE) {
      sn_instr_set_operand(x, u->index, fresh);
    }
  }
  return SN_OK;
}

static sn_status apply(rematerialiser *r, const candidate *c) {
  const sn_live_value *x = &r->l.values[c->value];
  slice s = {0};
  sn_instr *fresh;
  if (!find_slice(r, x->instr, x->leaf, c->reader, x->bytes, r->steps, &s)) return SN_OK; /* what it read is not there any more, for an earlier candidate */
  SN_TRY(make_again(r, x->instr, x->leaf, c->reader, x->bytes, r->steps, &fresh));
  SN_TRY(redirect(r, x->instr, x->leaf, fresh, c->reader));
  sn_number numbers[] = {{"bytes", (double)x->bytes}, {"us", c->us}, {"peak", (double)r->peak}};
  sn_pass_remark(r->pc, SN_DONE, SN_REASON_RECOMPUTED, x->instr, r->l.instrs[c->reader], 3, numbers, NULL);
  r->last_read[c->value] = 0; /* not there for others to be made from */
  r->spent_us += c->us;
  r->pc->changed = true;
  return SN_OK;
}

/* ---- rounds ---- */

static sn_status one_round(rematerialiser *r, bool *any) {
  uint32_t n = 0;
  candidate *v = SN_NEW_N(r->pc->scratch, candidate, r->l.n_values + 1);
  if (!v) return no_memory(r);
  for (uint32_t k = 0; k < r->l.n_values; k++) n += is_candidate(r, k, &v[n]);
  int64_t over = r->peak - r->limit;
  *any = false;
  while (n && over > 0) {
    uint32_t best = 0;
    for (uint32_t k = 1; k < n; k++) {
      if (better(r, &v[k], &v[best])) best = k;
    }
    candidate c = v[best];
    v[best] = v[--n];
    if (r->spent_us + c.us > r->budget_us || r->held[c.value]) continue;
    if (!sn_pass_may(r->pc)) break;
    over -= r->l.values[c.value].bytes;
    SN_TRY(apply(r, &c));
    *any = true;
  }
  return SN_OK;
}

static void report_limit(const rematerialiser *r) {
  int64_t limit = r->pc->options ? r->pc->options->memory_limit : 0;
  if (limit == 0 || r->peak <= limit) return;
  sn_warn(r->pc->diag, SN_NOWHERE, "the step needs %.1f MB of temporaries at its peak, above the memory limit of %.1f MB", (double)r->peak / 1e6, (double)limit / 1e6);
  sn_hint(r->pc->diag, "nothing more can be computed again from what is in memory; a smaller batch, or checkpoints around larger parts, would help");
}

sn_status sn_pass_remat(sn_pass_ctx *pc, sn_module *m) {
  rematerialiser r;
  sn_cost step;
  memset(&r, 0, sizeof r);
  r.pc = pc;
  r.m = m;
  /* One part in 16 is left to the gaps of the packing. */
  r.limit = pc->options && pc->options->memory_limit > 0 ? pc->options->memory_limit - pc->options->memory_limit / 16 : 0;
  SN_TRY(look(&r));
  if (r.peak <= (r.limit ? r.limit : WORTH_BYTES)) return SN_OK;
  sn_cost_of_computation(pc->target, m->entry, &step);
  r.steps = MAX_STEPS;
  r.budget_us = r.limit ? 1e30 : FREE_SHARE * step.us;
  int idle = 0; /* rounds without gain */
  for (int round = 0; round < MAX_ROUNDS && r.peak > r.limit; round++) {
    bool any = false;
    int64_t before = r.peak;
    SN_TRY(one_round(&r, &any));
    if (!any) break;
    SN_TRY(look(&r));
    idle = r.peak >= before ? idle + 1 : 0;
    if (idle == MAX_IDLE) break;
  }
  report_limit(&r);
  return SN_OK;
}
