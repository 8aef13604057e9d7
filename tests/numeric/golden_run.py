#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""golden_run.py SINTER-RUN ENGINE [DEVICE [KIND]]: every golden program with inputs gives its expected outputs, each within its own tolerance, from the text before and after
XLA's optimisation; those for eight devices from the text after it, by the interpreter's simulated partitions."""
import json, os, pathlib, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

tool, engine = sys.argv[1:3]
device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
kinds = sys.argv[4:5] or ["before", "after"]

golden = pathlib.Path(os.environ.get("SINTER_GOLDEN_DIR") or pathlib.Path(os.environ["SINTER_TEST_DATA"]) / "golden")
programs = json.loads((golden / "index.json").read_text())["programs"]


def runs():
    for name, p in programs.items():
        if "io" not in p["files"]:
            continue
        if p["devices"] == 1:
            for kind in kinds:
                yield name, p, kind
        elif engine == "interpreter":
            yield name, p, "after"


def run(job):
    name, p, kind = job
    io = golden / p["files"]["io"]
    command = [tool, golden / p["files"][kind], f"--engine={engine}", f"--device={device}", f"--input={io}", f"--compare={io}", f"--tolerances={golden}/index.json:{name}"]
    if p["devices"] > 1:
        command.append(f"--partitions={p['devices']}")
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode == 0:
        return None
    if device == "cuda" and ("NVRTC" in done.stderr and "not found" in done.stderr or "no CUDA driver" in done.stderr):
        return "not run: golden-run on cuda: " + done.stderr.splitlines()[0]
    wrong = [line for line in (done.stderr + done.stdout).splitlines() if ": ok" not in line]
    return f"{name} ({kind}): exit {done.returncode}\n  " + "\n  ".join(wrong[:6])


jobs = list(runs())
with ThreadPoolExecutor(2) as pool:
    bad = [report for report in pool.map(run, jobs) if report]
if bad and bad[0].startswith("not run: "):
    print(bad[0])
    sys.exit(77)
print(*bad, sep="\n")
print(f"{len(jobs)} runs, {len(bad)} bad")
sys.exit(1 if bad or not jobs else 0)
