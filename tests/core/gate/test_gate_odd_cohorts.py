"""Gate training on damaged cohorts: unreadable records, questions without words, edited files,
unwritable folders."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.gate.checkpoint import GateEpoch, GateRecipe, Split
from midchart.core.gate.cohort_training import train_gate
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.services import training as services
from midchart.core.training import Aborted
from tests.support import gate_cohort
from tests.support.run_helpers import allow


@pytest.fixture
def folder(workspace: Path) -> Path:
    path = workspace / "data" / "cohorts" / "odd"
    gate_cohort.make(path)
    return path


def reworded(folder: Path) -> None:
    """Ask every question in other words: as many pairs come of it, of other texts."""
    file = folder / "clinician-instruction-responses.tsv"
    head, *lines = file.read_text().splitlines()
    column = head.split("\t").index("question")
    for i, line in enumerate(lines):
        cells = line.split("\t")
        cells[column] += " Say so briefly."
        lines[i] = "\t".join(cells)
    file.write_text("\n".join([head, *lines]) + "\n")
    allow(folder, "training_allowed")


def test_an_interrupted_training_restarts_if_the_cohort_was_edited(folder: Path, tmp_path: Path):
    recipe, gate = GateRecipe(epochs=2), tmp_path / "g"
    with pytest.raises(Aborted):
        train_gate(open_cohort(str(folder)), Protocol(), gate, lambda *_: False, recipe=recipe)
    assert len(list(gate.glob("training-*"))) == 1
    reworded(folder)
    cohort, epochs_run = open_cohort(str(folder)), list[int]()

    def progress(epoch: GateEpoch, epochs: int) -> bool:
        epochs_run.append(epoch.epoch)
        return True

    again = train_gate(cohort, Protocol(), gate, progress, recipe=recipe)
    fresh = train_gate(cohort, Protocol(), tmp_path / "fresh", recipe=recipe)
    assert epochs_run == [1, 2]
    assert all((again.weights[name] == fresh.weights[name]).all() for name in fresh.weights)
    assert not list(gate.glob("training-*"))


def test_each_protocol_has_its_own_cache_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    fields = ("pairs", "curve", "test_auroc", "recipe")
    trained = SimpleNamespace(
        facts=dict.fromkeys(fields, "trained"),
        config=SimpleNamespace(hashing=SimpleNamespace(name="fixed", n=64)),
        temperature=1.0,
        split=Split((), (), ()),
    )
    monkeypatch.setattr(services, "train_gate", lambda *_, **__: trained)
    tables = ({}, {"order": "relevance"}, {"preset": "published"}, {"seed": 7}, {"seed": 8})
    results = [api.make_gate(folder, protocol=table) for table in tables]
    assert all(result[field] == "trained" for result in results for field in fields)
    first, same, *others = [Path(result["folder"]) for result in results]
    key = api.cohort_key(api.open_data(folder))
    # An option that changes nothing of what a gate learns does not change the place.
    assert first == same == settings.cache_folder() / "gates" / key
    assert len({first, *others}) == 4
