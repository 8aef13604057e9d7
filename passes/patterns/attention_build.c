/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Writes attention as fusions of kind `attention`: one forward, whose second result is the logarithm of each row's sum of exponentials (a derivative wants it), and one backward,
 * which computes the probabilities again from that. Bodies are plain HLO in one form, whatever form was found:
 *
 *   forward    scores = dot(q, k)   x   m = rowmax(x)   e = exp(x - m)   s = rowsum(e)   out = dot(e, v) / s   lse = m + log(s)
 *   backward   scores = dot(q, k)   x   p = exp(x - lse)   dp = dot(do, v)   dx = p (dp - rowsum(p dp))   ds   dq = dot(ds, k)   dk = dot(ds, q)   dv = dot(p, do)
 *
 * with q, k, v, do [batch, position, feature]. What lies between their arrays in memory and the products (transposes, slices, names) moves into the body; so do the transposes
 * behind the results, whose memory is then as their readers want it. */
#include "attention.h"

#include <string.h>

enum { MAX_COPIES = 160, MAX_OPERANDS = 48, MAX_CHAIN = 12, MAX_DEPTH = 12 };

typedef struct build {
  sn_pass_ctx *pc;
  const attention *m;
  sn_builder b;                /* of the body */
  int n_copies, n_operands;
  const sn_instr *from[MAX_COPIES];
  sn_instr *copy[MAX_COPIES];
  sn_instr *operands[MAX_OPERANDS]; /* of the fusion */
  int64_t axes[SN_MAX_RANK];   /* 0, 1, … */
  sn_type work;                /* type of the softmax's arithmetic */
} build;

static sn_instr *too_large(build *x) {
  if (x->b.status == SN_OK) x->b.status = SN_ERR_INTERNAL; /* sizes are bounded by the match */
  return NULL;
}

static sn_status failure(const build *x) { return x->b.status == SN_ERR_MEMORY ? sn_out_of_memory(x->pc->diag, sizeof(sn_instr)) : x->b.status; }

/* ---- copying into the body ---- */

static sn_instr *find_copy(const build *x, const sn_instr *i) {
  for (int k = x->n_copies; k-- > 0;) {
    if (x->from[k] == i) return x->copy[k];
  }
  return NULL;
}

static sn_instr *note(build *x, const sn_instr *i, sn_instr *copy) {
  if (!copy || x->n_copies == MAX_COPIES) return copy ? too_large(x) : NULL;
  x->from[x->n_copies] = i;
  x->copy[x->n_copies++] = copy;
  return copy;
}

static sn_instr *parameter(build *x, sn_instr *i) {
  char name[32];
  if (x->n_operands == MAX_OPERANDS) return too_large(x);
  snprintf(name, sizeof name, "param_%d", x->n_operands);
  x->operands[x->n_operands] = i;
  return note(x, i, sn_build_parameter(&x->b, x->n_operands++, i->shape, name));
}

static sn_instr *clone(build *x, const sn_instr *i, sn_instr *const *operands) {
  sn_instr *copy = NULL;
  if (x->b.status != SN_OK) return NULL;
  x->b.status = sn_instr_clone(i, x->b.c, operands, NULL, &copy);
  return x->b.status == SN_OK ? note(x, i, copy) : NULL;
}

static bool is_scalar_constant(const sn_instr *i) { return i->op == SN_OP_CONSTANT && sn_shape_is_array(i->shape) && sn_shape_elements(i->shape) == 1 && sn_instr_literal(i); }

/* Made of iotas and constants alone: cheaper to compute than to read. */
static bool is_made_of_nothing(const sn_instr *i, int depth) {
  if (i->op == SN_OP_IOTA || is_scalar_constant(i)) return true;
  if (depth == MAX_DEPTH || (i->op != SN_OP_BROADCAST && i->op != SN_OP_RESHAPE && !(sn_op_has(i->op, SN_T_ELTWISE) && i->n_operands <= 3))) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!is_made_of_nothing(sn_instr_operand(i, k), depth + 1)) return false;
  }
  return true;
}

/* What only names elements in another order, or widens what is stored. */
static bool moves(const sn_instr *i) {
  return i->op == SN_OP_TRANSPOSE || i->op == SN_OP_RESHAPE || i->op == SN_OP_SLICE || i->op == SN_OP_BROADCAST ||
         (i->op == SN_OP_CONVERT && sn_type_bits(i->shape->type) > sn_type_bits(sn_operand_shape(i, 0)->type));
}

