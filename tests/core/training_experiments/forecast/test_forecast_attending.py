"""Attention maps of a run: the weights shown are those that gave the stored score."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from midchart.core import api
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.results.export import export_run
from midchart.core.results.importing import import_run
from midchart.core.runs.directory import find_run
from tests.support.exports import sealed, unpacked
from tests.support.forecasts import write_cohort
from tests.support.run_helpers import finished_run, workspace_at

TASK = "anemia"
SPEC = {
    "kind": "forecast",
    "tasks": [TASK],
    "variants": ["softmax", "differential", "gated_differential", "h2o", "sparsemax"],
    "baselines": ["logistic_counts"],
    "seeds": [3, 4],
    "epochs": 1,
    "values": True,
    "length": 16,
    "device": "cpu",
    "protocol": {"preset": "corrected", "resamples": 100},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    with workspace_at(tmp_path_factory.mktemp("attending")) as folder:
        write_cohort(folder / "labs")
        yield folder


@pytest.fixture(scope="module")
def run(place: Path) -> str:
    return finished_run({**SPEC, "data": str(place / "labs")})


def test_attention_weights_of_every_variant_reproduce_the_stored_score(run: str) -> None:
    there = api.forecast_sequences(run, TASK)
    assert there.seeds == (3, 4) and list(there.scores) == SPEC["variants"]
    for index in (0, 5, len(there.label) - 1):
        attention = api.attention_map(run, TASK, index, 4)
        assert (attention.index, attention.label) == (index, int(there.label[index]))
        by = {one.variant: one for one in attention.models}
        assert list(by) == SPEC["variants"]
        for one in attention.models:
            assert one.seed == 4 and one.score == pytest.approx(one.stored, abs=1e-5)
            assert one.weights.shape == (2, 4, len(attention.events)) and one.cls.shape == (2, 4)
        total = by["softmax"].weights.sum(-1) + by["softmax"].cls
        assert total == pytest.approx(np.ones((2, 4)), abs=1e-5)
        assert (by["softmax"].weights > 0).all()
        # H2O keeps half of the events, rounded up, the same for all heads and layers.
        retained = (by["h2o"].weights != 0).sum(-1)
        assert (retained == -(-len(attention.events) // 2)).all()
        assert (by["sparsemax"].weights >= 0).all()
        # Two maps that sum to 1, the second taken λ times, one λ a layer.
        less = by["differential"].weights.sum(-1) + by["differential"].cls
        assert less == pytest.approx(np.repeat(less[:, :1], 4, axis=1), abs=1e-5)
        assert (less < 0.95).all()
    other = api.attention_map(run, TASK, 0, 3).models[0]
    assert other.stored == api.forecast_sequences(run, TASK, 3).scores["softmax"][0]


def test_events_stand_in_time_order_with_their_values(run: str, place: Path) -> None:
    events = api.attention_map(run, TASK, 7, 3).events
    assert [one.place for one in events] == list(range(len(events), 0, -1))
    days = [one.days for one in events]
    assert all(a is not None and a >= b > 0 for a, b in pairwise(days))
    labs = [one for one in events if one.code == "LOINC/718-7"]
    assert labs and all(one.value is not None and one.known for one in labs)
    assert all(one.value is None for one in events if one.code.startswith("SNOMED"))


def test_missing_models_and_sequences_are_reported_in_one_line(run: str) -> None:
    for asked, error, words in (
        (("hyperkalemia", 0, 3), UnknownName, "anemia"),
        ((TASK, 0, 5), UnknownName, "3"),
        ((TASK, 80, 3), InputError, "0 to 79"),
        ((TASK, -1, 3), InputError, "0 to 79"),
    ):
        with pytest.raises(error, match=words) as refusal:
            api.attention_map(run, *asked)
        assert "\n" not in str(refusal.value)


def test_labels_that_changed_since_are_not_shown_as_the_examined_ones(
    run: str, place: Path
) -> None:
    assets = place / "labs" / "EHRSHOT_ASSETS"
    file = assets / f"benchmark/{TASK}/labeled_patients.csv"
    before = file.read_text()
    lines = before.splitlines()
    file.write_text("\n".join([lines[0], *lines[9:]]) + "\n")
    try:
        with pytest.raises(DataError, match="labels differ from those of the run"):
            api.attention_map(run, TASK, 40, 3)
    finally:
        file.write_text(before)


def test_an_import_has_as_many_predictions_as_its_models_labels(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    export_run(run, tmp_path / "out", rows_only=True)
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    for file in sorted((tmp_path / "out/forecast").glob("*.parquet"))[:2]:
        before = file.read_bytes()
        table = parquet.read_table(file)
        parquet.write_table(arrow.concat_tables([table, table]), file)
        with pytest.raises(InputError, match=f"forecast/{file.name}: has .* not the number of"):
            import_run(sealed(tmp_path / "out"))
        other = file.with_name(f"{'0' * 32}{''.join(file.suffixes)}")
        file.rename(other)
        with pytest.raises(InputError, match="is of no model of the run; export"):
            import_run(sealed(tmp_path / "out"))
        other.unlink()
        file.write_bytes(before)
    assert import_run(sealed(tmp_path / "out"))["run"] == run


def test_an_import_has_every_table_and_reports_missing_models(
    run: str, place: Path, tmp_path: Path
) -> None:
    exported = export_run(run, tmp_path / "run.zip")
    tables = api.report(run)["tables"]
    folder = find_run(run).path
    away = tmp_path / "away"
    shutil.move(folder, away)
    try:
        assert import_run(exported["file"])["run"] == run
        assert api.report(run)["tables"] == tables
        with pytest.raises(InputError, match="export leaves them out"):
            api.attention_map(run, TASK, 0, 3)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(away, folder)


@pytest.mark.parametrize("end", [".draws.parquet", ".parquet"])
def test_predictions_have_their_columns_and_no_more_rows_than_their_bytes_can_hold(
    run: str, tmp_path: Path, end: str
) -> None:
    folder = unpacked(Path(export_run(run, tmp_path / "run.zip")["file"]), tmp_path / "open")
    file = next(
        f for f in sorted((folder / "forecast").iterdir()) if f.name[f.name.index(".") :] == end
    )
    table = parquet.read_table(file)
    many = table.take(np.zeros(400_000, np.int64))
    other = table.append_column("text", [["x"] * len(table)])
    there, away = find_run(run).path, tmp_path / "away"
    shutil.move(there, away)
    try:
        for forged, reason in ((many, "has 400,000 rows, where"), (other, "has a column 'text'")):
            parquet.write_table(forged, file, compression="zstd")
            with pytest.raises(InputError, match=f"{file.name} {reason}"):
                import_run(sealed(folder))
    finally:
        shutil.move(away, there)
