"""Tool calls in the Hermes style, and answers from a tool's result."""

import json

from . import Exchange
from .words import (CATEGORIES, DAYS, MONTHS, NOUNS, city, full_name, invented, joined, name, number, passage, word)

VERBS = """get find search book create send set delete update check order buy play start stop open close add remove list show convert plan cancel track save load print count measure
rent sell reserve schedule translate lookup read write move turn call""".split()
ASKING = {"get", "find", "search", "check", "show", "lookup", "read"}
OBJECTS = """weather table flight hotel email message alarm timer reminder note event meeting ticket song movie recipe restaurant taxi parcel order invoice contact file photo light lamp door heating
price stock news route map appointment room car bike book game task report account user score temperature""".split()

# kind: (parameter names, json type, value, ways to say it in a request)
PARAMETERS = [
    (("city", "location", "town", "place"), "string", city, ["in {v}", "at {v}", "with {p} {v}"]),
    (("origin", "from_city", "start"), "string", city, ["from {v}", "starting in {v}"]),
    (("destination", "to_city", "target"), "string", city, ["to {v}", "going to {v}"]),
    (("day", "weekday"), "string", lambda r: r.choice(DAYS), ["on {v}", "for {v}"]),
    (("month",), "string", lambda r: r.choice(MONTHS), ["in {v}", "for the month of {v}"]),
    (("date",), "string", lambda r: f"{r.randint(2020, 2031)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}", ["on {v}", "for {v}", "with the date {v}"]),
    (("time", "hour", "at"), "string", lambda r: f"{r.randint(0, 23)}:{r.randint(0, 59):02d}", ["at {v}", "for {v}"]),
    (("name", "person", "customer", "recipient", "contact"), "string", lambda r: name(r) if r.random() < 0.6 else full_name(r), ["for {v}", "for the person {v}", "named {v}", "with {p} {v}"]),
    (("people", "guests", "persons", "seats"), "integer", lambda r: r.randint(1, 20), ["for {v} people", "for {v} guests", "for {v} persons"]),
    (("minutes", "duration"), "integer", lambda r: r.randint(1, 300), ["for {v} minutes", "with {v} minutes", "lasting {v} minutes"]),
    (("amount", "quantity", "count", "limit", "number"), "integer", lambda r: number(r), ["with {p} {v}", "with a {p} of {v}", "{p} {v}"]),
    (("price", "max_price", "budget"), "number", lambda r: number(r) if r.random() < 0.5 else round(r.randint(100, 99999) / 100, 2), ["for {v} euros", "with a price of {v}", "for at most {v} dollars"]),
    (("item", "product", "title", "topic", "query", "keyword"), "string", lambda r: word(r) if r.random() < 0.6 else f"{word(r)} {r.choice(NOUNS)}", ["for '{v}'", "with {p} '{v}'", 'called "{v}"', "about {v}"]),
    (("text", "message", "body", "content"), "string", lambda r: passage(r, 8).replace('"', ""), ['saying "{v}"', 'with the text "{v}"', 'with {p} "{v}"']),
    (("colour", "color"), "string", lambda r: r.choice(CATEGORIES["colours"]), ["in {v}", "in the colour {v}", "with {p} {v}"]),
    (("unit", "units"), "string", lambda r: r.choice(("celsius", "fahrenheit", "kelvin")), ["in {v}", "in units of {v}"]),
    (("id", "order_id", "user_id", "code"), "integer", lambda r: r.randint(100, 99999), ["with {p} {v}", "with the id {v}"]),
    (("urgent", "enabled", "vegetarian", "quiet"), "boolean", lambda r: r.random() < 0.5, ["with {p} {v}", "({p}: {v})", "and set {p} to {v}"]),
    (("email", "to", "address"), "string", lambda r: f"{word(r)}@{word(r)}.com", ["to {v}", "to the address {v}"]),
]

