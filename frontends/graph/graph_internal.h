/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the builder, and the transforms above it, share. */
#ifndef SINTER_GRAPH_INTERNAL_H
#define SINTER_GRAPH_INTERNAL_H

#include "sinter/graph.h"

#define SN_MAX_SCOPE 64

/* A computation under construction. Frames nest: bodies see the tensors of the frames around them. */
typedef enum sn_frame_kind {
  SN_FRAME_ENTRY, /* inputs are the user's parameters; nothing to capture */
  SN_FRAME_FLAT,  /* an input is a parameter */
  SN_FRAME_TUPLE, /* one parameter, a tuple; an input is one of its elements */
  SN_FRAME_SCALAR /* reducers, comparators: a fixed list of parameters, captures refused */
} sn_frame_kind;

typedef struct sn_frame {
  sn_frame_kind kind;
  sn_computation *comp;
  struct sn_frame *outer;
  sn_instr *param; /* TUPLE: the parameter once there is an input */
  int n_inputs;
  sn_map *inner;       /* id of an outer instruction -> the input that stands for it here */
  sn_instr **captured; /* outer instructions in order of capture, as seen in the frame right outside */
  int n_captured, cap_captured;
  sn_map *constants; /* scalar constants and fills made here */
} sn_frame;

/* A stretch of instructions with a derivative of its own: checkpoint, custom_vjp, custom_jvp. */
typedef enum sn_region_kind { SN_REGION_REMAT, SN_REGION_VJP, SN_REGION_JVP } sn_region_kind;
typedef struct sn_region {
  sn_region_kind kind;
  uint32_t number; /* of remat regions, from 1 */
  sn_computation *comp;
  sn_instr *first, *last; /* in comp's list */
  int n_in, n_out;
  sn_instr **in, **out;
  void (*fn)(void); /* sn_vjp_fn or sn_jvp_fn */
  void *ctx;
  struct sn_region *next;
} sn_region;

struct sn_graph {
  sn_module *module;
  sn_arena *arena;
  sn_diag *diag;
  sn_builder b;          /* b.status is the sticky status */
  const sn_metadata *md; /* of the latest operation, in the module's arena: shared by all that one call makes */
  sn_frame *frame;
  int depth; /* frames beyond the entry */
  sn_loc pinned;
  int n_pins;
  sn_str scope; /* "outer/inner" */
  size_t scope_at[SN_MAX_SCOPE];
  int n_scopes;
  const char *scope_text;       /* scope in the module's arena, NULL: to be copied */
  const char *file, *file_base; /* the last __FILE__ seen; its base name in the module's arena */
  struct {
    sn_instr *instr;
    const char *name;
  } * outputs;
  int n_outputs, cap_outputs;
  const char **param_names;
  int cap_param_names;
  sn_alias *aliases;
  int n_aliases, cap_aliases;
  sn_region *regions; /* newest first */
  uint32_t n_remat;
  bool hinted, finished;
};

/* Starts an operation: location and metadata for what follows. NULL when the graph has failed. */
sn_builder *sn_graph_open(sn_graph *g, sn_loc at);
/* The instruction behind x, usable in the current frame (captured if need be); NULL with a sticky error when there is
 * none. */
sn_instr *sn_graph_use(sn_graph *g, sn_loc at, sn_tensor x);
/* Both in one: x opens its own graph. */
sn_instr *sn_graph_enter(sn_loc at, sn_tensor x, sn_builder **b);
static inline sn_tensor sn_graph_tensor(sn_graph *g, sn_instr *i) {
  return (sn_tensor){g, g && g->b.status == SN_OK ? i : NULL};
}
static inline sn_tensor sn_graph_empty(sn_graph *g) { return (sn_tensor){g, NULL}; }
void sn_graph_no_memory(sn_graph *g);
/* The list copied, so that results may be written over it (f(g, 1, &x, &x)). */
const sn_tensor *sn_graph_list(sn_graph *g, int n, const sn_tensor *xs);

/* Frames. */
sn_frame *sn_frame_push(sn_graph *g, sn_frame_kind kind, const char *name);
void sn_frame_pop(sn_graph *g); /* the computation stays */
sn_instr *sn_frame_input(sn_graph *g, const sn_shape *s);
sn_instr *sn_frame_capture(sn_graph *g, sn_frame *f, sn_instr *outer);
/* Runs fn in a new frame: the first n inputs have the shapes of `like`, `extra` outer instructions are captured first;
 * out: its n_out results in that frame, which is left open. NULL after an error (frame closed). */
sn_frame *sn_frame_run(sn_graph *g, sn_loc at, sn_frame_kind kind, const char *name, sn_fn fn, void *ctx, int n,
                       const sn_shape *const *like, int n_extra, sn_instr *const *extra, int n_out, sn_tensor *out);

/* Constants of the current frame, made once. */
sn_instr *sn_graph_scalar(sn_graph *g, sn_type t, double v);
sn_instr *sn_graph_scalar_i64(sn_graph *g, sn_type t, int64_t v);
sn_instr *sn_graph_full(sn_graph *g, sn_type t, int rank, const int64_t *dims, double v);
sn_instr *sn_graph_fill(sn_graph *g, sn_instr *scalar, int rank,
                        const int64_t *dims); /* broadcast of a scalar, made once */

/* Axis normalised to [0, rank), or -1 with an error. */
int sn_graph_axis(sn_graph *g, sn_loc at, const char *what, int64_t axis, int rank);
/* Axes as a sorted list without repeats into out[rank]; returns the count, -1 after an error. n -1: all. */
int sn_graph_axes(sn_graph *g, sn_loc at, const char *what, int n, const int64_t *axes, int rank, int64_t *out);
/* i broadcast by NumPy's rules to dims; NULL with an error. */
sn_instr *sn_graph_broadcast(sn_graph *g, sn_loc at, sn_instr *i, int rank, const int64_t *dims);
/* NumPy's common shape of two; false with an error. */
bool sn_graph_common(sn_graph *g, sn_loc at, const char *what, sn_instr *x, sn_instr *y, int *rank, int64_t *dims);
const char *sn_graph_shape_text(sn_graph *g, const sn_shape *s);

/* A conditional over branches with C callbacks; the selector is a pred or s32 scalar. */
void sn_graph_branches(sn_loc at, sn_tensor selector, int n_branches, const sn_fn *fns, void *const *ctxs, int n,
                       const sn_tensor *in, int n_out, sn_tensor *out);
/* Wraps results of an instruction with a tuple shape (or one array) into out[n]. */
void sn_graph_elements(sn_graph *g, sn_instr *i, int n, sn_tensor *out);
/* Regions: call before and after building; `first` is what stood last before. */
void sn_graph_drop_regions(sn_graph *g, const sn_computation *c); /* c is about to be erased */
sn_region *sn_graph_region(sn_graph *g, sn_region_kind kind, sn_instr *before, int n_in, sn_instr *const *in, int n_out,
                           sn_instr *const *out);

#endif