/* A bias on a slice: nobody could add it where the slice was stored, for it was not. */
static bool works_on_slice(const sn_instr *i) {
  bool slice = false;
  if (i->op != SN_OP_ADD && i->op != SN_OP_SUBTRACT && i->op != SN_OP_MULTIPLY) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *o = sn_instr_operand(i, k);
    slice |= o->op == SN_OP_SLICE;
    if (o->op != SN_OP_SLICE && o->op != SN_OP_BROADCAST) return false;
  }
  return slice;
}

/* i in the body: computed there where that costs nothing, else a parameter. */
static sn_instr *pull(build *x, sn_instr *i, int depth) {
  sn_instr *args[3], *copy = find_copy(x, i);
  if (copy || x->b.status != SN_OK) return copy;
  bool inside = is_scalar_constant(i) || i->op == SN_OP_IOTA || (depth < MAX_DEPTH && !i->n_control && (moves(i) || works_on_slice(i) || is_made_of_nothing(i, depth)));
  if (!inside) return parameter(x, i);
  for (uint32_t k = 0; k < i->n_operands; k++) {
    args[k] = pull(x, sn_instr_operand(i, k), depth + 1);
    if (!args[k]) return NULL;
  }
  return clone(x, i, i->n_operands ? args : NULL);
}

/* The elementwise way from `from`, which is in the body, to i. */
static sn_instr *pull_path(build *x, sn_instr *i, const sn_instr *from) {
  sn_instr *args[3], *copy = find_copy(x, i);
  if (copy || x->b.status != SN_OK || i->n_operands > 3) return copy;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *o = sn_instr_operand(i, k);
    bool on_path = sn_shape_equal(o->shape, from->shape, SN_EQ_IGNORE_TYPE) && sn_attention_leads(o, from);
    args[k] = on_path ? pull_path(x, o, from) : pull(x, o, 0);
    if (!args[k]) return NULL;
  }
  return clone(x, i, args);
}

/* y with its dimensions in this order, made once. */
static sn_instr *transposed(build *x, sn_instr *y, const int64_t *order) {
  if (!y) return NULL;
  SN_FOR_USES(u, y) {
    sn_ints have = u->user->op == SN_OP_TRANSPOSE ? sn_instr_ints(u->user, SN_ATTR_DIMENSIONS) : (sn_ints){0, NULL};
    if (have.n && memcmp(have.v, order, (size_t)have.n * sizeof *order) == 0) return u->user;
  }
  return sn_build_transpose(&x->b, y, order);
}

/* Operand k of `dot` as [batch, position, feature]: its contracted dimension is the feature, or (`sums_positions`) the position. */
static sn_instr *pull_operand(build *x, const sn_instr *dot, uint32_t k, bool sums_positions) {
  sn_instr *i = sn_instr_operand(dot, k);
  int n = x->m->n_batch;
  int64_t contracted = sn_instr_ints(dot, k == 0 ? SN_ATTR_LHS_CONTRACTING_DIMS : SN_ATTR_RHS_CONTRACTING_DIMS).v[0], order[SN_MAX_RANK];
  if ((contracted == n) == sums_positions) return pull(x, i, 0);
  memcpy(order, x->axes, sizeof order);
  order[n] = n + 1;
  order[n + 1] = n;
  if (i->op != SN_OP_TRANSPOSE) return transposed(x, pull(x, i, 0), order);
  sn_ints first = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  for (int d = 0; d < n + 2; d++) order[d] = first.v[d];
  order[n] = first.v[n + 1];
  order[n + 1] = first.v[n];
  return transposed(x, pull(x, sn_instr_operand(i, 0), 0), order);
}

/* ---- the body ---- */

static sn_instr *product(build *x, const sn_instr *like, sn_instr *lhs, sn_instr *rhs, int lhs_contracted, int rhs_contracted) {
  static const sn_attr_id kept[] = {SN_ATTR_OPERAND_PRECISION, SN_ATTR_DOT_ALGORITHM};
  int64_t lc = x->m->n_batch + lhs_contracted, rc = x->m->n_batch + rhs_contracted;
  sn_dot_dims dims = {x->m->n_batch, 1, x->axes, x->axes, &lc, &rc};
  sn_instr *y = lhs && rhs ? sn_build_dot(&x->b, lhs, rhs, &dims, like->shape->type) : NULL;
  for (int k = 0; y && k < 2; k++) {
    const sn_attr *a = sn_instr_attr(like, kept[k]);
    if (a && x->b.status == SN_OK) x->b.status = sn_instr_set_attr(y, *a);
  }
  return y;
}

