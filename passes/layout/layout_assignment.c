/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Layout assignment: in which order the dimensions of images and kernels lie, by cost over the
 * whole computation.
 *
 * Channels last (NHWC) lets a convolution fill its lanes with output channels and read kernels
 * along them; channels first (NCHW) fills them with pixels. Which is cheaper depends on the sizes
 * and on what must be copied at the boundary. From three starts (as written, all NHWC, all NCHW)
 * each region in turn takes the order that is cheapest given the others; the cheapest end wins, so
 * that it never costs more than either forced layout. `--layout=nhwc|nchw` fixes the regions that
 * hold images.
 *
 * Invariants: values keep their bits; reductions keep their order of terms under --numeric=strict.
 * In the manner of XLA's layout assignment and normalisation, but the copies are weighed. Linear:
 * regions are swept a fixed number of times. */
#include "layout.h"

#include <string.h>

enum { SWEEPS = 3 };
static const double LEAST_GAIN_US = 20, LEAST_STEP_US = 2; /* below it, what the model cannot see weighs more */
static const char *const order_names[LO_ORDERS] = {"as written", "nhwc", "nchw"};

/* ---- what it costs ---- */

static int64_t minor_dim(const lo_value *v, int rank) {
  int64_t dims[LO_MAX_RANK];
  if (!v->region) return rank - 1;
  sn_layout_dims(v->region, v->region->chosen, v->axis, rank, dims);
  return dims[rank - 1];
}

static double conv_us(const lo_state *s, const lo_conv *c) {
  int64_t minor[3];
  for (int k = 0; k < 3; k++)
    minor[k] = minor_dim(c->values[k],
                         k == 2 ? c->i->shape->rank : sn_operand_shape(c->i, (uint32_t)k)->rank);
  return c->flops / (s->rates.products * sn_cost_convolution_share(s->pc->target, c->i, minor));
}

/* Does the order leave the value's elements where they were? */
static bool stays(const lo_region *r, int order, const lo_boundary *b) {
  int64_t dims[LO_MAX_RANK], last = -1;
  sn_layout_dims(r, order, b->axis, b->value->shape->rank, dims);
  for (int k = 0; k < b->value->shape->rank; k++) {
    if (b->value->shape->dims[dims[k]] == 1) continue;
    if (dims[k] < last) return false;
    last = dims[k];
  }
  return true;
}

/* Scalars that are stretched have no order. */
static bool is_splat(const sn_instr *i) {
  return i->op == SN_OP_BROADCAST && sn_shape_is_scalar(sn_operand_shape(i, 0));
}

static double boundary_us(const lo_state *s, const lo_region *r, const lo_boundary *b) {
  if (r->chosen == LO_WRITTEN || is_splat(b->value) || stays(r, r->chosen, b)) return 0;
  return s->rates.launch + 2 * (double)sn_shape_bytes(b->value->shape) / s->rates.bytes;
}

static double region_us(const lo_state *s, const lo_region *r) {
  double us = 0;
  for (const lo_boundary *b = r->boundaries; b; b = b->next) us += boundary_us(s, r, b);
  for (const lo_touch *t = r->convs; t; t = t->next) us += conv_us(s, t->conv);
  return us;
}

static double total_us(const lo_state *s) {
  double us = 0;
  for (const lo_region *r = s->regions; r; r = r->next) {
    for (const lo_boundary *b = r->boundaries; b; b = b->next) us += boundary_us(s, r, b);
  }
  for (uint32_t k = 0; k < s->n_convs; k++) us += conv_us(s, &s->convs[k]);
  return us;
}

/* ---- choosing ---- */

static bool improve(const lo_state *s, lo_region *r) {
  int was = r->chosen, best = was;
  double least = region_us(s, r);
  for (int order = 0; order < LO_ORDERS; order++) {
    r->chosen = order;
    double us = region_us(s, r);
    if (us >= least - (best == was) * LEAST_STEP_US) continue;
    least = us;
    best = order;
  }
  r->chosen = best;
  return best != was;
}

