/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Programs built, written, read, run; files that are torn or lie. */
#include "sinter/program.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../scratch.h"

#if defined(__x86_64__)
/* add one to the s32 at buffers[0]; then, at 16: buffers[1] := s32 at buffers[0] < 5 */
static const uint8_t code[] = {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x00, 0x83, 0x00, 0x01, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                               0x48, 0x8b, 0x07, 0x48, 0x8b, 0x08, 0x48, 0x8b, 0x50, 0x08, 0x83, 0x39, 0x05, 0x0f, 0x9c, 0x02, 0xc3};
#define HAVE_CODE 1
#else
static const uint8_t code[] = {0};
#define HAVE_CODE 0
#endif

typedef struct fixture {
  sn_arena *a;
  sn_diag *d;
  sn_program_spec spec;
  sn_program_leaf leaves[2];
  sn_program_kernel kernels[2];
  sn_program_phase phases[2];
  sn_command commands[8];
  sn_slice slices[16];
  sn_command_range ranges[4];
} fixture;

/* result := argument; while (result < 5) result += 1 */
static void fixture_init(fixture *f) {
  memset(f, 0, sizeof *f);
  ck_assert_int_eq(sn_arena_create(&f->a), SN_OK);
  ck_assert_int_eq(sn_diag_create(&f->d), SN_OK);
  const sn_shape *s32 = sn_shape_scalar(f->a, SN_TYPE_S32);
  f->leaves[0] = (sn_program_leaf){"arg0", s32, -1, -1};
  f->leaves[1] = (sn_program_leaf){"out0", s32, -1, -1};
  f->phases[0] = (sn_program_phase){.n_items = 1};
  f->phases[1] = (sn_program_phase){.code_offset = 16, .n_items = 1};
  f->kernels[0] = (sn_program_kernel){.name = "increment", .n_phases = 1, .phases = &f->phases[0], .n_buffers = 1};
  f->kernels[1] = (sn_program_kernel){.name = "below_five", .n_phases = 1, .phases = &f->phases[1], .n_buffers = 2};
  sn_slice result = {SN_ALLOCATION_RESULT, 0, 0, 4}, argument = {SN_ALLOCATION_ARGUMENT, 0, 0, 4}, pred = {SN_ALLOCATION_ARENA, 0, 64, 1};
  f->slices[0] = result;
  f->slices[1] = argument;
  f->slices[2] = pred;
  f->slices[3] = result;
  f->slices[4] = pred;
  f->slices[5] = result;
  f->ranges[0] = (sn_command_range){2, 1};
  f->ranges[1] = (sn_command_range){3, 1};
  f->commands[0] = (sn_command){.kind = SN_COMMAND_COPY, .name = "copy.1", .n_slices = 2, .slices = &f->slices[0]};
  f->commands[1] = (sn_command){.kind = SN_COMMAND_WHILE, .name = "while.1", .n_slices = 1, .slices = &f->slices[2], .n_ranges = 2, .ranges = f->ranges};
  f->commands[2] = (sn_command){.kind = SN_COMMAND_KERNEL, .name = "compare.1", .kernel = 1, .n_slices = 2, .slices = &f->slices[3]};
  f->commands[3] = (sn_command){.kind = SN_COMMAND_KERNEL, .name = "add.1", .kernel = 0, .n_slices = 1, .slices = &f->slices[5]};
  f->spec = (sn_program_spec){.struct_size = sizeof f->spec,
                              .name = "count",
                              .target = "x86-64",
                              .n_arguments = 1,
                              .n_results = 1,
                              .n_kernels = 2,
                              .n_commands = 4,
                              .arguments = &f->leaves[0],
                              .results = &f->leaves[1],
                              .kernels = f->kernels,
                              .commands = f->commands,
                              .arena_bytes = 128,
                              .code = code,
                              .code_bytes = sizeof code};
}

static void fixture_finish(fixture *f) {
  sn_arena_destroy(f->a);
  sn_diag_destroy(f->d);
}

