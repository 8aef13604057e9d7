/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The walk over ops: operands looked up, the row's function called, results checked against their stated types and bound. Regions and calls. */
#include "unmap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

#define sn_sw_none NULL
static const sn_sm_row rows[] = {
#define SN_SM_ROW(name, operands, results, regions, flags, opcode, fn, write) {name, operands, results, regions, flags, SN_OP_##opcode, sn_sm_##fn, sn_sw_##write},
#include "stablehlo.def"
#undef SN_SM_ROW
};

static int by_name(const void *key, const void *row) { return strcmp(key, ((const sn_sm_row *)row)->name); }
const sn_sm_row *sn_sm_row_find(const char *name) { return bsearch(name, rows, sizeof rows / sizeof rows[0], sizeof rows[0], by_name); }
size_t sn_sm_rows(const sn_sm_row **out) {
  *out = rows;
  return sizeof rows / sizeof rows[0];
}

/* ---- faults ---- */

sn_status sn_sm_fail(sn_sm *s, const sn_mlir_op *op, sn_status st, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return sn_error(s->d, op->loc, st, "%s: %s", op->name, text);
}

sn_status sn_sm_memory(sn_sm *s) { return sn_out_of_memory(s->d, 0); }
sn_arena *sn_sm_arena(sn_sm *s) { return s->m->arena; }

static sn_status unknown_op(sn_sm *s, const sn_mlir_op *op) {
  const char *names[sizeof rows / sizeof rows[0]];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) names[i] = rows[i].name;
  sn_error(s->d, op->loc, SN_ERR_UNSUPPORTED, "%s: no such op is known here", op->name);
  const char *near = sn_nearest(op->name, names, sizeof rows / sizeof rows[0]);
  if (near != NULL) sn_hint(s->d, "did you mean %s?", near);
  return SN_ERR_UNSUPPORTED;
}

/* ---- types ---- */

bool sn_sm_is_static(const sn_mlir_type *t) {
  if (t->kind == SN_MT_TENSOR || t->kind == SN_MT_BUFFER) {
    for (int i = 0; i < t->rank; i++)
      if (t->dims[i] == SN_DIM_UNBOUNDED && (t->bounds == NULL || t->bounds[i] == SN_DIM_UNBOUNDED)) return false;
    return true;
  }
  if (t->kind == SN_MT_UNRANKED) return false;
  for (uint32_t i = 0; i < t->n_ins; i++)
    if (!sn_sm_is_static(t->ins[i])) return false;
  return true;
}

static sn_status tensor_shape(sn_sm *s, const sn_mlir_op *op, const sn_mlir_type *t, const sn_shape **out) {
  int64_t dims[SN_MAX_RANK];
  bool dynamic[SN_MAX_RANK], any = false;
  sn_type e = sn_mlir_storage(t);
  if (e == SN_TYPE_INVALID || !sn_type_is_array(e)) return sn_sm_fail(s, op, SN_ERR_TYPE, "%s has an element type that HLO has not", sn_mlir_type_text(s->scratch, t));
  for (int i = 0; i < t->rank; i++) {
    dynamic[i] = t->dims[i] == SN_DIM_UNBOUNDED;
    dims[i] = dynamic[i] ? (t->bounds != NULL ? t->bounds[i] : SN_DIM_UNBOUNDED) : t->dims[i];
    any |= dynamic[i];
    if (dims[i] != SN_DIM_UNBOUNDED) continue;
    sn_sm_fail(s, op, SN_ERR_SHAPE, "the size of dimension %d of %s is not known", i, sn_mlir_type_text(s->scratch, t));
    sn_hint(s->d, "give the shapes of the program's arguments: a program with `?` is specialised to them");
    return SN_ERR_SHAPE;
  }
  *out = any ? sn_shape_dynamic(sn_sm_arena(s), e, t->rank, dims, dynamic) : sn_shape_array(sn_sm_arena(s), e, t->rank, dims);
  if (*out == NULL) return sn_sm_memory(s);
  return sn_shape_check(s->d, op->loc, *out);
}

static sn_status tuple_shape(sn_sm *s, const sn_mlir_op *op, const sn_mlir_type *t, const sn_shape **out) {
  const sn_shape **v = SN_NEW_N(s->scratch, const sn_shape *, t->n_ins + 1);
  if (v == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < t->n_ins; i++) SN_TRY(sn_sm_shape(s, op, t->ins[i], &v[i]));
  *out = sn_shape_tuple(sn_sm_arena(s), (int)t->n_ins, v);
  return *out != NULL ? SN_OK : sn_sm_memory(s);
}

