"""Anthropic's Python package."""

import anthropic
from cases import GREETING, MODEL, URL, WEATHER, case, run

client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
TOOL = {
    "name": "get_weather",
    "description": "Get the weather for a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def params(content, **more):
    return {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": content}], "extra_body": {"temperature": 0}, **more}


@case("a message is the same whole and streamed")
def message():
    whole = client.messages.create(**params(GREETING))
    with client.messages.stream(**params(GREETING)) as stream:
        text = "".join(stream.text_stream)
        assert stream.get_final_message().usage.output_tokens == whole.usage.output_tokens
    assert text == whole.content[0].text


@case("a tool is called, and its result answered")
def tool():
    asked = params(WEATHER, tools=[{**TOOL, "input_examples": [{"city": "Rome"}]}])
    call = client.messages.create(**asked).content[-1]
    assert call.input == {"city": "Oslo"}, call
    result = {"type": "tool_result", "tool_use_id": call.id, "content": '{"temperature": 7, "condition": "rainy"}'}
    asked["messages"] += [{"role": "assistant", "content": [call.model_dump()]}, {"role": "user", "content": [result]}]
    assert "7" in client.messages.create(**asked).content[0].text


@case("the runner of tools goes on until there is an answer")
def runner():
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the weather for a city

        Args:
            city: a city
        """
        return '{"temperature": 7, "condition": "rainy"}'

    asked = params(WEATHER)
    last = client.beta.messages.tool_runner(tools=[get_weather], **asked).until_done()
    assert "7" in last.content[0].text


@case("tokens are counted")
def count():
    counted = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": GREETING}])
    usage = client.messages.create(**params(GREETING)).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


@case("search results and documents are read")
def sources():
    result = {"type": "search_result", "source": "a", "title": "b", "content": [{"type": "text", "text": "Oslo."}]}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hello"}}
    asked = params([result, document, {"type": "text", "text": GREETING}])
    assert client.messages.create(**asked).stop_reason == "end_turn"


@case("a tool that was searched for is offered")
def reference():
    late = {**TOOL, "defer_loading": True}
    search = {"name": "search", "description": "Finds tools", "input_schema": {"type": "object", "properties": {}}}
    asked = params(WEATHER, tools=[search, late])
    asked["messages"] += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "tool_reference", "tool_name": "get_weather"}]}]},
    ]
    forced = {**asked, "tool_choice": {"type": "tool", "name": "get_weather"}}
    assert client.messages.create(**forced).content[-1].name == "get_weather"


@case("old results of tools are cleared, and the answer says so")
def clear():
    asked = params("Go.", tools=[TOOL])
    for n in range(4):
        use = {"type": "tool_use", "id": f"toolu_{n}", "name": "get_weather", "input": {"city": "Oslo"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "word " * 60}
        asked["messages"] += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 2}, "keep": {"type": "tool_uses", "value": 1}}
    answer = client.beta.messages.create(betas=["context-management-2025-06-27"], context_management={"edits": [edit]}, **asked)
    assert answer.context_management.applied_edits[0].cleared_tool_uses == 3


@case("a batch of messages is run to its end, listed and deleted")
def batches():
    import time

    request = {"custom_id": "a", "params": {"model": MODEL, "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}}
    batch = client.messages.batches.create(requests=[request])
    while batch.processing_status != "ended":
        time.sleep(0.1)
        batch = client.messages.batches.retrieve(batch.id)
    assert [one.result.type for one in client.messages.batches.results(batch.id)] == ["succeeded"]
    assert batch.id in [one.id for one in client.messages.batches.list()]
    assert client.messages.batches.delete(batch.id).type == "message_batch_deleted"


@case("models are listed")
def models():
    assert client.models.list().data[0].lifecycle == "active"


@case("errors have their types")
def errors():
    try:
        client.messages.create(**{**params("a"), "model": "nope"})
    except anthropic.NotFoundError as error:
        assert "'default'" in str(error)
    else:
        raise AssertionError()


run()
