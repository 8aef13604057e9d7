/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bytes, tables and sections of a portable artifact; attributes and types by the reader's codes. */
#include "write.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { BYTECODE_VERSION = 6 };

/* ---- numbers ---- */

static void little_endian(sn_str *to, uint64_t v, int n) {
  for (int k = 0; k < n; k++) sn_str_char(to, (char)(unsigned char)(v >> (8 * k)));
}

void sn_bw_uint(sn_str *to, uint64_t v) {
  for (int n = 1; n <= 8; n++) {
    if (v >> (7 * n) != 0) continue;
    little_endian(to, (v << 1 | 1) << (n - 1), n);
    return;
  }
  sn_str_char(to, '\0');
  little_endian(to, v, 8);
}

void sn_bw_int(sn_str *to, int64_t v) { sn_bw_uint(to, (uint64_t)v << 1 ^ (uint64_t)(v >> 63)); }

void sn_bw_bits(sn_str *to, int width, uint64_t v) {
  if (width < 64) v &= ((uint64_t)1 << width) - 1;
  if (width <= 8) sn_str_char(to, (char)(unsigned char)v);
  else sn_bw_int(to, (int64_t)v);
}

void sn_bw_section(sn_str *to, int id, const sn_str *data) {
  sn_str_char(to, (char)id);
  sn_bw_uint(to, data->n);
  if (data->n != 0) sn_str_add_n(to, data->data, data->n);
  to->failed |= data->failed;
}

/* ---- faults ---- */

void sn_bw_fail(sn_bw *w, sn_loc loc, const char *fmt, ...) {
  char text[256];
  va_list ap;
  if (w->status != SN_OK) return;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  w->status = sn_error(w->d, loc, SN_ERR_UNSUPPORTED, "%s", text);
}

static uint64_t no_memory(sn_bw *w) {
  if (w->status == SN_OK) w->status = sn_out_of_memory(w->d, 0);
  return 0;
}

/* ---- tables ---- */

static bool grow(sn_bw *w, sn_bw_pool *p) {
  uint32_t cap = p->cap ? 2 * p->cap : 64;
  const char **bytes = SN_NEW_N(w->arena, const char *, cap);
  uint32_t *sizes = SN_NEW_N(w->arena, uint32_t, cap);
  uint8_t *dialects = SN_NEW_N(w->arena, uint8_t, cap);
  if (bytes == NULL || sizes == NULL || dialects == NULL) return false;
  for (uint32_t k = 0; k < p->n; k++) {
    bytes[k] = p->bytes[k];
    sizes[k] = p->sizes[k];
    dialects[k] = p->dialects[k];
  }
  p->bytes = bytes;
  p->sizes = sizes;
  p->dialects = dialects;
  p->cap = cap;
  return true;
}

uint64_t sn_bw_entry(sn_bw *w, sn_bw_pool *p, int dialect, sn_str *bytes) {
  sn_str key = {0};
  uint64_t at = 0;
  sn_str_char(&key, (char)dialect);
  if (bytes->n != 0) sn_str_add_n(&key, bytes->data, bytes->n);
  bool failed = key.failed || bytes->failed || bytes->n > UINT32_MAX;
  sn_str_finish(bytes);
  *bytes = (sn_str){0};
  if (!failed && sn_map_get(p->index, key.data, key.n, &at)) {
    sn_str_finish(&key);
    return at - 1;
  }
  const char *copy = failed ? NULL : sn_arena_copy(w->arena, key.data, key.n);
  failed = copy == NULL || (p->n == p->cap && !grow(w, p)) || sn_map_set(p->index, copy, key.n, (uint64_t)p->n + 1) != SN_OK;
  uint32_t n = (uint32_t)key.n - 1;
  sn_str_finish(&key);
  if (failed) return no_memory(w);
  p->bytes[p->n] = copy + 1;
  p->sizes[p->n] = n;
  p->dialects[p->n] = (uint8_t)dialect;
  return p->n++;
}

uint64_t sn_bw_string(sn_bw *w, const char *s, size_t n) {
  sn_str b = {0};
  sn_str_add(&b, "");
  if (n != 0) sn_str_add_n(&b, s, n);
  return sn_bw_entry(w, &w->strings, 0, &b);
}