sn_status sn_sm_shape(sn_sm *s, const sn_mlir_op *op, const sn_mlir_type *t, const sn_shape **out) {
  *out = NULL;
  switch (t->kind) {
    case SN_MT_TENSOR: return tensor_shape(s, op, t, out);
    case SN_MT_TUPLE: return tuple_shape(s, op, t, out);
    case SN_MT_TOKEN: *out = sn_shape_token(sn_sm_arena(s)); return *out != NULL ? SN_OK : sn_sm_memory(s);
    default: return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "values of type %s are not supported", sn_mlir_type_text(s->scratch, t));
  }
}

sn_status sn_sm_shape_of_dims(sn_sm *s, const sn_mlir_op *op, sn_type t, int64_t n, const int64_t *dims, const sn_shape **out) {
  if (n > SN_MAX_RANK) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "more than %d dimensions", SN_MAX_RANK);
  *out = sn_shape_array(sn_sm_arena(s), t, (int)n, dims);
  return *out != NULL ? sn_shape_check(s->d, op->loc, *out) : sn_sm_memory(s);
}

/* ---- attributes ---- */

static sn_status missing(sn_sm *s, const sn_mlir_op *op, const char *name) {
  return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected the attribute %s, found none", name);
}

sn_status sn_sm_ints(sn_sm *s, const sn_mlir_op *op, const char *name, bool required, int64_t *n, const int64_t **v) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  *n = 0;
  *v = NULL;
  if (a == NULL) return required ? missing(s, op, name) : SN_OK;
  if (!sn_mlir_ints(s->scratch, a, n, v)) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected integers for %s, found another value", name);
  return SN_OK;
}

sn_status sn_sm_ints_n(sn_sm *s, const sn_mlir_op *op, const char *name, int64_t want, const int64_t **v) {
  int64_t n = 0;
  SN_TRY(sn_sm_ints(s, op, name, want != 0, &n, v));
  if (n != want) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected %" PRId64 " integers for %s, found %" PRId64, want, name, n);
  return SN_OK;
}

sn_status sn_sm_int(sn_sm *s, const sn_mlir_op *op, const char *name, int64_t *out) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  if (a == NULL) return missing(s, op, name);
  if (a->kind != SN_MA_INT && a->kind != SN_MA_BOOL) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected an integer for %s, found another value", name);
  *out = a->i;
  return SN_OK;
}

int64_t sn_sm_int_or(const sn_mlir_op *op, const char *name, int64_t dflt) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  return a != NULL && (a->kind == SN_MA_INT || a->kind == SN_MA_BOOL) ? a->i : dflt;
}

bool sn_sm_bool(const sn_mlir_op *op, const char *name) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  return a != NULL && (a->kind == SN_MA_UNIT || ((a->kind == SN_MA_BOOL || a->kind == SN_MA_INT) && a->i != 0));
}

sn_status sn_sm_enum(sn_sm *s, const sn_mlir_op *op, const char *name, const char *const *words, int64_t n, int64_t dflt, int64_t *out) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  *out = dflt;
  if (a == NULL && dflt >= 0) return SN_OK;
  if (a == NULL) return missing(s, op, name);
  const char *word = a->kind == SN_MA_ENUM || a->kind == SN_MA_STRING ? a->s : "";
  for (int64_t i = 0; i < n; i++)
    if (strcmp(word, words[i]) == 0) {
      *out = i;
      return SN_OK;
    }
  sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected a word for %s, found `%s`", name, word);
  const char *near = sn_nearest(word, words, (size_t)n);
  sn_hint(s->d, near != NULL ? "did you mean %s?" : "the first of its words is %s", near != NULL ? near : words[0]);
  return SN_ERR_ATTRIBUTE;
}

/* ---- one op ---- */

static bool is_quantised(const sn_mlir_type *t) { return t->kind == SN_MT_TENSOR && t->element->kind == SN_MT_QUANT; }

static sn_status lookup(sn_sm *s, const sn_mlir_op *op, sn_instr **in) {
  for (uint32_t i = 0; i < op->n_operands; i++) {
    in[i] = s->values[op->operands[i]->id];
    if (in[i] == NULL)
      return sn_sm_fail(s, op, SN_ERR_NAME, "operand %" PRIu32 " (%%%s) is used before it is defined", i, op->operands[i]->name != NULL ? op->operands[i]->name : "?");
    if (in[i]->parent != s->b.c)
      return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "operand %" PRIu32 " is defined outside of a region that cannot capture it", i);
  }
  return SN_OK;
}

/* As far as the type is static. */
static bool type_fits(const sn_mlir_type *t, const sn_shape *found) {
  bool fits = sn_shape_is_array(found) && found->rank == t->rank && found->type == sn_mlir_storage(t);
  for (int d = 0; fits && d < t->rank; d++) fits = t->dims[d] == SN_DIM_UNBOUNDED || t->dims[d] == found->dims[d] || (found->dynamic != NULL && found->dynamic[d]);
  return fits;
}

