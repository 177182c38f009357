"""Compares the pins of the locks with known advisories, offline.

``python -m tests.advisories`` (``make advisories``) names each pin that an advisory of
``tests/advisories.json`` covers, and says when that file is older than 90 days; the exit status is
1 for a pin that is covered, 0 otherwise. ``--from FILE`` makes the file anew of an export of OSV
(``all.zip`` of its ecosystem PyPI, https://google.github.io/osv.dev/data/), which somebody has
fetched: records of the locked packages, with the day of the export's newest change.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from packaging.version import Version

from tests.sbom import ROOT, Pin, normal, pins

FILE = ROOT / "tests" / "advisories.json"
LOCKS = ("requirements.lock", "requirements.txt", "tests/requirements.lock")
OLDEST_DAYS = 90


def covers(advisory: Mapping[str, Any], package: str, version: str) -> bool:
    """Whether an OSV record covers a version of a package, by its ranges or its list of versions.

    In a range, versions from ``introduced`` on are covered, up to ``fixed`` or with
    ``last_affected`` (https://ossf.github.io/osv-schema/#affectedranges-field).
    """
    pinned = Version(version)
    for affected in advisory.get("affected", ()):
        named = affected["package"]
        if named.get("ecosystem", "PyPI") != "PyPI" or normal(named["name"]) != package:
            continue
        if version in affected.get("versions", ()):
            return True
        for span in affected.get("ranges", ()):
            if span["type"] == "ECOSYSTEM" and _in_range(span["events"], pinned):
                return True
    return False


def _in_range(events: Iterable[Mapping[str, str]], version: Version) -> bool:
    covered = False
    for event in events:
        if "introduced" in event and version >= Version(event["introduced"]):
            covered = True
        if "fixed" in event and version >= Version(event["fixed"]):
            covered = False
        if "last_affected" in event and version > Version(event["last_affected"]):
            covered = False
    return covered


def findings(advisories: Iterable[Mapping[str, Any]], packages: Mapping[str, Pin]) -> Iterator[str]:
    """A line for each pin that an advisory covers."""
    for advisory in advisories:
        if "withdrawn" in advisory:
            continue
        for name, pin in packages.items():
            if covers(advisory, name, pin.version):
                known = ", ".join([advisory["id"], *advisory.get("aliases", ())])
                yield f"{name} {pin.version}: {known}"


def age(document: Mapping[str, Any], today: date) -> int:
    """Days since the advisories were collected."""
    return (today - date.fromisoformat(document["date"])).days


def locked() -> dict[str, Pin]:
    """Every package of the locks, and those that are pinned outside of them."""
    return {name: pin for file in LOCKS for name, pin in pins(ROOT / file).items()}


def of_export(file: Path, packages: Iterable[str]) -> dict[str, Any]:
    """The document of an OSV export: its records of ``packages``."""
    known, records, newest = set(packages), [], ""
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            record = json.loads(archive.read(name))
            newest = max(newest, record["modified"][:10])
            if any(normal(one["package"]["name"]) in known for one in record.get("affected", ())):
                fields = ("id", "aliases", "withdrawn", "affected")
                records.append({key: record[key] for key in fields if key in record})
    return {"date": newest, "source": f"OSV export {file.name}", "advisories": records}


def main(arguments: list[str]) -> int:
    """Print what is covered and how old the advisories are."""
    packages = locked()
    if arguments[:1] == ["--from"]:
        document = of_export(Path(arguments[1]), packages)
        FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    document = json.loads(FILE.read_text(encoding="utf-8"))
    lines = list(findings(document["advisories"], packages))
    print(*lines, sep="\n", end="\n" if lines else "")
    days = age(document, date.today())
    number = len(document["advisories"])
    print(f"{len(packages)} pins, {number} advisories of {document['date']} ({document['source']})")
    if days > OLDEST_DAYS:
        print(f"the advisories are {days} days old: newer ones are not known here (--from FILE)")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
