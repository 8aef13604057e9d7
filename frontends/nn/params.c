/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <math.h>
#include <regex.h>
#include <string.h>

#include "sinter/nn.h"
#include "sinter/random.h"

struct sn_params {
  sn_arena *arena;
  sn_map *names; /* name -> index + 1 */
  sn_param *items;
  size_t n, cap;
};

/* ---- initialisers --------------------------------------------------------------------------------------------------- */

sn_init sn_init_torch_linear(int64_t fan_in) { return sn_init_uniform(1 / sqrt((double)(fan_in > 0 ? fan_in : 1))); }

sn_init sn_init_xavier_uniform(int64_t fan_in, int64_t fan_out) { return sn_init_uniform(sqrt(6.0 / (double)(fan_in + fan_out > 0 ? fan_in + fan_out : 1))); }

sn_init sn_init_he_normal(int64_t fan_in) { return sn_init_normal(sqrt(2.0 / (double)(fan_in > 0 ? fan_in : 1))); }

static double draw(const sn_init *i, sn_random *r) {
  switch (i->kind) {
    case SN_INIT_NORMAL: return i->a + i->b * sn_random_normal(r);
    case SN_INIT_TRUNCATED: return sn_random_truncated(r, i->a, i->b, i->low, i->high);
    case SN_INIT_UNIFORM: return i->low + (i->high - i->low) * sn_random_uniform(r);
    default: return i->a;
  }
}

static sn_status create_array(const sn_param *p, sn_array **out) {
  sn_arena *a;
  SN_TRY(sn_arena_create(&a));
  const sn_shape *shape = sn_shape_array(a, p->type, p->rank, p->dims);
  sn_status s = shape ? sn_array_create(shape, out) : SN_ERR_MEMORY;
  sn_arena_destroy(a);
  return s;
}

static sn_status init_one(const sn_param *p, uint64_t seed, sn_array **out) {
  SN_TRY(create_array(p, out));
  int64_t n = sn_shape_elements(sn_array_shape(*out));
  size_t each = sn_type_bytes(p->type);
  char *data = sn_array_data(*out);
  sn_random r;
  sn_random_init(&r, seed, sn_random_stream(p->name, 0));
  for (int64_t k = 0; k < n; k++) sn_store_f64(p->type, data + (size_t)k * each, draw(&p->init, &r));
  return SN_OK;
}

/* ---- the tree --------------------------------------------------------------------------------------------------------- */

sn_status sn_params_create(sn_params **out) {
  *out = NULL;
  sn_params *t = sn_alloc_zero(1, sizeof *t);
  if (!t) return SN_ERR_MEMORY;
  sn_status s = sn_arena_create(&t->arena);
  if (s == SN_OK) s = sn_map_create(&t->names);
  if (s != SN_OK) {
    sn_params_destroy(t);
    return s;
  }
  *out = t;
  return SN_OK;
}

void sn_params_destroy(sn_params *t) {
  if (!t) return;
  sn_map_destroy(t->names);
  sn_arena_destroy(t->arena);
  sn_free(t->items);
  sn_free(t);
}

size_t sn_params_count(const sn_params *t) { return t->n; }

const sn_param *sn_params_at(const sn_params *t, size_t i) { return &t->items[i]; }

bool sn_params_find(const sn_params *t, const char *name, size_t *index) {
  uint64_t v;
  if (!sn_map_get(t->names, name, strlen(name), &v)) return false;
  *index = (size_t)v;
  return true;
}

sn_status sn_params_add(sn_params *t, const sn_param *p) {
  size_t have;
  if (sn_params_find(t, p->name, &have)) return SN_ERR_NAME;
  if (t->n == t->cap) {
    size_t cap = t->cap ? 2 * t->cap : 64;
    sn_param *items = sn_realloc(t->items, cap * sizeof *items);
    if (!items) return SN_ERR_MEMORY;
    t->items = items;
    t->cap = cap;
  }
  sn_param *q = &t->items[t->n];
  *q = *p;
  q->name = sn_arena_string(t->arena, p->name);
  q->dims = sn_arena_copy(t->arena, p->dims, (size_t)p->rank * sizeof *p->dims);
  if (!q->name || !q->dims) return SN_ERR_MEMORY;
  SN_TRY(sn_map_set(t->names, p->name, strlen(p->name), t->n));
  t->n++;
  return SN_OK;
}

int64_t sn_params_elements(const sn_params *t, bool trainable_only) {
  int64_t sum = 0;
  for (size_t i = 0; i < t->n; i++) {
    int64_t n = 1;
    for (int k = 0; k < t->items[i].rank; k++) n *= t->items[i].dims[k];
    if (t->items[i].trainable || !trainable_only) sum += n;
  }
  return sum;
}

sn_status sn_params_set_trainable(sn_diag *d, sn_params *t, const char *regex, size_t *n) {
  regex_t re;
  char why[128];
  *n = 0;
  int code = regcomp(&re, regex, REG_EXTENDED | REG_NOSUB);
  if (code) {
    regerror(code, &re, why, sizeof why);
    return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "`%s` is no regular expression: %s", regex, why);
  }
  for (size_t i = 0; i < t->n; i++) *n += !t->items[i].buffer && regexec(&re, t->items[i].name, 0, NULL, 0) == 0;
  for (size_t i = 0; *n && i < t->n; i++) t->items[i].trainable = !t->items[i].buffer && regexec(&re, t->items[i].name, 0, NULL, 0) == 0;
  regfree(&re);
  if (*n) return SN_OK;
  sn_status s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "no parameter's name matches `%s`", regex);
  if (t->n) sn_hint(d, "names look like %s", t->items[t->n / 2].name);
  return s;
}

