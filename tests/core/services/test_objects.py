"""People who sign in reach what the installation knows, by name; nothing else is looked at."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import json
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.errors import InputError, MidchartError, NotPermitted
from midchart.core.gate.checkpoint import save_gate
from midchart.core.identity import ROLES, Person, acting_as
from midchart.core.options import FORMAT
from midchart.core.other_systems.audit.cards import dealt_file
from midchart.core.runs import gate_checkpoints, process
from midchart.core.runs.directory import find_run
from midchart.core.runs.spec import spec_schema
from midchart.core.services.objects import KINDS, REFUSED, kind_of
from midchart.core.services.permissions import ANYBODY, FUNCTIONS, role_needed
from midchart.core.storage.jsonl import add_line
from tests.support.gates import random_gate
from tests.support.opened_cohorts import opened_by_plan
from tests.support.run_helpers import (
    ROOT,
    allow,
    continue_run,
    finished_run,
    workspace_at,
    write_cohort,
)
from tests.support.tiny_models import make_qwen

ROLE_NAMES = [
    name for role, names in FUNCTIONS.items() if role != ANYBODY for name in names.split()
]
CANARY = "canary-outside"
SENT = "canary-of-a-sender"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Path]:
    """A workspace with a cohort, a run on it, and a cohort outside of it, to which links lead."""
    folder = tmp_path_factory.mktemp("objects")
    with workspace_at(folder / "site"):
        write_cohort(settings.cohorts_folder() / "ward")
        write_cohort(folder / CANARY)
        (folder / CANARY / "log.jsonl").write_text('{"patient": "1", "answer": "x"}\n')
        finished_run(spec_on("ward"))
        settings.received_folder().mkdir()
        shutil.copy(folder / CANARY / "log.jsonl", settings.received_folder() / "kept.jsonl")
        for linked in (
            settings.cohorts_folder(),
            settings.runs_folder(),
            settings.received_folder(),
            settings.gates_folder(),
        ):
            linked.mkdir(parents=True, exist_ok=True)
            (linked / "linked").symlink_to(folder / CANARY)
        yield folder


def spec_on(data: str, **more: Any) -> dict[str, Any]:
    arms = {"arms": ["bm25"], "readers": ["extractive"], "judges": ["exact"]}
    return {"kind": "answers", "data": data, "limit": 2, **arms, **more}


def foreign(site: Path) -> dict[str, str]:
    """What no person who signs in may name, by what it is."""
    outside, data = site / CANARY, settings.data_folder()
    return {
        "a folder outside": str(outside),
        "a file outside": str(outside / "log.jsonl"),
        "nothing": str(site / "no-such-place"),
        "up and down again": f"../../{CANARY}",
        "up from a cohort": f"ward/../../../../{CANARY}",
        "absolute, up from a cohort": f"{settings.cohorts_folder()}/../../../{CANARY}",
        "a link among the cohorts, runs, logs and gates": "linked",
        "a link's path": str(settings.cohorts_folder() / "linked"),
        "a file behind the link": "linked/log.jsonl",
        "a home": "~/",
        "the data folder": str(data),
        "all cohorts": str(settings.cohorts_folder()),
        "a file of a cohort": str(next((data / "cohorts" / "ward" / "ehrs").iterdir())),
        "a run's folder": str(settings.runs_folder() / api.status(None)[0]["run"]),
        "the audit log": str(data / "audit.jsonl"),
        "a hidden entry": ".",
        "with a NUL": "ward\0",
        "too long": "n" * 5000,
        "a name that nothing has": "no-such-name",
    }


def named_parameters() -> list[tuple[str, str, str]]:
    """Function, parameter and kind of every parameter that may name an object."""
    return [
        (name, parameter, kind)
        for name in ROLE_NAMES
        for parameter in inspect.signature(getattr(api, name)).parameters
        if (kind := kind_of(name, parameter)) != "value"
    ]


def test_every_parameter_of_the_interface_has_a_kind_that_exists():
    lacking = [
        f"{name}.{parameter}"
        for name in ROLE_NAMES
        for parameter in inspect.signature(getattr(api, name)).parameters
        if kind_of(name, parameter) not in KINDS
    ]
    assert not lacking
    listed = [name for names in KINDS.values() for name in names.split()]
    assert len(listed) == len(set(listed))


def test_a_parameter_that_takes_a_path_by_its_type_is_no_value():
    for name in ROLE_NAMES:
        for parameter in inspect.signature(getattr(api, name)).parameters.values():
            if "Path" in str(parameter.annotation) or parameter.annotation == "Cohort":
                assert kind_of(name, parameter.name) != "value", f"{name}.{parameter.name}"


def forms(name: str, parameter: str, kind: str, written: str) -> list[Any]:
    """The forms in which a call may name an object."""
    if kind == "spec":
        tables: list[Any] = [
            spec_on(written),
            {"kind": "audit", "data": "ward", "log": written},
            {"kind": "audit", "data": "ward", "log": "kept.jsonl", "ids": written},
            spec_on("ward", arms=[{"name": "qccs", "gate": written}]),
            spec_on("ward", arms=[{"name": "certain", "calibration": written}]),
        ]
        return [*tables, *(map(api.write_toml, tables[:1]) if name == "preflight" else [written])]
    if kind == "entries":
        entry = {"name": "qccs", "gate": written}
        return [{"arms": [entry]}] if parameter == "changes" else [[entry]]
    if kind == "uploads":
        return [Path(written), [("a.csv", Path(written))]]
    if parameter == "cohort":
        return [api.Cohort(written, "made", api.Manifest("x"), {})]
    if parameter == "runs" and name == "faults_alone":
        return [{"x": written}]
    if parameter in ("runs", "others"):
        return [[written]]
    return [written, Path(written)] if "\0" not in written else [written]


@pytest.fixture(scope="module")
def opened() -> list[str]:
    """Paths that this process opens or lists, as an audit hook sees them."""
    seen: list[str] = []
    watching = ("open", "os.listdir", "os.scandir")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in watching and arguments and isinstance(arguments[0], str | os.PathLike):
            seen.append(os.fspath(arguments[0]))

    sys.addaudithook(hook)
    return seen


@pytest.mark.parametrize("role", ROLES)
def test_no_function_takes_a_foreign_object_of_any_role(site, opened, role):
    """The refusal is the same whether or not there is such an object, and nothing was opened."""
    objects = foreign(site)
    person = Person(f"{role}@ward.org", role)
    tried = 0
    for name, parameter, kind in named_parameters():
        for what, written in objects.items():
            for value in forms(name, parameter, kind, written):
                opened.clear()
                with acting_as(person), pytest.raises(NotPermitted) as refused:
                    getattr(api, name)(**{parameter: value})
                if ROLES.index(role_needed(name)) > ROLES.index(role):
                    assert "needs the role" in str(refused.value)
                else:
                    expected = f"{name.replace('_', ' ')} {REFUSED}"
                    assert str(refused.value) == expected, (what, parameter)
                assert not [path for path in opened if CANARY in str(path)], (name, parameter, what)
                tried += 1
    assert tried > 19 * 20


@pytest.mark.parametrize("role", ROLES)
def test_lists_leave_out_what_a_link_leads_to(site, opened, role):
    opened.clear()
    with acting_as(Person("x@ward.org", role)):
        assert {card.name: bool(card.problem) for card in api.cohorts()} == {
            "ward": False,
            "linked": True,
        }
        assert "linked" not in {row["run"] for row in api.status(None)}
        assert "linked" not in api.damaged_runs()
    assert not [path for path in opened if CANARY in str(path)]


def test_what_is_known_is_reached_by_its_name_and_by_the_path_that_the_interface_gave(site):
    with acting_as(Person("rita@ward.org", "researcher")):
        (card,) = [card for card in api.cohorts() if not card.problem]
        for data in ("ward", "data/cohorts/ward", card.path, Path(card.path)):
            assert len(api.open_data(data).records) == 3
        run = api.status(None)[0]["run"]
        assert api.report(run)["tables"]
        assert api.preflight(spec_on("ward"))["problems"] == []
        assert api.preflight(api.write_toml(spec_on("ward")))["problems"] == []
        assert api.estimate(spec_on(card.path))["instructions"] == 2
        assert api.received_files() == ["kept.jsonl"]
        audit = {"kind": "audit", "data": "ward", "log": "kept.jsonl"}
        assert "needs a cohort" not in " ".join(api.preflight(audit)["problems"])
    with acting_as(Person("vera@ward.org", "viewer")), pytest.raises(NotPermitted):
        api.preflight({"kind": "audit", "data": "ward", "log": "kept.jsonl"})


def test_a_name_is_the_installation_s_not_that_of_a_file_in_the_current_folder(site, monkeypatch):
    (site / "elsewhere").mkdir(exist_ok=True)
    write_cohort(site / "elsewhere" / "ward", records=1)
    monkeypatch.chdir(site / "elsewhere")
    with acting_as(Person("rita@ward.org", "researcher")):
        assert len(api.open_data("ward").records) == 3
    assert len(api.open_data("ward").records) == 1  # the account's own command line


def test_a_run_that_the_account_began_elsewhere_is_open_to_all(site):
    run = finished_run(spec_on(str(site / CANARY)))
    data = api.status(run)["data"]
    with acting_as(Person("vera@ward.org", "viewer")):
        listed = api.status(run)["data"]
        assert re.fullmatch(rf"elsewhere/[0-9a-f]{{8}}/{CANARY}", listed)
        assert api.listed_path(api.open_data(listed)) == listed
        with pytest.raises(NotPermitted):
            api.open_data(listed.replace("elsewhere/", "elsewhere/0"))
        assert len(api.open_data(data).records) == 3
        assert len(api.asked_of(run).records) == 3
        with pytest.raises(NotPermitted):
            api.open_data(f"{data}/")
    shutil.rmtree(settings.runs_folder() / run)


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a result; of an opened cohort none, which is an argument of other calls."""
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, bytes):
        with zipfile.ZipFile(io.BytesIO(value)) as archive:
            yield from (
                archive.read(name).decode("utf-8", "replace") for name in archive.namelist()
            )
    elif isinstance(value, dict):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from texts_in(one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, api.Cohort | api.Record):
        yield from texts_in([getattr(value, one.name) for one in dataclasses.fields(value)])


