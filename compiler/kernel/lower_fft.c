/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Discrete Fourier transforms of any length, one transformed dimension after the other, a line an item, in f64.
 *
 * Stockham's autosort form (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7): with the length left n = R m and s lines interleaved,
 *
 *   y[q + s (R p + t)] = w_n^(p t) * sum over r < R of x[q + s (p + m r)] w_R^(r t)       p < m, t < R, q < s
 *
 * and then n /= R, s *= R, x and y change places. Radices 4, 2, 3, 5 and 7 have their roots as constants; any other prime takes a loop over a table. Real and
 * imaginary parts lie in planes of their own, so that lanes load and store them side by side. The roots of a length are computed once, in a phase in front. */
#include "elemental.h"

#include <math.h>
#include <string.h>

enum { LARGEST_UNROLLED = 7 };
static const double two_pi = 6.283185307179586476925286766559;

typedef struct plane { int re, im; } plane;           /* buffers */
typedef struct point { sn_kvalue *re, *im; } point;

typedef struct fft {
  const sn_instr *i;
  int64_t type;
  bool inverse;
  int rank, n_dims;
  int order[SN_MAX_RANK];         /* the dimensions transformed, first to last */
  int64_t length[SN_MAX_RANK];    /* by dimension */
  const sn_shape *spectrum;       /* the operand's or the result's shape, whichever is complex */
  plane data, roots[SN_MAX_RANK]; /* workspaces; roots by dimension */
  plane line[2];                  /* scratch */
} fft;

typedef struct stage { /* what one stage's loops share */
  const fft *f;
  int dim;
  int64_t n, left, radix, m, s;   /* whole length, length left, R, m, s */
  plane from, to;
} stage;

/* ---- values ---- */

static sn_kvalue *constant(lowering *L, double v) { return sn_kb_const_f64(&L->b, SN_TYPE_F64, v); }
static sn_kvalue *add(lowering *L, sn_kvalue *x, sn_kvalue *y) { return x ? lower_binary(L, SN_OP_ADD, x, y) : y; }
static sn_kvalue *subtract(lowering *L, sn_kvalue *x, sn_kvalue *y) { return x ? lower_binary(L, SN_OP_SUBTRACT, x, y) : lower_unary(L, SN_OP_NEGATE, SN_TYPE_F64, y); }
static sn_kvalue *multiply(lowering *L, sn_kvalue *x, sn_kvalue *y) { return lower_binary(L, SN_OP_MULTIPLY, x, y); }

static point product(lowering *L, point x, point y) {
  return (point){subtract(L, multiply(L, x.re, y.re), multiply(L, x.im, y.im)), add(L, multiply(L, x.re, y.im), multiply(L, x.im, y.re))};
}

static point load_at(lowering *L, plane b, const sn_ix *at) {
  return (point){sn_kb_load(&L->b, b.re, &at, 0, NULL, NULL), sn_kb_load(&L->b, b.im, &at, 0, NULL, NULL)};
}

static void store_at(lowering *L, plane b, const sn_ix *at, point v) {
  sn_kb_store(&L->b, b.re, &at, 0, NULL, v.re);
  sn_kb_store(&L->b, b.im, &at, 0, NULL, v.im);
}

static const sn_ix *loop(lowering *L, int64_t lo, int64_t hi, bool vector, sn_knode **node) {
  return lower_for(L, vector ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, vector ? lower_lanes(L, SN_TYPE_F64) : 0, lower_const(L, lo), lower_const(L, hi), 1, 0, NULL, NULL, node);
}

static plane planes(lowering *L, sn_kmemory memory, int rank, const int64_t *dims, const char *name) {
  plane p;
  p.re = sn_kernel_add_buffer(L->k, memory, SN_TYPE_F64, rank, dims, NULL, name);
  p.im = sn_kernel_add_buffer(L->k, memory, SN_TYPE_F64, rank, dims, NULL, name);
  if ((p.re < 0 || p.im < 0) && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return p;
}

/* ---- the line ---- */

/* cos and sin of 2 pi k / n, exact at quarters; the sign of the exponent is the direction's. */
static void root_of_unity(int64_t k, int64_t n, bool inverse, double *re, double *im) {
  k %= n;
  int64_t quarter = 4 * k % n == 0 ? 4 * k / n : -1;
  static const double exact[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  *re = quarter >= 0 ? exact[quarter][0] : cos(two_pi * (double)k / (double)n);
  *im = quarter >= 0 ? exact[quarter][1] : sin(two_pi * (double)k / (double)n);
  if (!inverse) *im = -*im;
}

/* sum + x w for a constant root. */
static point add_rotated(lowering *L, point sum, point x, double re, double im) {
  if (re == 1) return (point){add(L, sum.re, x.re), add(L, sum.im, x.im)};
  if (re == -1) return (point){subtract(L, sum.re, x.re), subtract(L, sum.im, x.im)};
  if (im == 1) return (point){subtract(L, sum.re, x.im), add(L, sum.im, x.re)};
  if (im == -1) return (point){add(L, sum.re, x.im), subtract(L, sum.im, x.re)};
  point w = {constant(L, re), constant(L, im)}, y = product(L, x, w);
  return (point){add(L, sum.re, y.re), add(L, sum.im, y.im)};
}

static const sn_ix *source_at(lowering *L, const stage *g, const sn_ix *p, const sn_ix *q, const sn_ix *r) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *e = sn_ix_add(x, p, sn_ix_mul(x, lower_const(L, g->m), r));
  return sn_ix_add(x, q, sn_ix_mul(x, e, lower_const(L, g->s)));
}

static const sn_ix *target_at(lowering *L, const stage *g, const sn_ix *p, const sn_ix *q, const sn_ix *t) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *e = sn_ix_add(x, sn_ix_mul(x, p, lower_const(L, g->radix)), t);
  return sn_ix_add(x, q, sn_ix_mul(x, e, lower_const(L, g->s)));
}

