"""Leaks planted in kind ``forecast``: what its models are handed is compared with its cohort.

Every event's code states its day and its patient's number in binary, so that patient, last event
and label of a sequence are read from the sequence alone, and compared with the tables below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from midchart.core.cohorts.labelled import labelled
from midchart.core.errors import WorkFailed
from midchart.core.loaders.open import open_cohort
from midchart.core.training_experiments.forecast import examples as examples_module
from midchart.core.training_experiments.forecast import experiment
from midchart.core.training_experiments.forecast.examples import Examples, SplitExamples
from midchart.core.training_experiments.forecast.training import ForecastTrainer
from tests.support.run_helpers import allow, finished_run, workspace_at

PARTS = {"train": (3, 6, 9, 12, 15), "val": (1, 4, 7, 10, 13), "test": (2, 5, 8, 11, 14)}
"""The split file: patients of each part."""
LABEL_DAYS = (6, 12, 18, 24)
LAST_DAY = 30
BITS = 4
SPEC = {
    "kind": "forecast", "tasks": ["anemia"], "variants": ["softmax"], "baselines": ["constant"],
    "seeds": [1], "epochs": 1, "length": 160, "device": "cpu",
    "protocol": {"preset": "corrected", "resamples": 100},
}  # fmt: skip
Stated = tuple[int, int, int]
"""A label: patient, day of the last event before it, and whether it is positive."""


def positive(patient: int, day: int) -> int:
    return (patient * 7 + day) // 3 % 2


def stated(part: str) -> Counter[Stated]:
    return Counter((p, day, positive(p, day)) for p in PARTS[part] for day in LABEL_DAYS)


def write_cohort(folder: Path) -> Path:
    """EHRSHOT's layout: daily an event for the day and one for each bit of the patient's number."""
    assets = folder / "EHRSHOT_ASSETS"
    for inner in ("data", "splits", "benchmark/anemia"):
        (assets / inner).mkdir(parents=True)
    events = ["patient_id,start,end,code,value,unit,visit_id,omop_table"]
    labels = ["patient_id,prediction_time,label_type,value"]
    splits = ["split,omop_person_id"]
    for part, patients in PARTS.items():
        for id in patients:
            splits.append(f"{part},{id}")
            bits = [f"BIT/{bit}" for bit in range(BITS) if id >> bit & 1]
            for day in range(1, LAST_DAY + 1):
                at = f"2020-01-{day:02d}T08:00:00"
                events += [f"{id},{at},,{code},,,,x" for code in (*bits, f"DAY/{day}")]
            labels += [
                f"{id},2020-01-{day:02d}T12:00:00,categorical,{positive(id, day)}"
                for day in LABEL_DAYS
            ]
    (assets / "data/ehrshot.csv").write_text("\n".join(events) + "\n")
    (assets / "splits/person_id_map.csv").write_text("\n".join(splits) + "\n")
    (assets / "benchmark/anemia/labeled_patients.csv").write_text("\n".join(labels) + "\n")
    tag = 'name = "leaks"\nsynthetic = true\ntraining_allowed = true\n'
    (folder / "midchart.toml").write_text(tag)
    return allow(folder, "training_allowed")


@dataclass
class Handed:
    """What the trainer, the baseline and the evaluation got."""

    examples: list[Examples] = field(default_factory=list)
    evaluated: list[SplitExamples] = field(default_factory=list)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with workspace_at(tmp_path_factory.mktemp("leaks")) as folder:
        yield write_cohort(folder / "cohort")


def leaks(place: Path) -> list[str]:
    """Where the data handed to training and evaluation differ from the cohort's files."""
    handed = Handed()
    with pytest.MonkeyPatch.context() as patch:

        def trainer(self: ForecastTrainer, examples: Examples, *_: object) -> None:
            handed.examples.append(examples)
            raise WorkFailed("the data were looked at")

        patch.setattr(ForecastTrainer, "__init__", trainer)
        fit, evaluate = experiment.fit, experiment.evaluation_row
        patch.setattr(
            experiment,
            "fit",
            lambda name, data, seed: (handed.examples.append(data), fit(name, data, seed))[1],
        )
        patch.setattr(
            experiment,
            "evaluation_row",
            lambda part, *rest: (handed.evaluated.append(part), evaluate(part, *rest))[1],
        )
        finished_run({**SPEC, "data": str(place)})
    assert len(handed.examples) == 2 and handed.evaluated, "model and baseline"
    names = labelled(open_cohort(str(place))).store().words("code")
    problems: dict[str, None] = {}
    for data in handed.examples:
        parts = [("train", data.train), ("val", data.tuning), ("test", data.held_out)]
        code_of = data.vocabulary.code_of()
        for name, part in [*parts, *(("test", part) for part in handed.evaluated)]:
            read = Counter(read_rows(part, [names[code] for code in code_of]))
            problems |= dict.fromkeys(compared(name, read))
    return list(problems)


