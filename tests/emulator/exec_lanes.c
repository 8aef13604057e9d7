/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Between the lanes of a warp: shuffles, votes, matches, sums. All lanes that an instruction names must be there. */
#include "exec.h"

/* The lanes named must be those that run it; false: a fault was raised. */
static bool all_here(emu_warp *w, const emu_ins *i, uint32_t mask, uint32_t place) {
  uint32_t named = EMU_AT(uint32_t, place)[__builtin_ctz(mask)];
  if ((named & w->live) == mask) return true;
  emu_fail(w, i, __builtin_ctz(mask & ~named ? mask & ~named : mask), EMU_ERROR_ILLEGAL_INSTRUCTION, "run by lanes %08x, but it names %08x", mask, named);
  return false;
}

/* shfl.sync.MODE.b32 d[|p], a, b, c, members: sub 0 up, 1 down, 2 bfly, 3 idx. */
void emu_shuffle(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const uint32_t *a = EMU_AT(const uint32_t, i->s[0]), *b = EMU_AT(const uint32_t, i->s[1]), *c = EMU_AT(const uint32_t, i->s[2]);
  uint32_t *d = EMU_AT(uint32_t, i->d), valid = 0, from[EMU_LANES];
  if (!all_here(w, i, mask, i->s[3])) return;
  memcpy(from, a, sizeof from);
  EMU_FOR_LANES(l, mask) {
    uint32_t value = b[l] & 31, segment = c[l] >> 8 & 31, clamp = c[l] & 31;
    uint32_t most = (l & segment) | (clamp & ~segment), least = l & segment;
    int64_t j = 0;
    bool p = false;
    switch (i->sub) {
      case 0: j = (int64_t)l - value; p = j >= (int64_t)most; break;
      case 1: j = (int64_t)l + value; p = j <= (int64_t)most; break;
      case 2: j = l ^ value; p = j <= (int64_t)most; break;
      default: j = least | (value & ~segment); p = j <= (int64_t)most; break;
    }
    if (!p) j = l;
    if (!((mask >> j) & 1)) {
      emu_fail(w, i, (int)l, EMU_ERROR_ILLEGAL_INSTRUCTION, "reads lane %d, which does not take part (lanes %08x)", (int)j, mask);
      return;
    }
    d[l] = from[j];
    valid |= (uint32_t)p << l;
  }
  if (i->list) emu_mask_set(w, i->list[0], valid, mask);
}

/* vote.sync.MODE d, p, members: sub 0 all, 1 any, 2 uni, 3 ballot. */
void emu_vote(emu_warp *w, const emu_ins *i, uint32_t mask) {
  if (!all_here(w, i, mask, i->s[1])) return;
  uint32_t p = (emu_mask_at(w, i->s[0]) ^ (i->n ? EMU_FULL : 0)) & mask;
  if (i->sub == 3) {
    uint32_t *d = EMU_AT(uint32_t, i->d);
    EMU_FOR_LANES(l, mask) d[l] = p;
  } else {
    bool r = i->sub == 0 ? p == mask : i->sub == 1 ? p != 0 : p == 0 || p == mask;
    emu_mask_set(w, i->d, r ? EMU_FULL : 0, mask);
  }
}

/* match.any.sync d, a, members; match.all.sync d|p, a, members: sub 1. */
void emu_match(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint32_t bytes = emu_types[i->type].bytes, *d = EMU_AT(uint32_t, i->d), same[EMU_LANES] = {0}, all = 0;
  const uint8_t *a = emu_at(w, i->s[0]);
  if (!all_here(w, i, mask, i->s[1])) return;
  EMU_FOR_LANES(l, mask) {
    EMU_FOR_LANES(k, mask) same[l] |= (uint32_t)(memcmp(a + l * bytes, a + k * bytes, bytes) == 0) << k;
    all |= same[l] == mask ? 1u << l : 0;
  }
  EMU_FOR_LANES(l, mask) d[l] = i->sub ? (all == mask ? mask : 0) : same[l];
  if (i->list) emu_mask_set(w, i->list[0], all == mask ? EMU_FULL : 0, mask);
}

/* redux.sync.OP d, a, members: sub an EMU_ATOM. */
void emu_redux(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const uint32_t *a = EMU_AT(const uint32_t, i->s[0]);
  uint32_t *d = EMU_AT(uint32_t, i->d), r = 0;
  bool first = true;
  if (!all_here(w, i, mask, i->s[1])) return;
  EMU_FOR_LANES(l, mask) {
    uint32_t x = a[l];
    bool less = i->type == EMU_S32 ? (int32_t)r < (int32_t)x : r < x;
    if (first) r = x;
    else if (i->sub == EMU_ATOM_ADD) r += x;
    else if (i->sub == EMU_ATOM_MIN) r = less ? r : x;
    else if (i->sub == EMU_ATOM_MAX) r = less ? x : r;
    else if (i->sub == EMU_ATOM_AND) r &= x;
    else if (i->sub == EMU_ATOM_OR) r |= x;
    else r ^= x;
    first = false;
  }
  EMU_FOR_LANES(l, mask) d[l] = r;
}

void emu_activemask(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint32_t *d = EMU_AT(uint32_t, i->d);
  EMU_FOR_LANES(l, mask) d[l] = mask;
}

/* elect.sync d|p, members: the lowest lane. */
void emu_elect(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint32_t leader = (uint32_t)__builtin_ctz(mask);
  if (i->d != EMU_NOWHERE) {
    EMU_FOR_LANES(l, mask) EMU_AT(uint32_t, i->d)[l] = leader;
  }
  if (i->list) emu_mask_set(w, i->list[0], 1u << leader, mask);
}

void emu_warp_sync(emu_warp *w, const emu_ins *i, uint32_t mask) {
  if (all_here(w, i, mask, i->s[0])) w->syncs++;
}

void emu_nothing(emu_warp *w, const emu_ins *i, uint32_t mask) {
  (void)w;
  (void)i;
  (void)mask;
}
