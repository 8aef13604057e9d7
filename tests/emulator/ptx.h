/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reading PTX: what the files of the reader share. ptx_lex.c: words; ptx_module.c: declarations, functions; ptx_operand.c: operands; ptx_decode*.c: instructions;
 * ptx_flow.c: where lanes meet again. */
#ifndef SINTER_EMU_PTX_H
#define SINTER_EMU_PTX_H

#include <string.h>

#include "emu.h"

typedef enum ptx_token { PTX_END, PTX_WORD, PTX_NUMBER, PTX_STRING, PTX_SIGN } ptx_token;

/* A name that is no register: a variable, a parameter. */
typedef struct ptx_symbol {
  const char *name;
  emu_space space;
  uint64_t at;      /* in its space; device address of .global and .const */
  uint32_t bytes;
  int scope;
} ptx_symbol;

/* `.reg .f32 %f<29>` or a single `.reg .b32 %temp`. */
typedef struct ptx_bank {
  const char *prefix;
  uint32_t n, width; /* n 0: a single one; width 0: predicates */
  uint32_t *slots;
  int scope;
} ptx_bank;

typedef struct ptx_fixup { uint32_t ins; int32_t target; const char *label; uint32_t line; } ptx_fixup;

typedef struct ptx_reader {
  const char *at;
  uint32_t line, source_line;
  ptx_token kind;        /* the current token */
  const char *word;
  uint32_t length;
  sn_arena *arena;       /* the module's */
  sn_arena *scratch;     /* of the reading */
  emu_module *m;
  emu_function *f;
  char *error;
  size_t error_bytes;
  bool failed;
  ptx_symbol *symbols;
  uint32_t n_symbols, symbols_cap;
  ptx_bank *banks;
  uint32_t n_banks, banks_cap;
  ptx_fixup *fixups;
  uint32_t n_fixups, fixups_cap;
  sn_map *labels;        /* of the function: 1 + index */
  sn_map *pool;          /* of immediates: place + 1 by width and bits */
  uint8_t *constants;
  uint32_t constants_cap;
  uint32_t specials[EMU_SPECIAL_COUNT];
  uint32_t code_cap;
  uint32_t functions_cap, globals_cap;
  uint32_t static_shared; /* of the module: variables outside functions */
  int scope;
} ptx_reader;

typedef struct ptx_operand {
  enum { OPERAND_REGISTER, OPERAND_NUMBER, OPERAND_ADDRESS, OPERAND_LIST, OPERAND_SYMBOL, OPERAND_SINK, OPERAND_NAME } kind;
  uint32_t place, width; /* a register; of an address: its base, EMU_NOWHERE: none. Width 0: a predicate */
  bool negated;
  char number_kind;      /* 'i', 'f' (bits of f32), 'd' (bits of f64) */
  uint64_t number;       /* also an address's offset */
  const ptx_symbol *symbol;
  const char *name;
  struct ptx_operand *list;
  uint32_t n;
  struct ptx_operand *second; /* behind a `|` */
} ptx_operand;

enum { PTX_MAX_PARTS = 20, PTX_MAX_OPERANDS = 12 };

/* "ld.global.v2.f32" taken apart: known modifiers are bits, types a list, and what is neither waits in `rest` for the instruction to take it. */
typedef struct ptx_mnemonic {
  const char *text;
  const char *base;
  emu_type types[6];
  int n_types;
  uint64_t flags;
  const char *rest[PTX_MAX_PARTS];
  int n_rest;
} ptx_mnemonic;

/* ---- words ---- */
bool ptx_fail(ptx_reader *r, uint32_t line, const char *fmt, ...) SN_PRINTF(3, 4); /* false, always; the first message stays */
void ptx_next(ptx_reader *r);
bool ptx_is(const ptx_reader *r, const char *text);
bool ptx_accept(ptx_reader *r, const char *text);
bool ptx_expect(ptx_reader *r, const char *text);
const char *ptx_take_word(ptx_reader *r); /* a copy; NULL: a fault was noted */
bool ptx_take_integer(ptx_reader *r, int64_t *out);
bool ptx_number(const char *text, uint32_t n, char *kind, uint64_t *bits);
bool ptx_type(const char *text, emu_type *out);
void *ptx_grow(ptx_reader *r, void *items, uint32_t n, uint32_t *cap, size_t bytes_each); /* scratch; NULL: out of memory, noted */

/* ---- operands ---- */
uint32_t ptx_slot(ptx_reader *r, uint32_t width);          /* a new register */
uint32_t ptx_constant(ptx_reader *r, uint32_t width, uint64_t bits);
bool ptx_operand_read(ptx_reader *r, ptx_operand *out);
/* As a source or result of `width` bytes; EMU_NOWHERE after a fault. */
uint32_t ptx_source(ptx_reader *r, const ptx_operand *o, uint32_t width, emu_type t);
uint32_t ptx_result(ptx_reader *r, const ptx_operand *o, uint32_t width);
const ptx_symbol *ptx_find(const ptx_reader *r, const char *name, size_t n);

/* ---- instructions ---- */
emu_ins *ptx_add(ptx_reader *r);
bool ptx_instruction(ptx_reader *r, const char *mnemonic, uint32_t line); /* the current token is the first operand's */
bool ptx_takes(ptx_mnemonic *m, const char *part);         /* takes it out of `rest` */
bool ptx_unknown(ptx_reader *r, const ptx_mnemonic *m, uint32_t line);
bool ptx_decode_memory(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n, bool *known);
bool ptx_decode_warp(ptx_reader *r, ptx_mnemonic *m, emu_ins *i, ptx_operand *o, int n, bool *known);
bool ptx_finish_function(ptx_reader *r);

#endif
