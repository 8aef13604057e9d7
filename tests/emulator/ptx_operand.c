/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Operands: registers to places in the register file, numbers to places in the table of immediates. */
#include <ctype.h>
#include <stdlib.h>

#include "ptx.h"

/* ---- places ---- */

static uint32_t place_bytes(uint32_t width) { return width <= 2 ? 64 : 32 * width; }

uint32_t ptx_slot(ptx_reader *r, uint32_t width) {
  uint32_t at = r->f->register_bytes;
  r->f->register_bytes += place_bytes(width);
  return at;
}

uint32_t ptx_constant(ptx_reader *r, uint32_t width, uint64_t bits) {
  uint64_t key[2] = {width, width >= 8 ? bits : width == 0 ? bits != 0 : bits & ((1ull << (8 * width)) - 1)}, found;
  if (sn_map_get(r->pool, key, sizeof key, &found)) return (uint32_t)found;
  uint32_t at = r->f->constant_bytes, bytes = place_bytes(width);
  while (at + bytes > r->constants_cap) {
    uint32_t cap = r->constants_cap ? 2 * r->constants_cap : 4096;
    uint8_t *more = sn_arena_zero(r->scratch, cap, 1);
    if (!more) {
      ptx_fail(r, r->line, "out of memory");
      return EMU_NOWHERE;
    }
    if (at) memcpy(more, r->constants, at);
    r->constants = more;
    r->constants_cap = cap;
  }
  if (width == 0) {
    uint32_t mask = key[1] ? EMU_FULL : 0;
    memcpy(r->constants + at, &mask, 4);
  }
  for (uint32_t l = 0; width && l < EMU_LANES; l++) memcpy(r->constants + at + l * width, &key[1], width < 8 ? width : 8);
  r->f->constant_bytes += bytes;
  if (sn_map_set(r->pool, key, sizeof key, at | EMU_CONSTANT) != SN_OK) ptx_fail(r, r->line, "out of memory");
  return at | EMU_CONSTANT;
}

/* ---- names ---- */

static bool find_register(ptx_reader *r, const char *name, uint32_t n, ptx_operand *out) {
  uint32_t digits = n;
  while (digits > 0 && isdigit((unsigned char)name[digits - 1])) digits--;
  uint64_t number = digits < n ? strtoull(name + digits, NULL, 10) : 0;
  for (uint32_t b = r->n_banks; b-- > 0;) {
    ptx_bank *bank = &r->banks[b];
    size_t prefix = strlen(bank->prefix);
    if (bank->n == 0 ? prefix != n || memcmp(bank->prefix, name, n) != 0 : prefix != digits || digits == n || memcmp(bank->prefix, name, digits) != 0) continue;
    if (bank->n && number >= bank->n) continue;
    uint32_t *slot = &bank->slots[bank->n ? number : 0];
    if (*slot == EMU_NOWHERE) *slot = ptx_slot(r, bank->width);
    out->kind = OPERAND_REGISTER;
    out->place = *slot;
    out->width = bank->width;
    return true;
  }
  return false;
}

static const struct { const char *name; uint8_t which; uint8_t width; } specials[] = {
    {"%tid.x", EMU_TID_X, 4}, {"%tid.y", EMU_TID_Y, 4}, {"%tid.z", EMU_TID_Z, 4}, {"%ntid.x", EMU_NTID_X, 4}, {"%ntid.y", EMU_NTID_Y, 4}, {"%ntid.z", EMU_NTID_Z, 4},
    {"%ctaid.x", EMU_CTAID_X, 4}, {"%ctaid.y", EMU_CTAID_Y, 4}, {"%ctaid.z", EMU_CTAID_Z, 4}, {"%nctaid.x", EMU_NCTAID_X, 4}, {"%nctaid.y", EMU_NCTAID_Y, 4},
    {"%nctaid.z", EMU_NCTAID_Z, 4}, {"%laneid", EMU_LANEID, 4}, {"%warpid", EMU_WARPID, 4}, {"%nwarpid", EMU_NWARPID, 4}, {"%lanemask_eq", EMU_LANEMASK_EQ, 4},
    {"%lanemask_le", EMU_LANEMASK_LE, 4}, {"%lanemask_lt", EMU_LANEMASK_LT, 4}, {"%lanemask_ge", EMU_LANEMASK_GE, 4}, {"%lanemask_gt", EMU_LANEMASK_GT, 4},
    {"%smid", EMU_SMID, 4}, {"%nsmid", EMU_NSMID, 4}, {"%dynamic_smem_size", EMU_DYNAMIC_SMEM, 4}, {"%total_smem_size", EMU_TOTAL_SMEM, 4}, {"%clock", EMU_CLOCK, 4},
    {"%clock64", EMU_CLOCK64, 8}, {"%globaltimer", EMU_GLOBALTIMER, 8},
};

static bool find_special(ptx_reader *r, const char *name, uint32_t n, ptx_operand *out) {
  for (size_t k = 0; k < sizeof specials / sizeof specials[0]; k++) {
    if (strlen(specials[k].name) != n || memcmp(specials[k].name, name, n) != 0) continue;
    uint32_t *slot = &r->specials[specials[k].which];
    if (*slot == EMU_NOWHERE) *slot = ptx_slot(r, specials[k].width);
    out->kind = OPERAND_REGISTER;
    out->place = *slot;
    out->width = specials[k].width;
    return true;
  }
  return false;
}

const ptx_symbol *ptx_find(const ptx_reader *r, const char *name, size_t n) {
  for (uint32_t k = r->n_symbols; k-- > 0;) {
    if (strlen(r->symbols[k].name) == n && memcmp(r->symbols[k].name, name, n) == 0) return &r->symbols[k];
  }
  return NULL;
}

