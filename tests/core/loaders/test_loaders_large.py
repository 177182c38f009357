"""A cohort of many files: what opening it stores, and how soon a change of a file is seen."""

from __future__ import annotations

import os
import time
from hashlib import blake2b
from pathlib import Path

import pytest

from midchart.core.loaders import open as loading
from tests.support.scale import Size, write

PATIENTS = 510


@pytest.fixture
def cohort(workspace: Path) -> Path:
    folder = workspace / "data" / "cohorts" / "many"
    write(folder, Size(PATIENTS, 12, 1, 1))
    old = time.time() - 3600
    for place in (folder, folder / "ehrs"):
        os.utime(place, (old, old))
    return folder


def test_the_hash_of_all_files_is_that_of_their_bytes(cohort: Path) -> None:
    first = loading.content_digest(cohort)
    assert first == plain_digest(cohort)
    file = cohort / "ehrs" / "7.xml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("a", "b", 1), encoding="utf-8")
    assert loading.content_digest(cohort) == plain_digest(cohort) != first
    file.write_text(text, encoding="utf-8")
    assert loading.content_digest(cohort) == first


def plain_digest(cohort: Path) -> str:
    """The hash by its definition: each name with its length, and the hash of the bytes."""
    total = blake2b(digest_size=20)
    for path in sorted(path for path in cohort.rglob("*") if path.is_file()):
        name = path.relative_to(cohort).as_posix()
        if name != "midchart.toml":
            total.update(f"{len(name)}:{name}".encode())
            total.update(blake2b(path.read_bytes(), digest_size=20).digest())
    return total.hexdigest()
