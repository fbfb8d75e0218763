"""Trains the embedded model: corpus, training, export and evaluation in one run.

    python train.py --steps 4000 --out build     the real thing, minutes on one H200
    python train.py --smoke --out build          the whole pipeline with a tiny model on a CPU
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
import evaluation
import export
from chat import BLANK
from model import TINY, Llama, Shape
from tokenizer import load

UNSPOKEN = 0.1  # weight of what the assistant does not say itself
LONG_EVERY = 6  # one batch in six has rows of full context length


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--documents", type=int, default=2_500_000)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="instead of --steps: as many steps as fit")
    parser.add_argument("--tokens", type=int, default=131_072, help="tokens per step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--start", type=Path, help="a GGUF file to go on from")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    if chosen.smoke:
        chosen.documents, chosen.steps, chosen.tokens, chosen.workers = 1000, 12, 4096, 1
    return chosen


class Rows:
    """Endless shuffled batches of rows of one length."""

    def __init__(self, tokens, stored, blank, length, batch, seed):
        self.stored, self.length, self.batch = stored, length, batch
        self.starts = torch.from_numpy(corpus.pack(tokens, blank, length))
        self.generator = torch.Generator().manual_seed(seed)
        self.order = torch.empty(0, dtype=torch.long)
        self.offsets = torch.arange(length + 1)
        self.passes = 0.0

    def next(self):
        while len(self.order) < self.batch:
            self.order = torch.cat((self.order, torch.randperm(len(self.starts), generator=self.generator)))
        chosen, self.order = self.order[: self.batch], self.order[self.batch :]
        self.passes += self.batch / len(self.starts)
        index = (self.starts[chosen][:, None] + self.offsets).to(self.stored.device)
        rows = self.stored[index]
        ids = (rows & 0x7FFF).long()
        weights = torch.where(rows[:, 1:] < 0, 1.0, UNSPOKEN)
        return ids[:, :-1], ids[:, 1:], weights


def optimizer(model, rate, device):
    matrices = [w for w in model.parameters() if w.ndim == 2]
    vectors = [w for w in model.parameters() if w.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=device == "cuda")


def rate_at(step, steps, peak):
    """Warm up, then a cosine down to nothing."""
    warm = min(200, steps // 10 + 1)
    if step < warm:
        return peak * (step + 1) / warm
    return peak * 0.5 * (1 + numpy.cos(numpy.pi * (step - warm) / max(1, steps - warm)))


def train(model, short, long, chosen, device):
    """Returns the log: what was done, and the loss on the assistant's tokens along the way."""
    optim = optimizer(model, chosen.rate, device)
    if device == "cuda":
        for block in model.blocks:
            block.compile(dynamic=False)

    def head_loss(hidden, targets, weights):
        losses = functional.cross_entropy(functional.linear(hidden, model.embedding.weight).float().flatten(0, 1), targets.flatten(), reduction="none")
        weights = weights.flatten()
        spoken = weights == 1
        return (losses * weights).sum() / weights.sum(), (losses * spoken).sum().detach() / spoken.sum()

    if device == "cuda":
        head_loss = torch.compile(head_loss, dynamic=False)

    def step_once(step, rate):
        ids, targets, weights = (long if step % LONG_EVERY == LONG_EVERY - 1 else short).next()
        for group in optim.param_groups:
            group["lr"] = rate
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss, spoken = head_loss(model.hidden(ids), targets, weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)
        return spoken

    steps = chosen.steps
    if not steps:  # measure the speed at a rate of nothing, so that the weights stay as they were
        for step in range(2 * LONG_EVERY):
            step_once(step, 0.0)
        float(step_once(0, 0.0))
        began = time.time()
        for step in range(4 * LONG_EVERY):
            last = step_once(step, 0.0)
        float(last)
        pace = (time.time() - began) / (4 * LONG_EVERY)
        steps = int(chosen.minutes * 60 / pace)
        optim = optimizer(model, chosen.rate, device)
        print(f"{pace * 1000:.1f} ms per step, {chosen.tokens / pace / 1e6:.2f} M tokens/s: {steps} steps", flush=True)

    began, losses, log = time.time(), [], []
    for step in range(steps):
        losses.append(step_once(step, rate_at(step, steps, chosen.rate)))
        if (step + 1) % max(1, steps // 25) == 0:
            mean = float(torch.stack(losses).mean())
            log.append([step + 1, round(mean, 4)])
            losses.clear()
            print(f"step {step + 1:6d}  loss {mean:.4f}  {time.time() - began:.0f} s", flush=True)
    return {
        "steps": steps, "tokens": steps * chosen.tokens, "minutes": round((time.time() - began) / 60, 2), "passes": round(short.passes, 2),
        "rate": chosen.rate, "seed": chosen.seed, "documents": chosen.documents, "loss": log,
    }


def main():
    chosen = options()
    chosen.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() and not chosen.smoke else "cpu"
    torch.manual_seed(chosen.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer = load()
    blank = tokenizer.token_to_id(BLANK)

    began = time.time()
    tokens = corpus.build(chosen.documents, chosen.seed, chosen.workers)
    built = time.time() - began
    print(f"{len(tokens) / 1e6:.1f} M tokens of {chosen.documents} documents in {built:.0f} s", flush=True)

    shape = TINY if chosen.smoke else Shape()
    model = (export.read(chosen.start) if chosen.start else Llama(shape)).train().to(device)
    count = sum(weight.numel() for weight in model.parameters())
    stored = torch.from_numpy(tokens.view(numpy.int16)).to(device)
    short_length, long_length = (256, 512) if chosen.smoke else (1024, shape.context)
    rows = lambda length, salt: Rows(tokens, stored, blank, length, max(1, chosen.tokens // length), chosen.seed + salt)
    log = train(model, rows(short_length, 0), rows(long_length, 1), chosen, device)
    log |= {"parameters": count, "corpus_tokens": len(tokens), "corpus_seconds": round(built)}

    export.write(chosen.out / "model.gguf", model, tokenizer)
    torch.set_float32_matmul_precision("highest")
    asked = list(evaluation.prompts(per_family=2, long=1) if chosen.smoke else evaluation.prompts())
    fresh = Llama(shape).to(device)  # without the compiled blocks
    fresh.load_state_dict({name.replace("_orig_mod.", ""): weight for name, weight in model.state_dict().items()})
    answers = evaluation.answer(export.as_shipped(fresh), tokenizer, asked, **({"batch": 8, "limit": 16} if chosen.smoke else {"batch": 200}))
    evaluation.save(chosen.out / "answers.jsonl", answers)
    log["scores"] = evaluation.score(asked, answers)
    (chosen.out / "log.json").write_text(json.dumps(log) + "\n")
    print(f"{count / 1e6:.2f} M parameters, {log['minutes']} minutes, loss {log['loss'][-1][1]}")


if __name__ == "__main__":
    main()