/* A value a row, for each element of `like`. */
static sn_instr *repeat(build *x, sn_instr *row, const sn_instr *like) {
  return row && like ? sn_build_broadcast(&x->b, row, like->shape->rank, like->shape->dims, x->m->n_batch + 1, x->axes) : NULL;
}

static sn_instr *row_sum(build *x, sn_instr *v) {
  int64_t last = x->m->n_batch + 1;
  return sn_build_reduce_sum(&x->b, v, 1, &last);
}

/* x in the softmax's type: what exp is taken of, less a value a row. */
static sn_instr *build_x(build *x) {
  const attention *m = x->m;
  sn_instr *q = pull_operand(x, m->scores, 0, false), *k = pull_operand(x, m->scores, 1, false);
  sn_instr *s = note(x, m->scores, product(x, m->scores, q, k, 1, 1));
  if (s && x->b.status == SN_OK) x->b.status = sn_instr_set_name(s, "hero_dot");
  return s ? sn_build_convert(&x->b, pull_path(x, m->x, m->scores), x->work) : NULL;
}

static sn_instr *build_out(build *x, sn_instr *e, sn_instr *sum) {
  const sn_instr *dot = x->m->out;
  sn_type t = sn_operand_shape(dot, x->m->out_p)->type;
  bool late = t == x->work; /* fewer divisions; with a rounding in between they must stand in front of it */
  sn_instr *p = late ? e : sn_build_convert(&x->b, sn_build_binary(&x->b, SN_OP_DIVIDE, e, repeat(x, sum, e)), t);
  sn_instr *y = product(x, dot, p, pull_operand(x, dot, 1 - x->m->out_p, true), 1, 0);
  return late && y ? sn_build_binary(&x->b, SN_OP_DIVIDE, y, repeat(x, sum, y)) : y;
}

static sn_instr *build_dx(build *x, sn_instr *p) {
  const attention *m = x->m;
  sn_instr *dp = product(x, m->dp, pull_operand(x, m->dp, 0, false), pull_operand(x, m->dp, 1, false), 1, 1);
  dp = dp ? sn_build_convert(&x->b, dp, x->work) : NULL;
  sn_instr *mean = row_sum(x, sn_build_binary(&x->b, SN_OP_MULTIPLY, p, dp));
  sn_instr *dx = sn_build_binary(&x->b, SN_OP_MULTIPLY, p, sn_build_binary(&x->b, SN_OP_SUBTRACT, dp, repeat(x, mean, dp)));
  double off = m->dx_scale - 1;
  if (dx && (off > 1e-6 || off < -1e-6)) dx = sn_build_binary(&x->b, SN_OP_MULTIPLY, dx, sn_build_full_like(&x->b, dx, m->dx_scale));
  return dx ? note(x, m->dx, sn_build_convert(&x->b, dx, m->dx->shape->type)) : NULL;
}

/* ---- results ---- */

typedef struct result {
  sn_instr *dot;               /* the product it stands for */
  bool swapped;                /* its last two dimensions, against the body's product */
  sn_instr *end;               /* the last of what follows it that the fusion computes */
  int n;                       /* rank */
  int64_t order[SN_MAX_RANK];  /* dimensions of the body's product in the order in which the result lies in memory */
  sn_instr *scales[MAX_CHAIN]; /* elementwise steps with constants, behind the moves */
  int n_scales;
} result;

typedef struct groups { int n; struct { int n; int64_t d[SN_MAX_RANK]; } v[SN_MAX_RANK]; } groups; /* dimensions of a reader, each a run of the product's */

static bool regroup(const groups *from, const int64_t *product_dims, const sn_shape *to, groups *out) {
  int64_t flat[SN_MAX_RANK];
  int n = 0, at = 0;
  for (int k = 0; k < from->n; k++) {
    for (int d = 0; d < from->v[k].n; d++) flat[n++] = from->v[k].d[d];
  }
  memset(out, 0, sizeof *out);
  out->n = to->rank;
  for (int k = 0; k < to->rank; k++) {
    int64_t size = 1;
    while (at < n && size < to->dims[k]) {
      size *= product_dims[flat[at]];
      out->v[k].d[out->v[k].n++] = flat[at++];
    }
    if (size != to->dims[k]) return false;
  }
  return at == n;
}

