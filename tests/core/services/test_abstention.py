"""How often readers answer without evidence: measured, shipped, and used for the default."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.errors import InputError
from midchart.core.services import abstention
from midchart.core.services.abstention import FILE, write_error_rates
from tests.support.run_helpers import finished_run

ARMS = [
    {"name": "oracle", "fill": True},
    {"name": "oracle", "fill": True, "evidence": False},
]
WORDS = ("allergy", "surgery", "smoking", "weight", "insulin", "fracture")


@pytest.fixture
def measured(workspace: Path) -> str:
    """A run over six patients whose notes answer the question in one line each."""
    folder = workspace / "data" / "cohorts" / "ward"
    folder.mkdir(parents=True)
    for i, word in enumerate(WORDS):
        (folder / f"p{i}.txt").write_text(f"Walks daily.\nThe {word} is on file {i}.\nSleeps well.")
        id = api.keep_question(folder, f"p{i}", f"Which {word} is on file?", by="ann")
        text = f"The {word} is on file {i}."
        start = len("Walks daily.\n")
        api.mark_evidence(folder, id, [(0, start, start + len(text))], by="ann")
        api.answer_question(folder, id, text, by="ann")
    return finished_run(
        {
            "kind": "answers",
            "data": str(folder),
            "arms": ARMS,
            "readers": ["extractive", {"name": "abstaining", "threshold": 1.2}],
            "judges": ["token_overlap"],
            "protocol": {"preset": "corrected", "recency": 0},
        }
    )


def test_a_run_counts_abstentions_and_wrong_answers_with_and_without_evidence(
    measured: str,
) -> None:
    rows = {
        (row["reader"], row["evidence"]): row
        for row in api.report(measured)["tables"]["abstention"]
    }
    assert all(row["n"] == row["patients"] == 6 for row in rows.values())
    quoting = rows["extractive", "absent"]
    assert (quoting["abstained"], quoting["wrong"]) == (0, 6)
    assert rows["extractive", "present"]["abstained"] == 0
    assert rows["extractive", "present"]["wrong"] == 0
    careful = rows["abstaining threshold=1.2", "absent"]
    assert (careful["abstained"], careful["wrong"]) == (6, 0)
    assert careful["abstained_share"] == 1.0
    assert careful["abstained_low"] < 1.0 == careful["abstained_high"]
    assert rows["abstaining threshold=1.2", "present"]["abstained"] == 0


def test_the_file_is_written_from_runs_and_names_the_default(
    measured: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "abstention.csv"
    write_error_rates({"a ward, six notes": measured}, path)
    monkeypatch.setattr(abstention, "FILE", path)
    abstention.error_rates.cache_clear()
    try:
        (row,) = abstention.error_rates()["extractive"]
        assert (row["data"], row["n"], row["wrong_share"]) == ("a ward, six notes", 6, 1.0)
        assert row["abstained_share"] == 0.0
        # The other reader's label names a threshold, so it is none that can be the default.
        assert abstention.default_reader() == "extractive"
    finally:
        abstention.error_rates.cache_clear()


def test_a_run_without_the_control_measures_nothing(measured: str, tmp_path: Path) -> None:
    data = api.status(measured)["data"]
    run = finished_run(
        {"kind": "answers", "data": data, "arms": ["bm25"], "readers": ["extractive"]}
    )
    assert "abstention" not in api.report(run)["tables"]
    with pytest.raises(InputError, match="measures no abstention"):
        write_error_rates({"ward": run}, tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()
    assert abstention.main([]) == 2


def test_the_shipped_rates_belong_to_readers_and_decide_the_default() -> None:
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    readers = {card.name for card in api.members("reader")}
    assert {row["reader"] for row in rows} <= readers
    rates = api.error_rates()
    assert {len(of) for of in rates.values()} == {2}
    mean = {
        reader: sum(row["wrong_share"] + row["abstained_share"] for row in of)
        for reader, of in rates.items()
    }
    assert api.default_reader() == min(mean, key=mean.__getitem__) == "abstaining"
    assert all(
        row["wrong_low"] <= row["wrong_share"] <= row["wrong_high"]
        for of in rates.values()
        for row in of
    )
