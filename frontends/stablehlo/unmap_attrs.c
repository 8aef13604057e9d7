/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attributes of the tree, from what instructions hold. */
#include <string.h>

#include "unmap.h"

sn_mlir_attr *sn_sw_ints(sn_sw *s, int64_t n, const int64_t *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_INTS);
  if (a == NULL) return NULL;
  a->ints = sn_arena_copy(s->out->arena, n != 0 ? v : (const int64_t *)&a->i, (size_t)(n != 0 ? n : 1) * sizeof *v);
  a->n = n;
  return a->ints != NULL ? a : NULL;
}

sn_mlir_attr *sn_sw_list(sn_sw *s, const sn_instr *i, sn_attr_id id) {
  sn_ints v = sn_instr_ints(i, id);
  return sn_sw_ints(s, v.n, v.v);
}

sn_mlir_attr *sn_sw_number(sn_sw *s, int64_t v) { return sn_mlir_attr_int(s->out, v); }
sn_mlir_attr *sn_sw_number32(sn_sw *s, int64_t v) {
  sn_mlir_attr *a = sn_sw_number(s, v);
  if (a != NULL) a->type = sn_mlir_type_scalar(s->out, SN_TYPE_S32);
  return a;
}
sn_mlir_attr *sn_sw_truth(sn_sw *s, bool v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_BOOL);
  if (a != NULL) a->i = v;
  return a;
}
sn_mlir_attr *sn_sw_unit(sn_sw *s) { return sn_mlir_attr_new(s->out, SN_MA_UNIT); }
sn_mlir_attr *sn_sw_text(sn_sw *s, const char *v) { return sn_mlir_attr_string(s->out, SN_MA_STRING, v != NULL ? v : "", v != NULL ? strlen(v) : 0); }

sn_mlir_attr *sn_sw_word(sn_sw *s, const char *domain, const char *v) {
  sn_mlir_attr *a = sn_mlir_attr_string(s->out, SN_MA_ENUM, v, strlen(v));
  if (a != NULL) a->name = domain;
  return a;
}

const sn_mlir_attr *sn_sw_table(sn_sw *s, int64_t n, int64_t width, const int64_t *v, sn_type t, bool index) {
  int64_t dims[2] = {n, width};
  int rank = width < 0 ? 1 : 2;
  sn_array *a = NULL;
  sn_mlir_type *element = sn_arena_copy(s->out->arena, sn_mlir_type_scalar(s->out, t), sizeof *element);
  const sn_shape *shape = sn_shape_array(s->out->arena, t, rank, dims);
  if (element == NULL || shape == NULL || sn_array_create(shape, &a) != SN_OK) return NULL;
  element->is_index = index;
  for (int64_t k = 0; k < sn_shape_elements(shape); k++) sn_store_i64(t, (char *)sn_array_data(a) + (size_t)k * sn_type_bytes(t), v[k]);
  const sn_mlir_type *type = sn_mlir_type_tensor(s->out, rank, dims, element);
  if (type == NULL) {
    sn_array_release(a);
    return NULL;
  }
  return sn_mlir_attr_dense(s->out, type, a, false);
}

sn_mlir_attr *sn_sw_items(sn_sw *s, int64_t n, const sn_mlir_attr *const *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_ARRAY);
  if (a == NULL) return NULL;
  a->items = n != 0 ? sn_arena_copy(s->out->arena, v, (size_t)n * sizeof *v) : (const sn_mlir_attr *const *)(const void *)a;
  a->n = n;
  return a->items != NULL ? a : NULL;
}

sn_mlir_attr *sn_sw_members(sn_sw *s, const char *name, int64_t n, const sn_mlir_named *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, name != NULL ? SN_MA_STRUCT : SN_MA_DICT);
  if (a == NULL) return NULL;
  for (int64_t k = 0; k < n; k++)
    if (v[k].attr == NULL) return NULL;
  a->name = name;
  a->members = n != 0 ? sn_arena_copy(s->out->arena, v, (size_t)n * sizeof *v) : NULL;
  a->n = n;
  return a;
}

sn_status sn_sw_only(sn_sw *s, const sn_instr *i, const sn_attr_id *known, size_t n) {
  for (uint16_t k = 0; k < i->n_attrs; k++) {
    bool found = false;
    for (size_t w = 0; w < n; w++) found |= i->attrs[k].id == known[w];
    if (!found) return sn_sw_fail(s, i, "the attribute %s of %s", sn_attrs[i->attrs[k].id].text, sn_opcode_text(i->op));
  }
  return SN_OK;
}

sn_mlir_attr *sn_sw_real(sn_sw *s, double v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_FLOAT);
  if (a != NULL) a->f = v;
  return a;
}

sn_sw_window_lists sn_sw_window(const sn_instr *i, int rank) {
  const sn_window *w = sn_instr_window(i);
  sn_sw_window_lists l = {.reversed = false};
  for (int k = 0; k < rank; k++) {
    const sn_window_dim d = w != NULL && k < w->rank ? w->dims[k] : (sn_window_dim){1, 1, 0, 0, 1, 1, false};
    l.size[k] = d.size;
    l.stride[k] = d.stride;
    l.padding[2 * k] = d.pad_low;
    l.padding[2 * k + 1] = d.pad_high;
    l.base[k] = d.lhs_dilate;
    l.dilation[k] = d.rhs_dilate;
    l.reversal[k] = d.reversal;
    l.reversed |= d.reversal;
  }
  return l;
}