static void unrolled_butterfly(lowering *L, const stage *g, const sn_ix *p, const sn_ix *q) {
  point x[LARGEST_UNROLLED];
  for (int r = 0; r < g->radix; r++) x[r] = load_at(L, g->from, source_at(L, g, p, q, lower_const(L, r)));
  for (int t = 0; t < g->radix && L->b.status == SN_OK; t++) {
    point y = {NULL, NULL};
    for (int r = 0; r < g->radix; r++) {
      double re, im;
      root_of_unity((int64_t)r * t, g->radix, g->f->inverse, &re, &im);
      y = add_rotated(L, y, x[r], re, im);
    }
    if (t && g->m > 1) y = product(L, y, load_at(L, g->f->roots[g->dim], sn_ix_mul(L->k->ix, p, lower_const(L, t * (g->n / g->left)))));
    store_at(L, g->to, target_at(L, g, p, q, lower_const(L, t)), y);
  }
}

static sn_kvalue *whole(lowering *L, const sn_ix *e) { return sn_kb_index(&L->b, SN_TYPE_S64, e); }
static sn_kvalue *s64(lowering *L, int64_t v) { return sn_kb_const_i64(&L->b, SN_TYPE_S64, v); }

/* Exponent of w_n for the term r of output t: r t n / R + p t n / left, modulo n. */
static const sn_ix *exponent(lowering *L, const stage *g, const sn_ix *p, const sn_ix *t, const sn_ix *r) {
  sn_kvalue *turns = lower_binary(L, SN_OP_REMAINDER, multiply(L, whole(L, r), whole(L, t)), s64(L, g->radix));
  sn_kvalue *twiddle = multiply(L, multiply(L, whole(L, p), whole(L, t)), s64(L, g->n / g->left));
  sn_kvalue *sum = add(L, multiply(L, turns, s64(L, g->n / g->radix)), twiddle);
  sn_kvalue *e = lower_binary(L, SN_OP_REMAINDER, sum, s64(L, g->n));
  return e ? lower_bind(L, e, 0, g->n - 1) : NULL;
}

static void looped_butterfly(lowering *L, const stage *g, const sn_ix *p, const sn_ix *q) {
  sn_knode *outputs, *terms;
  sn_kvalue *zero[2] = {constant(L, 0), constant(L, 0)};
  const sn_ix *t = loop(L, 0, g->radix, false, &outputs);
  const sn_ix *r = t && zero[1] ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, g->radix), 1, 2, zero, NULL, &terms) : NULL;
  if (!r) return;
  const sn_ix *e = exponent(L, g, p, t, r);
  if (!e) return;
  point y = product(L, load_at(L, g->from, source_at(L, g, p, q, r)), load_at(L, g->f->roots[g->dim], e));
  sn_kvalue *next[2] = {add(L, &terms->regions[0]->params[0], y.re), add(L, &terms->regions[0]->params[1], y.im)};
  lower_end(L, 2, next, terms);
  store_at(L, g->to, target_at(L, g, p, q, t), (point){sn_knode_result(terms, 0), sn_knode_result(terms, 1)});
  lower_end(L, 0, NULL, outputs);
}

