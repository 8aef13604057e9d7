# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes bert_tiny/ and gpt_tiny/ beside it: models of Hugging Face transformers with random weights (every parameter, biases and norms too), and what they
compute. Run with torch and transformers installed: python3 make.py"""
import os

import torch
import transformers
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))


def scramble(model):
    torch.manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = ("ln_" in name or "LayerNorm" in name) and name.endswith("weight")
            p.copy_(torch.randn_like(p) * (0.1 if norm else 0.15) + (1 if norm else 0))


def results(model, ids, labels):
    out = model(input_ids=ids, labels=labels)
    grads = torch.autograd.grad(out.loss, list(model.parameters()))
    named = {"grad/" + n: g for (n, _), g in zip(model.named_parameters(), grads)}
    return {"logits": out.logits, "loss": out.loss.reshape(()), **named}


def write(folder, model, ids, labels, more):
    path = os.path.join(here, "..", folder)
    model.save_pretrained(path)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(path, extra)):
            os.remove(os.path.join(path, extra))
    truth = results(model.double(), ids, labels)  # computed in f64, stored in f32: half the size, and closer than any f32 computation comes
    save_file({"input_ids": ids, "labels": labels, **more}, os.path.join(path, "inputs.safetensors"))
    save_file({k: v.detach().float().contiguous() for k, v in truth.items()}, os.path.join(path, "expected.safetensors"))


def main():
    g = torch.Generator().manual_seed(1)
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=16, num_labels=3,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")).eval()
    scramble(bert)
    ids = torch.randint(1, 61, (4, 11), generator=g)
    write("bert_tiny", bert, ids, torch.tensor([2, 0, 1, 2]), {})

    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=61, n_positions=24, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        attn_implementation="eager")).eval()
    scramble(gpt)
    ids = torch.randint(1, 61, (3, 11), generator=g)
    tokens = gpt.generate(ids[:, :5], max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    write("gpt_tiny", gpt, ids, ids.clone(), {"generated": tokens})


main()
