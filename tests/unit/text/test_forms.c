/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Forms of the text that the golden dumps lack: what is read, and how XLA (jaxlib 0.10.2) prints it. */
#include "test_text.h"

static const char head[] =
    "%add (x: f32[], y: f32[]) -> f32[] {\n"
    "  %x = f32[] parameter(0)\n"
    "  %y = f32[] parameter(1)\n"
    "  ROOT %a = f32[] add(%x, %y)\n"
    "}\n\n"
    "ENTRY %e (p: f32[2], g: f32[2,2], i: s32[]) -> f32[2] {\n"
    "  %p = f32[2]{0} parameter(0)\n"
    "  %g = f32[2,2]{0,1} parameter(1)\n"
    "  %i = s32[] parameter(2)\n"
    "  %c = f32[] constant(0)\n"
    "  %b = pred[] constant(true)\n"
    "  %tok = token[] after-all()\n";
static const char tail[] = "  ROOT %r = f32[2]{0} negate(%p)\n}\n";

typedef struct form {
  const char *in, *out; /* lines behind head; out NULL: as in */
} form;
static const form forms[] = {
    {"%k = f32[2]{0} compare(%p, %p), direction=LT, type=FLOAT", "%k = f32[2]{0} compare(%p, %p), direction=LT"},
    {"%k = pred[2]{0} compare(%p, %p), direction=LT, type=TOTALORDER", NULL},
    {"k=pred[2]compare(p,/* two */p),direction=LT // and a comment", "%k = pred[2]{0} compare(%p, %p), direction=LT"},
    {"k = negate(p)", "%k = f32[2]{0} negate(%p)"}, /* the shape is inferred */
    {"k = f32[2] add(f32[2] p, f32[2]{0} %p)", "%k = f32[2]{0} add(%p, %p)"},
    {"%k = f32[1]{0} slice(%p), slice={[0:1:1]}", "%k = f32[1]{0} slice(%p), slice={[0:1]}"},
    {"%k = f32[2]{0} pad(%p, %c), padding=-1_1_0", "%k = f32[2]{0} pad(%p, %c), padding=-1_1"},
    {"%k = f32[3]{0} pad(%p, %c), padding=0_0_1", NULL},
    {"%k = f32[2]{0} reduce-window(%p, %c), window={size=3 pad=1_1 rhs_reversal=1}, to_apply=%add", NULL},
    {"%k = f32[2,2]{1,0} dot(%g, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,default}", NULL},
    {"%k = f32[2,2]{1,0} dot(%g, %g), rhs_contracting_dims={0}, lhs_contracting_dims={1}, operand_precision={default,default}, algorithm=dot_tf32_tf32_f32",
     "%k = f32[2,2]{1,0} dot(%g, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_tf32_tf32_f32"},
    {"%k = f32[2,2,2,2]{3,2,1,0} dot(%g, %g)", "%k = f32[2,2,2,2]{3,2,1,0} dot(%g, %g), lhs_contracting_dims={}, rhs_contracting_dims={}"},
    {"%k = f32[2,2]{1,0} convolution(%g, %g), window={}, dim_labels=bf_io->bf", "%k = f32[2,2]{1,0} convolution(%g, %g), dim_labels=bf_io->bf"},
    {"%k = f32[2,2]{1,0} batch-norm-inference(%g, %p, %p, %p, %p), epsilon=1e-05, feature_index=1", NULL},
    {"%k = f32[2]{0} exponential(%p), result_accuracy={tolerance={atol=0,rtol=0.001,ulps=2}}", NULL},
    {"%k = f32[2]{0} all-reduce(%p), to_apply=%add, use_global_device_ids=true, constrain_layout=true, channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0)",
     "%k = f32[2]{0} all-reduce(%p), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), constrain_layout=true, use_global_device_ids=true, to_apply=%add"},
    {"%k = f32[2]{0} all-reduce(%p), channel_id=1, replica_groups=mesh['x'=2,'y'=4] {'y':(2)2}, to_apply=%add", NULL},
    {"%k = f32[1]{0} reduce-scatter(%p), replica_groups={}, constrain_layout=true, dimensions={0}, to_apply=%add", NULL},
    {"%k = f32[2]{0} collective-permute(%p), channel_id=3, source_target_pairs={{0,1},{1,0}}", NULL},
    {"%k = f32[] conditional(%b, %c, %c), true_computation=%neg, false_computation=%neg", NULL},
    {"%k = f32[] conditional(%i, %c, %c), branch_computations={%neg, %neg}", NULL},
    {"%k = (f32[2]{0}, u32[], token[]) send(%p, %tok), channel_id=5, is_host_transfer=true", NULL},
    {"%k = (f32[3]{0}, token[]) infeed(%tok), infeed_config=\"abc\"", NULL},
    {"%k = token[] outfeed(%p, %tok), outfeed_config=\"x\", outfeed_shape=f32[2]{0}", "%k = token[] outfeed(%p, %tok), outfeed_shape=f32[2]{0}, outfeed_config=\"x\""},
    {"%k = u64[1]{0} rng-get-and-update-state(), delta=3", NULL},
    {"%k = f32[2]{0} domain(%p), domain={kind=\"sharding\", entry={replicated}, exit={maximal device=1}}", NULL},
    {"%k = f32[5]{0} custom-call(%p), custom_call_target=\"x\\001\\'\\\"\", called_computations={%add, %add}", NULL},
    {"%k = f32[5]{0} custom-call(%p), custom_call_target='y', to_apply=%add", "%k = f32[5]{0} custom-call(%p), custom_call_target=\"y\", called_computations={%add}"},
    {"%k = f32[] custom-call(%p), custom_call_target=\"y\", literal=f32[2]{0} {1, 2}, schedule=SCHEDULE_LATEST, api_version=API_VERSION_STATUS_RETURNING", NULL},
    {"%k = f32[2]{0} custom-call(%p), custom_call_target=\"y\", output_to_operand_aliasing={{}: (0, {})}", NULL},
    {"%k = f32[2]{0} negate(%p), control-predecessors={%c, %b}", NULL},
    {"%k = f32[2]{0} negate(%p), backend_config=\"hey \\\"you\\\"\"", NULL},
    {"%k = f32[2]{0} negate(%p), backend_config={\"a\":{\"b\":[\"}\"]}}", NULL},
    {"%k = f32[2]{0} negate(%p), backend_config={uplo = 76 : ui8}", NULL},
    {"%k = f32[2]{0} negate(%p), frontend_attributes={a=\"2\",b={\"x\":1},c=\"\"}", NULL},
    {"%k = f32[2]{0} negate(%p), origin={{\"x\"}}, statistics={visualizing_index=0,x=5}",
     "%k = f32[2]{0} negate(%p), statistics={visualizing_index=0,x=5}, origin={{\"x\"}}"},
    {"%k = f32[2]{0} negate(%p), metadata={scheduling_name=\"s\" op_type=\"t\" op_name=\"n\" source_file=\"f\" source_line=1 source_end_line=2 source_column=3 "
     "source_end_column=4 profile_type={1} deduplicated_name=\"d\"}",
     "%k = f32[2]{0} negate(%p), metadata={op_type=\"t\" op_name=\"n\" source_file=\"f\" source_line=1 source_end_line=2 source_column=3 source_end_column=4 "
     "profile_type={1} deduplicated_name=\"d\" scheduling_name=\"s\"}"},
    {"%k = f32[2]{0} negate(%p), metadata={}", "%k = f32[2]{0} negate(%p)"},
    {"%k = f32[100]{0} constant({...})", NULL},
    {"%k = ((f32[2]{0}), f32[1]{0}, s32[]) slice-start(%p), async_execution_thread=\"foo\", slice={[0:1]}\n"
     "  %k1 = ((f32[2]{0}), f32[1]{0}, s32[]) slice-update(%k)\n"
     "  %k2 = f32[1]{0} slice-done(%k1)", NULL},
    {"%k = ((f32[2]{0}), f32[2]{0}) custom-call-start(%p), async_execution_thread=\"main\", custom_call_target=\"z\", called_computations={%add}\n"
     "  %k2 = f32[2]{0} custom-call-done(%k)",
     "%k = ((f32[2]{0}), f32[2]{0}) custom-call-start(%p), custom_call_target=\"z\", called_computations={%add}\n"
     "  %k2 = f32[2]{0} custom-call-done(%k)"},
    {"%k = (f32[2]{0}, f32[2]{0}, u32[]) copy-start(%p), cross_program_prefetch_index=0", NULL},
    {"%k = f32[2]{0} add(negate(%p), f32[2]{0} negate(%p))", "%negate.0 = f32[2]{0} negate(%p)\n  %negate.1 = f32[2]{0} negate(%p)\n  %k = f32[2]{0} add(%negate.0, %negate.1)"},
};

