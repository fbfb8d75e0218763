"""Second questions that only make sense after the first: sums that go on, "and of Sweden?", "in upper case?"."""

from . import Exchange, arithmetic, facts, lists, other, plain, rewriting, story
from .words import CAPITALS, CATEGORIES, DAYS, MONTHS, THING_COLOURS, name

PLUS = ["Now plus {b}.", "Add {b}.", "And plus {b}?", "Now add {b} to that.", "plus {b}", "And if you add {b}?", "+ {b}", "Add {b} to the result."]
MINUS = ["Now minus {b}.", "Subtract {b}.", "And minus {b}?", "Take away {b} now.", "minus {b}", "And if you subtract {b}?", "- {b}", "Subtract {b} from the result."]
THAN = ["Is that more than {b}?", "Is that larger than {b}?", "Is the result bigger than {b}?"]
AND_OF = ["And of {}?", "And {}?", "What about {}?", "And the one of {}?", "Now {}.", "How about {}?", "and of {}"]
AND = ["And {}?", "What about {}?", "Now {}.", "How about {}?", "and {}", "And what about {}?"]
LOUD = ["And in upper case?", "Now in upper case.", "In upper case, please.", "Write that in upper case.", "Can you put that in capital letters?", "Upper case please", "Say it in capitals."]
AGAIN = ["Repeat that.", "Say that again.", "Once more, please.", "Can you repeat that?", "What did you say?", "Please repeat your answer.", "Again the same, please."]
BACKWARDS = ["Now reverse it.", "Reverse the list.", "And in reverse order?", "Now backwards.", "Turn the list around.", "The other way round, please."]
ANOTHER = ["Another one.", "Another one, please.", "One more.", "Give me another one.", "Again!", "Write another one.", "And another?", "More, please."]
MY_NAME = ["What is my name?", "Do you remember my name?", "What's my name?", "Who am I?", "Tell me my name.", "How am I called?"]
BEFORE = ["What did I just ask?", "What was my last question?", "What did I just say?", "Repeat my last message."]
MANY = ["How many words was that?", "How many words are in your answer?", "Count the words in your answer."]
HERO = ["Who was the story about?", "What was the name of the hero?", "Who was the hero?", "What is the hero called?"]
WHERE = ["Where did {} live?", "Where does the story take place?", "In which place did {} live?"]
FRIEND = ["Who was the friend of {}?", "What was the name of the friend?", "Who helped {}?", "Who was {}'s friend?"]


def after(exchange, *turns):
    """The exchange, continued by (question, answer) turns."""
    messages = list(exchange.messages)
    for question, answer in turns:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return Exchange(messages, {"type": "exact", "value": messages[-1]["content"]}, list(exchange.keys), exchange.tools)


def chain(rng):
    """A running sum."""
    a, b = arithmetic.operand(rng), arithmetic.operand(rng)
    keys, sign = [], "+"
    question = rng.choice(arithmetic.ADD)
    if a >= b and rng.random() < 0.5:
        question, sign = rng.choice(arithmetic.SUBTRACT), "-"
    turns = [(question.format(a=a, b=b), arithmetic.calculation(a, sign, b))]
    keys += arithmetic.key(sign, a, b)
    total = arithmetic.result(a, sign, b)
    for _ in range(rng.randint(1, 4)):
        if not 0 <= total <= 999:
            break
        b = arithmetic.operand(rng)
        draw = rng.random()
        if draw < 0.15:
            turns.append((rng.choice(THAN).format(b=b), ("Yes, " if total > b else "No, ") + arithmetic.relation(total, b)))
            keys += arithmetic.key("?", total, b)
            continue
        sign = "+" if draw < 0.6 else "-"
        turns.append((rng.choice(PLUS if sign == "+" else MINUS).format(b=b), arithmetic.calculation(total, sign, b)))
        keys += arithmetic.key(sign, total, b)
        total = arithmetic.result(total, sign, b)
    return after(Exchange([], {}, keys), *turns)


def more_facts(rng):
    """A table question, then the same question about other rows of the table."""
    wordings, rows, answer, ways = rng.choice((
        (facts.CAPITAL, list(CAPITALS), facts.capital, AND_OF), (facts.CAPITAL, list(CAPITALS), facts.capital, AND_OF),
        (facts.OPPOSED, list(facts.OPPOSITE), facts.opposite, AND_OF), (facts.AFTER_DAY, DAYS, facts.day_after, AND),
        (facts.BEFORE_DAY, DAYS, facts.day_before, AND), (facts.AFTER_MONTH, MONTHS, facts.month_after, AND),
        (facts.LENGTH, MONTHS, facts.month_length, AND), (facts.COLOUR, list(THING_COLOURS), facts.colour, AND),
    ))
    subjects = rng.sample(rows, rng.randint(2, 4))
    turns = [(rng.choice(wordings).format(subjects[0]), answer(subjects[0]))]
    turns += [(rng.choice(ways).format(subject), answer(subject)) for subject in subjects[1:]]
    return after(Exchange([], {}, [f"fact {plain(turns[0][0])}", f"facts {subjects[-2:]}"]), *turns)


