/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The verifier on modules broken by hand: faults that no text can write. What text can write is in
 * test_verify_text.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/build.h"
#include "sinter/ir.h"

typedef struct fixture {
  sn_diag *d;
  sn_module *m;
  sn_computation *c;
  sn_builder b;
  sn_instr *x, *y, *sum, *twice;
} fixture;

/* entry(x, y) = 2 * (x + y) */
static void begin(fixture *f) {
  ck_assert_int_eq(sn_diag_create(&f->d), SN_OK);
  ck_assert_int_eq(sn_module_create("m", &f->m), SN_OK);
  ck_assert_int_eq(sn_computation_create(f->m, "main", &f->c), SN_OK);
  sn_module_set_entry(f->m, f->c);
  sn_builder_init(&f->b, f->d, f->c);
  const int64_t dims[] = {2, 3};
  const sn_shape *s = sn_shape_array(f->m->arena, SN_TYPE_F32, 2, dims);
  f->x = sn_build_parameter(&f->b, 0, s, "x");
  f->y = sn_build_parameter(&f->b, 1, s, "y");
  f->sum = sn_build_binary(&f->b, SN_OP_ADD, f->x, f->y);
  f->twice = sn_build_binary(&f->b, SN_OP_ADD, f->sum, f->sum);
  ck_assert_int_eq(f->b.status, SN_OK);
  sn_computation_set_root(f->c, f->twice);
}

static void end(fixture *f) {
  sn_module_destroy(f->m);
  sn_diag_destroy(f->d);
}

static bool says(const fixture *f, const char *number) {
  for (size_t k = 0; k < sn_diag_stored(f->d); k++) {
    if (strstr(sn_diag_get(f->d, k)->message, number)) return true;
  }
  return false;
}

static void expect(fixture *f, const char *number) {
  sn_status s = sn_module_verify(f->d, f->m, 0);
  ck_assert_int_eq(s, SN_ERR_VERIFY);
  ck_assert_msg(says(f, number), "wanted %s, first is: %s", number,
                sn_diag_stored(f->d) ? sn_diag_get(f->d, 0)->message : "nothing");
  ck_assert_int_eq(sn_module_verify(NULL, f->m, 0), SN_ERR_VERIFY);
}

START_TEST(test_sound) {
  fixture f;
  begin(&f);
  sn_status s = sn_module_verify(f.d, f.m, SN_VERIFY_LAYOUTS);
  ck_assert_msg(s == SN_OK, "%s", sn_diag_stored(f.d) ? sn_diag_get(f.d, 0)->message : "");
  ck_assert_uint_eq(sn_diag_stored(f.d), 0);
  end(&f);
}
END_TEST

/* ---- one fault each ---- */