static sn_str wrap(const char *lines) {
  sn_str s = {0};
  sn_str_add(&s, "HloModule m, entry_computation_layout={(f32[2]{0}, f32[2,2]{0,1}, s32[])->f32[2]{0}}\n\n"
                 "%neg (z: f32[]) -> f32[] {\n  %z = f32[] parameter(0)\n  ROOT %n = f32[] negate(%z)\n}\n\n");
  sn_str_printf(&s, "%s  %s\n%s", head, lines, tail);
  sn_str_add(&s, "\n");
  return s;
}

START_TEST(forms_print_as_xla) {
  const form *f = &forms[_i];
  sn_str in = wrap(f->in), want = wrap(f->out != NULL ? f->out : f->in);
  sn_module *m = must_parse(in.data, in.n);
  sn_str got = print_text(m, false);
  ck_assert_str_eq(got.data, want.data);
  sn_str brief = print_text(m, true);
  sn_module *again = must_parse(brief.data, brief.n);
  ck_assert_msg(sn_module_equal(m, again, SN_EQ_LAYOUT), "%s", brief.data);
  sn_str_finish(&in);
  sn_str_finish(&want);
  sn_str_finish(&got);
  sn_str_finish(&brief);
  sn_module_destroy(m);
  sn_module_destroy(again);
}
END_TEST

