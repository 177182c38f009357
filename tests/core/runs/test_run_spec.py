"""Every field of a spec is checked before a run is made."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from midchart.core.cli import main
from midchart.core.errors import InputError
from midchart.core.runs.directory import find_run, run_ids
from midchart.core.runs.planner import find_data
from midchart.core.runs.process import start, status
from midchart.core.runs.spec import (
    parse_spec,
    read_spec,
    read_toml,
    spec_schema,
)
from tests.support.run_helpers import ROOT, write_cohort

GOOD = {
    "kind": "answers",
    "data": "demo",
    "arms": ["bm25"],
    "readers": ["extractive"],
    "judges": ["token_overlap"],
}


def test_a_spec_is_parsed():
    spec = parse_spec(
        {
            **GOOD,
            "arms": ["bm25", {"name": "bm25", "k": 1}, {"name": "random", "tokens": 100}],
            "protocol": {"preset": "corrected", "recency": 2},
            "seed": 9,
            "limit": 3,
        }
    )
    assert [a.label for a in spec.arms] == ["bm25", "bm25 k=1", "random tokens=100"]
    assert [(a.k, a.recency, a.tokens) for a in spec.arms] == [
        (20, 2, None),
        (1, 2, None),
        (20, 2, 100),
    ]
    assert (spec.protocol.seed, spec.protocol.recency, spec.limit) == (9, 2, 3)
    assert spec.name == "answers"


def test_readers_with_options_are_distinguished_by_what_differs():
    spec = parse_spec({**GOOD, "readers": ["extractive", {"name": "extractive", "window": 900}]})
    assert [(r.name, dict(r.options), r.label) for r in spec.reader_entries] == [
        ("extractive", {}, "extractive"),
        ("extractive", {"window": 900}, "extractive window=900"),
    ]
    assert spec.judges == ("token_overlap",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"arm": ["bm25"]}, ["'arm'", "Did you mean arms", "judges"]),
        ({"Best arms": ["bm25"]}, ["'Best arms'", "judges"]),
        ({"arms": ["bm52"]}, ["'bm52'", "Did you mean bm25", "oracle"]),
        ({"arms": []}, ["'arms' of the spec is []; it should have at least 1 item"]),
        ({"arms": "bm25"}, ["a valid list"]),
        ({"arms": [3]}, ["holds 3"]),
        ({"arms": [{"k": 3}]}, ["whose name is None"]),
        ({"arms": ["bm25", {"name": "bm25", "k": 20}]}, ["'bm25' twice"]),
        ({"arms": [{"name": "bm25", "k": -1}]}, ["'k'", "-1", "equal to 0"]),
        ({"arms": [{"name": "bm25", "kk": 1}]}, ["'kk'", "Did you mean k", "recency"]),
        ({"arms": [{"name": "oracle", "pinned": 1}]}, ["'pinned'"]),
        ({"readers": ["extractiv"]}, ["'extractiv'", "extractive"]),
        (
            {"readers": [{"name": "extractive", "protocol": 1}]},
            ["'protocol'", "Valid: name, window"],
        ),
        ({"readers": [{"name": "extractive", "window": True}]}, ["is True", "a valid integer"]),
        ({"readers": [{"name": "extractive", "window": -1}]}, ["'window'", "from "]),
        ({"judges": [{"name": "claude", "batch": True}]}, ["'batch'"]),
        (
            {"judges": [{"name": "claude", "timeout": "30s"}]},
            ["'30s'", "a valid number"],
        ),
        ({"judges": [{"name": "claude", "price_in": -1}]}, ["'price_in'", "equal to 0"]),
        ({"judges": [{"name": "exact", "repeats": 2}]}, ["'repeats'", "Valid: name"]),
        ({"readers": ["extractive", "extractive"]}, ["twice"]),
        ({"kind": "answer"}, ["'answer'", "Did you mean answers", "selection"]),
        ({"kind": "curve"}, ["takes no arms"]),
        ({"kind": "needles"}, ["can be used at any", "232 tokens"]),
        ({"kind": "gate"}, ["gate"]),
        ({"kind": None}, ["'kind'"]),
        ({"protocol": "corect"}, ["'corect'", "corrected, published"]),
        ({"protocol": {"unti": "event"}}, ["'unti'", "unit"]),
        ({"protocol": 3}, ["'protocol'"]),
        ({"seed": -1}, ["'seed'"]),
        ({"limit": 0}, ["'limit'", "equal to 1"]),
        ({"name": ""}, ["'name'"]),
        *(
            (
                {field: f"a{character}b"},
                [f"'{field}' of the spec takes printable text of at most 200"],
            )
            for field in ("name", "group")
            for character in "\n\x1b\x85\x9b\u200b\u202e\U000e0041"
        ),
        ({"group": "x" * 201}, ["'group' of the spec takes printable text of at most 200"]),
        ({"semantic": "yes"}, ["'semantic'", "'yes'", "answer, evidence"]),
        ({"token_matched": [600, "x"]}, ["'token_matched'", "'x'"]),
        ({"token_matched": [600, 600]}, ["twice"]),
        ({"data": "nowhere/at/all"}, ["nowhere/at/all", "no such cohort"]),
    ],
)
def test_an_invalid_field_is_named_with_valid_values_and_no_run_is_made(
    workspace: Path, change: dict[str, object], says: list[str]
):
    write_cohort(workspace / "data" / "cohorts" / "demo", records=1)
    with pytest.raises(InputError) as error:
        start({**GOOD, **change})
    for word in says:
        assert word in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_status == 2
    assert not (workspace / "data" / "runs").exists()


def test_every_spec_of_the_docs_is_valid_under_the_printed_schema(capsys):
    files = sorted((ROOT / "docs").glob("*.toml"))
    specs = {path: read_toml(path.read_text()) for path in files if path.stem != "claims"}
    assert main(["schema", "--json"]) == 0
    every = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    every.check_schema(every.schema)
    for path, table in specs.items():
        one = jsonschema.Draft202012Validator(spec_schema(table["kind"]))
        assert [error.message for error in one.iter_errors(table)] == [], path
        assert every.is_valid(table), path
        for wrong in ({"limt": 1}, {"seed": -1}, {"protocol": {"k": -1}}, {"arms": ["bm52"]}):
            assert not one.is_valid(table | wrong), path
    assert not every.is_valid(table | wrong)


def test_the_schema_has_title_description_limits_and_default_of_each_field(capsys):
    table = spec_schema("needles")
    assert all({"title", "description"} <= field.keys() for field in table["properties"].values()
               if "const" not in field)  # fmt: skip
    needles = table["properties"]["needles"]
    assert (needles["minimum"], needles["maximum"], needles["default"]) == (1, 24, 4)
    assert "limit" not in table["properties"], "the kind refuses it"
    assert main(["schema", "nedles"]) == 2
    assert "Did you mean needles?" in capsys.readouterr().err


def test_a_cohort_without_questions_or_evidence_is_refused(workspace: Path):
    cohort = write_cohort(workspace / "data" / "cohorts" / "demo", records=1)
    (cohort / "clinician-instruction-responses.tsv").unlink()
    with pytest.raises(InputError, match="no instructions"):
        start(GOOD)
    with pytest.raises(InputError, match="no instructions"):
        start({**GOOD, "data": str(cohort / "ehrs" / "1.xml")})
    assert not (workspace / "data" / "runs").exists()


def test_spec_files_are_read_and_unreadable_ones_refused(tmp_path: Path):
    path = tmp_path / "first.toml"
    path.write_text('kind = "selection"\ndata = "demo"\narms = ["bm25"]\n')
    spec = read_spec(path)
    assert (spec.name, spec.base) == ("first", str(tmp_path))
    path.write_text('kind = "selection"\narms = [')
    with pytest.raises(InputError, match="not valid TOML"):
        read_spec(path)
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(InputError, match="not UTF-8"):
        read_spec(path)
    with pytest.raises(InputError, match="no such spec"):
        read_spec(tmp_path / "second.toml")
    with pytest.raises(InputError, match="cannot be read"):
        read_spec(tmp_path)


def test_data_is_found_as_a_path_next_to_the_spec_and_by_name(workspace: Path, monkeypatch):
    cohort = write_cohort(workspace / "data" / "cohorts" / "demo", records=1)
    away = workspace / "away"
    for folder in (away, workspace / "data" / "demo"):  # the program has such a folder of archives
        folder.mkdir()
    monkeypatch.chdir(away)
    for name in (str(cohort), "demo", "data/cohorts/demo", "cohorts/demo"):
        assert find_data(name) == cohort
    neighbour = write_cohort(workspace / "specs" / "mine", records=1)
    assert find_data("mine", str(workspace / "specs")) == neighbour


def test_unknown_runs_are_refused_and_no_path_is_taken_for_one(workspace: Path):
    assert run_ids() == status() == []
    for name in ("nope", "../data", "", ".", "/etc"):
        with pytest.raises(InputError, match="unknown run"):
            find_run(name)
