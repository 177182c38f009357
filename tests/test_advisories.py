"""Pins are compared with advisories as OSV means its ranges, and the file's age is said."""

from __future__ import annotations

import json
import re
import zipfile
from datetime import date
from importlib import metadata

import pytest

from tests import advisories
from tests.advisories import FILE, age, covers, findings, locked
from tests.sbom import Pin, application, document, normal


def record(*events: dict[str, str], name: str = "jinja2") -> dict[str, object]:
    spans = [{"type": "ECOSYSTEM", "events": list(events)}]
    return {"id": "X-1", "affected": [{"package": {"name": name}, "ranges": spans}]}


@pytest.mark.parametrize(
    ("version", "covered"),
    [("1.9", False), ("2.0rc1", False), ("2.0", True), ("2.10", True), ("3.1.5", True),
     ("3.1.6", False), ("3.1.6.post1", False), ("4.0", True), ("4.2", True), ("4.3", False)],
)  # fmt: skip
def test_a_version_is_covered_from_introduced_on_until_fixed(version, covered):
    first = record({"introduced": "2.0"}, {"fixed": "3.1.6"})
    second = record({"introduced": "4.0"}, {"last_affected": "4.2"})
    assert (covers(first, "jinja2", version) or covers(second, "jinja2", version)) == covered
    assert not covers(first, "markupsafe", version)


def test_findings_name_pin_and_advisory_and_leave_out_what_was_withdrawn():
    packages = {"jinja2": Pin("3.0"), "numpy": Pin("2.4.6")}
    covering = {**record({"introduced": "0"}, {"fixed": "3.1.6"}), "aliases": ["CVE-1"]}
    withdrawn = {**covering, "withdrawn": "2024-01-01T00:00:00Z"}
    listed = record()
    listed["affected"] = [{"package": {"name": "NumPy"}, "versions": ["2.4.6"]}]
    lines = list(findings([covering, withdrawn, listed], packages))
    assert lines == ["jinja2 3.0: X-1, CVE-1", "numpy 2.4.6: X-1"]


def test_the_shipped_advisories_are_dated_and_cover_no_pin(capsys):
    shipped = json.loads(FILE.read_text("utf-8"))
    assert date.fromisoformat(shipped["date"]) and shipped["source"]
    names = {one["package"]["name"] for a in shipped["advisories"] for one in a["affected"]}
    assert {normal(name) for name in names} <= locked().keys()
    assert all(re.fullmatch(r"(CVE|GHSA|PYSEC)-[\w-]+", a["id"]) for a in shipped["advisories"])
    for advisory in shipped["advisories"]:
        (affected,) = advisory["affected"]
        first, *_ = affected["ranges"][0]["events"]
        *_, last = affected["ranges"][-1]["events"]
        name = normal(affected["package"]["name"])
        assert covers(advisory, name, first["introduced"])
        assert not covers(advisory, name, last["fixed"])
    assert advisories.main([]) == 0
    printed = capsys.readouterr().out
    assert shipped["date"] in printed


@pytest.mark.parametrize(("today", "old"), [("2026-01-01", False), ("2026-04-01", False),
                                            ("2026-04-02", True)])  # fmt: skip
def test_advisories_older_than_ninety_days_are_said_to_be_old(
    tmp_path, monkeypatch, capsys, today, old
):
    file = tmp_path / "advisories.json"
    file.write_text(json.dumps({"date": "2026-01-01", "source": "a test", "advisories": []}))
    assert age(json.loads(file.read_text()), date(2026, 4, 1)) == 90
    monkeypatch.setattr(advisories, "FILE", file)

    class Today(date):
        @classmethod
        def today(cls) -> date:
            return date.fromisoformat(today)

    monkeypatch.setattr(advisories, "date", Today)
    assert advisories.main([]) == 0
    assert ("days old" in capsys.readouterr().out) == old


def test_an_export_of_osv_replaces_the_file_and_a_covered_pin_fails(tmp_path, monkeypatch, capsys):
    export = tmp_path / "all.zip"
    version = locked()["numpy"].version
    covering = record({"introduced": "0"}, {"last_affected": version}, name="numpy")
    other = record({"introduced": "0"}, name="not-locked")
    with zipfile.ZipFile(export, "w") as archive:
        for name, one, day in (("a", covering, "2026-02-01"), ("b", other, "2026-03-01")):
            archive.writestr(f"{name}.json", json.dumps({**one, "modified": f"{day}T00:00:00Z"}))
    monkeypatch.setattr(advisories, "FILE", tmp_path / "advisories.json")
    assert advisories.main(["--from", str(export)]) == 1
    assert f"numpy {version}: X-1" in capsys.readouterr().out
    written = json.loads((tmp_path / "advisories.json").read_text())
    assert written["date"] == "2026-03-01" and len(written["advisories"]) == 1


def test_the_bill_of_materials_covers_what_the_wheel_needs():
    """The wheel's requirements are those of pyproject.toml, each in the bill by its version."""
    listed = {one["name"]: one["version"] for one in document(application())["components"]}
    needed = [one for one in metadata.requires("midchart") or [] if "extra ==" not in one]
    assert len(needed) > 5
    for one in needed:
        name, pinned = re.match(r"([\w.-]+)(?:==([\w.]+))?", one).groups()
        assert normal(name) in listed, f"the wheel needs {one}, which the bill lacks"
        assert pinned is None or listed[normal(name)].startswith(pinned)