typedef struct whole {
  const char *in, *out;
} whole;
static const whole wholes[] = {
    {"HloModule m, replica_count=2, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) }, num_partitions=3, buffer_donor={ (0, {}) }, "
     "alias_passthrough_params=true, frontend_attributes={a=\"b\",c={\"x\":1}}, allow_spmd_sharding_propagation_to_output=true\n"
     "ENTRY e {\n p = f32[2] parameter(0)\n ROOT t = f32[2] negate(p)\n}, execution_thread=\"main\"\n",
     "HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) }, buffer_donor={ (0, {}) }, alias_passthrough_params=true, "
     "entry_computation_layout={(f32[2]{0})->f32[2]{0}}, allow_spmd_sharding_propagation_to_output={true}, replica_count=2, num_partitions=3, "
     "frontend_attributes={a=\"b\",c={\"x\":1}}\n\n"
     "ENTRY %e (p: f32[2]) -> f32[2] {\n  %p = f32[2]{0} parameter(0)\n  ROOT %t = f32[2]{0} negate(%p)\n}\n\n"},
    /* no ENTRY, no ROOT: the last ones; computations in place */
    {"c { p = f32[2] parameter(0)\n t = f32[2] call(p), to_apply={ x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x) } }",
     "HloModule module_c, entry_computation_layout={(f32[2]{0})->f32[2]{0}}\n\n"
     "%computation.0 (x: f32[2]) -> f32[2] {\n  %x = f32[2]{0} parameter(0)\n  ROOT %y = f32[2]{0} negate(%x)\n}\n\n"
     "ENTRY %c (p: f32[2]) -> f32[2] {\n  %p = f32[2]{0} parameter(0)\n  ROOT %t = f32[2]{0} call(%p), to_apply=%computation.0\n}\n\n"},
    /* instructions alone: unknown operands that state their shape are parameters */
    {"%k = f32[2]{0} add(f32[2]{0} %a, f32[2]{0} %b)\n%l = f32[2]{0} negate(%k)\n",
     "HloModule module_main, entry_computation_layout={(f32[2]{0}, f32[2]{0})->f32[2]{0}}\n\n"
     "ENTRY %main (a: f32[2], b: f32[2]) -> f32[2] {\n  %a = f32[2]{0} parameter(0)\n  %b = f32[2]{0} parameter(1)\n"
     "  %k = f32[2]{0} add(%a, %b)\n  ROOT %l = f32[2]{0} negate(%k)\n}\n\n"},
    /* debug tables */
    {"HloModule m\nFileNames\n1 \"a.py\"\nFunctionNames\n1 \"f\"\nFileLocations\n1 {line=3 file_name_id=1 function_name_id=1}\nStackFrames\n"
     "1 {file_location_id=1 parent_frame_id=1}\nENTRY e {\n ROOT p = s32[] parameter(0), metadata={stack_frame_id=1}\n}\n",
     "HloModule m, entry_computation_layout={(s32[])->s32[]}\n\nFileNames\n1 \"a.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n"
     "1 {file_name_id=1 function_name_id=1 line=3 end_line=0 column=0 end_column=0}\n\nStackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n\n"
     "ENTRY %e (p: s32[]) -> s32[] {\n  ROOT %p = s32[] parameter(0), metadata={stack_frame_id=1}\n}\n\n"},
};

