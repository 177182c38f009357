"""SQuAD-shaped JSON and C-CDA documents become records."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from midchart.core.errors import DataError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort
from midchart.core.text import event_text
from midchart.core.text.prompt import NOT_DOCUMENTED

COVIDQA = Path(__file__).parents[4] / "shared" / "data" / "covidqa_dev"
CONTEXT = "Line one.\nThe virus spreads by droplets, and by contact. Nothing else is known."


def article(*questions: Any) -> dict[str, Any]:
    return {"data": [{"title": "A/1", "paragraphs": [{"context": "First."},
            {"context": CONTEXT, "qas": list(questions)}]}]}  # fmt: skip


def asked(text: str, start: int, **fields: Any) -> dict[str, Any]:
    return {"question": "How does it spread?", "id": 7,
            "answers": [{"text": text, "answer_start": start}], **fields}  # fmt: skip


@pytest.mark.parametrize("shift", [0, -1, 20])
def test_evidence_is_at_its_offset_or_near_it(tmp_path: Path, shift: int) -> None:
    start = CONTEXT.index("by droplets") + shift
    (tmp_path / "a.json").write_text(json.dumps(article(asked(" by droplets", start))))
    cohort = open_cohort(tmp_path)
    gold = cohort.gold["7"]
    (span,) = gold.spans
    events = cohort.records["A-1"].events
    assert event_text(events[span.event])[span.start : span.end] == "by droplets" == gold.answer
    assert gold.exact
    assert gold.order is not None


def test_questions_that_cannot_be_used_are_named_and_impossible_ones_have_no_evidence(
    tmp_path: Path,
) -> None:
    impossible = {"question": "When?", "id": 8, "answers": [], "is_impossible": True}
    questions = (asked("by bats", 3), {"answers": 5}, {"question": "x", "answers": []}, impossible)
    (tmp_path / "a.json").write_text(json.dumps(article(*questions)))
    cohort = open_cohort(tmp_path)
    assert [i.id for i in cohort.instructions] == ["8"]
    assert cohort.gold["8"].answer == NOT_DOCUMENTED
    reasons = [skip.reason for skip in cohort.skipped]
    assert [next(f"question {n}" for n in range(1, 4) if f"question {n} " in r) for r in reasons]
    assert len(reasons) == 3


def test_questions_of_one_id_get_short_ids_of_their_own(tmp_path: Path) -> None:
    place = CONTEXT.index("by droplets")
    document = article()
    document["data"] += article(*([asked("by droplets", place)] * 300))["data"] * 2
    (tmp_path / "a.json").write_text(json.dumps(document))
    ids = [instruction.id for instruction in open_cohort(tmp_path).instructions]
    assert len(set(ids)) == 600
    assert max(map(len, ids)) < 12


@pytest.mark.parametrize("text", ['{"data": 3, "paragraphs": 1}', '{"data": [{"paragraphs": '])
def test_file_of_another_shape_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError) as refused:
        open_cohort(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(not COVIDQA.is_dir(), reason="the open samples are not here")
def test_every_question_of_the_open_sample_is_read() -> None:
    report = check_cohort(open_cohort(COVIDQA))
    assert (report["instructions"], len(report["positions"]), report["skipped"]) == (841, 841, [])


CCDA = """<?xml version="1.0"?>
<ClinicalDocument xmlns="urn:hl7-org:v3">
 <effectiveTime value="201203041530-0500"/>
 <recordTarget><patientRole><id extension="{id}"/><patient>
  <administrativeGenderCode displayName="Female"/><birthTime value="19500102"/>
 </patient></patientRole></recordTarget>
 <author><assignedAuthor><assignedPerson><name><given>Ann</given> <family>Wu</family></name>
 </assignedPerson></assignedAuthor></author>
 <component><structuredBody>
  <component><section><code code="48765-2"/><title>Allergies</title>
   <text><table><thead><tr><th>Substance</th><th>Reaction</th></tr></thead>
    <tbody><tr><td>Penicillin</td><td>Hives</td></tr></tbody></table></text></section></component>
  <component><section><title>Plan</title><text><list><item>Rest</item><item>Fluids</item></list>
   </text><component><section><title>Later</title><text>Call.</text></section></component>
  </section></component>
 </structuredBody></component>
</ClinicalDocument>"""


def test_sections_of_a_clinical_document_are_notes(tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_text(CCDA.format(id="p9"))
    (tmp_path / "bad.xml").write_text("<ClinicalDocument><unclosed></ClinicalDocument>")
    bomb = '<!DOCTYPE x [<!ENTITY a "b">]>'
    (tmp_path / "bomb.xml").write_text(CCDA.format(id="p8").replace("\n<C", f"\n{bomb}\n<C"))
    cohort = open_cohort(tmp_path)
    record = cohort.records["p9"]
    assert cohort.format == "ccda"
    assert [(e.name, e.text) for e in record.events] == [
        ("Allergies", "Substance: Penicillin; Reaction: Hives"),
        ("Plan", "- Rest\n- Fluids"),
        ("Later", "Call."),
    ]
    assert {e.time for e in record.events} == {datetime(2012, 3, 4, 15, 30)}
    assert record.events[0].code == "LOINC/48765-2"
    assert {e.author for e in record.events} == {"Ann Wu"}
    assert dict(record.facts) == {"birthdate": "1950-01-02", "gender": "Female"}
    assert {skip.file for skip in cohort.skipped} == {"bad.xml", "bomb.xml"}
