/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernel language: one form below the fusion, read by every emitter.
 *
 * A kernel is a list of phases over shared buffers; a phase is a grid of independent items; an item is a tree of loops over element values.
 * Between two phases everything written is visible (a barrier of the pool, a new launch on a GPU); within a phase items must not depend on each other.
 *
 *   kernel @add_fusion(%0: f32[64,768] in, %1: f32[768] in, %2: f32[64,768] out) {
 *     local %3: f32[14,32] register
 *     phase grid(d0 < 64) {
 *       v0: f32 = for d1 < 768 vector 16 carry(c0: f32 = 0 add) {
 *         v1: f32 = load %0[d0, d1]
 *         yield v1
 *       }
 *       ...
 *       store %2[d0, d1] = v7
 *     }
 *   }
 *
 * Meaning. Element values are named by HLO's ops and have HLO's meaning and rounding; nothing is contracted or reassociated by an emitter. A `vector W` loop
 * runs lane l of iteration t for the variable's value lo + (t * W + l) * step; every value in its body is one per lane; its carries are W partial values, each starting
 * from the carry's identity, lanes combined at the end by a balanced tree (l with l + W/2, then W/4, …) and then with the initial value: `init op tree`.
 * So the result depends on W, which is part of the program, and on nothing else. Index expressions are sn_ix over loop variables (DIM) and bound symbols (SYM).
 */
#ifndef SINTER_KERNEL_H
#define SINTER_KERNEL_H

#include "sinter/index.h"
#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sn_kmemory {
  SN_KMEM_IN,       /* argument, only read */
  SN_KMEM_OUT,      /* argument, only written before it is read */
  SN_KMEM_INOUT,    /* argument, updated in place */
  SN_KMEM_WORK,     /* argument behind the outputs: workspace from the plan, shared by all items and phases, undefined at the start */
  SN_KMEM_REGISTER, /* a tile of an item, small enough for registers or the stack; undefined at the start */
  SN_KMEM_SCRATCH,  /* a tile of an item in memory of its worker (CPU: its scratch; GPU: shared memory) */
  SN_KMEM_COUNT
} sn_kmemory;

typedef struct sn_kbuffer {
  sn_kmemory memory;
  sn_type type;
  int rank;
  const int64_t *dims;
  const int64_t *strides; /* in elements, by layout; NULL: row-major */
  const char *name;       /* HLO name it comes from, for readers; or NULL */
  uint32_t align;         /* bytes known of the start (arguments: 64 unless said) */
} sn_kbuffer;

typedef enum sn_kop {
  SN_K_CONST,    /* element constant: bits[2] (real parts: f64 value in bits[0] for floats, int64 for integers; complex: both) */
  SN_K_INDEX,    /* the index expression at[0] as an element of `type` */
  SN_K_ELT,      /* an HLO elementwise op on element operands: `hlo`, with `direction` (compare), `exponent_bits`/`mantissa_bits` (reduce-precision) */
  SN_K_FMA,      /* a * b + c, rounded once */
  SN_K_LOAD,     /* buffer[at…]; under a false guard its operand 0 instead, and memory is not touched */
  SN_K_STORE,    /* buffer[at…] = operand 0; under a false guard nothing */
  SN_K_ATOMIC,   /* buffer[at…] = hlo(buffer[at…], operand 0), indivisible; integers and where order does not matter only */
  SN_K_BIND,     /* symbol `var` := operand 0 (an integer element), clamped to [sym_lo, sym_hi]; usable in index expressions of later nodes of the region */
  SN_K_FOR,      /* loop; see below */
  SN_K_IF,       /* regions[0] under all guards and operand 0 (pred, optional); else regions[1]; results from their yields */
  SN_K_WHILE,    /* carries = operands; regions[0] yields a pred, regions[1] the next carries; results: the last carries. Params of both regions: the carries */
  SN_K_YIELD,    /* ends a region: the operands */
  SN_K_CONTRACT, /* acc[i,j] (=|+=) sum over k of a[i,k] * b[k,j]; see sn_kcontract */
  SN_K_BARRIER,  /* all lanes of an item (GPU: of a block) */
  SN_K_COPY,     /* tile copy, possibly asynchronous: see sn_kcopy; under a false guard zeros, and the source is not touched */
  SN_K_PREFETCH, /* the line that holds buffer[at…] will be used, as bits[0] says (sn_kprefetch): a hint, which changes no value and may name an address outside the buffer */
  SN_K_COMMIT,   /* closes a group of asynchronous copies */
  SN_K_WAIT,     /* until at most bits[0] groups are open; then all lanes of an item meet, and each sees what the others copied */
  SN_K_COUNT
} sn_kop;