START_TEST(wholes_print_as_xla) {
  sn_module *m = must_parse(wholes[_i].in, strlen(wholes[_i].in));
  sn_str got = print_text(m, false);
  ck_assert_str_eq(got.data, wholes[_i].out);
  sn_module *again = must_parse(got.data, got.n);
  ck_assert(sn_module_equal(m, again, 0));
  sn_str_finish(&got);
  sn_module_destroy(m);
  sn_module_destroy(again);
}
END_TEST

static const sn_groups *groups_of(const char *text, sn_module **m) {
  sn_str in = {0};
  sn_str_printf(&in, "ENTRY e {\n p = f32[2] parameter(0)\n ROOT k = f32[2] all-to-all(p), dimensions={0}, replica_groups=%s\n}\n", text);
  *m = must_parse(in.data, in.n);
  sn_str_finish(&in);
  const sn_attr *a = sn_instr_attr((*m)->entry->root, SN_ATTR_REPLICA_GROUPS);
  ck_assert_ptr_nonnull(a);
  return a->u.groups;
}

typedef struct groups_case {
  const char *text;
  int n, each;
  int64_t ids[8];
} groups_case;
static const groups_case groups_cases[] = {
    {"{}", 0, 0, {0}},
    {"{{0,1,2},{3,4,5}}", 2, 3, {0, 1, 2, 3, 4, 5}},
    {"[2,4]<=[8]", 2, 4, {0, 1, 2, 3, 4, 5, 6, 7}},
    {"[4,2]<=[2,4]T(1,0)", 4, 2, {0, 4, 1, 5, 2, 6, 3, 7}},
    {"mesh['a'=2,'b'=4] {'a'}", 4, 2, {0, 4, 1, 5, 2, 6, 3, 7}},
    {"mesh['a'=2,'b'=4] {'b'}", 2, 4, {0, 1, 2, 3, 4, 5, 6, 7}},
    {"mesh['a'=2,'b'=4] {'b','a'}", 1, 8, {0, 4, 1, 5, 2, 6, 3, 7}},
    {"mesh['a'=2,'b'=4] {'b':(1)2}", 4, 2, {0, 2, 1, 3, 4, 6, 5, 7}},
    {"mesh['a'=2,'b'=4] {'b':(2)2}", 4, 2, {0, 1, 2, 3, 4, 5, 6, 7}},
    {"mesh['a'=1,'b'=2] {'a'}", 2, 1, {0, 1}},
    {"mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'a'}", 2, 2, {3, 1, 2, 0}},
};

START_TEST(groups_expand) {
  const groups_case *c = &groups_cases[_i];
  sn_module *m = NULL;
  const sn_groups *g = groups_of(c->text, &m);
  ck_assert_int_eq(g->n_groups, c->n);
  for (int i = 0; i < c->n; i++) {
    ck_assert_int_eq(g->groups[i].n, c->each);
    for (int k = 0; k < c->each; k++) ck_assert_int_eq(g->groups[i].v[k], c->ids[i * c->each + k]);
  }
  sn_str text = print_text(m, false);
  ck_assert_ptr_nonnull(strstr(text.data, c->text));
  sn_str_finish(&text);
  sn_module_destroy(m);
}
END_TEST

START_TEST(options) {
  static const char text[] = "ENTRY e {\n p = f32[2,3] parameter(0), metadata={op_name=\"n\"}, backend_config={}\n ROOT c = f32[11] constant({1,1,1,1,1,1,1,1,1,1,1})\n}";
  sn_module *m = must_parse(text, strlen(text));
  sn_print_options o;
  sn_str s = {0};
  sn_print_options_init(&o);
  o.metadata = o.backend_config = o.percent = o.large_constants = o.default_layouts = false;
  sn_hlo_print_instr(&s, m->entry->first, &o);
  ck_assert_str_eq(s.data, "p = f32[2,3] parameter(0)");
  sn_str_clear(&s);
  sn_hlo_print_instr(&s, m->entry->root, &o);
  ck_assert_str_eq(s.data, "ROOT c = f32[11] constant({...})");
  sn_str_finish(&s);
  sn_module_destroy(m);
}
END_TEST

TCase *case_forms(void) {
  TCase *c = tcase_create("forms");
  tcase_add_loop_test(c, forms_print_as_xla, 0, (int)(sizeof forms / sizeof forms[0]));
  tcase_add_loop_test(c, wholes_print_as_xla, 0, (int)(sizeof wholes / sizeof wholes[0]));
  tcase_add_loop_test(c, groups_expand, 0, (int)(sizeof groups_cases / sizeof groups_cases[0]));
  tcase_add_test(c, options);
  return c;
}
