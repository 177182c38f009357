"""The reader and judge inspect: refusals without the package, and Inspect AI itself where it is."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from contextlib import suppress
from types import ModuleType, SimpleNamespace

import httpx2
import pytest

from midchart.core.client.claude import call_log
from midchart.core.client.requests import Request
from midchart.core.egress import CLOSED, EgressCheck
from midchart.core.errors import EgressRefused, InputError, MissingModel, NotPermitted
from midchart.core.identity import Person, acting_as
from midchart.core.judges import JUDGES
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.storage.jsonl import read_lines
from midchart.core.text.prompt import SYSTEM, build_prompt
from midchart.core.types import Answer, Gold, Instruction, Selection
from midchart.extras.providers import inspect_engine as client
from tests.support.openai_server import OpenAIFake

HERE = importlib.util.find_spec("inspect_ai") is not None
installed = pytest.mark.skipif(not HERE, reason="inspect-ai is not installed")
MOCK = {"model": "mockllm/model", "window": 4096, "retries": 0}


def outputs(text, reason="stop", tokens=3):
    """What Inspect's mock model gives, forever; without usage it would count with a downloaded
    vocabulary."""
    from inspect_ai.model import ModelOutput, ModelUsage

    output = ModelOutput.from_content("mockllm/model", text, stop_reason=reason)
    output.usage = ModelUsage(input_tokens=5, output_tokens=tokens, total_tokens=5 + tokens)
    return {"arguments": {"custom_outputs": [output] * 50}}


URL = "https://api.example.org/v1"


@pytest.fixture(autouse=True)
def keys(monkeypatch, tmp_path):
    monkeypatch.setenv("MIDCHART_SECRETS", str(tmp_path / "none.toml"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")


def prompt(reader):
    selection = Selection("p", "i", "bm25", (), 0, lines=())
    return build_prompt(
        "What dose?", selection, Protocol(), reader.window, reader.count_tokens, reader.frame
    )


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_requests_of_a_provider_s_package_have_the_permitted_key_alone(monkeypatch, package):
    url, key, seen = "http://127.0.0.1:8000", "sk-of-this-address", []
    monkeypatch.setenv("MIDCHART_SERVED_KEY", key)
    monkeypatch.setenv("MIDCHART_HOSTS", f"{url}=MIDCHART_SERVED_KEY")
    for name in ("ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "cookie: sk-cookie\nx-api-key: sk-other\nhost: elsewhere.org")
    monkeypatch.setenv("OPENAI_ORG_ID", "sk-organization")

    body = "no, 90 µg"

    def answer(request):
        seen.append(dict(request.headers))
        headers = {"content-type": "text/plain; charset=punycode"}
        return httpx2.Response(500, content=body.encode(), headers=headers)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    named = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}[package]
    module = importlib.import_module(package)
    sdk = getattr(module, named)(api_key=key, base_url=url, max_retries=0, http_client=http)
    client._hold_requests(sdk, CLOSED.permit(url))
    with pytest.raises(module.InternalServerError) as error:
        asyncio.run(sdk.post("/v1/messages", body={"a": 1}, cast_to=object))
    (headers,) = seen
    assert [value for value in headers.values() if "sk-" in value] == [f"Bearer {key}"]
    assert headers["host"] == "127.0.0.1:8000"
    assert error.value.response.text == body  # read as UTF-8, not as what the server names


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(client.importlib.util, "find_spec", lambda name: None)
    for registry in (READERS, JUDGES):
        with pytest.raises(MissingModel, match="pip install inspect-ai"):
            registry.get("inspect").check(
                Protocol(), **(MOCK if registry is READERS else {"model": "mockllm/model"})
            )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": ""}, "provider and name"),
        ({"model": "gemini"}, "provider and name"),
        ({"model": "openai/gpt"}, "needs 'url'"),
        ({"model": "openai/gpt", "url": "example.org"}, "not an address"),
        ({"url": URL}, "calls nobody"),
        ({"window": 0}, "'window'"),
        ({"budget_usd": 1.0}, "no price of mockllm/model"),
        ({"price_in": 1.0}, "both above 0"),
        ({"arguments": {"base_url": "x"}}, "'base_url'"),
    ],
)
def test_invalid_options_are_refused(monkeypatch, options, says):
    monkeypatch.setattr(client.importlib.util, "find_spec", lambda name: "there")
    with pytest.raises(InputError, match=says):
        READERS.get("inspect").check(Protocol(), **{**MOCK, **options})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "openai/x", "arguments": {"trust_remote_code": True}}, "'arguments'"),
        ({"arguments": {"custom_outputs": []}}, "'arguments'"),
        *(
            ({"model": f"{provider}/x"}, f"'{provider}'")
            for provider in ("hf", "vllm", "sglang", "transformer_lens", "llama-cpp-python", "new")
        ),
    ],
)
@pytest.mark.parametrize("registry", [READERS, JUDGES])
def test_arguments_and_providers_that_load_weights_are_the_account_s(
    monkeypatch, registry, options, says
):
    monkeypatch.setattr(client.importlib.util, "find_spec", lambda name: "there")
    options = {"retries": 0, "model": "mockllm/model", **options}
    options |= {} if options["model"].startswith("mockllm") else {"url": URL}
    options |= {"window": 4096} if registry is READERS else {}
    registry.get("inspect").check(Protocol(), **options)  # the account may
    with acting_as(Person("person@example.org", "owner")):
        for make in (
            lambda: registry.get("inspect").check(Protocol(), **options),
            lambda: registry.build("inspect", Protocol(), **options),
        ):
            with pytest.raises(NotPermitted, match=says) as refused:
                make()
            assert "account" in str(refused.value) and "\n" not in str(refused.value)
        plain = {**options, "model": "openai/x", "url": URL, "arguments": {}}
        registry.get("inspect").check(Protocol(), **plain)


def test_a_host_that_the_spec_does_not_name_is_refused_before_the_package_is_used(monkeypatch):
    monkeypatch.setattr(client.importlib.util, "find_spec", lambda name: "there")
    options = {**MOCK, "model": "openai/gpt", "url": URL}
    assert READERS.get("inspect").addresses(**options) == (URL,)
    for gate in (
        EgressCheck(),
        EgressCheck("c", True),
        EgressCheck("c", False, frozenset({"api.example.org"})),
    ):
        built = READERS.build("inspect", Protocol(), egress=gate, **options)
        with pytest.raises(EgressRefused):
            built.read(prompt(built))


def scripted(monkeypatch, usage=None):
    """A package in place of Inspect's whose model answers "yes"; the texts that it is asked."""
    sent = []

    class Model:
        api = SimpleNamespace(client=object())

        async def generate(self, messages, config):
            sent.append(messages[-1].content)
            message = SimpleNamespace(content="yes")
            return SimpleNamespace(
                error=None, choices=[SimpleNamespace(message=message)], stop_reason="stop",
                completion="yes", usage=usage, model="x",
            )  # fmt: skip

    package = ModuleType("inspect_ai.model")
    package.get_model = lambda *_, **__: Model()
    package.ChatMessageUser = package.ChatMessageSystem = lambda content: SimpleNamespace(
        content=content
    )
    package.GenerateConfig = lambda **options: options
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.model", package)
    return sent


