/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Plans: what shares memory, what may not, and over all golden programs that no value is overwritten before its last reader and that fusing never needs more memory. */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sinter/cost.h"
#include "sinter/passes.h"
#include "sinter/plan.h"
#include "sinter/text.h"

static sn_diag *diag;
static sn_arena *arena;

static void setup(void) {
  ck_assert_int_eq(sn_diag_create(&diag), SN_OK);
  ck_assert_int_eq(sn_arena_create(&arena), SN_OK);
}

static void teardown(void) {
  sn_diag_destroy(diag);
  sn_arena_destroy(arena);
}

static sn_module *parse(const char *text) {
  sn_module *m = NULL;
  ck_assert_int_eq(sn_hlo_parse(diag, "test", text, strlen(text), &m), SN_OK);
  return m;
}

static sn_module *planned(const char *text, const char *passes, sn_plan *p) {
  sn_module *m = parse(text);
  ck_assert_int_eq(sn_passes_run(diag, m, passes, NULL, NULL), SN_OK);
  ck_assert_int_eq(sn_plan_make(diag, arena, m, p), SN_OK);
  return m;
}

static const sn_plan_slice *slice_of(const sn_module *m, const sn_plan *p, const char *name) {
  const sn_instr *i = sn_computation_find(m->entry, name);
  ck_assert_ptr_nonnull(i);
  return p->slices[i->id];
}

/* ---- sharing ---- */

START_TEST(elementwise_work_is_done_in_place) {
  sn_plan p;
  sn_module *m = planned("HloModule m ENTRY e { x = f32[64] parameter(0) a = f32[64] tanh(x) b = f32[64] multiply(a, a) c = f32[64] add(b, x) ROOT d = f32[64] negate(c) }",
                         "schedule,copy-insertion", &p);
  ck_assert_int_eq(p.arena_bytes, 256);
  ck_assert_int_eq(slice_of(m, &p, "a")->offset, slice_of(m, &p, "b")->offset);
  ck_assert_int_eq(slice_of(m, &p, "d")->place, SN_PLACE_RESULT);
  sn_module_destroy(m);
}
END_TEST

START_TEST(a_value_read_later_is_not_written_over) {
  sn_plan p;
  sn_module *m = planned("HloModule m ENTRY e { x = f32[64] parameter(0) a = f32[64] tanh(x) b = f32[64] multiply(a, x) c = f32[64] add(b, a) ROOT d = f32[64] negate(c) }",
                         "schedule,copy-insertion", &p);
  ck_assert_int_ne(slice_of(m, &p, "a")->offset, slice_of(m, &p, "b")->offset);
  ck_assert_int_eq(p.arena_bytes, 512);
  sn_module_destroy(m);
}
END_TEST

START_TEST(a_transpose_is_not_done_in_place) {
  sn_plan p;
  sn_module *m = planned("HloModule m ENTRY e { x = f32[8,8] parameter(0) a = f32[8,8] tanh(x) b = f32[8,8] transpose(a), dimensions={1,0} ROOT d = f32[8,8] negate(b) }",
                         "schedule,copy-insertion", &p);
  ck_assert_int_eq(p.arena_bytes, 512);
  sn_module_destroy(m);
}
END_TEST

START_TEST(a_donated_argument_takes_the_result) {
  sn_plan p;
  sn_module *m = planned("HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e { w = f32[64] parameter(0) g = f32[64] parameter(1) ROOT n = f32[64] subtract(w, g) }",
                         "schedule,copy-insertion", &p);
  ck_assert_int_eq(slice_of(m, &p, "n")->place, SN_PLACE_ARGUMENT);
  ck_assert_uint_eq(slice_of(m, &p, "n")->index, 0);
  ck_assert_int_eq(p.arena_bytes, 0);
  sn_module_destroy(m);
}
END_TEST

START_TEST(a_value_with_two_homes_is_refused) {
  sn_plan p;
  sn_module *m = parse("HloModule m ENTRY e { x = f32[4] parameter(0) ROOT t = (f32[4], f32[4]) tuple(x, x) }");
  ck_assert_int_eq(sn_passes_run(diag, m, "schedule", NULL, NULL), SN_OK);
  ck_assert_int_eq(sn_plan_make(diag, arena, m, &p), SN_ERR_VERIFY);
  sn_module_destroy(m);
}
END_TEST