/* What was inferred agrees with what is stated. */
static sn_status check_result(sn_sm *s, const sn_mlir_op *op, uint32_t k, const sn_instr *i) {
  const sn_mlir_type *t = op->results[k].type;
  if (t->kind != SN_MT_TENSOR) return SN_OK;
  const sn_shape *found = i->shape;
  if (type_fits(t, found)) return SN_OK;
  return sn_sm_fail(s, op, SN_ERR_SHAPE, "the type of result %" PRIu32 " is stated as %s, but the operands give %s", k, sn_mlir_type_text(s->scratch, t),
                    sn_shape_text(s->scratch, found));
}

static sn_status bind(sn_sm *s, const sn_mlir_op *op, sn_instr **out) {
  for (uint32_t i = 0; i < op->n_results; i++) {
    if (out[i] == NULL) return sn_sm_fail(s, op, SN_ERR_INTERNAL, "no value was made for result %" PRIu32, i);
    SN_TRY(check_result(s, op, i, out[i]));
    s->values[op->results[i].id] = out[i];
  }
  return SN_OK;
}

static sn_status check_counts(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op) {
  if (row->n_operands >= 0 && op->n_operands != (uint32_t)row->n_operands)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d operand%s, found %" PRIu32, row->n_operands, row->n_operands == 1 ? "" : "s", op->n_operands);
  if (row->n_results >= 0 && op->n_results != (uint32_t)row->n_results)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d result%s, found %" PRIu32, row->n_results, row->n_results == 1 ? "" : "s", op->n_results);
  if (row->n_regions >= 0 && op->n_regions != (uint32_t)row->n_regions)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d region%s, found %" PRIu32, row->n_regions, row->n_regions == 1 ? "" : "s", op->n_regions);
  return SN_OK;
}

/* dequantise, compute in the expressed type, quantise: what StableHLO says of every op that has no rule of its own. */
static sn_status quantised(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_mlir_op plain = *op;
  plain.results = sn_arena_copy(s->scratch, op->results, ((size_t)op->n_results + 1) * sizeof *op->results);
  if (plain.results == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < op->n_operands; i++)
    if (is_quantised(op->operands[i]->type)) in[i] = sn_sm_dequantize(s, in[i], op->operands[i]->type->element->quant);
  for (uint32_t i = 0; i < op->n_results; i++) {
    if (!is_quantised(op->results[i].type)) continue;
    sn_mlir_type *t = sn_arena_copy(s->scratch, op->results[i].type, sizeof *t), *e = SN_NEW(s->scratch, sn_mlir_type);
    if (t == NULL || e == NULL) return sn_sm_memory(s);
    e->kind = SN_MT_SCALAR;
    e->scalar = op->results[i].type->element->quant->expressed;
    t->element = e;
    plain.results[i].type = t;
  }
  SN_TRY(sn_sm_built(s));
  SN_TRY(row->fn(s, row, &plain, in, out));
  for (uint32_t i = 0; i < op->n_results; i++)
    if (is_quantised(op->results[i].type)) out[i] = sn_sm_quantize(s, out[i], op->results[i].type->element->quant);
  return sn_sm_built(s);
}

/* Few ops take a scale for each slice. */
static sn_status check_axes(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op) {
  if ((row->flags & SN_SM_PER_AXIS) && (row->flags & SN_SM_STORAGE)) return SN_OK;
  for (uint32_t i = 0; i < op->n_operands + op->n_results; i++) {
    if ((row->flags & SN_SM_PER_AXIS) && i != 0) break; /* products: the left operand has one scale for all */
    const sn_mlir_type *t = i < op->n_operands ? op->operands[i]->type : op->results[i - op->n_operands].type;
    if (is_quantised(t) && t->element->quant->axis >= 0) return sn_sm_fail(s, op, SN_ERR_TYPE, "takes values with one scale for all, found %s", sn_mlir_type_text(s->scratch, t));
  }
  return SN_OK;
}

/* Ops that move stored integers about must not change what they stand for. */
static sn_status check_scales(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op) {
  static const sn_sm_fn moves[] = {sn_sm_broadcast_in_dim, sn_sm_dynamic_broadcast_in_dim, sn_sm_reshape, sn_sm_dynamic_reshape, sn_sm_transpose, sn_sm_slice,
                                   sn_sm_reverse, sn_sm_gather, sn_sm_concatenate, sn_sm_dynamic_slice, sn_sm_pad};
  bool is_move = false;
  for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) is_move |= row->fn == moves[i];
  if (!is_move || op->n_operands == 0 || op->n_results != 1 || !is_quantised(op->operands[0]->type) || !is_quantised(op->results[0].type)) return SN_OK;
  const sn_mlir_quant *a = op->operands[0]->type->element->quant, *b = op->results[0].type->element->quant;
  if (a->storage == b->storage && a->expressed == b->expressed && (a->axis >= 0) == (b->axis >= 0) && a->scales[0] == b->scales[0] && a->zero_points[0] == b->zero_points[0]) return SN_OK;
  return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a result quantised as the operand is, found %s and %s", sn_mlir_type_text(s->scratch, op->operands[0]->type),
                    sn_mlir_type_text(s->scratch, op->results[0].type));
}

