/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ops whose family is not interpreted yet: a status that names the op. */
#include "eval_internal.h"

#define PENDING(name)                                                                                            \
  sn_status sn_eval_##name(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {               \
    (void)in;                                                                                                    \
    (void)out;                                                                                                   \
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "not interpreted");                                             \
  }
PENDING(scan)
PENDING(fft)
PENDING(cholesky)
PENDING(triangular_solve)
PENDING(batch_norm_training)
PENDING(batch_norm_inference)
PENDING(batch_norm_grad)
PENDING(rng)
PENDING(rng_bit_generator)
PENDING(rng_state)
PENDING(custom_call)
PENDING(partition_id)
PENDING(replica_id)
PENDING(all_gather)
PENDING(all_reduce)
PENDING(reduce_scatter)
PENDING(collective_reduce)
PENDING(all_to_all)
PENDING(ragged_all_to_all)
PENDING(collective_broadcast)
PENDING(collective_permute)
PENDING(send)
PENDING(send_done)
PENDING(recv)
PENDING(recv_done)
PENDING(infeed)
PENDING(outfeed)
void sn_ev_comm_finish(sn_ev_world *w) { (void)w; }
