"""On Windows the program refuses in one line, before it imports missing modules."""

from __future__ import annotations

import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core.cli import main

REFUSED = "Midchart runs on Linux and macOS; on Windows, run it in WSL"


class Windows:
    name = "nt"


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midchart.core.errors.os", Windows)


@pytest.mark.usefixtures("windows")
def test_the_command_line_refuses_windows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 2
    assert capsys.readouterr().err == f"midchart: {REFUSED}\n"


@pytest.mark.usefixtures("windows")
def test_the_app_refuses_windows() -> None:
    app = AppTest.from_file("../../app.py", default_timeout=60).run()
    assert [error.value for error in app.error] == [REFUSED] and not app.exception


@pytest.mark.slow
def test_the_command_line_starts_without_posix_modules() -> None:
    code = "import sys; sys.modules |= {'fcntl': None, 'pwd': None}; import midchart.core.cli"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
