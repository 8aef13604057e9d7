# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_train_faults.py DIGITS VIT_TINY: what goes wrong around sinter-train (the build's tools on PATH), and what people see: full disks, Ctrl-C, folders
with damaged images or none, labels beyond the model, weights of another model; every schedule, precision and way of accumulating; the bar, the event file."""
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

digits, vit_tiny = sys.argv[1:]
DATA = f"--data=digits:{digits}"
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("check_train_faults:", what)


def train(*args, model="mlp", want=0, before=None):
    command = ["sinter-train", *([f"--model={model}"] if model else []), *args]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", preexec_fn=before)
    check(done.returncode == want, f"exit {done.returncode}, not {want}: {' '.join(command)}: {done.stdout[-300:]}{done.stderr[-600:]}")
    return done.stdout, done.stderr


def refuse(words, *args, model="mlp", want=1):
    _, said = train(*args, model=model, want=want)
    for w in words if isinstance(words, list) else [words]:
        check(re.search(w, said), f"`{w}` is not said: {args}: {said}")


def content(path):
    with open(path, "rb") as f:
        return f.read()


# ---- files --------------------------------------------------------------------------------------------------------------

def png(path, shade, size=10):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + bytes((shade + 3 * x * y) % 256 for x in range(size) for _ in range(3)) for y in range(size))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def safetensors(path):
    raw = content(path)
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: (v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}


def write_safetensors(path, arrays):
    header, body = {}, b""
    for name, (dtype, shape, data) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


# ---- a full disk ----------------------------------------------------------------------------------------------------------

def small_disk():
    """No file may pass 100 kB: less than a state takes, more than a log."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def check_full_disk(out):
    args = [DATA, "--seed=3", "--save-steps=10", f"--checkpoint={out}/full"]
    train(DATA, "--seed=3", "--steps=40", f"--checkpoint={out}/whole")
    p = subprocess.Popen(["sinter-train", "--model=mlp", *args, "--steps=40"], stdout=subprocess.DEVNULL)  # stopped at its first state
    while p.poll() is None and not (os.path.isdir(f"{out}/full/run") and any(f.startswith("step-") and f.endswith(".safetensors") for f in os.listdir(f"{out}/full/run"))):
        time.sleep(0.001)
    p.kill()
    p.wait()
    states = {f: content(f"{out}/full/run/{f}") for f in sorted(os.listdir(f"{out}/full/run")) if f.endswith(".safetensors")}
    _, said = train(*args, "--steps=40", "--resume", want=1, before=small_disk)
    check(re.search(r"full/.*: error: .*(too large|space)", said), f"a full disk: {said}")
    check("hint:" in said, f"a full disk: no hint: {said}")
    now = {f: content(f"{out}/full/run/{f}") for f in states}
    check(now == states and states, "a full disk costs the last good state")
    train(*args, "--steps=40", "--resume")
    check(content(f"{out}/full/model.safetensors") == content(f"{out}/whole/model.safetensors"), "after a full disk the run goes on to other bits")


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------------

