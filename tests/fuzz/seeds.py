"""Small valid inputs of every format, with its details: what the mutators change."""

from __future__ import annotations

import base64
import gzip
import io
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from tests.fuzz.mutate import CANARY
from tests.support.event_files import write_ehrshot, write_meds
from tests.support.run_helpers import write_cohort

Files = dict[str, bytes]
"""Path in a cohort's folder → content."""

NOTE = f"Seen by {CANARY}. Warfarin 5 mg daily. Glucose 7.1 mmol/L on 3 March."
TSV_HEADER = "instruction_id\tfilename\tquestion\tevidence\tclinician_response\tannotator_num\tevidence_spans"
MANIFEST = b"""name = "ward"
source = "hospital"
licence = "none"
training_allowed = false
external_services_allowed = false
deidentified = "yes"
synthetic = true
"""


def questions(record: str) -> bytes:
    """A table of two questions about a record."""
    rows = (
        f"i1\t{record}\tWhat dose of warfarin?\tWarfarin 5 mg daily\t5 mg\tAnnotator_1\t",
        f"i2\t{record}\tList the glucose values\tGlucose 7.1|||3 March\t{CANARY}\tAnnotator_2\t0:0-4",
    )
    return "\n".join((TSV_HEADER, *rows, "")).encode()


def _read(folder: Path) -> Files:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@cache
def _fhir_resources() -> tuple[dict[str, Any], ...]:
    def coded(text: str, system: str = "http://loinc.org", code: str = "1-1") -> dict[str, Any]:
        return {"coding": [{"system": system, "code": code, "display": text}], "text": text}

    def of(kind: str, **fields: Any) -> dict[str, Any]:
        return {
            "resourceType": kind,
            "id": f"{kind.lower()}1",
            "subject": {"reference": "Patient/p1"},
            **fields,
        }

    html = base64.b64encode(
        f"<!doctype html><p>{NOTE}</p><table><tr><td>a</td></tr></table>".encode()
    ).decode()
    rtf = base64.b64encode((r"{\rtf1\ansi {\b " + NOTE + r"} \'e9\u8364 ?\par}").encode()).decode()
    return (
        {"resourceType": "Patient", "id": "p1", "birthDate": "1950-02", "gender": "female",
         "identifier": [{"system": "urn:mrn", "value": "77"}], "deceasedDateTime": "2021-01-01T10:00:00Z",
         "extension": [{"url": "http://hl7.org/us-core-race", "extension": [{"url": "text", "valueString": "x"}]}]},
        of("Observation", code=coded("Glucose"), effectiveDateTime="2020-01-02T08:00:00+01:00",
           valueQuantity={"value": 7.1, "unit": "mmol/L", "comparator": ">"}, interpretation=[coded("High")],
           referenceRange=[{"low": {"value": 3.5}, "high": {"value": 5.1}}],
           component=[{"code": coded("Systolic"), "valueQuantity": {"value": 120, "unit": "mmHg"}}],
           note=[{"text": NOTE}]),
        of("Condition", code=coded("Gout", "http://snomed.info/sct"), clinicalStatus=coded("resolved"),
           onsetPeriod={"start": "2019", "end": "2020-05"}, abatementDateTime="2020-06-01"),
        of("MedicationRequest", medicationReference={"reference": "#m"}, authoredOn="2020-02-01",
           contained=[{"resourceType": "Medication", "id": "m", "code": coded("Warfarin")}],
           dosageInstruction=[{"text": "5 mg daily", "timing": {"repeat": {"frequency": 1, "period": 1, "periodUnit": "d"}},
                               "doseAndRate": [{"doseQuantity": {"value": 5, "unit": "mg"}}]}]),
        {"resourceType": "Encounter", "id": "e1", "patient": {"identifier": {"system": "urn:mrn", "value": "77"}},
         "period": {"start": "2020-01-01", "end": "2020-01-05"}, "class": {"code": "IMP"}, "type": [coded("Inpatient")]},
        of("DocumentReference", date="2020-01-03", type=coded("Letter"),
           content=[{"attachment": {"contentType": "text/html; charset=utf-8", "data": html}},
                    {"attachment": {"contentType": "application/rtf", "data": rtf}},
                    {"attachment": {"url": "Binary/b1"}}], context={"encounter": [{"reference": "Encounter/e1"}]}),
        {"resourceType": "Binary", "id": "b1", "contentType": "text/plain", "data": base64.b64encode(NOTE.encode()).decode()},
        of("DiagnosticReport", code=coded("CT chest"), conclusion=NOTE, issued="2020-01-04T00:00:00.000Z",
           presentedForm=[{"contentType": "text/plain", "data": base64.b64encode(NOTE.encode()).decode()}]),
        of("Composition", type=coded("Summary"), date="2020",
           section=[{"title": "Plan", "text": {"div": f"<div>{NOTE}</div>"}, "section": [{"title": "Sub"}]}]),
        of("AllergyIntolerance", code=coded("Penicillin"), reaction=[{"manifestation": [coded("Hives")]}]),
        {"resourceType": "Claim", "id": "c1"},
    )  # fmt: skip


