/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The tree as text: what MLIR's parser and text/ read. Functions, calls, returns and constants have their own forms, ops without attributes on values of one
 * type the short one; everything else is generic. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "../mlir.h"

typedef struct printer {
  sn_str *to;
  uint32_t *numbers; /* of values, by id: the number printed, + 1 */
  uint32_t next;
} printer;

/* ---- attributes ---- */

static bool plain_name(const char *s) {
  if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_')) return false;
  for (; *s != '\0'; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' || *s == '$' || *s == '.')) return false;
  return true;
}

static void quoted(sn_str *to, const char *s, size_t n) {
  sn_str_char(to, '"');
  for (size_t k = 0; k < n; k++) {
    unsigned char c = (unsigned char)s[k];
    if (c == '"' || c == '\\' || c < 32 || c >= 127) sn_str_printf(to, "\\%02X", c);
    else sn_str_char(to, (char)c);
  }
  sn_str_char(to, '"');
}

static void symbol(sn_str *to, const char *s) {
  sn_str_char(to, '@');
  if (plain_name(s)) sn_str_add(to, s);
  else quoted(to, s, strlen(s));
}

/* Digits that read back to the same bits, or the bits. */
static void real_text(sn_str *to, sn_type t, const void *at) {
  char digits[64];
  double v = sn_load_f64(t, at);
  snprintf(digits, sizeof digits, "%.*e", t == SN_TYPE_F64 ? 16 : 8, v);
  if (isfinite(v) && sn_type_bits(t) >= 32) {
    sn_str_add(to, digits);
    return;
  }
  uint64_t bits = 0;
  memcpy(&bits, at, sn_type_bytes(t));
  sn_str_printf(to, "0x%0*" PRIX64, (sn_type_bits(t) + 3) / 4, bits);
}

static void element_text(sn_str *to, sn_type t, const char *at) {
  if (sn_type_is_complex(t)) {
    sn_type part = sn_type_real_part(t);
    sn_str_char(to, '(');
    real_text(to, part, at);
    sn_str_char(to, ',');
    real_text(to, part, at + sn_type_bytes(part));
    sn_str_char(to, ')');
  } else if (sn_type_is_float(t)) {
    real_text(to, t, at);
  } else if (t == SN_TYPE_PRED) {
    sn_str_add(to, sn_load_i64(t, at) != 0 ? "true" : "false");
  } else if (sn_types[t].cls == SN_CLASS_UNSIGNED) {
    sn_str_printf(to, "%" PRIu64, (uint64_t)sn_load_i64(t, at));
  } else {
    sn_str_i64(to, sn_load_i64(t, at));
  }
}

static const char *nested(sn_str *to, sn_type t, const sn_mlir_type *type, int level, const char *at) {
  if (level == type->rank) {
    element_text(to, t, at);
    return at + sn_type_bytes(t);
  }
  sn_str_char(to, '[');
  for (int64_t k = 0; k < type->dims[level]; k++) {
    if (k != 0) sn_str_add(to, ", ");
    at = nested(to, t, type, level + 1, at);
  }
  sn_str_char(to, ']');
  return at;
}

enum { LISTED = 64 }; /* more elements are written in hexadecimal */

static void dense(sn_str *to, const sn_mlir_attr *a) {
  sn_type t = sn_array_shape(a->dense)->type;
  const char *data = sn_array_data(a->dense);
  int64_t n = 1;
  for (int k = 0; k < a->type->rank; k++) n *= a->type->dims[k];
  sn_str_add(to, "dense<");
  if (a->splat || (a->type->rank == 0 && n == 1)) {
    element_text(to, t, data);
  } else if (n > LISTED && sn_type_bits(t) >= 8) {
    size_t bytes = (size_t)n * sn_type_bytes(t);
    sn_str_add(to, "\"0x");
    for (size_t k = 0; k < bytes; k++) sn_str_printf(to, "%02X", (unsigned char)data[k]);
    sn_str_char(to, '"');
  } else if (n != 0) {
    (void)nested(to, t, a->type, 0, data);
  }
  sn_str_add(to, "> : ");
  sn_mlir_type_print(to, a->type);
}

static void attribute(sn_str *to, const sn_mlir_attr *a, bool member);

static void ints(sn_str *to, const sn_mlir_attr *a, bool member) {
  bool truths = a->type != NULL && a->type->scalar == SN_TYPE_PRED;
  sn_str_add(to, member ? "[" : truths ? "array<i1" : "array<i64");
  for (int64_t k = 0; k < a->n; k++) {
    sn_str_add(to, k != 0 ? ", " : member ? "" : ": ");
    if (truths) sn_str_add(to, a->ints[k] != 0 ? "true" : "false");
    else sn_str_i64(to, a->ints[k]);
  }
  sn_str_char(to, member ? ']' : '>');
}

static void named_list(sn_str *to, int64_t n, const sn_mlir_named *v, bool member) {
  for (int64_t k = 0; k < n; k++) {
    if (k != 0) sn_str_add(to, ", ");
    if (plain_name(v[k].name)) sn_str_add(to, v[k].name);
    else quoted(to, v[k].name, strlen(v[k].name));
    if (v[k].attr->kind == SN_MA_UNIT) continue;
    sn_str_add(to, " = ");
    attribute(to, v[k].attr, member);
  }
}

/* `[b, 0, 1, f]` */
static void labels(sn_str *to, const sn_mlir_attr *a, const char *const *names, const char *letters) {
  const sn_mlir_attr *first = sn_mlir_member(a, names[0]), *second = sn_mlir_member(a, names[1]), *spatial = sn_mlir_member(a, names[2]);
  for (int64_t at = 0; at < spatial->n + 2; at++) {
    sn_str_add(to, at == 0 ? "[" : ", ");
    if (first->i == at) sn_str_char(to, letters[0]);
    else if (second->i == at) sn_str_char(to, letters[1]);
    for (int64_t k = 0; k < spatial->n; k++)
      if (spatial->ints[k] == at) sn_str_i64(to, k);
  }
  sn_str_char(to, ']');
}

static void conv(sn_str *to, const sn_mlir_attr *a) {
  static const char *const names[3][3] = {{"input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"},
                                          {"kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"},
                                          {"output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"}};
  sn_str_add(to, "#stablehlo.conv<");
  labels(to, a, names[0], "bf");
  sn_str_char(to, 'x');
  labels(to, a, names[1], "io");
  sn_str_add(to, "->");
  labels(to, a, names[2], "bf");
  sn_str_char(to, '>');
}

/* MLIR leaves empty lists out. A channel's members have names of their own. */
static void structure(sn_str *to, const sn_mlir_attr *a) {
  bool any = false, channel = strcmp(a->name, "stablehlo.channel_handle") == 0, keeps_empty = strcmp(a->name, "stablehlo.output_operand_alias") == 0;
  if (strcmp(a->name, "stablehlo.conv") == 0) {
    conv(to, a);
    return;
  }
  sn_str_printf(to, "#%s<", a->name);
  for (int64_t k = 0; k < a->n; k++) {
    const sn_mlir_named *m = &a->members[k];
    if (m->attr->kind == SN_MA_INTS && m->attr->n == 0 && !keeps_empty) continue;
    sn_str_printf(to, "%s%s = ", any ? ", " : "", channel ? (strcmp(m->name, "channel_id") == 0 ? "handle" : "type") : m->name);
    attribute(to, m->attr, true);
    any = true;
  }
  sn_str_char(to, '>');
}

static void float_text(sn_str *to, const sn_mlir_attr *a) {
  char bytes[8];
  sn_type t = a->type != NULL && a->type->kind == SN_MT_SCALAR ? a->type->scalar : SN_TYPE_F64;
  sn_store_f64(t, bytes, a->f);
  real_text(to, t, bytes);
}

static void enumeration(sn_str *to, const sn_mlir_attr *a) {
  const char *dot = a->name != NULL ? strchr(a->name, '.') : NULL;
  if (dot == NULL) sn_str_add(to, a->s);
  else if (strstr(a->name, "result_accuracy_mode") != NULL) sn_str_printf(to, "#%s<%s>", a->name, a->s);
  else sn_str_printf(to, "#%.*s<%s %s>", (int)(dot - a->name), a->name, dot + 1, a->s);
}

static void typed(sn_str *to, const sn_mlir_attr *a, const char *otherwise, bool member) {
  if (member) return;
  sn_str_add(to, " : ");
  if (a->type != NULL) sn_mlir_type_print(to, a->type);
  else sn_str_add(to, otherwise);
}

static void attribute(sn_str *to, const sn_mlir_attr *a, bool member) {
  switch (a->kind) {
    case SN_MA_UNIT: sn_str_add(to, "unit"); break;
    case SN_MA_BOOL: sn_str_add(to, a->i != 0 ? "true" : "false"); break;
    case SN_MA_INT:
      sn_str_i64(to, a->i);
      typed(to, a, "i64", member);
      break;
    case SN_MA_FLOAT:
      float_text(to, a);
      typed(to, a, "f64", member);
      break;
    case SN_MA_STRING: quoted(to, a->s, (size_t)a->n); break;
    case SN_MA_SYMBOL: symbol(to, a->s); break;
    case SN_MA_ENUM: enumeration(to, a); break;
    case SN_MA_TYPE: sn_mlir_type_print(to, a->type); break;
    case SN_MA_ARRAY:
      sn_str_char(to, '[');
      for (int64_t k = 0; k < a->n; k++) {
        if (k != 0) sn_str_add(to, ", ");
        attribute(to, a->items[k], false);
      }
      sn_str_char(to, ']');
      break;
    case SN_MA_DICT:
      sn_str_char(to, '{');
      named_list(to, a->n, a->members, false);
      sn_str_char(to, '}');
      break;
    case SN_MA_STRUCT: structure(to, a); break;
    case SN_MA_INTS: ints(to, a, member); break;
    case SN_MA_DENSE: dense(to, a); break;
    case SN_MA_OPAQUE: sn_str_add(to, a->s != NULL ? a->s : "unit"); break;
  }
}

/* ---- values ---- */

static void define(printer *p, const sn_mlir_value *v) { p->numbers[v->id] = ++p->next; }
static void use(printer *p, const sn_mlir_value *v) {
  if (v->def == NULL) sn_str_printf(p->to, "%%arg%" PRIu32, p->numbers[v->id] - 1);
  else if (v->def->n_results > 1) sn_str_printf(p->to, "%%%" PRIu32 "#%" PRIu32, p->numbers[v->def->results[0].id] - 1, v->index);
  else sn_str_printf(p->to, "%%%" PRIu32, p->numbers[v->id] - 1);
}

static void uses(printer *p, const sn_mlir_op *op) {
  for (uint32_t k = 0; k < op->n_operands; k++) {
    if (k != 0) sn_str_add(p->to, ", ");
    use(p, op->operands[k]);
  }
}

static void operand_types(printer *p, const sn_mlir_op *op) {
  for (uint32_t k = 0; k < op->n_operands; k++) {
    if (k != 0) sn_str_add(p->to, ", ");
    sn_mlir_type_print(p->to, op->operands[k]->type);
  }
}

static void signature(printer *p, const sn_mlir_op *op) {
  sn_str_add(p->to, " : (");
  operand_types(p, op);
  sn_str_add(p->to, ") -> ");
  bool brackets = op->n_results != 1 || op->results[0].type->kind == SN_MT_FUNCTION;
  if (brackets) sn_str_char(p->to, '(');
  for (uint32_t k = 0; k < op->n_results; k++) {
    if (k != 0) sn_str_add(p->to, ", ");
    sn_mlir_type_print(p->to, op->results[k].type);
  }
  if (brackets) sn_str_char(p->to, ')');
}

/* ---- ops ---- */

static void indent(printer *p, int depth) { sn_str_printf(p->to, "%*s", 2 * depth, ""); }

static void block(printer *p, const sn_mlir_block *b, int depth);

/* `%k: type`, behind a comma where it is not the first. */
static void argument(printer *p, const sn_mlir_block *b, uint32_t k) {
  define(p, &b->args[k]);
  if (k != 0) sn_str_add(p->to, ", ");
  use(p, &b->args[k]);
  sn_str_add(p->to, ": ");
  sn_mlir_type_print(p->to, b->args[k].type);
}

static void region(printer *p, const sn_mlir_region *r, int depth) {
  sn_str_add(p->to, "{\n");
  for (const sn_mlir_block *b = r->first; b != NULL; b = b->next) {
    if (b->n_args != 0) {
      indent(p, depth - 1);
      sn_str_add(p->to, "^bb0(");
      for (uint32_t k = 0; k < b->n_args; k++) argument(p, b, k);
      sn_str_add(p->to, "):\n");
    }
    block(p, b, depth);
  }
  indent(p, depth - 1);
  sn_str_char(p->to, '}');
}

/* One type for all and no attributes: `stablehlo.add %0, %1 : tensor<2xf32>`. */
static bool is_short(const sn_mlir_op *op) {
  static const char *const names[] = {"abs", "add", "and", "atan2", "cbrt", "ceil", "cosine", "divide", "exponential", "exponential_minus_one", "floor", "log", "log_plus_one", "logistic", "maximum",
                                      "minimum", "multiply", "negate", "not", "or", "power", "remainder", "rsqrt", "sign", "sine", "sqrt", "subtract", "tanh", "xor"};
  if (op->n_attrs != 0 || op->n_results != 1 || op->n_operands == 0 || strncmp(op->name, "stablehlo.", 10) != 0) return false;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!sn_mlir_type_equal(op->operands[k]->type, op->results[0].type)) return false;
  for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
    if (strcmp(op->name + 10, names[k]) == 0) return true;
  return false;
}

