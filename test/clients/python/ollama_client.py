"""Ollama's Python package."""

from cases import GREETING, MEETING, MODEL, URL, WEATHER, case, run
from ollama import Client
from pydantic import BaseModel

client = Client(host=URL)
COLD = {"temperature": 0}


class Person(BaseModel):
    name: str
    age: int
    city: str


def get_weather(city: str) -> str:
    """Get the weather for a city

    Args:
        city: a city
    """
    return '{"temperature": 7, "condition": "rainy"}'


@case("a chat is the same whole and streamed")
def chat():
    messages = [{"role": "user", "content": GREETING}]
    whole = client.chat(MODEL, messages, options=COLD)
    text = "".join(part.message.content for part in client.chat(MODEL, messages, options=COLD, stream=True))
    assert text == whole.message.content


@case("a tool is called, and its result answered")
def tool():
    messages = [{"role": "user", "content": WEATHER}]
    answer = client.chat(MODEL, messages, tools=[get_weather], options=COLD)
    call = answer.message.tool_calls[0].function
    assert call.arguments == {"city": "Oslo"}
    messages += [answer.message, {"role": "tool", "tool_name": call.name, "content": get_weather(**call.arguments)}]
    assert "7" in client.chat(MODEL, messages, tools=[get_weather], options=COLD).message.content


@case("a format is kept")
def formats():
    answer = client.chat(MODEL, [{"role": "user", "content": MEETING}], format=Person.model_json_schema(), options=COLD)
    assert Person.model_validate_json(answer.message.content).city == "Bergen"


@case("a text is generated")
def generate():
    assert client.generate(MODEL, GREETING, options=COLD).response


@case("a text goes on from the context of another")
def context():
    first = client.generate(MODEL, "My name is Nora.", options=COLD)
    assert "Nora" in client.generate(MODEL, "What is my name?", context=first.context, options=COLD).response


@case("a model is created of another, copied, shown and deleted")
def create():
    client.create("short", from_=MODEL, system="Be brief.", parameters={"num_predict": 3, "temperature": 0})
    assert client.chat("short", [{"role": "user", "content": GREETING}]).eval_count == 3
    client.copy("short", "shorter")
    assert "PARAMETER num_predict 3" in client.show("shorter").modelfile
    for name in ("short", "shorter"):
        client.delete(name)
    assert "short" not in [one.model for one in client.list().models]


@case("vectors, models, what runs and what a model is")
def others():
    assert len(client.embed(MODEL, ["a", "b"]).embeddings) == 2
    name = client.list().models[0].model
    assert client.show(name).modelinfo
    client.generate(MODEL, "Hi", options={"num_predict": 1})
    assert client.ps().models[0].model == name


run()
