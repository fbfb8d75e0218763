"""Held-out prompts, answers from PyTorch, and the score table.

    python evaluation.py prompts eval.jsonl                     held-out prompts from the seed
    python evaluation.py answer model.gguf eval.jsonl out.jsonl   greedy answers by PyTorch
    python evaluation.py score eval.jsonl out.jsonl             the table, for answers of any engine

An answer line is {"id": ..., "text": ..., "finish_reason": "stop" | "length"}.
"""

import json
import random
import re
import sys
from pathlib import Path

from chat import END, prompt
from world import arithmetic, calling, conversation, draw, extraction, facts, followup, greeting, lists, other, rewriting, story

SEED = 2024
LIMIT = 512
FAMILIES = {
    "greeting": greeting.sample, "arithmetic": arithmetic.sample, "facts": facts.sample, "story": story.sample, "lists": lists.sample, "rewriting": rewriting.sample,
    "copy": rewriting.copied, "extraction": extraction.sample, "tool call": calling.sample, "tool result": calling.sample_result, "follow-up": followup.sample, "other": other.sample,
}
LONG = [arithmetic.sample, facts.sample, rewriting.copied, extraction.sample]  # asked at the end of a conversation of 1,200 to 3,500 tokens
WANTED = {"arithmetic": 95, "facts": 98, "extraction": 95, "tool call": 95, "copy": 95}


def line(family, index, exchange):
    messages = exchange.messages[:-1]
    return {"id": f"{family} {index}", "family": family, "messages": messages, "tools": exchange.tools, "prompt": prompt(messages, exchange.tools), "check": exchange.check}


def prompts(per_family=200, seed=SEED, long=60):
    for family, sample in FAMILIES.items():
        rng = random.Random(f"evaluation {seed} {family}")
        seen = set()
        while len(seen) < per_family:
            made = line(family, len(seen), conversation.with_system(rng, draw(sample, rng, evaluation=True)))
            if made["prompt"] not in seen:
                seen.add(made["prompt"])
                yield made
    rng = random.Random(f"evaluation {seed} long")
    count = 0
    while count < long:
        made = line("long context", count, conversation.wander(rng, rng.randint(3000, 8000), draw(rng.choice(LONG), rng, evaluation=True)))
        if len(made["prompt"]) < 11_000:  # tool schemas can outgrow the context
            count += 1
            yield made


def calls_in(text):
    return [json.loads(body) for body in re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.S)]


def same(a, b):
    """Equal as JSON: true is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def is_list(text, check):
    if check["style"] == "inline":
        items = text.split(", ")
    else:
        marks = [f"{i}. " for i in range(1, 100)] if check["style"] == "numbers" else ["- "] * 100
        rows = text.split("\n")
        if not all(row.startswith(mark) for row, mark in zip(rows, marks)):
            return False
        items = [row[len(mark):] for row, mark in zip(rows, marks)]
    return len(items) == check["count"] == len(set(items)) and all(item in check["value"] for item in items)


def is_story(text, needed):
    """Long enough, about what was asked, and without a sentence said twice."""
    sentences = re.split(r"(?<=[.!?])\s+", text)
    return len(text.split()) >= 110 and all(part in text for part in needed) and len(set(sentences)) == len(sentences)


def right(text, check):
    text, kind, value = text.strip(), check["type"], check.get("value")
    try:
        if kind == "exact":
            return text == value
        if kind == "oneof":
            return text in value
        if kind == "contains":
            return all(part in text for part in value)
        if kind == "number":
            return re.findall(r"(?<!\d)-?\d+", text)[-1:] == [str(value)]
        if kind == "json":
            return same(json.loads(text), value)
        if kind == "tool_call":
            return same(calls_in(text), value)
        if kind == "list":
            return is_list(text, check)
        if kind == "haiku":
            return len(text.split("\n")) == 3 and value.lower() in text.lower()
        if kind == "story":
            return is_story(text, value)
    except (ValueError, KeyError):
        return False
    raise ValueError(f"unknown check {kind}")


def score(asked, answers):
    """Prints the table; returns {family: (right, ended, asked)}."""
    answers = {answer["id"]: answer for answer in answers}
    table = {}
    for question in asked:
        answer = answers.get(question["id"])
        if answer is None:
            continue
        good, ended, count = table.get(question["family"], (0, 0, 0))
        table[question["family"]] = (good + right(answer["text"], question["check"]), ended + (answer["finish_reason"] == "stop"), count + 1)
    print("| family | prompts | right | wanted | ended by itself |\n| --- | ---: | ---: | ---: | ---: |")
    for family, (good, ended, count) in table.items():
        wanted = f"{WANTED[family]} %" if family in WANTED else ""
        print(f"| {family} | {count} | {100 * good / count:.1f} % | {wanted} | {100 * ended / count:.1f} % |")
    good, ended, count = (sum(column) for column in zip(*table.values()))
    print(f"| all | {count} | {100 * good / count:.1f} % | | {100 * ended / count:.1f} % |")
    return table


def answer(model, tokenizer, asked, batch=64, limit=LIMIT):
    """Greedy answers, prompts of similar length together."""
    stop = tokenizer.token_to_id(END)
    encoded = sorted(((tokenizer.encode(q["prompt"], add_special_tokens=False).ids, q["id"]) for q in asked), key=lambda pair: len(pair[0]))
    answers = []
    for start in range(0, len(encoded), batch):
        part = encoded[start : start + batch]
        for (_, name), (ids, done) in zip(part, model.generate([ids for ids, _ in part], stop, limit)):
            answers.append({"id": name, "text": tokenizer.decode(ids, skip_special_tokens=False), "finish_reason": "stop" if done else "length"})
    return answers


def save(path, lines):
    Path(path).write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in lines))


def load(path):
    return [json.loads(row) for row in Path(path).read_text().splitlines()]


def main(command, *paths):
    if command == "prompts":
        save(paths[0], prompts())
    elif command == "answer":
        import export
        import tokenizer

        save(paths[2], answer(export.read(paths[0]), tokenizer.load(), load(paths[1]), batch=16))
    elif command == "score":
        score(load(paths[0]), load(paths[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:] or [""])