static void short_form(printer *p, const sn_mlir_op *op) {
  sn_str_printf(p->to, "%s ", op->name);
  uses(p, op);
  sn_str_add(p->to, " : ");
  sn_mlir_type_print(p->to, op->results[0].type);
}

static void return_form(printer *p, const sn_mlir_op *op) {
  sn_str_add(p->to, strcmp(op->name, "func.return") == 0 ? "return" : op->name);
  if (op->n_operands == 0) return;
  sn_str_char(p->to, ' ');
  uses(p, op);
  sn_str_add(p->to, " : ");
  operand_types(p, op);
}

/* ---- what need not be said ---- */

static bool all_are(const sn_mlir_attr *a, int64_t v) {
  for (int64_t k = 0; k < a->n; k++)
    if (a->ints[k] != v) return false;
  return true;
}

static bool all_zero(const sn_mlir_attr *a) {
  const char *data = sn_array_data(a->dense);
  for (size_t k = 0; k < sn_array_bytes(a->dense); k++)
    if (data[k] != 0) return false;
  return true;
}

static bool all_default(const sn_mlir_attr *list) {
  for (int64_t k = 0; k < list->n; k++)
    if (list->items[k]->kind != SN_MA_ENUM || strcmp(list->items[k]->s, "DEFAULT") != 0) return false;
  return true;
}

