/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Instructions between lanes and between warps: shuffles, votes, barriers, tensor cores. */
#include "ptx.h"

static bool second_result(ptx_reader *r, emu_ins *i, const ptx_operand *o) {
  if (!o->second || o->second->kind == OPERAND_SINK) return true;
  uint32_t *p = sn_arena_zero(r->arena, 1, sizeof *p);
  if (!p) return ptx_fail(r, i->line, "out of memory");
  *p = ptx_result(r, o->second, 0);
  i->list = p;
  return !r->failed;
}

static bool decode_shuffle(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  static const char *const modes[] = {"up", "down", "bfly", "idx"};
  int mode = -1;
  for (int k = 0; k < 4; k++) mode = ptx_takes(m, modes[k]) ? k : mode;
  if (!ptx_takes(m, "sync") || mode < 0 || m->n_rest || m->n_types != 1 || n != 5) return ptx_unknown(r, m, i->line);
  i->sub = (uint8_t)mode;
  i->run = emu_shuffle;
  i->d = ptx_result(r, &o[0], 4);
  for (int k = 0; k < 4; k++) i->s[k] = ptx_source(r, &o[k + 1], 4, EMU_B32);
  return second_result(r, i, &o[0]);
}

static bool decode_vote(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  int mode = ptx_takes(m, "all") ? 0 : ptx_takes(m, "any") ? 1 : ptx_takes(m, "ballot") ? 3 : m->flags & EMU_F(UNI) ? 2 : -1;
  if (!ptx_takes(m, "sync") || mode < 0 || m->n_rest || n != 3) return ptx_unknown(r, m, i->line);
  i->sub = (uint8_t)mode;
  i->run = emu_vote;
  i->n = o[1].negated;
  i->d = ptx_result(r, &o[0], mode == 3 ? 4 : 0);
  i->s[0] = ptx_source(r, &o[1], 0, EMU_PRED);
  i->s[1] = ptx_source(r, &o[2], 4, EMU_B32);
  return !r->failed;
}

static bool decode_match(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  bool all = ptx_takes(m, "all");
  if (!ptx_takes(m, "sync") || (!all && !ptx_takes(m, "any")) || m->n_rest || m->n_types != 1 || n != 3) return ptx_unknown(r, m, i->line);
  i->sub = all;
  i->type = (uint8_t)m->types[0];
  i->run = emu_match;
  i->d = ptx_result(r, &o[0], 4);
  i->s[0] = ptx_source(r, &o[1], emu_types[i->type].bytes, m->types[0]);
  i->s[1] = ptx_source(r, &o[2], 4, EMU_B32);
  return second_result(r, i, &o[0]);
}

static bool decode_redux(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  static const struct { const char *text; uint8_t operation; } rows[] = {{"add", EMU_ATOM_ADD}, {"min", EMU_ATOM_MIN}, {"max", EMU_ATOM_MAX}, {"and", EMU_ATOM_AND}, {"or", EMU_ATOM_OR}, {"xor", EMU_ATOM_XOR}};
  bool found = false;
  for (size_t k = 0; k < sizeof rows / sizeof rows[0] && !found; k++) {
    if (!(found = ptx_takes(m, rows[k].text))) continue;
    i->sub = rows[k].operation;
  }
  if (!found || !ptx_takes(m, "sync") || m->n_rest || m->n_types != 1 || emu_types[m->types[0]].bytes != 4 || n != 3) return ptx_unknown(r, m, i->line);
  i->type = (uint8_t)m->types[0];
  i->run = emu_redux;
  i->d = ptx_result(r, &o[0], 4);
  i->s[0] = ptx_source(r, &o[1], 4, m->types[0]);
  i->s[1] = ptx_source(r, &o[2], 4, EMU_B32);
  return !r->failed;
}

