/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The reader: what it refuses and how it says so; where lanes meet again; torn and mangled text. */
#include "test_emulator.h"

typedef struct refusal { const char *body, *message; } refusal;
static const refusal refusals[] = {
    {"wgmma.fence.sync.aligned;", "line 9: unknown instruction wgmma.fence.sync.aligned"},
    {"add.s32.bogus %r1, %r2, %r3;", "line 9: unknown instruction add.s32.bogus"},
    {"add.ftz.s32 %r1, %r2, %r3;", "unknown instruction add.ftz.s32"},
    {"add.s32 %r1, %r2;", "add.s32 has 3 operands, not 2"},
    {"add.s32 %r1, %r2, %d3;", "a register of 64 bits where 32 are wanted"},
    {"add.s64 %r1, %d2, %d3;", "a register of 32 bits for a result of 64"},
    {"add.s32 %r1, %r2, %r64;", "register %r64 is not declared"},
    {"add.s32 %r1, %q2, %r3;", "register %q2 is not declared"},
    {"bra NOWHERE;", "label NOWHERE is not there"},
    {"L:\nL:\n", "label L stands twice"},
    {"ld.global.v2.f32 {%f1}, [%d1];", "a vector of 2 is expected"},
    {"ld.global.u64 %r1, [%d1];", "a register of 32 bits for 64"},
    {"ld.global.f32 %f1, %d1;", "an address in brackets is expected"},
    {"ld.global.f32 %f1, [missing];", "missing is not declared"},
    {"call.uni missing;", "missing is not declared"},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};", "a fragment of 4 registers, not 3"},
    {"cp.async.ca.shared.global [%d1], [%d2], 5;", "copies 4, 8 or 16 bytes, not 5"},
    {".surface 3;", "unknown directive .surface"},
    {"add.s32 %r1, %r2, %r3", "';' is expected, not 'ret'"},
    {"mov.b32 %r1, 0x12G;", "'0x12G' is no number"},
};
enum { N_REFUSALS = sizeof refusals / sizeof refusals[0] };

START_TEST(refuses_by_name_and_line) {
  char *text = test_module("", refusals[_i].body), why[300] = "";
  emu_module *m;
  ck_assert(!emu_module_read(text, &m, why, sizeof why));
  ck_assert_ptr_null(m);
  ck_assert_msg(strncmp(why, "line ", 5) == 0 && strstr(why, refusals[_i].message), "%s: \"%s\" is expected in \"%s\"", refusals[_i].body, refusals[_i].message, why);
  free(text);
}
END_TEST

START_TEST(refuses_what_is_no_ptx) {
  static const char *const texts[] = {"", "hello", ".version 9.1\n.target sm_80\n", ".version 8.0\n", ".version 8.0\n.target x86\n", ".version 8.0\n.target sm_80\n.address_size 32\n",
                                      ".version 8.0\n.target sm_80\n.global .b32 x = {1, 2, 3;"};
  for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
    char why[200] = "";
    emu_module *m;
    ck_assert_msg(!emu_module_read(texts[k], &m, why, sizeof why), "%s", texts[k]);
    ck_assert_msg(why[0] != 0, "%s", texts[k]);
  }
}
END_TEST

static const char rich[] =
    ".version 9.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
    ".func (.param .b32 back) twice(.param .b32 x)\n{\n .reg .b32 %r<3>;\n ld.param.b32 %r1, [x];\n add.s32 %r2, %r1, %r1;\n st.param.b32 [back+0], %r2;\n ret;\n}\n"
    ".visible .entry k(.param .u64 a, .param .align 8 .b8 b[16])\n.maxntid 128, 1, 1\n{\n .reg .pred %p<3>;\n .reg .b32 %r<8>;\n .reg .b64 %rd<4>;\n .local .align 8 .b8 __local_depot0[32];\n"
    " .shared .align 4 .b8 tree[64];\n .loc 1 3 4, function_name $L__info_string0, inlined_at 1 9 2\n mov.u32 %r1, %tid.x;\n setp.lt.s32 %p1, %r1, 3;\n @!%p1 bra $L_1;\n"
    " { // callseq 0\n .param .b32 param0;\n st.param.b32 [param0+0], %r1;\n .param .b32 retval0;\n call.uni (retval0), twice, (param0);\n ld.param.b32 %r2, [retval0+0];\n }\n"
    "$L_1:\n st.shared.u32 [tree], %r2;\n ld.shared.u32 %r3, [dynamic+4];\n mov.u64 %rd1, table;\n ret;\n}\n .file 1 \"/x/kernel.cu\"\n .section .debug_str\n {\n$L__info_string0:\n.b8 1,2\n }\n";

