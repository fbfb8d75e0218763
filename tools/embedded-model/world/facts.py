"""Small facts from tables: capitals, opposites, days and months, colours, units, animals.

The facts themselves must be learned, so what is held out is the pairing of a fact with a wording.
"""

from . import ask, plain, spoken
from .words import (BABIES, CAPITALS, DAYS, MIXES, MONTH_DAYS, MONTHS, OPPOSITES, ORDINALS, SEASONS, SOUNDS,
                    THING_COLOURS, UNITS, article)

COUNTRIES = {capital: country for country, capital in CAPITALS.items()}
OPPOSITE = {**{b: a for a, b in OPPOSITES}, **{a: b for a, b in OPPOSITES}}

CAPITAL = ["What is the capital of {}?", "Capital of {}?", "Which city is the capital of {}?", "Name the capital of {}.", "Tell me the capital of {}.",
           "What's the capital city of {}?", "Do you know the capital of {}?", "The capital of {} is", "What is {}'s capital?", "capital of {}",
           "Which city is the capital city of {}?", "I forgot the capital of {}. What is it?"]
COUNTRY = ["{} is the capital of which country?", "Which country has the capital {}?", "What country is {} the capital of?", "Of which country is {} the capital?",
           "In which country is {}?", "Where is {}?", "Which country is {} in?"]
OPPOSED = ["What is the opposite of {}?", "Opposite of {}?", "What's the opposite of \"{}\"?", "Give me the opposite of {}.", "Name the opposite of {}.",
           "Tell me the opposite of the word {}.", "Which word is the opposite of {}?", "The opposite of {} is", "What is the contrary of {}?", "antonym of {}"]
AFTER_DAY = ["Which day comes after {}?", "What day comes after {}?", "What day follows {}?", "If today is {}, what day is tomorrow?", "What is the day after {}?",
             "Today is {}. What is tomorrow?", "Tell me the day that comes after {}.", "Name the day after {}.", "Which day is next after {}?"]
BEFORE_DAY = ["Which day comes before {}?", "What day comes before {}?", "If today is {}, what day was yesterday?", "What is the day before {}?",
              "Today is {}. What was yesterday?", "Tell me the day that comes before {}.", "Name the day before {}.", "Which day is just before {}?"]
AFTER_MONTH = ["Which month comes after {}?", "What month comes after {}?", "What month follows {}?", "What is the month after {}?", "What is the next month after {}?",
               "Name the month after {}.", "It is {}. What month is next?"]
BEFORE_MONTH = ["Which month comes before {}?", "What month comes before {}?", "What is the month before {}?", "Name the month before {}.",
                "Tell me the month that comes before {}.", "Which month is just before {}?"]
LENGTH = ["How many days does {} have?", "How many days are in {}?", "How many days are there in {}?", "How long is {}?", "Number of days in {}?", "Tell me how many days {} has."]
NTH = ["Which month is {}?", "What number is the month {}?", "{} is which month of the year?", "Which number does the month {} have?"]
NTH_MONTH = ["What is the {} month of the year?", "Which month is the {} of the year?", "Name the {} month.", "What is the {} month?"]
SEASON = ["In which season is {}?", "Which season is {} in?", "What season does {} belong to?", "Is {} in spring, summer, autumn or winter?"]
COLOUR = ["What colour is {}?", "What color is {}?", "Which colour is {}?", "Which colour has {}?", "Tell me the colour of {}.", "What is the colour of {}?",
          "Name the colour of {}.", "Do you know the colour of {}?", "What colour does {} usually have?"]
MIX = ["What do you get when you mix {} and {}?", "Which colour do {} and {} make?", "Mix {} and {}: what colour is it?", "What colour is {} plus {}?",
       "If I mix {} and {}, which colour do I get?", "{} and {} mixed give which colour?"]
UNIT = ["How many {} are in {}?", "How many {} are there in {}?", "How many {} does {} have?", "Tell me how many {} are in {}.", "Number of {} in {}?",
        "What is the number of {} in {}?", "How many {} make {}?"]
SOUND = ["What sound does {} make?", "What does {} do to make a sound?", "Which sound does {} make?", "How does {} sound?", "What noise does {} make?"]
BABY = ["What is a baby {} called?", "What do you call a baby {}?", "What is the name for a young {}?", "What is a young {} called?", "How is a baby {} called?"]


