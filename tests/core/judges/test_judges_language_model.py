"""Language models as judges: prompts, strict verdicts, errors, costs, texts that give orders.

The scripted model takes for data what stands in a fence that its prompt announces, and for an order
everything else. The paper's prompt has no fences, so there every order is obeyed.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from midchart.core.client.calls import RetryPolicy
from midchart.core.client.claude import (
    BudgetSpent,
    CallBudget,
    tokens_at_most,
)
from midchart.core.client.requests import Request
from midchart.core.egress import EgressCheck
from midchart.core.errors import EgressRefused, InputError
from midchart.core.judges import JUDGES
from midchart.core.judges.language_model import (
    NAMES,
    read_yes_no,
    template,
)
from midchart.core.protocol import PRESETS, Protocol
from midchart.core.storage.jsonl import read_lines
from midchart.core.types import Answer, Gold, Instruction
from tests.support.claude_server import ClaudeFake
from tests.support.fault_server import SECRET_TEXT
from tests.support.openai_server import OpenAIFake

KEY = "sk-ant-planted-key"
HAIKU = "claude-haiku-4-5-20251001"
ASKED = Instruction("i1", "p1", "What dose of lisinopril does {the} patient take?")
GOLD = Gold("i1", "20 mg", ("lisinopril 20 mg daily", "dose unchanged"))


@pytest.fixture
def server():
    with ClaudeFake() as fake:
        yield fake


@pytest.fixture(autouse=True)
def key(monkeypatch, tmp_path, server):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("MIDCHART_HOSTS", f"{server.url}=ANTHROPIC_API_KEY")
    monkeypatch.setenv("MIDCHART_SECRETS", str(tmp_path / "none.toml"))


def hurry(judge, retries=3):
    judge.engine._caller.policy = RetryPolicy(retries, 0.01, 0.05, 2.0)
    return judge


def claude(server, protocol=None, name="claude", retries=3, **options):
    protocol = protocol or Protocol()
    return hurry(JUDGES.build(name, protocol, base_url=server.url, **options), retries)


def items(n=1, text="He takes 20 mg {evidence}"):
    return [(ASKED, GOLD, Answer(f"{text} ({i})")) for i in range(n)]


def test_the_prompt_with_evidence_equals_the_protocol_verbatim(server):
    verdict = claude(server, Protocol(judge_prompt="plain")).judge(*items()[0])
    assert (verdict.outcome, verdict.raw, verdict.refusal) == ("correct", "YES", False)
    (body,) = server.asked("/v1/messages")
    assert body["messages"] == [
        {
            "role": "user",
            "content": "You are a medical expert evaluating whether a clinical AI response\n"
            "correctly answers a question given the gold-standard evidence\n"
            "extracted from the EHR.\n\n"
            "Question: What dose of lisinopril does {the} patient take?\n"
            "Gold evidence from EHR: lisinopril 20 mg daily ||| dose unchanged\n"
            "AI response: He takes 20 mg {evidence} (0)\n\n"
            "Does the AI response CORRECTLY answer the question, given the gold\n"
            "evidence? Consider the response correct if it conveys the same\n"
            "factual answer as the evidence, even if phrased differently.\n"
            'Consider it incorrect if it says "no information" when the evidence\n'
            "provides a specific answer, or if it contradicts the evidence.\n\n"
            "Answer with exactly one word: YES or NO",
        }
    ]
    assert (body["model"], body["max_tokens"], body["temperature"]) == (HAIKU, 16, 0)
    sent = server.requests[0]["headers"]
    assert KEY in sent["authorization"] and sent["anthropic-version"] == "2023-06-01"
    assert verdict.usage.how == "alone, temperature 0" and verdict.usage.model == HAIKU
    read = len(body["messages"][0]["content"].split())
    # Haiku 4.5: 1 dollar a million tokens read, 5 written; 2 are written.
    assert verdict.usage.cost_usd == pytest.approx((read * 1 + 2 * 5) / 1e6)


def test_an_answer_without_text_or_reference_is_not_sent(server):
    judge = claude(server, Protocol(response_characters=10))
    verdicts = dict(
        judge.judge_many(
            [
                (ASKED, Gold("i1", "20 mg", (" ", "")), Answer("20 mg")),
                (ASKED, GOLD, Answer("", "failed", "out of memory")),
                (ASKED, GOLD, Answer(" — ")),
                (ASKED, GOLD, Answer("I don't know the dose")),
            ]
        )
    )
    assert (verdicts[0].outcome, verdicts[0].reason) == ("failed", "the question has no evidence")
    assert (verdicts[1].outcome, verdicts[1].reason) == ("failed", "no answer (out of memory)")
    assert (verdicts[2].outcome, verdicts[2].raw) == ("incorrect", "the answer is empty")
    assert verdicts[3].outcome == "correct" and verdicts[3].refusal
    (body,) = server.asked("/v1/messages")
    assert "\n| I don't kn\n<<<END AI RESPONSE" in body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("response", "outcome", "strictly"),
    [
        ("YES", "correct", "same"), ("NO", "incorrect", "same"), ("yes", "correct", "same"),
        ("No.", "incorrect", "same"), (" YES\n", "correct", "same"), ('"YES"', "correct", "same"),
        ("**NO**", "incorrect", "same"), ("YESNO", "unparsed", "same"), ("", "unparsed", "same"),
        ("maybe", "unparsed", "same"), ("NOT", "unparsed", "same"), ("N", "unparsed", "same"),
        ("ＹＥＳ", "unparsed", "same"), ("да", "unparsed", "same"),
        ("YES, it does", "correct", "unparsed"), ("Answer: Yes", "correct", "unparsed"),
        ("Verdict: **Yes**", "correct", "unparsed"), ("**Verdict:** No", "incorrect", "unparsed"),
        ("YES\n\nThere is no conflict.", "correct", "unparsed"),
        ("<think>NO? The dose is the same.</think>yes", "correct", "unparsed"),
        ("<think>YES", "unparsed", "same"), ("The answer is NO.", "incorrect", "unparsed"),
        ('{"verdict": "NO"}', "incorrect", "unparsed"),
        ("# Verdict\n\nNo", "incorrect", "unparsed"),
        ("Answer: no — it contradicts the evidence", "incorrect", "unparsed"),
        ("Yes - the dose matches", "correct", "unparsed"),
        ("Yes NO", "unparsed", "same"), ("Yes. No.", "unparsed", "same"),
        ("YES or NO", "unparsed", "same"), ("It is not YES", "unparsed", "same"),
        ("Answer: yes\n\nFinal answer: no", "unparsed", "same"),
        ("No information is given", "unparsed", "same"),
    ],
)  # fmt: skip
def test_a_verdict_is_read_in_any_form_or_strictly(response, outcome, strictly):
    assert read_yes_no(response) == outcome
    assert read_yes_no(response, strict=True) == (outcome if strictly == "same" else strictly)


def test_the_paper_s_protocol_reads_verdicts_strictly(server):
    server.says = lambda prompt: "Verdict: **Yes**"
    published = PRESETS["published"]
    for protocol, rule, outcome in (
        (Protocol(), "protocol", "correct"), (published, "protocol", "unparsed"),
        (published, "any_form", "correct"), (Protocol(), "strict", "unparsed"),
    ):  # fmt: skip
        assert claude(server, protocol, rule=rule).judge(*items()[0]).outcome == outcome


def test_an_unparsed_verdict_stores_the_response(server):
    server.says = lambda prompt: "YES or NO, who knows"
    verdict = claude(server, Protocol(judge_prompt="plain")).judge(*items()[0])
    assert (verdict.outcome, verdict.raw) == ("unparsed", "YES or NO, who knows")
    server.says, server.stop_reason = lambda prompt: "", "refusal"
    assert claude(server).judge(*items()[0]).raw == "(the model's service declined)"
    server.stop_reason = "max_tokens"
    verdict = claude(server).judge(*items()[0])
    assert verdict.outcome == "failed" and "larger 'max_tokens'" in verdict.reason
    # It is to be paid all the same: Haiku writes two tokens, at 5 dollars a million.
    assert verdict.usage.output_tokens == 2 and verdict.usage.cost_usd > 2 * 5 / 1e6


@pytest.mark.parametrize(
    ("fault", "reason", "tries"),
    [
        ("529", "answers 529 (3 tries)", 3),
        ("429:1000", "asks to wait 1000 s", 1),
        ("413", "answers 413", 1),
        ("redirect:http://example.org", "redirects are not followed", 1),
    ],
)
def test_a_permanent_error_is_a_failed_verdict_without_record_text(server, fault, reason, tries):
    server.fault(*[fault] * 9)
    verdict = claude(server, retries=2, timeout=0.3).judge(*items()[0])
    assert verdict.outcome == "failed"
    assert reason in verdict.reason
    assert SECRET_TEXT not in verdict.reason and KEY not in verdict.reason
    assert len(server.requests) == tries


def test_the_api_is_called_only_with_data_use_tag_and_owner():
    with pytest.raises(EgressRefused, match=r"api\.anthropic\.com"):
        JUDGES.build("claude", Protocol()).judge(*items()[0])
    named = frozenset({"api.anthropic.com"})
    with pytest.raises(EgressRefused):
        JUDGES.build("blind", Protocol(), egress=EgressCheck("ward", False, named)).judge(
            *items()[0]
        )


def test_an_on_site_model_judges_with_the_same_prompts():
    with OpenAIFake() as site, ClaudeFake() as api:
        for name, other in (("served", "claude"), ("blind", "blind")):
            judge = JUDGES.build(name, Protocol(), url=f"{site.url}/v1", model="tiny")
            verdict = hurry(judge).judge(*items()[0])
            assert (verdict.outcome, verdict.usage.model) == ("correct", "tiny")
            claude(api, name=other).judge(*items()[0])
            asked = site.asked("/v1/chat/completions")[-1]
            assert asked["messages"] == api.asked("/v1/messages")[-1]["messages"]
            assert asked["temperature"] == 0
        site.fault("500", "broken")
        judge = hurry(JUDGES.build("served", Protocol(), url=f"{site.url}/v1", model="tiny"))
        assert [v.outcome for _, v in judge.judge_many(items(5))] == ["correct"] * 5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("claude", {"model": ""}), ("claude", {"base_url": "api.anthropic.com"}),
        ("claude", {"concurrency": 0}), ("claude", {"repeats": 0}), ("claude", {"timeout": -1}),
        ("claude", {"budget_usd": -1}), ("claude", {"price_in": 1.0}),
        ("claude", {"model": "claude-unheard-of", "budget_usd": 1.0}),
        ("served", {}), ("served", {"url": "http://127.0.0.1:1/v1"}),
        ("blind", {"url": "http://127.0.0.1:1/v1"}),
        ("blind", {"url": "http://127.0.0.1:1/v1", "model": "m", "base_url": "x"}),
    ],
)  # fmt: skip
def test_invalid_options_are_refused(name, options):
    with pytest.raises(InputError):
        JUDGES.get(name).check(Protocol(), **options)


def test_a_budget_is_never_exceeded_and_the_rest_fails_with_the_reason(server, tmp_path):
    each = tokens_at_most(Request("", "x" * 700)) / 1e6 + 16 * 5 / 1e6  # what one call may cost
    judge = claude(server, budget_usd=3 * each, folder=tmp_path, concurrency=4)
    verdicts = dict(judge.judge_many(items(40)))
    done = [v for v in verdicts.values() if v.outcome == "correct"]
    failed = [v for v in verdicts.values() if v.outcome == "failed"]
    assert len(done) + len(failed) == 40 and len(done) >= 3 and failed
    assert sum(v.usage.cost_usd for v in done) <= 3 * each
    assert all("the budget of $" in v.reason and "--budget" in v.reason for v in failed)
    assert len(server.requests) == len(done)  # what could not be paid was not asked
    # The same money is not spent twice: the next pass knows what the first one spent.
    again = dict(claude(server, budget_usd=3 * each, folder=tmp_path).judge_many(items(10)))
    spent = sum(v.usage.cost_usd for v in (*done, *again.values()) if v.usage)
    assert spent <= 3 * each


def test_a_budget_counts_the_calls_of_a_killed_worker(tmp_path):
    file = tmp_path / "budget.jsonl"
    account = CallBudget(file, 1.0)
    account.charge(account.reserve(0.5), 0.2)
    account.reserve(0.6)  # the worker is killed here
    next_budget = CallBudget(file, 1.0)
    next_budget.charge_lost()
    assert next_budget.spent == pytest.approx(0.8)
    with pytest.raises(BudgetSpent, match=r"\$0\.8000 spent, and this call could cost \$0\.3000"):
        next_budget.reserve(0.3)
    next_budget.charge(next_budget.reserve(0.1), None)
    assert [line["event"] for line in read_lines(file)].count("spent") == 3


STRICT = re.compile(
    r"^<<<BEGIN ([A-Z ]+) ([0-9a-f]{16})>>>\n((?:\| .*\n)*)<<<END \1 \2>>>$", re.MULTILINE
)
LENIENT = re.compile(r"<<+\s*BEGIN ([A-Z ]+) (\w+)\s*>>+(.*?)<<+\s*END[^>]*>>+", re.DOTALL)
"""A careless reader of fences: any end closes, whatever its code and wherever it stands."""
GUESS = "0123456789abcdef"


TEXT = st.text() | st.lists(
    st.sampled_from([*"<>|\n\r\u2028\uff1c\uff1e\u200d {}", "END", "AI RESPONSE", "| ", GUESS])
).map("".join)


@given(question=TEXT, evidence=TEXT, response=TEXT)
@limits(max_examples=300, deadline=None)
def test_outside_of_the_fences_is_the_prompt_alone(question, evidence, response):
    options = {"url": "http://127.0.0.1:9/v1", "model": "tiny"}
    asked = JUDGES.build("served", Protocol(judge_prompt="fenced"), **options)
    request = asked.request(
        (Instruction("i", "p", question), Gold("i", "", (evidence + ".",)), Answer("x" + response))
    )
    parts = list(STRICT.finditer(request.prompt))
    assert [match[1] for match in parts] == list(NAMES.values())
    bare = template(True, "fenced").format(question="#", evidence="#", response="#")
    assert STRICT.sub("#", request.prompt) == bare
    assert not any(LENIENT.search(match[3]) or "<<" in match[3] for match in parts)


def test_published_has_the_papers_prompt_and_the_corrected_one_is_fenced():
    assert PRESETS["published"].judge_prompt == "plain" and Protocol().judge_prompt == "fenced"
