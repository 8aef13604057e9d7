/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The training step: forward, backward and update as one module whose parameters and state are given back in their own buffers. */
#include <string.h>

#include "sinter/transforms.h"
#include "step_internal.h"

/* ---- state --------------------------------------------------------------------------------------------------------------- */

static sn_status add_scalar(sn_params *state, const char *name, sn_type t, double first) {
  sn_param p = {.name = name, .type = t, .rank = 0, .dims = NULL, .init = sn_init_constant(first)};
  return sn_params_add(state, &p);
}

/* "PREFIX/NAME" for each trainable parameter. */
static sn_status add_per_param(sn_params *state, const sn_params *tree, const char *prefix, sn_init init) {
  for (size_t i = 0; i < sn_params_count(tree); i++) {
    const sn_param *p = sn_params_at(tree, i);
    if (!p->trainable || p->buffer) continue;
    sn_str name = {0};
    sn_str_printf(&name, "%s/%s", prefix, p->name);
    sn_param q = {.name = name.data, .type = SN_TYPE_F32, .rank = p->rank, .dims = p->dims, .init = init};
    sn_status s = name.failed ? SN_ERR_MEMORY : sn_params_add(state, &q);
    sn_str_finish(&name);
    SN_TRY(s);
  }
  return SN_OK;
}

static bool scales_loss(const sn_step_options *o) { return o->compute == SN_TYPE_F16; }

static sn_status make_state(const sn_params *tree, const sn_step_options *o, sn_params **out) {
  const char *slots[2];
  int n = sn_optimizer_slots(&o->optimizer, slots);
  SN_TRY(sn_params_create(out));
  SN_TRY(add_scalar(*out, "step", SN_TYPE_S32, 0));
  for (int k = 0; k < n; k++) SN_TRY(add_per_param(*out, tree, slots[k], sn_init_constant(0)));
  if (o->ema > 0) SN_TRY(add_per_param(*out, tree, "ema", (sn_init){.kind = SN_INIT_COPY}));
  if (!scales_loss(o)) return SN_OK;
  SN_TRY(add_scalar(*out, "loss_scale", SN_TYPE_F32, o->loss_scale));
  return add_scalar(*out, "good_steps", SN_TYPE_S32, 0);
}

sn_status sn_step_init_state(sn_diag *d, const sn_step *s, const sn_bundle *params, sn_bundle **out) {
  SN_TRY(sn_params_init(d, s->state, 0, out));
  for (size_t i = 0; i < sn_params_count(s->state); i++) {
    const sn_param *p = sn_params_at(s->state, i);
    if (p->init.kind != SN_INIT_COPY) continue;
    sn_array *from = sn_bundle_get(params, strchr(p->name, '/') + 1);
    sn_status status = from ? sn_bundle_set(*out, p->name, from) : SN_ERR_NAME;
    if (status == SN_OK) continue;
    sn_bundle_destroy(*out);
    *out = NULL;
    return sn_error(d, SN_NOWHERE, status, "no value for %s", p->name);
  }
  return SN_OK;
}

/* ---- one batch: loss and gradients --------------------------------------------------------------------------------------- */

typedef struct gradients {
  sn_tensor loss, correct;
  sn_tensor *grads;   /* by trainable parameter */
  sn_tensor *updated; /* by parameter: buffers moved on */
} gradients;

typedef struct micro_context {
  sn_step_builder *b;
  sn_tensor key, scale; /* scale empty: 1 */
  sn_status status;
} micro_context;

/* values: all parameters within the computation at hand. */
static sn_status differentiate(micro_context *c, const sn_tensor *values, sn_tensor x, sn_tensor labels, sn_tensor key, gradients *out) {
  sn_step_builder *b = c->b;
  sn_tensor logits, *wrt = SN_NEW_N(b->arena, sn_tensor, b->n_train + 1);
  if (!wrt) return sn_out_of_memory(b->d, b->n_train * sizeof *wrt);
  SN_TRY(sn_step_logits(b, values, x, true, key, &logits, out->updated));
  sn_step_loss(b, logits, labels, &out->loss, &out->correct);
  for (size_t i = 0; i < b->n_train; i++) wrt[i] = values[b->train[i]];
  sn_grad(sn_tensor_ok(c->scale) ? sn_mul(out->loss, c->scale) : out->loss, (int)b->n_train, wrt, out->grads);
  return SN_OK;
}

