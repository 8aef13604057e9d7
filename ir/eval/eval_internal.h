/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the families of the interpreter share: the state of a run, elementwise kernels, lane programs, strided copies,
 * products. */
#ifndef SINTER_EVAL_INTERNAL_H
#define SINTER_EVAL_INTERNAL_H

#include <string.h>

#include "sinter/eval.h"

/* ---- the state of a run ---- */

/* A computation's values while it runs. Control-flow instructions push frames; nothing recurses on the C stack. */
typedef struct sn_ev_frame {
  struct sn_ev_frame *caller;
  const sn_computation *c;
  const sn_instr *cur; /* the instruction to run next, or the one that waits */
  const struct sn_ev_plan *plan;
  sn_array **args; /* owned; a parameter takes its slot's reference away */
  int n_args;
  sn_array **values;   /* by plan slot; NULL: not yet, or no longer needed */
  uint32_t *uses_left; /* by plan slot */
  sn_array **in;       /* operands of `cur`, owned, kept while it waits */
  int n_in;
  bool in_ready;
  int phase;          /* of `cur`: how often it was resumed, as its evaluator counts */
  sn_array *returned; /* result of the computation `cur` entered, owned */
  void *wait;         /* what `cur` waits for; of its family */
  bool single;        /* run `cur` alone, for sn_eval_instr */
  double seconds;
} sn_ev_frame;

/* One process (device) of the run. */
typedef struct sn_ev_ctx {
  sn_diag *d;
  const sn_eval_options *o;
  sn_pool *pool;
  struct sn_ev_world *world;
  int process, replica, partition;
  sn_ev_frame *top;
  int depth;
  /* Requests an evaluator leaves behind when it returns SN_OK with *out NULL. */
  const sn_computation *enter; /* run this … */
  sn_array **enter_args;       /* … on these (owned, in sn_alloc memory) … */
  int n_enter_args;
  bool blocked; /* or: come back when others have moved */
  int infeed_cursor;
  sn_eval_draws draws;
  int nested; /* applied computations around: collectives cannot meet in there */
  sn_array *result;
} sn_ev_ctx;

/* All processes together. */
typedef struct sn_ev_world {
  int replicas, partitions, n;
  sn_ev_ctx *procs;
  struct sn_ev_meeting *meetings;
  struct sn_ev_letter *letters; /* sent, not yet received; oldest first */
  sn_map *plans;                /* computation -> sn_ev_plan */
  sn_map *occurrences;          /* (instruction, process) -> how often it was run: pairs up rounds of a collective */
  int64_t live, steps;
  uint64_t progress; /* grows with everything done: a round without growth is a deadlock */
} sn_ev_world;

/* Evaluators: *out gets an owned value, or NULL with a request in e. Operands are read-only unless sn_array_unique. */
typedef sn_status (*sn_ev_op_fn)(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out);
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  sn_status sn_eval_##eval(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out);
#include "sinter/ops.def"
#undef SN_OP

sn_status sn_ev_look(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out); /* sn_print, sn_probe */
/* Reports "NAME (opcode): …" at the instruction's line. */
sn_status sn_ev_error(const sn_ev_ctx *e, const sn_instr *i, sn_status status, const char *fmt, ...) SN_PRINTF(4, 5);
/* A fresh array of the shape, counted against max_bytes. */
SN_NODISCARD sn_status sn_ev_new(sn_ev_ctx *e, const sn_instr *i, const sn_shape *shape, sn_array **out);
SN_NODISCARD sn_status sn_ev_new_zero(sn_ev_ctx *e, const sn_instr *i, const sn_shape *shape, sn_array **out);
/* The same for a type and dims that no shape has. */
SN_NODISCARD sn_status sn_ev_new_dims(sn_ev_ctx *e, const sn_instr *i, sn_type t, int rank, const int64_t *dims,
                                      sn_array **out);
