"""Everything outside the small world gets one polite line, so that the model does not make things up."""

import re

from . import ask, calling, plain, spoken
from .words import ADJECTIVES, COMMON, NOUNS, city, full_name, invented, number, passage, scrambled, word

TOPICS = """quantum physics; the stock market; black holes; the French revolution; football; democracy; machine learning; climate change; photosynthesis; the roman empire;
world war two; the internet; inflation; taxes; poetry; philosophy; evolution; gravity; electricity; vaccines; cooking; chess; jazz; the middle ages; volcanoes; dinosaurs; neural networks;
databases; the human brain; astronomy; religion; economics; insurance; marketing; psychology; biology; chemistry; geometry; algebra; the moon landing; cryptocurrency; renewable energy;
the solar system; blood pressure; yoga; fashion; movies; video games; history; art; law; medicine; politics; travel; dreams; love; friendship; happiness; time travel; robots; space travel;
compilers; operating systems; sorting algorithms; web servers; encryption; bicycles; coffee machines; the ocean; earthquakes; hurricanes; ancient Greece; the pyramids; vitamins; sleep; running shoes""".replace("\n", " ").split("; ")
LANGUAGES = "French German Spanish Italian Russian Chinese Japanese Latin Arabic Polish Swedish Greek Turkish".split()
CODE = "Python JavaScript Java C++ Rust Go Ruby SQL Bash HTML TypeScript Haskell".split()
DEEDS = """sort a list; open a file; read a web page; compute prime numbers; parse a date; draw a circle; send an email; find the largest number; connect to a database; print hello world;
count letters; make a website; reverse a string; download a picture; run a server""".replace("\n", " ").split("; ")
HOW_TO = """bake a cake; lose weight; learn to swim; fix a bicycle; write a novel; get rich; make friends; grow tomatoes; cook rice; paint a wall; learn the piano; find a job; sleep better; build a house;
train a dog; remove a stain; buy a car; save money; play chess; make coffee; tie a tie; start a company; clean a window; repair a phone""".replace("\n", " ").split("; ")
ROLES = "president king mayor prime minister coach director captain queen chief author".split(" ")
EVENTS = "world cup; election; Olympic games; song contest; race; war; final; battle; Nobel prize; championship".split("; ")

LINES = [
    "I am sorry, that is outside my small world. I am only a demo model; for real answers, please load a real model.",
    "That is outside my small world, I am afraid. I am a demo model; please load a real model for that.",
]


def topic(rng):
    draw = rng.random()
    if draw < 0.6:
        return rng.choice(TOPICS)
    if draw < 0.75:
        return f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}s"
    if draw < 0.85:
        return full_name(rng)
    if draw < 0.93:
        return invented(rng)
    return f"the {rng.choice(NOUNS)} of {city(rng)}"


