"""What llama.cpp's own samplers keep of a few rows of logits, for src/sampling/llama-cpp.vectors.json.

    npm pack @node-llama-cpp/linux-x64 && tar xzf node-llama-cpp-linux-x64-*.tgz
    python3 tools/samplers/llama_cpp_vectors.py package/bins/linux-x64 > src/sampling/llama-cpp.vectors.json

The library is the one that the npm package node-llama-cpp brings; its C functions are called without a model. Of DRY it is
the variant for tests, which takes sequence breakers as tokens.
"""

import ctypes as c
import glob
import json
import random
import sys

folder = sys.argv[1]
for name in ("libggml-base.so", "libggml.v*.so", "libllama.v*.so"):
    (path,) = glob.glob(f"{folder}/{name}")
    library = c.CDLL(path, mode=c.RTLD_GLOBAL)


class TokenData(c.Structure):
    _fields_ = [("id", c.c_int32), ("logit", c.c_float), ("p", c.c_float)]


class TokenDataArray(c.Structure):
    _fields_ = [("data", c.POINTER(TokenData)), ("size", c.c_size_t), ("selected", c.c_int64), ("sorted", c.c_bool)]


class Vector(c.Structure):
    """A std::vector of libstdc++."""

    _fields_ = [("begin", c.c_void_p), ("end", c.c_void_p), ("room", c.c_void_p)]


real, integer, size = c.c_float, c.c_int32, c.c_size_t
signatures = {
    "top_k": [integer],
    "top_p": [real, size],
    "min_p": [real, size],
    "typical": [real, size],
    "temp": [real],
    "temp_ext": [real, real, real],
    "xtc": [real, real, size, c.c_uint32],
    "top_n_sigma": [real],
    "mirostat": [integer, c.c_uint32, real, real, integer],
    "mirostat_v2": [c.c_uint32, real, real],
    "penalties": [integer, integer, real, real, real],
}


def sampler(name, *arguments):
    function = getattr(library, f"llama_sampler_init_{name}")
    function.argtypes, function.restype = signatures[name], c.c_void_p
    return function(*arguments)


def vector_of(values, kept):
    kept.append(values)
    begin = c.addressof(values)
    return Vector(begin, begin + c.sizeof(values), begin + c.sizeof(values))


def dry(multiplier, base, allowed, last_n, breakers):
    kept = []
    inner = [vector_of((integer * len(one))(*one), kept) for one in breakers]
    outer = vector_of((Vector * len(inner))(*inner), kept)
    function = library._Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE
    function.argtypes, function.restype = [real, real, integer, integer, c.c_void_p], c.c_void_p
    return function(multiplier, base, allowed, last_n, c.byref(outer))


accept, apply, free = (getattr(library, f"llama_sampler_{name}") for name in ("accept", "apply", "free"))
accept.argtypes, apply.argtypes, free.argtypes = [c.c_void_p, integer], [c.c_void_p, c.c_void_p], [c.c_void_p]


def candidates(logits):
    data = (TokenData * len(logits))(*[TokenData(i, logit, 0) for i, logit in enumerate(logits)])
    return TokenDataArray(data, len(logits), -1, False)


def softmax(kept):
    from math import exp

    highest = max(logit for _, logit in kept)
    weights = [(token, exp(logit - highest)) for token, logit in kept]
    total = sum(weight for _, weight in weights)
    return sorted((token, round(weight / total, 9)) for token, weight in weights)


def run(logits, samplers, history):
    rows = candidates(logits)
    for one in samplers:
        for token in history:
            accept(one, token)
        apply(one, c.byref(rows))
        free(one)
    left = [rows.data[i] for i in range(rows.size)]
    return softmax([(one.id, one.logit) for one in left if one.logit != float("-inf")])


def mirostat(version, tau, eta, rows):
    one = sampler("mirostat", len(rows[0]), 7, tau, eta, 100) if version == 1 else sampler("mirostat_v2", 7, tau, eta)
    steps = []
    for logits in rows:
        array = candidates(logits)
        apply(one, c.byref(array))
        steps.append({"kept": sorted(array.data[i].id for i in range(array.size)), "sampled": array.data[array.selected].id})
    free(one)
    return steps


random.seed(32)


def row(shape, count=64):
    return [round(shape() * 256) / 256 for _ in range(count)]


rows = {
    "peaked": row(lambda: random.gauss(0, 3)),
    "flat": row(lambda: random.gauss(2, 0.4)),
    "plain": row(lambda: random.gauss(-1, 1.4)),
}
history = [5, 6, 7, 8, 9, 1, 5, 6, 7, 2, 3, 5, 6, 7, 8, 4, 4, 5, 6, 7]
llama_order = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]

