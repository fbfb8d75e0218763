# Makes small models that stand in for those which llama-server's tests download:
# `python stand_ins.py LLAMA_CPP STORIES260K OUT [GEMMA3] [CHAT]`, where LLAMA_CPP is a checkout of llama.cpp, STORIES260K the model that most
# tests are written for, GEMMA3 any small Gemma 3 and CHAT any model that follows instructions.

import re
import shutil
import sys
from pathlib import Path

checkout, stories, out, *others = [Path(word) for word in sys.argv[1:]]
sys.path.insert(0, str(checkout / "gguf-py"))

import numpy as np  # noqa: E402
from gguf import GGUFReader, GGUFValueType, GGUFWriter, PoolingType  # noqa: E402


def copied(reader, path, architecture="llama"):
    """A writer with all metadata of the reader."""
    writer = GGUFWriter(path, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind, *item = field.types
        writer.add_key_value(name, field.contents(), kind, item[0] if item else None)
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def infill(reader):
    """With tokens for gaps: bytes that no text of the tests has."""
    writer = copied(reader, out / "stories260K-infill.gguf")
    for at, name in enumerate(("fim_pre", "fim_suf", "fim_mid", "fim_rep", "fim_sep")):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", 4 + at)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    finish(writer)


def mixture(reader):
    """Four equal experts are one."""
    writer = copied(reader, out / "stories15M_MOE-F16.gguf")
    writer.add_expert_count(4)
    writer.add_expert_used_count(2)
    for tensor in reader.tensors:
        expert = re.fullmatch(r"(blk\.\d+\.ffn_(?:gate|up|down))\.weight", tensor.name)
        if expert is None:
            writer.add_tensor(tensor.name, tensor.data)
            continue
        writer.add_tensor(f"{expert[1]}_exps.weight", np.stack([tensor.data] * 4))
        if "ffn_gate" in tensor.name:
            router = np.ones((4, int(tensor.shape[0])), np.float32)
            writer.add_tensor(tensor.name.replace("ffn_gate", "ffn_gate_inp"), router)
    finish(writer)


def split(reader):
    """The metadata in the first of three files, the tensors in all."""
    tensors = list(reader.tensors)
    third = -(-len(tensors) // 3)
    for at in range(3):
        path = out / f"stories15M-q8_0-0000{at + 1}-of-00003.gguf"
        writer = copied(reader, path) if at == 0 else GGUFWriter(path, "llama")
        writer.add_uint16("split.no", at)
        writer.add_uint16("split.count", 3)
        writer.add_key_value("split.tensors.count", len(tensors), GGUFValueType.INT32)
        for tensor in tensors[at * third : (at + 1) * third]:
            writer.add_tensor(tensor.name, tensor.data)
        finish(writer)


def words_of_tests():
    texts = (checkout / "tools/server/tests/unit").glob("test_*.py")
    words = {word for text in texts for word in re.findall(r"[a-z]+|[^\sa-z0-9]", text.read_text().lower())}
    return sorted(words)


def encoder(path, pooling, layers=2, width=64, vocabulary=30_522):
    """BERT with random weights, and the words of the tests as tokens, as the real one has them."""
    random = np.random.default_rng(1)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # BERT's ids of these, of which some tests know one.
    tokens = [f"[unused{at}]" for at in range(vocabulary)]
    for at, name in zip((0, 100, 101, 102, 103), special):
        tokens[at] = name
    pieces = [chr(at) for at in range(97, 123)] + [str(at) for at in range(10)]
    known = [f"\u2581{word}" for word in [*words_of_tests(), *pieces]] + pieces
    tokens[1000 : 1000 + len(known)] = known
    writer = GGUFWriter(path, "bert")
    writer.add_block_count(layers)
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(4 * width)
    writer.add_head_count(4)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_type_count(2)
    writer.add_unk_token_id(100)
    writer.add_bos_token_id(101)
    writer.add_sep_token_id(102)
    writer.add_eos_token_id(102)
    writer.add_pad_token_id(0)
    writer.add_uint32("tokenizer.ggml.cls_token_id", 101)

    def matrix(name, *shape):
        writer.add_tensor(name, (random.standard_normal(shape) * 0.2).astype(np.float32))

    def linear(name, outputs, inputs):
        matrix(f"{name}.weight", outputs, inputs)
        matrix(f"{name}.bias", outputs)

    def norm(name):
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        matrix(f"{name}.bias", width)

    matrix("token_embd.weight", vocabulary, width)
    matrix("position_embd.weight", 512, width)
    matrix("token_types.weight", 2, width)
    norm("token_embd_norm")
    for layer in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            linear(f"blk.{layer}.{name}", width, width)
        norm(f"blk.{layer}.attn_output_norm")
        linear(f"blk.{layer}.ffn_up", 4 * width, width)
        linear(f"blk.{layer}.ffn_down", width, 4 * width)
        norm(f"blk.{layer}.layer_output_norm")
    if pooling == PoolingType.RANK:
        linear("cls", width, width)
        linear("cls.output", 1, width)
    finish(writer)


out.mkdir(parents=True, exist_ok=True)
reader = GGUFReader(stories)
shutil.copy(stories, out / "stories260K.gguf")
# What drafts for the mixture.
shutil.copy(stories, out / "stories15M-q4_0.gguf")
infill(reader)
mixture(reader)
split(reader)
encoder(out / "bert-bge-small.gguf", PoolingType.CLS)
encoder(out / "jina-reranker.gguf", PoolingType.RANK)
for path, name in zip(others, ("tinygemma3.gguf", "any-chat-model.gguf")):
    shutil.copy(path, out / name)