static int32_t run(fixture *f, sn_program *p, int32_t start) {
  sn_context *c;
  sn_array *in, *out;
  ck_assert_int_eq(sn_context_create(f->d, p, NULL, &c), SN_OK);
  ck_assert_int_eq(sn_array_create_from(f->leaves[0].shape, &start, &in), SN_OK);
  ck_assert_int_eq(sn_context_call(f->d, c, &in, &out), SN_OK);
  int32_t v = *(int32_t *)sn_array_data(out);
  sn_array_release(in);
  sn_array_release(out);
  sn_context_destroy(c);
  return v;
}

START_TEST(runs_a_loop) {
  fixture f;
  sn_program *p;
  fixture_init(&f);
  ck_assert_int_eq(sn_program_build(f.d, &f.spec, &p), SN_OK);
  if (HAVE_CODE) {
    ck_assert_int_eq(run(&f, p, 2), 5);
    ck_assert_int_eq(run(&f, p, 7), 7);
  }
  sn_program_release(p);
  fixture_finish(&f);
}
END_TEST

/* A small phase is the caller's thread's: it wakes nobody. A large one wakes who sleeps. */
START_TEST(small_phases_leave_the_pool_asleep) {
  static const struct {
    int64_t n_items, cost_ns;
    bool wakes;
  } rows[] = {{64, 10, false}, {3, 1000, false}, {1, 1000000, false}, {64, 1000, true}, {2, 100000, true}, {64, 0 /* unknown */, true}};
  sn_pool *pool;
  ck_assert_int_eq(sn_pool_create(sn_cpu_count() > 1 ? 2 : 1, &pool), SN_OK);
  for (size_t i = 0; HAVE_CODE && i < sizeof rows / sizeof rows[0]; i++) {
    fixture f;
    sn_program *p;
    sn_context *c;
    sn_context_options o;
    _Alignas(64) int32_t in[16] = {0}, out[16];
    void *arguments[1] = {in}, *results[1] = {out};
    fixture_init(&f);
    f.phases[0].n_items = rows[i].n_items;
    f.phases[0].cost_ns = rows[i].cost_ns;
    f.commands[1] = (sn_command){.kind = SN_COMMAND_KERNEL, .name = "add.1", .kernel = 0, .n_slices = 1, .slices = &f.slices[5]};
    f.spec.n_commands = 2;
    sn_context_options_init(&o);
    o.pool = pool;
    ck_assert_int_eq(sn_program_build(f.d, &f.spec, &p), SN_OK);
    ck_assert_int_eq(sn_context_create(f.d, p, &o, &c), SN_OK);
    double until = sn_time() + 60;
    while (sn_pool_is_awake(pool) && sn_time() < until) usleep(100);
    ck_assert(!sn_pool_is_awake(pool));
    int64_t before = sn_pool_wakes(pool);
    for (int k = 0; k < (rows[i].wakes ? 1 : 100); k++) ck_assert_int_eq(sn_context_run(f.d, c, arguments, results), SN_OK);
    bool expected = rows[i].wakes && sn_pool_threads(pool) > 1;
    ck_assert_msg(sn_pool_wakes(pool) - before == expected, "row %zu: %lld wake-ups", i, (long long)(sn_pool_wakes(pool) - before));
    sn_context_destroy(c);
    sn_program_release(p);
    fixture_finish(&f);
  }
  sn_pool_destroy(pool);
}
END_TEST

