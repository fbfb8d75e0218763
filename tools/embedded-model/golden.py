"""Golden outputs: what independent implementations say about the shipped file.

    python golden.py model.gguf model.golden.json     PyTorch in float32, tokenizers, Jinja2
    node llama.mjs golden model.gguf model.golden.json   adds what llama.cpp says

PyTorch runs on the weights as the `gguf` package reads them back from the file, so the numbers hold for the Q8_0 rounding.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import torch

import chat
import export
import tokenizer

LIMIT = 96
WEATHER = [{"type": "function", "function": {"name": "get_weather", "description": "Get the weather for a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["city"]}}}]
user = lambda text: {"role": "user", "content": text}
assistant = lambda text, **more: {"role": "assistant", "content": text, **more}
CALL = [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]
SPELLED = [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]

CHATS = {  # name: (messages, tools)
    "greeting": ([user("Hello, who are you?")], None),
    "sum": ([user("What is 347 + 586?")], None),
    "system": ([{"role": "system", "content": "You are a helpful assistant."}, user("What is the capital of Norway?")], None),
    "story": ([user("Tell me a story about a fox named Milo in the forest.")], None),
    "haiku": ([user("Write a haiku about snow.")], None),
    "copy": ([user("Repeat exactly: The brave otter counts 42 shiny coins, twice!")], None),
    "upper case": ([user("Write in upper case: a quiet morning by the lake")], None),
    "extraction": ([user("Extract name, age and city as JSON: Meet Nora. Nora is 34 years old and lives in Lima.")], None),
    "tool call": ([user("What is the weather in Oslo?")], WEATHER),
    "tool result": ([{"role": "system", "content": "Be brief."}, user("What is the weather in Oslo?"), assistant("", tool_calls=CALL), {"role": "tool", "content": '{"condition": "sunny", "temperature": 21}'}], WEATHER),
    "follow-up": ([user("What is 20 + 30?"), assistant("20 + 30 = 50."), user("Now plus 5.")], None),
    "other": ([user("Who won the election in 1990?")], None),
}
MORE_CHATS = {  # rendered only
    "two results": ([user("Weather in Oslo and Rome?"), assistant(None, tool_calls=SPELLED + SPELLED), {"role": "tool", "content": "sunny"}, {"role": "tool", "content": "rainy"}], WEATHER),
    "said and called": ([user("Oslo?"), assistant("One moment.", tool_calls=SPELLED), {"role": "tool", "content": "<b>\"ok\" & done</b>"}, assistant("Done."), user("Thanks — très bien!")], WEATHER),
    "finished": ([user("Hi"), assistant("Hello!")], None),
}
TEXTS = [
    "", "Hello world", " leading space", "  two  spaces   here ", "a\n\nb\n", "tabs\t\there", "12 + 345=357", "x1y22z", "don't you'll I'M we've", "Grüße, café, naïve — ÑÁÍ", "日本語 テスト", "emoji 😀🎉",
    "²½Ⅳ ٣٤", "<|im_start|>user\nHi<|im_end|>\n", '<tool_call>\n{"name": "x"}\n</tool_call>', "foo<tool_call>bar", "   \n  \n x", "(a)[b]{c}<d>", "\r\nwin\r\n", "!!!??? ...", "e\u0301 combining", "\u00a0nbsp\u3000wide",
    "5 5", "a 5 b  6  7", "snake_case camelCase UPPER", "Once upon a time there was a fox named Milo who lived in the forest.",
]


def completion(model, vocabulary, text):
    ids = vocabulary.encode(text, add_special_tokens=False).ids
    stop = vocabulary.token_to_id(chat.END)
    with torch.no_grad():
        logits = model(torch.tensor([ids]))[0, -1]
    best = logits.topk(8)
    (greedy, ended), = model.generate([ids], stop, LIMIT)
    greedy += [stop] if ended else []
    with torch.no_grad():
        pairs = model(torch.tensor([ids + greedy[:-1]]))[0, len(ids) - 1 :].topk(2).values
    return {
        "prompt": text, "promptIds": ids, "greedyIds": greedy, "text": vocabulary.decode([token for token in greedy if token != stop], skip_special_tokens=False),
        # How far the best token led the second at each step: a tiny lead is where other arithmetic may choose otherwise.
        "leads": [round(float(first - second), 3) for first, second in pairs],
        "topLogits": [[token, round(value, 4)] for token, value in zip(best.indices.tolist(), best.values.tolist())],
    }


def main(model_path, out):
    model, vocabulary = export.read(model_path), tokenizer.load()
    prompts = {name: chat.jinja(*talk, add_generation_prompt=True) for name, talk in CHATS.items()}
    prompts["plain text"] = "Once upon a time"
    golden = {
        "model": Path(model_path).name,
        "madeBy": {package: version(package) for package in ("torch", "tokenizers", "jinja2", "gguf")},
        "completions": [{"name": name, **completion(model, vocabulary, text)} for name, text in prompts.items()],
        "tokens": [{"text": text, "ids": vocabulary.encode(text, add_special_tokens=False).ids} for text in TEXTS],
        "chats": [
            {"name": name, "messages": messages, "tools": tools, "addGenerationPrompt": ask, "text": chat.jinja(messages, tools, add_generation_prompt=ask)}
            for name, (messages, tools) in (CHATS | MORE_CHATS).items()
            for ask in [name != "finished"]
        ],
    }
    Path(out).write_text(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
