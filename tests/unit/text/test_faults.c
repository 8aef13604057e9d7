/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Each fault: where it is reported, what the message and the hint say. */
#include "test_text.h"

typedef struct fault {
  const char *line; /* third line of a computation whose first two are p and q, both f32[2] */
  unsigned line_number, col;
  sn_status status;
  const char *message, *hint; /* parts */
} fault;

static const fault faults[] = {
    {"k = f32[2] negat(p)", 4, 12, SN_ERR_NAME, "expected an opcode, found `negat`", "did you mean `negate`?"},
    {"k = f32[2] negate(pp)", 4, 19, SN_ERR_NAME, "expected an instruction defined above, found `pp`", NULL},
    {"k = f32[2] negate(%later)", 4, 19, SN_ERR_NAME, "found `later`", "it is defined in line 5"},
    {"k = f32[2] negate(p, q)", 4, 12, SN_ERR_SYNTAX, "expected 1 operand of negate, found 2", NULL},
    {"k = f32[2] concatenate()", 4, 12, SN_ERR_SYNTAX, "expected at least 1 operand of concatenate, found 0", NULL},
    {"k = f32[2] negate(p", 5, 3, SN_ERR_SYNTAX, "expected `,` or `)` after an operand, found `%later`", NULL},
    {"k = f32[2] negate p", 4, 19, SN_ERR_SYNTAX, "expected `(` after an opcode, found `p`", NULL},
    {"k f32[2] negate(p)", 4, 3, SN_ERR_SYNTAX, "expected `=` after the name of an instruction, found `f32`", NULL},
    {"= f32[2] negate(p)", 4, 1, SN_ERR_SYNTAX, "expected an instruction or `}`, found `=`", NULL},
    {"p = f32[2] negate(q)", 4, 1, SN_ERR_NAME, "expected a new name, found `p` again", "it is defined in line 2"},
    {"k = f32[2] negate(f32[3] p)", 4, 19, SN_ERR_SHAPE, "expected the shape of p, f32[2], found f32[3]", NULL},
    /* shapes */
    {"k = fp32[2] negate(p)", 4, 5, SN_ERR_TYPE, "expected an element type, found `fp32`", "did you mean `f32`?"},
    {"k = f32[2,x] negate(p)", 4, 11, SN_ERR_SYNTAX, "expected the size of a dimension, found `x`", NULL},
    {"k = f32[-2] negate(p)", 4, 9, SN_ERR_OVERFLOW, "found -2", NULL},
    {"k = f32[2 negate(p)", 4, 11, SN_ERR_SYNTAX, "expected `,` or `]` after a dimension, found `negate`", NULL},
    {"k = f32[2]{1} negate(p)", 4, 12, SN_ERR_SHAPE, "lists each dimension 0…0 once, found 1", NULL},
    {"k = f32[2]{1,0} negate(p)", 4, 12, SN_ERR_SHAPE, "expected a layout of 1 dimensions, found 2", NULL},
    {"k = f32[2]{0:Q(1)} negate(p)", 4, 14, SN_ERR_SYNTAX, "expected a section of a layout", NULL},
    {"k = token[2] negate(p)", 4, 10, SN_ERR_SHAPE, "expected no dimensions on token, found 1", NULL},
    {"k = f32[99999999999999999999] negate(p)", 4, 9, SN_ERR_OVERFLOW, "found a number beyond 64 bits", NULL},
    {"k = f32[9999999999,9999999999] negate(p)", 4, 8, SN_ERR_OVERFLOW, "", NULL},
    {"k = (f32[2], f32[2] negate(p)", 4, 21, SN_ERR_SYNTAX, "expected `,` or `)` after an element of a tuple shape", NULL},
    /* literals */
    {"k = f32[2] constant({1})", 4, 23, SN_ERR_SHAPE, "expected 2 elements in dimension 0 of f32[2], found 1", NULL},
    {"k = f32[2] constant({1, 2, 3})", 4, 26, SN_ERR_SHAPE, "expected 2 elements in dimension 0 of f32[2], found 2 and more", NULL},
    {"k = f32[1,2] constant({1, 2})", 4, 24, SN_ERR_SYNTAX, "expected `{` to open dimension 1 of the literal, found `1`", NULL},
    {"k = f32[] constant(x)", 4, 20, SN_ERR_SYNTAX, "expected a number, found `x`", NULL},
    {"k = s8[] constant(128)", 4, 19, SN_ERR_OVERFLOW, "expected an integer in the range of s8, found `128`", NULL},
    {"k = u4[] constant(-1)", 4, 19, SN_ERR_OVERFLOW, "expected an integer in the range of u4, found `-1`", NULL},
    {"k = s32[] constant(1.5)", 4, 20, SN_ERR_TYPE, "expected an integer for s32, found a number with a fraction", NULL},
    {"k = f32[] constant(1e39)", 4, 20, SN_ERR_OVERFLOW, "expected a number in the range of f32, found `1e39`", NULL},
    {"k = f64[] constant(1e309)", 4, 20, SN_ERR_OVERFLOW, "range of f64", NULL},
    {"k = f32[] constant(nan(0x800000))", 4, 23, SN_ERR_OVERFLOW, "expected a payload of 1…23 bits", NULL},
    {"k = pred[] constant(2)", 4, 21, SN_ERR_SYNTAX, "expected `true` or `false`, found `2`", NULL},
    {"k = f32[1000000] constant({1})", 4, 27, SN_ERR_SHAPE, "expected 1000000 elements for f32[1000000]", NULL},
    {"k = constant(1)", 4, 5, SN_ERR_SYNTAX, "expected a shape before constant", NULL},
    /* parameters */
    {"k = f32[2] parameter(0)", 4, 22, SN_ERR_NAME, "expected each parameter once, found number 0 again, taken by p", NULL},
    {"k = f32[2] parameter(1000000000)", 4, 22, SN_ERR_ATTRIBUTE, "expected a parameter number that follows the others, found 1000000000", NULL},
    {"k = f32[2] parameter(-1)", 4, 22, SN_ERR_OVERFLOW, "found -1", NULL},
    /* attributes */
    {"k = f32[2] negate(p), dimensions={0}", 4, 23, SN_ERR_ATTRIBUTE, "expected an attribute of negate, found `dimensions`", NULL},
    {"k = f32[2] reverse(p), dimension={0}", 4, 24, SN_ERR_ATTRIBUTE, "expected an attribute of reverse, found `dimension`", "did you mean `dimensions`?"},
    {"k = f32[2] reverse(p)", 4, 12, SN_ERR_ATTRIBUTE, "expected the attribute `dimensions` on reverse, found none", NULL},
    {"k = f32[2] reverse(p), dimensions={0}, dimensions={0}", 4, 40, SN_ERR_ATTRIBUTE, "expected `dimensions` once, found it again", NULL},
    {"k = f32[2] reverse(p), dimensions={0", 5, 3, SN_ERR_SYNTAX, "expected `,` or `}` after an integer of a list", NULL},
    {"k = pred[2] compare(p, q), direction=lt", 4, 38, SN_ERR_SYNTAX, "expected a value of direction (EQ, NE, GE, GT, LE, LT), found `lt`", "did you mean `LT`?"},
    {"k = f32[2] slice(p), slice={0:2}", 4, 29, SN_ERR_SYNTAX, "expected `[` before a slice", NULL},
    {"k = f32[2] pad(p, q), padding=1", 5, 3, SN_ERR_SYNTAX, "expected `_` and high padding", NULL},
    {"k = f32[2] reduce-window(p, q), window={sise=2}, to_apply=p", 4, 41, SN_ERR_ATTRIBUTE, "expected a part of a window", "did you mean `size`?"},
    {"k = f32[2] reduce-window(p, q), window={size=2 pad=0_0x0_0}, to_apply=p", 4, 40, SN_ERR_ATTRIBUTE, "expected 2 dimensions in each part of the window, found 1 in size", NULL},
    {"k = f32[2] convolution(p, q), dim_labels=b0f_0io->b0", 4, 51, SN_ERR_ATTRIBUTE, "found no `f`", NULL},
    {"k = f32[2] convolution(p, q), dim_labels=bf_0io->b0f", 4, 42, SN_ERR_ATTRIBUTE, "expected as many spatial labels in all three, found 0, 1 and 1", NULL},
    {"k = f32[] call(p), to_apply=%sun", 4, 29, SN_ERR_NAME, "expected a computation defined above, found `sun`", "did you mean `sum`?"},
    {"k = f32[] conditional(p, q, q), true_computation=sum", 4, 11, SN_ERR_ATTRIBUTE, "expected both true_computation= and false_computation=", NULL},
    {"k = f32[2] all-to-all(p), replica_groups=[2,2]<=[5]", 4, 49, SN_ERR_ATTRIBUTE, "expected sizes whose product is 4, found 5", NULL},
    {"k = f32[2] all-to-all(p), replica_groups=[2,2]<=[4]T(1)", 4, 49, SN_ERR_ATTRIBUTE, "expected a permutation in T(…)", NULL},
    {"k = f32[2] all-to-all(p), replica_groups=mesh['x'=2] {'y'}", 4, 55, SN_ERR_NAME, "expected an axis of the mesh, found `y`", NULL},
    {"k = f32[2] all-to-all(p), replica_groups=[99999,99999]<=[4]", 4, 42, SN_ERR_UNSUPPORTED, "devices", NULL},
    {"k = f32[2] negate(p), sharding={devices=[2,2]0,1}", 4, 49, SN_ERR_ATTRIBUTE, "expected 4 devices", NULL},
    {"k = f32[2] negate(p), sharding={repliated}", 4, 33, SN_ERR_SYNTAX, "expected a sharding", NULL},
    {"k = f32[2] negate(p), metadata={op_nam=\"x\"}", 4, 33, SN_ERR_ATTRIBUTE, "expected a field of metadata, found `op_nam`", "did you mean `op_name`?"},
    {"k = f32[2] negate(p), metadata={op_name=\"x}", 4, 41, SN_ERR_SYNTAX, "expected a closing quote on the same line", NULL},
    {"k = f32[2] negate(p), metadata={op_name=\"\\q\"}", 4, 42, SN_ERR_SYNTAX, "found `\\q`", NULL},
    {"k = f32[2] negate(p), backend_config={\"a\":{", 4, 38, SN_ERR_SYNTAX, "expected the bracket that closes `{`", NULL},
    {"k = f32[2] negate(p), control-predecessors={zz}", 4, 45, SN_ERR_NAME, "as control predecessor, found `zz`", NULL},
    {"k = f32[1] slice-done(p)", 4, 12, SN_ERR_NAME, "expected the operand to come from slice-start, found p", NULL},
    {"k = f32[1] slice-start(p), slice={[0:1]}", 4, 12, SN_ERR_SHAPE, "expected the shape ((operands), result) before slice-start", NULL},
    {"k = f32[2] negate(p) /* no end", 4, 22, SN_ERR_SYNTAX, "found a comment that never ends", NULL},
};

