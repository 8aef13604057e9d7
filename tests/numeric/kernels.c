/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Each instruction of the golden programs, behind a pipeline, lowered to a kernel, the kernel run (by its slow evaluator, or as machine code: run_kernel.h) on the operand
 * values that the interpreter had, and the results compared with the interpreter's.
 *
 * Tolerance: data movement and integers exactly. Floats by the largest magnitude among operands and result, times 64 units in the last place of the type: kernels sum in
 * lanes where the interpreter sums in order, and both evaluate functions with the same library, so what differs is the order of at most a few hundred terms. */
#include <cJSON.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "run_kernel.h"
#include "sinter/compiler.h"
#include "sinter/eval.h"
#include "sinter/files.h"
#include "sinter/kernel.h"
#include "sinter/target.h"
#include "sinter/text.h"

enum { MAX_ARRAYS = 1024, LARGEST_ELEMENTS = 200000 };

typedef struct values { /* by instruction id */
  uint32_t n;
  sn_array **v;
} values;

typedef struct totals {
  int64_t ok, bad, unlowered;
} totals;

static void remember(void *ctx, const sn_eval_event *e) {
  values *all = ctx;
  if (e->instr->id >= all->n) return;
  sn_array_release(all->v[e->instr->id]);
  all->v[e->instr->id] = sn_array_retain((sn_array *)e->value);
}

static char *read_text(const char *path, size_t *n) {
  gzFile f = gzopen(path, "rb"); /* reads plain files as they are */
  size_t cap = 1 << 24;
  char *text = f ? malloc(cap) : NULL;
  int got = text ? gzread(f, text, (unsigned)cap - 1) : 0;
  *n = got > 0 ? (size_t)got : 0;
  if (text) text[*n] = 0;
  if (f) gzclose(f);
  return text;
}

/* ---- one instruction ---- */

static double largest(const sn_array *a) {
  sn_type t = sn_array_shape(a)->type;
  const char *p = sn_array_data(a);
  double most = 0;
  for (int64_t k = 0; k < sn_shape_elements(sn_array_shape(a)); k++, p += sn_type_bytes(t)) {
    double re, im = 0;
    if (sn_type_is_complex(t)) sn_load_c128(t, p, &re, &im);
    else re = sn_load_f64(t, p);
    re = fabs(re) + fabs(im);
    if (isfinite(re) && re > most) most = re;
  }
  return most;
}

static double unit_of(sn_type t) {
  int mantissa = sn_types[t].mantissa_bits;
  return sn_type_is_float(t) || sn_type_is_complex(t) ? ldexp(1.0, -mantissa) : 0;
}

static bool same(const char *program, const sn_instr *i, int leaf, const sn_array *got, const sn_array *want, double magnitude) {
  sn_array_difference diff;
  double rtol = 64 * unit_of(sn_array_shape(want)->type), most = largest(want);
  if (most > magnitude) magnitude = most;
  if (sn_array_compare(got, want, rtol, rtol * magnitude, &diff) != SN_OK) {
    printf("%s: %s: leaf %d has another shape\n", program, i->name, leaf);
    return false;
  }
  if (diff.n_bad == 0) return true;
  printf("%s: %s (%s) leaf %d: %lld elements differ; worst at %lld: kernel %.9g, interpreter %.9g\n", program, i->name, sn_opcode_text(i->op), leaf, (long long)diff.n_bad,
         (long long)diff.worst, diff.got, diff.want);
  return false;
}

static const sn_target wide = {.kind = SN_TARGET_CPU, .name = "test", .vector_bytes = 64, .n_vector_registers = 32, .fma = true, .cores = 2, .l1_bytes = 49152, .l2_bytes = 1310720};
static const sn_target middle = {.kind = SN_TARGET_CPU, .name = "test", .vector_bytes = 32, .n_vector_registers = 16, .fma = true, .cores = 2, .l1_bytes = 32768, .l2_bytes = 524288};
static const sn_target device = {.kind = SN_TARGET_CUDA, .name = "sm_90a", .vector_bytes = 16, .n_vector_registers = 255, .fma = true, .cores = 132, .l1_bytes = 232448, .l2_bytes = 52428800};
static const sn_target narrow = {.kind = SN_TARGET_CPU, .name = "test", .vector_bytes = 16, .n_vector_registers = 16, .cores = 2, .l1_bytes = 32768, .l2_bytes = 262144};