START_TEST(the_report_says_what_donation_saves) {
  sn_plan p;
  sn_str text = {0};
  sn_module *m = planned("HloModule m\nENTRY e { w = f32[64] parameter(0) g = f32[64] parameter(1) k = f32[] constant(2) t = f32[64] tanh(g) c = f32[64] cosine(g) a = f32[64] atan2(t, c) ROOT n = f32[64] subtract(w, a) }",
                         "schedule,copy-insertion", &p);
  sn_plan_print(&text, &p);
  ck_assert_ptr_nonnull(strstr(text.data, "donating arguments would save up to 256 bytes: 1 have"));
  ck_assert_ptr_nonnull(strstr(text.data, "at the peak of the arena:"));
  ck_assert_ptr_nonnull(strstr(text.data, "tanh"));
  sn_str_finish(&text);
  sn_module_destroy(m);
}
END_TEST

START_TEST(memory_runs_out_while_planning) {
  static const char text[] = "HloModule m ENTRY e { x = f32[64] parameter(0) a = f32[64] tanh(x) b = f32[64] multiply(a, x) c = f32[64] add(b, a) ROOT d = f32[64] negate(c) }";
  sn_module *m = parse(text);
  ck_assert_int_eq(sn_passes_run(diag, m, "schedule,copy-insertion", NULL, NULL), SN_OK);
  int failed = 0;
  for (int64_t n = 0; n < 1000; n++) {
    sn_plan p;
    sn_arena *a;
    ck_assert_int_eq(sn_arena_create(&a), SN_OK);
    sn_alloc_fail_after(n);
    sn_status s = sn_plan_make(NULL, a, m, &p);
    int64_t made = sn_alloc_fail_after(-1);
    sn_arena_destroy(a);
    ck_assert_msg(s == SN_ERR_MEMORY || s == SN_OK, "allocation %lld: %s", (long long)n, sn_status_text(s));
    if (made < n) break;
    failed++;
  }
  ck_assert_int_gt(failed, 3);
  sn_module_destroy(m);
}
END_TEST

/* ---- all golden programs ---- */

static char *read_text(const char *path, size_t *n) {
  gzFile f = gzopen(path, "rb"); /* reads plain files as they are */
  size_t cap = (size_t)1 << 23;
  ck_assert_msg(f != NULL, "%s", path);
  char *text = malloc(cap);
  ck_assert_ptr_nonnull(text);
  int got = gzread(f, text, (unsigned)cap);
  ck_assert_int_ge(got, 0);
  *n = (size_t)got;
  gzclose(f);
  return text;
}

typedef struct owner { int64_t from, to; const sn_instr *i; int leaf; } owner;
typedef struct memory { owner *v; size_t n; } memory; /* last writer of each stretch of the arena */

static void write_slice(memory *mem, const sn_plan_slice *s, const sn_instr *i, int leaf) {
  if (s->place != SN_PLACE_ARENA || s->bytes == 0) return;
  size_t n = 0;
  for (size_t k = 0; k < mem->n; k++) { /* what it touches is lost as a whole */
    if (mem->v[k].to <= s->offset || mem->v[k].from >= s->offset + s->bytes) mem->v[n++] = mem->v[k];
  }
  mem->v[n++] = (owner){s->offset, s->offset + s->bytes, i, leaf};
  mem->n = n;
}

static bool is_name(const sn_instr *i) {
  return i->op == SN_OP_TUPLE || i->op == SN_OP_GET_TUPLE_ELEMENT || i->op == SN_OP_BITCAST || i->op == SN_OP_RESHAPE || i->op == SN_OP_OPT_BARRIER || i->op == SN_OP_DOMAIN;
}

