/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A PTX module: variables, functions, and what stands in a body beside instructions. */
#include <stdlib.h>

#include "ptx.h"

/* ---- variables ---- */

typedef struct declaration { emu_type type; uint32_t align, n_elements; const char *name; bool is_array; } declaration;

/* [.align N] [.v2|.v4] .TYPE [.ptr …] NAME [N]… */
static bool read_declaration(ptx_reader *r, declaration *d) {
  int64_t n;
  bool have_type = false;
  memset(d, 0, sizeof *d);
  d->n_elements = 1;
  while (r->kind == PTX_WORD && *r->word == '.') {
    if (ptx_accept(r, ".align")) {
      if (!ptx_take_integer(r, &n)) return false;
      if (!have_type) d->align = (uint32_t)n;
    } else if (ptx_accept(r, ".v2")) {
      d->n_elements = 2;
    } else if (ptx_accept(r, ".v4")) {
      d->n_elements = 4;
    } else if (ptx_is(r, ".ptr") || ptx_is(r, ".global") || ptx_is(r, ".shared") || ptx_is(r, ".const") || ptx_is(r, ".local")) {
      ptx_next(r);
    } else {
      char text[16];
      snprintf(text, sizeof text, "%.*s", (int)(r->length < 15 ? r->length - 1 : 14), r->word + 1);
      if (!ptx_type(text, &d->type)) return ptx_fail(r, r->line, "unknown directive %.*s", (int)(r->length < 40 ? r->length : 40), r->word);
      have_type = true;
      ptx_next(r);
    }
  }
  if (!have_type) return ptx_fail(r, r->line, "a type is expected");
  if (!(d->name = ptx_take_word(r))) return false;
  while (ptx_accept(r, "[")) {
    d->is_array = true;
    n = 0;
    if (!ptx_is(r, "]") && !ptx_take_integer(r, &n)) return false;
    if (n < 0 || n > (1 << 28)) return ptx_fail(r, r->line, "%s has too many elements", d->name);
    d->n_elements *= (uint32_t)n;
    if (!ptx_expect(r, "]")) return false;
  }
  if (d->align < emu_types[d->type].bytes) d->align = emu_types[d->type].bytes;
  return true;
}

static uint32_t aligned(uint32_t at, uint32_t to) { return (at + to - 1) / to * to; }

static ptx_symbol *add_symbol(ptx_reader *r, const char *name, emu_space space, uint64_t at, uint32_t bytes) {
  ptx_symbol *more = ptx_grow(r, r->symbols, r->n_symbols, &r->symbols_cap, sizeof *more);
  if (!more) return NULL;
  r->symbols = more;
  r->symbols[r->n_symbols] = (ptx_symbol){name, space, at, bytes, r->scope};
  return &r->symbols[r->n_symbols++];
}

static bool read_initial(ptx_reader *r, const declaration *d, uint8_t *to, uint32_t *n) {
  uint32_t bytes = emu_types[d->type].bytes;
  if (ptx_accept(r, "{")) {
    while (!ptx_is(r, "}")) {
      if (!read_initial(r, d, to, n)) return false;
      if (!ptx_accept(r, ",")) break;
    }
    return ptx_expect(r, "}");
  }
  bool minus = ptx_accept(r, "-");
  char kind;
  uint64_t bits;
  if (r->kind != PTX_NUMBER || !ptx_number(r->word, r->length, &kind, &bits)) return ptx_fail(r, r->line, "the value of %s is no number", d->name);
  if (*n >= d->n_elements) return ptx_fail(r, r->line, "%s has more values than elements", d->name);
  if (minus) bits = kind == 'i' ? 0 - bits : bits ^ (kind == 'f' ? 1ull << 31 : 1ull << 63);
  memcpy(to + (size_t)*n * bytes, &bits, bytes < 8 ? bytes : 8);
  (*n)++;
  ptx_next(r);
  return true;
}

