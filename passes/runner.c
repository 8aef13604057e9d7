/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The runner: it alone times, counts, verifies, checks declared needs, limits, disables and stops. Passes only rewrite.
 *
 * A run is a list of steps (pipelines.c): single passes, and groups that repeat until a whole round changes nothing. Inside a group a pass that found
 * nothing to do is not asked again before somebody else changed the module. A round that ends in a module seen after an earlier round proves that passes
 * undo each other: the runner says which ones changed it in that round, and goes on with what it has. */
#include "passes_internal.h"

#include <stdlib.h>
#include <string.h>

const sn_pass_info sn_passes[SN_PASS_COUNT] = {
#define SN_PASS(id, text, numeric, needs, breaks, makes, what) {text, numeric, needs, breaks, makes, what},
#include "sinter/passes.def"
#undef SN_PASS
};

typedef sn_status (*pass_fn)(sn_pass_ctx *, sn_module *);
static const pass_fn pass_fns[SN_PASS_COUNT] = {
#define SN_PASS(id, text, numeric, needs, breaks, makes, what) sn_pass_##id,
#include "sinter/passes.def"
#undef SN_PASS
};

bool sn_pass_from_text(const char *text, size_t n, sn_pass_id *out) {
  for (int p = 0; p < SN_PASS_COUNT; p++) {
    if (strlen(sn_passes[p].text) == n && memcmp(sn_passes[p].text, text, n) == 0) {
      *out = (sn_pass_id)p;
      return true;
    }
  }
  return false;
}

void sn_pass_options_init(sn_pass_options *o) {
  memset(o, 0, sizeof *o);
  o->struct_size = sizeof *o;
  o->opt_level = 2;
  o->numeric = SN_FORMULA;
  o->layout = "auto";
  o->attention = "auto";
}

bool sn_pass_may(sn_pass_ctx *pc) {
  if (pc->applications_left <= 0) return false;
  pc->applications_left--;
  return true;
}

/* ---- the state of a run ---- */

typedef struct runner {
  sn_diag *d;
  sn_module *m;
  const sn_pass_options *o;
  sn_pass_report report;
  int slot[SN_PASS_COUNT];            /* of the pass in the report, plus one */
  int64_t left[SN_PASS_COUNT];        /* applications allowed, over all runs */
  bool disabled[SN_PASS_COUNT];
  sn_pass_id stop_pass;
  int stop_run;                       /* 0: run to the end */
  bool stopped;
  uint32_t held;                      /* properties the module has now */
  uint32_t made;                      /* those of them that a pass of this run established */
  uint64_t version;                   /* counts changes */
  uint64_t clean_at[SN_PASS_COUNT];   /* version plus one at which the pass found nothing to do */
  sn_arena *scratch;
} runner;

/* "did you mean" for a pass name that nobody knows. */
static sn_status unknown_pass(sn_diag *d, const char *name, size_t n) {
  const char *names[SN_PASS_COUNT];
  for (int p = 0; p < SN_PASS_COUNT; p++) names[p] = sn_passes[p].text;
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)n, name);
  sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "no pass is called '%s'", word);
  const char *near = sn_nearest(word, names, SN_PASS_COUNT);
  if (near) sn_hint(d, "did you mean '%s'? --list-passes names them all", near);
  else sn_hint(d, "--list-passes names them all");
  return SN_ERR_USAGE;
}

/* The whole number behind `mark` in text, and the length of what stands before it. False: no number there. */
static bool split_number(const char *text, char mark, size_t *n_name, int64_t *number) {
  const char *at = strchr(text, mark);
  *n_name = at ? (size_t)(at - text) : strlen(text);
  if (!at) return false;
  char *end;
  long long v = strtoll(at + 1, &end, 10);
  *number = (int64_t)v;
  return end != at + 1 && *end == '\0' && v >= 0;
}

static sn_status read_limit(runner *r) {
  if (!r->o->limit) return SN_OK;
  size_t n;
  int64_t count;
  if (!split_number(r->o->limit, ':', &n, &count)) {
    sn_error(r->d, SN_NOWHERE, SN_ERR_USAGE, "limit '%s' is not PASS:N with a number N of rewrites", r->o->limit);
    return SN_ERR_USAGE;
  }
  sn_pass_id p;
  if (!sn_pass_from_text(r->o->limit, n, &p)) return unknown_pass(r->d, r->o->limit, n);
  r->left[p] = count;
  return SN_OK;
}

