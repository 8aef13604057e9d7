/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The verifier: lists every fault of a module, each with the number of its constraint (verify.def).
 *
 * Stages go from the structure to the meaning; each marks what the next may look at, so that one
 * fault does not show as ten. All stages are linear in the size of the module, and none recurses but
 * into the elements of a tuple's shape. */
#include "verify.h"

#include <string.h>

const sn_constraint_info sn_constraints[SN_CONSTRAINT_COUNT] = {
#define SN_CONSTRAINT(id, number, meaning) {number, meaning},
#include "sinter/verify.def"
#undef SN_CONSTRAINT
};

void sn_verify_fault(sn_verifier *v, sn_loc loc, sn_constraint which, const char *fmt, ...) {
  v->n_faults++;
  if (!v->d) return;
  char text[1280];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  (void)sn_error(v->d, loc, SN_ERR_VERIFY, "%s [%s]", text, sn_constraints[which].number);
}

void sn_verify_no_memory(sn_verifier *v) {
  if (!v->no_memory) (void)sn_out_of_memory(v->d, sizeof(sn_verifier));
  v->no_memory = true;
}

const sn_shape *sn_verify_shape_at(const sn_shape *s, sn_ints index) {
  for (int64_t i = 0; s && i < index.n; i++) {
    bool there = sn_shape_is_tuple(s) && index.v[i] >= 0 && index.v[i] < s->n_elements;
    s = there ? s->elements[index.v[i]] : NULL;
  }
  return s;
}

static sn_status verify_begin(sn_verifier *v) {
  SN_TRY(sn_arena_create(&v->arena));
  SN_TRY(sn_arena_create(&v->rule));
  SN_TRY(sn_diag_create(&v->rule_diag));
  v->computations = SN_NEW_N(v->arena, const sn_computation *, (size_t)v->m->n_comp_ids + 1);
  v->position = SN_NEW_N(v->arena, uint32_t, (size_t)v->m->n_ids + 1);
  v->form_ok = SN_NEW_N(v->arena, bool, (size_t)v->m->n_ids + 1);
  v->shape_ok = SN_NEW_N(v->arena, bool, (size_t)v->m->n_ids + 1);
  return v->computations && v->position && v->form_ok && v->shape_ok ? SN_OK : SN_ERR_MEMORY;
}

static void verify_stages(sn_verifier *v) {
  uint64_t before = v->n_faults;
  sn_verify_lists(v);
  if (v->n_faults != before || v->no_memory) return; /* nothing else can be trusted */
  sn_verify_forms(v);
  sn_verify_calls(v);
  sn_verify_shapes(v);
  sn_verify_header(v);
  if (v->flags & SN_VERIFY_LAYOUTS) sn_verify_layouts(v);
}

sn_status sn_module_verify(sn_diag *d, const sn_module *m, int flags) {
  sn_verifier v;
  memset(&v, 0, sizeof v);
  v.d = d;
  v.m = m;
  v.flags = flags;
  sn_status s = verify_begin(&v);
  if (s == SN_OK)
    verify_stages(&v);
  else
    (void)sn_out_of_memory(d, m->n_ids * sizeof *v.position);
  sn_diag_destroy(v.rule_diag);
  sn_arena_destroy(v.rule);
  sn_arena_destroy(v.arena);
  if (s != SN_OK) return s;
  return v.n_faults ? SN_ERR_VERIFY : v.no_memory ? SN_ERR_MEMORY : SN_OK;
}
