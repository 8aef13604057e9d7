/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attention, forward and backward, becomes fusions whose scores stay in cache, a block of rows of a head at a time: in memory there are q, k, v, the results, and one number a row
 * (the logarithm of its sum of exponentials), from which the derivative computes the probabilities again. Found by what is computed, not by who wrote it or by names.
 * One more rounding here, one less there: class formula. After Dao et al., "FlashAttention" (2022). */
#include "attention.h"
#include "sinter/cost.h"
#include "sinter/gpu_cost.h"

#include <string.h>

#include "sinter/cost.h"

enum { LEAST_ROWS = 4, MAX_LATE = 256 };

/* ---- operands must not wait for results ---- */

typedef struct order { const uint32_t *position; uint32_t n; } order; /* by instruction id; those of later ids were made on the way */

static uint32_t position_of(const order *o, const sn_instr *i) { return i->id < o->n ? o->position[i->id] : UINT32_MAX; }

static sn_instr *first_of(const order *o, const attention *m) {
  sn_instr *of[] = {m->dv, m->dq, m->dk}, *first = NULL;
  for (int k = 0; k < 3; k++) {
    if (of[k] && (!first || position_of(o, of[k]) < position_of(o, first))) first = of[k];
  }
  return first;
}

/* Does anything that the backward fusion will read come from what it gives? Only what stands behind its first result can. */
static bool is_circular(sn_pass_ctx *pc, const order *o, const attention *m, const sn_instr *first, sn_status *status) {
  const sn_instr *dots[] = {m->scores, m->dp, m->dq, m->dk, m->dv};
  const sn_instr **todo = SN_NEW_N(pc->scratch, const sn_instr *, MAX_LATE);
  int n = 0;
  if (!todo) {
    *status = sn_out_of_memory(pc->diag, MAX_LATE * sizeof *todo);
    return true;
  }
  for (int k = 0; k < 5; k++) {
    if (!dots[k]) continue;
    bool inner = dots[k] == m->scores || dots[k] == m->dp; /* both operands come from outside; of the others, one */
    for (uint32_t s = 0; s < 2; s++) {
      uint32_t own = dots[k] == m->dq ? m->dq_ds : dots[k] == m->dk ? m->dk_ds : m->dv_p;
      if (inner || s != own) todo[n++] = sn_instr_operand(dots[k], s);
    }
  }
  for (int k = 0; k < n; k++) {
    if (todo[k] == m->dv || todo[k] == m->dq || todo[k] == m->dk) return true;
    if (position_of(o, todo[k]) < position_of(o, first)) continue;
    for (uint32_t s = 0; s < todo[k]->n_operands; s++) {
      if (n == MAX_LATE) return true;
      todo[n++] = sn_instr_operand(todo[k], s);
    }
  }
  return false;
}

/* ---- the walk ---- */

/* Of computations there are, and, all without, of those that will be made: two bodies an attention and a few reducers. */
static bool *effects_with_room(sn_pass_ctx *pc, const sn_module *m) {
  size_t n = m->n_comp_ids + 16u;
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) n += i->op == SN_OP_EXPONENTIAL ? 16 : 0;
  }
  const bool *known = sn_effects(pc->scratch, m);
  bool *effects = known ? SN_NEW_N(pc->scratch, bool, n) : NULL;
  if (effects) memcpy(effects, known, m->n_comp_ids * sizeof *effects);
  return effects;
}

/* ---- what it costs ---- */

static bool option_is(const sn_pass_ctx *pc, const char *text) { return pc->options && pc->options->attention && strcmp(pc->options->attention, text) == 0; }

static int64_t features(const attention *m, const sn_instr *dot) { /* of the operand beside the scores', which has them last or in front of the positions */
  const sn_shape *s = sn_operand_shape(dot, dot == m->out ? 1 - m->out_p : 0);
  int64_t positions = m->scores->shape->dims[m->n_batch + (dot == m->out)], all = sn_shape_elements(s);
  for (int k = 0; k < m->n_batch; k++) all /= s->dims[k];
  return positions ? all / positions : 0;
}

