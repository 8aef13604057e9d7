#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""traffic.py SINTER-RUN [FILE.hlo]: what kernels of the usual kinds ask of memory, by the emulator's counters. Of each kernel: sectors of 32 bytes moved over the fewest that
could hold what was asked for, passes over the banks of shared memory over the fewest, bytes moved over what the program must read and write. Exits 1 where one is above its
bound, 77 where NVRTC is missing. With a file: its kernels as a table, judging nothing."""
import json, os, pathlib, subprocess, sys, tempfile

tool = sys.argv[1]
REDUCER = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\nmost { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n"
SOFTMAX = """x = f32[256,768] parameter(0) c = f32[] constant(-inf) m = f32[256] reduce(x, c), dimensions={1}, to_apply=most mb = f32[256,768] broadcast(m), dimensions={0}
  d = f32[256,768] subtract(x, mb) e = f32[256,768] exponential(d) z = f32[] constant(0) s = f32[256] reduce(e, z), dimensions={1}, to_apply=add
  sb = f32[256,768] broadcast(s), dimensions={0} ROOT r = f32[256,768] divide(e, sb)"""
# name, body of the entry, bounds: sectors, passes, bytes over compulsory ones (the plan's arguments and results, each once)
CASES = [
    ("elementwise", "x = f32[256,768] parameter(0) y = f32[256,768] parameter(1) s = f32[256,768] add(x, y) ROOT r = f32[256,768] tanh(s)", 1, 1, 1),
    ("bias", "x = f32[256,768] parameter(0) b = f32[768] parameter(1) c = f32[256,768] broadcast(b), dimensions={1} ROOT r = f32[256,768] add(x, c)", 1, 1, 1.5),
    ("row_sums", "x = f32[256,768] parameter(0) z = f32[] constant(0) ROOT r = f32[256] reduce(x, z), dimensions={1}, to_apply=add", 1, 1, 1.05),
    ("column_sums", "x = f32[768,256] parameter(0) z = f32[] constant(0) ROOT r = f32[256] reduce(x, z), dimensions={0}, to_apply=add", 1, 1, 1.3),
    ("bias_gradient", "x = f32[8,4,100,64] parameter(0) z = f32[] constant(0) r = f32[4,64] reduce(x, z), dimensions={0,2}, to_apply=add n = f32[4,64] negate(r) "
     "ROOT m = f32[256] reshape(n)", 1, 1, 1.1),
    ("softmax", SOFTMAX, 1, 1, 1),
    ("transpose", "x = f32[256,768] parameter(0) ROOT r = f32[768,256] transpose(x), dimensions={1,0}", 1, 1, 1),
    ("heads", "x = f32[4,64,6,64] parameter(0) y = f32[4,6,64,64] parameter(1) t = f32[4,6,64,64] transpose(x), dimensions={0,2,3,1} ROOT r = f32[4,6,64,64] add(t, y)", 1, 1, 1),
    # one tile
    *[(f"product_{kind}_{l}{r}", f"x = {kind}[{'64,128' if l else '128,64'}] parameter(0) y = {kind}[{'64,128' if r else '128,64'}] parameter(1) "
       f"ROOT r = f32[64,64] dot(x, y), lhs_contracting_dims={{{l}}}, rhs_contracting_dims={{{r}}}{algorithm}", 1, 1, 1)
      for kind, algorithm in (("f32", ", algorithm=dot_tf32_tf32_f32"), ("f16", ""), ("bf16", "")) for l in (0, 1) for r in (0, 1)],
    ("halves", "x = f16[256,768] parameter(0) y = f16[256,768] parameter(1) ROOT r = f16[256,768] multiply(x, y)", 1, 1, 1),
]
KEPT = {"f32": 4, "f16": 2, "bf16": 2}


def report(arguments, text):
    with tempfile.TemporaryDirectory() as folder:
        source, counters = pathlib.Path(folder, "case.hlo"), pathlib.Path(folder, "report")
        source.write_text(text)
        done = subprocess.run([tool, "--device=cuda", source, *arguments], env={**os.environ, "SINTER_EMU_REPORT": str(counters)}, capture_output=True, text=True, errors="replace")
        if "NVRTC" in done.stderr and "not found" in done.stderr:
            print("not run: emulator-traffic: " + done.stderr.splitlines()[0])
            sys.exit(77)
        if done.returncode:
            sys.exit(done.stderr)
        return [json.loads(line) for line in counters.read_text().splitlines()]


def ratio(a, b):
    return a / b if b else 1.0


def measure(k):
    sectors = k["global_load_sectors"] + k["global_store_sectors"]
    return ratio(sectors, k["global_load_ideal"] + k["global_store_ideal"]), ratio(k["shared_wavefronts"], k["shared_ideal"]), 32 * sectors


def compulsory(body):
    """Bytes of the parameters and of the root."""
    total = 0
    for part in body.split("=")[1:]:
        shape, _, op = part.strip().partition(" ")
        if not (op.startswith("parameter(") or "ROOT" in body.split("=" + part)[0].split()[-2:]):
            continue
        kind, _, dims = shape.partition("[")
        size = KEPT[kind]
        for d in dims.rstrip("]").split(","):
            size *= int(d or 1)
        total += size
    return total


if len(sys.argv) > 2:
    rows = report([f"--input=random:{k}" for k in range(1, 2)] + sys.argv[3:], pathlib.Path(sys.argv[2]).read_text())
    for k in sorted(rows, key=lambda k: -measure(k)[2]):
        sectors, passes, moved = measure(k)
        print(f"{k['kernel']:40} {moved / k['launches']:12.0f} bytes a launch  sectors {sectors:5.2f}  passes {passes:5.2f}  {k['lane_instructions'] / k['launches']:12.0f} instructions")
    sys.exit(0)
bad = 0
for name, body, sectors_bound, passes_bound, bytes_bound in CASES:
    rows = report([f"--input=random:{k}" for k in range(1, 1 + body.count("parameter("))], f"HloModule {name}\n{REDUCER if 'to_apply' in body else ''}ENTRY e {{\n  {body}\n}}\n")
    moved = sum(measure(k)[2] for k in rows)
    verdicts = [f"{k['kernel']}: sectors {measure(k)[0]:.3f}, passes {measure(k)[1]:.3f}" for k in rows if measure(k)[0] > sectors_bound or measure(k)[1] > passes_bound]
    if moved > bytes_bound * compulsory(body):
        verdicts.append(f"moves {moved} bytes, {compulsory(body)} are compulsory")
    print(f"{name}: {len(rows)} kernels, {moved / compulsory(body):.2f} of the compulsory bytes{': ' + '; '.join(verdicts) if verdicts else ''}")
    bad += bool(verdicts)
sys.exit(1 if bad else 0)
