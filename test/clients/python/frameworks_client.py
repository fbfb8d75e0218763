"""Frameworks on top of the clients: pydantic-ai, instructor, openai-agents, smolagents, llama-index."""

import asyncio
import os

from cases import GREETING, MEETING, MODEL, URL, WEATHER, case, run
from pydantic import BaseModel

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
RESULT = '{"temperature": 7, "condition": "rainy"}'


class Person(BaseModel):
    name: str
    age: int
    city: str


def pydantic_ai_model(way):
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIChatModel if way == "chat" else OpenAIResponsesModel
    return kind(MODEL, provider=OpenAIProvider(base_url=f"{URL}/v1", api_key="none"))


def pydantic_ai(way):
    from pydantic_ai import Agent

    settings = {"temperature": 0, "max_tokens": 200}
    agent = Agent(pydantic_ai_model(way), model_settings=settings)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Get the weather for a city"""
        return RESULT

    assert "7" in agent.run_sync(WEATHER).output

    async def streamed():
        async with Agent(pydantic_ai_model(way), model_settings=settings).run_stream(GREETING) as answer:
            return await answer.get_output()

    assert "demo model" in asyncio.run(streamed())


@case("pydantic-ai by chat completions")
def pydantic_ai_chat():
    pydantic_ai("chat")


@case("pydantic-ai by Responses")
def pydantic_ai_responses():
    pydantic_ai("responses")


@case("pydantic-ai has typed output from the model's own schema")
def pydantic_ai_output():
    from pydantic_ai import Agent, NativeOutput

    agent = Agent(pydantic_ai_model("chat"), output_type=NativeOutput(Person), model_settings={"temperature": 0})
    assert agent.run_sync(MEETING).output.city == "Bergen"


@case("instructor in its modes: tools, JSON, JSON schema")
def instructor_modes():
    import instructor
    import openai

    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(openai.OpenAI(base_url=f"{URL}/v1", api_key="none"), mode=mode)
        person = client.chat.completions.create(
            model=MODEL, temperature=0, max_retries=0, response_model=Person, messages=[{"role": "user", "content": MEETING}]
        )
        assert person.age == 34 or mode == instructor.Mode.JSON, (mode, person)


def agents(way):
    import agents as sdk
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key="none")
    kind = sdk.OpenAIResponsesModel if way == "responses" else sdk.OpenAIChatCompletionsModel
    sdk.set_tracing_disabled(True)

    @sdk.function_tool
    def get_weather(city: str) -> str:
        """Get the weather for a city"""
        return RESULT

    agent = sdk.Agent(name="a", model=kind(MODEL, client), tools=[get_weather], model_settings=sdk.ModelSettings(temperature=0))
    assert "7" in sdk.Runner.run_sync(agent, WEATHER).final_output

    async def streamed():
        result = sdk.Runner.run_streamed(agent, WEATHER)
        async for _ in result.stream_events():
            pass
        return result.final_output

    assert "7" in asyncio.run(streamed())


@case("openai-agents by Responses")
def agents_responses():
    agents("responses")


@case("openai-agents by chat completions")
def agents_chat():
    agents("chat")


@case("smolagents by OpenAI's client and by litellm")
def smol():
    from smolagents import LiteLLMModel, OpenAIServerModel, tool

    @tool
    def get_weather(city: str) -> str:
        """Get the weather for a city

        Args:
            city: a city
        """
        return RESULT

    def asked(text):
        return [{"role": "user", "content": [{"type": "text", "text": text}]}]

    for model in (
        OpenAIServerModel(MODEL, api_base=f"{URL}/v1", api_key="none", temperature=0),
        LiteLLMModel(f"ollama_chat/{MODEL}", api_base=URL, temperature=0),
    ):
        assert model.generate(asked(WEATHER), tools_to_call_from=[get_weather]).tool_calls[0].function.name == "get_weather"
        assert "".join(delta.content or "" for delta in model.generate_stream(asked(GREETING)))


@case("llama-index by OpenAI's protocol and Ollama's")
def llama_index():
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.ollama import Ollama
    from llama_index.llms.openai_like import OpenAILike

    def get_weather(city: str) -> str:
        """Get the weather for a city"""
        return RESULT

    tool = FunctionTool.from_defaults(get_weather)
    for model in (
        OpenAILike(MODEL, api_base=f"{URL}/v1", api_key="none", is_chat_model=True, is_function_calling_model=True, temperature=0),
        Ollama(MODEL, base_url=URL, temperature=0, request_timeout=60),
    ):
        asked = [ChatMessage(role="user", content=GREETING)]
        whole = model.chat(asked).message.content
        assert "".join(part.delta or "" for part in model.stream_chat(asked)) == whole
        called = model.chat_with_tools([tool], user_msg=WEATHER)
        assert model.get_tool_calls_from_response(called)[0].tool_kwargs == {"city": "Oslo"}


run()