def echo(rng):
    """A short answer, then that answer again in another shape."""
    first = rng.choice((facts.sample, arithmetic.sample, rewriting.copied, lists.sample, other.sample))(rng)
    said = first.messages[-1]["content"]
    draw = rng.random()
    if draw < 0.5 and len(said) < 120:
        turn = (rng.choice(LOUD), said.upper())
    elif draw < 0.65 and len(said.split()) <= 12 and "\n" not in said:
        turn = (rng.choice(MANY), rewriting.word_count(len(said.split())))
    elif draw < 0.75:
        turn = (rng.choice(BEFORE), first.messages[-2]["content"])
    else:
        turn = (rng.choice(AGAIN), said)
    return after(first, turn)


def turned_list(rng):
    category = rng.choice(list(CATEGORIES))
    members = CATEGORIES[category]
    count = rng.randint(2, min(8, len(members) - 1))
    style = rng.choice(("numbers", "bullets", "inline"))
    ask_for = rng.choice(lists.LIST).format(n=count, c=category) + (rng.choice(lists.BULLETS) if style == "bullets" else rng.choice(lists.INLINE) if style == "inline" else "")
    items = rng.sample(members, count)
    shown = [lists.listing(rng, order, style) for order in (items, items[::-1])]
    return after(Exchange([], {}, [f"list {plain(ask_for)}", f"turned {sorted(items)}"]), (ask_for[0].upper() + ask_for[1:], shown[0]), (rng.choice(BACKWARDS), shown[1]))


def another(rng):
    if rng.random() < 0.5:
        hero, friend, place, thing = story.scene(rng)
        wanted, _, hero, friend = story.wish(rng, hero, friend, place, thing)
        tales = [story.tell(rng, hero, friend, place, thing) for _ in range(2)]
        exchange = after(Exchange([], {}, [f"story {wanted}"]), (rng.choice(story.REQUESTS).format(w=wanted), tales[0]), (rng.choice(ANOTHER), tales[1]))
        exchange.check = {"type": "story", "value": [hero[2]]}
        return exchange
    topic, syllables = lists.subject(rng)
    wording = rng.choice(lists.HAIKU)
    exchange = after(Exchange([], {}, [f"haiku {plain(wording.format(topic))}"]), *((q, lists.haiku(rng, topic, syllables)) for q in (wording.format(topic), rng.choice(ANOTHER))))
    exchange.check = {"type": "haiku", "value": topic}
    return exchange


def about_story(rng):
    hero, friend, place, thing = story.scene(rng)
    wanted, _, hero, friend = story.wish(rng, hero, friend, place, thing)
    exchange = after(Exchange([], {}, [f"story {wanted}"]), (rng.choice(story.REQUESTS).format(w=wanted), story.tell(rng, hero, friend, place, thing)))
    questions = [
        (rng.choice(HERO), f"The story was about {hero[2]}, {story.article(hero[0])}."),
        (rng.choice(WHERE).format(hero[2]), f"{hero[2]} lived {place}."),
        (rng.choice(FRIEND).format(hero[2]), f"{friend[2]} was the friend of {hero[2]}."),
    ]
    rng.shuffle(questions)
    return after(exchange, *questions[: rng.randint(1, 3)])


def my_name(rng):
    person = name(rng)
    said = rng.choice(("Hello, I am {}.", "Hi! My name is {}.", "Hi, I'm {}.", "Hello, my name is {}.", "Hey, {} here.")).format(person)
    turns = [(said, f"Hello {person}! I am a small demo model. What would you like to try?")]
    keys = [f"greeting {plain(said)}"]
    for _ in range(rng.randint(0, 3)):
        between = rng.choice((facts.sample, arithmetic.sample, rewriting.sample, lists.sample, other.sample))(rng)
        keys += between.keys
        turns.append((between.messages[0]["content"], between.messages[1]["content"]))
    turns.append((rng.choice(MY_NAME), f"Your name is {person}."))
    return after(Exchange([], {}, keys + [f"named {person}"]), *turns)


def sample(rng):
    return rng.choices((chain, more_facts, echo, turned_list, another, about_story, my_name), weights=(26, 18, 24, 8, 6, 8, 10))[0](rng)
