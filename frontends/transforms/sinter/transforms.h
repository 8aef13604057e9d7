/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives and batching of what was built on a graph.
 *
 *   sn_tensor loss = model(g, w, batch), dw;
 *   sn_grad(loss, 1, &w, &dw);                 reverse mode: one more walk over the instructions between w and loss
 *
 * Every transform adds plain HLO to the computation under construction, so transforms compose: gradients of gradients, gradients inside a vmap
 * callback, gradients of loops. Rules are rows per op (the diff and batch columns of ops.def). An op without a rule is an error of the graph, located at the
 * line that made the op. Derivatives flow through real and complex floats; integers and predicates have none (a zero tensor of their shape comes out).
 *
 * Complex numbers: for a real loss the gradient with respect to z = x + iy is dL/dx - i dL/dy (the transpose of the real-linear map), as jax.grad has
 * it; z - step * conj(gradient) descends. */
#ifndef SINTER_TRANSFORMS_H
#define SINTER_TRANSFORMS_H

#include "sinter/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients of a scalar real `loss` with respect to n tensors of the same computation (parameters or values in between): out[n], shapes as wrt.
 * A tensor that loss does not depend on gets zeros. */
#define sn_grad(...) sn_grad_at(SN_HERE, __VA_ARGS__)
void sn_grad_at(sn_loc at, sn_tensor loss, int n, const sn_tensor *wrt, sn_tensor *out);

/* Sum over k of the cotangents cts[k] (shape of outs[k]; empty: zero) pulled back to wrt: out[n]. */
#define sn_vjp(...) sn_vjp_at(SN_HERE, __VA_ARGS__)
void sn_vjp_at(sn_loc at, int n_outs, const sn_tensor *outs, const sn_tensor *cts, int n, const sn_tensor *wrt, sn_tensor *out);

/* Tangents of outs when wrt moves along `tangents` (shape of wrt[k]; empty: zero): out[n_outs]. Forward mode: no loop needs a known length. */
#define sn_jvp(...) sn_jvp_at(SN_HERE, __VA_ARGS__)
void sn_jvp_at(sn_loc at, int n_outs, const sn_tensor *outs, int n, const sn_tensor *wrt, const sn_tensor *tangents, sn_tensor *out);

/* fn(in…) -> n_out tensors, the first of which is the scalar loss (the others are passed through, no gradient); gradients of it with respect to the first
 * n_wrt inputs. values[n_out], grads[n_wrt]. */
#define sn_value_and_grad(...) sn_value_and_grad_at(SN_HERE, __VA_ARGS__)
void sn_value_and_grad_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *in, int n_wrt, int n_out, sn_tensor *values, sn_tensor *grads);

/* fn on one example, applied to all along in_axes[k] of in[k] (SN_UNBATCHED: the same tensor for all); results stacked along out_axes[k].
 * in_axes or out_axes NULL: 0 for all. Tensors from outside that fn uses are unbatched. */
#define SN_UNBATCHED INT64_MAX
#define sn_vmap(...) sn_vmap_at(SN_HERE, __VA_ARGS__)
void sn_vmap_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *in, const int64_t *in_axes, int n_out, const int64_t *out_axes, sn_tensor *out);

/* fn(in…), whose inner values are computed again in the backward pass and not kept. The recomputed instructions carry frontend_attributes
 * {sinter.remat="N"} (N: number of the region) and read their inputs through an opt-barrier, so that no pass merges them with the first computation.
 * Regions inside regions belong to the outermost. */
#define sn_checkpoint(...) sn_checkpoint_at(SN_HERE, __VA_ARGS__)
void sn_checkpoint_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *in, int n_out, sn_tensor *out);

/* x, through which no derivative flows. */
#define sn_stop_gradient(...) sn_stop_gradient_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_stop_gradient_at(sn_loc at, sn_tensor x);

/* fn(in…) with a derivative rule of one's own. bwd gets inputs, results and the cotangents of the results (zeros where none flows) and fills the
 * inputs' cotangents in_ct[n_in] (left empty: zero). ctx must live until the graph is finished. Tensors from outside that fn uses get no derivative. */
typedef void (*sn_vjp_fn)(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, int n_out, const sn_tensor *out, const sn_tensor *ct, sn_tensor *in_ct);
#define sn_custom_vjp(...) sn_custom_vjp_at(SN_HERE, __VA_ARGS__)
void sn_custom_vjp_at(sn_loc at, sn_graph *g, sn_fn fn, sn_vjp_fn bwd, void *ctx, int n, const sn_tensor *in, int n_out, sn_tensor *out);
/* The same in forward mode: tangents of the inputs (zeros where none) to tangents of the results. Reverse mode differentiates what fn is made of. */
typedef void (*sn_jvp_fn)(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, const sn_tensor *tangent, int n_out, const sn_tensor *out, sn_tensor *out_tangent);
#define sn_custom_jvp(...) sn_custom_jvp_at(SN_HERE, __VA_ARGS__)
void sn_custom_jvp_at(sn_loc at, sn_graph *g, sn_fn fn, sn_jvp_fn jvp, void *ctx, int n, const sn_tensor *in, int n_out, sn_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
