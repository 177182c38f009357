"""Judges by the Message Batches API: complete, broken and resumed batches, within the budget."""

from __future__ import annotations

import pytest

from midchart.core.client.calls import RetryPolicy
from midchart.core.client.claude import call_log, tokens_at_most
from midchart.core.judges import JUDGES
from midchart.core.protocol import Protocol
from midchart.core.storage.jsonl import read_lines
from midchart.core.types import Answer, Gold, Instruction
from tests.support.claude_server import ClaudeFake
from tests.support.fault_server import SECRET_TEXT

ASKED = Instruction("i1", "p1", "What dose of lisinopril?")
GOLD = Gold("i1", "20 mg", ("lisinopril 20 mg",))
BATCHES = "/v1/messages/batches"


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-key")
    monkeypatch.setenv("MIDCHART_SECRETS", str(tmp_path / "none.toml"))


@pytest.fixture
def server(monkeypatch):
    def says(prompt):
        return "YES" if "is even" in prompt else "NO"

    with ClaudeFake(says=says, looks=2) as fake:
        monkeypatch.setenv("MIDCHART_HOSTS", f"{fake.url}=ANTHROPIC_API_KEY")
        yield fake


def judge(server, folder=None, **options):
    options = {"batch": True, "base_url": server.url, "folder": folder, **options}
    built = JUDGES.build("claude", Protocol(), **options)
    built.engine.poll_s = 0.02
    built.engine._caller.policy = RetryPolicy(3, 0.01, 0.05, 2.0)
    return built


def items(n, start=0):
    return [
        (ASKED, GOLD, Answer(f"{i} is {'even' if i % 2 == 0 else 'odd'}"))
        for i in range(start, start + n)
    ]


def right(verdicts, start=0):
    return all(
        v.outcome == ("correct" if (i + start) % 2 == 0 else "incorrect")
        for i, v in verdicts.items()
    )


def submitted(server):
    return [b for b in server.asked(BATCHES) if b]


def test_a_batch_gives_each_item_its_own_verdict_at_half_the_price(server, tmp_path):
    notes = []
    verdicts = dict(judge(server, tmp_path, watch=notes.append).judge_many(items(30)))
    assert len(verdicts) == 30 and right(verdicts)
    (body,) = submitted(server)
    params = [r["params"] for r in body["requests"]]
    assert len({r["custom_id"] for r in body["requests"]}) == 30
    assert all(len(r["custom_id"]) <= 64 for r in body["requests"])
    assert all(p["temperature"] == 0 and p["max_tokens"] == 16 for p in params)
    used = verdicts[0].usage
    assert used.how == "batch, temperature 0"
    assert used.cost_usd == pytest.approx(0.5 * (used.input_tokens * 1 + 2 * 5) / 1e6)
    assert any("batch of 30 prompts" in note and "within a day" in note for note in notes)
    files = (tmp_path / "judging").glob("*.jsonl")
    assert SECRET_TEXT not in "".join(p.read_text() for p in files)


def test_failed_batch_items_have_a_reason(server):
    server.outcome = lambda place: ["succeeded", "errored", "expired", "canceled"][place % 4]
    verdicts = dict(judge(server).judge_many(items(8)))
    reasons = {i: v.reason for i, v in verdicts.items() if v.outcome == "failed"}
    assert len(reasons) == 6 and verdicts[0].outcome == "correct"
    assert "has an error of its own" in reasons[1] and "within a day" in reasons[2]
    assert "canceled it" in reasons[3]


def test_a_killed_run_collects_its_batch_and_repeats_no_call(server, tmp_path):
    server.looks = 10**9

    class Killed(Exception):
        pass

    def watch(text):
        raise Killed

    with pytest.raises(Killed):
        list(judge(server, tmp_path, watch=watch).judge_many(items(12)))
    assert len(submitted(server)) == 1
    server.looks, server.batches["msgbatch_1"]["left"] = 1, 1
    interrupted = judge(server, tmp_path).judge_many(items(12))
    first = [next(interrupted) for _ in range(5)]
    interrupted.close()  # killed again, with five verdicts written
    rest = [i for i in range(12) if i not in dict(first)]
    left = [items(12)[i] for i in rest]
    verdicts = dict(judge(server, tmp_path).judge_many(left))
    resumed = {rest[i]: v for i, v in verdicts.items()}
    assert len(resumed) == 7 and right(resumed) and right(dict(first))
    assert len(submitted(server)) == 1  # nothing was asked, or paid, twice
    lines = list(read_lines(call_log(tmp_path, "claude")))
    assert [line["event"] for line in lines].count("spent") == 1
    # What failed in a batch, or is new, is asked in a new one.
    assert right(dict(judge(server, tmp_path).judge_many(items(4, start=20))))
    assert len(submitted(server)) == 2


def killed_before_the_id(server, tmp_path):
    """The log of a batch of seven that was sent, and whose id was not written."""
    server.looks = 10**9

    def watch(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(judge(server, tmp_path, watch=watch, budget_usd=1.0).judge_many(items(7)))
    file = call_log(tmp_path, "claude")
    remaining = [line for line in file.read_text().splitlines() if '"asked"' not in line]
    file.write_text("\n".join(remaining) + "\n")
    return file


def test_a_batch_whose_id_was_lost_counts_at_its_highest_cost_and_is_asked_again(server, tmp_path):
    file = killed_before_the_id(server, tmp_path)
    (reserved,) = [line["usd"] for line in read_lines(file) if line["event"] == "reserved"]
    server.looks = 1
    verdicts = dict(judge(server, tmp_path, budget_usd=1.0).judge_many(items(7)))
    assert right(verdicts) and len(submitted(server)) == 2
    spent = [line["usd"] for line in read_lines(file) if line["event"] == "spent"]
    assert spent[0] == pytest.approx(reserved)
    assert sum(spent[1:]) == pytest.approx(sum(v.usage.cost_usd for v in verdicts.values()))


def test_a_budget_limits_batches(server, tmp_path):
    one = judge(server, tmp_path)
    most = (tokens_at_most(one.request(items(1)[0])) * 1.0 + 16 * 5) * 0.5 / 1e6
    budget = 5.5 * most
    verdicts = dict(judge(server, tmp_path, budget_usd=budget).judge_many(items(60)))
    done = {i: v for i, v in verdicts.items() if v.outcome != "failed"}
    assert len(verdicts) == 60 and len(done) > 5 and right(done)
    # Each batch cost less than was set aside, so there was money for another, till none was left.
    assert len(submitted(server)) > 1
    assert sum(v.usage.cost_usd for v in done.values()) <= budget
    assert all("the budget of $" in v.reason for i, v in verdicts.items() if i not in done)
