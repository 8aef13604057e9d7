/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Who computes what: shardings, replica groups, and the iota form both are written in. */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- iota: <=[reshape]T(transpose) ------------------------------------------------------------------------------------- */

/* Product of sizes, refused when it is no sensible number of devices. */
static sn_status devices_product(sn_tx *p, const char *at, sn_ints dims, int64_t *out) {
  *out = 1;
  for (int64_t i = 0; i < dims.n; i++) {
    if (dims.v[i] < 1 || dims.v[i] > SN_TX_MAX_DEVICES || *out > SN_TX_MAX_DEVICES / dims.v[i]) {
      return sn_tx_fail(p, at, SN_ERR_UNSUPPORTED, "expected 1…%d devices, found a size of %" PRId64 " that leads beyond", (int)SN_TX_MAX_DEVICES, dims.v[i]);
    }
    *out *= dims.v[i];
  }
  p->n_ids += *out;
  if (p->n_ids <= SN_TX_MAX_IDS) return SN_OK;
  return sn_tx_fail(p, at, SN_ERR_UNSUPPORTED, "expected at most %d device ids in all lists of a text together, found more", (int)SN_TX_MAX_IDS);
}

static sn_status iota_check(sn_tx *p, const char *at, int64_t n, sn_ints reshape, sn_ints perm) {
  int64_t count = 1;
  uint64_t seen = 0;
  SN_TRY(devices_product(p, at, reshape, &count));
  if (count != n) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected sizes whose product is %" PRId64 ", found %" PRId64, n, count);
  if (reshape.n > SN_MAX_RANK) return sn_tx_fail(p, at, SN_ERR_UNSUPPORTED, "more than %d dimensions of devices", SN_MAX_RANK);
  if (perm.n != 0 && perm.n != reshape.n) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected %" PRId64 " dimensions in T(…), found %" PRId64, reshape.n, perm.n);
  for (int64_t i = 0; i < perm.n; i++) {
    if (perm.v[i] < 0 || perm.v[i] >= perm.n || (seen >> perm.v[i] & 1) != 0) {
      return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected a permutation in T(…), found %" PRId64 " out of place", perm.v[i]);
    }
    seen |= (uint64_t)1 << perm.v[i];
  }
  return SN_OK;
}

/* ids[i]: the i-th element, row-major, of iota(n).reshape(reshape).transpose(perm). */
static void iota_fill(int64_t n, sn_ints reshape, sn_ints perm, int64_t *ids) {
  int64_t strides[SN_MAX_RANK], sizes[SN_MAX_RANK], at[SN_MAX_RANK] = {0}, stride = 1;
  int64_t step[SN_MAX_RANK];
  for (int64_t i = reshape.n; i-- > 0;) {
    strides[i] = stride;
    stride *= reshape.v[i];
  }
  for (int64_t i = 0; i < reshape.n; i++) {
    int64_t d = perm.n != 0 ? perm.v[i] : i;
    sizes[i] = reshape.v[d];
    step[i] = strides[d];
  }
  for (int64_t k = 0, id = 0; k < n; k++) {
    ids[k] = id;
    for (int64_t i = reshape.n; i-- > 0;) {
      id += step[i];
      if (++at[i] < sizes[i]) break;
      id -= step[i] * sizes[i];
      at[i] = 0;
    }
  }
}

sn_status sn_tx_iota(sn_tx *p, int64_t n, sn_ints *reshape, sn_ints *transpose, int64_t **ids) {
  const char *at = p->at;
  *transpose = (sn_ints){0, NULL};
  SN_TRY(sn_tx_ints(p, '[', ']', reshape));
  if (sn_tx_accept_word(p, "T")) SN_TRY(sn_tx_ints(p, '(', ')', transpose));
  SN_TRY(iota_check(p, at, n, *reshape, *transpose));
  *ids = sn_arena_alloc(p->keep, (size_t)n * sizeof **ids);
  if (*ids == NULL) return sn_tx_memory(p);
  iota_fill(n, *reshape, *transpose, *ids);
  return SN_OK;
}

