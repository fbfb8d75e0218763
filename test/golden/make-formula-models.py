"""Makes formula-models.json: logits of small models by HF transformers, in float32.

The weights follow a formula that formula-models.test.ts repeats, so only configurations and results are stored.
Needs torch and transformers:  python make-formula-models.py > formula-models.json
"""

import json
import sys

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=40, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False,
)
TOKENS = 70
ROWS = [21, 40, 69]

MODELS = {
    "llama with biases": dict(SIZES, model_type="llama", attention_bias=True, mlp_bias=True, rope_theta=5000.0),
    "llama with a tied head": dict(SIZES, model_type="llama", tie_word_embeddings=True),
    "llama with llama3 rope": dict(
        SIZES, model_type="llama", rope_theta=500000.0,
        rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                          original_max_position_embeddings=32)),
    "llama with linear rope": dict(
        SIZES, model_type="llama", rope_scaling=dict(type="linear", factor=2.5)),
    "llama with yarn rope": dict(
        SIZES, model_type="llama", head_dim=16,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)),
    "llama with yarn rope, mscale and betas": dict(
        SIZES, model_type="llama", head_dim=16,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=8.0,
                          beta_slow=2.0, mscale=0.7, mscale_all_dim=0.4, truncate=False)),
    "mistral with a window": dict(SIZES, model_type="mistral", sliding_window=9),
    "mistral without a window": dict(SIZES, model_type="mistral", sliding_window=None, head_dim=12),
    "qwen2 with upper windows": dict(
        SIZES, model_type="qwen2", num_hidden_layers=3, use_sliding_window=True, sliding_window=7,
        max_window_layers=1),
    "qwen3": dict(SIZES, model_type="qwen3", head_dim=16, tie_word_embeddings=True),
    "gemma3 with old rope fields": dict(
        SIZES, model_type="gemma3_text", head_dim=16, num_hidden_layers=4, num_key_value_heads=1,
        sliding_window=11, sliding_window_pattern=2, rope_theta=1000000.0, rope_local_base_freq=3000.0,
        rope_scaling=dict(rope_type="linear", factor=8.0), query_pre_attn_scalar=24,
        tie_word_embeddings=True),
    "gemma3 with a logit cap": dict(
        SIZES, model_type="gemma3_text", head_dim=16, final_logit_softcapping=1.5,
        sliding_window=16, layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=16,
        tie_word_embeddings=True),
    "phi3": dict(SIZES, model_type="phi3", pad_token_id=0),
    "phi3 with short longrope, partly rotated": dict(
        SIZES, model_type="phi3", pad_token_id=0, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=128, original_max_position_embeddings=128, partial_rotary_factor=0.5,
        rope_scaling=dict(type="longrope", short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.5, 2.0, 4.0, 8.0])),
    "phi3 with long longrope": dict(
        SIZES, model_type="phi3", pad_token_id=0, max_position_embeddings=128,
        original_max_position_embeddings=32,
        rope_scaling=dict(type="longrope", short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.5, 2.0, 4.0, 8.0])),
}


def formula(name, shape):
    """Values from -0.25 to 0.25, scrambled from the index and the name's characters; norms lie around 1."""
    seed = sum((i + 1) * ord(c) for i, c in enumerate(name)) * 40503 % 2**32
    x = np.arange(int(np.prod(shape)), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    values = x.astype(np.float64) / 2**32 * 0.5 - 0.25
    if "norm" in name:
        values = values + 1
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


def run(config):
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**config), dtype=torch.float32, attn_implementation="eager").eval()
    state = {n: t for n, t in model.state_dict().items() if not (n == "lm_head.weight" and config["tie_word_embeddings"])}
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(formula(name, tuple(tensor.shape)))
        ids = [(i * 7 + i * i) % SIZES["vocab_size"] for i in range(TOKENS)]
        logits = model(torch.tensor([ids])).logits[0]
    return dict(
        config=config,
        tensors={name: list(tensor.shape) for name, tensor in state.items()},
        ids=ids,
        rows=ROWS,
        logits=[[round(float(v), 6) for v in logits[row]] for row in ROWS],
    )


torch.set_num_threads(1)
json.dump(dict(transformers=transformers.__version__, models={name: run(config) for name, config in MODELS.items()}),
          sys.stdout)
