/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the interpreter watches: faults with their message, races, memory that nobody has written, traffic. */
#include "test_emulator.h"

typedef struct fault_row { const char *checks, *declarations, *body; int code; const char *says; } fault_row; /* code 0: must run */

#define SHARED ".shared .align 16 .b8 s[1024];"
static const fault_row faults[] = {
    {NULL, "", "ld.global.u32 %r1, [%d30+4096];", 700, "0 bytes past the end of an allocation of 4096 bytes"},
    {NULL, "", "mul.wide.u32 %d1, %r0, 512;\nadd.s64 %d1, %d31, %d1;\nst.global.u32 [%d1], %r0;", 700, "thread 1: 4 bytes of global memory"},
    {NULL, "", "mov.u64 %d1, 4096;\nld.global.u32 %r1, [%d1];", 700, "no device memory lies there"},
    {NULL, "", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d30+8];", 716, "16 bytes of global memory"},
    {NULL, "", "ld.global.u32 %r1, [%d30+2];", 716, "which is no multiple"},
    {NULL, SHARED, "ld.shared.u32 %r1, [s+1024];", 700, "4 bytes of static shared memory at 1024, of 1024"},
    {NULL, ".extern .shared .b8 s[];", "ld.shared.u32 %r1, [s];", 700, "dynamic shared memory at 0, of 0"},
    {NULL, "", ".local .align 4 .b8 depot[16];\nmov.u64 %d1, depot;\nld.local.u32 %r1, [%d1+16384];", 700, "local memory"},
    {NULL, "", "setp.lt.u32 %p1, %r0, 7;\n@%p1 bra A;\nbar.sync 0;\nA:", 715, "a divergent barrier: lanes ffffff80 of ffffffff"},
    {NULL, "", "bar.sync 1, 64;", 702, "waits at barrier 1 for warps that never come"},
    {NULL, "", "setp.lt.u32 %p1, %r0, 7;\n@%p1 bra A;\nshfl.sync.idx.b32 %r1, %r0, 0, 31, -128;\nA:", 715, "reads lane 0, which does not take part"},
    {NULL, "", "setp.lt.u32 %p1, %r0, 7;\n@%p1 bra A;\nshfl.sync.idx.b32 %r1, %r0, 9, 31, -1;\nA:", 715, "run by lanes ffffff80, but it names ffffffff"},
    {NULL, "", "trap;", 715, "a trap"},
    {NULL, "", "L: bra L;", 702, "more than 10000000 instructions: it hangs"},
    /* races: one warp's lanes without a barrier of the warp; two warps; a reader; the same word by different bytes; and with what orders them */
    {"races", SHARED, "mov.u32 %r1, s;\nst.shared.u32 [%r1], %r0;", 710, "a race: thread 0 wrote shared memory at 0"},
    {"races", SHARED, "mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nld.shared.u32 %r3, [%r1+4];", 710, "a race: thread 1 wrote"},
    {"races", SHARED, "mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nbar.warp.sync -1;\nld.shared.u32 %r3, [%r1+4];", 0, NULL},
    {"races", SHARED, "mov.u32 %r1, s;\nadd.u32 %r2, %r0, %r1;\nst.shared.u8 [%r2], %h1;\nbar.sync 0;\nld.shared.u8 %h2, [%r1];\nbar.sync 0;\nst.shared.u8 [%r2], %h1;", 0, NULL},
    {"races", SHARED, "mov.u32 %r1, s;\nld.shared.u32 %r3, [%r1];\nsetp.ne.u32 %p1, %r0, 3;\n@%p1 bra A;\nst.shared.u32 [%r1], %r0;\nA:", 710, "read shared memory"},
    {"races", SHARED, "atom.shared.add.u32 %r1, [s], 1;", 0, NULL},
    {"uninitialised", SHARED, "ld.shared.u32 %r1, [s+4];", 710, "shared memory at 4 that nothing has written"},
    {"uninitialised", "", "ld.global.u32 %r1, [%d31];", 710, "that nothing has written"},
    {"uninitialised", "", "ld.global.u32 %r1, [%d30];\nst.global.u32 [%d31], %r1;\nld.global.u32 %r2, [%d31];", 0, NULL},
    {"uninitialised", SHARED, "mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 4, %r1;\ncp.async.ca.shared.global [%r2], [%d30], 4;\ncp.async.wait_all;\nld.shared.u32 %r3, [%r2];", 0, NULL},
};
enum { N_FAULTS = sizeof faults / sizeof faults[0] };

START_TEST(faults_say_what_and_where) {
  const fault_row *x = &faults[_i];
  uint32_t *in = calloc(1024, 4), *out = calloc(128, 4);
  char *text = test_module(x->declarations, x->body);
  ck_assert(in && out);
  test_checks(x->checks);
  test_run r = {.in = in, .in_bytes = 4096, .out = out, .out_bytes = 512};
  bool ok = test_execute(text, &r);
  ck_assert_msg(r.fault.code == x->code && ok == (x->code == 0), "%s\nfault %d: %s", x->body, r.fault.code, r.fault.text);
  if (x->says) ck_assert_msg(strstr(r.fault.text, x->says), "\"%s\" is expected in \"%s\"", x->says, r.fault.text);
  if (x->says) ck_assert_msg(strncmp(r.fault.text, "k, block 0,0,0, thread ", 23) == 0 && strstr(r.fault.text, "(PTX line "), "%s", r.fault.text);
  test_checks(NULL);
  free(text);
  free(in);
  free(out);
}
END_TEST

