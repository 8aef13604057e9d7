/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Figures for people and for programs. */
#include <math.h>
#include <string.h>

#include "bench.h"

/* ---- numbers ------------------------------------------------------------------------------------------------------------------------ */

typedef struct cell {
  char text[32];
} cell;

static cell seconds(double s) {
  cell c;
  if (s >= 1) snprintf(c.text, sizeof c.text, "%.3f s", s);
  else if (s >= 1e-3) snprintf(c.text, sizeof c.text, "%.3f ms", s * 1e3);
  else if (s >= 1e-6) snprintf(c.text, sizeof c.text, "%.2f us", s * 1e6);
  else snprintf(c.text, sizeof c.text, "%.1f ns", s * 1e9);
  return c;
}

static cell size(int64_t n) {
  cell c;
  double v = (double)n;
  if (v >= 1e9) snprintf(c.text, sizeof c.text, "%.2f GB", v * 1e-9);
  else if (v >= 1e6) snprintf(c.text, sizeof c.text, "%.1f MB", v * 1e-6);
  else snprintf(c.text, sizeof c.text, "%.1f kB", v * 1e-3);
  return c;
}

static cell number(const char *format, double v) {
  cell c;
  snprintf(c.text, sizeof c.text, format, v);
  return c;
}

static cell none(void) { return (cell){"-"}; }

/* ---- the table ---------------------------------------------------------------------------------------------------------------------------- */

enum { N_COLUMNS = 14 };
static const char *const columns[N_COLUMNS] = {"compile", "passes", "lower", "emit", "step", "best", "p50", "p95", "samples/s", "GFLOP/s", "of peak", "commands", "plan", "peak RSS"};

typedef struct row {
  char name[48];
  cell cells[N_COLUMNS];
  cell error;
} row;

static void time_cells(const bench_report *r, const bench_times *t, row *to) {
  double gflops = r->subject->flops / t->mean * 1e-9;
  to->cells[4] = seconds(t->mean);
  to->cells[5] = seconds(t->best);
  to->cells[6] = seconds(t->p50);
  to->cells[7] = seconds(t->p95);
  to->cells[8] = number("%.4g", (double)r->subject->batch / t->mean);
  to->cells[9] = r->subject->flops > 0 ? number("%.1f", gflops) : none();
  to->cells[10] = r->subject->flops > 0 && r->machine->fma_peak_gflops > 0 ? number("%.1f %%", 100 * gflops / r->machine->fma_peak_gflops) : none();
}

static row empty_row(const char *name) {
  row to;
  snprintf(to.name, sizeof to.name, "%s", name);
  for (int k = 0; k < N_COLUMNS; k++) to.cells[k] = none();
  to.error = none();
  return to;
}

static row result_row(const bench_report *r, const bench_result *b) {
  row to = empty_row(b->engine);
  time_cells(r, &b->times, &to);
  if (b->compiled) {
    to.cells[0] = seconds(b->compile_s);
    to.cells[1] = seconds(b->passes_s);
    to.cells[2] = seconds(b->lower_s);
    to.cells[3] = seconds(b->emit_s);
    to.cells[11] = number("%.0f", (double)b->n_commands);
    to.cells[12] = size(b->plan_bytes);
  }
  if (b->rss_peak_bytes) to.cells[13] = size(b->rss_peak_bytes);
  if (b->compiled && b->max_error >= 0) to.error = number("%.1e", b->max_error);
  return to;
}

static row peer_row(const bench_report *r, const bench_peer *p) {
  row to = empty_row(p->name);
  time_cells(r, &p->times, &to);
  if (p->compile_s > 0) to.cells[0] = seconds(p->compile_s);
  if (p->rss_peak_bytes) to.cells[13] = size(p->rss_peak_bytes);
  return to;
}

