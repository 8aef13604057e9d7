# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the peers' scripts share: arguments, samples, the answer as one line of JSON."""
import json
import sys
import time


def arguments():
    """PEER MODEL BATCH STEPS WARMUP THREADS"""
    peer, model = sys.argv[1:3]
    return (peer, model, *(int(a) for a in sys.argv[3:7]))


def rss_peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def not_run(peer, why):
    print(json.dumps({"peer": peer, "not_run": " ".join(str(why).split())[:160]}), flush=True)
    sys.exit(0)


def sample(step, sync, calls):
    start = time.perf_counter()
    for _ in range(calls):
        result = step()
    sync(result)
    return (time.perf_counter() - start) / calls


def measure(peer, step, sync, steps, warmup, compile_s=0.0):
    """Calls shorter than a millisecond are timed several at once, as sinter-bench does; each sample waits for its last result."""
    calls, once = 1, sample(step, sync, 1)
    once = sample(step, sync, 1)
    while once * calls < 1e-3 and calls < 1 << 20:
        once = sample(step, sync, calls)
        if once * calls < 1e-3:
            calls *= 2
    times = [sample(step, sync, calls) for _ in range(steps)][warmup:]
    ordered = sorted(times)
    n = len(times)
    print(json.dumps({
        "peer": peer, "compile_s": compile_s, "steps": n, "calls": calls, "rss_peak_bytes": rss_peak(),
        "step_s": {"mean": sum(times) / n, "best": ordered[0], "p50": ordered[(n - 1) // 2], "p95": ordered[-(-95 * n // 100) - 1]},
    }), flush=True)
