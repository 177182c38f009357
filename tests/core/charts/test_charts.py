"""A cohort of its chart store is the one of its files; what is stored equals what is computed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from midchart.core import config
from midchart.core import text as texts
from midchart.core.arms import base as arms
from midchart.core.arms.base import candidates, index_of
from midchart.core.charts.convert import FOLDER, sweep_charts
from midchart.core.charts.store import COHORT, ChartRecords, open_charts, write_charts
from midchart.core.errors import DataError
from midchart.core.loaders import ccda, hl7v2, plain_notes, worker
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import close_cohorts, open_cohort, read_cohort
from midchart.core.protocol import Protocol
from midchart.core.text import count_tokens, event_text, evidence, sentences, words
from midchart.core.types import Cohort, Manifest, Record
from tests.support.cases import EXPECTED, cases

NOTES = """patient_id,time,text
p,2020-03-01,"Chest pain since this morning. The troponin was 0.01 ng/ml, then 0.14.

Plan: 1. Aspirin 81 mg. 2. Statin at night. İ is one letter; 𐍈 is another.
Potassium    4.1    mmol/l"
p,,No date.
q,2020-07-01,No fever.
"""
QUESTIONS = """filename\tquestion\tevidence\tclinician_response
p\tTroponin?\tThe troponin was 0.01 ng/ml|||nothing of the kind was ever written\t0.01
p\tPotassium?\tnothing of the kind was ever written\t4.1
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    forget()
    return tmp_path / "cache" / FOLDER


def forget() -> None:
    """As in another process: files alone are left."""
    close_cohorts()
    for remembered in (texts._recent, arms._indexes, evidence._records):
        remembered._items.clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cohort").mkdir()
    (tmp_path / "cohort" / "notes.csv").write_text(NOTES)
    (tmp_path / "cohort" / "questions.tsv").write_text(QUESTIONS)
    return tmp_path / "cohort"


def stores(cache: Path) -> list[str]:
    return sorted(one.name for one in cache.iterdir() if one.is_dir())


def content(cohort: Cohort) -> dict[str, Any]:
    """Everything that a cohort holds; records that cannot be read and their questions left out."""
    records: dict[str, Record] = {}
    for id in cohort.records:
        try:
            records[id] = cohort.records[id]
        except DataError:
            continue
    asked = [one for one in cohort.instructions if one.record_id in records]
    return {
        "records": records,
        "aliases": {n: i for n, i in cohort.records.aliases.items() if i in records},
        "instructions": asked,
        "gold": {one.id: cohort.gold.get(one.id) for one in asked},
        "responses": [one for one in cohort.responses if one.instruction_id in {*map(_id, asked)}],
        "accounts": cohort.accounts,
        "unsettled": cohort.unsettled,
        "warnings": sorted(cohort.warnings),
        "skipped": sorted(map(str, cohort.skipped)),
        "others": (cohort.path, cohort.format, cohort.manifest, cohort.patient, cohort.labels),
    }


def _id(one: object) -> str:
    return getattr(one, "id", "")


def opened_twice(place: Path) -> None:
    """Hold a cohort, when it is converted and in another process, to what its files hold."""
    expected = content(read_cohort(place))
    for _ in range(2):
        forget()
        cohort = open_cohort(place)
        assert isinstance(cohort.records, ChartRecords)
        now = content(cohort)
        lost = [one for one in now["skipped"] if "questions about the record" in one]
        now["skipped"] = [one for one in now["skipped"] if one not in lost]
        assert now == expected
        counts = check_cohort(cohort)
        shown = [event_text(e) for record in now["records"].values() for e in record.events]
        assert (counts["events"], counts["tokens"]) == (len(shown), sum(map(count_tokens, shown)))


def places() -> list[Path]:
    """The cohort of a case folder of each format."""
    formats: dict[str, Path] = {}
    for case in cases():
        if "error" not in (text := (case / EXPECTED).read_text("utf-8")) and '"open"' not in text:
            formats.setdefault(case.parent.name, case)
    return [case / "input" for case in formats.values()]


@pytest.mark.parametrize("place", places(), ids=lambda place: place.parents[1].name)
def test_a_case_read_from_its_store_is_the_one_of_its_files(place: Path) -> None:
    if isinstance(open_cohort(place).records, ChartRecords):
        opened_twice(place)