@pytest.mark.slow
def test_no_result_or_error_of_the_interface_names_a_place_of_the_server(site):
    ward = api.open_data("ward")
    instruction, protocol = ward.instructions[0], api.Protocol()
    record = ward.records[instruction.record_id]
    selection = api.select(ward, record, instruction, "bm25", protocol, 1)
    outside = finished_run(spec_on(str(site / CANARY)))
    asking = finished_run(spec_on("ward", questions=["Which dose?"]))
    (settings.cohorts_folder() / "broken").mkdir()
    run = next(row["run"] for row in api.status(None) if row["run"] < outside)
    values = {
        "answer": "x", "arm": "bm25", "arms": ["bm25"], "baseline": run, "bin": 0, "card": "x",
        "cells": [], "cohort": ward, "content": "question,evidence\n", "corrected": run, "cards": 3,
        "data": "ward", "family": "arm", "file": "x.csv", "first": "exact", "id": "x", "index": 0,
        "instruction": instruction, "instruction_id": instruction.id, "judge": "exact", "k": 1,
        "judges": [], "key": "x", "label": "bm25", "make": str, "name": "bm25", "number": 1,
        "outcome": "correct", "protocol": protocol, "published": run, "question": "Which dose?",
        "questions": ["Which dose?"], "reader": "extractive", "record": record, "run": run,
        "record_id": record.id, "reviewer": "r1", "runs": [run], "second": "exact", "seed": 1,
        "selection": selection, "sentence_id": "0", "source": spec_on("ward"), "spans": [],
        "table": "answers", "task": "x", "text": "x",
    }  # fmt: skip
    forms = [
        {}, {"run": outside, "runs": [outside], "data": str(site / CANARY)}, {"run": asking},
        {"data": "broken"}, {"family": "reader", "instruction": instruction.id},
    ]  # fmt: skip
    named = (str(site), str(settings.ROOT), str(Path.home()) + "/")
    leaking, answered = set(), set()
    for name in [one for one in ROLE_NAMES if role_needed(one) in ("viewer", "reviewer")]:
        function = getattr(api, name)
        parameters = inspect.signature(function).parameters
        for form in forms:
            arguments = {
                one.name: {**values, **form}[one.name]
                for one in parameters.values()
                if one.name in values and (one.default is one.empty or one.name in form)
            }
            with acting_as(Person("ruth@ward.org", "reviewer")):
                try:
                    result = function(**arguments)
                    answered.add(name)
                except (MidchartError, TypeError, AttributeError) as error:
                    result = str(error)
                if any(place in text for text in texts_in(result) for place in named):
                    leaking.add(name)
    assert not leaking
    assert len(answered) > 60
    make_qwen(settings.models_folder() / "mine")  # the installation's own model
    with acting_as(Person("rita@ward.org", "researcher")):
        reader = {"name": "qwen", "model": "mine", "window": 2000}
        (weights,) = api.estimate(spec_on("ward", readers=[reader]))["weights"]
        assert weights["where"] == "models/mine"
        exported = list(texts_in(api.export_bytes(run)))
        assert exported and not [t for t in exported if any(place in t for place in named)]
        zipped = settings.received_folder() / "run.zip"
        zipped.write_bytes(api.export_bytes(asking))
        shutil.rmtree(settings.runs_folder() / asking)
        log = settings.received_folder() / "log.jsonl"
        log.write_text('{"id": "1", "patient": "1", "question": "Which?", "answer": "x"}\n')
        results = [api.import_run("run.zip"), api.import_results("log.jsonl")]
        with pytest.raises(NotPermitted, match="current folder"):
            api.export_run(run)
        assert not [t for t in texts_in(results) if any(place in t for place in named)]
    with acting_as(Person("olga@ward.org", "owner")):
        line = json.dumps({"patient": "1", "question": "Which?", "answer": "x"}).encode()
        assert api.receive_log("ward", [("l.jsonl", io.BytesIO(line))]) == "data/logs/ward/l.jsonl"
        assert "ward/l.jsonl" in api.received_files()
        (settings.received_folder() / "ward" / "l.jsonl").unlink()
        api.set_data_use("ward", "training_allowed", True, "agreement 7 of the tests")
        noted = [line for line in api.audit_lines() if line["event"] in ("tag", "exported")]
        assert noted[-1]["folder"] == "data/cohorts/ward"
        assert not [t for t in texts_in(noted) if any(place in t for place in named)]
        uploads = [("p1.txt", io.BytesIO(b"Seen in clinic."))]
        assert api.import_cohort("taken", uploads)["path"] == "data/cohorts/taken"
        assert api.remove_cohort("taken")["files"]
    zipped.unlink()
    log.unlink()
    (settings.cohorts_folder() / "broken").rmdir()
    for one in (outside, asking, results[1]["run"]):
        shutil.rmtree(settings.runs_folder() / one)


