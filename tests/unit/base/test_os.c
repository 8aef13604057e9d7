/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "../scratch.h"
#include "test_base.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[SCRATCH_BYTES]; /* a directory of this run's own */

static void scratch_setup(void) {
  scratch_make(scratch, "base");
}

static void scratch_teardown(void) {
  scratch_remove(scratch);
}

/* A path in the scratch directory, valid until the fourth next call. */
static const char *in_scratch(const char *name) {
  static char paths[4][512];
  static int next;
  char *path = paths[next = (next + 1) % 4];
  snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
  return path;
}

static size_t count_names(void) {
  sn_arena *a;
  const char *const *names;
  size_t n;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_dir_list(NULL, a, scratch, &names, &n), SN_OK);
  sn_arena_destroy(a);
  return n;
}

static void check_content(const char *path, const char *expected) {
  char *text;
  size_t n;
  ck_assert_int_eq(sn_file_read(NULL, path, &text, &n), SN_OK);
  ck_assert_uint_eq(n, strlen(expected));
  ck_assert_str_eq(text, expected);
  sn_free(text);
}

START_TEST(file_round_trip) {
  const char *path = in_scratch("f");
  ck_assert(!sn_file_exists(path));
  ck_assert_int_eq(sn_file_write(NULL, path, "one", 3), SN_OK);
  check_content(path, "one");
  ck_assert_int_eq(chmod(path, 0640), 0);
  ck_assert_int_eq(sn_file_write(NULL, path, "", 0), SN_OK);
  check_content(path, "");
  struct stat st;
  ck_assert_int_eq(stat(path, &st), 0);
  ck_assert_int_eq(st.st_mode & 0777, 0640); /* kept */
  size_t n = 3000000;
  char *large = malloc(n);
  ck_assert_ptr_nonnull(large);
  for (size_t i = 0; i < n; i++) large[i] = (char)(i * 31);
  ck_assert_int_eq(sn_file_write(NULL, path, large, n), SN_OK);
  char *back;
  size_t n_back;
  ck_assert_int_eq(sn_file_read(NULL, path, &back, &n_back), SN_OK);
  ck_assert_uint_eq(n_back, n);
  ck_assert_mem_eq(back, large, n);
  ck_assert_int_eq(back[n], 0);
  sn_free(back);
  free(large);
  ck_assert_uint_eq(count_names(), 1); /* no temporary stays */
  ck_assert_int_eq(sn_file_remove(NULL, path), SN_OK);
  ck_assert_int_eq(sn_file_remove(NULL, path), SN_OK);
}
END_TEST

START_TEST(file_write_follows_links_and_devices) {
  ck_assert_int_eq(sn_file_write(NULL, in_scratch("target"), "old", 3), SN_OK);
  ck_assert_int_eq(symlink("target", in_scratch("link")), 0);
  ck_assert_int_eq(sn_file_write(NULL, in_scratch("link"), "new", 3), SN_OK);
  check_content(in_scratch("target"), "new");
  struct stat st;
  ck_assert_int_eq(lstat(in_scratch("link"), &st), 0);
  ck_assert(S_ISLNK(st.st_mode));
  ck_assert_int_eq(sn_file_write(NULL, "/dev/null", "x", 1), SN_OK);
  ck_assert_int_eq(stat("/dev/null", &st), 0);
  ck_assert(S_ISCHR(st.st_mode));
}
END_TEST

static void check_io_error(sn_status s, sn_diag *d, const char *expected) {
  ck_assert_int_eq(s, SN_ERR_IO);
  char *text = print_diag(d, false);
  ck_assert_msg(strstr(text, expected) != NULL, "'%s' not in '%s'", expected, text);
  free(text);
  sn_diag_clear(d);
}

START_TEST(file_faults_are_told) {
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  char *text;
  size_t n;
  sn_file_map m;
  check_io_error(sn_file_read(d, in_scratch("none"), &text, &n), d, "/none: error: cannot open: No such file");
  ck_assert_ptr_null(text);
  check_io_error(sn_file_read(d, scratch, &text, &n), d, "cannot read: Is a directory");
  check_io_error(sn_file_map_open(d, in_scratch("none"), &m), d, "cannot open: No such file");
  check_io_error(sn_file_map_open(d, scratch, &m), d, "cannot map: Is a directory");
  check_io_error(sn_file_map_open(d, "/dev/zero", &m), d, "not a regular file");
  check_io_error(sn_file_write(d, in_scratch("no/dir"), "x", 1), d, "cannot open for writing: No such file");
  check_io_error(sn_file_write(d, scratch, "x", 1), d, "cannot open for writing: Is a directory");
  check_io_error(sn_file_write(d, "/dev/full", "x", 1), d, "cannot write: No space left");
  check_io_error(sn_file_write(d, "", "x", 1), d, "cannot");
  check_io_error(sn_file_remove(d, "/dev/null/x"), d, "cannot remove: Not a directory");
  sn_diag_destroy(d);
}
END_TEST