@pytest.mark.parametrize(
    ("format", "module", "read"),
    [("ccda", ccda, "_read_document"), ("fhir", texts, "cut_event"), ("hl7v2", hl7v2, "Hl7Message"),
     ("medalign", texts, "cut_event"), ("plain_notes", plain_notes, "cell_text")],
)  # fmt: skip
def test_a_store_is_the_same_by_any_number_of_processes_and_with_a_former_one(
    format: str, module: ModuleType, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_WORTH_A_PROCESS", 1)
    inputs = [case / "input" for case in cases() if case.parent.name == format]
    place = max(inputs, key=lambda place: len(list(place.rglob("*"))))
    other = shutil.copytree(place, tmp_path / "other")
    *files, last = sorted(filter(Path.is_file, other.rglob("*")))
    shutil.copy(last, last.with_name(f"removed{last.suffix}"))
    shutil.copy(files[-1], last)
    files[0].unlink() if files[1:] else None
    stores: list[dict[str, bytes]] = []
    for n, (at, cores, former) in enumerate(
        [(other, 1, ""), (place, 1, ""), (place, 3, "0"), (place, 3, "1")]
    ):
        if n == 3:  # of the same files nothing is read again
            monkeypatch.setattr(module, read, None)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: range(cores))
        (folder := tmp_path / str(n)).mkdir()
        worker.convert_files(at, at, True, folder, tmp_path / former if former else None)
        stores.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert stores[0] != stores[1] == stores[2] == stores[3]


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(),
        Protocol(scored_text="plain", sentence_tokens=12),
        Protocol(unit="event", bm25_idf="rank_bm25", interval_events="dropped"),
    ],
)
def test_what_is_stored_of_a_record_equals_what_is_computed(
    protocol: Protocol, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = replace(open_cohort(folder).records["p"], analysed=None)
    asked = [("The troponin was 0.01 ng/ml", "nothing of the kind was ever written"), ("Statin",)]

    def computed(record: Record) -> list[Any]:
        index = index_of(candidates(record, None, protocol), protocol)
        question = words("troponin, aspirin, absent and İ")
        return [
            list(sentences(record, protocol)),
            list(index.terms.items()),
            index.scores(question).tobytes(),
            np.flatnonzero(index.holding(question)).tolist(),
            [evidence.locate(record, snippets, protocol) for snippets in asked],
            len(candidates(record, datetime(2020, 6, 1), protocol)),
        ]

    forget()
    expected = computed(plain)
    asked.pop()  # of what no question quotes nothing is stored
    forget()
    if protocol == Protocol():
        monkeypatch.setattr(texts, "cut_event", None)
        monkeypatch.setattr(evidence, "_Events", None)
    again = computed(open_cohort(folder).records["p"])
    assert again == [*expected[:4], expected[4][:1], *expected[5:]]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


@pytest.mark.parametrize("damage", [cut, Path.unlink, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("file", [COHORT, "events.arrow", "records.arrow"])
def test_a_damaged_store_is_made_again(
    file: str, damage: Callable[[Path], object], folder: Path, cache: Path
) -> None:
    expected = content(open_cohort(folder))
    (store,) = stores(cache)
    damage(cache / store / file)
    forget()
    assert content(open_cohort(folder)) == expected
    assert stores(cache) == [store]


def test_a_changed_file_makes_another_store_and_a_renamed_cohort_none(
    folder: Path, cache: Path
) -> None:
    open_cohort(folder)
    before = stores(cache)
    renamed = folder.rename(folder.with_name("renamed"))
    assert list(open_cohort(renamed).records) == ["p", "q"]
    assert stores(cache) == before
    (renamed / "notes.csv").write_text(NOTES.replace("No fever", "Fever"))
    assert open_cohort(renamed).records["q"].events[0].text == "Fever."
    assert len(stores(cache)) == len(before) and stores(cache) != before


def test_stores_of_cohorts_that_are_gone_and_unfinished_ones_are_removed(
    folder: Path, cache: Path
) -> None:
    cohorts = config.cohorts_folder()
    cohorts.mkdir(parents=True, exist_ok=True)
    open_cohort(folder)
    first = stores(cache)
    other = folder.with_name("other")
    other.mkdir()
    (other / "notes.csv").write_text(NOTES)
    open_cohort(other)
    assert len(stores(cache)) == 2 * len(first)
    other.rename(cohorts / "named-again")
    (cache / f".{first[0]}.0badcafe").mkdir()
    sweep_charts()
    assert len(stores(cache)) == 2 * len(first)
    (cohorts / "named-again" / "notes.csv").unlink()
    (cohorts / "named-again").rmdir()
    sweep_charts()
    assert stores(cache) == first


def test_limits_that_the_machine_lacks_are_named_by_the_check(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    write_charts(replace(read_cohort(folder), unconfined=("network", "programs")), store)
    stored = open_charts(store, str(folder), lambda *_: Manifest("notes"))
    assert stored is not None
    line = check_cohort(stored)["unconfined"]
    assert line.startswith("on this machine files are read without a limit on network, programs")
    assert check_cohort(replace(stored, unconfined=()))["unconfined"] is None