typedef enum sn_kprefetch { SN_KPREFETCH_READ /* soon */, SN_KPREFETCH_WRITE /* soon */, SN_KPREFETCH_LATER /* read, not before much else */ } sn_kprefetch;

typedef enum sn_kloop {
  SN_KLOOP_SEQ,
  SN_KLOOP_UNROLL,
  SN_KLOOP_VECTOR,
  SN_KLOOP_THREADS, /* spread over an item's threads: GPU lanes; CPU: SEQ */
  SN_KLOOP_WARPS    /* independent iterations dealt to the warps of a GPU's block, whose 32 lanes the vector loops inside share; CPU: SEQ. Carries nothing */
} sn_kloop;

typedef struct sn_kregion {
  struct sn_knode *first, *last;
  int n_params;              /* carries, seen as values */
  struct sn_kvalue *params;
  struct sn_knode *parent;   /* NULL: a phase's body */
} sn_kregion;

/* A value: result `index` of a node, or parameter `index` of a region (node NULL). */
typedef struct sn_kvalue {
  struct sn_knode *node;
  sn_kregion *region;
  int index;
  sn_type type;
  uint32_t id;               /* dense in the kernel; v<id> in text */
} sn_kvalue;

/* A tile of a buffer: its origin and the stride in elements of the buffer's memory for each tile dimension. */
typedef struct sn_ktile {
  int buffer;
  const sn_ix *const *at;    /* origin: rank of the buffer */
  int64_t stride[2];         /* step of tile dimension 0 and 1 */
} sn_ktile;

/* One product step: m x n x k with m <= mr, n <= nr (compile-time tile, what the emitter unrolls), m, n, k run-time expressions.
 * Accumulates in acc's type in the order k = 0, 1, … with one fma a term for f32/f64 (rounded once), as the target's atom otherwise (`algorithm`).
 * Under an acc of f32, a b of u32 holds words of two terms in bf16, the first in the low half, and k counts words: a holds words too, or is bf16 with terms side by
 * side. A target's instruction for that may add the two products of a word in either order or before they meet acc, and takes subnormal numbers for zero. */
typedef struct sn_kcontract {
  sn_ktile acc, a, b;        /* acc[i,j], a[i,k], b[k,j]: stride[0] for the first index, stride[1] for the second */
  const sn_ix *m, *n, *k;
  int mr, nr;
  bool accumulate;           /* false: starts from zero */
  bool exact;                /* the algorithm's operand type holds the values of a and b: nobody need round them */
  int64_t algorithm;         /* SN_DOT_ALGORITHM_… */
} sn_kcontract;

/* Asynchronous: made at any time up to the WAIT that leaves its group closed; until then neither side may be written, nor the tile read. */
typedef struct sn_kcopy { sn_ktile to, from; const sn_ix *m, *n; bool async; } sn_kcopy; /* to[i,j] = from[i,j]; of nothing where m or n is below 1, whatever the origins */

typedef struct sn_knode {
  sn_kop op;
  struct sn_knode *prev, *next;
  sn_kregion *region;        /* where it stands */
  int n_operands;
  sn_kvalue **operands;
  int n_results;
  sn_kvalue *results;
  /* by op: */
  sn_opcode hlo;             /* ELT, ATOMIC; FOR: see combine */
  int32_t direction, exponent_bits, mantissa_bits;
  uint64_t bits[2];
  int buffer;                /* LOAD, STORE, ATOMIC */
  int n_at;
  const sn_ix *const *at;
  int n_guards;
  const sn_ix_guard *guards; /* LOAD, STORE, ATOMIC, IF */
  int var;                   /* FOR: its DIM; BIND: its SYM */
  int64_t sym_lo, sym_hi;    /* BIND */
  const sn_ix *lo, *hi;      /* FOR: [lo, hi) */
  int64_t step;
  sn_kloop loop;
  int width;                 /* VECTOR: lanes; UNROLL: 0 = fully, else by this */
  const sn_opcode *combine;  /* VECTOR with carries: one associative op each (add, multiply, maximum, minimum, and, or, xor) */
  int n_regions;
  sn_kregion **regions;
  const sn_kcontract *contract;
  const sn_kcopy *copy;
  const char *comment;       /* HLO name and source, for readers; or NULL */
} sn_knode;

