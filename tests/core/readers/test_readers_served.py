"""The served reader against a local OpenAI-compatible server: answers, errors, refusals."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core import config as settings
from midchart.core.client.openai_server import cautious, counter
from midchart.core.egress import EgressCheck
from midchart.core.errors import EgressRefused, InputError, MissingModel, SpecError
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.text import count_tokens
from midchart.core.text.prompt import build_prompt
from midchart.core.types import Kept, Prompt, Selection, Sentence, Span
from tests.support.fault_server import SECRET_TEXT
from tests.support.openai_server import OpenAIFake
from tests.support.tiny_models import qwen_tokenizer

KEY = "sk-planted-key"


@pytest.fixture
def server():
    with OpenAIFake() as fake:
        yield fake


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path, server):
    monkeypatch.setenv("MIDCHART_SERVED_KEY", KEY)
    monkeypatch.setenv("MIDCHART_HOSTS", f"{server.url}=MIDCHART_SERVED_KEY")
    monkeypatch.setenv("MIDCHART_SECRETS", str(tmp_path / "none.toml"))


def prompts(n=6, protocol=None):
    built = []
    for i in range(n):
        text = f"{SECRET_TEXT} at a dose of {10 * (i + 1)} milligram"
        sentence = Sentence(f"e{i}", Span(i, 0, len(text)), None, "note", text, 12)
        selection = Selection("p", f"i{i}", "bm25", (Kept(sentence, 1.0, "arm"),), 12)
        question = f"What dose of lisinopril, case {i}?"
        built.append(build_prompt(question, selection, protocol or Protocol(), 4096, count_tokens))
    return built


def reader(server, protocol=None, **options):
    options = {"retries": 3, "timeout": 5.0, **options}
    built = READERS.build(
        "served", protocol or Protocol(), url=f"{server.url}/v1", model="tiny", **options
    )
    built._caller.policy = type(built._caller.policy)(options["retries"], 0.01, 0.05, 2.0)
    return built


COMPLETIONS = {"path": "completions", "template": "chatml"}


def test_a_prompt_is_sent_unchanged_with_greedy_decoding(server):
    built = reader(server, **COMPLETIONS)
    asked = prompts(3)
    answers = dict(built.read_many(asked))
    for i, prompt in enumerate(asked):
        assert answers[i].text == f"{SECRET_TEXT} at a dose of {10 * (i + 1)} milligram"
        assert (answers[i].status, answers[i].how, answers[i].output_tokens) == (
            "ok", "completions", 3,
        )  # fmt: skip
        assert answers[i].prompt_tokens == 2 * len(prompt.text.split())
    for body in server.asked("/v1/completions"):
        assert body["prompt"] in [p.text for p in asked]
        assert (body["temperature"], body["max_tokens"], body["model"]) == (0, 128, "tiny")
        assert (body["repetition_penalty"], body["frequency_penalty"]) == (1.0, 0)
    assert {r["headers"]["authorization"] for r in server.requests} == {f"Bearer {KEY}"}


def test_messages_go_to_the_chat_endpoint_unless_the_spec_names_a_template(server):
    built = reader(server, concurrency=1)
    asked = prompts(3)
    for _, answer in built.read_many(asked):
        assert (answer.how, answer.endpoint, answer.model) == (
            "chat", "/v1/chat/completions", "tiny",
        )  # fmt: skip
    assert server.asked("/v1/completions") == []
    for prompt, body in zip(asked, server.asked("/v1/chat/completions"), strict=True):
        system, user = body["messages"]
        assert system == {"role": "system", "content": "You are a clinical assistant."}
        frame = f"<|im_start|>system\n{system['content']}<|im_end|>\n<|im_start|>user\n"
        assert prompt.text == f"{frame}{user['content']}<|im_end|>\n<|im_start|>assistant\n"
    with OpenAIFake(paths=("chat/completions",)) as chat:
        only = reader(chat, **COMPLETIONS).read(asked[0])
        assert only.status == "failed" and "answers 404 Not Found" in only.reason


@pytest.mark.parametrize("options", [{}, COMPLETIONS])
def test_a_streamed_answer_is_that_of_one_document(server, options):
    asked = prompts(2)
    reply = {"reasoning_content": "because", "content": "ten"}
    answers = []
    for server.streams in (False, True):
        built = reader(server, concurrency=1, **options)
        if not options:
            server.replies.append({"choices": [{"finish_reason": "length", "message": reply}]})
        answers.append([replace(built.read(one), seconds=0.0) for one in asked])
    assert answers[0] == answers[1]
    assert all(request["body"]["stream"] for request in server.requests if request["body"])


def test_a_broken_stream_is_a_failed_answer_and_a_refused_one_is_asked_for_no_more(server):
    server.says = lambda prompt: "ten"
    server.refuses = {"stream": {"message": "stream is not supported", "param": "stream"}}
    built = reader(server, concurrency=1)
    assert [built.read(one).text for one in prompts(2)] == ["ten", "ten"]
    assert ["stream" in body for body in server.asked("/v1/chat/completions")] == [
        True,
        False,
        False,
    ]
    server.refuses, server.streams = {}, True
    server.replies.append({"choices": [{"finish_reason": None, "message": {"content": "te"}}]})
    failed = reader(server, retries=0).read(prompts(1)[0])
    assert failed.status == "failed" and failed.text == ""


@pytest.mark.parametrize(
    "fault", ["429:0.05", "429", "500", "503", "529", "cut", "broken", "wrong", "empty", "html",
              "list", "null", "hang_up"],
)  # fmt: skip
def test_a_temporary_error_is_retried(server, fault):
    server.fault(fault, fault)
    answer = reader(server).read(prompts(1)[0])
    assert answer.status == "ok", answer.reason
    assert len(server.asked("/v1/chat/completions")) == 3


@pytest.mark.parametrize(
    ("fault", "reason", "tries"),
    [
        ("500", "answers 500 Internal Server Error (3 tries)", 3),
        ("429", "answers 429 Too Many Requests (3 tries)", 3),
        ("broken", "sent a broken answer (3 tries)", 3),
        ("cut", "cannot be reached", 3),
        ("slow:0.6", "did not answer in time (3 tries)", 3),
        ("drip", "did not answer in time (3 tries)", 3),
        (f"large:{9 << 20}", "sent more than 8 MiB in one answer", 1),
        ("401", "answers 401 Unauthorized", 1),
        ("400", "answers 400 Bad Request", 1),
        ("429:900", "asks to wait 900 s", 1),
        ("429:Fri, 31 Dec 99999 00:00:00 GMT", "answers 429 Too Many Requests (3 tries)", 3),
        (
            "429:Fri, 31 Dec 2026 00:00:00 " + "9" * 400,
            "answers 429 Too Many Requests (3 tries)",
            3,
        ),
        ("redirect:http://example.org/v1", "redirects are not followed", 1),
    ],
)
def test_a_permanent_error_is_a_failed_answer_without_record_text(server, fault, reason, tries):
    server.fault(*[fault] * 20)
    answer = reader(server, retries=2, timeout=0.3).read(prompts(1)[0])
    assert answer.status == "failed" and reason in answer.reason
    assert SECRET_TEXT not in answer.reason and KEY not in answer.reason
    assert len(server.requests) == tries


def test_redirects_are_not_followed_not_even_to_loopback(server):
    with OpenAIFake() as other:
        server.fault(f"redirect:{other.url}/v1/chat/completions")
        answer = reader(server).read(prompts(1)[0])
        assert answer.status == "failed" and "redirects are not followed" in answer.reason
        assert other.requests == []


def test_an_unreachable_server_fails_quickly():
    with OpenAIFake() as gone:
        built = reader(gone, concurrency=1, retries=4)
    tries = []
    chat = built._server().chat
    built._server().chat = lambda *asked: (tries.append(1), chat(*asked))[1]
    answers = dict(built.read_many(prompts(30)))
    assert {a.reason for a in answers.values()} == {
        "the server at 127.0.0.1 cannot be reached (ConnectError)"
    }
    assert len(tries) == 3 * 5 + 27  # three with patience, the others once each


def test_retry_after_delays_every_call(server):
    server.fault("429:0.5")
    begun = time.monotonic()
    answers = dict(reader(server, concurrency=1).read_many(prompts(3)))
    assert all(a.status == "ok" for a in answers.values())
    assert 0.5 <= time.monotonic() - begun < 3


def test_prompts_are_sent_concurrently_and_returned_as_they_finish(server):
    server.delay_s = 0.15
    assert len(dict(reader(server, concurrency=6).read_many(prompts(12)))) == 12
    assert 3 <= server.busiest <= 6


def test_the_window_is_reported_by_the_server_or_set_by_option(server):
    server.fault("wrong", "529", "null")
    # Of a window that chat calls share with a template of at most 128 tokens and with reasoning.
    assert reader(server).window == 4096 - 128
    assert reader(server, window=900, reasoning_tokens=300).window == 900 - 128 - 300
    assert reader(server, window=900, **COMPLETIONS).window == 900
    with (
        OpenAIFake(window=0) as silent,
        pytest.raises(InputError, match="set the reader's 'window'"),
    ):
        _ = reader(silent).window
    long = reader(server).read(Prompt("word " * 5000, "?", (), 1, user="word " * 5000))
    assert long.status == "failed" and "too long for its model" in long.reason


def test_a_server_that_truncates_prompts_is_detected(server):
    server.usage = {"prompt_tokens": 9, "completion_tokens": 3}
    answer = reader(server).read(prompts(1)[0])
    assert answer.status == "failed" and "cuts prompts to its window" in answer.reason


def test_another_machine_is_refused_before_anything_is_sent(monkeypatch):
    built = READERS.build("served", Protocol(), url="http://10.1.2.3:8000/v1", model="tiny")
    with pytest.raises(EgressRefused):
        built.read(prompts(1)[0])
    open_gate = EgressCheck("ward", True, frozenset({"10.1.2.3"}))
    monkeypatch.setenv("MIDCHART_HOSTS", "https://10.1.2.3:8000")
    READERS.build(
        "served", Protocol(), url="https://10.1.2.3:8000/v1", model="tiny", egress=open_gate
    )._server()  # permitted; nothing is sent yet


@pytest.mark.parametrize(
    "options",
    [
        {"url": ""}, {"model": ""}, {"url": "example.org"}, {"concurrency": 0}, {"retries": -1},
        {"timeout": 0}, {"path": "both"}, {"window": 1.5}, {"tokenizer": "../x"},
        {"url": "http://user:sk-hidden@127.0.0.1/v1"}, {"path": "completions"},
        {"template": "chatml"}, {"choose": "likelihood"},
        {"path": "completions", "template": "tokenizer"},
        {"path": "completions", "template": "chatml", "reasoning_effort": "low"},
    ],
)  # fmt: skip
def test_invalid_options_are_refused_without_a_connection(options):
    reader_options = {"url": "http://127.0.0.1:9/v1", "model": "tiny", **options}
    with pytest.raises(InputError) as refusal:
        READERS.build("served", Protocol(), **reader_options)
    assert "hidden" not in str(refusal.value)


def test_a_key_that_the_server_sends_back_is_not_stored(server):
    choice = {"message": {"role": "assistant", "content": f"20 {KEY} mg", "reasoning": KEY}}
    server.replies.append({"model": KEY, "choices": [{"finish_reason": "stop", **choice}]})
    answer = reader(server).read(prompts(1)[0])
    assert answer.text == "20 ••• mg" and answer.model == "•••" and KEY not in repr(answer)


def test_tokens_are_counted_exactly_or_overestimated(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path))
    with pytest.raises(MissingModel, match=r"tokenizer\.json"):
        counter("tiny")
    with pytest.raises(SpecError, match="at most 255 bytes"):
        counter("x" * 256)
    folder = settings.models_folder() / "tiny"
    qwen_tokenizer().save_pretrained(folder)
    assert counter("tiny")("<|im_start|>user\nGlucose") >= 3
    assert counter("") is cautious
    line = "[2019-03-04] Patient takes metformin 500 mg; Hemoglobin A1c: 7.2 %, K 4.1 mmol/L"
    # By hand, as Qwen2.5's tokenizer cuts it (digits one by one): the date 12, Patient takes 2,
    # metformin 3, 500 mg; 5, Hemoglobin 2, A1c: 4, 7.2 % 4, the comma 1, K 4.1 4, mmol/L 4.
    assert cautious(line) >= 12 + 2 + 3 + 5 + 2 + 4 + 4 + 1 + 4 + 4
    assert cautious("") == 0 and cautious("a\nb") == 3 and cautious("é") == 2


@pytest.mark.parametrize(
    "options", [{}, COMPLETIONS, {"path": "completions", "template": "tokenizer"}]
)
def test_control_tokens_of_a_tokenizer_on_this_machine_stay_in_no_record(
    tmp_path, monkeypatch, server, options
):
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path))
    tokenizer = qwen_tokenizer()
    tokenizer.add_special_tokens({"extra_special_tokens": ["~~assistant~~"]})
    tokenizer.save_pretrained(tmp_path / "tiny")
    built = reader(server, tokenizer="tiny", window=4096, **options)
    text = "Allergies: ~~assistant~~ none."
    sentence = Sentence("e0", Span(0, 0, len(text)), None, "note", text, 6)
    selection = Selection("p", "i", "bm25", (Kept(sentence, 1.0, "arm"),), 6)
    asked = "Which ~~assistant~~ allergies?"
    prompt = build_prompt(asked, selection, Protocol(), 4096, built.count_tokens, built.frame)
    assert "assistant~~ none." in prompt.text and "assistant~~ allergies" in prompt.text
    assert "~~assistant~~" not in prompt.text and "~~assistant~~" not in prompt.user
    assert built.read(prompt).status == "ok"


def counted(text: str) -> int:
    """The rule of the estimate, run by run."""
    total = 0
    for run in re.findall(r"[A-Za-z]+|\s+|[^A-Za-z\s]", text):
        if run.isspace():
            total += run.count("\n") or int(len(run) > 1)
        elif run.isascii() and run.isalpha():
            total += -(-len(run) // 3)
        else:
            total += len(run.encode("utf-8", "replace"))
    return total


@given(st.text(max_size=60) | st.text("ab9 .\n\t\u00a0\u2003é漢\ud800", max_size=60))
def test_the_estimate_is_the_sum_over_runs_of_a_kind(text):
    assert cautious(text) == counted(text)


OPTIONS = ("five milligrams a day", "ten", "none at all")


def choice_prompt():
    selection = Selection("p", "i", "full", (), 0, lines=())
    return build_prompt("Which?", selection, Protocol(), 4096, count_tokens, options=OPTIONS)


def test_the_server_s_log_probabilities_choose_an_option(server):
    answer = reader(server, choose="letter", **COMPLETIONS).read(choice_prompt())
    assert (answer.text, answer.how) == ("B: ten", "completions")
    answer = reader(server, choose="likelihood", **COMPLETIONS).read(choice_prompt())
    # The fake's log-probability of a word is -1 / (1 + its characters and the space after it).
    expected = {
        text: -sum(1 / (1 + len(word)) for word in re.findall(r"\S+\s*", text)) / len(text)
        for text in OPTIONS
    }
    assert answer.text.endswith(max(expected, key=expected.__getitem__))
    assert {
        body["prompt"].rsplit("assistant\n", 1)[1] for body in server.asked("/v1/completions")[1:]
    } == set(OPTIONS)
    answer = reader(server, choose="letter").read(choice_prompt())
    assert (answer.text, answer.how, answer.ended) == ("C: none at all", "chat", "stop")
