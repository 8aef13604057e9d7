/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One instruction: its mnemonic taken apart, its operands read, its function found in a table. What no table knows is refused by name and line. */
#include "ptx.h"

emu_ins *ptx_add(ptx_reader *r) {
  emu_function *f = r->f;
  emu_ins *more = ptx_grow(r, f->code, f->n + 1, &r->code_cap, sizeof *more); /* room for the EMU_RETURN behind */
  if (!more) return NULL;
  f->code = more;
  emu_ins *i = &f->code[f->n++];
  memset(i, 0, sizeof *i);
  i->d = i->predicate = i->target = i->meet = EMU_NOWHERE;
  for (int k = 0; k < 4; k++) i->s[k] = EMU_NOWHERE;
  i->source_line = r->source_line;
  return i;
}

/* ---- mnemonics ---- */

static bool take_apart(ptx_reader *r, const char *text, ptx_mnemonic *m) {
  static const char *const flags[] = {
#define EMU_FLAG(id, text) text,
      EMU_FLAGS(EMU_FLAG)
#undef EMU_FLAG
  };
  memset(m, 0, sizeof *m);
  m->text = text;
  for (const char *at = text; at;) {
    size_t n = strcspn(at, ".");
    const char *part = sn_arena_string_n(r->scratch, at, n);
    int bit = 0;
    if (!part) return ptx_fail(r, r->line, "out of memory");
    at = at[n] ? at + n + 1 : NULL;
    if (!m->base) {
      m->base = part;
      continue;
    }
    if (m->n_types < 6 && ptx_type(part, &m->types[m->n_types])) {
      m->n_types++;
      continue;
    }
    while (bit < EMU_BIT_COUNT && strcmp(flags[bit], part) != 0) bit++;
    if (bit < EMU_BIT_COUNT) m->flags |= 1ull << bit;
    else if (m->n_rest < PTX_MAX_PARTS) m->rest[m->n_rest++] = part;
  }
  return true;
}

bool ptx_takes(ptx_mnemonic *m, const char *part) {
  for (int k = 0; k < m->n_rest; k++) {
    if (strcmp(m->rest[k], part) != 0) continue;
    for (m->n_rest--; k < m->n_rest; k++) m->rest[k] = m->rest[k + 1];
    return true;
  }
  return false;
}

bool ptx_unknown(ptx_reader *r, const ptx_mnemonic *m, uint32_t line) { return ptx_fail(r, line, "unknown instruction %s", m->text); }

/* ---- rows ---- */

static uint32_t operand_width(char code, emu_type t) {
  switch (code) {
    case 'w': return 2u * emu_types[t].bytes;
    case 'u': return 4;
    case 'h': return 2;
    case 'p': return 0;
    default: return emu_types[t].bytes;
  }
}

static bool decode_row(ptx_reader *r, const ptx_mnemonic *m, const emu_row *row, emu_ins *i, const ptx_operand *o, int n, uint32_t line) {
  emu_type t = m->types[m->n_types - 1];
  int wanted = (int)strlen(row->operands);
  if (n != wanted) return ptx_fail(r, line, "%s has %d operands, not %d", m->text, wanted, n);
  i->run = m->flags & row->slow ? row->careful[t] : row->by_type[t];
  i->type = (uint8_t)t;
  i->flags = m->flags;
  i->d = ptx_result(r, &o[0], operand_width(row->operands[0], t));
  for (int k = 1; k < n; k++) {
    if (row->operands[k] == 'i') i->offset = (int64_t)o[k].number;
    else i->s[k - 1] = ptx_source(r, &o[k], operand_width(row->operands[k], t), t);
  }
  return !r->failed;
}

