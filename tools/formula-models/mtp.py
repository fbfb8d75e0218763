"""Golden logits of MTP heads: what layers of Hugging Face transformers make of weights that follow a formula.

    python mtp.py ../../test/golden/mtp.json

Transformers leaves heads unread. Here one is put together from its layers: of each token and the state that the model has made of
the token before it. A model there needs a configuration, as config.json would have it; the rest is computed in float32.
"""

import json
import sys
import tempfile
from copy import deepcopy
from pathlib import Path

import torch
from golden import IDS, values
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeRMSNorm
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

# Tokens that the model computes; the head goes on from there with states of its own.
COMPUTED = 66
# Rows whose logits are stored, by the number of tokens computed before: within blocks, at their borders, and after them.
KNOWN = [1, 5, 31, 32, 33, 63, 64, 65]
CHAINED = 3


class Head(torch.nn.Module):
    """`parts` are its norms of embeddings, of states, and the last one, its projection, embedding and output."""

    def __init__(self, parts, layer, model):
        super().__init__()
        self.parts, self.layer, self.model = parts, layer, model.model

    def forward(self, ids, states):
        """States of tokens 1, 2, … and of the states before them."""
        embedding_norm, state_norm, final_norm, projection, embedding, _ = self.parts
        # Blocks of a KV cache keep states so.
        states = states.bfloat16().float()
        x = projection(torch.cat([embedding_norm(embedding(torch.tensor([ids]))), state_norm(states[None])], dim=-1))
        positions = torch.arange(1, len(ids) + 1)[None]
        mask = torch.full((len(ids), len(ids)), -torch.inf).triu(1)[None, None]
        rotations = self.model.rotary_emb(x, positions)
        x = self.layer(x, position_embeddings=rotations, attention_mask=mask, position_ids=positions)
        return final_norm(x[0] if isinstance(x, tuple) else x)[0]

    def logits(self, states):
        return self.parts[-1](states)


def loaded(config, shapes, folder):
    """The model, with weights that follow the formula."""
    file = folder / "model.safetensors"
    save_file({name: values(name, shape) for name, shape in shapes.items()}, file, {"format": "pt"})
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **eager).eval()


def shapes_of(config, folder):
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "numpy") as stored:
        return {name: stored.get_slice(name).get_shape() for name in stored.keys()}


def fill(named):
    """Modules by the names of their weights; gives the shapes of these."""
    for name, module in named.items():
        module.weight = torch.nn.Parameter(torch.from_numpy(values(name, list(module.weight.shape))))
    return {name: list(module.weight.shape) for name, module in named.items()}


def linear(inputs, outputs):
    return torch.nn.Linear(inputs, outputs, bias=False)


def qwen(known, folder):
    """Beside the layers."""
    shapes = shapes_of(known, folder)
    model = loaded(known, shapes, folder)
    own = deepcopy(known)
    own.num_hidden_layers, own.layer_types, own._attn_implementation = 1, ["full_attention"], "eager"
    norms = [Qwen3_5RMSNorm(known.hidden_size, eps=known.rms_norm_eps) for _ in range(3)]
    projection, layer = linear(2 * known.hidden_size, known.hidden_size), Qwen3_5DecoderLayer(own, 0)
    shapes |= fill(dict(zip(["mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight", "mtp.norm.weight"], norms)))
    shapes |= fill({"mtp.fc.weight": projection})
    of_layer = {f"mtp.layers.0.{name}": list(tensor.shape) for name, tensor in layer.state_dict().items()}
    layer.load_state_dict({name[13:]: torch.from_numpy(values(name, shape)) for name, shape in of_layer.items()})
    return model, Head([*norms, projection, model.model.embed_tokens, model.lm_head], layer.eval(), model), shapes | of_layer


def glm(known, folder):
    """As a layer behind the others, with an embedding and an output of its own."""
    count, size = known.num_hidden_layers, known.hidden_size
    known.num_hidden_layers += 1
    shapes = shapes_of(known, folder)
    model = loaded(known, shapes, folder)
    layer = model.model.layers[count]
    del model.model.layers[count:]
    model.config.num_hidden_layers = model.model.config.num_hidden_layers = count
    norms = [Glm4MoeRMSNorm(size, eps=known.rms_norm_eps) for _ in range(3)]
    parts = [*norms, linear(2 * size, size), torch.nn.Embedding(known.vocab_size, size), linear(size, known.vocab_size)]
    names = ["enorm", "hnorm", "shared_head.norm", "eh_proj", "embed_tokens", "shared_head.head"]
    shapes |= fill({f"model.layers.{count}.{name}.weight": part for name, part in zip(names, parts)})
    return model, Head(parts, layer, model), shapes


families = {"qwen3_5_text": qwen, "glm4_moe": glm}


@torch.no_grad()
def golden(config):
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    fields = {name: value for name, value in config.items() if name != "model_type"}
    known = AutoConfig.for_model(config["model_type"], **ids, **fields)
    with tempfile.TemporaryDirectory() as path:
        model, head, shapes = families[config["model_type"]](known, Path(path))

    # The state of the last token is after the last norm.
    states = model.model(torch.tensor([IDS[:COMPUTED]]), use_cache=False).last_hidden_state[0]
    made = head(IDS[1:COMPUTED], states[:-1])
    logits = [head.logits(made[count - 1]) for count in KNOWN]
    chained = []
    for count in range(CHAINED):
        made = head(IDS[1 : COMPUTED + 1 + count], states)
        chained.append(head.logits(made[-1]))
        states = torch.cat([states, made[-1:]])
    rounded = lambda rows: [[round(float(value), 5) for value in row] for row in rows]
    return {
        "config": config,
        "tensors": {name: list(shape) for name, shape in shapes.items()},
        "ids": IDS,
        "computed": COMPUTED,
        "known": KNOWN,
        "logits": rounded(logits),
        "chained": rounded(chained),
    }


def main(path):
    stored = json.loads(Path(path).read_text())
    for name, model in stored.items():
        if "logits" not in model:
            stored[name] = golden(model["config"])
    Path(path).write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
