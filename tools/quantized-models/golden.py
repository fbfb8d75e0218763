"""Golden results of quantized models: what the Python packages of each format make of tensors that follow a formula.

    python golden.py ../../test/golden/quantized-models.json

Needs torch, transformers, gptqmodel, autoawq (its file awq/utils/packing_utils.py), compressed-tensors and bitsandbytes. Parts are
stored as their dtype, shape and formula; of dequantized weights a digest is stored, of the model its logits in float32.
"""

import base64
import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM

IDS = [(7 * n + n * n) % 40 for n in range(24)]
ROWS = [11, 23]

SIZES = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 40,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
FAMILIES = {name: {**SIZES, "model_type": name} for name in ("llama", "qwen3")}

TYPES = {
    "I8": torch.int8,
    "U8": torch.uint8,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F8_E4M3": torch.float8_e4m3fn,
}


def hashed(name, count):
    """Has a twin in test/support/quantized-folder.ts."""
    weighted = sum((index + 1) * ord(letter) for index, letter in enumerate(name))
    bits = numpy.arange(count, dtype=numpy.uint64) * 2654435761 + weighted * 40503
    bits &= 0xFFFFFFFF
    bits ^= bits >> 15
    bits = (bits * 2246822519) & 0xFFFFFFFF
    return bits ^ (bits >> 13)


def tensor(name, part):
    """The part that its description stands for: see `contents` in test/support/quantized-folder.ts."""
    shape, dtype = part["shape"], part["dtype"]
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if "base64" in part:
        return torch.frombuffer(bytearray(base64.b64decode(part["base64"])), dtype=TYPES[dtype]).reshape(shape)
    if "words" in part:
        words = numpy.resize(numpy.array(part["words"], dtype=numpy.uint32), count)
        return torch.from_numpy(words.view(numpy.int32)).reshape(shape)
    if "bytes" in part:
        return torch.from_numpy(numpy.resize(numpy.array(part["bytes"], dtype=numpy.uint8), count)).reshape(shape)
    if "map" in part:
        # Not bitsandbytes' own, which every file brings along: the fourth power has its many small values, too.
        share = (numpy.arange(256) - 127) / 128
        return torch.from_numpy((numpy.sign(share) * share**4).astype(numpy.float32))
    if "stride" in part:
        places = numpy.arange(count) * part["stride"] % count // part["size"]
        return torch.from_numpy(places.astype(numpy.int32))
    bits = hashed(name, count)
    if dtype in ("F16", "BF16", "F32"):
        share = bits / 2**32
        norm = 1 if "norm" in name.lower() else 0
        values = part["factor"] * (0.5 + share) if "factor" in part else share * 0.5 - 0.25 + norm
        return torch.from_numpy(values.astype(numpy.float32)).to(TYPES[dtype]).reshape(shape)
    if dtype == "F8_E4M3":
        codes = (bits & 0xFF).astype(numpy.uint8)
        codes[(codes & 127) == 127] ^= 1
        # Scales are positive.
        codes = codes & 127 if "positive" in part else codes
        return torch.from_numpy(codes).view(torch.float8_e4m3fn).reshape(shape)
    kind = {"I32": numpy.uint32, "U8": numpy.uint8, "I8": numpy.uint8}[dtype]
    return torch.from_numpy((bits & (2 ** (8 * kind(0).nbytes) - 1)).astype(kind)).view(TYPES[dtype]).reshape(shape)


def raw(values, dtype):
    data = values.contiguous().view(torch.uint8).numpy().tobytes() if values.dim() else values.numpy().tobytes()
    return {"dtype": dtype, "shape": list(values.shape), "base64": base64.b64encode(data).decode()}


class Form:
    """One way to quantize: the parts of a linear, and its weight as the package dequantizes it, in float32."""

    family = "llama"


