"""What pages say in each state: a row each a page, its address, what is there and what is not."""

from __future__ import annotations

import pytest

from midchart.core import api
from tests.support.pages import open_page, page_html, page_text, shared_workspace
from tests.support.run_helpers import workspace_at

pytestmark = pytest.mark.slow

OWN = (
    ("home", {}, ("never reached the model", "Copy link"), ()),
    ("arms", {}, ("Where is evidence lost?", "brings the evidence to the model"), ()),
    ("arms", {"view": "overall"}, ("Full record",), ()),
    ("arms", {"view": "position"}, ("Full record",), ()),
    ("questions", {}, (), ("not documented",)),
    ("curve", {}, ("No responses in this cohort",), ()),
    ("runs", {}, ("Select rows",), ()),
    ("data", {}, ("is in no format that is known here",), ()),
    ("patient", {}, ("sentences kept",), ()),
)
"""A workspace with two runs, one cohort, and one that cannot be opened."""
FIRST = (
    # A sentence in plain words before any term of the methods.
    ("home", {}, ("facts in the middle of these charts", "Look into a chart"), ("oracle",)),
    # A record that was cut is not called full.
    ("arms", {}, ("window = 4096", "✓ correct", "Filters"), ()),
    ("arms", {"view": "overall"}, ("agreed with people on",), ("Research paper",)),
    # One sentence with its numbers; who answered is said next to it.
    ("curve", {}, ("Worse in the middle of the chart", "simulated answers"), ()),
    # The chart's sentences first, the reader's word after it; gate scores as heat by default.
    (
        "patient",
        {},
        ("Ranked best", "QCCS gate", "The evidence was in the prompt"),
        ("Not documented.", "SD nearer"),
    ),
    ("questions", {}, ("the sentence of the chart", "may not answer"), ("not documented",)),
    ("gate", {}, ("keeps all evidence of", "scores on a patient's chart"), ("dim=32",)),
    # The headline is of the view that is open.
    (
        "gate",
        {"view": "calibration"},
        ("Farthest from the diagonal",),
        ("keeps all evidence of 1",),
    ),
    ("forecast", {}, ("Highest AUROC", "over 2 seeds"), ("0 questions",)),
    # .1 · .307 / (.362 · .693) and / (.55 · .693): prevalence .693, sensitivities of the figure.
    (
        "forecast",
        {"view": "roc"},
        ("At a false positive rate of", "12 and 8 false positives per 100"),
        (),
    ),
    ("forecast", {"view": "differences"}, ("worse than Softmax",), ("At a false positive",)),
    (
        "replication",
        {},
        ("claims can be tested here", ", on this text"),
        ("cannot be tested here,",),
    ),
    ("review", {}, ("Evidence", "distinct answers judged"), ("bm25",)),
    ("runs", {}, ("Select rows",), ("example.com",)),
    ("data", {}, ("Training: allowed", "Evidence position"), ("every part was read",)),
)
"""The first start of an installation: the demo and the included runs."""


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A workspace after its first start."""
    with workspace_at(tmp_path_factory.mktemp("first")) as folder:
        api.prepare_first_start()
    return folder


def holds(page, address, there, absent, folder) -> None:
    app = open_page(page, **address)
    words = " ".join((page_text(app), page_html(app), *(one.label for one in app.button)))
    words += " ".join(str(option) for box in app.selectbox for option in box.options)
    words += " ".join(table.value.to_csv() for table in app.dataframe)
    words += " ".join(str(one.proto) for kind in ("popover", "page_link") for one in app.get(kind))
    words = words.replace("\\", "")
    missing = [text for text in there if text not in words]
    assert not missing, words[-1500:]
    never = (*absent, f"{folder}/data")  # no message names a folder of records
    assert not [words[max(words.index(one) - 80, 0) :][:240] for one in never if one in words]


@pytest.mark.parametrize(("page", "address", "there", "absent"), OWN)
def test_a_page_of_own_runs_says_what_it_must(run, finished, page, address, there, absent):
    holds(page, address, there, absent, finished.folder)


@pytest.mark.parametrize(("page", "address", "there", "absent"), FIRST)
def test_a_page_of_the_first_start_says_what_it_must(first, page, address, there, absent):
    with shared_workspace(first):
        holds(page, address, there, absent, first)
