"""Help of the command line: groups, examples that work, and completion in a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from midchart.core.cli import COMMANDS, _parser, main
from tests.support.run_helpers import set_workspace

ROOT = Path(__file__).parents[2]
UNTESTED = {"app", "bench", "cards", "replicate", "resume", "serve"}
"""Examples that serve, take minutes, or need an audit or an interrupted run: only parsed."""


def words_of(example: str) -> list[str]:
    """The arguments of an example, without a redirection."""
    return shlex.split(example.partition(" > ")[0])[1:]


def test_every_command_is_in_a_group_and_its_help_ends_with_examples(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)
    for name, command in COMMANDS.items():
        assert f"\n{command.group}:\n  " in shown
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert capsys.readouterr().out.endswith(f"{command.examples[-1]}\n")
        for example in command.examples:
            assert _parser().parse_args(words_of(example)).command == name


@pytest.mark.slow
def test_examples_do_what_they_say(tmp_path: Path, monkeypatch, capsys) -> None:
    set_workspace(monkeypatch, tmp_path / "place")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "questions.txt").write_text("Which drugs does the patient take?\n")
    (tmp_path / "verdicts.tsv").write_text(
        "question\treferences\tanswer\tpeople\nWhich dose?\t5 mg\t5 mg daily\tcorrect\n"
    )
    (tmp_path / "answers.jsonl").write_text(
        '{"patient": "124190252", "question": "Which drugs?", "context": "Takes apixaban.", '
        '"answer": "Apixaban.", "score": 1}'
    )
    for name in dict.fromkeys(("demo", "examples", *COMMANDS)):
        for example in COMMANDS[name].examples if name not in UNTESTED else ():
            # An installation refuses a run that it has.
            set_workspace(monkeypatch, tmp_path / ("other" if name == "import" else "place"))
            words = words_of(example.replace("/tmp/", f"{tmp_path}/"))
            status = main(words)
            assert status == 0, f"{example}: {capsys.readouterr().err[-500:]}"
