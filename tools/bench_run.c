/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One engine: compile, bind, run, compare. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "bench.h"
#include "sinter/eval.h"

/* ---- memory bound once ------------------------------------------------------------------------------------------------------------------ */

enum { LARGE = 1 << 20 }; /* from here on, pages of its own: huge ones where the system has them */

static void *memory_make(int64_t bytes) { return bytes >= LARGE ? sn_pages_alloc((size_t)bytes) : sn_alloc_aligned(64, (size_t)(bytes + 63) / 64 * 64); }

static void memory_free(void *p, int64_t bytes) {
  if (bytes >= LARGE) sn_pages_free(p, (size_t)bytes);
  else sn_free_aligned(p);
}

sn_status bench_bind(sn_diag *d, sn_program *p, sn_pool *pool, bench_bound *b) {
  sn_context_options o;
  uint32_t n = sn_program_n_arguments(p), n_results = sn_program_n_results(p);
  memset(b, 0, sizeof *b);
  sn_context_options_init(&o);
  o.pool = pool;
  b->program = sn_program_retain(p);
  SN_TRY(sn_context_create(d, p, &o, &b->context));
  b->arguments = sn_alloc_zero(n + 1u, sizeof *b->arguments);
  b->results = sn_alloc_zero(n_results + 1u, sizeof *b->results);
  if (!b->arguments || !b->results) return sn_out_of_memory(d, sizeof *b->arguments);
  for (uint32_t i = 0; i < n; i++) {
    int64_t bytes = sn_shape_bytes(sn_program_argument(p, i)->shape);
    if (!(b->arguments[i] = memory_make(bytes))) return sn_out_of_memory(d, (size_t)bytes);
    memset(b->arguments[i], 0, (size_t)bytes);
    b->bytes += bytes;
  }
  for (uint32_t i = 0; i < n_results; i++) {
    const sn_program_leaf *l = sn_program_result(p, i);
    int64_t bytes = sn_shape_bytes(l->shape);
    b->results[i] = l->alias_of >= 0 ? b->arguments[l->alias_of] : memory_make(bytes);
    if (!b->results[i]) return sn_out_of_memory(d, (size_t)bytes);
    if (l->alias_of < 0) b->bytes += bytes;
  }
  return SN_OK;
}

void bench_unbind(bench_bound *b) {
  for (uint32_t i = 0; b->results && i < sn_program_n_results(b->program); i++) {
    const sn_program_leaf *l = sn_program_result(b->program, i);
    if (b->results[i] && l->alias_of < 0) memory_free(b->results[i], sn_shape_bytes(l->shape));
  }
  for (uint32_t i = 0; b->arguments && i < sn_program_n_arguments(b->program); i++) {
    if (b->arguments[i]) memory_free(b->arguments[i], sn_shape_bytes(sn_program_argument(b->program, i)->shape));
  }
  sn_free(b->arguments);
  sn_free(b->results);
  sn_context_destroy(b->context);
  sn_program_release(b->program);
  memset(b, 0, sizeof *b);
}

static void set_leaf(bench_bound *b, const sn_array *a, uint32_t *n) {
  if (sn_shape_is_tuple(sn_array_shape(a))) {
    for (int k = 0; k < sn_array_n_elements(a); k++) set_leaf(b, sn_array_element(a, k), n);
  } else if (*n < sn_program_n_arguments(b->program)) {
    int64_t bytes = sn_shape_bytes(sn_program_argument(b->program, *n)->shape);
    sn_assert((int64_t)sn_array_bytes(a) == bytes);
    if (bytes) memcpy(b->arguments[*n], sn_array_data(a), (size_t)bytes);
    ++*n;
  }
}

sn_status bench_bound_set(sn_diag *d, bench_bound *b, uint32_t n, sn_array *const *args) {
  uint32_t n_leaves = 0;
  for (uint32_t k = 0; k < n; k++) set_leaf(b, args[k], &n_leaves);
  if (n_leaves == sn_program_n_arguments(b->program)) return SN_OK;
  return sn_error(d, SN_NOWHERE, SN_ERR_INTERNAL, "the program takes %u arrays, the module %u", sn_program_n_arguments(b->program), n_leaves);
}

/* ---- time ------------------------------------------------------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Calls shorter than this are timed several at once, so that the clock does not weigh. */
static const double least_sample_s = 1e-3;
enum { MOST_CALLS = 1 << 20 };

static sn_status sample(sn_diag *d, bench_call fn, void *ctx, int64_t calls, double *seconds) {
  double t = sn_time();
  for (int64_t k = 0; k < calls; k++) SN_TRY(fn(ctx, d));
  *seconds = (sn_time() - t) / (double)calls;
  return SN_OK;
}

