/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Copies that run beside the code (cp.async), and matrices from shared memory (ldmatrix). */
#include "exec.h"

static bool reserve(emu_warp *w) {
  if (w->n_pending < w->pending_cap) return true;
  uint32_t cap = w->pending_cap ? 2 * w->pending_cap : 64;
  emu_pending *more = sn_realloc(w->pending, cap * sizeof *more);
  if (!more) return false;
  w->pending = more;
  w->pending_cap = cap;
  return true;
}

/* cp.async [s0 + offset], [s1 + target], n bytes, of which s2 lanes' bytes come from memory and the rest are zero. */
void emu_copy_async(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint64_t to[EMU_LANES], from[EMU_LANES];
  uint32_t wanted = 0;
  emu_ins source = *i;
  emu_addresses(w, i, i->s[0], i->offset, to);
  source.wide_address = true; /* global addresses have 64 bits */
  emu_addresses(w, &source, i->s[1], (int32_t)i->target, from);
  EMU_FOR_LANES(l, mask) {
    uint32_t bytes = i->s[2] == EMU_NOWHERE ? i->n : EMU_AT(uint32_t, i->s[2])[l];
    if (bytes > i->n) bytes = i->n;
    uint8_t *host = bytes ? emu_resolve(w, i, (int)l, EMU_GLOBAL, from[l], i->n, false) : NULL;
    uint64_t at = to[l] >= EMU_SHARED_WINDOW ? to[l] - EMU_SHARED_WINDOW : to[l];
    uint8_t *shared = emu_resolve(w, i, (int)l, EMU_SHARED, at, i->n, true);
    if ((bytes && !host) || !shared || !reserve(w)) return;
    if (bytes) wanted |= 1u << l;
    to[l] = at;
    w->pending[w->n_pending++] = (emu_pending){shared, host, (uint32_t)at, bytes, i->n - bytes, w->group, l};
  }
  if (wanted) emu_count_global(w, from, wanted, i->n, false);
  emu_count_shared(w, to, mask, i->n);
}

void emu_copy_commit(emu_warp *w, const emu_ins *i, uint32_t mask) {
  (void)i;
  (void)mask;
  w->group++;
}

/* All groups but the newest `offset` of them. What was copied counts as written by the lane that asked, now. */
void emu_copy_wait(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint32_t kept = 0;
  (void)mask;
  for (uint32_t k = 0; k < w->n_pending; k++) {
    emu_pending *p = &w->pending[k];
    bool open = i->offset >= 0 && (int64_t)p->group + i->offset >= (int64_t)w->group; /* an uncommitted one has w->group */
    if (open) {
      w->pending[kept++] = *p;
      continue;
    }
    if (p->bytes) memcpy(p->to, p->from, p->bytes);
    memset(p->to + p->bytes, 0, p->zeros);
    if (w->block->grains) emu_shared_touch(w, i, (int)p->lane, p->to_at, p->bytes + p->zeros, true);
  }
  w->n_pending = kept;
}

/* ldmatrix: lane 8k + r has the address of row r of matrix k; lane l gets two halves of each: row l / 4, columns 2 (l mod 4) and the next. */
void emu_load_matrix(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint64_t at[EMU_LANES];
  uint16_t m[4][8][8];
  emu_addresses(w, i, i->s[0], i->offset, at);
  if (mask != EMU_FULL) {
    emu_fail(w, i, 0, EMU_ERROR_ILLEGAL_INSTRUCTION, "ldmatrix by some lanes of a warp");
    return;
  }
  for (uint32_t k = 0; k < i->n; k++) {
    uint64_t rows[EMU_LANES] = {0};
    for (uint32_t r = 0; r < 8; r++) {
      rows[r] = at[8 * k + r] >= EMU_SHARED_WINDOW ? at[8 * k + r] - EMU_SHARED_WINDOW : at[8 * k + r];
      const uint8_t *row = emu_resolve(w, i, (int)(8 * k + r), EMU_SHARED, rows[r], 16, false);
      if (!row) return;
      memcpy(m[k][r], row, 16);
    }
    emu_count_shared(w, rows, 0xff, 16);
  }
  for (uint32_t k = 0; k < i->n; k++) {
    uint32_t *d = EMU_AT(uint32_t, i->list[k]);
    for (uint32_t l = 0; l < EMU_LANES; l++) {
      uint32_t r = l / 4, c = 2 * (l % 4);
      d[l] = i->sub ? m[k][c][r] | (uint32_t)m[k][c + 1][r] << 16 : m[k][r][c] | (uint32_t)m[k][r][c + 1] << 16;
    }
  }
}
