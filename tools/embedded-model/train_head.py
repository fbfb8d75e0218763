"""Trains a head that drafts for the embedded model, which stays as it is: a layer that predicts the token after the next one.

    python train_head.py --model model.gguf --minutes 3 --out build      minutes on one H200
    python train_head.py --model model.gguf --steps 3 --documents 500 --out build      a look at the pipeline on a CPU
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy
import torch
from torch.nn import functional

import corpus
import export
from chat import BLANK
from model import Head
from tokenizer import load
from train import LONG_EVERY, Rows, optimizer, rate_at

DEPTHS = 4  # tokens ahead that it is trained for
SHARE = 0.8  # what a further depth counts, of the one before


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--documents", type=int, default=700_000)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="instead of --steps: as many steps as fit")
    parser.add_argument("--tokens", type=int, default=32_768, help="tokens per step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    return parser.parse_args()


def unrolled(model, head, ids):
    """By depth: the head's logits, and the model's, of which they are to be a copy; rows of the same tokens."""
    with torch.no_grad():
        # Blocks of a KV cache keep states in bfloat16.
        states = model.hidden(ids).bfloat16()
        wanted = functional.linear(states, model.embedding.weight).float()
        embeddings = model.embedding(ids)
    length = ids.shape[1] - 1
    cos, sin = model.cos[1 : length + 1], model.sin[1 : length + 1]
    for depth, made in enumerate(head.unroll(embeddings[:, 1:], states[:, :-1], cos, sin, DEPTHS)):
        yield functional.linear(made[:, depth:], model.embedding.weight).float(), wanted[:, depth + 1 :]


def train(model, head, short, long, chosen, device):
    optim = optimizer(head, chosen.rate, device)

    def step_once(step, steps, is_trained=True):
        ids, _, weights = (long if step % LONG_EVERY == LONG_EVERY - 1 else short).next()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            total, agreed = 0.0, []
            right = None
            for depth, (logits, wanted) in enumerate(unrolled(model, head, ids)):
                own = weights[:, depth + 1 :]
                losses = functional.cross_entropy(logits.flatten(0, 1), wanted.softmax(-1).flatten(0, 1), reduction="none").view_as(own)
                total = total + SHARE**depth * (losses * own).sum() / own.sum()
                # A draft is of use as far as all before it were right.
                same = logits.argmax(-1) == wanted.argmax(-1)
                right = same if right is None else same & right[:, :-1]
                agreed.append(right[own == 1].float().mean().detach())
        if is_trained:
            for group in optim.param_groups:
                group["lr"] = rate_at(step, steps, chosen.rate)
            total.backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optim.step()
            optim.zero_grad(set_to_none=True)
        return torch.stack(agreed)

    steps = chosen.steps
    if not steps:
        for step in range(LONG_EVERY):
            step_once(step, 1, is_trained=False)
        began = time.time()
        for step in range(2 * LONG_EVERY):
            last = step_once(step, 10_000)
        last.sum().item()
        pace = (time.time() - began) / (2 * LONG_EVERY)
        steps = int(chosen.minutes * 60 / pace)
        print(f"{pace * 1000:.1f} ms per step: {steps} steps", flush=True)
    began, log, recent = time.time(), [], []
    for step in range(steps):
        recent.append(step_once(step, steps))
        if (step + 1) % max(1, steps // 20) == 0:
            agreed = [round(value, 4) for value in torch.stack(recent).mean(0).tolist()]
            recent.clear()
            log.append([step + 1, agreed])
            print(f"step {step + 1:6d}  drafts as the model, by depth: {agreed}  {time.time() - began:.0f} s", flush=True)
    return {"steps": steps, "minutes": round((time.time() - began) / 60, 2), "agreed": log}


def main():
    chosen = options()
    chosen.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(chosen.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer = load()
    model = export.read(chosen.model).to(device).requires_grad_(False)
    head = Head(model.shape).to(device)
    began = time.time()
    tokens = corpus.build(chosen.documents, chosen.seed, chosen.workers)
    print(f"{len(tokens) / 1e6:.1f} M tokens of {chosen.documents} documents in {time.time() - began:.0f} s", flush=True)
    stored = torch.from_numpy(tokens.view(numpy.int16)).to(device)
    blank = tokenizer.token_to_id(BLANK)
    rows = lambda length, salt: Rows(tokens, stored, blank, length, max(1, chosen.tokens // length), chosen.seed + salt)
    log = train(model, head, rows(1024, 0), rows(model.shape.context, 1), chosen, device)
    export.write(chosen.out / "model.gguf", model, tokenizer, head)
    (chosen.out / "head.json").write_text(json.dumps(log) + "\n")


if __name__ == "__main__":
    main()
