"""Pages with a cohort of labels next to one of questions, or alone."""

from __future__ import annotations

import pytest

from midchart.core import api
from midchart.core.cohorts import labelled
from midchart.extras.lab.synthetic.laboratory import make_laboratory
from tests.support import app_data
from tests.support.pages import frame_with, open_page, page_text

pytestmark = pytest.mark.slow


@pytest.fixture
def lab(empty):
    """A data folder with a small laboratory cohort."""
    make_laboratory(empty / "data" / "cohorts" / "lab", patients=6, events_per_patient=80)
    return empty


def test_a_cohort_of_labels_is_offered_on_the_data_page_alone(lab):
    app_data.make_cohort(lab / "data")
    home = open_page("home")
    assert any("6 patients · 5 tasks to forecast" in link.proto.label
               for link in home.get("page_link"))  # fmt: skip
    assert open_page("arms").selectbox(key="cohort").options == ["small"]
    data = open_page("data", cohort="lab")
    assert data.radio(key="cohort").options == ["lab", "small"]
    assert "5 tasks with" in page_text(data)
    frame = frame_with(data, "positive (%)")
    assert list(frame["task"]) == sorted(frame["task"])
    assert (frame[["train", "tuning", "held-out"]].sum(axis=1) == frame["labels"]).all()
    patient = open_page("patient", cohort="lab")
    assert not any("lab" in s.options for s in patient.selectbox)


@pytest.mark.parametrize("page", ["home", "patient", "arms", "gate", "curve"])
def test_a_cohort_of_labels_alone_breaks_no_page(lab, page):
    app = open_page(page)
    if page == "patient":
        assert "has labels to forecast" in page_text(app)


def test_events_that_take_minutes_are_not_read_by_a_page(lab, monkeypatch):
    monkeypatch.setattr(labelled, "SMALL", 10)
    monkeypatch.setattr(api, "check", None)
    app = open_page("data")
    command = f"midchart check {lab / 'data' / 'cohorts' / 'lab'}"
    assert command in [code.value for code in app.code]