/* Buffers in the kernel's order: operands, results, workspaces. False: an operand's value is not known, or the arrays are too large for a slow walk. */
static bool gather_buffers(const values *all, const sn_instr *i, const sn_kernel *k, void **mem, sn_array **results, int *n_results, double *magnitude) {
  int n = 0;
  *n_results = 0;
  *magnitude = 0;
  for (uint32_t o = 0; o < i->n_operands; o++) {
    sn_array *x = all->v[sn_instr_operand(i, o)->id];
    if (!x || sn_shape_elements(sn_array_shape(x)) > LARGEST_ELEMENTS) return false;
    if (!sn_shape_is_array(sn_array_shape(x))) continue;
    mem[n++] = sn_array_data(x);
    double m = largest(x);
    if (m > *magnitude) *magnitude = m;
  }
  for (int64_t l = 0; l < sn_shape_leaves(i->shape); l++) {
    const sn_shape *s = sn_shape_leaf(i->shape, l);
    if (sn_shape_elements(s) > LARGEST_ELEMENTS || sn_array_create(s, &results[*n_results]) != SN_OK) return false;
    memset(sn_array_data(results[*n_results]), 0xab, sn_array_bytes(results[*n_results]));
    mem[n++] = sn_array_data(results[(*n_results)++]);
  }
  for (int b = 0; b < k->n_buffers; b++) {
    if (k->buffers[b].memory != SN_KMEM_WORK) continue;
    size_t bytes = (size_t)sn_kbuffer_bytes(&k->buffers[b]);
    mem[n] = malloc(bytes + 1);
    memset(mem[n++], 0xcd, bytes);
  }
  return true;
}

/* Its text reads back to an equal kernel that prints the same text. */
static bool reads_back(sn_diag *d, sn_arena *a, const sn_kernel *k) {
  sn_str text = {0}, again = {0};
  sn_kernel *copy = NULL;
  sn_kernel_print(&text, k);
  bool fine = sn_kernel_parse(d, a, "kernel", text.data, text.n, &copy) == SN_OK && sn_kernel_verify(d, copy) == SN_OK;
  if (fine) {
    sn_kernel_print(&again, copy);
    fine = text.n == again.n && memcmp(text.data, again.data, text.n) == 0 && sn_kernel_equal(k, copy) && sn_kernel_hash(k) == sn_kernel_hash(copy);
  }
  if (!fine) {
    printf("text of a kernel is not read back: %s\n", sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "it differs");
    if (getenv("SINTER_TEST_VERBOSE")) printf("%s\n----\n%s\n", text.data, again.data ? again.data : "");
  }
  sn_str_finish(&text);
  sn_str_finish(&again);
  return fine;
}

static void check_instr(const char *program, const values *all, const sn_instr *i, const sn_target *t, totals *sum) {
  void *mem[MAX_ARRAYS] = {NULL};
  sn_array *results[MAX_ARRAYS];
  int n_results = 0;
  double magnitude;
  sn_arena *a;
  sn_diag *d;
  struct sn_kernel *k;
  if (!all->v[i->id] || i->n_operands > 256 || sn_arena_create(&a) != SN_OK || sn_diag_create(&d) != SN_OK) return;
  if (sn_lower_instr(d, a, i, t, &k) != SN_OK) {
    sum->unlowered++;
  } else if (gather_buffers(all, i, k, mem, results, &n_results, &magnitude)) {
    bool fine = sn_kernel_verify(d, k) == SN_OK && reads_back(d, a, k) && run_kernel(d, a, k, t, mem) == SN_OK;
    bool tuple = sn_shape_is_tuple(i->shape);
    if (!fine) printf("%s: %s: %s\n", program, i->name, sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "failed");
    for (int l = 0; fine && l < n_results; l++) fine = same(program, i, l, results[l], tuple ? sn_array_element(all->v[i->id], l) : all->v[i->id], magnitude);
    *(fine ? &sum->ok : &sum->bad) += 1;
    for (int b = 0; b < k->n_buffers; b++) {
      if (k->buffers[b].memory == SN_KMEM_WORK) free(mem[b]);
    }
  }
  for (int l = 0; l < n_results; l++) sn_array_release(results[l]);
  sn_diag_destroy(d);
  sn_arena_destroy(a);
}

/* ---- one program ---- */

/* Values here are row-major; a kernel of other layouts addresses its memory by them. */
static bool row_major(const sn_shape *s) {
  for (int64_t l = 0; l < sn_shape_leaves(s); l++) {
    if (!sn_layout_is_default(sn_shape_leaf(s, l)->layout)) return false;
  }
  return true;
}

static bool all_row_major(const sn_instr *i) {
  bool all = row_major(i->shape);
  for (uint32_t k = 0; k < i->n_operands; k++) all &= row_major(sn_operand_shape(i, k));
  return all;
}

static bool is_work(const sn_instr *i) {
  switch (i->op) {
    case SN_OP_PARAMETER:
    case SN_OP_CONSTANT:
    case SN_OP_TUPLE:
    case SN_OP_GET_TUPLE_ELEMENT:
    case SN_OP_WHILE:
    case SN_OP_CONDITIONAL:
    case SN_OP_CALL:
    case SN_OP_CUSTOM_CALL:
    case SN_OP_BITCAST:
    case SN_OP_OPT_BARRIER:
    case SN_OP_AFTER_ALL: return false;
    default: return true;
  }
}

