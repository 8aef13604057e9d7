#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""stablehlo_reads_our_programs.py SINTER-OPT: jaxlib's StableHLO reads the text and the portable bytecode that sinter-opt writes of every golden program,
verifies both and takes them for the same module."""
import os, pathlib, subprocess, sys


def not_run(why):
    print(f"not run: stablehlo-reads-our-programs: {why}")
    sys.exit(77)


try:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, stablehlo
except Exception as e:  # a broken package fails in many ways
    not_run(f"jaxlib's MLIR: {type(e).__name__}: {e} (pip install jax)")

golden = pathlib.Path(os.environ.get("SINTER_GOLDEN_DIR") or pathlib.Path(os.environ["SINTER_TEST_DATA"]) / "golden")
tool = sys.argv[1]
current = stablehlo.get_current_version()


def make_context():
    context, registry = ir.Context(), ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    return context


def written(path, *options):
    run = subprocess.run([tool, *options, path], capture_output=True)
    if run.returncode != 0:
        raise RuntimeError(f"sinter-opt {' '.join(options)}: {run.stderr.decode(errors='replace').strip()}")
    return run.stdout


def as_mlir_prints(module):
    module = module if isinstance(module, ir.Module) else ir.Module.parse(module)
    module.operation.verify()
    return module.operation.get_asm()


def first_difference(a, b):
    for n, (x, y) in enumerate(zip(a.splitlines(), b.splitlines()), 1):
        if x != y:
            return f"line {n}:\n  text:     {x[:300]}\n  bytecode: {y[:300]}"
    return "one is longer"


n_read, bad = 0, []
files = sorted(p for p in (golden / "stablehlo").iterdir() if p.name.endswith((".mlir", ".mlir.gz")))
for path in files:
    context = make_context()
    try:
        with context:
            text = as_mlir_prints(ir.Module.parse(written(path, "--print=stablehlo").decode()))
            for version in (current, "1.6.0"):  # an old one that has all these programs need
                artifact = written(path, "--print=stablehlo-bytecode", f"--stablehlo-version={version}")
                read = as_mlir_prints(stablehlo.deserialize_portable_artifact(context, artifact))
                if read != text:
                    bad.append(f"{path.name}, StableHLO {version}: {first_difference(text, read)}")
        n_read += 1
    except Exception as e:
        bad.append(f"{path.name}: {str(e)[:600]}")

print(*bad, sep="\n")
print(f"{n_read} of {len(files)} programs read, {len(bad)} bad, by StableHLO {current}")
sys.exit(1 if bad or not files else 0)
