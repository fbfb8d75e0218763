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
from transformers.models.ernie4_5_moe.modeling_ernie4_5_moe import Ernie4_5_MoeDecoderLayer
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer

# Tokens that the model computes; the head goes on from there with states of its own.
COMPUTED = 66
# Rows whose logits are stored, by the number of tokens computed before: within blocks, at their borders, and after them.
KNOWN = [1, 5, 31, 32, 33, 63, 64, 65]
CHAINED = 3


class Head(torch.nn.Module):
    """`parts` are its norms of embeddings, of states, and the last one, its projection, embedding and output."""

    def __init__(self, parts, layer, model, state_first=False, before_norm=False):
        super().__init__()
        self.parts, self.layer, self.model = parts, layer, model.model
        self.state_first, self.before_norm = state_first, before_norm

    def forward(self, ids, states):
        """What the layer makes of tokens 1, 2, … and of the states before them."""
        embedding_norm, state_norm, _, projection, embedding, _ = self.parts
        # Blocks of a KV cache keep states so.
        states = states.bfloat16().float()
        both = [embedding_norm(embedding(torch.tensor([ids]))), state_norm(states[None])]
        x = projection(torch.cat(both[::-1] if self.state_first else both, dim=-1))
        positions = torch.arange(1, len(ids) + 1)[None]
        mask = torch.full((len(ids), len(ids)), -torch.inf).triu(1)[None, None]
        rotations = self.model.rotary_emb(x, positions)
        x = self.layer(x, position_embeddings=rotations, attention_mask=mask, position_ids=positions)
        return (x[0] if isinstance(x, tuple) else x)[0]

    def state(self, made, norm):
        return made if self.before_norm else norm(made)

    def logits(self, made):
        return self.parts[-1](self.parts[2](made))


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


def beside(known, folder, layer, prefix, names, **ways):
    """`names` are those of the norms of embeddings and of states, of the projection, and of the last norm if it has its own."""
    shapes = shapes_of(known, folder)
    model = loaded(known, shapes, folder)
    size, norm = known.hidden_size, type(model.model.norm)
    parts = [norm(size, eps=known.rms_norm_eps), norm(size, eps=known.rms_norm_eps), linear(2 * size, size)]
    parts += [norm(size, eps=known.rms_norm_eps) for _ in names[3:]]
    shapes |= fill({f"{name}.weight": part for name, part in zip(names, parts)})
    own = deepcopy(known)
    own.num_hidden_layers, own.layer_types, own._attn_implementation = 1, ["full_attention"], "eager"
    layer = layer(own, 0)
    of_layer = {f"{prefix}.{name}": list(tensor.shape) for name, tensor in layer.state_dict().items()}
    layer.load_state_dict({name[len(prefix) + 1 :]: torch.from_numpy(values(name, shape)) for name, shape in of_layer.items()})
    embedding_norm, state_norm, projection, last_norm = (parts + [model.model.norm])[:4]
    parts = [embedding_norm, state_norm, last_norm, projection, model.model.embed_tokens, model.lm_head]
    return model, Head(parts, layer.eval(), model, **ways), shapes | of_layer


def qwen(known, folder):
    names = ["mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"]
    return beside(known, folder, Qwen3_5DecoderLayer, "mtp.layers.0", names)


def mimo(known, folder):
    """Transformers do not know it: Qwen 2 with a head, which reads the state first."""
    prefix = "model.mtp_layers.0"
    names = [f"{prefix}.{name}" for name in ["token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"]]
    return beside(known, folder, Qwen2DecoderLayer, prefix, names, state_first=True)


def ernie(known, folder):
    """States are those before the last norm, which the head shares with the model; its layer, whose number is 0, has no experts."""
    names = [f"model.{name}.0" for name in ["mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj"]]
    return beside(known, folder, Ernie4_5_MoeDecoderLayer, "model.mtp_block.0", names, before_norm=True)


def behind(known, folder):
    """As a layer behind the others, with an embedding and an output of its own."""
    count, size = known.num_hidden_layers, known.hidden_size
    known.num_hidden_layers += 1
    if getattr(known, "mlp_layer_types", None):
        known.mlp_layer_types = [*known.mlp_layer_types, "sparse"]
    shapes = shapes_of(known, folder)
    model = loaded(known, shapes, folder)
    layer = model.model.layers[count]
    del model.model.layers[count:]
    model.config.num_hidden_layers = model.model.config.num_hidden_layers = count
    norms = [type(model.model.norm)(size, eps=known.rms_norm_eps) for _ in range(3)]
    parts = [*norms, linear(2 * size, size), torch.nn.Embedding(known.vocab_size, size), linear(size, known.vocab_size)]
    names = ["enorm", "hnorm", "shared_head.norm", "eh_proj", "embed_tokens", "shared_head.head"]
    shapes |= fill({f"model.layers.{count}.{name}.weight": part for name, part in zip(names, parts)})
    return model, Head(parts, layer, model), shapes


families = {
    "qwen3_5_text": qwen,
    "glm4_moe": behind,
    "deepseek_v3": behind,
    "glm4_moe_lite": behind,
    "mimo": mimo,
    "ernie4_5_moe": ernie,
}
# What transformers call them, where they know them by another name.
known_as = {"mimo": "qwen2"}


def states_of(model, head, ids):
    """Of all tokens, as the head reads them."""
    seen = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, args: seen.append(args[0][0]))
    model.model(torch.tensor([ids]), use_cache=False)
    hook.remove()
    return head.state(seen[0], model.model.norm)


@torch.no_grad()
def golden(config):
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    fields = {name: value for name, value in config.items() if name != "model_type"}
    kind = config["model_type"]
    known = AutoConfig.for_model(known_as.get(kind, kind), **ids, **fields)
    with tempfile.TemporaryDirectory() as path:
        model, head, shapes = families[kind](known, Path(path))

    states = states_of(model, head, IDS[:COMPUTED])
    made = head(IDS[1:COMPUTED], states[:-1])
    logits = [head.logits(made[count - 1]) for count in KNOWN]
    chained = []
    for count in range(CHAINED):
        made = head(IDS[1 : COMPUTED + 1 + count], states)
        chained.append(head.logits(made[-1]))
        states = torch.cat([states, head.state(made[-1:], head.parts[2])])
    return {"config": config, **record(shapes, logits, chained)}


def record(shapes, logits, chained):
    """What a test needs of a model but its config."""
    rounded = lambda rows: [[round(float(value), 5) for value in row] for row in rows]
    return {
        "tensors": {name: list(shape) for name, shape in shapes.items()},
        "ids": IDS,
        "computed": COMPUTED,
        "known": KNOWN,
        "logits": rounded(logits),
        "chained": rounded(chained),
    }


def fill(path, make):
    """Computes the models of a file that have no logits yet."""
    stored = json.loads(Path(path).read_text())
    for name, model in stored.items():
        if "logits" not in model:
            stored[name] = make(model)
    Path(path).write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    fill(sys.argv[1], lambda model: golden(model["config"]))