static sn_status read_stop(runner *r) {
  if (!r->o->stop_after) return SN_OK;
  size_t n;
  int64_t k = 1;
  if (!split_number(r->o->stop_after, '#', &n, &k) && r->o->stop_after[n] == '#') k = 0;
  if (k < 1 || k > INT32_MAX) {
    return sn_error(r->d, SN_NOWHERE, SN_ERR_USAGE, "stop-after '%s' is neither PASS nor PASS#k with k at least 1", r->o->stop_after);
  }
  if (!sn_pass_from_text(r->o->stop_after, n, &r->stop_pass)) return unknown_pass(r->d, r->o->stop_after, n);
  r->stop_run = (int)k;
  return SN_OK;
}

static sn_status read_disabled(runner *r) {
  for (const char *const *name = r->o->disable; name && *name; name++) {
    sn_pass_id p;
    if (!sn_pass_from_text(*name, strlen(*name), &p)) return unknown_pass(r->d, *name, strlen(*name));
    r->disabled[p] = true;
  }
  return SN_OK;
}

static sn_status read_names(runner *r) {
  SN_TRY(read_limit(r));
  SN_TRY(read_stop(r));
  return read_disabled(r);
}

sn_status sn_pass_options_check(sn_diag *d, const sn_pass_options *o) {
  runner r = {.d = d, .o = o};
  return read_names(&r);
}

static sn_status runner_init(runner *r, sn_diag *d, sn_module *m, const sn_pass_options *o) {
  memset(r, 0, sizeof *r);
  r->d = d;
  r->m = m;
  r->o = o;
  for (int p = 0; p < SN_PASS_COUNT; p++) r->left[p] = INT64_MAX;
  SN_TRY(read_names(r));
  SN_TRY(sn_arena_create(&r->scratch));
  r->held = sn_module_properties(m);
  return SN_OK;
}

/* ---- one pass ---- */

static int64_t count_instrs(const sn_module *m) {
  int64_t n = 0;
  SN_FOR_COMPUTATIONS(c, m) n += c->n_instrs;
  return n;
}

static sn_pass_time *time_of(runner *r, sn_pass_id p) {
  if (!r->slot[p]) {
    r->slot[p] = ++r->report.n;
    r->report.times[r->report.n - 1].pass = p;
    r->report.times[r->report.n - 1].instrs_before = count_instrs(r->m);
  }
  return &r->report.times[r->slot[p] - 1];
}

/* Names of the properties in the set, for messages. */
static const char *property_name(uint32_t set) {
  static const struct { uint32_t bit; const char *text; } names[] = {
      {SN_P_CANONICAL, "canonical form"}, {SN_P_LAYOUT, "layouts"}, {SN_P_FUSED, "fusions"}, {SN_P_SCHEDULE, "a schedule"}, {SN_P_BUFFERS, "buffer slices"}};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    if (set & names[k].bit) return names[k].text;
  }
  return "nothing";
}

static sn_status check_needs(runner *r, sn_pass_id p) {
  uint32_t lacks = sn_passes[p].needs & ~r->held;
  if (!lacks) return SN_OK;
  sn_error(r->d, SN_NOWHERE, SN_ERR_USAGE, "pass %s needs %s, which the module does not have here", sn_passes[p].text, property_name(lacks));
  for (int q = 0; q < SN_PASS_COUNT; q++) {
    if (!(sn_passes[q].makes & lacks)) continue;
    sn_hint(r->d, "run %s before it", sn_passes[q].text);
    break;
  }
  return SN_ERR_USAGE;
}

/* What the pass does not keep is taken off the module, so that nobody reads a stale schedule or plan. */
static sn_status drop_broken(runner *r, sn_pass_id p) {
  uint32_t lost = sn_passes[p].breaks & r->held;
  r->held &= ~sn_passes[p].breaks;
  if (lost & SN_P_SCHEDULE) r->m->is_scheduled = false;
  if (!(lost & SN_P_BUFFERS)) return SN_OK;
  SN_FOR_COMPUTATIONS(c, r->m) {
    SN_FOR_INSTRS(i, c) {
      if (sn_instr_frontend(i, "sinter.slice")) SN_TRY(sn_instr_set_frontend(i, "sinter.slice", NULL));
    }
  }
  return SN_OK;
}