/* ---- types ---- */

static uint64_t special_type(sn_bw *w, uint64_t code) {
  sn_str b = {0};
  sn_bw_uint(&b, code);
  return sn_bw_entry(w, &w->types, SN_BW_VHLO, &b);
}

static uint64_t scalar_type(sn_bw *w, sn_type t) {
  if (sn_type_is_complex(t)) {
    sn_str b = {0};
    uint64_t part = scalar_type(w, sn_type_real_part(t));
    sn_bw_uint(&b, 1);
    sn_bw_uint(&b, part);
    return sn_bw_entry(w, &w->types, SN_BW_VHLO, &b);
  }
  uint64_t code = sn_bc_vhlo_scalar_code(t);
  if (code == UINT64_MAX) sn_bw_fail(w, SN_NOWHERE, "the element type %s has no form in VHLO", sn_type_text(t));
  if ((t == SN_TYPE_S2 || t == SN_TYPE_U2) && w->version < 1002) sn_bw_fail(w, SN_NOWHERE, "StableHLO 1.%d has no element type %s", w->version - 1000, sn_type_text(t));
  return special_type(w, code);
}

static void type_list(sn_bw *w, sn_str *to, uint32_t n, const sn_mlir_type *const *v) {
  sn_bw_uint(to, n);
  for (uint32_t k = 0; k < n; k++) sn_bw_uint(to, sn_bw_type(w, v[k]));
}

static uint64_t bounds_attr(sn_bw *w, const sn_mlir_type *t) {
  sn_str b = {0};
  sn_bw_uint(&b, 18);
  sn_bw_uint(&b, (uint64_t)t->rank);
  for (int k = 0; k < t->rank; k++) sn_bw_int(&b, t->bounds[k] == SN_DIM_UNBOUNDED ? INT64_MIN : t->bounds[k]);
  return sn_bw_entry(w, &w->attrs, SN_BW_VHLO, &b);
}

static uint64_t tensor_type(sn_bw *w, const sn_mlir_type *t) {
  sn_str b = {0};
  uint64_t element = sn_bw_type(w, t->element);
  sn_bw_uint(&b, t->bounds != NULL ? 21 : 20);
  if (t->bounds != NULL) sn_bw_uint(&b, bounds_attr(w, t));
  sn_bw_uint(&b, (uint64_t)t->rank);
  for (int k = 0; k < t->rank; k++) sn_bw_int(&b, t->dims[k] == SN_DIM_UNBOUNDED ? INT64_MIN : t->dims[k]);
  sn_bw_uint(&b, element);
  return sn_bw_entry(w, &w->types, SN_BW_VHLO, &b);
}

uint64_t sn_bw_type(sn_bw *w, const sn_mlir_type *t) {
  sn_str b = {0};
  switch (t->kind) {
    case SN_MT_NONE: return special_type(w, 33);
    case SN_MT_SCALAR: return t->is_index ? special_type(w, 9) : scalar_type(w, t->scalar);
    case SN_MT_TENSOR: return tensor_type(w, t);
    case SN_MT_TOKEN: return special_type(w, 22);
    case SN_MT_TUPLE:
      sn_bw_uint(&b, 23);
      type_list(w, &b, t->n_ins, t->ins);
      return sn_bw_entry(w, &w->types, SN_BW_VHLO, &b);
    case SN_MT_FUNCTION:
      sn_bw_uint(&b, 8);
      type_list(w, &b, t->n_ins, t->ins);
      type_list(w, &b, t->n_outs, t->outs);
      return sn_bw_entry(w, &w->types, SN_BW_VHLO, &b);
    default: break;
  }
  if (t->kind == SN_MT_OTHER && t->text != NULL && strcmp(t->text, "tf32") == 0) return special_type(w, 34);
  sn_bw_fail(w, SN_NOWHERE, "a type %s cannot be written", sn_mlir_type_text(w->arena, t));
  return 0;
}

/* ---- attributes ---- */

static uint64_t coded(sn_bw *w, int dialect, sn_str *b) { return sn_bw_entry(w, &w->attrs, dialect, b); }