/* .global and .const: device memory from the start. */
static bool read_global(ptx_reader *r) {
  declaration d;
  uint32_t n = 0;
  if (!read_declaration(r, &d)) return false;
  uint32_t bytes = d.n_elements * emu_types[d.type].bytes;
  uint64_t at = emu_memory_alloc(bytes ? bytes : 1);
  uint8_t *host = at ? emu_memory_at(at, bytes ? bytes : 1) : NULL;
  if (!host) return ptx_fail(r, r->line, "no device memory for %s", d.name);
  memset(host, 0, bytes);
  if (emu_memory_shadow(host)) memset(emu_memory_shadow(host), 1, bytes);
  uint64_t *more = ptx_grow(r, r->m->globals, r->m->n_globals, &r->globals_cap, sizeof *more);
  if (!more) {
    emu_memory_free(at);
    return false;
  }
  r->m->globals = more;
  more[r->m->n_globals++] = at;
  if (!add_symbol(r, d.name, EMU_GLOBAL, at, bytes)) return false;
  return (!ptx_accept(r, "=") || read_initial(r, &d, host, &n)) && ptx_expect(r, ";");
}

static bool read_shared(ptx_reader *r, bool is_extern) {
  declaration d;
  if (!read_declaration(r, &d)) return false;
  uint32_t *top = r->f ? &r->f->shared_bytes : &r->static_shared, bytes = d.n_elements * emu_types[d.type].bytes;
  if (is_extern || bytes == 0) return add_symbol(r, d.name, EMU_SHARED, EMU_DYNAMIC_AT, 0) && ptx_expect(r, ";");
  uint32_t at = aligned(*top, d.align);
  *top = at + bytes;
  if (*top > EMU_DYNAMIC_AT) return ptx_fail(r, r->line, "%u bytes of static shared memory, a device gives %d", *top, EMU_DYNAMIC_AT);
  return add_symbol(r, d.name, EMU_SHARED, at, bytes) && ptx_expect(r, ";");
}

/* .local and .param of a body lie in the frame. */
static bool read_framed(ptx_reader *r, emu_space space) {
  declaration d;
  if (!read_declaration(r, &d)) return false;
  uint32_t at = aligned(r->f->frame_bytes, d.align), bytes = d.n_elements * emu_types[d.type].bytes;
  r->f->frame_bytes = aligned(at + bytes, 8);
  return add_symbol(r, d.name, space, at, bytes) && ptx_expect(r, ";");
}

static bool read_registers(ptx_reader *r) {
  char text[16];
  emu_type t;
  if (r->kind != PTX_WORD || r->length < 2) return ptx_fail(r, r->line, "a type is expected behind .reg");
  snprintf(text, sizeof text, "%.*s", (int)(r->length < 15 ? r->length - 1 : 14), r->word + 1);
  if (!ptx_type(text, &t)) return ptx_fail(r, r->line, "registers of an unknown type .%s", text);
  ptx_next(r);
  do {
    int64_t n = 0;
    ptx_bank *more = ptx_grow(r, r->banks, r->n_banks, &r->banks_cap, sizeof *more);
    const char *name = more ? ptx_take_word(r) : NULL;
    if (!name) return false;
    r->banks = more;
    if (ptx_accept(r, "<") && (!ptx_take_integer(r, &n) || !ptx_expect(r, ">"))) return false;
    if (n < 0 || n > (1 << 24)) return ptx_fail(r, r->line, "too many registers %s", name);
    uint32_t *slots = sn_arena_alloc(r->scratch, ((size_t)n + 1) * sizeof *slots);
    if (!slots) return ptx_fail(r, r->line, "out of memory");
    memset(slots, 0xff, ((size_t)n + 1) * sizeof *slots);
    r->banks[r->n_banks++] = (ptx_bank){name, (uint32_t)n, emu_types[t].bytes, slots, r->scope};
  } while (ptx_accept(r, ","));
  return ptx_expect(r, ";");
}

/* ---- bodies ---- */

static void leave_scope(ptx_reader *r) {
  r->scope--;
  while (r->n_symbols && r->symbols[r->n_symbols - 1].scope > r->scope) r->n_symbols--;
  while (r->n_banks && r->banks[r->n_banks - 1].scope > r->scope) r->n_banks--;
}