static void no_entry(fixture *f) {
  f->m->entry = NULL;
}
static void no_root(fixture *f) {
  f->c->root = NULL;
}
static void count(fixture *f) {
  f->c->n_instrs++;
}
static void prev_link(fixture *f) {
  f->sum->prev = f->x;
}
static void parent(fixture *f) {
  sn_computation *other;
  ck_assert_int_eq(sn_computation_create(f->m, "other", &other), SN_OK);
  f->sum->parent = other;
}
static void id_twice(fixture *f) {
  f->sum->id = f->x->id;
}
static void id_range(fixture *f) {
  f->sum->id = f->m->n_ids;
}
static void name_twice(fixture *f) {
  f->sum->name = f->x->name;
}
static void param_slot(fixture *f) {
  f->c->params[1] = NULL;
}
static void opcode(fixture *f) {
  f->sum->op = SN_OP_COUNT;
}
static void arity(fixture *f) {
  f->sum->op = SN_OP_NEGATE;
}
static void attribute(fixture *f) {
  f->sum->op = SN_OP_COMPARE;
}
static void order(fixture *f) {
  sn_instr_move_before(f->twice, f->sum);
}
static void self_use(fixture *f) {
  sn_instr_set_operand(f->twice, 0, f->twice);
}
static void use_count(fixture *f) {
  f->x->n_uses++;
}
static void use_def(fixture *f) {
  f->sum->operands[0].def = f->y;
}
static void use_missing(fixture *f) {
  f->x->first_use = f->x->last_use = NULL;
  f->x->n_uses = 0;
}
static void foreign_operand(fixture *f) {
  sn_computation *other;
  ck_assert_int_eq(sn_computation_create(f->m, "other", &other), SN_OK);
  sn_computation_move_before(other, f->c);
  sn_builder b;
  sn_builder_init(&b, f->d, other);
  sn_instr *p = sn_build_parameter(&b, 0, f->x->shape, "p");
  sn_computation_set_root(other, p);
  sn_instr_set_operand(f->twice, 1, p);
}
static void control_self(fixture *f) {
  ck_assert_int_eq(sn_instr_add_control(f->sum, f->sum), SN_OK);
}
static void control_order(fixture *f) {
  ck_assert_int_eq(sn_instr_add_control(f->sum, f->twice), SN_OK);
}
static void no_shape(fixture *f) {
  f->sum->shape = NULL;
}
static void overflow(fixture *f) {
  const int64_t dims[] = {INT64_MAX / 2, 1000};
  sn_instr_set_shape(f->x, sn_shape_array(f->m->arena, SN_TYPE_F32, 2, dims));
}
static void stated(fixture *f) {
  sn_instr_set_shape(f->sum, sn_shape_scalar(f->m->arena, SN_TYPE_F32));
}
static void types(fixture *f) {
  sn_instr_set_shape(f->x, sn_shape_with_type(f->m->arena, f->x->shape, SN_TYPE_F16));
}
static void counts(fixture *f) {
  f->m->replica_count = 0;
}

/* A fusion of one add, its body, and what a test breaks in them. */
static sn_instr *fuse(fixture *f, sn_opcode inside) {
  sn_computation *body;
  ck_assert_int_eq(sn_computation_create(f->m, "body", &body), SN_OK);
  sn_computation_move_before(body, f->c);
  sn_builder b;
  sn_builder_init(&b, f->d, body);
  sn_instr *p = sn_build_parameter(&b, 0, f->x->shape, "p");
  sn_instr *r =
      sn_build(&b, inside, inside == SN_OP_NEGATE ? NULL : f->x->shape, 1, &p, 0, NULL, 0, NULL);
  ck_assert_int_eq(b.status, SN_OK);
  sn_computation_set_root(body, r);
  sn_attr kind = sn_attr_int(SN_ATTR_KIND, SN_FUSION_KIND_LOOP);
  sn_instr *i = sn_build(&f->b, SN_OP_FUSION, NULL, 1, &f->twice, 1, &kind, 1, &body);
  ck_assert_int_eq(f->b.status, SN_OK);
  return i;
}
static void cycle(fixture *f) {
  sn_instr *i = fuse(f, SN_OP_NEGATE);
  sn_computation *body = i->called[0];
  sn_builder b;
  sn_builder_init(&b, f->d, body);
  sn_attr kind = sn_attr_int(SN_ATTR_KIND, SN_FUSION_KIND_LOOP);
  sn_build(&b, SN_OP_FUSION, NULL, 1, &body->root, 1, &kind, 1, &body);
  ck_assert_int_eq(b.status, SN_OK);
}
static void call_order(fixture *f) {
  sn_computation_move_before(fuse(f, SN_OP_NEGATE)->called[0], NULL);
}
static void call_entry(fixture *f) {
  sn_instr_set_called(fuse(f, SN_OP_NEGATE), 0, f->c);
}
static void call_missing(fixture *f) {
  sn_instr_set_called(fuse(f, SN_OP_NEGATE), 0, NULL);
}
static void call_signature(fixture *f) {
  sn_instr *i = fuse(f, SN_OP_NEGATE);
  sn_instr *p = i->called[0]->params[0];
  sn_instr_set_shape(p, sn_shape_scalar(f->m->arena, SN_TYPE_F32));
  sn_instr_set_shape(i->called[0]->root, p->shape);
}
static void fusion_body(fixture *f) {
  fuse(f, SN_OP_COPY)->called[0]->root->op = SN_OP_ALL_REDUCE_DONE;
}
static void entry_params(fixture *f) {
  static const sn_shape *shapes[1];
  shapes[0] = f->x->shape;
  f->m->entry_params = shapes;
  f->m->n_entry_params = 1;
}
static void entry_result(fixture *f) {
  f->m->entry_result = sn_shape_token(f->m->arena);
}
static void alias_missing(fixture *f) {
  static const sn_alias a = {{0, NULL}, 7, {0, NULL}, false};
  f->m->aliases = &a;
  f->m->n_aliases = 1;
}
static void alias_twice(fixture *f) {
  static const sn_alias a[2] = {{{0, NULL}, 0, {0, NULL}, false}, {{0, NULL}, 1, {0, NULL}, false}};
  f->m->aliases = a;
  f->m->n_aliases = 2;
}
static void donor(fixture *f) {
  static const sn_alias a[2] = {{{0, NULL}, 1, {0, NULL}, false}, {{0, NULL}, 1, {0, NULL}, false}};
  f->m->donors = a;
  f->m->n_donors = 2;
}

