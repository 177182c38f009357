"""The wheel in an empty environment: one package, its command, and the pages with the demo."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from midchart.core import __version__
from tests.support.run_helpers import ROOT

pytestmark = pytest.mark.slow

CPU_BUILD = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")
PATIENCE_S = 300


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, folder, ROOT], check=True)
    (built,) = folder.glob("midchart-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment into which only the wheel was installed."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = ["-m", "pip", "install", "--quiet", "--no-compile", "--retries", "1", *CPU_BUILD]
    subprocess.run([folder / "bin" / "python", *command, wheel], check=True)
    return folder / "bin"


def outside(home: Path) -> dict[str, str]:
    """The environment of a person without this checkout, settings or data."""
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("MIDCHART_", "PYTHON", "XDG"))
    }
    return variables | {"HOME": str(home)}


def test_nothing_but_midchart_enters_an_environment(installed: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util, midchart.core.api, midchart.pages; "
        "print(importlib.util.find_spec('core'), importlib.util.find_spec('pages'))"
    )
    done = subprocess.run(
        [installed / "python", "-c", code],
        cwd=tmp_path, env=outside(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "None None\n"
    printed = subprocess.run(
        [installed / "midchart", "--version"],
        cwd=tmp_path, env=outside(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert printed.stdout == f"midchart {__version__}\n"


def test_the_installed_app_shows_the_demo_and_keeps_data_in_the_home_folder(
    installed: Path, tmp_path: Path
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    app = subprocess.Popen(
        [installed / "midchart", "app", "--port", str(port)],
        cwd=tmp_path, env=outside(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        begin = time.monotonic()
        while True:
            assert app.poll() is None, app.stderr and app.stderr.read().decode()
            assert time.monotonic() - begin < PATIENCE_S, "the app does not answer"
            try:
                address = f"http://127.0.0.1:{port}/_stcore/health"
                with urllib.request.urlopen(address, timeout=5) as reply:
                    assert reply.status == 200
                    break
            except OSError:
                time.sleep(0.5)
        listed = subprocess.run(
            [installed / "midchart", "check", "demo", "--json"],
            cwd=tmp_path, env=outside(tmp_path), capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        app.terminate()
        app.wait(30)
    assert '"records": 40' in listed.stdout
    assert (tmp_path / ".local/share/midchart/cohorts/demo/midchart.toml").is_file()
    assert (tmp_path / ".local/share/midchart/runs").is_dir()