/* Scan body: carry is (parameters, gradients, loss, correct), an element is (images, labels, number of the part). */
static void micro_body(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  micro_context *c = ctx;
  sn_step_builder *b = c->b;
  size_t np = b->n_params, nt = b->n_train;
  (void)g, (void)n, (void)n_out;
  sn_assert((size_t)n_out == np + nt + 2);
  const sn_tensor *acc = in + np, *xs = in + np + nt + 2;
  gradients d = {.grads = SN_NEW_N(b->arena, sn_tensor, nt + 1), .updated = out};
  if (!d.grads) c->status = sn_out_of_memory(b->d, nt * sizeof *d.grads);
  else c->status = differentiate(c, in, xs[0], xs[1], sn_key_fold_in(c->key, xs[2]), &d);
  if (c->status != SN_OK) {
    sn_graph_fail(b->g, SN_HERE, c->status, "the step could not be built");
    return;
  }
  for (size_t i = 0; i < nt; i++) out[np + i] = sn_add(acc[i], d.grads[i]);
  out[np + nt] = sn_add(acc[nt], d.loss);
  out[np + nt + 1] = sn_add(acc[nt + 1], d.correct);
}

static sn_tensor in_parts(sn_tensor x, int64_t parts) {
  int64_t dims[SN_MAX_RANK] = {parts, sn_tensor_dim(x, 0) / parts};
  int rank = sn_tensor_rank(x);
  for (int i = 1; i < rank && i + 1 < SN_MAX_RANK; i++) dims[i + 1] = sn_tensor_dim(x, i);
  return sn_reshape(x, rank + 1, dims);
}

static sn_status accumulate(micro_context *c, gradients *out) {
  sn_step_builder *b = c->b;
  size_t np = b->n_params, nt = b->n_train, n = np + nt + 2;
  int64_t parts = b->o->accumulate;
  sn_tensor *init = SN_NEW_N(b->arena, sn_tensor, n), *last = SN_NEW_N(b->arena, sn_tensor, n);
  if (!init || !last) return sn_out_of_memory(b->d, n * sizeof *init);
  memcpy(init, b->params, np * sizeof *init);
  for (size_t i = 0; i < nt; i++) init[np + i] = sn_zeros_like(b->params[b->train[i]]);
  init[np + nt] = sn_scalar(b->g, SN_TYPE_F32, 0);
  init[np + nt + 1] = sn_scalar_i64(b->g, SN_TYPE_S32, 0);
  sn_tensor xs[3] = {in_parts(b->input, parts), in_parts(b->labels, parts), sn_arange(b->g, SN_TYPE_U32, parts)};
  sn_scan_spec spec = {.n_carry = (int)n, .n_xs = 3, .n_ys = 0, .init = init, .xs = xs, .length = parts};
  sn_scan(b->g, &spec, micro_body, c, last, NULL);
  SN_TRY(c->status);
  memcpy(out->updated, last, np * sizeof *last);
  for (size_t i = 0; i < nt; i++) out->grads[i] = sn_mul_c(last[np + i], 1.0 / (double)parts);
  out->loss = sn_mul_c(last[np + nt], 1.0 / (double)parts);
  out->correct = last[np + nt + 1];
  return SN_OK;
}

/* ---- the update ------------------------------------------------------------------------------------------------------------- */

typedef struct update {
  sn_tensor *params, *states; /* new values, in order */
  sn_tensor rate, norm;       /* norm empty: not clipped */
  sn_tensor finite;           /* pred; empty: loss is not scaled */
} update;

static size_t state_index(const sn_step_builder *b, const char *name) {
  size_t i = 0;
  bool found = sn_params_find(b->state, name, &i);
  sn_assert(found);
  (void)found;
  return i;
}

