/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "pass_options.h"

#include "sinter/cost.h"
#include "sinter/plan.h"

#include <regex.h>
#include <string.h>

const sn_option sn_options_passes[] = {
    {"opt-level", 'O', SN_OPT_INT, "N", "2", "how much to optimise, 0 to 3", 0, 3},
    {"numeric", 0, SN_OPT_CHOICE, "default|strict", "default", "strict: passes that change no bit alone", 0, 0},
    {"layout", 0, SN_OPT_CHOICE, "auto|nhwc|nchw", "auto", "layout of convolutions", 0, 0},
    {"attention", 0, SN_OPT_CHOICE, "auto|fused|eager", "auto", "attention as one kernel, or as it was written; auto: whichever is taken to be faster", 0, 0},
    {"memory-limit", 0, SN_OPT_SIZE, "SIZE", NULL, "recompute values to stay below this many bytes", 0, 0},
    {"seed", 0, SN_OPT_INT, "N", "0", "of what is drawn: by `rng`; in training initial weights, order of samples, dropout", 0, 9e15},
    {"limit", 0, SN_OPT_TEXT, "PASS:N", NULL, "let PASS apply at most N rewrites", 0, 0},
    {"disable-pass", 0, SN_OPT_LIST, "PASS", NULL, "leave a pass out; may be given several times", 0, 0},
    {"stop-after", 0, SN_OPT_TEXT, "PASS[#K]", NULL, "stop behind the K-th run of PASS, the first by default", 0, 0},
    {"verify-each", 0, SN_OPT_FLAG, NULL, NULL, "verify the module behind every pass that changed it", 0, 0},
    {"time-passes", 0, SN_OPT_FLAG, NULL, NULL, "print seconds, runs and instruction counts of each pass", 0, 0},
    {"remarks", 0, SN_OPT_MAYBE, "REGEX", NULL, "print what passes decided and why; only remarks that match", 0, 0},
    {"why-not-fused", 0, SN_OPT_TEXT, "A,B", NULL, "print what was decided about fusing instructions A and B", 0, 0},
    {"json", 0, SN_OPT_FLAG, NULL, NULL, "remarks and times as one JSON object a line", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

/* What can be wrong with the questions themselves is said before any work. */
static sn_status check_reports(sn_diag *d, const sn_options *o) {
  const char *pattern = sn_opt_given(o, "remarks") ? sn_opt_text(o, "remarks") : NULL, *pair = sn_opt_text(o, "why-not-fused");
  regex_t re;
  if (pattern && *pattern) {
    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--remarks: '%s' is no regular expression", pattern);
    regfree(&re);
  }
  const char *comma = pair ? strchr(pair, ',') : NULL;
  if (pair && (!comma || comma == pair || !comma[1])) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--why-not-fused wants two instruction names: A,B");
  return SN_OK;
}

sn_status sn_pass_setup_init(sn_diag *d, const sn_options *o, sn_pass_setup *out) {
  memset(out, 0, sizeof *out);
  sn_pass_options *p = &out->options;
  sn_pass_options_init(p);
  p->opt_level = (int)sn_opt_int(o, "opt-level");
  p->numeric = strcmp(sn_opt_text(o, "numeric"), "strict") == 0 ? SN_EXACT : SN_FORMULA;
  p->layout = sn_opt_text(o, "layout");
  p->attention = sn_opt_text(o, "attention");
  p->memory_limit = sn_opt_int(o, "memory-limit");
  p->seed = (uint64_t)sn_opt_int(o, "seed");
  p->limit = sn_opt_text(o, "limit");
  p->stop_after = sn_opt_text(o, "stop-after");
  p->verify_each = sn_opt_flag(o, "verify-each");
  size_t n = sn_opt_count(o, "disable-pass");
  out->disabled = sn_alloc_zero(n + 1, sizeof *out->disabled);
  if (!out->disabled) return sn_out_of_memory(d, (n + 1) * sizeof *out->disabled);
  for (size_t i = 0; i < n; i++) out->disabled[i] = sn_opt_at(o, "disable-pass", i);
  p->disable = out->disabled;
  SN_TRY(sn_pass_options_check(d, p));
  SN_TRY(check_reports(d, o));
  if (sn_opt_given(o, "remarks") || sn_opt_given(o, "why-not-fused")) SN_TRY(sn_remarks_create(&out->remarks));
  p->remarks = out->remarks;
  return SN_OK;
}

void sn_pass_setup_finish(sn_pass_setup *s) {
  sn_free(s->disabled);
  sn_remarks_destroy(s->remarks);
  memset(s, 0, sizeof *s);
}

/* ---- remarks ---- */

static void print_line(const sn_remark *r, bool json) {
  sn_str line = {0};
  if (json) sn_remark_print_json(&line, r);
  else sn_remark_print(&line, r);
  if (!line.failed) fprintf(stderr, "%s\n", line.data);
  sn_str_finish(&line);
}

static sn_status print_remarks(sn_diag *d, const char *pattern, bool json, const sn_remarks *all) {
  regex_t re;
  bool filtered = pattern && *pattern;
  if (filtered && regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0) return sn_out_of_memory(d, strlen(pattern)); /* check_reports read it once */
  for (size_t i = 0; i < sn_remarks_count(all); i++) {
    const sn_remark *r = sn_remarks_get(all, i);
    sn_str line = {0};
    sn_remark_print(&line, r);
    if (!line.failed && (!filtered || regexec(&re, line.data, 0, NULL, 0) == 0)) print_line(r, json);
    sn_str_finish(&line);
  }
  if (filtered) regfree(&re);
  return SN_OK;
}

static bool is_word(const char *word, size_t n, const char *name) {
  if (n && *word == '%') word++, n--;
  return name && strlen(name) == n && memcmp(word, name, n) == 0;
}

/* The instruction that the fusion of `name` stands for: what it was done into by the fusion pass, step by step; itself where it was into nothing. */
static const char *home_of(const sn_remarks *all, const char *name, size_t n, char *to, size_t cap) {
  if (n && *name == '%') name++, n--;
  snprintf(to, cap, "%.*s", (int)n, name);
  for (int step = 0; step < 8; step++) {
    const sn_remark *into = NULL;
    for (size_t i = 0; i < sn_remarks_count(all) && !into; i++) {
      const sn_remark *r = sn_remarks_get(all, i);
      if (r->pass == SN_PASS_fusion && r->verdict == SN_DONE && r->subject && r->object && strcmp(r->subject, to) == 0) into = r;
    }
    if (!into) break;
    snprintf(to, cap, "%s", into->object);
  }
  return to;
}

static bool is_known(const sn_remarks *all, const char *name) {
  for (size_t i = 0; i < sn_remarks_count(all); i++) {
    const sn_remark *r = sn_remarks_get(all, i);
    if (r->pass == SN_PASS_fusion && ((r->subject && strcmp(r->subject, name) == 0) || (r->object && strcmp(r->object, name) == 0))) return true;
  }
  return false;
}

/* Did both end in one fusion, whatever was said about the pair itself? */
static void print_common_home(const char *a, size_t na, const char *b, bool json, const sn_remarks *all) {
  char x[256], y[256];
  home_of(all, a, na, x, sizeof x);
  home_of(all, b, strlen(b), y, sizeof y);
  if (strcmp(x, y) != 0 || !is_known(all, x)) return;
  if (na && *a == '%') a++, na--;
  if (json) fprintf(stderr, "{\"together_in\": \"%s\"}\n", x);
  else fprintf(stderr, "%.*s and %s run in one fusion, that of %s\n", (int)na, a, b, x);
}

/* Remarks about the pair, in either order; without any, those about one of the two say at least what became of it. */
static void print_pair(const char *pair, bool json, const sn_remarks *all) {
  const char *comma = strchr(pair, ',');
  size_t na = (size_t)(comma - pair), nb = strlen(comma + 1), n_found = 0;
  const char *b = comma + 1;
  print_common_home(pair, na, *b == '%' ? b + 1 : b, json, all);
  for (int round = 0; round < 2 && n_found == 0; round++) {
    for (size_t i = 0; i < sn_remarks_count(all); i++) {
      const sn_remark *r = sn_remarks_get(all, i);
      bool sa = is_word(pair, na, r->subject), oa = is_word(pair, na, r->object), sb = is_word(b, nb, r->subject), ob = is_word(b, nb, r->object);
      if (round == 0 ? !((sa && ob) || (sb && oa)) : !(sa || sb || oa || ob)) continue;
      n_found++;
      print_line(r, json);
      if (!json && r->verdict == SN_REFUSED) fprintf(stderr, "  %s: %s\n", sn_reason_text(r->reason), sn_reason_meaning(r->reason));
    }
  }
  if (!n_found) fprintf(stderr, "no pass decided anything about %.*s or %s: names are those that the fusion pass saw (--print-after=all --remarks show them)\n", (int)na, pair, b);
}

/* ---- memory ---- */

static bool is_command(const sn_instr *i) {
  sn_cost c;
  sn_cost_of(NULL, i, &c);
  return c.us > 0;
}

static int count_commands(const sn_module *m) {
  sn_call_graph g;
  sn_arena *a = NULL;
  int n = 0;
  if (sn_arena_create(&a) != SN_OK) return 0;
  if (sn_call_graph_build(a, m, &g) == SN_OK) {
    SN_FOR_COMPUTATIONS(c, m) {
      if (g.in_fusion[c->id] || g.is_applied[c->id]) continue;
      SN_FOR_INSTRS(i, c) n += is_command(i);
    }
  }
  sn_arena_destroy(a);
  return n;
}

/* The same module once more, to half of the memory. */
static sn_status print_remat(sn_diag *d, sn_arena *a, const sn_plan *p, double us, const char *pipeline, const sn_module *before, const sn_pass_options *o, sn_str *to) {
  sn_pass_options half = *o;
  sn_module *m;
  sn_plan less;
  sn_cost c;
  half.memory_limit = p->live_bytes / 2;
  half.remarks = NULL;
  half.after = NULL;
  SN_TRY(sn_module_clone(before, &m));
  sn_status s = sn_pipeline_run(NULL, m, pipeline, &half, NULL); /* that it may not get there is no warning here */
  if (s == SN_OK) s = sn_plan_make(d, a, m, &less);
  if (s == SN_OK) {
    sn_cost_of_computation(o->target, m->entry, &c);
    if (less.arena_bytes < p->arena_bytes && p->live_bytes > 0) {
      sn_str_printf(to, "recomputing would save up to %lld bytes for %.3g times the modelled time: --memory-limit=%lld\n", (long long)(p->arena_bytes - less.arena_bytes), us > 0 ? c.us / us : 1,
                    (long long)less.arena_bytes);
    } else {
      sn_str_add(to, "recomputing would save nothing\n");
    }
  }
  sn_module_destroy(m);
  return s;
}

sn_status sn_print_memory(sn_diag *d, const sn_module *m, const char *pipeline, const sn_module *before, const sn_pass_options *o) {
  sn_arena *a;
  sn_plan p;
  sn_cost c;
  sn_str text = {0};
  if (!m->is_scheduled) {
    sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--memory: the module has no schedule to plan memory for");
    sn_hint(d, "--pipeline=cpu ends with one; so do --passes=…,schedule,copy-insertion");
    return SN_ERR_USAGE;
  }
  SN_TRY(sn_arena_create(&a));
  sn_status s = sn_plan_make(d, a, m, &p);
  if (s == SN_OK) {
    sn_cost_of_computation(o->target, m->entry, &c);
    sn_str_printf(&text, "commands   %d\nmodelled   %.4g us\n", count_commands(m), c.us);
    sn_plan_print(&text, &p);
    if (pipeline && before) s = print_remat(d, a, &p, c.us, pipeline, before, o, &text);
  }
  if (s == SN_OK && !text.failed) fputs(text.data, stderr);
  sn_str_finish(&text);
  sn_arena_destroy(a);
  return s;
}

/* ---- times ---- */

static void print_times(const sn_pass_report *report, bool json) {
  if (!json) fprintf(stderr, "%-20s %10s %6s %8s %10s %10s\n", "pass", "ms", "runs", "changes", "instrs", "after");
  for (int i = 0; i < report->n; i++) {
    const sn_pass_time *t = &report->times[i];
    const char *format = json ? "{\"pass\": \"%s\", \"ms\": %.3f, \"runs\": %d, \"changes\": %d, \"instructions_before\": %lld, \"instructions_after\": %lld}\n"
                              : "%-20s %10.3f %6d %8d %10lld %10lld\n";
    fprintf(stderr, format, sn_passes[t->pass].text, t->seconds * 1e3, t->runs, t->changes, (long long)t->instrs_before, (long long)t->instrs_after);
  }
  if (!json) fprintf(stderr, "%-20s %10.3f\n", "all, with checks", report->seconds * 1e3);
}

sn_status sn_pass_setup_report(sn_diag *d, const sn_options *o, const sn_pass_setup *s, const sn_pass_report *report) {
  bool json = sn_opt_flag(o, "json");
  if (sn_opt_given(o, "remarks")) SN_TRY(print_remarks(d, sn_opt_text(o, "remarks"), json, s->remarks));
  if (sn_opt_given(o, "why-not-fused")) print_pair(sn_opt_text(o, "why-not-fused"), json, s->remarks);
  if (sn_opt_flag(o, "time-passes")) print_times(report, json);
  return SN_OK;
}

void sn_compile_print_times(const sn_compile_report *r, bool json) {
  const struct {
    const char *name;
    double seconds;
  } rows[] = {{"passes", r->passes_s}, {"lowering", r->lower_s}, {"code", r->emit_s}, {"the compile", r->total_s}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fprintf(stderr, json ? "{\"phase\": \"%s\", \"ms\": %.3f}\n" : "%-20s %10.3f\n", rows[i].name, rows[i].seconds * 1e3);
  }
}
