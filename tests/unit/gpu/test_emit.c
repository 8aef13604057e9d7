/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the CUDA C looks like: the properties that speed and determinism rest on. */
#include <string.h>

#include "gpu_tests.h"
#include "sinter/gpu_cost.h"

static void expect(const sn_gpu_kernel *g, const char *text) { ck_assert_msg(strstr(g->source, text) != NULL, "no '%s' in:\n%.4000s", text, g->source); }
static void refuse(const sn_gpu_kernel *g, const char *text) { ck_assert_msg(strstr(g->source, text) == NULL, "'%s' in:\n%.4000s", text, g->source); }

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
  return n;
}

START_TEST(elements_neighbour_threads_take_neighbours) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f, "HloModule m\nENTRY e {\n  a = f32[1000,513] parameter(0)\n  ROOT r = f32[1000,513] tanh(a)\n}\n", &k, &g), SN_OK);
  expect(&g, "for (int d1 = lane; ");
  expect(&g, "tanhf(v");
  expect(&g, "// r");
  refuse(&g, "__syncthreads");
  ck_assert_int_eq(g.phases[0].threads, 256);
  ck_assert_int_eq(g.phases[0].shared_bytes, 0);
  fixture_finish(&f);
}
END_TEST

START_TEST(transposes_write_along_neighbours) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f, "HloModule m\nENTRY e {\n  a = f32[33,65] parameter(0)\n  ROOT r = f32[65,33] transpose(a), dimensions={1,0}\n}\n", &k, &g), SN_OK);
  expect(&g, "out1[d0 * 256 + d1] = ");
  fixture_finish(&f);
}
END_TEST

START_TEST(rows_meet_in_the_documented_tree) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f,
                            "HloModule m\nadd {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\nENTRY e {\n  a = f32[64,768] parameter(0)\n  z = f32[] "
                            "parameter(1)\n  ROOT r = f32[64] reduce(a, z), dimensions={1}, to_apply=add\n}\n",
                            &k, &g),
                   SN_OK);
  expect(&g, "sn_tree<256, 256>(");
  expect(&g, "if (lane == 0) out2[d0] = ");
  ck_assert_int_eq(g.phases[0].blocks, 64);
  fixture_finish(&f);
}
END_TEST

START_TEST(helpers_come_with_what_they_use) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f, "HloModule m\nENTRY e {\n  a = c64[32] parameter(0)\n  ROOT r = c64[32] tan(a)\n}\n", &k, &g), SN_OK);
  ck_assert_int_eq(count(g.source, "sn_c128 sn_ctanh("), 1); /* tan by tanh */
  expect(&g, "struct __align__(8) sn_c64");
  refuse(&g, "sn_cpow");
  fixture_finish(&f);
}
END_TEST

static const char *dot(char *text, size_t bytes, const char *more) {
  snprintf(text, bytes,
           "HloModule m\nENTRY e {\n  a = f32[256,64] parameter(0)\n  b = f32[64,192] parameter(1)\n  ROOT r = f32[256,192] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}%s\n}\n", more);
  return text;
}

START_TEST(products_keep_their_sums_in_registers) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  char text[512];
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f, dot(text, sizeof text, ""), &k, &g), SN_OK);
  expect(&g, "float sums[16];"); /* of a 64 x 64 tile */
  expect(&g, "fmaf(a[r], b[s], ");
  refuse(&g, "sn_mma_tf32");
  expect(&g, "*(const float4 *)&in0["); /* four neighbours at once */
  ck_assert_int_eq(count(g.source, "__syncthreads();"), 3); /* once a step; staged sums, in the tiles' place: before they are written, before they are read */
  ck_assert_int_eq(emit_hlo(&f, dot(text, sizeof text, ", algorithm=dot_tf32_tf32_f32"), &k, &g), SN_OK);
  expect(&g, "sn_mma_tf32(");
  expect(&g, "sn_copy_async<16>(&lhs["); /* both as they lie, rounded when they are read */
  expect(&g, "a[r] = sn_tf32(a[r]);");
  expect(&g, "b[r] = sn_tf32(b[r]);");
  refuse(&g, "= sn_to_tf32(v");
  ck_assert_int_eq(count(g.source, "cp.async.wait_group"), 2); /* a step; behind the last one */
  ck_assert_int_eq(count(g.source, "__syncthreads();"), 5);    /* with each of these; staged sums as above; of tiles asked for in two places before the loop sync.c knows neither */
  fixture_finish(&f);
}
END_TEST