static bool on_tensor_cores(const sn_pass_ctx *pc, const sn_instr *dot) {
  const sn_attr *algorithm = sn_instr_attr(dot, SN_ATTR_DOT_ALGORITHM);
  sn_ints precision = sn_instr_ints(dot, SN_ATTR_OPERAND_PRECISION);
  bool high = pc->options && pc->options->tf32;
  for (int64_t k = 0; k < precision.n; k++) high |= precision.v[k] == SN_PRECISION_HIGH;
  return sn_type_bits(dot->shape->type) < 32 || (algorithm ? sn_instr_int(dot, SN_ATTR_DOT_ALGORITHM) == SN_DOT_ALGORITHM_TF32_TF32_F32 : high);
}

typedef struct estimate { double fused_us, eager_us; bool fits; /* is there a template for it? */ } estimate;

static bool on_gpu(const sn_pass_ctx *pc) { return pc->target && pc->target->kind == SN_TARGET_CUDA; }

/* On a GPU what is cut for its shared memory, and the products and softmax that stand there as kernels of their own. */
static estimate weigh_on_gpu(const sn_pass_ctx *pc, const attention *m, bool derivative) {
  estimate e = {0, 0, sn_type_bits(m->exp->shape->type) < 64 && sn_type_bits(m->scores->shape->type) < 64};
  sn_gpu_attention_problem p = {.batch = 1, .n_q = m->scores->shape->dims[m->n_batch], .n_k = m->scores->shape->dims[m->n_batch + 1]};
  for (int k = 0; k < m->n_batch; k++) p.batch *= m->scores->shape->dims[k];
  p.d_qk = features(m, m->scores);
  p.d_v = features(m, m->out);
  p.tensor = on_tensor_cores(pc, m->scores);
  for (int k = 0; e.fits && k <= derivative; k++) {
    sn_gpu_attention_schedule s;
    p.backward = k == 1;
    e.fits = sn_gpu_choose_attention(pc->target, &p, &s);
    e.fused_us += s.us + pc->target->launch_us * (1 + s.two_phases);
    e.eager_us += e.fits ? sn_gpu_eager_attention_us(pc->target, &p) : 0;
  }
  return e;
}

/* As it was written every array with the scores' shape passes through memory, four times forward and six times for the derivative; fused, the derivative computes the scores once
 * more. So wide heads may stay as they are: measured on AVX-512, from about 200 features on, whatever the number of keys. */
static estimate weigh(const sn_pass_ctx *pc, const attention *m, bool derivative) {
  enum { FORWARD = 2, BACKWARD = 4, AGAIN = 1 };                       /* products */
  static const double FORWARD_OPS = 18, BACKWARD_OPS = 21, FORWARD_PASSES = 4, BACKWARD_PASSES = 6; /* an element of the scores: single operations of the softmax, times in memory */
  sn_rates r;
  if (on_gpu(pc)) return weigh_on_gpu(pc, m, derivative);
  sn_cost_rates(pc->target, &r);
  int64_t k = sn_instr_ints(m->scores, SN_ATTR_LHS_CONTRACTING_DIMS).v[0];
  double n = (double)sn_shape_elements(m->scores->shape), product = 2 * n * (double)sn_operand_shape(m->scores, 0)->dims[k] / r.products;
  double ops = n * (FORWARD_OPS + (derivative ? BACKWARD_OPS : 0)) / r.ops, bytes = (double)sn_shape_bytes(m->scores->shape) * (FORWARD_PASSES + (derivative ? BACKWARD_PASSES : 0));
  return (estimate){.fits = true, .fused_us = (product * (FORWARD + (derivative ? BACKWARD + AGAIN : 0)) + ops) / sn_heroes[SN_HERO_ATTENTION].maths,
                    .eager_us = product * (FORWARD + (derivative ? BACKWARD : 0)) / sn_heroes[SN_HERO_PRODUCT].maths + bytes / (r.bytes * sn_heroes[SN_HERO_ROWS].memory)};
}