clock = lambda r: f"{r.randint(0, 23)}:{r.randint(0, 59):02d}"
unit = lambda r: r.choice(("celsius", "fahrenheit"))
stock = lambda r: "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(r.randint(2, 4)))
CITY = ("string", "The city and state, e.g. San Francisco, CA", city)
# thing: (names, descriptions, requests, parameters); a parameter in every request is required
KNOWN = {
    "weather": (("get_weather", "get_current_weather", "getWeather", "weather"), ("Get the current weather in a given location", "Get the weather for a city", "Get current weather", "Current weather at a place"),
                ("What is the weather in {location}?", "What's the weather like in {location}?", "How is the weather in {location}?", "What is the weather in {location} today?", "What is the temperature in {location} in {unit}?",
                 "Tell me the weather in {location}.", "Is it raining in {location}?", "weather {location}", "Weather in {location} in {unit}, please.", "How warm is it in {location}?", "Do I need a coat in {location}?"),
                {"location": CITY, "unit": ("string", "Temperature unit", unit)}),
    "forecast": (("get_forecast", "forecast"), ("Weather forecast for a city", "Get the forecast for the next days"),
                 ("What will the weather be in {city} for the next {days} days?", "Give me a {days} day forecast for {city}.", "Forecast for {city}, {days} days."),
                 {"city": ("string", "City name", city), "days": ("integer", "Number of days", lambda r: r.randint(2, 14))}),
    "city time": (("get_time", "get_current_time", "world_clock"), ("Get the current time in a city", "Current time in a timezone"),
                  ("What time is it in {city}?", "What's the time in {city}?", "Tell me the time in {city}.", "time in {city}", "How late is it in {city}?"), {"city": ("string", "The city", city)}),
    "sum": (("add", "add_numbers", "calculator_add"), ("Add two numbers", "Returns the sum of a and b"), ("Use the tool to add {a} and {b}.", "Add {a} and {b} with the tool.", "Call the tool to compute {a} plus {b}."),
            {"a": ("integer", "First number", number), "b": ("integer", "Second number", number)}),
    "mail": (("send_email", "sendEmail", "send_mail"), ("Send an email to a recipient", "Sends an email"),
             ('Send an email to {to} with the subject "{subject}" and the text "{body}".', 'Email {to}: subject "{subject}", body "{body}".', 'Write a mail to {to} about "{subject}" saying "{body}".'),
             {"to": ("string", "Email address of the recipient", lambda r: f"{word(r)}@{word(r)}.com"), "subject": ("string", "Subject line", lambda r: f"{word(r)} {word(r)}"), "body": ("string", "The text", lambda r: passage(r, 8).replace('"', ""))}),
    "alarm clock": (("set_alarm", "create_alarm"), ("Set an alarm at a given time",), ("Set an alarm for {time}.", "Wake me up at {time}.", "Please set my alarm to {time}.", "Alarm at {time}"), {"time": ("string", "Time as HH:MM", clock)}),
    "stock price": (("get_stock_price", "stock_price"), ("Get the current stock price for a symbol",), ("What is the price of {symbol}?", "What is the stock price of {symbol}?", "How much is {symbol} stock?", "Price of {symbol}, please."),
                    {"symbol": ("string", "The ticker symbol", stock)}),
    "web": (("search_web", "web_search", "search"), ("Search the web", "Search the internet for a query"), ("Search the web for {query}.", "Look up {query} on the web.", "Find information about {query}.", "Google {query}", "Search for {query}."),
            {"query": ("string", "The search query", lambda r: " ".join(word(r) for _ in range(r.randint(1, 4))))}),
    "currency": (("convert_currency", "exchange"), ("Convert an amount from one currency to another",), ("Convert {amount} {source} to {target}.", "How much is {amount} {source} in {target}?", "Change {amount} {source} into {target}."),
                 {"amount": ("number", "Amount of money", number), "source": ("string", "Currency to convert from", lambda r: r.choice("USD EUR GBP JPY".split())), "target": ("string", "Currency to convert to", lambda r: r.choice("CHF SEK NOK CAD".split()))}),
    "tune": (("play_music", "play_song"), ("Play a song by an artist",), ('Play "{title}" by {artist}.', "Play the song {title} by {artist}.", "I want to hear {title} by {artist}."),
             {"title": ("string", "Title of the song", lambda r: f"{word(r)} {word(r)}"), "artist": ("string", "Name of the artist", full_name)}),
    "switch": (("turn_on_light", "light_on"), ("Turn on the light in a room",), ("Turn on the light in the {room}.", "Light in the {room}, please.", "It is dark in the {room}.", "Switch on the {room} light."),
               {"room": ("string", "The room", lambda r: r.choice(CATEGORIES["rooms"]))}),
}
SYNONYMS = {
    "location": ("location", "city", "place", "town", "where", "city_name"), "city": ("city", "location", "place", "town", "timezone"), "unit": ("unit", "units", "scale"), "days": ("days", "count", "n"),
    "a": ("a", "x", "first"), "b": ("b", "y", "second"), "to": ("to", "recipient", "address", "email"), "subject": ("subject", "title"), "body": ("body", "text", "message", "content"),
    "time": ("time", "at", "when"), "symbol": ("symbol", "ticker", "stock"), "query": ("query", "q", "search", "keywords", "text"), "amount": ("amount", "value", "sum"),
    "source": ("source", "from", "from_currency"), "target": ("target", "to", "to_currency"), "title": ("title", "song", "name"), "artist": ("artist", "singer", "band"), "room": ("room", "place", "location"),
}