def fhir_lines() -> Files:
    """A bulk export as NDJSON."""
    lines = "\n".join(map(json.dumps, _fhir_resources())) + "\n"
    return {"all.ndjson": lines.encode(), "q.tsv": questions("p1")}


def fhir_bundle() -> Files:
    """The same as a bundle."""
    entries = [{"fullUrl": f"urn:uuid:{n}", "resource": r} for n, r in enumerate(_fhir_resources())]
    bundle = {"resourceType": "Bundle", "type": "collection", "entry": entries}
    return {"bundle.json": json.dumps(bundle).encode(), "q.tsv": questions("p1")}


def squad() -> Files:
    """Articles, paragraphs and questions."""
    asked = [
        {"question": "Which dose?", "id": 7, "answers": [{"text": "Warfarin 5 mg", "answer_start": NOTE.index("Warf")}]},
        {"question": "When?", "id": "8", "answers": [], "is_impossible": True},
    ]  # fmt: skip
    data = {"version": 2, "data": [
        {"title": "A/1", "paragraphs": [{"context": "First."}, {"context": NOTE, "qas": asked}]},
        {"paragraphs": [{"context": NOTE, "document_id": 5, "qas": asked[:1]}]}]}  # fmt: skip
    return {"a.json": json.dumps(data).encode(), "midchart.toml": MANIFEST}


def longhealth() -> Files:
    """One fictional patient."""
    question = {"No": 1, "question": "Which drug?", "correct": "B and C", "answer_a": "none", "answer_b": "Warfarin",
                "answer_c": "5 mg", "answer_location": {"text_0": {"start": [0.1], "end": [0.5]}}}  # fmt: skip
    patient = {"name": "Anna Example", "birthday": "1956-08-08", "diagnosis": "gout", "canaray": "x",
               "texts": {"text_0": f"Dear,\n\nseen June 15, 2018.\n\n{NOTE}", "text_1": NOTE},
               "questions": [question, {**question, "No": 2, "correct": "Warfarin"}]}  # fmt: skip
    return {"benchmark.json": json.dumps({"patient_01": patient, "patient_02": patient}).encode()}


def archehr_qa() -> Files:
    """Two cases with labelled sentences."""
    case = ('<case id="{0}"><clinician_question>Which dose?</clinician_question><note_excerpt_sentences>'
            '<sentence id="0" paragraph_id="0">Warfarin 5 mg.</sentence><sentence id="1" paragraph_id="1">Home.'
            "</sentence></note_excerpt_sentences></case>")  # fmt: skip
    labels = [
        {"sentence_id": "0", "relevance": "essential"},
        {"sentence_id": "1", "relevance": "supplementary"},
    ]
    key = [{"case_id": str(n), "clinician_answer": "5 mg |0|", "answers": labels} for n in (1, 2)]
    xml = f"<annotations>{case.format(1)}{case.format(2)}</annotations>"
    return {"archehr-qa.xml": xml.encode(), "archehr-qa_key.json": json.dumps(key).encode()}


def ehrnoteqa() -> Files:
    """Two questions, notes of one in a compressed table and of the other in its line."""
    asked = {"patient_id": 1, "question": "Which?", "answer": "B", "category": "drug",
             **{f"choice_{letter}": f"option {letter}" for letter in "ABCDE"}}  # fmt: skip
    lines = [asked, {**asked, "patient_id": 2, "note_1": f"Chartdate : 2180-01-01\n{NOTE}"}]
    table = f'note_id,subject_id,hadm_id,charttime,text\n1-D,1,7,2180-01-02,"{NOTE}"\n'
    return {"EHRNoteQA.jsonl": "\n".join(map(json.dumps, lines)).encode(),
            "discharge.csv.gz": gzip.compress(table.encode())}  # fmt: skip