def exported_texts(run: str) -> Iterator[str]:
    """Every text of a run's export, the cells of its Parquet files and the bytes of all files."""
    with zipfile.ZipFile(io.BytesIO(api.export_bytes(run, True))) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            yield content.decode("utf-8", "replace")
            if name.endswith(".parquet"):
                yield from texts_in(pq.read_table(io.BytesIO(content)).to_pylist())


def test_a_gate_and_a_log_stay_names_in_plan_label_and_export(workspace, tmp_path, monkeypatch):
    """A run has the name of what it was told to read, whoever began it, and finds it in the
    installation's folders, wherever the process was started."""
    allow(write_cohort(settings.cohorts_folder() / "ward"))
    gates, logs = settings.gates_folder(), settings.received_folder()
    logs.mkdir()
    (current := tmp_path / "current").mkdir()
    for place in (gates / "first", tmp_path / "mine"):
        save_gate(place, random_gate())
    log = {"patient": "1", "question": "Which dose?", "answer": "10 milligram"}
    (logs / "log.jsonl").write_text(json.dumps(log) + "\n")
    (logs / "ids.csv").write_text("log,record\n1,1\n")
    for decoy in ("cache/gates/first/gate.json", "data/logs/log.jsonl", "data/logs/ids.csv"):
        (current / decoy).parent.mkdir(parents=True, exist_ok=True)
        (current / decoy).write_text("not this one")
    monkeypatch.chdir(current)
    monkeypatch.setattr(process, "launch", lambda folder, lock: lock.release())

    def begun(by: Person, spec: dict[str, Any]) -> str:
        with acting_as(by):
            run = api.start(spec)
        assert continue_run(find_run(run)) == "done"
        return run

    def with_gate(gate: str) -> dict[str, Any]:
        return spec_on("ward", arms=[{"name": "qccs", "gate": gate}])

    rita = Person("rita@ward.org", "researcher")
    named = begun(rita, with_gate("first"))
    audit = begun(rita, {"kind": "audit", "data": "ward", "log": "log.jsonl", "ids": "ids.csv"})
    plans = {run: find_run(run).plan() for run in (named, audit)}
    assert dict(plans[named].arms[0].options) == {"gate": "cache/gates/first"}
    assert plans[named].arms[0].label == "qccs gate=cache/gates/first"
    assert plans[audit].options["log"] == "data/logs/log.jsonl"
    assert plans[audit].options["ids"] == "data/logs/ids.csv"
    account = Person("root", "owner", is_account=True)
    by_path = begun(account, with_gate(str(gates / "first")))
    assert find_run(by_path).plan().arms[0].label == plans[named].arms[0].label
    outside = begun(account, with_gate(str(tmp_path / "mine")))
    (label,) = (arm.label for arm in find_run(outside).plan().arms)
    assert re.fullmatch(r"qccs gate=elsewhere/[0-9a-f]{8}/mine", label)
    for run in (named, audit, by_path, outside):
        with acting_as(rita):
            texts = list(exported_texts(run))
        assert any("ward" in text for text in texts)
        assert not [t[:90] for t in texts if str(tmp_path) in t], run
    begun_again = begun(rita, with_gate("cache/gates/first"))
    assert api.changed_questions(named, begun_again) == []
    save_gate(gates / "first", random_gate(seed=1))
    with pytest.raises(InputError, match="another gate checkpoint"):
        plan = find_run(named).plan()
        gate_checkpoints.refuse_others(find_run(named).path, plan.arms, plan.protocol)
    twice = spec_on("ward", arms=[{"name": "qccs", "gate": str(gates / "first")},
                                  {"name": "qccs", "gate": "cache/gates/first"}])  # fmt: skip
    assert "twice" in " ".join(api.preflight(twice)["problems"])


