"""ArchEHR-QA, EHRNoteQA and MedCalc-Bench as their authors publish them, in small."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from midchart.core.errors import DataError
from midchart.core.loaders.open import open_cohort
from midchart.core.text.choices import correct_option

ARCHEHR = """<annotations>
  <case id="5"><patient_narrative>I passed out.</patient_narrative>
    <patient_question><phrase id="0">Was it necessary?</phrase></patient_question>
    <clinician_question>
Why was catheterization recommended?
    </clinician_question>
    <note_excerpt_sentences>
      <sentence id="0" paragraph_id="0">Brief Course:</sentence>
      <sentence id="1" paragraph_id="1">LVEF was
25%.</sentence>
      <sentence id="2" paragraph_id="1">Enzymes normal &amp; stable.</sentence>
    </note_excerpt_sentences></case>
  <case id="6"><clinician_question>Why?</clinician_question>
    <note_excerpt_sentences><sentence id="0">Home.</sentence></note_excerpt_sentences></case>
  <case id="7"><clinician_question>Why not?</clinician_question></case>
</annotations>"""


def label(sentence: str, relevance: str) -> dict[str, str]:
    return {"sentence_id": sentence, "relevance": relevance}


def archehr(folder: Path, key: object) -> Path:
    (folder / "archehr-qa.xml").write_text(ARCHEHR)
    (folder / "archehr-qa_key.json").write_text(json.dumps(key))
    return folder


def test_archehr_qa_takes_essential_sentences_as_evidence(tmp_path: Path) -> None:
    labels = [label("0", "not-relevant"), label("1", "essential"), label("2", "supplementary")]
    key = [
        {"case_id": "5", "clinician_answer": "Low LVEF. |1|\nFine. |1, 2|", "answers": labels},
        {"case_id": "6", "answers": [label("0", "supplementary"), label("9", "essential")]},
    ]
    cohort = open_cohort(archehr(tmp_path, key))
    assert cohort.format == "archehr_qa" and list(cohort.records) == ["5", "6"]
    note = cohort.records["5"].events[0].text
    assert note == "Brief Course:\nLVEF was 25%. Enzymes normal & stable."
    gold = cohort.gold["case-5"]
    assert gold.snippets == ("LVEF was 25%.",) and gold.exact
    assert note[gold.spans[0].start : gold.spans[0].end] == "LVEF was 25%."
    assert gold.answer == "Low LVEF. Fine."
    assert cohort.instructions[0].question == "Why was catheterization recommended?"
    assert cohort.gold["case-6"].answer == "Home.", "supplementary where none is essential"
    assert [skip.reason[:6] for skip in cohort.skipped] == ["case 7"]
    assert any("1 labels of case 6" in warning for warning in cohort.warnings)


def test_archehr_qa_without_a_readable_key_has_no_evidence(tmp_path: Path) -> None:
    cohort = open_cohort(archehr(tmp_path, [{"case_id": 5}]))
    assert len(cohort.instructions) == 2 and not cohort.gold.get("case-5")
    assert cohort.skipped[0].file == "archehr-qa_key.json"
    (tmp_path / "archehr-qa_key.json").unlink()
    assert any("questions lack evidence" in one for one in open_cohort(tmp_path).warnings)
    (tmp_path / "archehr-qa.xml").write_text("<annotations><case id='1'>")
    with pytest.raises(DataError, match="well-formed"):
        open_cohort(tmp_path)


def choice(patient: object, **changes: object) -> dict[str, object]:
    choices = {f"choice_{letter}": f"option {letter}" for letter in "ABCDE"}
    return {
        "patient_id": patient,
        "question": "What was given?",
        "answer": "B",
        **choices,
        **changes,
    }


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


def test_ehrnoteqa_reads_choices_and_the_notes_of_mimic(tmp_path: Path) -> None:
    asked = [choice(11), choice(11, answer="E"), choice(12), choice(13), choice(11, answer="F")]
    (tmp_path / "EHRNoteQA.jsonl").write_text(lines(*asked, {"patient_id": 3}))
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(("note_id", "subject_id", "hadm_id", "charttime", "storetime", "text"))
    for subject, day in (("11", "02"), ("99", "03"), ("11", "01"), ("12", "04")):
        writer.writerow(
            (f"{subject}-{day}", subject, "7", f"2180-01-{day} 10:00:00", "", f'Note "{day}",\nend')
        )
    with gzip.open(tmp_path / "discharge.csv.gz", "wt") as file:
        file.write(table.getvalue())
    cohort = open_cohort(tmp_path)
    assert cohort.format == "ehrnoteqa" and list(cohort.records) == ["11", "12"]
    events = cohort.records["11"].events
    assert [event.text for event in events] == ['Note "01",\nend', 'Note "02",\nend']
    assert events[0].time is not None and events[0].visit_id == "7"
    assert [one.id for one in cohort.instructions] == ["11-q1", "11-q2", "12-q1"]
    first = cohort.instructions[1]
    gold = cohort.gold[first.id]
    assert correct_option(gold.answer, first.options) == 4 and not gold.snippets
    assert sorted(skip.line or 0 for skip in cohort.skipped) == [4, 5, 6]
    (tmp_path / "discharge.csv.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(DataError, match="cannot be read to its end"):
        open_cohort(tmp_path)
    (tmp_path / "discharge.csv.gz").unlink()
    with pytest.raises(
        DataError, match=r"no notes of the patients .* discharge\.csv\.gz into its folder"
    ):
        open_cohort(tmp_path)


def test_ehrnoteqa_as_its_authors_process_it_has_its_own_notes(tmp_path: Path) -> None:
    notes = {
        "note_1": "Patient ID : 1\nChartdate : 2180-05-06\nText.",
        "note_2": "More.",
        "note_3": "",
    }
    rows = [choice("1", **notes, choice_A="", choice_E=""), choice("1", choice_B="")]
    (tmp_path / "EHRNoteQA_processed.jsonl").write_text(lines(*rows))
    cohort = open_cohort(tmp_path)
    events = cohort.records["1"].events
    assert [str(event.time) for event in events] == ["2180-05-06 00:00:00", "None"]
    # An empty choice leaves the letters of the others as they are; an answer that is one is none.
    assert [one.options for one in cohort.instructions] == [("option B", "option C", "option D")]
    assert cohort.gold["1-q1"].answer == "option B" and [one.line for one in cohort.skipped] == [2]


COLUMNS = ("Row Number", "Note ID", "Patient Note", "Question", "Relevant Entities",
           "Ground Truth Answer")  # fmt: skip
NOTE = "A 54-year-old man. Heart rate was 80.\r\nCreatinine 1.4 mg/dL, later 54.0 and 1.40 again."


def test_medcalc_finds_the_sentences_of_the_numbers_it_needs(tmp_path: Path) -> None:
    entities = (
        "{'sex': 'Male', 'age': [54, 'years'], \"Wells' creatinine\": [1.4, 'mg/dL'], 'x': True}"
    )
    rows = [
        (1, "pmc-1/2", NOTE, "What is the clearance?", entities, "25.2"),
        (2, "pmc-1/2", NOTE, "Again?", "{'heart rate': 80.0, 'weight': [99, 'kg']}", "3"),
        (3, "pmc-1/2", "Another text, 7.", "And now?", "not a dict(", "7"),
        (4, "pmc-9", NOTE, "", "{}", "7"),
    ]
    with (tmp_path / "test.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    cohort = open_cohort(tmp_path)
    assert cohort.format == "medcalc" and list(cohort.records) == ["pmc-1_2", "pmc-1_2-2"]
    assert [one.id for one in cohort.instructions] == ["mc1", "mc2", "mc3"]
    first, second, third = (cohort.gold[one.id] for one in cohort.instructions)
    assert [text[:12] for text in first.snippets] == ["A 54-year-ol", "Creatinine 1"]
    assert second.snippets == ("Heart rate was 80.",) and second.answer == "3"
    assert third.snippets == () and not first.exact
    assert len(cohort.skipped) == 1
    (tmp_path / "test.csv").write_text(",".join((*COLUMNS, "Note ID")))
    with pytest.raises(DataError, match="twice"):
        open_cohort(tmp_path)
