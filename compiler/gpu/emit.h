/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the CUDA C emitter share.
 *
 * An item is a block's; its region is run by all threads alike (`whole block`), and the lanes of a vector loop are its threads (`one lane`). Values of the whole
 * block are computed by every thread; its stores are done by thread 0, and a barrier stands before a read or write that depends on what another thread did.
 * A phase without lanes gives every thread an item of its own. */
#ifndef SINTER_GPU_EMIT_H
#define SINTER_GPU_EMIT_H

#include "sinter/gpu.h"

/* Where a buffer lives. */
typedef enum gpu_home {
  HOME_GLOBAL,   /* an argument */
  HOME_PRIVATE,  /* an array of each thread */
  HOME_THREAD,   /* likewise: its first index is the thread */
  HOME_SHARED,   /* dynamic shared memory of the block */
  HOME_SLICE,    /* the block's slice of scratch in global memory */
  HOME_SPREAD    /* sums of a contraction, spread over the threads' registers */
} gpu_home;

typedef struct gpu_buffer {
  char name[24];
  gpu_home home;
  int64_t offset, bytes; /* in shared memory or the slice */
  bool operand;         /* of tensor cores alone: rounded to tf32 as it is stored */
  bool hot;             /* written in this phase, and touched elsewhere in it: order matters */
  bool tensor;          /* spread sums: laid out for tensor cores */
  bool read, written;   /* since the last barrier */
  const sn_ix *read_at, *written_at; /* first index of those accesses, where they agree in it */
} gpu_buffer;

/* A load or store of the open loop that is made for all of its four turns at once, by way of an array. */
enum { GPU_MOST_WIDE = 16 };
typedef struct gpu_wide {
  const sn_knode *node;
  const char *array;
} gpu_wide;

typedef struct gpu_emit {
  sn_diag *d;
  sn_arena *arena;
  const sn_kernel *k;
  const sn_target *target;
  sn_gpu_schedule schedule;
  sn_status status;
  sn_str out;           /* the phases' text; helpers are put before it */
  int depth;            /* of indentation */
  bool lane;            /* inside one lane */
  bool warp;            /* in a loop over warps: what stands outside of lanes is done by all lanes of one warp */
  bool item_per_thread;
  int threads;
  int thread_var;       /* DIM of the open loop over threads; -1: none */
  gpu_buffer *buffers;
  const char **names;   /* of values, by id */
  bool *dim64, *sym64;  /* variables that need 64 bits */
  int n_temporaries;
  int n_wide;
  gpu_wide wide[GPU_MOST_WIDE];
  int64_t tree_bytes;   /* shared memory in which the phase combines lanes */
} gpu_emit;

sn_status gpu_fail(gpu_emit *e, sn_status s, const char *fmt, ...) SN_PRINTF(3, 4);

/* ---- text ---- */
void gpu_line(gpu_emit *e, const char *fmt, ...) SN_PRINTF(2, 3); /* an indented line */
const char *gpu_text(gpu_emit *e, const char *fmt, ...) SN_PRINTF(2, 3);
const char *gpu_name(gpu_emit *e, const sn_kvalue *v);

/* ---- types.c ---- */
const char *gpu_value_type(sn_type t);  /* of a variable: "float", "int", "sn_c64" */
const char *gpu_memory_type(sn_type t); /* of an element in memory */
const char *gpu_from_memory(gpu_emit *e, sn_type t, const char *x);
const char *gpu_to_memory(gpu_emit *e, sn_type t, const char *x);
const char *gpu_round(gpu_emit *e, sn_type t, const char *x);   /* a float to a narrow type's value, kept as float */
const char *gpu_constant(gpu_emit *e, sn_type t, const uint64_t bits[2]);
const char *gpu_identity(gpu_emit *e, sn_opcode op, sn_type t);
bool gpu_is_narrow_float(sn_type t);
const char *gpu_convert(gpu_emit *e, sn_type to, sn_type from, const char *x);

