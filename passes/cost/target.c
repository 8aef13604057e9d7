/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The table of targets, and this machine by CPUID and sysfs. */
#include "sinter/target.h"

#include <stdlib.h>
#include <string.h>

#define LINUX_X86 "x86_64-unknown-linux-gnu"
#define V2 "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16"
#define V3 V2 ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
#define V4 V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"

/* Figures are those of a typical machine of the kind; `native` puts what it finds in their place. */
static const sn_target rows[] = {
    {.kind = SN_TARGET_CPU, .name = "x86-64-v2", .triple = LINUX_X86, .cpu = "x86-64-v2", .features = V2, .vector_bytes = 16, .n_vector_registers = 16,
     .cores = 2, .fma_gflops = 40, .memory_gbs = 20, .l1_bytes = 32 << 10, .l2_bytes = 256 << 10, .l3_bytes = 8 << 20, .launch_us = 0.3},
    {.kind = SN_TARGET_CPU, .name = "x86-64-v3", .triple = LINUX_X86, .cpu = "x86-64-v3", .features = V3, .vector_bytes = 32, .n_vector_registers = 16, .fma = true,
     .cores = 2, .fma_gflops = 180, .memory_gbs = 20, .l1_bytes = 32 << 10, .l2_bytes = 512 << 10, .l3_bytes = 16 << 20, .launch_us = 0.3},
    {.kind = SN_TARGET_CPU, .name = "x86-64-v4", .triple = LINUX_X86, .cpu = "x86-64-v4", .features = V4, .vector_bytes = 64, .n_vector_registers = 32, .fma = true,
     .avx512 = true, .cores = 2, .fma_gflops = 330, .memory_gbs = 24, .l1_bytes = 48 << 10, .l2_bytes = 1280 << 10, .l3_bytes = 32 << 20, .launch_us = 0.3},
    {.kind = SN_TARGET_CPU, .name = "znver4", .triple = LINUX_X86, .cpu = "znver4", .features = V4 ",+avx512bf16", .vector_bytes = 64, .n_vector_registers = 32, .fma = true,
     .avx512 = true, .bf16_dot = true, .cores = 2, .fma_gflops = 236, .memory_gbs = 30, .l1_bytes = 32 << 10, .l2_bytes = 1 << 20, .l3_bytes = 32 << 20, .launch_us = 0.3},
    {.kind = SN_TARGET_CPU, .name = "aarch64", .triple = "aarch64-unknown-linux-gnu", .cpu = "generic", .features = "+neon", .vector_bytes = 16, .n_vector_registers = 32,
     .fma = true, .cores = 4, .fma_gflops = 150, .memory_gbs = 40, .l1_bytes = 64 << 10, .l2_bytes = 1 << 20, .l3_bytes = 32 << 20, .launch_us = 0.3},
    {.kind = SN_TARGET_CUDA, .name = "sm_80", .vector_bytes = 16, .n_vector_registers = 255, .fma = true, .cores = 108, .fma_gflops = 19500, .memory_gbs = 1555,
     .l1_bytes = 163 << 10, .l2_bytes = 40 << 20, .launch_us = 2.5, .tensor_tflops = 156, .l2_gbs = 5000, .sm_threads = 2048, .sm_blocks = 32},
    {.kind = SN_TARGET_CUDA, .name = "sm_89", .vector_bytes = 16, .n_vector_registers = 255, .fma = true, .cores = 142, .fma_gflops = 91600, .memory_gbs = 864,
     .l1_bytes = 99 << 10, .l2_bytes = 96 << 20, .launch_us = 2.5, .tensor_tflops = 183, .l2_gbs = 4000, .sm_threads = 1536, .sm_blocks = 24},
    {.kind = SN_TARGET_CUDA, .name = "sm_90a", .vector_bytes = 16, .n_vector_registers = 255, .fma = true, .cores = 132, .fma_gflops = 66900, .memory_gbs = 3350,
     .l1_bytes = 227 << 10, .l2_bytes = 50 << 20, .launch_us = 2.5, .tensor_tflops = 494, .l2_gbs = 6000, .sm_threads = 2048, .sm_blocks = 32},
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const sn_target *find_row(const char *name) {
  for (int i = 0; i < N_ROWS; i++) {
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  }
  return NULL;
}

/* ---- this machine ---- */

#if defined(__x86_64__)
/* What the emitter's code may use when it is there, by LLVM's names; the compiler's test wants literals. */
#define SN_FEATURE_ROWS(row)                                                                                                            \
  row("sse3") row("ssse3") row("sse4.1") row("sse4.2") row("popcnt") row("avx") row("avx2") row("fma") row("bmi") row("bmi2")           \
      row("avx512f") row("avx512bw") row("avx512cd") row("avx512dq") row("avx512vl") row("avx512vnni") row("avx512vbmi")                \
          row("avx512vbmi2") row("avx512bitalg") row("avx512vpopcntdq") row("avx512bf16") row("gfni")

static const char *native_features(sn_arena *a) {
  const char *text = "+cx16";
#define SN_FEATURE_ROW(feature) \
  if (text && __builtin_cpu_supports(feature)) text = sn_arena_printf(a, "%s,+%s", text, feature);
  SN_FEATURE_ROWS(SN_FEATURE_ROW)
#undef SN_FEATURE_ROW
  if (text && __builtin_cpu_supports("avx2")) text = sn_arena_printf(a, "%s,+f16c,+lzcnt,+movbe", text); /* every processor with AVX2 has them */
  return text;
}

static const char *native_level(void) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return "x86-64-v4";
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? "x86-64-v3" : "x86-64-v2";
}
#elif defined(__aarch64__)
static const char *native_features(sn_arena *a) { return sn_arena_string(a, "+neon"); }
static const char *native_level(void) { return "aarch64"; }
#else
static const char *native_features(sn_arena *a) { return sn_arena_string(a, ""); }
static const char *native_level(void) { return "x86-64-v2"; }
#endif

