/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* runtime/device/cuda over the emulator, with programs made by hand: what it does when things go wrong. Two kernels in a row: `triple` doubles into the arena, `add` adds the argument. */
#include "test_emulator.h"

#include "sinter/device.h"
#include "sinter/program.h"

enum { N = 64 };

typedef struct fixture { sn_diag *d; sn_arena *a; sn_program *p; sn_context *c; float *in, *out; } fixture;

static const char doubled[] = "ld.global.f32 %f1, [%d2];\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%d3], %f2;";
static const char outside[] = "mov.u64 %d4, 8589934592;\nadd.s64 %d2, %d2, %d4;\nld.global.f32 %f1, [%d2];\nst.global.f32 [%d3], %f1;";

static char *kernel_text(const char *body) {
  char whole[1000];
  snprintf(whole, sizeof whole, "mov.u32 %%r1, %%ctaid.x;\nmad.lo.u32 %%r2, %%r1, 32, %%r0;\nmul.wide.u32 %%d1, %%r2, 4;\nadd.s64 %%d2, %%d30, %%d1;\nadd.s64 %%d3, %%d31, %%d1;\n%s", body);
  return test_module("", whole);
}

/* The module's code: a cubin that no device takes, and PTX. */
static sn_status build(fixture *f, const char *first, const char *second, int64_t arena) {
  static const char cubin[64] = "\177ELF, or not quite";
  const sn_shape *s = sn_shape_default_layout(f->a, sn_shape_array(f->a, SN_TYPE_F32, 1, (const int64_t[]){N}));
  const char *texts[2] = {first, second};
  sn_program_phase phases[2];
  sn_program_kernel kernels[2];
  char *code = sn_arena_zero(f->a, 1 << 16, 1);
  int64_t at = 64;
  ck_assert_ptr_nonnull(code);
  memcpy(code, cubin, sizeof cubin);
  memset(phases, 0, sizeof phases);
  memset(kernels, 0, sizeof kernels);
  for (int k = 0; k < 2; k++) {
    phases[k] = (sn_program_phase){.n_items = 2, .entry = "k", .threads = 32, .blocks = 2};
    kernels[k] = (sn_program_kernel){.name = k ? "second.2" : "first.1", .n_phases = 1, .phases = &phases[k], .n_buffers = 2, .ptx_offset = at, .ptx_bytes = (int64_t)strlen(texts[k]) + 1, .cubin_offset = 0, .cubin_bytes = 64};
    memcpy(code + at, texts[k], strlen(texts[k]) + 1);
    at += (kernels[k].ptx_bytes + 63) / 64 * 64;
  }
  sn_slice slices[4] = {{SN_ALLOCATION_ARGUMENT, 0, 0, 4 * N}, {SN_ALLOCATION_ARENA, 0, 0, 4 * N}, {SN_ALLOCATION_ARENA, 0, 0, 4 * N}, {SN_ALLOCATION_RESULT, 0, 0, 4 * N}};
  sn_command commands[2] = {{.kind = SN_COMMAND_KERNEL, .name = "first.1", .kernel = 0, .n_slices = 2, .slices = slices}, {.kind = SN_COMMAND_KERNEL, .name = "second.2", .kernel = 1, .n_slices = 2, .slices = slices + 2}};
  sn_program_leaf argument = {"arg0", s, -1, -1}, result = {"out0", s, -1, -1};
  sn_program_spec spec = {.struct_size = sizeof spec, .name = "by_hand", .target = "sm_80", .device = "cuda", .n_arguments = 1, .n_results = 1, .n_kernels = 2, .n_commands = 2, .arguments = &argument, .results = &result,
                          .kernels = kernels, .commands = commands, .arena_bytes = arena, .code = code, .code_bytes = at};
  return sn_program_build(f->d, &spec, &f->p);
}

static void start(fixture *f, const char *first, const char *second, int64_t arena) {
  memset(f, 0, sizeof *f);
  ck_assert_int_eq(sn_diag_create(&f->d), SN_OK);
  ck_assert_int_eq(sn_arena_create(&f->a), SN_OK);
  char *one = kernel_text(first), *two = kernel_text(second);
  ck_assert_int_eq(build(f, one, two, arena), SN_OK);
  free(one);
  free(two);
  f->in = sn_alloc_aligned(64, 4 * N);
  f->out = sn_alloc_aligned(64, 4 * N);
  ck_assert(f->in && f->out);
  for (int k = 0; k < N; k++) f->in[k] = (float)k;
  memset(f->out, 0, 4 * N);
}

static void finish(fixture *f) {
  sn_context_destroy(f->c);
  sn_program_release(f->p);
  sn_free_aligned(f->in);
  sn_free_aligned(f->out);
  sn_arena_destroy(f->a);
  sn_diag_destroy(f->d);
}

static sn_status run(fixture *f) {
  void *arguments[1] = {f->in}, *results[1] = {f->out};
  return sn_context_run(f->d, f->c, arguments, results);
}

/* Everything said so far holds the text. */
static void says(fixture *f, const char *text) {
  for (size_t k = 0; k < sn_diag_stored(f->d); k++) {
    const sn_diagnostic *x = sn_diag_get(f->d, k);
    if (strstr(x->message, text) || (x->hint && strstr(x->hint, text)) || (x->loc.file && strstr(x->loc.file, text))) return;
  }
  ck_abort_msg("\"%s\" is expected in \"%s\"", text, sn_diag_stored(f->d) ? sn_diag_get(f->d, sn_diag_stored(f->d) - 1)->message : "");
}

