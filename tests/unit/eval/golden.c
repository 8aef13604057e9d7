/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs the programs of tests/data/golden and compares every output with what JAX gave, within the output's own
 * tolerance of index.json. Texts before and after XLA's optimisation; programs for eight devices by their optimised
 * text in eight processes, with sliced inputs and joined outputs. Usage: eval-golden [--trace] [--time] [PROGRAM…] */
#include <cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sinter/eval.h"
#include "sinter/files.h"
#include "sinter/text.h"

enum { MAX_LEAVES = 512 };

typedef struct run {
  const char *root, *program, *which;
  const cJSON *entry;
  sn_pool *pool;
  bool trace, timed;
  sn_diag *d;
  int n_devices;
} run;

static char *read_text(const char *path, size_t *n) {
  gzFile f = gzopen(path, "rb"); /* reads plain files as they are */
  size_t cap = 1 << 20;
  char *text = f ? malloc(cap) : NULL;
  *n = 0;
  while (text) {
    int got = gzread(f, text + *n, (unsigned)(cap - *n - 1));
    if (got <= 0) break;
    *n += (size_t)got;
    if (cap - *n < 65536) text = realloc(text, cap *= 2);
  }
  if (text) text[*n] = 0;
  if (f) gzclose(f);
  return text;
}

