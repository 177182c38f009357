"""Valid inputs that the mutators change: the case folders of every format, and kept questions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fuzz.mutate import CANARY
from tests.support.cases import CASES, EXPECTED
from tests.support.run_helpers import write_cohort

Files = dict[str, bytes]
"""Path in a cohort's folder → content."""
MOST_BYTES = 100_000
"""Size of a seed: small ones are read often."""
MANIFEST = b"""name = "ward"
source = "hospital"
licence = "none"
training_allowed = false
external_services_allowed = false
deidentified = "yes"
synthetic = true
"""


def files_in(folder: Path) -> Files:
    """The files of a folder."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@cache
def cases(*formats: str) -> tuple[tuple[Files, frozenset[str]], ...]:
    """The inputs of the case folders of formats, each with phrases of its records' texts that no
    message may contain."""
    seeds: list[tuple[Files, frozenset[str]]] = []
    for name in formats:
        for case in sorted((CASES / name).iterdir()):
            files = files_in(case / "input")
            if files and sum(map(len, files.values())) <= MOST_BYTES:
                expected = json.loads((case / EXPECTED).read_text("utf-8"))
                content = b"\n".join(files.values())
                phrases = _phrases(expected.get("records", {}))
                seeds.append((files, frozenset(p for p in phrases if p.encode() in content)))
    return tuple(seeds)


def _phrases(records: dict[str, Any]) -> frozenset[str]:
    """Three words after each other of an event's text, with a word of letters in each."""
    phrases: set[str] = set()
    for record in records.values():
        for event in record["events"] if isinstance(record, dict) else ():
            words = event.get("text", "").split(" ")
            for at in range(len(words) - 2):
                three = words[at : at + 3]
                if all(word.isalpha() for word in three) and sum(map(len, three)) >= 12:
                    phrases.add(" ".join(three))
    return frozenset(phrases)


@cache
def kept_questions() -> Files:
    """A cohort with questions and evidence that people kept with it."""
    base = {"by": "ann", "time": "2026-01-01T00:00:00+00:00"}
    evidence = {"action": "evidence", "id": "own-1", "spans": [[0, 0, 9]], "texts": ["Patient 0"]}
    lines = (
        {"action": "question", "id": "own-1", "record": "1", "question": "Which dose?", **base},
        {"action": "answer", "id": "own-1", "answer": CANARY, "documented": True, **base},
        {**evidence, **base},
        {**evidence, **base, "by": "bob"},
        {"action": "question", "id": "own-2", "record": "2", "question": "When?", **base},
        {"action": "withdrawn", "id": "own-2", **base},
    )
    with TemporaryDirectory() as folder:
        files = files_in(write_cohort(Path(folder) / "c", records=2, events=8))
    return {**files, "midchart.questions": ("\n".join(map(json.dumps, lines)) + "\n").encode()}