static bool any_quantised(const sn_mlir_op *op) {
  for (uint32_t i = 0; i < op->n_operands; i++)
    if (is_quantised(op->operands[i]->type)) return true;
  for (uint32_t i = 0; i < op->n_results; i++)
    if (is_quantised(op->results[i].type)) return true;
  return false;
}

/* Where the op came from in the program that was exported. */
static sn_status note_origin(sn_sm *s, const sn_mlir_op *op) {
  s->b.loc = op->loc;
  s->b.metadata = NULL;
  if (op->debug == NULL) return SN_OK;
  sn_metadata *md = SN_NEW(sn_sm_arena(s), sn_metadata);
  if (md == NULL) return sn_sm_memory(s);
  md->op_name = op->debug->name != NULL ? sn_arena_string(sn_sm_arena(s), op->debug->name) : NULL;
  md->source_file = op->debug->file != NULL ? sn_arena_string(sn_sm_arena(s), op->debug->file) : NULL;
  md->source_line = (int32_t)op->debug->line;
  md->source_column = (int32_t)op->debug->col;
  md->source_end_line = (int32_t)op->debug->end_line;
  md->source_end_column = (int32_t)op->debug->end_col;
  s->b.metadata = md;
  return SN_OK;
}

static sn_status note_sharding(sn_sm *s, const sn_mlir_op *op, sn_instr **out) {
  if (op->n_attrs == 0 || op->n_results == 0) return SN_OK;
  /* Several results: what made the tuple of them. */
  sn_instr *i = op->n_results == 1 ? out[0] : out[0]->op == SN_OP_GET_TUPLE_ELEMENT ? sn_instr_operand(out[0], 0) : NULL;
  return sn_sm_sharding_notes(s, op->attrs, op->n_attrs, i);
}

sn_status sn_sm_op(sn_sm *s, const sn_mlir_op *op) {
  const sn_sm_row *row = sn_sm_row_find(op->name);
  if (row == NULL) return unknown_op(s, op);
  SN_TRY(check_counts(s, row, op));
  if (++s->n_ops > SN_SM_MAX_OPS) return sn_sm_fail(s, op, SN_ERR_OVERFLOW, "the program has more than %d ops when its calls are followed", (int)SN_SM_MAX_OPS);
  sn_instr **in = SN_NEW_N(s->scratch, sn_instr *, op->n_operands + 1), **out = SN_NEW_N(s->scratch, sn_instr *, op->n_results + 1);
  if (in == NULL || out == NULL) return sn_sm_memory(s);
  SN_TRY(lookup(s, op, in));
  SN_TRY(note_origin(s, op));
  bool quantised_types = any_quantised(op), lower = !(row->flags & SN_SM_STORAGE) && quantised_types;
  if (quantised_types) SN_TRY(check_axes(s, row, op));
  if (quantised_types) SN_TRY(check_scales(s, row, op));
  SN_TRY(lower ? quantised(s, row, op, in, out) : row->fn(s, row, op, in, out));
  SN_TRY(sn_sm_built(s));
  SN_TRY(bind(s, op, out));
  return note_sharding(s, op, out);
}

