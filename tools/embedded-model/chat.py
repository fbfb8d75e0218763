"""Chats as text: the same format as template.jinja, but in pieces that know who speaks."""

import json
from pathlib import Path

START, END, BLANK = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
TEMPLATE = (Path(__file__).parent / "template.jinja").read_text()
TOOL_RULE = 'To call one, answer with <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>'


def answer_text(message):
    """What the assistant writes in one turn, tool calls included."""
    parts = [message["content"]] if message.get("content") else []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        arguments = json.dumps(function["arguments"], ensure_ascii=False)
        parts.append(f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>')
    return "\n".join(parts)


def pieces(messages, tools=None):
    """(text, spoken by the assistant) pairs that join to the rendered chat.

    The end-of-turn token belongs to the answer: ending the turn is something to learn.
    """
    rest = messages
    system = None
    if messages[0]["role"] == "system":
        system, rest = messages[0]["content"], messages[1:]
    if tools:
        lead = f"{system}\n\n" if system is not None else ""
        system = f"{lead}You can call these tools:\n<tools>{json.dumps(tools, ensure_ascii=False)}</tools>\n{TOOL_RULE}"
    other = f"{START}system\n{system}{END}\n" if system is not None else ""
    for i, message in enumerate(rest):
        role = message["role"]
        if role == "tool":
            if i == 0 or rest[i - 1]["role"] != "tool":
                other += f"{START}user"
            other += f"\n<tool_response>\n{message['content']}\n</tool_response>"
            if i + 1 == len(rest) or rest[i + 1]["role"] != "tool":
                other += f"{END}\n"
        elif role == "assistant":
            yield other + f"{START}assistant\n", False
            yield answer_text(message) + END, True
            other = "\n"
        else:
            other += f"{START}{role}\n{message['content']}{END}\n"
    yield other, False


def render(messages, tools=None):
    return "".join(text for text, _ in pieces(messages, tools))


def prompt(messages, tools=None):
    """The chat up to the point where the assistant is to answer."""
    return render(messages, tools) + f"{START}assistant\n"


def jinja(messages, tools=None, add_generation_prompt=False):
    """The same through the Jinja template that ships with the model."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE).render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt)
