"""What pages say in each state: a row each a page, its address, what is there and what is not."""

from __future__ import annotations

import pytest

from tests.support.pages import open_page, page_html, page_text

pytestmark = pytest.mark.slow

SERVER = "{folder}"
"""Stands for the folder of the data, which no message names."""
ROWS = (
    ("home", {}, ("never reached the model", "Copy link"), (SERVER,)),
    ("arms", {}, ("Where is evidence lost?", "brings the evidence to the model"), (SERVER,)),
    ("arms", {"view": "overall"}, ("Full record",), (SERVER,)),
    ("arms", {"view": "position"}, ("Full record",), (SERVER,)),
    ("questions", {}, (), (SERVER, "not documented")),
    ("curve", {}, ("No responses in this cohort",), (SERVER,)),
    ("gate", {}, (), (SERVER,)),
    ("runs", {}, ("Select rows",), (SERVER,)),
    ("data", {}, ("is in no format that is known here",), (f"{SERVER}/data/",)),
    ("patient", {}, ("sentences kept",), (SERVER,)),
)


@pytest.mark.parametrize(("page", "address", "there", "absent"), ROWS)
def test_a_page_says_what_it_must_and_nothing_else(run, finished, page, address, there, absent):
    app = open_page(page, **address)
    words = " ".join((page_text(app), page_html(app), *(one.label for one in app.button)))
    words += " ".join(str(option) for box in app.selectbox for option in box.options)
    words = words.replace("\\", "")
    missing = [text for text in there if text not in words]
    assert not missing, words[-1500:]
    folder = str(finished.folder)
    paths = [
        words[words.index(path) - 80 :][:240]
        for text in absent
        if (path := text.replace(SERVER, folder)) in words
    ]
    assert not paths
