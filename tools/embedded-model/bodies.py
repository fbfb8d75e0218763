"""Held-out tool requests and extractions as bodies of the chat API: python bodies.py COUNT bodies.jsonl

Each line has an id, the body to send, and the answer that the generator had in mind. ask.js sends them.
"""

import json
import random
import re
import sys

from evaluation import save
from world import calling, conversation, draw, extraction

SEED = 4711  # of neither training nor evaluation
ORDERED = re.compile(r"\b(use|call|with) (a|the) tool\b", re.I)


def wire(messages):
    """Arguments as text, and ids by which results refer to calls, as OpenAI writes them."""
    made, open_calls = [], []
    for message in messages:
        if calls := message.get("tool_calls"):
            named = [{"id": f"call_{len(made)}_{i}", "type": "function", "function": call["function"] | {"arguments": json.dumps(call["function"]["arguments"])}} for i, call in enumerate(calls)]
            open_calls = [call["id"] for call in named]
            made.append({"role": "assistant", "content": None, "tool_calls": named})
        elif message["role"] == "tool":
            made.append(message | {"tool_call_id": open_calls.pop(0)})
        else:
            made.append(message)
    return made


def tool_request(rng):
    """A request that one of the tools fulfils. Who orders a tool gets one; else the model decides."""
    while True:
        exchange = conversation.with_system(rng, draw(calling.sample, rng, evaluation=True))
        if exchange.tools:  # and not described by hand in the system message
            break
    asked = exchange.messages[:-1]
    choice = "required" if ORDERED.search(asked[-1]["content"]) else "auto"
    return {"messages": wire(asked), "tools": exchange.tools, "tool_choice": choice}, exchange.check["value"]


def kind(value):
    """What is not in the text may be anything a text may state, or null."""
    return {str: "string", int: "integer", float: "number"}.get(type(value), ["string", "number", "null"])


def extraction_request(rng):
    exchange = conversation.with_system(rng, draw(extraction.sample, rng, evaluation=True))
    wanted = exchange.check["value"]
    schema = {"type": "object", "properties": {key: {"type": kind(value)} for key, value in wanted.items()}, "required": list(wanted), "additionalProperties": False}
    shape = {"type": "json_schema", "json_schema": {"name": "facts", "strict": True, "schema": schema}}
    return {"messages": exchange.messages[:-1], "response_format": shape}, wanted


def bodies(count, seed=SEED):
    for family, make in {"tool call": tool_request, "extraction": extraction_request}.items():
        rng = random.Random(f"bodies {seed} {family}")
        seen = set()
        while len(seen) < count:
            body, wanted = make(rng)
            text = json.dumps(body)
            if text not in seen:
                yield {"id": f"{family} {len(seen)}", "family": family, "body": body, "wanted": wanted}
                seen.add(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    save(sys.argv[2], bodies(int(sys.argv[1])))