def capital(country):
    return f"The capital of {country} is {CAPITALS[country]}."


def opposite(word):
    return f"The opposite of {word} is {OPPOSITE[word]}."


def day_after(day):
    return f"{DAYS[(DAYS.index(day) + 1) % 7]} comes after {day}."


def day_before(day):
    return f"{DAYS[DAYS.index(day) - 1]} comes before {day}."


def month_after(month):
    return f"{MONTHS[(MONTHS.index(month) + 1) % 12]} comes after {month}."


def month_before(month):
    return f"{MONTHS[MONTHS.index(month) - 1]} comes before {month}."


def month_length(month):
    days = MONTH_DAYS[MONTHS.index(month)]
    return f"{month} has {days} days{', or 29 in a leap year' if days == 28 else ''}."


def colour(thing):
    return f"{thing[0].upper()}{thing[1:]} is {THING_COLOURS[thing]}."


def fact(rng):
    """A wording with holes, what fills them, the answer, and the part of it that must be right."""
    kind = rng.choices(range(14), weights=(34, 10, 20, 5, 5, 5, 5, 5, 5, 4, 10, 4, 10, 6))[0]
    if kind == 0:
        country = rng.choice(list(CAPITALS))
        return rng.choice(CAPITAL), (country,), capital(country), CAPITALS[country]
    if kind == 1:
        city = rng.choice(list(COUNTRIES))
        return rng.choice(COUNTRY), (city,), f"{city} is the capital of {COUNTRIES[city]}.", COUNTRIES[city]
    if kind == 2:
        word = rng.choice(list(OPPOSITE))
        return rng.choice(OPPOSED), (word,), opposite(word), OPPOSITE[word]
    if kind == 3:
        day = rng.choice(DAYS)
        return rng.choice(AFTER_DAY), (day,), day_after(day), day_after(day)
    if kind == 4:
        day = rng.choice(DAYS)
        return rng.choice(BEFORE_DAY), (day,), day_before(day), day_before(day)
    month = rng.choice(MONTHS)
    if kind == 5:
        return rng.choice(AFTER_MONTH), (month,), month_after(month), month_after(month)
    if kind == 6:
        return rng.choice(BEFORE_MONTH), (month,), month_before(month), month_before(month)
    if kind == 7:
        return rng.choice(LENGTH), (month,), month_length(month), f"has {MONTH_DAYS[MONTHS.index(month)]} days"
    if kind == 8:
        ordinal = ORDINALS[MONTHS.index(month)]
        if rng.random() < 0.5:
            return rng.choice(NTH_MONTH), (ordinal,), f"The {ordinal} month of the year is {month}.", month
        return rng.choice(NTH), (month,), f"{month} is the {ordinal} month of the year.", ordinal
    if kind == 9:
        return rng.choice(SEASON), (month,), f"In the north, {month} is in {SEASONS[month]}.", SEASONS[month]
    if kind == 10:
        thing = rng.choice(list(THING_COLOURS))
        return rng.choice(COLOUR), (thing,), colour(thing), THING_COLOURS[thing]
    if kind == 11:
        pair = rng.choice(list(MIXES))
        mixed = MIXES[pair]
        first, second = pair if rng.random() < 0.5 else pair[::-1]
        return rng.choice(MIX), (first, second), f"{first.capitalize()} and {second} make {mixed}.", mixed
    if kind == 12:
        part, whole, count = rng.choice(UNITS)
        return rng.choice(UNIT), (part, whole), f"There are {count} {part} in {whole}.", str(count)
    if rng.random() < 0.5:
        animal = rng.choice(list(SOUNDS))
        return rng.choice(SOUND), (article(animal),), f"{article(animal).capitalize()} {SOUNDS[animal]}.", SOUNDS[animal]
    animal = rng.choice(list(BABIES))
    return rng.choice(BABY), (animal,), f"A baby {animal} is called {article(BABIES[animal])}.", BABIES[animal]


def sample(rng):
    wording, fillers, answer, needed = fact(rng)
    question = wording.format(*fillers)
    question = question[0].upper() + question[1:] if rng.random() < 0.9 else question
    return ask(spoken(rng, question), answer, {"type": "contains", "value": [needed]}, f"fact {plain(question)}")
