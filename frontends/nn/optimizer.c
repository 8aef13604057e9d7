/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Updates as torch.optim defines them; LAMB after You et al. 2020 (its version without the bounding function). */
#include <math.h>
#include <string.h>

#include "nn_internal.h"

#define PI 3.14159265358979323846

static const struct { const char *name; double epsilon; } optimizers[SN_OPTIMIZER_COUNT] = {{"sgd", 0}, {"adam", 1e-8}, {"adamw", 1e-8}, {"lamb", 1e-6}};

void sn_optimizer_init(sn_optimizer *o, sn_optimizer_kind kind) {
  *o = (sn_optimizer){.struct_size = sizeof *o, .kind = kind, .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = optimizers[kind].epsilon,
                      .schedule = {.kind = SN_SCHEDULE_CONSTANT, .every = 1, .gamma = 0.1}};
}

const char *sn_optimizer_text(sn_optimizer_kind k) { return (unsigned)k < SN_OPTIMIZER_COUNT ? optimizers[k].name : "invalid"; }

bool sn_optimizer_from_text(const char *text, sn_optimizer_kind *out) {
  for (int k = 0; k < SN_OPTIMIZER_COUNT; k++)
    if (strcmp(optimizers[k].name, text) == 0) return *out = (sn_optimizer_kind)k, true;
  return false;
}

int sn_optimizer_slots(const sn_optimizer *o, const char *names[2]) {
  names[0] = o->kind == SN_SGD ? "momentum" : "m";
  names[1] = "v";
  if (o->kind == SN_SGD) return o->momentum != 0;
  return 2;
}

/* ---- rate ------------------------------------------------------------------------------------------------------------------ */

/* Factor at step t of the part behind the warm-up. */
static sn_tensor decay(const sn_schedule *s, sn_tensor t) {
  double length = (double)(s->total_steps - s->warmup_steps);
  sn_tensor after = sn_sub_c(t, (double)s->warmup_steps), p = sn_clamp_c(0, sn_div_c(after, length > 0 ? length : 1), 1);
  switch (s->kind) {
    case SN_SCHEDULE_COSINE: return sn_add_c(sn_mul_c(sn_add_c(sn_cos(sn_mul_c(p, PI)), 1), (1 - s->last) / 2), s->last);
    case SN_SCHEDULE_LINEAR: return sn_add_c(sn_mul_c(p, s->last - 1), 1);
    case SN_SCHEDULE_STEP: return sn_pow(sn_full_like(t, s->gamma), sn_floor(sn_div_c(sn_maximum_c(after, 0), (double)(s->every > 0 ? s->every : 1))));
    default: return sn_ones_like(t);
  }
}

sn_tensor sn_optimizer_rate(const sn_optimizer *o, sn_tensor t) {
  const sn_schedule *s = &o->schedule;
  sn_tensor factor = decay(s, t);
  if (s->warmup_steps > 0) factor = sn_select(sn_lt(t, sn_full_like(t, (double)s->warmup_steps)), sn_div_c(t, (double)s->warmup_steps), factor);
  return sn_mul_c(factor, o->rate);
}

sn_tensor sn_clip_global_norm(sn_graph *g, int n, sn_tensor *grads, double limit) {
  sn_tensor sum = sn_scalar(g, SN_TYPE_F32, 0);
  for (int i = 0; i < n; i++) sum = sn_add(sum, sn_sum(sn_square(sn_cast(grads[i], SN_TYPE_F32)), SN_ALL, false));
  sn_tensor norm = sn_sqrt(sum), scale = sn_minimum_c(sn_div(sn_scalar_like(norm, limit), sn_add_c(norm, 1e-6)), 1);
  for (int i = 0; i < n; i++) grads[i] = sn_mul(grads[i], sn_cast(scale, sn_tensor_type(grads[i])));
  return norm;
}

/* ---- updates ----------------------------------------------------------------------------------------------------------------- */

