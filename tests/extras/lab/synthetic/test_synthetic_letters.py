"""Letters and long questions in the synthetic cohorts: evidence stays exact, everything else
unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.cohorts.demo import DEMOS, Included, install
from midchart.core.loaders.open import open_cohort
from midchart.core.text import count_tokens, event_text, one_line
from midchart.core.types import Event
from midchart.extras.lab.demos import SIZES as SIZES_OF
from midchart.extras.lab.demos import generate
from midchart.extras.lab.synthetic.cohort import make_clinical, make_one
from midchart.extras.lab.synthetic.letters import LETTER, LETTERS, LONG, MIXED, Dress
from midchart.extras.lab.synthetic.notes import wrap
from tests.extras.lab.synthetic.test_synthetic import _R, _S
from tests.support.run_helpers import ROOT
from tests.support.synthetic_files import digest, evidence_spans, tsv_rows, xml_events

COHORTS: dict[str, Included] = {"demo": "clinical", "demo-letters": "letters"}


@pytest.fixture(scope="module", params=COHORTS)
def cohort(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("letters") / request.param
    install(COHORTS[request.param], out)
    return out


@pytest.fixture(scope="module")
def records(cohort: Path) -> dict[str, list[tuple[str, Event]]]:
    return {path.name: xml_events(path) for path in sorted((cohort / "ehrs").iterdir())}


@pytest.fixture(scope="module")
def questions(cohort: Path) -> list[dict[str, str]]:
    return tsv_rows(cohort / "clinician-instruction-responses.tsv")


@given(st.text("ab .,-\n", max_size=400), st.integers(1, 80))
def test_wrapping_changes_blanks_to_line_ends_and_nothing_else(text: str, columns: int) -> None:
    wrapped = wrap(text, columns)
    assert len(wrapped) == len(text)
    for before, after in zip(text, wrapped, strict=True):
        assert before == after or (before, after) == (" ", "\n")
    for line in wrapped.split("\n"):
        assert len(line) <= columns or " " not in line.strip(" ")[columns:-1] or line[0] == " "


@pytest.mark.parametrize("kind", DEMOS)
def test_the_generator_makes_the_included_cohort_byte_for_byte(tmp_path: Path, kind: str) -> None:
    """After a change of a table: ``python -m midchart.extras.lab.demos``."""
    installed, generated = tmp_path / "installed", tmp_path / "generated"
    counts = install(kind, installed)
    assert counts == generate(kind, generated, None, None, 42, None)
    assert digest(installed) == digest(generated)


@pytest.mark.slow
def test_a_process_of_other_hash_salt_and_time_zone_writes_the_same_bytes(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from midchart.extras.lab.synthetic.cohort import make_clinical; "
        "from midchart.extras.lab.synthetic import letters; "
        "[make_clinical(pathlib.Path(sys.argv[1]) / name, 2, dress=getattr(letters, name)) "
        "for name in ('MIXED', 'LETTERS')]"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "process")],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo"},
        check=True,
    )
    for name, dress in (("MIXED", MIXED), ("LETTERS", LETTERS)):
        make_clinical(tmp_path / name, 2, dress=dress)
        assert digest(tmp_path / name) == digest(tmp_path / "process" / name)


def test_a_cohort_without_letters_has_the_bytes_that_examinations_were_published_on(
    tmp_path: Path,
) -> None:
    make_clinical(tmp_path, 4, 300, 9001)
    assert digest(tmp_path) == "0e1fc88249ca31eff86361631fb700505d0152299a59a72aa17ca874f6096729"


def test_evidence_is_at_its_span_and_nowhere_else(questions, records) -> None:
    for row in questions:
        texts = [event_text(event) for _, event in records[row["filename"]]]
        snippets = row["evidence"].split("|||")
        spans = evidence_spans(row)
        assert len(spans) == len(snippets) >= 1
        counts = Counter(snippets)
        for (order, start, end), snippet in zip(spans, snippets, strict=True):
            assert one_line(texts[order][start:end]) == snippet
            assert sum(one_line(text).count(snippet) for text in texts) == counts[snippet]


def test_some_evidence_is_broken_by_a_line_end(questions, records) -> None:
    broken = sum(
        "\n" in event_text(records[row["filename"]][order][1])[start:end]
        for row in questions
        for order, start, end in evidence_spans(row)
    )
    assert broken >= 10


def test_a_quarter_of_the_questions_is_longer_than_the_published_join_reads(questions) -> None:
    long = [row for row in questions if len(row["question"]) > LONG]
    assert abs(len(long) - len(questions) / 4) < 1
    each = Counter(row["task_type"] for row in long)
    assert max(each.values()) - min(each.values()) <= 1 and len(each) == 3
    assert len({row["domain"] for row in long}) == 4
    for row in questions:
        r, s = bool(_R.search(row["question"])), bool(_S.search(row["question"]))
        assert ("R" if r else "S" if s else "Rn") == row["task_type"], row["question"]


def test_the_cohort_opens_with_every_piece_of_evidence_in_place(cohort, questions) -> None:
    opened = open_cohort(cohort)
    assert all(opened.gold[one.id].spans for one in opened.instructions)
    assert (len(opened.gold), opened.skipped, opened.warnings) == (len(questions), [], [])


def test_letters_are_wrapped_at_seventy_two_to_eighty_columns(cohort, records) -> None:
    texts = [event.text for events in records.values() for _, event in events]
    letters = [text for text in texts if "\n\nDear Dr. " in text]
    only = cohort.name == "demo-letters"
    assert len(letters) == len(texts) if only else 40 < len(letters) < len(texts)
    for text in letters:
        assert "With kind regards,\n" in text
        assert max(map(len, text.split("\n"))) <= 80


def test_records_of_letters_are_few_and_long() -> None:
    sizes: list[int] = []
    for index in range(1000, 1002):
        patient = make_one(index, SIZES_OF["letters"][1], dress=LETTERS)
        assert {item.name for item in patient.events} == {LETTER}
        assert 6 <= len(patient.events) <= 18
        sizes.append(sum(count_tokens(item.text) for item in patient.events))
    assert 24_000 < sum(sizes) / len(sizes) < 36_000


def test_letters_change_no_fact_and_no_answer() -> None:
    plain, mixed = make_one(6), make_one(6, dress=Dress(letters=True))
    assert [a.fact.question for a in plain.asked] == [a.fact.question for a in mixed.asked]
    assert [[row[3] for row in a.evidence] for a in plain.asked] == [
        [row[3] for row in a.evidence] for a in mixed.asked
    ]
    assert any(a.text != b.text for a, b in zip(plain.events, mixed.events, strict=True))
