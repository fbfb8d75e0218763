"""LangChain, by the protocols of OpenAI, Anthropic and Ollama."""

from cases import GREETING, MEETING, MODEL, URL, WEATHER, case, run
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel


class Person(BaseModel):
    """A person"""

    name: str
    age: int
    city: str


@tool
def get_weather(city: str) -> str:
    """Get the weather for a city"""
    return '{"temperature": 7, "condition": "rainy"}'


OPENAI = {"model": MODEL, "base_url": f"{URL}/v1", "api_key": "none", "temperature": 0, "max_retries": 0}
CHATS = {
    "openai": lambda: ChatOpenAI(**OPENAI),
    "responses": lambda: ChatOpenAI(use_responses_api=True, **OPENAI),
    "anthropic": lambda: ChatAnthropic(model=MODEL, base_url=URL, api_key="none", max_tokens=200, max_retries=0, temperature=0),
    "ollama": lambda: ChatOllama(model=MODEL, base_url=URL, temperature=0),
}


def same(way):
    chat = CHATS[way]()
    whole = chat.invoke(GREETING).text
    assert "demo model" in whole
    assert "".join(chunk.text for chunk in chat.stream(GREETING)) == whole


def agent(way):
    answer = create_agent(CHATS[way](), [get_weather]).invoke({"messages": [{"role": "user", "content": WEATHER}]})
    assert "7" in answer["messages"][-1].text


def structured(way, **more):
    assert CHATS[way]().with_structured_output(Person, **more).invoke(MEETING).city == "Bergen"


@case("by openai: text, an agent, structured output, vectors")
def by_openai():
    same("openai")
    agent("openai")
    structured("openai")
    assert len(OpenAIEmbeddings(model=MODEL, base_url=f"{URL}/v1", api_key="none", check_embedding_ctx_length=False).embed_query("a")) > 1


@case("by responses: text, an agent, structured output")
def by_responses():
    same("responses")
    agent("responses")
    structured("responses")


@case("by anthropic: text, an agent, structured output")
def by_anthropic():
    same("anthropic")
    agent("anthropic")
    structured("anthropic", method="json_schema")


@case("by ollama: text, an agent, structured output, vectors")
def by_ollama():
    same("ollama")
    agent("ollama")
    structured("ollama")
    assert len(OllamaEmbeddings(model=MODEL, base_url=URL).embed_query("a")) > 1


run()