static sn_tensor scaled(sn_tensor x, sn_tensor scalar) { return sn_mul(x, sn_cast(scalar, sn_tensor_type(x))); }

static sn_tensor sgd(const sn_optimizer *o, double decay_rate, sn_tensor rate, sn_tensor p, sn_tensor g, sn_tensor slots[2]) {
  if (decay_rate != 0) g = sn_add(g, sn_mul_c(p, decay_rate));
  if (o->momentum != 0) {
    slots[0] = sn_add(sn_mul_c(slots[0], o->momentum), g);
    g = o->nesterov ? sn_add(g, sn_mul_c(slots[0], o->momentum)) : slots[0];
  }
  return sn_sub(p, scaled(g, rate));
}

/* 1 - beta^(t + 1). As -expm1((t + 1) log beta) with the logarithm taken in double here: beta itself, rounded to f32, would cost 1e-5 at the first step. */
static sn_tensor bias_correction(sn_tensor t, double beta) { return sn_neg(sn_expm1(sn_mul_c(sn_add_c(t, 1), log(beta)))); }

sn_optimizer_scalars sn_optimizer_prepare(const sn_optimizer *o, sn_tensor t) {
  sn_optimizer_scalars c = {.rate = sn_optimizer_rate(o, t)};
  if (o->kind == SN_SGD) return c;
  c.first = sn_reciprocal(bias_correction(t, o->beta1));
  c.second = sn_reciprocal(sn_sqrt(bias_correction(t, o->beta2)));
  c.shrink = sn_sub(sn_ones_like(c.rate), sn_mul_c(c.rate, o->weight_decay));
  if (o->kind != SN_LAMB) c.first = sn_mul(c.first, c.rate);
  return c;
}

/* m * first / (sqrt(v) * second + epsilon), after both moments took the gradient in. */
static sn_tensor adam_direction(const sn_optimizer *o, const sn_optimizer_scalars *c, sn_tensor g, sn_tensor slots[2]) {
  slots[0] = sn_add(sn_mul_c(slots[0], o->beta1), sn_mul_c(g, 1 - o->beta1));
  slots[1] = sn_add(sn_mul_c(slots[1], o->beta2), sn_mul_c(sn_square(g), 1 - o->beta2));
  sn_tensor below = sn_add_c(scaled(sn_sqrt(slots[1]), c->second), o->epsilon);
  return sn_div(scaled(slots[0], c->first), below);
}

/* ||p|| / ||u||, and 1 where either is zero. */
static sn_tensor trust_ratio(sn_tensor p, sn_tensor u) {
  sn_tensor np = sn_norm2(p, SN_ALL, false), nu = sn_norm2(u, SN_ALL, false), one = sn_ones_like(np);
  sn_tensor usable = sn_and(sn_gt(np, sn_zeros_like(np)), sn_gt(nu, sn_zeros_like(nu)));
  return sn_select(usable, sn_div(np, sn_select(usable, nu, one)), one);
}

sn_tensor sn_optimizer_update(const sn_optimizer *o, const sn_optimizer_scalars *c, sn_tensor p, sn_tensor g, sn_tensor slots[2]) {
  double decay_rate = o->decay_matrices_only && sn_tensor_rank(p) < 2 ? 0 : o->weight_decay;
  if (o->kind == SN_SGD) return sgd(o, decay_rate, c->rate, p, g, slots);
  if (o->kind == SN_ADAM && decay_rate != 0) g = sn_add(g, sn_mul_c(p, decay_rate));
  sn_tensor u = adam_direction(o, c, g, slots);
  if (o->kind == SN_ADAMW && decay_rate != 0) p = scaled(p, c->shrink);
  if (o->kind != SN_LAMB) return sn_sub(p, u);
  if (decay_rate != 0) u = sn_add(u, sn_mul_c(p, decay_rate));
  return sn_sub(p, scaled(u, sn_mul(c->rate, trust_ratio(p, u))));
}