typedef struct sn_kphase {
  int n_grid;                /* grid variables are DIM 0 … n_grid-1 of this phase's body (each phase numbers on from its own n_grid) */
  const int64_t *grid;       /* static sizes; items are numbered row-major */
  sn_kregion *body;
  int64_t cost;              /* estimated ns an item, for grouping items; 0: unknown */
  bool finishes;             /* its grid is the former phase's but for the last dimensions, and of what that phase stored an item reads what items equal in its own
                                variables stored: it may run as soon as those are done (GPU: by the block that is the last of them to be done, in the same launch) */
  bool beside;               /* nothing that it or what finishes it touches is written by the phases before it, back to the last one that is neither beside nor finishes,
                                nor the other way round: they may run at the same time (GPU: in one launch) */
} sn_kphase;

typedef struct sn_kernel {
  sn_arena *arena;           /* borrowed */
  sn_ix_context *ix;
  const char *name;          /* HLO name of the first fusion that needs it; not part of equality */
  int n_buffers, cap_buffers;
  sn_kbuffer *buffers;       /* arguments first (in, out, inout, work), then locals */
  int n_phases, cap_phases;
  sn_kphase *phases;
  int n_vars, n_syms;        /* DIM and SYM numbers in use (over all phases) */
  uint32_t n_values;
} sn_kernel;

/* Does it multiply words of two terms? */
static inline bool sn_kcontract_pairs(const sn_kernel *k, const sn_kcontract *c) {
  return k->buffers[c->acc.buffer].type == SN_TYPE_F32 && k->buffers[c->b.buffer].type == SN_TYPE_U32;
}

/* ---- building; NULL when memory lacks, NULL in gives NULL out -------------------------------------------------------- */

SN_NODISCARD sn_status sn_kernel_create(sn_arena *a, const char *name, sn_kernel **out); /* lives in the arena */
int sn_kernel_add_buffer(sn_kernel *k, sn_kmemory memory, sn_type t, int rank, const int64_t *dims, const int64_t *strides, const char *name); /* -1: out of memory */
/* Buffer b becomes to[b] in every node and in the table, which then holds n of them; those that become one must be alike. False: out of memory. */
bool sn_kernel_renumber(sn_kernel *k, const int *to, int n);
sn_kphase *sn_kernel_add_phase(sn_kernel *k, int n_grid, const int64_t *grid);

/* A cursor: nodes go to `region`, in front of `before` (NULL: to its end); the first failure sticks in `status`. */
typedef struct sn_kbuilder { sn_kernel *k; sn_kregion *region; sn_knode *before; sn_status status; const char *comment; } sn_kbuilder;
sn_kvalue *sn_kb_const_f64(sn_kbuilder *b, sn_type t, double v);
sn_kvalue *sn_kb_const_i64(sn_kbuilder *b, sn_type t, int64_t v);
sn_kvalue *sn_kb_const_c128(sn_kbuilder *b, sn_type t, double re, double im);
sn_kvalue *sn_kb_index(sn_kbuilder *b, sn_type t, const sn_ix *e);
sn_kvalue *sn_kb_elt(sn_kbuilder *b, sn_opcode op, sn_type result, int n, sn_kvalue *const *operands);
sn_kvalue *sn_kb_fma(sn_kbuilder *b, sn_kvalue *x, sn_kvalue *y, sn_kvalue *z); /* x * y + z */
sn_kvalue *sn_kb_compare(sn_kbuilder *b, int direction, sn_kvalue *x, sn_kvalue *y, bool total_order);
sn_kvalue *sn_kb_load(sn_kbuilder *b, int buffer, const sn_ix *const *at, int n_guards, const sn_ix_guard *guards, sn_kvalue *otherwise);
void sn_kb_store(sn_kbuilder *b, int buffer, const sn_ix *const *at, int n_guards, const sn_ix_guard *guards, sn_kvalue *v);
const sn_ix *sn_kb_bind(sn_kbuilder *b, sn_kvalue *v, int64_t lo, int64_t hi); /* the SYM expression */
/* Opens a loop: returns the node; its region becomes b->region until sn_kb_end. *var gets the variable's expression. carries: node->regions[0]->params. */
sn_knode *sn_kb_for(sn_kbuilder *b, sn_kloop loop, int width, const sn_ix *lo, const sn_ix *hi, int64_t step, int n_carries, sn_kvalue *const *inits,
                    const sn_opcode *combine, const sn_ix **var);
