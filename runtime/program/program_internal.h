/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of runtime/program share.
 *
 * Image (little-endian):   header | meta | pad | code | pad | constants
 * meta is a stream of u32, u64 and strings that image_write.c writes and image_read.c reads in the same order; code and constants begin on pages. */
#ifndef SINTER_PROGRAM_INTERNAL_H
#define SINTER_PROGRAM_INTERNAL_H

#include "sinter/program.h"

#define SN_PAGE 4096
#define SN_IMAGE_MAGIC "SINTRPRG"
/* Commands nest (while in while in conditional …) no deeper than this. */
#define SN_MAX_NESTING 64

typedef struct sn_image_header {
  char magic[8];
  uint32_t abi, header_bytes;
  uint64_t file_bytes, checksum; /* checksum: sn_program_image_checksum */
  uint64_t meta_offset, meta_bytes, code_offset, code_bytes, constants_offset, constants_bytes;
} sn_image_header;

struct sn_program {
  int32_t references; /* atomic */
  sn_arena *arena;    /* the tables below */
  void *image;        /* owned copy; NULL: mapped */
  sn_file_map map;
  const uint8_t *bytes;
  size_t n_bytes;
  void *code; /* executable copy */
  size_t code_bytes;
  const char *name, *target, *device;
  uint32_t n_isa;
  const char **isa;
  uint32_t n_arguments, n_results, n_constants, n_kernels, n_commands;
  sn_program_leaf *arguments, *results;
  const uint8_t **constants;
  int64_t *constant_bytes;
  sn_program_kernel *kernels;
  sn_command *commands;
  int64_t arena_bytes, scratch_bytes; /* scratch: the most any kernel wants */
  bool result_is_tuple;
};

/* Of the whole image, which holds a header at least, its checksum taken as 0: a flipped offset would call another place in the code. */
uint64_t sn_program_image_checksum(const uint8_t *image, size_t n_bytes);
sn_status sn_program_image_write(sn_diag *d, const sn_program_spec *s, uint8_t **out, size_t *n_bytes); /* freed by sn_free_aligned */
/* Reads and checks everything into p's tables; p->bytes, p->n_bytes and p->arena are set. `name`: for messages. */
sn_status sn_program_image_read(sn_diag *d, const char *name, sn_program *p);
/* Can this processor run it? */
sn_status sn_program_check_isa(sn_diag *d, const char *name, const sn_program *p);
/* The table of imports.def. */
const void *const *sn_imports(void);
sn_program *sn_context_program(const sn_context *c);
/* Does this CPU have the feature? Unknown names: no. */
bool sn_isa_supported(const char *feature);

#endif