static sn_str fault_text(const char *line) {
  sn_str s = {0};
  sn_str_printf(&s, "sum { x = f32[] parameter(0) } ENTRY e {\np = f32[2] parameter(0)\nq = f32[2] parameter(1)\n%s\n  %%later = f32[2] negate(p)\n}\n", line);
  return s;
}

static void check_first(const sn_diag *d, const fault *f, const char *text) {
  const sn_diagnostic *e = sn_diag_get(d, 0);
  ck_assert_msg(e != NULL, "no fault in %s", text);
  ck_assert_msg(strstr(e->message, f->message) != NULL, "%s\n  said: %s", text, e->message);
  ck_assert_msg(e->loc.line == f->line_number && e->loc.col == f->col, "%s\n  %u:%u: %s", text, (unsigned)e->loc.line, (unsigned)e->loc.col, e->message);
  ck_assert_msg(e->status == f->status, "%s\n  %s", text, sn_status_text(e->status));
  ck_assert_str_eq(e->loc.file, "f.hlo");
  if (f->hint != NULL) ck_assert_msg(e->hint != NULL && strstr(e->hint, f->hint) != NULL, "%s\n  hint: %s", text, e->hint != NULL ? e->hint : "none");
}

START_TEST(one_fault) {
  const fault *f = &faults[_i];
  sn_str text = fault_text(f->line);
  sn_diag *d = NULL;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_hlo_parse(d, "f.hlo", text.data, text.n, &m);
  ck_assert_msg(s == f->status, "%s: %s", f->line, sn_status_text(s));
  ck_assert_ptr_null(m);
  check_first(d, f, f->line);
  sn_diag_destroy(d);
  sn_str_finish(&text);
}
END_TEST

