# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_train_kills.py DIGITS N MODEL: sinter-train (of the build's tools on PATH) is killed N times at random moments (SIGKILL: while it reads, compiles,
steps, writes) and resumed each time. Whenever a run comes to its end, its parameters are those of a run that nobody disturbed, bit for bit; then the next begins."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

digits, n_kills, model = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SEED = 4  # of the moments


def command(folder, *more):
    return ["sinter-train", f"--model={model}", f"--data=digits:{digits}", "--seed=3", "--steps=40", "--batch=32", "--ema=0.9", "--save-steps=1", "--keep=2",
            f"--checkpoint={folder}", *more]


def weights(folder):
    with open(f"{folder}/model.safetensors", "rb") as f:
        return f.read()


def states(folder):
    return {(e.name, e.stat().st_mtime_ns) for e in os.scandir(folder)} if os.path.isdir(folder) else set()


def wait(p, folder, moments, whole):
    """Till the moment of the kill: of some runs anywhere in reading and compiling, of most behind the first state that they write, however slow the machine is."""
    early, before = moments.random() < 0.3, states(folder)
    while not early and p.poll() is None and states(folder) == before:
        time.sleep(0.002)
    return moments.uniform(0, (0.6 if early else 0.3) * whole)


def main(out):
    moments = random.Random(SEED)
    start = time.monotonic()
    subprocess.run(command(f"{out}/whole"), check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - start
    want, folder, kills, ends, resumed = weights(f"{out}/whole"), f"{out}/killed", 0, 0, 0
    while kills < n_kills or not ends:
        p = subprocess.Popen(command(folder, "--resume"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        try:
            said, _ = p.communicate(timeout=wait(p, folder, moments, whole) if kills < n_kills else None)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            said, _ = p.communicate()
            kills += 1
        resumed += "continuing" in said
        if p.returncode == -signal.SIGKILL:
            continue
        if p.returncode != 0:
            print(f"after {kills} kills sinter-train exits with {p.returncode}:\n{said}")
            return 1
        if weights(folder) != want:
            print(f"after {kills} kills the parameters are others")
            return 1
        ends += 1
        shutil.rmtree(folder)
    print(f"{model}: {kills} kills, {resumed} runs continued, {ends} ends, each with the bits of an undisturbed run ({whole:.2f} s)")
    if resumed < n_kills // 3:
        print("too few runs came to a first state: the test shows nothing")
        return 1
    return 0


with tempfile.TemporaryDirectory() as scratch:
    sys.exit(main(scratch))