def test_the_account_names_any_path(site):
    assert len(api.open_data(site / CANARY).records) == 3
    assert api.check(str(site / CANARY))["records"] == 3
    with pytest.raises(InputError, match="no such file or folder"):
        api.open_data(site / "no-such-place")


def test_a_text_field_of_a_spec_is_marked_or_refused_with_a_path(site):
    """Every text of every spec: a path is refused unless its model says what it is."""
    schema = spec_schema()
    texts = set(_texts(schema))
    assert {("audit", "log"), ("answers", "data")} <= {(of, name) for of, name, _ in texts}
    for of, name, marked in sorted(texts):
        if marked == "words":
            continue
        for written in (str(site / CANARY), f"../{CANARY}", "~/x", f"a/../../{CANARY}"):
            if of in ("arms", "readers", "judges"):
                for component in _components_with(schema, of, name):
                    entry = {"name": component, name: written}
                    _refused(spec_on("ward", **{of: [entry]}))
            elif of in {kind["name"] for kind in api.kinds()}:
                _refused({**spec_on("ward"), "kind": of, name: written})
                _refused({**spec_on("ward"), "kind": of, name: [written]})


def _refused(spec: dict[str, Any]) -> None:
    with acting_as(Person("rita@ward.org", "researcher")):
        for function in (api.enqueue, api.preflight, api.estimate, api.start):
            with pytest.raises(NotPermitted, match="that this installation knows"):
                function(spec)