sn_status sn_sm_unpack(sn_sm *s, const sn_mlir_op *op, sn_instr *i, sn_instr **out) {
  SN_TRY(sn_sm_built(s));
  if (!sn_shape_is_tuple(i->shape)) {
    if (op->n_results != 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected 1 result, found %" PRIu32, op->n_results);
    out[0] = i;
    return SN_OK;
  }
  if ((uint32_t)i->shape->n_elements != op->n_results)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d results, found %" PRIu32, i->shape->n_elements, op->n_results);
  for (uint32_t k = 0; k < op->n_results; k++) out[k] = sn_build_get(&s->b, i, k);
  return sn_sm_built(s);
}

/* ---- regions ---- */

static bool is_terminator(const sn_mlir_op *op) {
  return strcmp(op->name, "stablehlo.return") == 0 || strcmp(op->name, "func.return") == 0 || strcmp(op->name, "sdy.return") == 0 || strcmp(op->name, "chlo.return") == 0;
}

/* The ops of a block up to its terminator, whose operands are the results. */
static sn_status block(sn_sm *s, const sn_mlir_op *owner, const sn_mlir_block *b, const sn_mlir_op **end) {
  *end = NULL;
  for (const sn_mlir_op *op = b->first; op != NULL; op = op->next) {
    if (is_terminator(op)) {
      if (op->next != NULL) return sn_sm_fail(s, op->next, SN_ERR_VERIFY, "found behind the return of its block");
      *end = op;
      return SN_OK;
    }
    SN_TRY(sn_sm_op(s, op));
  }
  return sn_sm_fail(s, owner, SN_ERR_VERIFY, "expected a return at the end of its region, found none");
}

static sn_status only_block(sn_sm *s, const sn_mlir_op *op, const sn_mlir_region *r, const sn_mlir_block **out) {
  if (r->n_blocks == 1) {
    *out = r->first;
    return SN_OK;
  }
  return sn_sm_fail(s, op, r->n_blocks == 0 ? SN_ERR_VERIFY : SN_ERR_UNSUPPORTED, "expected one block in a region, found %" PRIu32, r->n_blocks);
}

typedef struct frame {
  sn_builder b;
  int depth;
} frame;

/* Begins a computation; the caller's place is kept in *f. */
static sn_status enter(sn_sm *s, const sn_mlir_op *op, const char *name, frame *f) {
  f->b = s->b;
  f->depth = s->depth;
  if (++s->depth > 4 * SN_MLIR_MAX_NEST) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "more than %d levels of calls and regions", 4 * SN_MLIR_MAX_NEST);
  sn_computation *c = NULL;
  if (sn_computation_create(s->m, name, &c) != SN_OK) return sn_sm_memory(s);
  sn_builder_init(&s->b, s->d, c);
  s->b.loc = op->loc;
  return SN_OK;
}

static void leave(sn_sm *s, const frame *f) {
  s->b = f->b;
  s->depth = f->depth;
}

typedef struct captures {
  sn_sm *s;
  sn_mlir_value **v;
  uint32_t n, cap;
  sn_map *seen; /* ids defined inside, or noted */
} captures;

static sn_status capture_note(captures *c, sn_mlir_value *v) {
  if (sn_map_get_u64(c->seen, v->id) != NULL) return SN_OK;
  if (sn_map_set_u64(c->seen, v->id, c) != SN_OK) return SN_ERR_MEMORY;
  if (c->n == c->cap) {
    uint32_t cap = c->cap ? c->cap * 2 : 8;
    sn_mlir_value **to = SN_NEW_N(c->s->scratch, sn_mlir_value *, cap);
    if (to == NULL) return SN_ERR_MEMORY;
    for (uint32_t i = 0; i < c->n; i++) to[i] = c->v[i];
    c->v = to;
    c->cap = cap;
  }
  c->v[c->n++] = v;
  return SN_OK;
}

static sn_status capture_region(captures *c, const sn_mlir_region *r) {
  for (const sn_mlir_block *b = r->first; b != NULL; b = b->next) {
    for (uint32_t i = 0; i < b->n_args; i++)
      if (sn_map_set_u64(c->seen, b->args[i].id, c) != SN_OK) return SN_ERR_MEMORY;
    for (const sn_mlir_op *op = b->first; op != NULL; op = op->next) {
      for (uint32_t i = 0; i < op->n_operands; i++) SN_TRY(capture_note(c, op->operands[i]));
      for (uint32_t i = 0; i < op->n_results; i++)
        if (sn_map_set_u64(c->seen, op->results[i].id, c) != SN_OK) return SN_ERR_MEMORY;
      for (uint32_t k = 0; k < op->n_regions; k++) SN_TRY(capture_region(c, &op->regions[k]));
    }
  }
  return SN_OK;
}

/* A constant is made anew within the region instead of being passed. */
static bool passes(sn_sm *s, const sn_mlir_value *v) {
  sn_instr *i = s->values[v->id];
  return i != NULL && i->op != SN_OP_CONSTANT && sn_sm_fold(s, i) == NULL;
}

sn_status sn_sm_captured(sn_sm *s, const sn_mlir_op *op, uint32_t *n, sn_mlir_value ***out) {
  captures c = {s, NULL, 0, 0, NULL};
  if (sn_map_create(&c.seen) != SN_OK) return sn_sm_memory(s);
  sn_status st = SN_OK;
  for (uint32_t k = 0; st == SN_OK && k < op->n_regions; k++) st = capture_region(&c, &op->regions[k]);
  sn_map_destroy(c.seen);
  if (st != SN_OK) return sn_sm_memory(s);
  *n = 0;
  *out = c.v;
  for (uint32_t i = 0; i < c.n; i++)
    if (passes(s, c.v[i])) c.v[(*n)++] = c.v[i];
  return SN_OK;
}

/* Rebinds the values that a region captures as constants; the old bindings are put back by the caller through `saved`. */
typedef struct rebinding { uint32_t id; sn_instr *old; } rebinding;
typedef struct rebindings {
  rebinding *v;
  uint32_t n, cap;
} rebindings;