sn_knode *sn_kb_if(sn_kbuilder *b, int n_guards, const sn_ix_guard *guards, sn_kvalue *pred, int n_results, const sn_type *types); /* then-region opens */
void sn_kb_else(sn_kbuilder *b);
sn_knode *sn_kb_while(sn_kbuilder *b, int n, sn_kvalue *const *inits); /* condition-region opens; sn_kb_do moves to the body */
void sn_kb_do(sn_kbuilder *b);
void sn_kb_yield(sn_kbuilder *b, int n, sn_kvalue *const *values);
void sn_kb_end(sn_kbuilder *b); /* back to the region around */
void sn_kb_prefetch(sn_kbuilder *b, int buffer, const sn_ix *const *at, sn_kprefetch use);
void sn_kb_contract(sn_kbuilder *b, const sn_kcontract *c);
void sn_kb_copy(sn_kbuilder *b, const sn_kcopy *c);
void sn_kb_copy_guarded(sn_kbuilder *b, const sn_kcopy *c, int n_guards, const sn_ix_guard *guards);
void sn_kb_commit(sn_kbuilder *b);
void sn_kb_wait(sn_kbuilder *b, int n_open); /* groups that may stay open */
static inline sn_kvalue *sn_knode_result(sn_knode *n, int i) { return n ? &n->results[i] : NULL; }

/* ---- text, checks, equality, evaluation --------------------------------------------------------------------------------- */

void sn_kernel_print(sn_str *to, const sn_kernel *k);
SN_NODISCARD sn_status sn_kernel_parse(sn_diag *d, sn_arena *a, const char *file, const char *text, size_t n_bytes, sn_kernel **out);
/* Types, ranks, definitions before uses, ranges of every index expression inside its buffer (or guarded), symbols bound, yields. Lists every fault. */
SN_NODISCARD sn_status sn_kernel_verify(sn_diag *d, const sn_kernel *k);
uint64_t sn_kernel_hash(const sn_kernel *k);                 /* names and comments do not count */
bool sn_kernel_equal(const sn_kernel *a, const sn_kernel *b);
/* What a phase does, whatever kernel it stands in: phases with equal bytes do the same with the buffers at equal places of their lists. Lives in the arena. */
typedef struct sn_kphase_key {
  const char *bytes;
  size_t n_bytes;
  const int *buffers; /* the kernel's, in the order in which the phase first uses them */
  int n_buffers;
} sn_kphase_key;
SN_NODISCARD sn_status sn_kphase_key_of(sn_arena *a, const sn_kernel *k, int phase, sn_kphase_key *out); /* SN_ERR_MEMORY */
/* The slow oracle: runs every phase and item in order. args: one pointer per argument buffer (row-major or by strides). */
SN_NODISCARD sn_status sn_kernel_eval(sn_diag *d, const sn_kernel *k, void *const *args);
/* Estimates the cost of each phase that has none yet. */
void sn_kernel_find_costs(sn_kernel *k);
/* Bytes of SCRATCH tiles an item needs (each 64-byte aligned). */
int64_t sn_kernel_scratch_bytes(const sn_kernel *k);
int64_t sn_kbuffer_bytes(const sn_kbuffer *b); /* by strides */

#ifdef __cplusplus
}
#endif
#endif
