"""Egress: which hosts are local, the permissions other hosts need, and the audit log."""

from __future__ import annotations

import json
import tomllib

import httpx2
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from midchart.core import config as settings
from midchart.core.client.requests import Reply
from midchart.core.config import CLAUDE_HOST
from midchart.core.egress import CLOSED, Address, EgressCheck, audit, gate_of, read_address
from midchart.core.egress.owners_list import owners_list
from midchart.core.errors import EgressRefused, InputError, UnknownName
from midchart.core.loaders.open import open_cohort, set_data_use
from midchart.core.runs.pool import ray_workers
from midchart.core.types import Manifest, Usage
from tests.support.run_helpers import write_cohort

LOCAL = [
    "http://127.0.0.1", "http://127.0.0.1:8000/v1", "https://localhost:1/v1/", "http://LOCALHOST",
    "http://127.255.3.4:80", "http://[::1]:8000/v1", "HTTP://[0:0:0:0:0:0:0:1]",
]  # fmt: skip
AWAY = [
    "https://api.anthropic.com", "http://10.0.0.7:8000/v1", "http://192.168.1.4", "http://gpu.local",
    "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://[::ffff:127.0.0.1]",
    "http://0.0.0.0:8000", "http://my-localhost", "http://[fe80::1]", "http://128.0.0.1",
]  # fmt: skip
NONSENSE = [
    "", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http:///v1", "http://127.0.0.1@evil.example",
    "http://user:sk-hidden@127.0.0.1/v1", "http://evil.example\\@127.0.0.1", "http://127.1",
    "http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://127.0.0.1:99999",
    "http://127.0.0.1:0", "http://127.0.0.1/v1?key=sk-hidden", "http://127.0.0.1#@evil.example",
    "http://127.0.0.1 .evil.example", "http://127.0.0.1\n.evil.example", "http://lo\u0441alhost",
    "http://127.0.0.1/../x%2f", "http://a..b", "http://[::1", "http://[::g]", "http://1.2.3.4.5",
    "http://\uff11\uff12\uff17.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("url", LOCAL)
def test_loopback_needs_no_permission(url):
    assert CLOSED.permit(url).address.local


@pytest.mark.parametrize("url", AWAY)
def test_other_hosts_need_data_use_tag_owner_and_spec(url, monkeypatch):
    host = read_address(url).host
    url = url.replace("http://", "https://").replace("HTTP://", "https://")
    with pytest.raises(EgressRefused, match="external_services_allowed = false") as refusal:
        EgressCheck("ward", False, frozenset({host})).permit(url)
    assert "ward" in str(refusal.value) and "\n" not in str(refusal.value)
    for named in ([], ["api.example.org"], [f"x{host}"]):
        with pytest.raises(EgressRefused, match="allow_hosts"):
            gate_of(Manifest("ward", external_services_allowed=True), named).permit(url)
    gate = gate_of(Manifest("ward", external_services_allowed=True), [host])
    if host != CLAUDE_HOST:
        with pytest.raises(EgressRefused, match=r"the owner .* has not allowed"):
            gate.permit(url)
    place = Address("https", host, read_address(url).port).url
    others = (f"{place.removesuffix(':8000')}:1", f"http{place[5:]}", "https://other.example")
    for other in others if host != CLAUDE_HOST else ():
        monkeypatch.setenv("MIDCHART_HOSTS", other)
        with pytest.raises(EgressRefused, match=r"the owner .* has not allowed"):
            gate.permit(url)
    monkeypatch.setenv("MIDCHART_HOSTS", f"other.example, {place.upper()}=MIDCHART_SERVED_KEY")
    permit = gate.permit(url)
    assert not permit.address.local and permit.address.host == host
    with pytest.raises(EgressRefused, match="by https only"):
        gate.permit(url.replace("https://", "http://"))
    assert EgressRefused.exit_status == 2


def test_a_key_goes_to_the_host_that_the_owner_gave_it_to_and_to_no_other(monkeypatch, tmp_path):
    monkeypatch.setenv("MIDCHART_SERVED_KEY", "sk-served")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-claude")
    secrets = tmp_path / "secrets.toml"
    secrets.write_text('MIDCHART_HOSTS = "llm.ward.org=MIDCHART_SERVED_KEY, open.org"\n')
    monkeypatch.setenv("MIDCHART_SECRETS", str(secrets))
    gate = EgressCheck("ward", True, frozenset({"llm.ward.org", "open.org", CLAUDE_HOST}))

    def keys(url: str) -> list[str]:
        permit = gate.permit(url)
        sent_keys = (permit.key(name) for name in ("MIDCHART_SERVED_KEY", "ANTHROPIC_API_KEY"))
        return [key.reveal() for key in sent_keys if key is not None]

    assert keys("https://llm.ward.org/v1") == ["sk-served"]
    assert keys("https://open.org") == []
    assert keys(f"https://{CLAUDE_HOST}") == ["sk-claude"]
    assert keys("http://127.0.0.1:8000/v1") == []
    with pytest.raises(EgressRefused):
        gate.permit("https://llm.ward.org:8443")
    secrets.write_text('MIDCHART_HOSTS = "http://127.0.0.1:8000=MIDCHART_SERVED_KEY"\n')
    assert keys("http://127.0.0.1:8000/v1") == ["sk-served"]
    for other in ("http://127.9.9.9:8000", "http://127.0.0.1:8001", "http://localhost:8000",
                  "https://127.0.0.1:8000", "http://[::1]:8000", "http://127.0.0.1"):  # fmt: skip
        assert keys(other) == []


@pytest.mark.parametrize("url", NONSENSE)
def test_an_invalid_address_is_refused_and_not_repeated_in_the_error(url):
    with pytest.raises(InputError) as refusal:
        EgressCheck("", True, frozenset({"evil.example"})).permit(url)
    assert "hidden" not in str(refusal.value) and "\n" not in str(refusal.value)


@limits(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.text("ab1:/@.[]\\?#%0x7f-localhost ", max_size=30),
        st.from_regex(r"(127\.|localhost|\[::1\]|1\.)[a-z0-9.:@/\\\[\]-]{0,15}", fullmatch=True),
    )
)
def test_addresses_treated_as_local_are_local_to_the_http_client(rest):
    """No address that this module takes for loopback leads an HTTP client anywhere else."""
    try:
        address = read_address(f"http://{rest}")
    except InputError:
        return
    seen = httpx2.URL(address.url)
    assert seen.host.strip("[]") == address.host
    assert (seen.port or 80) == address.port and not seen.userinfo
    raw = httpx2.URL(f"http://{rest}")
    assert raw.host.lower().strip("[]") in (address.host, rest.lower().split("]")[0].strip("["))


