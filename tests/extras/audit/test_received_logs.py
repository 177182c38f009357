"""Logs that come in through the browser: they belong to a cohort, are reached by their names alone,
and are removed with it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.errors import DataError, InputError, NotPermitted, UnknownName
from midchart.core.identity import Person, acting_as
from midchart.extras.audit import other_results
from midchart.extras.audit.other_results import import_results
from midchart.extras.audit.received_logs import receive_log
from midchart.extras.server.arguments import received_files
from tests.support.run_helpers import finished_run, workspace_at, write_cohort

LINES = [
    {
        "patient": "1",
        "question": "What dose of aspirin does the patient take?",
        "context": "Patient 0 takes aspirin at a dose of 10 milligram.",
        "answer": "10 milligram",
    }
]


def log(lines: object = LINES) -> io.BytesIO:
    return io.BytesIO("\n".join(map(json.dumps, lines)).encode())  # pyright: ignore


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[str]:
    with workspace_at(tmp_path / "site"):
        write_cohort(tmp_path / "files")
        api.import_cohort("ward", tmp_path / "files")
        yield "ward"


def stored() -> list[str]:
    logs = settings.received_folder()
    return sorted(p.relative_to(logs).as_posix() for p in logs.rglob("*") if p.is_file())


def test_a_received_log_is_audited_and_goes_with_its_cohort(ward: str):
    seen: list[tuple[int, int]] = []
    path = receive_log(ward, [("traces.jsonl", log())], lambda *step: seen.append(step))
    assert seen and Path(path).stat().st_mode & 0o777 == 0o600
    assert stored() == received_files() == ["ward/traces.jsonl"]
    run = finished_run({"kind": "audit", "data": ward, "log": path})
    assert api.report(run)["tables"]["log"]
    assert "received" in [line["event"] for line in api.audit_lines()]
    assert "traces" not in json.dumps(api.audit_lines())
    import_results(path)  # as a run of its own
    assert api.remove_cohort(ward, runs=True)["runs"] == 2
    assert api.status() == []
    assert stored() == [] and not (settings.received_folder() / ward).exists()


def test_people_name_it_by_cohort_and_file(ward: str):
    path = receive_log(ward, [("traces.jsonl", log())])
    with acting_as(Person("olga@ward.org", "owner")):
        receive_log(ward, [("second.jsonl", log())])
        assert received_files() == ["ward/second.jsonl", "ward/traces.jsonl"]
    with acting_as(Person("rita@ward.org", "researcher")):
        for name in ("ward/traces.jsonl", "data/logs/ward/traces.jsonl", path):
            spec = {"kind": "audit", "data": ward, "log": name}
            assert api.preflight(spec)["problems"] == []
        for name in ("ward/../ward/traces.jsonl", "ward/.hidden", "ward//traces.jsonl", "ward/x/y"):
            with pytest.raises(NotPermitted):
                api.preflight({"kind": "audit", "data": ward, "log": name})
        with pytest.raises(NotPermitted):
            receive_log(ward, [("third.jsonl", log())])


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("picture.png", b"\x89PNG", DataError, ""),
        ("../up.jsonl", b"{}", DataError, "leads out"),
        ("deep/er.jsonl", b"{}", DataError, "name that is refused"),
        (".hidden.jsonl", b"{}", DataError, "name that is refused"),
        ("empty.jsonl", b"", DataError, ""),
    ],
)
def test_what_is_no_log_is_refused_and_nothing_is_left(
    ward: str, name: str, content: bytes, error: type[Exception], message: str
):
    with pytest.raises(error, match=message) as refusal:
        receive_log(ward, [(name, io.BytesIO(content))])
    assert str(settings.received_folder()) not in str(refusal.value)
    assert stored() == [] and list(settings.received_folder().iterdir()) == []


def test_one_file_of_a_new_name_for_a_cohort_of_this_installation(ward: str, tmp_path: Path):
    for files in ([], [("a.jsonl", log()), ("b.jsonl", log())]):
        with pytest.raises(InputError, match="a log is one file"):
            receive_log(ward, files)
    with pytest.raises(InputError, match="in data/cohorts"):
        receive_log(tmp_path / "files", [("a.jsonl", log())])
    with pytest.raises(UnknownName):
        receive_log("nobody", [("a.jsonl", log())])
    receive_log(ward, [("a.jsonl", log())])
    with pytest.raises(InputError, match="already"):
        receive_log(ward, [("a.jsonl", log([{**LINES[0], "answer": "another"}]))])
    assert b"another" not in (settings.received_folder() / ward / "a.jsonl").read_bytes()


def test_a_log_whose_cohort_is_removed_while_it_is_opened_is_refused(
    ward: str, monkeypatch: pytest.MonkeyPatch
):
    path = receive_log(ward, [("traces.jsonl", log())])
    make = other_results.make_run

    def remove_first(*document: Any, **options: Any) -> Any:
        api.remove_cohort(ward)
        return make(*document, **options)

    monkeypatch.setattr(other_results, "make_run", remove_first)
    with pytest.raises(InputError, match="its cohort was removed meanwhile"):
        import_results(path)
    assert api.status() == [] and stored() == []
    assert not list(settings.runs_folder().iterdir())
