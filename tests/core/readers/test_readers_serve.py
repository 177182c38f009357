"""The served reader and judge against ``transformers serve``, a real OpenAI-compatible server.

A tiny Qwen2.5 with random weights is served on loopback; what the server says to a finished prompt
is what the local reader says, token for token, by completions and by chat alike.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

from midchart.core.protocol import parse
from midchart.core.readers import READERS
from midchart.core.text.prompt import HEAD, MIDDLE, REQUEST, TAIL, build_prompt
from midchart.core.types import ContextLine, Prompt, Selection
from tests.support.run_helpers import until
from tests.support.tiny_models import make_other, make_qwen

pytestmark = pytest.mark.slow
NAME, OTHER = "tiny-qwen", "tiny-llama"
LINES = [f"[2020-01-{i + 1:02d}] Glucose: {90 + 7 * i} mg" for i in range(6)]
PROTOCOL = parse({"answer_tokens": 24})
MODULE = "from transformers.cli.transformers import main; main()"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    make_qwen(folder / NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_MODELS", str(folder))
        patch.setenv("MIDCHART_DATA", str(folder / "data"))
        patch.setenv("MIDCHART_CACHE", str(folder / "cache"))
        patch.setenv("MIDCHART_SECRETS", str(folder / "none.toml"))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield folder


@contextmanager
def serving(models, name):
    """The address of ``transformers serve`` with a model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (models / "serve.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", MODULE, "serve", str(models / name), "--host", "127.0.0.1",
         "--port", str(port), "--device", "cpu", "--dtype", "float32"],
        env={**os.environ, "HF_HUB_OFFLINE": "1"}, stdout=log, stderr=log,
    )  # fmt: skip
    try:

        def answers() -> bool:
            assert process.poll() is None, (models / "serve.log").read_text()[-2000:]
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                    return True
            except OSError:
                return False

        until(answers, "the server answers")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)
        log.close()


@pytest.fixture(scope="module")
def url(models):
    with serving(models, NAME) as address:
        yield address


def prompt(lines):
    context = "\n".join(f"[2020-01-{i + 1:02d}] Glucose: {90 + 7 * i} mg" for i in range(lines))
    text = f"{HEAD}{context}{MIDDLE}What was the glucose?{TAIL}"
    user = f"{REQUEST}{context}{MIDDLE}What was the glucose?"
    return Prompt(text, "What was the glucose?", (), 0, user=user)


def served(url, models, **options):
    arguments = {"url": url, "model": str(models / NAME), "window": 4096, "tokenizer": NAME}
    return READERS.build("served", PROTOCOL, **arguments, **options)


def same_text(served_answer, local_answer):
    """Whether two answers say the same, and end alike; a server that streams leaves out a last
    character of which it has some bytes only."""
    text = local_answer.text.rstrip("\ufffd").rstrip()
    ended_alike = served_answer.ended == local_answer.ended or not text
    return served_answer.text.rstrip("\ufffd").rstrip() == text and ended_alike


def test_a_real_server_gives_the_answers_of_the_local_reader(url, models):
    asked = [prompt(n) for n in (1, 4, 9, 2)]
    local = READERS.build("qwen", PROTOCOL, model=NAME, dtype="float32")
    local_answers = dict(local.read_many(asked))
    for path, template in (("auto", ""), ("completions", "chatml"), ("completions", "tokenizer")):
        built = served(url, models, path=path, template=template, concurrency=2)
        served_answers = dict(built.read_many(asked))
        for i, one in enumerate(asked):
            assert served_answers[i].status == "ok", served_answers[i].reason
            assert same_text(served_answers[i], local_answers[i])
            assert served_answers[i].how == ("chat" if path == "auto" else "completions")
            assert (
                served_answers[i].prompt_tokens
                == built.count_tokens(one.text)
                == local_answers[i].prompt_tokens
            )
    assert len({answer.text for answer in local_answers.values()}) > 1


def test_a_model_with_another_template_is_read_alike_here_and_by_a_real_server(models):
    make_other(models / OTHER, "llama")
    local = READERS.build("transformers", PROTOCOL, model=OTHER, dtype="float32")
    selections = [
        Selection("p", "i", "full", (), 0, lines=tuple(ContextLine("e", x) for x in LINES[:n]))
        for n in (1, 3, 6)
    ]
    asked = [
        build_prompt("What was it?", one, PROTOCOL, 4096, local.count_tokens, local.frame)
        for one in selections
    ]
    local_answers = dict(local.read_many(asked))
    with serving(models, OTHER) as address:
        options = {"url": address, "model": str(models / OTHER), "window": 4096}
        for more in ({}, {"path": "completions", "template": "tokenizer", "tokenizer": OTHER}):
            built = READERS.build("served", PROTOCOL, **options, **more)
            for i, answer in built.read_many(asked):
                assert same_text(answer, local_answers[i])
                assert answer.prompt_tokens == local_answers[i].prompt_tokens == asked[i].tokens
    assert len({answer.text for answer in local_answers.values()}) > 1
    assert not asked[0].text.startswith("<|im_start|>")
