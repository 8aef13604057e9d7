/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Hugging Face model folders, and the state of a run that can be continued to the bit. */
#ifndef SINTER_CHECKPOINT_H
#define SINTER_CHECKPOINT_H

#include "sinter/files.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- model folders ------------------------------------------------------------------------------------------------- */

/* Weights of a folder (model.safetensors, or the parts that model.safetensors.index.json names) or of one file. *file: what was read, for messages;
 * freed by sn_free. */
SN_NODISCARD sn_status sn_weights_read(sn_diag *d, const char *path, sn_bundle **out, char **file);
/* DIR/model.safetensors, as save_pretrained writes it (metadata format: pt). The folder is made; the file is replaced in one step. */
SN_NODISCARD sn_status sn_weights_write(sn_diag *d, const char *dir, const sn_bundle *weights);

/* ---- runs ------------------------------------------------------------------------------------------------------------- */

/* DIR/run/step-000000001234.safetensors: arrays by name, and numbers in the metadata. */
typedef struct sn_run_state {
  sn_bundle *arrays;   /* parameters as "param/NAME", optimiser's state as "state/NAME", whatever else the trainer keeps */
  int64_t step;        /* steps done */
  int64_t epoch, batch; /* data position: the next batch */
  uint64_t seed;
  char *path;          /* of the file, after loading */
} sn_run_state;
void sn_run_state_finish(sn_run_state *s); /* arrays and path */

/* Writes the state under its step's name: a temporary, flushed, renamed; then all but the last `keep` states are removed. When it fails (a full disk), the
 * older states are untouched. */
SN_NODISCARD sn_status sn_run_save(sn_diag *d, const char *dir, const sn_run_state *s, int keep);

/* The first state of a run that begins anew: when it is written, all others of the folder go. */
SN_NODISCARD sn_status sn_run_replace(sn_diag *d, const char *dir, const sn_run_state *s);

/* Does the state belong to this run? Reports why not. */
typedef sn_status (*sn_run_accept)(void *ctx, sn_diag *d, const sn_run_state *s);
/* The newest state that is whole (its checksum fits) and accepted (NULL: any). One that is torn or foreign is refused with a warning that says why, and the
 * one before it is tried. SN_ERR_IO: there is none at all; SN_ERR_CORRUPT: none is usable. */
SN_NODISCARD sn_status sn_run_load(sn_diag *d, const char *dir, sn_run_accept accept, void *ctx, sn_run_state *out);
/* Is there any state in DIR? */
bool sn_run_exists(const char *dir);

#ifdef __cplusplus
}
#endif
#endif