def _request(url, method="POST", **headers):
    return httpx2.Request(method, url, headers={n.replace("_", "-"): v for n, v in headers.items()})


def test_a_connection_is_held_to_its_address(monkeypatch):
    monkeypatch.setenv("MIDCHART_HOSTS", "http://127.0.0.1:8000 POST, https://api.example.org")
    permit = CLOSED.permit("http://127.0.0.1:8000/v1")
    with pytest.raises(EgressRefused, match="by POST, not by GET"):
        permit.hold(_request("http://127.0.0.1:8000/v1", "GET"))
    permit.hold(_request("http://127.0.0.1:8000/v1/models"))
    for url in (
        "http://127.0.0.1:8001/v1", "https://127.0.0.1:8000/v1", "http://evil.example:8000/v1",
        "http://127.0.0.2:8000/v1",
    ):  # fmt: skip
        with pytest.raises(EgressRefused, match="not followed"):
            permit.hold(_request(url))
    away = EgressCheck("", True, frozenset({"api.example.org"})).permit("https://api.example.org")
    away.hold(_request("https://api.example.org:443/v1/messages"))
    for held in (permit, away):
        options = held.client()
        assert not options["trust_env"] and not options["follow_redirects"]
        assert options["proxy"] is None


def test_a_request_has_the_headers_it_needs_and_the_key_of_its_address_alone(monkeypatch):
    url, key = "http://127.0.0.1:8000", "sk-of-this-address"
    monkeypatch.setenv("MIDCHART_SERVED_KEY", key)
    monkeypatch.setenv("MIDCHART_HOSTS", f"{url}=MIDCHART_SERVED_KEY, http://127.0.0.1:8001")
    needed = {"content_type": "application/json", "anthropic_version": "2023-06-01"}
    planted = {"cookie": "a=b", "proxy_authorization": "Basic YQ==", "x_stainless_os": "Linux",
               "openai_organization": "org", "forwarded": "for=a"}  # fmt: skip
    taken = {"x_api_key": key, "authorization": f"Bearer {key}"}
    other = {"api_key": "sk-other", "x_goog_api_key": f"{key} "}
    request = _request(
        f"{url}/v1", "GET", **needed, **planted, **taken, **other, host="elsewhere.org"
    )
    CLOSED.permit(url).hold(request)
    assert dict(request.headers) == {
        "content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": key,
        "authorization": f"Bearer {key}", "host": "127.0.0.1:8000",
    }  # fmt: skip
    request = _request("http://127.0.0.1:8001/v1", **taken)
    CLOSED.permit("http://127.0.0.1:8001").hold(request)
    assert dict(request.headers) == {"content-length": "0", "host": "127.0.0.1:8001"}
    twice = httpx2.Headers([("authorization", f"Bearer {key}"), ("authorization", "Bearer more")])
    request = httpx2.Request("POST", url, headers=twice)
    CLOSED.permit(url).hold(request)
    assert "authorization" not in request.headers


