/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Operations, bytes, time. Bytes are those of operands and results (what a fusion keeps inside is free); time is the longer of maths and memory, plus the launch. */
#include "sinter/cost.h"

#include <string.h>

const sn_hero_info sn_heroes[SN_HERO_COUNT] = {
#define SN_HERO(id, text, maths, memory, prologue, results, what) {text, maths, memory, prologue, results, what},
#include "sinter/heroes.def"
#undef SN_HERO
};

sn_hero sn_hero_of(const sn_instr *fusion) {
  static const char key[] = "\"kind\":\"";
  const char *at = fusion->backend_config ? strstr(fusion->backend_config, key) : NULL;
  if (!at) return SN_HERO_LOOP;
  at += sizeof key - 1;
  for (int h = 0; h < SN_HERO_COUNT; h++) {
    size_t n = strlen(sn_heroes[h].text);
    if (strncmp(at, sn_heroes[h].text, n) == 0 && at[n] == '"') return (sn_hero)h;
  }
  return SN_HERO_LOOP;
}

/* ---- rates ---- */

void sn_cost_rates(const sn_target *t, sn_rates *out) {
  out->bytes = (t && t->memory_gbs > 0 ? t->memory_gbs : 25) * 1e3;
  double fma = (t && t->fma_gflops > 0 ? t->fma_gflops : 160) * 1e3;
  out->ops = fma / 2; /* single operations: half of what multiply-adds count */
  out->products = t && t->kind == SN_TARGET_CUDA && t->tensor_tflops > 0 ? t->tensor_tflops * 1e6 : fma;
  out->launch = t && t->launch_us > 0 ? t->launch_us : 0.5;
}

/* ---- operations ---- */

static const struct { sn_opcode op; double ops; } rows[] = {
    {SN_OP_DIVIDE, 4}, {SN_OP_REMAINDER, 8}, {SN_OP_SQRT, 4}, {SN_OP_RSQRT, 6}, {SN_OP_TRANSPOSE, 1}, {SN_OP_SLICE, 1},
    {SN_OP_PAD, 2},    {SN_OP_REVERSE, 1},   {SN_OP_CONCATENATE, 4}, {SN_OP_DYNAMIC_SLICE, 1}, {SN_OP_GATHER, 8}, {SN_OP_MAP, 8},
    {SN_OP_DYNAMIC_UPDATE_SLICE, 2}, {SN_OP_COPY, 1},
};
static const double TRANSCENDENTAL = 14; /* a polynomial of some ten terms and its range reduction */

double sn_cost_element(const sn_instr *i) {
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    if (rows[k].op == i->op) return rows[k].ops;
  }
  if (sn_op_has(i->op, SN_T_TRANS)) return TRANSCENDENTAL;
  return sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_BITCAST_CONVERT ? 1 : 0;
}

static double elements(const sn_shape *s) { return sn_shape_is_array(s) ? (double)sn_shape_elements(s) : 0; }

static double dot_ops(const sn_instr *i) {
  sn_ints k = sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS);
  double terms = 1;
  for (int64_t d = 0; d < k.n; d++) terms *= (double)sn_operand_shape(i, 0)->dims[k.v[d]];
  return 2 * elements(i->shape) * terms;
}

/* Zeros between dilated elements do not count. */
static double convolution_ops(const sn_instr *i) {
  const sn_conv_dims *c = sn_instr_conv(i);
  const sn_window *w = sn_instr_window(i);
  double features = c ? (double)sn_operand_shape(i, 1)->dims[c->kernel_output_feature] : 1;
  for (int k = 0; w && k < w->rank; k++) features *= (double)w->dims[k].lhs_dilate;
  return features > 0 ? 2 * elements(i->shape) * elements(sn_operand_shape(i, 1)) / features : 0;
}

static double window_ops(const sn_instr *i) {
  const sn_window *w = sn_instr_window(i);
  double each = 1;
  for (int d = 0; w && d < w->rank; d++) each *= (double)w->dims[d].size;
  return each * elements(sn_shape_leaf(i->shape, 0));
}

static double sort_ops(const sn_instr *i) {
  double n = elements(sn_operand_shape(i, 0)), levels = 1;
  for (double m = n; m > 2; m /= 2) levels++;
  return 4 * n * levels;
}

static void add_ops(const sn_instr *i, sn_cost *to) {
  double ops;
  switch (i->op) {
    case SN_OP_DOT: to->products += ops = dot_ops(i); break;
    case SN_OP_CONVOLUTION: to->products += ops = convolution_ops(i); break;
    case SN_OP_REDUCE: ops = elements(sn_operand_shape(i, 0)) * (i->n_operands / 2); break;
    case SN_OP_REDUCE_WINDOW:
    case SN_OP_SELECT_AND_SCATTER: ops = window_ops(i); break;
    case SN_OP_SCATTER: ops = 8 * elements(sn_operand_shape(i, i->n_operands - 1)); break;
    case SN_OP_SORT: ops = sort_ops(i); break;
    default: ops = sn_cost_element(i) * elements(sn_shape_leaf(i->shape, 0));
  }
  to->flops += ops;
}

