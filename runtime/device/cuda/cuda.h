/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the CUDA driver share. */
#ifndef SINTER_CUDA_H
#define SINTER_CUDA_H

#include <stdatomic.h>

#include "cuda_api.h"
#include "program_internal.h"
#include "sinter/library.h"

typedef struct cuda_kernel {
  cu_module module;
  cu_function *functions; /* by phase */
} cuda_kernel;

/* A program made ready on one device: modules, all memory, the recorded step. */
typedef struct cuda_state {
  cuda_api api;
  const sn_program *program;
  sn_context_options options;
  cu_device device;
  cu_context context;
  cu_stream stream;
  char device_name[128];
  int major, minor;
  cuda_kernel *kernels;
  cu_address memory;      /* one piece for everything */
  size_t memory_bytes;
  cu_address *bases;      /* arena, constants, arguments, results: as slices name them */
  cu_address scratch, tickets;
  int64_t n_tickets;      /* the most that a launch takes */
  cu_address *buffers;    /* of the command being launched, with room for scratch and tickets */
  void **pointers;        /* to those */
  uint8_t *staging;       /* pinned: where the host works on the buffers of what only it can run; NULL: there is none */
  void **staged;          /* those buffers */
  cu_graph_exec graph;    /* the whole step, once it has run; NULL: commands that the host must look at stand in it */
  cu_event events[2];
  sn_cublaslt *library;   /* NULL: not there, or not needed */
  const sn_cublaslt_product **products; /* by command; NULL: its kernel runs */
  bool control;           /* the host comes in between: loops, branches, foreign calls */
  bool waits;             /* after each command: profiles, SINTER_CUDA_SYNC */
  atomic_bool cancelled;
} cuda_state;

/* cuda_load.c */
sn_status sn_cuda_load_modules(sn_diag *d, cuda_state *c);
sn_status sn_cuda_make_memory(sn_diag *d, cuda_state *c);

/* cuda_library.c */
sn_status sn_cuda_open_library(sn_diag *d, cuda_state *c); /* and makes the program's calls ready; without it all is well too */
sn_status sn_cuda_run_library(sn_diag *d, cuda_state *c, const sn_command *m, const cu_address *at); /* at: of its slices */
void sn_cuda_close_library(cuda_state *c);

/* cuda_run.c */
bool sn_cuda_is_foreign(const sn_command *m); /* run by the host, on copies */
sn_status sn_cuda_run(sn_diag *d, cuda_state *c, void *const *arguments, void *const *results);

#endif
