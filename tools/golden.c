/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* --tolerances=index.json:NAME: tolerances and shardings of a program, and shards of global arrays. */
#include <cjson/cJSON.h>
#include <string.h>

#include "arrays.h"
#include "sinter/json.h"

/* ---- shardings ---- */

typedef struct mesh { int n; const char *names[SN_MAX_RANK]; int64_t sizes[SN_MAX_RANK]; } mesh;

static void mesh_of(const cJSON *object, mesh *out) {
  out->n = 0;
  for (const cJSON *axis = object ? object->child : NULL; axis && out->n < SN_MAX_RANK; axis = axis->next) {
    out->names[out->n] = axis->string;
    out->sizes[out->n++] = (int64_t)axis->valuedouble;
  }
}
/* Where a device stands along an axis: devices are numbered in row-major order of the mesh. */
static int64_t coordinate(const mesh *m, int axis, int64_t device) {
  for (int k = m->n - 1; k > axis; k--) device /= m->sizes[k];
  return device % m->sizes[axis];
}
static int axis_of(const mesh *m, const char *name, size_t n) {
  for (int k = 0; k < m->n; k++) {
    if (strlen(m->names[k]) == n && memcmp(m->names[k], name, n) == 0) return k;
  }
  return -1;
}

/* P('x', None, ('y', 'z')): for each dimension the axes that split it, outermost first. */
static sn_status spec_read(sn_golden *g, const char *text, const mesh *m, sn_expectation *e) {
  int depth = 0, dim = 0;
  bool any = false;
  e->part_of = SN_NEW_N(g->arena, int64_t, g->n_devices * SN_MAX_RANK);
  if (!e->part_of) return SN_ERR_MEMORY;
  for (int k = 0; k < SN_MAX_RANK; k++) e->parts[k] = 1;
  for (const char *p = text; *p && dim < SN_MAX_RANK; p++) {
    if (*p == '(') depth++;
    else if (*p == ')') depth--;
    else if (*p == ',' && depth == 1) dim++;
    if (*p != '\'') continue;
    size_t n = strcspn(p + 1, "'");
    int axis = axis_of(m, p + 1, n);
    if (axis < 0) return SN_ERR_CORRUPT;
    for (int64_t device = 0; device < g->n_devices; device++) {
      int64_t *at = &e->part_of[device * SN_MAX_RANK + dim];
      *at = *at * m->sizes[axis] + coordinate(m, axis, device);
    }
    e->parts[dim] *= m->sizes[axis];
    any = true;
    p += n + 1;
    if (!*p) break;
  }
  e->rank = any ? dim + 1 : 0;
  if (!any) e->part_of = NULL;
  return SN_OK;
}

/* ---- the index ---- */

static sn_status read_list(sn_golden *g, const cJSON *list, int *n, sn_expectation **out) {
  *n = cJSON_GetArraySize(list);
  *out = SN_NEW_N(g->arena, sn_expectation, *n + 1);
  if (!*out) return SN_ERR_MEMORY;
  int k = 0;
  for (const cJSON *x = list ? list->child : NULL; x; x = x->next, k++) {
    const cJSON *rtol = cJSON_GetObjectItemCaseSensitive(x, "rtol"), *atol = cJSON_GetObjectItemCaseSensitive(x, "atol");
    const cJSON *sharding = cJSON_GetObjectItemCaseSensitive(x, "sharding");
    (*out)[k].rtol = cJSON_IsNumber(rtol) ? rtol->valuedouble : 0;
    (*out)[k].atol = cJSON_IsNumber(atol) ? atol->valuedouble : 0;
    if (!cJSON_IsString(sharding)) continue;
    mesh m;
    mesh_of(cJSON_GetObjectItemCaseSensitive(x, "mesh"), &m);
    SN_TRY(spec_read(g, sharding->valuestring, &m, &(*out)[k]));
  }
  return SN_OK;
}

static sn_status read_program(sn_diag *d, sn_golden *g, const sn_json *j, const char *name) {
  const cJSON *program = cJSON_GetObjectItemCaseSensitive(sn_json_entry(j, "programs"), name);
  if (!program) return sn_error(d, (sn_loc){j->path, 0, 0}, SN_ERR_NAME, "%s has no program '%s'", j->path, name);
  const cJSON *devices = cJSON_GetObjectItemCaseSensitive(program, "devices");
  g->n_devices = cJSON_IsNumber(devices) && devices->valueint > 0 && devices->valueint <= 4096 ? devices->valueint : 1;
  SN_TRY(read_list(g, cJSON_GetObjectItemCaseSensitive(program, "args"), &g->n_args, &g->args));
  return read_list(g, cJSON_GetObjectItemCaseSensitive(program, "outs"), &g->n_outs, &g->outs);
}

