"""Extraction of given keys from a text into one line of JSON."""

import json

from . import ask
from .words import (ADJECTIVES, CATEGORIES, DAYS, MONTHS, NOUNS, city, full_name, invented, joined, name, number, sentence, word)

REQUEST = [
    "Extract {keys} as JSON from this text: {text}", "Extract the keys {keys} as JSON.\n\n{text}", "{text}\n\nGive me {keys} as JSON.", "Return a JSON object with the keys {keys}.\n\nText: {text}",
    "Read the text and answer with JSON. Keys: {keys}.\nText: {text}", "JSON with {keys}: {text}", "From the text below, extract {keys} into JSON.\n{text}", "Turn this into JSON with the keys {keys}: {text}",
    "Extract JSON ({keys}): {text}", "Please extract {keys} from the following sentence as JSON: {text}", "Text: {text}\nKeys: {keys}\nJSON:", "{text}\n\nExtract {keys}. Answer only with JSON.",
    "Find {keys} in this text and write them as JSON: {text}", "Make a JSON object from this text. Use the keys {keys}. {text}",
]


def thing(rng):
    return rng.choice(NOUNS) if rng.random() < 0.6 else invented(rng)


def email(rng):
    return f"{word(rng)}.{word(rng)}@{word(rng)}.{rng.choice(('com', 'org', 'net', 'io'))}"


def clock(rng):
    return f"{rng.randint(0, 23)}:{rng.randint(0, 59):02d}"


def price(rng):
    return number(rng) if rng.random() < 0.6 else round(rng.randint(100, 99999) / 100, 2)


def date(rng):
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"


# A scene is a subject sentence and facts about it. A fact has possible keys, a value, and ways to say it.
PERSON = [
    (("name", "person", "full_name"), lambda r: full_name(r) if r.random() < 0.4 else name(r), None),
    (("age", "years"), lambda r: r.randint(1, 99), ["{s} is {v} years old", "{s} is {v}", "{s} turned {v} last week", "the age is {v}", "{s} is a {v} year old neighbour", "at {v}, {s} is still active"]),
    (("city", "town", "location", "home"), city, ["{s} lives in {v}", "{s} comes from {v}", "{s} has a house in {v}", "{s} moved to {v}"]),
    (("job", "profession", "occupation", "work"), lambda r: r.choice(CATEGORIES["jobs"]), ["{s} works as a {v}", "{s} is a {v}", "{s} earns money as a {v}"]),
    (("email", "email_address", "mail"), email, ["the email address is {v}", "you can write to {v}", "{s} can be reached at {v}"]),
    (("phone", "phone_number"), lambda r: f"{r.randint(100, 999)}-{r.randint(1000, 9999)}", ["the phone number is {v}", "you can call {v}"]),
    (("company", "employer"), lambda r: invented(r, 2).capitalize() + r.choice((" Ltd", " Inc", "", " Group")), ["the employer is {v}", "{s} has a contract with {v}"]),
    (("pet", "animal"), lambda r: r.choice(CATEGORIES["animals"]), ["{s} has a pet {v}", "{s} keeps a {v}"]),
    (("hobby", "sport"), lambda r: r.choice(CATEGORIES["sports"]), ["{s} loves {v}", "the favourite hobby is {v}", "on weekends {s} goes for {v}"]),
    (("colour", "favourite_colour", "color"), lambda r: r.choice(CATEGORIES["colours"]), ["the favourite colour is {v}", "{s} likes the colour {v}"]),
    (("height", "height_cm"), lambda r: r.randint(90, 210), ["{s} is {v} cm tall", "the height is {v} cm"]),
]
ORDER = [
    (("product", "item", "article"), thing, None),
    (("quantity", "amount", "count"), lambda r: r.randint(2, 999), ["the quantity is {v}", "{v} pieces were ordered", "the customer wants {v} of them"]),
    (("price", "cost", "unit_price"), price, ["the price is {v} dollars", "it costs {v} euros", "each one costs {v}"]),
    (("customer", "buyer", "client"), full_name, ["the customer is {v}", "it was ordered by {v}", "the buyer is called {v}"]),
    (("order", "order_id", "order_number"), lambda r: r.randint(1000, 99999), ["the order number is {v}", "it is order {v}"]),
    (("colour", "color"), lambda r: r.choice(CATEGORIES["colours"]), ["the colour is {v}", "it is painted {v}", "it comes in {v}"]),
    (("day", "delivery", "weekday"), lambda r: r.choice(DAYS), ["it will be delivered on {v}", "it arrives on {v}"]),
    (("city", "destination", "ship_to"), city, ["it is sent to {v}", "the parcel goes to {v}"]),
    (("weight", "weight_kg"), lambda r: r.randint(1, 400), ["it weighs {v} kg", "the weight is {v} kg"]),
    (("material",), lambda r: r.choice("wood steel glass cotton paper stone plastic leather".split()), ["it is made of {v}", "the material is {v}"]),
]
EVENT = [
    (("event", "title"), lambda r: f"{r.choice(ADJECTIVES).capitalize()} {thing(r).capitalize()} {r.choice(('Day', 'Festival', 'Meeting', 'Workshop', 'Concert', 'Fair'))}", None),
    (("date",), date, ["it takes place on {v}", "the date is {v}", "it is planned for {v}"]),
    (("time", "start", "start_time"), clock, ["it starts at {v}", "the doors open at {v}", "it begins at {v}"]),
    (("city", "place", "location"), city, ["it is held in {v}", "the place is {v}", "everybody meets in {v}"]),
    (("host", "speaker", "organizer"), full_name, ["the host is {v}", "it is organised by {v}", "the speaker is {v}"]),
    (("guests", "visitors", "seats"), lambda r: r.randint(5, 999), ["{v} guests are expected", "there are {v} seats", "{v} people will come"]),
    (("room", "room_number"), lambda r: r.randint(1, 500), ["it is in room {v}", "the room number is {v}"]),
    (("price", "fee", "ticket"), price, ["a ticket costs {v} euros", "the fee is {v} dollars"]),
]
SUBJECTS = {
    "person": (PERSON, ["This is {v}.", "My friend is called {v}.", "{v} is a new member.", "Meet {v}.", "I know {v} from school.", "The form was filled in by {v}."]),
    "order": (ORDER, ["Somebody ordered a {v}.", "We sold a {v}.", "The parcel contains a {v}.", "The product is called {v}."]),
    "event": (EVENT, ["The {v} is coming.", "Do not miss the {v}.", "You are invited to the {v}.", "We look forward to the {v}."]),
}