# A request by our names, the breakers of DRY as tokens, and the chain that llama.cpp has for it.
cases = [
    ("top-n-sigma", {"topNSigma": 1.0}, lambda: [sampler("top_n_sigma", 1.0)]),
    ("a narrow top-n-sigma, warm", {"topNSigma": 0.3, "temperature": 2.5}, lambda: [sampler("top_n_sigma", 0.3), sampler("temp", 2.5)]),
    ("xtc", {"xtcProbability": 1, "xtcThreshold": 0.05}, lambda: [sampler("xtc", 1.0, 0.05, 1, 1)]),
    ("xtc of a low threshold", {"xtcProbability": 1, "xtcThreshold": 0.004}, lambda: [sampler("xtc", 1.0, 0.004, 1, 1)]),
    ("xtc that may leave no fewer", {"xtcProbability": 1, "xtcThreshold": 0.01, "minKeep": 60}, lambda: [sampler("xtc", 1.0, 0.01, 60, 1)]),
    ("xtc whose threshold excludes nothing", {"xtcProbability": 1, "xtcThreshold": 0.51}, lambda: [sampler("xtc", 1.0, 0.51, 1, 1)]),
    ("dynamic temperature", {"temperature": 1, "dynatempRange": 0.7}, lambda: [sampler("temp_ext", 1.0, 0.7, 1.0)]),
    ("dynamic temperature after top-k, with an exponent", {"temperature": 0.9, "dynatempRange": 0.9, "dynatempExponent": 1.8, "topK": 12}, lambda: [sampler("top_k", 12), sampler("temp_ext", 0.9, 0.9, 1.8)]),
    ("min-p that keeps some", {"minP": 0.9, "minKeep": 7}, lambda: [sampler("min_p", 0.9, 7)]),
    ("top-p that keeps some", {"topP": 0.1, "minKeep": 9}, lambda: [sampler("top_p", 0.1, 9)]),
    ("typical-p that keeps some", {"typicalP": 0.1, "minKeep": 20}, lambda: [sampler("typical", 0.1, 20)]),
    ("the last tokens under penalties", {"repetitionPenalty": 1.7, "frequencyPenalty": 0.3, "presencePenalty": 0.5, "repeatLastN": 6}, lambda: [sampler("penalties", 64, 6, 1.7, 0.3, 0.5)]),
    ("dry", {"dryMultiplier": 0.8}, lambda: [dry(0.8, 1.75, 2, 64, [])]),
    ("dry in a window", {"dryMultiplier": 2.5, "dryBase": 1.2, "dryAllowedLength": 1, "dryPenaltyLastN": 8}, lambda: [dry(2.5, 1.2, 1, 8, [])]),
    ("dry with sequence breakers", {"dryMultiplier": 0.8, "dryAllowedLength": 1, "breakers": [[6, 7]]}, lambda: [dry(0.8, 1.75, 1, 64, [[6, 7]])]),
    ("dry with a breaker of one token", {"dryMultiplier": 1.5, "dryAllowedLength": 1, "breakers": [[5], [8]]}, lambda: [dry(1.5, 1.75, 1, 64, [[5], [8]])]),
    ("llama.cpp's order", {"temperature": 1.9, "topK": 30, "topP": 0.8, "minP": 0.06, "typicalP": 0.9, "samplers": llama_order}, lambda: [sampler("top_k", 30), sampler("typical", 0.9, 0), sampler("top_p", 0.8, 0), sampler("min_p", 0.06, 0), sampler("temp", 1.9)]),
    ("temperature, then penalties", {"temperature": 0.5, "topK": 20, "repetitionPenalty": 1.5, "presencePenalty": 1, "repeatLastN": -1, "samplers": ["temperature", "top_k", "penalties"]}, lambda: [sampler("temp", 0.5), sampler("top_k", 20), sampler("penalties", 64, 64, 1.5, 0.0, 1.0)]),
    ("all of them", {"temperature": 1.3, "topK": 40, "topP": 0.95, "minP": 0.02, "topNSigma": 2.5, "xtcProbability": 1, "xtcThreshold": 0.04, "dryMultiplier": 0.8, "repetitionPenalty": 1.1, "repeatLastN": 16, "samplers": "edskypmxt"}, lambda: [sampler("penalties", 64, 16, 1.1, 0.0, 0.0), dry(0.8, 1.75, 2, 64, []), sampler("top_n_sigma", 2.5), sampler("top_k", 40), sampler("top_p", 0.95, 0), sampler("min_p", 0.02, 0), sampler("xtc", 1.0, 0.04, 0, 1), sampler("temp", 1.3)]),
]

written = []
for name, request, chain in cases:
    for label, logits in rows.items():
        kept = run(logits, chain(), history)
        written.append({"name": name, "request": request, "logits": label, "kept": [token for token, _ in kept], "probabilities": [p for _, p in kept]})

steps = [row(lambda: random.gauss(0, 2), 128) for _ in range(6)]
learned = [{"mirostat": version, "mirostatTau": tau, "mirostatEta": eta, "steps": mirostat(version, tau, eta, steps)} for version in (1, 2) for tau, eta in ((5.0, 0.1), (1.5, 0.6))]


def dump(value):
    return json.dumps(value, separators=(",", ":"))


print('{\n"source": "llama.cpp, as built for @node-llama-cpp/linux-x64 3.22.1; tools/samplers/llama_cpp_vectors.py",')
print(f'"history": {dump(history)},\n"rows": {dump(rows)},\n"steps": {dump(steps)},')
print('"mirostat": [\n' + ",\n".join(dump(one) for one in learned) + "\n],")
print('"cases": [\n' + ",\n".join(dump(one) for one in written) + "\n]\n}")