class Gptq(Form):
    def __init__(self, bits, size, zeros, v2=False, stride=None, family="llama"):
        self.bits, self.size, self.zeros, self.v2, self.stride, self.family = bits, size, zeros, v2, stride, family
        self.settings = {
            "quant_method": "gptq",
            "bits": bits,
            "group_size": size,
            "desc_act": stride is not None,
            "sym": len(set(zeros)) == 1,
            "checkpoint_format": "gptq_v2" if v2 else "gptq",
        }

    def parts(self, module, outputs, inputs):
        size = inputs if self.size == -1 else self.size
        groups = inputs // size
        spread = {"stride": self.stride or 1, "size": size}
        return {
            f"{module}.qweight": {"dtype": "I32", "shape": [inputs * self.bits // 32, outputs]},
            f"{module}.qzeros": {"dtype": "I32", "shape": [groups, outputs * self.bits // 32], "words": self.zeros},
            f"{module}.scales": {"dtype": "F16", "shape": [groups, outputs], "factor": 0.16 / 2**self.bits},
            f"{module}.g_idx": {"dtype": "I32", "shape": [inputs], **spread},
        }

    def weight(self, module, parts):
        from gptqmodel.nn_modules.qlinear.torch import TorchLinear
        from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module

        inputs, outputs = parts[f"{module}.g_idx"].shape[0], parts[f"{module}.scales"].shape[1]
        linear = TorchLinear(self.bits, self.size, False, self.stride is not None, inputs, outputs)
        for name in ("qweight", "qzeros", "scales", "g_idx"):
            setattr(linear, name, parts[f"{module}.{name}"].clone())
        if not self.v2:
            convert_gptq_v1_to_v2_format_module(linear, self.bits, torch.int32)
        # Act-order is held to the halves that the package computes with, everything else to products that are not rounded.
        if self.stride is None:
            linear.scales = linear.scales.float()
        return linear.dequantize_weight().float().T


class Awq(Form):
    def __init__(self, size, family):
        self.size, self.family = size, family
        self.settings = {
            "quant_method": "awq",
            "bits": 4,
            "group_size": size,
            "version": "gemm",
            "zero_point": True,
            "modules_to_not_convert": None,
        }

    def parts(self, module, outputs, inputs):
        groups = inputs // self.size
        return {
            f"{module}.qweight": {"dtype": "I32", "shape": [inputs, outputs // 8]},
            f"{module}.qzeros": {"dtype": "I32", "shape": [groups, outputs // 8]},
            f"{module}.scales": {"dtype": "F16", "shape": [groups, outputs], "factor": 0.01},
        }

    def weight(self, module, parts):
        from packing_utils import dequantize_gemm

        codes, zeros, scales = (parts[f"{module}.{name}"] for name in ("qweight", "qzeros", "scales"))
        return dequantize_gemm(codes, zeros, scales.float(), 4, self.size).T


class Compressed(Form):
    """Of compressed-tensors."""

    def __init__(self, format, family="llama", stored="F16", **weights):
        self.format, self.family, self.stored, self.args = format, family, stored, weights
        self.settings = {
            "quant_method": "compressed-tensors",
            "format": format,
            "quantization_status": "compressed",
            "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        }

    def scale_shape(self, outputs, inputs):
        size = self.args.get("group_size")
        return [outputs, inputs // size if size else 1]

    def parts(self, module, outputs, inputs):
        bits = self.args["num_bits"]
        scale = {"dtype": self.stored, "shape": self.scale_shape(outputs, inputs), "factor": 0.16 / 2**bits}
        if self.format == "pack-quantized":
            parts = {
                f"{module}.weight_packed": {"dtype": "I32", "shape": [outputs, inputs * bits // 32]},
                f"{module}.weight_scale": scale,
                f"{module}.weight_shape": raw(torch.tensor([outputs, inputs]), "I64"),
            }
            if not self.args["symmetric"]:
                shape = [outputs * bits // 32, scale["shape"][1]]
                parts[f"{module}.weight_zero_point"] = {"dtype": "I32", "shape": shape}
            return parts
        if self.format == "int-quantized":
            return {f"{module}.weight": {"dtype": "I8", "shape": [outputs, inputs]}, f"{module}.weight_scale": scale}
        if self.format == "float-quantized":
            scale["factor"] = 0.0005
            return {f"{module}.weight": {"dtype": "F8_E4M3", "shape": [outputs, inputs]}, f"{module}.weight_scale": scale}
        packed = {f"{module}.weight_packed": {"dtype": "U8", "shape": [outputs, inputs // 2]}}
        if self.format == "mxfp4-pack-quantized":
            powers = {"dtype": "U8", "shape": [outputs, inputs // 32], "bytes": [120, 121, 122, 119, 118]}
            return {**packed, f"{module}.weight_scale": powers}
        codes = {"dtype": "F8_E4M3", "shape": [outputs, inputs // 16], "positive": True}
        whole = {"dtype": "F32", "shape": [1], "factor": 3000.0}
        return {**packed, f"{module}.weight_scale": codes, f"{module}.weight_global_scale": whole}

    def weight(self, module, parts):
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**self.args))
        state = {name.removeprefix(f"{module}."): value for name, value in parts.items()}
        # Products that are not rounded.
        if state["weight_scale"].dtype in (torch.float16, torch.bfloat16):
            state["weight_scale"] = state["weight_scale"].float()
        return BaseCompressor.get_value_from_registry(self.format).decompress(state, scheme)["weight"].float()


class ActivationOrder(Compressed):
    """By groups, with an index: no longer saved by compressed-tensors, which unpacks the codes; the scales are put to them here."""

    def parts(self, module, outputs, inputs):
        spread = {"stride": 29, "size": self.args["group_size"]}
        return {**super().parts(module, outputs, inputs), f"{module}.weight_g_idx": {"dtype": "I32", "shape": [inputs], **spread}}

    def weight(self, module, parts):
        from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

        packed, scale, shape, index = (parts[f"{module}.weight_{name}"] for name in ("packed", "scale", "shape", "g_idx"))
        codes = unpack_from_int32(packed, self.args["num_bits"], shape)
        return (codes.to(scale.dtype) * scale[:, index.long()]).float()


class BitsAndBytes(Form):
    def __init__(self, nested, family, dtype="bfloat16", quant_type="nf4"):
        self.nested, self.family, self.dtype, self.quant_type = nested, family, dtype, quant_type
        self.settings = {
            "quant_method": "bitsandbytes",
            "load_in_4bit": True,
            "load_in_8bit": False,
            "bnb_4bit_quant_type": quant_type,
            "bnb_4bit_use_double_quant": nested,
            "bnb_4bit_compute_dtype": dtype,
            "bnb_4bit_quant_storage": "uint8",
        }

    def parts(self, module, outputs, inputs):
        from bitsandbytes.functional import get_4bit_type

        count = outputs * inputs
        blocks = count // 64
        state = {"quant_type": self.quant_type, "blocksize": 64, "dtype": self.dtype, "shape": [outputs, inputs]}
        parts = {
            f"{module}.weight": {"dtype": "U8", "shape": [count // 2, 1]},
            f"{module}.weight.quant_map": raw(get_4bit_type(self.quant_type, device="cpu"), "F32"),
        }
        if self.nested:
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.11}
            parts[f"{module}.weight.absmax"] = {"dtype": "U8", "shape": [blocks]}
            parts[f"{module}.weight.nested_absmax"] = {"dtype": "F32", "shape": [-(-blocks // 256)], "factor": 0.05}
            parts[f"{module}.weight.nested_quant_map"] = {"dtype": "F32", "shape": [256], "map": "fourth power"}
        else:
            parts[f"{module}.weight.absmax"] = {"dtype": "F32", "shape": [blocks], "factor": 0.11}
        packed = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
        return {**parts, f"{module}.weight.quant_state.bitsandbytes__{self.quant_type}": raw(packed, "U8")}

    def weight(self, module, parts):
        from bitsandbytes.functional import QuantState, dequantize_4bit

        prefix = f"{module}.weight."
        state = {name.removeprefix(prefix): value for name, value in parts.items() if name.startswith(prefix)}
        return dequantize_4bit(parts[f"{module}.weight"], QuantState.from_dict(state, device="cpu")).float()


def packed(bits, size, family="llama", symmetric=True):
    group = {"strategy": "group", "group_size": size} if size else {"strategy": "channel"}
    return Compressed("pack-quantized", family, "BF16", num_bits=bits, type="int", symmetric=symmetric, **group)


FORMS = {
    "gptq, 4 bits in groups of 128": Gptq(4, 128, [0x77777777]),
    "gptq, 4 bits with act-order": Gptq(4, 32, [0x76543210, 0x6A7B58C9], stride=29, family="qwen3"),
    "gptq, 4 bits with zeros of 0": Gptq(4, 64, [0xFEDCBA98, 0x0F0F1234]),
    "gptq v2, 4 bits": Gptq(4, 64, [0x76543210, 0xFEDCBA98], v2=True, family="qwen3"),
    "gptq v2, 2 bits": Gptq(2, 32, [0x1B1B2C2C, 0xE4E4A5A5], v2=True),
    "gptq, 3 bits": Gptq(3, 64, [0x9A2C4D1B, 0x35C1A6E2, 0x7D20F493]),
    "gptq, 8 bits for all inputs": Gptq(8, -1, [0x7F7F7F7F], family="qwen3"),
    "awq in groups of 64": Awq(64, "qwen3"),
    "awq in groups of 128": Awq(128, "llama"),
    "compressed-tensors, W4A16": packed(4, 128),
    "compressed-tensors, W4A16 with zeros": packed(4, 32, "qwen3", symmetric=False),
    "compressed-tensors, W4A16 with act-order": ActivationOrder(
        "pack-quantized", "llama", "BF16", num_bits=4, type="int", symmetric=True, strategy="group", group_size=32
    ),
    "compressed-tensors, W3A16": packed(3, 64),
    "compressed-tensors, W8A16 for rows": packed(8, None, "qwen3"),
    "compressed-tensors, W8A8": Compressed(
        "int-quantized", "llama", "F32", num_bits=8, type="int", symmetric=True, strategy="channel"
    ),
    "compressed-tensors, FP8": Compressed(
        "float-quantized", "qwen3", "BF16", num_bits=8, type="float", symmetric=True, strategy="channel"
    ),
    "compressed-tensors, NVFP4": Compressed(
        "nvfp4-pack-quantized", "llama", num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16
    ),
    "compressed-tensors, MXFP4": Compressed(
        "mxfp4-pack-quantized", "qwen3", num_bits=4, type="float", symmetric=True, strategy="group", group_size=32
    ),
    "bitsandbytes, NF4": BitsAndBytes(False, "llama"),
    "bitsandbytes, NF4 twice quantized": BitsAndBytes(True, "qwen3"),
    "bitsandbytes, NF4 in halves": BitsAndBytes(True, "llama", "float16"),
    "bitsandbytes, FP4": BitsAndBytes(False, "llama", quant_type="fp4"),
}


def skeleton(config):
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    known = AutoConfig.for_model(config["model_type"], **ids, **{k: v for k, v in config.items() if k != "model_type"})
    return AutoModelForCausalLM.from_config(known).float().eval()


def digest(values):
    data = (values.contiguous() + 0.0).numpy().astype("<f4").tobytes()
    return hashlib.sha256(data).hexdigest()


@torch.no_grad()
def golden(form):
    config = FAMILIES[form.family]
    model = skeleton(config)
    parts, weights, state = {}, {}, {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        if not name.endswith("_proj.weight"):
            parts[name] = {"dtype": "F32", "shape": list(value.shape)}
            state[name] = tensor(name, parts[name])
            continue
        module = name.removesuffix(".weight")
        own = form.parts(module, *value.shape)
        parts.update(own)
        weight = form.weight(module, {part: tensor(part, of) for part, of in own.items()})
        weights[name], state[name] = digest(weight), weight
    model.load_state_dict(state, strict=False)
    logits = model(torch.tensor([IDS]), use_cache=False).logits[0, ROWS]
    rounded = [[float(f"{value:.7g}") for value in row] for row in logits.tolist()]
    return {
        "config": {**config, "quantization_config": form.settings},
        "parts": parts,
        "weights": weights,
        "ids": IDS,
        "rows": ROWS,
        "logits": rounded,
    }


def main(path):
    stored = {
        "packages": {name: version(name) for name in ("torch", "transformers", "gptqmodel", "compressed-tensors", "bitsandbytes")},
        "models": {name: golden(form) for name, form in FORMS.items()},
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(model, separators=(',', ':'))}" for name, model in stored["models"].items())
    Path(path).write_text(f'{{"packages": {json.dumps(stored["packages"])},\n"models": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