static const fault wholes[] = {
    {"", 1, 1, SN_ERR_SYNTAX, "expected HloModule, a computation or an instruction, found the end of the text", NULL},
    {"HloModule m\n", 2, 1, SN_ERR_SYNTAX, "expected HloModule, a computation", NULL},
    {"HloModule m, is_schedule=true\nENTRY e {\n ROOT p = s32[] parameter(0)\n}", 1, 14, SN_ERR_ATTRIBUTE, "expected an attribute of a module, found `is_schedule`", "`is_scheduled`"},
    {"HloModule m, num_partitions=0\nENTRY e {\n ROOT p = s32[] parameter(0)\n}", 1, 29, SN_ERR_OVERFLOW, "a number of partitions", NULL},
    {"HloModule m, entry_computation_layout={(f32[])->s32[]}\nENTRY e {\n ROOT p = s32[] parameter(0)\n}", 1, 1, SN_ERR_SHAPE, "expected s32[] for parameter 0", NULL},
    {"ENTRY e {\n}\n", 1, 7, SN_ERR_SYNTAX, "expected at least one instruction in e", NULL},
    {"ENTRY e {\n p = s32[] parameter(0)\n", 3, 1, SN_ERR_SYNTAX, "expected `}` after the instructions", NULL},
    {"ENTRY e {\n p = s32[] parameter(1)\n}", 1, 7, SN_ERR_NAME, "found no parameter(0)", NULL},
    {"ENTRY e (p: s32[2]) -> s32[] {\n p = s32[] parameter(0)\n}", 1, 7, SN_ERR_SHAPE, "expected parameter 0 of e to be s32[2], as its header says, found s32[]", NULL},
    {"ENTRY e (p: s32[]) -> s32[1] {\n p = s32[] parameter(0)\n}", 1, 7, SN_ERR_SHAPE, "expected the result of e to be s32[1]", NULL},
    {"ENTRY e (p: s32[], q: s32[]) -> s32[] {\n p = s32[] parameter(0)\n}", 1, 7, SN_ERR_SHAPE, "expected 2 parameters in e", NULL},
    {"ENTRY e {\n ROOT p = s32[] parameter(0)\n ROOT q = s32[] negate(p)\n}", 3, 2, SN_ERR_SYNTAX, "expected one ROOT in e", NULL},
    {"c {\n p = s32[] parameter(0)\n}\nc {\n p = s32[] parameter(0)\n}", 4, 1, SN_ERR_NAME, "expected a new name, found the computation `c` again", NULL},
    {"ENTRY c {\n p = s32[] parameter(0)\n}\nENTRY d {\n p = s32[] parameter(0)\n}", 4, 7, SN_ERR_SYNTAX, "expected one ENTRY", NULL},
    {"FileNames\n2 \"a\"\nENTRY c {\n p = s32[] parameter(0)\n}", 2, 1, SN_ERR_SYNTAX, "expected id 1", NULL},
    {"ENTRY e {\n p = s32[] parameter(0)\n q = s32[] call(p), to_apply=f\n}\nf {\n p = s32[] parameter(0)\n}", 3, 30, SN_ERR_NAME, "found `f`", "it is defined in line 5"},
    {"ENTRY e {\n p = s32[] parameter(0)\n\xff\n}", 3, 1, SN_ERR_SYNTAX, "found invalid UTF-8 (byte 0xff)", "escapes"},
    {"\x1f\x8b\x08", 1, 2, SN_ERR_SYNTAX, "found invalid UTF-8", "gzip"},
};

