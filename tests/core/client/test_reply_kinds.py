"""How replies of real servers are read: each kind in the form in which its server sends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.text.prompt import build_prompt
from midchart.core.text.reasoning import split_reasoning
from midchart.core.types import Selection
from tests.support.openai_server import OpenAIFake

PROMPT = build_prompt(
    "What dose?", Selection("p", "i", "bm25", (), 0, lines=()), Protocol(), 4096, len
)


@pytest.fixture
def server():
    with OpenAIFake() as fake:
        yield fake


def served(server, **options):
    return READERS.build(
        "served", Protocol(), url=f"{server.url}/v1", model="tiny", retries=0, **options
    )


@dataclass(frozen=True)
class Kind:
    """What a server sends instead of a usual document, and what is read of it."""

    reply: dict[str, Any]
    text: str
    ended: str
    reasoning: str = ""
    more: dict[str, Any] = field(default_factory=dict)


def choice(reason, **fields):
    return {"choices": [{"index": 0, "finish_reason": reason, "message": fields}]}


def message(content, reason="stop", **message):
    return choice(reason, role="assistant", content=content, **message)


CALL = {"id": "call_0", "type": "function", "function": {"name": "search", "arguments": "{}"}}
THOUGHTS = {"completion_tokens": 60, "prompt_tokens": 99, "total_tokens": 159}
KINDS = {
    "OpenAI: stop": Kind(message("20 mg", refusal=None, annotations=[]), "20 mg", "stop"),
    "vLLM: length": Kind(
        message("The dose of", "length", reasoning_content=None), "The dose of", "length"
    ),
    "Mistral: model_length": Kind(message("The dose", "model_length"), "The dose", "length"),
    "vLLM: content null": Kind(message(None), "", "empty"),
    "llama.cpp: content empty": Kind(message(""), "", "empty"),
    "SGLang: white space": Kind(message("\n \n"), "", "empty"),
    "Mistral: list of parts": Kind(
        message([{"type": "text", "text": "20 "}, {"type": "text", "text": "mg"}]), "20 mg", "stop"
    ),
    "Magistral: thinking part": Kind(
        message(
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "look"}]},
                {"type": "text", "text": "20 mg"},
            ]
        ),
        "20 mg",
        "stop",
        "look",
    ),
    "vLLM: tool_calls": Kind(message(None, "tool_calls", tool_calls=[CALL]), "", "tool"),
    "Ollama: tool call that stops": Kind(message("", "stop", tool_calls=[CALL]), "", "tool"),
    "Azure: content_filter": Kind(message("20", "content_filter"), "20", "filter"),
    "OpenAI: refusal": Kind(
        message(None, refusal="I can't help with that."), "I can't help with that.", "refusal"
    ),
    "vLLM: reasoning_content": Kind(
        message("20 mg", reasoning_content="The record says so."),
        "20 mg",
        "stop",
        "The record says so.",
    ),
    "Ollama: reasoning": Kind(
        message("20 mg", reasoning="So it says."), "20 mg", "stop", "So it says."
    ),
    "SGLang: reasoning only, out of tokens": Kind(
        message(None, "length", reasoning_content="Let me see"), "", "length", "Let me see"
    ),
    "llama.cpp: think block": Kind(
        message("<think>\nIt says so.\n</think>\n\n20 mg"), "20 mg", "stop", "It says so."
    ),
    "vLLM without a parser: closing tag alone": Kind(
        message("It says so.</think>20 mg"), "20 mg", "stop", "It says so."
    ),
    "think block out of tokens": Kind(message("<think>It sa", "length"), "", "length", "It sa"),
    "llama.cpp: usage missing": Kind(
        message("20 mg") | {"usage": None},
        "20 mg",
        "stop",
        more={"prompt_tokens": PROMPT.tokens, "output_tokens": 0},
    ),
    "OpenAI: another model's name": Kind(
        message("20 mg") | {"model": "tiny-2026-08-01"},
        "20 mg",
        "stop",
        more={"model": "tiny-2026-08-01"},
    ),
    "OpenAI: reasoning counted, not shown": Kind(
        message("20 mg")
        | {"usage": {**THOUGHTS, "completion_tokens_details": {"reasoning_tokens": 50}}},
        "20 mg",
        "stop",
        more={"reasoning_tokens": 50, "output_tokens": 60},
    ),
    "TGI: eos_token": Kind(message("20 mg", "eos_token"), "20 mg", "stop"),
    "no finish_reason": Kind(message("20 mg", None), "20 mg", "stop"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_is_read_as_its_server_means_it(server, kind):
    expected = KINDS[kind]
    server.replies.append(expected.reply)
    answer = served(server).read(PROMPT)
    assert (answer.status, answer.reason) == ("ok", "")
    assert (answer.text, answer.ended, answer.reasoning) == (
        expected.text, expected.ended, expected.reasoning,
    )  # fmt: skip
    assert (answer.reasoning_tokens > 0) == (bool(expected.reasoning) or "counted" in kind)
    for name, value in expected.more.items():
        assert getattr(answer, name) == value


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_an_answer_that_the_server_broke_off_is_a_failed_one(server, reason):
    server.replies.append(message("20", reason))
    answer = served(server).read(PROMPT)
    assert answer.status == "failed" and "for a reason that Midchart does not know" in answer.reason


def refusal(name, **more):
    """What OpenAI's API says of a parameter that a model does not take."""
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return {"message": message, "type": "invalid_request_error", "param": name, **more}


