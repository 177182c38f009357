"""People who sign in reach what the installation knows, by name; nothing else is looked at."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.access import guarded, role_needed
from midchart.core.errors import InputError, MidchartError, NotPermitted
from midchart.core.identity import ROLES, Person, acting_as
from midchart.core.options import FORMAT
from midchart.core.runs.spec import spec_schema
from midchart.extras.server.arguments import REFUSED, kinds_of, received_files
from tests.extras.server.test_roles import names_of_functions
from tests.support.run_helpers import finished_run, workspace_at, write_cohort

CANARY = "canary-outside"


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


def named_parameters() -> Iterator[tuple[str, str, str]]:
    """Function, parameter and kind of every parameter that may name an object."""
    for name in names_of_functions():
        for parameter, kind in kinds_of(getattr(api, name)).items():
            if kind is not None:
                yield name, parameter, kind.value


def forms(name: str, parameter: str, kind: str, written: str) -> list[Any]:
    """The forms in which a call may name an object."""
    if kind.startswith("spec"):
        tables: list[Any] = [
            spec_on(written),
            {"kind": "audit", "data": "ward", "log": written},
            {"kind": "audit", "data": "ward", "log": "kept.jsonl", "ids": written},
            spec_on("ward", arms=[{"name": "qccs", "gate": written}]),
            spec_on("ward", arms=[{"name": "certain", "calibration": written}]),
        ]
        return [*tables, written]
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
                if ROLES.index(role_needed(getattr(api, name))) > ROLES.index(role):
                    assert "needs the role" in str(refused.value)
                else:
                    assert str(refused.value).endswith(REFUSED), (what, parameter)
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
        assert guarded(received_files)() == ["kept.jsonl"]
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


@pytest.mark.parametrize("reader", ["extractive"])
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


def test_results_name_cohorts_runs_and_folders_by_name(site):
    """For people who sign in; the account reads paths."""
    with acting_as(Person("olga@ward.org", "owner")):
        run = api.status(None)[0]
        folders = api.folders()
        (card,) = [card for card in api.cohorts() if not card.problem]
        (imported,) = [
            api.import_cohort("taken", [("p1.txt", io.BytesIO(b"Seen in clinic."))])["path"]
        ]
        api.remove_cohort("taken")
    assert run["data"] == card.path == "data/cohorts/ward" and imported == "data/cohorts/taken"
    assert run["folder"] == f"data/runs/{run['run']}" and folders["cohorts"] == "data/cohorts"
    assert api.status(None)[0]["data"] == str(settings.cohorts_folder() / "ward")