static sn_status rebind(sn_sm *s, rebindings *r, uint32_t id, sn_instr *to) {
  if (r->n == r->cap) {
    uint32_t cap = r->cap ? r->cap * 2 : 8;
    rebinding *v = SN_NEW_N(s->scratch, rebinding, cap);
    if (v == NULL) return sn_sm_memory(s);
    for (uint32_t i = 0; i < r->n; i++) v[i] = r->v[i];
    r->v = v;
    r->cap = cap;
  }
  r->v[r->n++] = (rebinding){id, s->values[id]};
  s->values[id] = to;
  return SN_OK;
}

static void unbind(sn_sm *s, const rebindings *r) {
  for (uint32_t i = r->n; i > 0; i--) s->values[r->v[i - 1].id] = r->v[i - 1].old;
}

/* Constants and what folds to one, made anew where they are used. */
static sn_status rebind_constants(sn_sm *s, const sn_mlir_op *op, const sn_mlir_region *region, rebindings *r) {
  captures c = {s, NULL, 0, 0, NULL};
  if (sn_map_create(&c.seen) != SN_OK) return sn_sm_memory(s);
  sn_status st = capture_region(&c, region);
  sn_map_destroy(c.seen);
  if (st != SN_OK) return sn_sm_memory(s);
  for (uint32_t i = 0; i < c.n; i++) {
    sn_instr *old = s->values[c.v[i]->id];
    if (old == NULL || old->parent == s->b.c) continue;
    const sn_array *known = old->op == SN_OP_CONSTANT ? sn_instr_literal(old) : sn_sm_fold(s, old);
    if (known == NULL)
      return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "its region uses %%%s from outside, which is no constant", c.v[i]->name != NULL ? c.v[i]->name : "a value");
    sn_array *literal = NULL;
    if (sn_array_create_from(sn_array_shape(known), sn_array_data(known), &literal) != SN_OK) return sn_sm_memory(s);
    sn_instr *copy = sn_build_constant(&s->b, literal);
    sn_array_release(literal);
    SN_TRY(sn_sm_built(s));
    SN_TRY(rebind(s, r, c.v[i]->id, copy));
  }
  return SN_OK;
}

static sn_status packed_param(sn_sm *s, const sn_sm_region_spec *spec, sn_instr **params) {
  uint32_t n = spec->n_args + spec->n_captured;
  const sn_shape **shapes = SN_NEW_N(s->scratch, const sn_shape *, n + 1);
  if (shapes == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < n; i++) shapes[i] = i < spec->n_args ? spec->args[i] : s->values[spec->captured[i - spec->n_args]->id]->shape;
  const sn_shape *t = sn_shape_tuple(sn_sm_arena(s), (int)n, shapes);
  if (t == NULL) return sn_sm_memory(s);
  sn_instr *p = sn_build_parameter(&s->b, 0, t, NULL);
  for (uint32_t i = 0; i < n; i++) params[i] = sn_build_get(&s->b, p, i);
  return sn_sm_built(s);
}

static sn_status params(sn_sm *s, const sn_sm_region_spec *spec, sn_instr **v) {
  if (spec->packed) return packed_param(s, spec, v);
  uint32_t n = spec->n_args + spec->n_captured;
  for (uint32_t i = 0; i < n; i++)
    v[i] = sn_build_parameter(&s->b, i, i < spec->n_args ? spec->args[i] : s->values[spec->captured[i - spec->n_args]->id]->shape, NULL);
  return sn_sm_built(s);
}

static sn_status region_root(sn_sm *s, const sn_sm_region_spec *spec, const sn_mlir_op *end) {
  uint32_t n = end->n_operands, more = spec->pass_captured ? spec->n_captured : 0;
  sn_instr **v = SN_NEW_N(s->scratch, sn_instr *, n + more + 1);
  if (v == NULL) return sn_sm_memory(s);
  SN_TRY(lookup(s, end, v));
  for (uint32_t i = 0; i < more; i++) v[n + i] = s->values[spec->captured[i]->id];
  sn_instr *root = spec->tuple || n + more != 1 ? sn_build_tuple(&s->b, n + more, v) : v[0];
  SN_TRY(sn_sm_built(s));
  sn_computation_set_root(s->b.c, root);
  return SN_OK;
}

static sn_status region_body(sn_sm *s, const sn_mlir_op *op, const sn_sm_region_spec *spec, const sn_mlir_block *b, rebindings *r) {
  sn_instr **v = SN_NEW_N(s->scratch, sn_instr *, spec->n_args + spec->n_captured + 1);
  const sn_mlir_op *end = NULL;
  if (v == NULL) return sn_sm_memory(s);
  SN_TRY(params(s, spec, v));
  for (uint32_t i = 0; i < spec->n_args; i++) SN_TRY(rebind(s, r, b->args[i].id, v[i]));
  for (uint32_t i = 0; i < spec->n_captured; i++) SN_TRY(rebind(s, r, spec->captured[i]->id, v[spec->n_args + i]));
  SN_TRY(rebind_constants(s, op, spec->region, r));
  SN_TRY(block(s, op, b, &end));
  return region_root(s, spec, end);
}