static void unscale(sn_step_builder *b, gradients *d, sn_tensor scale, update *u) {
  sn_tensor inverse = sn_reciprocal(scale);
  u->finite = sn_ge(scale, sn_zeros_like(scale)); /* true */
  for (size_t i = 0; i < b->n_train; i++) {
    d->grads[i] = sn_mul(d->grads[i], inverse);
    u->finite = sn_and(u->finite, sn_all(sn_is_finite(d->grads[i]), SN_ALL, false));
  }
}

enum { UPDATE_SCALARS = 4, UPDATE_IN = UPDATE_SCALARS + 4, UPDATE_OUT = 3 };

/* (scalars, parameter, gradient, slots) -> (parameter, slots) */
static void update_fn(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  const sn_optimizer *o = ctx;
  sn_optimizer_scalars c = {in[0], in[1], in[2], in[3]};
  sn_tensor slots[2] = {in[UPDATE_SCALARS + 2], in[UPDATE_SCALARS + 3]};
  (void)g, (void)n;
  out[0] = sn_optimizer_update(o, &c, in[UPDATE_SCALARS], in[UPDATE_SCALARS + 1], slots);
  for (int k = 1; k < n_out; k++) out[k] = slots[k - 1];
}

/* The function that updates one parameter, made once for all parameters of a shape. */
typedef struct update_call {
  const sn_shape *shape;
  sn_computation *c;
} update_call;

static void call_update(sn_step_builder *b, update_call *made, const sn_tensor *in, sn_tensor *out) {
  const sn_shape *shape = sn_tensor_ok(in[UPDATE_SCALARS]) ? in[UPDATE_SCALARS].instr->shape : NULL;
  while (shape && made->c && !sn_shape_equal(made->shape, shape, 0)) made++;
  if (shape && made->c) {
    sn_op_tuple(b->g, SN_OP_CALL, NULL, UPDATE_IN, in, 0, NULL, 1, &made->c, UPDATE_OUT, out);
    return;
  }
  sn_optimizer o = b->o->optimizer;
  sn_call(b->g, sn_optimizer_text(o.kind), update_fn, &o, UPDATE_IN, in, UPDATE_OUT, out);
  if (!sn_tensor_ok(out[0])) return;
  made->shape = shape;
  made->c = sn_instr_operand(out[0].instr, 0)->called[0];
}

/* Slots lie slot-major behind "step", EMA behind them. */
static sn_status update_params(sn_step_builder *b, const gradients *d, const sn_optimizer_scalars *c, update *u) {
  const sn_optimizer *opt = &b->o->optimizer;
  const char *names[2];
  size_t n_slots = (size_t)sn_optimizer_slots(opt, names), nt = b->n_train;
  update_call *made = SN_NEW_N(b->arena, update_call, nt + 1);
  if (!made) return sn_out_of_memory(b->d, nt * sizeof *made);
  for (size_t i = 0; i < nt; i++) {
    size_t p = b->train[i];
    sn_tensor slots[2] = {{0}, {0}};
    for (size_t k = 0; k < n_slots; k++) slots[k] = b->states[1 + k * nt + i];
    if (n_slots == 2) { /* long enough to be worth a call */
      sn_tensor in[UPDATE_IN] = {c->rate, c->first, c->second, c->shrink, b->params[p], d->grads[i], slots[0], slots[1]}, out[UPDATE_OUT];
      call_update(b, made, in, out);
      u->params[p] = out[0];
      memcpy(slots, out + 1, sizeof slots);
    } else {
      u->params[p] = sn_optimizer_update(opt, c, b->params[p], d->grads[i], slots);
    }
    for (size_t k = 0; k < n_slots; k++) u->states[1 + k * nt + i] = slots[k];
    if (b->o->ema <= 0) continue;
    size_t e = 1 + n_slots * nt + i;
    u->states[e] = sn_add(sn_mul_c(b->states[e], b->o->ema), sn_mul_c(u->params[p], 1 - b->o->ema));
  }
  return SN_OK;
}