static sn_status check_after(runner *r, sn_pass_id p, bool changed) {
  if (changed) SN_TRY(drop_broken(r, p));
  r->held |= sn_passes[p].makes;
  r->made = (r->made | sn_passes[p].makes) & r->held;
  if (!r->o->verify_each) return SN_OK;
  uint32_t missing = sn_passes[p].makes & ~sn_module_properties(r->m);
  if (missing) {
    return sn_error(r->d, SN_NOWHERE, SN_ERR_INTERNAL, "pass %s promises %s but left the module without", sn_passes[p].text, property_name(missing));
  }
  sn_status s = changed ? sn_module_verify(r->d, r->m, r->made & SN_P_LAYOUT ? SN_VERIFY_LAYOUTS : 0) : SN_OK;
  if (s != SN_OK) sn_note(r->d, SN_NOWHERE, "the module was valid before pass %s (run %d)", sn_passes[p].text, time_of(r, p)->runs);
  return s;
}

static sn_pass_ctx context_of(runner *r, sn_pass_id p) {
  sn_pass_ctx pc;
  memset(&pc, 0, sizeof pc);
  pc.diag = r->d;
  pc.scratch = r->scratch;
  pc.pool = r->o->pool;
  pc.numeric = r->o->numeric;
  pc.target = r->o->target;
  pc.options = r->o;
  pc.pass = p;
  pc.remarks = r->o->remarks;
  pc.applications_left = r->left[p];
  return pc;
}

/* May this pass run at all? A pass that the numeric contract forbids says so once. */
static bool allowed(runner *r, sn_pass_id p) {
  if (r->disabled[p]) return false;
  if (sn_passes[p].numeric <= r->o->numeric) return true;
  if (!r->slot[p]) {
    sn_pass_ctx pc = context_of(r, p);
    time_of(r, p);
    sn_pass_remark(&pc, SN_REFUSED, SN_REASON_NUMERIC, NULL, NULL, 0, NULL, "the whole pass is off");
  }
  return false;
}

static sn_status run_pass(runner *r, sn_pass_id p, bool *changed) {
  *changed = false;
  if (r->stopped || !allowed(r, p) || r->clean_at[p] == r->version + 1) return SN_OK;
  SN_TRY(check_needs(r, p));
  sn_pass_time *t = time_of(r, p);
  sn_pass_ctx pc = context_of(r, p);
  double start = sn_time();
  sn_arena_reset(r->scratch);
  sn_status s = pass_fns[p](&pc, r->m);
  t->seconds += sn_time() - start;
  t->runs++;
  t->changes += pc.changed;
  t->instrs_after = count_instrs(r->m);
  r->left[p] = pc.applications_left;
  if (s != SN_OK) {
    sn_note(r->d, SN_NOWHERE, "in pass %s (run %d)", sn_passes[p].text, t->runs);
    return s;
  }
  if (pc.changed) r->version++;
  else r->clean_at[p] = r->version + 1;
  *changed = pc.changed;
  SN_TRY(check_after(r, p, pc.changed));
  if (r->o->after) r->o->after(r->o->after_ctx, p, t->runs, r->m, pc.changed);
  r->stopped = r->stop_run && p == r->stop_pass && t->runs == r->stop_run;
  return SN_OK;
}

/* ---- groups ---- */

enum { MAX_ROUNDS = 64 };

static void complain(runner *r, const sn_step *group, const sn_pass_id *culprits, int n, int rounds, bool proven) {
  sn_str names = {0};
  for (int k = 0; k < n; k++) {
    if (k) sn_str_add(&names, k + 1 < n ? ", " : " and ");
    sn_str_add(&names, sn_passes[culprits[k]].text);
  }
  if (names.failed || !n) {
    sn_str_finish(&names);
    return;
  }
  sn_warn(r->d, SN_NOWHERE, "%s %s %s in group '%s': %s after round %d", n > 1 ? "passes" : "pass", names.data, n > 1 ? "fight" : "fights with itself", group->name,
          proven ? "an earlier module came back" : "still changing the module", rounds);
  sn_hint(r->d, "--disable-pass=%s ends it", sn_passes[culprits[n - 1]].text);
  sn_pass_ctx pc = context_of(r, culprits[0]);
  sn_number numbers[] = {{"rounds", rounds}};
  sn_pass_remark(&pc, SN_INFO, SN_REASON_FIGHT, NULL, NULL, 1, numbers, names.data);
  sn_str_finish(&names);
}

