"""Pages without a browser: opening one at an address and reading its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.support.run_helpers import workspace_at

PAGES = Path(__file__).parents[2] / "pages"
TEXT = ("title", "header", "subheader", "markdown", "caption", "text", "info", "error", "warning")

CACHED: list[Path] = []
"""The shared workspace whose results are cached, if any."""


@contextmanager
def shared_workspace(folder: Path) -> Iterator[None]:
    """The workspace in force; tests that patch nothing leave each other their cached results."""
    if [folder] != CACHED:
        st.cache_data.clear()
        CACHED[:] = [folder]
    with workspace_at(folder):
        yield


def page_at(name: str, **query: str | list[str]) -> AppTest:
    """A page at an address, not run yet."""
    app = AppTest.from_file(str(PAGES / f"{name}.py"), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    return app


def open_page(name: str, **query: str | list[str]) -> AppTest:
    """A page run at an address; fails where it raises."""
    app = page_at(name, **query).run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def page_html(app: AppTest) -> str:
    """The HTML blocks of a page."""
    return "\n".join(e.proto.body for e in app.get("html"))


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