static const char *text_of(const cJSON *o, const char *key) {
  const cJSON *v = cJSON_GetObjectItem(o, key);
  return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* ---- shards: a PartitionSpec over a mesh ---- */

/* Part of dimension `dim` that `device` holds, and into how many it is cut: "P('x', None)", "P(('x', 'y'),)". */
static void shard_of(const cJSON *leaf, int dim, int device, int64_t *part, int64_t *parts) {
  const char *spec = text_of(leaf, "sharding");
  const cJSON *mesh = cJSON_GetObjectItem(leaf, "mesh");
  *part = 0;
  *parts = 1;
  int at = 0, depth = 0;
  for (const char *c = spec ? spec + 1 : ""; *c; c++) {
    if (*c == '(') depth++;
    if (*c == ')') depth--;
    if (*c == ',' && depth == 1) at++;
    if (*c != '\'' || at != dim) {
      if (*c == '\'') c = strchr(c + 1, '\'');
      continue;
    }
    const char *end = strchr(c + 1, '\'');
    int inner = 1, size = 1;
    bool found = false;
    for (const cJSON *axis = mesh->child; axis; axis = axis->next) {
      if (found) inner *= axis->valueint;
      if (strlen(axis->string) == (size_t)(end - c - 1) && !strncmp(axis->string, c + 1, (size_t)(end - c - 1))) {
        found = true;
        size = axis->valueint;
      }
    }
    *part = *part * size + device / inner % size;
    *parts *= size;
    c = end;
  }
}

/* Copies between a whole array and one device's piece of it. */
static void move_shard(const cJSON *leaf, int device, sn_array *whole, sn_array *piece, bool take) {
  const sn_shape *ws = sn_array_shape(whole), *ps = sn_array_shape(piece);
  int64_t index[SN_MAX_RANK] = {0}, first[SN_MAX_RANK], n = sn_shape_elements(ps);
  size_t bytes = sn_type_bytes(ws->type);
  for (int d = 0; d < ws->rank; d++) {
    int64_t parts;
    shard_of(leaf, d, device, &first[d], &parts);
    first[d] *= ps->dims[d];
  }
  for (int64_t k = 0; k < n; k++) {
    int64_t at = 0;
    for (int d = 0; d < ws->rank; d++) at = at * ws->dims[d] + first[d] + index[d];
    char *w = (char *)sn_array_data(whole) + (size_t)at * bytes, *p = (char *)sn_array_data(piece) + (size_t)k * bytes;
    memcpy(take ? p : w, take ? w : p, bytes);
    for (int d = ws->rank - 1; d >= 0 && ++index[d] == ps->dims[d]; d--) index[d] = 0;
  }
}

static sn_array *take_shard(const cJSON *leaf, int device, sn_array *whole) {
  const sn_shape *ws = sn_array_shape(whole);
  sn_shape s = *ws;
  int64_t dims[SN_MAX_RANK], part, parts;
  sn_array *piece = NULL;
  for (int d = 0; d < ws->rank; d++) {
    shard_of(leaf, d, device, &part, &parts);
    dims[d] = ws->dims[d] / parts;
  }
  s.dims = dims;
  s.layout = NULL;
  if (sn_array_create(&s, &piece) != SN_OK) return NULL;
  move_shard(leaf, device, whole, piece, true);
  return piece;
}

/* ---- one text ---- */

static void on_event(void *ctx, const sn_eval_event *e) {
  (void)ctx;
  printf("%d %s %s min %.9g max %.9g mean %.9g nan %lld %.3f ms\n", e->process, e->instr->name,
         sn_opcode_text(e->instr->op), e->min, e->max, e->mean, (long long)e->n_nan, e->seconds * 1e3);
}

static int compare_output(const run *r, const cJSON *leaf, sn_array *got, sn_array *want) {
  sn_array_difference diff;
  double rtol = cJSON_GetObjectItem(leaf, "rtol")->valuedouble, atol = cJSON_GetObjectItem(leaf, "atol")->valuedouble;
  const char *name = text_of(leaf, "name");
  sn_status s = sn_array_compare(got, want, rtol, atol, &diff);
  if (s != SN_OK) {
    printf("FAIL %s (%s): %s: %s\n", r->program, r->which, name, sn_status_text(s));
    return 1;
  }
  if (diff.n_bad == 0) return 0;
  printf(
      "FAIL %s (%s): %s: %lld elements, worst at %lld: got %.9g (%.9g), want %.9g (%.9g), %.3g times the tolerance\n",
      r->program, r->which, name, (long long)diff.n_bad, (long long)diff.worst, diff.got, diff.got_im, diff.want,
      diff.want_im, diff.ratio);
  return 1;
}

/* Output `k` as a whole: an element of one device's result, or joined from all. */
static sn_array *whole_output(const run *r, const cJSON *leaf, int k, sn_array *const *results, sn_array *want) {
  sn_array *whole = NULL;
  for (int p = 0; p < r->n_devices; p++) {
    sn_array *piece = sn_shape_is_tuple(sn_array_shape(results[p])) ? sn_array_element(results[p], k) : results[p];
    if (r->n_devices == 1) return sn_array_retain(piece);
    if (!whole && sn_array_create(sn_array_shape(want), &whole) != SN_OK) return NULL;
    move_shard(leaf, p, whole, piece, false);
  }
  return whole;
}

static int run_text(run *r, const sn_bundle *io, const char *path) {
  size_t n_text;
  char *text = read_text(path, &n_text);
  sn_module *m = NULL;
  sn_array *args[8 * MAX_LEAVES] = {NULL}, *results[8] = {NULL};
  sn_eval_options o;
  int n = 0, bad = 0;
  sn_status s = text ? sn_hlo_parse(r->d, path, text, n_text, &m) : SN_ERR_IO;
  sn_eval_options_init(&o);
  o.pool = r->pool;
  if (r->trace) o.trace = on_event;
  for (const cJSON *leaf = cJSON_GetObjectItem(r->entry, "args")->child; leaf; leaf = leaf->next) n++;
  int k = 0;
  for (const cJSON *leaf = cJSON_GetObjectItem(r->entry, "args")->child; leaf; leaf = leaf->next, k++)
    for (int p = 0; p < r->n_devices; p++) {
      sn_array *a = sn_bundle_get(io, text_of(leaf, "name"));
      args[p * n + k] = r->n_devices == 1 ? sn_array_retain(a) : take_shard(leaf, p, a);
    }
  double start = sn_time();
  if (s == SN_OK)
    s = r->n_devices == 1 ? sn_eval(r->d, m, &o, n, args, results) : sn_eval_replicated(r->d, m, &o, n, args, results);
  if (r->timed) printf("%s (%s): %.1f ms\n", r->program, r->which, (sn_time() - start) * 1e3);
  if (s != SN_OK) {
    printf("FAIL %s (%s): %s\n", r->program, r->which, sn_status_text(s));
    sn_diag_print(r->d, stdout, false);
    bad = 1;
  }
  k = 0;
  for (const cJSON *leaf = cJSON_GetObjectItem(r->entry, "outs")->child; leaf && s == SN_OK; leaf = leaf->next, k++) {
    sn_array *want = sn_bundle_get(io, text_of(leaf, "name")), *got = whole_output(r, leaf, k, results, want);
    bad += compare_output(r, leaf, got, want);
    sn_array_release(got);
  }
  for (int q = 0; q < 8 * MAX_LEAVES; q++) sn_array_release(args[q]);
  for (int q = 0; q < 8; q++) sn_array_release(results[q]);
  sn_module_destroy(m);
  sn_diag_clear(r->d);
  free(text);
  return bad;
}

static int run_program(run *r) {
  char path[1024];
  const cJSON *files = cJSON_GetObjectItem(r->entry, "files");
  sn_bundle *io = NULL;
  int bad = 0;
  if (!text_of(files, "io")) return 0;
  r->n_devices = cJSON_GetObjectItem(r->entry, "devices")->valueint;
  (void)snprintf(path, sizeof path, "%s/%s", r->root, text_of(files, "io"));
  if (sn_files_read(r->d, path, &io) != SN_OK) {
    sn_diag_print(r->d, stdout, false);
    return 1;
  }
  for (int after = r->n_devices == 1 ? 0 : 1; after < 2; after++) {
    r->which = after ? "after" : "before";
    (void)snprintf(path, sizeof path, "%s/%s", r->root, text_of(files, r->which));
    bad += run_text(r, io, path);
  }
  sn_bundle_destroy(io);
  return bad;
}

int main(int argc, char **argv) {
  run r;
  char path[1024], root[900];
  const char *data = getenv("SINTER_TEST_DATA");
  int bad = 0, n_run = 0, first = 1;
  memset(&r, 0, sizeof r);
  for (; first < argc && argv[first][0] == '-'; first++) {
    if (!strcmp(argv[first], "--trace")) r.trace = true;
    if (!strcmp(argv[first], "--time")) r.timed = true;
  }
  (void)snprintf(root, sizeof root, "%s/golden", data ? data : "tests/data");
  (void)snprintf(path, sizeof path, "%s/index.json", root);
  size_t n;
  char *text = read_text(path, &n);
  cJSON *index = text ? cJSON_Parse(text) : NULL;
  if (!index || sn_diag_create(&r.d) != SN_OK || sn_pool_create(0, &r.pool) != SN_OK) {
    printf("cannot read %s\n", path);
    return 1;
  }
  r.root = root;
  for (const cJSON *p = cJSON_GetObjectItem(index, "programs")->child; p; p = p->next) {
    bool wanted = first >= argc;
    for (int a = first; a < argc; a++) wanted = wanted || !strcmp(argv[a], p->string);
    if (!wanted) continue;
    r.program = p->string;
    r.entry = p;
    n_run++;
    bad += run_program(&r);
    (void)fflush(stdout);
  }
  printf("%d programs, %d failures\n", n_run, bad);
  cJSON_Delete(index);
  free(text);
  sn_pool_destroy(r.pool);
  sn_diag_destroy(r.d);
  return bad ? 1 : 0;
}