REQUEST = ["{d}.", "Please {d}.", "Can you {d}?", "I want to {d}.", "I need you to {d}.", "Could you {d}, please?", "{d}, please.", "I would like to {d}.", "Use a tool to {d}.", "Help me {d}."]


def spelled(rng, *words):
    """A name in one of the usual programmers' spellings."""
    style = rng.random()
    if style < 0.75:
        return "_".join(words)
    return words[0] + "".join(w.capitalize() for w in words[1:])


def known(rng):
    """One of the tools that every demonstration has."""
    thing = rng.choice(list(KNOWN))
    names, descriptions, ways, parameters = KNOWN[thing]
    named = rng.choice(names)
    # Everybody names parameters differently, so the name must be read off the schema.
    called = {p: rng.choice(SYNONYMS.get(p, (p,))) if rng.random() < 0.85 else invented(rng) for p in parameters}
    properties = {}
    for parameter, (kind, description, make) in parameters.items():
        parameter = called[parameter]
        properties[parameter] = {"type": kind} | ({"description": description} if rng.random() < 0.6 else {})
        if make is unit and rng.random() < 0.8:
            properties[parameter]["enum"] = ["celsius", "fahrenheit"]
    required = [called[p] for p in parameters if all("{" + p + "}" in way for way in ways)]
    body = {"name": named, "description": rng.choice(descriptions), "parameters": {"type": "object", "properties": properties, "required": required}}
    return {"type": "function", "function": body}, None, thing, {p: (called[p], make) for p, (_, _, make) in parameters.items()}


def tool(rng):
    """A tool schema, the deed it does to which thing, and its parameter kinds by name."""
    verb = rng.choice(VERBS)
    thing = rng.choice(OBJECTS) if rng.random() < 0.7 else invented(rng)
    parameters = {}
    for names, kind, make, ways in rng.sample(PARAMETERS, rng.choices((0, 1, 2, 3, 4), weights=(4, 30, 36, 20, 10))[0]):
        parameter = rng.choice(names)
        if rng.random() < 0.1:
            quote = '"' if kind == "string" and rng.random() < 0.4 else ""
            parameter, ways = invented(rng), [way.replace("{v}", f"{quote}{{v}}{quote}") for way in ("with {p} {v}", "with the {p} {v}", "and {p} {v}", "{p}: {v}")]
            make = make if kind != "string" or quote else word
        parameters[parameter] = (kind, make, ways)
    properties = {}
    for parameter, (kind, make, _) in parameters.items():
        schema = {"type": kind}
        if parameter in ("unit", "units") and rng.random() < 0.6:
            schema["enum"] = ["celsius", "fahrenheit", "kelvin"]
        if rng.random() < 0.4:
            schema["description"] = rng.choice((f"The {parameter}", f"The {parameter} of the {thing}", f"{parameter} to use", f"Which {parameter}"))
        properties[parameter] = schema
    body = {"name": spelled(rng, verb, thing)}
    if rng.random() < 0.9:
        body["description"] = rng.choice((f"{verb.capitalize()} the {thing}", f"{verb.capitalize()} a {thing}", f"{verb.capitalize()} {thing}", f"This tool can {verb} a {thing}."))
    body["parameters"] = {"type": "object", "properties": properties}
    if rng.random() < 0.85:
        body["parameters"]["required"] = list(properties) if rng.random() < 0.6 else [p for p in properties if rng.random() < 0.6]
    if rng.random() < 0.08:
        body["parameters"]["additionalProperties"] = False
    return {"type": "function", "function": body}, verb, thing, parameters


def shown(value):
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def filled(rng, schema, parameters):
    """Values for the parameters, and the words that state them; what is optional may go unsaid."""
    required = schema["function"]["parameters"].get("required", list(parameters))
    order = [p for p in parameters if p in required or rng.random() < 0.5]
    if rng.random() < 0.4:
        rng.shuffle(order)
    said, arguments = [], {}
    for parameter in order:
        _, make, ways = parameters[parameter]
        arguments[parameter] = make(rng)
        said.append(rng.choice(ways).format(v=shown(arguments[parameter]), p=parameter.replace("_", " ") if rng.random() < 0.5 else parameter))
    return {p: arguments[p] for p in parameters if p in arguments}, " ".join(said)


def toolbox(rng):
    """Between one and four tools with different names."""
    tools = {}
    for _ in range(rng.choices((1, 2, 3, 4), weights=(35, 35, 20, 10))[0]):
        made = known(rng) if rng.random() < 0.3 else tool(rng)
        tools[made[2]] = made  # by the thing, so that a request fits one tool alone
    return list(tools.values())


def call(name_, arguments):
    return {"type": "function", "function": {"name": name_, "arguments": arguments}}


