"""A run's arms keep the gate that they began with: another is refused, on resume and at work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import DataError, InputError
from core.gate.checkpoint import save_gate
from core.gate.plus.checkpoint import save_plus
from core.protocol import Protocol
from core.run import control, resume, rows, status
from core.run.folder import RunFolder, make_run
from core.run.gating import house, pinned
from core.run.gating.training import house_gate_place
from core.run.planning import plan
from core.run.spec import read_spec
from core.run.worker import do_run
from tests import gate_cohort
from tests.gates import random_gate, random_plus


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    gate_cohort.make(tmp_path / "data" / "cohorts" / "demo")
    save_gate(tmp_path / "gate", random_gate())
    save_plus(tmp_path / "plus", random_plus())
    return tmp_path


def test_another_gate_is_refused_on_resume_and_the_same_one_made_again_is_not(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    begun: list[str] = []

    def launched(folder: RunFolder, lock: object) -> None:
        begun.append(folder.id)

    monkeypatch.setattr(control, "launch", launched)
    arms = [{"name": "qccs", "gate": str(place / "gate")}]
    arms.append({"name": "qccs_plus", "gate": str(place / "plus")})
    folder = make_run(plan(read_spec({"kind": "selection", "data": "demo", "arms": arms})))
    for entry in folder.plan().arms:
        pinned.pin(folder.path, entry, str(entry.options["gate"]))
    assert len(json.loads((folder.path / "gates.json").read_text())) == 2
    save_gate(place / "gate", random_gate())  # made again, and come out the same
    assert resume(folder.id) == begun.pop()
    for other in (
        lambda: save_gate(place / "gate", random_gate(seed=1)),
        lambda: (save_gate(place / "gate", random_gate()),
                 save_plus(place / "plus", random_plus(seed=1))),
    ):  # fmt: skip
        other()
        with pytest.raises(InputError, match="began with another gate for its arm 'qccs") as told:
            resume(folder.id)
        assert "\n" not in str(told.value)
    (place / "gate" / "gate.json").unlink()
    with pytest.raises(DataError, match="no trained gate is here"):
        resume(folder.id)
    assert not begun


def test_a_house_s_gate_that_comes_out_otherwise_fails_its_items(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    spec = {"kind": "selection", "data": "demo", "arms": ["qccs"], "limit": 4}
    folder = make_run(plan(read_spec(spec)))
    seeds = [0, 0, 1]

    def trained(protocol: Protocol) -> Path:
        gate = house_gate_place(protocol)
        save_gate(gate, random_gate(seed=seeds.pop(0)))
        if seeds:
            folder.cancel.touch()  # the pass ends after the item that it is at
        return gate

    monkeypatch.setattr(house, "HOUSE", {**house.HOUSE, "qccs": trained})
    for done in (1, 2):  # the cache was emptied in between; what is made again is the same
        assert do_run(folder) == "cancelled"
        assert (status(folder.id)["done"], status(folder.id)["failed"]) == (done, 0)
        (house_gate_place(Protocol()) / "gate.json").unlink()
        pinned.refuse_others(folder.path, folder.plan().arms, Protocol())
        for note in (folder.cancel, folder.cancelled):
            note.unlink()
    assert do_run(folder) == "done"
    assert (status(folder.id)["done"], status(folder.id)["failed"]) == (2, 2)
    reasons = {row["reason"] for row in rows(folder.id, "selections") if row["status"] == "failed"}
    assert len(reasons) == 1 and "began with another gate for its arm 'qccs'" in reasons.pop()
    with pytest.raises(InputError, match="another gate"):
        resume(folder.id)
