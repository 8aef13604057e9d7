/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "mlir.h"

#include <inttypes.h>
#include <string.h>

/* ---- making ---- */

sn_status sn_mlir_create(sn_mlir **out) {
  *out = NULL;
  sn_arena *a = NULL;
  SN_TRY(sn_arena_create(&a));
  sn_mlir *m = SN_NEW(a, sn_mlir);
  if (m == NULL) {
    sn_arena_destroy(a);
    return SN_ERR_MEMORY;
  }
  m->arena = a;
  *out = m;
  return SN_OK;
}

void sn_mlir_destroy(sn_mlir *m) {
  if (m == NULL) return;
  for (uint32_t i = 0; i < m->n_dense; i++) sn_array_release(m->dense[i]);
  sn_free(m->dense);
  sn_arena_destroy(m->arena);
}

const sn_mlir_type *sn_mlir_type_of(sn_mlir *m, sn_mlir_type_kind kind) {
  sn_mlir_type *t = SN_NEW(m->arena, sn_mlir_type);
  if (t == NULL) return NULL;
  t->kind = kind;
  t->scalar = SN_TYPE_INVALID;
  return t;
}

const sn_mlir_type *sn_mlir_type_scalar(sn_mlir *m, sn_type scalar) {
  sn_mlir_type *t = SN_NEW(m->arena, sn_mlir_type);
  if (t == NULL) return NULL;
  t->kind = SN_MT_SCALAR;
  t->scalar = scalar;
  return t;
}

const sn_mlir_type *sn_mlir_type_tensor(sn_mlir *m, int rank, const int64_t *dims, const sn_mlir_type *element) {
  sn_mlir_type *t = SN_NEW(m->arena, sn_mlir_type);
  int64_t *copy = SN_NEW_N(m->arena, int64_t, rank + 1);
  if (t == NULL || copy == NULL) return NULL;
  for (int i = 0; i < rank; i++) copy[i] = dims[i];
  t->kind = SN_MT_TENSOR;
  t->scalar = SN_TYPE_INVALID;
  t->rank = rank;
  t->dims = copy;
  t->element = element;
  return t;
}

sn_mlir_attr *sn_mlir_attr_new(sn_mlir *m, sn_mlir_attr_kind kind) {
  sn_mlir_attr *a = SN_NEW(m->arena, sn_mlir_attr);
  if (a != NULL) a->kind = kind;
  return a;
}

sn_mlir_attr *sn_mlir_attr_int(sn_mlir *m, int64_t v) {
  sn_mlir_attr *a = sn_mlir_attr_new(m, SN_MA_INT);
  if (a != NULL) a->i = v;
  return a;
}

sn_mlir_attr *sn_mlir_attr_string(sn_mlir *m, sn_mlir_attr_kind kind, const char *s, size_t n) {
  sn_mlir_attr *a = sn_mlir_attr_new(m, kind);
  if (a == NULL) return NULL;
  a->s = sn_arena_string_n(m->arena, s, n);
  a->n = (int64_t)n;
  return a->s != NULL ? a : NULL;
}

sn_mlir_attr *sn_mlir_attr_type(sn_mlir *m, const sn_mlir_type *t) {
  sn_mlir_attr *a = sn_mlir_attr_new(m, SN_MA_TYPE);
  if (a != NULL) a->type = t;
  return a;
}

static bool keep_dense(sn_mlir *m, sn_array *values) {
  if (m->n_dense == m->cap_dense) {
    uint32_t cap = m->cap_dense ? m->cap_dense * 2 : 16;
    sn_array **v = sn_realloc(m->dense, cap * sizeof *v);
    if (v == NULL) return false;
    m->dense = v;
    m->cap_dense = cap;
  }
  m->dense[m->n_dense++] = values;
  return true;
}

sn_mlir_attr *sn_mlir_attr_dense(sn_mlir *m, const sn_mlir_type *t, sn_array *values, bool splat) {
  sn_mlir_attr *a = values != NULL ? sn_mlir_attr_new(m, SN_MA_DENSE) : NULL;
  if (a == NULL || !keep_dense(m, values)) {
    sn_array_release(values);
    return NULL;
  }
  a->type = t;
  a->dense = values;
  a->splat = splat;
  return a;
}

static bool number_values(sn_mlir *m, sn_mlir_value *v, uint32_t n, const sn_mlir_type *const *types, sn_mlir_op *def, sn_mlir_block *block) {
  if (m->n_values > UINT32_MAX - n) return false;
  for (uint32_t i = 0; i < n; i++) v[i] = (sn_mlir_value){types[i], def, block, i, m->n_values++, NULL};
  return true;
}

