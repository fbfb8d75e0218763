"""Golden logits of adapters of mlx-lm: what it makes of the models of golden.py, with adapters whose weights follow the same formula.

    python mlx_adapters.py ../../test/golden/formula-models.json ../../test/golden/formula-adapters-mlx.json

An adapter there needs the name of its model and the fields of adapter_config.json; what is missing beside them is computed in
float32.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model
from safetensors.numpy import save_file
from transformers import AutoConfig

from golden import IDS, ROWS, values

PARTS = ("lora_a", "lora_b", "m")


def whole(config):
    """With the defaults of transformers, as config.json has them."""
    fields = {name: value for name, value in config.items() if name != "model_type"}
    known = AutoConfig.for_model(config["model_type"], **fields).to_dict()
    return known | config | {"rope_theta": known["rope_parameters"]["rope_theta"], "rope_scaling": None}


def golden(model, config):
    with tempfile.TemporaryDirectory() as path:
        base = Path(path)
        (base / "config.json").write_text(json.dumps(whole(model["config"])))
        tensors = {name: values(name, shape) for name, shape in model["tensors"].items()}
        save_file(tensors, base / "model.safetensors", {"format": "pt"})
        loaded, _ = load_model(base)
    dora = config["fine_tune_type"] == "dora"
    linear_to_lora_layers(loaded, config["num_layers"], config["lora_parameters"], use_dora=dora)
    parts = {name: part.shape for name, part in tree_flatten(loaded.parameters()) if name.rsplit(".")[-1] in PARTS}
    loaded.load_weights([(name, mx.array(values(name, shape))) for name, shape in parts.items()], strict=False)
    loaded.eval()
    logits = loaded(mx.array([IDS]))[0].astype(mx.float32)
    return {
        "tensors": {name: list(shape) for name, shape in parts.items()},
        "logits": [[round(value, 6) for value in logits[row].tolist()] for row in ROWS],
    }


def main(models, path):
    known = json.loads(Path(models).read_text())["models"]
    stored = json.loads(Path(path).read_text())
    for adapter in stored["adapters"]:
        if "logits" not in adapter:
            adapter.update(golden(known[adapter["model"]], adapter["config"]))
            print(adapter["model"], flush=True)
    stored["mlx-lm"] = version("mlx-lm")
    Path(path).write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