static bool bind_arguments(const sn_module *m, const sn_bundle *io, sn_array **args) {
  for (uint32_t k = 0; k < m->entry->n_params; k++) {
    char name[32];
    snprintf(name, sizeof name, "arg%u", k);
    if (k >= MAX_ARRAYS || !(args[k] = sn_bundle_get(io, name))) return false;
  }
  return true;
}

/* The pipeline for CUDA goes with the schedules for CUDA. */
static void check_targets(const char *program, const char *pipeline, const values *all, const sn_instr *i, totals *sum) {
  if (strcmp(pipeline, "cuda") == 0) {
    check_instr(program, all, i, &device, sum);
    return;
  }
  check_instr(program, all, i, &wide, sum);
  check_instr(program, all, i, &middle, sum);
  check_instr(program, all, i, &narrow, sum);
}

static void check_module(const char *program, const char *pipeline, sn_diag *d, const sn_module *m, const sn_bundle *io, totals *sum) {
  sn_array *args[MAX_ARRAYS], *out;
  values all = {m->n_ids, calloc(m->n_ids + 1u, sizeof *all.v)};
  sn_eval_options o;
  if (!bind_arguments(m, io, args)) return;
  sn_eval_options_init(&o);
  o.trace = remember;
  o.trace_ctx = &all;
  for (uint32_t k = 0; k < m->entry->n_params; k++) all.v[m->entry->params[k]->id] = sn_array_retain(args[k]);
  if (sn_eval(d, m, &o, (int)m->entry->n_params, args, &out) == SN_OK) {
    sn_array_release(out);
    SN_FOR_INSTRS(i, m->entry) {
      if (!is_work(i) || !all_row_major(i)) continue;
      check_targets(program, pipeline, &all, i, sum);
    }
  } else {
    printf("%s: the interpreter fails behind the pipeline\n", program);
    sn_diag_print(d, stdout, false);
    sum->bad++;
  }
  for (uint32_t k = 0; k < all.n; k++) sn_array_release(all.v[k]);
  free(all.v);
}

static void check_program(const char *root, const char *pipeline, const cJSON *entry, totals *sum) {
  const cJSON *files = cJSON_GetObjectItem(entry, "files"), *devices = cJSON_GetObjectItem(entry, "devices");
  const cJSON *before = cJSON_GetObjectItem(files, "before"), *io = cJSON_GetObjectItem(files, "io");
  char path[2048];
  size_t n;
  sn_diag *d;
  sn_module *m = NULL;
  sn_bundle *b = NULL;
  sn_pass_options po;
  if (!cJSON_IsString(before) || !cJSON_IsString(io) || (devices && devices->valueint > 1) || sn_diag_create(&d) != SN_OK) return;
  snprintf(path, sizeof path, "%s/%s", root, before->valuestring);
  char *text = read_text(path, &n);
  snprintf(path, sizeof path, "%s/%s", root, io->valuestring);
  sn_pass_options_init(&po);
  sn_status s = text ? sn_hlo_parse(d, entry->string, text, n, &m) : SN_ERR_IO;
  if (s == SN_OK) s = sn_pipeline_run(d, m, pipeline, &po, NULL);
  if (s == SN_OK) s = sn_files_read(d, path, &b);
  if (s == SN_OK) {
    check_module(entry->string, pipeline, d, m, b, sum);
  } else {
    printf("%s: cannot be read or goes wrong in the pipeline\n", entry->string);
    sn_diag_print(d, stdout, false);
    sum->bad++;
  }
  sn_bundle_destroy(b);
  sn_module_destroy(m);
  sn_diag_destroy(d);
  free(text);
}

int main(int argc, char **argv) {
  const char *data = getenv("SINTER_TEST_DATA"), *only = argc > 2 ? argv[2] : NULL;
  char root[1024], path[1100];
  size_t n;
  totals sum = {0, 0, 0};
  snprintf(root, sizeof root, "%s/golden", data ? data : "tests/data");
  snprintf(path, sizeof path, "%s/index.json", root);
  char *text = read_text(path, &n);
  cJSON *index = text ? cJSON_ParseWithLength(text, n) : NULL;
  const cJSON *entry;
  if (!index || argc < 2) {
    printf("usage: numeric-kernels PIPELINE [PROGRAM]; golden data at %s\n", root);
    return 2;
  }
  cJSON_ArrayForEach(entry, cJSON_GetObjectItem(index, "programs")) {
    if (only ? strcmp(only, entry->string) == 0 : strncmp(entry->string, "vit_", 4) != 0) check_program(root, argv[1], entry, &sum);
  }
  cJSON_Delete(index);
  free(text);
  printf("%s: %lld kernels agree, %lld do not, %lld instructions have no lowering\n", argv[1], (long long)sum.ok, (long long)sum.bad, (long long)sum.unlowered);
  return sum.bad != 0 || sum.ok < (strcmp(argv[1], "cuda") == 0 ? 500 : 1000);
}