def request(rng, chosen):
    """What a user says to have the chosen tool called, and the call."""
    schema, verb, thing, parameters = chosen
    if verb is None:
        values = {p: make(rng) for p, (_, make) in parameters.items()}
        way = rng.choice(KNOWN[thing][2])
        text = way.format(**{p: shown(v) for p, v in values.items()})
        return text, call(schema["function"]["name"], {parameters[p][0]: v for p, v in values.items() if "{" + p + "}" in way})
    arguments, said = filled(rng, schema, parameters)
    if verb in ASKING and rng.random() < 0.5:
        text = f"{rng.choice(('What is', 'What', 'Tell me', 'How is'))} the {thing} {said}".replace("What the", "What's the").strip() + "?"
    else:
        text = rng.choice(REQUEST).format(d=f"{verb} {rng.choice(('the ', 'a ', ''))}{thing} {said}".strip())
    return text[0].upper() + text[1:], call(schema["function"]["name"], arguments)


def outcome(rng):
    """A tool's result and the sentence that reports it."""
    kind = rng.random()
    if kind < 0.75:
        result = {}
        for _ in range(rng.randint(1, 4)):
            key = rng.choice(("temperature", "condition", "price", "status", "time", "name", "city", "count", "result", "id", "wind", "humidity", "room", "message", "total")) if rng.random() < 0.6 else rng.choice(NOUNS + [invented(rng)])
            result[key] = rng.choice((number, word, city, name, lambda r: r.choice(("sunny", "rainy", "cloudy", "ok", "done", "open", "closed")), lambda r: f"{r.randint(0, 23)}:{r.randint(0, 59):02d}"))(rng)
        answer = joined([f"the {k.replace('_', ' ')} is {v}" for k, v in result.items()])
        return json.dumps(result), answer[0].upper() + answer[1:] + "."
    if kind < 0.9:
        text = rng.choice((f"{word(rng)} {number(rng)}", f"{rng.choice(('ok', 'done', 'sunny', 'open'))}", str(number(rng)), name(rng), f"{city(rng)}, {number(rng)}"))
        return text, f"The result is {text}."
    reason = rng.choice(("not found", "no connection", "timeout", "not allowed", f"unknown {word(rng)}", "no seats left"))
    return json.dumps({"error": reason}), f"The tool reported an error: {reason}."


def by_hand(rng, tools):
    """The tools written into the system message itself, as people do without a template."""
    lines = json.dumps(tools) if rng.random() < 0.5 else "\n" + "\n".join(map(json.dumps, tools)) + "\n"
    lead = rng.choice(("You are a function calling AI model. ", "You are a helpful assistant with tools. ", ""))
    rule = rng.choice(("For each function call return a json object within <tool_call></tool_call> tags.", "Call a function with <tool_call>{...}</tool_call>.", ""))
    return f"{lead}You may call these functions:\n<tools>{lines}</tools>\n{rule}".strip()


def requests(rng, box, messages):
    """One request to the tools, now and then two at once; returns its key."""
    chosen = rng.choice(box)
    text, wanted = request(rng, chosen)
    calls = [wanted]
    if wanted["function"]["arguments"] and rng.random() < 0.1:
        other, second = request(rng, rng.choice([chosen] + box))
        if second != wanted:
            text = f"{text} {rng.choice(('Also', 'And then', 'After that,', 'Then'))} {other[0].lower()}{other[1:]}"
            calls.append(second)
    messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "", "tool_calls": calls}]
    return [f"tool {json.dumps(calls)}"]


def results(rng, messages):
    """The results of the last calls and the answer that reports them; returns its key."""
    answers = []
    for _ in messages[-1]["tool_calls"]:
        result, answer = outcome(rng)
        messages.append({"role": "tool", "content": result})
        answers.append(answer)
    messages.append({"role": "assistant", "content": " ".join(answers)})
    return [f"result {messages[-1]['content']}"]


def dialogue(rng, ends_with_call):
    """Rounds of request, call, result and answer; the last one may stop at the call."""
    box = toolbox(rng)
    schemas = [made[0] for made in box]
    messages, keys = [], []
    for _ in range(rng.choices((0, 1, 2), weights=(80, 15, 5))[0]):
        keys += requests(rng, box, messages)
        keys += results(rng, messages)
    keys += requests(rng, box, messages)
    check = {"type": "tool_call", "value": [c["function"] for c in messages[-1]["tool_calls"]]}
    if not ends_with_call:
        keys += results(rng, messages)
        check = {"type": "exact", "value": messages[-1]["content"]}
    if rng.random() < 0.2:
        return Exchange([{"role": "system", "content": by_hand(rng, schemas)}] + messages, check, keys)
    return Exchange(messages, check, keys, schemas)


def sample(rng):
    return dialogue(rng, ends_with_call=True)


def sample_result(rng):
    return dialogue(rng, ends_with_call=False)
