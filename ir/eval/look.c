/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sn_print and sn_probe of the graph builder: custom calls that show a value and give an empty array nobody reads. */
#include <math.h>

#include "eval_internal.h"

enum { MOST_VALUES = 32 }; /* larger arrays are summarised */

static void add_value(sn_str *to, const sn_shape *s, const char *at) {
  double re, im;
  if (sn_type_is_complex(s->type)) {
    sn_load_c128(s->type, at, &re, &im);
    sn_str_printf(to, "(%.9g, %.9g)", re, im);
  } else if (sn_type_is_integer(s->type)) {
    sn_str_printf(to, "%lld", (long long)sn_load_i64(s->type, at));
  } else {
    sn_str_printf(to, "%.9g", sn_load_f64(s->type, at));
  }
}

static void add_values(sn_str *to, const sn_shape *s, const char *data, int64_t n) {
  size_t each = sn_type_bytes(s->type);
  if (s->rank) sn_str_add(to, "{");
  for (int64_t k = 0; k < n; k++) {
    if (k) sn_str_add(to, ", ");
    add_value(to, s, data + (size_t)k * each);
  }
  if (s->rank) sn_str_add(to, "}");
}

static void add_summary(sn_str *to, const sn_shape *s, const char *data, int64_t n) {
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t n_nan = 0;
  size_t each = sn_type_bytes(s->type);
  for (int64_t k = 0; k < n; k++) {
    double v = sn_load_f64(s->type, data + (size_t)k * each);
    if (isnan(v)) {
      n_nan++;
      continue;
    }
    least = fmin(least, v);
    most = fmax(most, v);
    sum += v;
  }
  sn_str_printf(to, "min %.9g, max %.9g, mean %.9g", least, most, sum / (double)(n > n_nan ? n - n_nan : 1));
  if (n_nan) sn_str_printf(to, ", %lld NaN", (long long)n_nan);
}

void sn_eval_look_text(sn_str *to, const sn_eval_look *l) {
  const sn_shape *s = sn_array_shape(l->value);
  const char *data = sn_array_data(l->value);
  int64_t n = sn_shape_elements(s);
  if (l->file) sn_str_printf(to, "%s:%d: ", l->file, l->line);
  if (l->process) sn_str_printf(to, "[%d] ", l->process);
  if (*l->label) sn_str_printf(to, "%s: ", l->label);
  sn_shape_print(to, s, 0);
  sn_str_add(to, " ");
  if (n <= MOST_VALUES || sn_type_is_complex(s->type)) add_values(to, s, data, n < MOST_VALUES ? n : MOST_VALUES);
  else add_summary(to, s, data, n);
}

/* The one place below the tools that prints: the program asks for it. */
static void print(const sn_eval_look *l) {
  sn_str line = {0};
  sn_eval_look_text(&line, l);
  if (!line.failed) fprintf(stderr, "%s\n", line.data);
  sn_str_finish(&line);
}

sn_status sn_ev_look(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  bool is_probe = strcmp(sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET), "sinter.probe") == 0;
  if (!sn_shape_is_array(sn_array_shape(in[0]))) return sn_ev_error(e, i, SN_ERR_SHAPE, "shows arrays, not tuples");
  if (!is_probe || e->o->probe) {
    const sn_metadata *m = i->metadata;
    sn_eval_look l = {.process = e->process, .is_probe = is_probe, .instr = i, .value = in[0], .label = i->backend_config ? i->backend_config : ""};
    if (m && m->source_file) {
      l.file = m->source_file;
      l.line = m->source_line;
    }
    if (e->o->look) e->o->look(e->o->look_ctx, &l);
    else print(&l);
  }
  return sn_ev_new_zero(e, i, i->shape, out);
}
