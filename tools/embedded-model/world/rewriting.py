"""Rewriting a given text: exact copies, upper and lower case, reversed lists, word counts."""

from . import ask
from .words import COMMON, FUNCTION_WORDS, city, name, number, passage, sentence, word

COPY = ["Repeat exactly: {}", "Copy this text exactly: {}", "Repeat after me: {}", "Say exactly this: {}", "Copy: {}", "Repeat: {}", "Echo: {}",
        "Write this again, word for word: {}", "Please repeat the following text:\n{}", "Copy the following passage exactly.\n\n{}", "Repeat this text without any change:\n\n{}",
        "Say: {}", "{}\n\nCopy the text above exactly.", "Repeat the text between the lines.\n---\n{}\n---", "Output exactly this: {}", "Give me this text back unchanged: {}",
        "Copy the passage exactly: {}", "Type this again: {}", "Please copy this: {}", "Repeat exactly what I write: {}"]
QUOTED = ['Repeat exactly: "{}"', 'Copy the text in quotes: "{}"', 'Say "{}"', 'Please repeat "{}" exactly.', 'Write "{}" again.', "Say '{}'", "Repeat '{}'", "Repeat exactly: '{}'", 'Repeat: "{}"']
UPPER = ["Write in upper case: {}", "Put this in upper case: {}", "Convert to uppercase: {}", "Make this upper case: {}", "In capital letters: {}", "Upper case: {}",
         "Rewrite in capital letters: {}", "Change this text to upper case:\n{}", "{}\n\nWrite the text above in upper case.", "Uppercase this: {}", "Please shout this: {}",
         "Can you write this in capitals? {}"]
LOWER = ["Write in lower case: {}", "Put this in lower case: {}", "Convert to lowercase: {}", "Make this lower case: {}", "In small letters: {}", "Lower case: {}",
         "Change this text to lower case:\n{}", "Lowercase this: {}"]
REVERSE = ["Reverse this list: {}", "Reverse the list: {}", "Turn this list around: {}", "Write this list backwards: {}", "Give me this list in reverse order: {}",
           "Put these words in reverse order: {}", "List these from last to first: {}", "Reverse the order: {}", "Please reverse: {}", "Reverse: {}"]
COUNT = ["How many words are in this text: {}", "Count the words: {}", "How many words does this have? {}", "Count the words in this sentence: {}", "Word count of: {}",
         "How many words are there here: {}", "Please count the words in: {}", "Tell me the number of words in: {}", "Count words: {}"]


def copied(rng):
    text = passage(rng, longest=90) if rng.random() < 0.92 else word(rng)
    plain = '"' not in text and "'" not in text and rng.random() < 0.25
    wording = rng.choice(QUOTED if plain else COPY)
    return ask(wording.format(text), text, {"type": "exact", "value": text}, f"copy {text}")


def short_text(rng):
    if rng.random() < 0.5:
        return passage(rng, longest=12)
    return " ".join(word(rng) for _ in range(rng.randint(1, 6)))


def items(rng):
    kind = rng.random()
    make = word if kind < 0.6 else name if kind < 0.75 else city if kind < 0.85 else lambda r: str(number(r))
    count = rng.randint(2, 9)
    return list(dict.fromkeys(make(rng) for _ in range(count)))


def word_count(count):
    return "There is 1 word." if count == 1 else f"There are {count} words."


def sample(rng):
    kind = rng.random()
    if kind < 0.4:
        text = short_text(rng)
        answer, wording = text.upper(), rng.choice(UPPER)
        return ask(wording.format(text), answer, {"type": "exact", "value": answer}, f"case {text.lower()}")
    if kind < 0.5:
        text = short_text(rng)
        text = text.upper() if rng.random() < 0.6 else text.title()
        return ask(rng.choice(LOWER).format(text), text.lower(), {"type": "exact", "value": text.lower()}, f"case {text.lower()}")
    if kind < 0.75:
        words = items(rng)
        separator = rng.choice((", ", ", ", ", ", " ", "; ", "\n", " - "))
        answer = separator.join(reversed(words))
        lead = "\n" if separator == "\n" else ""
        return ask(rng.choice(REVERSE).format(lead + separator.join(words)), answer, {"type": "exact", "value": answer}, f"reverse {sorted(words)}")
    any_word = word if rng.random() < 0.6 else lambda r: r.choice(COMMON + 3 * FUNCTION_WORDS)
    text = " ".join(any_word(rng) for _ in range(rng.randint(1, 12)))
    if rng.random() < 0.4:
        text = text.capitalize() + rng.choice((".", "!", "?"))
    elif rng.random() < 0.4:
        text = sentence(rng)
    answer = word_count(len(text.split()))
    return ask(rng.choice(COUNT).format(text), answer, {"type": "exact", "value": answer}, f"count {text.lower()}")
