#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""xla_reads_our_text.py SINTER-OPT FORM: XLA's own HLO parser (jaxlib's) reads what sinter-opt --print=FORM writes of every golden file,
and takes it for the same module as the file itself."""
import gzip, os, pathlib, subprocess, sys


def not_run(why):
    print(f"not run: xla-reads-our-text: {why}")
    sys.exit(77)


try:
    from jaxlib import _hlo
except Exception as e:  # a broken package fails in many ways
    not_run(f"jaxlib's HLO parser: {type(e).__name__}: {e} (pip install jax)")

golden = pathlib.Path(os.environ.get("SINTER_GOLDEN_DIR") or pathlib.Path(os.environ["SINTER_TEST_DATA"]) / "golden")
tool, form = sys.argv[1:]


def as_xla_prints(text):
    options = _hlo.HloPrintOptions.short_parsable() if form == "short" else _hlo.HloPrintOptions()
    options.print_large_constants = True
    return _hlo.hlo_module_from_text(text).to_string(options)


def first_difference(a, b):
    for n, (x, y) in enumerate(zip(a.splitlines(), b.splitlines()), 1):
        if x != y:
            return f"line {n}:\n  file: {x[:300]}\n  ours: {y[:300]}"
    return "one is longer"


n_read, bad = 0, []
files = sorted(p for p in (golden / "hlo").iterdir() if p.name.endswith((".hlo", ".hlo.gz")))
for path in files:
    text = (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8").read()
    ours = subprocess.run([tool, f"--print={form}", path], capture_output=True, encoding="utf-8")
    if ours.returncode != 0:
        bad.append(f"{path.name}: sinter-opt: {ours.stderr.strip()}")
        continue
    try:
        want, got = as_xla_prints(text), as_xla_prints(ours.stdout)
    except Exception as e:
        bad.append(f"{path.name}: XLA's parser: {e}")
        continue
    if want != got:
        bad.append(f"{path.name}: read as another module, {first_difference(want, got)}")
    n_read += 1

print(*bad, sep="\n")
print(f"{n_read} of {len(files)} files read, {len(bad)} bad")
sys.exit(1 if bad or not files else 0)
