/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files that lower HLO to kernels share.
 *
 * Lowering is elemental: `lower_value(L, instr, idx)` gives the element of `instr` at an index as a kernel value, recursing through operands by the op's index rule.
 * A value is emitted in the outermost open region in which its index variables exist, and remembered there: a row's mean, needed for each column, is so computed
 * once a row with no further rule. What a template keeps in a tile (a product, a materialised row) it enters with lower_override. */
#ifndef SINTER_LOWER_H
#define SINTER_LOWER_H

#include "sinter/compiler.h"
#include "sinter/kernel.h"
#include "sinter/target.h"

typedef struct lower_region { /* an open region and the child node whose region is open inside it */
  sn_kregion *region;
  sn_knode *child;
  bool vector;            /* the body of a vector loop, or inside one */
} lower_region;

typedef struct lower_memo {
  const sn_instr *instr;
  int output;
  int n;
  const sn_ix *idx[SN_MAX_RANK];
  int n_guards;
  const sn_ix_guard *guards;
  sn_kvalue *value;
  sn_kregion *region;
  struct lower_memo *next;
} lower_memo;

/* Elements of an instruction that live in a tile: element idx is tile[idx[k] - base[k] for the dims kept]. */
typedef struct lower_tile {
  const sn_instr *instr;
  int output;
  int buffer;
  int n;                  /* rank of the tile */
  const int *dims;        /* tile dim k is dimension dims[k] of the instruction */
  const sn_ix *const *base; /* origin a tile dim; NULL: zero */
  struct lower_tile *next;
} lower_tile;

typedef struct lower_arg { /* a scalar computation's parameter bound to a value */
  const sn_computation *c;
  sn_kvalue *const *values;
  struct lower_arg *next;
} lower_arg;

#define LOWER_MAX_DEPTH 64
#define LOWER_MAX_RECURSION 512
#define LOWER_MAX_GUARDS 64
#define LOWER_MEMO 1024

typedef struct lowering {
  sn_diag *d;
  sn_arena *arena;
  const sn_target *target;
  const sn_instr *root;          /* the instruction lowered */
  const sn_computation *body;    /* of a fusion; NULL: a single op, whose operands are the parameters */
  sn_kernel *k;
  sn_kbuilder b;
  int n_operands;
  int *operand_buffer;           /* by operand number; -1: not an array */
  int n_outputs;
  const sn_instr **outputs;      /* instructions that give the result leaves */
  int *output_index;             /* element of a variadic op's result; 0 otherwise */
  int *output_buffer;
  lower_region stack[LOWER_MAX_DEPTH];
  int depth;
  int n_depths[2], cap_depths[2];
  int *depths[2];                /* stack depth at which DIM k (0) and SYM k (1) exist */
  lower_memo *memo[LOWER_MEMO];
  const sn_instr *pinned;        /* an instruction of which one element is asked for alone, whatever its index looks like by the time it is asked for; NULL: none */
  sn_kvalue *pinned_value;
  lower_tile *tiles;
  const struct lower_partial *partials; /* reductions of which a former phase has stored parts */
  int n_partials;
  lower_arg *args;
  sn_ix_guard guards[LOWER_MAX_GUARDS]; /* conditions under which what is being emitted matters: every load below carries them */
  int n_guards;
  bool is_part;                  /* of a fusion of fusions: the kernel holds buffers of others */
  int width;                     /* lanes of the vector loops, by element width of the widest common type */
  int recursion;
} lowering;

/* A place to come back to. */
typedef struct lower_mark {
  int depth;
  sn_kregion *region;
  sn_knode *before;
  lower_region stack[LOWER_MAX_DEPTH];
} lower_mark;

/* The element of result leaf `output` of `i` at idx (rank of i's shape). */
sn_kvalue *lower_value(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx);
/* A scalar computation (reducer, comparator, map) applied to values; results: n of them (tuple roots). */
bool lower_apply(lowering *L, const sn_computation *c, sn_kvalue *const *args, int n_results, sn_kvalue **results);
sn_status lower_fail(lowering *L, const sn_instr *i, const char *what); /* "… has no lowering", sticky */
void lower_override(lowering *L, const sn_instr *i, int output, int buffer, int n, const int *dims, const sn_ix *const *base);

