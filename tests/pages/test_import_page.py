"""After an import, page Data shows the new cohort, asks what is doubtful and offers questions."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.loaders.open import content_digest, open_cohort
from midchart.extras.server.arguments import received_files
from midchart.pages.ui.data import import_form
from tests.support.pages import page_at, page_text

pytestmark = pytest.mark.slow

TIMES = "patient_id,time,text\np1,03/04/2021,No fever.\np1,05/06/2021,Discharged.\n"


@pytest.fixture
def imported(home: Path, tmp_path: Path):
    """Page Data right after the import of notes whose dates have no proven order."""
    source = tmp_path / "notes.csv"
    source.write_text(TIMES)
    report = api.import_cohort("ward", source)
    app = page_at("data")
    app.session_state[import_form.DONE] = report
    app.run()
    assert not app.exception
    return app


def test_the_page_shows_the_imported_cohort_until_it_is_closed(imported) -> None:
    assert "ward: 1 patient, 2 events" in page_text(imported)
    assert not [box for box in imported.radio if box.key == "cohort"]
    (parts,) = [list(frame.value["read"]) for frame in imported.dataframe if "read" in frame.value]
    assert sorted(parts) == ["1 of 1 files", "2 of 2 rows"]
    imported.button(key="import_close").click().run()
    assert imported.radio(key="cohort").value == "ward"


def test_a_column_that_proves_nothing_is_asked_about_and_read_as_answered(imported) -> None:
    path = api.open_data("ward").path
    before = content_digest(path)
    assert [e.time for e in open_cohort(path).records["p1"].events] == [None, None]
    imported.radio(key="read_ward_notes.time").set_value("day first").run()
    imported.button(key="read_ward").click().run()
    assert not imported.exception and "need your answer" not in page_text(imported)
    times = [e.time for e in open_cohort(path).records["p1"].events]
    assert times == [datetime(2021, 4, 3), datetime(2021, 6, 5)]
    assert content_digest(path) != before, "a run knows that its records are read differently"
    assert not open_cohort(path).manifest.training_allowed


def test_a_log_that_a_person_uploads_is_stored_with_the_cohort_and_its_audit_begins(
    imported, monkeypatch
) -> None:
    begun: list[dict[str, object]] = []
    monkeypatch.setattr(api, "enqueue", lambda spec: begun.append(spec) or "run")
    row = '{"patient": "p1", "question": "Fever?", "context": "No fever.", "answer": "no"}\n'
    imported.file_uploader(key="log_file_ward").set_value(("log.jsonl", row.encode(), "text/plain"))
    imported.run()
    imported.button(key="log_audit_ward").click().run()
    assert not imported.error
    (spec,) = begun
    assert (spec["kind"], spec["data"]) == ("audit", "ward")
    assert Path(str(spec["log"])).read_text() == row
    assert received_files() == ["ward/log.jsonl"]