/* What is computed on its way into the tile is rounded there, once; what lies on no 4 bytes cannot be copied asynchronously. */
START_TEST(operands_that_are_no_parameters_go_through_registers) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  fixture_init(&f, "sm_80");
  ck_assert_int_eq(emit_hlo(&f,
                            "HloModule m\nf {\n  a = f32[256,64] parameter(0)\n  b = f32[64,192] parameter(1)\n  n = f32[256,64] negate(a)\n  ROOT r = f32[256,192] dot(n, b), "
                            "lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_tf32_tf32_f32\n}\nENTRY e {\n  a = f32[256,64] parameter(0)\n  b = f32[64,192] parameter(1)\n  "
                            "ROOT r = f32[256,192] fusion(a, b), kind=kOutput, calls=f\n}\n",
                            &k, &g),
                   SN_OK);
  expect(&g, "= sn_to_tf32(v");
  expect(&g, "sn_copy_async<16>(&rhs[");
  refuse(&g, "sn_copy_async<16>(&lhs[");
  refuse(&g, "a[r] = sn_tf32(a[r]);");
  ck_assert_int_eq(emit_hlo(&f,
                            "HloModule m\nENTRY e {\n  a = bf16[256,63] parameter(0)\n  b = bf16[63,190] parameter(1)\n  ROOT r = f32[256,190] dot(a, b), lhs_contracting_dims={1}, "
                            "rhs_contracting_dims={0}\n}\n",
                            &k, &g),
                   SN_OK);
  expect(&g, "sn_mma_bf16(");
  expect(&g, "sn_copy_async<4>(&rhs[");
  refuse(&g, "(&lhs[(");
  fixture_finish(&f);
}
END_TEST

/* A tile too large for shared memory goes to a slice of scratch, one a block. */
START_TEST(large_tiles_go_to_scratch) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  fixture_init(&f, "sm_89");
  ck_assert_int_eq(emit_hlo(&f,
                            "HloModule m\nless {\n  x = f64[] parameter(0)\n  y = f64[] parameter(1)\n  ROOT s = pred[] compare(x, y), direction=LT\n}\nENTRY e {\n  a = f64[3,20000] "
                            "parameter(0)\n  ROOT r = f64[3,20000] sort(a), dimensions={1}, to_apply=less\n}\n",
                            &k, &g),
                   SN_OK);
  expect(&g, "unsigned char *scratch)");
  ck_assert_int_ge(g.phases[0].scratch_bytes, 3 * 2 * 20000 * 8);
  ck_assert_int_le(g.phases[0].blocks, f.target.cores);
  fixture_finish(&f);
}
END_TEST

/* By hand from the programming guide: registers go to warps in units of 256, evenly to four partitions. */
START_TEST(resident_blocks_by_what_runs_out_first) {
  static const struct {
    const char *target;
    int threads, registers;
    int64_t shared;
    int blocks;
  } rows[] = {{"sm_90a", 256, 121, 36352, 2}, {"sm_90a", 256, 32, 0, 8}, {"sm_89", 256, 32, 0, 6}, {"sm_80", 32, 16, 0, 32}, {"sm_89", 256, 100, 60 << 10, 1}, {"sm_80", 256, 0, 0, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    fixture f;
    fixture_init(&f, rows[i].target);
    sn_gpu_phase p = {.threads = rows[i].threads, .registers = rows[i].registers, .shared_bytes = rows[i].shared};
    ck_assert_int_eq(sn_gpu_resident(&f.target, &p), rows[i].blocks);
    fixture_finish(&f);
  }
}
END_TEST

/* Schedules differ in what the assembler is told, in nothing else. */
START_TEST(schedules_say_it_to_the_assembler) {
  static const char text[] =
      "HloModule m\nadd {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\nENTRY e {\n  a = f32[4096,256] parameter(0)\n  z = f32[] "
      "parameter(1)\n  ROOT r = f32[256] reduce(a, z), dimensions={0}, to_apply=add\n}\n";
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f, text, &k, &g), SN_OK);
  expect(&g, "__launch_bounds__(256)");
  refuse(&g, "#pragma unroll 1");
  ck_assert_int_eq(sn_gpu_emit(f.d, f.arena, k, &f.target, SN_GPU_NOT_UNROLLED, &g), SN_OK);
  expect(&g, "__launch_bounds__(256, 1)");
  expect(&g, "#pragma unroll 1\n");
  ck_assert_int_eq(g.schedule, SN_GPU_NOT_UNROLLED);
  fixture_finish(&f);
}
END_TEST