static const sn_mlir_type *type_or(sn_bw *w, const sn_mlir_type *t, sn_type otherwise) {
  static const sn_mlir_type s64 = {.kind = SN_MT_SCALAR, .scalar = SN_TYPE_S64}, f64 = {.kind = SN_MT_SCALAR, .scalar = SN_TYPE_F64};
  (void)w;
  return t != NULL ? t : otherwise == SN_TYPE_S64 ? &s64 : &f64;
}

/* Truth values: one byte where all are one, else eight a byte. */
static void blob(sn_str *to, sn_type t, int64_t n, bool splat, const char *data) {
  if (t != SN_TYPE_PRED) {
    size_t bytes = (size_t)(splat ? 1 : n) * sn_type_bytes(t);
    sn_bw_uint(to, bytes);
    if (bytes != 0) sn_str_add_n(to, data, bytes);
    return;
  }
  sn_bw_uint(to, splat ? 1 : (uint64_t)(n + 7) / 8);
  if (splat) sn_str_char(to, (char)(data[0] != 0 ? 0xff : 0));
  for (int64_t k = 0; !splat && k < n; k += 8) {
    unsigned char byte = 0;
    for (int64_t e = k; e < n && e < k + 8; e++) byte |= (unsigned char)((data[e] != 0) << (e - k));
    sn_str_char(to, (char)byte);
  }
}

static uint64_t dense(sn_bw *w, const sn_mlir_attr *a) {
  sn_str b = {0};
  int64_t n = 1;
  for (int k = 0; k < a->type->rank; k++) n *= a->type->dims[k];
  uint64_t type = sn_bw_type(w, a->type);
  sn_bw_uint(&b, 15);
  sn_bw_uint(&b, type);
  blob(&b, sn_array_shape(a->dense)->type, n, a->splat, sn_array_data(a->dense));
  return coded(w, SN_BW_VHLO, &b);
}

/* A list of integers is a tensor of one dimension. */
static uint64_t ints(sn_bw *w, const sn_mlir_attr *a) {
  bool truths = a->type != NULL && a->type->scalar == SN_TYPE_PRED;
  const sn_mlir_type truth = {.kind = SN_MT_SCALAR, .scalar = SN_TYPE_PRED};
  sn_mlir_type t = {.kind = SN_MT_TENSOR, .scalar = SN_TYPE_INVALID, .rank = 1, .dims = &a->n, .element = truths ? &truth : type_or(w, NULL, SN_TYPE_S64)};
  sn_str b = {0}, data = {0};
  uint64_t type = sn_bw_type(w, &t);
  for (int64_t k = 0; k < a->n; k++) truths ? sn_str_char(&data, (char)a->ints[k]) : little_endian(&data, (uint64_t)a->ints[k], 8);
  sn_bw_uint(&b, 15);
  sn_bw_uint(&b, type);
  blob(&b, truths ? SN_TYPE_PRED : SN_TYPE_S64, a->n, false, data.data);
  b.failed |= data.failed;
  sn_str_finish(&data);
  return coded(w, SN_BW_VHLO, &b);
}

static uint64_t number(sn_bw *w, const sn_mlir_attr *a) {
  sn_str b = {0};
  bool real = a->kind == SN_MA_FLOAT;
  const sn_mlir_type *t = type_or(w, a->type, real ? SN_TYPE_F64 : SN_TYPE_S64);
  uint64_t type = sn_bw_type(w, t), bits = (uint64_t)a->i;
  if (real) {
    uint8_t bytes[8] = {0};
    sn_store_f64(t->scalar, bytes, a->f);
    bits = 0;
    for (int k = 7; k >= 0; k--) bits = bits << 8 | bytes[k];
  }
  sn_bw_uint(&b, real ? 8 : 9);
  sn_bw_uint(&b, type);
  sn_bw_bits(&b, t->is_index ? 64 : sn_type_bits(t->scalar), bits);
  return coded(w, SN_BW_VHLO, &b);
}

static uint64_t string(sn_bw *w, const char *s, size_t n) {
  sn_str b = {0};
  uint64_t k = sn_bw_string(w, s, n);
  sn_bw_uint(&b, 14);
  sn_bw_uint(&b, k);
  return coded(w, SN_BW_VHLO, &b);
}