def _texts(schema: Any) -> Iterator[tuple[str, str, str]]:
    for of, node in schema["$defs"].items():
        for table in node.get("anyOf", [node]):
            for name, field in table.get("properties", {}).items():
                for form in [field, field.get("items", {}), *field.get("anyOf", ())]:
                    if form.get("type") == "string" and not {"enum", "const"} & set(form):
                        yield of, name, form.get(FORMAT, "")


def _components_with(schema: Any, of: str, field: str) -> list[str]:
    tables = [one for one in schema["$defs"][of]["anyOf"] if "properties" in one]
    return [t["properties"]["name"]["const"] for t in tables if field in t["properties"]]


@pytest.mark.parametrize("reader", ["extractive", "abstaining", "small"])
@pytest.mark.parametrize(
    "options",
    [
        {"embedder": "x"}, {"protocol": 1}, {"no_option": 1}, {"name": "small"}, {"": 1}, {1: 2},
        {"window": "x"}, {"window": [9]}, {"window": True}, {"window": -1}, "x", ["x"], 5,
        [("window", 9)],
    ],
)  # fmt: skip
def test_options_of_a_reader_are_held_to_what_a_spec_may_say(site, reader, options):
    ward = api.open_data("ward")
    instruction, protocol = ward.instructions[0], api.Protocol()
    record = ward.records[instruction.record_id]
    selection = api.select(ward, record, instruction, "bm25", protocol, 1)
    with pytest.raises(InputError) as refused:
        api.ask(instruction, selection, reader, protocol, options)
    assert "\n" not in str(refused.value) and "the reader " in str(refused.value)