/* Lanes run over interleaved lines where there are enough, else over p. */
static void run_stage(lowering *L, const stage *g) {
  sn_knode *node_p, *node_q;
  int lanes = lower_lanes(L, SN_TYPE_F64);
  bool over_q = g->s >= lanes, over_p = !over_q && g->m >= lanes;
  const sn_ix *p, *q;
  if (over_p) { /* the vector loop innermost */
    q = loop(L, 0, g->s, false, &node_q);
    p = q ? loop(L, 0, g->m, true, &node_p) : NULL;
  } else {
    p = loop(L, 0, g->m, false, &node_p);
    q = p ? loop(L, 0, g->s, over_q, &node_q) : NULL;
  }
  if (!p || !q) return;
  if (g->radix <= LARGEST_UNROLLED) unrolled_butterfly(L, g, p, q);
  else looped_butterfly(L, g, p, q);
  lower_end(L, 0, NULL, over_p ? node_p : node_q);
  lower_end(L, 0, NULL, over_p ? node_q : node_p);
}

static int64_t next_radix(int64_t n) {
  if (n % 4 == 0) return 4;
  for (int64_t p = 2; p * p <= n; p++) {
    if (n % p == 0) return p;
  }
  return n;
}

/* Transforms line[0]; returns which of the two tiles holds the result. */
static int transform_line(lowering *L, const fft *f, int dim) {
  int from = 0;
  stage g = {.f = f, .dim = dim, .n = f->length[dim], .left = f->length[dim], .s = 1};
  while (g.left > 1 && L->b.status == SN_OK) {
    g.radix = next_radix(g.left);
    g.m = g.left / g.radix;
    g.from = f->line[from];
    g.to = f->line[!from];
    run_stage(L, &g);
    g.left = g.m;
    g.s *= g.radix;
    from = !from;
  }
  return from;
}

/* ---- to and from the line ---- */

static sn_type part_type(sn_type t) { return t == SN_TYPE_C64 ? SN_TYPE_F32 : t == SN_TYPE_C128 ? SN_TYPE_F64 : t; }

static point split(lowering *L, sn_kvalue *v) {
  if (!v) return (point){NULL, NULL};
  if (!sn_type_is_complex(v->type)) return (point){lower_convert(L, v, SN_TYPE_F64), constant(L, 0)};
  sn_type t = part_type(v->type);
  return (point){lower_convert(L, lower_unary(L, SN_OP_REAL, t, v), SN_TYPE_F64), lower_convert(L, lower_unary(L, SN_OP_IMAG, t, v), SN_TYPE_F64)};
}

static sn_kvalue *join(lowering *L, point v, sn_type t) {
  sn_kvalue *xs[2] = {lower_convert(L, v.re, part_type(t)), lower_convert(L, v.im, part_type(t))};
  if (!sn_type_is_complex(t)) return xs[0];
  return xs[0] && xs[1] ? sn_kb_elt(&L->b, SN_OP_COMPLEX, t, 2, xs) : NULL;
}

static void line_index(lowering *L, const fft *f, int dim, const sn_ix *e, const sn_ix **at) {
  for (int k = 0, n = 0; k < f->rank; k++) at[k] = k == dim ? e : lower_grid(L, n++);
}

static void load_line(lowering *L, const fft *f, int dim, bool first) {
  sn_knode *node;
  const sn_ix *at[SN_MAX_RANK], *e = loop(L, 0, first ? sn_operand_shape(f->i, 0)->dims[dim] : f->spectrum->dims[dim], false, &node);
  if (!e) return;
  line_index(L, f, dim, e, at);
  point v;
  if (first) v = split(L, lower_value(L, sn_instr_operand(f->i, 0), 0, at));
  else v = (point){sn_kb_load(&L->b, f->data.re, at, 0, NULL, NULL), sn_kb_load(&L->b, f->data.im, at, 0, NULL, NULL)};
  store_at(L, f->line[0], e, v);
  lower_end(L, 0, NULL, node);
}

/* The other half of a spectrum whose signal is real: x[n - k] = conj x[k]; what must be real is. */
static void complete_line(lowering *L, const fft *f, int dim) {
  int64_t n = f->length[dim];
  sn_knode *node;
  if (n / 2 + 1 < n) {
    const sn_ix *e = loop(L, n / 2 + 1, n, false, &node);
    if (!e) return;
    point v = load_at(L, f->line[0], sn_ix_sub(L->k->ix, lower_const(L, n), e));
    store_at(L, f->line[0], e, (point){v.re, lower_unary(L, SN_OP_NEGATE, SN_TYPE_F64, v.im)});
    lower_end(L, 0, NULL, node);
  }
  const sn_ix *zero = lower_const(L, 0), *middle = lower_const(L, n / 2);
  sn_kb_store(&L->b, f->line[0].im, &zero, 0, NULL, constant(L, 0));
  if (n % 2 == 0) sn_kb_store(&L->b, f->line[0].im, &middle, 0, NULL, constant(L, 0));
}

