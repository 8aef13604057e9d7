/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Commands that a foreign library may run. Where it is missing, or has no algorithm for one, the command's kernel runs instead. */
#include "cuda.h"

static bool calls_library(const sn_program *p) {
  for (uint32_t i = 0; i < p->n_commands; i++) {
    if (p->commands[i].kind == SN_COMMAND_LIBRARY) return true;
  }
  return false;
}

/* Sizes are a program's own claim: its buffers must hold what the library will touch. */
static bool fits(const sn_program *p, const sn_command *m, const sn_library_product *q) {
  int64_t in = (int64_t)sn_type_bytes(q->operand), out = (int64_t)sn_type_bytes(q->result), most = INT64_MAX / 8;
  if (m->n_slices < 3 || q->m > most / q->batch / q->k || q->n > most / q->batch / q->k || q->m > most / q->batch / q->n) return false;
  return m->slices[0].bytes == q->batch * q->m * q->k * in && m->slices[1].bytes == q->batch * q->k * q->n * in && m->slices[2].bytes == q->batch * q->m * q->n * out &&
         q->workspace <= p->kernels[m->kernel].scratch_bytes;
}

static sn_status prepare(sn_diag *d, cuda_state *c, const sn_command *m, const sn_cublaslt_product **out) {
  sn_library_product q;
  sn_diag *quiet = NULL;
  if (sn_library_find(m->target) != SN_LIBRARY_PRODUCT) return SN_OK; /* a later program's: its kernel does */
  if (!sn_library_product_parse(m->config, &q) || !fits(c->program, m, &q)) {
    return sn_error(d, (sn_loc){m->name, 0, 0}, SN_ERR_CORRUPT, "a call to %s that is not one of its buffers: %s", m->target, m->config ? m->config : "nothing recorded");
  }
  SN_TRY(sn_diag_create(&quiet));
  sn_status s = sn_cublaslt_prepare(quiet, c->library, &q, out);
  sn_diag_destroy(quiet);
  if (s != SN_ERR_UNSUPPORTED) return s == SN_OK ? SN_OK : sn_error(d, (sn_loc){m->name, 0, 0}, s, "cuBLASLt could not be made ready for %s", m->config);
  sn_note(d, (sn_loc){m->name, 0, 0}, "cuBLASLt has no algorithm for %s: the program's own kernel runs", m->config);
  return SN_OK;
}

sn_status sn_cuda_open_library(sn_diag *d, cuda_state *c) {
  const sn_program *p = c->program;
  sn_diag *quiet = NULL;
  if (!calls_library(p)) return SN_OK;
  c->products = sn_alloc_zero(p->n_commands + 1u, sizeof *c->products);
  if (!c->products) return sn_out_of_memory(d, p->n_commands * sizeof *c->products);
  SN_TRY(sn_diag_create(&quiet));
  sn_status s = sn_cublaslt_open(quiet, &c->library);
  if (s == SN_ERR_UNAVAILABLE) {
    sn_note(d, (sn_loc){sn_program_name(p), 0, 0}, "cuBLASLt is not there: the program's own kernels multiply instead (SINTER_LIBCUBLASLT names another library)");
  }
  sn_diag_destroy(quiet);
  if (s == SN_ERR_UNAVAILABLE) return SN_OK;
  if (s != SN_OK) return sn_cublaslt_open(d, &c->library); /* again, for its message */
  for (uint32_t i = 0; i < p->n_commands; i++) {
    if (p->commands[i].kind == SN_COMMAND_LIBRARY) SN_TRY(prepare(d, c, &p->commands[i], &c->products[i]));
  }
  return SN_OK;
}

sn_status sn_cuda_run_library(sn_diag *d, cuda_state *c, const sn_command *m, const cu_address *at) {
  return sn_cublaslt_run(d, c->library, c->products[m - c->program->commands], at[0], at[1], at[2], c->scratch, c->stream, m->name);
}

void sn_cuda_close_library(cuda_state *c) {
  sn_cublaslt_close(c->library);
  sn_free(c->products);
}
