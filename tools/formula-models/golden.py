"""Golden logits: what Hugging Face transformers makes of models whose weights follow a formula.

    python golden.py ../../test/golden/formula-models.json

A model there needs a configuration, as config.json would have it; what is missing beside it is computed in float32. Tensors
are named as transformers saves them, which is how they are named on the hub. A model whose choice of experts would turn on
the last digits is refused.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

IDS = [(7 * n + n * n) % 40 for n in range(70)]
ROWS = [21, 40, 69]
# Logits in float64 may differ by so much.
TOLERANCE = 1e-5


def values(name, shape):
    """Has a twin in test/support/formula-model.ts."""
    weighted = sum((index + 1) * ord(letter) for index, letter in enumerate(name))
    bits = numpy.arange(numpy.prod(shape, dtype=numpy.int64), dtype=numpy.uint64) * 2654435761 + weighted * 40503
    bits &= 0xFFFFFFFF
    bits ^= bits >> 15
    bits = (bits * 2246822519) & 0xFFFFFFFF
    bits ^= bits >> 13
    shift = 1 if "norm" in name.lower() else 0
    return (bits / 2**32 * 0.5 - 0.25 + shift).astype(numpy.float32).reshape(shape)


def shapes(folder):
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "numpy") as tensors:
            yield from ((name, tensors.get_slice(name).get_shape()) for name in tensors.keys())


def logits(folder, dtype):
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **eager).eval()
    return model(torch.tensor([IDS]), use_cache=False).logits[0, ROWS].double()


@torch.no_grad()
def golden(config):
    # The usual ones lie outside of so small a vocabulary.
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    fields = {name: value for name, value in config.items() if name != "model_type"}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        known = AutoConfig.for_model(config["model_type"], **ids, **fields)
        AutoModelForCausalLM.from_config(known).save_pretrained(folder)
        tensors = dict(shapes(folder))
        save_file({name: values(name, shape) for name, shape in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
        exact, single = logits(folder, torch.float64), logits(folder, torch.float32)
    difference = float((exact - single).abs().max())
    if difference > TOLERANCE:
        raise SystemExit(f"logits differ by {difference} in float64: {config}")
    return {
        "config": config,
        "tensors": tensors,
        "ids": IDS,
        "rows": ROWS,
        "logits": [[round(float(value), 6) for value in row] for row in single],
    }


def main(path):
    stored = json.loads(Path(path).read_text())
    for name, model in stored["models"].items():
        if "logits" not in model:
            stored["models"][name] = golden(model["config"])
            print(name, flush=True)
            stored["transformers"] = version("transformers")
            Path(path).write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