/* The step's shapes: few tiles with many terms are cut along k, and no choice leaves a tenth of the multiprocessors idle. */
START_TEST(tiles_fill_the_waves) {
  static const struct {
    int64_t m, n, k;
    bool splits;
  } rows[] = {{6304, 768, 768, false}, {6304, 3072, 768, false}, {6304, 768, 3072, false}, {768, 768, 6304, true}, {768, 3072, 6304, true}, {3072, 768, 6304, true}};
  fixture f;
  fixture_init(&f, "sm_90a");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    sn_gpu_problem p = {1, rows[i].m, rows[i].n, rows[i].k, true, false, 16, 4};
    sn_gpu_product_schedule s, one;
    sn_gpu_choose_product(&f.target, &p, &s);
    ck_assert_msg(s.fill > 0.9 && s.fill <= 1, "product %zu: %d x %d in %lld splits fill %.2f", i, s.rows, s.columns, (long long)s.n_splits, s.fill);
    ck_assert_msg((s.n_splits > 1) == rows[i].splits, "product %zu: %lld splits", i, (long long)s.n_splits);
    ck_assert(s.split * s.n_splits >= p.k && s.split * (s.n_splits - 1) < p.k && s.split % p.terms == 0);
    ck_assert(sn_gpu_cost_product(&f.target, &p, 128, 128, 1, &one));
    ck_assert(s.us <= one.us);
  }
  fixture_finish(&f);
}
END_TEST

/* A column sum is one launch: 512 / 24 = 22 blocks of rows for each of 24 groups of 32 columns, of which the last one to be done adds what the others stored. */
START_TEST(the_last_block_finishes) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  sn_gpu_work w;
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f,
                            "HloModule m\nadd {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\nENTRY e {\n  a = f32[6304,768] parameter(0)\n"
                            "  z = f32[] parameter(1)\n  ROOT r = f32[768] reduce(a, z), dimensions={0}, to_apply=add\n}\n",
                            &k, &g),
                   SN_OK);
  ck_assert_int_eq(k->n_phases, 2);
  ck_assert(k->phases[1].finishes);
  ck_assert_int_eq(g.n_phases, 1);
  ck_assert_int_eq(g.phases[0].n, 2);
  ck_assert_int_eq(g.phases[0].items, 24 * 22);
  ck_assert_int_eq(g.phases[0].n_tickets, 24);
  expect(&g, "unsigned int *tickets) {");
  expect(&g, "sn_last = atomicInc(&tickets[0 + item / 22], 21u) == 21u;");
  ck_assert_int_eq(count(g.source, "__global__"), 1);
  ck_assert_int_eq(count(g.source, "__threadfence();"), 2);
  ck_assert_int_eq(sn_gpu_phase_work(f.arena, &f.target, k, &g.phases[0], &w), SN_OK);
  ck_assert_double_ge(w.alone, 4.0 * 22 * 32); /* the others' sums of its columns */
  fixture_finish(&f);
}
END_TEST