def compose(rng, clauses):
    """Clauses one by one or two joined, each starting with a capital."""
    parts, i = [], 0
    while i < len(clauses):
        text = clauses[i]
        if i + 1 < len(clauses) and rng.random() < 0.35:
            i += 1
            text += " and " + clauses[i]
        parts.append(text[0].upper() + text[1:] + ".")
        i += 1
    return " ".join(parts)


def scene(rng):
    """A text and every fact it states, as key -> value."""
    fields, openings = SUBJECTS[rng.choice(list(SUBJECTS))]
    (keys, make, _), rest = fields[0], fields[1:]
    subject = make(rng)
    facts = {rng.choice(keys): subject}
    names = (subject.split()[0], rng.choice(("he", "she", "this person"))) if fields is PERSON else ("it",)
    clauses = []
    for keys, make, ways in rng.sample(rest, rng.randint(1, min(6, len(rest)))):
        key = rng.choice(keys)
        if key in facts:
            continue
        facts[key] = make(rng)
        clauses.append(rng.choice(ways).format(s=rng.choice(names), v=facts[key]))
    text = rng.choice(openings).format(v=subject) + " " + compose(rng, clauses)
    if rng.random() < 0.2:
        text += " " + sentence(rng)
    missing = [keys[0] for keys, _, _ in rest if not any(k in facts for k in keys)]
    return text, facts, missing


def value(rng):
    return rng.choice((thing, city, name, lambda r: number(r), lambda r: rng.choice(CATEGORIES["colours"]), word))(rng)


def plain(rng):
    """Arbitrary keys with arbitrary values, stated flatly: what teaches copying by key."""
    facts = {thing(rng): value(rng) for _ in range(rng.randint(2, 6))}
    style = rng.randrange(5)
    if style == 0:
        text = " ".join(f"The {k} is {v}." for k, v in facts.items())
    elif style == 1:
        text = "\n".join(f"{k}: {v}" for k, v in facts.items())
    elif style == 2:
        text = ", ".join(f"{k} = {v}" for k, v in facts.items())
    elif style == 3:
        text = "; ".join(f"{k} {v}" for k, v in facts.items())
    else:
        text = "The" + joined([f"the {k} is {v}" for k, v in facts.items()])[3:] + "."
    return text, facts, [thing(rng)]


def sample(rng):
    text, facts, missing = (scene if rng.random() < 0.6 else plain)(rng)
    keys = rng.sample(list(facts), rng.randint(1, len(facts)))
    wanted = {k: facts[k] for k in keys}
    if missing and rng.random() < 0.08:
        wanted[rng.choice(missing)] = None
        keys = list(wanted)
        rng.shuffle(keys)
        wanted = {k: wanted[k] for k in keys}
    style = rng.randrange(3)
    listed = joined(keys) if style == 0 else ", ".join(keys) if style == 1 else ", ".join(f'"{k}"' for k in keys)
    question = rng.choice(REQUEST).format(keys=listed, text=text)
    return ask(question, json.dumps(wanted), {"type": "json", "value": wanted}, f"extract {text}")
