"""The arm ``certain``: its thresholds, what it keeps, and when it guarantees nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from midchart.core import api
from midchart.core.arms.base import candidates
from midchart.core.errors import DataError, InputError
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.types import Budget, Instruction
from midchart.extras.lab.certain import (
    Certain,
    Threshold,
    calibrate,
    split_coverage,
    withdrawn,
)
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


def quantile(questions, alpha: float) -> float:
    """The smallest last rank that so large a share of n + 1 patients reaches, each question of a
    patient having the same part of the patient's weight."""
    each = Counter(q["patient"] for q in questions)
    for value in sorted(q["last_rank"] for q in questions):
        weight = sum(1 / each[q["patient"]] for q in questions if q["last_rank"] <= value)
        if weight >= (1 - alpha) * (len(each) + 1) - 1e-9:
            return value
    return float("inf")


def test_a_sentence_is_kept_where_its_rank_is_within_the_largest_quantile_of_a_band(tmp_path):
    questions = [{**q, "last_rank": min(q["last_rank"], 4.0)} for q in drawn_questions(400)]
    arm = Certain(PROTOCOL, calibration_file(tmp_path / "c.json", PROTOCOL, questions))
    pool = candidates(RECORD, None, PROTOCOL)
    assert arm.threshold(pool).by_band[0] == "band"
    bands = {api.band_of(q["position"]) for q in questions}
    of_bands = [
        quantile([q for q in questions if api.band_of(q["position"]) == band], 0.1)
        for band in bands
    ]
    of_sentences = [
        quantile([q for q in questions if (q["sentences"] > 1) == several], 0.1)
        for several in (True, False)
    ]
    largest = max(quantile(questions, 0.1), *of_bands, *of_sentences)
    ranks = -arm.score(pool, ASKED)
    expected = {s.id for s, rank in zip(pool.sentences, ranks, strict=True) if rank <= largest}
    selection = arm.select(RECORD, ASKED, Budget(1, 0))
    assert {entry.sentence.id for entry in selection.kept} == expected
    assert "e20" in expected, "both rankings put the sentence of the question first"
    assert 0 < len(expected) < len(TEXTS)


def test_the_threshold_of_a_patient_comes_from_all_others(tmp_path):
    questions = drawn_questions(12)
    same_patient = {**questions[0], "patient": RECORD.digest, "last_rank": 1e6}
    file = calibration_file(tmp_path / "c.json", PROTOCOL, [*questions, *[same_patient] * 50])
    pool = candidates(RECORD, None, PROTOCOL)
    assert Certain(PROTOCOL, file).threshold(pool).questions == questions


def test_the_trace_says_what_is_guaranteed_and_whether_the_record_may_not_hold_it(tmp_path):
    arm = Certain(PROTOCOL, calibration_file(tmp_path / "c.json", PROTOCOL))
    trace = trace_of(arm.select(RECORD, ASKED, Budget()))
    assert trace["guarantee"].startswith(
        "all pieces of the evidence are kept with probability 90.0 % or more, over patients"
    )
    assert "% of the tokens are kept" in trace["guarantee"]
    assert trace["record may not hold it"].startswith("no")
    other = Instruction("i2", "p1", "Which painter made the triptych in the harbour chapel?")
    assert trace_of(arm.select(RECORD, other, Budget()))["record may not hold it"].startswith("yes")
    cut = arm.select(RECORD, ASKED, Budget(1, 0, tokens=8))
    assert trace_of(cut)["guarantee"].startswith("withdrawn: the token budget left out")


def test_coverage_over_halves_of_the_patients_is_what_was_asked():
    coverage = split_coverage({"questions": drawn_questions(120, each=4)}, 0.1, splits=500)
    assert 0.9 <= coverage["coverage"] < coverage["any_piece"] < 1
    exact = binomtest(round(60 * coverage["coverage"]), 60).proportion_ci(0.95, "exact")
    assert (coverage["low"], coverage["high"]) == (exact.low, exact.high)
    assert split_coverage({"questions": drawn_questions(10)}, 0.1)["coverage"] is None


def simulated(rng: np.random.Generator, patients: int, name: str):
    """Questions of exchangeable patients: each has a difficulty, and one to four questions of one
    to three pieces; those of the middle third are harder to rank."""
    questions = []
    for patient in range(patients):
        hard = rng.exponential()
        for _ in range(rng.integers(1, 5)):
            at = rng.random(rng.integers(1, 4))
            ranks = 1 + rng.exponential(hard * np.where((at >= 0.3) & (at <= 0.7), 3, 1))
            questions.append(
                {"patient": f"{name} {patient}", "position": float(at[ranks.argmax()]),
                 "sentences": len(ranks), "first_rank": float(ranks.min()),
                 "last_rank": float(ranks.max()), "best": 0.5, "best_without": None}
            )  # fmt: skip
    return questions


@pytest.mark.slow
def test_all_pieces_of_a_new_patient_are_kept_as_often_as_promised_in_each_group_of_questions():
    """200 calibrations of 80 patients, each for a question of 40 new patients: three standard
    errors of 200 calibrations' means are below 1 point. Were the calibration of the piece that
    ranks first, all pieces would be kept less often than promised."""
    rng = np.random.default_rng(7)
    names = ("middle", "edge", "several", "one", "record")
    results_by_group: dict[str, list[tuple[bool, bool]]] = {name: [] for name in names}
    of_first: list[bool] = []
    for trial in range(200):
        calibrating = simulated(rng, 80, f"calibrating {trial}")
        threshold = Threshold(calibrating, 0.1)
        by_first = Threshold([{**q, "last_rank": q["first_rank"]} for q in calibrating], 0.1)
        groups: dict[tuple[str, str], list] = {}
        for question in simulated(rng, 40, f"new {trial}"):
            zone = "middle" if 0.3 <= question["position"] <= 0.7 else "edge"
            for name in (zone, "one" if question["sentences"] == 1 else "several", "record"):
                groups.setdefault((question["patient"], name), []).append(question)
        for (_, name), questions in groups.items():
            drawn = questions[rng.integers(len(questions))]
            results_by_group[name].append(threshold.keeps(drawn))
            of_first += [drawn["last_rank"] <= by_first.largest_rank] * (name == "record")
    for name, results in results_by_group.items():
        all_pieces, any_piece = np.mean(results, axis=0)
        assert 0.89 <= all_pieces <= any_piece, name
        assert (all_pieces == any_piece) == (name == "one")
    assert np.mean(of_first) < 0.88


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
    assert trace_of(selection)["guarantee"].startswith("all pieces of the evidence are kept")


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
        (
            {
                "questions": [
                    {
                        "patient": "1",
                        "position": 0.5,
                        "rank": 2.0,
                        "best": 0.5,
                        "best_without": None,
                    }
                ]
            },
            DataError,
            "sentences.* is missing or wrong.*midchart calibrate",
        ),
    ],
)
def test_a_calibration_that_does_not_fit_is_refused(tmp_path, change, error, message):
    file = Path(calibration_file(tmp_path / "c.json", PROTOCOL))
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(error, match=message):
        Certain(PROTOCOL, str(file)).select(RECORD, ASKED, Budget())