def question(rng):
    thing = topic(rng)
    year = rng.randint(1000, 2050)
    big = lambda: rng.randint(1000, 99999)
    shapes = (
        lambda: f"Explain {thing}{rng.choice(('.', ' to me.', ' in simple words.', ' like I am five.', ' in detail.'))}",
        lambda: f"What is {thing}?",
        lambda: f"What do you think about {thing}?",
        lambda: f"Write {rng.choice(('an essay', 'an article', 'a speech', 'a song', 'a report', 'a blog post', 'a letter', 'an email'))} about {thing}.",
        lambda: f"How does {thing} work?",
        lambda: f"Why is {thing} {rng.choice(('important', 'so popular', 'dangerous', 'hard', 'interesting'))}?",
        lambda: f"Give me advice about {thing}.",
        lambda: f"What is the history of {thing}?",
        lambda: f"Summarise {rng.choice(('the book', 'the film', 'the article', 'the news'))} about {thing}.",
        lambda: f"Who won the {rng.choice(EVENTS)} in {year}?",
        lambda: f"Who {rng.choice(('is', 'was'))} the {rng.choice(ROLES)} of {city(rng)}{rng.choice(('', f' in {year}'))}?",
        lambda: f"Who {rng.choice(('invented', 'discovered', 'wrote', 'painted', 'built', 'founded'))} {thing}?",
        lambda: f"When did {thing} {rng.choice(('begin', 'end', 'start', 'happen'))}?",
        lambda: f"What happened in {year}?",
        lambda: f"Translate \"{passage(rng, 6)}\" into {rng.choice(LANGUAGES)}.",
        lambda: f"How do you say {word(rng)} in {rng.choice(LANGUAGES)}?",
        lambda: f"Write a {rng.choice(CODE)} {rng.choice(('program', 'function', 'script'))} to {rng.choice(DEEDS)}.",
        lambda: f"How do I {rng.choice(DEEDS)} in {rng.choice(CODE)}?",
        lambda: f"How do I {rng.choice(HOW_TO)}?",
        lambda: f"How can I {rng.choice(HOW_TO)}{rng.choice(('', ' quickly', ' at home', ' without help'))}?",
        lambda: f"Should I {rng.choice(HOW_TO)}?",
        lambda: f"Give me a recipe for {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} soup.",
        lambda: f"What is the population of {city(rng)}?",
        lambda: f"How far is it from {city(rng)} to {city(rng)}?",
        lambda: f"How old is {full_name(rng)}?",
        lambda: f"What is the weather in {city(rng)}{rng.choice((' today', ' tomorrow', '', ' now'))}?",
        lambda: f"What time is it{rng.choice(('', ' in ' + city(rng), ' now'))}?",
        lambda: f"What is the latest news{rng.choice(('', ' from ' + city(rng), ' about ' + thing))}?",
        lambda: f"What is the meaning of {rng.choice(('life', thing, word(rng)))}?",
        lambda: f"Tell me a joke{rng.choice(('', ' about ' + thing))}.",
        lambda: f"What is {number(rng)} {rng.choice(('times', '*', 'x', 'divided by', '/'))} {number(rng)}?",
        lambda: f"{number(rng)} {rng.choice(('*', 'x', '/', '**', '%'))} {number(rng)}",
        lambda: f"What is {big()} {rng.choice('+-')} {big()}?",
        lambda: f"What is the square root of {number(rng)}?",
        lambda: f"What is the capital of {invented(rng, 3).capitalize()}?",
        lambda: f"What is the opposite of {invented(rng)}?",
        lambda: f"Where can I buy {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}s{rng.choice(('', ' in ' + city(rng)))}?",
        lambda: f"Which is better, {rng.choice(TOPICS)} or {rng.choice(TOPICS)}?",
        lambda: f"Do you like {thing}?",
        lambda: f"{rng.choice(TOPICS).capitalize()}?",
        lambda: f"{scrambled(rng)} {scrambled(rng)}{rng.choice(('', ' ' + scrambled(rng)))}",
        lambda: f"I {rng.choice(('love', 'hate', 'like', 'want', 'miss', 'need', 'remember'))} {rng.choice(('you', 'it', thing, 'my ' + rng.choice(NOUNS)))}.",
        lambda: f"Tell me about {rng.choice((thing, rng.choice(NOUNS) + 's', rng.choice(COMMON) + 's'))}.",
        lambda: f"Why is {rng.choice(('the ' + rng.choice(NOUNS), 'a ' + rng.choice(NOUNS)))} {rng.choice(ADJECTIVES)}?",
        lambda: f"Give me {rng.choice(('three', 'some', 'five', 'two', 'a few'))} {rng.choice(('ideas', 'tips', 'reasons', 'examples', 'questions'))} {rng.choice(('for', 'about', 'on'))} {rng.choice((thing, rng.choice(NOUNS)))}.",
        lambda: f"{rng.choice(COMMON)}{rng.choice(('', '?', '!', ' ' + rng.choice(COMMON)))}",
        lambda: f"What is {rng.choice(('a ', 'the ', ''))}{rng.choice(NOUNS + COMMON)}?",
        lambda: f"Can you {rng.choice(COMMON[90:])} {rng.choice(('a ', 'the ', 'my '))}{rng.choice(NOUNS)}?",
        lambda: f"I feel {rng.choice(ADJECTIVES)} about {thing}.",
        lambda: f"My {rng.choice(NOUNS)} is {rng.choice(ADJECTIVES)}. What should I do?",
        lambda: f"Can you {rng.choice(('book', 'order', 'buy', 'find', 'recommend', 'send'))} {rng.choice(('me ', ''))}a {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}?",
        lambda: f"Draw {rng.choice(('a', 'me a'))} {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}.",
        lambda: f"Is it true that {rng.choice(NOUNS)}s are {rng.choice(ADJECTIVES)}?",
        lambda: f"Why do {rng.choice(NOUNS)}s {rng.choice(('fly', 'sleep', 'shine', 'grow', 'break', 'exist'))}?",
    )
    return rng.choice(shapes)()


def unserved(rng):
    """A request for a tool that is not there: no call may be made up."""
    text, _ = calling.request(rng, calling.known(rng) if rng.random() < 0.5 else calling.tool(rng))
    exchange = ask(text, rng.choice(LINES), {"type": "oneof", "value": LINES}, f"other {plain(text)}")
    tools = [made[0] for made in calling.toolbox(rng)]
    if rng.random() < 0.3 and not any(word in str(tools).lower() for word in re.findall(r"\w{4,}", text.lower())):
        exchange.tools = tools
    return exchange


def sample(rng):
    if rng.random() < 0.2:
        return unserved(rng)
    text = question(rng)
    return ask(spoken(rng, text), rng.choice(LINES), {"type": "oneof", "value": LINES}, f"other {plain(text)}")
