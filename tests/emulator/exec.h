/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A warp at work: what the files of the interpreter share. */
#ifndef SINTER_EMU_EXEC_H
#define SINTER_EMU_EXEC_H

#include <math.h>
#include <string.h>

#include "emu.h"

/* Lanes of one instruction never overlap but in the same place. */
#if defined(__GNUC__) && !defined(__clang__)
#define EMU_EACH_LANE _Pragma("GCC ivdep")
#else
#define EMU_EACH_LANE
#endif

typedef struct emu_block emu_block;

/* Where some lanes stand, and where they wait for the others. */
typedef struct emu_branch { uint32_t pc, meet, mask; } emu_branch;

typedef struct emu_frame {
  const emu_function *f;
  uint8_t *registers;
  uint32_t pc, meet, mask, depth, frame;
} emu_frame;

/* A copy that cp.async has begun: done at the wait, so that code that forgets to wait reads what was there before. */
typedef struct emu_pending { uint8_t *to; const uint8_t *from; uint32_t to_at, bytes, zeros, group, lane; } emu_pending;

struct emu_warp {
  uint8_t *registers;        /* of the running function */
  const uint8_t *constants;
  const emu_function *f;
  uint32_t pc, meet, mask, live;
  uint32_t depth, calls;
  emu_branch stack[EMU_MAX_STACK];
  emu_frame frames[EMU_MAX_CALLS];
  emu_block *block;
  uint32_t number;
  uint8_t *local;            /* 32 times local_bytes */
  uint32_t local_bytes, frame;
  uint32_t carry;            /* the condition code: a bit a lane */
  /* at a barrier */
  bool waits, done;
  uint32_t barrier, barrier_count;
  /* happens-before: what this warp knows of the others' clocks; its own rises at every synchronisation */
  uint32_t known[EMU_MAX_WARPS];
  uint32_t syncs;            /* bar.warp.sync and the like: orders the warp's own lanes */
  emu_pending *pending;
  uint32_t n_pending, pending_cap, group;
  uint64_t executed;
};

/* Who touched a grain of shared memory last. thread: 1 + its number; 0 nobody. */
typedef struct emu_touch { uint16_t thread; uint32_t clock, syncs; } emu_touch;
typedef struct emu_grain { emu_touch written, read[2]; } emu_grain;

struct emu_block {
  const emu_launch *launch;
  const emu_function *f;
  uint32_t id[3];
  uint8_t *shared;
  uint8_t *shared_written;   /* a byte a byte; NULL: not checked */
  uint32_t static_bytes, dynamic_bytes; /* at 0, at EMU_DYNAMIC_AT */
  emu_grain *grains;         /* NULL: not checked */
  emu_warp *warps;
  uint32_t n_warps, n_threads;
  uint8_t *registers, *local;
  size_t registers_bytes, local_bytes;
  uint32_t arrived[EMU_BARRIERS], expected[EMU_BARRIERS]; /* by bar.arrive: warps; threads awaited, 0: all */
  emu_counters counters;
  emu_fault fault;
};

static inline void *emu_at(const emu_warp *w, uint32_t place) {
  return place & EMU_CONSTANT ? (uint8_t *)w->constants + (place & ~EMU_CONSTANT) : w->registers + place;
}
#define EMU_AT(T, place) ((T *)__builtin_assume_aligned(emu_at(w, place), 64))

static inline uint32_t emu_mask_at(const emu_warp *w, uint32_t place) {
  uint32_t m;
  memcpy(&m, emu_at(w, place), sizeof m);
  return m;
}
/* A predicate's lanes of `mask` become `value`'s. */
static inline void emu_mask_set(emu_warp *w, uint32_t place, uint32_t value, uint32_t mask) {
  uint32_t *m = emu_at(w, place);
  *m = (*m & ~mask) | (value & mask);
}
/* Bytes that are 0 or 1, one a lane, as a mask. */
static inline uint32_t emu_gather_bits(const uint8_t *bytes) {
  uint32_t m = 0;
  for (int k = 0; k < 4; k++) {
    uint64_t x;
    memcpy(&x, bytes + 8 * k, 8);
    m |= (uint32_t)((x * 0x0102040810204080ull) >> 56) << (8 * k);
  }
  return m;
}
#define EMU_FOR_LANES(l, mask) for (uint32_t m_##l = (mask), l = 0; m_##l && ((l = (uint32_t)__builtin_ctz(m_##l)), true); m_##l &= m_##l - 1)

/* Ends the block with a message that names kernel, block, thread, instruction. `code`: a CUDA error. */
void emu_fail(emu_warp *w, const emu_ins *i, int lane, int code, const char *fmt, ...) SN_PRINTF(5, 6);
enum { EMU_ERROR_ILLEGAL_ADDRESS = 700, EMU_ERROR_TIMEOUT = 702, EMU_ERROR_ILLEGAL_INSTRUCTION = 715, EMU_ERROR_MISALIGNED = 716, EMU_ERROR_INVALID_PC = 718,
       EMU_ERROR_LAUNCH_FAILED = 719, EMU_ERROR_ASSERT = 710 };

/* exec_check.c: shared memory under observation. */
void emu_shared_touch(emu_warp *w, const emu_ins *i, int lane, uint32_t at, uint32_t bytes, bool writes);
void emu_meet(emu_block *b, uint32_t warps); /* these warps now know of each other's past */

/* exec_memory.c: host address of a lane's access, checked; NULL: a fault was raised. */
uint8_t *emu_resolve(emu_warp *w, const emu_ins *i, int lane, emu_space space, uint64_t at, uint32_t bytes, bool writes);
void emu_addresses(const emu_warp *w, const emu_ins *i, uint32_t place, int64_t offset, uint64_t *to);
void emu_count_global(emu_warp *w, const uint64_t *at, uint32_t mask, uint32_t bytes, bool writes);
void emu_count_shared(emu_warp *w, const uint64_t *at, uint32_t mask, uint32_t bytes);

/* exec_half.c: f16 and bf16 as floats. */
float emu_half_to_f32(uint16_t h);
uint16_t emu_f32_to_half(float x);
float emu_bfloat_to_f32(uint16_t h);
uint16_t emu_f32_to_bfloat(float x);
/* x rounded to a format: `bits` of precision, exponents from `least` (of the smallest normal number) to `most`; mode a flag EMU_F(RN), RZ, RM, RP or RNA.
 * Beyond the range: infinity, or with `finite` the largest number. */
double emu_round(double x, int bits, int least, int most, uint64_t mode, bool finite);

#endif