/* A full disk, played by a limit on the size of files: the old content survives, the temporary does not. */
static int write_beyond_limit(const char *path) {
  struct rlimit r = {1000, 1000};
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &r) != 0) return 2;
  static char big[100000];
  memset(big, 'b', sizeof big);
  return sn_file_write(NULL, path, big, sizeof big) == SN_ERR_IO ? 0 : 3;
}

START_TEST(file_write_full_disk) {
  const char *path = in_scratch("f");
  ck_assert_int_eq(sn_file_write(NULL, path, "old", 3), SN_OK);
  fflush(NULL);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) _exit(write_beyond_limit(path));
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  ck_assert_int_eq(WEXITSTATUS(status), 0);
  check_content(path, "old");
  ck_assert_uint_eq(count_names(), 1);
}
END_TEST

static sn_status write_pieces(void *ctx, FILE *to) {
  for (int i = 0; i < *(int *)ctx; i++) {
    if (fprintf(to, "%d,", i) < 0) return SN_ERR_IO;
  }
  return *(int *)ctx == 5 ? SN_ERR_CANCELLED : SN_OK;
}

START_TEST(file_write_in_pieces) {
  const char *path = in_scratch("f");
  int n = 3;
  ck_assert_int_eq(sn_file_write_with(NULL, path, write_pieces, &n), SN_OK);
  check_content(path, "0,1,2,");
  n = 5;
  ck_assert_int_eq(sn_file_write_with(NULL, path, write_pieces, &n), SN_ERR_CANCELLED);
  check_content(path, "0,1,2,");
  ck_assert_uint_eq(count_names(), 1);
}
END_TEST

START_TEST(file_maps) {
  const char *path = in_scratch("f");
  sn_file_map m;
  ck_assert_int_eq(sn_file_write(NULL, path, "mapped", 6), SN_OK);
  ck_assert_int_eq(sn_file_map_open(NULL, path, &m), SN_OK);
  ck_assert_uint_eq(m.n_bytes, 6);
  ck_assert_mem_eq(m.data, "mapped", 6);
  ck_assert_int_eq(sn_file_write(NULL, path, "", 0), SN_OK);
  ck_assert_mem_eq(m.data, "mapped", 6); /* the old file lives on behind the map */
  sn_file_map_close(&m);
  sn_file_map_close(&m);
  ck_assert_int_eq(sn_file_map_open(NULL, path, &m), SN_OK);
  ck_assert_uint_eq(m.n_bytes, 0);
  ck_assert_ptr_null(m.handle);
  sn_file_map_close(&m);
}
END_TEST

START_TEST(file_reads_without_length) { /* the kernel's own files state length 0 */
  char *text;
  size_t n;
  ck_assert_int_eq(sn_file_read(NULL, "/proc/self/status", &text, &n), SN_OK);
  ck_assert_uint_gt(n, 100);
  ck_assert_uint_eq(strlen(text), n);
  sn_free(text);
}
END_TEST

START_TEST(dir_makes_and_lists) {
  ck_assert_int_eq(sn_dir_make(NULL, in_scratch("a/b//c/")), SN_OK);
  ck_assert_int_eq(sn_dir_make(NULL, in_scratch("a/b")), SN_OK);
  ck_assert(sn_file_exists(in_scratch("a/b/c")));
  sn_diag *d;
  sn_arena *a;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_file_write(NULL, in_scratch("a/f"), "", 0), SN_OK);
  check_io_error(sn_dir_make(d, in_scratch("a/f/g")), d, "cannot make directory: Not a directory");
  check_io_error(sn_dir_make(d, in_scratch("a/f")), d, "cannot make directory: Not a directory");
  check_io_error(sn_dir_make(d, ""), d, "cannot make directory");
  for (int i = 0; i < 100; i++) {
    char name[32];
    snprintf(name, sizeof name, "a/x%02d", 99 - i);
    ck_assert_int_eq(sn_file_write(NULL, in_scratch(name), "", 0), SN_OK);
  }
  const char *const *names;
  size_t n;
  ck_assert_int_eq(sn_dir_list(d, a, in_scratch("a"), &names, &n), SN_OK);
  ck_assert_uint_eq(n, 102);
  ck_assert_str_eq(names[0], "b");
  ck_assert_str_eq(names[1], "f");
  ck_assert_str_eq(names[2], "x00");
  ck_assert_str_eq(names[101], "x99");
  ck_assert_int_eq(sn_dir_list(d, a, in_scratch("a/b/c"), &names, &n), SN_OK);
  ck_assert_uint_eq(n, 0);
  check_io_error(sn_dir_list(d, a, in_scratch("none"), &names, &n), d, "cannot open directory: No such file");
  sn_arena_destroy(a);
  sn_diag_destroy(d);
}
END_TEST

