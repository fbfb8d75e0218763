"""Lists of things, and haiku that keep to five, seven and five syllables."""

import re

from . import ask, plain, spoken
from .words import CATEGORIES, COMMON, DAYS, MONTHS, NOUNS, NUMBER_WORDS, invented, name

LIST = ["List {n} {c}.", "Give me {n} {c}.", "Name {n} {c}.", "Give me a list of {n} {c}.", "Write a list of {n} {c}.", "Can you list {n} {c}?", "I need {n} {c}.", "Tell me {n} {c}.",
        "Make a list of {n} {c}.", "Please name {n} {c}.", "{n} {c}", "Write down {n} {c}.", "Which {n} {c} do you know?"]
NUMBERED = [" Number them.", " Use numbers.", " As a numbered list."]
BULLETS = [" Use bullet points.", " As bullets.", " With dashes."]
INLINE = [" On one line.", " Separated by commas.", " In one line, with commas."]

HAIKU = ["Write a haiku about {}.", "Haiku about {}", "Give me a haiku about {}.", "A haiku about {}, please.", "Can you write a haiku about {}?", "Compose a haiku on {}.", "I would like a haiku about {}.",
         "Write me a short haiku about {}.", "Make a haiku about {}.", "haiku: {}", "Please write a haiku on the subject of {}.", "Write a poem about {}.", "Write a short poem about {}."]
TOPICS = {
    1: "snow rain wind night spring moon frost fog dawn dusk sea sand stone leaves stars bees mist hills birds waves clouds grass".split(),
    2: "autumn winter summer morning evening thunder rivers mountains gardens forests blossoms sunlight moonlight sparrows swallows meadows sunset harbour island raindrops foxes".split(),
    3: ["butterflies", "waterfalls", "dragonflies", "October", "November", "December", "September", "the seaside", "the mountains", "the river", "the forest", "the garden"],
}
FIRST = {
    1: ["The old pond and {}", "Soft whispers of {}", "Silver light and {}", "{} in the morning", "Once again the {}", "I wake up to {}", "{} over the hills", "Slow and quiet {}"],
    2: ["Old pond and {}", "Whispers of {}", "Silver {} wait", "{} at my door", "{} in the dark", "Again the {}", "I dream of {}", "Quiet {} now"],
    3: ["{} at dawn", "{} and I", "I see {}", "Dreams of {}", "Here comes {}", "{}, once more"],
}
MIDDLE_HEAD = [  # four syllables
    "a lonely crow", "a single leaf", "the little boat", "a paper kite", "the sleeping cat", "an empty road", "the river's voice", "a distant bell", "the farmer's dog", "a hidden path",
        "the garden gate", "a child's red hat", "the baker's light", "my grandma's song",
]
MIDDLE_TAIL = [  # three syllables
    "drifts away", "waits for me", "starts to sing", "turns to gold", "falls asleep", "finds its way", "says goodbye", "comes back home", "fades in blue", "calls my name", "moves alone", "holds its breath",
]
LAST = ["the world holds its breath", "and then, nothing more", "a small warm window", "how quiet it is", "the day is over", "nobody hears it", "tomorrow will come", "my tea has gone cold",
        "time for one more song", "the lamp burns all night", "footsteps in the dust", "one star answers it", "the road leads me home", "I am not alone"]


def syllables_of(topic):
    """Groups of vowels, a silent e left out: right for most words."""
    return sum(max(1, len(re.findall("[aeiouy]+", re.sub("e$", "", word)))) for word in topic.lower().split())


def subject(rng):
    """A topic for a haiku and its syllables: mostly from the tables, sometimes whatever one may ask for."""
    if rng.random() < 0.55:
        syllables = rng.choice((1, 2, 2, 3))
        return rng.choice(TOPICS[syllables]), syllables
    thing = rng.choice(NOUNS + COMMON[:90] + CATEGORIES["animals"] + CATEGORIES["birds"]) if rng.random() < 0.7 else invented(rng, 2) if rng.random() < 0.6 else name(rng)
    draw = rng.random()
    topic = f"the {thing}" if draw < 0.3 else f"{thing}s" if draw < 0.6 else f"a {thing}" if draw < 0.7 else thing
    return topic, syllables_of(topic)


def haiku(rng, topic, syllables):
    first = rng.choice(FIRST[min(syllables, 3)]).format(topic) if syllables <= 3 else rng.choice(("{}", "Oh, {}", "{}, {}")[: 2 if syllables == 4 else 1]).format(topic)
    middle = f"{rng.choice(MIDDLE_HEAD)} {rng.choice(MIDDLE_TAIL)}"
    return "\n".join(line[0].upper() + line[1:] for line in (first, middle, rng.choice(LAST)))


def listing(rng, items, style):
    if style == "bullets":
        return "\n".join(f"- {item}" for item in items)
    if style == "inline":
        return ", ".join(items)
    return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))


def counting(rng):
    last = rng.randint(2, 30)
    written = NUMBER_WORDS[last] if last <= 12 and rng.random() < 0.4 else str(last)
    wording = rng.choice(("Count to {}.", "Count to {}", "Can you count to {}?", "Count from 1 to {}.", "Please count to {}.", "List the numbers from 1 to {}.", "Count up to {}."))
    answer = ", ".join(map(str, range(1, last + 1)))
    return ask(wording.format(written), answer, {"type": "exact", "value": answer}, f"list {plain(wording.format(written))}")


def whole(rng):
    """A small table in full and in order."""
    things, items = rng.choice((("days of the week", DAYS), ("months of the year", MONTHS), ("months", MONTHS), ("seasons", CATEGORIES["seasons"]), ("planets", CATEGORIES["planets"]), ("days", DAYS)))
    wording = rng.choice(("What are the {}?", "Name the {}.", "Name all the {}.", "List the {}.", "List all {}.", "Tell me the {}.", "Which {} are there?", "Name all {}", "What are all the {}?", "Can you name the {}?"))
    answer = ", ".join(items)
    return ask(spoken(rng, wording.format(things)), answer, {"type": "exact", "value": answer}, f"list {plain(wording.format(things))}")


def sample(rng):
    draw = rng.random()
    if draw < 0.08:
        return counting(rng)
    if draw < 0.14:
        return whole(rng)
    if draw < 0.5:
        topic, syllables = subject(rng)
        wording = rng.choice(HAIKU)
        return ask(wording.format(topic), haiku(rng, topic, syllables), {"type": "haiku", "value": topic}, f"haiku {plain(wording.format(topic))}")
    category = rng.choice(list(CATEGORIES))
    members = CATEGORIES[category]
    count = rng.randint(2, min(10, len(members) - 1))
    style, suffix = "numbers", ""
    if rng.random() < 0.4:
        style, suffixes = rng.choice((("numbers", NUMBERED), ("bullets", BULLETS), ("inline", INLINE)))
        suffix = rng.choice(suffixes)
    wording = rng.choice(LIST)
    written = NUMBER_WORDS[count] if rng.random() < 0.4 else str(count)
    question = wording.format(n=written, c=category)
    question = question[0].upper() + question[1:] + suffix
    check = {"type": "list", "count": count, "style": style, "value": members}
    return ask(spoken(rng, question), listing(rng, rng.sample(members, count), style), check, f"list {plain(question)}")