static bool read_line(const char *path, char *line, int bytes) {
  FILE *f = fopen(path, "re");
  if (!f) return false;
  bool ok = fgets(line, bytes, f) != NULL;
  fclose(f);
  return ok;
}

/* "48K", "2M". */
static int64_t size_of_text(const char *text) {
  char *end;
  int64_t n = strtoll(text, &end, 10);
  return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

/* The caches that /sys describes; what it does not name stays as it was. */
static void native_caches(sn_target *t) {
  for (int i = 0; i < 16; i++) {
    char path[96], level[16], type[32], size[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    if (!read_line(path, level, sizeof level)) return;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
    if (!read_line(path, type, sizeof type) || type[0] == 'I') continue;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    if (!read_line(path, size, sizeof size)) continue;
    int64_t bytes = size_of_text(size);
    if (bytes <= 0) continue;
    if (level[0] == '1') t->l1_bytes = bytes;
    if (level[0] == '2') t->l2_bytes = bytes;
    if (level[0] == '3') t->l3_bytes = bytes;
  }
}

static sn_status native(sn_diag *d, sn_arena *a, sn_target *out) {
  const sn_target *base = find_row(native_level());
  *out = *base;
  out->name = "native";
  out->features = native_features(a);
  if (!out->features) return sn_out_of_memory(d, 1);
  out->bf16_dot = out->avx512 && strstr(out->features, "+avx512bf16");
  out->cores = sn_cpu_count();
  out->fma_gflops = base->fma_gflops / base->cores * out->cores;
  native_caches(out);
  return SN_OK;
}

/* ---- description files ---- */

/* Lines of `key = value`: figures that replace those of the row named by `base` (native where there is none). */
static bool take_figure(sn_target *t, const char *key, double v) {
  const struct { const char *key; double *to; } reals[] = {
      {"fma_gflops", &t->fma_gflops}, {"memory_gbs", &t->memory_gbs}, {"launch_us", &t->launch_us}, {"tensor_tflops", &t->tensor_tflops}, {"l2_gbs", &t->l2_gbs}};
  const struct { const char *key; int64_t *to; } sizes[] = {{"l1_bytes", &t->l1_bytes}, {"l2_bytes", &t->l2_bytes}, {"l3_bytes", &t->l3_bytes}};
  for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
    if (strcmp(key, reals[i].key) != 0) continue;
    *reals[i].to = v;
    return true;
  }
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    if (strcmp(key, sizes[i].key) != 0) continue;
    *sizes[i].to = (int64_t)v;
    return true;
  }
  if (strcmp(key, "cores") != 0) return false;
  t->cores = (int)v;
  return true;
}