def sent(server):
    return server.asked("/v1/chat/completions")


def test_a_server_that_refuses_max_tokens_gets_max_completion_tokens(server):
    server.refuses["max_tokens"] = refusal("max_tokens")
    built = served(server, concurrency=1)
    answers = [answer for _, answer in built.read_many([PROMPT] * 3)]
    assert [answer.status for answer in answers] == ["ok"] * 3
    assert ["max_tokens" in body for body in sent(server)] == [True, False, False, False]
    assert [body.get("max_completion_tokens") for body in sent(server)] == [None, 128, 128, 128]
    assert {answer.how for answer in answers} == {"chat, max_completion_tokens"}


@pytest.mark.parametrize(
    "error",
    [
        refusal("temperature", code="unsupported_value"),
        {"message": "temperature: Extra inputs are not permitted", "type": "bad_request"},
        {"message": "Unexpected fields in the request: {'temperature'}", "code": 400},
    ],
)
def test_a_model_without_a_temperature_is_asked_without_it_from_then_on(server, error):
    server.refuses["temperature"] = error
    built = served(server, concurrency=1)
    answers = [answer for _, answer in built.read_many([PROMPT] * 2)]
    assert [body.get("temperature") for body in sent(server)] == [0, None, None]
    assert {answer.how for answer in answers} == {"chat, the model's own temperature"}


def test_reasoning_gets_its_effort_and_its_tokens(server):
    built = served(server, reasoning_effort="low", reasoning_tokens=400)
    assert built.window == 4096 - 400 - 128
    assert built.read(PROMPT).status == "ok"
    assert (sent(server)[0]["reasoning_effort"], sent(server)[0]["max_tokens"]) == ("low", 528)


@given(st.text(max_size=40), st.text(max_size=40))
def test_reasoning_and_answer_are_parted_wherever_the_tag_is_written(inside, after):
    for tag in ("<think>", "</think>", "[THINK]", "[/THINK]"):
        inside, after = inside.replace(tag, ""), after.replace(tag, "")
    parted = (inside.strip(), after.strip())
    assert split_reasoning(f"<think>{inside}</think>{after}") == parted
    assert split_reasoning(f"[THINK]{inside}[/THINK]{after}") == parted
    assert split_reasoning(f"{inside}</think>{after}", opened=True) == parted
    assert split_reasoning(after) == ("", after.strip())
