"""``import midchart``: the document runs, the functions are described, errors are one line."""

from __future__ import annotations

import contextlib
import io
import pydoc
import re
from pathlib import Path
from typing import Any

import pytest

import midchart
from midchart.core.errors import InputError
from tests.support.run_helpers import ROOT

DOCUMENT = (ROOT / "docs" / "notebook.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.M | re.S)


@pytest.mark.slow
def test_the_document_runs_from_a_fhir_file_to_a_figure(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in BLOCKS:
            exec(compile(block, "docs/notebook.md", "exec"), names)
    assert len(BLOCKS) == 5
    selected = names["kept"]
    by_arm = selected[selected["kept_by"] != "recency"]
    assert {str(time)[:4] for time in by_arm["time"]} == {"2019", "2020"}
    assert "metformin" in names["answer"]["prompt"][0].lower()
    assert names["answer"]["ended"][0] == "stop"
    assert names["answer"]["source"][0] in names["answer"]["prompt"][0]
    assert {"text", "kept"} <= set(names["evidence"])
    assert len(names["figure"].data) >= 1
    assert (workspace / "evidence.html").stat().st_size > 10_000
    assert (workspace / "run.zip").is_file()
    assert "Full record" in printed.getvalue()


def test_help_describes_every_function() -> None:
    text = pydoc.plain(pydoc.render_doc(midchart))
    for name in midchart.core.notebook.__all__:
        assert re.search(rf"^    {name}\(", text, re.M), name
        assert len(getattr(midchart, name).__doc__.splitlines()[0]) > 20


def test_a_notebook_shows_an_error_in_one_line() -> None:
    shown = InputError("cohort: this is wrong")._render_traceback_()
    assert shown == ["InputError: cohort: this is wrong"]
