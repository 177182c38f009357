"""The extractive reader: the nearest line, no answer without a match, no vector computed twice."""

from __future__ import annotations

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


LINES = {
    "a0": ("Allergies", "** Allergies **"),
    "a1.0": ("Allergies", "Substance: Latex; Reaction: Hives"),
    "a1.1": ("Allergies", "Hives, coded entry: drug allergy"),
    "a2.0": ("Allergies", "Substance: Codeine; Reaction: Nausea"),
    "a2.1": ("Allergies", "Nausea, coded entry: drug allergy"),
    "m1": ("Medications", "Name: aspirin 81 mg; Sig: once daily; Status: Discontinued"),
    "m2": ("Medications", "Name: Lasix 40 mg; Sig: twice daily; Status: Active"),
    "m3": ("Assessment", "Lasix stopped on 10/1/2013: cramps"),
    "v1": ("Vital Signs", "Systolic BP: 133"),
    "v2": ("Vital Signs", "Diastolic BP: 76"),
    "v3": ("Vital Signs", "coded entry: Weight 160 lb; Blood Pressure - Systolic"),
    "v4": ("Vital Signs", "HeartRate /min: 72; RespiratoryRate /min: 16; Weight: 160 lb"),
    "p1": ("Plan of Treatment", "Pulmonary function test"),
    "p2": ("Plan of Treatment", "Hemoglobin; Order Status: Ordered; Date: 9/30/2013"),
    "p3": ("Assessment and Plan", "Goal: weight loss"),
    "s1": ("Social History", "Ex-smoker, quit in 1997"),
    "s2": ("Social History", "Smoking: see above"),
    "s3": ("Social History", "Smoke detectors present"),
    "b1": ("Problem List", "No problems indicated"),
    "l1": ("Labs", "Potassium 4.1 mmol/L, 11/02/2007"),
    "l2": ("Labs", "Potassium 5.2 mmol/L, 01/08/2008"),
    "l3": ("Labs", "Potassium 3.9 mmol/L, 10/05/2007"),
    "l4": ("Labs", "Hgb 14.2 g/dL; Date: 8/6/2012"),
    "x1": ("Imaging", "CHEST X-RAY:"),
    "x2": ("Imaging", "Clear lungs."),
    "t1": (
        "Pneumonia: admit, treat as below, reassess daily, diet, labs each morning",
        "Dr. A. Lee",
    ),
    "n1": ("", "Thrombectomy of the portal vein: completed"),
    "n2": ("", "Encounter for check up (procedure)"),
    "n3": ("", "Prostate cancer under treatment"),
    "n4": ("", "Prostate cancer was found in January 2018"),
    "n5": ("", "She denies any blood thinners"),
    "n6": ("", "Eliquis was begun for atrial fibrillation"),
    "n7": ("", "Follow up with James Liu, MD, neurology"),
    "n8": ("", "Neurology clinic visit"),
}


@pytest.mark.parametrize(
    ("question", "sources"),
    [
        ("Which allergies are documented?", "a1.0 a2.0"),
        ("Welche Allergien hat die Patientin?", "a1.0 a2.0"),
        ("Is the patient allergic to latex?", "a1.0"),
        ("Which medications are recorded?", "m1 m2"),
        ("Which medications is the patient taking?", "m2"),
        ("Does the patient smoke?", "s1"),
        ("What was the most recent potassium?", "l2"),
        ("What was the first potassium?", "l3"),
        ("What was the last hemoglobin?", "l4"),
        ("What was the last blood pressure?", "v1 v2"),
        ("What is the heart rate?", "v4"),
        ("What is the plan of care?", "p1 p2 p3"),
        ("Active problems?", "b1"),
        ("Has she had any surgery?", "n1"),
        ("When was the prostate cancer found?", "n4"),
        ("Which blood thinner does she take?", "n6"),
        ("Who is her neurologist?", "n7"),
        ("What did the chest x-ray show?", None),
        ("What was the most recent uric acid?", None),
        ("Which blood thinner was stopped?", None),
        ("Which medication was stopped last, and why?", "m3"),
        ("Why was she admitted?", None),
        ("When is the next appointment?", None),
    ],
)
def test_it_answers_with_lines_that_hold_the_asked_item_or_declines(question, sources, embedder):
    context = tuple(
        ContextLine(id, f"[2013-09-25] {text}", title=title, section=title)
        for id, (title, text) in LINES.items()
    )
    prompt = Prompt("", question, context, 99)
    reply = READERS.build("extractive", Protocol(), embedder=embedder).read(prompt)
    if sources is None:
        assert reply.text == "Not documented." and reply.how == "abstained" and reply.reason
        assert len(reply.sources) == 1
    else:
        texts = "; ".join(LINES[id][1] for id in sources.split())
        assert (" ".join(reply.sources), reply.text) == (sources, f"[2013-09-25] {texts}")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("seen 2014-05-31 and 20120806", ["2014-05-31", "2012-08-06"]),
        ("11/02/2007: 133; 1/3/08: 131", ["2007-11-02", "2008-01-03"]),
        ("25/12/2010 and 4.3.2019", ["2010-12-25", "2019-03-04"]),
        ("Nov 14, 1999; April 7, 2000; May 2012", ["1999-11-14", "2000-04-07", "2012-05-01"]),
        ("30-Mar-2012 and Aug-06-2012", ["2012-03-30", "2012-08-06"]),
        ("13/13/2013, 132/86 mmHg, 4.5.6", []),
    ],
)
def test_days_that_a_line_states(text, days):
    assert [day.date().isoformat() for day in dates(text)] == days
