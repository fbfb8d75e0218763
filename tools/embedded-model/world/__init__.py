"""The small world the model lives in: one module per family of requests.

Every family exposes `sample(rng) -> Exchange`. An exchange carries the keys of the
instances it contains; a hash of those keys, not chance, decides whether it belongs to
the training data or to the held-out set, so the two can never overlap.
"""

import hashlib
import re
from dataclasses import dataclass, field

HELD_OUT_SHARE = 20  # one instance in twenty is never trained on


@dataclass
class Exchange:
    messages: list  # chat messages, the last one being the answer
    check: dict  # how a scorer judges that answer
    keys: list = field(default_factory=list)  # instances it contains, the last one asked last; none means "always train"
    tools: list | None = None


def held_out(key):
    digest = hashlib.blake2b(key.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0


def plain(text):
    """A wording without its capitals and marks, so that two spellings of it are one instance."""
    return " ".join(re.findall(r"\w+", text.lower()))


def draw(sample, rng, evaluation=False):
    """Sample until the exchange lies on the wanted side of the split.

    Training sees no held-out instance at all; an evaluation asks for one at the end.
    """
    while True:
        exchange = sample(rng)
        if evaluation and exchange.keys and held_out(exchange.keys[-1]):
            return exchange
        if not evaluation and not any(map(held_out, exchange.keys)):
            return exchange


def ask(question, answer, check, *keys):
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return Exchange(messages, check, list(keys))


OPENERS = ["Please ", "Hi! ", "Hello, ", "Hey, ", "Can you help me? ", "A question: ", "Tell me: ", "Quick one: ", "So, ", "Now: ", "OK, ", "Could you please help: "]
CLOSERS = [" Thanks!", " Thank you.", " Please.", " please", " Be brief.", " :)", "", ""]


def spoken(rng, text):
    """The same request as people type it: a greeting, a thank you, lost capitals, a slip of the finger."""
    chance = rng.random()
    if chance < 0.12:
        opener = rng.choice(OPENERS)
        text = opener + (text[0].lower() + text[1:] if opener.endswith((", ", "Please ")) and text[1:2].islower() else text)
    elif chance < 0.2:
        text += rng.choice(CLOSERS)
    chance = rng.random()
    if chance < 0.08:
        text = text.lower()
    elif chance < 0.1:
        text = text.upper()
    if rng.random() < 0.1:
        text = text.rstrip("?.!")
    if rng.random() < 0.03:
        spots = [i for i in range(1, len(text) - 2) if text[i - 1].isalpha() and text[i].islower() and text[i + 1].islower()]
        if spots:
            i = rng.choice(spots)
            text = text[:i] + text[i + 1] + text[i] + text[i + 2 :]
    return text
