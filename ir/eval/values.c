/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Values of a run: making, counting and dropping them; errors; the trace's summaries. */
#include <math.h>

#include "eval_internal.h"

sn_status sn_ev_error(const sn_ev_ctx *e, const sn_instr *i, sn_status status, const char *fmt, ...) {
  sn_str text = {0};
  char piece[512];
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(piece, sizeof piece, fmt, ap);
  va_end(ap);
  sn_str_printf(&text, "%s (%s): %s", i->name ? i->name : "?", sn_opcode_text(i->op), piece);
  sn_status s = sn_error(e->d, i->loc, status, "%s", text.data && !text.failed ? text.data : piece);
  sn_str_finish(&text);
  return s;
}

static sn_status reserve(sn_ev_ctx *e, const sn_instr *i, int64_t bytes) {
  int64_t live = e->world->live + bytes;
  if (e->o->max_bytes > 0 && live > e->o->max_bytes)
    return sn_ev_error(e, i, SN_ERR_MEMORY, "%lld bytes on top of the %lld that live exceed the limit of %lld",
                       (long long)bytes, (long long)e->world->live, (long long)e->o->max_bytes);
  return SN_OK;
}

static sn_status make(sn_ev_ctx *e, const sn_instr *i, const sn_shape *shape, bool zero, sn_array **out) {
  *out = NULL;
  int64_t bytes = sn_shape_bytes(shape);
  SN_TRY(reserve(e, i, bytes));
  sn_status s = zero ? sn_array_create_zero(shape, out) : sn_array_create(shape, out);
  if (s != SN_OK) return sn_ev_error(e, i, s, "no memory for a result of %lld bytes", (long long)bytes);
  e->world->live += (int64_t)sn_array_bytes(*out);
  return SN_OK;
}

sn_status sn_ev_new(sn_ev_ctx *e, const sn_instr *i, const sn_shape *shape, sn_array **out) {
  return make(e, i, shape, false, out);
}
sn_status sn_ev_new_zero(sn_ev_ctx *e, const sn_instr *i, const sn_shape *shape, sn_array **out) {
  return make(e, i, shape, true, out);
}

sn_status sn_ev_new_dims(sn_ev_ctx *e, const sn_instr *i, sn_type t, int rank, const int64_t *dims, sn_array **out) {
  sn_shape s;
  memset(&s, 0, sizeof s);
  s.type = t;
  s.rank = rank;
  s.dims = dims;
  return make(e, i, &s, false, out);
}

sn_status sn_ev_new_tuple(sn_ev_ctx *e, const sn_instr *i, int n, sn_array **elements, sn_array **out) {
  *out = NULL;
  sn_status s = sn_array_create_tuple(n, elements, out);
  for (int k = 0; k < n; k++) {
    if (s == SN_OK)
      sn_array_release(elements[k]); /* the tuple holds it now */
    else
      sn_ev_release(e, elements[k]);
    elements[k] = NULL;
  }
  return s == SN_OK ? s : sn_ev_error(e, i, s, "no memory for a tuple");
}

sn_status sn_ev_new_token(sn_ev_ctx *e, const sn_instr *i, sn_array **out) {
  sn_shape s;
  memset(&s, 0, sizeof s);
  s.type = SN_TYPE_TOKEN;
  return make(e, i, &s, false, out);
}

/* What goes when this one reference goes: a tuple's elements only where the tuple alone holds them. */
static int64_t freed_bytes(const sn_array *a) {
  if (!sn_array_unique(a)) return 0;
  int64_t bytes = 0;
  int n = sn_array_n_elements(a);
  if (!sn_shape_is_tuple(sn_array_shape(a))) return (int64_t)sn_array_bytes(a);
  for (int k = 0; k < n; k++) bytes += freed_bytes(sn_array_element(a, k));
  return bytes;
}

void sn_ev_release(sn_ev_ctx *e, sn_array *a) {
  if (!a) return;
  int64_t bytes = freed_bytes(a);
  e->world->live = e->world->live > bytes ? e->world->live - bytes : 0;
  sn_array_release(a);
}

