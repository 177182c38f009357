"""Fixtures of all tests: no time limits for Hypothesis, cheap garbage collection, one workspace.

Streamlit collects garbage after every run of a page and statsmodels after every correction, each
time through all objects of torch and other libraries: up to a second on a busy machine.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import midchart
from tests.support.run_helpers import ROOT, SHARED, set_workspace

if Path(midchart.__file__).parent != ROOT:
    pytest.exit(f"the package midchart is {midchart.__file__}, not this checkout: pip install -e .")

# No example fails because the machine is busy.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
MAIN = sys.modules["__main__"]
PYTHON_PROCESSES: list[str] = []
"""The Python processes that the running test and its fixtures started."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    PYTHON_PROCESSES.clear()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """`make test` has its limit of time because what starts a process is marked ``slow``."""
    marked = item.get_closest_marker("slow") or item.get_closest_marker("browser")
    if PYTHON_PROCESSES and not marked:
        pytest.fail(f"starts Python, so it takes the marker slow: {PYTHON_PROCESSES[0]}")


@pytest.fixture(scope="session", autouse=True)
def python_processes_listed() -> Iterator[None]:
    """Every start of a Python interpreter is added to ``PYTHON_PROCESSES``."""
    start = subprocess.Popen.__init__

    def listed(self: Any, command: Any, *arguments: Any, **options: Any) -> None:
        words = [command] if isinstance(command, str | bytes | Path) else list(command)
        # The process that converts cohorts is started once for all tests.
        if os.fspath(words[0]) == sys.executable and "midchart.core.loaders.worker" not in words:
            PYTHON_PROCESSES.append(" ".join(map(str, words[:4])))
        start(self, command, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", listed)
        yield


@pytest.fixture(scope="session", autouse=True)
def installed_packages_read_once() -> Iterator[None]:
    """AppTest would read the metadata of every installed package for every page it opens."""
    with pytest.MonkeyPatch.context() as patch:
        if "streamlit" in sys.modules:
            from streamlit.components.v2 import manifest_scanner as scanner

            once = cache(scanner.scan_component_manifests)
            patch.setattr(scanner, "scan_component_manifests", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def sentences_encoded_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One folder of sentence vectors for the workspaces of all tests, in all their processes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "embeddings"
    folder.mkdir(exist_ok=True)
    SHARED.append(folder)


@pytest.fixture(scope="session", autouse=True)
def account_left_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the program remembers outside of a data folder is not kept in this account's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def disk_not_waited_for() -> Iterator[None]:
    """What tests write need not survive a power cut; test_crashes.py checks the order of calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def unfrozen_at_the_end() -> Iterator[None]:
    """Frozen objects are collected when the process ends."""
    yield
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def frozen_modules(unfrozen_at_the_end: None) -> None:
    """Objects alive when a file's tests begin are excluded from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def main_module_restored() -> Iterator[None]:
    """A page opened by a test replaces ``__main__``, and a process started later would run it."""
    sys.modules["__main__"] = MAIN
    yield
    sys.modules["__main__"] = MAIN


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace of this test's own, in force."""
    set_workspace(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of another installation, in which there is nothing yet."""
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "there"))
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    return tmp_path / "there"