static uint64_t array(sn_bw *w, const sn_mlir_attr *a) {
  sn_str b = {0};
  sn_bw_uint(&b, 1);
  sn_bw_uint(&b, (uint64_t)a->n);
  for (int64_t k = 0; k < a->n; k++) sn_bw_uint(&b, sn_bw_attr(w, "", a->items[k]));
  return coded(w, SN_BW_VHLO, &b);
}

static uint64_t dictionary(sn_bw *w, const sn_mlir_attr *a) {
  sn_str b = {0};
  sn_bw_uint(&b, 6);
  sn_bw_uint(&b, (uint64_t)a->n);
  for (int64_t k = 0; k < a->n; k++) {
    sn_bw_uint(&b, string(w, a->members[k].name, strlen(a->members[k].name)));
    sn_bw_uint(&b, sn_bw_attr(w, a->members[k].name, a->members[k].attr));
  }
  return coded(w, SN_BW_VHLO, &b);
}

/* Words in an op's own form come without their domain. */
static const char *domain_of(const char *name, const sn_mlir_attr *a) {
  static const char *const domains[][2] = {{"comparison_direction", "stablehlo.comparison_direction"}, {"compare_type", "stablehlo.comparison_type"}, {"fft_type", "stablehlo.fft_type"},
                                           {"rng_algorithm", "stablehlo.rng_algorithm"}, {"rng_distribution", "stablehlo.rng_distribution"}, {"transpose_a", "stablehlo.transpose"},
                                           {"mode", "stablehlo.result_accuracy_mode"}};
  for (size_t k = 0; a->name == NULL && k < sizeof domains / sizeof domains[0]; k++)
    if (strcmp(domains[k][0], name) == 0) return domains[k][1];
  return a->name != NULL ? a->name : "stablehlo.precision";
}

static uint64_t word(sn_bw *w, const char *name, const sn_mlir_attr *a) {
  sn_str b = {0};
  uint64_t code = 0, value = 0;
  if (!sn_bc_vhlo_word(domain_of(name, a), a->s, &code, &value)) sn_bw_fail(w, SN_NOWHERE, "the word %s has no form in VHLO", a->s);
  sn_bw_uint(&b, code);
  sn_bw_uint(&b, value);
  return coded(w, SN_BW_VHLO, &b);
}

static void index_list(sn_str *to, const sn_mlir_attr *a) {
  sn_bw_uint(to, a != NULL ? (uint64_t)a->n : 0);
  for (int64_t k = 0; a != NULL && k < a->n; k++) sn_bw_int(to, a->ints[k]);
}

static void double_bits(sn_str *to, const sn_mlir_attr *a) {
  uint64_t bits = 0;
  if (a != NULL) memcpy(&bits, &a->f, sizeof bits);
  sn_bw_bits(to, 64, bits);
}

static uint64_t structure(sn_bw *w, const sn_mlir_attr *a) {
  sn_str b = {0};
  if (strcmp(a->name, "stablehlo.output_operand_alias") == 0) {
    const sn_mlir_attr *operand = sn_mlir_member(a, "operand_index");
    sn_bw_uint(&b, 10);
    index_list(&b, sn_mlir_member(a, "output_tuple_indices"));
    sn_bw_int(&b, operand != NULL ? operand->i : 0);
    index_list(&b, sn_mlir_member(a, "operand_tuple_indices"));
  } else if (strcmp(a->name, "stablehlo.result_accuracy") == 0) {
    const sn_mlir_attr *ulps = sn_mlir_member(a, "ulps"), *mode = sn_mlir_member(a, "mode");
    uint64_t m = mode != NULL ? word(w, "mode", mode) : 0;
    sn_bw_uint(&b, 20);
    double_bits(&b, sn_mlir_member(a, "atol"));
    double_bits(&b, sn_mlir_member(a, "rtol"));
    sn_bw_int(&b, ulps != NULL ? ulps->i : 0);
    sn_bw_uint(&b, m);
  } else {
    sn_bw_fail(w, SN_NOWHERE, "an attribute #%s cannot be written", a->name);
  }
  return coded(w, SN_BW_VHLO, &b);
}

static uint64_t type_attr(sn_bw *w, const sn_mlir_type *t) {
  sn_str b = {0};
  uint64_t k = sn_bw_type(w, t);
  sn_bw_uint(&b, 17);
  sn_bw_uint(&b, k);
  return coded(w, SN_BW_VHLO, &b);
}