START_TEST(takes_the_branch_or_the_last) {
  static const int32_t want[][2] = {{0, 10}, {1, 20}, {7, 20}, {-1, 20}};
  fixture f;
  sn_program *p;
  fixture_init(&f);
  f.slices[0] = (sn_slice){SN_ALLOCATION_ARGUMENT, 0, 0, 4};
  f.slices[1] = f.slices[2] = (sn_slice){SN_ALLOCATION_RESULT, 0, 0, 4};
  f.ranges[0] = (sn_command_range){1, 1};
  f.ranges[1] = (sn_command_range){2, 1};
  f.commands[0] = (sn_command){.kind = SN_COMMAND_CONDITIONAL, .name = "c", .n_slices = 1, .slices = &f.slices[0], .n_ranges = 2, .ranges = f.ranges};
  f.commands[1] = (sn_command){.kind = SN_COMMAND_FILL, .name = "ten", .n_slices = 1, .slices = &f.slices[1], .pattern = 10, .pattern_bytes = 4};
  f.commands[2] = (sn_command){.kind = SN_COMMAND_FILL, .name = "twenty", .n_slices = 1, .slices = &f.slices[2], .pattern = 20, .pattern_bytes = 4};
  f.spec.n_commands = 3;
  ck_assert_int_eq(sn_program_build(f.d, &f.spec, &p), SN_OK);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(run(&f, p, want[i][0]), want[i][1]);
  sn_program_release(p);
  fixture_finish(&f);
}
END_TEST

START_TEST(file_round_trip) {
  fixture f;
  sn_program *p, *q;
  char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 8];
  fixture_init(&f);
  scratch_make(dir, "program");
  snprintf(path, sizeof path, "%s/p.sntr", dir);
  ck_assert_int_eq(sn_program_build(f.d, &f.spec, &p), SN_OK);
  ck_assert_int_eq(sn_program_write(f.d, p, path), SN_OK);
  ck_assert_int_eq(sn_program_read(f.d, path, &q), SN_OK);
  sn_str a = {0}, b = {0};
  sn_program_print(&a, p);
  sn_program_print(&b, q);
  ck_assert_str_eq(a.data, b.data);
  if (HAVE_CODE) ck_assert_int_eq(run(&f, q, 0), 5);
  sn_str_finish(&a);
  sn_str_finish(&b);
  sn_program_release(p);
  sn_program_release(q);
  scratch_remove(dir);
  fixture_finish(&f);
}
END_TEST

/* The image of the fixture's program, as a file would hold it. */
static char *image_of(fixture *f, size_t *n) {
  sn_program *p;
  char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 8], *bytes;
  scratch_make(dir, "program");
  snprintf(path, sizeof path, "%s/p.sntr", dir);
  ck_assert_int_eq(sn_program_build(f->d, &f->spec, &p), SN_OK);
  ck_assert_int_eq(sn_program_write(f->d, p, path), SN_OK);
  ck_assert_int_eq(sn_file_read(f->d, path, &bytes, n), SN_OK);
  sn_program_release(p);
  scratch_remove(dir);
  return bytes;
}

START_TEST(every_prefix_and_flip_is_refused) {
  fixture f;
  size_t n;
  sn_program *p;
  fixture_init(&f);
  char *bytes = image_of(&f, &n);
  ck_assert(sn_program_is(bytes, n));
  for (size_t cut = 0; cut < n; cut += 37) ck_assert_int_ne(sn_program_read_memory(NULL, "cut", bytes, cut, &p), SN_OK);
  for (size_t at = 0; at < n; at += at < 200 ? 1 : 61) { /* all of the header */
    bytes[at] ^= 0x40;
    ck_assert_int_ne(sn_program_read_memory(NULL, "flipped", bytes, n, &p), SN_OK);
    bytes[at] ^= 0x40;
  }
  ck_assert_int_eq(sn_program_read_memory(NULL, "whole", bytes, n, &p), SN_OK);
  sn_program_release(p);
  sn_free(bytes);
  fixture_finish(&f);
}
END_TEST

/* A lie with a right checksum: flips inside the table of contents, the sum made anew. */
START_TEST(lies_with_a_right_checksum_are_safe) {
  fixture f;
  size_t n;
  fixture_init(&f);
  char *bytes = image_of(&f, &n);
  uint64_t meta_offset, meta_bytes;
  memcpy(&meta_offset, bytes + 32, 8);
  memcpy(&meta_bytes, bytes + 40, 8);
  int refused = 0;
  for (uint64_t at = meta_offset; at < meta_offset + meta_bytes; at++) {
    for (int bit = 0; bit < 8; bit += 3) {
      sn_program *p = NULL;
      bytes[at] = (char)(bytes[at] ^ (1 << bit));
      memset(bytes + 24, 0, 8);
      uint64_t sum = sn_hash(bytes + 80, n - 80, sn_hash(bytes, 80, 0));
      memcpy(bytes + 24, &sum, 8);
      refused += sn_program_read_memory(NULL, "lie", bytes, n, &p) != SN_OK;
      sn_program_release(p);
      bytes[at] = (char)(bytes[at] ^ (1 << bit));
    }
  }
  ck_assert_int_gt(refused, 100);
  sn_free(bytes);
  fixture_finish(&f);
}
END_TEST