def medcalc() -> Files:
    """Two rows about one note."""
    row = f"pmc-1,\"{NOTE}\",Which clearance?,\"{{'age': [54, 'years'], 'warfarin': [5.0, 'mg']}}\",25.2"
    head = "Row Number,Note ID,Patient Note,Question,Relevant Entities,Ground Truth Answer"
    return {"test.csv": f"{head}\n1,{row}\n2,{row}\n".encode()}


@cache
def _medalign() -> Files:
    with TemporaryDirectory() as folder:
        return _read(write_cohort(Path(folder) / "c", records=2, events=8))


def medalign() -> Files:
    """The release's XML with its table of questions."""
    responses = "filename\tquestion\tmodel_name\tmodel_response\tbinary_correct\n1.xml\tWhat dose of lisinopril does the patient take?\tm\t10\t1\n"
    return {
        **_medalign(),
        "clinician-reviewed-model-responses.tsv": responses.encode(),
        "midchart.toml": MANIFEST,
    }


def medalign_sample() -> Files:
    """The public sample's XML."""
    record = f"""<record><visit type="ER" start="10/08/2018 20:00"><day start="10/08/2018 20:00">
<person> Birth: 7/19/1966
  Race: White </person>
<measurement start="10/08/2018 9:05 PM"><code>[LOINC/8478-0] Mean pressure 122 mm Hg</code></measurement>
<drug_exposure start="10/08/2018 08:20 PM"><code>[RxNorm/6185] Labetalol 5mg</code></drug_exposure>
<note type="Letter" start="10/08/2018 20:10 PM"> {NOTE} <b>x</b></note>
<observation>[X/1] bare line 4</observation></day></visit></record>"""
    return {"a.xml": record.encode(), "clinician-instruction-responses.tsv": questions("a.xml")}


def ccda() -> Files:
    """A C-CDA document."""
    section = f'<component><section><code code="10164-2"/><title>History</title><text><paragraph>{NOTE}</paragraph><list><item>a</item></list><table><tr><td>x</td></tr></table></text></section></component>'
    document = (
        '<?xml version="1.0"?><ClinicalDocument xmlns="urn:hl7-org:v3"><effectiveTime value="20200102083000+0100"/>'
        '<recordTarget><patientRole><id extension="7" root="1.2"/><patient><administrativeGenderCode code="F"/>'
        '<birthTime value="19500201"/></patient></patientRole></recordTarget><component><structuredBody>'
        f"{section * 2}</structuredBody></component></ClinicalDocument>"
    )
    return {"d1.xml": document.encode(), "q.tsv": questions("7")}


_OMOP = {
    "PERSON": "person_id,year_of_birth,gender_concept_id,gender_source_value\n-7,1950,8532,F\n8,1960,0,M\n",
    "CONDITION_OCCURRENCE": (
        "person_id,condition_concept_id,condition_start_date,condition_end_date,condition_source_value,"
        "visit_occurrence_id\n-7,11,2019-01-01,2021-01-01,M10,5\n8,0,2019-01-01,,R51,\n"
    ),
    "DRUG_EXPOSURE": (
        "person_id,drug_concept_id,drug_exposure_start_date,sig,quantity,drug_source_value\n"
        "-7,0,2019-02-01,5 mg daily,30.0,Warfarin\n"
    ),
    "MEASUREMENT": (
        "person_id,measurement_concept_id,measurement_datetime,value_as_number,unit_source_value,range_low,"
        "range_high,measurement_source_value\n-7,12,2019-03-01 08:00:00,7.10,mmol/L,3.5,5.1,x\n"
    ),
    "NOTE": f'note_id,person_id,note_date,note_title,note_text\n1,-7,2019-04-01,Progress note,"{NOTE}\nEats well"\n',
    "DEATH": "person_id,death_date,cause_source_value\n-7,2020-01-01,Sepsis\n",
    "CONCEPT": "concept_id,concept_name,vocabulary_id,concept_code\n11,Gout,SNOMED,90560007\n12,Glucose,LOINC,2345-7\n",
}


def omop_csv() -> Files:
    """OMOP tables as CSV."""
    tables = {f"{name}.csv": text.encode() for name, text in _OMOP.items()}
    return {**tables, "q.tsv": questions("-7")}


@cache
def omop_parquet() -> Files:
    """OMOP tables as Parquet."""
    files = {"q.tsv": questions("-7")}
    for name, text in _OMOP.items():
        out = io.BytesIO()
        pd.read_csv(io.StringIO(text)).rename(columns=str.lower).to_parquet(out)
        files[f"{name.lower()}.parquet"] = out.getvalue()
    return files