static sn_status files_attempt(void) {
  char *text;
  size_t n;
  sn_arena *a;
  const char *const *names;
  SN_TRY(sn_dir_make(NULL, scratch));
  sn_status s = sn_file_write(NULL, in_scratch("f"), "0123456789", 10);
  if (s == SN_ERR_IO) s = SN_ERR_MEMORY; /* ENOMEM, told like every other errno */
  SN_TRY(s);
  SN_TRY(sn_file_read(NULL, in_scratch("f"), &text, &n));
  sn_free(text);
  SN_TRY(sn_arena_create(&a));
  s = sn_dir_list(NULL, a, scratch, &names, &n);
  sn_arena_destroy(a);
  return s;
}

START_TEST(file_allocation_failures) {
  ck_assert_int_ge(check_allocation_failures(files_attempt), 4);
  ck_assert_uint_eq(count_names(), 1);
}
END_TEST

START_TEST(pages_are_zeroed) {
  static const size_t sizes[] = {0, 1, 5000, (size_t)2 << 20, ((size_t)5 << 20) + 1};
  int64_t live = sn_alloc_live();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *p = sn_pages_alloc(sizes[i]);
    ck_assert_ptr_nonnull(p);
    if (sizes[i] >= (size_t)2 << 20) ck_assert_uint_eq((uintptr_t)p % ((size_t)2 << 20), 0);
    for (size_t k = 0; k < sizes[i]; k += 4096) ck_assert_int_eq(p[k]++, 0);
    if (sizes[i] != 0) p[sizes[i] - 1] = 7;
    sn_pages_free(p, sizes[i]);
  }
  sn_pages_free(NULL, 1);
  sn_alloc_fail_after(0);
  ck_assert_ptr_null(sn_pages_alloc(1));
  ck_assert_ptr_null(sn_code_alloc(1));
  sn_alloc_fail_after(-1);
  ck_assert_int_eq(sn_alloc_live(), live);
}
END_TEST

START_TEST(code_runs_once_sealed) {
  int (*fn)(void);
#if defined(__x86_64__)
  static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov eax, 42; ret */
#elif defined(__aarch64__)
  static const unsigned char code[] = {0x40, 0x05, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6}; /* mov w0, 42; ret */
#else
  static const unsigned char code[] = {0};
#endif
  void *p = sn_code_alloc(sizeof code);
  ck_assert_ptr_nonnull(p);
  memcpy(p, code, sizeof code);
  ck_assert_int_eq(sn_code_seal(p, sizeof code), SN_OK);
  memcpy(&fn, &p, sizeof fn);
  if (sizeof code > 1) ck_assert_int_eq(fn(), 42);
  sn_code_free(p, sizeof code);
  ck_assert_int_eq(sn_code_seal(NULL, 1), SN_ERR_USAGE);
}
END_TEST

START_TEST(libraries_open) {
  static const char *const names[] = {"libsinter-none.so.9", "libm.so.6"};
  sn_library *l;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_library_open(d, names, 2, &l), SN_OK);
  ck_assert_ptr_nonnull(sn_library_symbol(l, "cos"));
  ck_assert_ptr_null(sn_library_symbol(l, "no_such_symbol"));
  sn_library_close(l);
  ck_assert_int_eq(sn_library_open(d, names, 2, &l), SN_OK);
  sn_library_keep(l);
  sn_library_close(NULL);
  ck_assert_int_eq(sn_library_open(d, names, 1, &l), SN_ERR_UNAVAILABLE);
  ck_assert_ptr_null(l);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, "libsinter-none.so.9"));
  ck_assert_int_eq(sn_library_open(d, NULL, 0, &l), SN_ERR_UNAVAILABLE);
  sn_diag_destroy(d);
}
END_TEST

static void put(const char *name, const char *text) {
  char dir[256];
  snprintf(dir, sizeof dir, "%s", name);
  *strrchr(dir, '/') = '\0';
  ck_assert_int_eq(sn_dir_make(NULL, in_scratch(dir)), SN_OK);
  ck_assert_int_eq(sn_file_write(NULL, in_scratch(name), text, strlen(text)), SN_OK);
}