/* ---- values ----------------------------------------------------------------------------------------------------------- */

sn_status sn_params_init(sn_diag *d, const sn_params *t, uint64_t seed, sn_bundle **out) {
  *out = NULL;
  sn_bundle *b;
  SN_TRY(sn_bundle_create(&b));
  sn_status s = SN_OK;
  for (size_t i = 0; s == SN_OK && i < t->n; i++) {
    sn_array *a = NULL;
    s = init_one(&t->items[i], seed, &a);
    if (s == SN_OK) s = sn_bundle_set(b, t->items[i].name, a);
    sn_array_release(a);
    if (s != SN_OK) s = sn_error(d, SN_NOWHERE, s, "no memory to initialise %s", t->items[i].name);
  }
  if (s != SN_OK) {
    sn_bundle_destroy(b);
    return s;
  }
  *out = b;
  return SN_OK;
}

/* What is wrong with a file of parameters, ten of each kind. */
typedef struct mismatch {
  sn_str missing, extra, shapes;
  int n_missing, n_extra, n_shapes;
} mismatch;

static void note(sn_str *to, int *n, const char *text) {
  if (*n < 10) sn_str_printf(to, "%s%s", *n ? ", " : "", text);
  if (*n == 10) sn_str_add(to, ", …");
  ++*n;
}

static bool same_dims(const sn_param *p, const sn_shape *s) { return s->rank == p->rank && (p->rank == 0 || memcmp(s->dims, p->dims, (size_t)p->rank * sizeof *p->dims) == 0); }

static void note_shape(mismatch *m, const sn_param *p, const sn_shape *have) {
  sn_str text = {0};
  sn_shape want = {.type = p->type, .rank = p->rank, .dims = p->dims};
  sn_str_printf(&text, "%s is ", p->name);
  sn_shape_print(&text, have, 0);
  sn_str_add(&text, ", the model has ");
  sn_shape_print(&text, &want, 0);
  if (!text.failed) note(&m->shapes, &m->n_shapes, text.data);
  sn_str_finish(&text);
}

static bool ignored(const char *name, const char *const *ignore) {
  for (; ignore && *ignore; ignore++)
    if (strncmp(name, *ignore, strlen(*ignore)) == 0) return true;
  return false;
}

static void compare(const sn_params *t, const sn_bundle *from, const char *const *ignore, mismatch *m) {
  for (size_t i = 0; i < t->n; i++) {
    const sn_param *p = &t->items[i];
    const sn_array *a = sn_bundle_get(from, p->name);
    if (!a && !p->buffer) note(&m->missing, &m->n_missing, p->name);
    if (a && !same_dims(p, sn_array_shape(a))) note_shape(m, p, sn_array_shape(a));
  }
  for (size_t i = 0; i < sn_bundle_count(from); i++) {
    size_t at;
    const char *name = sn_bundle_name(from, i);
    if (!sn_params_find(t, name, &at) && !ignored(name, ignore)) note(&m->extra, &m->n_extra, name);
  }
}

static sn_status tell_mismatch(sn_diag *d, const char *file, mismatch *m) {
  sn_status s = SN_OK;
  if (m->n_missing || m->n_extra || m->n_shapes) {
    s = sn_error(d, (sn_loc){file, 0, 0}, SN_ERR_MISMATCH, "not the parameters of this model: %d missing, %d that it does not have, %d of another shape", m->n_missing,
                 m->n_extra, m->n_shapes);
    if (m->n_missing) sn_note(d, (sn_loc){file, 0, 0}, "missing: %s", m->missing.data ? m->missing.data : "");
    if (m->n_extra) sn_note(d, (sn_loc){file, 0, 0}, "not in the model: %s", m->extra.data ? m->extra.data : "");
    if (m->n_shapes) sn_note(d, (sn_loc){file, 0, 0}, "another shape: %s", m->shapes.data ? m->shapes.data : "");
  }
  sn_str_finish(&m->missing);
  sn_str_finish(&m->extra);
  sn_str_finish(&m->shapes);
  return s;
}

/* A reference where the type is right, else converted. */
static sn_status take_one(const sn_param *p, sn_array *from, sn_array **out) {
  if (!from) return init_one(p, 0, out); /* a buffer the file lacks */
  if (sn_array_shape(from)->type == p->type) {
    *out = sn_array_retain(from);
    return SN_OK;
  }
  SN_TRY(create_array(p, out));
  sn_convert(p->type, sn_array_data(*out), sn_array_shape(from)->type, sn_array_data(from), sn_shape_elements(sn_array_shape(from)));
  return SN_OK;
}

sn_status sn_params_load(sn_diag *d, const sn_params *t, const char *file, const sn_bundle *from, const char *const *ignore, sn_bundle **out) {
  mismatch m = {0};
  *out = NULL;
  compare(t, from, ignore, &m);
  SN_TRY(tell_mismatch(d, file, &m));
  sn_bundle *b;
  SN_TRY(sn_bundle_create(&b));
  sn_status s = SN_OK;
  for (size_t i = 0; s == SN_OK && i < t->n; i++) {
    sn_array *a = NULL;
    s = take_one(&t->items[i], sn_bundle_get(from, t->items[i].name), &a);
    if (s == SN_OK) s = sn_bundle_set(b, t->items[i].name, a);
    sn_array_release(a);
  }
  if (s != SN_OK) {
    sn_bundle_destroy(b);
    return sn_error(d, (sn_loc){file, 0, 0}, s, "no memory for the parameters");
  }
  *out = b;
  return SN_OK;
}
