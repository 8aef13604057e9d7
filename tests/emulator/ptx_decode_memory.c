/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Instructions that touch memory. */
#include "ptx.h"

/* ---- modifiers ---- */

/* What changes nothing here: caching, ordering, scope. All of a launch's accesses are in one order that every order allows. */
static void take_hints(ptx_mnemonic *m) {
  static const char *const hints[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cta", "cluster", "gpu", "sys", "nc",
                                      "L1::evict_normal", "L1::evict_last", "L1::evict_first", "L1::no_allocate", "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B",
                                      "L2::evict_first", "L2::evict_last", "L2::evict_normal", "L2::evict_unchanged", "noftz", "aligned"};
  for (size_t k = 0; k < sizeof hints / sizeof hints[0]; k++) {
    while (ptx_takes(m, hints[k])) continue;
  }
}

static emu_space take_space(ptx_reader *r, ptx_mnemonic *m) {
  if (ptx_takes(m, "global")) return EMU_GLOBAL;
  if (ptx_takes(m, "shared") || ptx_takes(m, "shared::cta")) return EMU_SHARED;
  if (ptx_takes(m, "local")) return EMU_LOCAL;
  if (ptx_takes(m, "const")) return EMU_CONST;
  if (ptx_takes(m, "param") || ptx_takes(m, "param::entry") || ptx_takes(m, "param::func")) return r->f->is_entry ? EMU_PARAM : EMU_FRAME_PARAM;
  return EMU_GENERIC;
}

/* An address operand, into s[0] and offset. Variables of the frame are addressed from its bottom. */
static bool address(ptx_reader *r, emu_ins *i, const ptx_operand *o, uint32_t line) {
  if (o->kind != OPERAND_ADDRESS) return ptx_fail(r, line, "an address in brackets is expected");
  i->s[0] = o->place;
  i->wide_address = o->place == EMU_NOWHERE || o->width == 8;
  i->offset = (int64_t)o->number;
  if (o->place != EMU_NOWHERE && o->width != 8 && o->width != 4) return ptx_fail(r, line, "an address register has 32 or 64 bits");
  if (!o->symbol) return true;
  i->offset += (int64_t)o->symbol->at;
  if (o->symbol->space == EMU_FRAME_PARAM || o->symbol->space == EMU_PARAM) i->space = o->symbol->space;
  if (o->symbol->space == EMU_LOCAL) i->space = EMU_FRAME_PARAM; /* both from the bottom of the frame */
  return true;
}

/* The narrowest access to shared memory is the grain in which races are looked for. */
static void note_grain(ptx_reader *r, const emu_ins *i) {
  uint32_t bytes = emu_types[i->type].bytes;
  if (i->space != EMU_SHARED && i->space != EMU_GENERIC) return;
  if (!r->f->shared_grain || bytes < r->f->shared_grain) r->f->shared_grain = bytes > 4 ? 4 : bytes;
}

static int take_vector(ptx_mnemonic *m) { return ptx_takes(m, "v2") ? 2 : ptx_takes(m, "v4") ? 4 : ptx_takes(m, "v8") ? 8 : 1; }

/* Registers of a load or store: as wide as the type, or wider. */
static bool registers(ptx_reader *r, emu_ins *i, const ptx_operand *o, bool writes, uint32_t line) {
  uint32_t bytes = emu_types[i->type].bytes;
  const ptx_operand *items = i->n > 1 ? o->list : o;
  uint32_t *list = sn_arena_zero(r->arena, i->n, sizeof *list);
  if (!list) return ptx_fail(r, line, "out of memory");
  if (i->n > 1 && (o->kind != OPERAND_LIST || o->n != i->n)) return ptx_fail(r, line, "a vector of %d is expected", i->n);
  i->width = (uint8_t)bytes;
  for (uint32_t k = 0; k < i->n; k++) {
    if (items[k].kind == OPERAND_REGISTER) i->width = (uint8_t)items[k].width;
  }
  if (i->width < bytes) return ptx_fail(r, line, "a register of %d bits for %u", 8 * i->width, 8 * bytes);
  for (uint32_t k = 0; k < i->n; k++) {
    list[k] = items[k].kind == OPERAND_SINK ? EMU_NOWHERE : writes ? ptx_source(r, &items[k], i->width, (emu_type)i->type) : ptx_result(r, &items[k], i->width);
  }
  if (i->n > 1) i->list = list;
  else if (writes) i->s[1] = list[0];
  else i->d = list[0];
  return !r->failed;
}

static bool decode_load_store(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n, bool writes) {
  uint32_t line = i->line;
  take_hints(m);
  i->space = (uint8_t)take_space(r, m);
  i->n = (uint8_t)take_vector(m);
  if (m->n_rest || m->n_types != 1 || m->flags || n != 2) return ptx_unknown(r, m, line);
  if (i->space == EMU_CONST) i->space = EMU_GLOBAL;
  i->type = (uint8_t)m->types[0];
  i->run = writes ? emu_store : emu_load;
  if (!address(r, i, &o[writes ? 0 : 1], line)) return false;
  note_grain(r, i);
  return registers(r, i, &o[writes ? 1 : 0], writes, line);
}

/* ---- atomics ---- */

static int take_operation(ptx_mnemonic *m) {
  static const char *const names[EMU_ATOM_COUNT] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  for (int k = 0; k < EMU_ATOM_COUNT; k++) {
    if (ptx_takes(m, names[k])) return k;
  }
  return -1;
}

