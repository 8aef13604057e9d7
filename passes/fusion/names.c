/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Fusions that are, or hold, what recognise-patterns found. Groups are made by cost, whatever is a pattern: where a group is one, it is kCustom and named after it; where a
 * group holds it and more, the larger fusion was cheaper and bears its name too; where its parts lie in several groups, storing what several read was. */
#include "../patterns/pattern.h"
#include "fusion.h"

#include <stdlib.h>
#include <string.h>

static int kind_from(const char *text, size_t n) {
  for (int k = 0; k < SN_PATTERN_COUNT; k++) {
    if (strlen(sn_patterns[k].text) == n && memcmp(sn_patterns[k].text, text, n) == 0) return k;
  }
  return -1;
}

/* "softmax#12": pattern and number. */
static bool read_mark(const char *text, int *kind, uint32_t *number) {
  const char *at = strchr(text, '#');
  char *end;
  if (!at || (*kind = kind_from(text, (size_t)(at - text))) < 0) return false;
  unsigned long v = strtoul(at + 1, &end, 10);
  *number = (uint32_t)v;
  return end != at + 1 && !*end && v < UINT32_MAX - 1;
}

static uint32_t highest_number(const fu_state *f) {
  uint32_t most = 0, number;
  int kind;
  SN_FOR_INSTRS(i, f->c) {
    const char *text = i->n_frontend ? sn_instr_frontend(i, SN_PATTERN_KEY) : NULL;
    if (text && read_mark(text, &kind, &number) && number + 1 > most) most = number + 1;
  }
  return most;
}

/* Broadcasts and reshapes may stand in any group that reads them. */
static bool counts(const fu_state *f, uint32_t at) { return f->facts[at].cls != FU_FREE; }

sn_status sn_fusion_read_marks(fu_state *f) {
  sn_arena *a = f->pc->scratch;
  f->n_patterns = highest_number(f);
  uint32_t most = f->c->module->n_ids; /* numbers that somebody made up: there are no more patterns than instructions */
  if (f->n_patterns > most) f->n_patterns = most;
  f->mark = SN_NEW_N(a, uint32_t, f->n + 1);
  f->patterns = SN_NEW_N(a, fu_pattern, f->n_patterns + 1);
  if (!f->mark || !f->patterns) return sn_out_of_memory(f->pc->diag, f->n * sizeof *f->mark);
  uint32_t at = 0;
  SN_FOR_INSTRS(i, f->c) {
    const char *text = i->n_frontend ? sn_instr_frontend(i, SN_PATTERN_KEY) : NULL;
    uint32_t number;
    int kind;
    if (text && read_mark(text, &kind, &number) && number < f->n_patterns) {
      f->mark[at] = number + 1;
      f->patterns[number].kind = kind;
      f->patterns[number].root = counts(f, at) ? at : f->patterns[number].root;
      f->patterns[number].n_members += counts(f, at);
    }
    if (text) SN_TRY(sn_instr_set_frontend(i, SN_PATTERN_KEY, NULL));
    at++;
  }
  return SN_OK;
}

/* The pattern of a member that counts; NULL: none. */
static fu_pattern *pattern_at(const fu_state *f, uint32_t at) { return f->mark[at] && counts(f, at) ? &f->patterns[f->mark[at] - 1] : NULL; }

static uint32_t members_in(const fu_state *f, const fu_group *g, const fu_pattern *p) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < g->n; k++) n += pattern_at(f, g->members[k].at) == p;
  return n;
}

/* Does the group hold all of the pattern whose root is its member `at`? */
static bool holds_all(const fu_state *f, const fu_group *g, uint32_t at) {
  const fu_pattern *p = pattern_at(f, at);
  return p && p->root == at && members_in(f, g, p) == p->n_members;
}

uint32_t sn_fusion_patterns_in(const fu_state *f, const fu_group *g, bool *only) {
  uint32_t held = 0, n_held = 0, n = 0;
  for (uint32_t k = 0; k < g->n && f->n_patterns; k++) {
    uint32_t at = g->members[k].at;
    n += counts(f, at);
    if (!holds_all(f, g, at)) continue;
    held |= UINT32_C(1) << pattern_at(f, at)->kind;
    n_held += pattern_at(f, at)->n_members;
  }
  *only = held && n_held == n;
  return held;
}

void sn_fusion_note_patterns(fu_state *f, const fu_group *g, bool only, const sn_instr *fusion) {
  for (uint32_t k = 0; k < g->n && f->n_patterns; k++) {
    fu_pattern *p = pattern_at(f, g->members[k].at);
    if (!p) continue;
    p->n_groups += p->last != g->anchor + 1;
    p->last = g->anchor + 1;
    if (!holds_all(f, g, g->members[k].at)) continue;
    p->fusion = fusion;
    p->only = only;
  }
}

void sn_fusion_report_patterns(const fu_state *f) {
  for (uint32_t k = 0; k < f->n_patterns && f->pc->remarks; k++) {
    const fu_pattern *p = &f->patterns[k];
    sn_number numbers[] = {{"instructions", (double)p->n_members}, {"fusions", (double)p->n_groups}};
    if (!p->n_members || (p->fusion && p->only)) continue;
    sn_pass_remark(f->pc, p->fusion ? SN_DONE : SN_INFO, p->fusion ? SN_REASON_ABSORBED : SN_REASON_SPLIT, f->facts[p->root].i, p->fusion, 2, numbers, sn_patterns[p->kind].text);
  }
}

void sn_fusion_pattern_names(uint32_t patterns, char separator, char *to, size_t cap) {
  size_t n = 0;
  *to = '\0';
  for (int k = 0; k < SN_PATTERN_COUNT && n < cap; k++) {
    if (!(patterns >> k & 1)) continue;
    if (n) to[n++] = separator;
    n += (size_t)snprintf(to + n, cap - n, "%s", sn_patterns[k].text);
  }
}
