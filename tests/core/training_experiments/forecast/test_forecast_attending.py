"""Attention maps of a run: the weights shown are those that gave the stored score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from midchart.core import api
from midchart.core.errors import DataError
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
