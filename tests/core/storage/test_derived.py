"""What is stored of a record equals what is computed, or is computed again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from midchart.core import text as texts
from midchart.core.arms import base as arms
from midchart.core.arms.base import BM25Index, candidates, index_of
from midchart.core.cohorts.records import build_record, entry
from midchart.core.protocol import Protocol
from midchart.core.storage import derived
from midchart.core.storage.derived import Derived
from midchart.core.text import evidence, sentences, words
from midchart.core.types import Record

NOTE = """Reason for visit
Chest pain since this morning. The troponin was 0.0{0} ng/ml, then 0.1{0}.

Plan: 1. Aspirin 81 mg. 2. Statin at night. \ud800 is half a character; so is İ.
Potassium    4.{0}    mmol/l
Sodium       13{0}    mmol/l
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path))
    forget()
    return tmp_path / derived.FOLDER


def forget() -> None:
    """What this process remembers; only files are left."""
    for remembered in (texts._recent, arms._cache, arms._indexes, evidence._indexes):
        remembered.clear()


@pytest.fixture
def record() -> Record:
    notes = [
        entry(datetime(2020, 1 + i % 12, 3), "note", name=f"Progress note {i}", text=NOTE.format(i))
        for i in range(60)
    ]
    readings = [
        entry(None, "measurement", name="Glucose", text=str(i), unit="mg/dl") for i in range(40)
    ]
    return build_record("p", [*readings, *notes], {}, "p.xml")


def files(folder: Path, kind: str = "") -> list[Path]:
    return sorted(folder.rglob(f"{kind}*.parquet"))


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(),
        Protocol(scored_text="plain", sentence_tokens=12),
        Protocol(unit="event", bm25_idf="rank_bm25", interval_events="dropped"),
    ],
)
def test_another_process_reads_what_this_one_computed(
    record: Record, protocol: Protocol, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(texts, "_LEAST_STORED", 1)
    monkeypatch.setattr(arms, "_LEAST_STORED", 1)
    plain = replace(record, lasting=False)
    expected = sentences(plain, protocol)
    index = BM25Index([words(s.scored_text) for s in expected], protocol.bm25_idf)
    assert not files(folder)
    forget()
    for computed in (True, False):
        if not computed:
            monkeypatch.setattr(texts, "cut_event", None)
            monkeypatch.setattr(
                arms,
                "BM25Index",
                type("Stored", (), {"from_columns": staticmethod(BM25Index.from_columns)}),
            )
        assert sentences(record, protocol) == expected
        again = index_of(candidates(record, None, protocol), protocol.bm25_idf)
        assert list(again.terms.items()) == list(index.terms.items())
        for question in ("troponin and potassium", "aspirin 81 İ", "absent"):
            assert (
                again.scores(words(question)).tobytes() == index.scores(words(question)).tobytes()
            )
            assert np.array_equal(again.holding(words(question)), index.holding(words(question)))
        forget()
    assert len(files(folder, "sentences")) == len(files(folder, "bm25")) == 1


def test_a_search_for_evidence_is_stored(
    record: Record, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(evidence, "_LEAST_STORED", 1)
    plain = replace(record, lasting=False)
    asked = [
        ("The troponin was 0.07 ng/ml", "nothing of the kind was ever written"),
        ("nothing of the kind was ever written",),
        ("Glucose: 7 mg/dl",),  # before every dated entry: no position
    ]
    expected = [evidence.locate(plain, snippets) for snippets in asked]
    assert expected[0].best and expected[1].best is None and expected[2].place
    assert expected[2].place.order is None
    assert [evidence.locate(record, snippets) for snippets in asked] == expected
    assert len(files(folder, "evidence")) == 3
    forget()
    monkeypatch.setattr(evidence, "_search", None)
    assert [evidence.locate(record, snippets) for snippets in asked] == expected


def test_a_damaged_file_is_computed_again(record: Record, folder: Path):
    expected = sentences(record, Protocol())
    (file,) = files(folder, "sentences")
    content = file.read_bytes()
    damaged = [
        content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        for at in range(0, len(content), 97)
    ]
    for other in (*damaged, content[:-1], content + b"\0", b""):
        file.write_bytes(other)
        forget()
        assert sentences(record, Protocol()) == expected
        assert file.read_bytes() == content


def test_other_code_computes_again_and_leaves_no_older_file(folder: Path):
    def value(version: str, number: int) -> int:
        stored = Derived("number", ("types",))
        object.__setattr__(stored, "_version", version)
        return stored.get(
            "abcd", ("one",), lambda: number, lambda n: {"n": [n]}, lambda c: int(c["n"][0])
        )

    assert [value("a" * 8, 1), value("a" * 8, 2), value("b" * 8, 3)] == [1, 1, 3]
    assert len(files(folder)) == 1 and "b" * 8 in files(folder)[0].name


def test_a_short_record_and_one_that_a_run_made_up_are_not_stored(record: Record, folder: Path):
    short = build_record("p", [entry(None, "note", text="Aspirin was given.")], {}, "p.xml")
    for one in (short, replace(record, lasting=False)):
        index_of(candidates(one, None, Protocol()), "non_negative")
        evidence.locate(one, ["Aspirin"])
    assert not files(folder)


def test_a_cache_that_cannot_be_written_loses_nothing(
    record: Record, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    expected = sentences(replace(record, lasting=False), Protocol())
    forget()
    monkeypatch.setattr(derived, "replacing", full)
    assert sentences(record, Protocol()) == expected
    assert not files(folder)


def test_sentences_up_to_a_cutoff_share_no_index(record: Record, folder: Path):
    protocol = Protocol()
    pools = [candidates(record, moment, protocol) for moment in (None, datetime(2020, 6, 1))]
    sizes = [index_of(pool, protocol.bm25_idf).size for pool in pools]
    assert sizes[0] > sizes[1] > 0
    assert len(files(folder, "bm25")) == 1