static void check_results(const fixture *f) {
  for (int k = 0; k < N; k++) ck_assert_msg(f->out[k] == (float)(4 * k), "[%d] is %g", k, (double)f->out[k]);
}

static const char *const roads[] = {NULL, "SINTER_CUDA_SYNC=1", "SINTER_EMU_FAULT=capture"}; /* as a graph, kernel by kernel, by a driver that records nothing */

START_TEST(every_road_gives_the_results) {
  fixture f;
  char name[40] = "";
  if (roads[_i]) {
    snprintf(name, sizeof name, "%.*s", (int)strcspn(roads[_i], "="), roads[_i]);
    setenv(name, strchr(roads[_i], '=') + 1, 1);
  }
  start(&f, doubled, doubled, 4 * N);
  ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_OK);
  for (int k = 0; k < 3; k++) {
    memset(f.out, 0, 4 * N);
    ck_assert_int_eq(run(&f), SN_OK);
    check_results(&f);
  }
  finish(&f);
  if (roads[_i]) unsetenv(name);
}
END_TEST

START_TEST(a_faulting_kernel_is_named_where_it_is_waited_for) {
  for (int waits = 0; waits < 2; waits++) {
    fixture f;
    if (waits) setenv("SINTER_CUDA_SYNC", "1", 1);
    start(&f, doubled, outside, 4 * N);
    ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_OK);
    ck_assert_int_eq(run(&f), SN_ERR_DEVICE);
    says(&f, "CUDA_ERROR_ILLEGAL_ADDRESS");
    if (waits) says(&f, "second.2");
    else says(&f, "SINTER_CUDA_SYNC=1");
    ck_assert_int_eq(run(&f), SN_ERR_DEVICE); /* the context is lost */
    /* and the device is not */
    sn_context_destroy(f.c);
    f.c = NULL;
    finish(&f);
    start(&f, doubled, doubled, 4 * N);
    ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_OK);
    ck_assert_int_eq(run(&f), SN_OK);
    check_results(&f);
    finish(&f);
    unsetenv("SINTER_CUDA_SYNC");
  }
}
END_TEST

START_TEST(a_lost_device_is_survived) {
  fixture f;
  setenv("SINTER_EMU_FAULT", "lost:2", 1);
  start(&f, doubled, doubled, 4 * N);
  ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_OK);
  ck_assert_int_eq(run(&f), SN_ERR_DEVICE);
  says(&f, "CUDA_ERROR_ECC_UNCORRECTABLE");
  sn_context_destroy(f.c);
  unsetenv("SINTER_EMU_FAULT");
  ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_OK);
  ck_assert_int_eq(run(&f), SN_OK);
  check_results(&f);
  finish(&f);
}
END_TEST

START_TEST(no_room_says_who_needs_it) {
  fixture f;
  setenv("SINTER_EMU_MEMORY", "65536", 1);
  start(&f, doubled, doubled, 1 << 20);
  ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_ERR_MEMORY);
  ck_assert_ptr_null(f.c);
  says(&f, "65536 of 65536 bytes free");
  says(&f, "arguments 256, results 256, temporaries 1048576");
  unsetenv("SINTER_EMU_MEMORY");
  ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_OK);
  ck_assert_int_eq(run(&f), SN_OK);
  finish(&f);
}
END_TEST

START_TEST(no_room_for_code) {
  fixture f;
  setenv("SINTER_EMU_FAULT", "module:2", 1); /* the first cubin is refused, then its PTX finds no room */
  start(&f, doubled, doubled, 4 * N);
  ck_assert_int_ne(sn_context_create(f.d, f.p, NULL, &f.c), SN_OK);
  ck_assert_ptr_null(f.c);
  says(&f, "first.1");
  unsetenv("SINTER_EMU_FAULT");
  finish(&f);
}
END_TEST

typedef struct torn { const char *body, *driver, *says; } torn;
static const torn tears[] = {
    {"frobnicate.f32 %f1, %f2;", NULL, "does not run on this device"},
    {"ld.global.f32 %f1, [%d2", NULL, "does not run on this device"},
    {doubled, "12080", "the driver is older than the compiler"},
};

START_TEST(code_that_no_device_takes) {
  fixture f;
  if (tears[_i].driver) setenv("SINTER_EMU_DRIVER_VERSION", tears[_i].driver, 1);
  start(&f, doubled, tears[_i].body, 4 * N);
  ck_assert_int_eq(sn_context_create(f.d, f.p, NULL, &f.c), SN_ERR_VERSION);
  says(&f, tears[_i].says);
  says(&f, tears[_i].driver ? "first.1" : "second.2");
  unsetenv("SINTER_EMU_DRIVER_VERSION");
  finish(&f);
}
END_TEST

Suite *runtime_suite(void) {
  Suite *s = suite_create("runtime");
  TCase *t = tcase_create("runtime");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, every_road_gives_the_results, 0, (int)(sizeof roads / sizeof roads[0]));
  tcase_add_test(t, a_faulting_kernel_is_named_where_it_is_waited_for);
  tcase_add_test(t, a_lost_device_is_survived);
  tcase_add_test(t, no_room_says_who_needs_it);
  tcase_add_test(t, no_room_for_code);
  tcase_add_loop_test(t, code_that_no_device_takes, 0, (int)(sizeof tears / sizeof tears[0]));
  suite_add_tcase(s, t);
  return s;
}