static const struct {
  void (*harm)(fixture *);
  const char *number;
} harms[] = {
    {no_entry, "V101"},      {no_root, "V201"},       {count, "V203"},
    {prev_link, "V203"},     {parent, "V203"},        {id_twice, "V205"},
    {id_range, "V205"},      {name_twice, "V204"},    {param_slot, "V202"},
    {opcode, "V301"},        {arity, "V302"},         {attribute, "V303"},
    {order, "V307"},         {self_use, "V307"},      {use_count, "V308"},
    {use_def, "V308"},       {use_missing, "V308"},   {foreign_operand, "V306"},
    {control_self, "V309"},  {control_order, "V307"}, {no_shape, "V310"},
    {overflow, "V310"},      {stated, "V405"},        {types, "V401"},
    {counts, "V106"},        {cycle, "V107"},         {call_order, "V108"},
    {call_entry, "V101"},    {call_missing, "V305"},  {call_signature, "V404"},
    {fusion_body, "V206"},   {entry_params, "V102"},  {entry_result, "V103"},
    {alias_missing, "V104"}, {alias_twice, "V104"},   {donor, "V105"},
};

START_TEST(test_harm) {
  fixture f;
  begin(&f);
  harms[_i].harm(&f);
  expect(&f, harms[_i].number);
  end(&f);
}
END_TEST

/* All faults are listed, not the first. */
START_TEST(test_every_fault) {
  fixture f;
  begin(&f);
  stated(&f);
  counts(&f);
  control_order(&f);
  expect(&f, "V405");
  ck_assert(says(&f, "V106") && says(&f, "V307"));
  end(&f);
}
END_TEST

START_TEST(test_no_memory) {
  fixture f;
  begin(&f);
  fuse(&f, SN_OP_NEGATE);
  bool done = false;
  for (int64_t n = 0; !done && n < 200; n++) {
    sn_alloc_fail_after(n);
    sn_status s = sn_module_verify(NULL, f.m, SN_VERIFY_LAYOUTS);
    sn_alloc_fail_after(-1);
    ck_assert(s == SN_OK || s == SN_ERR_MEMORY);
    done = s == SN_OK;
  }
  ck_assert(done);
  end(&f);
}
END_TEST

int main(void) {
  Suite *s = suite_create("verify");
  TCase *t = tcase_create("verify");
  tcase_add_test(t, test_sound);
  tcase_add_loop_test(t, test_harm, 0, (int)(sizeof harms / sizeof harms[0]));
  tcase_add_test(t, test_every_fault);
  tcase_add_test(t, test_no_memory);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
