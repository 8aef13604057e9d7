/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* An instruction's operands, attributes and called computations against its op's row. */
#include "ir_internal.h"

static const char *called_as(const char *name) { return name ? name : "instruction"; }

static sn_status check_arity(sn_diag *d, sn_loc loc, const char *name, sn_opcode op, uint32_t n) {
  const sn_op_info *row = &sn_ops[op];
  if ((int64_t)n >= row->arity_min && (row->arity_max == SN_VARIADIC || (int64_t)n <= row->arity_max)) return SN_OK;
  if (row->arity_min == row->arity_max) {
    return sn_error(d, loc, SN_ERR_SHAPE, "%s: %s takes %d operand%s, found %u", called_as(name), row->text, row->arity_min, row->arity_min == 1 ? "" : "s", n);
  }
  return sn_error(d, loc, SN_ERR_SHAPE, "%s: %s takes at least %d operand%s, found %u", called_as(name), row->text, row->arity_min, row->arity_min == 1 ? "" : "s", n);
}

static bool has_attr(uint32_t n, const sn_attr *attrs, sn_attr_id id) {
  for (uint32_t i = 0; i < n; i++) {
    if (attrs[i].id == id) return true;
  }
  return false;
}

static sn_status check_enum(sn_diag *d, sn_loc loc, const char *name, const sn_attr *a) {
  const sn_attr_info *info = &sn_attrs[a->id];
  if (info->kind == SN_KIND_ENUM && !sn_enum_text(info->domain, a->u.i)) {
    return sn_error(d, loc, SN_ERR_ATTRIBUTE, "%s: %s has no value number %lld", called_as(name), info->text, (long long)a->u.i);
  }
  return SN_OK;
}

static sn_status check_called(sn_diag *d, sn_loc loc, const char *name, sn_opcode op, uint32_t n_called) {
  uint32_t least = 0;
  bool open = false;
  for (const uint16_t *a = sn_ops[op].attrs; *a != SN_ATTR_END; a++) {
    sn_attr_kind kind = sn_attrs[*a & ~SN_ATTR_MUST].kind;
    if (kind == SN_KIND_COMP && (*a & SN_ATTR_MUST)) least++;
    if (kind == SN_KIND_COMPS) {
      open = true;
      if (*a & SN_ATTR_MUST) least++;
    }
  }
  if (n_called >= least && (open || n_called == least)) return SN_OK;
  return sn_error(d, loc, SN_ERR_ATTRIBUTE, "%s: %s calls %s%u computation%s, found %u", called_as(name), sn_ops[op].text, open ? "at least " : "", least,
                  least == 1 ? "" : "s", n_called);
}

sn_status sn_row_check(sn_diag *d, sn_loc loc, const char *name, sn_opcode op, uint32_t n_operands, uint32_t n_attrs, const sn_attr *attrs, uint32_t n_called) {
  sn_status first = check_arity(d, loc, name, op, n_operands);
  for (uint32_t i = 0; i < n_attrs; i++) {
    sn_status s = SN_OK;
    if (!sn_op_takes(op, attrs[i].id, NULL)) {
      s = sn_error(d, loc, SN_ERR_ATTRIBUTE, "%s: %s has no attribute %s", called_as(name), sn_ops[op].text, sn_attrs[attrs[i].id].text);
    } else {
      s = check_enum(d, loc, name, &attrs[i]);
    }
    if (first == SN_OK) first = s;
  }
  for (const uint16_t *a = sn_ops[op].attrs; *a != SN_ATTR_END; a++) {
    sn_attr_id id = (sn_attr_id)(*a & ~SN_ATTR_MUST);
    sn_attr_kind kind = sn_attrs[id].kind;
    if (!(*a & SN_ATTR_MUST) || kind == SN_KIND_COMP || kind == SN_KIND_COMPS || has_attr(n_attrs, attrs, id)) continue;
    sn_status s = sn_error(d, loc, SN_ERR_ATTRIBUTE, "%s: %s needs the attribute %s", called_as(name), sn_ops[op].text, sn_attrs[id].text);
    if (first == SN_OK) first = s;
  }
  sn_status s = check_called(d, loc, name, op, n_called);
  return first == SN_OK ? s : first;
}
