"""OpenAI's Python package."""

import json

import openai
from cases import GREETING, MEETING, MODEL, URL, WEATHER, case, run
from pydantic import BaseModel

client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather for a city", "parameters": PARAMETERS}}


class Person(BaseModel):
    name: str
    age: int
    city: str


def ask(content, **more):
    return client.chat.completions.create(model=MODEL, temperature=0, messages=[{"role": "user", "content": content}], **more)


@case("a chat is the same whole and streamed, and its usage comes last")
def chat():
    whole = ask(GREETING)
    chunks = list(ask(GREETING, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


@case("a tool is called, streamed too")
def tools():
    call = ask(WEATHER, tools=[TOOL]).choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    with client.chat.completions.stream(model=MODEL, temperature=0, messages=[{"role": "user", "content": WEATHER}], tools=[TOOL]) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.arguments == call.function.arguments


@case("functions are called in their older form")
def functions():
    message = ask(WEATHER, functions=[TOOL["function"]]).choices[0].message
    assert json.loads(message.function_call.arguments) == {"city": "Oslo"}


@case("an answer is parsed to a pydantic model")
def parsed():
    result = client.chat.completions.parse(model=MODEL, temperature=0, messages=[{"role": "user", "content": MEETING}], response_format=Person)
    assert result.choices[0].message.parsed == Person(name="Nora", age=34, city="Bergen")


@case("the best of several texts is returned")
def best():
    result = client.completions.create(model=MODEL, prompt="Once", max_tokens=4, best_of=3, n=1)
    assert len(result.choices) == 1 and result.usage.completion_tokens == 12


@case("a response is made, streamed, read, gone on with and deleted")
def responses():
    made = client.responses.create(model=MODEL, input=GREETING, temperature=0)
    with client.responses.stream(model=MODEL, input=GREETING, temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == made.output_text
    assert client.responses.retrieve(made.id).output_text == made.output_text
    client.responses.create(model=MODEL, input="And what is 3 + 4?", previous_response_id=made.id)
    assert [item.type for item in client.responses.input_items.list(made.id)] == ["message"]
    client.responses.delete(made.id)


@case("the input of a response is counted")
def input_tokens():
    count = client.responses.input_tokens.count(model=MODEL, input=GREETING)
    assert count.input_tokens == client.responses.create(model=MODEL, input=GREETING, max_output_tokens=1).usage.input_tokens


@case("a response calls a custom tool and leaves out those of the service")
def custom():
    response = client.responses.create(
        model=MODEL,
        input="Dial.",
        tools=[
            {"type": "custom", "name": "dial", "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]{3}"}},
            {"type": "web_search"},
        ],
        tool_choice={"type": "custom", "name": "dial"},
    )
    assert response.output[0].type == "custom_tool_call" and response.output[0].input.isdigit()


@case("a conversation that is too long is truncated")
def truncated():
    items = [{"role": "user", "content": "word " * 500} for _ in range(20)]
    response = client.responses.create(model=MODEL, input=items, truncation="auto", max_output_tokens=5)
    assert response.truncation == "auto"


@case("vectors are given as floats and as base64")
def vectors():
    one = client.embeddings.create(model=MODEL, input="a")
    other = client.embeddings.create(model=MODEL, input="a", encoding_format="float")
    assert all(abs(a - b) < 1e-6 for a, b in zip(one.data[0].embedding, other.data[0].embedding))


@case("a response in the background is asked for until it is done")
def background():
    import time

    made = client.responses.create(model=MODEL, input="a", max_output_tokens=3, background=True)
    assert made.status in ("queued", "in_progress"), made.status
    while made.status in ("queued", "in_progress"):
        time.sleep(0.1)
        made = client.responses.retrieve(made.id)
    assert made.usage.output_tokens == 3 and made.output_text, made


@case("a batch of a file is run to its end")
def batch():
    import io
    import time

    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}}
    file = client.files.create(file=("in.jsonl", io.BytesIO(json.dumps(line).encode())), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while made.status not in ("completed", "failed"):
        time.sleep(0.1)
        made = client.batches.retrieve(made.id)
    assert json.loads(client.files.content(made.output_file_id).text)["custom_id"] == "a"


@case("a file of text is read in a chat and in a response, and a PDF is refused")
def files():
    file = client.files.create(file=("a.md", b"# The fox"), purpose="user_data")
    chat = [{"role": "user", "content": [{"type": "file", "file": {"file_id": file.id}}]}]
    client.chat.completions.create(model=MODEL, messages=chat, max_tokens=2)
    given = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="}
    items = [{"role": "user", "content": [{"type": "input_file", "file_id": file.id}, given]}]
    client.responses.create(model=MODEL, input=items, max_output_tokens=2)
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}}
    try:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": [pdf]}])
    except openai.BadRequestError as error:
        assert "PDF" in str(error)
    else:
        raise AssertionError("a PDF was read")


@case("models are listed, and the default has a name of its own")
def models():
    assert client.models.list().data[0].id == client.models.retrieve("default").id


@case("what cannot be is an error that names the parameter")
def refused():
    for call, parameter in [
        (lambda: client.responses.create(model=MODEL, input="a", background=True, store=False), "store"),
        (lambda: client.responses.create(model=MODEL, input="a", conversation="conv_1"), "conversation"),
        (lambda: client.files.create(file=("a.txt", b"a"), purpose="fine-tune"), "purpose"),
    ]:
        try:
            call()
        except openai.BadRequestError as error:
            assert error.param == parameter, error
        else:
            raise AssertionError(parameter)
    try:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "a"}])
    except openai.NotFoundError as error:
        assert "'default'" in str(error)


run()