void sn_ev_adopt(sn_ev_ctx *e, const sn_array *a) { e->world->live += freed_bytes(a); }

sn_status sn_ev_writable(sn_ev_ctx *e, const sn_instr *i, sn_array *a, sn_array **out) {
  *out = NULL;
  if (sn_ev_may_reuse(e, a)) {
    *out = sn_array_retain(a);
    return SN_OK;
  }
  SN_TRY(sn_ev_new(e, i, sn_array_shape(a), out));
  if (sn_array_bytes(a)) memcpy(sn_array_data(*out), sn_array_data(a), sn_array_bytes(a));
  const int64_t *sizes = sn_array_dynamic_sizes(a);
  for (int d = 0; sizes && d < sn_array_shape(a)->rank; d++)
    if (sn_array_shape(a)->dynamic[d]) sn_array_set_dynamic_size(*out, d, sizes[d]);
  return SN_OK;
}

sn_status sn_ev_scratch(const sn_ev_ctx *e, const sn_instr *i, size_t n, size_t each, void **out) {
  *out = NULL;
  if (e->o->max_bytes > 0 && each && n > (size_t)e->o->max_bytes / each + 4096) /* small tables are not counted */
    return sn_ev_error(e, i, SN_ERR_MEMORY, "%zu x %zu bytes of scratch exceed the limit of %lld", n, each,
                       (long long)e->o->max_bytes);
  *out = sn_alloc_zero(n ? n : 1, each);
  return *out ? SN_OK : sn_ev_error(e, i, SN_ERR_MEMORY, "no memory for %zu bytes of scratch", n * each);
}

/* ---- summaries ---- */

static void summarise(const sn_array *a, sn_eval_event *v, double *sum, int64_t *n) {
  const sn_shape *s = sn_array_shape(a);
  if (sn_shape_is_tuple(s)) {
    for (int k = 0; k < sn_array_n_elements(a); k++) summarise(sn_array_element(a, k), v, sum, n);
    return;
  }
  if (!sn_shape_is_array(s)) return;
  const char *data = sn_array_data(a);
  size_t bytes = sn_type_bytes(s->type);
  int64_t elements = sn_shape_elements(s);
  for (int64_t k = 0; k < elements; k++) {
    double re, im = 0;
    if (sn_type_is_complex(s->type))
      sn_load_c128(s->type, data + (size_t)k * bytes, &re, &im);
    else
      re = sn_load_f64(s->type, data + (size_t)k * bytes);
    if (isnan(re) || isnan(im)) {
      v->n_nan++;
    } else if (isinf(re) || isinf(im)) {
      v->n_inf++;
    } else {
      if (*n == 0 || re < v->min) v->min = re;
      if (*n == 0 || re > v->max) v->max = re;
      *sum += re;
      ++*n;
    }
  }
}

void sn_ev_trace(sn_ev_ctx *e, const sn_instr *i, const sn_array *value, double seconds) {
  sn_eval_event v;
  double sum = 0;
  int64_t n = 0;
  memset(&v, 0, sizeof v);
  v.instr = i;
  v.value = value;
  v.process = e->process;
  v.seconds = seconds;
  summarise(value, &v, &sum, &n);
  v.mean = n ? sum / (double)n : 0;
  e->o->trace(e->o->trace_ctx, &v);
}

static int64_t count_nan(const sn_array *a) {
  sn_eval_event v;
  double sum = 0;
  int64_t n = 0;
  memset(&v, 0, sizeof v);
  summarise(a, &v, &sum, &n);
  return v.n_nan;
}

sn_status sn_ev_check_nan(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, const sn_array *out) {
  int64_t n = count_nan(out);
  if (n == 0) return SN_OK;
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (in[k] && count_nan(in[k]) > 0) return SN_OK;
  if (i->op == SN_OP_PARAMETER || i->op == SN_OP_CONSTANT) return SN_OK;
  return sn_ev_error(e, i, SN_ERR_MISMATCH, "the first NaN: %lld in its result, none in its operands (process %d)",
                     (long long)n, e->process);
}