/* Is what lies at the operand's slice still the operand? Names are followed by offset: whoever wrote there last must have the operand's stretch. */
static bool is_intact(const memory *mem, const sn_plan_slice *s) {
  if (s->place != SN_PLACE_ARENA || s->bytes == 0) return true;
  for (size_t k = 0; k < mem->n; k++) {
    if (mem->v[k].from == s->offset && mem->v[k].to >= s->offset + s->bytes) return true;
  }
  return false;
}

/* The value that a name names. */
static const sn_instr *source(const sn_instr *i) {
  while (i->op == SN_OP_BITCAST || i->op == SN_OP_RESHAPE) i = sn_instr_operand(i, 0);
  return i;
}

static const sn_instr *writer_at(const memory *mem, const sn_plan_slice *s) {
  for (size_t k = 0; k < mem->n; k++) {
    if (mem->v[k].from == s->offset) return mem->v[k].i;
  }
  return NULL;
}

static void write_inner(memory *mem, const sn_plan *p, const sn_instr *i) {
  if (i->op != SN_OP_WHILE && i->op != SN_OP_CONDITIONAL && i->op != SN_OP_CALL) return;
  for (uint16_t c = 0; c < i->n_called; c++) {
    SN_FOR_INSTRS(x, i->called[c]) {
      write_inner(mem, p, x);
      for (int leaf = 0; leaf < sn_shape_leaves(x->shape) && !is_name(x) && x->op != SN_OP_PARAMETER; leaf++) write_slice(mem, &p->slices[x->id][leaf], x, leaf);
    }
  }
}

static void check_run(const char *name, const sn_module *m, const sn_plan *p) {
  memory mem = {calloc(m->n_ids * 2 + 8, sizeof *mem.v), 0};
  ck_assert_ptr_nonnull(mem.v);
  SN_FOR_INSTRS(i, m->entry) {
    if (is_name(i) || i->op == SN_OP_PARAMETER || i->op == SN_OP_CONSTANT) continue;
    for (uint32_t k = 0; k < i->n_operands; k++) {
      const sn_instr *o = source(sn_instr_operand(i, k));
      for (int leaf = 0; leaf < sn_shape_leaves(o->shape); leaf++) {
        const sn_plan_slice *s = &p->slices[o->id][leaf];
        ck_assert_msg(is_intact(&mem, s), "%s: %s reads %s, which was written over", name, i->name, o->name);
        if (is_name(o) || sn_shape_leaves(o->shape) > 1 || s->place != SN_PLACE_ARENA || s->bytes == 0 || o->op == SN_OP_WHILE || o->op == SN_OP_CONDITIONAL) continue;
        ck_assert_msg(writer_at(&mem, s) == o, "%s: %s reads %s, where %s wrote last", name, i->name, o->name, writer_at(&mem, s)->name);
      }
    }
    write_inner(&mem, p, i);
    for (int leaf = 0; leaf < sn_shape_leaves(i->shape); leaf++) {
      const sn_plan_slice *s = &p->slices[i->id][leaf];
      ck_assert_msg(s->place != SN_PLACE_ARENA || (s->offset >= 0 && s->offset % 64 == 0 && s->offset + s->bytes <= p->arena_bytes), "%s: %s lies outside", name, i->name);
      write_slice(&mem, s, i, leaf);
    }
  }
  free(mem.v);
}

static int64_t golden_arena(const char *name, const char *text, size_t n, const char *pipeline, int64_t limit) {
  sn_module *m = NULL;
  sn_arena *a;
  sn_plan p;
  sn_pass_options o;
  sn_pass_options_init(&o);
  o.memory_limit = limit;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_hlo_parse(diag, name, text, n, &m), SN_OK);
  ck_assert_msg(sn_pipeline_run(diag, m, pipeline, &o, NULL) == SN_OK, "%s: %s", name, pipeline);
  ck_assert_msg(sn_plan_make(diag, a, m, &p) == SN_OK, "%s: no plan behind %s", name, pipeline);
  check_run(name, m, &p);
  ck_assert_int_ge(p.arena_bytes, p.live_bytes);
  int64_t bytes = p.arena_bytes;
  sn_module_destroy(m);
  sn_arena_destroy(a);
  return bytes;
}