static void summarize(double *v, int64_t n, bench_times *out) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += v[i];
  qsort(v, (size_t)n, sizeof *v, by_value);
  out->n = n;
  out->mean = sum / (double)n;
  out->best = v[0];
  out->p50 = v[(n - 1) / 2];
  out->p95 = v[(int64_t)ceil(0.95 * (double)n) - 1];
}

sn_status bench_time(sn_diag *d, bench_call fn, void *ctx, int64_t steps, int64_t warmup, bench_times *out) {
  double once, *v = sn_alloc_zero((size_t)steps, sizeof *v);
  memset(out, 0, sizeof *out);
  if (!v) return sn_out_of_memory(d, (size_t)steps * sizeof *v);
  sn_status s = sample(d, fn, ctx, 1, &once); /* the first touches fresh pages */
  if (warmup < 0) warmup = steps > 20 ? 10 : steps / 3;
  out->calls = 1;
  while (s == SN_OK && once * (double)out->calls < least_sample_s && out->calls < MOST_CALLS) {
    s = sample(d, fn, ctx, out->calls, &once);
    if (once * (double)out->calls < least_sample_s) out->calls *= 2;
  }
  for (int64_t i = 0; s == SN_OK && i < steps; i++) s = sample(d, fn, ctx, out->calls, &v[i]);
  if (s == SN_OK) summarize(v + warmup, steps - warmup, out);
  sn_free(v);
  return s;
}

/* ---- steps of a program, with batches from the loader where asked ------------------------------------------------------------------------------ */

typedef struct feed {
  bench_bound *b;
  sn_dataset *set;
  sn_loader *loader;
  int64_t epoch;
} feed;

static sn_status next_batch(feed *f, sn_diag *d) {
  sn_batch batch;
  uint32_t n = sn_program_n_arguments(f->b->program);
  SN_TRY(sn_loader_next(d, f->loader, &batch));
  if (batch.n == 0) {
    SN_TRY(sn_loader_seek(f->loader, ++f->epoch, 0));
    SN_TRY(sn_loader_next(d, f->loader, &batch));
  }
  if (batch.inputs) memcpy(f->b->arguments[n - 2], sn_array_data(batch.inputs), sn_array_bytes(batch.inputs));
  if (batch.labels) memcpy(f->b->arguments[n - 1], sn_array_data(batch.labels), sn_array_bytes(batch.labels));
  sn_array_release(batch.inputs);
  sn_array_release(batch.labels);
  return SN_OK;
}

static sn_status program_step(void *ctx, sn_diag *d) {
  feed *f = ctx;
  if (f->loader) SN_TRY(next_batch(f, d));
  return sn_context_run(d, f->b->context, f->b->arguments, f->b->results);
}

/* ---- against the interpreter ---------------------------------------------------------------------------------------------------------------------- */

/* The largest element, of all arrays of a tuple. */
static double scale_of(const sn_array *a) {
  const sn_shape *shape = sn_array_shape(a);
  double scale = 0;
  if (sn_shape_is_tuple(shape)) {
    for (int k = 0; k < sn_array_n_elements(a); k++) scale = fmax(scale, scale_of(sn_array_element(a, k)));
  } else if (sn_shape_is_array(shape) && !sn_type_is_complex(shape->type)) {
    const uint8_t *p = sn_array_data(a);
    for (int64_t i = 0; i < sn_shape_elements(shape); i++) {
      double v = fabs(sn_load_f64(shape->type, p + (size_t)i * sn_type_bytes(shape->type)));
      if (isfinite(v) && v > scale) scale = v;
    }
  }
  return scale;
}

/* The largest difference of a result from the interpreter's, as a share of the interpreter's largest element. What is zero but for rounding (the bias of attention's keys,
 * whose gradient cancels) has no scale of its own: no element is measured by less than the rounding of the largest of all results, `least`. */
static sn_status result_error(const sn_array *got, const sn_array *want, double least, double *worst) {
  sn_array_difference x;
  bool real = sn_shape_is_array(sn_array_shape(want)) && !sn_type_is_complex(sn_array_shape(want)->type);
  double scale = real ? fmax(scale_of(want), least) : 1;
  SN_TRY(sn_array_compare(got, want, 0, scale > 0 ? scale : 1, &x));
  if (x.worst >= 0 && !(x.ratio <= *worst)) *worst = x.ratio;
  return SN_OK;
}

