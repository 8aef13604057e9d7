/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* einsum: letters become batch, contracting and free axes of dots, from left to right; a final transpose puts the
 * result in order. */
#include <ctype.h>
#include <string.h>

#include "graph_internal.h"

/* Labels of a tensor's axes. */
typedef struct labels {
  int n;
  char c[SN_MAX_RANK];
} labels;

typedef struct einsum {
  sn_graph *g;
  sn_loc at;
  const char *spec;
  labels out;
} einsum;

static bool has(const labels *l, char c) { return l->n && memchr(l->c, c, (size_t)l->n) != NULL; }
static int index_of(const labels *l, char c) { return (int)((const char *)memchr(l->c, c, (size_t)l->n) - l->c); }

static bool parse_operand(const char **p, labels *l) {
  l->n = 0;
  for (; **p && **p != ',' && **p != '-'; (*p)++) {
    if (**p == ' ') continue;
    if (!isalpha((unsigned char)**p) || l->n == SN_MAX_RANK) return false;
    l->c[l->n++] = **p;
  }
  return true;
}

static bool parse(einsum *e, int n, labels *in) {
  const char *p = e->spec;
  for (int k = 0; k < n; k++) {
    if (!parse_operand(&p, &in[k])) return false;
    if (k + 1 < n && *p++ != ',') return false;
  }
  e->out.n = 0;
  if (!*p) { /* NumPy's rule: letters that stand once, in alphabetical order */
    for (int c = 'A'; c <= 'z'; c++) {
      int times = 0;
      for (int k = 0; k < n; k++)
        for (int a = 0; a < in[k].n; a++) times += in[k].c[a] == c;
      if (times == 1) e->out.c[e->out.n++] = (char)c;
    }
    return true;
  }
  return p[0] == '-' && p[1] == '>' && (p += 2, parse_operand(&p, &e->out)) && !*p;
}

/* Two axes of one letter: their diagonal. */
static sn_tensor diagonal(einsum *e, sn_tensor x, labels *l) {
  for (int i = 0; i < l->n; i++) {
    for (int j = i + 1; j < l->n; j++) {
      if (l->c[i] != l->c[j]) continue;
      const int64_t *dims = sn_tensor_dims(x);
      if (!dims) return x;
      sn_tensor a = sn_iota_at(e->at, e->g, SN_TYPE_S32, l->n, dims, i),
                b = sn_iota_at(e->at, e->g, SN_TYPE_S32, l->n, dims, j);
      x = sn_select_at(e->at, sn_compare_at(e->at, SN_DIRECTION_EQ, a, b), x, sn_scalar_like_at(e->at, x, 0));
      x = sn_sum_at(e->at, x, 1, (int64_t[]){j}, false);
      memmove(&l->c[j], &l->c[j + 1], (size_t)(l->n - j - 1));
      l->n--;
      j--;
    }
  }
  return x;
}

/* Sums letters that neither the result nor later operands need. */
static sn_tensor sum_lone(einsum *e, sn_tensor x, labels *l, const labels *other, int n_later, const labels *later) {
  int64_t axes[SN_MAX_RANK];
  int n = 0;
  labels kept = {0};
  for (int k = 0; k < l->n; k++) {
    bool needed = has(&e->out, l->c[k]) || (other && has(other, l->c[k]));
    for (int j = 0; j < n_later; j++) needed |= has(&later[j], l->c[k]);
    if (needed)
      kept.c[kept.n++] = l->c[k];
    else
      axes[n++] = k;
  }
  *l = kept;
  return n ? sn_sum_at(e->at, x, n, axes, false) : x;
}

