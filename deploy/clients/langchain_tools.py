"""langchain-openai against a server: a tool loop to its end, a stream, structured output.

Usage: langchain_tools.py BASE_URL
"""

import sys

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

BASE_URL = sys.argv[1]


def check(condition, what):
    if not condition:
        sys.exit(f"langchain_tools: {what}")


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


class Sum(BaseModel):
    """A sum."""

    # Bounded: the demo model does not know when to end a number.
    a: int = Field(ge=0, le=99)
    b: int = Field(ge=0, le=99)


llm = ChatOpenAI(
    base_url=BASE_URL,
    api_key="none",
    model="qwen3.5-tiny-demo",
    temperature=0,
    max_tokens=300,
    extra_body={"chat_template_kwargs": {"enable_thinking": False}},
)
check(llm.invoke("What is 7 plus 5?").content == "7 plus 5 is 12.", "a plain answer")
pieces = [piece.content for piece in llm.stream("What is 7 plus 5?")]
check("".join(pieces) == "7 plus 5 is 12." and len(pieces) > 1, f"a stream: {pieces}")

# The model may answer with another call; the loop must end all the same, and every turn must be accepted.
messages = [HumanMessage("What is 7 plus 5?")]
forced = llm.bind_tools([add], tool_choice="any", parallel_tool_calls=False)
free = llm.bind_tools([add])
answer = forced.invoke(messages)
check(answer.tool_calls and answer.tool_calls[0]["name"] == "add", f"a call: {answer}")
for _ in range(4):
    messages.append(answer)
    for call in answer.tool_calls:
        messages.append(ToolMessage(str(add.invoke(call["args"])), tool_call_id=call["id"]))
    answer = free.invoke(messages)
    if not answer.tool_calls:
        break
check(isinstance(answer, AIMessage), "the loop came to its end")

for method in ("json_schema", "function_calling"):
    shaped = llm.with_structured_output(Sum, method=method).invoke("What is 7 plus 5?")
    check(isinstance(shaped, Sum), f"structured output by {method}: {shaped}")
print("langchain_tools: ok")