START_TEST(wrong_processor_is_named) {
  static const char *const isa[] = {"sse2", "no-such-feature", NULL};
  fixture f;
  sn_program *p;
  fixture_init(&f);
  f.spec.isa = isa;
  /* It can be made and written here, not run or read. */
  sn_context *c;
  const void *image;
  size_t n;
  ck_assert_int_eq(sn_program_build(f.d, &f.spec, &p), SN_OK);
  ck_assert_int_eq(sn_context_create(f.d, p, NULL, &c), SN_ERR_VERSION);
  ck_assert_ptr_null(c);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(f.d, 0)->message, "no-such-feature"));
  image = sn_program_image(p, &n);
  sn_program *again;
  ck_assert_int_eq(sn_program_read_memory(f.d, "memory", image, n, &again), SN_ERR_VERSION);
  ck_assert_ptr_null(again);
  sn_program_release(p);
  fixture_finish(&f);
}
END_TEST

START_TEST(calls_check_their_arguments) {
  fixture f;
  sn_program *p;
  sn_context *c;
  sn_array *wrong, *out;
  fixture_init(&f);
  ck_assert_int_eq(sn_program_build(f.d, &f.spec, &p), SN_OK);
  ck_assert_int_eq(sn_context_create(f.d, p, NULL, &c), SN_OK);
  ck_assert_int_eq(sn_array_create_zero(sn_shape_scalar(f.a, SN_TYPE_F64), &wrong), SN_OK);
  ck_assert_int_eq(sn_context_call(f.d, c, &wrong, &out), SN_ERR_SHAPE);
  ck_assert_ptr_null(out);
  _Alignas(64) int32_t memory[32];
  void *good = memory, *odd = memory + 1, *none = NULL;
  ck_assert_int_eq(sn_context_run(f.d, c, &odd, &good), SN_ERR_USAGE);
  ck_assert_int_eq(sn_context_run(f.d, c, &good, &none), SN_ERR_USAGE);
  sn_context_cancel(c);
  ck_assert_int_eq(sn_context_run(f.d, c, &good, &good), SN_ERR_CANCELLED);
  sn_array_release(wrong);
  sn_context_destroy(c);
  sn_program_release(p);
  fixture_finish(&f);
}
END_TEST

START_TEST(allocation_failures_are_statuses) {
  for (int64_t n = 0; n < 40; n++) {
    fixture f;
    sn_program *p = NULL;
    fixture_init(&f);
    sn_alloc_fail_after(n);
    sn_status s = sn_program_build(f.d, &f.spec, &p);
    sn_context *c = NULL;
    if (s == SN_OK) s = sn_context_create(f.d, p, NULL, &c);
    sn_alloc_fail_after(-1);
    ck_assert(s == SN_OK || s == SN_ERR_MEMORY);
    sn_context_destroy(c);
    sn_program_release(p);
    fixture_finish(&f);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("program");
  TCase *t = tcase_create("program");
  tcase_add_test(t, runs_a_loop);
  tcase_set_timeout(t, 120);
  tcase_add_test(t, small_phases_leave_the_pool_asleep);
  tcase_add_test(t, takes_the_branch_or_the_last);
  tcase_add_test(t, file_round_trip);
  tcase_add_test(t, every_prefix_and_flip_is_refused);
  tcase_add_test(t, lies_with_a_right_checksum_are_safe);
  tcase_add_test(t, wrong_processor_is_named);
  tcase_add_test(t, calls_check_their_arguments);
  tcase_add_test(t, allocation_failures_are_statuses);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
