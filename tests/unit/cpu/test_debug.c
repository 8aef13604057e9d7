/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* SINTER_JIT_DUMP: the jitdump file as perf's specification has it, its lines against the HLO text and against what llvm-dwarfdump reads in the objects. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../scratch.h"
#include "sinter/compiler.h"
#include "sinter/text.h"

static const char source[] =
    "HloModule two_fusions\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    "ENTRY e {\n"
    "  x = f32[64,32] parameter(0)\n"
    "  y = f32[32,48] parameter(1)\n"
    "  p = f32[64,48] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  t = f32[64,48] tanh(p)\n"
    "  zero = f32[] constant(0)\n"
    "  ROOT r = f32[64] reduce(t, zero), dimensions={1}, to_apply=add\n"
    "}\n";

typedef struct dumped {
  char dir[SCRATCH_BYTES], *data, *text;
  size_t n, text_bytes;
  const char *lines[4096]; /* of the HLO text, from 1 */
  uint32_t n_lines;
  sn_program *program;
} dumped;

static void compile_into(dumped *t, int times) {
  char path[512];
  sn_module *m;
  sn_compile_options o;
  memset(t, 0, sizeof *t);
  scratch_make(t->dir, "debug");
  setenv("SINTER_JIT_DUMP", t->dir, 1);
  ck_assert_int_eq(sn_hlo_parse(NULL, "two_fusions.hlo", source, sizeof source - 1, &m), SN_OK);
  sn_compile_options_init(&o);
  for (int i = 0; i < times; i++) {
    sn_program_release(t->program);
    ck_assert_int_eq(sn_compile(NULL, m, &o, &t->program, NULL), SN_OK);
  }
  unsetenv("SINTER_JIT_DUMP");
  sn_module_destroy(m);
  snprintf(path, sizeof path, "%s/jit-%lld.dump", t->dir, (long long)getpid());
  ck_assert_int_eq(sn_file_read(NULL, path, &t->data, &t->n), SN_OK);
  snprintf(path, sizeof path, "%s/two_fusions.0/optimized.hlo", t->dir);
  ck_assert_int_eq(sn_file_read(NULL, path, &t->text, &t->text_bytes), SN_OK);
  for (char *p = t->text; p && *p; p = strchr(p, '\n')) {
    if (*p == '\n' && !*++p) break;
    ck_assert_uint_lt(t->n_lines, 4000);
    t->lines[++t->n_lines] = p;
  }
}

static void remove_all(dumped *t) {
  scratch_remove(t->dir);
  sn_program_release(t->program);
  sn_free(t->data);
  sn_free(t->text);
}

static uint64_t get(const dumped *t, size_t at, int bytes) {
  uint64_t v = 0;
  ck_assert_uint_le(at + (size_t)bytes, t->n);
  memcpy(&v, t->data + at, (size_t)bytes);
  return v;
}

static bool line_holds(const dumped *t, uint64_t line, const char *what) {
  const char *at = t->lines[line], *end = strchr(at, '\n'), *found = strstr(at, what);
  return found && (!end || found < end);
}

typedef struct seen {
  int functions, lines;
  bool fusion, product, tanh, reduce;
  uint64_t info_of; /* code_addr of the debug record before; 0: none */
} seen;

static void check_lines(const dumped *t, size_t at, size_t end, seen *s) {
  s->info_of = get(t, at, 8);
  uint64_t n = get(t, at + 8, 8);
  char file[512];
  snprintf(file, sizeof file, "%s/two_fusions.0/optimized.hlo", t->dir);
  at += 16;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t line = get(t, at + 8, 4);
    ck_assert_uint_ge(get(t, at, 8), s->info_of);
    ck_assert(line >= 1 && line <= t->n_lines);
    ck_assert(strncmp(t->data + at + 16, t->dir, strlen(t->dir)) == 0 && strstr(t->data + at + 16, "/optimized.hlo"));
    s->tanh |= line_holds(t, line, " tanh(");
    s->reduce |= line_holds(t, line, " reduce(");
    at += 16 + strlen(t->data + at + 16) + 1;
    s->lines++;
  }
  ck_assert_uint_eq(at, end);
}