/* .loc FILE LINE COLUMN [, function_name NAME [+ N], inlined_at FILE LINE COLUMN] */
static bool read_loc(ptx_reader *r) {
  int64_t at[3];
  for (int k = 0; k < 3; k++) {
    if (!ptx_take_integer(r, &at[k])) return false;
  }
  if (at[1] > 0) r->source_line = (uint32_t)at[1];
  while (ptx_accept(r, ",")) {
    if (ptx_accept(r, "inlined_at")) {
      for (int k = 0; k < 3; k++) {
        if (!ptx_take_integer(r, &at[k])) return false;
      }
      if (at[1] > 0) r->source_line = (uint32_t)at[1]; /* the place in the kernel says more than the helper's */
    } else {
      ptx_next(r); /* function_name */
      ptx_next(r);
      if (ptx_accept(r, "+")) ptx_next(r);
    }
  }
  return true;
}

static bool skip_to(ptx_reader *r, const char *sign) {
  while (r->kind != PTX_END && !ptx_is(r, sign)) ptx_next(r);
  return ptx_expect(r, sign);
}

static bool read_branch_targets(ptx_reader *r, const char *name) {
  const char **names = sn_arena_zero(r->scratch, 1025, sizeof *names);
  int n = 0;
  if (!names) return ptx_fail(r, r->line, "out of memory");
  do {
    if (n == 1024) return ptx_fail(r, r->line, "a table of more than 1024 targets");
    if (!(names[n++] = ptx_take_word(r))) return false;
  } while (ptx_accept(r, ","));
  if (sn_map_set(r->labels, name, strlen(name), (uint64_t)(uintptr_t)names | 1ull << 63) != SN_OK) return ptx_fail(r, r->line, "out of memory");
  return ptx_expect(r, ";");
}

static bool read_label_or_instruction(ptx_reader *r) {
  uint32_t line = r->line;
  const char *name = ptx_take_word(r);
  if (!name) return false;
  if (!ptx_accept(r, ":")) return ptx_instruction(r, name, line);
  if (ptx_accept(r, ".branchtargets")) return read_branch_targets(r, name);
  uint64_t seen;
  if (sn_map_get(r->labels, name, strlen(name), &seen)) return ptx_fail(r, line, "label %s stands twice", name);
  return sn_map_set(r->labels, name, strlen(name), r->f->n) == SN_OK || ptx_fail(r, line, "out of memory");
}

static bool read_statement(ptx_reader *r) {
  if (r->kind == PTX_END) return ptx_fail(r, r->line, "the text ends inside %s", r->f->name);
  if (ptx_is(r, "@")) return ptx_instruction(r, NULL, r->line);
  if (ptx_accept(r, ".loc")) return read_loc(r);
  if (ptx_accept(r, ".pragma")) return skip_to(r, ";");
  if (ptx_accept(r, ".reg")) return read_registers(r);
  if (ptx_accept(r, ".local")) return read_framed(r, EMU_LOCAL);
  if (ptx_accept(r, ".param")) return read_framed(r, EMU_FRAME_PARAM);
  if (ptx_accept(r, ".shared")) return read_shared(r, false);
  if (r->kind == PTX_WORD && *r->word == '.') return ptx_fail(r, r->line, "unknown directive %.*s", (int)(r->length < 40 ? r->length : 40), r->word);
  return read_label_or_instruction(r);
}

static bool resolve_branches(ptx_reader *r) {
  for (uint32_t k = 0; k < r->n_fixups; k++) {
    const ptx_fixup *x = &r->fixups[k];
    uint64_t at = r->f->n;
    if (x->label && (!sn_map_get(r->labels, x->label, strlen(x->label), &at) || at >> 63)) return ptx_fail(r, x->line, "label %s is not there", x->label);
    emu_ins *i = &r->f->code[x->ins];
    if (x->target < 0) i->target = (uint32_t)at;
    else ((uint32_t *)i->targets)[x->target] = (uint32_t)at;
  }
  return true;
}

bool ptx_finish_function(ptx_reader *r) {
  emu_function *f = r->f;
  if (!resolve_branches(r) || !ptx_add(r)) return false;
  f->n--;
  f->code[f->n].kind = EMU_RETURN;
  f->code[f->n].line = r->line;
  emu_ins *code = sn_arena_copy(r->arena, f->code, ((size_t)f->n + 1) * sizeof *code);
  f->constants = sn_alloc_aligned(64, f->constant_bytes + 64u);
  if (!code || !f->constants) return ptx_fail(r, r->line, "out of memory");
  if (f->constant_bytes) memcpy(f->constants, r->constants, f->constant_bytes);
  f->code = code;
  f->specials = sn_arena_zero(r->arena, EMU_SPECIAL_COUNT, sizeof *f->specials);
  if (!f->specials) return ptx_fail(r, r->line, "out of memory");
  for (uint8_t k = 0; k < EMU_SPECIAL_COUNT; k++) {
    if (r->specials[k] != EMU_NOWHERE) f->specials[f->n_specials++] = (emu_special){k, r->specials[k]};
  }
  f->defined = true;
  return emu_flow(r->scratch, f) || ptx_fail(r, r->line, "out of memory");
}

