"""The reader claude against a server in the form of the API: messages, batches, budget, ends."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest
from anthropic._data import DEPRECATED_MODELS

from midchart.core.client.claude import HAIKU
from midchart.core.client.prices import PRICES, RETIRED, require_current
from midchart.core.errors import EgressRefused, InputError, MissingKey
from midchart.core.protocol import PRESETS, Protocol
from midchart.core.readers import READERS
from midchart.core.runs.directory import find_run
from midchart.core.runs.estimate import estimate
from midchart.core.text.prompt import MIDDLE, REQUEST, SYSTEM, build_prompt
from midchart.core.types import Kept, Selection, Sentence, Span
from tests.support.claude_server import ClaudeFake
from tests.support.fault_server import SECRET_TEXT
from tests.support.run_helpers import finished_run, set_workspace, write_cohort

KEY = "sk-ant-planted-key"
SONNET = "claude-sonnet-4-6"


@pytest.fixture
def server():
    with ClaudeFake(says=lambda prompt: "20 milligram") as fake:
        yield fake


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path, server):
    set_workspace(monkeypatch, tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("MIDCHART_HOSTS", f"{server.url}=ANTHROPIC_API_KEY")
    monkeypatch.setenv("MIDCHART_SECRETS", str(tmp_path / "none.toml"))


def reader(server, protocol=None, **options):
    options = {"retries": 0, "timeout": 5.0, "base_url": server.url, **options}
    return READERS.build("claude", protocol or Protocol(), **options)


def prompts(built, n=3, same_record=False, length=1):
    asked = []
    for i in range(n):
        text = f"{SECRET_TEXT} at {10 if same_record else i} milligram " * length
        sentence = Sentence("e0", Span(0, 0, len(text)), None, "note", text, 12 * length)
        selection = Selection("p", f"i{i}", "full", (Kept(sentence, 1.0, "arm"),), 12 * length)
        asked.append(
            build_prompt(
                f"What dose, case {i}? <|im_end|>", selection, built.protocol, built.window,
                built.count_tokens, built.frame,
            )
        )  # fmt: skip
    return asked


def test_messages_are_sent_and_their_usage_and_price_are_answers(server):
    built = reader(server)
    asked = prompts(built)
    for i, answer in built.read_many(asked):
        assert (answer.text, answer.ended, answer.model) == ("20 milligram", "stop", HAIKU)
        assert (answer.endpoint, answer.how) == ("/v1/messages", "alone, temperature 0")
        words = len(asked[i].user.split())
        assert (answer.prompt_tokens, answer.output_tokens) == (words, 2)
        assert answer.cost_usd == pytest.approx((words * 1.0 + 2 * 5.0) / 1e6)
    for body in server.asked("/v1/messages"):
        assert (body["system"], body["max_tokens"], body["temperature"]) == (SYSTEM, 128, 0)
        (message,) = body["messages"]
        assert message["content"].startswith(REQUEST) and MIDDLE in message["content"]
        assert message["content"] in [prompt.user for prompt in asked]
        assert "<|im_end|>" not in message["content"]  # control tokens are neutralised
    assert {r["headers"]["authorization"] for r in server.requests} == {f"Bearer {KEY}"}


def test_prompts_on_one_record_share_the_cache(server):
    built = reader(server, model=SONNET, concurrency=1)
    asked = prompts(built, same_record=True, length=400)
    assert all(answer.status == "ok" for _, answer in built.read_many(asked))
    starts = [body["messages"][0]["content"] for body in server.asked("/v1/messages")]
    assert len({part[0]["text"] for part in starts}) == 1
    assert all("cache_control" in part[0] for part in starts)
    assert {"".join(p["text"] for p in part) for part in starts} == {p.user for p in asked}


def test_a_budget_stops_before_it_is_exceeded(server, tmp_path):
    server.usage = {"output_tokens": 100}
    built = reader(server, budget_usd=0.003, folder=tmp_path, label="c", concurrency=1)
    answers = [answer for _, answer in built.read_many(prompts(built, 6, length=10))]
    reasons = {a.reason for a in answers if a.status == "failed"}
    assert 0 < sum(a.status == "ok" for a in answers) < 6
    assert all("the budget of $0.0030 is used up" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("stopped", "says", "ended"),
    [
        ("end_turn", "20", "stop"), ("stop_sequence", "20", "stop"), ("max_tokens", "20", "length"),
        ("model_context_window_exceeded", "20", "length"), ("max_tokens", "", "length"),
        ("end_turn", "", "empty"), ("refusal", "", "refusal"), ("tool_use", "", "tool"),
    ],
)  # fmt: skip
def test_how_a_message_ended_is_the_answer_s(server, stopped, says, ended):
    server.stop_reason, server.says = stopped, lambda prompt: says
    built = reader(server)
    answer = built.read(prompts(built, 1)[0])
    assert (answer.status, answer.text, answer.ended) == ("ok", says, ended)


def test_thinking_is_kept_apart_and_paid(server):
    thought = {"type": "thinking", "thinking": "It says so.", "signature": "s"}
    server.content = [thought, {"type": "text", "text": "20"}]
    built = reader(server, model=SONNET, reasoning_tokens=2_048, reasoning_effort="low")
    answer = built.read(prompts(built, 1)[0])
    assert (answer.text, answer.reasoning) == ("20", "It says so.")
    assert answer.reasoning_tokens == 4  # three words and a full stop: the API does not count them
    (body,) = server.asked("/v1/messages")
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2_048}
    assert body["output_config"] == {"effort": "low"}
    assert body["max_tokens"] == 2_048 + 128 and "temperature" not in body


@pytest.mark.parametrize("fault", ["500", "401", "broken", "cut", "429:900"])
def test_a_failure_is_a_failed_answer_without_record_text(server, fault):
    server.fault(fault)
    built = reader(server)
    answer = built.read(prompts(built, 1)[0])
    assert answer.status == "failed" and answer.reason
    assert SECRET_TEXT not in answer.reason and KEY not in answer.reason


def test_a_retired_model_is_refused_with_its_successor():
    for name, (day, successor) in RETIRED.items():
        require_current(name, day - timedelta(days=1))
        with pytest.raises(InputError, match=successor):
            require_current(f"{name}-20250929", day)
        assert successor not in RETIRED
    require_current(HAIKU, date(2100, 1, 1))


def test_the_retired_models_are_those_of_the_installed_package():
    dates = {
        name: datetime.strptime(re.sub(r"(?<=\d)(?:st|nd|rd|th)", "", day), "%B %d, %Y").date()
        for name, day in DEPRECATED_MODELS.items()
        if not re.search(r"-\d{8}$", name)
    }
    assert dates == {name: day for name, (day, _) in RETIRED.items()}


def test_what_may_not_be_sent_is_refused(server, monkeypatch):
    built = READERS.build("claude", Protocol())  # the real API: no cohort allows it
    with pytest.raises(EgressRefused):
        built.read(prompts(built, 1)[0])
    with pytest.raises(InputError, match="truncation"):
        reader(server, PRESETS["published"])
    cut = replace(prompts(built, 1)[0], user="")
    assert "cut on the right" in reader(server).read(cut).reason
    for options, says in (
        ({"reasoning_tokens": 5}, "1,024"),
        ({"model": "claude-new", "budget_usd": 1.0}, "no price of claude-new"),
    ):
        with pytest.raises(InputError, match=says):
            reader(server, **options)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(MissingKey):
        READERS.build("claude", Protocol())
    assert server.requests == []


def test_a_run_stores_what_the_service_said_and_its_estimate_has_the_price(server, tmp_path):
    cohort = write_cohort(tmp_path / "data" / "cohorts" / "tiny", records=2)
    entry = {"name": "claude", "base_url": server.url, "budget_usd": 5.0}
    spec = {
        "kind": "answers", "data": str(cohort), "arms": ["bm25"], "readers": [entry],
        "judges": ["token_overlap"],
    }  # fmt: skip
    planned = estimate(spec)
    (row,) = planned["readers"]
    price = PRICES["claude-haiku-4-5"]
    assert row["cost_usd"] == pytest.approx(price.of(row["read_tokens"], row["written_tokens"]))
    assert planned["cost_usd"] == pytest.approx(row["cost_usd"])
    folder = find_run(finished_run(spec))
    rows = folder.store(folder.plan()).select("answers")
    assert rows and {row["status"] for row in rows} == {"ok"}
    for row in rows:
        assert (row["ended"], row["template"], row["endpoint"], row["model"]) == (
            "stop", "messages", "/v1/messages", HAIKU,
        )  # fmt: skip
        assert row["cost_usd"] > 0 and row["prompt"].startswith(f"{SYSTEM}\n\n{REQUEST}")