def read_rows(part: SplitExamples, words: list[str]) -> Iterator[Stated]:
    """Patient, last day and label of each sequence, from its tokens and label alone."""
    for tokens, label in zip(part.tokens, part.label, strict=True):
        codes = {words[token] for token in tokens.tolist() if token}
        days = [int(code.removeprefix("DAY/")) for code in codes if code.startswith("DAY/")]
        patient = sum(1 << int(c.removeprefix("BIT/")) for c in codes if c.startswith("BIT/"))
        yield patient, max(days), int(label)


def compared(name: str, read: Counter[Stated]) -> Iterator[str]:
    expected = stated(name)
    if read == expected:
        return
    others = {p for p, _, _ in read} - set(PARTS[name])
    if others:
        yield f"{name}: patients of another part"
    if any(day not in LABEL_DAYS for _, day, _ in read):
        yield f"{name}: events after the prediction time"
    if any(label != positive(p, day) for p, day, label in read if day in LABEL_DAYS):
        yield f"{name}: labels of others"
    yield f"{name}: other rows than the cohort's"


COLUMNS = ("tokens", "label", "patient", "index")


def joined(one: SplitExamples, other: SplitExamples, most: int | None = None) -> SplitExamples:
    """One part, and ``most`` rows of the other (None: all)."""
    parts = ((getattr(one, name), getattr(other, name)[:most]) for name in COLUMNS)
    return SplitExamples(*map(np.concatenate, parts))


CHANGES: dict[str, tuple[Callable[[Examples], dict[str, SplitExamples]], str]] = {
    "training on test patients": (
        lambda data: {"train": joined(data.train, data.held_out)},
        "train: patients of another part",
    ),
    "a test patient reused in training": (
        lambda data: {"train": joined(data.train, data.held_out, 4)},
        "train: patients of another part",
    ),
    "a training patient reused in the test": (
        lambda data: {"held_out": joined(data.held_out, data.train, 4)},
        "test: patients of another part",
    ),
    "parts swapped": (
        lambda data: {"train": data.held_out, "held_out": data.train},
        "train: patients of another part",
    ),
    "labels swapped in training": (
        lambda data: {"train": replace(data.train, label=1 - data.train.label)},
        "train: labels of others",
    ),
    "labels moved by one row in the test": (
        lambda data: {"held_out": replace(data.held_out, label=np.roll(data.held_out.label, 1))},
        "test: labels of others",
    ),
}
"""Leaks by name: parts of the examples that are others, and what is then wrong."""


def test_models_are_handed_the_cohort_s_own_rows(place: Path) -> None:
    assert {positive(p, d) for part in PARTS.values() for p in part for d in LABEL_DAYS} == {0, 1}
    assert leaks(place) == []


@pytest.mark.parametrize("leak", CHANGES)
def test_a_planted_leak_is_seen(place: Path, leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, problem = CHANGES[leak]
    load = experiment.examples

    def changed(*arguments, **options):
        data = load(*arguments, **options)
        return replace(data, **change(data))

    monkeypatch.setattr(experiment, "examples", changed)
    assert problem in leaks(place)


def test_events_after_the_prediction_time_are_seen(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather, two_days = examples_module.last_events, 2 * 24 * 3600 * 10**6

    def later(store, labels, *rest):
        return gather(store, replace(labels, time=labels.time + two_days), *rest)

    monkeypatch.setattr(examples_module, "last_events", later)
    assert "train: events after the prediction time" in leaks(place)


def test_a_split_that_shares_a_patient_trains_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's own guard: rows of a test patient among those chosen for training."""
    choose = examples_module.chosen_rows

    def chosen(labels, split, *rest):
        rows = choose(labels, split, *rest)
        extra = np.flatnonzero(labels.patient == PARTS["test"][0])[:2]
        return np.sort(np.append(rows, extra)) if split == "train" else rows

    monkeypatch.setattr(examples_module, "chosen_rows", chosen)
    with pytest.raises(AssertionError, match="model and baseline"):
        leaks(place)