/* bar.sync a[, b]; barrier.sync[.aligned] a[, b]; bar.arrive a, b; bar.warp.sync members. sub: 1 arrives and goes on. */
static bool decode_barrier(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  if (ptx_takes(m, "warp")) {
    if (!ptx_takes(m, "sync") || m->n_rest || n != 1) return ptx_unknown(r, m, i->line);
    i->run = emu_warp_sync;
    i->s[0] = ptx_source(r, &o[0], 4, EMU_B32);
    return !r->failed;
  }
  ptx_takes(m, "cta");
  ptx_takes(m, "aligned");
  i->kind = EMU_BARRIER;
  i->sub = ptx_takes(m, "arrive");
  if ((!i->sub && !ptx_takes(m, "sync")) || m->n_rest || n < 1 || n > 2) return ptx_unknown(r, m, i->line);
  i->s[0] = ptx_source(r, &o[0], 4, EMU_U32);
  if (n == 2) i->s[1] = ptx_source(r, &o[1], 4, EMU_U32);
  return !r->failed;
}

/* mma.sync.aligned.SHAPE.row.col.D.A.B.C {d}, {a}, {b}, {c}; list: all registers in this order. */
static bool decode_product(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  int sizes[4], total = 0, at = 0;
  uint32_t line = i->line;
  bool shape = ptx_takes(m, "sync") && ptx_takes(m, "aligned") && ptx_takes(m, "row") && ptx_takes(m, "col");
  if (ptx_takes(m, "satfinite")) m->flags |= EMU_F(SATFINITE);
  if (!shape || m->n_rest != 1 || m->n_types != 4 || n != 4) return ptx_unknown(r, m, line);
  if (!(i->run = emu_product_run(m->rest[0], m->types, sizes))) return ptx_unknown(r, m, line);
  i->flags = m->flags;
  i->type = (uint8_t)m->types[0];
  i->from = (uint8_t)m->types[1];
  i->sub = (uint8_t)m->types[2];
  for (int k = 0; k < 4; k++) total += sizes[k];
  uint32_t *list = sn_arena_zero(r->arena, (size_t)total, sizeof *list);
  if (!list) return ptx_fail(r, line, "out of memory");
  for (int k = 0; k < 4; k++) {
    uint32_t count = o[k].kind == OPERAND_LIST ? o[k].n : 1;
    const ptx_operand *items = o[k].kind == OPERAND_LIST ? o[k].list : &o[k];
    if ((int)count != sizes[k]) return ptx_fail(r, line, "%s: a fragment of %d registers, not %u", m->text, sizes[k], count);
    for (uint32_t e = 0; e < count; e++) {
      uint32_t width = m->types[k] == EMU_F64 ? 8 : 4;
      list[at++] = k == 0 ? ptx_result(r, &items[e], width) : ptx_source(r, &items[e], width, m->types[k]);
    }
  }
  i->list = list;
  return !r->failed;
}

static bool decode_elect(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  if (!ptx_takes(m, "sync") || m->n_rest || n != 2) return ptx_unknown(r, m, i->line);
  i->run = emu_elect;
  if (o[0].kind != OPERAND_SINK) i->d = ptx_result(r, &o[0], 4);
  return second_result(r, i, &o[0]);
}

bool ptx_decode_warp(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n, bool *known) {
  *known = true;
  if (strcmp(m->base, "shfl") == 0) return decode_shuffle(r, m, i, o, n);
  if (strcmp(m->base, "vote") == 0) return decode_vote(r, m, i, o, n);
  if (strcmp(m->base, "match") == 0) return decode_match(r, m, i, o, n);
  if (strcmp(m->base, "redux") == 0) return decode_redux(r, m, i, o, n);
  if (strcmp(m->base, "bar") == 0 || strcmp(m->base, "barrier") == 0) return decode_barrier(r, m, i, o, n);
  if (strcmp(m->base, "mma") == 0) return decode_product(r, m, i, o, n);
  if (strcmp(m->base, "elect") == 0) return decode_elect(r, m, i, o, n);
  if (strcmp(m->base, "activemask") == 0 && n == 1) {
    i->run = emu_activemask;
    i->d = ptx_result(r, &o[0], 4);
    return !r->failed;
  }
  if (strcmp(m->base, "nanosleep") == 0 || strcmp(m->base, "griddepcontrol") == 0 || strcmp(m->base, "pmevent") == 0) {
    i->run = emu_nothing;
    return true;
  }
  *known = false;
  return true;
}
