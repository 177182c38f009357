"""Tables of numbers, each with its download: what a chart shows is always here to take along."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import streamlit as st

from core import api


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """The frame as CSV; a text that a spreadsheet would run as a formula is made plain text."""
    safe = frame.copy()
    for column in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[column]):
            safe[column] = safe[column].map(api.inert)
    safe.columns = [api.inert(name) for name in safe.columns]
    return safe.to_csv(index=False, lineterminator="\r\n").encode()  # so that \r is quoted


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """The frame as Parquet."""
    held = io.BytesIO()
    frame.to_parquet(held, index=False)
    return held.getvalue()


def table(
    frame: pd.DataFrame,
    name: str,
    alt: str,
    columns: dict[str, Any] | None = None,
    download: pd.DataFrame | None = None,
    **options: Any,
) -> Any:
    """Show a frame with CSV and Parquet downloads under it.

    ``name`` is the file name without its ending and the widgets' key; ``alt`` says in words what
    the table holds; ``columns`` is Streamlit's column configuration; ``download`` the frame to be
    downloaded where it has more than is shown.
    """
    first = {"arm": st.column_config.TextColumn(pinned=True)} if "arm" in frame else {}
    shown = st.dataframe(
        frame,
        hide_index=True,
        column_config=first | (columns or {}),
        alt=alt,
        key=f"table_{name}",
        **options,
    )
    downloads(frame if download is None else download, name)
    return shown


def downloads(frame: pd.DataFrame, name: str) -> None:
    """Two quiet buttons that download the frame."""
    with st.container(horizontal=True, gap="small", key=f"downloads_{name}"):
        st.download_button(
            "CSV",
            lambda: csv_bytes(frame),
            f"{name}.csv",
            "text/csv",
            key=f"csv_{name}",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
        )
        st.download_button(
            "Parquet",
            lambda: parquet_bytes(frame),
            f"{name}.parquet",
            "application/vnd.apache.parquet",
            key=f"parquet_{name}",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
        )
