"""Pages without a browser: opening one at an address and reading its text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from midchart.pages.ui.shared import chart
from tests.support.run_helpers import workspace_at

PAGES = Path(__file__).parents[2] / "pages"
TEXT = ("title", "header", "subheader", "markdown", "caption", "text", "info", "error", "warning")

CACHED: list[str] = []
"""The data folder whose results pages have cached, if any."""


def forget_other_workspace() -> None:
    """Forget what pages cached in another workspace than the present one."""
    folder = os.environ.get("MIDCHART_DATA", "")
    if [folder] != CACHED:
        st.cache_data.clear()
        st.cache_resource.clear()
        CACHED[:] = [folder]


@contextmanager
def shared_workspace(folder: Path) -> Iterator[None]:
    """The workspace in force; tests that patch nothing leave each other their cached results."""
    with workspace_at(folder):
        forget_other_workspace()
        yield


def page_at(name: str, **query: str | list[str]) -> AppTest:
    """A page at an address, not run yet."""
    forget_other_workspace()
    app = AppTest.from_file(str(PAGES / f"{name}.py"), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    return app


def open_page(name: str, **query: str | list[str]) -> AppTest:
    """A page run at an address; fails where it raises."""
    app = page_at(name, **query).run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def clickable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each table and figure of a page a button, by which :func:`click` selects in it.

    Streamlit's tests of pages have no selections.
    """
    monkeypatch.setattr(st, "dataframe", _with_button(st.dataframe))
    plot = chart.plot

    def plotted(drawing: Any, alt: str, key: str, select: Any = None, **more: Any) -> None:
        plot(drawing, alt, key, **more)
        if select:
            st.button("click", key=f"click_{key}", on_click=_select, args=(key, select))

    monkeypatch.setattr(chart, "plot", plotted)


def _with_button(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(content: Any, *, key: str = "", on_select: Any = "ignore", **options: Any) -> Any:
        options.pop("selection_mode", None)
        draw(content, **options)
        if callable(on_select):
            st.button("click", key=f"click_{key}", on_click=_select, args=(key, on_select))
        return {"selection": {"rows": [], "cells": []}}

    return drawn


CLICKED: list[dict[str, Any]] = []
"""What the next click selects."""


def _select(key: str, on_select: Callable[[], object]) -> None:
    st.session_state[key] = CLICKED.pop()
    on_select()


def click(app: AppTest, key: str, row: int = 0, column: str = "", point: Any = None) -> AppTest:
    """Click a cell of a table, or a marker with this custom data, by the end of its key."""
    CLICKED[:] = [{"selection": {"rows": [row], "cells": [(row, column)]}, "point": point}]
    button = next(
        one
        for one in app.button
        if str(one.key).startswith("click_") and str(one.key).endswith(key)
    )
    button.click().run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def pages_opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """The pages that clicks open from now on, each with its address; none is switched to."""
    opened: list[tuple[str, dict[str, str]]] = []

    def switch_page(page: Any, *, query_params: dict[str, str]) -> None:
        opened.append((page.url_path, query_params))

    monkeypatch.setattr(st, "switch_page", switch_page)
    return opened


@dataclass(frozen=True)
class Figure:
    """A figure of a page: its text for who cannot see it, and what the browser draws, as JSON."""

    alt: str
    spec: str


def figures_of(app: AppTest) -> list[Figure]:
    """The figures of a page, in their order."""
    components = [element.proto for element in app.get("bidi_component")]
    sent = [json.loads(proto.json) for proto in components if proto.component_name == "figure"]
    return [Figure(data["alt"], data["figure"]) for data in sent]


def page_html(app: AppTest) -> str:
    """The HTML blocks of a page, but for its styles."""
    bodies = [element.proto.body for element in app.get("html")]
    return "\n".join(body for body in bodies if not body.startswith("<style>"))


def page_text(app: AppTest) -> str:
    """All text of a page, HTML blocks included; Markdown's escapes are kept."""
    shown = [str(e.value) for kind in TEXT for e in app.get(kind)]
    return "\n".join([*shown, page_html(app)])


def plain_text(app: AppTest) -> str:
    """All text of a page without Markdown's escapes."""
    return page_text(app).replace("\\", "")


def frame_with(app: AppTest, column: str) -> pd.DataFrame:
    """The first table of a page that has the column."""
    return next(table.value for table in app.dataframe if column in table.value)