START_TEST(cpu_quota) {
  put("v2/cpu.max", "max 100000\n");
  put("v2/a/cpu.max", "350000 100000\n");
  put("v2/a/b/cpu.max", "800000 100000\n");
  put("v2/tiny/cpu.max", "50000 100000\n");
  put("v1/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  put("v1/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  put("v1/cpu,cpuacct/free/cpu.cfs_quota_us", "-1\n");
  put("v1/cpu,cpuacct/free/cpu.cfs_period_us", "100000\n");
  put("v1/cpuset/job/cpu.max", "100000 100000\n");
  static const struct {
    const char *root, *membership;
    int cpus;
  } rows[] = {
      {"v2", "0::/\n", INT32_MAX},
      {"v2", "0::/a\n", 3},
      {"v2", "0::/a/b\n", 3}, /* the parent is stricter */
      {"v2", "0::/tiny", 1},  /* never none */
      {"v2", "0::/a/not/mounted/here\n", 3},
      {"v2", "0::/other\n", INT32_MAX},
      {"v1", "5:cpuset:/job\n4:cpu,cpuacct:/job\n0::/\n", 2},
      {"v1", "4:cpuacct,cpu:/free\n", INT32_MAX},
      {"v1", "4:cpuset:/job\n", INT32_MAX},
      {"none", "0::/a\n", INT32_MAX},
      {"v2", "", INT32_MAX},
      {"v2", "garbage\n:\n::\n0:", INT32_MAX},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int cpus = sn_base_quota_cpus(in_scratch(rows[i].root), rows[i].membership);
    ck_assert_msg(cpus == rows[i].cpus, "row %zu: %d CPUs", i, cpus);
  }
  ck_assert_int_ge(sn_cpu_count(), 1);
  ck_assert_int_le(sn_cpu_count(), sysconf(_SC_NPROCESSORS_CONF));
}
END_TEST

/* Files that grow: what was there stays; a page of one can be marked, which shows among the process's mappings. */
START_TEST(file_appends_and_marks) {
  char *text, line[1024];
  size_t n;
  bool marked = false;
  const char *path = in_scratch("grows");
  ck_assert_int_eq(sn_file_append(NULL, path, "one\n", 4), SN_OK);
  ck_assert_int_eq(sn_file_append(NULL, path, "", 0), SN_OK);
  ck_assert_int_eq(sn_file_append(NULL, path, "two\n", 4), SN_OK);
  ck_assert_int_eq(sn_file_read(NULL, path, &text, &n), SN_OK);
  ck_assert_str_eq(text, "one\ntwo\n");
  sn_free(text);
  ck_assert_int_eq(sn_file_mark(NULL, path), SN_OK);
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) marked |= strstr(line, "/grows") && strstr(line, " r-xp ");
  if (f) {
    fclose(f);
    ck_assert(marked);
  }
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_file_append(d, in_scratch("none/grows"), "x", 1), SN_ERR_IO);
  ck_assert_int_eq(sn_file_mark(d, in_scratch("none/grows")), SN_ERR_IO);
  ck_assert_uint_eq(sn_diag_count(d, SN_ERROR), 2);
  ck_assert_int_eq(sn_file_append(d, "/dev/full", "x", 1), SN_ERR_IO);
  sn_diag_destroy(d);
  ck_assert_int_eq(sn_process_id(), getpid());
}
END_TEST

START_TEST(clock_and_environment) {
  double a = sn_time(), b = sn_time();
  ck_assert_double_le(a, b);
  setenv("SINTER_TEST_VALUE", "v", 1);
  ck_assert_str_eq(sn_env("SINTER_TEST_VALUE"), "v");
  setenv("SINTER_TEST_VALUE", "", 1);
  ck_assert_ptr_null(sn_env("SINTER_TEST_VALUE"));
  unsetenv("SINTER_TEST_VALUE");
  ck_assert_ptr_null(sn_env("SINTER_TEST_VALUE"));
}
END_TEST

TCase *case_os(void) {
  TCase *c = tcase_create("os");
  tcase_add_checked_fixture(c, scratch_setup, scratch_teardown);
  tcase_add_test(c, file_round_trip);
  tcase_add_test(c, file_write_follows_links_and_devices);
  tcase_add_test(c, file_faults_are_told);
  tcase_add_test(c, file_write_full_disk);
  tcase_add_test(c, file_write_in_pieces);
  tcase_add_test(c, file_maps);
  tcase_add_test(c, file_reads_without_length);
  tcase_add_test(c, dir_makes_and_lists);
  tcase_add_test(c, file_allocation_failures);
  tcase_add_test(c, pages_are_zeroed);
  tcase_add_test(c, code_runs_once_sealed);
  tcase_add_test(c, libraries_open);
  tcase_add_test(c, file_appends_and_marks);
  tcase_add_test(c, cpu_quota);
  tcase_add_test(c, clock_and_environment);
  return c;
}
