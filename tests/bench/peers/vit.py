# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ViT experiment: Hugging Face's ViT-Base/16 (eager attention, no dropout), random images, cross-entropy, SGD 1e-3.
usage: vit.py {jax,torch,torch-compile} vit-b16 BATCH STEPS WARMUP THREADS"""
import time

import report


def config():
    from transformers import ViTConfig
    return ViTConfig(num_labels=1000, attn_implementation="eager", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def run_jax(batch, steps, warmup):
    import jax
    import jax.numpy as jnp
    import optax
    from transformers import FlaxViTForImageClassification
    model = FlaxViTForImageClassification(config(), input_shape=(1, 224, 224, 3), seed=0)
    tx = optax.sgd(1e-3)

    def loss_fn(p, x, y):
        logits = model.module.apply({"params": p}, x, deterministic=True).logits
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    def step(p, o, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(p, x, y)
        updates, o = tx.update(grads, o, p)
        return optax.apply_updates(p, updates), o, loss

    x = jax.random.normal(jax.random.PRNGKey(0), (batch, 224, 224, 3))
    y = jnp.arange(batch) % 1000
    state = [model.params, tx.init(model.params)]
    start = time.perf_counter()
    compiled = jax.jit(step, donate_argnums=(0, 1)).lower(*state, x, y).compile()
    compile_s = time.perf_counter() - start

    def once():
        state[0], state[1], loss = compiled(*state, x, y)
        return loss

    report.measure("jax " + jax.__version__, once, jax.block_until_ready, steps, warmup, compile_s)


def run_torch(batch, steps, warmup, threads, compiled):
    import torch
    from transformers import ViTForImageClassification
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = ViTForImageClassification(config())
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(batch, 3, 224, 224), torch.arange(batch) % 1000
    forward = torch.compile(model) if compiled else model

    def once():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(forward(pixel_values=x).logits, y)
        loss.backward()
        optimizer.step()
        return loss

    start = time.perf_counter()
    if compiled:
        once()
    name = "torch " + torch.__version__.split("+")[0] + (" compiled" if compiled else "")
    report.measure(name, once, lambda loss: loss.item(), steps, warmup, time.perf_counter() - start if compiled else 0.0)


def main():
    peer, _, batch, steps, warmup, threads = report.arguments()
    try:
        if peer == "jax":
            run_jax(batch, steps, warmup)
        elif peer in ("torch", "torch-compile"):
            run_torch(batch, steps, warmup, threads, peer != "torch")
        else:
            report.not_run(peer, "the peers are jax, torch and torch-compile")
    except Exception as e:  # not installed, or of a version that lacks the model: said, and not a failure of the benchmark
        report.not_run(peer, f"{type(e).__name__}: {e}")


main()