/* x w, x v, and what `second` makes, as parts of one fusion. */
static const char *parts(char *text, size_t bytes, const char *second, const char *result) {
  snprintf(text, bytes,
           "HloModule m\n"
           "one {\n  a = f32[256,64] parameter(0)\n  b = f32[64,192] parameter(1)\n  ROOT d = f32[256,192] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
           "less {\n  a = f32[64,256] parameter(0)\n  b = f32[256,192] parameter(1)\n  w = f32[64,192] parameter(2)\n"
           "  d = f32[64,192] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT s = f32[64,192] subtract(w, d)\n}\n"
           "whole {\n  x = f32[256,64] parameter(0)\n  w = f32[64,192] parameter(1)\n  v = f32[64,192] parameter(2)\n  y = f32[64,256] parameter(3)\n  z = f32[256,192] parameter(4)\n"
           "  p = f32[256,192] fusion(x, w), kind=kOutput, calls=one, backend_config={\"sinter\":{\"version\":1,\"hero\":\"d\",\"kind\":\"product\"}}\n"
           "  q = %s, backend_config={\"sinter\":{\"version\":1,\"hero\":\"d\",\"kind\":\"product\"}}\n  ROOT t = (f32[256,192], %s) tuple(p, q)\n}\n"
           "ENTRY e {\n  x = f32[256,64] parameter(0)\n  w = f32[64,192] parameter(1)\n  v = f32[64,192] parameter(2)\n  y = f32[64,256] parameter(3)\n  z = f32[256,192] parameter(4)\n"
           "  ROOT f = (f32[256,192], %s) fusion(x, w, v, y, z), kind=kCustom, calls=whole, backend_config={\"sinter\":{\"version\":1,\"kind\":\"several\"}}\n}\n",
           second, result, result);
  return text;
}

/* Parts that do not wait for each other are one launch, and those that do the same are written once. */
START_TEST(parts_stand_beside_each_other) {
  static const struct {
    const char *what, *second, *result;
    int launches, bodies;
  } cases[] = {
      {"the same with another weight", "f32[256,192] fusion(x, v), kind=kOutput, calls=one", "f32[256,192]", 1, 1},
      {"another product", "f32[64,192] fusion(y, z, v), kind=kOutput, calls=less", "f32[64,192]", 1, 2},
      {"one that reads the former's result", "f32[64,192] fusion(y, p, v), kind=kOutput, calls=less", "f32[64,192]", 2, 2},
      {"one that may be written over what the former reads", "f32[64,192] fusion(y, z, w), kind=kOutput, calls=less", "f32[64,192]", 2, 2},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    fixture f;
    sn_kernel *k;
    sn_gpu_kernel g;
    char text[4000];
    fixture_init(&f, "sm_90a");
    ck_assert_msg(emit_hlo(&f, parts(text, sizeof text, cases[c].second, cases[c].result), &k, &g) == SN_OK, "%s: %s", cases[c].what, first_message(&f));
    ck_assert_int_eq(sn_kernel_verify(f.d, k), SN_OK);
    ck_assert_msg(g.n_phases == cases[c].launches, "%s: %d launches", cases[c].what, g.n_phases);
    ck_assert_msg(count(g.source, "sn_shared[];") == cases[c].launches && count(g.source, "for (int item") == cases[c].bodies, "%s:\n%s", cases[c].what, g.source);
    if (c == 0) expect(&g, "const float *const p1 = part == 0 ? in1 : in2;");
    fixture_finish(&f);
  }
}
END_TEST

/* A phase may finish only one whose grid begins with its own. */
START_TEST(what_finishes_is_checked) {
  fixture f;
  sn_kernel *k;
  static const char *const texts[] = {
      "kernel @k(%0: f32[4,3] out) {\n  phase grid(d0 < 4, d1 < 3) {\n    v0: f32 = const 1\n    store %0[d0, d1] = v0\n  }\n  phase grid(d0 < 4) finishes {\n    v1: f32 = load %0[d0, 2]\n"
      "    store %0[d0, 0] = v1\n  }\n}\n",
      "kernel @k(%0: f32[4,3] out) {\n  phase grid(d0 < 4, d1 < 3) {\n    v0: f32 = const 1\n    store %0[d0, d1] = v0\n  }\n  phase grid(d0 < 3) finishes {\n    v1: f32 = load %0[d0, 2]\n"
      "    store %0[d0, 0] = v1\n  }\n}\n"};
  for (int n = 0; n < 2; n++) {
    sn_str again = {0};
    fixture_init(&f, "sm_90a");
    ck_assert_int_eq(sn_kernel_parse(f.d, f.arena, "k", texts[n], strlen(texts[n]), &k), SN_OK);
    sn_kernel_print(&again, k);
    ck_assert_str_eq(again.data, texts[n]);
    sn_str_finish(&again);
    ck_assert_int_eq(sn_kernel_verify(f.d, k), n == 0 ? SN_OK : SN_ERR_VERIFY);
    if (n) ck_assert_ptr_nonnull(strstr(first_message(&f), "it finishes the former phase, whose grid does not begin with its own"));
    fixture_finish(&f);
  }
}
END_TEST

