# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_predict.py DATA: sinter-predict from the outside (the build's tools on PATH). What sinter-train wrote after an epoch gives the accuracy that
sinter-train says; an image file gives what the same image gives in its data set; a gpt's tokens and a bert's labels are those that transformers
recorded; bad input is told where it lies."""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

data = os.path.abspath(sys.argv[1])
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("check_predict:", what)


def run(tool, *args):
    r = subprocess.run([tool, *args], capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


def predict(*args):
    code, out, err = run("sinter-predict", *args)
    check(code == 0, f"exit {code}: {args}: {err}")
    return out


def predict_json(*args):
    out = predict(*args, "--json")
    return json.loads(out) if out else {"predictions": []}


def refuse(want, words, *args):
    code, out, err = run("sinter-predict", *args)
    check(code == want, f"exit {code}, not {want}: {args}")
    check(re.search(words, err), f"`{words}` is not said: {args}: {err}")
    return out


# ---- files -------------------------------------------------------------------------------------------------------------

def safetensors(path, name):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    e = json.loads(raw[8:8 + n])[name]
    begin, end = e["data_offsets"]
    code = {"I64": "q", "I32": "i", "F32": "f"}[e["dtype"]]
    body = raw[8 + n + begin:8 + n + end]
    values = struct.unpack(f"<{len(body) // struct.calcsize(code)}{code}", body)
    rows, columns = e["shape"]
    return [list(values[r * columns:(r + 1) * columns]) for r in range(rows)]


def png(path, pixels, width, height):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
                chunk(b"IEND", b""))


def write_digits(out, count):
    with open(f"{data}/digits/test-images-idx3-ubyte", "rb") as f:
        raw = f.read()
    _, _, height, width = struct.unpack(">IIII", raw[:16])
    paths = []
    for k in range(count):
        at = 16 + k * height * width
        paths.append(f"{out}/{k}.png")
        png(paths[-1], raw[at:at + height * width], width, height)
    return paths


# ---- images --------------------------------------------------------------------------------------------------------------

def check_data(model, digits):
    code, said, err = run("sinter-train", "--model=vit-digits", digits, "--seed=3", "--epochs=1", f"--checkpoint={model}")
    check(code == 0, f"sinter-train: {err}")
    code, said, err = run("sinter-train", digits, f"--init={model}", "--eval-only")
    accuracy = said.splitlines()[-1]
    check(re.fullmatch(r"test accuracy [01]\.\d{4}", accuracy), f"sinter-train --eval-only says {accuracy}")
    for more in ([], ["--batch=50"], ["--batch=10000000"], ["--layout=nhwc"], ["--engine=interpreter"]):
        check(predict(f"--model={model}", digits, *more) == accuracy + "\n", f"{more}: not `{accuracy}`")
    whole = predict_json(f"--model={model}", digits, "--top-k=3")
    check(f"test accuracy {whole['accuracy']:.4f}" == accuracy, "the accuracy of --json is another")
    right = sum(e["top"][0]["id"] == e["label_id"] for e in whole["predictions"])
    check(math.isclose(right / len(whole["predictions"]), whole["accuracy"], rel_tol=1e-12) and whole["samples"] == len(whole["predictions"]), "predictions and accuracy disagree")
    check([e["index"] for e in whole["predictions"]] == list(range(whole["samples"])), "samples are missing or out of order")
    for e in whole["predictions"]:
        p = [t["probability"] for t in e["top"]]
        if not (len(p) == 3 and 0 <= p[2] <= p[1] <= p[0] <= 1 and sum(p) <= 1 + 1e-12):
            check(False, f"no ranking: {e}")
            break
    return whole["predictions"]


def check_images(model, out, expected):
    paths = write_digits(out, 5)
    code, _, err = run("sinter-predict", f"--model={model}", paths[0])
    if code and "this build cannot read PNG" in err:
        print("check_predict: PNG images are off in this build; image files are not checked")
        return
    for batch in (64, 2):  # 2: several batches, the last of which is not full
        got = predict_json(f"--model={model}", "--top-k=3", f"--batch={batch}", *paths)["predictions"]
        check([e["image"] for e in got] == paths, "images are missing or out of order")
        for e, want in zip(got, expected):
            # Another batch size may add in another order: 1e-5 is far above what f32 loses here and far below a mistaken pixel.
            same = all(a["id"] == b["id"] and math.isclose(a["probability"], b["probability"], abs_tol=1e-5) for a, b in zip(e["top"], want["top"]))
            check(same, f"{e['image']} is not what the data set gives: {e['top']}, {want['top']}")
    text = predict(f"--model={model}", "--top-k=1", *paths[:2])
    check(re.fullmatch(r"(.*\.png: \S+ \([01]\.\d{4}\)\n){2}", text), f"lines are `{text}`")
    predict(f"--model={model}", "--top-k=1", "-o", f"{out}/said", *paths[:2])
    check(open(f"{out}/said").read() == text, "-o writes something else")

    whole = open(paths[0], "rb").read()
    with open(f"{out}/cut.png", "wb") as f:
        f.write(whole[:len(whole) // 2])
    with open(f"{out}/words.png", "w") as f:
        f.write("no image\n")
    said = refuse(1, r"cut\.png: error: damaged image", f"--model={model}", "--top-k=1", paths[0], f"{out}/cut.png", paths[1])
    check(said == text, "a damaged image keeps the others from being told")
    refuse(1, r"words\.png: error: neither a JPEG nor a PNG", f"--model={model}", f"{out}/words.png")
    refuse(1, r"missing\.png: error", f"--model={model}", f"{out}/missing.png")
    shutil.copytree(model, f"{out}/other", ignore=shutil.ignore_patterns("run"))
    with open(f"{out}/other/preprocessor_config.json", "w") as f:
        f.write('{"do_resize": true, "size": {"height": 9, "width": 8}}\n')
    refuse(1, r"0\.png: error: the image of 8 x 8 becomes 9 x 8, the model takes 8 x 8", f"--model={out}/other", paths[0])


# ---- tokens ---------------------------------------------------------------------------------------------------------------

def ids(row):
    return ",".join(map(str, row))


def check_gpt():
    model = f"--model={data}/gpt_tiny"
    rows = safetensors(f"{data}/gpt_tiny/inputs.safetensors", "generated")
    prompts = [f"--prompt={ids(r[:5])}" for r in rows]
    for more in ([], ["--engine=interpreter"]):
        out = predict(model, *prompts, "--max-tokens=12", "--stop-token=-1", *more)
        check(out == "".join(ids(r[5:]) + "\n" for r in rows), f"{more}: the tokens are not the recorded ones: {out}")
    stop = rows[0][8]
    got = predict_json(model, prompts[0], "--max-tokens=12", f"--stop-token={stop}")["predictions"]
    check(got == [{"prompt": rows[0][:5], "tokens": rows[0][5:rows[0].index(stop, 5) + 1], "ended": True}], f"--stop-token: {got}")
    check(predict(model, prompts[0], "--max-tokens=1", "--stop-token=-1") == f"{rows[0][5]}\n", "one token")
    one = predict(model, f"--prompt={rows[0][0]}", "--max-tokens=100", "--stop-token=-1").strip().split(",")
    check(len(one) == 24, f"24 positions hold a token and 23 more, and give one more: {len(one)}")
    check(predict(model, "--prompt=" + ids(range(1, 25))).count(",") == 0, "a full prompt leaves one token")
    refuse(1, "--prompt:1:3: error: token 61;.*0 to 60", model, "--prompt=5,61")
    refuse(1, "token -1", model, "--prompt=-1")
    refuse(1, "token 99999999999999999999", model, "--prompt=99999999999999999999")
    refuse(2, "--prompt:1:1: error: `hello` does not begin with a token id", model, "--prompt=hello")
    refuse(2, "--prompt:1:3: error", model, "--prompt=1,")
    refuse(2, "--prompt:1:2: error", model, "--prompt=1x")
    refuse(1, "config.json: error: a prompt of 25 tokens; the model has 24 positions", model, "--prompt=" + ids(range(25)))
    refuse(1, "config.json: error: a gpt2 reads tokens", model, "image.png")


def check_bert():
    rows = safetensors(f"{data}/bert_tiny/inputs.safetensors", "input_ids")
    logits = safetensors(f"{data}/bert_tiny/expected.safetensors", "logits")
    got = predict_json(f"--model={data}/bert_tiny", *(f"--prompt={ids(r)}" for r in rows))["predictions"]
    check(len(got) == len(rows), "a prompt of bert is missing")
    for e, want, row in zip(got, logits, rows):
        total = sum(map(math.exp, want))
        # Logits are within 1e-5 of the recorded ones (test_text_models.c), so are probabilities.
        same = all(math.isclose(t["probability"], math.exp(want[t["id"]]) / total, abs_tol=1e-5) and t["label"] == f"LABEL_{t['id']}" for t in e["top"])
        check(same and e["prompt"] == row and len(e["top"]) == 3 and e["top"][0]["id"] == want.index(max(want)), f"bert: {e}, {want}")


def check_folders(model, out, digits):
    refuse(1, "nowhere/config.json: error", "--model=nowhere", digits)
    os.mkdir(f"{out}/bare")
    shutil.copy(f"{model}/config.json", f"{out}/bare")
    refuse(1, "bare/model.safetensors: error", f"--model={out}/bare", digits)
    shutil.copy(f"{data}/vit_tiny/model.safetensors", f"{out}/bare")
    refuse(1, "bare/model.safetensors: error.*", f"--model={out}/bare", digits)
    with open(f"{out}/bare/model.safetensors", "r+b") as f:
        f.truncate(5000)
    refuse(1, "bare/model.safetensors: error", f"--model={out}/bare", digits)
    refuse(1, "no test-images-idx3-ubyte", f"--model={model}", "--data=digits:/nonexistent")
    refuse(1, "config.json: error: a vit looks at images", f"--model={model}", "--prompt=1")
    refuse(2, "--model is missing", digits)
    refuse(2, "what to look at is missing", f"--model={model}")
    refuse(2, "exclude each other", f"--model={model}", digits, "a.png")
    refuse(2, "unknown kind", f"--model={model}", "--data=letters:x")
    refuse(2, "did you mean --top-k", f"--model={model}", "--topk=3", digits)


def main():
    with tempfile.TemporaryDirectory() as out:
        model, digits = f"{out}/model", f"--data=digits:{data}/digits"
        expected = check_data(model, digits)
        check_images(model, out, expected)
        check_gpt()
        check_bert()
        check_folders(model, out, digits)
    return 1 if failures else 0


sys.exit(main())
