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


class Head(nn.Module):
    """Predicts the token after the next one of the next token and of the state that the model made before it (multi-token prediction).

    Its own states may stand for the model's, so that it goes on by itself.
    """

    def __init__(self, shape):
        super().__init__()
        self.embedding_norm = Norm(shape.width, shape.epsilon)
        self.state_norm = Norm(shape.width, shape.epsilon)
        self.projection = nn.Linear(2 * shape.width, shape.width, bias=False)
        self.block = Block(shape)
        self.norm = Norm(shape.width, shape.epsilon)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.02 / (2 * shape.layers) ** 0.5 if name.endswith(("o.weight", "down.weight")) else 0.02)

    def unroll(self, embeddings, states, cos, sin, depths):
        """States of the head, by depth: the first follow the model's, each other those of the depth before.

        Row r has the embedding of token r + 1 and the model's state of token r. At depth d it attends to what depth 1 left of rows up to
        r - d + 1 and to what each other depth left of one row after those: as where the head drafts d tokens, and the model then computes them.
        """
        block, shape = self.block, self.block.shape
        batch, length, width = states.shape
        split = lambda t: t.view(batch, length, -1, shape.head).transpose(1, 2)
        rows = torch.arange(length, device=states.device)
        told = self.embedding_norm(embeddings)
        state, keys, values = states, [], []
        for depth in range(1, depths + 1):
            x = self.projection(torch.cat((told, self.state_norm(state)), dim=-1))
            h = block.attention_norm(x)
            q, k, v = rotate(split(block.q(h)), cos, sin), rotate(split(block.k(h)), cos, sin), split(block.v(h))
            repeated = lambda t: t.repeat_interleave(shape.heads // shape.kv_heads, dim=1)
            keys.append(repeated(k))
            values.append(repeated(v))
            scores = (q @ keys[0].transpose(2, 3)) / shape.head**0.5
            scores = scores.masked_fill(rows[None, :] > rows[:, None] - (depth - 1), -torch.inf)
            # The key of depth j that row r sees is that of row r - (depth - j).
            late = [torch.roll(part, depth - j, dims=2) for j in range(2, depth + 1) for part in (keys[j - 1], values[j - 1])]
            own = [(q * key).sum(-1, keepdim=True) / shape.head**0.5 for key in late[::2]]
            chances = torch.cat([scores, *own], dim=-1).float().softmax(-1).to(v.dtype)
            mixed = chances[..., :length] @ values[0]
            for place, value in enumerate(late[1::2]):
                mixed = mixed + chances[..., length + place, None] * value
            x = x + block.o(mixed.transpose(1, 2).reshape(batch, length, width))
            h = block.ffn_norm(x)
            x = x + block.down(functional.silu(block.gate(h)) * block.up(h))
            made = self.norm(x)
            yield made
            # The first row has none before it: it is not asked for at further depths.
            state = torch.roll(made, 1, dims=1)


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