/* What the model reads from the loops of a product, by hand: 256 x 192 x 64 in whole tiles, each argument once. */
START_TEST(the_model_counts_what_loops_do) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  sn_gpu_work w;
  char text[512];
  const char *bound = NULL;
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f, dot(text, sizeof text, ", algorithm=dot_tf32_tf32_f32"), &k, &g), SN_OK);
  ck_assert_int_eq(k->n_phases, 1);
  ck_assert_int_eq(sn_gpu_phase_work(f.arena, &f.target, k, &g.phases[0], &w), SN_OK);
  ck_assert(w.tensor);
  ck_assert_double_eq(w.products, 2.0 * 256 * 192 * 64);
  ck_assert_double_eq(w.bytes, 4.0 * (256 * 64 + 64 * 192 + 256 * 192));
  ck_assert_double_ge(w.moved, w.bytes);
  ck_assert_int_eq(w.items, 256 / w.rows * (192 / w.columns));
  double as_built = sn_gpu_phase_us(&f.target, &w, &g.phases[0], 0, &bound);
  ck_assert_ptr_nonnull(bound);
  ck_assert_double_ge(as_built, f.target.launch_us);
  ck_assert_double_le(sn_gpu_phase_us(&f.target, &w, &g.phases[0], 0.75, &bound), as_built);
  fixture_finish(&f);
}
END_TEST

START_TEST(out_of_memory_is_a_status) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g;
  char text[512];
  fixture_init(&f, "sm_90a");
  ck_assert_int_eq(emit_hlo(&f, dot(text, sizeof text, ""), &k, &g), SN_OK);
  for (int n = 0; n < 10000; n++) {
    sn_arena *a;
    ck_assert_int_eq(sn_arena_create(&a), SN_OK);
    sn_alloc_fail_after(n);
    sn_status s = sn_gpu_emit(f.d, a, k, &f.target, SN_GPU_AS_IS, &g);
    sn_alloc_fail_after(-1);
    sn_arena_destroy(a);
    if (s == SN_OK) break;
    ck_assert_int_eq(s, SN_ERR_MEMORY);
    ck_assert_int_lt(n, 9999);
  }
  fixture_finish(&f);
}
END_TEST

Suite *emit_suite(void) {
  Suite *s = suite_create("emit");
  TCase *t = tcase_create("emit");
  tcase_add_test(t, elements_neighbour_threads_take_neighbours);
  tcase_add_test(t, transposes_write_along_neighbours);
  tcase_add_test(t, rows_meet_in_the_documented_tree);
  tcase_add_test(t, helpers_come_with_what_they_use);
  tcase_add_test(t, products_keep_their_sums_in_registers);
  tcase_add_test(t, operands_that_are_no_parameters_go_through_registers);
  tcase_add_test(t, large_tiles_go_to_scratch);
  tcase_add_test(t, resident_blocks_by_what_runs_out_first);
  tcase_add_test(t, schedules_say_it_to_the_assembler);
  tcase_add_test(t, tiles_fill_the_waves);
  tcase_add_test(t, the_last_block_finishes);
  tcase_add_test(t, parts_stand_beside_each_other);
  tcase_add_test(t, what_finishes_is_checked);
  tcase_add_test(t, the_model_counts_what_loops_do);
  tcase_add_test(t, out_of_memory_is_a_status);
  suite_add_tcase(s, t);
  return s;
}
