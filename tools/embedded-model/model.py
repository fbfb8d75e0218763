"""A plain Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, tied head."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Shape:
    vocabulary: int = 4096
    width: int = 384
    layers: int = 8
    heads: int = 6
    kv_heads: int = 2
    hidden: int = 1024
    context: int = 4096
    rope_base: float = 10000.0
    epsilon: float = 1e-5

    @property
    def head(self):
        return self.width // self.heads


TINY = Shape(width=64, layers=2, heads=2, kv_heads=1, hidden=128)


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        scaled = x.float()
        scaled = scaled * torch.rsqrt(scaled.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (scaled * self.weight).to(x.dtype)


def rotate(x, cos, sin):
    """Turn the pairs (i, i + half) of every head by the angle of their position."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        width, kv = shape.width, shape.kv_heads * shape.head
        self.attention_norm = Norm(width, shape.epsilon)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv, bias=False)
        self.v = nn.Linear(width, kv, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.ffn_norm = Norm(width, shape.epsilon)
        self.gate = nn.Linear(width, shape.hidden, bias=False)
        self.up = nn.Linear(width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, width, bias=False)

    def forward(self, x, cos, sin, mask=None, cache=None):
        batch, length, width = x.shape
        split = lambda t: t.view(batch, length, -1, self.shape.head).transpose(1, 2)
        h = self.attention_norm(x)
        q, k, v = rotate(split(self.q(h)), cos, sin), rotate(split(self.k(h)), cos, sin), split(self.v(h))
        if cache is not None:
            k, v = cache.extend(self, k, v)
        h = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        x = x + self.o(h.transpose(1, 2).reshape(batch, length, width))
        h = self.ffn_norm(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Cache:
    """Keys and values of what has been read so far."""

    def __init__(self):
        self.store = {}

    def extend(self, block, k, v):
        if block in self.store:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self.store[block], (k, v)))
        self.store[block] = (k, v)
        return k, v


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.epsilon)
        frequencies = shape.rope_base ** (-torch.arange(0, shape.head, 2).float() / shape.head)
        angles = torch.arange(shape.context).float()[:, None] * frequencies
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:  # the layers that write into the residual stream start smaller
                nn.init.normal_(weight, std=0.02 / (2 * shape.layers) ** 0.5 if name.endswith(("o.weight", "down.weight")) else 0.02)

    def hidden(self, ids):
        x = self.embedding(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.norm(x)

    def forward(self, ids):
        return functional.linear(self.hidden(ids), self.embedding.weight)

    @torch.no_grad()
    def generate(self, prompts, stop, limit, temperature=0.0, seed=0):
        """Answers to several prompts at once, padded on the left; greedy unless a temperature is given."""
        device = self.cos.device
        generator = torch.Generator(device=device).manual_seed(seed)
        longest = max(map(len, prompts))
        limit = min(limit, self.shape.context - longest)
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=device)
        padding = torch.tensor([longest - len(p) for p in prompts], device=device)
        cache, past = Cache(), 0
        answers, done = [[] for _ in prompts], [False] * len(prompts)
        for _ in range(limit):
            columns = torch.arange(past, past + ids.shape[1], device=device)
            positions = (columns[None] - padding[:, None]).clamp(min=0)
            cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
            keys = torch.arange(past + ids.shape[1], device=device)
            seen = (keys[None, None] <= columns[None, :, None]) & ((keys[None] >= padding[:, None])[:, None] | (keys[None, None] == columns[None, :, None]))
            x = self.embedding(ids)
            for block in self.blocks:
                x = block(x, cos, sin, seen[:, None], cache)
            logits = functional.linear(self.norm(x[:, -1]), self.embedding.weight).float()
            past += ids.shape[1]
            if temperature:
                chosen = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
            else:
                chosen = logits.argmax(-1, keepdim=True)
            for i, token in enumerate(chosen[:, 0].tolist()):
                if not done[i]:
                    done[i] = token == stop
                    answers[i] += [] if done[i] else [token]
            if all(done):
                break
            ids = chosen
        return list(zip(answers, done))
