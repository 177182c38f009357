"""No page sends a character as it is that nobody can see (zero-width, override, tag)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core.format import for_terminal
from midchart.core.runs.directory import find_run
from tests.support.pages import open_page, page_html, page_text, shared_workspace
from tests.support.run_helpers import finished_run, workspace_at, write_cohort

pytestmark = pytest.mark.slow

HIDDEN = ("\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0041")
COHORT = f"hid{''.join(HIDDEN)}den"
VIEWS = ("Overall", "Evidence", "Judges", "Failures", "Questions")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A workspace whose cohort's name, facts, questions and reference answers hold hidden
    characters; its run."""
    with workspace_at(tmp_path_factory.mktemp("hidden")) as home:
        cohort = write_cohort(home / "data" / "cohorts" / COHORT, 1, 12)
        write_cohort(home / "data" / "cohorts" / "other", 1, 12)
        for file in (*cohort.rglob("*.xml"), *cohort.rglob("*.tsv")):
            text = file.read_text(encoding="utf-8")
            for word in ("takes", "dose", "milligram"):
                text = text.replace(f" {word} ", f" {word}{''.join(HIDDEN)} ")
            file.write_text(text, encoding="utf-8")
        run = finished_run(
            {
                "kind": "answers",
                "data": str(cohort),
                "arms": ["bm25", "oracle"],
                "readers": ["extractive"],
                "judges": ["exact", "token_overlap"],
                "protocol": {"resamples": 100},
            }
        )
        yield home, run


@pytest.fixture
def opened(place: tuple[Path, str]) -> Iterator[str]:
    """The run's identifier, its workspace in force."""
    with shared_workspace(place[0]):
        yield place[1]


def elements(block: Any) -> Iterator[Any]:
    """Every element of a page."""
    for child in getattr(block, "children", {}).values():
        yield from elements(child)
        yield child


def shown_as_they_are(app: AppTest) -> list[str]:
    """The hidden characters in what is sent to the browser, each with its element."""
    sent: list[str] = []
    for element in elements(app._tree):
        proto = getattr(element, "proto", None)
        content = proto.SerializeToString() if hasattr(proto, "SerializeToString") else b""
        content = content.replace(str(getattr(element, "key", "")).encode(), b"")  # is not shown
        sent += [
            f"U+{ord(one):04X} in {type(element).__name__} {getattr(element, 'label', '')}"
            for one in HIDDEN
            if one.encode() in content or re.search(rf"(?<!\\)\\u{ord(one):04x}".encode(), content)
        ]
    return sent


PAGES = sorted(f.stem for f in (Path(__file__).parents[2] / "pages").glob("[a-z]*.py"))


@pytest.mark.parametrize(
    ("page", "view"), [*((page, "") for page in PAGES), *(("arms", view) for view in VIEWS)]
)
def test_no_page_sends_a_hidden_character(opened: str, page: str, view: str) -> None:
    query = {"view": view} if view else {}
    query |= {"run": opened} if page in ("arms", "review") else {}
    query |= {"cohort": COHORT} if page in ("patient", "data") else {}
    app = open_page(page, **query)
    if page == "review" and app.text_input:
        app.text_input[0].set_value("ada").run()
        for button in app.button[:1]:
            button.click().run()
        assert not app.exception
    assert not shown_as_they_are(app)
    if page == "patient":
        assert "[U+200B]" in page_html(app) + page_text(app)


def test_no_field_that_is_filled_in_sends_a_hidden_character(opened: str) -> None:
    """A kept question's answer and a run's name, to edit; to be shown changes neither."""
    ward = api.open_data(COHORT)
    record = next(iter(ward.records))
    question = api.keep_question(ward.path, record, "Which dose?", "ada")
    answer = f"10{''.join(HIDDEN)} mg"
    api.answer_question(ward.path, question, answer, True, "ada")
    name = f"run{HIDDEN[0]}{HIDDEN[4]} of wards"
    spec = find_run(opened).spec
    table = json.loads(spec.read_text(encoding="utf-8"))
    table["spec"]["name"] = name
    spec.write_text(json.dumps(table), encoding="utf-8")
    patient = open_page("patient", cohort=COHORT, patient=record, question=question)
    runs = open_page("runs", run=opened)
    filled = [field.value for app in (patient, runs) for field in app.text_input]
    assert f"10{for_terminal(''.join(HIDDEN))} mg" in filled and for_terminal(name) in filled
    assert not shown_as_they_are(patient) and not shown_as_they_are(runs)
    assert api.own_question(ward.path, question).annotations["ada"].answer == answer
    assert api.status(opened)["name"] == name
    api.withdraw_question(ward.path, question)


def test_the_texts_do_hold_them(opened: str) -> None:
    question = api.open_data(COHORT).instructions[0].question
    answers = [row["answer"] for row in api.rows(opened, "answers")]
    assert all(one in question for one in HIDDEN)
    assert any(HIDDEN[0] in answer or "\ufffd" in answer for answer in answers if answer)
