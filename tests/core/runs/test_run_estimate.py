"""The estimate before a run, compared with the actual run."""

from __future__ import annotations

import json

import pytest

from midchart.core import api
from midchart.core.cli import main
from midchart.core.config import audit_file, runs_folder
from midchart.core.results.items import rows
from midchart.core.runs.estimate import estimate
from midchart.core.storage.jsonl import read_lines
from tests.support.claude_server import ClaudeFake
from tests.support.openai_server import OpenAIFake
from tests.support.run_helpers import finished_run, has_ray, write_cohort


@pytest.fixture(autouse=True)
def place(workspace, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted")
    return workspace


@pytest.fixture
def cohort(place):
    return write_cohort(place / "data" / "cohorts" / "ward", records=2)


def spec(cohort, site="http://127.0.0.1:9", judges=("token_overlap",), **changes):
    reader = {"name": "served", "url": f"{site}/v1", "model": "tiny", "window": 4096}
    return {
        "kind": "answers", "data": str(cohort), "arms": ["full", "bm25", "recency"],
        "readers": [reader], "judges": list(judges), **changes,
    }  # fmt: skip


def test_an_estimate_is_near_the_actual_run(cohort, monkeypatch):
    with OpenAIFake() as site, ClaudeFake() as claude:
        monkeypatch.setenv("MIDCHART_HOSTS", f"{claude.url}=ANTHROPIC_API_KEY")
        judges = [{"name": "claude", "base_url": claude.url, "repeats": 2}, "token_overlap"]
        # An estimate assumes that k units are kept.
        protocol = {"preset": "corrected", "unmatched": "kept"}
        wanted = spec(cohort, site.url, judges, protocol=protocol)
        forecast = estimate(wanted)
        assert not claude.requests and not site.requests and not runs_folder().exists()
        run = finished_run(wanted)
        answers, verdicts = rows(run, "answers"), rows(run, "verdicts")
    assert forecast["items"] == len(answers) + len(verdicts) == 24 + 72
    assert (forecast["instructions"], forecast["records"], forecast["calls"]) == (8, 2, 24 + 48)
    reader, (judge, rule) = forecast["readers"][0], forecast["judges"]
    prompts = sum(row["selection_tokens"] for row in answers)
    assert 0.5 < reader["read_tokens"] / prompts < 2.5
    # The fake server counts a token a word, of about 1.3 that a tokenizer makes.
    by_claude = [row for row in verdicts if row["judge"].startswith("claude")]
    assert (
        judge["calls"] == len(by_claude)
        and 0.7 < judge["cost_usd"] / sum(row["cost_usd"] for row in by_claude) < 3
    )
    assert forecast["cost_usd"] == judge["cost_usd"] and rule["cost_usd"] == 0
    assert forecast["leaves"] is None and all(host["local"] for host in forecast["hosts"])


def test_the_calls_of_an_arms_own_reader_are_reported(cohort):
    """Two records of 20 events, four to a chunk: five calls each, however many questions."""
    served = {"name": "served", "url": "http://127.0.0.1:9/v1", "model": "m"}
    arm = {"name": "map_reduce", "reader": served, "events": 4}
    forecast = estimate({"kind": "selection", "data": str(cohort), "arms": ["bm25", arm]})
    (row,) = forecast["readers"]
    assert row["calls"] == forecast["calls"] == 2 * 5 and row["label"].startswith("served")
    assert "for the arm map_reduce" in row["label"]
    assert row["read_tokens"] > 2 * 20 * 3 and forecast["tokens"] > row["read_tokens"]


def test_external_calls_are_listed_with_the_reason_for_refusal(cohort):
    judges = ["claude", {"name": "claude", "model": "claude-sonnet-4-6"}, "blind"]
    forecast = estimate(spec(cohort, judges=judges))
    leaves = forecast["leaves"]
    assert leaves["hosts"] == ["api.anthropic.com"] and leaves["encrypted"]
    assert leaves["what"] == "questions, evidence and answers"
    assert (leaves["records"], leaves["questions"]) == (2, 8)
    assert "external_services_allowed = false" in leaves["refused"]
    haiku, sonnet, blind = forecast["judges"]
    # Sonnet 4.6 costs three times as much as Haiku 4.5.
    assert sonnet["cost_usd"] == pytest.approx(3 * haiku["cost_usd"])
    assert blind["read_tokens"] < haiku["read_tokens"]
    away = spec(cohort) | {"readers": [{"name": "served", "url": "http://10.1.1.1", "model": "m"}]}
    leaves = estimate(away)["leaves"]
    assert leaves["what"].startswith("parts of records") and not leaves["encrypted"]
    unpriced = estimate(spec(cohort, judges=[{"name": "claude", "model": "claude-new"}]))
    assert unpriced["cost_usd"] is None
    assert unpriced["judges"][0]["price"] == "no price of claude-new is known"


def test_the_command_line_estimates_and_changes_tags(cohort, place, capsys):
    file = place / "spec.toml"
    file.write_text(
        f'kind = "answers"\ndata = "{cohort}"\narms = ["bm25"]\n'
        'readers = [{ name = "served", url = "http://127.0.0.1:9/v1", model = "m" }]\n'
        'judges = ["claude"]\nallow_hosts = ["api.anthropic.com"]\n'
    )
    assert main(["run", str(file), "--estimate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["leaves"]["refused"]
    assert main(["run", str(file)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1 and "data-use tag of ward" in shown.err
    tag = ["data-use", str(cohort), "external_services_allowed", "yes"]
    assert main([*tag, "--reason", " "]) == 2
    assert main([*tag, "--reason", "signed by the data protection officer", "--json"]) == 0
    assert '"external_services_allowed": true' in capsys.readouterr().out
    assert main(["run", str(file), "--estimate"]) == 0
    shown = capsys.readouterr().out
    assert "leaves this machine: questions, evidence and answers" in shown
    assert "refused" not in shown and "planted" not in shown
    assert [line["event"] for line in read_lines(audit_file())] == [
        "tag"
    ] and not runs_folder().exists()
    assert api.audit_lines()[0]["reason"] == "signed by the data protection officer"


def test_text_sent_to_a_cluster_is_reported_with_the_reason_for_refusal(
    cohort, place, capsys, monkeypatch
):
    has_ray(monkeypatch)
    file = place / "spec.toml"
    file.write_text(f'kind = "selection"\ndata = "{cohort}"\narms = ["bm25"]\n')
    call = ["run", str(file), "--estimate", "--on"]
    assert main([*call, "ray://127.0.0.1:6379"]) == 0
    shown = capsys.readouterr().out
    assert (
        "leaves this machine: records, prompts and answers, to the machines of ray://127" in shown
    )
    assert "refused: text of records may not go to the machines of" in shown
    assert "leaves this machine: nothing" not in shown
    assert main([*call, "ray://head", "--json"]) == 0
    to_cluster = json.loads(capsys.readouterr().out)["cluster"]
    assert (
        to_cluster["address"] == "ray://head:6379"
        and "data-use tag of ward" in to_cluster["refused"]
    )
    seen = api.preflight(file, "ray://head")
    assert seen["cluster"] == "ray://head:6379" and seen["problems"] == [to_cluster["refused"]]
    api.set_data_use(cohort, "external_services_allowed", True, "the ward's own cluster, by Ada")
    (problem,) = api.preflight(file, "ray://head")["problems"]
    assert "has not listed ray://head:6379" in problem
    monkeypatch.setenv("MIDCHART_HOSTS", "ray://head:6379")
    assert api.preflight(file, "ray://head")["problems"] == []
    for private in ("ray", "here"):
        assert main([*call, private]) == 0
        assert "leaves this machine: nothing" in capsys.readouterr().out
