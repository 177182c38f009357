"""Page Results of an imported log: its conclusion and its tables."""

from __future__ import annotations

from pathlib import Path

from midchart.core import api
from tests.support.pages import frame_with, open_page, page_text

LOGS = Path(__file__).parents[1] / "core/samples/logs"


def test_the_page_of_an_imported_log_has_its_conclusion_and_scores(run):
    imported = api.import_results(LOGS / "promptfoo/results.json", "synthetic ward")["run"]
    try:
        app = open_page("results", run=imported)
        assert "2 systems, scored by another program" in page_text(app)
        scores = frame_with(app, "mean score")
        assert list(scores["answered by"]) == [
            "other · prompt eb7867ef", "short · prompt eb7867ef",
        ]  # fmt: skip
    finally:
        api.remove_run(imported)
