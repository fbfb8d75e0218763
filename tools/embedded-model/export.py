"""Writing the model as a GGUF file with Q8_0 matrices, and reading it back.

    python export.py with-head.gguf without.gguf     leaves out the head, for programs that refuse tensors they do not know
"""

import json
import struct

import numpy

from chat import BLANK, END, TEMPLATE
from tokenizer import MARKS, SPECIAL

ALIGNMENT = 32
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
UINT32, FLOAT32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
INT32 = 5
F32, Q8_0 = 0, 8
BLOCK = 32


def quantise(matrix):
    """Q8_0: rows in blocks of 32, each a half-precision scale and 32 signed bytes."""
    blocks = numpy.ascontiguousarray(matrix, dtype=numpy.float32).reshape(-1, BLOCK)
    scale = numpy.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse
    # Half away from zero, as C's roundf does; numpy.round would go to even.
    values = (numpy.sign(scaled) * numpy.floor(numpy.abs(scaled) + 0.5)).astype(numpy.int8)
    return scale.astype(numpy.float16), values


def dequantised(matrix):
    scale, values = quantise(matrix)
    return (values * scale.astype(numpy.float32)).reshape(matrix.shape)


def interleave(matrix, heads):
    """Rows (i, i + half) of a head become neighbours: the order that GGUF's llama expects for rotary positions."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def tensors(model, head):
    """GGUF name -> array, norms first as vectors. The head is a further block."""
    weight = lambda module: module.weight.detach().float().cpu().numpy()
    shape = model.shape
    yield "token_embd.weight", weight(model.embedding)
    yield "output_norm.weight", weight(model.norm)
    for i, block in enumerate([*model.blocks, *([head.block] if head else [])]):
        yield f"blk.{i}.attn_norm.weight", weight(block.attention_norm)
        yield f"blk.{i}.attn_q.weight", interleave(weight(block.q), shape.heads)
        yield f"blk.{i}.attn_k.weight", interleave(weight(block.k), shape.kv_heads)
        yield f"blk.{i}.attn_v.weight", weight(block.v)
        yield f"blk.{i}.attn_output.weight", weight(block.o)
        yield f"blk.{i}.ffn_norm.weight", weight(block.ffn_norm)
        yield f"blk.{i}.ffn_gate.weight", weight(block.gate)
        yield f"blk.{i}.ffn_up.weight", weight(block.up)
        yield f"blk.{i}.ffn_down.weight", weight(block.down)
    if head:
        own = f"blk.{shape.layers}.nextn"
        yield f"{own}.enorm.weight", weight(head.embedding_norm)
        yield f"{own}.hnorm.weight", weight(head.state_norm)
        yield f"{own}.eh_proj.weight", weight(head.projection)
        yield f"{own}.shared_head_norm.weight", weight(head.norm)


def metadata(shape, tokenizer, heads):
    state = json.loads(tokenizer.to_str())
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(ids, key=ids.get)
    kinds = [CONTROL if token in SPECIAL else USER_DEFINED if token in MARKS else NORMAL for token in tokens]
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in state["model"]["merges"]]
    return [
        ("general.architecture", STRING, "llama"),
        ("general.type", STRING, "model"),
        ("general.name", STRING, "Chairlift Demo 14M"),
        ("general.author", STRING, "The Chairlift authors"),
        ("general.description", STRING, "A tiny chat model for demonstrations and tests. It knows one small synthetic world; for real answers, load a real model."),
        ("general.license", STRING, "mit"),
        ("general.size_label", STRING, "14M"),
        ("general.languages", (ARRAY, STRING), ["en"]),
        ("general.file_type", UINT32, 7),
        ("general.quantization_version", UINT32, 2),
        ("llama.block_count", UINT32, shape.layers + heads),
        *([("llama.nextn_predict_layers", UINT32, heads)] if heads else []),
        ("llama.context_length", UINT32, shape.context),
        ("llama.embedding_length", UINT32, shape.width),
        ("llama.feed_forward_length", UINT32, shape.hidden),
        ("llama.attention.head_count", UINT32, shape.heads),
        ("llama.attention.head_count_kv", UINT32, shape.kv_heads),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, shape.epsilon),
        ("llama.rope.dimension_count", UINT32, shape.head),
        ("llama.rope.freq_base", FLOAT32, shape.rope_base),
        ("llama.vocab_size", UINT32, shape.vocabulary),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "smollm"),
        ("tokenizer.ggml.tokens", (ARRAY, STRING), tokens),
        ("tokenizer.ggml.token_type", (ARRAY, INT32), kinds),
        ("tokenizer.ggml.merges", (ARRAY, STRING), merges),
        ("tokenizer.ggml.bos_token_id", UINT32, ids[BLANK]),
        ("tokenizer.ggml.eos_token_id", UINT32, ids[END]),
        ("tokenizer.ggml.padding_token_id", UINT32, ids[BLANK]),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def packed(kind, value):
    if kind == STRING:
        data = value.encode()
        return struct.pack("<Q", len(data)) + data
    if isinstance(kind, tuple):
        return struct.pack("<IQ", kind[1], len(value)) + b"".join(packed(kind[1], item) for item in value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def write(path, model, tokenizer, head=None):
    entries = metadata(model.shape, tokenizer, 1 if head else 0)
    header, bodies, offset, count = b"", [], 0, 0
    for name, array in tensors(model, head):
        if array.ndim == 2:
            scale, values = quantise(array)
            body, kind = numpy.concatenate([scale.view(numpy.int8), values], axis=1).tobytes(), Q8_0
        else:
            body, kind = array.tobytes(), F32
        header += packed(STRING, name) + struct.pack(f"<I{array.ndim}QIQ", array.ndim, *array.shape[::-1], kind, offset)
        body += b"\0" * (-len(body) % ALIGNMENT)
        bodies.append(body)
        offset += len(body)
        count += 1
    fields = b"".join(packed(STRING, key) + struct.pack("<I", kind[0] if isinstance(kind, tuple) else kind) + packed(kind, value) for key, kind, value in entries)
    front = b"GGUF" + struct.pack("<IQQ", 3, count, len(entries)) + fields + header
    path.write_bytes(front + b"\0" * (-len(front) % ALIGNMENT) + b"".join(bodies))


def read(path):
    """The model of a GGUF file in float32, without its head, through the `gguf` package: an independent reader."""
    import torch
    from gguf import GGUFReader
    from gguf.quants import dequantize

    from model import Llama, Shape

    reader = GGUFReader(path)
    field = lambda key: reader.fields[key].contents()
    heads = field("llama.nextn_predict_layers") if "llama.nextn_predict_layers" in reader.fields else 0
    shape = Shape(
        vocabulary=field("llama.vocab_size"), width=field("llama.embedding_length"), layers=field("llama.block_count") - heads, heads=field("llama.attention.head_count"),
        kv_heads=field("llama.attention.head_count_kv"), hidden=field("llama.feed_forward_length"), context=field("llama.context_length"),
        rope_base=field("llama.rope.freq_base"), epsilon=field("llama.attention.layer_norm_rms_epsilon"),
    )
    stored = {tensor.name: torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()) for tensor in reader.tensors}

    def halves(matrix, heads):
        rows, columns = matrix.shape
        return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)

    model = Llama(shape)
    state = {"embedding.weight": stored["token_embd.weight"], "norm.weight": stored["output_norm.weight"]}
    names = {"attention_norm": "attn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "ffn_norm": "ffn_norm", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    for i in range(shape.layers):
        for ours, theirs in names.items():
            state[f"blocks.{i}.{ours}.weight"] = stored[f"blk.{i}.{theirs}.weight"]
        state[f"blocks.{i}.q.weight"] = halves(state[f"blocks.{i}.q.weight"], shape.heads)
        state[f"blocks.{i}.k.weight"] = halves(state[f"blocks.{i}.k.weight"], shape.kv_heads)
    model.load_state_dict(state)
    return model.eval()


def as_shipped(model):
    """The model with its matrices rounded as in the file."""
    import torch

    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.copy_(torch.from_numpy(dequantised(weight.float().cpu().numpy())))
    return model.float().eval()


if __name__ == "__main__":
    import sys
    from pathlib import Path

    from tokenizer import load

    source, target = map(Path, sys.argv[1:])
    write(target, read(source), load())
