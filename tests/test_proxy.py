"""The proxy's file sets the app's headers and Strict-Transport-Security, in plain nginx syntax."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "optional" / "proxy.conf").read_text()
DIRECTIVES = [
    line.strip() for line in TEXT.splitlines() if line.strip() and not line.strip().startswith("#")
]
HEADERS = {
    name: value.strip('"')
    for name, value in re.findall(r"""add_header (\S+) (".*?"|\S+) always;""", TEXT)
}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Content-Security-Policy", "frame-ancestors 'none'"),
        ("X-Frame-Options", "DENY"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "same-origin"),
        ("Strict-Transport-Security", "max-age="),
    ],
)
def test_each_header_is_set_on_every_answer(header, value):
    assert value in HEADERS[header]


def test_the_app_is_reached_on_loopback_under_the_name_that_people_typed():
    assert "proxy_pass http://127.0.0.1:8501;" in DIRECTIVES
    assert "proxy_set_header Host $host;" in DIRECTIVES
    assert "proxy_set_header Upgrade $http_upgrade;" in DIRECTIVES
    assert "return 301 https://$host$request_uri;" in DIRECTIVES