/* ---- shardings -------------------------------------------------------------------------------------------------------------- */

typedef struct sharding_word {
  const char *text;
  sn_sharding_kind kind;
} sharding_word;
static const sharding_word sharding_words[] = {
    {"replicated", SN_SHARDING_REPLICATED}, {"manual", SN_SHARDING_MANUAL}, {"unknown", SN_SHARDING_UNKNOWN}, {"unreduced", SN_SHARDING_UNREDUCED},
};
#define N_SHARDING_WORDS (sizeof sharding_words / sizeof sharding_words[0])

static bool sharding_accept_kind(sn_tx *p, sn_sharding_kind *out) {
  for (size_t i = 0; i < N_SHARDING_WORDS; i++) {
    if (sn_tx_accept_word(p, sharding_words[i].text)) {
      *out = sharding_words[i].kind;
      return true;
    }
  }
  return false;
}

/* Behind `devices=[…]`: 0,1,2,3 */
static sn_status sharding_list(sn_tx *p, int64_t n, int64_t **ids) {
  *ids = sn_arena_alloc(p->keep, (size_t)n * sizeof **ids);
  if (*ids == NULL) return sn_tx_memory(p);
  for (int64_t i = 0; i < n; i++) {
    if (i != 0 && !sn_tx_accept(p, ',')) {
      return sn_tx_fail(p, p->at, SN_ERR_ATTRIBUTE, "expected %" PRId64 " devices, as the tile dimensions multiply to, found %" PRId64, n, i);
    }
    SN_TRY(sn_tx_int_in(p, "a device id", 0, INT32_MAX, *ids + i));
  }
  return SN_OK;
}

static sn_status sharding_tiles(sn_tx *p, sn_sharding *s) {
  const char *at = p->at;
  int64_t n = 1, *ids = NULL;
  s->kind = SN_SHARDING_TILED;
  SN_TRY(sn_tx_ints(p, '[', ']', &s->tile_dims));
  SN_TRY(devices_product(p, at, s->tile_dims, &n));
  s->iota = sn_tx_accept_text(p, "<=");
  if (s->iota) {
    SN_TRY(sn_tx_iota(p, n, &s->reshape_dims, &s->transpose, &ids));
  } else {
    SN_TRY(sharding_list(p, n, &ids));
  }
  s->devices = (sn_ints){n, ids};
  return SN_OK;
}