sn_mlir_op *sn_mlir_op_new(sn_mlir *m, sn_mlir_block *to, const char *name, uint32_t n_results, const sn_mlir_type *const *types, uint32_t n_regions) {
  sn_mlir_op *op = SN_NEW(m->arena, sn_mlir_op);
  sn_mlir_value *results = SN_NEW_N(m->arena, sn_mlir_value, (size_t)n_results + 1);
  sn_mlir_region *regions = SN_NEW_N(m->arena, sn_mlir_region, (size_t)n_regions + 1);
  if (op == NULL || results == NULL || regions == NULL || !number_values(m, results, n_results, types, op, to)) return NULL;
  op->name = name;
  op->n_results = n_results;
  op->results = results;
  op->n_regions = n_regions;
  op->regions = regions;
  op->block = to;
  for (uint32_t i = 0; i < n_regions; i++) regions[i].op = op;
  if (to->last != NULL) to->last->next = op;
  else to->first = op;
  to->last = op;
  return op;
}

sn_mlir_block *sn_mlir_block_new(sn_mlir *m, sn_mlir_region *to, uint32_t n_args, const sn_mlir_type *const *types) {
  sn_mlir_block *b = SN_NEW(m->arena, sn_mlir_block);
  sn_mlir_value *args = SN_NEW_N(m->arena, sn_mlir_value, (size_t)n_args + 1);
  if (b == NULL || args == NULL || !number_values(m, args, n_args, types, NULL, b)) return NULL;
  b->n_args = n_args;
  b->args = args;
  b->region = to;
  if (to->last != NULL) to->last->next = b;
  else to->first = b;
  to->last = b;
  to->n_blocks++;
  return b;
}

/* ---- reading ---- */

const sn_mlir_attr *sn_mlir_member(const sn_mlir_attr *dict, const char *name) {
  if (dict == NULL || (dict->kind != SN_MA_DICT && dict->kind != SN_MA_STRUCT)) return NULL;
  for (int64_t i = 0; i < dict->n; i++)
    if (strcmp(dict->members[i].name, name) == 0) return dict->members[i].attr;
  return NULL;
}

const sn_mlir_attr *sn_mlir_find(const sn_mlir_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_attrs; i++)
    if (strcmp(op->attrs[i].name, name) == 0) return op->attrs[i].attr;
  for (uint32_t i = 0; i < op->n_attrs; i++) {
    const sn_mlir_attr *a = op->attrs[i].attr->kind == SN_MA_STRUCT ? sn_mlir_member(op->attrs[i].attr, name) : NULL;
    if (a != NULL) return a;
  }
  return NULL;
}

const char *sn_mlir_string(const sn_mlir_op *op, const char *name) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  return a != NULL && (a->kind == SN_MA_STRING || a->kind == SN_MA_SYMBOL || a->kind == SN_MA_ENUM) ? a->s : NULL;
}

static bool dense_ints(const sn_mlir_attr *attr, int64_t n, int64_t *to) {
  sn_type t = sn_array_shape(attr->dense)->type;
  if (sn_type_is_float(t) || sn_type_is_complex(t)) return false;
  const char *data = sn_array_data(attr->dense);
  size_t step = attr->splat ? 0 : sn_type_bytes(t);
  for (int64_t i = 0; i < n; i++) to[i] = sn_load_i64(t, data + (size_t)i * step);
  return true;
}

/* A few bytes of text (`dense<0> : tensor<99999999999xi64>`) must not take gigabytes. */
enum { MAX_SPLAT_INTS = 1 << 20 };

bool sn_mlir_ints(sn_arena *a, const sn_mlir_attr *attr, int64_t *n, const int64_t **v) {
  *n = 0;
  *v = NULL;
  if (attr == NULL) return false;
  if (attr->kind == SN_MA_INTS) {
    *n = attr->n;
    *v = attr->ints;
    return true;
  }
  int64_t count = attr->n;
  if (attr->kind == SN_MA_DENSE) {
    count = 1;
    for (int i = 0; i < attr->type->rank; i++)
      if (attr->type->dims[i] < 0 || !sn_mul_i64(count, attr->type->dims[i], &count)) return false;
    if (attr->splat && count > MAX_SPLAT_INTS) return false;
  } else if (attr->kind != SN_MA_ARRAY) {
    return false;
  }
  int64_t *to = SN_NEW_N(a, int64_t, (size_t)count + 1);
  if (to == NULL) return false;
  *n = count;
  *v = to;
  if (attr->kind == SN_MA_DENSE) return dense_ints(attr, count, to);
  for (int64_t i = 0; i < count; i++) {
    if (attr->items[i]->kind != SN_MA_INT && attr->items[i]->kind != SN_MA_BOOL) return false;
    to[i] = attr->items[i]->i;
  }
  return true;
}