/* The row of this name whose modifiers fit; several rows may have the name. */
static const emu_row *find_row(const ptx_mnemonic *m, const char *name) {
  static const emu_row *const tables[] = {emu_rows_integer, emu_rows_float, emu_rows_half, emu_rows_bits};
  if (m->n_types == 0) return NULL;
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
    for (const emu_row *row = tables[t]; row->name; row++) {
      if (strcmp(row->name, name) != 0 || (m->flags & row->need) != row->need || (m->flags & ~(row->need | row->allow))) continue;
      if ((m->flags & row->slow ? row->careful : row->by_type)[m->types[m->n_types - 1]]) return row;
    }
  }
  return NULL;
}

/* ---- instructions with habits of their own ---- */

static bool decode_setp(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, const ptx_operand *o, int n, uint32_t line) {
  static const struct { const char *text; uint8_t how; } comparisons[] = {
      {"eq", EMU_EQ}, {"ne", EMU_NE}, {"lt", EMU_LT}, {"le", EMU_LE}, {"gt", EMU_GT}, {"ge", EMU_GE}, {"lo", EMU_LT}, {"ls", EMU_LE}, {"hs", EMU_GE}, {"equ", EMU_EQU}, {"neu", EMU_NEU},
      {"ltu", EMU_LTU}, {"leu", EMU_LEU}, {"gtu", EMU_GTU}, {"geu", EMU_GEU}, {"num", EMU_NUM}, {"nan", EMU_ISNAN},
  };
  int how = -1;
  if (m->flags == EMU_F(LO)) { /* "lo" is also a modifier of products */
    how = EMU_LT;
    m->flags = 0;
  } else if (m->flags == EMU_F(HI)) {
    how = EMU_GT;
    m->flags = 0;
  }
  for (size_t k = 0; how < 0 && k < sizeof comparisons / sizeof comparisons[0]; k++) {
    if (ptx_takes(m, comparisons[k].text)) how = comparisons[k].how;
  }
  i->n = ptx_takes(m, "and") ? EMU_BOOL_AND : ptx_takes(m, "or") ? EMU_BOOL_OR : ptx_takes(m, "xor") ? EMU_BOOL_XOR : EMU_BOOL_NONE;
  if (how < 0 || m->n_types != 1 || m->n_rest || m->flags) return ptx_unknown(r, m, line);
  if (n != (i->n ? 4 : 3)) return ptx_fail(r, line, "%s has %d operands, not %d", m->text, i->n ? 4 : 3, n);
  emu_type t = m->types[0];
  if (!(i->run = emu_setp_run(t, how))) return ptx_unknown(r, m, line);
  i->type = (uint8_t)t;
  i->sub = (uint8_t)how;
  i->d = ptx_result(r, &o[0], 0);
  i->s[0] = ptx_source(r, &o[1], emu_types[t].bytes, t);
  i->s[1] = ptx_source(r, &o[2], emu_types[t].bytes, t);
  if (i->n) i->s[2] = ptx_source(r, &o[3], 0, EMU_PRED);
  i->from = i->n && o[3].negated;
  if (o[0].second && o[0].second->kind != OPERAND_SINK) {
    uint32_t *q = sn_arena_zero(r->arena, 1, sizeof *q);
    if (!q) return ptx_fail(r, line, "out of memory");
    *q = ptx_result(r, o[0].second, 0);
    i->list = q;
  }
  return !r->failed;
}