@pytest.mark.parametrize("count", [None, -300_000, True, 1 << 62, 10**400])
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "input_tokens_cache_read"])
def test_a_call_whose_tokens_are_not_known_counts_at_its_highest_cost(
    monkeypatch, tmp_path, name, count
):
    sound = {"input_tokens": 5, "output_tokens": 3, "input_tokens_cache_read": 0}
    scripted(monkeypatch, SimpleNamespace(**{**sound, name: count}))
    options = client.InspectFields(
        model="mockllm/model", budget_usd=1.0, price_in=1.0, price_out=2.0
    )
    log = tmp_path / "calls.jsonl"
    engine = client.InspectEngine(options, 100, CLOSED, log, lambda text: None)
    ((_, reply),) = engine.ask_many([Request("", "first")])
    reserved, spent = (line["usd"] for line in read_lines(log))
    assert reserved == pytest.approx((len("first") + 64 + 2 * 100) / 1e6)
    if count is None and name.startswith("input_tokens_cache"):  # where nothing is cached
        assert reply.usage.cost_usd == spent == pytest.approx((5 + 2 * 3) / 1e6)
    else:
        assert (reply.usage.cost_usd, spent) == (None, reserved)


def test_a_permission_that_ends_stops_the_next_request_of_any_provider(monkeypatch, tmp_path):
    """By a provider whose client has no hook before a request, as those of several have none."""
    sent, allowed = scripted(monkeypatch), [True]
    monkeypatch.setenv("MIDCHART_HOSTS", URL.removesuffix("/v1"))
    host = frozenset({"api.example.org"})
    gate = EgressCheck("ward", True, host, lambda: allowed[0])
    options = client.InspectFields(model="google/x", url=URL, concurrency=1)
    engine = client.InspectEngine(options, 100, gate, tmp_path / "calls.jsonl", lambda text: None)
    assert [one.text for _, one in engine.ask_many([Request("", "first")])] == ["yes"]
    allowed[0] = False
    ((_, refused),) = engine.ask_many([Request("", "second")])
    assert sent == ["first"] and "may no longer leave" in str(refused)