def test_a_key_that_a_server_sends_back_is_taken_out_of_its_reply(monkeypatch):
    url, key = "http://127.0.0.1:8000", "sk-of-this-address"
    monkeypatch.setenv("MIDCHART_SERVED_KEY", key)
    monkeypatch.setenv("MIDCHART_HOSTS", f"{url}=MIDCHART_SERVED_KEY")
    permit, sent = CLOSED.permit(url), f"Bearer {key}."
    reply = Reply(sent, Usage(sent, 1, 1, 0, None, "alone"), "stop", sent)
    usage = Usage("Bearer •••.", 1, 1, 0, None, "alone")
    assert permit.without_key(reply) == Reply("Bearer •••.", usage, "stop", "Bearer •••.")
    monkeypatch.setenv("MIDCHART_SERVED_KEY", "none")
    assert permit.without_key("Allergies: none.") == "Allergies: none."


def test_a_proxy_of_the_environment_is_used_only_if_the_owner_listed_it(monkeypatch):
    gate = EgressCheck("", True, frozenset({"api.example.org"}))
    url, proxy = "https://api.example.org", "http://proxy.ward.org:3128"
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    for hosts in ("", proxy, f"{proxy} POST", "http://proxy.ward.org:3129 CONNECT"):
        monkeypatch.setenv("MIDCHART_HOSTS", f"{url}, {hosts}")
        with pytest.raises(EgressRefused, match=r"a proxy for api\.example\.org"):
            gate.permit(url)
    monkeypatch.setenv("MIDCHART_HOSTS", f"{url}, {proxy} CONNECT")
    assert gate.permit(url).client()["proxy"] == proxy
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert gate.permit(url).client()["proxy"] is None
    monkeypatch.setenv("HTTPS_PROXY", "http://user:sk-hidden@proxy.ward.org:3128")
    monkeypatch.delenv("NO_PROXY")
    with pytest.raises(EgressRefused) as refusal:
        gate.permit(url)
    assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize(
    "hosts",
    ["a b c", "llm.ward.org=sk-hidden", "https://u:sk-hidden@llm.ward.org", "*.ward.org",
     "https://llm.ward.org/v1", "llm.ward.org=K, https://llm.ward.org:443", "ftp://llm.ward.org",
     "http://127.1:8000", "ray://", "llm.ward.org FETCH"],
)  # fmt: skip
def test_a_list_that_cannot_be_read_is_refused_and_not_repeated(monkeypatch, hosts):
    monkeypatch.setenv("MIDCHART_HOSTS", hosts)
    with pytest.raises(InputError, match="MIDCHART_HOSTS") as refusal:
        owners_list()
    assert "hidden" not in str(refusal.value) and "\n" not in str(refusal.value)
    with pytest.raises(InputError):
        CLOSED.permit("http://127.0.0.1:8000")


def test_a_cluster_is_joined_only_if_the_owner_listed_it(monkeypatch):
    gate = EgressCheck("ward", True)
    clusters = ("ray://head:6379", "ray://127.0.0.1:6379", "ray://localhost:7000", "ray://[::1]:1")
    for cluster in clusters:
        monkeypatch.setenv("MIDCHART_HOSTS", "ray://head:1, http://127.0.0.1:6379, localhost:7000")
        with pytest.raises(EgressRefused, match="has not listed"):
            gate.join(cluster)
        with pytest.raises(EgressRefused, match="has not listed"), ray_workers(cluster, gpu=False):
            pass
        monkeypatch.setenv("MIDCHART_HOSTS", cluster)
        gate.join(cluster)
    monkeypatch.setenv("MIDCHART_HOSTS", "ray://head")
    gate.join("ray://head:6379")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    return tmp_path


