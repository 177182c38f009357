"""Components of installed packages, imported one at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from midchart.core.arms import ARMS
from midchart.core.errors import InputError, UnknownName
from midchart.core.results.titles import title
from midchart.core.runs.spec import parse_spec
from tests.support.run_helpers import ROOT, write_cohort

LAST_WORD = '''
import numpy as np
from midchart.core.arms.base import ScoredArm

class LongestWord(ScoredArm):
    """The score is the length of the longest word."""

    name, title = "longest_word", "Longest word"

    def score(self, pool, instruction):
        return np.array([max(map(len, s.text.split()), default=0) for s in pool.sentences], float)
'''


def install(site: Path, package: str, code: str, member: str, target: str) -> None:
    """What pip leaves of a package with one arm: a module and its metadata."""
    site.mkdir(exist_ok=True)
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[midchart.arms]\n{member} = {package}:{target}\n")


def run_python(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    return subprocess.run(
        [sys.executable, *arguments], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packages, one of which cannot be imported."""
    folder = tmp_path_factory.mktemp("site")
    install(folder, "ward_arms", LAST_WORD, "longest_word", "LongestWord")
    install(folder, "broken_arms", "import nothing_of_this_name\n", "broken", "Broken")
    return folder


@pytest.mark.slow
def test_an_installed_package_brings_an_arm(site: Path, tmp_path: Path) -> None:
    cohort = write_cohort(tmp_path / "tiny", records=1)
    question = "What dose of lisinopril does the patient take?"
    call = ["-m", "core", "select", str(cohort), "--record", "1", "--question", question, "--json"]
    done = run_python(site, *call, "--arm", "longest_word", "--k", "3")
    assert done.returncode == 0, done.stderr
    selection = json.loads(done.stdout)
    selected = [s for s in selection["sentences"] if s["kept_by"] != "recency"]
    assert selection["arm"] == "longest_word" and len(selected) == 3
    for sentence in selected:
        assert sentence["score"] == max(map(len, sentence["text"].split()))


@pytest.mark.slow
def test_a_broken_package_is_named_and_affects_no_other_arm(site: Path, tmp_path: Path) -> None:
    cohort = write_cohort(tmp_path / "tiny", records=1)
    call = ["-m", "core", "select", str(cohort), "--record", "1", "--question", "dose", "--arm"]
    broken = run_python(site, *call, "broken")
    assert broken.returncode == 2 and "broken_arms" in broken.stderr
    assert "Traceback" not in broken.stderr
    unknown = run_python(site, *call, "longest_wrd")
    assert unknown.returncode == 2 and "longest_word" in unknown.stderr
    assert run_python(site, *call, "bm25").returncode == 0


@pytest.mark.slow
def test_building_one_arm_imports_only_that_arm() -> None:
    code = (
        "import sys; from midchart.core.arms import ARMS; ARMS.get('bm25'); "
        "print([m for m in sys.modules if m.startswith('midchart.core.arms.') and 'qccs' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_refused_with_the_valid_ones() -> None:
    for name in ("bm52", "base", "..bm25", ""):
        with pytest.raises(UnknownName, match="bm25"):
            ARMS.get(name)
    assert issubclass(UnknownName, InputError)


def test_an_arm_that_left_is_refused_with_what_to_use_instead() -> None:
    spec = {"kind": "selection", "data": "demo", "arms": ["bm25", "qccs_plus"]}
    for refused in (lambda: ARMS.get("qccs_plus"), lambda: parse_spec(spec)):
        with pytest.raises(InputError, match="'qccs_plus' left; use hybrid"):
            refused()
    assert title("arm", "qccs_plus k=5") == "qccs_plus k=5" and "qccs_plus" not in ARMS.names()
