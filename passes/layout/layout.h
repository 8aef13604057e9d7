/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of layout assignment share.
 *
 * Values that elementwise work, windows and movement tie together lie in one order of dimensions or are copied in between: they form a region. Each value maps its
 * dimensions to the region's axes (transposes within a region only change that map). A region has a few orders to choose from; its cost is what its convolutions take
 * in that order and the copies at its boundary. `regions.c` finds them, `layout_assignment.c` chooses, `relayout.c` writes the choice into the module: afterwards all
 * layouts are default ones again, and dimensions stand in the order in which they lie. */
#ifndef SINTER_LAYOUT_H
#define SINTER_LAYOUT_H

#include "../passes_internal.h"
#include "sinter/cost.h"

enum { LO_MAX_RANK = 8, LO_WRITTEN = 0, LO_NHWC = 1, LO_NCHW = 2, LO_ORDERS = 3 };

typedef struct lo_region lo_region;

/* What is known of an instruction's value. */
typedef struct lo_value {
  lo_region *region;      /* NULL: none */
  const uint8_t *axis;    /* of each dimension */
  bool moves;             /* computed in the region's order; else read through a copy */
} lo_value;

/* A value that enters or leaves a region in the order in which it was written. */
typedef struct lo_boundary {
  const sn_instr *value;
  const uint8_t *axis;
  struct lo_boundary *next;
} lo_boundary;

typedef struct lo_conv {
  sn_instr *i;
  lo_value *values[3];    /* input, kernel, result */
  double flops;
} lo_conv;

typedef struct lo_touch { lo_conv *conv; struct lo_touch *next; } lo_touch;

struct lo_region {
  const sn_instr *first;  /* the value it was begun for */
  bool image;             /* holds activations, which --layout speaks of; else a kernel or a single operand */
  int rank;
  uint8_t orders[LO_ORDERS][LO_MAX_RANK]; /* axes from major to minor; [LO_WRITTEN] stands for each value as it was written */
  int chosen;
  lo_boundary *boundaries;
  lo_touch *convs;
  lo_region *next;
};

typedef struct lo_state {
  sn_pass_ctx *pc;
  sn_computation *c;
  lo_value *values;       /* by instruction id */
  const lo_region **seen; /* by instruction id: the region whose boundaries list it last */
  lo_region *regions, **last_region;
  uint32_t n_convs;
  lo_conv *convs;
  sn_rates rates;
} lo_state;

/* ---- regions.c ---- */

SN_NODISCARD sn_status sn_layout_find_regions(lo_state *s);
/* Dimensions of a value with these axes, from major to minor, in the given order of the region. */
void sn_layout_dims(const lo_region *r, int order, const uint8_t *axis, int rank, int64_t *out);
static inline lo_value *lo_value_of(const lo_state *s, const sn_instr *i) { return &s->values[i->id]; }

/* ---- relayout.c ---- */

/* Rewrites every region to its chosen order. */
SN_NODISCARD sn_status sn_layout_relayout(lo_state *s);

#endif