static sn_status value_error(sn_diag *d, const sn_array *want, sn_array *const *got, double least, uint32_t *n, double *worst) {
  if (!sn_shape_is_tuple(sn_array_shape(want))) {
    sn_status s = result_error(got[(*n)++], want, least, worst);
    return s == SN_OK ? SN_OK : sn_error(d, SN_NOWHERE, s, "result %u differs in shape from the interpreter's", *n - 1);
  }
  for (int k = 0; k < sn_array_n_elements(want); k++) SN_TRY(value_error(d, sn_array_element(want, k), got, least, n, worst));
  return SN_OK;
}

static sn_status interpret(sn_diag *d, const bench_subject *s, sn_pool *pool, sn_array *const *args, sn_array **out) {
  sn_eval_options o;
  sn_eval_options_init(&o);
  o.pool = pool;
  return sn_eval(d, s->module, &o, (int)s->module->entry->n_params, args, out);
}

typedef struct leaves {
  uint32_t n;
  sn_array **v; /* borrowed */
} leaves;

static void add_leaves(sn_array *a, leaves *to) {
  if (!sn_shape_is_tuple(sn_array_shape(a))) {
    to->v[to->n++] = a;
    return;
  }
  for (int k = 0; k < sn_array_n_elements(a); k++) add_leaves(sn_array_element(a, k), to);
}

static sn_status call_program(sn_diag *d, sn_program *p, sn_pool *pool, uint32_t n, sn_array *const *args, sn_array **results) {
  sn_context_options o;
  sn_context *c = NULL;
  leaves in = {0, sn_alloc_zero(sn_program_n_arguments(p) + 1u, sizeof *in.v)};
  sn_context_options_init(&o);
  o.pool = pool;
  sn_status s = in.v ? sn_context_create(d, p, &o, &c) : sn_out_of_memory(d, sizeof *in.v);
  for (uint32_t k = 0; s == SN_OK && k < n; k++) add_leaves(args[k], &in);
  if (s == SN_OK) s = sn_context_call(d, c, in.v, results);
  sn_context_destroy(c);
  sn_free(in.v);
  return s;
}

/* The interpreter only reads the arguments, so it goes first; the program may then write into those it was given. */
static sn_status check_program(sn_diag *d, const bench_subject *s, sn_program *p, sn_pool *pool, double *worst) {
  sn_array **args = NULL, *want = NULL, **got = sn_alloc_zero(sn_program_n_results(p) + 1u, sizeof *got);
  uint32_t n = 0;
  *worst = 0;
  sn_status status = got ? bench_arguments(d, s, &args) : sn_out_of_memory(d, sizeof *got);
  if (status == SN_OK) status = interpret(d, s, pool, args, &want);
  if (status == SN_OK) status = call_program(d, p, pool, s->module->entry->n_params, args, got);
  if (status == SN_OK) status = value_error(d, want, got, 0x1p-24 * scale_of(want), &n, worst);
  if (args) sn_arrays_release(s->module->entry->n_params, args);
  if (got) sn_arrays_release(sn_program_n_results(p), got);
  sn_array_release(want);
  return status;
}

/* About what the interpreter does a second, on one thread of a slow machine; comparisons of more than half a minute are left out unless asked for. */
static const double interpreter_flops = 0.4e9, longest_check_s = 30;

static bool worth_checking(const bench_subject *check, const bench_options *o) {
  return o->check && check && (o->force_check || check->flops / interpreter_flops <= longest_check_s);
}

static sn_status compare_first_step(sn_diag *d, const bench_subject *s, const bench_subject *check, const char *engine, sn_program *p, const bench_options *o, bench_result *r) {
  sn_program *smaller = NULL;
  r->max_error = -1;
  if (!worth_checking(check, o)) return SN_OK;
  if (check == s) return check_program(d, s, p, o->pool, &r->max_error);
  sn_compile_options co = o->compile;
  co.engine = engine;
  SN_TRY(sn_compile(d, check->module, &co, &smaller, NULL));
  sn_status status = check_program(d, check, smaller, o->pool, &r->max_error);
  sn_program_release(smaller);
  return status;
}

/* ---- engines ------------------------------------------------------------------------------------------------------------------------------------------ */

static sn_status fill_bound(sn_diag *d, const bench_subject *s, bench_bound *b) {
  sn_array **args = NULL;
  SN_TRY(bench_arguments(d, s, &args));
  sn_status status = bench_bound_set(d, b, s->module->entry->n_params, args);
  sn_arrays_release(s->module->entry->n_params, args);
  return status;
}