int lower_depth_of(const lowering *L, const sn_ix *e);   /* stack depth at which the expression's variables exist */
void lower_ids(const lowering *L, uint32_t *first, uint32_t *n); /* ids of the instructions lowered: first … first + n - 1 */
bool *lower_marks(const lowering *L, uint32_t *first);    /* a flag an instruction lowered, by its id - *first; NULL: out of memory */
int lower_guards_depth(const lowering *L);
bool lower_in_vector(const lowering *L);
void lower_push(lowering *L, sn_knode *node, sn_kregion *region, bool vector);
void lower_pop(lowering *L);
void lower_hoist(lowering *L, int depth, lower_mark *mark);
void lower_unhoist(lowering *L, const lower_mark *mark);
const sn_ix *lower_bind(lowering *L, sn_kvalue *v, int64_t lo, int64_t hi);
sn_kvalue *lower_recall(const lowering *L, const sn_instr *i, int output, const sn_ix *const *idx);
void lower_remember(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx, sn_kvalue *v);

/* Loops that the region stack knows. */
const sn_ix *lower_for(lowering *L, sn_kloop loop, int width, const sn_ix *lo, const sn_ix *hi, int64_t step, int n_carries, sn_kvalue *const *inits, const sn_opcode *combine,
                       sn_knode **node);
void lower_end(lowering *L, int n, sn_kvalue *const *yields, sn_knode *node); /* yields and closes */
sn_kphase *lower_phase(lowering *L, int n_grid, const int64_t *grid);  /* opens its body; closes the former */
const sn_ix *lower_const(lowering *L, int64_t v);
/* The digits of a flat row-major index. */
void lower_delinearise(lowering *L, const sn_ix *flat, int n, const int64_t *dims, const sn_ix **idx);
const sn_ix *lower_grid(lowering *L, int k); /* variable k of the open phase */
/* The pred "all guards hold" as a value. */
sn_kvalue *lower_guard_value(lowering *L, int n, const sn_ix_guard *guards);
int lower_lanes(const lowering *L, sn_type t);
/* CUDA targets: lanes are a block's threads. */
#define LOWER_GPU_LANES 256
bool lower_on_gpu(const lowering *L);
int lower_gpu_lanes(int64_t n); /* for n elements: 32 … 256 */
bool lower_is_param(const lowering *L, const sn_instr *i, int *operand);

const sn_shape *lower_output_shape(const lowering *L, int k);
/* Where phases are made in parts, one after the other: arguments first, then tiles; each part's workspaces and tiles lie where those of the parts before it lay. of[b]: the part
 * that buffer b is of; -1: an argument. Buffers have other numbers afterwards. */
void lower_order_buffers(lowering *L, int n_parts, const int *of);

/* Templates: each opens its phases and stores all outputs. Those that return bool say false, with nothing emitted, where they do not apply. */
void lower_loops(lowering *L);
bool lower_split_reduce(lowering *L);                     /* large reductions to few elements, in two phases */
/* What several passes over a row of s (its dimensions from `prefix` on, at row_at) read is kept in shared memory. */
void lower_gpu_keep_rows(lowering *L, const sn_shape *s, int prefix, const sn_ix *const *row_at);
bool lower_gpu_sums(lowering *L);                         /* passes over rows that add up columns on the way */
int lower_row_rank(const lowering *L, const sn_shape *s); /* of the rows of s that reductions inside give; -1: none */
/* Results of shape s that take transposed elements one by one, on a GPU: false where there are none. */
bool lower_gpu_transpose(lowering *L, const sn_shape *s, const bool *mine);
bool lower_gpu_columns(lowering *L);                      /* the same on a GPU, for reductions inside a fusion too */
bool lower_product(lowering *L, const sn_instr *dot);     /* packed matrix product with prologue and epilogue */
bool lower_convolution(lowering *L, const sn_instr *conv); /* the same for convolutions: windows are gathered while packing */
bool lower_attention(lowering *L);                        /* fusions of kind `attention`, for CPUs */
void lower_scatter(lowering *L, const sn_instr *scatter);
void lower_sort(lowering *L, const sn_instr *sort);
void lower_cholesky(lowering *L, const sn_instr *i);
void lower_triangular_solve(lowering *L, const sn_instr *i);
void lower_select_and_scatter(lowering *L, const sn_instr *i);
void lower_fft(lowering *L, const sn_instr *i);

#endif