static void remark(sn_pass_ctx *pc, sn_verdict v, sn_reason r, const attention *m, const sn_instr *object, const char *text) {
  estimate e = weigh(pc, m, m->dv || m->dq || m->dk);
  sn_number numbers[] = {{"scores_bytes", (double)sn_shape_bytes(m->scores->shape)}, {"fused_us", e.fused_us}, {"eager_us", e.eager_us}};
  sn_pass_remark(pc, v, r, m->scores, object, 3, numbers, text);
}

/* Unless an option says so. Narrow scores are computed in f32 either way, and converted on their way through memory: not as cheap to store as their bytes say, so they stay on chip. */
static bool costs_more(const sn_pass_ctx *pc, const attention *m, bool derivative) {
  estimate e = weigh(pc, m, derivative);
  return e.fused_us > e.eager_us && (on_gpu(pc) || sn_type_bits(m->scores->shape->type) >= 32) && !option_is(pc, "fused");
}

static sn_status try(sn_pass_ctx *pc, sn_instr *exp, const order *o, const bool *effects, bool *built) {
  attention m;
  attention_verdict verdict;
  sn_instr *other;
  sn_status status = SN_OK;
  SN_TRY(sn_attention_match(pc, exp, &m, &verdict, &other));
  if (verdict == ATTENTION_NONE) return SN_OK;
  if (verdict == ATTENTION_SHARED) {
    remark(pc, SN_REFUSED, SN_REASON_WANTED, &m, other, NULL);
    return SN_OK;
  }
  sn_instr *first = first_of(o, &m);
  if (m.scores->shape->dims[m.n_batch] < LEAST_ROWS) {
    remark(pc, SN_REFUSED, SN_REASON_COST, &m, NULL, "too few rows");
  } else if (!weigh(pc, &m, first != NULL).fits) {
    remark(pc, SN_REFUSED, SN_REASON_COST, &m, NULL, "no tile of this type and width fits a multiprocessor");
  } else if (costs_more(pc, &m, first != NULL)) {
    remark(pc, SN_REFUSED, SN_REASON_COST, &m, NULL, "the scores cost more once more than in memory");
  } else if (first && is_circular(pc, o, &m, first, &status)) {
    SN_TRY(status);
    remark(pc, SN_REFUSED, SN_REASON_WANTED, &m, first, "an operand waits for a result");
  } else if (sn_pass_may(pc)) {
    remark(pc, SN_DONE, SN_REASON_ON_CHIP, &m, m.out, first ? "forward and backward" : "forward");
    SN_TRY(sn_attention_build(pc, &m, first, effects));
    *built = pc->changed = true;
  }
  return SN_OK;
}

static sn_status run_computation(sn_pass_ctx *pc, sn_computation *c, const order *o, const bool *effects) {
  sn_list exps = {0};
  bool built = false;
  sn_status s = SN_OK;
  for (sn_instr *i = c->first; i && s == SN_OK; i = i->next) {
    if (i->op == SN_OP_EXPONENTIAL && sn_shape_is_array(i->shape) && i->shape->rank >= 2) s = sn_list_push(&exps, i);
  }
  if (s != SN_OK) s = sn_out_of_memory(pc->diag, sizeof(sn_instr *));
  for (size_t k = 0; k < exps.n && s == SN_OK; k++) {
    if (sn_instr_is_linked(exps.v[k])) s = try(pc, exps.v[k], o, effects, &built);
  }
  sn_list_finish(&exps);
  return s == SN_OK && built ? sn_computation_sort(pc->diag, c) : s;
}

sn_status sn_pass_attention_fusion(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  if (option_is(pc, "eager")) return SN_OK;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  uint32_t *position = SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1), n = 0;
  sn_computation **todo = SN_NEW_N(pc->scratch, sn_computation *, m->n_computations + 1);
  const bool *effects = effects_with_room(pc, m);
  if (!position || !todo || !effects) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *position);
  order o = {position, m->n_ids};
  SN_FOR_COMPUTATIONS(c, m) {
    uint32_t at = 0;
    SN_FOR_INSTRS(i, c) position[i->id] = at++;
    if (!g.in_fusion[c->id] && !g.is_applied[c->id]) todo[n++] = c;
  }
  for (uint32_t k = 0; k < n; k++) SN_TRY(run_computation(pc, todo[k], &o, effects));
  return SN_OK;
}
