"""The Forecast page's attention map: its picture by shapes, its pickers, a run without models."""

from __future__ import annotations

import numpy as np
import pytest

from midchart.core import api
from midchart.core.errors import InputError
from midchart.core.training_experiments.forecast.evaluation import (
    Attended,
    HeldOut,
    ModelWeights,
    SequenceEvent,
)
from tests.support import forecast_report
from tests.support.pages import figures_of, open_page, plain_text
from tests.support.reports import show_run

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)> *Hb*"


def weights() -> np.ndarray:
    """Two layers, two heads, four events; the last layer's second head: negative and zero."""
    values = np.full((2, 2, 4), 0.1, np.float32)
    values[1, 1] = [-0.2, 0.0, 0.5, 0.3]
    return values


def one(variant: str, seed: int) -> ModelWeights:
    weights_of_one = np.full((2, 2), 0.4, np.float32)
    return ModelWeights("i", variant, variant, seed, 0.3, 0.3, weights(), weights_of_one)


def mapped(run: str, task: str, index: int, seed: int) -> Attended:
    events = tuple(
        SequenceEvent(4 - i, days, "LOINC/1", HOSTILE if i else "Hb", 7.5 if i else None, i != 2)
        for i, days in enumerate((None, 400.0, 3.0, 0.5))
    )
    return Attended(task, index, index % 2, events, (one("softmax", seed), one("h2o", seed)))


LABEL = np.array([0, 1, 1, 0, 1], np.uint8)
SCORES = {
    "softmax": np.array([0.5, 0.9, 0.1, 0.2, 0.3]),
    "h2o": np.array([0.5, 0.9, 0.1, 0.2, 0.05]),
}


@pytest.fixture
def run(home, monkeypatch):
    now = forecast_report.status()
    show_run(monkeypatch, now, lambda run: forecast_report.report(run, None))
    monkeypatch.setattr(
        api, "forecast_sequences", lambda run, task, seed: HeldOut(LABEL, SCORES, (1, 2))
    )
    monkeypatch.setattr(api, "attention_map", mapped)


def test_a_sequence_is_shown_by_its_number_with_picture_words_and_table(run):
    app = open_page("forecast", view="map", sequence="3", seed="2", head="2")
    assert app.number_input(key="sequence").value == 3 and app.selectbox(key="seed").value == 2
    assert len(figures_of(app)) == 1
    text = plain_text(app)
    assert "1 zero, 1 negative of 4, ranked above 40 %" in text
    assert "Sequence 3 of 5 held-out ones" in text and "n = 4 events" in text
    softmax = app.dataframe[0].value.iloc[0]
    assert softmax["4. Hb"] == "−0.200" and softmax[f"1. {HOSTILE}"] == "0.300"
    assert "<img" not in figures_of(app)[0].spec
    app.multiselect(key="attended").set_value([]).run()
    assert "Select a variant" in plain_text(app) and not app.exception


def test_a_number_beyond_the_last_sequence_becomes_the_last(run, monkeypatch):
    app = open_page("forecast", view="map", sequence="4")
    few = HeldOut(LABEL[:2], {name: scores[:2] for name, scores in SCORES.items()}, (1,))
    monkeypatch.setattr(api, "forecast_sequences", lambda run, task, seed: few)
    app.selectbox(key="task").set_value(forecast_report.TASKS[1]).run()
    assert not app.exception and app.number_input(key="sequence").value == 1


def test_a_run_without_models_reports_it_and_keeps_its_other_views(run, monkeypatch):
    def none(run, task, seed):
        raise InputError("run x holds no trained models: an export leaves them out")

    monkeypatch.setattr(api, "forecast_sequences", none)
    app = open_page("forecast", view="map")
    assert "holds no trained models" in plain_text(app)
    assert not figures_of(app)
    assert "better than Softmax" in plain_text(app)