static void print_rows(int n, const row *rows, bool colour) {
  int widths[N_COLUMNS], name = 6;
  for (int i = 0; i < n; i++) name = (int)strlen(rows[i].name) > name ? (int)strlen(rows[i].name) : name;
  for (int k = 0; k < N_COLUMNS; k++) {
    widths[k] = (int)strlen(columns[k]);
    for (int i = 0; i < n; i++) widths[k] = (int)strlen(rows[i].cells[k].text) > widths[k] ? (int)strlen(rows[i].cells[k].text) : widths[k];
  }
  printf("%s%-*s", colour ? "\033[1m" : "", name, "engine");
  for (int k = 0; k < N_COLUMNS; k++) printf("  %*s", widths[k], columns[k]);
  printf("  %9s%s\n", "max error", colour ? "\033[0m" : "");
  for (int i = 0; i < n; i++) {
    printf("%-*s", name, rows[i].name);
    for (int k = 0; k < N_COLUMNS; k++) printf("  %*s", widths[k], rows[i].cells[k].text);
    printf("  %9s\n", rows[i].error.text);
  }
}

static void print_ratio(const bench_times *fused, const bench_times *other, const char *name) {
  printf("fused is %.2f times as fast as %s (best against best: %.2f)", other->mean / fused->mean, name, other->best / fused->best);
}

static void print_ratios(const bench_report *r) {
  const bench_result *fused = NULL;
  for (int i = 0; i < r->n_results; i++)
    if (!r->results[i].why_not[0] && strcmp(r->results[i].engine, "fused") == 0) fused = &r->results[i];
  if (!fused) return;
  for (int i = 0; i < r->n_results; i++) {
    const bench_result *b = &r->results[i];
    if (b == fused || b->why_not[0]) continue;
    print_ratio(&fused->times, &b->times, b->engine);
    if (b->plan_bytes) printf(", in %.2f of its memory", (double)fused->plan_bytes / (double)b->plan_bytes);
    putchar('\n');
  }
  for (int i = 0; i < r->n_peers; i++) {
    if (r->peers[i].why_not[0]) continue;
    print_ratio(&fused->times, &r->peers[i].times, r->peers[i].name);
    putchar('\n');
  }
}

static void print_sampling(const bench_report *r) {
  for (int i = 0; i < r->n_results; i++) {
    const bench_result *b = &r->results[i];
    if (b->why_not[0]) printf("not run: %s: %s\n", b->engine, b->why_not);
    else if (b->times.calls > 1) printf("%s: %lld samples of %lld calls each, back to back\n", b->engine, (long long)b->times.n, (long long)b->times.calls);
    else printf("%s: the mean of %lld steps\n", b->engine, (long long)b->times.n);
    if (!b->why_not[0] && b->max_error < 0) printf("%s: not compared with the interpreter\n", b->engine);
  }
  for (int i = 0; i < r->n_peers; i++)
    if (r->peers[i].why_not[0]) printf("not run: %s: %s\n", r->peers[i].name, r->peers[i].why_not);
}

void bench_print_table(const bench_report *r, bool colour) {
  row rows[BENCH_MAX_ENGINES + BENCH_MAX_PEERS];
  int n = 0;
  printf("model %s, batch %lld, %s, layout %s: %.4g GFLOP a step\n", r->subject->name, (long long)r->subject->batch, r->precision, r->subject->layout, r->subject->flops * 1e-9);
  printf("machine %s, %d threads, %s: %.1f GFLOP/s of multiply-adds, measured in this run\n", r->machine->cpu, r->machine->threads, r->machine->isa, r->machine->fma_peak_gflops);
  for (int i = 0; i < r->n_results; i++)
    if (!r->results[i].why_not[0]) rows[n++] = result_row(r, &r->results[i]);
  for (int i = 0; i < r->n_peers; i++)
    if (!r->peers[i].why_not[0]) rows[n++] = peer_row(r, &r->peers[i]);
  if (n) print_rows(n, rows, colour);
  print_sampling(r);
  print_ratios(r);
}

/* ---- JSON --------------------------------------------------------------------------------------------------------------------------------------- */