/* ---- index.c ---- */
const char *gpu_index(gpu_emit *e, const sn_ix *x);             /* any width */
bool gpu_index_is64(const gpu_emit *e, const sn_ix *x);
const sn_ix *gpu_offset_index(gpu_emit *e, int buffer, const sn_ix *const *at); /* NULL: out of memory */
const sn_ix *gpu_substituted(gpu_emit *e, const sn_ix *x, const sn_ix **dims);  /* dims by variable; NULL ones stay, and are filled in */
const char *gpu_offset(gpu_emit *e, int buffer, const sn_ix *const *at);
const char *gpu_guards(gpu_emit *e, int n, const sn_ix_guard *guards); /* NULL: always true */

/* ---- launch.c ---- */
/* What a launch runs beside other things: a phase and those that finish it. */
typedef struct gpu_part {
  int first, n;
  int64_t items, blocks;
  int like;         /* the first part of the launch that does the same with other buffers */
  const int *buffer; /* by a buffer of that part: this part's; NULL: the same ones */
} gpu_part;
enum { GPU_MOST_PARTS = 8 };
int64_t gpu_items(const sn_kphase *p);
void gpu_find_like(gpu_emit *e, gpu_part *parts, int p); /* fills in like and buffer */
void gpu_parts(gpu_emit *e, sn_gpu_phase *out, const gpu_part *parts, int n); /* the statements of all, and the function's end */

/* ---- elementwise.c ---- */
const char *gpu_elementwise(gpu_emit *e, const sn_knode *n);    /* an expression */
const char *gpu_binary(gpu_emit *e, sn_opcode op, sn_type t, const char *a, const char *b);

/* ---- region.c, loop.c, contract.c ---- */
void gpu_region(gpu_emit *e, const sn_kregion *r);
void gpu_for(gpu_emit *e, const sn_knode *n);
void gpu_contract(gpu_emit *e, const sn_knode *n);
void gpu_copy(gpu_emit *e, const sn_knode *n);
void gpu_assign_yields(gpu_emit *e, const sn_kregion *r, int n, const char *const *to);
const char *gpu_element(gpu_emit *e, int buffer, const char *offset); /* as an lvalue */

/* ---- wide.c ---- */
void gpu_open_wide(gpu_emit *e, const sn_knode *loop);
void gpu_close_wide(gpu_emit *e, const sn_knode *loop);
const char *gpu_wide_array(const gpu_emit *e, const sn_knode *n); /* NULL: it is made where it stands */

/* ---- spread.c ---- */
bool gpu_spread_fits(const gpu_emit *e, const sn_kcontract *c); /* can its sums be spread over the block's registers? */
int gpu_spread_registers(const sn_kbuffer *b);                  /* of a thread */
enum { SPREAD_THREADS = 256 };
void gpu_spread_contract(gpu_emit *e, const sn_kcontract *c);
const char *gpu_spread_slot(gpu_emit *e, const sn_knode *load);
const char *gpu_tile_at(gpu_emit *e, const sn_ktile *t, const char *i, const char *j); /* an element, as an lvalue */

/* ---- tensor.c ---- */
enum { GPU_TF32_TERMS = 8, GPU_HALF_TERMS = 16 };
int gpu_tensor_terms(const sn_kernel *k, const sn_kcontract *c); /* that one mma.sync takes; 0: not for tensor cores */
void gpu_tensor_step(gpu_emit *e, const sn_kcontract *c, const char *sums);

/* ---- sync.c ---- */
void gpu_before(gpu_emit *e, const sn_knode *n);  /* a barrier where n depends on other threads; then notes n */
bool gpu_enter_loop(gpu_emit *e, const sn_knode *loop, gpu_buffer **before); /* true: each iteration begins with a barrier */
void gpu_after_loop(gpu_emit *e, const sn_knode *loop, const gpu_buffer *before);
void gpu_join(gpu_buffer *to, const gpu_buffer *other); /* what either road touched */
void gpu_barrier(gpu_emit *e);
void gpu_find_hot(gpu_emit *e, const sn_kregion *body);

/* ---- helpers.c ---- */
void gpu_add_helpers(sn_str *to, const char *body);            /* those that the text names, in order */

#endif