/* Two warps: the second overwrites what the first may still read. */
START_TEST(a_missing_barrier_between_warps_is_a_race) {
  for (int with = 0; with < 2; with++) {
    char body[400];
    uint32_t out[64] = {0};
    snprintf(body, sizeof body, "mov.u32 %%r1, s;\nxor.b32 %%r3, %%r0, 32;\nmad.lo.u32 %%r2, %%r0, 4, %%r1;\nst.shared.u32 [%%r2], %%r0;\n%s\nmad.lo.u32 %%r2, %%r3, 4, %%r1;\nld.shared.u32 %%r9, [%%r2];", with ? "bar.sync 0;" : "");
    char *text = test_module(SHARED, body);
    test_checks("races");
    test_run r = {.threads = 64, .out = out, .out_bytes = sizeof out};
    ck_assert_int_eq(test_execute(text, &r), with);
    if (!with) ck_assert_ptr_nonnull(strstr(r.fault.text, "a race"));
    test_checks(NULL);
    free(text);
  }
}
END_TEST

typedef struct traffic_row { const char *body; uint32_t load_sectors, store_sectors, wavefronts, shared_ideal; } traffic_row;
static const traffic_row traffics[] = {
    {"mul.wide.u32 %d1, %r0, 4;\nadd.s64 %d1, %d30, %d1;\nld.global.u32 %r1, [%d1];", 4, 0, 0, 0},
    {"mul.wide.u32 %d1, %r0, 16;\nadd.s64 %d1, %d30, %d1;\nld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];", 16, 0, 0, 0},
    {"mul.wide.u32 %d1, %r0, 32;\nadd.s64 %d1, %d30, %d1;\nld.global.u32 %r1, [%d1];", 32, 0, 0, 0},
    {"ld.global.u32 %r1, [%d30];", 1, 0, 0, 0},
    {"mul.wide.u32 %d1, %r0, 4;\nadd.s64 %d1, %d30, %d1;\nld.global.u32 %r1, [%d1+4];", 5, 0, 0, 0},
    {"mul.wide.u32 %d1, %r0, 4;\nadd.s64 %d1, %d31, %d1;\nst.global.u32 [%d1], %r0;", 0, 4, 0, 0},
    {"mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;", 0, 0, 1, 1},
    {"mov.u32 %r1, s;\nld.shared.u32 %r2, [%r1];", 0, 0, 1, 1},
    {"mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 128, %r1;\nst.shared.u32 [%r2], %r0;", 0, 0, 32, 1},
    {"mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 132, %r1;\nst.shared.u32 [%r2], %r0;", 0, 0, 1, 1},
    {"mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 8, %r1;\nst.shared.u32 [%r2], %r0;", 0, 0, 2, 1},
    {"mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 16, %r1;\nst.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};", 0, 0, 4, 4},
    {"mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 8, %r1;\nst.shared.v2.u32 [%r2], {%r0, %r0};", 0, 0, 2, 2},
};
enum { N_TRAFFICS = sizeof traffics / sizeof traffics[0] };

START_TEST(traffic_is_counted) {
  const traffic_row *x = &traffics[_i];
  uint32_t *in = calloc(1024, 4), out[32] = {0};
  ck_assert_ptr_nonnull(in);
  char *text = test_module(".shared .align 16 .b8 s[8192];", x->body);
  test_run r = {.in = in, .in_bytes = 4096, .out = out, .out_bytes = sizeof out};
  ck_assert_msg(test_execute(text, &r), "%s", r.fault.text);
  ck_assert_msg(r.counters.global_load_sectors == x->load_sectors, "%s: %d sectors", x->body, (int)r.counters.global_load_sectors);
  ck_assert_msg(r.counters.global_store_sectors == x->store_sectors, "%s: %d sectors", x->body, (int)r.counters.global_store_sectors);
  ck_assert_msg(r.counters.shared_wavefronts == x->wavefronts, "%s: %d wavefronts", x->body, (int)r.counters.shared_wavefronts);
  ck_assert_msg(r.counters.shared_ideal == x->shared_ideal, "%s: at best %d wavefronts", x->body, (int)r.counters.shared_ideal);
  ck_assert_uint_eq(r.counters.launches, 1);
  free(text);
  free(in);
}
END_TEST

Suite *check_suite(void) {
  Suite *s = suite_create("checks");
  TCase *t = tcase_create("checks");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, faults_say_what_and_where, 0, N_FAULTS);
  tcase_add_test(t, a_missing_barrier_between_warps_is_a_race);
  tcase_add_loop_test(t, traffic_is_counted, 0, N_TRAFFICS);
  suite_add_tcase(s, t);
  return s;
}