START_TEST(declarations_become_places) {
  emu_module *m;
  char why[200] = "";
  ck_assert_msg(emu_module_read(rich, &m, why, sizeof why), "%s", why);
  const emu_function *f = emu_module_find(m, "k");
  ck_assert_ptr_nonnull(f);
  ck_assert_int_eq(m->version, 90);
  ck_assert_int_eq(m->target, 90);
  ck_assert(m->arch_specific);
  ck_assert_uint_eq(f->n_params, 2);
  ck_assert_uint_eq(f->params[1].offset, 8);
  ck_assert_uint_eq(f->param_bytes, 24);
  ck_assert_uint_eq(f->max_threads, 128);
  ck_assert_uint_eq(f->shared_bytes, 64);
  ck_assert_uint_eq(f->shared_grain, 4);
  ck_assert_uint_eq(f->code[0].source_line, 9); /* where the helper was inlined */
  ck_assert_ptr_null(emu_module_find(m, "twice"));
  ck_assert_uint_eq(m->n_globals, 1);
  emu_module_destroy(m);
}
END_TEST

/* Whatever is cut off or changed, the reader answers. */
START_TEST(survives_torn_and_mangled_text) {
  size_t n = strlen(rich);
  char *copy = malloc(n + 1), why[300];
  ck_assert_ptr_nonnull(copy);
  emu_module *m;
  for (size_t k = 0; k < n; k++) {
    memcpy(copy, rich, k);
    copy[k] = 0;
    if (emu_module_read(copy, &m, why, sizeof why)) emu_module_destroy(m);
  }
  uint32_t random = 12345;
  for (int k = 0; k < 4000; k++) {
    memcpy(copy, rich, n + 1);
    for (int j = 0; j < 3; j++) {
      random = random * 1664525u + 1013904223u;
      copy[(random >> 8) % n] = "{}[]();,.%$@!|0123456789abcxyz \n"[random >> 27];
    }
    if (emu_module_read(copy, &m, why, sizeof why)) emu_module_destroy(m);
  }
  free(copy);
}
END_TEST

/* Where the lanes of the k-th branch meet, as an instruction's number. */
static uint32_t meeting(const char *body, uint32_t k) {
  char *text = test_module("", body), why[200] = "";
  emu_module *m;
  ck_assert_msg(emu_module_read(text, &m, why, sizeof why), "%s", why);
  const emu_function *f = emu_module_find(m, "k");
  uint32_t at = EMU_NOWHERE;
  for (uint32_t i = 0; i < f->n; i++) {
    if (f->code[i].kind == EMU_BRANCH && k-- == 0) at = f->code[i].meet;
  }
  emu_module_destroy(m);
  free(text);
  return at;
}

START_TEST(branches_meet_at_the_post_dominator) {
  /* three instructions come first */
  ck_assert_uint_eq(meeting("@%p1 bra ELSE;\nmov.u32 %r1, 1;\nbra END;\nELSE: mov.u32 %r1, 2;\nEND: mov.u32 %r2, %r1;", 0), 3 + 4);
  ck_assert_uint_eq(meeting("LOOP: add.s32 %r1, %r1, 1;\n@%p1 bra LOOP;\nmov.u32 %r2, %r1;", 0), 3 + 2);
  ck_assert_uint_eq(meeting("@%p1 bra A;\n@%p2 bra B;\nmov.u32 %r1, 1;\nB: mov.u32 %r1, 2;\nA: mov.u32 %r3, 3;", 0), 3 + 4);
  ck_assert_uint_eq(meeting("@%p1 bra A;\n@%p2 bra B;\nmov.u32 %r1, 1;\nB: mov.u32 %r1, 2;\nA: mov.u32 %r3, 3;", 1), 3 + 3);
  /* one way leaves: at the end, behind the last instruction (the ret) */
  ck_assert_uint_eq(meeting("@%p1 bra A;\nret;\nA: mov.u32 %r3, 3;", 0), 3 + 4);
  ck_assert_uint_eq(meeting("FOREVER: @%p1 bra FOREVER;\nbra FOREVER;", 0), 3 + 3);
}
END_TEST

Suite *ptx_suite(void) {
  Suite *s = suite_create("ptx");
  TCase *t = tcase_create("ptx");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, refuses_by_name_and_line, 0, N_REFUSALS);
  tcase_add_test(t, refuses_what_is_no_ptx);
  tcase_add_test(t, declarations_become_places);
  tcase_add_test(t, survives_torn_and_mangled_text);
  tcase_add_test(t, branches_meet_at_the_post_dominator);
  suite_add_tcase(s, t);
  return s;
}