/* One round over the group's passes; the ones that changed the module are listed. */
static sn_status run_round(runner *r, const sn_step *group, sn_pass_id *culprits, int *n) {
  *n = 0;
  for (const sn_step *s = group + 1; s->kind != SN_STEP_END; s++) {
    bool changed;
    if (!sn_step_runs(s, r->o->opt_level)) continue;
    SN_TRY(run_pass(r, s->pass, &changed));
    if (changed) culprits[(*n)++] = s->pass;
  }
  return SN_OK;
}

static int group_size(const sn_step *group) {
  int n = 0;
  while (group[1 + n].kind != SN_STEP_END) n++;
  return n;
}

static sn_status run_group(runner *r, const sn_step *group) {
  uint64_t seen[MAX_ROUNDS];
  sn_pass_id *culprits = sn_alloc_zero((size_t)group_size(group) + 1, sizeof *culprits);
  if (!culprits) return sn_out_of_memory(r->d, sizeof *culprits);
  int bound = group->bound < MAX_ROUNDS ? group->bound : MAX_ROUNDS, n = 0;
  sn_status s = SN_OK;
  for (int round = 0; round < bound; round++) {
    s = run_round(r, group, culprits, &n);
    if (s != SN_OK || !n || r->stopped) break;
    seen[round] = sn_module_hash(r->m);
    bool again = false;
    for (int k = 0; k < round && !again; k++) again = seen[k] == seen[round];
    if (again || round + 1 == bound) complain(r, group, culprits, n, round + 1, again);
    if (again) break;
  }
  sn_free(culprits);
  return s;
}

static sn_status run_steps(runner *r, const sn_step *steps) {
  for (const sn_step *s = steps; s->kind != SN_STEP_STOP && !r->stopped; s++) {
    bool changed;
    if (s->kind == SN_STEP_PASS) {
      if (sn_step_runs(s, r->o->opt_level)) SN_TRY(run_pass(r, s->pass, &changed));
    } else if (s->kind == SN_STEP_GROUP) {
      SN_TRY(run_group(r, s));
      s += 1 + group_size(s);
    }
  }
  return SN_OK;
}

static sn_status run_all(sn_diag *d, sn_module *m, const sn_step *steps, const sn_pass_options *o, sn_pass_report *report) {
  if (report) memset(report, 0, sizeof *report);
  sn_pass_options dflt;
  sn_pass_options_init(&dflt);
  runner r;
  double start = sn_time();
  sn_status s = runner_init(&r, d, m, o ? o : &dflt);
  if (s == SN_OK) s = run_steps(&r, steps);
  if (s == SN_OK && r.stop_run && !r.stopped) {
    s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "stop-after: pass %s was not run %d time%s", sn_passes[r.stop_pass].text, r.stop_run, r.stop_run > 1 ? "s" : "");
  }
  r.report.seconds = sn_time() - start;
  if (report) *report = r.report;
  sn_arena_destroy(r.scratch);
  return s;
}

/* ---- what callers ask for ---- */

sn_status sn_pipeline_run(sn_diag *d, sn_module *m, const char *pipeline, const sn_pass_options *o, sn_pass_report *report) {
  const sn_step *steps = sn_pipeline_find(pipeline);
  if (!steps) {
    sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "no pipeline is called '%s'", pipeline);
    sn_hint(d, "cpu, cuda or op-by-op");
    return SN_ERR_USAGE;
  }
  return run_all(d, m, steps, o, report);
}

sn_status sn_passes_run(sn_diag *d, sn_module *m, const char *names, const sn_pass_options *o, sn_pass_report *report) {
  size_t n = 1, at = 0;
  for (const char *p = names; *p; p++) n += *p == ',';
  sn_step *steps = sn_alloc_zero(n + 1, sizeof *steps);
  if (!steps) return sn_out_of_memory(d, (n + 1) * sizeof *steps);
  sn_status s = SN_OK;
  for (const char *p = names; s == SN_OK && *p;) {
    size_t length = strcspn(p, ",");
    steps[at].kind = SN_STEP_PASS;
    if (!sn_pass_from_text(p, length, &steps[at].pass)) s = unknown_pass(d, p, length);
    at++;
    p += length + (p[length] == ',');
  }
  steps[at].kind = SN_STEP_STOP;
  if (s == SN_OK) s = run_all(d, m, steps, o, report);
  sn_free(steps);
  return s;
}