static void check_code(const dumped *t, size_t at, size_t end, seen *s, bool alive) {
  uint64_t address = get(t, at + 16, 8), bytes = get(t, at + 24, 8);
  const char *name = t->data + at + 40;
  ck_assert_uint_eq(get(t, at, 4), (uint64_t)getpid());
  ck_assert_uint_eq(get(t, at + 8, 8), address);
  ck_assert_uint_eq(at + 40 + strlen(name) + 1 + bytes, end);
  if (s->info_of) ck_assert_uint_eq(s->info_of, address); /* lines stand right in front of their code */
  s->info_of = 0;
  if (alive) { /* the bytes are those that run */
    size_t n;
    const uint8_t *code = sn_program_code(t->program, &n);
    ck_assert(address >= (uint64_t)(uintptr_t)code && address + bytes <= (uint64_t)(uintptr_t)code + n);
    ck_assert_int_eq(memcmp(name + strlen(name) + 1, (const void *)(uintptr_t)address, bytes), 0);
  }
  s->fusion |= strncmp(name, "fusion", 6) == 0;
  s->product |= strncmp(name, "contract_f32_", 13) == 0;
  s->functions++;
}

static seen walk(const dumped *t, bool alive) {
  seen s = {0};
  size_t at = 40;
  ck_assert_uint_eq(get(t, 0, 4), 0x4a695444);
  ck_assert_uint_eq(get(t, 4, 4), 1);
  ck_assert_uint_eq(get(t, 8, 4), 40);
  ck_assert_uint_eq(get(t, 20, 4), (uint64_t)getpid());
  for (uint64_t id, bytes; at < t->n; at += bytes) {
    id = get(t, at, 4);
    bytes = get(t, at + 4, 4);
    ck_assert_uint_le(at + bytes, t->n);
    ck_assert(id == 0 || id == 2);
    if (id == 2) check_lines(t, at + 16, at + bytes, &s);
    else check_code(t, at + 16, at + bytes, &s, alive);
  }
  ck_assert_uint_eq(at, t->n);
  return s;
}

START_TEST(jit_dump_is_as_specified) {
  dumped t;
  compile_into(&t, 1);
  seen s = walk(&t, true);
  ck_assert_int_ge(s.functions, 3);
  ck_assert(s.fusion && s.product && s.tanh && s.reduce);
  remove_all(&t);
}
END_TEST

START_TEST(jit_dump_grows_with_each_compile) {
  dumped once, twice;
  compile_into(&once, 1);
  compile_into(&twice, 2);
  seen a = walk(&once, true), b = walk(&twice, false);
  ck_assert_int_eq(2 * a.functions, b.functions);
  ck_assert_int_eq(2 * a.lines, b.lines);
  remove_all(&once);
  remove_all(&twice);
}
END_TEST

/* llvm-dwarfdump is the judge of the objects: as many lines as the dump has, and the HLO text as their file. */
START_TEST(objects_have_line_tables) {
  dumped t;
  char command[1024], row[512];
  unsigned long address, line;
  int lines = 0, files = 0;
  compile_into(&t, 1);
  seen s = walk(&t, true);
  if (system("llvm-dwarfdump --version >/dev/null 2>&1") != 0) {
    printf("not run: line tables read by llvm-dwarfdump: it was not found (package llvm)\n");
  } else {
    snprintf(command, sizeof command, "for f in %s/two_fusions.0/unit.*.o; do llvm-dwarfdump --debug-line $f; llvm-dwarfdump --verify $f >/dev/null || echo BROKEN; done", t.dir);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(row, sizeof row, f)) {
      ck_assert_ptr_null(strstr(row, "BROKEN"));
      files += strstr(row, "name: \"optimized.hlo\"") != NULL;
      if (sscanf(row, "0x%lx %lu", &address, &line) == 2 && line > 0 && !strstr(row, "end_sequence")) lines++;
    }
    ck_assert_int_eq(pclose(f), 0);
    ck_assert_int_ge(files, 1);
    ck_assert_int_eq(lines, s.lines);
  }
  remove_all(&t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("jit-dump");
  TCase *c = tcase_create("debug");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, jit_dump_is_as_specified);
  tcase_add_test(c, jit_dump_grows_with_each_compile);
  tcase_add_test(c, objects_have_line_tables);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