static bool read_body(ptx_reader *r) {
  emu_function *f = r->f;
  sn_map_clear(r->labels);
  sn_map_clear(r->pool);
  r->n_fixups = 0;
  r->source_line = 0;
  r->constants = NULL;
  r->constants_cap = r->code_cap = 0;
  memset(r->specials, 0xff, sizeof r->specials);
  if (!(f->code = ptx_grow(r, NULL, 0, &r->code_cap, sizeof *f->code))) return false;
  int outside = r->scope - 1; /* the parameters are in the scope that is open */
  if (!ptx_expect(r, "{")) return false;
  for (;;) {
    if (ptx_accept(r, "{")) {
      r->scope++;
    } else if (ptx_accept(r, "}")) {
      leave_scope(r);
      if (r->scope == outside) return ptx_finish_function(r);
    } else if (!read_statement(r)) {
      return false;
    }
  }
}

/* ---- functions ---- */

static emu_function *function_of(ptx_reader *r, const char *name) {
  emu_function *f = emu_module_find(r->m, name);
  for (uint32_t k = 0; !f && k < r->m->n_functions; k++) {
    if (strcmp(r->m->functions[k]->name, name) == 0) f = r->m->functions[k];
  }
  if (f) return f;
  emu_function **more = ptx_grow(r, r->m->functions, r->m->n_functions, &r->functions_cap, sizeof *more);
  f = SN_NEW(r->arena, emu_function);
  if (!more || !f) {
    ptx_fail(r, r->line, "out of memory");
    return NULL;
  }
  r->m->functions = more;
  more[r->m->n_functions++] = f;
  f->name = name;
  f->module = r->m;
  return f;
}

/* (.param .u64 a, .param .align 8 .b8 b[16]); offsets from *top on. Parameters of an entry are apart from frames. */
static bool read_parameters(ptx_reader *r, bool entry, emu_param **out, uint32_t *n, uint32_t *top) {
  emu_param *list = sn_arena_zero(r->arena, 512, sizeof *list);
  *n = 0;
  *out = list;
  if (!list) return ptx_fail(r, r->line, "out of memory");
  if (!ptx_expect(r, "(")) return false;
  while (!ptx_is(r, ")")) {
    declaration d;
    if (*n == 512) return ptx_fail(r, r->line, "more than 512 parameters");
    if (!ptx_accept(r, ".param")) return ptx_fail(r, r->line, ".param is expected, not '%.*s'", (int)(r->length < 40 ? r->length : 40), r->word);
    if (!read_declaration(r, &d)) return false;
    uint32_t at = aligned(*top, d.align), bytes = d.n_elements * emu_types[d.type].bytes;
    *top = at + bytes;
    list[(*n)++] = (emu_param){d.name, at, bytes};
    if (!add_symbol(r, d.name, entry ? EMU_PARAM : EMU_FRAME_PARAM, at, bytes)) return false;
    if (!ptx_accept(r, ",")) break;
  }
  return ptx_expect(r, ")");
}

static bool read_limits(ptx_reader *r, emu_function *f) {
  int64_t n;
  while (r->kind == PTX_WORD && *r->word == '.') {
    bool most = ptx_is(r, ".maxntid"), exactly = ptx_is(r, ".reqntid"), other = ptx_is(r, ".minnctapersm") || ptx_is(r, ".maxnreg") || ptx_is(r, ".maxclusterrank");
    if (ptx_accept(r, ".noreturn") || ptx_accept(r, ".explicitcluster")) continue;
    if (!most && !exactly && !other) return ptx_fail(r, r->line, "unknown directive %.*s", (int)(r->length < 40 ? r->length : 40), r->word);
    ptx_next(r);
    uint32_t product = 1;
    do {
      if (!ptx_take_integer(r, &n)) return false;
      product *= (uint32_t)n;
    } while (ptx_accept(r, ","));
    if (most) f->max_threads = product;
    if (exactly) f->required_threads = product;
  }
  return true;
}

