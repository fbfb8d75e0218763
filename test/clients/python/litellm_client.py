"""litellm: one package for the protocols of many."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from cases import GREETING, MODEL, URL, WEATHER, case, run

litellm.telemetry = False
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather for a city", "parameters": PARAMETERS}}
WAYS = {
    "openai": {"model": f"openai/{MODEL}", "api_base": f"{URL}/v1", "api_key": "none"},
    "anthropic": {"model": f"anthropic/{MODEL}", "api_base": URL, "api_key": "none"},
    "ollama": {"model": f"ollama/{MODEL}", "api_base": URL},
    "ollama_chat": {"model": f"ollama_chat/{MODEL}", "api_base": URL},
    "hosted_vllm": {"model": f"hosted_vllm/{MODEL}", "api_base": f"{URL}/v1"},
}


def ask(way, content, **more):
    return litellm.completion(messages=[{"role": "user", "content": content}], temperature=0, max_tokens=100, **WAYS[way], **more)


def same(way):
    whole = ask(way, GREETING).choices[0].message.content
    assert whole
    text = "".join(chunk.choices[0].delta.content or "" for chunk in ask(way, GREETING, stream=True))
    assert text.strip() == whole.strip(), (text, whole)


def calls(way):
    call = ask(way, WEATHER, tools=[TOOL]).choices[0].message.tool_calls[0].function
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Oslo"}


@case("answers by openai/, streamed too, with tools")
def by_openai():
    same("openai")
    calls("openai")


@case("answers by anthropic/, streamed too, with tools")
def by_anthropic():
    same("anthropic")
    calls("anthropic")


@case("answers by ollama/, streamed too")
def by_ollama():
    same("ollama")


@case("answers by ollama_chat/, streamed too, with tools")
def by_ollama_chat():
    same("ollama_chat")
    calls("ollama_chat")


@case("answers by hosted_vllm/, streamed too, with tools")
def by_hosted_vllm():
    same("hosted_vllm")
    calls("hosted_vllm")


@case("embeds by openai/ and ollama/")
def embeds():
    for way in ("openai", "ollama"):
        assert len(litellm.embedding(input=["a", "b"], **WAYS[way]).data) == 2


run()