static sn_tensor contract(einsum *e, sn_tensor x, labels *lx, sn_tensor y, const labels *ly, int n_later,
                          const labels *later) {
  int64_t xb[SN_MAX_RANK], yb[SN_MAX_RANK], xc[SN_MAX_RANK], yc[SN_MAX_RANK];
  sn_dot_dims d = {.lhs_batch = xb, .rhs_batch = yb, .lhs_contracting = xc, .rhs_contracting = yc};
  labels r = {0};
  for (int k = 0; k < lx->n; k++) {
    char c = lx->c[k];
    if (!has(ly, c)) continue;
    bool needed = has(&e->out, c);
    for (int j = 0; j < n_later; j++) needed |= has(&later[j], c);
    if (needed) {
      xb[d.n_batch] = k;
      yb[d.n_batch++] = index_of(ly, c);
      r.c[r.n++] = c;
    } else {
      xc[d.n_contracting] = k;
      yc[d.n_contracting++] = index_of(ly, c);
    }
  }
  for (int k = 0; k < lx->n; k++)
    if (!has(ly, lx->c[k])) r.c[r.n++] = lx->c[k];
  for (int k = 0; k < ly->n; k++)
    if (!has(lx, ly->c[k])) r.c[r.n++] = ly->c[k];
  *lx = r;
  return sn_dot_at(e->at, x, y, &d);
}

static bool check_sizes(einsum *e, int n, const sn_tensor *xs, const labels *in) {
  int64_t size[128];
  memset(size, 0xff, sizeof size);
  for (int k = 0; k < n; k++) {
    if (sn_tensor_rank(xs[k]) != in[k].n) {
      sn_graph_fail(e->g, e->at, SN_ERR_SHAPE, "einsum \"%s\": operand %d is %s, the text gives it %d axes", e->spec, k,
                    sn_tensor_text(xs[k]), in[k].n);
      return false;
    }
    for (int a = 0; a < in[k].n; a++) {
      int64_t *s = &size[(unsigned char)in[k].c[a] & 127], have = sn_tensor_dim(xs[k], a);
      if (*s >= 0 && *s != have) {
        sn_graph_fail(e->g, e->at, SN_ERR_SHAPE, "einsum \"%s\": '%c' is %lld, and %lld in operand %d (%s)", e->spec,
                      in[k].c[a], (long long)*s, (long long)have, k, sn_tensor_text(xs[k]));
        return false;
      }
      *s = have;
    }
  }
  for (int a = 0; a < e->out.n; a++) {
    if (size[(unsigned char)e->out.c[a] & 127] >= 0 && index_of(&e->out, e->out.c[a]) == a) continue;
    sn_graph_fail(e->g, e->at, SN_ERR_SHAPE, "einsum \"%s\": '%c' of the result stands in no operand, or twice",
                  e->spec, e->out.c[a]);
    return false;
  }
  return true;
}

sn_tensor sn_einsum_at(sn_loc at, const char *spec, int n, const sn_tensor *xs) {
  if (n <= 0) return (sn_tensor){0};
  einsum e = {.g = xs[0].graph, .at = at, .spec = spec};
  if (!sn_graph_open(e.g, at)) return sn_graph_empty(e.g);
  labels *in = SN_NEW_N(e.g->arena, labels, n);
  if (!in) {
    sn_graph_no_memory(e.g);
    return sn_graph_empty(e.g);
  }
  if (!parse(&e, n, in)) {
    sn_graph_fail(e.g, at, SN_ERR_SYNTAX, "einsum: \"%s\" does not read as %d operands", spec, n);
    sn_graph_hint(e.g, "one letter an axis, operands separated by commas, as in \"ij,jk->ik\"");
    return sn_graph_empty(e.g);
  }
  for (int k = 0; k < n; k++)
    if (!sn_graph_use(e.g, at, xs[k])) return sn_graph_empty(e.g);
  if (!check_sizes(&e, n, xs, in)) return sn_graph_empty(e.g);
  labels l = in[0];
  sn_tensor r = diagonal(&e, xs[0], &l);
  for (int k = 1; k < n; k++) {
    labels m = in[k];
    sn_tensor y = diagonal(&e, xs[k], &m);
    r = sum_lone(&e, r, &l, &m, n - k - 1, in + k + 1);
    y = sum_lone(&e, y, &m, &l, n - k - 1, in + k + 1);
    r = contract(&e, r, &l, y, &m, n - k - 1, in + k + 1);
  }
  r = sum_lone(&e, r, &l, NULL, 0, NULL);
  int64_t p[SN_MAX_RANK];
  for (int k = 0; k < e.out.n; k++) p[k] = index_of(&l, e.out.c[k]);
  return sn_transpose_at(at, r, e.out.n, p);
}