/* From one start; fixed: regions of images stay there. */
static double descend(const lo_state *s, int start, bool fixed) {
  for (lo_region *r = s->regions; r; r = r->next)
    r->chosen = r->image || start == LO_WRITTEN ? start : LO_WRITTEN;
  for (int sweep = 0, changed = 1; sweep < SWEEPS && changed; sweep++) {
    changed = 0;
    for (lo_region *r = s->regions; r; r = r->next) {
      if (!(fixed && r->image)) changed |= improve(s, r);
    }
  }
  return total_us(s);
}

/* "as written", "nhwc" or "nchw": what the images lie in for the most part. */
static const char *name_of(const lo_state *s) {
  int n[LO_ORDERS] = {0}, best = 0;
  for (const lo_region *r = s->regions; r; r = r->next) n[r->chosen] += r->image;
  for (int k = 1; k < LO_ORDERS; k++) best = n[k] > n[best] ? k : best;
  return order_names[best];
}

static void choose(lo_state *s) {
  const char *asked = s->pc->options && s->pc->options->layout ? s->pc->options->layout : "auto";
  double forced[LO_ORDERS], written = descend(s, LO_WRITTEN, true), least = written - LEAST_GAIN_US;
  int forced_to = strcmp(asked, "nhwc") == 0   ? LO_NHWC
                  : strcmp(asked, "nchw") == 0 ? LO_NCHW
                                               : LO_WRITTEN;
  int start = forced_to;
  bool fixed = true;
  for (int k = 0; k < LO_ORDERS; k++) {
    forced[k] = descend(s, k, true);
    double us = descend(s, k, false);
    if (forced_to || us >= least) continue;
    least = us;
    start = k;
    fixed = false;
  }
  double took = descend(s, start, fixed);
  sn_number numbers[] = {{"us", took},
                         {"as_written_us", forced[LO_WRITTEN]},
                         {"nhwc_us", forced[LO_NHWC]},
                         {"nchw_us", forced[LO_NCHW]}};
  sn_pass_remark(s->pc, SN_INFO, forced_to ? SN_REASON_FORCED : SN_REASON_LAYOUT, s->convs[0].i,
                 NULL, 4, numbers, name_of(s));
}

static void explain(const lo_state *s, const lo_region *r) {
  sn_number numbers[] = {{"us", region_us(s, r)}};
  sn_pass_remark(s->pc, SN_DONE, SN_REASON_LAYOUT, r->first, NULL, 1, numbers,
                 order_names[r->chosen]);
  for (const lo_boundary *b = r->boundaries; b; b = b->next) {
    double us = boundary_us(s, r, b);
    sn_number cost[] = {{"bytes", (double)sn_shape_bytes(b->value->shape)}, {"us", us}};
    if (us > 0)
      sn_pass_remark(s->pc, SN_DONE, SN_REASON_BOUNDARY, b->value, r->first, 2, cost, NULL);
  }
}

static sn_status assign(sn_pass_ctx *pc, sn_computation *c, lo_state *s) {
  s->pc = pc;
  s->c = c;
  s->last_region = &s->regions;
  sn_cost_rates(pc->target, &s->rates);
  SN_TRY(sn_layout_find_regions(s));
  if (!s->n_convs) return SN_OK;
  choose(s);
  for (lo_region *r = s->regions; r; r = r->next) {
    if (r->chosen != LO_WRITTEN && !sn_pass_may(pc)) r->chosen = LO_WRITTEN;
  }
  for (const lo_region *r = s->regions; r; r = r->next) {
    if (r->chosen != LO_WRITTEN) explain(s, r);
  }
  return sn_layout_relayout(s);
}

static bool has_convolution(const sn_computation *c) {
  SN_FOR_INSTRS(i, c) {
    if (i->op == SN_OP_CONVOLUTION) return true;
  }
  return false;
}

sn_status sn_pass_layout_assignment(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id] || g.is_applied[c->id] || !has_convolution(c)) continue;
    lo_state s = {0};
    s.values = SN_NEW_N(pc->scratch, lo_value, m->n_ids + 1);
    s.seen = SN_NEW_N(pc->scratch, const lo_region *, m->n_ids + 1);
    if (!s.values || !s.seen) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *s.values);
    SN_TRY(assign(pc, c, &s));
  }
  return SN_OK;
}
