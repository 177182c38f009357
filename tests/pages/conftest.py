"""Data folders that tests of pages share: a finished comparison, a cohort, nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.pages.ui.patient import model
from tests.support import app_data, patient_cohort
from tests.support.pages import forget_other_workspace, page_at, shared_workspace
from tests.support.run_helpers import finished_run, workspace_at


@dataclass(frozen=True)
class Finished:
    """A workspace with two finished runs on one cohort, and a cohort that cannot be opened."""

    folder: Path
    comparison: str
    selection: str


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Made once; tests read it and leave it as it is."""
    with workspace_at(tmp_path_factory.mktemp("finished")) as folder:
        cohort = app_data.make_cohort(folder / "data")
        (folder / "data" / "cohorts" / "broken").mkdir()
        selection = finished_run(
            {"kind": "selection", "data": str(cohort), "arms": ["bm25", "recency"], "name": "kept"}
        )
        return Finished(folder, app_data.make_run(cohort), selection)


@pytest.fixture
def monkeypatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Pages cache their results: what they computed while something was patched is forgotten."""
    yield monkeypatch
    st.cache_data.clear()


@pytest.fixture
def run(finished: Finished) -> Iterator[str]:
    """The finished comparison's identifier, its workspace in force."""
    with shared_workspace(finished.folder):
        yield finished.comparison


@pytest.fixture(autouse=True)
def _in_one_run() -> Iterator[None]:
    """A page is drawn with all its arms, and no thread outlives a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "MOMENT_S", 1000.0)
        yield


@pytest.fixture
def empty(workspace: Path) -> Path:
    """An empty workspace, in force."""
    forget_other_workspace()
    return workspace


@pytest.fixture
def home(empty: Path) -> Path:
    """A workspace with one small cohort, in force."""
    app_data.make_cohort(empty / "data")
    return empty


@pytest.fixture(scope="session")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the cohort of the Patient page's tests."""
    folder = tmp_path_factory.mktemp("patients")
    patient_cohort.make(folder / "data" / "cohorts" / "hand")
    return folder


@pytest.fixture
def patient_page(patients: Path) -> Iterator[AppTest]:
    """The Patient page with three fast arms, not run yet."""
    with shared_workspace(patients):
        app = page_at("patient")
        app.session_state["patient_arms"] = ["bm25", "recency", "oracle"]
        yield app


@pytest.fixture(scope="session")
def small_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the demo of three patients."""
    with workspace_at(tmp_path_factory.mktemp("small_demo")) as folder:
        api.prepare_demo(patients=3, events_per_patient=80)
    return folder


@pytest.fixture
def cohort(small_demo: Path) -> Iterator[api.Cohort]:
    """The cohort of three patients, its workspace in force."""
    with shared_workspace(small_demo):
        yield api.open_data("demo")
