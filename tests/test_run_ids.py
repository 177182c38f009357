"""Runs' ids: by name is by age, however fast runs follow each other."""

from __future__ import annotations

from core.run.export.importing import RUN_ID
from core.run.folder import make_run, run_ids


def test_runs_made_within_a_second_are_listed_oldest_first(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path))
    made = [make_run({"kind": "selection"}).id for _ in range(40)]
    assert run_ids() == made
    assert all(RUN_ID.fullmatch(id) for id in made)