def test_options_of_a_reader_take_no_path_of_people_who_sign_in(site):
    ward = api.open_data("ward")
    instruction, protocol = ward.instructions[0], api.Protocol()
    record = ward.records[instruction.record_id]
    selection = api.select(ward, record, instruction, "bm25", protocol, 1)
    with acting_as(Person("vera@ward.org", "viewer")):
        prompt, _ = api.ask(instruction, selection, "extractive", protocol, {"window": 4096})
        assert prompt.text
        for written in (str(site / CANARY), f"../{CANARY}", "~/x", {"deep": "/etc"}, ["/etc"]):
            for option in ("model", "path", "no_option"):
                with pytest.raises(NotPermitted, match="that this installation knows"):
                    api.ask(instruction, selection, "local", protocol, {option: written})


def test_a_spec_s_unknown_fields_and_nested_tables_take_no_path(site):
    for more in (
        {"unknown": str(site / CANARY)},
        {"unknown": {"deep": [[{"er": f"../{CANARY}"}]]}},
        {"arms": [{"name": "map_reduce", "reader": {"name": "local", "model": "../x"}}]},
        {"arms": [{"name": "no-such-arm", "folder": "/etc"}]},
    ):
        _refused(spec_on("ward", **more))


def test_an_error_of_a_call_is_still_the_call_s(site):
    with acting_as(Person("rita@ward.org", "researcher")):
        with pytest.raises(TypeError):
            api.open_data()
        with pytest.raises(MidchartError, match="kind"):
            api.estimate({"data": "ward"})


def test_an_imported_run_opens_no_place_that_its_sender_named(site, opened):
    """Neither its cohort's name in the current folder nor the file of an audit's log."""
    run = finished_run(spec_on("ward"))
    place = settings.runs_folder() / run
    note = {"imported": "2026-01-01", "by": "x", "with_text": False}
    document = json.loads((place / "spec.json").read_text())
    document["cohort"]["path"] = document["spec"]["data"] = CANARY
    (place / "spec.json").write_text(json.dumps(document))
    (place / "imported.json").write_text(json.dumps(note | {"cohort": "absent", "data": ""}))
    opened.clear()
    with contextlib.chdir(site), pytest.raises(InputError, match="its cohort is not here"):
        api.asked_of(run)
    document["spec"] |= {"kind": "audit", "options": {"log": str(site / CANARY / "log.jsonl")}}
    (place / "spec.json").write_text(json.dumps(document))
    ward = str(settings.cohorts_folder() / "ward")
    (place / "imported.json").write_text(json.dumps(note | {"cohort": "same", "data": ward}))
    with pytest.raises(InputError, match="'log' names is not part of an export"):
        api.asked_of(run)
    assert not [path for path in opened if CANARY in str(path)]
    shutil.rmtree(place)


ARGUMENTS: dict[str, Any] = {
    "arms": ["bm25"], "by": "", "card": "x", "cards": 2, "cell": "x", "first": "exact",
    "index": 0, "instruction": "x", "judge": "exact", "key": "x", "label": "bm25", "most": 3,
    "name": "renamed", "number": 2, "outcome": "correct", "protocol": api.Protocol(),
    "reader": "extractive", "reviewer": "ann", "second": "exact", "seed": 0, "table": "answers",
    "task": "x", "to": "archehr-qa", "content": "question,evidence\nown-1,Patient\n",
}  # fmt: skip
"""What a call of a function that takes a run has for its other parameters."""


