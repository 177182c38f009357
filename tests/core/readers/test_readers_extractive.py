"""The extractive reader: the nearest line, no answer without a match, no vector computed twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from midchart.core.arms import ARMS
from midchart.core.embedding.embedder import Embedder
from midchart.core.protocol import Protocol, parse
from midchart.core.readers import READERS
from midchart.core.readers.extractive import dates
from midchart.core.text.prompt import build_prompt
from midchart.core.types import Budget, ContextLine, Event, Instruction, Prompt, Record

RECORD = Record(
    "p1",
    tuple(
        Event(i, datetime(2015, 3, 1) + timedelta(days=i), "note", text=text)
        for i, text in enumerate(
            ["Allergic to penicillin.", "Metformin 500 mg  twice daily.", "Chest x-ray is clear."]
        )
    ),
    "reader",
)
QUESTION = "Which diabetes medication does the patient take?"


def prompt_with(question: str, *lines: str) -> Prompt:
    context = tuple(ContextLine(f"e{i}", f"[undated] {line}") for i, line in enumerate(lines))
    return Prompt(f"{question} {' '.join(lines)}", question, context, 50)


OTHERS = (
    *("Chest x-ray is clear.", "Lives with a sister.", "Gait steady.", "Flu vaccine given."),
    *("Heart rate 72.", "Walks to work.", "Colonoscopy in May.", "Wound is dry."),
)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return Embedder(cache=tmp_path_factory.mktemp("cache"))


def prompt_of(question: str, protocol: Protocol, reader) -> Prompt:
    selection = ARMS.build("full", protocol).select(
        RECORD, Instruction("i", "p1", question), Budget()
    )
    return build_prompt(question, selection, protocol, reader.window, reader.count_tokens)


def test_it_answers_with_the_nearest_line_and_names_it(embedder):
    reader = READERS.build("extractive", Protocol(), embedder=embedder)
    prompt = prompt_of(QUESTION, Protocol(), reader)
    answer = reader.read(prompt)
    assert answer.text == "[2015-03-02] Metformin 500 mg twice daily."
    assert answer.sources == ("e1",) and answer.status == "ok" and not answer.reason
    assert answer.prompt_tokens == prompt.tokens and answer.output_tokens > 5
    assert answer.seconds > 0 and reader.read(prompt).text == answer.text


def test_answers_of_a_group_are_those_of_single_prompts(embedder, tmp_path):
    reader = READERS.build("extractive", Protocol(), embedder=embedder)
    choice = replace(prompt_with("Which vaccine?", *OTHERS), options=("flu", "tetanus"))
    asked = [("Allergy?", OTHERS), ("", ("A line.",)), ("Which allergy?", ())]
    prompts = [
        prompt_of(QUESTION, Protocol(), reader),
        *(prompt_with(question, *lines) for question, lines in asked),
        choice,
    ]
    apart = [replace(reader.read(prompt), seconds=0.0) for prompt in prompts]
    alone = READERS.build("extractive", Protocol(), embedder=Embedder(cache=tmp_path))
    together = [(i, replace(answer, seconds=0.0)) for i, answer in alone.read_many(prompts)]
    assert together == list(enumerate(apart))


def test_without_a_question_it_gives_no_answer_and_a_reason(embedder):
    protocol = parse({"preset": "published", "right_tokens_full": 40})
    reader = READERS.build("extractive", protocol, embedder=embedder)
    prompt = prompt_of(QUESTION, protocol, reader)
    assert not prompt.question_survived
    answer = reader.read(prompt)
    assert (answer.status, answer.text, answer.sources) == ("ok", "", ())
    assert answer.reason == "the question was cut off the prompt"


@pytest.mark.parametrize(
    ("question", "context", "reason"),
    [
        ("fever?", (), "no line of the record"),
        (" ", (ContextLine("e0", "[undated] fever"),), "question is empty"),
    ],
)
def test_without_matching_words_it_gives_no_answer_and_a_reason(
    question, context, reason, embedder
):
    reader = READERS.build("extractive", Protocol(), embedder=embedder)
    answer = reader.read(Prompt("", question, context, 12))
    assert answer.text == "" and reason in answer.reason and answer.prompt_tokens == 12


ALLERGIES = [
    ("Allergies", "** Allergies **"),
    ("Allergies", "Substance: Latex; Reaction: Hives"),
    ("Allergies", "Substance: Codeine; Reaction: Nausea"),
    ("Medications", "Name: aspirin 81 mg; Sig: once daily"),
    ("Medications", "Name: Lasix 40 mg; Sig: twice daily"),
    ("Vital Signs", "Systolic BP: 133"),
    ("Vital Signs", "Diastolic BP: 76"),
    ("Vital Signs", "coded entry: Weight 160 lb; Blood Pressure - Systolic"),
    ("Plan of Treatment", "Pulmonary function test"),
    ("Social History", "Smoking Status: former smoker"),
    ("Problems", "Urinary tract infection"),
    ("Immunizations", "No Information About Immunizations"),
    ("Labs", "Potassium 4.1 mmol/L, 11/02/2007"),
    ("Labs", "Potassium 5.2 mmol/L, 01/08/2008"),
    ("Labs", "Potassium 3.9 mmol/L, 10/05/2007"),
    ("Imaging", "CHEST X-RAY:"),
    ("Imaging", "Clear lungs."),
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "Which allergies are documented?",
            "Substance: Latex; Reaction: Hives; Substance: Codeine; Reaction: Nausea",
        ),
        (
            "Which medications is the patient taking?",
            "Name: aspirin 81 mg; Sig: once daily; Name: Lasix 40 mg; Sig: twice daily",
        ),
        ("Is the patient allergic to latex?", "Substance: Latex; Reaction: Hives"),
        ("Does the patient smoke?", "Smoking Status: former smoker"),
        ("What was the most recent potassium?", "Potassium 5.2 mmol/L, 01/08/2008"),
        ("What was the first potassium?", "Potassium 3.9 mmol/L, 10/05/2007"),
        ("What was the last blood pressure?", "Systolic BP: 133; Diastolic BP: 76"),
        ("What is the plan of care?", "Pulmonary function test"),
        ("Which immunizations were received?", "No Information About Immunizations"),
        ("What did the chest x-ray show?", None),
        ("Which vaccines were given?", "No Information About Immunizations"),
        ("What was the most recent uric acid?", None),
        ("When is the next appointment?", None),
    ],
)
def test_it_answers_with_lines_that_hold_the_asked_item_or_declines(question, answer, embedder):
    context = tuple(
        ContextLine(f"e0.{i}", f"[2013-09-25] {line}", title=title)
        for i, (title, line) in enumerate(ALLERGIES)
    )
    prompt = Prompt("", question, context, 99)
    reply = READERS.build("extractive", Protocol(), embedder=embedder).read(prompt)
    shown = {line.sentence_id for line in context if answer and line.text[13:] in answer}
    if answer is None:
        assert reply.text == "Not documented." and reply.how == "abstained" and reply.reason
        assert len(reply.sources) == 1
    else:
        assert reply.text == f"[2013-09-25] {answer}"
        assert set(reply.sources) == shown


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("seen 2014-05-31 and 20120806", ["2014-05-31", "2012-08-06"]),
        ("11/02/2007: 133; 1/3/08: 131", ["2007-11-02", "2008-01-03"]),
        ("25/12/2010 and 4.3.2019", ["2010-12-25", "2019-03-04"]),
        ("Nov 14, 1999; April 7, 2000; May 2012", ["1999-11-14", "2000-04-07", "2012-05-01"]),
        ("13/13/2013, 132/86 mmHg, 4.5.6", []),
    ],
)
def test_days_that_a_line_states(text, days):
    assert [day.date().isoformat() for day in dates(text)] == days