static bool decode_atomic(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n, bool reduces) {
  uint32_t line = i->line;
  take_hints(m);
  i->space = (uint8_t)take_space(r, m);
  int operation = take_operation(m), first = reduces ? 0 : 1;
  if (operation < 0 || m->n_rest || m->n_types != 1 || m->flags) return ptx_unknown(r, m, line);
  emu_type t = m->types[0];
  uint32_t bytes = emu_types[t].bytes;
  if (n != first + (operation == EMU_ATOM_CAS ? 3 : 2) || bytes > 8 || bytes < 2) return ptx_unknown(r, m, line);
  i->sub = (uint8_t)operation;
  i->type = (uint8_t)t;
  i->run = emu_atomic;
  if (!address(r, i, &o[first], line)) return false;
  note_grain(r, i);
  if (!reduces) i->d = ptx_result(r, &o[0], bytes);
  i->s[1] = ptx_source(r, &o[first + 1], bytes, t);
  if (operation == EMU_ATOM_CAS) i->s[2] = ptx_source(r, &o[first + 2], bytes, t);
  return !r->failed;
}

/* ---- the rest ---- */

static bool decode_cvta(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  i->space = (uint8_t)take_space(r, m);
  if (m->n_rest || m->n_types != 1 || (m->flags & ~EMU_F(TO)) || n != 2 || emu_types[m->types[0]].bytes != 8) return ptx_unknown(r, m, i->line);
  if (i->space == EMU_CONST || i->space == EMU_PARAM) i->space = EMU_GLOBAL;
  i->run = emu_address;
  i->flags = m->flags;
  i->d = ptx_result(r, &o[0], 8);
  i->s[0] = ptx_source(r, &o[1], 8, EMU_U64);
  return !r->failed;
}

/* cp.async.ca.shared.global [to], [from], bytes [, bytes of the source]. */
static bool decode_copy(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  uint32_t line = i->line;
  if (!ptx_takes(m, "async")) return ptx_unknown(r, m, line);
  if (ptx_takes(m, "commit_group")) {
    i->run = emu_copy_commit;
    return m->n_rest ? ptx_unknown(r, m, line) : true;
  }
  if (ptx_takes(m, "wait_group") || ptx_takes(m, "wait_all")) {
    i->run = emu_copy_wait;
    i->offset = n == 1 ? (int64_t)o[0].number : -1;
    return m->n_rest ? ptx_unknown(r, m, line) : true;
  }
  take_hints(m);
  bool ok = (ptx_takes(m, "shared") || ptx_takes(m, "shared::cta")) && ptx_takes(m, "global");
  if (!ok || m->n_rest || m->flags || n < 3 || n > 4 || o[2].kind != OPERAND_NUMBER) return ptx_unknown(r, m, line);
  emu_ins from = *i;
  if (!address(r, i, &o[0], line) || !address(r, &from, &o[1], line)) return false;
  i->s[1] = from.s[0];
  i->target = (uint32_t)(int32_t)from.offset;
  i->n = (uint8_t)o[2].number;
  if (i->n != 4 && i->n != 8 && i->n != 16) return ptx_fail(r, line, "cp.async copies 4, 8 or 16 bytes, not %d", i->n);
  if (n == 4) i->s[2] = ptx_source(r, &o[3], 4, EMU_U32);
  i->type = EMU_B32;
  i->space = EMU_SHARED;
  i->run = emu_copy_async;
  note_grain(r, i);
  return !r->failed;
}

static bool decode_ldmatrix(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n) {
  uint32_t line = i->line;
  take_hints(m);
  bool shape = ptx_takes(m, "sync") && ptx_takes(m, "m8n8") && (ptx_takes(m, "shared") || ptx_takes(m, "shared::cta"));
  i->sub = ptx_takes(m, "trans");
  i->n = ptx_takes(m, "x1") ? 1 : ptx_takes(m, "x2") ? 2 : ptx_takes(m, "x4") ? 4 : 0;
  if (!shape || !i->n || m->n_rest || m->n_types != 1 || m->types[0] != EMU_B16 || n != 2 || o[0].kind != OPERAND_LIST || o[0].n != i->n) return ptx_unknown(r, m, line);
  uint32_t *list = sn_arena_zero(r->arena, i->n, sizeof *list);
  if (!list) return ptx_fail(r, line, "out of memory");
  for (uint32_t k = 0; k < i->n; k++) list[k] = ptx_result(r, &o[0].list[k], 4);
  i->list = list;
  i->run = emu_load_matrix;
  i->type = EMU_B16;
  i->space = EMU_SHARED;
  note_grain(r, i);
  return address(r, i, &o[1], line) && !r->failed;
}

bool ptx_decode_memory(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n, bool *known) {
  *known = true;
  if (strcmp(m->base, "ld") == 0 || strcmp(m->base, "ldu") == 0) return decode_load_store(r, m, i, o, n, false);
  if (strcmp(m->base, "st") == 0) return decode_load_store(r, m, i, o, n, true);
  if (strcmp(m->base, "atom") == 0) return decode_atomic(r, m, i, o, n, false);
  if (strcmp(m->base, "red") == 0) return decode_atomic(r, m, i, o, n, true);
  if (strcmp(m->base, "cvta") == 0) return decode_cvta(r, m, i, o, n);
  if (strcmp(m->base, "cp") == 0) return decode_copy(r, m, i, o, n);
  if (strcmp(m->base, "ldmatrix") == 0) return decode_ldmatrix(r, m, i, o, n);
  if (strcmp(m->base, "prefetch") == 0 || strcmp(m->base, "prefetchu") == 0 || strcmp(m->base, "membar") == 0 || strcmp(m->base, "fence") == 0) {
    i->run = emu_nothing;
    return true;
  }
  *known = false;
  return true;
}