static void store_line(lowering *L, const fft *f, int dim, int from, bool last) {
  sn_knode *node;
  const sn_ix *at[SN_MAX_RANK], *e = loop(L, 0, last ? f->i->shape->dims[dim] : f->spectrum->dims[dim], false, &node);
  if (!e) return;
  line_index(L, f, dim, e, at);
  point v = load_at(L, f->line[from], e);
  if (f->inverse && f->length[dim] > 1) {
    sn_kvalue *scale = constant(L, 1.0 / (double)f->length[dim]);
    v = (point){multiply(L, v.re, scale), multiply(L, v.im, scale)};
  }
  if (last) {
    sn_kb_store(&L->b, L->output_buffer[0], at, 0, NULL, join(L, v, f->i->shape->type));
  } else {
    sn_kb_store(&L->b, f->data.re, at, 0, NULL, v.re);
    sn_kb_store(&L->b, f->data.im, at, 0, NULL, v.im);
  }
  lower_end(L, 0, NULL, node);
}

/* ---- phases ---- */

static void roots_phase(lowering *L, const fft *f, int dim) {
  int64_t n = f->length[dim];
  sn_knode *node;
  if (n < 2 || !lower_phase(L, 0, NULL)) return;
  const sn_ix *k = loop(L, 0, n, true, &node);
  if (!k) return;
  sn_kvalue *angle = multiply(L, sn_kb_index(&L->b, SN_TYPE_F64, k), constant(L, (f->inverse ? two_pi : -two_pi) / (double)n));
  store_at(L, f->roots[dim], k, (point){lower_unary(L, SN_OP_COSINE, SN_TYPE_F64, angle), lower_unary(L, SN_OP_SINE, SN_TYPE_F64, angle)});
  lower_end(L, 0, NULL, node);
}

static void lines_phase(lowering *L, const fft *f, int dim, bool first, bool last) {
  int64_t grid[SN_MAX_RANK];
  int n_grid = 0;
  bool real = f->type == SN_FFT_TYPE_IRFFT && dim == f->rank - 1;
  for (int k = 0; k < f->rank; k++) {
    if (k != dim) grid[n_grid++] = first ? sn_operand_shape(f->i, 0)->dims[k] : f->spectrum->dims[k];
  }
  if (!lower_phase(L, n_grid, grid)) return;
  load_line(L, f, dim, first);
  if (real) complete_line(L, f, dim);
  store_line(L, f, dim, transform_line(L, f, dim), last);
}

static bool fft_init(lowering *L, fft *f, const sn_instr *i) {
  sn_ints length = sn_instr_ints(i, SN_ATTR_FFT_LENGTH);
  memset(f, 0, sizeof *f);
  f->i = i;
  f->type = sn_instr_int(i, SN_ATTR_FFT_TYPE);
  f->inverse = f->type == SN_FFT_TYPE_IFFT || f->type == SN_FFT_TYPE_IRFFT;
  f->rank = i->shape->rank;
  f->n_dims = (int)length.n;
  f->spectrum = f->type == SN_FFT_TYPE_RFFT ? i->shape : sn_operand_shape(i, 0);
  if (f->n_dims < 1 || f->n_dims > f->rank) {
    lower_fail(L, i, "fft_length names more dimensions than there are, or none");
    return false;
  }
  int64_t longest = 1;
  for (int d = 0; d < f->n_dims; d++) {
    int dim = f->rank - f->n_dims + d;
    f->length[dim] = length.v[d];
    if (length.v[d] > longest) longest = length.v[d];
    /* The last dimension is halved or doubled: first where it makes the spectrum, last where it undoes it. */
    if (f->type == SN_FFT_TYPE_IRFFT) f->order[d == f->n_dims - 1 ? d : f->n_dims - 2 - d] = dim;
    else f->order[f->n_dims - 1 - d] = dim;
  }
  if (f->n_dims > 1) f->data = planes(L, SN_KMEM_WORK, f->rank, f->spectrum->dims, "spectrum");
  for (int d = 0; d < f->n_dims; d++) {
    int dim = f->order[d];
    f->roots[dim] = planes(L, SN_KMEM_WORK, 1, &f->length[dim], "roots");
  }
  for (int t = 0; t < 2; t++) f->line[t] = planes(L, SN_KMEM_SCRATCH, 1, &longest, "line");
  return L->b.status == SN_OK;
}

void lower_fft(lowering *L, const sn_instr *i) {
  fft f;
  if (i != L->outputs[0]) {
    lower_fail(L, i, "not the whole of its fusion");
    return;
  }
  if (!fft_init(L, &f, i)) return;
  for (int d = 0; d < f.n_dims; d++) roots_phase(L, &f, f.order[d]);
  for (int d = 0; d < f.n_dims && L->b.status == SN_OK; d++) lines_phase(L, &f, f.order[d], d == 0, d == f.n_dims - 1);
}