static bool read_function(ptx_reader *r, bool entry) {
  emu_param *results = NULL, *params = NULL;
  uint32_t n_results = 0, n_params = 0, top = 0;
  uint32_t symbols = r->n_symbols;
  r->scope++;
  if (!entry && ptx_is(r, "(") && !read_parameters(r, false, &results, &n_results, &top)) return false;
  const char *name = ptx_take_word(r);
  if (!name) return false;
  if (ptx_is(r, "(") && !read_parameters(r, entry, &params, &n_params, &top)) return false;
  emu_function *f = function_of(r, name);
  if (!f) return false;
  f->is_entry = entry;
  f->params = params;
  f->n_params = n_params;
  f->results = results;
  f->n_results = n_results;
  f->param_bytes = entry ? top : 0;
  f->max_dynamic_shared = EMU_DYNAMIC_AT;
  if (!read_limits(r, f)) return false;
  if (ptx_accept(r, ";")) {
    r->n_symbols = symbols;
    r->scope--;
    return true;
  }
  if (f->defined) return ptx_fail(r, r->line, "%s is defined twice", name);
  f->frame_bytes = entry ? 0 : aligned(top, 16);
  f->shared_bytes = r->static_shared;
  r->f = f;
  bool ok = read_body(r);
  r->f = NULL;
  return ok;
}

/* ---- the module ---- */

static bool read_target(ptx_reader *r) {
  bool first = true;
  do {
    if (r->kind != PTX_WORD) return ptx_fail(r, r->line, "a target is expected");
    if (first && (r->length < 5 || memcmp(r->word, "sm_", 3) != 0)) return ptx_fail(r, r->line, "'%.*s' is no target", (int)(r->length < 40 ? r->length : 40), r->word);
    if (first) {
      r->m->target = atoi(r->word + 3);
      r->m->arch_specific = r->word[r->length - 1] == 'a';
    }
    first = false;
    ptx_next(r);
  } while (ptx_accept(r, ","));
  return true;
}

static bool read_file(ptx_reader *r) {
  int64_t n;
  if (!ptx_take_integer(r, &n) || r->kind != PTX_STRING) return ptx_fail(r, r->line, ".file has a number and a name");
  ptx_next(r);
  while (ptx_accept(r, ",")) {
    if (!ptx_take_integer(r, &n)) return false;
  }
  return true;
}

static bool read_section(ptx_reader *r) {
  ptx_next(r); /* its name */
  if (!ptx_expect(r, "{")) return false;
  for (int depth = 1; depth > 0; ptx_next(r)) {
    if (r->kind == PTX_END) return ptx_fail(r, r->line, "the text ends inside a section");
    depth += ptx_is(r, "{");
    depth -= ptx_is(r, "}");
  }
  return true;
}

static bool read_top(ptx_reader *r) {
  bool is_extern = false;
  while (ptx_is(r, ".visible") || ptx_is(r, ".extern") || ptx_is(r, ".weak") || ptx_is(r, ".common")) {
    is_extern |= ptx_is(r, ".extern");
    ptx_next(r);
  }
  if (ptx_accept(r, ".entry")) return read_function(r, true);
  if (ptx_accept(r, ".func")) return read_function(r, false);
  if (ptx_accept(r, ".global") || ptx_accept(r, ".const")) return read_global(r);
  if (ptx_accept(r, ".shared")) return read_shared(r, is_extern);
  if (ptx_accept(r, ".target")) return read_target(r);
  if (ptx_accept(r, ".file")) return read_file(r);
  if (ptx_accept(r, ".section")) return read_section(r);
  if (ptx_accept(r, ".pragma")) return skip_to(r, ";");
  if (ptx_accept(r, ".address_size")) {
    int64_t n;
    return ptx_take_integer(r, &n) && (n == 64 || ptx_fail(r, r->line, "addresses of %d bits, not 64", (int)n));
  }
  return ptx_fail(r, r->line, "unknown directive %.*s", (int)(r->length < 40 ? r->length : 40), r->word);
}

