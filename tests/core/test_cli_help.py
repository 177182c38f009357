"""Help of the command line: groups, examples that work, and completion in a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from midchart.core.cli import COMMANDS, EXAMPLES, GROUPS, _parser, main
from tests.support.run_helpers import set_workspace

ROOT = Path(__file__).parents[2]
UNTESTED = {"app", "bench", "cards", "replicate", "resume"}
"""Examples that serve, take minutes, or need an audit or an interrupted run: only parsed."""


def words_of(example: str) -> list[str]:
    """The arguments of an example, without a redirection."""
    return shlex.split(example.partition(" > ")[0])[1:]


def test_every_command_is_in_one_group_and_its_help_ends_with_examples(capsys) -> None:
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(COMMANDS)
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"\n{title}:\n  " in shown for title in GROUPS)
    for name in COMMANDS:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert capsys.readouterr().out.endswith(f"{EXAMPLES[name][-1]}\n")
        for example in EXAMPLES[name]:
            assert _parser().parse_args(words_of(example)).command == name


@pytest.mark.slow
def test_examples_do_what_they_say(tmp_path: Path, monkeypatch, capsys) -> None:
    set_workspace(monkeypatch, tmp_path / "place")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "questions.txt").write_text("Which drugs does the patient take?\n")
    (tmp_path / "answers.jsonl").write_text(
        '{"patient": "124190252", "question": "Which drugs?", "context": "Takes apixaban.", '
        '"answer": "Apixaban.", "score": 1}'
    )
    for name in dict.fromkeys(("demo", "examples", *EXAMPLES)):
        for example in EXAMPLES[name] if name not in UNTESTED else ():
            # An installation refuses a run that it has.
            set_workspace(monkeypatch, tmp_path / ("other" if name == "import" else "place"))
            words = words_of(example.replace("/tmp/", f"{tmp_path}/"))
            status = main(words)
            assert status == 0, f"{example}: {capsys.readouterr().err[-500:]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("midchart rep", {"report", "replicate"}),
        ("midchart check de", {"demo", "demo-letters"}),
        ("midchart report 2026", {"20260101-000000-abcdef"}),
        ("midchart select demo --arm bm25_r", {"bm25_ranked"}),
        ("midchart ask demo q.txt --reader ext", {"extractive"}),
        ("midchart export r --out ", {"bin/", "data/", "notes-\\;x.txt"}),
        ("midchart export r --out ./-", {"./--with-text"}),
        ("midchart run ~/n", {"~/notes-\\;x.txt"}),
        ("midchart check data/co", {"data/cohorts/"}),
        ("midchart check data/none/", {""}),
    ],
)
def test_bash_completes_by_the_printed_script(tmp_path: Path, typed: str, offered: set[str]):
    """Names with hidden characters are not offered: visible, they would be other names."""
    characters = ("\x1b[31m", "\x9b", "\u202ex", "\u200b", "\n", "\u3164")
    hidden = [f"cohorts/demo{one}" for one in characters]
    hidden += [f"runs/2026{one}" for one in ("\x07", "\u2066")]
    shown = ("cohorts/demo", "cohorts/demo-letters", "runs/20260101-000000-abcdef")
    for folder in (*shown, *hidden):
        (tmp_path / "data" / folder).mkdir(parents=True)
    for name in ("notes-;x.txt", "a\n--with-text", "notes\x1b[31m", "notes\u202ex", "--with-text"):
        (tmp_path / name).touch()
    program = tmp_path / "bin" / "midchart"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m midchart.core "$@"\n')
    program.chmod(0o755)
    script = f"""
        source <(midchart completion bash)
        COMP_LINE={shlex.quote(typed)} COMP_POINT={len(typed)} COMP_TYPE=9
        COMP_WORDS=($COMP_LINE) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        _python_argcomplete midchart
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "PATH": path,
            "MIDCHART_DATA": str(tmp_path / "data"),
            "HOME": str(tmp_path),
        },
    )
    assert {line.strip() for line in done.stdout.splitlines()} == offered, done.stderr