static bool step(const sn_instr *i, const int64_t *product_dims, const groups *from, groups *to) {
  if (i->op == SN_OP_RESHAPE) return regroup(from, product_dims, i->shape, to);
  if (i->op != SN_OP_TRANSPOSE) return false;
  sn_ints perm = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  to->n = (int)perm.n;
  for (int64_t k = 0; k < perm.n; k++) to->v[k] = from->v[perm.v[k]];
  return true;
}

/* The one reader that moves i's elements; NULL: none or several. */
static sn_instr *moving_reader(const sn_instr *i) {
  sn_instr *found = NULL;
  SN_FOR_USES(u, i) {
    if (u->user->op != SN_OP_TRANSPOSE && u->user->op != SN_OP_RESHAPE) continue;
    if (found) return NULL;
    found = u->user;
  }
  return found && !found->n_control ? found : NULL;
}

static bool scales(const sn_instr *i, const sn_instr *x) {
  double c;
  if (i->op == SN_OP_CONVERT) return sn_type_is_float(i->shape->type);
  if ((i->op != SN_OP_MULTIPLY && i->op != SN_OP_DIVIDE) || i->n_control) return false;
  return (sn_instr_operand(i, 0) == x && sn_instr_constant_f64(sn_instr_operand(i, 1), &c)) ||
         (i->op == SN_OP_MULTIPLY && sn_instr_operand(i, 1) == x && sn_instr_constant_f64(sn_instr_operand(i, 0), &c));
}

static void find_result(const attention *m, sn_instr *dot, uint32_t side, result *r) {
  groups at, next;
  int n = m->n_batch + 2;
  bool alone = dot->n_uses == 1;
  memset(r, 0, sizeof *r);
  r->dot = r->end = dot;
  r->swapped = side == 1;
  r->n = n;
  memset(&at, 0, sizeof at);
  at.n = n;
  for (int k = 0; k < n; k++) {
    at.v[k].n = 1;
    at.v[k].d[0] = !r->swapped || k < n - 2 ? k : k == n - 2 ? n - 1 : n - 2;
  }
  int64_t dims[SN_MAX_RANK];
  for (int k = 0; k < n; k++) dims[at.v[k].d[0]] = dot->shape->dims[k];
  for (int steps = 0; steps < MAX_CHAIN; steps++) {
    sn_instr *reader = moving_reader(r->end);
    if (!reader || !step(reader, dims, &at, &next)) break;
    at = next;
    r->end = reader;
    alone &= reader->n_uses == 1;
  }
  int64_t lies = 0;
  for (int k = 0; k < at.n; k++) {
    for (int d = 0; d < at.v[k].n; d++) r->order[lies++] = at.v[k].d[d];
  }
  while (alone && r->n_scales < MAX_CHAIN && r->end->n_uses == 1 && scales(r->end->first_use->user, r->end)) {
    r->end = r->end->first_use->user;
    r->scales[r->n_scales++] = r->end;
  }
}

/* The body's product y as the fusion gives it. */
static sn_instr *arrange(build *x, const result *r, sn_instr *y) {
  y = y ? sn_build_transpose(&x->b, y, r->order) : NULL;
  for (int k = 0; y && k < r->n_scales; k++) {
    const sn_instr *i = r->scales[k];
    double c;
    if (i->op == SN_OP_CONVERT) {
      y = sn_build_convert(&x->b, y, i->shape->type);
      continue;
    }
    if (!sn_instr_constant_f64(sn_instr_operand(i, 1), &c) && !sn_instr_constant_f64(sn_instr_operand(i, 0), &c)) return too_large(x);
    y = sn_build_binary(&x->b, i->op, y, sn_build_full_like(&x->b, y, c));
  }
  return y;
}

/* The dimension of the product as it was that dimension d of the fusion's result is. */
static int64_t was_dimension(const result *r, int d) {
  int64_t k = r->order[d];
  return r->swapped && k >= r->n - 2 ? 2 * r->n - 3 - k : k;
}

/* A reader that sums over dimensions sums over those of y instead. */
static sn_instr *reduce_instead(sn_builder *b, const result *r, const sn_instr *reduce, sn_instr *y) {
  sn_ints dims = sn_instr_ints(reduce, SN_ATTR_DIMENSIONS);
  int64_t over[SN_MAX_RANK], left[SN_MAX_RANK], order[SN_MAX_RANK];
  int n_over = 0, n_left = 0, n = 0;
  sn_opcode op;
  if (!sn_computation_is_binary(reduce->called[0], &op)) return NULL;
  for (int d = 0; d < r->n; d++) {
    bool summed = false;
    for (int64_t k = 0; k < dims.n; k++) summed |= dims.v[k] == was_dimension(r, d);
    if (summed) over[n_over++] = d;
    else left[n_left++] = was_dimension(r, d);
  }
  for (int d = 0; d < r->n; d++) {
    for (int k = 0; k < n_left; k++) {
      if (left[k] == d) order[n++] = k;
    }
  }
  return sn_build_transpose(b, sn_build_reduce_op(b, op, y, sn_instr_operand(reduce, 1), n_over, over), order);
}

