#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""transformers_reads_our_checkpoint.py SINTER-TRAIN LOGITS: Hugging Face loads the folder that sinter-train --checkpoint wrote, without a word about
missing or unexpected weights, and gives the logits that we give; sinter-train reads back what save_pretrained makes of it."""
import os, pathlib, subprocess, sys, tempfile


def not_run(why):
    print(f"not run: transformers-reads-our-checkpoint: {why}")
    sys.exit(77)


try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import ViTForImageClassification
except Exception as e:  # a broken package fails in many ways
    not_run(f"{type(e).__name__}: {e} (pip install transformers torch safetensors)")

# f32 sums of 64 terms through four layers: PyTorch is 1.7e-7 from f64 on such logits (tests/data/golden/README.md), which are below 10 here.
TOLERANCE = 5e-6

train, logits = sys.argv[1:]
digits = pathlib.Path(os.environ["SINTER_TEST_DATA"]) / "digits"


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, encoding="utf-8")
    if done.returncode != 0:
        sys.exit(f"{command[0]} exits with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def compare(folder, work, pixels):
    model, about = ViTForImageClassification.from_pretrained(folder, attn_implementation="eager", output_loading_info=True)
    assert not any(about.values()), f"loading {folder}: {about}"
    with torch.no_grad():
        theirs = model.eval()(pixels).logits
    run(logits, folder, work / "in.safetensors", work / "out.safetensors")
    ours = load_file(work / "out.safetensors")["logits"]
    error = (ours - theirs).abs().max().item()
    print(f"{folder.name}: logits up to {theirs.abs().max().item():.3g}, error {error:.3g}")
    assert ours.shape == theirs.shape and error <= TOLERANCE, f"logits differ by {error}"
    return model


def accuracy(text):
    return text.strip().splitlines()[-1]


with tempfile.TemporaryDirectory() as tmp:
    work = pathlib.Path(tmp)
    torch.manual_seed(0)
    pixels = torch.rand(16, 1, 8, 8) * 2 - 1
    save_file({"pixel_values": pixels}, work / "in.safetensors")
    data = f"--data=digits:{digits}"
    run(train, "--model=vit", f"--config={digits}/config.json", data, "--steps=100", f"--checkpoint={work}/ours", "--seed=3")
    model = compare(work / "ours", work, pixels)
    model.save_pretrained(work / "theirs")
    compare(work / "theirs", work, pixels)
    before, after = (accuracy(run(train, f"--init={work}/{name}", data, "--eval-only")) for name in ("ours", "theirs"))
    print(before, "|", after)
    assert before == after and before.startswith("test accuracy "), "another accuracy after a way through transformers"
