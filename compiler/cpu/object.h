/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Relocatable ELF objects from LLVM, and the linker that makes one position-independent blob of them. Knows nothing of LLVM or kernels. */
#ifndef SINTER_CPU_OBJECT_H
#define SINTER_CPU_OBJECT_H

#include "sinter/cpu.h"

typedef struct object_section { const uint8_t *data; uint64_t bytes, align; bool code, placed; uint64_t offset; } object_section;
typedef struct object_symbol { const char *name; int section; uint64_t value, bytes; bool local, function; } object_symbol; /* section -1: undefined */
typedef struct object_fixup { int section, symbol; uint32_t type; uint64_t offset; int64_t addend; } object_fixup;

typedef struct object {
  const char *label;    /* for messages */
  uint16_t machine;     /* EM_… */
  int n_sections, n_symbols, n_fixups;
  object_section *sections;
  object_symbol *symbols;
  object_fixup *fixups;
} object;

/* Reads the tables of an ELF64 little-endian relocatable file; `data` must live as long as the object. false: *error says why (in the arena). */
bool object_read(sn_arena *a, const char *label, const void *data, size_t bytes, object *out, const char **error);

/* Lays out all sections that are loaded, code first, and resolves every relocation inside. *code: sn_free_aligned. */
SN_NODISCARD sn_status object_link(sn_arena *a, int n, object *objects, void **code, int64_t *bytes, const char **error);
/* Offset in the blob of a symbol that some object defines; -1: none does. */
int64_t object_find(int n, const object *objects, const char *name);
/* The first undefined symbol that no object defines; NULL: none. */
const char *object_missing(int n, const object *objects, const char **label);

/* object_debug.c: functions and lines of linked objects, and the objects (raw[i]: those that objects[i] was read from) with their places in the blob. All in the arena. */
SN_NODISCARD sn_status object_debug(sn_arena *a, int n, const object *objects, const sn_cpu_object *raw, sn_cpu_debug *out, const char **error);

#endif