static sn_status replace_reductions(build *x, const result *r, sn_instr *y) {
  for (sn_use *u = r->dot->first_use; u; u = u->next) {
    sn_instr *user = u->user;
    if (user->op != SN_OP_REDUCE || user->n_operands != 2 || u->index != 0) continue;
    sn_builder b;
    sn_builder_init_at(&b, x->pc->diag, user);
    sn_instr *by = reduce_instead(&b, r, user, y);
    if (by) SN_TRY(sn_pass_replace(x->pc, user, by)); /* it dies with the product */
    else if (b.status != SN_OK) return b.status;
  }
  return SN_OK;
}

static sn_status drop_dead_reductions(build *x, const result *r, const bool *effects) {
  for (sn_use *u = r->dot->first_use, *next; u; u = next) {
    next = u->next;
    if (u->user->op == SN_OP_REDUCE && !u->user->n_uses && r->dot->n_uses > 1) SN_TRY(sn_pass_drop(x->pc, u->user, effects, NULL));
  }
  return SN_OK;
}

/* y, which the fusion gives, takes the place of the product and of what followed it. */
static sn_status put_result(build *x, const result *r, sn_instr *y, const bool *effects) {
  sn_builder b;
  int64_t back[SN_MAX_RANK];
  sn_builder_init_at(&b, x->pc->diag, r->dot);
  if (r->end != r->dot && !r->n_scales) {
    SN_TRY(replace_reductions(x, r, y));
    SN_TRY(drop_dead_reductions(x, r, effects));
  }
  sn_instr *end = sn_build_reshape(&b, y, r->end->shape->rank, r->end->shape->dims);
  if (!end) return b.status == SN_ERR_MEMORY ? sn_out_of_memory(x->pc->diag, sizeof *end) : b.status;
  SN_TRY(sn_pass_replace(x->pc, r->end, end));
  SN_TRY(sn_pass_drop(x->pc, r->end, effects, NULL));
  if (!sn_instr_is_linked(r->dot)) return SN_OK;
  for (int d = 0; d < r->n; d++) back[was_dimension(r, d)] = d; /* others want it as it was */
  sn_instr *as_it_was = sn_build_transpose(&b, y, back);
  if (!as_it_was) return b.status == SN_ERR_MEMORY ? sn_out_of_memory(x->pc->diag, sizeof *end) : b.status;
  SN_TRY(sn_pass_forward(x->pc, r->dot, as_it_was));
  return sn_pass_drop(x->pc, r->dot, effects, NULL);
}

/* ---- fusions ---- */

static sn_status open_body(build *x, const sn_instr *at) {
  sn_computation *body;
  x->n_copies = x->n_operands = 0;
  SN_TRY(sn_computation_create(at->parent->module, "fused_attention", &body));
  sn_computation_move_before(body, at->parent);
  sn_builder_init(&x->b, x->pc->diag, body);
  return SN_OK;
}

/* The fusion in front of `before`; roots become elements of a tuple where there are several. */
static sn_status close_body(build *x, sn_instr *before, int n, sn_instr **roots, sn_instr **out) {
  sn_instr *root = n == 1 ? roots[0] : sn_build_tuple(&x->b, (uint32_t)n, roots);
  if (!root || x->b.status != SN_OK) return failure(x);
  sn_computation *body = x->b.c;
  sn_computation_set_root(body, root);
  sn_attr kind = sn_attr_int(SN_ATTR_KIND, SN_FUSION_KIND_CUSTOM);
  sn_instr_spec spec = {.op = SN_OP_FUSION, .shape = root->shape, .n_operands = (uint32_t)x->n_operands, .operands = x->operands, .n_attrs = 1, .attrs = &kind, .n_called = 1,
                        .called = &body, .metadata = before->metadata, .loc = before->loc};
  sn_instr *fusion;
  SN_TRY(sn_instr_create(x->pc->diag, before->parent, &spec, &fusion));
  sn_instr_move_before(fusion, before);
  SN_TRY(sn_instr_set_backend_config(fusion, "{\"sinter\":{\"version\":1,\"hero\":\"hero_dot\",\"kind\":\"attention\"}}", false));
  sn_builder b;
  sn_builder_init_at(&b, x->pc->diag, before);
  for (int k = 0; k < n; k++) {
    out[k] = n == 1 ? fusion : sn_build_get(&b, fusion, k);
    if (!out[k]) return b.status == SN_ERR_MEMORY ? sn_out_of_memory(x->pc->diag, sizeof *fusion) : b.status;
  }
  return SN_OK;
}

