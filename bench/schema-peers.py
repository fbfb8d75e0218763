"""Compiles schemas with llguidance and xgrammar for bench/schemas.ts: a line of JSON in, a line of JSON out."""

import json
import sys
import time
from importlib.metadata import version

import llguidance
import xgrammar


class Vocabulary:
    """Tokens by longest match: the peers tokenize only their own forced text with it."""

    def __init__(self, path):
        with open(path) as lines:
            end, *tokens = lines.read().splitlines()
        self.tokens = [bytes.fromhex(token) for token in tokens]
        self.eos_token_id = int(end)
        self.bos_token_id = None
        self.special_token_ids = [self.eos_token_id]
        self.tokens[self.eos_token_id] = b"<|end|>"
        self.ids = {token: at for at, token in reversed(list(enumerate(self.tokens)))}

    def __call__(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        found = []
        while data:
            length = next(n for n in range(min(len(data), 32), 0, -1) if data[:n] in self.ids)
            found.append(self.ids[data[:length]])
            data = data[length:]
        return found


vocabulary = Vocabulary(sys.argv[1])
tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
size = len(vocabulary.tokens)
info = xgrammar.TokenizerInfo(
    vocabulary.tokens, xgrammar.VocabType.RAW, vocab_size=size, stop_token_ids=[vocabulary.eos_token_id]
)


def with_llguidance(schema):
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(schema))
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    matcher.compute_bitmask()
    if matcher.is_error():
        raise ValueError(matcher.get_error())


def with_xgrammar(schema):
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(schema, strict_mode=False))
    mask = xgrammar.allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(mask)


compilers = {"llguidance": with_llguidance, "xgrammar": with_xgrammar}
print(json.dumps({name: version(name) for name in compilers}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    began = time.perf_counter()
    error = None
    try:
        compilers[asked["peer"]](asked["schema"])
    except Exception as caught:  # each peer has exceptions of its own
        error = str(caught) or type(caught).__name__
    answer = {"ms": (time.perf_counter() - began) * 1000}
    print(json.dumps(answer if error is None else {**answer, "error": error}), flush=True)
