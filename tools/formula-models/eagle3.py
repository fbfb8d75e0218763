"""Golden logits of EAGLE-3 heads, whose weights follow a formula, over models that Hugging Face transformers compute.

    python eagle3.py ../../test/golden/eagle3.json

The head itself is written down here as its paper and the implementations that serve it have it: https://arxiv.org/abs/2503.01840.
A model there needs two configurations, its own and the head's, as config.json would have them, and of each token of a head that has
a vocabulary of its own how far it is from its row. Everything is computed in float32.
"""

import sys
import tempfile
from pathlib import Path

import torch
from golden import IDS, values
from mtp import CHAINED, COMPUTED, KNOWN, fill, loaded, record, shapes_of
from torch.nn.functional import silu
from transformers import AutoConfig


def shapes_of_head(config, tokens, size):
    layer = config.get("transformer_layer_config", config)
    heads, kv_heads, inner = layer["num_attention_heads"], layer["num_key_value_heads"], layer["intermediate_size"]
    width = layer.get("head_dim", size // heads)
    # Speculators count the layer.
    prefix = "layers.0" if "transformer_layer_config" in config else "midlayer"
    read = config.get("eagle_aux_hidden_state_layer_ids", [0, 0, 0])
    shapes = {
        "fc.weight": [size, len(read) * size],
        f"{prefix}.input_layernorm.weight": [size],
        f"{prefix}.hidden_norm.weight": [size],
        f"{prefix}.post_attention_layernorm.weight": [size],
        f"{prefix}.self_attn.q_proj.weight": [heads * width, 2 * size],
        f"{prefix}.self_attn.k_proj.weight": [kv_heads * width, 2 * size],
        f"{prefix}.self_attn.v_proj.weight": [kv_heads * width, 2 * size],
        f"{prefix}.self_attn.o_proj.weight": [size, heads * width],
        f"{prefix}.mlp.gate_proj.weight": [inner, size],
        f"{prefix}.mlp.up_proj.weight": [inner, size],
        f"{prefix}.mlp.down_proj.weight": [size, inner],
        "norm.weight": [size],
    }
    if tokens is not None:
        # The head that has its own vocabulary has its own embedding, too.
        shapes |= {"embed_tokens.weight": [layer["vocab_size"], size], "lm_head.weight": [len(tokens), size]}
    return shapes


class Head:
    def __init__(self, config, shapes, model):
        layer = config.get("transformer_layer_config", config)
        self.heads, self.kv_heads = layer["num_attention_heads"], layer["num_key_value_heads"]
        self.epsilon, self.theta = layer["rms_norm_eps"], layer.get("rope_theta", 10000.0)
        self.normalizes_residual = config.get("norm_before_residual", False)
        own = {name: torch.from_numpy(values(name, shape)) for name, shape in shapes.items()}
        self.own = {name.replace("midlayer.", "layers.0.").removesuffix(".weight"): tensor for name, tensor in own.items()}
        self.own.setdefault("embed_tokens", model.model.embed_tokens.weight)
        self.own.setdefault("lm_head", model.lm_head.weight)

    def linear(self, x, name):
        return x @ self.own[name].T

    def norm(self, x, name):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * self.own[name]

    def rotated(self, x, positions):
        half = x.shape[-1] // 2
        angles = positions[:, None] * self.theta ** (-torch.arange(half) / half)
        first, second = x[..., :half], x[..., half:]
        turned = [first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()]
        return torch.cat(turned, dim=-1)

    def attended(self, x):
        rows, positions = x.shape[0], torch.arange(1, x.shape[0] + 1, dtype=torch.float32)
        split = lambda name, heads: self.linear(x, f"layers.0.self_attn.{name}").view(rows, heads, -1).transpose(0, 1)
        queries = self.rotated(split("q_proj", self.heads), positions)
        keys = self.rotated(split("k_proj", self.kv_heads), positions)
        shared = self.heads // self.kv_heads
        keys = keys.repeat_interleave(shared, dim=0)
        kept = split("v_proj", self.kv_heads).repeat_interleave(shared, dim=0)
        scores = queries @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5
        scores += torch.full((rows, rows), -torch.inf).triu(1)
        gathered = scores.softmax(-1) @ kept
        return self.linear(gathered.transpose(0, 1).reshape(rows, -1), "layers.0.self_attn.o_proj")

    def __call__(self, ids, states):
        """What it makes of tokens 1, 2, … and of the states before them: states, too."""
        # Blocks of a KV cache keep states so.
        states = states.bfloat16().float()
        embeddings = self.norm(self.own["embed_tokens"][torch.tensor(ids)], "layers.0.input_layernorm")
        seen = self.norm(states, "layers.0.hidden_norm")
        x = (seen if self.normalizes_residual else states) + self.attended(torch.cat([embeddings, seen], dim=-1))
        inner = self.norm(x, "layers.0.post_attention_layernorm")
        gates, ups = self.linear(inner, "layers.0.mlp.gate_proj"), self.linear(inner, "layers.0.mlp.up_proj")
        return x + self.linear(silu(gates) * ups, "layers.0.mlp.down_proj")

    def logits(self, made):
        return self.linear(self.norm(made, "norm"), "lm_head")


def features_of(model, after, ids):
    """The residual stream after so many layers, side by side."""
    taken = {}
    layers = model.model.layers
    hooks = [
        layers[count].register_forward_pre_hook(lambda _, args, at=count: taken.update({at: args[0][0]})) for count in set(after)
    ]
    model.model(torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return torch.cat([taken[count] for count in after], dim=-1)


def layers_read(config, count):
    if "eagle_aux_hidden_state_layer_ids" in config:
        return config["eagle_aux_hidden_state_layer_ids"]
    inner = config.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
    return [2, count // 2, count - 3] if inner is None else [layer + 1 for layer in inner]


@torch.no_grad()
def golden(config, head_config, offsets):
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    fields = {name: value for name, value in config.items() if name != "model_type"}
    known = AutoConfig.for_model(config["model_type"], **ids, **fields)
    with tempfile.TemporaryDirectory() as path:
        shapes = shapes_of(known, Path(path))
        model = loaded(known, shapes, Path(path))
    head_shapes = shapes_of_head(head_config, offsets, known.hidden_size)
    head = Head(head_config, head_shapes, model)
    features = features_of(model, layers_read(head_config, known.num_hidden_layers), IDS[:COMPUTED])
    states = head.linear(features, "fc")
    made = head(IDS[1:COMPUTED], states[:-1])
    logits = [head.logits(made[count - 1]) for count in KNOWN]
    chained = []
    for count in range(CHAINED):
        made = head(IDS[1 : COMPUTED + 1 + count], states)
        chained.append(head.logits(made[-1]))
        states = torch.cat([states, made[-1:]])
    return {
        "config": config,
        "head": head_config,
        "offsets": offsets,
        "headTensors": head_shapes,
        **record(shapes, logits, chained),
    }


if __name__ == "__main__":
    fill(sys.argv[1], lambda model: golden(model["config"], model["head"], model.get("offsets")))