/* A tuple that takes over the elements' references (also when it fails). */
SN_NODISCARD sn_status sn_ev_new_tuple(sn_ev_ctx *e, const sn_instr *i, int n, sn_array **elements, sn_array **out);
/* A token value. */
SN_NODISCARD sn_status sn_ev_new_token(sn_ev_ctx *e, const sn_instr *i, sn_array **out);
/* Drops a reference and what it frees from the count of live bytes. NULL is fine. */
void sn_ev_release(sn_ev_ctx *e, sn_array *a);
/* Counts an array made elsewhere (custom calls, infeed). */
void sn_ev_adopt(sn_ev_ctx *e, const sn_array *a);
/* May this operand's memory become the result's? Not while the NaN watch wants to look at the operands afterwards. */
static inline bool sn_ev_may_reuse(const sn_ev_ctx *e, const sn_array *a) {
  return !e->o->stop_at_nan && sn_array_unique(a);
}
/* Makes a copy that may be written; takes over the operand itself when it is unique. */
SN_NODISCARD sn_status sn_ev_writable(sn_ev_ctx *e, const sn_instr *i, sn_array *a, sn_array **out);
/* Scratch memory with an out-of-memory report. */
SN_NODISCARD sn_status sn_ev_scratch(const sn_ev_ctx *e, const sn_instr *i, size_t n, size_t each, void **out);
/* Leaves the request "run c on these values" (each retained). */
SN_NODISCARD sn_status sn_ev_enter(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, int n,
                                   sn_array *const *args);
/* Runs c to its end now, inside an op that applies it to elements; arguments are retained. */
SN_NODISCARD sn_status sn_ev_apply(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, int n,
                                   sn_array *const *args, sn_array **out);
/* (operands, result, context…) of an asynchronous start: takes over `result`, retains `operands`. */
SN_NODISCARD sn_status sn_ev_start_tuple(sn_ev_ctx *e, const sn_instr *i, sn_array *operands, sn_array *result,
                                         sn_array **out);
/* eval.c and control.c alone. */
SN_NODISCARD sn_status sn_ev_push(sn_ev_ctx *e, const sn_computation *c, int n, sn_array **args);
void sn_ev_unwind(sn_ev_ctx *e, sn_ev_frame *down_to);
SN_NODISCARD sn_status sn_ev_run(sn_ev_ctx *e, sn_ev_frame *down_to);
void sn_ev_world_finish(sn_ev_world *w);
void sn_ev_meetings_finish(sn_ev_world *w); /* collectives.c */
void sn_ev_letters_finish(sn_ev_world *w);  /* transfer.c */
void sn_ev_trace(sn_ev_ctx *e, const sn_instr *i, const sn_array *value, double seconds);
SN_NODISCARD sn_status sn_ev_check_nan(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, const sn_array *out);

/* ---- elementwise kernels ---- */

/* How one elementwise op runs over n lanes. `out` may be the same memory as an input of the same type. */
typedef struct sn_ev_kernel sn_ev_kernel;
typedef void (*sn_ev_fn)(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in);
struct sn_ev_kernel {
  sn_ev_fn fn;
  sn_ev_fn inner; /* of a wrapped kernel: the one on the carrier type */
  sn_opcode op;
  sn_type in[3], out;
  int n_in;
  int bits;        /* width of the integers that go in */
  uint32_t scalar; /* bit k: input k is one element for all lanes (select's predicate, clamp's bounds) */
  int64_t a, b;    /* compare: direction, total order; reduce-precision: exponent and mantissa bits */
};

