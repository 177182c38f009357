"""A damaged folder is named with its reason; all others are listed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from midchart.core import api, config
from midchart.core.errors import DataError
from tests.support.run_helpers import finished_run, workspace_at


def spec_with(field: str, value: object) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        spec = json.loads((run / "spec.json").read_text())
        spec["spec" if field == "kind" else field] = (
            spec["spec"] | {"kind": value} if field == "kind" else value
        )
        (run / "spec.json").write_text(json.dumps(spec))

    return damage


DAMAGED: dict[str, Callable[[Path], object]] = {
    "truncated done.json": lambda run: (run / "done.json").write_text("{"),
    "another done.json": lambda run: (run / "done.json").write_text("[1]"),
    "bad counts": lambda run: (run / "done.json").write_text('{"done": "x", "failed": []}'),
    "truncated spec.json": lambda run: (run / "spec.json").write_text('{"spec"'),
    "long number": lambda run: (run / "spec.json").write_text('{"kind": ' + "9" * 5000 + "}"),
    "deep nesting": lambda run: (run / "spec.json").write_text("[" * 50_000),
    "kind of a newer version": spec_with("kind", "future"),
    "planned is a text": spec_with("planned", "many"),
    "planned is negative": spec_with("planned", -1),
    "a position without its median": spec_with("position", {"used": "order", "named": False}),
    "done is a fraction": lambda run: (run / "done.json").write_text('{"done": 1.5, "failed": 0}'),
    "queue note": lambda run: (run / "queued.json").write_text("{"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    home = tmp_path_factory.mktemp("damaged")
    with workspace_at(home):
        api.prepare_demo(config.cohorts_folder() / "demo", patients=3, events_per_patient=60)
        yield finished_run({"kind": "selection", "data": "demo", "arms": ["bm25"], "limit": 1})


@pytest.mark.parametrize("damage", DAMAGED)
def test_one_damaged_run_hides_no_other(runs: str, damage: str) -> None:
    copy = config.runs_folder() / "20200101-000001-aaaaaa"
    shutil.copytree(config.runs_folder() / runs, copy)
    try:
        DAMAGED[damage](copy)
        listed = [row["run"] for row in api.status(None)]
        assert runs in listed
        problems = api.damaged_runs()
        if damage != "queue note":
            assert listed == [runs]
            assert list(problems) == [copy.name]
            assert "\n" not in problems[copy.name]
            with pytest.raises(DataError, match=copy.name):
                api.status(copy.name)
    finally:
        shutil.rmtree(copy)