static uint64_t small(sn_bw *w, uint64_t code, uint64_t v) {
  sn_str b = {0};
  sn_bw_uint(&b, code);
  sn_bw_uint(&b, v);
  return coded(w, SN_BW_VHLO, &b);
}

uint64_t sn_bw_none(sn_bw *w) {
  static const sn_mlir_type none = {.kind = SN_MT_NONE, .scalar = SN_TYPE_INVALID};
  return type_attr(w, &none);
}

uint64_t sn_bw_attr(sn_bw *w, const char *name, const sn_mlir_attr *a) {
  switch (a->kind) {
    case SN_MA_UNIT: return small(w, 2, 1);
    case SN_MA_BOOL: return small(w, 2, a->i != 0);
    case SN_MA_INT: return strcmp(name, "api_version") == 0 ? small(w, 5, (uint64_t)a->i) : number(w, a);
    case SN_MA_FLOAT: return number(w, a);
    case SN_MA_STRING:
    case SN_MA_SYMBOL: return string(w, a->s, (size_t)a->n);
    case SN_MA_ENUM: return word(w, name, a);
    case SN_MA_TYPE: return type_attr(w, a->type);
    case SN_MA_ARRAY: return array(w, a);
    case SN_MA_DICT: return dictionary(w, a);
    case SN_MA_STRUCT: return structure(w, a);
    case SN_MA_INTS: return ints(w, a);
    case SN_MA_DENSE: return dense(w, a);
    case SN_MA_OPAQUE: break;
  }
  sn_bw_fail(w, SN_NOWHERE, "the attribute %s cannot be written", a->s != NULL ? a->s : name);
  return 0;
}

/* ---- builtin's own, for the module ---- */

uint64_t sn_bw_builtin_string(sn_bw *w, const char *s) {
  sn_str b = {0};
  uint64_t k = sn_bw_string(w, s, strlen(s));
  sn_bw_uint(&b, 2);
  sn_bw_uint(&b, k);
  return coded(w, SN_BW_BUILTIN, &b);
}

uint64_t sn_bw_builtin_attr(sn_bw *w, const sn_mlir_attr *a) {
  sn_str b = {0}, type = {0};
  if (a->kind == SN_MA_STRING) return sn_bw_builtin_string(w, a->s);
  if (a->kind == SN_MA_DICT) {
    sn_bw_uint(&b, 1);
    sn_bw_uint(&b, (uint64_t)a->n);
    for (int64_t k = 0; k < a->n; k++) {
      sn_bw_uint(&b, sn_bw_builtin_string(w, a->members[k].name));
      sn_bw_uint(&b, sn_bw_builtin_attr(w, a->members[k].attr));
    }
    return coded(w, SN_BW_BUILTIN, &b);
  }
  int bits = a->type != NULL && a->type->kind == SN_MT_SCALAR ? sn_type_bits(a->type->scalar) : 64;
  if (a->kind != SN_MA_INT) sn_bw_fail(w, SN_NOWHERE, "an attribute of the module is neither an integer nor a string");
  sn_bw_uint(&type, 0);
  sn_bw_uint(&type, (uint64_t)bits << 2);
  sn_bw_uint(&b, 8);
  sn_bw_uint(&b, sn_bw_entry(w, &w->types, SN_BW_BUILTIN, &type));
  sn_bw_bits(&b, bits, (uint64_t)a->i);
  return coded(w, SN_BW_BUILTIN, &b);
}

uint64_t sn_bw_unknown_loc(sn_bw *w) {
  sn_str b = {0};
  sn_bw_uint(&b, 15);
  return coded(w, SN_BW_BUILTIN, &b);
}

/* ---- sections ---- */

/* Runs of entries of one dialect. */
static void offsets(sn_str *to, const sn_bw_pool *p) {
  for (uint32_t k = 0, end; k < p->n; k = end) {
    for (end = k; end < p->n && p->dialects[end] == p->dialects[k];) end++;
    sn_bw_uint(to, p->dialects[k]);
    sn_bw_uint(to, end - k);
    for (uint32_t e = k; e < end; e++) sn_bw_uint(to, (uint64_t)p->sizes[e] << 1 | 1);
  }
}