static sn_status read_figures(sn_diag *d, sn_arena *a, const char *path, sn_target *t) {
  char *text;
  size_t n;
  SN_TRY(sn_file_read(d, path, &text, &n));
  const char *file = sn_arena_string(a, path);
  sn_status s = SN_OK;
  uint32_t line = 1;
  for (char *at = text; *at && s == SN_OK; line++) {
    char key[32], value[64];
    size_t length = strcspn(at, "\n");
    char *next = at + length + (at[length] == '\n');
    at[length] = '\0';
    sn_loc loc = {file, line, 1};
    if (at[strspn(at, " \t\r")] != '\0' && at[0] != '#') {
      if (sscanf(at, " %31[a-z0-9_] = %63s", key, value) != 2) {
        s = sn_error(d, loc, SN_ERR_SYNTAX, "a machine description has lines 'key = value'");
      } else if (strcmp(key, "base") == 0) {
        const sn_target *row = find_row(value);
        if (row) *t = *row;
        else s = sn_error(d, loc, SN_ERR_SYNTAX, "'%s' is no target", value);
      } else if (!take_figure(t, key, strtod(value, NULL))) {
        s = sn_error(d, loc, SN_ERR_SYNTAX, "'%s' is no figure of a machine", key);
        sn_hint(d, "known: base, cores, fma_gflops, memory_gbs, launch_us, tensor_tflops, l2_gbs, l1_bytes, l2_bytes, l3_bytes");
      }
    }
    at = next;
  }
  sn_free(text);
  return s;
}

sn_status sn_target_find(sn_diag *d, sn_arena *a, const char *name, sn_target *out) {
  memset(out, 0, sizeof *out);
  if (!name || !*name) name = "native";
  if (strcmp(name, "native") == 0) {
    const char *figures = sn_env("SINTER_MACHINE");
    SN_TRY(native(d, a, out));
    return figures ? read_figures(d, a, figures, out) : SN_OK;
  }
  const sn_target *row = find_row(name);
  if (row) {
    *out = *row;
    if (row->kind == SN_TARGET_CPU && strcmp(row->name, native_level()) == 0) native_caches(out);
    return SN_OK;
  }
  if (sn_file_exists(name)) {
    SN_TRY(native(d, a, out));
    SN_TRY(read_figures(d, a, name, out));
    if (out->kind == SN_TARGET_CUDA) return SN_OK; /* code is for the architecture; only figures are the machine's */
    out->name = sn_arena_string(a, name);
    return out->name ? SN_OK : sn_out_of_memory(d, strlen(name));
  }
  const char *names[N_ROWS + 1];
  for (int i = 0; i < N_ROWS; i++) names[i] = rows[i].name;
  names[N_ROWS] = "native";
  sn_status s = sn_error(d, SN_NOWHERE, SN_ERR_NAME, "'%s' is neither a target nor a machine description", name);
  const char *near = sn_nearest(name, names, N_ROWS + 1);
  if (near) sn_hint(d, "did you mean '%s'?", near);
  else sn_hint(d, "targets: native, x86-64-v2, x86-64-v3, x86-64-v4, znver4, aarch64, sm_80, sm_89, sm_90a, or a file");
  return s;
}
