"""Golden logits of adapters: what PEFT makes of the models of golden.py, with adapters whose weights follow the same formula.

    python adapters.py ../../test/golden/formula-models.json ../../test/golden/formula-adapters.json

An adapter there needs the name of its model and the fields of adapter_config.json; what is missing beside them is computed in
float32.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from golden import IDS, ROWS, shapes, values


def adapter_values(model, name, shape):
    """Next to adapters of embeddings and heads, PEFT saves the model's own weights: they stay what they are."""
    if ".base_layer." not in name:
        return values(name, shape)
    own = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
    return values(own if own in model["tensors"] else "model.embed_tokens.weight", shape)


@torch.no_grad()
def golden(model, fields):
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    own = ids | {name: value for name, value in model["config"].items() if name != "model_type"}
    with tempfile.TemporaryDirectory() as path:
        base, adapter = Path(path) / "base", Path(path) / "adapter"
        known = AutoConfig.for_model(model["config"]["model_type"], **own)
        AutoModelForCausalLM.from_config(known).save_pretrained(base)
        save_file({name: values(name, shape) for name, shape in shapes(base)}, base / "model.safetensors", {"format": "pt"})
        filled = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
        get_peft_model(filled, LoraConfig(task_type="CAUSAL_LM", **fields)).save_pretrained(adapter)
        tensors = dict(shapes(adapter))
        save_file({name: adapter_values(model, name, shape) for name, shape in tensors.items()}, adapter / "adapter_model.safetensors")
        config = json.loads((adapter / "adapter_config.json").read_text())
        filled = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
        adapted = PeftModel.from_pretrained(filled, adapter).eval()
        single = adapted(torch.tensor([IDS]), use_cache=False).logits[0, ROWS].double()
    # Where the base lay says nothing.
    config["base_model_name_or_path"] = ""
    return {
        "config": config,
        "tensors": tensors,
        "logits": [[round(float(value), 6) for value in row] for row in single],
    }


def main(models, path):
    known = json.loads(Path(models).read_text())["models"]
    stored = json.loads(Path(path).read_text())
    for adapter in stored["adapters"]:
        if "logits" not in adapter:
            adapter.update(golden(known[adapter["model"]], adapter["fields"]))
            print(adapter["model"], flush=True)
    stored["peft"] = version("peft")
    Path(path).write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