sn_type sn_mlir_storage(const sn_mlir_type *t) {
  if (t->kind == SN_MT_TENSOR || t->kind == SN_MT_UNRANKED || t->kind == SN_MT_BUFFER) t = t->element;
  if (t->kind == SN_MT_SCALAR) return t->scalar;
  return t->kind == SN_MT_QUANT ? t->quant->storage : SN_TYPE_INVALID;
}

sn_mlir_op *sn_mlir_function(const sn_mlir *m, const char *name) {
  for (sn_mlir_op *op = m->top.first; op != NULL; op = op->next) {
    const char *symbol = strcmp(op->name, "func.func") == 0 ? sn_mlir_string(op, "sym_name") : NULL;
    if (symbol != NULL && strcmp(symbol, name) == 0) return op;
  }
  return NULL;
}

/* ---- types: text, equality ---- */

/* MLIR's spelling of an element type. */
typedef struct spelling { sn_type type; const char *text; } spelling;
static const spelling spellings[] = {
    {SN_TYPE_PRED, "i1"}, {SN_TYPE_BF16, "bf16"}, {SN_TYPE_F16, "f16"}, {SN_TYPE_F32, "f32"}, {SN_TYPE_F64, "f64"},
    {SN_TYPE_F8E5M2, "f8E5M2"}, {SN_TYPE_F8E4M3, "f8E4M3"}, {SN_TYPE_F8E4M3FN, "f8E4M3FN"}, {SN_TYPE_F8E4M3B11FNUZ, "f8E4M3B11FNUZ"},
    {SN_TYPE_F8E5M2FNUZ, "f8E5M2FNUZ"}, {SN_TYPE_F8E4M3FNUZ, "f8E4M3FNUZ"}, {SN_TYPE_F8E3M4, "f8E3M4"}, {SN_TYPE_F8E8M0FNU, "f8E8M0FNU"},
    {SN_TYPE_F6E2M3FN, "f6E2M3FN"}, {SN_TYPE_F6E3M2FN, "f6E3M2FN"}, {SN_TYPE_F4E2M1FN, "f4E2M1FN"},
    {SN_TYPE_C64, "complex<f32>"}, {SN_TYPE_C128, "complex<f64>"}};

static void scalar_print(sn_str *to, sn_type t) {
  for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
    if (spellings[i].type == t) {
      sn_str_add(to, spellings[i].text);
      return;
    }
  if ((unsigned)t >= SN_TYPE_COUNT) sn_str_add(to, "none");
  else sn_str_printf(to, "%s%d", sn_types[t].cls == SN_CLASS_UNSIGNED ? "ui" : "i", sn_type_bits(t));
}

static void quant_value_print(sn_str *to, const sn_mlir_quant *q, int64_t k) {
  sn_str_printf(to, "%.17g", q->scales[k]);
  if (q->zero_points[k] != 0) sn_str_printf(to, ":%" PRId64, q->zero_points[k]);
}

static void quant_print(sn_str *to, const sn_mlir_quant *q) {
  int bits = sn_type_bits(q->storage);
  bool is_signed = sn_type_is_signed(q->storage);
  int64_t lo = is_signed ? -((int64_t)1 << (bits - 1)) : 0, hi = is_signed ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1;
  sn_str_printf(to, "!quant.uniform<%s%d", is_signed ? "i" : "u", bits);
  if (q->min != lo || q->max != hi) sn_str_printf(to, "<%" PRId64 ":%" PRId64 ">", q->min, q->max);
  sn_str_char(to, ':');
  scalar_print(to, q->expressed);
  if (q->axis >= 0) sn_str_printf(to, ":%d", q->axis);
  sn_str_add(to, q->axis >= 0 ? ", {" : ", ");
  for (int64_t k = 0; k < q->n; k++) {
    if (k != 0) sn_str_add(to, ", ");
    quant_value_print(to, q, k);
  }
  sn_str_add(to, q->axis >= 0 ? "}>" : ">");
}

static void list_print(sn_str *to, uint32_t n, const sn_mlir_type *const *v) {
  for (uint32_t i = 0; i < n; i++) {
    if (i != 0) sn_str_add(to, ", ");
    sn_mlir_type_print(to, v[i]);
  }
}

static void dims_print(sn_str *to, const sn_mlir_type *t) {
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == SN_DIM_UNBOUNDED) sn_str_add(to, "?x");
    else sn_str_printf(to, "%" PRId64 "x", t->dims[i]);
  }
}

