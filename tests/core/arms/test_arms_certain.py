"""The arm ``certain``: its thresholds, what it keeps, and when it guarantees nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import binomtest

from core import api
from core.arms.base import candidates
from core.arms.certain import (
    Certain,
    Thresholds,
    calibrate,
    split_coverage,
    token_positions,
    withdrawn,
)
from core.errors import DataError, InputError, MissingModel
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.types import Budget, Instruction
from tests.support.calibrations import calibration_file, drawn_questions
from tests.support.charts import chart
from tests.support.run_helpers import shared_vectors

PROTOCOL = Protocol()
TEXTS = [f"Potassium {3 + i / 10:.1f} on day {i}" for i in range(20)] + ["Metformin was stopped."]
RECORD = chart(*TEXTS, kind="x", digest="certain")
ASKED = Instruction("i1", "p1", "Was metformin stopped?")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_CACHE", str(shared_vectors(tmp_path_factory.mktemp("cache"))))
        yield


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Twelve patients of six notes; the third says what the question asks for."""
    folder = tmp_path_factory.mktemp("cohort")
    notes, questions = [], ["instruction_id\tfilename\tquestion\tevidence\tclinician_response"]
    for patient in range(12):
        drug = f"Metformin {500 + patient} mg was stopped."
        texts = [f"Sodium {130 + patient} on day {day}." for day in range(5)]
        for day, text in enumerate([*texts[:2], drug, *texts[2:]]):
            note = {"patient_id": f"p{patient}", "time": f"2015-01-0{day + 1}", "text": text}
            notes.append(json.dumps(note))
        questions.append(f"q{patient}\tp{patient}\tWhich drug was stopped?\t{drug}\tmetformin")
    (folder / "notes.jsonl").write_text("\n".join(notes), "utf-8")
    (folder / "questions.tsv").write_text("\n".join(questions), "utf-8")
    return open_cohort(str(folder))


def trace_of(selection) -> dict[str, str]:
    return dict(selection.trace)


def test_a_sentence_is_kept_where_its_rank_is_within_the_threshold_of_its_band(tmp_path):
    arm = Certain(PROTOCOL, calibration_file(tmp_path / "c.json", PROTOCOL, drawn_questions(400)))
    pool = candidates(RECORD, None, PROTOCOL)
    kind, largest = arm.thresholds(pool).by_band
    assert kind == "band"
    ranks, bands = -arm.score(pool, ASKED), [api.band_of(p) for p in token_positions(pool)]
    expected = {
        s.id
        for s, rank, band in zip(pool.sentences, ranks, bands, strict=True)
        if rank <= largest[band]
    }
    selection = arm.select(RECORD, ASKED, Budget(1, 0))
    assert {entry.sentence.id for entry in selection.kept} == expected
    assert "e20" in expected, "both rankings put the sentence of the question first"
    assert 0 < len(expected) < len(TEXTS)


@pytest.mark.parametrize(
    ("patients", "kind"), [(400, "band"), (60, "middle or edge"), (10, "record")]
)
def test_few_patients_share_thresholds_of_wider_bands(patients, kind):
    assert Thresholds(drawn_questions(patients, each=1), 0.1).by_band[0] == kind


def test_the_threshold_of_a_patient_comes_from_all_others(tmp_path):
    questions = drawn_questions(12)
    same_patient = {**questions[0], "patient": RECORD.digest, "rank": 1e6}
    file = calibration_file(tmp_path / "c.json", PROTOCOL, [*questions, *[same_patient] * 50])
    pool = candidates(RECORD, None, PROTOCOL)
    assert Certain(PROTOCOL, file).thresholds(pool).questions == questions


def test_the_trace_says_what_is_guaranteed_and_whether_the_record_may_not_hold_it(tmp_path):
    arm = Certain(PROTOCOL, calibration_file(tmp_path / "c.json", PROTOCOL))
    trace = trace_of(arm.select(RECORD, ASKED, Budget()))
    assert trace["guarantee"] == "the evidence is kept with probability 90.0 % or more"
    assert trace["record may not hold it"].startswith("no")
    other = Instruction("i2", "p1", "Which painter made the triptych in the harbour chapel?")
    assert trace_of(arm.select(RECORD, other, Budget()))["record may not hold it"].startswith("yes")
    cut = arm.select(RECORD, ASKED, Budget(1, 0, tokens=8))
    assert trace_of(cut)["guarantee"].startswith("withdrawn: the token budget left out")


def test_coverage_over_halves_of_the_patients_is_what_was_asked():
    coverage = split_coverage({"questions": drawn_questions(120, each=4)}, 0.1, splits=500)
    assert 0.9 <= coverage["coverage"] <= 0.95
    exact = binomtest(round(60 * coverage["coverage"]), 60).proportion_ci(0.95, "exact")
    assert (coverage["low"], coverage["high"]) == (exact.low, exact.high)
    assert split_coverage({"questions": drawn_questions(10)}, 0.1)["coverage"] is None


def test_a_cohort_is_calibrated_and_its_own_patients_are_not_refused(cohort, tmp_path):
    file = tmp_path / "ward.json"
    calibration = calibrate(cohort, PROTOCOL, file)
    text = file.read_text("utf-8")
    assert {q["patient"] for q in calibration["questions"]} <= {
        record.digest for record in map(cohort.records.__getitem__, cohort.records)
    }
    assert not any(i.question in text for i in cohort.instructions), "numbers and hashes alone"
    assert withdrawn(cohort, PROTOCOL, file) == ""
    instruction = cohort.instructions[0]
    record = cohort.records[instruction.record_id]
    selection = api.select(cohort, record, instruction, "certain", PROTOCOL)
    assert "other patients of" in trace_of(selection)["calibrated on"]
    assert trace_of(selection)["guarantee"].startswith("the evidence is kept")


def test_the_guarantee_is_withdrawn_for_patients_unlike_those_of_the_calibration(cohort, tmp_path):
    unlike = [{**q, "best": 0.02 + q["best"] / 100} for q in drawn_questions(40)]
    file = Path(calibration_file(tmp_path / "other.json", PROTOCOL, unlike))
    reason = withdrawn(cohort, PROTOCOL, file)
    assert reason.startswith("the best cosine of 12 patients is unlike that of the 40")
    record = cohort.records[cohort.instructions[0].record_id]
    arm = Certain(PROTOCOL, str(file), withdrawn=reason)
    selection = arm.select(record, cohort.instructions[0], Budget())
    assert trace_of(selection)["guarantee"] == f"withdrawn: {reason}"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": "another"}, InputError, "another model"),
        ({"protocol": {"unit": "event"}}, InputError, "another protocol"),
        ({"questions": drawn_questions(5)}, InputError, "5 other patients"),
        ({"questions": [{"patient": 1}]}, DataError, "is missing or wrong"),
    ],
)
def test_a_calibration_that_does_not_fit_is_refused(tmp_path, change, error, message):
    file = Path(calibration_file(tmp_path / "c.json", PROTOCOL))
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(error, match=message):
        Certain(PROTOCOL, str(file)).select(RECORD, ASKED, Budget())


@pytest.mark.parametrize("options", [{}, {"calibration": "nowhere.json"}])
def test_a_missing_calibration_names_the_command(options):
    with pytest.raises(MissingModel, match="core calibrate"):
        Certain(PROTOCOL, **options)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0, "0.1"])
def test_alpha_is_a_probability(tmp_path, alpha):
    with pytest.raises(InputError, match="between 0 and 1"):
        Certain(PROTOCOL, calibration_file(tmp_path / "c.json", PROTOCOL), alpha=alpha)