/* An overflow changes nothing but the scale, which halves; scale_every good steps double it. */
static void settle_scale(sn_step_builder *b, update *u) {
  size_t is = state_index(b, "loss_scale"), ig = state_index(b, "good_steps");
  for (size_t i = 0; i < b->n_params; i++) u->params[i] = sn_select(u->finite, u->params[i], b->params[i]);
  for (size_t i = 0; i < is; i++) u->states[i] = sn_select(u->finite, u->states[i], b->states[i]);
  sn_tensor scale = b->states[is], good = sn_add_c(b->states[ig], 1);
  sn_tensor grow = sn_ge(good, sn_full_like(good, (double)b->o->scale_every));
  sn_tensor after_good = sn_select(grow, sn_mul_c(scale, 2), scale);
  u->states[is] = sn_select(u->finite, after_good, sn_maximum_c(sn_mul_c(scale, 0.5), 1));
  u->states[ig] = sn_select(sn_and(u->finite, sn_not(grow)), good, sn_zeros_like(good));
}

static sn_status apply(sn_step_builder *b, gradients *d, update *u) {
  sn_tensor t = sn_cast(b->states[0], SN_TYPE_F32);
  memcpy(u->params, d->updated, b->n_params * sizeof *u->params);
  if (scales_loss(b->o)) unscale(b, d, b->states[state_index(b, "loss_scale")], u);
  sn_optimizer_scalars c = sn_optimizer_prepare(&b->o->optimizer, t);
  u->rate = c.rate;
  if (b->o->optimizer.clip_norm > 0) u->norm = sn_clip_global_norm(b->g, (int)b->n_train, d->grads, b->o->optimizer.clip_norm);
  u->states[0] = sn_add_c(b->states[0], 1);
  SN_TRY(update_params(b, d, &c, u));
  if (scales_loss(b->o)) settle_scale(b, u);
  return SN_OK;
}

static int write_outputs(sn_step_builder *b, const gradients *d, const update *u) {
  for (size_t i = 0; i < b->n_params; i++) sn_output_aliased(b->g, u->params[i], sn_params_at(b->tree, i)->name, b->params[i]);
  for (size_t i = 0; i < b->n_state; i++) sn_output_aliased(b->g, u->states[i], sn_params_at(b->state, i)->name, b->states[i]);
  sn_output(b->g, d->loss, "loss");
  sn_output(b->g, d->correct, "correct");
  sn_output(b->g, u->rate, "rate");
  if (!sn_tensor_ok(u->norm)) return 3;
  sn_output(b->g, u->norm, "grad_norm");
  return 4;
}

static sn_status build(sn_step_builder *b, int *n_metrics) {
  gradients d = {.grads = SN_NEW_N(b->arena, sn_tensor, b->n_train + 1), .updated = SN_NEW_N(b->arena, sn_tensor, b->n_params + 1)};
  update u = {.params = SN_NEW_N(b->arena, sn_tensor, b->n_params + 1), .states = SN_NEW_N(b->arena, sn_tensor, b->n_state + 1)};
  if (!d.grads || !d.updated || !u.params || !u.states) return sn_out_of_memory(b->d, b->n_params * sizeof *d.grads);
  micro_context c = {.b = b, .key = sn_key_fold_in(sn_key(b->g, b->o->seed), b->states[0])};
  if (scales_loss(b->o)) c.scale = b->states[state_index(b, "loss_scale")];
  if (b->o->accumulate > 1) SN_TRY(accumulate(&c, &d));
  else SN_TRY(differentiate(&c, b->params, b->input, b->labels, c.key, &d));
  SN_TRY(apply(b, &d, &u));
  *n_metrics = write_outputs(b, &d, &u);
  return SN_OK;
}

sn_status sn_train_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out) {
  sn_step_builder b = {.d = d, .m = m, .tree = t, .o = o};
  int n_metrics = 0;
  *out = (sn_step){0};
  sn_status s = make_state(t, o, &b.state);
  if (s != SN_OK) {
    sn_params_destroy(b.state);
    return sn_out_of_memory(d, sizeof(sn_param));
  }
  s = sn_step_begin(&b, "train_step", true);
  if (s == SN_OK && b.n_train == 0) s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "no parameter is trainable");
  if (s == SN_OK) s = build(&b, &n_metrics);
  return sn_step_end(&b, s, 2, n_metrics, out);
}
