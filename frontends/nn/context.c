/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "nn_internal.h"

#include <string.h>

void sn_nn_options_init(sn_nn_options *o) { *o = (sn_nn_options){.struct_size = sizeof *o, .compute = SN_TYPE_INVALID}; }

sn_status sn_nn_create(sn_graph *g, sn_params *t, const sn_tensor *values, const sn_nn_options *o, sn_nn **out) {
  *out = NULL;
  sn_nn *nn = sn_alloc_zero(1, sizeof *nn);
  if (!nn) return SN_ERR_MEMORY;
  nn->g = g;
  nn->tree = t;
  nn->values = values;
  nn->o = *o;
  nn->weight_init.kind = SN_INIT_COPY; /* none set: each layer's own */
  sn_status s = sn_map_create(&nn->declared);
  if (s == SN_OK && values) {
    nn->updated = sn_alloc_zero(sn_params_count(t) + 1, sizeof *nn->updated);
    if (!nn->updated) s = SN_ERR_MEMORY;
  }
  if (s != SN_OK) {
    sn_nn_destroy(nn);
    return s;
  }
  *out = nn;
  return SN_OK;
}

void sn_nn_destroy(sn_nn *nn) {
  if (!nn) return;
  sn_str_finish(&nn->prefix);
  sn_map_destroy(nn->declared);
  sn_free(nn->updated);
  sn_free(nn);
}

sn_graph *sn_nn_graph(const sn_nn *nn) { return nn->g; }

bool sn_nn_is_training(const sn_nn *nn) { return nn->o.train; }

void sn_nn_set_weight_init(sn_nn *nn, sn_init init) { nn->weight_init = init; }

sn_init sn_nn_weight_init(const sn_nn *nn, sn_init own) { return nn->weight_init.kind == SN_INIT_COPY ? own : nn->weight_init; }

/* ---- names ------------------------------------------------------------------------------------------------------------ */

void sn_nn_push(sn_nn *nn, const char *fmt, ...) {
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (nn->depth < SN_NN_DEPTH) nn->marks[nn->depth] = nn->prefix.n;
  nn->depth++;
  sn_str_printf(&nn->prefix, "%s.", text);
  sn_scope_push(nn->g, text);
}

void sn_nn_pop(sn_nn *nn) {
  sn_assert(nn->depth > 0);
  nn->depth--;
  if (nn->depth < SN_NN_DEPTH && nn->prefix.data) {
    nn->prefix.n = nn->marks[nn->depth];
    nn->prefix.data[nn->prefix.n] = 0;
  }
  sn_scope_pop(nn->g);
}

/* The full name in `to`; false after reporting why not. */
static bool full_name(sn_loc at, sn_nn *nn, const char *name, sn_str *to) {
  if (nn->depth > SN_NN_DEPTH) {
    sn_graph_fail(nn->g, at, SN_ERR_USAGE, "names are nested deeper than %d", SN_NN_DEPTH);
    return false;
  }
  if (nn->prefix.n) sn_str_add_n(to, nn->prefix.data, nn->prefix.n);
  sn_str_add(to, name);
  if (!to->failed && !nn->prefix.failed) return true;
  sn_graph_fail(nn->g, at, SN_ERR_MEMORY, "out of memory");
  return false;
}

/* ---- parameters --------------------------------------------------------------------------------------------------------- */

static bool same_dims(const sn_param *p, int rank, const int64_t *dims) {
  return p->rank == rank && (rank == 0 || memcmp(p->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

/* Declaring: the first time a name is asked for it becomes an entry of the tree and a parameter of the graph. */
static sn_tensor declare(sn_loc at, sn_nn *nn, const char *name, const sn_param *p) {
  sn_tensor none = {0};
  size_t i;
  if (sn_params_find(nn->tree, name, &i)) {
    if (same_dims(sn_params_at(nn->tree, i), p->rank, p->dims)) return (sn_tensor){nn->g, sn_map_get_str(nn->declared, name)};
    sn_graph_fail(nn->g, at, SN_ERR_NAME, "parameter %s is asked for twice, with different shapes", name);
    return none;
  }
  sn_tensor x = sn_parameter_at(at, nn->g, p->type, p->rank, p->dims, name);
  sn_status s = sn_params_add(nn->tree, p);
  if (s == SN_OK && x.instr) s = sn_map_set_str(nn->declared, name, x.instr);
  if (s != SN_OK) sn_graph_fail(nn->g, at, s, "parameter %s: %s", name, sn_status_text(s));
  return x;
}

static sn_tensor lookup(sn_loc at, sn_nn *nn, const char *name, const sn_param *p) {
  sn_tensor none = {0};
  size_t i;
  if (!sn_params_find(nn->tree, name, &i)) {
    sn_graph_fail(nn->g, at, SN_ERR_NAME, "the tree has no parameter %s", name);
    return none;
  }
  if (!same_dims(sn_params_at(nn->tree, i), p->rank, p->dims)) {
    sn_graph_fail(nn->g, at, SN_ERR_SHAPE, "parameter %s has another shape in the tree than the model asks for", name);
    return none;
  }
  return nn->values[i];
}

static sn_tensor ask(sn_loc at, sn_nn *nn, const char *name, sn_param *p) {
  sn_tensor none = {0};
  if (sn_graph_status(nn->g) != SN_OK) return none;
  sn_str full = {0};
  sn_tensor x = none;
  if (full_name(at, nn, name, &full)) {
    p->name = full.data;
    x = nn->values ? lookup(at, nn, full.data, p) : declare(at, nn, full.data, p);
  }
  sn_str_finish(&full);
  return x;
}

sn_tensor sn_nn_param_at(sn_loc at, sn_nn *nn, const char *name, sn_init init, int rank, const int64_t *dims) {
  sn_param p = {.type = SN_TYPE_F32, .rank = rank, .dims = dims, .init = init, .trainable = true};
  sn_tensor x = ask(at, nn, name, &p);
  if (nn->o.compute == SN_TYPE_INVALID || !sn_tensor_ok(x) || nn->o.compute == sn_tensor_type(x)) return x;
  return sn_cast_at(at, x, nn->o.compute);
}

sn_tensor sn_nn_buffer_at(sn_loc at, sn_nn *nn, const char *name, sn_init init, int rank, const int64_t *dims) {
  sn_param p = {.type = SN_TYPE_F32, .rank = rank, .dims = dims, .init = init, .buffer = true};
  return ask(at, nn, name, &p);
}

void sn_nn_update(sn_nn *nn, const char *name, sn_tensor value) {
  sn_str full = {0};
  size_t i;
  if (nn->updated && full_name(SN_NOWHERE, nn, name, &full) && sn_params_find(nn->tree, full.data, &i)) nn->updated[i] = value;
  sn_str_finish(&full);
}

sn_tensor sn_nn_updated(const sn_nn *nn, size_t index) {
  sn_tensor none = {0};
  return nn->updated ? nn->updated[index] : none;
}

sn_tensor sn_nn_key(sn_nn *nn) {
  sn_tensor none = {0};
  if (!nn->o.train || !sn_tensor_ok(nn->o.key)) return none;
  return sn_key_fold_in(nn->o.key, sn_scalar_i64(nn->g, SN_TYPE_U32, nn->n_keys++));
}
