/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the tools read: a file of one or several modules, plain or gzipped, whatever its name. */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include "options.h"
#include "sinter/ir.h"

typedef struct sn_source {
  const char *name; /* as messages call it; borrowed */
  char *text;       /* the whole, decompressed, NUL-terminated */
  size_t n_bytes;
  bool split;       /* `// -----` lines end a module */
  size_t at;        /* where the next module begins */
  uint32_t line;    /* lines in front of it */
  bool more;        /* is there one? */
  char *part;       /* the module being read, behind as many empty lines as stand before it in the file, so that its line numbers are the file's */
} sn_source;

/* "-": standard input. Zero-initialised by this call; finish it also after a failure. */
SN_NODISCARD sn_status sn_source_open(sn_diag *d, const char *path, bool split, sn_source *out);
/* The next module, parsed and verified; false: there are no more. A bad module gives its status and the walk goes on. The source must outlive what d prints. */
bool sn_source_next(sn_diag *d, sn_source *s, sn_status *status, sn_module **out);
void sn_source_finish(sn_source *s);

/* The only module of a file: SN_ERR_USAGE when there are several. */
SN_NODISCARD sn_status sn_source_read_one(sn_diag *d, const char *path, bool split, sn_source *s, sn_module **out);
/* The same for a source that was opened. */
SN_NODISCARD sn_status sn_source_only(sn_diag *d, sn_source *s, sn_module **out);

#endif