static void add_text(sn_str *to, const char *text) {
  sn_str_char(to, '"');
  for (const char *c = text; *c; c++) {
    if (*c == '"' || *c == '\\') sn_str_char(to, '\\');
    if ((unsigned char)*c < 0x20) sn_str_printf(to, "\\u%04x", (unsigned)(unsigned char)*c);
    else sn_str_char(to, *c);
  }
  sn_str_char(to, '"');
}

static void add_number(sn_str *to, double v) {
  if (isfinite(v)) sn_str_printf(to, "%.9g", v);
  else sn_str_add(to, "null");
}

static void add_field(sn_str *to, const char *key, double v) {
  sn_str_printf(to, ", \"%s\": ", key);
  add_number(to, v);
}

static void add_times(sn_str *to, const bench_report *r, const bench_times *t) {
  double gflops = r->subject->flops / t->mean * 1e-9;
  sn_str_add(to, ", \"step_s\": {\"mean\": ");
  add_number(to, t->mean);
  add_field(to, "p50", t->p50);
  add_field(to, "p95", t->p95);
  add_field(to, "best", t->best);
  sn_str_char(to, '}');
  add_field(to, "images_per_s", (double)r->subject->batch / t->mean);
  add_field(to, "gflops", gflops);
  add_field(to, "peak_fraction", r->machine->fma_peak_gflops > 0 ? gflops / r->machine->fma_peak_gflops : 0);
}

static void add_result(sn_str *to, const bench_report *r, const bench_result *b) {
  add_text(to, b->engine);
  if (b->why_not[0]) {
    sn_str_add(to, ": {\"not_run\": ");
    add_text(to, b->why_not);
    sn_str_char(to, '}');
    return;
  }
  sn_str_add(to, ": {\"compile_s\": ");
  add_number(to, b->compile_s);
  add_times(to, r, &b->times);
  add_field(to, "commands", (double)b->n_commands);
  add_field(to, "plan_bytes", (double)b->plan_bytes);
  add_field(to, "rss_peak_bytes", (double)b->rss_peak_bytes);
  add_field(to, "max_error", b->max_error >= 0 ? b->max_error : NAN);
  add_field(to, "passes_s", b->passes_s);
  add_field(to, "lower_s", b->lower_s);
  add_field(to, "emit_s", b->emit_s);
  add_field(to, "kernels", (double)b->n_distinct);
  sn_str_char(to, '}');
}

static void add_peer(sn_str *to, const bench_report *r, const bench_peer *p) {
  add_text(to, p->name);
  if (p->why_not[0]) {
    sn_str_add(to, ": {\"not_run\": ");
    add_text(to, p->why_not);
    sn_str_char(to, '}');
    return;
  }
  sn_str_add(to, ": {\"compile_s\": ");
  add_number(to, p->compile_s);
  add_times(to, r, &p->times);
  add_field(to, "rss_peak_bytes", (double)p->rss_peak_bytes);
  sn_str_char(to, '}');
}

void bench_print_json(const bench_report *r) {
  sn_str to = {0};
  sn_str_add(&to, "{\"model\": ");
  add_text(&to, r->subject->name);
  sn_str_printf(&to, ", \"batch\": %lld, \"precision\": \"%s\", \"layout\": \"%s\", \"machine\": {\"cpu\": ", (long long)r->subject->batch, r->precision, r->subject->layout);
  add_text(&to, r->machine->cpu);
  sn_str_printf(&to, ", \"threads\": %d, \"isa\": \"%s\"", r->machine->threads, r->machine->isa);
  add_field(&to, "fma_peak_gflops", r->machine->fma_peak_gflops);
  sn_str_add(&to, "}, \"engines\": {");
  for (int i = 0; i < r->n_results; i++) {
    if (i) sn_str_add(&to, ", ");
    add_result(&to, r, &r->results[i]);
  }
  sn_str_add(&to, "}, \"peers\": {");
  for (int i = 0; i < r->n_peers; i++) {
    if (i) sn_str_add(&to, ", ");
    add_peer(&to, r, &r->peers[i]);
  }
  sn_str_add(&to, "}}");
  if (!to.failed) puts(to.data);
  sn_str_finish(&to);
}
