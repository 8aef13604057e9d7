/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The values of one computation that take memory of the arena, and who reads them. Scheduling and rematerialisation try orders on them. */
#ifndef SINTER_LIVENESS_H
#define SINTER_LIVENESS_H

#include "sinter/ir.h"

enum { SN_LIVE_SOURCES = 3 };

typedef struct sn_live_value {
  sn_instr *instr;
  int leaf;
  int64_t bytes;      /* in the arena: 0 where the memory is an argument's or a result's */
  bool pinned;        /* read by the world after the last instruction */
  uint32_t n_readers; /* instructions, each once */
  uint32_t n_sources;
  uint32_t sources[SN_LIVE_SOURCES]; /* values it may be written over, if they die here */
} sn_live_value;

typedef struct sn_liveness {
  const sn_computation *c;
  uint32_t n, n_values;
  sn_instr **instrs;      /* in the order there was; positions below are in it */
  uint32_t *position;     /* by instruction id */
  sn_live_value *values;
  uint32_t *first_value;  /* by position, n + 1 of them: values made */
  uint32_t *first_read;   /* by position, n + 1 of them */
  uint32_t *reads;        /* values read, each once an instruction */
  int64_t *inner;         /* by position: peak of the computations that the instruction runs */
} sn_liveness;

/* position: a table by instruction id of the caller's, filled for c. inner: peaks of called computations by computation id; NULL: none.
 * SN_ERR_MEMORY is the only failure. */
SN_NODISCARD sn_status sn_liveness_find(sn_arena *a, const sn_computation *c, uint32_t *position, const int64_t *inner, sn_liveness *out);
/* Highest sum of live bytes when positions run in this order. at (may be NULL): index in the order where it is. left: n_values words of scratch. */
int64_t sn_liveness_peak(const sn_liveness *l, const uint32_t *order, uint32_t *left, uint32_t *at);

#endif