/* Ones, zeros, falsehoods and empty lists that StableHLO assumes by itself. */
static bool is_default(const sn_mlir_op *op, const sn_mlir_named *m) {
  static const char *const ones[] = {"window_strides", "base_dilations", "window_dilations", "lhs_dilation", "rhs_dilation"},
                    *const falses[] = {"indices_are_sorted", "unique_indices", "has_side_effect", "is_stable", "lower"},
                    *const empty[] = {"operand_layouts", "result_layouts", "called_computations", "output_operand_aliases", "layout"};
  const sn_mlir_attr *a = m->attr;
  if (a->kind == SN_MA_INTS && strcmp(m->name, "window_reversal") == 0) return all_are(a, 0);
  for (size_t k = 0; a->kind == SN_MA_INTS && k < sizeof ones / sizeof ones[0]; k++)
    if (strcmp(m->name, ones[k]) == 0) return all_are(a, 1);
  for (size_t k = 0; a->kind == SN_MA_BOOL && k < sizeof falses / sizeof falses[0]; k++)
    if (strcmp(m->name, falses[k]) == 0) return a->i == 0 && strcmp(op->name, "stablehlo.triangular_solve") != 0;
  for (size_t k = 0; a->kind == SN_MA_ARRAY && k < sizeof empty / sizeof empty[0]; k++)
    if (strcmp(m->name, empty[k]) == 0) return a->n == 0;
  if (a->kind == SN_MA_ARRAY && strcmp(m->name, "precision_config") == 0) return all_default(a);
  if (a->kind == SN_MA_DENSE && strcmp(m->name, "padding") == 0) return all_zero(a);
  if (a->kind == SN_MA_INT && strcmp(m->name, "api_version") == 0) return a->i == 1;
  return a->kind == SN_MA_STRING && a->n == 0 && (strcmp(m->name, "backend_config") == 0 || strstr(m->name, "feed_config") != NULL);
}