@pytest.mark.parametrize("address", [None, "http://127.0.0.1:9", "http://localhost:9"])
def test_the_loop_connects_to_the_permitted_address_alone(monkeypatch, address):
    monkeypatch.setenv("MIDCHART_HOSTS", address or "")
    loop = client._HeldLoop(None if address is None else CLOSED.permit(address))
    held = "127.0.0.1" if address is None else address.split("/")[2].split(":")[0]

    async def connect(host, port):
        with suppress(ConnectionError):
            await loop.create_connection(asyncio.Protocol, host, port)

    async def resolve(host, port):
        await loop.getaddrinfo(host, port)

    try:
        for host, port in (("example.org", 443), ("127.0.0.2", 9), (held, 10)):
            for attempt in (connect, resolve):
                with pytest.raises(EgressRefused):
                    loop.run_until_complete(attempt(host, port))
        with pytest.raises(EgressRefused):
            loop.run_until_complete(loop.create_unix_connection(asyncio.Protocol, "/run/x"))
        if address is not None:
            loop.run_until_complete(connect(held, 9))
    finally:
        loop.close()


@installed
@pytest.mark.parametrize(
    ("text", "reason", "ended"),
    [
        ("20 mg", "stop", "stop"), ("20", "max_tokens", "length"), ("20", "model_length", "length"),
        ("", "stop", "empty"), ("", "tool_calls", "tool"), ("20", "content_filter", "filter"),
    ],
)  # fmt: skip
def test_the_mock_model_answers(text, reason, ended):
    prices = {"price_in": 1.0, "price_out": 2.0}
    built = READERS.build("inspect", Protocol(), **MOCK, **outputs(text, reason), **prices)
    answer = built.read(prompt(built))
    assert (answer.status, answer.reason) == ("ok", "")
    assert (answer.text, answer.ended) == (text, ended)
    assert (answer.endpoint, answer.model) == ("inspect_ai mockllm", "mockllm/model")
    assert (answer.prompt_tokens, answer.output_tokens) == (5, 3)
    assert answer.cost_usd == pytest.approx(11e-6)


@installed
def test_what_a_provider_downloads_by_itself_is_stopped():
    built = READERS.build("inspect", Protocol(), **MOCK)  # its mock fetches a vocabulary to count
    answer = built.read(prompt(built))
    assert answer.status == "failed"
    assert "another address than the permitted none was stopped" in answer.reason


@installed
@pytest.mark.parametrize(("text", "outcome"), [("YES", "correct"), ("Perhaps", "unparsed")])
def test_the_mock_model_judges(text, outcome):
    judge = JUDGES.build("inspect", Protocol(), model="mockllm/model", **outputs(text))
    gold = Gold("i", "90 mg", ("Glucose 90 mg",))
    verdict = judge.judge(Instruction("i", "p", "What was the glucose?"), gold, Answer("90 mg"))
    assert (verdict.outcome, verdict.raw) == (outcome, text)
    assert verdict.usage.output_tokens == 3


@installed
def test_a_server_is_asked_through_a_provider_with_our_messages_key_and_limits():
    with OpenAIFake(says=lambda text: "<think>So it says.</think>20 mg") as server:
        options = {**MOCK, "model": "openai-api/tiny/tiny", "url": f"{server.url}/v1"}
        built = READERS.build("inspect", Protocol(), **options)
        asked = prompt(built)
        answer = built.read(asked)
        assert (answer.status, answer.reason) == ("ok", "")
        assert (answer.text, answer.reasoning, answer.ended) == ("20 mg", "So it says.", "stop")
        (request,) = server.requests
        assert [(m["role"], m["content"]) for m in request["body"]["messages"]] == [
            ("system", SYSTEM), ("user", asked.user),
        ]  # fmt: skip
        limit = request["body"].get("max_tokens") or request["body"].get("max_completion_tokens")
        assert (request["body"]["temperature"], limit) == (0, 128)
        assert "sk-of-the-environment" not in str(request["headers"])
        server.fault("500", "401")
        assert "answers 500" in built.read(asked).reason
        assert "answers 401" in built.read(asked).reason


@installed
def test_the_budget_of_a_model_is_kept(tmp_path):
    # About 330 bytes and 128 tokens at $0.001 each: a call may cost $0.46, and costs $0.008.
    prices = {"price_in": 1000.0, "price_out": 1000.0, **MOCK, **outputs("20 mg")}
    built = READERS.build(
        "inspect", Protocol(), folder=tmp_path, label="m", budget_usd=0.6, **prices
    )
    answers = [answer for _, answer in built.read_many([prompt(built)] * 40)]
    spent = sum(answer.cost_usd or 0.0 for answer in answers)
    assert 0 < sum(answer.status == "ok" for answer in answers) < 40
    assert spent < 0.6
    assert any("the budget of $0.6000 is used up" in answer.reason for answer in answers)
    logged = [
        line["usd"] for line in read_lines(call_log(tmp_path, "m", "reading")) if "usd" in line
    ]
    assert sum(logged) > spent  # reservations are lines, too
