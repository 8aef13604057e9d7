/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Races in shared memory. Each warp has a clock that rises whenever it meets others, and knows the clocks of the others as of the last meeting; two accesses to a grain, one of
 * them a write, race unless the later one's warp knows the earlier one's clock (Flanagan and Freund, "FastTrack", 2009). Lanes of one warp are ordered by bar.warp.sync. Of
 * the readers since the last write two are kept, which is enough: a third that nobody is ordered with shows in one of them. */
#include "exec.h"

static bool ordered(const emu_warp *w, const emu_touch *t, uint32_t thread) {
  uint32_t other = (t->thread - 1u) / EMU_LANES;
  if (t->thread == 0 || t->thread == thread) return true;
  if (other == w->number) return t->clock < w->known[w->number] || t->syncs < w->syncs;
  return t->clock <= w->known[other];
}

static void race(emu_warp *w, const emu_ins *i, int lane, uint32_t at, const emu_touch *t, const char *what) {
  emu_fail(w, i, lane, EMU_ERROR_ASSERT, "a race: thread %u %s shared memory at %u, and no barrier stands between", t->thread - 1u, what, at);
}

void emu_shared_touch(emu_warp *w, const emu_ins *i, int lane, uint32_t at, uint32_t bytes, bool writes) {
  uint32_t grain = w->f->shared_grain ? w->f->shared_grain : 1;
  uint16_t thread = (uint16_t)(1 + w->number * EMU_LANES + (uint32_t)lane);
  emu_touch now = {thread, w->known[w->number], w->syncs};
  for (uint32_t g = at / grain; g <= (at + bytes - 1) / grain; g++) {
    emu_grain *s = &w->block->grains[g];
    if (!ordered(w, &s->written, thread)) {
      race(w, i, lane, g * grain, &s->written, "wrote");
      return;
    }
    if (writes) {
      for (int k = 0; k < 2; k++) {
        if (!ordered(w, &s->read[k], thread)) {
          race(w, i, lane, g * grain, &s->read[k], "read");
          return;
        }
      }
      s->written = now;
      s->read[0] = s->read[1] = (emu_touch){0, 0, 0};
    } else {
      int slot = s->read[0].thread == 0 || s->read[0].thread == thread || ordered(w, &s->read[0], thread) ? 0 : 1;
      s->read[slot] = now;
    }
  }
}

void emu_meet(emu_block *b, uint32_t warps) {
  uint32_t all[EMU_MAX_WARPS] = {0};
  EMU_FOR_LANES(k, warps) {
    for (int j = 0; j < EMU_MAX_WARPS; j++) all[j] = b->warps[k].known[j] > all[j] ? b->warps[k].known[j] : all[j];
  }
  EMU_FOR_LANES(k, warps) {
    memcpy(b->warps[k].known, all, sizeof all);
    b->warps[k].known[k]++;
  }
}