static void bounds_print(sn_str *to, const sn_mlir_type *t) {
  sn_str_add(to, ", #stablehlo.bounds<");
  for (int i = 0; i < t->rank; i++) {
    if (i != 0) sn_str_add(to, ", ");
    if (t->bounds[i] == SN_DIM_UNBOUNDED) sn_str_char(to, '?');
    else sn_str_i64(to, t->bounds[i]);
  }
  sn_str_char(to, '>');
}

void sn_mlir_type_print(sn_str *to, const sn_mlir_type *t) {
  switch (t->kind) {
    case SN_MT_NONE: sn_str_add(to, "none"); break;
    case SN_MT_SCALAR: t->is_index ? sn_str_add(to, "index") : scalar_print(to, t->scalar); break;
    case SN_MT_QUANT: quant_print(to, t->quant); break;
    case SN_MT_TENSOR:
    case SN_MT_BUFFER:
      sn_str_add(to, t->kind == SN_MT_TENSOR ? "tensor<" : "memref<");
      dims_print(to, t);
      sn_mlir_type_print(to, t->element);
      if (t->bounds != NULL) bounds_print(to, t);
      sn_str_char(to, '>');
      break;
    case SN_MT_UNRANKED:
      sn_str_add(to, "tensor<*x");
      sn_mlir_type_print(to, t->element);
      sn_str_char(to, '>');
      break;
    case SN_MT_TOKEN: sn_str_add(to, "!stablehlo.token"); break;
    case SN_MT_TUPLE:
    case SN_MT_FUTURE:
      sn_str_add(to, t->kind == SN_MT_TUPLE ? "tuple<" : "!stablehlo.future<");
      list_print(to, t->n_ins, t->ins);
      sn_str_char(to, '>');
      break;
    case SN_MT_FUNCTION:
      sn_str_char(to, '(');
      list_print(to, t->n_ins, t->ins);
      sn_str_add(to, ") -> (");
      list_print(to, t->n_outs, t->outs);
      sn_str_char(to, ')');
      break;
    case SN_MT_OTHER: sn_str_add(to, t->text != NULL ? t->text : "unknown type"); break;
  }
}

const char *sn_mlir_type_text(sn_arena *a, const sn_mlir_type *t) {
  sn_str s = {0};
  sn_mlir_type_print(&s, t);
  const char *text = s.data != NULL && !s.failed ? sn_arena_string_n(a, s.data, s.n) : NULL;
  sn_str_finish(&s);
  return text != NULL ? text : "a type";
}

static bool lists_equal(uint32_t n, const sn_mlir_type *const *a, const sn_mlir_type *const *b) {
  for (uint32_t i = 0; i < n; i++)
    if (!sn_mlir_type_equal(a[i], b[i])) return false;
  return true;
}

static bool quants_equal(const sn_mlir_quant *a, const sn_mlir_quant *b) {
  return a->storage == b->storage && a->expressed == b->expressed && a->min == b->min && a->max == b->max && a->axis == b->axis && a->n == b->n &&
         a->n_blocked == b->n_blocked && memcmp(a->scales, b->scales, (size_t)a->n * sizeof *a->scales) == 0 &&
         memcmp(a->zero_points, b->zero_points, (size_t)a->n * sizeof *a->zero_points) == 0;
}

static bool dims_equal(int rank, const int64_t *a, const int64_t *b) {
  if (a == NULL || b == NULL) return a == b;
  for (int i = 0; i < rank; i++)
    if (a[i] != b[i]) return false;
  return true;
}

bool sn_mlir_type_equal(const sn_mlir_type *a, const sn_mlir_type *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->scalar != b->scalar || a->is_index != b->is_index || a->rank != b->rank) return false;
  if (a->n_ins != b->n_ins || a->n_outs != b->n_outs) return false;
  if ((a->element == NULL) != (b->element == NULL) || (a->quant == NULL) != (b->quant == NULL)) return false;
  if (a->element != NULL && !sn_mlir_type_equal(a->element, b->element)) return false;
  if (a->quant != NULL && !quants_equal(a->quant, b->quant)) return false;
  if (a->kind == SN_MT_OTHER && strcmp(a->text != NULL ? a->text : "", b->text != NULL ? b->text : "") != 0) return false;
  return dims_equal(a->rank, a->dims, b->dims) && dims_equal(a->rank, a->bounds, b->bounds) && lists_equal(a->n_ins, a->ins, b->ins) &&
         lists_equal(a->n_outs, a->outs, b->outs);
}
