"""Golden states: what Hugging Face transformers makes of encoders whose weights follow a formula.

    python encoders.py ../../test/golden/encoders.json

As golden.py does it, but for models that have no logits: final states of some rows, and the mean of all.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from golden import IDS, TOLERANCE, shapes, values
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModel

ROWS = [0, 21, 40, 69]
SIZES = {"vocab_size": 40, "hidden_size": 48, "intermediate_size": 64, "num_attention_heads": 4, "max_position_embeddings": 80}
CONFIGS = {
    "bert": {"model_type": "bert", **SIZES, "num_hidden_layers": 2},
    "bert with the other gelu": {"model_type": "bert", **SIZES, "num_hidden_layers": 1, "type_vocab_size": 1, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5},
    "xlm-roberta": {"model_type": "xlm-roberta", **SIZES, "num_hidden_layers": 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1},
    "nomic_bert": {"model_type": "nomic_bert", **SIZES, "num_hidden_layers": 2},
    "modernbert": {"model_type": "modernbert", **SIZES, "num_hidden_layers": 5, "local_attention": 16, "global_attn_every_n_layers": 3},
    "modernbert with biases": {"model_type": "modernbert", **SIZES, "num_hidden_layers": 3, "local_attention": 9, "norm_bias": True, "attention_bias": True, "mlp_bias": True, "global_attn_every_n_layers": 2},
    "gemma3": {
        "model_type": "gemma3_text", **SIZES, "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 16,
        "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "use_bidirectional_attention": True,
    },
}


def states(folder, dtype):
    model = AutoModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    return model(torch.tensor([IDS])).last_hidden_state[0].double()


@torch.no_grad()
def golden(config):
    # The usual ones lie outside of so small a vocabulary.
    ids = {"pad_token_id": 0, **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))}
    fields = {name: value for name, value in config.items() if name != "model_type"}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        known = AutoConfig.for_model(config["model_type"], **{**ids, **fields})
        AutoModel.from_config(known).save_pretrained(folder)
        tensors = dict(shapes(folder))
        save_file({name: values(name, shape) for name, shape in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
        saved = json.loads((folder / "config.json").read_text())
        exact, single = states(folder, torch.float64), states(folder, torch.float32)
    difference = float((exact - single).abs().max())
    if difference > 10 * TOLERANCE:
        raise SystemExit(f"states differ by {difference} in float64: {config}")
    rounded = lambda vector: [round(float(value), 6) for value in vector]
    return {
        "config": config,
        "saved": saved,
        "tensors": tensors,
        "ids": IDS,
        "rows": ROWS,
        "states": [rounded(single[row]) for row in ROWS],
        "mean": rounded(single.mean(0)),
    }


def main(path):
    made = {"transformers": version("transformers"), "models": {name: golden(config) for name, config in CONFIGS.items()}}
    Path(path).write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
