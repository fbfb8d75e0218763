"""Golden scores: what Hugging Face transformers makes of classifiers whose weights follow a formula.

    python classifiers.py ../../test/golden/classifiers.json

As encoders.py does it, but for models with a head: its outputs for two texts in one, of which the second has ids of its own kind
where the model knows kinds. A causal model without a head is asked for the logits of two tokens.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from encoders import SIZES
from golden import IDS, TOLERANCE, shapes, values
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

SECOND = 31
YES, NO = 7, 11
CAUSAL = {"num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16}
CONFIGS = {
    "bert": {"model_type": "bert", **SIZES, "num_hidden_layers": 2, "num_labels": 1},
    "bert of three labels": {"model_type": "bert", **SIZES, "num_hidden_layers": 1, "num_labels": 3, "hidden_act": "gelu_new"},
    "xlm-roberta": {"model_type": "xlm-roberta", **SIZES, "num_hidden_layers": 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1, "num_labels": 1},
    "modernbert": {"model_type": "modernbert", **SIZES, "num_hidden_layers": 3, "local_attention": 16, "num_labels": 1},
    "modernbert by the mean": {"model_type": "modernbert", **SIZES, "num_hidden_layers": 2, "local_attention": 16, "num_labels": 2, "classifier_pooling": "mean", "classifier_bias": True},
    "qwen3": {"model_type": "qwen3", **SIZES, **CAUSAL, "num_labels": 1},
    "qwen3 of two tokens": {"model_type": "qwen3", **SIZES, **CAUSAL, "tie_word_embeddings": True},
}


def outputs(folder, dtype, config):
    ids = torch.tensor([IDS])
    if "num_labels" not in config:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
        logits = model(ids).logits[0, -1].double()
        return (logits[YES] - logits[NO]).reshape(1)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    kinds = {"token_type_ids": (torch.arange(len(IDS)) >= SECOND).long()[None]} if config["model_type"] == "bert" else {}
    return model(ids, **kinds).logits[0].double()


@torch.no_grad()
def golden(config):
    # The usual ones lie outside of so small a vocabulary; a text is padded with what it does not have.
    ids = {**dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")), "pad_token_id": 39}
    fields = {name: value for name, value in config.items() if name != "model_type"}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        known = AutoConfig.for_model(config["model_type"], **{**ids, **fields})
        auto = AutoModelForSequenceClassification if "num_labels" in config else AutoModelForCausalLM
        auto.from_config(known).save_pretrained(folder)
        tensors = dict(shapes(folder))
        save_file({name: values(name, shape) for name, shape in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
        saved = json.loads((folder / "config.json").read_text())
        exact, single = outputs(folder, torch.float64, config), outputs(folder, torch.float32, config)
    difference = float((exact - single).abs().max())
    if difference > 10 * TOLERANCE:
        raise SystemExit(f"outputs differ by {difference} in float64: {config}")
    tokens = {} if "num_labels" in config else {"tokens": [YES, NO]}
    scores = torch.sigmoid(single) if len(single) == 1 else torch.softmax(single, 0)
    rounded = lambda vector: [round(float(value), 6) for value in vector]
    return {"config": saved, "tensors": tensors, "ids": IDS, "second": SECOND, **tokens, "outputs": rounded(single), "scores": rounded(scores)}


def main(path):
    made = {"transformers": version("transformers"), "models": {name: golden(config) for name, config in CONFIGS.items()}}
    Path(path).write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