def files_in(folder: Path) -> dict[str, bytes]:
    """The files in a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def calls_on(run: str, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every function of the interface that takes a run, with arguments; last the run's removal."""
    names = [name for name in ROLE_NAMES if name not in ("remove_run", "wait", "open_shipped")]
    for name in (*names, "remove_run"):
        parameters = inspect.signature(getattr(api, name)).parameters.values()
        kinds = {one.name: kind_of(name, one.name) for one in parameters}
        if "run" not in kinds.values():
            continue
        arguments: dict[str, Any] = {}
        for one in parameters:
            if kinds[one.name] == "run":
                several = {"x": run} if name == "faults_alone" else [run, run]
                arguments[one.name] = several if one.name in ("runs", "others") else run
            elif kinds[one.name] == "path":
                arguments[one.name] = folder / name
            elif one.name == "record":
                arguments[one.name] = next(iter(api.open_data("ward").records.values()))
            elif one.default is inspect.Parameter.empty:
                arguments[one.name] = ARGUMENTS[one.name]
        yield name, arguments


@pytest.mark.parametrize("role", ["account", "owner"])
@pytest.mark.parametrize("kind", ["answers", "audit", "audit with cards"])
def test_no_function_opens_the_place_that_an_imported_run_names(site, opened, tmp_path, kind, role):
    """Its sender chose the name; a folder of that name in the current folder is another one."""
    log = settings.received_folder() / "asked.jsonl"
    lines = [
        {"id": str(n), "patient": str(n), "question": f"Which drug, {n}?", "answer": "x",
         "context": "x"}
        for n in (1, 2)
    ]  # fmt: skip
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    audit = {"kind": "audit", "data": "ward", "log": str(log), "arms": ["bm25"]}
    asked = spec_on("ward", questions=["Which drug?"], judges=[])
    run = finished_run(asked if kind == "answers" else audit)
    place = settings.runs_folder() / run
    document = json.loads((place / "spec.json").read_text())
    document["cohort"]["path"] = document["spec"]["data"] = SENT
    (place / "spec.json").write_text(json.dumps(document))
    note = {"imported": "2026-01-01", "by": "x", "with_text": False, "cohort": "absent", "data": ""}
    (place / "imported.json").write_text(json.dumps(note))
    if kind == "audit with cards":
        card = {"time": "2026-01-01T00:00:00Z", "instruction": "x", "question": "own-1"}
        add_line(dealt_file(run), {**card, "size": 1.0, "next": 0.5})
    before = files_in(write_cohort(tmp_path / SENT))
    who = api.account() if role == "account" else Person("owner@ward.org", "owner")
    answered: list[str] = []
    opened.clear()
    with contextlib.chdir(tmp_path), acting_as(who):
        for name, arguments in calls_on(run, tmp_path):
            try:
                getattr(api, name)(**arguments)
                answered.append(name)
            except (MidchartError, KeyError) as error:  # KeyError: a table of another kind of run
                assert isinstance(error, MidchartError) or kind != "answers", name
            assert not [path for path in opened if SENT in str(path)], name
    assert files_in(tmp_path / SENT) == before
    assert {"status", "rows_warning", "audit_cards", "remove_run"} - set(answered) <= (
        {"audit_cards"} if kind != "audit" else set[str]()
    )
    assert not place.exists()


def test_a_run_s_cohort_is_opened_by_the_one_function_that_gives_its_path():
    files = [path for part in ("core", "pages") for path in (ROOT / part).rglob("*.py")]
    assert len(files) > 300
    calls = {str(path.relative_to(ROOT)): list(opened_by_plan(path.read_text())) for path in files}
    assert not {name: calls for name, by_plan in calls.items() if by_plan}
    for call in (
        "open_data(plan.data).records", "kept_questions(cohort_folder(folder.plan().data))",
        'api.open_data(shown.run["data"])', 'api.open_data(baseline["data"])',
        'digest_of(Path(status(run)["data"]))', "open_source(started.data)",
    ):  # fmt: skip
        assert list(opened_by_plan(f"def f():\n    return {call}\n")), call
    assert list(opened_by_plan('def f():\n    data = status(run)["data"]\n    open_data(data)\n'))
