/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Lanes that part, barriers, lanes that talk to each other, memory of every kind, calls. Each kernel writes a u32 a thread, of which the test knows a formula. */
#include "test_emulator.h"

typedef struct row {
  const char *name, *declarations, *body; /* the result in %r9 */
  uint32_t threads, shared;
  uint32_t (*want)(uint32_t t);
} row;

static uint32_t w_if(uint32_t t) { return t < 5 ? t % 2 ? 11 : 10 : 20; }
static uint32_t w_loop(uint32_t t) { return t * (t + 1) / 2; }
static uint32_t w_break(uint32_t t) { return t % 7 < 3 ? t % 7 : 100; }
static uint32_t w_reverse(uint32_t t) { return 127 - t; }
static uint32_t w_half(uint32_t t) { return t < 64 ? 63 - t : 1000 + t; }
static uint32_t w_down(uint32_t t) { return t % 32 + 4 < 32 ? t + 4 : t; }
static uint32_t w_up(uint32_t t) { return t % 32 >= 3 ? t - 3 : t; }
static uint32_t w_bfly(uint32_t t) { return (t ^ 16) * 2 + 1; }
static uint32_t w_segment(uint32_t t) { return t / 8 * 8 + 2; }
static uint32_t w_ballot(uint32_t t) { return t < 32 ? 0x49249249u : 0x92492492u; }
static uint32_t w_vote(uint32_t t) { return t < 32 ? 5 : 4; }
static uint32_t w_match(uint32_t t) { return 0x11111111u << (t % 4); }
static uint32_t w_redux(uint32_t t) { return t / 32 * 32 + 31; }
static uint32_t w_sum(uint32_t t) { return (void)t, 64 * 63 / 2; }
static uint32_t w_local(uint32_t t) { return 3 * t + 7; }
static uint32_t w_table(uint32_t t) { return t % 4 * 10 + 1; }
static uint32_t w_call(uint32_t t) { return t < 40 ? 2 * t + 1 : 7; }
static uint32_t w_pair(uint32_t t) { return t * t + (t + 5); }
static uint32_t w_switch(uint32_t t) { return t % 3 == 0 ? 100 : t % 3 == 1 ? 200 : 300; }
static uint32_t w_vector(uint32_t t) { return (t ^ 1) * 4 + 2; }
static uint32_t w_async(uint32_t t) { return 4 * t + 3; }
static uint32_t w_zero(uint32_t t) { return (void)t, 0; }
static uint32_t w_atomic(uint32_t t) { return t == 0 ? 64 : 1; }
static uint32_t w_cas(uint32_t t) { return (void)t, 64; }
static uint32_t w_elect(uint32_t t) { return t % 32 == 4 ? 1 : 0; }
static uint32_t w_special(uint32_t t) { return (t % 32) | (t / 32) << 8 | 2u << 16; }
static uint32_t w_arrive(uint32_t t) { return t < 32 ? 1032 + t : 0; }