/* Kernel for an elementwise op on these types; false: the op is not defined for them. */
bool sn_ev_kernel_find(sn_opcode op, int n_in, const sn_type *in, sn_type out, sn_ev_kernel *k);
/* The same for an instruction, with its attributes. */
SN_NODISCARD sn_status sn_ev_kernel_of(sn_ev_ctx *e, const sn_instr *i, sn_ev_kernel *k);
/* Tables of the two files: NULL where the op is not defined for a (native) type. */
sn_ev_fn sn_ev_unary_fn(sn_opcode op, sn_type t);
sn_ev_fn sn_ev_binary_fn(sn_opcode op, sn_type t);
sn_ev_fn sn_ev_compare_fn(sn_type t, int64_t direction, bool total);
sn_ev_fn sn_ev_clamp_fn(sn_type t);
/* Any elementwise instruction over whole arrays. */
SN_NODISCARD sn_status sn_ev_elementwise(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out);
/* Calls fn over [0, n) in chunks whose borders depend on n alone. */
typedef void (*sn_ev_range_fn)(void *ctx, int64_t begin, int64_t end);
void sn_ev_parallel(sn_ev_ctx *e, int64_t n, int64_t chunk, sn_ev_range_fn fn, void *ctx);
/* Sign-extends or masks n one-byte integers to a sub-byte type's width. */
void sn_ev_wrap(sn_type t, int64_t n, void *data);

/* IEEE 754-2019 maximum and minimum: a NaN wins, -0 is smaller than +0. Written on the bits with masks, which compilers
 * turn into vector code. */
#define SN_EV_EXTREME(name, T, U, PICK_X, EQUAL)                                        \
  static inline T name(T x, T y) {                                                      \
    union {                                                                             \
      T f;                                                                              \
      U u;                                                                              \
    } a, b;                                                                             \
    a.f = x;                                                                            \
    b.f = y;                                                                            \
    U pick = (PICK_X) ? ~(U)0 : 0, same = x == y ? ~(U)0 : 0, nan = x != x ? ~(U)0 : 0; \
    U r = (a.u & pick) | (b.u & ~pick);                                                 \
    r = ((EQUAL)&same) | (r & ~same);                                                   \
    a.u = (a.u & nan) | (r & ~nan);                                                     \
    return a.f;                                                                         \
  }
SN_EV_EXTREME(sn_ev_max_f32, float, uint32_t, x > y, a.u &b.u)
SN_EV_EXTREME(sn_ev_min_f32, float, uint32_t, x < y, a.u | b.u)
SN_EV_EXTREME(sn_ev_max_f64, double, uint64_t, x > y, a.u &b.u)
SN_EV_EXTREME(sn_ev_min_f64, double, uint64_t, x < y, a.u | b.u)

/* ---- applied computations ---- */

/* A computation of elementwise ops on scalars, run over lanes; others run through frames, lane by lane. */
typedef struct sn_ev_program sn_ev_program;
enum { SN_EV_LANES = 256 };
SN_NODISCARD sn_status sn_ev_program_create(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c,
                                            sn_ev_program **out);
void sn_ev_program_destroy(sn_ev_program *p);
int sn_ev_program_outputs(const sn_ev_program *p);
sn_type sn_ev_program_out_type(const sn_ev_program *p, int k);
/* params[k]: n elements (n <= SN_EV_LANES) of parameter k; outs[k] get n elements of result k and may be the same
 * memory as parameters. */
SN_NODISCARD sn_status sn_ev_program_run(sn_ev_program *p, int64_t n, const void *const *params, void *const *outs);

/* acc[k] = reducer(acc[k], x[k]) over lanes. */
typedef struct sn_ev_reducer {
  int n;          /* operands */
  sn_type *types; /* element types */
  bool binary;    /* one known op … */
  sn_opcode op;
  sn_type acc; /* … accumulated in this type, rounded once at the end */
  sn_ev_kernel kernel;
  sn_ev_program *program; /* or any computation */
  const void **params;
  void **outs;
  void **acc_lanes; /* n pointers each, for the caller's use */
  const void **next_lanes;
} sn_ev_reducer;
SN_NODISCARD sn_status sn_ev_reducer_init(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, int n,
                                          const sn_type *types, sn_ev_reducer *r);
void sn_ev_reducer_finish(sn_ev_reducer *r);
static inline sn_type sn_ev_acc_type(const sn_ev_reducer *r, int k) { return r->binary ? r->acc : r->types[k]; }
SN_NODISCARD sn_status sn_ev_combine(sn_ev_reducer *r, int64_t n, void *const *acc, const void *const *x);

