/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Lines that both texts have, by the longest common subsequence of what lies between their equal beginnings and ends. Where that is too large for a table, all of it
 * counts as changed. */
#include "text_diff.h"

#include <string.h>

enum { AROUND = 3, MOST_CELLS = 1 << 26 };

typedef struct line {
  const char *text;
  size_t n;
} line;

typedef struct lines {
  line *v;
  size_t n;
} lines;

typedef struct edit {
  char mark; /* ' ', '-', '+' */
  const line *line;
  size_t old_at, new_at; /* lines in front of it */
} edit;

typedef struct diff {
  sn_arena *arena;
  lines a, b;
  edit *edits;
  size_t n;
} diff;

static bool split(sn_arena *arena, const char *text, lines *out) {
  size_t n = 1;
  for (const char *p = text; *p; p++) n += *p == '\n';
  out->v = SN_NEW_N(arena, line, n);
  for (const char *p = text; out->v && *p;) {
    size_t length = strcspn(p, "\n");
    out->v[out->n++] = (line){p, length};
    p += length + (p[length] == '\n');
  }
  return out->v != NULL;
}

static bool same(const line *x, const line *y) { return x->n == y->n && memcmp(x->text, y->text, x->n) == 0; }

static void add(diff *d, char mark, size_t i, size_t j) {
  const line *l = mark == '+' ? &d->b.v[j] : &d->a.v[i];
  d->edits[d->n++] = (edit){mark, l, i, j};
}

/* a[i, ie) against b[j, je): table[i][j] is the length of what their rests have in common. */
static void middle(diff *d, size_t i, size_t ie, size_t j, size_t je) {
  size_t w = je - j + 1, h = ie - i + 1, i0 = i, j0 = j;
  uint32_t *table = w < MOST_CELLS && h < MOST_CELLS && w * h <= MOST_CELLS ? sn_alloc_zero(w * h, sizeof *table) : NULL;
  if (table) {
    for (size_t y = h - 1; y-- > 0;) {
      for (size_t x = w - 1; x-- > 0;) {
        uint32_t down = table[(y + 1) * w + x], right = table[y * w + x + 1];
        table[y * w + x] = same(&d->a.v[i + y], &d->b.v[j + x]) ? table[(y + 1) * w + x + 1] + 1 : down > right ? down : right;
      }
    }
  }
  while (i < ie || j < je) {
    if (table && i < ie && j < je && same(&d->a.v[i], &d->b.v[j])) add(d, ' ', i, j), i++, j++;
    else if (i < ie && (j == je || !table || table[(i + 1 - i0) * w + j - j0] >= table[(i - i0) * w + j + 1 - j0])) add(d, '-', i, j), i++;
    else add(d, '+', i, j), j++;
  }
  sn_free(table);
}

static void print_hunk(const diff *d, size_t from, size_t to, sn_str *out) {
  size_t n_old = 0, n_new = 0;
  for (size_t k = from; k < to; k++) {
    n_old += d->edits[k].mark != '+';
    n_new += d->edits[k].mark != '-';
  }
  sn_str_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", d->edits[from].old_at + (n_old > 0), n_old, d->edits[from].new_at + (n_new > 0), n_new);
  for (size_t k = from; k < to; k++) sn_str_printf(out, "%c%.*s\n", d->edits[k].mark, (int)d->edits[k].line->n, d->edits[k].line->text);
}

static void print_hunks(const diff *d, sn_str *out) {
  for (size_t k = 0; k < d->n;) {
    while (k < d->n && d->edits[k].mark == ' ') k++;
    if (k == d->n) return;
    size_t from = k > AROUND ? k - AROUND : 0, last = k;
    for (; k < d->n && k <= last + 2 * AROUND; k++) {
      if (d->edits[k].mark != ' ') last = k;
    }
    size_t to = last + 1 + AROUND < d->n ? last + 1 + AROUND : d->n;
    print_hunk(d, from, to, out);
    k = to;
  }
}

static bool compare(diff *d) {
  size_t begin = 0, na = d->a.n, nb = d->b.n;
  d->edits = SN_NEW_N(d->arena, edit, na + nb + 1);
  if (!d->edits) return false;
  while (begin < na && begin < nb && same(&d->a.v[begin], &d->b.v[begin])) begin++;
  while (na > begin && nb > begin && same(&d->a.v[na - 1], &d->b.v[nb - 1])) na--, nb--;
  for (size_t k = 0; k < begin; k++) add(d, ' ', k, k);
  middle(d, begin, na, begin, nb);
  for (; na < d->a.n; na++, nb++) add(d, ' ', na, nb);
  return true;
}

sn_status sn_text_diff(sn_diag *diag, const char *old_name, const char *old_text, const char *new_name, const char *new_text, sn_str *to) {
  diff d;
  memset(&d, 0, sizeof d);
  old_text = old_text ? old_text : "";
  new_text = new_text ? new_text : "";
  if (strcmp(old_text, new_text) == 0) return SN_OK;
  bool ok = sn_arena_create(&d.arena) == SN_OK && split(d.arena, old_text, &d.a) && split(d.arena, new_text, &d.b) && compare(&d);
  if (ok) {
    sn_str_printf(to, "--- %s\n+++ %s\n", old_name, new_name);
    print_hunks(&d, to);
  }
  sn_arena_destroy(d.arena);
  return ok && !to->failed ? SN_OK : sn_out_of_memory(diag, sizeof d);
}