static bool decode_cvt(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, const ptx_operand *o, int n, uint32_t line) {
  uint64_t known = EMU_F(RN) | EMU_F(RZ) | EMU_F(RM) | EMU_F(RP) | EMU_F(RNA) | EMU_F(RNI) | EMU_F(RZI) | EMU_F(RMI) | EMU_F(RPI) | EMU_F(FTZ) | EMU_F(SAT) | EMU_F(SATFINITE) | EMU_F(RELU);
  if (m->n_types != 2 || m->n_rest || (m->flags & ~known)) return ptx_unknown(r, m, line);
  emu_type to = m->types[0], from = m->types[1];
  bool pair = to == EMU_F16X2 || to == EMU_BF16X2;
  if (n != (pair ? 3 : 2)) return ptx_fail(r, line, "%s has %d operands, not %d", m->text, pair ? 3 : 2, n);
  uint32_t source_width = o[1].kind == OPERAND_REGISTER ? o[1].width : emu_types[from].bytes;
  if (o[0].kind != OPERAND_REGISTER || o[0].width < emu_types[to].bytes || source_width < emu_types[from].bytes) return ptx_fail(r, line, "%s with registers that are too narrow", m->text);
  i->run = emu_convert_run(to, from, (int)o[0].width, (int)source_width, m->flags);
  if (!i->run) return ptx_unknown(r, m, line);
  i->type = (uint8_t)to;
  i->from = (uint8_t)from;
  i->flags = m->flags;
  i->width = (uint8_t)o[0].width;
  i->n = (uint8_t)source_width;
  i->d = o[0].place;
  i->s[0] = ptx_source(r, &o[1], source_width, from);
  if (pair) i->s[1] = ptx_source(r, &o[2], emu_types[from].bytes, from);
  return !r->failed;
}

static bool decode_testp(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, const ptx_operand *o, int n, uint32_t line) {
  static const struct { const char *text; uint8_t classes; } tests[] = {{"finite", 4 | 8 | 16}, {"infinite", 2}, {"number", 2 | 4 | 8 | 16}, {"notanumber", 1}, {"normal", 16}, {"subnormal", 8}};
  const emu_row *row = find_row(m, "testp");
  for (size_t k = 0; k < sizeof tests / sizeof tests[0]; k++) {
    if (ptx_takes(m, tests[k].text)) i->sub = tests[k].classes;
  }
  if (!row || !i->sub || m->n_rest) return ptx_unknown(r, m, line);
  return decode_row(r, m, row, i, o, n, line);
}

/* A register's parts, a variable's address, or a plain move. */
static bool decode_mov(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, const ptx_operand *o, int n, uint32_t line) {
  if (m->n_types != 1 || m->n_rest || m->flags || n != 2) return ptx_unknown(r, m, line);
  emu_type t = m->types[0];
  bool packs = o[1].kind == OPERAND_LIST, unpacks = o[0].kind == OPERAND_LIST;
  if (packs || unpacks) {
    const ptx_operand *parts = packs ? &o[1] : &o[0];
    uint32_t *list = sn_arena_zero(r->arena, parts->n, sizeof *list), part = emu_types[t].bytes / parts->n;
    if (!list) return ptx_fail(r, line, "out of memory");
    for (uint32_t k = 0; k < parts->n; k++) {
      bool unwanted = unpacks && parts->list[k].kind == OPERAND_SINK;
      list[k] = unwanted ? EMU_NOWHERE : packs ? ptx_source(r, &parts->list[k], part, t) : ptx_result(r, &parts->list[k], part);
    }
    i->list = list;
    i->n = (uint8_t)parts->n;
    i->width = emu_types[t].bytes;
    i->run = packs ? emu_pack : emu_unpack;
    if (packs) i->d = ptx_result(r, &o[0], i->width);
    else i->s[0] = ptx_source(r, &o[1], i->width, t);
    return !r->failed;
  }
  if (o[1].kind == OPERAND_SYMBOL && (o[1].symbol->space == EMU_LOCAL || o[1].symbol->space == EMU_FRAME_PARAM)) {
    i->width = emu_types[t].bytes;
    i->offset = (int64_t)o[1].symbol->at;
    i->run = emu_local_address;
    i->d = ptx_result(r, &o[0], i->width);
    return !r->failed;
  }
  const emu_row *row = find_row(m, "mov");
  if (!row) return ptx_unknown(r, m, line);
  return decode_row(r, m, row, i, o, n, line);
}

/* ---- control ---- */

