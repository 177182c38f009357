"""Runs that call servers: refused before a folder is made, audited, killed and resumed, without a
key or record text in any output."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core import config as settings
from midchart.core.cli import main
from midchart.core.egress import Address, Permit, audit
from midchart.core.errors import EgressRefused, InputError, MissingKey, SpecError, UnknownName
from midchart.core.loaders.open import set_data_use
from midchart.core.results.items import item, rows
from midchart.core.results.report import report
from midchart.core.runs.directory import RunDirectory, find_run, make_run, take_lock
from midchart.core.runs.planner import plan
from midchart.core.runs.process import enqueue, resume, start, status, wait
from midchart.core.runs.spec import read_spec, write_toml
from midchart.core.runs.worker import do_run
from tests.support.claude_server import ClaudeFake
from tests.support.openai_server import OpenAIFake
from tests.support.run_helpers import (
    continue_run,
    finished_run,
    has_ray,
    write_cohort,
)

KEYS = {"ANTHROPIC_API_KEY": "sk-ant-planted-1", "MIDCHART_SERVED_KEY": "sk-served-planted-2"}
WHY = "data protection officer, letter of 2 May"


@pytest.fixture
def place(workspace, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return workspace


@pytest.fixture
def cohort(place):
    return write_cohort(place / "data" / "cohorts" / "ward", records=2)


def says(prompt):
    return "YES" if "\nAI response: Patient" in prompt or "takes" in prompt else "NO"


@pytest.fixture
def claude(monkeypatch):
    with ClaudeFake(says=says) as fake:
        monkeypatch.setenv("MIDCHART_HOSTS", f"{fake.url}=ANTHROPIC_API_KEY")
        yield fake


@pytest.fixture
def silent():
    """A server that does not say how long a prompt its model reads."""
    with OpenAIFake(window=0) as fake:
        yield fake


@pytest.fixture
def site():
    with OpenAIFake() as fake:
        yield fake


def spec(cohort, site=None, judges=(), **changes):
    reader = "extractive"
    if site is not None:
        reader = {"name": "served", "url": f"{site.url}/v1", "model": "tiny"}
    return {
        "name": "t", "kind": "answers", "data": str(cohort), "arms": ["bm25", "recency"],
        "readers": [reader], "judges": list(judges), **changes,
    }  # fmt: skip


def no_runs():
    return not settings.runs_folder().exists() or not list(settings.runs_folder().iterdir())


def test_text_is_sent_only_if_data_use_tag_owner_and_spec_allow_it(place, cohort, monkeypatch):
    sending = [
        spec(cohort, judges=["claude"]),
        spec(cohort, judges=["blind"]),
        spec(
            cohort, judges=[{"name": "served", "url": "https://gpu.ward.example/v1", "model": "m"}]
        ),
        spec(cohort)
        | {
            "readers": [
                {"name": "served", "url": "https://10.0.0.9/v1", "model": "m", "window": 4096}
            ]
        },
    ]
    named = ["api.anthropic.com", "gpu.ward.example", "10.0.0.9"]
    monkeypatch.setenv("MIDCHART_HOSTS", ", ".join(named[1:]))
    for wanted in sending:
        with pytest.raises(EgressRefused, match="data-use tag of ward"):
            start(wanted | {"allow_hosts": named})
    set_data_use(cohort, "external_services_allowed", True, WHY)
    for wanted in sending:
        with pytest.raises(EgressRefused, match="allow_hosts"):
            start(wanted)
        with pytest.raises(EgressRefused):
            start(wanted | {"allow_hosts": ["api.anthropic.com.evil.example"]})
        document = plan(read_spec(wanted | {"allow_hosts": named}))  # now it may; nothing is sent
        assert document["spec"]["allow_hosts"] == named
        assert not any(key in str(document) for key in KEYS.values())
    assert no_runs() and [line["event"] for line in audit.lines()] == ["tag"]


def arm_with(site):
    reader = {"name": "served", "url": f"{site.url}/v1", "model": "tiny"}
    return {"name": "map_reduce", "reader": reader}


def test_a_server_without_a_context_window_is_refused_before_a_run_is_made(
    place, cohort, silent, tmp_path, capsys
):
    for wanted in (
        spec(cohort, silent),
        spec(cohort) | {"arms": ["bm25", arm_with(silent)]},
        {"name": "t", "kind": "needles", "data": str(cohort), "judges": ["exact"]}
        | {"readers": spec(cohort, silent)["readers"], "lengths": [150], "depths": [0]},
    ):
        for begin in (start, enqueue):
            with pytest.raises(InputError, match="does not report the window of tiny; set"):
                begin(wanted)
    file = tmp_path / "spec.toml"
    file.write_text(write_toml(spec(cohort, silent)))
    assert main(["run", str(file)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "does not report the window of tiny" in line
    assert no_runs() and {r["path"] for r in silent.requests} == {"/v1/models"}
    run_spec = spec(cohort, silent)
    run_spec["readers"][0]["window"] = 4096
    assert status(finished_run(run_spec))["failed"] == 0


def test_a_worker_asks_for_the_window_before_its_first_item(place, cohort, site):
    """A run may have waited in the queue while its server was replaced."""
    folder = make_run(plan(read_spec(spec(cohort, site))))
    site.window = 0
    lock = take_lock(folder)
    with pytest.raises(InputError, match="does not report the window"):
        do_run(folder)
    lock.release()
    now = status(folder.id)
    assert (now["status"], now["done"], now["failed"]) == ("crashed", 0, 0)
    assert "does not report the window" in now["reason"] and not rows(folder.id, "answers")


def test_a_named_cluster_gets_records_only_if_the_data_use_tag_allows_it(
    place, cohort, monkeypatch
):
    has_ray(monkeypatch)
    launched = []

    def launch(folder, lock):
        launched.append(folder.id)
        lock.release()

    monkeypatch.setattr("midchart.core.runs.process.launch", launch)
    monkeypatch.setattr("midchart.core.runs.process.tick", lambda: "")
    refused = r"machines of ray://\S+: the data-use tag of ward sets external_services_allowed = "
    # On loopback, too, there may be the first of many machines.
    for on in ("ray://head:6379", "ray://10.0.0.7", "ray://127.0.0.1:6379"):
        for begin in (start, enqueue):
            with pytest.raises(EgressRefused, match=refused + "false; do the run here"):
                begin(spec(cohort), on=on)
    assert no_runs()
    run = start(spec(cohort), on="ray")  # a Ray of the run's own is this machine's alone
    with pytest.raises(EgressRefused, match=refused):
        resume(run, on="ray://head")
    set_data_use(cohort, "external_services_allowed", True, WHY)
    for hosts in ("", "https://head:6379, ray://head:6380"):
        monkeypatch.setenv("MIDCHART_HOSTS", hosts)
        with pytest.raises(EgressRefused, match="has not listed ray://head:6379"):
            resume(run, on="ray://head")
    monkeypatch.setenv("MIDCHART_HOSTS", "ray://head")
    resume(run, on="ray://head")
    assert start(spec(cohort), on="ray://head") == launched[-1]
    set_data_use(cohort, "external_services_allowed", False, "the agreement has ended")
    with pytest.raises(EgressRefused, match=refused):
        resume(run)
    lock = take_lock(find_run(run))
    with pytest.raises(EgressRefused, match=refused):
        do_run(find_run(run))  # a worker, which may have waited in the queue, asks again
    lock.release()
    assert len(launched) == 3


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"allow_hosts": "api.anthropic.com"}, SpecError),
        ({"allow_hosts": ["https://api.anthropic.com"]}, SpecError),
        ({"allow_hosts": ["*"]}, SpecError),
        ({"judges": [{"name": "claude", "api_key": "sk-ant-planted-1"}]}, UnknownName),
        ({"judges": [{"name": "claude", "egress": True}]}, UnknownName),
        ({"judges": [{"name": "claude", "base_url": "http://u:sk-ant-planted-1@h"}]}, InputError),
        ({"judges": [{"name": "claude", "budget_usd": "much"}]}, InputError),
        ({"judges": ["served"]}, InputError),
        ({"readers": ["served"]}, InputError),
    ],
)
def test_an_invalid_spec_makes_no_folder_and_shows_no_key(place, cohort, changes, error):
    with pytest.raises(error) as refusal:
        start(spec(cohort) | changes)
    assert "\n" not in str(refusal.value) and "planted" not in str(refusal.value)
    assert no_runs()


def test_a_missing_key_is_reported_before_a_folder_is_made(place, cohort, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY is not set"):
        start(spec(cohort, judges=["claude"]))
    assert no_runs()


@pytest.fixture
def far(monkeypatch, claude, site):
    """Loopback addresses count as another machine: what is sent there is sent away."""
    monkeypatch.setattr(Address, "local", property(lambda self: False))
    monkeypatch.setattr("midchart.core.egress.SCHEMES", {"http"})
    hosts = f"{claude.url}=ANTHROPIC_API_KEY, {site.url}"
    monkeypatch.setenv("MIDCHART_HOSTS", hosts)


def test_external_calls_are_audited_once_a_pass_without_text(place, cohort, claude, site, far):
    set_data_use(cohort, "external_services_allowed", True, WHY)
    judges = [{"name": "claude", "base_url": claude.url}]
    run = finished_run(spec(cohort, site, judges, allow_hosts=["127.0.0.1"], limit=5))
    assert status(run)["failed"] == 0 and claude.requests and site.requests
    audited = [line for line in audit.lines() if line["event"] == "left"]
    fields = ("purpose", "host", "records", "items")
    assert [tuple(line[name] for name in fields) for line in audited] == [
        ("reader served", "127.0.0.1", 2, 10), ("judge claude", "127.0.0.1", 2, 10),
    ]  # fmt: skip
    assert {line["run"] for line in audited} == {run}
    assert {line["who"] for line in audited} == {settings.user()}
    text = settings.audit_file().read_text()
    assert "lisinopril" not in text and "milligram" not in text
    assert not any(key in text for key in KEYS.values())


def test_a_worker_repeats_the_egress_check(place, cohort, claude, far):
    set_data_use(cohort, "external_services_allowed", True, WHY)
    wanted = spec(cohort, judges=[{"name": "claude", "base_url": claude.url}])
    folder = make_run(plan(read_spec(wanted | {"allow_hosts": ["127.0.0.1"]})))
    set_data_use(cohort, "external_services_allowed", False, "the agreement has ended")
    lock = take_lock(folder)
    with pytest.raises(EgressRefused):
        do_run(folder)
    lock.release()
    assert claude.requests == [] and status(folder.id)["status"] == "crashed"
    assert "external_services_allowed = false" in status(folder.id)["reason"]
    assert [line["event"] for line in audit.lines()] == ["tag", "started", "tag"]


def answered_until_the_end(folder: RunDirectory, table: str) -> int:
    """Do a run whose permission ends meanwhile; gives the rows that are ok, once each other one is
    failed for that reason."""
    lock = take_lock(folder)
    do_run(folder)
    lock.release()
    done = rows(folder.id, table)
    reasons = {one["reason"] for one in done if one["status"] != "ok"}
    assert len(reasons) == 1 and "may no longer leave" in reasons.pop()
    return sum(one["status"] == "ok" for one in done)


@pytest.mark.parametrize("change", ["tag", "files", "log"])
def test_a_permission_that_ends_while_a_run_works_stops_its_next_request(
    place, cohort, claude, site, far, monkeypatch, change
):
    set_data_use(cohort, "external_services_allowed", True, WHY)
    wanted = spec(cohort, site, allow_hosts=["127.0.0.1"], readers=[
        {"name": "served", "url": f"{site.url}/v1", "model": "tiny", "concurrency": 1}
    ])  # fmt: skip
    folder = make_run(plan(read_spec(wanted)))
    seen: list[int] = []
    hold = Permit.hold

    def end_the_permission_after_the_third(permit, request):
        hold(permit, request)
        seen.append(1)
        if len(seen) == 3 and change == "tag":
            set_data_use(cohort, "external_services_allowed", False, "the agreement has ended")
        elif len(seen) == 3 and change == "files":
            (cohort / "later.txt").write_text("text that nobody has seen\n")
        elif len(seen) == 3:
            settings.audit_file().unlink()

    monkeypatch.setattr(Permit, "hold", end_the_permission_after_the_third)
    assert answered_until_the_end(folder, "answers") <= len(seen) == 3


def everything(folder: Path) -> str:
    texts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(texts)


@pytest.mark.slow
def test_a_run_with_served_reader_and_three_judges_shows_no_key(
    place, cohort, claude, site, monkeypatch
):
    hosts = f"{claude.url}=ANTHROPIC_API_KEY, {site.url}=MIDCHART_SERVED_KEY"
    monkeypatch.setenv("MIDCHART_HOSTS", hosts)
    judges = [
        {"name": "claude", "base_url": claude.url, "repeats": 2, "budget_usd": 1.0},
        {"name": "blind", "base_url": claude.url},
        {"name": "served", "url": f"{site.url}/v1", "model": "tiny"},
        "token_overlap",
    ]
    claude.fault("429:0.1", "broken", "ok", "529")
    site.fault("500", "cut", "wrong")
    run = start(spec(cohort, site, judges))
    wait(run)
    now = status(run)
    # 8 questions, 2 arms: an answer each, and five verdicts, as one judge is asked twice.
    assert (now["status"], now["planned"], now["done"]) == ("done", 8 * 2 * 6, 8 * 2 * 6)
    verdicts = rows(run, "verdicts")
    by_claude = [row for row in verdicts if row["judge"].startswith("claude")]
    assert sorted(row["repeat"] for row in by_claude) == [0] * 16 + [1] * 16
    assert len({row["item"] for row in verdicts}) == len({row["key"] for row in verdicts}) == 80
    assert all(row["cost_usd"] > 0 and row["read_tokens"] > 0 for row in by_claude)
    assert {row["how"] for row in by_claude} == {"alone, temperature 0"}
    assert {row["how"] for row in rows(run, "answers")} == {"chat"}
    one = item(run, by_claude[0]["instruction"])["arms"][0]["verdicts"]
    assert [v["judge"].split()[0] for v in one] == ["claude", "blind", "served", "token_overlap"]
    assert one[0]["again"] == [one[0]["outcome"]]
    run_report = report(run)
    accuracy = [r for r in run_report["tables"]["accuracy"] if r["band"] == "overall"]
    assert {(r["judge"].split()[0], r["n"] + r["unparsed"]) for r in accuracy} == {
        ("claude", 8), ("blind", 8), ("served", 8), ("token_overlap", 8),
    }  # fmt: skip
    assert [line["event"] for line in audit.lines()] == ["started"]  # loopback is free
    places = everything(place) + str(run_report) + str(status(run))
    assert not any(key in places for key in KEYS.values())
    log = (settings.runs_folder() / run / "log.txt").read_text()
    assert "lisinopril" not in log and "milligram" not in log
    asked = {r["headers"]["authorization"] for r in (*claude.requests, *site.requests)}
    assert asked == {f"Bearer {key}" for key in KEYS.values()}


@pytest.mark.slow
def test_a_budget_stops_a_run_and_a_larger_one_resumes_it(place, cohort, claude, site):
    judges = [{"name": "claude", "base_url": claude.url, "budget_usd": 0.002, "concurrency": 1}]
    run = finished_run(spec(cohort, site, judges))
    now = status(run)
    assert now["failed"] > 0 and now["done"] + now["failed"] == 32
    done = [r for r in rows(run, "verdicts") if r["status"] == "ok"]
    assert sum(row["cost_usd"] for row in done) <= 0.002
    reasons = {r["reason"] for r in rows(run, "verdicts") if r["status"] == "failed"}
    assert all("the budget of $0.0020 is used up" in reason for reason in reasons)
    asked = len(claude.requests)
    resume(run, budget_usd=1.0)
    wait(run)
    now = status(run)
    assert now["failed"] == 0 and not now["unreachable"]
    assert len(claude.requests) == 16 > asked  # the verdicts that were there were not asked again
    (spent,) = report(run)["tables"]["spent"]
    in_rows = sum(row["cost_usd"] for row in rows(run, "verdicts"))
    assert spent["spent_usd"] == pytest.approx(spent["rows_usd"]) == pytest.approx(in_rows)
    assert spent["elsewhere_usd"] == spent["aside_usd"] == 0


def test_the_cost_of_failed_calls_is_reported(place, cohort, claude, site):
    claude.says, claude.stop_reason = lambda prompt: "", "max_tokens"  # paid for, and wordless
    judge = {"name": "claude", "base_url": claude.url, "concurrency": 1}
    run = finished_run(spec(cohort, site, [judge], limit=2))
    tables = report(run)["tables"]
    (first,) = tables["spent"]
    failed = [row["cost_usd"] for row in tables["costs"] if row["judge"]]
    assert first["spent_usd"] == pytest.approx(sum(failed)) and sum(failed) > 0
    assert {row["status"] for row in rows(run, "verdicts")} == {"failed"}
    claude.says, claude.stop_reason = says, "end_turn"
    continue_run(find_run(run))
    (spent,) = report(run)["tables"]["spent"]
    # The same four prompts again, two tokens written each time: what the first four cost is lost.
    assert spent["rows_usd"] == pytest.approx(first["spent_usd"])
    assert spent["elsewhere_usd"] == pytest.approx(first["spent_usd"])
    assert spent["spent_usd"] == pytest.approx(2 * first["spent_usd"])
