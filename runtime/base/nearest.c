/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* "Did you mean": the restricted Damerau-Levenshtein distance (insert, delete, replace, swap neighbours;
 * F. J. Damerau, CACM 7(3), 1964), letters compared without case and `-` as `_`. */
#include "sinter/base.h"

#include <string.h>

#define NEAREST_MAX 64 /* longer words are never suggested */

static char nearest_fold(char c) {
  if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

static size_t nearest_min(size_t a, size_t b) {
  return a < b ? a : b;
}

static size_t nearest_distance(const char *a, size_t n_a, const char *b, size_t n_b) {
  size_t rows[3][NEAREST_MAX + 1];
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t j = 0; j <= n_b; j++) above[j] = j;
  for (size_t i = 1; i <= n_a; i++) {
    row[0] = i;
    for (size_t j = 1; j <= n_b; j++) {
      size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = nearest_min(replaced, nearest_min(above[j], row[j - 1]) + 1);
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = nearest_min(row[j], before[j - 2] + 1);
    }
    size_t *spare = before;
    before = above;
    above = row;
    row = spare;
  }
  return above[n_b];
}

/* False when the word is too long to be compared. */
static bool nearest_load(const char *word, char folded[NEAREST_MAX], size_t *n) {
  *n = strlen(word);
  if (*n > NEAREST_MAX) return false;
  for (size_t i = 0; i < *n; i++) folded[i] = nearest_fold(word[i]);
  return true;
}

const char *sn_nearest(const char *word, const char *const *candidates, size_t n) {
  char a[NEAREST_MAX], b[NEAREST_MAX];
  size_t n_a, n_b, best_distance = SIZE_MAX;
  const char *best = NULL;
  if (word == NULL || !nearest_load(word, a, &n_a)) return NULL;
  for (size_t i = 0; i < n; i++) {
    if (candidates[i] == NULL || !nearest_load(candidates[i], b, &n_b)) continue;
    size_t longer = n_a > n_b ? n_a : n_b, shorter = nearest_min(n_a, n_b);
    size_t limit = longer / 3; /* a third of the letters wrong is another word */
    if (longer - shorter > limit) continue;
    size_t distance = nearest_distance(a, n_a, b, n_b);
    if (distance > limit || distance >= best_distance) continue;
    best = candidates[i];
    best_distance = distance;
  }
  return best;
}
