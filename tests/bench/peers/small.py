# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The small experiments: linear regression 100-10 (MSE, SGD), linear 100-10 (cross-entropy, Adam), MLP 784-256-10 (MSE, Adam), products of 1024 x 1024 in a
row, x + 1.
usage: small.py {jax,torch,torch-compile} {linear-regression,linear,mlp,matmul,scalar} BATCH STEPS WARMUP THREADS"""
import time

import report


def jax_steps(model, batch):
    """A function of no arguments; state goes round through donated buffers."""
    import jax
    import jax.numpy as jnp
    import optax
    k = jax.random.split(jax.random.PRNGKey(0), 8)
    if model == "scalar":
        f, s = jax.jit(lambda x: x + 1), jnp.float32(0)
        return lambda: f(s)
    if model == "matmul":
        a, b = jax.random.normal(k[0], (1024, 1024)), jax.random.normal(k[1], (1024, 1024)) / 32

        def chain(x):
            for _ in range(batch):
                x = x @ b
            return x
        f = jax.jit(chain)
        return lambda: f(a)
    sizes = [784, 256, 10] if model == "mlp" else [100, 10]
    p = {}
    for i in range(len(sizes) - 1):
        p[f"w{i}"], p[f"b{i}"] = jax.random.normal(k[i], (sizes[i], sizes[i + 1])) * 0.05, jnp.zeros(sizes[i + 1])
    x = jax.random.normal(k[5], (batch, sizes[0]))
    y = jax.random.randint(k[6], (batch,), 0, 10) if model == "linear" else jax.random.normal(k[6], (batch, 10))
    tx = optax.sgd(1e-3) if model == "linear-regression" else optax.adam(1e-3)

    def loss_fn(p):
        h = x
        for i in range(len(sizes) - 1):
            h = (jax.nn.relu(h) if i else h) @ p[f"w{i}"] + p[f"b{i}"]
        return optax.softmax_cross_entropy_with_integer_labels(h, y).mean() if model == "linear" else jnp.mean((h - y) ** 2)

    def step(p, o):
        loss, grads = jax.value_and_grad(loss_fn)(p)
        updates, o = tx.update(grads, o, p)
        return optax.apply_updates(p, updates), o, loss

    f, state = jax.jit(step, donate_argnums=(0, 1)), [p, tx.init(p)]

    def once():
        state[0], state[1], loss = f(*state)
        return loss
    return once


def torch_steps(model, batch, threads, compiled):
    import torch
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    wrap = torch.compile if compiled else (lambda f: f)
    if model == "scalar":
        f, z = wrap(lambda x: x + 1), torch.zeros(())
        return lambda: f(z)
    if model == "matmul":
        a, b = torch.randn(1024, 1024), torch.randn(1024, 1024) / 32

        def chain(x):
            for _ in range(batch):
                x = x @ b
            return x
        f = wrap(chain)
        return lambda: f(a)
    nn, F = torch.nn, torch.nn.functional
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)) if model == "mlp" else nn.Linear(100, 10)
    x = torch.randn(batch, 784 if model == "mlp" else 100)
    y = torch.randint(0, 10, (batch,)) if model == "linear" else torch.randn(batch, 10)
    loss_fn = F.cross_entropy if model == "linear" else F.mse_loss
    optimizer = torch.optim.SGD(net.parameters(), 1e-3) if model == "linear-regression" else torch.optim.Adam(net.parameters(), 1e-3)
    forward = wrap(net)

    def once():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return once


def main():
    peer, model, batch, steps, warmup, threads = report.arguments()
    try:
        if peer == "jax":
            import jax
            name, once, sync = "jax " + jax.__version__, jax_steps(model, batch), jax.block_until_ready
        elif peer in ("torch", "torch-compile"):
            import torch
            name = "torch " + torch.__version__.split("+")[0] + (" compiled" if peer != "torch" else "")
            once, sync = torch_steps(model, batch, threads, peer != "torch"), lambda r: None
        else:
            report.not_run(peer, "the peers are jax, torch and torch-compile")
        start = time.perf_counter()
        sync(once())
        report.measure(name, once, sync, steps, warmup, time.perf_counter() - start if peer != "torch" else 0.0)
    except Exception as e:  # not installed, or too old: said, and not a failure of the benchmark
        report.not_run(peer, f"{type(e).__name__}: {e}")


main()
