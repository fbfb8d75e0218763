"""Golden vectors: what independent implementations make of texts, for test/golden/embeddings.json.

    python golden.py ../../models/chairlift-demo-14m-q8_0.gguf TESTDATA ../../test/golden/embeddings.json

Of the embedded model by the plain PyTorch Llama that it was trained as, on the weights as the `gguf` package reads them
back; of the shared test models by Hugging Face transformers. All in float32, one text at a time.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModel

sys.path.insert(0, str(Path(__file__).parent.parent / "embedded-model"))
import export
import tokenizer

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Once upon a time there was a little owl who was afraid of the dark. Every night it sat in the old tower and waited for the moon.",
    "What is 347 + 586?",
    "Lily",
]
SHARED = ["tinystories-656k", "families/phi3", "families/gemma3", "arch/qwen3"]


def pooled(states):
    """Mean and last state, each of length 1."""
    unit = lambda vector: [round(float(value), 6) for value in vector / vector.norm()]
    return {"mean": unit(states.double().mean(0)), "last": unit(states.double()[-1])}


def embedded(path):
    model, vocabulary = export.read(path), tokenizer.load()
    for text in TEXTS:
        ids = vocabulary.encode(text, add_special_tokens=False).ids
        yield {"text": text, "ids": ids, **pooled(model.hidden(torch.tensor([ids]))[0])}


def shared(folder):
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    # The file itself: transformers' own class for Llama drops what the vocabulary does not know.
    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in TEXTS:
        ids = vocabulary.encode(text).ids
        yield {"text": text, "ids": ids, **pooled(model(torch.tensor([ids]), use_cache=False).last_hidden_state[0])}


@torch.no_grad()
def main(model, testdata, out):
    golden = {
        "madeBy": {package: version(package) for package in ("torch", "transformers", "tokenizers", "gguf")},
        "embedded": list(embedded(model)),
        "shared": [{"model": name, "texts": list(shared(Path(testdata) / name))} for name in SHARED],
    }
    Path(out).write_text(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