/* ---- reading ---- */

static bool read_number(ptx_reader *r, ptx_operand *out, bool negative) {
  out->kind = OPERAND_NUMBER;
  if (r->kind != PTX_NUMBER || !ptx_number(r->word, r->length, &out->number_kind, &out->number)) {
    return ptx_fail(r, r->line, "'%.*s' is no number", (int)(r->length < 40 ? r->length : 40), r->word);
  }
  if (negative && out->number_kind == 'i') out->number = 0 - out->number;
  else if (negative) out->number ^= out->number_kind == 'f' ? 1ull << 31 : 1ull << 63;
  ptx_next(r);
  return true;
}

static bool read_name(ptx_reader *r, ptx_operand *out) {
  if (find_register(r, r->word, r->length, out) || find_special(r, r->word, r->length, out)) {
    ptx_next(r);
    return true;
  }
  out->symbol = ptx_find(r, r->word, r->length);
  out->kind = out->symbol ? OPERAND_SYMBOL : r->length == 1 && *r->word == '_' ? OPERAND_SINK : OPERAND_NAME;
  if (r->word[0] == '%') return ptx_fail(r, r->line, "register %.*s is not declared", (int)r->length, r->word);
  out->place = EMU_NOWHERE;
  out->name = ptx_take_word(r);
  return out->name != NULL;
}

static bool read_address(ptx_reader *r, ptx_operand *out) {
  ptx_operand base;
  memset(&base, 0, sizeof base);
  base.place = EMU_NOWHERE;
  if (r->kind == PTX_NUMBER) {
    if (!read_number(r, &base, false)) return false;
    out->number = base.number;
    base.place = EMU_NOWHERE;
  } else if (!read_name(r, &base)) {
    return false;
  }
  if (base.kind == OPERAND_NAME) return ptx_fail(r, r->line, "%s is not declared", base.name);
  out->kind = OPERAND_ADDRESS;
  out->place = base.kind == OPERAND_REGISTER ? base.place : EMU_NOWHERE;
  out->width = base.width;
  out->symbol = base.kind == OPERAND_SYMBOL ? base.symbol : NULL;
  bool minus = false;
  while (ptx_is(r, "+") || ptx_is(r, "-")) {
    minus |= ptx_is(r, "-");
    ptx_next(r);
  }
  if (r->kind == PTX_NUMBER) {
    int64_t offset;
    if (!ptx_take_integer(r, &offset)) return false;
    out->number += (uint64_t)(minus ? -offset : offset);
  }
  return ptx_expect(r, "]");
}

static bool read_list(ptx_reader *r, ptx_operand *out) {
  out->kind = OPERAND_LIST;
  out->list = sn_arena_zero(r->scratch, 64, sizeof *out->list);
  if (!out->list) return ptx_fail(r, r->line, "out of memory");
  do {
    if (out->n == 64) return ptx_fail(r, r->line, "a vector of more than 64");
    if (!ptx_operand_read(r, &out->list[out->n++])) return false;
  } while (ptx_accept(r, ","));
  return ptx_expect(r, "}");
}

bool ptx_operand_read(ptx_reader *r, ptx_operand *out) {
  memset(out, 0, sizeof *out);
  out->place = EMU_NOWHERE;
  if (ptx_accept(r, "[")) return read_address(r, out);
  if (ptx_accept(r, "{")) return read_list(r, out);
  if (ptx_accept(r, "!")) out->negated = true;
  bool minus = ptx_accept(r, "-");
  if (r->kind == PTX_NUMBER || minus) return read_number(r, out, minus);
  if (r->kind != PTX_WORD) return ptx_fail(r, r->line, "an operand is expected, not '%.*s'", (int)(r->length < 40 ? r->length : 40), r->word);
  if (!read_name(r, out)) return false;
  if (!ptx_accept(r, "|")) return true;
  out->second = sn_arena_zero(r->scratch, 1, sizeof *out);
  return out->second ? ptx_operand_read(r, out->second) : ptx_fail(r, r->line, "out of memory");
}

/* ---- using ---- */

static uint64_t bits_for(const ptx_operand *o, emu_type t) {
  float f;
  double d;
  uint64_t bits = o->number;
  if (o->number_kind == 'd' && emu_types[t].bytes == 4) { /* a plain 1.0 where f32 is wanted */
    uint32_t u;
    memcpy(&d, &bits, 8);
    f = (float)d;
    memcpy(&u, &f, 4);
    return u;
  }
  return bits;
}

uint32_t ptx_source(ptx_reader *r, const ptx_operand *o, uint32_t width, emu_type t) {
  if (o->kind == OPERAND_NUMBER) return ptx_constant(r, width, bits_for(o, t));
  if (o->kind == OPERAND_SYMBOL && width >= 4 && o->symbol->space != EMU_PARAM) return ptx_constant(r, width, o->symbol->at);
  if (o->kind != OPERAND_REGISTER) {
    ptx_fail(r, r->line, "%s is no register", o->name ? o->name : "an operand");
    return EMU_NOWHERE;
  }
  if (o->width != width) {
    ptx_fail(r, r->line, "a register of %u bits where %u are wanted", 8 * o->width, 8 * width);
    return EMU_NOWHERE;
  }
  return o->place;
}

uint32_t ptx_result(ptx_reader *r, const ptx_operand *o, uint32_t width) {
  if (o->kind == OPERAND_SINK) return ptx_slot(r, width);
  if (o->kind == OPERAND_REGISTER && o->width == width) return o->place;
  if (o->kind == OPERAND_REGISTER) ptx_fail(r, r->line, "a register of %u bits for a result of %u", 8 * o->width, 8 * width);
  else ptx_fail(r, r->line, "the result is no register");
  return EMU_NOWHERE;
}
