"""Conversations that wander through several families, with and without a system prompt."""

from . import Exchange, arithmetic, calling, draw, extraction, facts, followup, greeting, lists, other, rewriting, story
from .words import sentence

SYSTEMS = ["You are a helpful assistant.", "You are a helpful, honest assistant.", "You are a friendly assistant. Answer briefly.", "Answer as well as you can.", "You are an assistant.", "Be concise.",
           "You are a helpful AI assistant named Chairlift.", "Follow the user's instructions carefully.", "You are a polite chat bot.", "You answer questions for visitors.", "Be kind and precise.",
           "You are ChatGPT, a large language model.", "You are a demo.", "Answer in English.", "You are a helpful assistant. Keep answers short."]
FAMILIES = {  # family: (sampler, weight inside a conversation)
    arithmetic.sample: 22, facts.sample: 16, rewriting.sample: 12, rewriting.copied: 8, other.sample: 8, greeting.sample: 6,
    extraction.sample: 10, lists.sample: 7, story.sample: 3, followup.sample: 8, calling.sample_result: 4, calling.sample: 2,
}


def system(rng):
    return rng.choice(SYSTEMS) if rng.random() < 0.8 else f"{rng.choice(SYSTEMS)} {sentence(rng)}"


def with_system(rng, exchange, share=0.35):
    if exchange.messages[0]["role"] != "system" and rng.random() < share:
        exchange.messages.insert(0, {"role": "system", "content": system(rng)})
    return exchange


def append(whole, part):
    """Add a part to a conversation; its tools, wherever declared, become the conversation's."""
    messages = part.messages
    if messages[0]["role"] == "system":
        whole.messages.insert(0, messages[0])
        messages = messages[1:]
    whole.messages += messages
    whole.keys += part.keys
    whole.tools = part.tools or whole.tools


def wander(rng, characters, last=None):
    """Turns until the text is about `characters` long; `last` is an exchange to end with."""
    whole = Exchange([], {})
    tooled = last is not None and (last.tools is not None or last.messages[0]["role"] == "system")
    length = 0
    while length < characters:
        sampler = rng.choices(list(FAMILIES), weights=FAMILIES.values())[0]
        part = draw(sampler, rng)
        uses_tools = sampler in (calling.sample, calling.sample_result)
        if uses_tools and (tooled or sampler is calling.sample):
            continue  # one set of tools per conversation, and a call is never left hanging
        tooled = tooled or uses_tools
        append(whole, part)
        length += sum(len(m["content"]) for m in part.messages)
    if last:
        append(whole, last)
        whole.check = last.check
    return whole


def sample(rng):
    """Mostly a few hundred tokens, sometimes thousands, so that every position is trained."""
    return wander(rng, rng.choices((400, 1200, 3000, 9000), weights=(50, 30, 15, 5))[0] * rng.uniform(0.5, 1.2))