static sn_status check_arg(sn_sm *s, const sn_mlir_op *op, const sn_mlir_type *t, uint32_t i, const sn_shape *given) {
  if (t->kind != SN_MT_TENSOR || type_fits(t, given)) return SN_OK;
  return sn_sm_fail(s, op, SN_ERR_TYPE, "argument %" PRIu32 " of its region is stated as %s, but is given %s", i, sn_mlir_type_text(s->scratch, t), sn_shape_text(s->scratch, given));
}

sn_status sn_sm_region(sn_sm *s, const sn_mlir_op *op, const sn_sm_region_spec *spec, sn_computation **out) {
  const sn_mlir_block *b = NULL;
  frame f;
  rebindings r = {NULL, 0, 0};
  *out = NULL;
  SN_TRY(only_block(s, op, spec->region, &b));
  if (b->n_args != spec->n_args)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %" PRIu32 " arguments of its region, found %" PRIu32, spec->n_args, b->n_args);
  for (uint32_t i = 0; i < b->n_args; i++) SN_TRY(check_arg(s, op, b->args[i].type, i, spec->args[i]));
  SN_TRY(enter(s, op, spec->name, &f));
  sn_status st = region_body(s, op, spec, b, &r);
  *out = s->b.c;
  unbind(s, &r);
  leave(s, &f);
  return st;
}

sn_status sn_sm_scalar_region(sn_sm *s, const sn_mlir_op *op, uint32_t k, const char *name, sn_computation **out) {
  const sn_mlir_block *b = NULL;
  *out = NULL;
  if (k >= op->n_regions) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a region, found none");
  SN_TRY(only_block(s, op, &op->regions[k], &b));
  const sn_shape **shapes = SN_NEW_N(s->scratch, const sn_shape *, b->n_args + 1);
  if (shapes == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < b->n_args; i++) SN_TRY(sn_sm_shape(s, op, b->args[i].type, &shapes[i]));
  sn_sm_region_spec spec = {.region = &op->regions[k], .name = name, .n_args = b->n_args, .args = shapes};
  return sn_sm_region(s, op, &spec, out);
}

static bool promotable(sn_type from, sn_type to) { return sn_types[from].cls == sn_types[to].cls && sn_type_bits(from) <= sn_type_bits(to); }

/* Quantised: what the region (the last one) returns stands for the same real type. */
static bool same_expressed(const sn_mlir_op *op, uint32_t i) {
  const sn_mlir_block *b = op->n_regions != 0 ? op->regions[op->n_regions - 1].first : NULL;
  const sn_mlir_op *end = b != NULL ? b->last : NULL;
  if (end == NULL || i >= end->n_operands || i >= op->n_operands || !is_quantised(op->operands[i]->type)) return true;
  const sn_mlir_type *r = end->operands[i]->type;
  return is_quantised(r) && r->element->quant->expressed == op->operands[i]->type->element->quant->expressed;
}

sn_status sn_sm_check_promotion(sn_sm *s, const sn_mlir_op *op, const sn_computation *c, uint32_t n, sn_instr *const *in) {
  const sn_shape *root = c->root->shape;
  uint32_t given = sn_shape_is_tuple(root) ? (uint32_t)root->n_elements : 1;
  if (given != n || (n == 1 && sn_shape_is_tuple(root)))
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %" PRIu32 " array%s as result of its region, found %s", n, n == 1 ? "" : "s", sn_shape_text(s->scratch, root));
  for (uint32_t i = 0; i < n; i++) {
    const sn_shape *r = sn_shape_is_tuple(root) ? root->elements[i] : root;
    if (!same_expressed(op, i)) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a region over quantised values of the operands' expressed type");
    if (sn_shape_is_array(r) && sn_shape_is_array(in[i]->shape) && promotable(in[i]->shape->type, r->type)) continue;
    return sn_sm_fail(s, op, SN_ERR_TYPE, "expected %s or a wider type as result %" PRIu32 " of its region, found %s", sn_type_text(in[i]->shape->type), i,
                      sn_shape_text(s->scratch, r));
  }
  return SN_OK;
}

/* ---- calls ---- */

static sn_mlir_op *callee_find(sn_sm *s, const char *name) { return sn_map_get_str(s->functions, name); }

