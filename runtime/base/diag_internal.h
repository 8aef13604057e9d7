/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The collector's insides, for diag.c and diag_print.c alone. */
#ifndef SINTER_BASE_DIAG_INTERNAL_H
#define SINTER_BASE_DIAG_INTERNAL_H

#include "base_internal.h"

typedef struct diag_source {
  char *name;       /* owned */
  const char *text; /* the caller's */
  size_t n_bytes;
} diag_source;

typedef struct diag_entry {
  sn_diagnostic shown;
  size_t context_bytes; /* of shown.context; it may hold NULs */
  size_t context_from;  /* where in the line it starts */
  bool context_more;    /* the line goes on behind it */
} diag_entry;

struct sn_diag {
  diag_entry *entries;
  size_t n, cap;
  size_t limit;
  size_t counts[SN_ERROR + 1]; /* reported, by severity */
  size_t stored[SN_ERROR + 1]; /* kept, by severity */
  bool last_stored;            /* the latest warning or error was kept: its notes may follow */
  bool hint_open;              /* the latest diagnostic was kept: a hint may follow */
  diag_source *sources;
  size_t n_sources;
  sn_arena *strings;
};

#endif