/* ---- instructions ---- */

static void add_bytes(const sn_instr *i, sn_cost *to) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    bool again = false;
    for (uint32_t q = 0; q < k && !again; q++) again = sn_instr_operand(i, q) == sn_instr_operand(i, k);
    if (!again && sn_shape_is_array(sn_operand_shape(i, k))) to->bytes += (double)sn_shape_bytes(sn_operand_shape(i, k));
  }
  to->bytes += (double)sn_shape_bytes(i->shape);
}

static sn_hero kernel_of(const sn_instr *i) {
  switch (i->op) {
    case SN_OP_FUSION: return sn_hero_of(i);
    case SN_OP_DOT: return SN_HERO_PRODUCT;
    case SN_OP_CONVOLUTION: return SN_HERO_CONVOLUTION;
    case SN_OP_REDUCE: return SN_HERO_ROWS;
    default: return SN_HERO_LOOP;
  }
}

/* The convolution that i is or holds; NULL: none. */
static const sn_instr *convolution_in(const sn_instr *i) {
  if (i->op == SN_OP_CONVOLUTION) return i;
  if (i->op != SN_OP_FUSION) return NULL;
  SN_FOR_INSTRS(x, i->called[0]) {
    if (x->op == SN_OP_CONVOLUTION) return x;
  }
  return NULL;
}

static void add_time(const sn_target *t, const sn_instr *i, sn_cost *c) {
  sn_rates r;
  sn_hero hero = kernel_of(i);
  const sn_hero_info *h = &sn_heroes[hero];
  const sn_instr *conv = hero == SN_HERO_CONVOLUTION ? convolution_in(i) : NULL;
  double share = conv ? sn_cost_convolution_share(t, conv, NULL) : h->maths;
  sn_cost_rates(t, &r);
  double maths = (c->products / r.products + (c->flops - c->products) / r.ops) / share, memory = c->bytes / (r.bytes * h->memory);
  c->us += r.launch + (maths > memory ? maths : memory);
}

static bool runs_nothing(const sn_instr *i) {
  return sn_op_has(i->op, SN_T_FREE) || i->op == SN_OP_TUPLE || i->op == SN_OP_GET_TUPLE_ELEMENT || i->op == SN_OP_RESHAPE || i->op == SN_OP_BITCAST || i->op == SN_OP_OPT_BARRIER;
}

static void add_scaled(sn_cost *to, const sn_cost *c, double n) {
  to->products += n * c->products;
  to->flops += n * c->flops;
  to->bytes += n * c->bytes;
  to->us += n * c->us;
}

/* {"known_trip_count":{"n":"5"}} */
static double trips(const sn_instr *w) {
  const char *at = w->backend_config ? strstr(w->backend_config, "\"known_trip_count\":{\"n\":\"") : NULL;
  double n = 0;
  if (!at) return 1;
  for (at += strlen("\"known_trip_count\":{\"n\":\""); *at >= '0' && *at <= '9'; at++) n = 10 * n + (*at - '0');
  return n;
}

void sn_cost_of(const sn_target *t, const sn_instr *i, sn_cost *out) {
  memset(out, 0, sizeof *out);
  if (runs_nothing(i)) return;
  if (i->op == SN_OP_WHILE || i->op == SN_OP_CONDITIONAL || i->op == SN_OP_CALL) {
    sn_cost inner;
    for (uint16_t k = 0; k < i->n_called; k++) { /* of branches: as if each ran its share */
      sn_cost_of_computation(t, i->called[k], &inner);
      add_scaled(out, &inner, i->op == SN_OP_WHILE ? trips(i) : i->op == SN_OP_CONDITIONAL ? 1.0 / i->n_called : 1);
    }
    return;
  }
  if (i->op == SN_OP_FUSION && sn_hero_of(i) == SN_HERO_SEVERAL) { /* each part moves what it reads and writes; one launch */
    sn_rates r;
    int parts = 0;
    sn_cost_rates(t, &r);
    sn_cost_of_computation(t, i->called[0], out);
    SN_FOR_INSTRS(x, i->called[0]) parts += x->op == SN_OP_FUSION;
    if (parts > 1) out->us -= (parts - 1) * r.launch;
    return;
  }
  if (i->op == SN_OP_FUSION) {
    SN_FOR_INSTRS(x, i->called[0]) add_ops(x, out);
  } else {
    add_ops(i, out);
  }
  add_bytes(i, out);
  add_time(t, i, out);
}

void sn_cost_of_computation(const sn_target *t, const sn_computation *c, sn_cost *out) {
  memset(out, 0, sizeof *out);
  SN_FOR_INSTRS(i, c) {
    sn_cost each;
    sn_cost_of(t, i, &each);
    add_scaled(out, &each, 1);
  }
}