static sn_status sharding_last_dims(sn_tx *p, sn_sharding *s) {
  int64_t kinds[SN_MAX_RANK];
  SN_TRY(sn_tx_need(p, '=', "after last_tile_dims"));
  SN_TRY(sn_tx_need(p, '{', "after last_tile_dims="));
  s->last_tile_kinds.n = 0;
  do {
    sn_sharding_kind k = SN_SHARDING_REPLICATED;
    if (s->last_tile_kinds.n == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d last_tile_dims", SN_MAX_RANK);
    if (!sharding_accept_kind(p, &k)) return sn_tx_expected(p, "replicated, manual, unknown or unreduced");
    kinds[s->last_tile_kinds.n++] = (int64_t)k;
  } while (sn_tx_accept(p, ','));
  s->last_tile_kinds.v = sn_arena_copy(p->keep, kinds, (size_t)s->last_tile_kinds.n * sizeof *kinds);
  if (s->last_tile_kinds.v == NULL) return sn_tx_memory(p);
  return sn_tx_need(p, '}', "after last_tile_dims");
}

static sn_status sharding_maximal(sn_tx *p, sn_sharding *s) {
  s->kind = SN_SHARDING_MAXIMAL;
  if (!sn_tx_accept_word(p, "device")) return sn_tx_expected(p, "`device=` after maximal");
  SN_TRY(sn_tx_need(p, '=', "after device"));
  return sn_tx_int_in(p, "a device id", 0, INT32_MAX, &s->device);
}

static sn_status sharding_metadata(sn_tx *p, sn_sharding *s) {
  sn_span raw;
  SN_TRY(sn_tx_need(p, '=', "after metadata"));
  SN_TRY(sn_tx_raw(p, &raw));
  s->metadata = sn_arena_string_n(p->keep, raw.s, raw.n);
  return s->metadata != NULL ? SN_OK : sn_tx_memory(p);
}

static sn_status sharding_group(sn_tx *p, sn_sharding *s, bool like) {
  s->group_is_like = like;
  return sn_tx_int_in(p, "a shard group id", 0, INT64_MAX, &s->group);
}

static sn_status sharding_part(sn_tx *p, sn_sharding *s) {
  if (sharding_accept_kind(p, &s->kind)) return SN_OK;
  if (sn_tx_accept_word(p, "maximal")) return sharding_maximal(p, s);
  if (sn_tx_accept_word(p, "devices")) {
    SN_TRY(sn_tx_need(p, '=', "after devices"));
    return sharding_tiles(p, s);
  }
  if (sn_tx_accept_word(p, "last_tile_dim_replicate")) {
    s->last_tile_replicated = true;
    return SN_OK;
  }
  if (sn_tx_accept_word(p, "last_tile_dims")) return sharding_last_dims(p, s);
  if (sn_tx_accept_word(p, "shard_as")) return sharding_group(p, s, false);
  if (sn_tx_accept_word(p, "shard_like")) return sharding_group(p, s, true);
  if (sn_tx_accept_word(p, "metadata")) return sharding_metadata(p, s);
  return sn_tx_expected(p, "a sharding: replicated, maximal device=N, manual, unknown, unreduced or devices=[…]");
}

/* {mesh[x=2,y=4], [{x}, {y}]…}: kept as text. At the word behind the brace. */
static sn_status sharding_named(sn_tx *p, const char *brace, sn_sharding *s) {
  sn_span raw;
  p->at = brace;
  SN_TRY(sn_tx_raw(p, &raw));
  s->kind = SN_SHARDING_NAMED;
  s->named = sn_arena_string_n(p->keep, raw.s + 1, raw.n - 2);
  return s->named != NULL ? SN_OK : sn_tx_memory(p);
}

static sn_status sharding_one(sn_tx *p, sn_sharding *s);

/* Behind the outer brace, at an inner one. Tuples do not nest. */
static sn_status sharding_tuple(sn_tx *p, sn_sharding *s) {
  uint32_t from = p->stack.n;
  do {
    sn_sharding *e = SN_NEW(p->keep, sn_sharding);
    if (e == NULL) return sn_tx_memory(p);
    SN_TRY(sharding_one(p, e));
    SN_TRY(sn_tx_push(p, e));
  } while (sn_tx_accept(p, ','));
  uint32_t n = p->stack.n - from;
  const sn_sharding **elements = sn_arena_alloc(p->keep, n * sizeof *elements);
  if (elements == NULL) return sn_tx_memory(p);
  for (uint32_t i = 0; i < n; i++) elements[i] = p->stack.v[from + i];
  p->stack.n = from;
  s->kind = SN_SHARDING_TUPLE;
  s->n_elements = n;
  s->elements = elements;
  return sn_tx_need(p, '}', "after the elements of a tuple sharding");
}

/* `{mesh`, `{@mesh`, `{maximal_mesh` */
static bool sharding_at_mesh(sn_tx *p) {
  char c = sn_tx_peek(p);
  return c == '@' || strncmp(p->at, "mesh[", 5) == 0 || strncmp(p->at, "maximal_mesh[", 13) == 0;
}

static sn_status sharding_one(sn_tx *p, sn_sharding *s) {
  *s = (sn_sharding){.group = -1, .kind = SN_SHARDING_REPLICATED};
  sn_tx_skip(p);
  const char *brace = p->at;
  SN_TRY(sn_tx_need(p, '{', "before a sharding"));
  if (sharding_at_mesh(p)) return sharding_named(p, brace, s);
  do {
    SN_TRY(sharding_part(p, s));
    (void)sn_tx_accept(p, ',');
  } while (sn_tx_peek(p) != '}' && *p->at != '\0');
  return sn_tx_need(p, '}', "after a sharding");
}

sn_status sn_tx_sharding(sn_tx *p, const sn_sharding **out) {
  *out = NULL;
  sn_sharding *s = SN_NEW(p->keep, sn_sharding);
  if (s == NULL) return sn_tx_memory(p);
  sn_tx_skip(p);
  const char *brace = p->at;
  SN_TRY(sn_tx_need(p, '{', "before a sharding"));
  if (sn_tx_peek(p) == '{') {
    s->group = -1;
    SN_TRY(sharding_tuple(p, s));
  } else if (sn_tx_accept(p, '}')) { /* of the empty tuple */
    *s = (sn_sharding){.kind = SN_SHARDING_TUPLE, .group = -1};
  } else {
    p->at = brace;
    SN_TRY(sharding_one(p, s));
  }
  *out = s;
  return SN_OK;
}

/* ---- replica groups ------------------------------------------------------------------------------------------------------------ */

/* Cuts ids into groups of `each`. */
static sn_status groups_cut(sn_tx *p, sn_groups *g, int64_t n_groups, int64_t each, const int64_t *ids) {
  sn_ints *groups = sn_arena_alloc(p->keep, (size_t)n_groups * sizeof *groups);
  if (groups == NULL) return sn_tx_memory(p);
  for (int64_t i = 0; i < n_groups; i++) groups[i] = (sn_ints){each, ids + i * each};
  g->n_groups = n_groups;
  g->groups = groups;
  return SN_OK;
}

static sn_status groups_iota(sn_tx *p, sn_groups *g) {
  const char *at = p->at;
  int64_t n = 1, *ids = NULL;
  g->form = SN_GROUPS_IOTA;
  SN_TRY(sn_tx_ints(p, '[', ']', &g->iota_dims));
  if (g->iota_dims.n != 2) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected [groups,devices of each], found %" PRId64 " sizes", g->iota_dims.n);
  SN_TRY(devices_product(p, at, g->iota_dims, &n));
  if (!sn_tx_accept_text(p, "<=")) return sn_tx_expected(p, "`<=` as in [2,4]<=[8]");
  SN_TRY(sn_tx_iota(p, n, &g->reshape_dims, &g->transpose, &ids));
  return groups_cut(p, g, g->iota_dims.v[0], g->iota_dims.v[1], ids);
}

static sn_status groups_list(sn_tx *p, sn_groups *g) {
  g->form = SN_GROUPS_LIST;
  SN_TRY(sn_tx_need(p, '{', "before replica groups"));
  if (sn_tx_accept(p, '}')) return SN_OK;
  size_t cap = 0;
  for (const char *q = p->at; *q == '{' || *q == '}' || *q == ',' || sn_tx_is(*q, SN_TX_DIGIT | SN_TX_SPACE); q++) cap += *q == '{';
  sn_ints *groups = sn_arena_alloc(p->keep, (cap + 1) * sizeof *groups);
  if (groups == NULL) return sn_tx_memory(p);
  size_t n = 0;
  do {
    if (n > cap) break;
    SN_TRY(sn_tx_ints(p, '{', '}', &groups[n++]));
  } while (sn_tx_accept(p, ','));
  g->n_groups = (int64_t)n;
  g->groups = groups;
  return sn_tx_need(p, '}', "after replica groups");
}

/* ---- groups along the axes of a mesh ---------------------------------------------------------------------------------------------- */

/* An axis, or the part of one that `'x':(pre)size` names. Strides are in positions of the mesh, row-major. */
typedef struct mesh_axis {
  sn_span name;
  int64_t size, stride;
} mesh_axis;
typedef struct mesh {
  int n_axes, n_parts;
  mesh_axis axes[SN_MAX_RANK];
  mesh_axis parts[SN_MAX_RANK]; /* the groups run along these, first one slowest */
  int64_t n;
  int64_t *ids; /* device of each position */
} mesh;

static sn_status mesh_axis_name(sn_tx *p, sn_span *out) {
  sn_tx_skip(p);
  char quote = *p->at;
  if (quote != '\'' && quote != '"') return sn_tx_ident(p, "the name of a mesh axis", out);
  const char *begin = p->at + 1, *stop = begin;
  while (*stop != quote && *stop != '\0' && *stop != '\n') stop++;
  if (*stop != quote) return sn_tx_expected(p, "the name of a mesh axis between quotes");
  *out = (sn_span){begin, (size_t)(stop - begin)};
  p->at = stop + 1;
  return SN_OK;
}

static sn_status mesh_axes(sn_tx *p, mesh *m) {
  const char *at = p->at;
  int64_t sizes[SN_MAX_RANK];
  SN_TRY(sn_tx_need(p, '[', "after mesh"));
  if (!sn_tx_accept(p, ']')) {
    do {
      if (m->n_axes == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a mesh has more than %d axes", SN_MAX_RANK);
      mesh_axis *x = &m->axes[m->n_axes];
      SN_TRY(mesh_axis_name(p, &x->name));
      SN_TRY(sn_tx_need(p, '=', "after the name of a mesh axis"));
      SN_TRY(sn_tx_int_in(p, "the size of a mesh axis", 1, SN_TX_MAX_DEVICES, &x->size));
      sizes[m->n_axes++] = x->size;
    } while (sn_tx_accept(p, ','));
    SN_TRY(sn_tx_need(p, ']', "after the axes of a mesh"));
  }
  SN_TRY(devices_product(p, at, (sn_ints){m->n_axes, sizes}, &m->n));
  int64_t stride = 1;
  for (int i = m->n_axes; i-- > 0;) {
    m->axes[i].stride = stride;
    stride *= m->axes[i].size;
  }
  return SN_OK;
}

/* [, device_ids=(0,1,2) | device_ids=([4]<=[2,2]T(1,0))] */
static sn_status mesh_ids(sn_tx *p, mesh *m) {
  m->ids = sn_arena_alloc(p->keep, (size_t)m->n * sizeof *m->ids);
  if (m->ids == NULL) return sn_tx_memory(p);
  for (int64_t i = 0; i < m->n; i++) m->ids[i] = i;
  const char *at = p->at;
  if (!sn_tx_accept(p, ',')) return SN_OK;
  if (!sn_tx_accept_word(p, "device_ids")) {
    p->at = at;
    return SN_OK;
  }
  SN_TRY(sn_tx_need(p, '=', "after device_ids"));
  SN_TRY(sn_tx_need(p, '(', "after device_ids="));
  sn_ints list, reshape, transpose;
  if (sn_tx_peek(p) == '[') {
    SN_TRY(sn_tx_ints(p, '[', ']', &list));
    if (!sn_tx_accept_text(p, "<=")) return sn_tx_expected(p, "`<=` as in ([4]<=[2,2]T(1,0))");
    SN_TRY(sn_tx_iota(p, m->n, &reshape, &transpose, &m->ids));
    return sn_tx_need(p, ')', "after device_ids");
  }
  p->at--; /* the parenthesis opens the list */
  SN_TRY(sn_tx_ints(p, '(', ')', &list));
  if (list.n != m->n) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected %" PRId64 " device ids, found %" PRId64, m->n, list.n);
  memcpy(m->ids, list.v, (size_t)m->n * sizeof *m->ids);
  return SN_OK;
}

/* 'x' or 'x':(pre)size */
static sn_status mesh_part(sn_tx *p, mesh *m) {
  const char *at = p->at;
  sn_span name;
  SN_TRY(mesh_axis_name(p, &name));
  int k = 0;
  while (k < m->n_axes && (m->axes[k].name.n != name.n || memcmp(m->axes[k].name.s, name.s, name.n) != 0)) k++;
  if (k == m->n_axes) return sn_tx_fail(p, at, SN_ERR_NAME, "expected an axis of the mesh, found `%s`", sn_tx_cstring(p, name));
  if (m->n_parts == SN_MAX_RANK) return sn_tx_fail(p, at, SN_ERR_UNSUPPORTED, "more than %d axes", SN_MAX_RANK);
  mesh_axis part = m->axes[k];
  if (sn_tx_accept(p, ':')) {
    int64_t pre = 1, size = 1;
    SN_TRY(sn_tx_need(p, '(', "as in 'x':(1)2"));
    SN_TRY(sn_tx_int_in(p, "the size in front of a part of an axis", 1, part.size, &pre));
    SN_TRY(sn_tx_need(p, ')', "as in 'x':(1)2"));
    SN_TRY(sn_tx_int_in(p, "the size of a part of an axis", 1, part.size, &size));
    if (part.size % (pre * size) != 0) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected a part that divides %" PRId64 ", found (%" PRId64 ")%" PRId64, part.size, pre, size);
    part.stride *= part.size / (pre * size);
    part.size = size;
  }
  for (int i = 0; i < m->n_parts; i++) {
    const mesh_axis *q = &m->parts[i];
    bool apart = q->stride >= part.stride * part.size || part.stride >= q->stride * q->size;
    if (!apart && q->size > 1 && part.size > 1) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected each axis once, found `%s` again", sn_tx_cstring(p, name));
  }
  m->parts[m->n_parts++] = part;
  return SN_OK;
}

/* Positions with all parts at 0 begin a group each, in order; the group walks the parts. */
static sn_status mesh_expand(sn_tx *p, const mesh *m, sn_groups *g) {
  int64_t each = 1, n = 0;
  for (int i = 0; i < m->n_parts; i++) each *= m->parts[i].size;
  int64_t *ids = sn_arena_alloc(p->keep, (size_t)m->n * sizeof *ids);
  if (ids == NULL) return sn_tx_memory(p);
  for (int64_t at = 0; at < m->n; at++) {
    bool first = true;
    for (int i = 0; i < m->n_parts; i++) first &= at / m->parts[i].stride % m->parts[i].size == 0;
    for (int64_t k = 0; first && k < each; k++) {
      int64_t pos = at, left = k;
      for (int i = m->n_parts; i-- > 0;) {
        pos += left % m->parts[i].size * m->parts[i].stride;
        left /= m->parts[i].size;
      }
      ids[n++] = m->ids[pos];
    }
  }
  sn_assert(n == m->n);
  return groups_cut(p, g, m->n / each, each, ids);
}

static sn_status groups_mesh(sn_tx *p, sn_groups *g) {
  const char *begin = p->at;
  mesh m = {.n_axes = 0};
  g->form = SN_GROUPS_MESH;
  (void)sn_tx_accept(p, '@');
  if (!sn_tx_accept_word(p, "mesh")) return sn_tx_expected(p, "`mesh`");
  SN_TRY(mesh_axes(p, &m));
  SN_TRY(mesh_ids(p, &m));
  SN_TRY(sn_tx_need(p, '{', "before the axes that groups run along"));
  if (!sn_tx_accept(p, '}')) {
    do {
      SN_TRY(mesh_part(p, &m));
    } while (sn_tx_accept(p, ','));
    SN_TRY(sn_tx_need(p, '}', "after the axes that groups run along"));
  }
  g->mesh = sn_arena_string_n(p->keep, begin, (size_t)(p->at - begin));
  if (g->mesh == NULL) return sn_tx_memory(p);
  return mesh_expand(p, &m, g);
}

sn_status sn_tx_groups(sn_tx *p, sn_groups *out) {
  *out = (sn_groups){.form = SN_GROUPS_LIST};
  char c = sn_tx_peek(p);
  if (c == '[') return groups_iota(p, out);
  if (c == 'm' || c == '@') return groups_mesh(p, out);
  if (c != '{') return sn_tx_expected(p, "replica groups: {{0,1},{2,3}}, [2,2]<=[4] or mesh['x'=2]{'x'}");
  return groups_list(p, out);
}
