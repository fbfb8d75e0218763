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
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

# Tokens that the model computes; the head goes on from there with states of its own.
COMPUTED = 66
# Rows whose logits are stored, by the number of tokens computed before: within blocks, at their borders, and after them.
KNOWN = [1, 5, 31, 32, 33, 63, 64, 65]
CHAINED = 3


class Head(torch.nn.Module):
    """Named as the hub does."""

    def __init__(self, config):
        super().__init__()
        own = deepcopy(config)
        own.num_hidden_layers = 1
        own.layer_types = ["full_attention"]
        norm = lambda: Qwen3_5RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = norm(), norm(), norm()
        self.fc = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([Qwen3_5DecoderLayer(own, 0)])

    def forward(self, model, ids, states):
        """Of tokens 1, 2, … and of the states before them."""
        # Blocks of a KV cache keep states so.
        states = states.bfloat16().float()
        embeddings = model.model.embed_tokens(torch.tensor([ids]))
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(states[None])], dim=-1))
        length = len(ids)
        positions = torch.arange(1, length + 1)[None]
        mask = torch.full((length, length), -torch.inf).triu(1)[None, None]
        rotations = model.model.rotary_emb(x, positions)
        x = self.layers[0](x, position_embeddings=rotations, attention_mask=mask, position_ids=positions)
        x = x[0] if isinstance(x, tuple) else x
        return self.norm(x)[0]


@torch.no_grad()
def golden(config):
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    fields = {name: value for name, value in config.items() if name != "model_type"}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        known = AutoConfig.for_model(config["model_type"], **ids, **fields)
        AutoModelForCausalLM.from_config(known).save_pretrained(folder)
        file = folder / "model.safetensors"
        with safe_open(file, "numpy") as stored:
            shapes = {name: stored.get_slice(name).get_shape() for name in stored.keys()}
        save_file({name: values(name, shape) for name, shape in shapes.items()}, file, {"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    known._attn_implementation = "eager"
    head = Head(known).eval()
    own = {f"mtp.{name}": list(tensor.shape) for name, tensor in head.state_dict().items()}
    head.load_state_dict({name[4:]: torch.from_numpy(values(name, shape)) for name, shape in own.items()})

    # The state of the last token is after the last norm.
    states = model.model(torch.tensor([IDS[:COMPUTED]]), use_cache=False).last_hidden_state[0]
    heard = head(model, IDS[1:COMPUTED], states[:-1])
    logits = [model.lm_head(heard[count - 1]) for count in KNOWN]
    chained = []
    for count in range(CHAINED):
        heard = head(model, IDS[1 : COMPUTED + 1 + count], states)
        chained.append(model.lm_head(heard[-1]))
        states = torch.cat([states, heard[-1:]])
    rounded = lambda rows: [[round(float(value), 5) for value in row] for row in rows]
    return {
        "config": config,
        "tensors": {**shapes, **own},
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
