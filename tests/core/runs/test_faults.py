"""Each published fault, turned on alone: it changes the rows it should, and no other.

One small cohort is run under the corrected protocol and then once for each fault, through real
runs of kind answers. Which rows a fault may touch is worked out from the corrected rows alone.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import pytest

from midchart.core.protocol import parse
from midchart.core.readers import READERS
from midchart.core.results.items import rows
from midchart.core.text.prompt import HEAD, MIDDLE
from midchart.extras.lab.llmlingua2 import MODEL
from tests.support.compressors import xlm_roberta
from tests.support.run_helpers import finished_run, workspace_at
from tests.support.writers import SpecWriter

Row = dict[str, Any]
RIGHT, RIGHT_FULL, CLIP, SEEN = 420, 700, 1500, 1200
"""The published cuts, scaled to a cohort of a few thousand characters."""
GATE = {"hash", "hash_salt", "gate_text", "gate_positives", "gate_negatives"}
"""Faults of the gate; a run of kind gate turns each of them on alone."""
ARMS = [
    "full",
    {"name": "full", "window": 700},
    "bm25",
    {"name": "bm25", "k": 1},
    "recency",
    {"name": "map_reduce", "reader": "test_writer", "events": 4, "tokens": 40},
    {"name": "llmlingua2", "words": 90},
]
LONG = (
    "Which dose of warfarin does the patient take according to the notes of this long record, "
    + ("as far as any of its many notes tells of it?")
)
FACT = "Seen in clinic for the yearly visit and well in herself"
SENTENCE = (
    "The patient was asked again which dose of warfarin she does take at home each evening with "
    "her meal since the last visit, as the earlier letters were not clear on it, and after some "
    "thought she and her daughter both said that the dose is 35 milligram"
)


def write_cohort(folder: Path) -> Path:
    """Record 1 has short events with a time of day, record 2 notes of many lines with a day alone;
    both are long."""
    (folder / "ehrs").mkdir(parents=True)
    short = [("measurement", f"Glucose was {90 + i} on the ward") for i in range(36)]
    short[1] = ("observation", "Patient takes metformin at a dose of 500 milligram")
    notes: list[tuple[str, str]] = [
        (
            "note",
            f"Visit {i}. Blood pressure {120 + i} over 80.\nNo fever, no pain on day {i}.\n"
            f"Plan {i}: continue as before and see the patient again in {i + 2} weeks.",
        )
        for i in range(24)
    ]
    notes[11] = ("note", f"{FACT}.\n{SENTENCE}.\nNothing else was new.")
    for name, at, events in (("1", "08:30", short), ("2", "00:00", notes)):
        entries = "".join(
            f'<entry timestamp="2020-{1 + i // 28:02d}-{1 + i % 28:02d} {at}">'
            f'<event type="{kind}" code="C/{i}" name="{kind}" note_id="n{i}">{escape(text)}</event>'
            "</entry>"
            for i, (kind, text) in enumerate(events)
        )
        (folder / "ehrs" / f"{name}.xml").write_text(
            f'<eventstream person_id="{name}"><encounter><events>{entries}</events></encounter>'
            "</eventstream>"
        )
    questions = [
        ("i1", "1", "What dose of metformin?", short[1][1], "500 milligram metformin"),
        ("i2", "2", "What is said of the dose of warfarin?", SENTENCE, "35 milligram"),
        ("i3", "2", LONG, SENTENCE, "35 milligram"),
        ("i4", "1", "Which glucose on the ward was measured last?", short[35][1], "125"),
    ]
    names = ("instruction_id", "person_id", "question", "evidence", "clinician_response")
    path = folder / "clinician-instruction-responses.tsv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow([*names, "filename", "submitter_specialty", "annotator_num"])
        for question in questions:
            writer.writerow([*question, f"{question[1]}.xml", "medicine", "Annotator_1"])
    return folder


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    xlm_roberta(folder / "models" / MODEL)
    with workspace_at(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_MODELS", str(folder / "models"))
        READERS.register("test_writer")(SpecWriter)
        yield write_cohort(folder / "data" / "cohorts" / "faults")
        READERS._factories.pop("test_writer")


class FaultRun:
    """What a run said: answers by (label, instruction), and their verdicts."""

    def __init__(self, cohort: Path, **protocol: object) -> None:
        table = {
            "kind": "answers",
            "data": str(cohort),
            "arms": ARMS,
            "readers": ["extractive"],
            "judges": ["token_overlap"],
            "protocol": {"right_tokens": RIGHT, "right_tokens_full": RIGHT_FULL, **protocol},
        }
        run = finished_run(table)
        self.answers = {(r["label"], r["instruction"]): r for r in rows(run, "answers")}
        self.verdicts = {(r["label"], r["instruction"]): r for r in rows(run, "verdicts")}
        assert len(self.answers) == len(self.verdicts) == 4 * len(ARMS)
        failed = [r["reason"] for r in self.answers.values() if r["status"] != "ok"]
        assert not failed

    def read(self) -> dict[tuple[str, str], Row]:
        """What was selected, shown and answered."""
        names = (
            "selection", "lines", "prompt", "cut", "question_survived", "evidence",
            "evidence_in_prompt", "answer",
        )  # fmt: skip
        return {key: {n: row[n] for n in names} for key, row in self.answers.items()}

    def judged(self) -> dict[tuple[str, str], Row]:
        """What judges were given and said."""
        names = ("outcome", "raw", "prompt_hash", "nan_evidence")
        return {key: {n: row[n] for n in names} for key, row in self.verdicts.items()}


@pytest.fixture(scope="module")
def right(cohort: Path) -> FaultRun:
    """The corrected run."""
    return FaultRun(cohort)


def differing(a: Mapping[Any, Row], b: Mapping[Any, Row]) -> set[Any]:
    return {key for key in a if a[key] != b[key]}


def context(row: Row) -> str:
    return row["prompt"][len(HEAD) : row["prompt"].index(MIDDLE)]


Touched = Callable[[str, Row], bool]
READING: dict[str, tuple[object, Touched]] = {
    "line_time": ("time", lambda label, row: row["record"] == "1"),
    "unit": ("event", lambda label, row: row["record"] == "2"),
    "recency_rule": (
        "events_first",
        lambda label, row: (
            row["record"] == "2" and not label.startswith(("full", "map_reduce", "llmlingua2"))
        ),
    ),
    "full_side": ("earliest", lambda label, row: label == "full window=700"),
    "full_characters": (CLIP, lambda label, row: label.startswith("full")),
    "truncation": (
        "right",
        lambda label, row: (
            row["prompt_tokens"] > {"full": RIGHT_FULL, "full window=700": 700}.get(label, RIGHT)
            or (label == "full window=700" and bool(row["cut"]))
        ),
    ),
    "map_reduce": ("flat", lambda label, row: label.startswith("map_reduce")),
    "llmlingua_characters": (SEEN, lambda label, row: label.startswith("llmlingua2")),
    "llmlingua_threshold": ("chunk", lambda label, row: label.startswith("llmlingua2")),
}
"""Fault → its value here, and which corrected answers it may touch."""
SELECTING: dict[str, tuple[str, Touched]] = {
    "scored_text": ("plain", lambda label, row: row["record"] == "2"),
    "unmatched": ("kept", lambda label, row: any(f["name"] == "kept of k" for f in row["trace"])),
    "ties": ("earliest", lambda label, row: True),
    "bm25_idf": ("rank_bm25", lambda label, row: True),
}
"""Fault of BM25 → its value, and which corrected answers of BM25 it may touch."""
REPORTING = {"intervals", "position"}
"""Choices of how figures are reported (test_stats_paired.py and test_auto_position.py turn
them on alone)."""
LOCATION = {"locate", "locate_threshold"}
"""Where evidence is located (tests/core/text/test_locator_errors.py turns them on)."""
JUDGING = {"evidence_join": "question_100", "response_characters": 200, "judge_prompt": "plain"}


def test_every_published_fault_is_tested():
    assert (
        set(parse("published").differences())
        == READING.keys() | SELECTING.keys() | JUDGING.keys() | GATE | REPORTING | LOCATION
    )


@pytest.mark.parametrize("fault", READING)
def test_a_single_reading_fault_changes_only_its_rows(cohort: Path, right: FaultRun, fault: str):
    value, touched = READING[fault]
    wrong = FaultRun(cohort, **{fault: value})
    may = {key for key, row in right.answers.items() if touched(key[0], row)}
    assert may and may != set(right.answers)
    changed = differing(right.read(), wrong.read())
    assert changed == may
    same = right.answers.keys() - changed
    assert {k: right.judged()[k] for k in same} == {k: wrong.judged()[k] for k in same}
    EFFECTS[fault](right, wrong, changed)


def _times(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    """The same lines say when of the day; a line of a context full before has lost its place."""
    for key in changed:
        timed = context(wrong.answers[key])
        assert timed.count("T08:30") >= timed.count("\n") + 1
        if key[0] != "full window=700":
            assert timed.replace("T08:30", "") == context(right.answers[key])
    assert right.answers["bm25", "i1"]["answer"].startswith("[2020-01-02] observation: P")
    assert wrong.answers["bm25", "i1"]["answer"].startswith("[2020-01-02T08:30] observation: P")


def _units(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    """A whole note is one unit: an answer is a note where it was a sentence."""
    key = ("bm25", "i2")
    assert SENTENCE in right.answers[key]["answer"] and FACT not in right.answers[key]["answer"]
    assert SENTENCE in wrong.answers[key]["answer"] and FACT in wrong.answers[key]["answer"]


def _buffer(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    """Five notes are taken whole where the corrected buffer ends at 128 tokens."""
    for key in changed:
        tokens = [outcome.answers[key]["buffer_tokens"] for outcome in (right, wrong)]
        assert 0 < tokens[0] <= 128 and tokens[0] < tokens[1]
        selected = [
            {k["id"] for k in outcome.answers[key]["selection"]} for outcome in (right, wrong)
        ]
        assert selected[0] < selected[1]


def _sides(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    for key in changed:
        assert right.answers[key]["cut"][0].startswith("e0")
        assert not wrong.answers[key]["cut"][0].startswith("e0")
    # The early fact is read only where the record's start is kept.
    key = ("full window=700", "i1")
    assert (right.answers[key]["evidence_in_prompt"], wrong.answers[key]["evidence_in_prompt"]) == (
        False, True,
    )  # fmt: skip


def _clips(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    for key in changed:
        assert len(context(wrong.answers[key])) <= CLIP
        assert wrong.answers[key]["question_survived"]
        if key[0] == "full":
            complete = context(right.answers[key])
            assert context(wrong.answers[key]) == complete[:CLIP]
    assert wrong.answers["full", "i4"]["evidence_in_prompt"] is False


def _cuts(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    lost = {key for key in changed if not wrong.answers[key]["question_survived"]}
    assert {label for label, _ in lost} == {label for label, _ in changed}
    for key in lost:
        assert wrong.answers[key]["answer"] == ""  # the extractive reader has no question
        assert wrong.verdicts[key]["outcome"] == "incorrect"
        if key[0] in ("full", "bm25"):
            assert right.answers[key]["prompt"].startswith(wrong.answers[key]["prompt"])
    assert all(row["question_survived"] for row in right.answers.values())
    short = {key for key in wrong.answers if key not in changed}
    assert any(key[0].startswith("map_reduce") for key in short)
    assert all(wrong.answers[key]["question_survived"] for key in short)


def _flat(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    """Folded, all of the record is told of within the budget; flat, summaries are left out."""
    for key in changed:
        folded, flat = right.answers[key], wrong.answers[key]
        assert (folded["selection_cut"], flat["selection_cut"] > 0) == (0, True)
        assert folded["lines"][0]["id"].startswith("e0")
        assert folded["evidence"] is flat["evidence"] is None
        assert folded["wording"] == "summaries"


def _seen(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    def last(row: Row) -> int:
        return max(line["event"] for line in row["selection"])

    for key in changed:
        assert last(wrong.answers[key]) < last(right.answers[key])
        assert wrong.answers[key]["wording"] == "compressed"


def _shares(right: FaultRun, wrong: FaultRun, changed: set[Any]) -> None:
    for key in changed:
        left = [
            sum(len(line["text"].split()) - 1 for line in run.answers[key]["lines"])
            for run in (right, wrong)
        ]
        facts = {fact["name"]: fact["value"] for fact in wrong.answers[key]["trace"]}
        assert left[0] == 90 and abs(left[1] - 90) <= int(facts["chunks read"]) / 2


EFFECTS: dict[str, Callable[[FaultRun, FaultRun, set[Any]], None]] = {
    "line_time": _times,
    "unit": _units,
    "recency_rule": _buffer,
    "full_side": _sides,
    "full_characters": _clips,
    "truncation": _cuts,
    "map_reduce": _flat,
    "llmlingua_characters": _seen,
    "llmlingua_threshold": _shares,
}


def _picks(row: Row) -> dict[str, float]:
    return {line["id"]: line["score"] for line in row["selection"] if line["kept_by"] != "recency"}


@pytest.mark.parametrize("fault", SELECTING)
def test_a_single_selecting_fault_changes_rows_of_bm25_alone(
    cohort: Path, right: FaultRun, fault: str
):
    value, touched = SELECTING[fault]
    wrong = FaultRun(cohort, **{fault: value})
    changed = differing(right.read(), wrong.read())
    bm25 = {k: row for k, row in right.answers.items() if k[0].startswith("bm25")}
    may = {key for key, row in bm25.items() if touched(key[0], row)}
    assert changed and changed <= may
    assert fault == "ties" or changed == may
    pairs = [(_picks(right.answers[key]), _picks(wrong.answers[key])) for key in changed]
    if fault == "unmatched":
        assert all(set(matched) < set(picked) for matched, picked in pairs)
        unmatched = {key: wrong.answers[key]["unmatched"] for key in changed}
        assert unmatched == {key: 20 - right.answers[key]["picked"] for key in changed}
        assert not any(row["unmatched"] for row in right.answers.values())
    elif fault == "ties":  # other units of the same scores
        assert all(sorted(a.values()) == sorted(b.values()) for a, b in pairs)
        assert all(min(b.keys() - a.keys()) < max(a.keys() - b.keys()) for a, b in pairs)
    else:
        assert all(a != b for a, b in pairs)


def test_evidence_joined_on_a_cut_question_judges_long_questions_on_nan(
    cohort: Path, right: FaultRun
):
    wrong = FaultRun(cohort, evidence_join="question_100")
    assert wrong.read() == right.read()
    changed = differing(right.judged(), wrong.judged())
    assert changed == {key for key in right.answers if key[1] == "i3"}
    assert all(wrong.verdicts[key]["nan_evidence"] for key in changed)
    assert right.verdicts["bm25", "i3"]["outcome"] == "correct"
    assert wrong.verdicts["bm25", "i3"]["outcome"] == "incorrect"
    assert wrong.verdicts["bm25", "i3"]["raw"] == "0 of 1 words"


def test_a_judge_limited_to_200_characters_misses_later_text(cohort: Path, right: FaultRun):
    wrong = FaultRun(cohort, response_characters=200)
    assert wrong.read() == right.read()
    changed = differing(right.judged(), wrong.judged())
    assert changed == {key for key, row in right.answers.items() if len(row["answer"]) > 200}
    key = ("bm25", "i2")
    assert key in changed and "35 milligram" in right.answers[key]["answer"][200:]
    assert (right.verdicts[key]["outcome"], wrong.verdicts[key]["outcome"]) == (
        "correct",
        "incorrect",
    )


def test_a_plain_judge_prompt_touches_no_answer_and_no_verdict_of_a_rule(
    cohort: Path, right: FaultRun
):
    """What it does to language models: tests/core/judges/test_judges_language_model.py."""
    plain = FaultRun(cohort, judge_prompt="plain")
    assert plain.read() == right.read() and plain.judged() == right.judged()
    assert {r["key"] for r in plain.answers.values()} == {r["key"] for r in right.answers.values()}


def test_the_guide_lists_every_fault():
    guide = (Path(__file__).parents[3] / "docs" / "guide.md").read_text()
    section = guide.split("## Published faults")[1].split("\n## ")[0]
    for fault in parse("published").differences():
        assert f"`{fault}`" in section, fault