/* sort.c: (values, positions) of the k largest or smallest along the last dimension. */
SN_NODISCARD sn_status sn_ev_topk(sn_ev_ctx *e, const sn_instr *i, const sn_array *in, int64_t k, bool largest,
                                  sn_array **out);

/* ---- moving data ---- */

/* dst[sum i_d * dst_stride[d]] = src[sum i_d * src_stride[d]] over all i < dims; strides in elements of `bytes`, may be
 * negative or 0 (src). */
typedef struct sn_ev_copy {
  size_t bytes;
  int rank;
  int64_t dims[SN_MAX_RANK], dst_stride[SN_MAX_RANK], src_stride[SN_MAX_RANK];
  char *dst;
  const char *src;
} sn_ev_copy;
void sn_ev_copy_run(sn_ev_ctx *e, sn_ev_copy *c); /* reorders and merges dims of *c */
/* Repeats one element n times. */
void sn_ev_fill(void *dst, const void *element, size_t bytes, int64_t n);
void sn_ev_strides(int rank, const int64_t *dims, int64_t *strides);
static inline int64_t sn_ev_product(int rank, const int64_t *dims) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= dims[d];
  return n;
}
/* Next index in row-major order; false after the last. */
static inline bool sn_ev_next(int rank, const int64_t *dims, int64_t *index) {
  for (int d = rank - 1; d >= 0; d--) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}
static inline int64_t sn_ev_dot_strides(int rank, const int64_t *index, const int64_t *strides) {
  int64_t at = 0;
  for (int d = 0; d < rank; d++) at += index[d] * strides[d];
  return at;
}
/* Start index of operand `in` clamped into [0, limit]. */
int64_t sn_ev_clamped_start(const sn_array *in, int64_t limit);
/* The operand with what lies behind its dynamic sizes replaced by one element's value; the operand itself when it is
 * static. */
SN_NODISCARD sn_status sn_ev_masked(sn_ev_ctx *e, const sn_instr *i, sn_array *a, const void *fill, sn_array **out);
/* Actual sizes: dynamic ones where the array has them. */
void sn_ev_sizes(const sn_array *a, int64_t *sizes);

/* ---- products ---- */

/* How elements are multiplied and added: every type is carried by one of these. */
typedef enum sn_ev_carrier { SN_EV_F64, SN_EV_I64, SN_EV_C128 } sn_ev_carrier;
sn_ev_carrier sn_ev_carrier_of(sn_type a, sn_type b, sn_type out);
size_t sn_ev_carrier_bytes(sn_ev_carrier c);
enum { SN_EV_MR = 4, SN_EV_NR = 4, SN_EV_ROWS = 64 };
/* C[m, n] = A[m, k] B[k, n] for n_batch products; A and B come through packers, C goes through a storer. All in the
 * carrier type. */
typedef struct sn_ev_gemm {
  sn_ev_carrier carrier;
  int64_t n_batch, m, n, k;
  void *ctx;
  /* Rows [row, row + rows) x all k of product `batch`, row-major. */
  void (*read_a)(void *ctx, int64_t batch, int64_t row, int64_t rows, void *to);
  /* Columns [col, col + cols) x all k, as rows of k elements each (B transposed). */
  void (*read_b)(void *ctx, int64_t batch, int64_t col, int64_t cols, void *to);
  /* One row piece of the result: columns [col, col + cols). */
  void (*store)(void *ctx, int64_t batch, int64_t row, int64_t col, int64_t cols, const void *from);
} sn_ev_gemm;
SN_NODISCARD sn_status sn_ev_gemm_run(sn_ev_ctx *e, const sn_instr *i, const sn_ev_gemm *g);
/* Elements of a real or complex type as carriers and back. `n` elements at `stride` (elements). */
void sn_ev_load_carrier(sn_ev_carrier c, void *to, sn_type t, const void *from, int64_t stride, int64_t n);
void sn_ev_store_carrier(sn_ev_carrier c, sn_type t, void *to, const void *from, int64_t n);

#endif
