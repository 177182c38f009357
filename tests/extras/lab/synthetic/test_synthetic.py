"""The synthetic clinical cohort on disk: reproducible, exact spans, uniform by design."""

from __future__ import annotations

import json
import re
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from midchart.core.errors import InputError
from midchart.core.types import Event
from midchart.extras.lab.synthetic.cohort import make_clinical, make_one
from midchart.extras.lab.synthetic.questions import decile_of
from tests.support.synthetic_files import evidence_spans, tsv_rows, xml_events

PATIENTS = 40


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synthetic") / "demo"
    make_clinical(out, PATIENTS)
    return out


@pytest.fixture(scope="module")
def records(cohort: Path) -> dict[str, list[tuple[str, Event]]]:
    return {p.name: xml_events(p) for p in sorted((cohort / "ehrs").iterdir())}


@pytest.fixture(scope="module")
def questions(cohort: Path) -> list[dict[str, str]]:
    return tsv_rows(cohort / "clinician-instruction-responses.tsv")


def test_the_keys_of_an_answer_are_in_its_evidence():
    for index in range(PATIENTS):
        for asked in make_one(index).asked:
            evidence = " ".join(text for *_, text in asked.evidence)
            assert asked.fact.keys
            for key in asked.fact.keys:
                assert key in evidence or key.lower() in evidence.lower()
            assert any(key.lower() in asked.fact.answer.lower() for key in asked.fact.keys)


def test_wrong_answers_exist_and_differ_and_ids_are_unique(questions):
    for index in range(PATIENTS):
        for asked in make_one(index).asked:
            wrong = [text for text in asked.fact.wrong if text != asked.fact.answer]
            assert wrong and all(text.strip() for text in wrong)
    assert len({row["instruction_id"] for row in questions}) == len(questions) == 3 * PATIENTS


def test_gold_is_uniform_over_deciles_domains_and_task_types(questions, records):
    deciles: Counter[int] = Counter()
    cells: Counter[tuple[int, str, str]] = Counter()
    for row in questions:
        order = evidence_spans(row)[0][0]
        last = len(records[row["filename"]]) - 1
        # Independent of the generator's own rule: left-closed tenths, last one closed.
        decile = max(d for d in range(10) if order * 10 >= d * last) if order < last else 9
        assert decile == decile_of(order, last + 1)
        deciles[decile] += 1
        cells[decile, row["domain"], row["task_type"]] += 1
    assert deciles == dict.fromkeys(range(10), 12)
    # 10 deciles × 4 domains × 3 task types = 120 cells, each filled once.
    assert set(cells.values()) == {1} and len(cells) == 120


_R = re.compile(r"^(does|has|is|was|are|did)\b|most recent|current", re.I)
_S = re.compile(r"^(summarize|provide|list|describe|show)\b|over the past|throughout", re.I)


def test_a_third_of_the_questions_shares_few_words_with_the_evidence(questions):
    def content(text: str) -> set[str]:
        return set(re.findall(r"[a-z]{5,}", text.lower()))

    single = [row for row in questions if row["task_type"] != "S"]
    shares = [
        len(content(row["question"]) & content(row["evidence"]))
        / max(len(content(row["question"])), 1)
        for row in single
    ]
    assert sum(share < 0.34 for share in shares) > len(shares) / 3


def test_files_have_the_format_of_the_release(cohort, questions, records):
    assert len(records) == PATIENTS
    manifest = tomllib.loads((cohort / "midchart.toml").read_text("utf-8"))
    assert manifest["synthetic"] is True and manifest["training_allowed"] is True
    assert manifest["external_services_allowed"] is True
    for path in (cohort / "ehrs").iterdir():
        data = path.read_bytes()
        assert b"\r" not in data
        root = ET.fromstring(data)
        assert root.tag == "eventstream" and path.stem == root.attrib["person_id"]
        for encounter in root.iter("encounter"):
            assert [child.tag for child in encounter] == [
                "person", "caresites", "providers", "events",
            ]  # fmt: skip
            stamps = [e.attrib["timestamp"] for e in encounter.iter("entry")]
            assert stamps == sorted(stamps)
            assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", s) for s in stamps)
            held = {p.attrib["provider_id"] for p in encounter.iter("provider")}
            assert {e.attrib["provider_id"] for e in encounter.iter("event")} <= held
    assert all(row["filename"] in records for row in questions)
    assert b'"NULL"' in b"".join(p.read_bytes() for p in (cohort / "ehrs").iterdir())


def test_responses_are_marked_simulated_and_follow_the_declared_effect(cohort, questions):
    responses = tsv_rows(cohort / "clinician-reviewed-model-responses.tsv")
    assert len(responses) == 6 * len(questions)
    assert {row["simulated"] for row in responses} == {"yes"}
    gold = {row["instruction_id"]: row for row in questions}
    for row in responses:
        right = gold[row["instruction_id"]]["clinician_response"] in row["model_response"]
        assert right == (row["binary_correct"] == "1")
    effect = json.loads((cohort / "simulated_effect.json").read_text("utf-8"))
    assert set(effect["models"]) == {row["model_name"] for row in responses}


def test_records_not_marked_synthetic_are_not_overwritten(tmp_path: Path):
    (tmp_path / "ehrs").mkdir()
    (tmp_path / "ehrs" / "1.xml").write_text("<eventstream person_id='1'/>")
    with pytest.raises(InputError, match="not known as an unchanged"):
        make_clinical(tmp_path, 1)
    assert (tmp_path / "ehrs" / "1.xml").exists()
    with pytest.raises(InputError):
        make_clinical(tmp_path / "new", 0)