static const row rows[] = {
    {"nested branches", "",
     "setp.ge.u32 %p1, %r0, 5;\n@%p1 bra A;\nand.b32 %r1, %r0, 1;\nsetp.eq.s32 %p2, %r1, 0;\n@%p2 bra B;\nmov.u32 %r9, 11;\nbra C;\nB: mov.u32 %r9, 10;\nbra C;\nA: mov.u32 %r9, 20;\nC:", 32, 0, w_if},
    {"loops of different lengths", "", "mov.u32 %r9, 0;\nmov.u32 %r1, 0;\nL: add.s32 %r9, %r9, %r1;\nadd.s32 %r1, %r1, 1;\nsetp.le.u32 %p1, %r1, %r0;\n@%p1 bra L;", 64, 0, w_loop},
    {"ways out of a loop", "",
     "rem.u32 %r2, %r0, 7;\nmov.u32 %r1, 0;\nL: setp.eq.u32 %p1, %r1, %r2;\n@%p1 bra FOUND;\nadd.s32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 3;\n@%p2 bra L;\nmov.u32 %r9, 100;\nbra END;\nFOUND: mov.u32 %r9, %r1;\nEND:",
     32, 0, w_break},
    {"a barrier", ".extern .shared .align 16 .b8 s[];",
     "mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nbar.sync 0;\nsub.u32 %r3, 127, %r0;\nmad.lo.u32 %r2, %r3, 4, %r1;\nld.shared.u32 %r9, [%r2];", 128, 512, w_reverse},
    {"a barrier of some warps", ".shared .align 16 .b8 s[256];",
     "setp.ge.u32 %p1, %r0, 64;\nadd.u32 %r9, %r0, 1000;\n@%p1 bra END;\nmov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nbar.sync 1, 64;\nsub.u32 %r3, 63, %r0;\nmad.lo.u32 %r2, %r3, 4, %r1;\n"
     "ld.shared.u32 %r9, [%r2];\nEND:",
     128, 0, w_half},
    {"arriving without waiting", ".shared .align 16 .b8 s[256];",
     "mov.u32 %r9, 0;\nmov.u32 %r1, s;\nsetp.ge.u32 %p1, %r0, 32;\n@%p1 bra GIVE;\nbar.sync 2, 64;\nmad.lo.u32 %r2, %r0, 4, %r1;\nld.shared.u32 %r9, [%r2];\nbra END;\n"
     "GIVE: mad.lo.u32 %r2, %r0, 4, %r1;\nadd.u32 %r3, %r0, 1000;\nst.shared.u32 [%r2+-128], %r3;\nbar.arrive 2, 64;\nEND:",
     64, 0, w_arrive},
    {"shfl down", "", "shfl.sync.down.b32 %r9|%p1, %r0, 4, 31, -1;", 64, 0, w_down},
    {"shfl up", "", "shfl.sync.up.b32 %r9|%p1, %r0, 3, 0, -1;", 64, 0, w_up},
    {"shfl bfly", "", "mad.lo.u32 %r1, %r0, 2, 1;\nshfl.sync.bfly.b32 %r9, %r1, 16, 31, -1;", 32, 0, w_bfly},
    {"shfl in segments of eight", "", "shfl.sync.idx.b32 %r9, %r0, 2, 0x181f, -1;", 32, 0, w_segment},
    {"a ballot", "", "rem.u32 %r1, %r0, 3;\nsetp.eq.u32 %p1, %r1, 0;\nvote.sync.ballot.b32 %r9, %p1, -1;", 64, 0, w_ballot},
    {"votes", "",
     "setp.lt.u32 %p1, %r0, 32;\nvote.sync.all.pred %p2, %p1, -1;\nvote.sync.any.pred %p3, !%p1, -1;\nvote.sync.uni.pred %p4, %p1, -1;\nselp.b32 %r9, 1, 0, %p2;\nselp.b32 %r1, 4, 0, %p4;\nor.b32 %r9, %r9, %r1;\n"
     "setp.eq.s32 %p5, %r9, 99;\n@%p5 bra END;\nEND:", 64, 0, w_vote},
    {"a match", "", "and.b32 %r1, %r0, 3;\nmatch.any.sync.b32 %r9, %r1, -1;", 32, 0, w_match},
    {"a reduction", "", "redux.sync.max.u32 %r9, %r0, -1;", 64, 0, w_redux},
    {"atomics on shared memory", ".shared .align 4 .b8 s[4];",
     "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra A;\nst.shared.u32 [s], 0;\nA: bar.sync 0;\nred.shared.add.u32 [s], %r0;\nbar.sync 0;\nld.shared.u32 %r9, [s];", 64, 0, w_sum},
    {"atomics on global memory", "", "atom.global.add.u32 %r1, [%d31], 1;\nbar.sync 0;\nmov.u32 %r9, 1;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra END;\nld.global.u32 %r9, [%d31];\nEND: bar.sync 0;", 64, 0, w_atomic},
    {"compare and swap, lanes in turn", ".shared .align 4 .b8 s[4];",
     "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra A;\nst.shared.u32 [s], 0;\nA: bar.sync 0;\nL: ld.volatile.shared.u32 %r1, [s];\nadd.u32 %r2, %r1, 1;\natom.shared.cas.b32 %r3, [s], %r1, %r2;\nsetp.ne.u32 %p2, %r3, %r1;\n"
     "@%p2 bra L;\nbar.sync 0;\nld.shared.u32 %r9, [s];",
     64, 0, w_cas},
    {"local memory through a generic address", "",
     ".local .align 8 .b8 depot[64];\nmov.u64 %d1, depot;\ncvta.local.u64 %d2, %d1;\nand.b32 %r1, %r0, 7;\nmul.wide.u32 %d3, %r1, 4;\nadd.s64 %d4, %d2, %d3;\nmad.lo.u32 %r2, %r0, 3, 7;\nst.u32 [%d4+8], %r2;\nadd.s64 %d5, %d1, %d3;\n"
     "ld.local.u32 %r9, [%d5+8];",
     64, 0, w_local},
    {"a table in constant memory", ".const .align 4 .u32 table[4] = {1, 11, 21, 31};", "and.b32 %r1, %r0, 3;\nmul.wide.u32 %d1, %r1, 4;\nmov.u64 %d2, table;\nadd.s64 %d1, %d1, %d2;\nld.const.u32 %r9, [%d1];", 32, 0, w_table},
    {"a call by some lanes",
     ".func (.param .b32 back) f(.param .b32 x)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\nld.param.u32 %r1, [x];\nsetp.gt.u32 %p1, %r1, 35;\nadd.u32 %r2, %r1, %r1;\n@%p1 bra BIG;\nst.param.b32 [back], %r2;\nret;\nBIG: st.param.b32 [back+0], "
     "%r2;\nret;\n}",
     "mov.u32 %r9, 6;\nsetp.ge.u32 %p1, %r0, 40;\n@%p1 bra END;\n{\n.reg .b32 temp_param_reg;\n.param .b32 param0;\nst.param.b32 [param0+0], %r0;\n.param .b32 retval0;\ncall.uni (retval0),\nf,\n(\nparam0\n);\nld.param.b32 %r9, "
     "[retval0+0];\n}\nEND: add.u32 %r9, %r9, 1;",
     64, 0, w_call},
    {"a call that returns a pair, of a function that calls",
     ".func (.param .b32 b) square(.param .b32 a)\n{\n.reg .b32 %r<4>;\nld.param.u32 %r1, [a];\nmul.lo.u32 %r2, %r1, %r1;\nst.param.b32 [b], %r2;\nret;\n}\n"
     ".func (.param .align 8 .b8 back[16]) both(.param .b32 x, .param .b32 y)\n{\n.reg .b32 %r<8>;\nld.param.u32 %r1, [x];\nld.param.u32 %r2, [y];\n{\n.param .b32 p0;\nst.param.b32 [p0], %r1;\n.param .b32 q0;\ncall (q0), square, (p0);\n"
     "ld.param.b32 %r3, [q0];\n}\nadd.u32 %r4, %r1, %r2;\nst.param.b32 [back+0], %r3;\nst.param.b32 [back+8], %r4;\nret;\n}",
     "mov.u32 %r2, 5;\n{\n.param .b32 param0;\nst.param.b32 [param0], %r0;\n.param .b32 param1;\nst.param.b32 [param1], %r2;\n.param .align 8 .b8 retval0[16];\ncall.uni (retval0), both, (param0, param1);\nld.param.b32 %r3, "
     "[retval0];\nld.param.b32 %r4, [retval0+8];\n}\nadd.u32 %r9, %r3, %r4;",
     64, 0, w_pair},
    {"a jump through a table", "", "rem.u32 %r1, %r0, 3;\nts: .branchtargets A, B, C;\nbrx.idx %r1, ts;\nA: mov.u32 %r9, 100;\nbra END;\nB: mov.u32 %r9, 200;\nbra END;\nC: mov.u32 %r9, 300;\nEND:", 32, 0, w_switch},
    {"vectors through shared memory", ".shared .align 16 .b8 s[1024];",
     "mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 16, %r1;\nshl.b32 %r3, %r0, 2;\nadd.u32 %r4, %r3, 1;\nadd.u32 %r5, %r3, 2;\nadd.u32 %r6, %r3, 3;\nst.shared.v4.u32 [%r2], {%r3, %r4, %r5, %r6};\nbar.warp.sync -1;\nxor.b32 %r7, %r0, 1;\n"
     "mad.lo.u32 %r2, %r7, 16, %r1;\nld.shared.v2.u32 {%r9, _}, [%r2+8];",
     64, 0, w_vector},
    {"asynchronous copies", ".shared .align 16 .b8 s[1024];",
     "mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 16, %r1;\nmul.wide.u32 %d1, %r0, 16;\nadd.s64 %d1, %d30, %d1;\ncp.async.cg.shared.global [%r2], [%d1], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 %r9, [%r2+12];", 64, 0,
     w_async},
    {"an asynchronous copy of nothing gives zeros", ".shared .align 16 .b8 s[1024];",
     "mov.u32 %r1, s;\nmad.lo.u32 %r2, %r0, 16, %r1;\nmov.u32 %r3, 0;\nmov.u64 %d1, 64;\ncp.async.ca.shared.global [%r2], [%d1], 4, %r3;\ncp.async.wait_all;\nld.shared.u32 %r9, [%r2];", 64, 0, w_zero},
    {"an election", "", "mov.u32 %r9, 0;\nand.b32 %r1, %r0, 31;\nsetp.lt.u32 %p1, %r1, 4;\n@%p1 bra END;\nelect.sync _|%p2, -16;\nselp.b32 %r9, 1, 0, %p2;\nEND:", 64, 0, w_elect},
    {"special registers", "", "mov.u32 %r1, %laneid;\nmov.u32 %r2, %warpid;\nmov.u32 %r3, %nwarpid;\nshl.b32 %r2, %r2, 8;\nshl.b32 %r3, %r3, 16;\nor.b32 %r9, %r1, %r2;\nor.b32 %r9, %r9, %r3;", 64, 0, w_special},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

START_TEST(rows_hold) {
  const row *x = &rows[_i];
  uint32_t in[1024], out[128] = {0};
  char *body = malloc(strlen(x->body) + 200);
  ck_assert_ptr_nonnull(body);
  sprintf(body, "%s\n mul.wide.u32 %%d29, %%r0, 4;\n add.s64 %%d31, %%d31, %%d29;\n st.global.u32 [%%d31], %%r9;", x->body);
  char *text = test_module(x->declarations, body);
  for (uint32_t k = 0; k < 1024; k++) in[k] = k;
  test_checks("races,uninitialised");
  test_run r = {.threads = x->threads, .shared = x->shared, .in = in, .in_bytes = sizeof in, .out = out, .out_bytes = sizeof out};
  if (strstr(x->name, "global memory")) test_checks("races"); /* it counts in memory that the host gave */
  ck_assert_msg(test_execute(text, &r), "%s: %s", x->name, r.fault.text);
  for (uint32_t t = 0; t < x->threads; t++) ck_assert_msg(out[t] == x->want(t), "%s: thread %u has %u, not %u", x->name, t, out[t], x->want(t));
  test_checks(NULL);
  free(text);
  free(body);
}
END_TEST

/* Blocks are shared by threads of the host; each runs once. */
START_TEST(every_block_runs_once) {
  enum { BLOCKS = 3000 };
  uint32_t *out = calloc(BLOCKS, 4), in[1] = {0};
  ck_assert_ptr_nonnull(out);
  char *text = test_module("", "mov.u32 %r1, 0;\nL: add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 100;\n@%p1 bra L;\nmov.u32 %r2, %ctaid.x;\nmul.wide.u32 %d1, %r2, 4;\nadd.s64 %d1, %d31, %d1;\nred.global.add.u32 [%d1], 1;");
  test_run r = {.blocks = BLOCKS, .in = in, .in_bytes = 4, .out = out, .out_bytes = BLOCKS * 4};
  ck_assert_msg(test_execute(text, &r), "%s", r.fault.text);
  for (int k = 0; k < BLOCKS; k++) ck_assert_uint_eq(out[k], 32);
  ck_assert_uint_eq(r.counters.blocks, BLOCKS);
  free(text);
  free(out);
}
END_TEST

Suite *warp_suite(void) {
  Suite *s = suite_create("warps");
  TCase *t = tcase_create("warps");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, rows_hold, 0, N_ROWS);
  tcase_add_test(t, every_block_runs_once);
  suite_add_tcase(s, t);
  return s;
}