static bool discardable(const char *name) { return strchr(name, '.') != NULL; }

static void generic_attrs(printer *p, const sn_mlir_op *op, bool inner) {
  bool any = false;
  for (uint32_t k = 0; k < op->n_attrs; k++) {
    if (discardable(op->attrs[k].name) == inner || is_default(op, &op->attrs[k])) continue;
    sn_str_add(p->to, any ? ", " : inner ? " <{" : " {");
    named_list(p->to, 1, &op->attrs[k], false);
    any = true;
  }
  if (any) sn_str_add(p->to, inner ? "}>" : "}");
}

static void call_form(printer *p, const sn_mlir_op *op) {
  sn_str_add(p->to, "call ");
  symbol(p->to, sn_mlir_string(op, "callee"));
  sn_str_char(p->to, '(');
  uses(p, op);
  sn_str_char(p->to, ')');
  generic_attrs(p, op, false);
  signature(p, op);
}

static void generic(printer *p, const sn_mlir_op *op, int depth) {
  sn_str_printf(p->to, "\"%s\"(", op->name);
  uses(p, op);
  sn_str_char(p->to, ')');
  generic_attrs(p, op, true);
  for (uint32_t k = 0; k < op->n_regions; k++) {
    sn_str_add(p->to, k == 0 ? " (" : ", ");
    region(p, &op->regions[k], depth + 1);
  }
  if (op->n_regions != 0) sn_str_char(p->to, ')');
  generic_attrs(p, op, false);
  signature(p, op);
}

