"""Files of synthetic cohorts, read by a parser independent of the generator."""

from __future__ import annotations

import csv
import hashlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path

from midchart.core.types import Event


def digest(folder: Path) -> str:
    """SHA-256 of all files of a folder, their names included."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            total.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


def tsv_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table separated by tabulators."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def xml_events(path: Path) -> list[tuple[str, Event]]:
    """(timestamp, event) of a record, in order of time."""
    entries = [
        (entry.attrib["timestamp"], event.attrib, "".join(event.itertext()))
        for entry in ET.parse(path).getroot().iter("entry")
        for event in entry.iter("event")
    ]
    entries.sort(key=lambda entry: entry[0])
    return [
        (stamp, Event(i, None, e["type"], e["code"], e["name"], text, e.get("unit", "")))
        for i, (stamp, e, text) in enumerate(entries)
    ]


def evidence_spans(row: dict[str, str]) -> list[tuple[int, int, int]]:
    """(event, start, end) of each piece of evidence of a question."""
    matches = [re.fullmatch(r"(\d+):(\d+)-(\d+)", s) for s in row["evidence_spans"].split("|||")]
    return [(int(m[1]), int(m[2]), int(m[3])) for m in matches if m is not None]
