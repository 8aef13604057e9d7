/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ahead-of-time artefacts: programs as objects and shared libraries, with a header beside them. */
#ifndef SINTER_EMIT_H
#define SINTER_EMIT_H

#include "sinter/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sn_artefact { SN_ARTEFACT_OBJECT, SN_ARTEFACT_SHARED } sn_artefact;

/* Code that needs no runtime, from sn_compile_report. */
typedef struct sn_alone { const void *code; int64_t bytes, entry, work_bytes; } sn_alone;

/* Writes `path`, an ELF file (.o or .so) for the program's own target, whatever machine this is, and beside it a C header, the same path with the ending .h:
 *
 *   NAME_program, NAME_program_bytes     the program's image, for sn_program_read_memory; NAME: the file's, as a C identifier
 *   NAME_load(diag, &program)            does so
 *
 * What links it needs libsinter-runtime, no compiler. Device programs too.
 * With `alone` the file holds that code instead, and what links it needs nothing: the header has NAME_run, NAME_WORK_BYTES. SN_ERR_IO, SN_ERR_MEMORY. */
SN_NODISCARD sn_status sn_artefact_write(sn_diag *d, const sn_program *p, const sn_alone *alone, sn_artefact kind, const char *path);

/* ---- ELF ---- */

typedef struct sn_elf_section { const char *name; const void *data; uint64_t bytes, align; bool code; } sn_elf_section;
typedef struct sn_elf_symbol { const char *name; int section; uint64_t offset, bytes; bool function; } sn_elf_symbol; /* global */
typedef struct sn_elf_spec {
  const char *soname;         /* NULL: a relocatable object; else a shared library of that name */
  bool aarch64;               /* else x86-64 */
  int n_sections, n_symbols;
  const sn_elf_section *sections;
  const sn_elf_symbol *symbols;
} sn_elf_spec;
/* Sections without relocations. `to` fails when memory lacks. */
void sn_elf_print(sn_str *to, const sn_elf_spec *s);

#ifdef __cplusplus
}
#endif
#endif
