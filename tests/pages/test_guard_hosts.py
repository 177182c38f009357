"""Host names under which a page may be opened."""

import tomllib
from pathlib import Path

import pytest

from midchart.pages.ui.guard import LOOPBACK_HOSTS, allowed_host

CONFIG = Path(__file__).parents[2] / ".streamlit" / "config.toml"


def test_the_shipped_configuration_allows_loopback_alone():
    server = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["server"]
    assert tuple(server["allowedHosts"]) == LOOPBACK_HOSTS
    assert server["address"] == "127.0.0.1"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8501", "localhost", "LOCALHOST:80", "[::1]:8501", "localhost."]
)
def test_loopback_is_allowed_with_and_without_a_port(host):
    assert allowed_host(host, LOOPBACK_HOSTS)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8501", "[::1", "*",
     "evil.example@127.0.0.1.evil.example", "127.0.0.1@evil.example"],
)  # fmt: skip
def test_any_other_name_is_refused(host):
    assert not allowed_host(host, LOOPBACK_HOSTS)


def test_a_wildcard_allows_subdomains_and_not_the_bare_or_a_longer_name():
    allowed = ["*.hospital.example"]
    assert allowed_host("charts.hospital.example:443", allowed)
    assert not allowed_host("hospital.example", allowed)
    assert not allowed_host("charts.hospital.example.evil.org", allowed)
