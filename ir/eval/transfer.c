/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Point to point: send puts a letter into the world's box and goes on; recv-done waits for it. infeed and outfeed, and
 * transfers with the host, go to the caller's queue and callback. */
#include <stdlib.h>

#include "eval_internal.h"

typedef struct sn_ev_letter {
  struct sn_ev_letter *next;
  int64_t channel;
  int from, to; /* to -1: whoever receives on the channel */
  sn_array *value;
} letter;

/* Partners by the frontend attribute that JAX writes; without it a channel has one sender and one receiver. */
static bool partner(const sn_ev_ctx *e, const sn_instr *i, bool sending, int *out) {
  const char *at = sn_instr_frontend(i, "_xla_send_recv_source_target_pairs");
  int own = e->world->replicas > 1 && e->world->partitions == 1 ? e->replica : e->process;
  *out = -1;
  if (!at) return true;
  while ((at = strpbrk(at, "0123456789")) != NULL) {
    char *end;
    long source = strtol(at, &end, 10);
    at = strpbrk(end, "0123456789");
    if (!at) break;
    long target = strtol(at, &end, 10);
    at = end;
    if ((sending ? source : target) != own) continue;
    *out = (int)(sending ? target : source);
    return true;
  }
  return false;
}

static sn_status triple(sn_ev_ctx *e, const sn_instr *i, sn_array *value, sn_array **out) {
  sn_array *parts[3] = {value, NULL, NULL};
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements != 3) {
    sn_ev_release(e, value);
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives (value, u32[], token[])");
  }
  sn_status s = sn_ev_new_zero(e, i, i->shape->elements[1], &parts[1]);
  if (s == SN_OK) s = sn_ev_new_token(e, i, &parts[2]);
  if (s == SN_OK) return sn_ev_new_tuple(e, i, 3, parts, out);
  for (int k = 0; k < 3; k++) sn_ev_release(e, parts[k]);
  return s;
}

sn_status sn_eval_send(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  int to;
  if (sn_instr_bool(i, SN_ATTR_IS_HOST_TRANSFER)) {
    if (e->o->outfeed) e->o->outfeed(e->o->outfeed_ctx, e->process, in[0]);
  } else if (partner(e, i, true, &to)) {
    letter *l = sn_alloc_zero(1, sizeof *l), **at = &e->world->letters;
    if (!l) return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory to send");
    l->channel = sn_instr_int(i, SN_ATTR_CHANNEL_ID);
    l->from = e->process;
    l->to = to;
    l->value = sn_array_retain(in[0]);
    while (*at) at = &(*at)->next;
    *at = l;
  }
  return triple(e, i, sn_array_retain(in[0]), out);
}

sn_status sn_eval_send_done(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  (void)in;
  return sn_ev_new_token(e, i, out);
}

static sn_status zeros(sn_ev_ctx *e, const sn_instr *i, const sn_shape *s, sn_array **out) {
  return sn_ev_new_zero(e, i, s, out);
}

/* The value comes with recv-done: a process may receive first and send afterwards. */
sn_status sn_eval_recv(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_array *value = NULL;
  (void)in;
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements != 3 || !sn_shape_is_array(i->shape->elements[0]))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives (value, u32[], token[])");
  SN_TRY(zeros(e, i, i->shape->elements[0], &value));
  return triple(e, i, value, out);
}

static sn_status with_token(sn_ev_ctx *e, const sn_instr *i, sn_array *value, sn_array **out) {
  sn_array *parts[2] = {value, NULL};
  sn_status s = sn_ev_new_token(e, i, &parts[1]);
  if (s == SN_OK) return sn_ev_new_tuple(e, i, 2, parts, out);
  sn_ev_release(e, value);
  return s;
}

static sn_status next_infeed(sn_ev_ctx *e, const sn_instr *i, const sn_shape *want, sn_array **out) {
  if (e->infeed_cursor >= e->o->n_infeed)
    return sn_ev_error(e, i, SN_ERR_USAGE, "process %d has read all %d values of infeed", e->process, e->o->n_infeed);
  sn_array *a = e->o->infeed[e->infeed_cursor++];
  if (!sn_shape_equal(sn_array_shape(a), want, SN_EQ_IGNORE_DYNAMIC))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "value %d of infeed has another shape than the instruction",
                       e->infeed_cursor - 1);
  *out = sn_array_retain(a);
  return SN_OK;
}

sn_status sn_eval_recv_done(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_instr *recv = sn_instr_operand(i, 0)->op == SN_OP_RECV ? sn_instr_operand(i, 0) : i;
  int64_t channel = sn_instr_int(recv, SN_ATTR_CHANNEL_ID);
  sn_array *value = NULL;
  int from;
  if (e->nested)
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "cannot wait in a computation that is applied to elements");
  if (sn_instr_bool(recv, SN_ATTR_IS_HOST_TRANSFER)) {
    SN_TRY(next_infeed(e, i, sn_array_shape(sn_array_element(in[0], 0)), &value));
    return with_token(e, i, value, out);
  }
  if (!partner(e, recv, false, &from))
    return with_token(e, i, sn_array_retain(sn_array_element(in[0], 0)), out); /* nobody sends here: zeros */
  for (letter **at = &e->world->letters; *at; at = &(*at)->next) {
    letter *l = *at;
    if (l->channel != channel || (l->to >= 0 && l->to != e->process) || (from >= 0 && l->from != from)) continue;
    *at = l->next;
    value = l->value;
    sn_free(l);
    if (sn_shape_equal(sn_array_shape(value), sn_array_shape(sn_array_element(in[0], 0)), 0))
      return with_token(e, i, value, out);
    sn_ev_release(e, value);
    return sn_ev_error(e, i, SN_ERR_SHAPE, "what was sent on channel %lld has another shape", (long long)channel);
  }
  e->blocked = true;
  return SN_OK;
}

sn_status sn_eval_infeed(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_array *value = NULL;
  (void)in;
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements != 2)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives (value, token[])");
  SN_TRY(next_infeed(e, i, i->shape->elements[0], &value));
  return with_token(e, i, value, out);
}

sn_status sn_eval_outfeed(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  if (e->o->outfeed) e->o->outfeed(e->o->outfeed_ctx, e->process, in[0]);
  return sn_ev_new_token(e, i, out);
}

void sn_ev_letters_finish(sn_ev_world *w) {
  while (w->letters) {
    letter *l = w->letters;
    w->letters = l->next;
    sn_array_release(l->value);
    sn_free(l);
  }
}