static void one(printer *p, const sn_mlir_op *op, int depth) {
  indent(p, depth);
  if (op->n_results != 0) {
    for (uint32_t k = 0; k < op->n_results; k++) p->numbers[op->results[k].id] = p->next + 1;
    p->next++;
    sn_str_printf(p->to, "%%%" PRIu32, p->next - 1);
    if (op->n_results > 1) sn_str_printf(p->to, ":%" PRIu32, op->n_results);
    sn_str_add(p->to, " = ");
  }
  if (strcmp(op->name, "func.return") == 0 || strcmp(op->name, "stablehlo.return") == 0) return_form(p, op);
  else if (strcmp(op->name, "func.call") == 0) call_form(p, op);
  else if (strcmp(op->name, "stablehlo.constant") == 0 && op->n_attrs == 1) {
    sn_str_add(p->to, "stablehlo.constant ");
    attribute(p->to, op->attrs[0].attr, false);
  } else if (is_short(op)) short_form(p, op);
  else generic(p, op, depth);
  sn_str_char(p->to, '\n');
}

static void block(printer *p, const sn_mlir_block *b, int depth) {
  for (const sn_mlir_op *op = b->first; op != NULL; op = op->next) one(p, op, depth);
}

/* ---- functions ---- */

static void function(printer *p, const sn_mlir_op *f) {
  const sn_mlir_attr *type = sn_mlir_find(f, "function_type"), *notes = sn_mlir_find(f, "arg_attrs");
  const char *visibility = sn_mlir_string(f, "sym_visibility");
  const sn_mlir_block *b = f->regions[0].first;
  p->next = 0;
  sn_str_printf(p->to, "  func.func %s%s", visibility != NULL ? visibility : "", visibility != NULL ? " " : "");
  symbol(p->to, sn_mlir_string(f, "sym_name"));
  sn_str_char(p->to, '(');
  for (uint32_t k = 0; k < b->n_args; k++) {
    argument(p, b, k);
    if (notes == NULL || notes->items[k]->n == 0) continue;
    sn_str_add(p->to, " {");
    named_list(p->to, notes->items[k]->n, notes->items[k]->members, false);
    sn_str_char(p->to, '}');
  }
  sn_str_add(p->to, ") -> (");
  for (uint32_t k = 0; k < type->type->n_outs; k++) {
    if (k != 0) sn_str_add(p->to, ", ");
    sn_mlir_type_print(p->to, type->type->outs[k]);
  }
  sn_str_add(p->to, ") {\n");
  block(p, b, 2);
  sn_str_add(p->to, "  }\n");
}

void sn_mlir_print(sn_str *to, const sn_mlir *m) {
  printer p = {.to = to, .numbers = sn_alloc_zero(m->n_values + 1u, sizeof *p.numbers)};
  if (p.numbers == NULL) {
    to->failed = true;
    return;
  }
  sn_str_add(to, "module ");
  if (m->name != NULL) {
    symbol(to, m->name);
    sn_str_char(to, ' ');
  }
  if (m->n_attrs != 0) {
    sn_str_add(to, "attributes {");
    named_list(to, m->n_attrs, m->attrs, false);
    sn_str_add(to, "} ");
  }
  sn_str_add(to, "{\n");
  for (const sn_mlir_op *op = m->top.first; op != NULL; op = op->next) function(&p, op);
  sn_str_add(to, "}\n");
  sn_free(p.numbers);
}
