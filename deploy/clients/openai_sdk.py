"""The openai package against a server: every way of asking that it has, and every way of failing.

Usage: openai_sdk.py BASE_URL   (for example http://127.0.0.1:8000/v1)
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import openai
from pydantic import BaseModel, Field

BASE_URL = sys.argv[1]
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


def check(condition, what):
    if not condition:
        sys.exit(f"openai_sdk: {what}")


client = openai.OpenAI(base_url=BASE_URL, api_key="none", timeout=120)
model = client.models.list().data[0].id
check(client.models.retrieve(model).id == model, "a listed model is found")


def user(text):
    return [{"role": "user", "content": text}]


# Chat, whole and streamed.
answer = client.chat.completions.create(
    model=model, messages=user("What is 7 plus 5?"), temperature=0, extra_body=NO_THINKING
)
check(answer.choices[0].message.content == "7 plus 5 is 12.", f"a plain answer: {answer}")
check(answer.choices[0].finish_reason == "stop", "it ended by itself")
check(answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, "usage adds up")

text, usage = "", None
for chunk in client.chat.completions.create(
    model=model,
    messages=user("What is 7 plus 5?"),
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},
    extra_body=NO_THINKING,
):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
check(text == "7 plus 5 is 12.", f"a streamed answer: {text!r}")
check(usage.completion_tokens == answer.usage.completion_tokens, "the same usage")

thought = client.chat.completions.create(
    model=model, messages=user("What is the capital of France?"), temperature=0, reasoning_effort="high"
)
check("Paris" in thought.choices[0].message.content, "an answer after thinking")
check(thought.choices[0].message.reasoning_content, "reasoning is told")

several = client.chat.completions.create(
    model=model,
    messages=user("Tell me about the sea"),
    n=3,
    seed=1,
    max_tokens=12,
    logprobs=True,
    top_logprobs=2,
    stop=["\n"],
    extra_body=NO_THINKING,
)
check([choice.index for choice in several.choices] == [0, 1, 2], "three answers")
check(all(len(entry.top_logprobs) == 2 for entry in several.choices[0].logprobs.content), "two alternatives a token")

# The stream helper puts chunks together by itself.
with client.chat.completions.stream(
    model=model, messages=user("What is the opposite of hot?"), temperature=0, extra_body=NO_THINKING
) as stream:
    for _ in stream:
        pass
    check(stream.get_final_completion().choices[0].message.content == "The opposite of hot is cold.", "the stream helper")

# Tools: a demanded call, its result, the answer.
tools = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        },
    }
]
messages = user("What is 7 plus 5?")
called = client.chat.completions.create(
    model=model,
    messages=messages,
    tools=tools,
    tool_choice="required",
    parallel_tool_calls=False,
    temperature=0,
    extra_body=NO_THINKING,
)
call = called.choices[0].message.tool_calls[0]
arguments = json.loads(call.function.arguments)
check(called.choices[0].finish_reason == "tool_calls", "it ended with a call")
check(all(isinstance(arguments[name], int) for name in ("a", "b")), f"typed arguments: {arguments}")
messages.append(called.choices[0].message)
messages.append({"role": "tool", "tool_call_id": call.id, "content": str(sum(arguments.values()))})
final = client.chat.completions.create(
    model=model, messages=messages, tools=tools, temperature=0, max_tokens=64, extra_body=NO_THINKING
)
check(final.choices[0].message.content or final.choices[0].message.tool_calls, "an answer after the result")

parts = {}
for chunk in client.chat.completions.create(
    model=model,
    messages=user("What is 7 plus 5?"),
    tools=tools,
    tool_choice={"type": "function", "function": {"name": "add"}},
    parallel_tool_calls=False,
    temperature=0,
    stream=True,
    extra_body=NO_THINKING,
):
    for delta in chunk.choices[0].delta.tool_calls or []:
        part = parts.setdefault(delta.index, {"name": "", "arguments": ""})
        part["name"] += delta.function.name or ""
        part["arguments"] += delta.function.arguments or ""
check(parts[0]["name"] == "add" and json.loads(parts[0]["arguments"]) == arguments, f"streamed calls: {parts}")


# Structured output.
class Sum(BaseModel):
    # Bounded: the demo model does not know when to end a number.
    a: int = Field(ge=0, le=99)
    b: int = Field(ge=0, le=99)
    ok: bool


parsed = client.chat.completions.parse(
    model=model, messages=user("What is 7 plus 5?"), response_format=Sum, max_tokens=200, extra_body=NO_THINKING
)
check(isinstance(parsed.choices[0].message.parsed, Sum), "a parsed answer")
loose = client.chat.completions.create(
    model=model,
    messages=user("Say something in JSON"),
    response_format={"type": "json_object"},
    temperature=0,
    max_tokens=300,
    extra_body=NO_THINKING,
)
if loose.choices[0].finish_reason == "stop":
    check(isinstance(json.loads(loose.choices[0].message.content), dict), "any object")

# Completions.
legacy = client.completions.create(
    model=model, prompt=["The sea", "The ship"], max_tokens=4, echo=True, logprobs=2, n=2, temperature=0
)
check([choice.index for choice in legacy.choices] == [0, 1, 2, 3], "two prompts, two answers each")
check(legacy.choices[0].text.startswith("The sea"), "the prompt comes first")
check(legacy.choices[0].logprobs.token_logprobs[0] is None, "nothing predicts the first token")

# Responses.
response = client.responses.create(
    model=model, input="What is 7 plus 5?", temperature=0, reasoning={"effort": "none"}, store=False
)
check(response.output_text == "7 plus 5 is 12.", f"a response: {response}")
check(response.status == "completed", "it is complete")
kinds, streamed = [], ""
for event in client.responses.create(
    model=model, input="What is the capital of France?", temperature=0, stream=True, store=False
):
    kinds.append(event.type)
    if event.type == "response.output_text.delta":
        streamed += event.delta
check(kinds[0] == "response.created" and kinds[-1] == "response.completed", f"events: {kinds}")
check("Paris" in streamed, f"a streamed response: {streamed!r}")
with client.responses.stream(model=model, input="What is the opposite of hot?", temperature=0, store=False) as stream:
    for _ in stream:
        pass
    check("cold" in stream.get_final_response().output_text, "the stream helper of responses")
flat_tools = [{"type": "function", **tools[0]["function"], "strict": True}]
called = client.responses.create(
    model=model,
    input="What is 7 plus 5?",
    tools=flat_tools,
    tool_choice="required",
    parallel_tool_calls=False,
    reasoning={"effort": "none"},
    temperature=0,
    store=False,
)
function_call = next(item for item in called.output if item.type == "function_call")
follow_up = user("What is 7 plus 5?") + [
    {
        "type": "function_call",
        "call_id": function_call.call_id,
        "name": function_call.name,
        "arguments": function_call.arguments,
    },
    {"type": "function_call_output", "call_id": function_call.call_id, "output": "12"},
]
client.responses.create(model=model, input=follow_up, tools=flat_tools, max_output_tokens=64, store=False)
shaped = client.responses.parse(
    model=model, input="What is 7 plus 5?", text_format=Sum, reasoning={"effort": "none"}, store=False
)
check(isinstance(shaped.output_parsed, Sum), "a parsed response")


# Errors, each of the class that the client has for it.
def raises(kind, ask, code=None, param=None):
    try:
        ask()
    except kind as error:
        check(code is None or error.code == code, f"code of {error}")
        check(param is None or error.param == param, f"param of {error}")
    else:
        sys.exit(f"openai_sdk: no {kind.__name__}")


chat = client.chat.completions.create
raises(openai.BadRequestError, lambda: chat(model=model, messages=[]), param="messages")
raises(openai.BadRequestError, lambda: chat(model=model, messages=user("a"), temperature=3), param="temperature")
raises(
    openai.BadRequestError,
    lambda: chat(model=model, messages=user("word " * 20000)),
    code="context_length_exceeded",
)
raises(openai.NotFoundError, lambda: chat(model="nobody", messages=user("a")), code="model_not_found")
raises(openai.BadRequestError, lambda: client.responses.create(model=model, input="a", store=True), param="store")


# Retries: a server that is full says when to come back, and the client does.
class FullOnce(BaseHTTPRequestHandler):
    seen = []

    def do_GET(self):
        self.seen.append(time.monotonic())
        if len(self.seen) == 1:
            self.send_response(429)
            self.send_header("retry-after", "1")
            body = b'{"error": {"message": "full", "type": "rate_limit_error", "param": null, "code": "queue_full"}}'
        else:
            self.send_response(200)
            body = b'{"object": "list", "data": []}'
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


stand_in = HTTPServer(("127.0.0.1", 0), FullOnce)
threading.Thread(target=stand_in.serve_forever, daemon=True).start()
patient = openai.OpenAI(base_url=f"http://127.0.0.1:{stand_in.server_port}/v1", api_key="none")
patient.models.list()
check(len(FullOnce.seen) == 2 and FullOnce.seen[1] - FullOnce.seen[0] >= 1, "our 429 makes the client come back later")

# A stream that is left in the middle does not hold up the next request.
left = chat(model=model, messages=user("Tell me about the sea"), stream=True, max_tokens=2000)
next(iter(left))
left.close()
check(
    chat(model=model, messages=user("What is the opposite of hot?"), temperature=0, extra_body=NO_THINKING).choices[0].message.content
    == "The opposite of hot is cold.",
    "the next request is answered",
)
print("openai_sdk: ok")