/* The peak is that of compiling, then of binding and running; first values are drawn beside the bound ones once, before the count begins anew. */
static sn_status run_program(sn_diag *d, const bench_subject *s, sn_program *p, const bench_options *o, bench_result *r) {
  bench_bound b;
  feed f = {.b = &b};
  int64_t compiling = sn_memory_peak();
  sn_status status = bench_bind(d, p, o->pool, &b);
  if (status == SN_OK) status = fill_bound(d, s, &b);
  sn_memory_peak_reset();
  if (status == SN_OK && o->loader) status = bench_loader_open(d, s, o->pool, &f.set, &f.loader);
  if (status == SN_OK) status = bench_time(d, program_step, &f, o->steps, o->warmup, &r->times);
  r->rss_peak_bytes = sn_memory_peak();
  if (compiling > r->rss_peak_bytes) r->rss_peak_bytes = compiling;
  r->plan_bytes = b.bytes + sn_program_arena_bytes(p);
  sn_loader_destroy(f.loader);
  sn_dataset_close(f.set);
  bench_unbind(&b);
  return status;
}

static sn_status run_compiled(sn_diag *d, const bench_subject *s, const bench_subject *check, const char *engine, const bench_options *o, bench_result *r) {
  sn_program *p = NULL;
  sn_compile_report report;
  sn_compile_options co = o->compile;
  co.engine = engine;
  sn_memory_peak_reset();
  SN_TRY(sn_compile(d, s->module, &co, &p, &report));
  r->compiled = true;
  r->compile_s = report.total_s;
  r->passes_s = report.passes_s;
  r->lower_s = report.lower_s;
  r->emit_s = report.emit_s;
  r->n_commands = report.n_commands;
  r->n_distinct = report.n_distinct;
  sn_compile_report_finish(&report);
  sn_status status = run_program(d, s, p, o, r);
  if (status == SN_OK) status = compare_first_step(d, s, check, engine, p, o, r);
  sn_program_release(p);
  return status;
}

typedef struct interpretation {
  const bench_subject *s;
  sn_pool *pool;
  sn_array **args;
} interpretation;

static sn_status interpreter_step(void *ctx, sn_diag *d) {
  const interpretation *i = ctx;
  sn_array *out = NULL;
  sn_status s = interpret(d, i->s, i->pool, i->args, &out);
  sn_array_release(out);
  return s;
}

static sn_status run_interpreter(sn_diag *d, const bench_subject *s, const bench_options *o, bench_result *r) {
  interpretation i = {s, o->pool, NULL};
  double seconds = s->flops / interpreter_flops * (double)(o->steps + 1);
  r->max_error = 0; /* of itself */
  if (!o->force_check && seconds > 4 * longest_check_s) {
    snprintf(r->why_not, sizeof r->why_not, "about %.0f s for %lld steps; --check runs it", seconds, (long long)o->steps);
    return SN_OK;
  }
  sn_memory_peak_reset();
  SN_TRY(bench_arguments(d, s, &i.args));
  sn_status status = bench_time(d, interpreter_step, &i, o->steps, o->warmup, &r->times);
  r->rss_peak_bytes = sn_memory_peak();
  sn_arrays_release(s->module->entry->n_params, i.args);
  return status;
}

/* What the engine reported, with its places, on the caller's. */
static void hand_over(sn_diag *to, const sn_diag *from) {
  for (size_t i = 0; i < sn_diag_stored(from); i++) {
    const sn_diagnostic *g = sn_diag_get(from, i);
    if (g->severity == SN_ERROR) sn_error(to, g->loc, g->status, "%s", g->message);
    else if (g->severity == SN_WARNING) sn_warn(to, g->loc, "%s", g->message);
    else sn_note(to, g->loc, "%s", g->message);
    if (g->hint) sn_hint(to, "%s", g->hint);
  }
}

sn_status bench_run(sn_diag *d, const bench_subject *s, const bench_subject *check, const char *engine, const bench_options *o, bench_result *out) {
  sn_diag *own;
  memset(out, 0, sizeof *out);
  out->max_error = -1;
  snprintf(out->engine, sizeof out->engine, "%s", engine);
  SN_TRY(sn_diag_create(&own));
  sn_status status = strcmp(engine, "interpreter") == 0 ? run_interpreter(own, s, o, out) : run_compiled(own, s, check, engine, o, out);
  size_t n = sn_diag_stored(own);
  bool cannot = status == SN_ERR_UNSUPPORTED || status == SN_ERR_UNAVAILABLE;
  if (cannot) snprintf(out->why_not, sizeof out->why_not, "%s", n ? sn_diag_get(own, n - 1)->message : sn_status_text(status));
  else hand_over(d, own);
  sn_diag_destroy(own);
  return cannot ? SN_OK : status;
}