START_TEST(one_whole_fault) {
  const fault *f = &wholes[_i];
  sn_diag *d = NULL;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_hlo_parse(d, "f.hlo", f->line, strlen(f->line), &m);
  ck_assert_msg(s == f->status, "%s: %s", f->line, sn_status_text(s));
  check_first(d, f, f->line);
  sn_diag_destroy(d);
}
END_TEST

/* One report for each fault, none for what only follows from one. */
START_TEST(many_faults) {
  static const char text[] =
      "ENTRY e (p: f32[2]) -> f32[2] {\n"
      "  p = f32[2] parameter(0)\n"
      "  a = f32[2] negat(p)\n"
      "  b = f32[2] add(a, a)\n" /* follows from a */
      "  c = f32[2] add(b, zz)\n" /* would follow, too: the first operand is faulty */
      "  d = f32[2] negate(p), sharding={\n"
      "  f = f32[2] negate(yy)\n"
      "  g = f32[2] reverse(p)\n"
      "  ROOT h = f32[2] negate(g)\n"
      "}\n";
  static const unsigned lines[] = {3, 7, 7, 8};
  sn_diag *d = NULL;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_hlo_parse(d, "f.hlo", text, sizeof text - 1, &m), SN_ERR_NAME);
  ck_assert_uint_eq(sn_diag_stored(d), 4);
  for (size_t i = 0; i < 4; i++) ck_assert_uint_eq(sn_diag_get(d, i)->loc.line, lines[i]);
  ck_assert_str_eq(sn_diag_get(d, 0)->context, "  a = f32[2] negat(p)");
  sn_diag_destroy(d);
}
END_TEST

TCase *case_faults(void) {
  TCase *c = tcase_create("faults");
  tcase_add_loop_test(c, one_fault, 0, (int)(sizeof faults / sizeof faults[0]));
  tcase_add_loop_test(c, one_whole_fault, 0, (int)(sizeof wholes / sizeof wholes[0]));
  tcase_add_test(c, many_faults);
  return c;
}