static bool read_version(ptx_reader *r) {
  if (!ptx_accept(r, ".version") || r->kind != PTX_NUMBER) return ptx_fail(r, r->line, "this is no PTX: .version is expected first");
  char text[16];
  snprintf(text, sizeof text, "%.*s", (int)(r->length < 15 ? r->length : 15), r->word);
  r->m->version = (int)(atof(text) * 10 + 0.5);
  if (r->m->version > 90) return ptx_fail(r, r->line, "PTX %s is newer than 9.0", text);
  ptx_next(r);
  return true;
}

/* What a call of f may need below its own frame and registers. */
static bool add_depths(ptx_reader *r, emu_function *f, int depth) {
  uint32_t frames = 0, registers = 0;
  if (f->stack_registers) return true;
  if (depth == EMU_MAX_CALLS) return ptx_fail(r, r->line, "%s calls too deep, or itself", f->name);
  for (uint32_t k = 0; k < f->n; k++) {
    emu_function *callee = (emu_function *)f->code[k].callee;
    if (!callee) continue;
    if (!callee->defined) return ptx_fail(r, f->code[k].line, "%s is called and not defined", callee->name);
    if (!add_depths(r, callee, depth + 1)) return false;
    frames = callee->stack_bytes > frames ? callee->stack_bytes : frames;
    registers = callee->stack_registers > registers ? callee->stack_registers : registers;
  }
  f->stack_bytes = aligned(f->frame_bytes, 16) + frames;
  f->stack_registers = f->register_bytes + registers + 64;
  return true;
}

static bool read_module(ptx_reader *r) {
  ptx_next(r);
  if (!read_version(r)) return false;
  while (r->kind != PTX_END) {
    if (!read_top(r)) return false;
  }
  if (!r->m->target) return ptx_fail(r, r->line, "no .target");
  for (uint32_t k = 0; k < r->m->n_functions; k++) {
    if (r->m->functions[k]->defined && !add_depths(r, r->m->functions[k], 0)) return false;
  }
  return true;
}

bool emu_module_read(const char *text, emu_module **out, char *error, size_t error_bytes) {
  ptx_reader r;
  sn_arena *arena = NULL;
  memset(&r, 0, sizeof r);
  *out = NULL;
  r.at = text;
  r.line = 1;
  r.error = error;
  r.error_bytes = error_bytes;
  if (sn_arena_create(&arena) != SN_OK || !(r.m = SN_NEW(arena, emu_module)) || sn_arena_create(&r.scratch) != SN_OK || sn_map_create(&r.labels) != SN_OK || sn_map_create(&r.pool) != SN_OK) {
    ptx_fail(&r, 0, "out of memory");
  } else {
    r.arena = r.m->arena = arena;
    if ((r.m->text = sn_arena_string(arena, text))) read_module(&r);
    else ptx_fail(&r, 0, "out of memory");
    emu_function **functions = sn_arena_zero(arena, r.m->n_functions + 1u, sizeof *functions);
    uint64_t *globals = sn_arena_zero(arena, r.m->n_globals + 1u, sizeof *globals);
    if (functions && r.m->n_functions) memcpy(functions, r.m->functions, r.m->n_functions * sizeof *functions);
    if (globals && r.m->n_globals) memcpy(globals, r.m->globals, r.m->n_globals * sizeof *globals);
    r.m->functions = functions;
    r.m->globals = globals;
    if (!functions || !globals) ptx_fail(&r, 0, "out of memory");
  }
  sn_map_destroy(r.labels);
  sn_map_destroy(r.pool);
  sn_arena_destroy(r.scratch);
  if (!r.failed) *out = r.m;
  else if (r.m && r.m->arena) emu_module_destroy(r.m);
  else sn_arena_destroy(arena);
  return !r.failed;
}

void emu_module_destroy(emu_module *m) {
  if (!m) return;
  for (uint32_t k = 0; m->functions && k < m->n_functions; k++) sn_free_aligned(m->functions[k]->constants);
  for (uint32_t k = 0; m->globals && k < m->n_globals; k++) emu_memory_free(m->globals[k]);
  sn_arena_destroy(m->arena);
}

emu_function *emu_module_find(const emu_module *m, const char *name) {
  for (uint32_t k = 0; k < m->n_functions; k++) {
    if (m->functions[k]->is_entry && m->functions[k]->defined && strcmp(m->functions[k]->name, name) == 0) return m->functions[k];
  }
  return NULL;
}