static bool branch_to(ptx_reader *r, int32_t target, const char *label, uint32_t line) {
  ptx_fixup *more = ptx_grow(r, r->fixups, r->n_fixups, &r->fixups_cap, sizeof *more);
  if (!more) return false;
  r->fixups = more;
  r->fixups[r->n_fixups++] = (ptx_fixup){r->f->n - 1, target, label, line};
  return true;
}

static emu_function *function_named(ptx_reader *r, const char *name) {
  for (uint32_t k = 0; k < r->m->n_functions; k++) {
    if (strcmp(r->m->functions[k]->name, name) == 0) return r->m->functions[k];
  }
  return NULL;
}

/* A parenthesised list of .param variables of the frame, or registers that may not be there. */
static bool read_arguments(ptx_reader *r, uint32_t *to, uint32_t *n) {
  *n = 0;
  if (!ptx_expect(r, "(")) return false;
  while (!ptx_is(r, ")")) {
    ptx_operand o;
    if (!ptx_operand_read(r, &o)) return false;
    if (o.kind != OPERAND_SYMBOL || o.symbol->space != EMU_FRAME_PARAM || *n == 16) return ptx_fail(r, r->line, "an argument that is no .param variable");
    to[(*n)++] = (uint32_t)o.symbol->at;
    if (!ptx_accept(r, ",")) break;
  }
  return ptx_expect(r, ")");
}

/* call [(results),] function [, (arguments)]; list: results' places, then arguments'. */
static bool decode_call(ptx_reader *r, emu_ins *i, uint32_t line) {
  uint32_t results[16], arguments[16], n_results = 0, n_arguments = 0;
  if (ptx_is(r, "(") && (!read_arguments(r, results, &n_results) || !ptx_expect(r, ","))) return false;
  const char *name = ptx_take_word(r);
  if (!name) return false;
  if (ptx_accept(r, ",") && !read_arguments(r, arguments, &n_arguments)) return false;
  emu_function *f = function_named(r, name);
  if (!f) return ptx_fail(r, line, "%s is not declared (calls through registers are not known)", name);
  if (f->n_params != n_arguments || f->n_results != n_results) {
    return ptx_fail(r, line, "%s takes %u arguments and has %u results, not %u and %u", name, f->n_params, f->n_results, n_arguments, n_results);
  }
  uint32_t *list = sn_arena_zero(r->arena, n_results + n_arguments + 1u, sizeof *list);
  if (!list) return ptx_fail(r, line, "out of memory");
  if (n_results) memcpy(list, results, n_results * sizeof *list);
  if (n_arguments) memcpy(list + n_results, arguments, n_arguments * sizeof *list);
  i->kind = EMU_CALL;
  i->list = list;
  i->callee = f;
  return ptx_expect(r, ";");
}

/* brx.idx index, table; the table is a .branchtargets line of this name. */
static bool decode_indexed(ptx_reader *r, emu_ins *i, const ptx_operand *o, int n, uint32_t line) {
  if (n != 2 || !o[1].name) return ptx_fail(r, line, "brx.idx has an index and a table");
  uint64_t at;
  if (!sn_map_get(r->labels, o[1].name, strlen(o[1].name), &at) || !(at >> 63)) return ptx_fail(r, line, "no .branchtargets %s before brx.idx", o[1].name);
  const char *const *names = (const char *const *)(uintptr_t)(at & ~(1ull << 63));
  uint32_t count = 0;
  while (names[count]) count++;
  uint32_t *targets = sn_arena_zero(r->arena, count + 1u, sizeof *targets);
  if (!targets) return ptx_fail(r, line, "out of memory");
  i->kind = EMU_INDEXED;
  i->targets = targets;
  i->offset = count;
  i->s[0] = ptx_source(r, &o[0], 4, EMU_U32);
  for (uint32_t k = 0; k < count; k++) {
    if (!branch_to(r, (int32_t)k, names[k], line)) return false;
  }
  return !r->failed;
}