def check_interrupt(out):
    args = ["sinter-train", "--model=mlp", DATA, "--seed=3", "--steps=4000"]
    for k, more in enumerate(([f"--checkpoint={out}/stopped"], [])):
        p = subprocess.Popen([*args, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        first = p.stdout.readline() + p.stdout.readline()  # the model; the first epoch, so that the loop is under way
        p.send_signal(signal.SIGINT)
        said, errors = p.communicate(timeout=60)
        check(p.returncode == 0, f"Ctrl-C: exit {p.returncode}: {first}{said}{errors}")
        check(re.search(r"interrupted after step \d+; " + ("--resume goes on" if more else "nothing was saved"), said), f"Ctrl-C: {said}")
    step = int(re.search(r"interrupted after step (\d+)|$", said).group(1) or 0)
    check(step > 0, "Ctrl-C: no step was made")
    step = max(int(f[5:-12]) for f in os.listdir(f"{out}/stopped/run"))
    train(DATA, "--seed=3", "--steps=4000", f"--checkpoint={out}/stopped", "--resume", "--log=" + f"{out}/stopped.csv")
    train(DATA, "--seed=3", "--steps=4000", f"--checkpoint={out}/through")
    check(step < 4000 and content(f"{out}/stopped/model.safetensors") == content(f"{out}/through/model.safetensors"), f"interrupted after step {step}, the run goes on to other bits")


# ---- data -------------------------------------------------------------------------------------------------------------------

def check_folders(out):
    for part, n in (("train", 12), ("val", 4)):
        for c in ("cat", "dog"):
            for k in range(n):
                png(f"{out}/images/{part}/{c}/{k}.png", 40 * k + (100 if c == "dog" else 0))
    small = ["--image-size=8", "--batch=8", "--flip"]
    said, errors = train(f"--data=folder:{out}/images", *small, "--epochs=3", f"--checkpoint={out}/pets", model="convnet")
    if "cannot read PNG" in errors:
        print("check_train_faults: PNG images are off in this build; folders are not checked")
        return
    check("24 training and 8 test images" in said, f"a folder: {said}")
    check(json.loads(content(f"{out}/pets/config.json"))["id2label"] == {"0": "cat", "1": "dog"}, "the names of the classes are lost")
    check_new_head(out)
    whole = content(f"{out}/images/train/cat/3.png")
    for name, bytes_ in (("cat/3.png", whole[:len(whole) // 2]), ("dog/5.png", b"no image\n")):
        with open(f"{out}/images/train/{name}", "wb") as f:
            f.write(bytes_)
    said, errors = train(f"--data=folder:{out}/images", *small, "--epochs=3", model="convnet")
    for name in ("cat/3.png", "dog/5.png"):
        check(len(re.findall(rf"{name}: warning: .*skipped", errors)) == 1, f"{name} is not named once: {errors}")
    check("2 damaged images were skipped" in said, f"damaged images are not counted: {said}")
    os.makedirs(f"{out}/empty/train/cat")
    refuse([r"empty/train: error: no images in the 1 class folders here", "hint: expected train/CLASS"], f"--data=folder:{out}/empty", *small, model="convnet")
    os.makedirs(f"{out}/bare")
    refuse(r"bare: error: no folder `train` here", f"--data=folder:{out}/bare", *small, model="convnet")
    refuse([r"nowhere/data_batch_1.bin: error", "hint: expected data_batch_1.bin"], "--data=cifar10:nowhere")


def check_new_head(out):
    """vit_tiny knows ten labels and images of 32 x 32: its body stays as it is, its classifier learns cats and dogs."""
    data = f"--data=folder:{out}/images"
    said, _ = train(data, f"--init={vit_tiny}", "--new-head", "--trainable=^classifier", "--batch=8", "--epochs=3", f"--checkpoint={out}/fine", model=None)
    check("new classifier: 2 labels" in said and "training 2 of " in said, f"--new-head: {said}")
    before, after = safetensors(f"{vit_tiny}/model.safetensors"), safetensors(f"{out}/fine/model.safetensors")
    moved = {k for k in before if before[k] != after[k]}
    check(before.keys() == after.keys() and moved == {"classifier.weight", "classifier.bias"} and after["classifier.bias"][1] == [2], f"--new-head moves {moved}")
    said, _ = train(data, f"--init={out}/fine", "--eval-only", model=None)
    check(re.search(r"test loss \d.*\ntest accuracy [01]\.\d{4}\n$", said), f"--eval-only: {said}")
    done = subprocess.run(["sinter-predict", f"--model={out}/fine", "--json", f"{out}/images/val/cat/0.png"], capture_output=True, encoding="utf-8")
    check(done.returncode == 0 and sorted(t["label"] for t in json.loads(done.stdout)["predictions"][0]["top"]) == ["cat", "dog"], f"labels: {done.stdout}{done.stderr}")
    refuse(["another shape", "hint: .*--new-head"], data, "--batch=8", f"--init={vit_tiny}", "--config=" + f"{out}/fine/config.json", model=None)


def check_cifar(out):
    os.makedirs(f"{out}/cifar")
    for name in [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]:
        with open(f"{out}/cifar/{name}", "wb") as f:
            for k in range(8):
                f.write(bytes([k % 10]) + bytes((7 * k + p) % 256 for p in range(3072)))
    said, _ = train(f"--data=cifar10:{out}/cifar", "--batch=8", "--steps=2", model="convnet")
    check("40 training and 8 test images" in said, f"cifar10: {said}")
    with open(f"{out}/cifar/data_batch_3.bin", "r+b") as f:
        f.truncate(5000)
    refuse(r"data_batch_3.bin: error", f"--data=cifar10:{out}/cifar", "--batch=8", model="convnet")


def check_shapes(out):
    few = f"{out}/few.json"
    with open(few, "w") as f:
        f.write('{"model_type": "vit", "num_labels": 5, "image_size": 8, "num_channels": 1, "patch_size": 2, "hidden_size": 16, "num_hidden_layers": 1, '
                '"num_attention_heads": 2, "intermediate_size": 16}\n')
    refuse([r"label \d, but the model has 5 labels \(0 to 4\)", "hint: .*--new-head"], DATA, f"--config={few}", model=None)
    with open(f"{out}/wide.json", "w") as f:
        f.write('{"model_type": "vit", "num_labels": 10, "image_size": 9, "num_channels": 1, "patch_size": 2}\n')
    refuse(r"wide.json:1:.*9.*patch", DATA, f"--config={out}/wide.json", model=None)
    refuse("a batch of 64 does not divide into 5 parts", DATA, "--accumulate=5", want=2)


def check_foreign(out):
    train(DATA, "--steps=1", f"--checkpoint={out}/own")
    arrays = safetensors(f"{out}/own/model.safetensors")
    first, second = sorted(arrays)[:2]
    dtype, shape, data = arrays.pop(second)
    arrays[second + ".old"] = (dtype, shape, data)
    dtype, shape, data = arrays[first]
    arrays[first] = (dtype, [1, *shape], data)
    write_safetensors(f"{out}/own/model.safetensors", arrays)
    refuse([r"own/model.safetensors: error", rf"missing.*{re.escape(second)}", rf"not in the model.*{re.escape(second)}\.old", rf"shape.*{re.escape(first)}|{re.escape(first)}.*shape", "hint:"],
           DATA, f"--init={out}/own", model=None)
    refuse("another shape", DATA, f"--init={vit_tiny}", model="vit-digits")
    said, _ = train(DATA, "--steps=1", model="vit-digits", *[f"--checkpoint={out}/ten"])
    with open(f"{out}/ten/config.json") as f:
        config = json.load(f)
    check(len(config["id2label"]) == 10, "id2label of ten digits")


# ---- every way to train ---------------------------------------------------------------------------------------------------------

def check_ways():
    def last_loss(*args, model="mlp"):
        said, _ = train(DATA, "--epochs=4", "--batch=60", "--seed=1", *args, model=model)
        losses = [float(x) for x in re.findall(r"step \d+  loss ([0-9.]+)", said)]
        check(len(losses) == 4 and losses[3] < losses[0], f"{args}: losses {losses}")
        return said

    for schedule in ("constant", "cosine", "linear", "step"):
        last_loss(f"--schedule={schedule}", "--warmup-steps=10", "--step-size=40")
    for optimizer in ("sgd", "adam", "adamw", "lamb"):
        rate = {"sgd": 0.1, "lamb": 0.02}.get(optimizer, 0.001)
        last_loss(f"--optimizer={optimizer}", f"--lr={rate}", "--clip-norm=1", "--label-smoothing=0.1", *(["--momentum=0.9", "--nesterov"] if optimizer == "sgd" else []))
    for compute in ("bf16", "f16"):
        last_loss(f"--compute={compute}", "--accumulate=3", "--ema=0.99", "--decay=matrices")
    whole, parts = last_loss("--schedule=constant"), last_loss("--schedule=constant", "--accumulate=4")
    # The same gradients but for the order of sums: the losses agree to the digits printed, or differ in the last.
    pair = [[float(x) for x in re.findall(r"  loss ([0-9.]+)", s)] for s in (whole, parts)]
    check(all(abs(a - b) < 2e-3 for a, b in zip(*pair)), f"accumulated, the losses are others: {pair}")


# ---- what people see --------------------------------------------------------------------------------------------------------------

def check_bar(out):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp("sinter-train", ["sinter-train", "--model=mlp", DATA, "--epochs=2", "--batch=16"])
    said = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "with a terminal it fails")
    bars = re.findall(rb"epoch (\d)/2 \[[=> ]{10}\] (\d+)/89  ETA (\d+:\d\d)  loss (\d\.\d{4})  accuracy ([01]\.\d{4})  (\d+) images/s", said)
    check(len(bars) >= 20 and {b[0] for b in bars} == {b"1", b"2"}, f"{len(bars)} bars: {said[:300]}")
    check(re.search(rb"test accuracy [01]\.\d{4}\r\n[\r\x1b\[K]*$", said), f"the last line is not the accuracy: {said[-100:]}")


CRC = [0] * 256
for k in range(256):
    c = k
    for _ in range(8):
        c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    CRC[k] = c


def masked_crc(data):
    c = 0xFFFFFFFF
    for b in data:
        c = CRC[(c ^ b) & 255] ^ c >> 8
    c ^= 0xFFFFFFFF
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def check_files(out):
    train(DATA, "--epochs=3", f"--log={out}/l.csv", f"--plot={out}/p.svg", f"--tensorboard={out}/tb")
    rows = content(f"{out}/l.csv").decode().splitlines()
    check(rows[0] == "epoch,step,train_loss,train_accuracy,test_loss,test_accuracy,learning_rate,images_per_s,seconds", f"the log: {rows[0]}")
    check([r.split(",")[:2] for r in rows[1:]] == [["1", "22"], ["2", "44"], ["3", "66"]], f"the log: {rows}")
    raw, at, tags = content(f"{out}/tb/{os.listdir(f'{out}/tb')[0]}"), 0, set()
    while at < len(raw):  # records of TensorFlow: length, its CRC-32C masked, data, their CRC-32C masked
        n, = struct.unpack_from("<Q", raw, at)
        data = raw[at + 12:at + 12 + n]
        check(struct.unpack_from("<I", raw, at + 8)[0] == masked_crc(raw[at:at + 8]) and struct.unpack_from("<I", raw, at + 12 + n)[0] == masked_crc(data), "a record's sums are wrong")
        tags |= set(re.findall(rb"(?:train|test)/\w+|learning_rate|samples_per_s", data))
        at += 16 + n
    check(tags == {b"train/loss", b"train/accuracy", b"train/step_loss", b"test/loss", b"test/accuracy", b"learning_rate", b"samples_per_s"}, f"tags {tags}")
    svg = content(f"{out}/p.svg").decode()
    check(svg.startswith("<svg ") and svg.rstrip().endswith("</svg>") and svg.count("<polyline") == 4 and all(f">{w}<" in svg for w in ("loss", "accuracy", "training", "test")),
          "the plot lacks a part")


def main():
    with tempfile.TemporaryDirectory() as out:
        check_full_disk(out)
        check_interrupt(out)
        check_folders(out)
        check_cifar(out)
        check_shapes(out)
        check_foreign(out)
        check_ways()
        check_bar(out)
        check_files(out)
    return 1 if failures else 0


sys.exit(main())