static sn_status no_callee(sn_sm *s, const sn_mlir_op *op, const char *name) {
  const char *names[64];
  size_t n = 0;
  sn_sm_fail(s, op, SN_ERR_NAME, "there is no function @%s", name);
  for (size_t i = 0; i < sn_map_slots(s->functions) && n < 64; i++) {
    const void *key = NULL;
    size_t bytes = 0;
    if (sn_map_at(s->functions, i, &key, &bytes, NULL)) names[n++] = sn_arena_string_n(s->scratch, key, bytes);
    if (n > 0 && names[n - 1] == NULL) n--;
  }
  const char *near = sn_nearest(name, names, n);
  if (near != NULL) sn_hint(s->d, "did you mean @%s?", near);
  return SN_ERR_NAME;
}

static bool function_is_static(const sn_mlir_op *f) {
  const sn_mlir_attr *a = sn_mlir_find(f, "function_type");
  if (a == NULL || a->kind != SN_MA_TYPE || a->type->kind != SN_MT_FUNCTION) return false;
  for (uint32_t i = 0; i < a->type->n_ins; i++)
    if (!sn_sm_is_static(a->type->ins[i])) return false;
  return true;
}

/* The body of a function in place, its arguments bound to values. */
static sn_status inlined(sn_sm *s, const sn_mlir_op *op, const sn_mlir_op *f, const sn_mlir_block *b, sn_instr **in, sn_instr **out) {
  const sn_mlir_op *end = NULL;
  for (uint32_t i = 0; i < b->n_args; i++) s->values[b->args[i].id] = in[i];
  if (++s->depth > 4 * SN_MLIR_MAX_NEST) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "more than %d levels of calls", 4 * SN_MLIR_MAX_NEST);
  SN_TRY(block(s, f, b, &end));
  s->depth--;
  if (end->n_operands != op->n_results) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %" PRIu32 " results, found %" PRIu32, end->n_operands, op->n_results);
  return lookup(s, end, out);
}

static sn_status computation_of(sn_sm *s, const sn_mlir_op *op, const sn_mlir_op *f, const char *name, sn_computation **out) {
  *out = sn_map_get_u64(s->computations, (uint64_t)(uintptr_t)f);
  if (*out != NULL) return SN_OK;
  const sn_mlir_block *b = f->regions[0].first;
  const sn_shape **shapes = SN_NEW_N(s->scratch, const sn_shape *, b->n_args + 1);
  if (shapes == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < b->n_args; i++) SN_TRY(sn_sm_shape(s, f, b->args[i].type, &shapes[i]));
  sn_sm_region_spec spec = {.region = &f->regions[0], .name = name, .n_args = b->n_args, .args = shapes};
  SN_TRY(sn_sm_region(s, f, &spec, out));
  (void)op;
  return sn_map_set_u64(s->computations, (uint64_t)(uintptr_t)f, *out) == SN_OK ? SN_OK : sn_sm_memory(s);
}

static sn_status check_callee(sn_sm *s, const sn_mlir_op *op, const sn_mlir_op *f, const char *name, uint32_t n) {
  if (f->n_regions != 1 || f->regions[0].n_blocks == 0) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "@%s is a declaration without a body", name);
  if (f->regions[0].n_blocks != 1) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "@%s has branches between blocks", name);
  if (f->regions[0].first->n_args != n)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %" PRIu32 " arguments for @%s, found %" PRIu32, f->regions[0].first->n_args, name, n);
  if (sn_map_get_u64(s->on_stack, (uint64_t)(uintptr_t)f) == NULL) return SN_OK;
  sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "@%s calls itself, directly or through others", name);
  sn_hint(s->d, "loops are written with stablehlo.while");
  return SN_ERR_UNSUPPORTED;
}

sn_status sn_sm_call(sn_sm *s, const sn_mlir_op *op, const char *callee, uint32_t n, sn_instr **in, sn_instr **out) {
  const sn_mlir_op *f = callee_find(s, callee);
  if (f == NULL) return no_callee(s, op, callee);
  SN_TRY(check_callee(s, op, f, callee, n));
  if (sn_map_set_u64(s->on_stack, (uint64_t)(uintptr_t)f, s) != SN_OK) return sn_sm_memory(s);
  uint64_t key = (uint64_t)(uintptr_t)f;
  sn_status st = SN_OK;
  if (s->dynamic || !function_is_static(f)) {
    st = inlined(s, op, f, f->regions[0].first, in, out);
  } else {
    sn_computation *c = NULL;
    st = computation_of(s, op, f, callee, &c);
    if (st == SN_OK) st = sn_sm_unpack(s, op, sn_build_call(&s->b, c, n, in), out);
  }
  /* The entry is kept: erasing and adding again and again would let the map grow. */
  if (sn_map_set_u64(s->on_stack, key, NULL) != SN_OK) return sn_sm_memory(s);
  return st;
}

sn_status sn_sm_func_call(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const char *callee = sn_mlir_string(op, "callee");
  (void)row;
  if (callee == NULL) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected the attribute callee, found none");
  return sn_sm_call(s, op, callee, op->n_operands, in, out);
}