static bool decode_control(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, const ptx_operand *o, int n, uint32_t line, bool *known) {
  *known = true;
  if (strcmp(m->base, "bra") == 0) {
    if (m->n_rest || n != 1 || o[0].kind != OPERAND_NAME) return ptx_unknown(r, m, line);
    i->kind = EMU_BRANCH;
    return branch_to(r, -1, o[0].name, line);
  }
  if (strcmp(m->base, "brx") == 0 && ptx_takes(m, "idx")) return decode_indexed(r, i, o, n, line);
  if (strcmp(m->base, "ret") == 0 || strcmp(m->base, "exit") == 0) {
    /* a device function returns where its last instruction is, so that lanes meet there */
    bool returns = !r->f->is_entry && m->base[0] == 'r';
    i->kind = returns ? EMU_BRANCH : EMU_EXIT;
    return !returns || branch_to(r, -1, NULL, line);
  }
  if (strcmp(m->base, "trap") == 0 || strcmp(m->base, "brkpt") == 0) {
    i->kind = EMU_TRAP;
    return true;
  }
  *known = false;
  return true;
}

/* ---- one instruction ---- */

static bool decode(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n, uint32_t line) {
  bool known = false;
  if (strcmp(m->base, "setp") == 0) return decode_setp(r, m, i, o, n, line);
  if (strcmp(m->base, "cvt") == 0) return decode_cvt(r, m, i, o, n, line);
  if (strcmp(m->base, "testp") == 0) return decode_testp(r, m, i, o, n, line);
  if (strcmp(m->base, "mov") == 0) return decode_mov(r, m, i, o, n, line);
  if (!decode_control(r, m, i, o, n, line, &known) || known) return !r->failed;
  if (!ptx_decode_memory(r, m, i, o, n, &known) || known) return !r->failed;
  if (!ptx_decode_warp(r, m, i, o, n, &known) || known) return !r->failed;
  const char *name = m->base;
  if (strcmp(name, "dp4a") == 0 && m->n_types == 2) {
    name = m->types[0] == EMU_S32 ? "dp4a.s32" : "dp4a.u32";
  } else if (m->n_types != 1) {
    return ptx_unknown(r, m, line);
  }
  const emu_row *row = m->n_rest ? NULL : find_row(m, name);
  return row ? decode_row(r, m, row, i, o, n, line) : ptx_unknown(r, m, line);
}

static bool read_predicate(ptx_reader *r, uint32_t *place, bool *negated) {
  ptx_operand o;
  *place = EMU_NOWHERE;
  *negated = false;
  if (!ptx_accept(r, "@")) return true;
  if (!ptx_operand_read(r, &o)) return false;
  *negated = o.negated;
  *place = ptx_source(r, &o, 0, EMU_PRED);
  return !r->failed;
}

bool ptx_instruction(ptx_reader *r, const char *mnemonic, uint32_t line) {
  ptx_operand operands[PTX_MAX_OPERANDS];
  ptx_mnemonic m;
  int n = 0;
  uint32_t predicate;
  bool negated;
  if (!mnemonic) { /* @p first */
    if (!read_predicate(r, &predicate, &negated)) return false;
    line = r->line;
    if (!(mnemonic = ptx_take_word(r))) return false;
  } else {
    predicate = EMU_NOWHERE;
    negated = false;
  }
  emu_ins *i = ptx_add(r);
  if (!i || !take_apart(r, mnemonic, &m)) return false;
  i->predicate = predicate;
  i->negated = negated;
  i->line = line;
  if (strcmp(m.base, "call") == 0) return decode_call(r, i, line);
  while (!ptx_is(r, ";")) {
    if (n == PTX_MAX_OPERANDS) return ptx_fail(r, line, "%s has too many operands", mnemonic);
    if (!ptx_operand_read(r, &operands[n++])) return false;
    if (!ptx_accept(r, ",")) break;
  }
  return ptx_expect(r, ";") && decode(r, &m, i, operands, n, line);
}