sn_status sn_golden_read(sn_diag *d, const char *spec, sn_golden *out) {
  memset(out, 0, sizeof *out);
  const char *colon = strrchr(spec, ':');
  if (!colon) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--tolerances wants index.json:NAME, not '%s'", spec);
  SN_TRY(sn_arena_create(&out->arena));
  const char *path = sn_arena_string_n(out->arena, spec, (size_t)(colon - spec));
  if (!path) return sn_out_of_memory(d, 1);
  sn_json j;
  sn_status s = sn_json_read(d, path, &j);
  if (s == SN_OK) {
    s = read_program(d, out, &j, colon + 1);
    sn_json_finish(&j);
  }
  return s;
}
void sn_golden_finish(sn_golden *g) {
  sn_arena_destroy(g->arena);
  memset(g, 0, sizeof *g);
}

/* ---- shards ---- */

static sn_status copy_shard(const sn_shape *global, char *big, const sn_shape *local, char *small, const int64_t *first, bool into_big) {
  int64_t strides[SN_MAX_RANK], at[SN_MAX_RANK] = {0};
  size_t each = sn_type_bytes(local->type);
  int last = local->rank - 1;
  sn_shape_strides(global, strides);
  size_t row = last >= 0 ? (size_t)local->dims[last] * each : each;
  if (sn_shape_elements(local) == 0) return SN_OK;
  for (;;) {
    int64_t offset = 0;
    for (int k = 0; k < local->rank; k++) offset += (first[k] + at[k]) * strides[k];
    char *there = big + (size_t)offset * each;
    memcpy(into_big ? there : small, into_big ? small : there, row);
    small += row;
    int k = last - 1;
    while (k >= 0 && ++at[k] == local->dims[k]) at[k--] = 0;
    if (k < 0) return SN_OK;
  }
}

static void first_of(const sn_expectation *e, int device, const sn_shape *local, int64_t *first) {
  for (int k = 0; k < local->rank; k++) first[k] = e->part_of && k < e->rank ? e->part_of[device * SN_MAX_RANK + k] * local->dims[k] : 0;
}

sn_status sn_shard_take(sn_diag *d, const sn_array *global, const sn_expectation *e, int device, sn_array **out) {
  const sn_shape *g = sn_array_shape(global);
  int64_t dims[SN_MAX_RANK], first[SN_MAX_RANK];
  sn_shape local = *g;
  *out = NULL;
  for (int k = 0; k < g->rank; k++) {
    int64_t parts = k < e->rank ? e->parts[k] : 1;
    if (g->dims[k] % parts) return sn_error(d, SN_NOWHERE, SN_ERR_SHAPE, "dimension %d of size %lld does not split into %lld", k, (long long)g->dims[k], (long long)parts);
    dims[k] = g->dims[k] / parts;
  }
  local.dims = dims;
  SN_TRY(sn_array_create(&local, out));
  first_of(e, device, &local, first);
  return copy_shard(g, sn_array_data(global), &local, sn_array_data(*out), first, false);
}

sn_status sn_shards_join(sn_diag *d, int n, sn_array *const *shards, const sn_expectation *e, sn_array **out) {
  const sn_shape *local = sn_array_shape(shards[0]);
  int64_t dims[SN_MAX_RANK], first[SN_MAX_RANK];
  sn_shape global = *local;
  *out = NULL;
  for (int k = 0; k < local->rank; k++) dims[k] = local->dims[k] * (k < e->rank ? e->parts[k] : 1);
  global.dims = dims;
  SN_TRY(sn_array_create_zero(&global, out));
  for (int device = n; device-- > 0;) { /* replicas: the first one stands */
    if (!sn_shape_equal(sn_array_shape(shards[device]), local, 0)) return sn_error(d, SN_NOWHERE, SN_ERR_SHAPE, "shards of unequal shape");
    first_of(e, device, local, first);
    SN_TRY(copy_shard(&global, sn_array_data(*out), local, sn_array_data(shards[device]), first, true));
  }
  return SN_OK;
}
