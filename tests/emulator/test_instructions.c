/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Each instruction of registers on values that its manual's small print is about: by all lanes, and by some. */
#include "test_emulator.h"

/* The instruction reads %r1 %r2 %r3 %r4 (or %h, %f, %d, %fd of the same numbers) and writes register 9 of `kind`: r h f d e (%fd) p. */
typedef struct row { char kind; const char *text; uint64_t in[4], want; } row;

static const row rows[] = {
    /* integers */
    {'r', "add.s32 %r9, %r1, %r2;", {0x7fffffff, 1}, 0x80000000},
    {'h', "add.s16 %h9, %h1, %h2;", {0xffff, 2}, 1},
    {'d', "add.s64 %d9, %d1, %d2;", {UINT64_MAX, 2}, 1},
    {'r', "add.sat.s32 %r9, %r1, %r2;", {0x7fffffff, 1}, 0x7fffffff},
    {'r', "sub.s32 %r9, %r1, 7;", {3}, 0xfffffffc},
    {'r', "sub.sat.s32 %r9, %r1, %r2;", {0x80000000, 1}, 0x80000000},
    {'r', "mul.lo.s32 %r9, %r1, %r2;", {0x10001, 0x10001}, 0x20001},
    {'r', "mul.hi.u32 %r9, %r1, %r2;", {0xffffffff, 0xffffffff}, 0xfffffffe},
    {'r', "mul.hi.s32 %r9, %r1, %r2;", {0xffffffff, 2}, 0xffffffff},
    {'d', "mul.hi.u64 %d9, %d1, %d2;", {UINT64_MAX, UINT64_MAX}, UINT64_MAX - 1},
    {'d', "mul.hi.s64 %d9, %d1, %d2;", {UINT64_MAX, 5}, UINT64_MAX},
    {'d', "mul.lo.s64 %d9, %d1, %d2;", {1ull << 40, 1ull << 30}, 0},
    {'d', "mul.wide.s32 %d9, %r1, %r2;", {0xffffffff, 3}, (uint64_t)-3},
    {'d', "mul.wide.u32 %d9, %r1, %r2;", {0xffffffff, 3}, 0x2fffffffdull},
    {'r', "mul.wide.u16 %r9, %h1, %h2;", {0xffff, 0xffff}, 0xfffe0001},
    {'r', "mul.wide.s16 %r9, %h1, %h2;", {0xffff, 2}, 0xfffffffe},
    {'r', "mad.lo.s32 %r9, %r1, %r2, %r3;", {5, 6, 7}, 37},
    {'d', "mad.wide.u32 %d9, %r1, %r2, %d3;", {0xffffffff, 2, 5}, 0x200000003ull},
    {'d', "mad.wide.s32 %d9, %r1, %r2, %d3;", {0xffffffff, 2, 5}, 3},
    {'r', "mad.hi.u32 %r9, %r1, %r2, %r3;", {0x80000000, 4, 1}, 3},
    {'r', "div.s32 %r9, %r1, %r2;", {(uint32_t)-7, 2}, (uint32_t)-3},
    {'r', "div.s32 %r9, %r1, %r2;", {0x80000000, 0xffffffff}, 0x80000000},
    {'r', "div.u32 %r9, %r1, %r2;", {7, 0}, 0xffffffff},
    {'d', "div.s64 %d9, %d1, %d2;", {(uint64_t)-9, 4}, (uint64_t)-2},
    {'r', "rem.s32 %r9, %r1, %r2;", {(uint32_t)-7, 2}, (uint32_t)-1},
    {'r', "rem.u32 %r9, %r1, %r2;", {7, 4}, 3},
    {'d', "rem.s64 %d9, %d1, %d2;", {1ull << 63, UINT64_MAX}, 0},
    {'r', "min.s32 %r9, %r1, %r2;", {0xffffffff, 1}, 0xffffffff},
    {'r', "min.u32 %r9, %r1, %r2;", {0xffffffff, 1}, 1},
    {'d', "max.s64 %d9, %d1, %d2;", {UINT64_MAX, 1}, 1},
    {'h', "max.s16 %h9, %h1, %h2;", {0x8000, 1}, 1},
    {'r', "abs.s32 %r9, %r1;", {0xfffffffb}, 5},
    {'d', "neg.s64 %d9, %d1;", {5}, (uint64_t)-5},
    {'r', "sad.s32 %r9, %r1, %r2, %r3;", {0xfffffffe, 3, 10}, 15},
    {'r', "dp4a.s32.s32 %r9, %r1, %r2, %r3;", {0xff020304, 0x01010101, 100}, 108},
    {'r', "dp4a.u32.u32 %r9, %r1, %r2, %r3;", {0xff020304, 0x01010101, 100}, 364},
    {'r', "add.cc.u32 %r5, %r1, %r2;\n addc.u32 %r9, %r3, %r4;", {0xffffffff, 1, 7, 8}, 16},
    {'r', "add.cc.u32 %r5, %r1, %r2;\n addc.u32 %r9, %r3, %r4;", {0xfffffffe, 1, 7, 8}, 15},
    {'r', "sub.cc.u32 %r5, %r1, %r2;\n subc.u32 %r9, %r3, %r4;", {0, 1, 10, 3}, 6},
    {'r', "mad.lo.cc.u32 %r5, %r1, %r2, %r3;\n madc.hi.u32 %r9, %r1, %r2, %r4;", {0xffffffff, 0xffffffff, 0xffffffff, 1}, 0x100000000ull},
    /* bits */
    {'r', "and.b32 %r9, %r1, %r2;", {0xff00, 0x0ff0}, 0x0f00},
    {'d', "or.b64 %d9, %d1, %d2;", {1ull << 63, 1}, (1ull << 63) | 1},
    {'h', "xor.b16 %h9, %h1, %h2;", {0xffff, 0x00ff}, 0xff00},
    {'r', "not.b32 %r9, %r1;", {0xf0}, 0xffffff0f},
    {'r', "cnot.b32 %r9, %r1;", {0}, 1},
    {'r', "shl.b32 %r9, %r1, %r2;", {1, 31}, 0x80000000},
    {'r', "shl.b32 %r9, %r1, %r2;", {1, 32}, 0},
    {'r', "shr.u32 %r9, %r1, %r2;", {0x80000000, 31}, 1},
    {'r', "shr.s32 %r9, %r1, %r2;", {0x80000000, 40}, 0xffffffff},
    {'d', "shr.s64 %d9, %d1, %r2;", {1ull << 63, 63}, UINT64_MAX},
    {'d', "shl.b64 %d9, %d1, 40;", {3}, 3ull << 40},
    {'r', "popc.b64 %r9, %d1;", {0xff00ff00ff00ff00ull}, 32},
    {'r', "clz.b32 %r9, %r1;", {0}, 32},
    {'r', "clz.b64 %r9, %d1;", {1}, 63},
    {'r', "bfind.u32 %r9, %r1;", {0x00010000}, 16},
    {'r', "bfind.s32 %r9, %r1;", {0xffffffff}, 0xffffffff},
    {'r', "brev.b32 %r9, %r1;", {1}, 0x80000000},
    {'r', "bfe.u32 %r9, %r1, 4, 8;", {0xabcdef12}, 0xf1},
    {'r', "bfe.s32 %r9, %r1, 4, 8;", {0xabcdef12}, 0xfffffff1},
    {'r', "bfe.s32 %r9, %r1, 28, 8;", {0x80000000}, 0xfffffff8},
    {'r', "bfi.b32 %r9, %r1, %r2, 8, 8;", {0xab, 0x11223344}, 0x1122ab44},
    {'d', "bfi.b64 %d9, %d1, %d2, 60, 8;", {0xff, 0}, 0xf000000000000000ull},
    {'r', "prmt.b32 %r9, %r1, %r2, 0x7531;", {0x33221100, 0x77665544}, 0x77553311},
    {'r', "prmt.b32 %r9, %r1, %r2, 0x0008;", {0x80, 0}, 0x808080ff},
    {'r', "lop3.b32 %r9, %r1, %r2, %r3, 0x96;", {0xf0f0, 0xff00, 0xaaaa}, 0xf0f0 ^ 0xff00 ^ 0xaaaa},
    {'r', "lop3.b32 %r9, %r1, %r2, %r3, 0xea;", {0xf0f0, 0xff00, 0xaaaa}, (0xf0f0 & 0xff00) | 0xaaaa},
    {'r', "shf.l.wrap.b32 %r9, %r1, %r2, %r3;", {0x80000000, 1, 33}, 3},
    {'r', "shf.r.wrap.b32 %r9, %r1, %r2, %r3;", {0x80000000, 1, 1}, 0xc0000000},
    {'r', "shf.r.clamp.b32 %r9, %r1, %r2, %r3;", {0x80000000, 7, 40}, 7},
    /* moves and choices */
    {'r', "setp.lt.s32 %p1, %r1, %r2;\n selp.b32 %r9, %r1, %r2, %p1;", {0xffffffff, 1}, 0xffffffff},
    {'r', "setp.lt.u32 %p1, %r1, %r2;\n selp.b32 %r9, %r1, %r2, %p1;", {0xffffffff, 1}, 1},
    {'d', "mov.b64 %d9, {%r1, %r2};", {1, 2}, 0x200000001ull},
    {'r', "mov.b64 {_, %r9}, %d1;", {0x500000006ull}, 5},
    {'r', "mov.b32 {%h8, %h7}, %r1;\n mov.b32 %r9, {%h7, %h8};", {0x00010002}, 0x00020001},
    /* predicates */
    {'p', "setp.eq.s64 %p9, %d1, %d2;", {1ull << 40, 1ull << 40}, 1},
    {'p', "setp.gt.and.s32 %p9, %r1, %r2, %p0;", {2, 1}, 0},
    {'p', "setp.gt.or.s32 %p9|%p8, %r1, %r2, !%p0;", {1, 2}, 1},
    {'p', "setp.ne.s16 %p9, %h1, %h2;", {0x10001, 1}, 0},
    {'p', "setp.lt.f32 %p9, %f1, %f2;", {0x7fc00000, 0}, 0},
    {'p', "setp.ltu.f32 %p9, %f1, %f2;", {0x7fc00000, 0}, 1},
    {'p', "setp.neu.f32 %p9, %f1, %f2;", {0x7fc00000, 0x7fc00000}, 1},
    {'p', "setp.ne.f32 %p9, %f1, %f2;", {0x7fc00000, 0}, 0},
    {'p', "setp.equ.f64 %p9, %fd1, %fd2;", {0x7ff8000000000000ull, 0}, 1},
    {'p', "setp.nan.f32 %p9, %f1, %f2;", {0x7fc00000, 0}, 1},
    {'p', "setp.num.f32 %p9, %f1, %f2;", {0x80000000, 0}, 1},
    {'p', "setp.eq.f32 %p9, %f1, %f2;", {0x80000000, 0}, 1},
    {'p', "testp.infinite.f32 %p9, %f1;", {0xff800000}, 1},
    {'p', "testp.finite.f32 %p9, %f1;", {0xff800000}, 0},
    /* floats */
    {'f', "add.f32 %f9, %f1, %f2;", {0x3f800000, 0x33800000}, 0x3f800000},
    {'f', "add.rz.f32 %f9, %f1, %f2;", {0x3f800000, 0x33ffffff}, 0x3f800000},
    {'f', "add.rp.f32 %f9, %f1, %f2;", {0x3f800000, 0x30000000}, 0x3f800001},
    {'f', "add.rm.f32 %f9, %f1, %f2;", {0xbf800000, 0xb0000000}, 0xbf800001},
    {'f', "add.sat.f32 %f9, %f1, %f2;", {0x3f800000, 0x3f800000}, 0x3f800000},
    {'f', "mul.ftz.f32 %f9, %f1, %f2;", {0x00400000, 0x40000000}, 0},
    {'f', "mul.f32 %f9, %f1, %f2;", {0x00400000, 0x40000000}, 0x00800000},
    {'f', "fma.rn.f32 %f9, %f1, %f2, %f3;", {0x3f800001, 0x3f800001, 0xbf800002}, 0x28800000},
    {'f', "fma.rm.f32 %f9, %f1, %f2, %f3;", {0x3f000000, 0x437c0000, 0x4b400001}, 0x4b40007f},
    {'e', "fma.rn.f64 %fd9, %fd1, %fd2, %fd3;", {0x3ff0000000000001ull, 0x3ff0000000000001ull, 0xbff0000000000002ull}, 0x3970000000000000ull},
    {'f', "div.rn.f32 %f9, %f1, %f2;", {0x3f800000, 0x40400000}, 0x3eaaaaab},
    {'f', "div.rz.f32 %f9, %f1, %f2;", {0x3f800000, 0x40400000}, 0x3eaaaaaa},
    {'f', "rcp.rn.f32 %f9, %f1;", {0x40400000}, 0x3eaaaaab},
    {'f', "sqrt.rn.f32 %f9, %f1;", {0x40000000}, 0x3fb504f3},
    {'f', "rsqrt.approx.f32 %f9, %f1;", {0x40800000}, 0x3f000000},
    {'f', "ex2.approx.ftz.f32 %f9, %f1;", {0x40400000}, 0x41000000},
    {'f', "lg2.approx.f32 %f9, %f1;", {0x41000000}, 0x40400000},
    {'f', "sin.approx.f32 %f9, %f1;", {0}, 0},
    {'f', "cos.approx.f32 %f9, %f1;", {0}, 0x3f800000},
    {'f', "tanh.approx.f32 %f9, %f1;", {0xff800000}, 0xbf800000},
    {'f', "min.f32 %f9, %f1, %f2;", {0x7fc00000, 0x40000000}, 0x40000000},
    {'f', "max.f32 %f9, %f1, %f2;", {0x80000000, 0}, 0},
    {'f', "min.f32 %f9, %f1, %f2;", {0x80000000, 0}, 0x80000000},
    {'f', "max.NaN.f32 %f9, %f1, %f2;", {0xffc00001, 0x40000000}, 0x7fffffff},
    {'e', "min.f64 %fd9, %fd1, %fd2;", {0x7ff8000000000000ull, 0x3ff0000000000000ull}, 0x3ff0000000000000ull},
    {'f', "neg.f32 %f9, %f1;", {0x3f800000}, 0xbf800000},
    {'f', "abs.ftz.f32 %f9, %f1;", {0x80000001}, 0},
    {'f', "copysign.f32 %f9, %f1, %f2;", {0xbf800000, 0x40000000}, 0xc0000000},
    {'e', "rcp.approx.ftz.f64 %fd9, %fd1;", {0x4000000000000000ull}, 0x3fe0000000000000ull},
    {'e', "sqrt.rn.f64 %fd9, %fd1;", {0x4010000000000000ull}, 0x4000000000000000ull},
    /* halves */
    {'h', "add.f16 %h9, %h1, %h2;", {0x3c00, 0x1000}, 0x3c00},
    {'h', "fma.rn.f16 %h9, %h1, %h2, %h3;", {0x3c01, 0x3c01, 0xbc02}, 0x0010},
    {'r', "add.f16x2 %r9, %r1, %r2;", {0x3c004000, 0x3c003c00}, 0x40004200},
    {'r', "fma.rn.bf16x2 %r9, %r1, %r2, %r3;", {0x3f804000, 0x40003f80, 0x00003f80}, 0x40004040},
    {'r', "max.NaN.f16x2 %r9, %r1, %r2;", {0x7e003c00, 0x00004000}, 0x7fff4000},
    {'h', "neg.bf16 %h9, %h1;", {0x3f80}, 0xbf80},
    {'p', "setp.lt.f16 %p9, %h1, %h2;", {0xbc00, 0x3c00}, 1},
    /* conversions */
    {'r', "cvt.rni.s32.f32 %r9, %f1;", {0x3fc00000}, 2},
    {'r', "cvt.rni.s32.f32 %r9, %f1;", {0x40200000}, 2},
    {'r', "cvt.rzi.s32.f32 %r9, %f1;", {0xbff33333}, 0xffffffff},
    {'r', "cvt.rmi.s32.f32 %r9, %f1;", {0xbf000000}, 0xffffffff},
    {'r', "cvt.rzi.s32.f32 %r9, %f1;", {0x7fc00000}, 0},
    {'r', "cvt.rzi.s32.f32 %r9, %f1;", {0x7f800000}, 0x7fffffff},
    {'r', "cvt.rzi.u32.f32 %r9, %f1;", {0xbf800000}, 0},
    {'d', "cvt.rzi.s64.f64 %d9, %fd1;", {0x7ff8000000000000ull}, 1ull << 63},
    {'r', "cvt.rzi.u8.f32 %r9, %f1;", {0x43fa0000}, 255},
    {'f', "cvt.rn.f32.s32 %f9, %r1;", {0x01000001}, 0x4b800000},
    {'f', "cvt.rp.f32.s32 %f9, %r1;", {0x01000001}, 0x4b800001},
    {'f', "cvt.rn.f32.u64 %f9, %d1;", {0x8000008000000001ull}, 0x5f000001},
    {'f', "cvt.rn.f32.s64 %f9, %d1;", {(uint64_t)-3}, 0xc0400000},
    {'e', "cvt.rn.f64.u64 %fd9, %d1;", {UINT64_MAX}, 0x43f0000000000000ull},
    {'f', "cvt.rn.f32.f64 %f9, %fd1;", {0x3ff0000010000000ull}, 0x3f800000},
    {'f', "cvt.rz.f32.f64 %f9, %fd1;", {0x3fffffffffffffffull}, 0x3fffffff},
    {'h', "cvt.rn.f16.f32 %h9, %f1;", {0x477ff000}, 0x7c00},
    {'h', "cvt.rn.f16.f32 %h9, %f1;", {0x33000001}, 1},
    {'h', "cvt.rz.f16.f32 %h9, %f1;", {0x477ff000}, 0x7bff},
    {'f', "cvt.f32.f16 %f9, %h1;", {0x0001}, 0x33800000},
    {'h', "cvt.rn.bf16.f32 %h9, %f1;", {0x3f808000}, 0x3f80},
    {'h', "cvt.rn.bf16.f32 %h9, %f1;", {0x3f818000}, 0x3f82},
    {'f', "cvt.f32.bf16 %f9, %h1;", {0xbf80}, 0xbf800000},
    {'r', "cvt.rn.f16x2.f32 %r9, %f1, %f2;", {0x3f800000, 0x40000000}, 0x3c004000},
    {'r', "cvt.rn.bf16x2.f32 %r9, %f1, %f2;", {0x3f800000, 0x40000000}, 0x3f804000},
    {'r', "cvt.rna.tf32.f32 %r9, %f1;", {0x3f801000}, 0x3f802000},
    {'r', "cvt.s32.s8 %r9, %r1;", {0x1ff}, 0xffffffff},
    {'r', "cvt.u32.u8 %r9, %r1;", {0x1ff}, 0xff},
    {'r', "cvt.sat.s8.s32 %r9, %r1;", {300}, 127},
    {'r', "cvt.sat.u8.s32 %r9, %r1;", {(uint32_t)-5}, 0},
    {'d', "cvt.s64.s32 %d9, %r1;", {0x80000000}, 0xffffffff80000000ull},
    {'h', "cvt.u16.u64 %h9, %d1;", {0x123456789ull}, 0x6789},
    {'r', "cvt.s32.s16 %r9, %h1;", {0x8000}, 0xffff8000},
    {'f', "cvt.sat.f32.f32 %f9, %f1;", {0xbf800000}, 0},
    {'f', "cvt.rni.f32.f32 %f9, %f1;", {0x40200000}, 0x40000000},
    {'f', "cvt.rpi.f32.f32 %f9, %f1;", {0x3e000000}, 0x3f800000},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* The values in registers of every kind; then the instruction by all lanes, or by odd ones; then register 9 as 64 bits. */
static char *module_of(const row *x, bool some) {
  static const char prologue[] =
      "  mul.wide.u32 %d29, %r0, 32;\n  add.s64 %d30, %d30, %d29;\n  mul.wide.u32 %d28, %r0, 8;\n  add.s64 %d31, %d31, %d28;\n"
      "  ld.global.v2.u64 {%d1, %d2}, [%d30];\n  ld.global.v2.u64 {%d3, %d4}, [%d30+16];\n"
      "  cvt.u32.u64 %r1, %d1;\n  cvt.u32.u64 %r2, %d2;\n  cvt.u32.u64 %r3, %d3;\n  cvt.u32.u64 %r4, %d4;\n"
      "  cvt.u16.u64 %h1, %d1;\n  cvt.u16.u64 %h2, %d2;\n  cvt.u16.u64 %h3, %d3;\n"
      "  mov.b32 %f1, %r1;\n  mov.b32 %f2, %r2;\n  mov.b32 %f3, %r3;\n  mov.b64 %fd1, %d1;\n  mov.b64 %fd2, %d2;\n  mov.b64 %fd3, %d3;\n"
      "  setp.ne.s32 %p0, %r0, %r0;\n  and.b32 %r20, %r0, 1;\n  setp.eq.s32 %p15, %r20, 0;\n";
  static const char *const epilogues[] = {"rcvt.u64.u32 %d9, %r9;", "hcvt.u64.u16 %d9, %h9;", "fmov.b32 %r9, %f9;\n  cvt.u64.u32 %d9, %r9;", "d", "emov.b64 %d9, %fd9;", "pselp.u64 %d9, 1, 0, %p9;"};
  const char *epilogue = "";
  char body[4000];
  for (size_t k = 0; k < sizeof epilogues / sizeof epilogues[0]; k++) {
    if (epilogues[k][0] == x->kind) epilogue = epilogues[k] + 1;
  }
  snprintf(body, sizeof body, "%s%s  %s\n  %s\n  st.global.u64 [%%d31], %%d9;\nSKIP:", prologue, some ? "  @%p15 bra SKIP;\n" : "", x->text, epilogue);
  return test_module("", body);
}

START_TEST(rows_hold) {
  const row *x = &rows[_i];
  uint64_t in[32][4], out[32];
  for (int some = 0; some < 2; some++) {
    char *text = module_of(x, some);
    for (int l = 0; l < 32; l++) {
      memcpy(in[l], x->in, sizeof in[l]);
      out[l] = 77;
    }
    test_run r = {.in = in, .in_bytes = sizeof in, .out = out, .out_bytes = sizeof out};
    ck_assert_msg(test_execute(text, &r), "%s: %s", x->text, r.fault.text);
    for (int l = 0; l < 32; l++) {
      uint64_t want = some && l % 2 == 0 ? 77 : x->kind == 'd' || x->kind == 'e' ? x->want : x->want & 0xffffffff;
      ck_assert_msg(out[l] == want, "%s: lane %d has 0x%llx, not 0x%llx", x->text, l, (unsigned long long)out[l], (unsigned long long)want);
    }
    free(text);
  }
}
END_TEST

Suite *instruction_suite(void) {
  Suite *s = suite_create("instructions");
  TCase *t = tcase_create("instructions");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, rows_hold, 0, N_ROWS);
  suite_add_tcase(s, t);
  return s;
}
