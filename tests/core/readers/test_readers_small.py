"""The shipped small reader: its weights are documented, it looks up facts and declines other
questions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from midchart.core import weights
from midchart.core.errors import MissingModel
from midchart.core.protocol import Protocol
from midchart.core.readers import small
from midchart.core.readers.small import REFUSAL, Small, answerable
from midchart.core.text import words
from midchart.core.text.prompt import HEAD, NOT_DOCUMENTED, TAIL, quoted, without_date
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Answer, ContextLine, Prompt
from tests.support.shipped import made_with

SHIPPED = Path(weights.__file__).parent / weights.MODELS[weights.SMALL].shipped


@pytest.fixture(scope="module", autouse=True)
def no_models_of_your_own(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_MODELS", str(tmp_path_factory.mktemp("models")))
        yield


@pytest.fixture(scope="module")
def reader() -> Small:
    return Small(Protocol())


def prompt(lines: list[str], question: str) -> Prompt:
    text = HEAD + "\n".join(lines) + f"\n\nQUESTION: {question}" + TAIL
    context = tuple(ContextLine(f"e{i}", line) for i, line in enumerate(lines))
    return Prompt(text, question, context, 0)


RECORD = [
    "[2011-02-03] Comes with a list of questions.",
    "[2011-02-03] Sodium [Moles/volume] in Serum or Plasma: 141 mmol/L",
    "[2012-07-19] No change in appetite or mood since spring.",
    "[2012-07-19] Ferritin: 88 ng/mL",
    "[2014-11-30] Wants letters, no calls.",
]


def test_the_shipped_weights_have_the_documented_digest() -> None:
    location = weights.locate(weights.SMALL)
    assert location.how == "program"
    assert weights.fingerprint(location) == weights.MODELS[weights.SMALL].sha256
    recipe = made_with(SHIPPED)
    assert recipe["steps"] > 1000
    files = {path.name: path.stat().st_size for path in SHIPPED.iterdir()}
    assert set(files) == {
        *("README.md", "config.json", "model.safetensors", "tokenizer.json"),
        "tokenizer_config.json",
    }
    assert sum(files.values()) < 10_000_000
    config = json.loads((SHIPPED / "config.json").read_text())
    assert (config["model_type"], config["dtype"]) == ("qwen2", "float16")


def test_altered_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = weights.MODELS[weights.SMALL]
    monkeypatch.setitem(weights.MODELS, weights.SMALL, replace(model, sha256="0" * 64))
    with pytest.raises(MissingModel, match="not the published file of this program"):
        Small(Protocol())


def test_it_quotes_the_line_that_answers(reader: Small) -> None:
    for question, line in (
        ("What is the most recent sodium?", RECORD[1]),
        ("What is the most recent ferritin?", RECORD[3]),
    ):
        assert reader.read(prompt(RECORD, question)).text == quoted(without_date(line), line)


def test_a_quote_is_of_the_line_with_its_date_which_is_moved_to_its_end() -> None:
    lines = [
        "[2010-01-01] Walks daily.",
        "[2011-02-02] Sodium [serum]: 141",
        "[2012-03-03] Walks daily.",
        "[2012-03-03] Walks daily.",
        "[undated] Walks daily.",
    ]
    for written, expected, source in (
        ("[2011-02-02] sodium [serum]: 141", "Sodium [serum]: 141 [2011-02-02]", ("e1",)),
        ("[2011-02-03] sodium [serum]: 141", "[2011-02-03] sodium [serum]: 141", ()),
        ("[2011-02-02] sodium [serum]: 142", "[2011-02-02] sodium [serum]: 142", ()),
        ("[2011-02-02] sodium [serum", "Sodium [serum [2011-02-02]", ("e1",)),
        # Cut within a word or a number: what is quoted ends before it.
        ("[2011-02-02] sodium [serum]: 14", "Sodium [serum [2011-02-02]", ("e1",)),
        ("[2010-01-01] walks daily.", "Walks daily. [2010-01-01]", ("e0",)),
        ("[2012-03-03] walks daily.", "Walks daily. [2012-03-03]", ("e3",)),
        ("[undated] walks daily.", "Walks daily. [undated]", ("e4",)),
    ):
        answer = small.sourced(Answer(written), prompt(lines, "What is the sodium?"))
        assert (answer.text, answer.sources, answer.quotes) == (expected, source, True)


def test_it_names_the_source_line_and_writes_nothing_else(reader: Small) -> None:
    asked = prompt(RECORD, "What is the most recent sodium?")
    lines = asked.context
    answer = reader.read(asked)
    assert (answer.sources, answer.quotes) == (("e1",), True)
    # The same words, where the context is said to hold other lines.
    other = reader.read(replace(asked, context=lines[2:]))
    assert other.text == NOT_DOCUMENTED or other.sources[0] in ("e2", "e3", "e4")
    assert reader.read(replace(asked, context=())).text == NOT_DOCUMENTED
    none = reader.read(prompt(RECORD, "Who helps at home, and how often?"))
    assert (none.sources, none.quotes) == ((), False)


def test_it_answers_not_documented_without_evidence(reader: Small) -> None:
    for question in (
        "Who helps at home, and how often?",
        "Which antibiotic was badly tolerated?",
        "What is the most recent hemoglobin?",
    ):
        text = reader.read(prompt(RECORD, question)).text
        assert words(text) == words(NOT_DOCUMENTED)
        assert is_refusal(text)


def test_questions_outside_its_competence_are_declined(reader: Small) -> None:
    outside = (
        "Summarize PSA over the past years.",
        "List the falls that Ms. Kowal reported.",
        "Describe how the iron stores developed.",
        "",
    )
    for question in outside:
        answer = reader.read(prompt(RECORD, question))
        assert (answer.text, answer.how, answer.output_tokens) == (REFUSAL, "declined", 0)
    assert is_refusal(REFUSAL)
    # What was cut off cannot be told a kind by: the prompt is read as it is.
    cut = Prompt(HEAD + "\n".join(RECORD), outside[0], (), 0, question_survived=False)
    assert reader.read(cut).how != "declined"


@pytest.mark.parametrize(
    "question",
    [
        "What is the most recent potassium?",
        "What was the lowest sodium ever recorded, and when?",
        "What daily dose of riluzole, in mg, is documented for 2003-02-01?",
        "Did the patient report asbestos exposure when asked on 2003-02-01?",
        "When was the latest tympanometry done elsewhere?",
        "Who would make medical decisions if she lost capacity?",
        "Describe the reaction to the dye.",
    ],
)
def test_questions_it_answers(question: str) -> None:
    assert answerable(question)