def test_a_data_use_change_needs_a_reason_that_is_stored(data):
    cohort = write_cohort(data / "ward", records=1)
    assert open_cohort(cohort).manifest.external_services_allowed is False
    for reason in ("", "  ", "ok"):
        with pytest.raises(InputError, match="reason"):
            set_data_use(cohort, "external_services_allowed", True, reason)
    assert not (cohort / "midchart.toml").exists() and audit.lines() == []
    with pytest.raises(UnknownName):
        set_data_use(cohort, "synthetic", True, "because it would be handy")
    why = "data protection officer, letter of 2 May"
    assert set_data_use(cohort, "external_services_allowed", True, why).external_services_allowed
    (line,) = audit.lines()
    assert line["who"] == settings.user() and line["when"].endswith("+00:00")
    facts = {key: line[key] for key in ("event", "field", "before", "after", "reason")}
    assert facts == {
        "event": "tag", "field": "external_services_allowed", "before": False, "after": True,
        "reason": why,
    }  # fmt: skip


def test_comments_of_a_manifest_are_preserved(data):
    cohort = write_cohort(data / "ward", records=1)
    file = cohort / "midchart.toml"
    file.write_text(
        '# kept by Ada\nname = "Ward 3"\nexternal_services_allowed = true  # until May\n'
        "[ours]\nroom = 7\ntraining_allowed = true\n"
    )
    assert (
        set_data_use(cohort, "external_services_allowed", False, "the agreement has ended")
        == open_cohort(cohort).manifest
    )
    set_data_use(cohort, "training_allowed", True, "the new agreement allows training")
    table = tomllib.loads(file.read_text())
    assert table["external_services_allowed"] is False and table["training_allowed"] is True
    assert table["ours"] == {"room": 7, "training_allowed": True}
    assert "# kept by Ada" in file.read_text() and "# until May" in file.read_text()
    file.write_text("name = ")
    with pytest.raises(InputError, match="not valid TOML"):
        set_data_use(cohort, "training_allowed", False, "the agreement has ended")
    assert len(audit.lines()) == 2


def test_a_key_is_never_shown(tmp_path, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("MIDCHART_SECRETS", str(tmp_path / "secrets.toml"))
    assert settings.secret("ANTHROPIC_API_KEY") is None
    (tmp_path / "secrets.toml").write_text('ANTHROPIC_API_KEY = "sk-planted"\n')
    key = settings.secret("ANTHROPIC_API_KEY")
    assert key is not None and key.reveal() == "sk-planted"
    assert "planted" not in f"{key} {key!r} {[key]}"
    with pytest.raises(TypeError):
        json.dumps(key)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-environment")
    assert settings.secret("ANTHROPIC_API_KEY").reveal() == "sk-environment"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    (tmp_path / "secrets.toml").write_text("ANTHROPIC_API_KEY = sk-planted\n")
    with pytest.raises(InputError) as refusal:
        settings.secret("ANTHROPIC_API_KEY")
    assert "planted" not in str(refusal.value)


@pytest.mark.parametrize("then", ["", "{url}", "{url}=ANTHROPIC_API_KEY", "{url}=K GET"])
def test_what_the_owner_takes_off_the_list_gets_nothing_more(monkeypatch, tmp_path, then):
    monkeypatch.setenv("MIDCHART_SECRETS", str(tmp_path / "secrets.toml"))
    monkeypatch.delenv("MIDCHART_HOSTS", raising=False)

    def listing(text: str) -> None:
        (tmp_path / "secrets.toml").write_text(f'MIDCHART_HOSTS = "{text}"\nK = "sk-of-it"\n')

    gate = EgressCheck("ward", True, frozenset({"api.example.org"}))
    for url in ("http://127.0.0.1:8000", "https://api.example.org"):
        listing(f"{url}=K")
        permit = gate.permit(url)
        permit.hold(_request(f"{url}/v1"))
        listing(then.format(url=url))
        for ask in (permit.ask_again, lambda: permit.hold(_request(f"{url}/v1"))):  # noqa: B023
            with pytest.raises(EgressRefused, match="may no longer be called"):
                ask()
    listing("ray://head:6379")
    there = gate.join("ray://head:6379")
    there.ask_again()
    listing("ray://other:6379")
    with pytest.raises(EgressRefused, match="has not listed ray://head:6379"):
        there.ask_again()