@cache
def meds() -> Files:
    """Coded events as MEDS."""
    with TemporaryDirectory() as folder:
        return _read(write_meds(Path(folder)))


@cache
def ehrshot() -> Files:
    """Coded events in EHRSHOT's layout."""
    with TemporaryDirectory() as folder:
        return _read(write_ehrshot(Path(folder)))


def notes() -> Files:
    """Plain notes as CSV."""
    rows = f'patient_id,time,text,kind\n1,2020-01-01,"{NOTE}",note\n2,10/08/2018 8:00 PM,second,visit\n'
    return {"notes.csv": rows.encode(), "q.tsv": questions("1")}


def hl7v2() -> Files:
    """Messages of a result, a document and a vaccination."""
    head, pid = (
        "MSH|^~\\&|A|H|B|H|20210510||{}|{}|P|2.5",
        "PID|1||77^^^H^MR||Quarrie^Nell||19510203|F",
    )
    result = "OBR|1||1|2823-3^Potassium^LN\rOBX|1|NM|2823-3^Potassium^LN||6.3|mmol/L|3.5-5.1|HH|||F\rNTE|1||again"
    document = f"TXA|1|DS^Summary|TX|20210511\rOBX|1|TX|DS||{NOTE}||||||F"
    vaccine = "RXA|0|1|20210512||141^Influenza^CVX|999||||||||||||||RE"
    messages = [
        f"{head.format(kind, number)}\r{pid}\r{body}\r"
        for number, (kind, body) in enumerate(
            [("ORU^R01", result), ("MDM^T02", document), ("VXU^V04", vaccine)]
        )
    ]
    return {"a.hl7": "".join(messages).encode(), "q.tsv": questions("77")}


def synthea_csv() -> Files:
    """Two tables of Synthea's CSV export."""
    patients = "Id,BIRTHDATE,DEATHDATE,GENDER\n1,1951-02-03,,F\n"
    rows = "DATE,PATIENT,ENCOUNTER,CODE,DESCRIPTION,VALUE,UNITS\n2021-05-10T08:00:00Z,1,e,1-1,Potassium,6.3,mmol/L\n"
    return {
        "patients.csv": patients.encode(),
        "observations.csv": rows.encode(),
        "q.tsv": questions("1"),
    }


def fhir_xml() -> Files:
    """A bundle in XML."""
    text = (
        '<Bundle xmlns="http://hl7.org/fhir"><type value="collection"/><entry><resource><Patient><id value="p"/></Patient>'
        '</resource></entry><entry><resource><Observation><id value="o"/><status value="final"/><code><text value="Potassium"/>'
        '</code><subject><reference value="Patient/p"/></subject><valueQuantity><value value="6.3"/></valueQuantity>'
        "</Observation></resource></entry></Bundle>"
    )
    return {"a.xml": text.encode(), "q.tsv": questions("p")}


def note_lines() -> Files:
    """Plain notes as JSON lines."""
    lines = (
        {"patient_id": 1, "time": "2020-01-01", "text": NOTE, "kind": "note"},
        {"patient_id": "2", "text": "b"},
    )
    return {"notes.jsonl": "\n".join(map(json.dumps, lines)).encode(), "q.tsv": questions("1")}


def note_files() -> Files:
    """Plain notes as text files."""
    return {
        "1/2020-01-01.txt": NOTE.encode(),
        "1/b.txt": b"second",
        "2.txt": b"lone",
        "q.tsv": questions("1"),
    }


def kept_questions() -> Files:
    """A cohort with questions and evidence that people kept with it."""
    base = {"by": "ann", "time": "2026-01-01T00:00:00+00:00"}
    lines = (
        {"action": "question", "id": "own-1", "record": "1", "question": "Which dose?", **base},
        {"action": "answer", "id": "own-1", "answer": CANARY, "documented": True, **base},
        {"action": "evidence", "id": "own-1", "spans": [[0, 0, 4]], "texts": ["Pati"], **base},
        {
            "action": "evidence",
            "id": "own-1",
            "spans": [[0, 0, 9]],
            "texts": ["Patient 0"],
            **base,
            "by": "bob",
        },
        {"action": "question", "id": "own-2", "record": "2", "question": "When?", **base},
        {"action": "withdrawn", "id": "own-2", **base},
    )
    return {
        **_medalign(),
        "midchart.questions": ("\n".join(map(json.dumps, lines)) + "\n").encode(),
    }
