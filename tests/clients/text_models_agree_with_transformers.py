#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""text_models_agree_with_transformers.py SINTER-TRAIN SINTER-PREDICT LOGITS: models with random weights that Hugging Face transformers writes (bert with a
classifier, gpt2, of several shapes) give its logits and its loss within 1e-5, and its gradients; greedy generation with a cache gives its tokens; what LoRA
trained loads there, merged, with nothing but the adapted weights moved, and gives the loss that sinter-train says."""
import pathlib, re, subprocess, sys, tempfile


def not_run(why):
    print(f"not run: text-models-agree-with-transformers: {why}")
    sys.exit(77)


try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel
except Exception as e:  # a broken package fails in many ways
    not_run(f"{type(e).__name__}: {e} (pip install 'transformers<5' torch safetensors)")

TOLERANCE = 1e-5  # asked of logits and loss, which are below 10 here; gradients are sums of up to 200 such terms: relative to their largest element
train, predict, logits = sys.argv[1:]
torch.manual_seed(0)
transformers.logging.set_verbosity_error()


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, encoding="utf-8")
    if done.returncode != 0:
        sys.exit(f"{command[0]} exits with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def scramble(model):
    """Every parameter random, biases and norms too, so that none can be left out."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = ("ln_" in name or "LayerNorm" in name) and name.endswith("weight")
            p.copy_(torch.randn_like(p) * (0.1 if norm else 0.15) + (1 if norm else 0))
    return model.eval()


def bert(**more):
    return scramble(BertForSequenceClassification(BertConfig(vocab_size=97, max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                                             attn_implementation="eager", **more)))


def gpt(**more):
    return scramble(GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=24, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
                                               attn_implementation="eager", **more)))


def largest(difference):
    return difference.abs().max().item()


def compare(name, model, folder, ids, labels):
    model.save_pretrained(folder)
    save_file({"input_ids": ids, "labels": labels.clone()}, folder / "in.safetensors")
    run(logits, folder, folder / "in.safetensors", folder / "out.safetensors")
    ours = load_file(folder / "out.safetensors")
    out = model(input_ids=ids, labels=labels)
    named = dict(model.named_parameters())
    grads = dict(zip(named, torch.autograd.grad(out.loss, list(named.values()))))
    errors = {"logits": largest(ours["logits"] - out.logits.detach()), "loss": largest(ours["loss"] - out.loss.detach()),
              "gradients": max(largest(ours["grad/" + n] - g) / max(1.0, largest(g)) for n, g in grads.items())}
    print(f"{name}: loss {out.loss.item():.4f}, errors", {k: f"{v:.2g}" for k, v in errors.items()})
    assert max(errors.values()) <= TOLERANCE, errors
    assert {k[5:] for k in ours if k.startswith("grad/")} == grads.keys()


def check_berts(work):
    shapes = ({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "num_labels": 3},
              {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40, "num_labels": 5, "hidden_act": "gelu_new", "layer_norm_eps": 1e-6})
    for k, shape in enumerate(shapes):
        ids = torch.randint(1, 97, (4, 11 + k))
        compare(f"bert {k}", bert(**shape), work / f"bert{k}", ids, torch.randint(0, shape["num_labels"], (4,)))


def check_gpts(work):
    shapes = ({"n_embd": 32, "n_layer": 2, "n_head": 4}, {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_inner": 40, "activation_function": "relu",
              "scale_attn_by_inverse_layer_idx": True, "tie_word_embeddings": False})
    for k, shape in enumerate(shapes):
        model, folder = gpt(**shape), work / f"gpt{k}"
        ids = torch.randint(1, 97, (3, 13 - k))
        compare(f"gpt {k}", model, folder, ids, ids)
        for row in ids:
            prompt = row[:5]
            theirs = model.generate(prompt[None], attention_mask=torch.ones(1, 5, dtype=torch.long), max_new_tokens=15, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 5:]
            got = run(predict, f"--model={folder}", "--prompt=" + ",".join(map(str, prompt.tolist())), "--max-tokens=15", "--stop-token=-1")
            assert got.strip() == ",".join(map(str, theirs.tolist())), f"gpt {k}: generates {got.strip()}, not {theirs.tolist()}"
        print(f"gpt {k}: 3 prompts, 15 greedy tokens each, the same")


def check_lora(work):
    folder, data = work / "gpt0", work / "data"
    data.mkdir()
    ids = torch.randint(1, 97, (6, 12))
    for part in ("train", "test"):
        save_file({"input_ids": ids}, data / f"{part}.safetensors")
    said = run(train, f"--init={folder}", f"--data=tokens:{data}", "--batch=6", "--epochs=25", "--lr=0.02", "--lora=4", f"--checkpoint={work}/lora")
    before = GPT2LMHeadModel.from_pretrained(folder).state_dict()
    after, about = GPT2LMHeadModel.from_pretrained(work / "lora", attn_implementation="eager", output_loading_info=True)
    assert not any(about.values()), about
    moved = {n for n, p in after.state_dict().items() if not torch.equal(p, before[n])}
    assert moved == {f"transformer.h.{i}.attn.c_attn.weight" for i in range(2)}, moved
    for n in moved:
        rank = torch.linalg.matrix_rank((after.state_dict()[n] - before[n]).double(), rtol=1e-4).item()
        assert rank <= 4, f"{n} moved by a matrix of rank {rank}"
    loss = after.eval()(input_ids=ids, labels=ids).loss.item()
    ours = float(re.findall(r"test loss ([0-9.]+)", said)[-1])
    print(f"LoRA: loss {loss:.4f} in transformers, {ours:.4f} here")
    assert abs(loss - ours) <= 1e-4, "another loss in transformers"  # 4 digits are printed


with tempfile.TemporaryDirectory() as tmp:
    for check in (check_berts, check_gpts, check_lora):
        check(pathlib.Path(tmp))