static void contents(sn_str *to, const sn_bw_pool *p) {
  for (uint32_t k = 0; k < p->n; k++)
    if (p->sizes[k] != 0) sn_str_add_n(to, p->bytes[k], p->sizes[k]);
}

static void dialect_section(sn_bw *w, sn_str *to) {
  static const char *const names[] = {[SN_BW_BUILTIN] = "builtin", [SN_BW_VHLO] = "vhlo"};
  sn_bw_uint(to, 2);
  for (int k = 0; k < 2; k++) sn_bw_uint(to, sn_bw_string(w, names[k], strlen(names[k])) << 1);
  sn_bw_uint(to, w->ops.n);
  for (uint32_t k = 0; k < w->ops.n; k++) {
    const char *dot = memchr(w->ops.bytes[k], '.', w->ops.sizes[k]);
    size_t skip = (size_t)(dot - w->ops.bytes[k]) + 1;
    sn_bw_uint(to, w->ops.dialects[k]);
    sn_bw_uint(to, 1);
    sn_bw_uint(to, sn_bw_string(w, w->ops.bytes[k] + skip, w->ops.sizes[k] - skip) << 1 | 1);
  }
}

/* Sizes stand in reverse. */
static void string_section(const sn_bw *w, sn_str *to) {
  sn_bw_uint(to, w->strings.n);
  for (uint32_t k = w->strings.n; k-- > 0;) sn_bw_uint(to, (uint64_t)w->strings.sizes[k] + 1);
  for (uint32_t k = 0; k < w->strings.n; k++) {
    if (w->strings.sizes[k] != 0) sn_str_add_n(to, w->strings.bytes[k], w->strings.sizes[k]);
    sn_str_char(to, '\0');
  }
}

static void property_section(const sn_bw *w, sn_str *to) {
  sn_bw_uint(to, w->props.n);
  for (uint32_t k = 0; k < w->props.n; k++) {
    sn_bw_uint(to, w->props.sizes[k]);
    if (w->props.sizes[k] != 0) sn_str_add_n(to, w->props.bytes[k], w->props.sizes[k]);
  }
}

static void file(sn_bw *w, sn_str *to) {
  sn_str s[9] = {{0}};
  static const int order[] = {1, 3, 2, 4, 6, 5, 0, 8};
  sn_bw_ir(w, &s[4]);
  dialect_section(w, &s[1]); /* strings are complete behind this */
  sn_bw_uint(&s[3], w->attrs.n);
  sn_bw_uint(&s[3], w->types.n);
  offsets(&s[3], &w->attrs);
  offsets(&s[3], &w->types);
  contents(&s[2], &w->attrs);
  contents(&s[2], &w->types);
  sn_bw_uint(&s[6], 0);
  string_section(w, &s[0]);
  property_section(w, &s[8]);
  sn_str_add(to, "ML\xefR");
  sn_bw_uint(to, BYTECODE_VERSION);
  sn_str_printf(to, "StableHLO_v1.%d.0", w->version - 1000);
  sn_str_char(to, '\0');
  for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) sn_bw_section(to, order[k], &s[order[k]]);
  for (int k = 0; k < 9; k++) sn_str_finish(&s[k]);
}

sn_status sn_mlir_write_bytecode(sn_diag *d, const sn_mlir *m, int version, sn_str *to) {
  sn_bw w = {.d = d, .m = m, .version = version};
  sn_bw_pool *const pools[] = {&w.strings, &w.attrs, &w.types, &w.props, &w.ops};
  bool ok = sn_arena_create(&w.arena) == SN_OK && (w.ids = sn_alloc_zero(m->n_values + 1u, sizeof *w.ids)) != NULL;
  for (size_t k = 0; ok && k < sizeof pools / sizeof pools[0]; k++) ok = sn_map_create(&pools[k]->index) == SN_OK;
  if (ok) file(&w, to);
  if (!ok || to->failed) (void)no_memory(&w);
  for (size_t k = 0; k < sizeof pools / sizeof pools[0]; k++) sn_map_destroy(pools[k]->index);
  sn_free(w.ids);
  sn_arena_destroy(w.arena);
  return w.status;
}