START_TEST(golden_plans) {
  char folder[1024], path[2048];
  const char *data = getenv("SINTER_TEST_DATA");
  snprintf(folder, sizeof folder, "%s/golden/hlo", data ? data : "tests/data");
  DIR *d = opendir(folder);
  int n_programs = 0;
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    if (!strstr(e->d_name, ".before.hlo")) continue;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    char *text = read_text(path, &n);
    int64_t alone = golden_arena(e->d_name, text, n, "op-by-op", 0), fused = golden_arena(e->d_name, text, n, "cpu", 0);
    ck_assert_msg(fused <= alone, "%s: fused it needs %lld bytes, op by op %lld", e->d_name, (long long)fused, (long long)alone);
    if (strncmp(e->d_name, "vit_", 4) == 0) {
      int64_t limited = golden_arena(e->d_name, text, n, "cpu", fused / 2);
      ck_assert_msg(limited <= fused / 2, "%s: %lld bytes, the limit is %lld", e->d_name, (long long)limited, (long long)fused / 2);
      ck_assert_msg(fused * 10 <= alone * 4, "%s: fused it needs %lld bytes, more than 0.4 of %lld", e->d_name, (long long)fused, (long long)alone);
    }
    free(text);
    n_programs++;
  }
  closedir(d);
  ck_assert_int_gt(n_programs, 50);
}
END_TEST

/* ---- cost ---- */

START_TEST(costs) {
  sn_cost c;
  sn_module *m = parse("HloModule m ENTRY e { x = f32[10,20] parameter(0) y = f32[20,30] parameter(1) d = f32[10,30] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
                       " s = f32[10,30] add(d, d) ROOT t = f32[10,30] tanh(s) }");
  sn_cost_of(NULL, sn_computation_find(m->entry, "d"), &c);
  ck_assert_double_eq(c.products, 2.0 * 10 * 20 * 30);
  ck_assert_double_eq(c.bytes, 4.0 * (200 + 600 + 300));
  sn_cost_of(NULL, sn_computation_find(m->entry, "s"), &c);
  ck_assert_double_eq(c.flops, 300);
  ck_assert_double_eq(c.bytes, 4.0 * 600); /* an operand read twice is read once */
  ck_assert_double_eq(c.products, 0);
  sn_cost_of(NULL, sn_computation_find(m->entry, "x"), &c);
  ck_assert_double_eq(c.us, 0);
  sn_cost_of_computation(NULL, m->entry, &c);
  ck_assert_double_gt(c.flops, 12300);
  ck_assert_double_gt(c.us, 0);
  sn_module_destroy(m);
}
END_TEST

START_TEST(fusing_pays_in_the_model) {
  sn_cost before, after;
  sn_module *m = parse("HloModule m ENTRY e { x = f32[512,512] parameter(0) a = f32[512,512] tanh(x) b = f32[512,512] add(a, x) ROOT c = f32[512,512] multiply(b, b) }");
  sn_cost_of_computation(NULL, m->entry, &before);
  ck_assert_int_eq(sn_passes_run(diag, m, "fusion", NULL, NULL), SN_OK);
  ck_assert_int_eq(sn_hero_of(m->entry->root), SN_HERO_LOOP);
  sn_cost_of_computation(NULL, m->entry, &after);
  ck_assert_double_lt(after.us, before.us);
  ck_assert_double_lt(after.bytes, before.bytes);
  ck_assert_double_eq(after.flops, before.flops);
  sn_module_destroy(m);
}
END_TEST

int main(void) {
  Suite *s = suite_create("memory");
  TCase *t = tcase_create("plans");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, elementwise_work_is_done_in_place);
  tcase_add_test(t, a_value_read_later_is_not_written_over);
  tcase_add_test(t, a_transpose_is_not_done_in_place);
  tcase_add_test(t, a_donated_argument_takes_the_result);
  tcase_add_test(t, a_value_with_two_homes_is_refused);
  tcase_add_test(t, the_report_says_what_donation_saves);
  tcase_add_test(t, memory_runs_out_while_planning);
  tcase_add_test(t, golden_plans);
  tcase_add_test(t, costs);
  tcase_add_test(t, fusing_pays_in_the_model);
  tcase_set_timeout(t, 100);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
