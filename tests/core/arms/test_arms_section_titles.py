"""Evidence that arms keep of public C-CDA documents, with and without section titles.

The 40 questions and their evidence were written by hand from the documents' narrative, before any
arm was run on them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from midchart.core.arms import ARMS
from midchart.core.gate.cohort_training import DEFAULT_GATES
from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol, parse
from midchart.core.types import Budget, Instruction, Record
from tests.support.samples import SAMPLES

QUESTIONS = Path(__file__).with_name("ccda_questions.tsv")
FOLDER = SAMPLES / "ccda_vendor"
TOKENS = 100


def _questions() -> list[tuple[Record, str, str, str]]:
    """Record, question, section and evidence of each row."""
    records: dict[str, Record] = {}
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for row in rows:
        if row["file"] not in records:
            (records[row["file"]],) = read_cohort(FOLDER / row["file"]).records.values()
    return [(records[r["file"]], r["question"], r["section"], r["evidence"]) for r in rows]


def retained(arm: str, protocol: Protocol, tokens: int = TOKENS) -> int:
    """Number of the questions of whose evidence the arm keeps the line, within ``tokens``."""
    built = ARMS.get(arm)(protocol, **_options(arm))
    count = 0
    for number, (record, question, section, evidence) in enumerate(_questions()):
        instruction = Instruction(str(number), record.id, question)
        selection = built.select(record, instruction, Budget(20, 0, tokens))
        names = {event.order: event.name for event in record.events}
        count += any(
            evidence in one.sentence.text and names[one.sentence.span.event] == section
            for one in selection.kept
        )
    return count


def _options(arm: str) -> dict[str, str]:
    return {"gate": str(DEFAULT_GATES[arm](Protocol()))} if arm == "qccs_plus" else {}


@pytest.mark.parametrize("arm", ["bm25", "hybrid", "dense", "mmr", "qccs_plus"])
@pytest.mark.slow
def test_titles_lose_no_evidence_of_documents_in_sections(arm: str) -> None:
    if not FOLDER.is_dir():
        pytest.skip("the public samples are not on this machine")
    plain = retained(arm, parse({"preset": "corrected", "scored_text": "plain"}))
    assert retained(arm, Protocol()) >= plain


def test_every_question_has_its_evidence_in_its_section() -> None:
    if not FOLDER.is_dir():
        pytest.skip("the public samples are not on this machine")
    for record, question, section, evidence in _questions():
        texts = [event.text for event in record.events if event.name == section]
        assert any(evidence in text for text in texts), question


if __name__ == "__main__":  # python -m tests.core.arms.test_arms_section_titles
    print(
        "arm: questions of 40 whose evidence is kept, plain and titled, at 50, 100, 200, 300 tokens"
    )
    for arm in ("bm25", "hybrid", "dense", "mmr", "qccs_plus"):
        untitled = parse({"preset": "corrected", "scored_text": "plain"})
        pairs = [
            (retained(arm, untitled, n), retained(arm, Protocol(), n)) for n in (50, 100, 200, 300)
        ]
        print(arm, "; ".join(f"{a} → {b}" for a, b in pairs))