static sn_status build_forward(build *x, const result *r, sn_instr **out) {
  const attention *m = x->m;
  sn_instr *roots[2] = {NULL, NULL};
  int64_t last = m->n_batch + 1;
  SN_TRY(open_body(x, m->out));
  sn_instr *v = build_x(x);
  sn_instr *max = v ? sn_build_reduce_max(&x->b, v, 1, &last) : NULL;
  sn_instr *e = sn_build_unary(&x->b, SN_OP_EXPONENTIAL, sn_build_binary(&x->b, SN_OP_SUBTRACT, v, repeat(x, max, v)));
  sn_instr *sum = row_sum(x, e);
  roots[0] = arrange(x, r, build_out(x, e, sum));
  if (m->ds || m->dv) roots[1] = sn_build_binary(&x->b, SN_OP_ADD, max, sn_build_unary(&x->b, SN_OP_LOG, sum));
  if (x->b.status != SN_OK) return failure(x);
  return close_body(x, m->out, roots[1] ? 2 : 1, roots, out);
}

static sn_status build_backward(build *x, sn_instr *before, sn_instr *lse, int n, const result *r, sn_instr **out) {
  const attention *m = x->m;
  sn_instr *roots[3];
  SN_TRY(open_body(x, before));
  sn_instr *v = build_x(x), *row = parameter(x, lse);
  sn_instr *p = v && row ? sn_build_unary(&x->b, SN_OP_EXPONENTIAL, sn_build_binary(&x->b, SN_OP_SUBTRACT, v, repeat(x, row, v))) : NULL;
  sn_instr *ds = p && m->ds ? build_dx(x, p) : NULL;
  if (ds) ds = pull_path(x, m->ds, m->dx);
  for (int k = 0; k < n; k++) {
    sn_instr *y = NULL;
    if (r[k].dot == m->dq) y = product(x, m->dq, ds, pull_operand(x, m->dq, 1 - m->dq_ds, true), 1, 0);
    if (r[k].dot == m->dk) y = product(x, m->dk, ds, pull_operand(x, m->dk, 1 - m->dk_ds, true), 0, 0);
    if (r[k].dot == m->dv && p) y = product(x, m->dv, sn_build_convert(&x->b, p, sn_operand_shape(m->dv, m->dv_p)->type), pull_operand(x, m->dv, 1 - m->dv_p, true), 0, 0);
    roots[k] = arrange(x, &r[k], y);
  }
  if (x->b.status != SN_OK) return failure(x);
  return close_body(x, before, n, roots, out);
}

sn_status sn_attention_build(sn_pass_ctx *pc, const attention *m, sn_instr *first, const bool *effects) {
  struct { sn_instr *dot; uint32_t side; } found[] = {{m->dv, m->dv_p}, {m->dq, m->dq_ds}, {m->dk, m->dk_ds}};
  build *x = SN_NEW(pc->scratch, build);
  result *r = SN_NEW_N(pc->scratch, result, 4);
  sn_instr *forward[2] = {NULL, NULL}, *backward[3] = {NULL, NULL, NULL};
  int n = 0;
  if (!x || !r) return sn_out_of_memory(pc->diag, sizeof *x + 4 * sizeof *r);
  x->pc = pc;
  x->m = m;
  x->work = sn_type_bits(m->x->shape->type) < 32 ? SN_TYPE_F32 : m->x->shape->type;
  for (int k = 0; k < SN_MAX_RANK; k++) x->axes[k] = k;
  find_result(m, m->out, m->out_p, &r[3]);
  for (int k = 0; k < 3; k++) {
    if (found[k].dot) find_result(m, found[k].dot, found[k].side, &r[n++]);
  }
  SN_TRY(build_forward(x, &r[3], forward));
  if (n) SN_TRY(build_backward(x, first, forward[1], n, r, backward));
  SN_TRY(put_result(x, &r[3], forward[0], effects));
  for (int k = 0; k < n; k++) SN_TRY(put_result(x, &r[k], backward[k], effects));
  return SN_OK;
}
