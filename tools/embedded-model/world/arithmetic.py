"""Addition, subtraction and comparison of whole numbers up to 999."""

from . import ask, spoken
from .words import CATEGORIES, name

ADD = [
    "What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} =", "{a}+{b}=", "{a} + {b} = ?", "Add {a} and {b}.", "Add {b} to {a}.",
    "What is {a} plus {b}?", "What's {a} + {b}?", "Calculate {a} + {b}.", "Compute {a}+{b}", "What is the sum of {a} and {b}?",
    "How much is {a} plus {b}?", "{a} plus {b}", "Can you add {a} and {b}?", "Work out {a} + {b}.", "How much is {a}+{b}?",
    "Give me the sum of {a} and {b}.", "Solve {a} + {b}.", "I need {a} + {b}.", "{a} and {b} together make how much?",
    "Tell me what {a} plus {b} is.", "What do you get when you add {a} and {b}?",
]
SUBTRACT = [
    "What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a} - {b} =", "{a}-{b}=", "{a} - {b} = ?", "Subtract {b} from {a}.",
    "What is {a} minus {b}?", "What's {a} - {b}?", "Calculate {a} - {b}.", "Compute {a}-{b}", "How much is {a} minus {b}?",
    "{a} minus {b}", "Take {b} away from {a}.", "Can you subtract {b} from {a}?", "Work out {a} - {b}.", "How much is {a}-{b}?",
    "Solve {a} - {b}.", "What is left when you take {b} from {a}?", "Tell me what {a} minus {b} is.", "I need {a} - {b}.",
]
LARGER = [
    "Which is larger, {a} or {b}?", "Which number is bigger: {a} or {b}?", "What is greater, {a} or {b}?", "{a} or {b}: which is larger?",
    "Which of {a} and {b} is the larger number?", "Tell me the bigger number: {a} or {b}.", "Which is more, {a} or {b}?",
]
SMALLER = [
    "Which is smaller, {a} or {b}?", "Which number is less: {a} or {b}?", "What is smaller, {a} or {b}?", "{a} or {b}: which is smaller?",
    "Which of {a} and {b} is the smaller number?", "Tell me the smaller number: {a} or {b}.", "Which is less, {a} or {b}?",
]
IS_LARGER = ["Is {a} larger than {b}?", "Is {a} bigger than {b}?", "Is {a} greater than {b}?", "Is {a} more than {b}?", "Is {a} > {b}?"]
IS_SMALLER = ["Is {a} smaller than {b}?", "Is {a} less than {b}?", "Is {a} lower than {b}?", "Is {a} < {b}?"]
COMPARE = ["Compare {a} and {b}.", "Compare the numbers {a} and {b}.", "How does {a} compare to {b}?", "Compare {a} with {b}."]


def operand(rng):
    """Three digits most of the time, since there the combinations are."""
    return rng.randint(0, rng.choice((20, 99, 999, 999, 999)))


def key(sign, a, b):
    """The instance; tiny sums are common knowledge and always trained."""
    if a < 20 and b < 20:
        return []
    if sign != "-":
        a, b = min(a, b), max(a, b)
    return [f"arithmetic {a} {sign} {b}"]


def result(a, sign, b):
    return a + b if sign == "+" else a - b


def calculation(a, sign, b):
    return f"{a} {sign} {b} = {result(a, sign, b)}."


def relation(a, b):
    if a == b:
        return f"{a} and {b} are equal."
    return f"{a} is {'larger' if a > b else 'smaller'} than {b}."


def comparison(rng, a, b):
    """A question about two numbers and its one right answer."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(LARGER), relation(max(a, b), min(a, b))
    if kind == 1:
        return rng.choice(SMALLER), relation(min(a, b), max(a, b))
    if kind == 2:
        return rng.choice(IS_LARGER), ("Yes, " if a > b else "No, ") + relation(a, b)
    if kind == 3:
        return rng.choice(IS_SMALLER), ("Yes, " if a < b else "No, ") + relation(a, b)
    return rng.choice(COMPARE), relation(a, b)


def near(rng, a):
    """A second number sharing leading digits with the first: the hard case of a comparison."""
    return max(0, min(999, a + rng.randint(-12, 12)))


def word_problem(rng, a, sign, b):
    who, things = name(rng), rng.choice(CATEGORIES["fruits"] + CATEGORIES["flowers"]) + "s"
    gain = ["{n} has {a} {t} and gets {b} more. How many {t} does {n} have now?", "{n} picks {a} {t} in the morning and {b} in the evening. How many {t} is that?",
            "There are {a} {t} in one box and {b} {t} in another. How many {t} does {n} have in all?"]
    loss = ["{n} has {a} {t} and gives away {b}. How many {t} are left?", "{n} buys {a} {t} and loses {b} of them. How many {t} does {n} have left?"]
    question = rng.choice(gain if sign == "+" else loss).format(n=who, a=a, b=b, t=things)
    c = result(a, sign, b)
    return question, f"{a} {sign} {b} = {c}, so there are {c} {things}."


def sample(rng):
    a, b = operand(rng), operand(rng)
    kind = rng.random()
    if kind < 0.25:
        if rng.random() < 0.3:
            b = near(rng, a)
        question, answer = comparison(rng, a, b)
        return ask(spoken(rng, question.format(a=a, b=b)), answer, {"type": "exact", "value": answer}, *key("?", a, b))
    sign = "+" if kind < 0.62 else "-"
    if rng.random() < 0.12:
        b = near(rng, a)
    if sign == "-" and a < b and rng.random() < 0.6:
        a, b = b, a
    check = {"type": "number", "value": result(a, sign, b)}
    if rng.random() < 0.08 and (sign == "+" or a >= b):
        question, answer = word_problem(rng, a, sign, b)
        return ask(question, answer, check, *key(sign, a, b))
    question = rng.choice(ADD if sign == "+" else SUBTRACT).format(a=a, b=b)
    return ask(spoken(rng, question), calculation(a, sign, b), check, *key(sign, a, b))
