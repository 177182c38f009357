"""Choices that are in the address by an opaque word, while people read a label of their own.

Streamlit writes a bound selectbox's *label* to the address, and labels here hold names, ages and
questions. So these choices go to the address by hand: as an id, or as a token that means nothing
to who has not the data. An address that names an id by itself is understood too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

GONE = "The item in this link was not found; the first one is shown."
SOME_GONE = "Some items in this link were not found."


def one(
    name: str,
    label: str,
    options: Sequence[str],
    words: Callable[[str], str],
    *,
    key: str,
    token: Callable[[str], str] = str,
    unlinked: str | None = None,
    **extra: Any,
) -> str:
    """A selectbox whose choice is in the address as ``name``; the first option by default.

    ``words`` is what people read of an option, ``token`` what the address holds of it. The option
    ``unlinked`` is not in the address. An address that asks for something else than the options is
    told to be wrong.
    """
    known = {token(option): option for option in options if option != unlinked}
    asked = _asked(name)
    if asked is not None:
        found = known.get(asked[0], asked[0])
        if found in known.values():
            st.session_state[key] = found
        else:
            st.session_state.pop(key, None)
            st.info(GONE)
    held = st.session_state.get(key)
    # Set again even where it is the same: the browser knows a choice by its label, and a label
    # (a run's status in it) may have changed since.
    st.session_state[key] = held if held in options else options[0]
    chosen = st.selectbox(
        label, options, format_func=words, key=key, persist_state="session", **extra
    )
    _tell(name, [] if chosen == unlinked else [token(chosen)])
    return chosen


def several(
    name: str,
    label: str,
    options: Sequence[str],
    words: Callable[[str], str],
    *,
    key: str,
    default: Sequence[str] = (),
    **extra: Any,
) -> list[str]:
    """A multiselect whose choices are in the address as ``name``, in their order.

    ``default`` is chosen at first, and then not in the address.
    """
    asked = _asked(name)
    held = asked if asked is not None else st.session_state.get(key, default)
    here = [option for option in dict.fromkeys(held) if option in options]
    if asked is not None and len(here) < len(set(asked)):
        st.info(SOME_GONE)
    st.session_state[key] = here
    chosen = st.multiselect(
        label, options, format_func=words, key=key, persist_state="session", **extra
    )
    _tell(name, [] if chosen == list(default) else chosen)
    return chosen


def _asked(name: str) -> list[str] | None:
    """What the address asks for, where it is not what was written there; None where it is."""
    asked = st.query_params.get_all(name)
    return asked if asked and asked != st.session_state.get(_seen(name)) else None


def _tell(name: str, wanted: list[str]) -> None:
    """Write a choice to the address, so that the same view can be opened again."""
    if not wanted:
        st.query_params.pop(name, None)
    elif st.query_params.get_all(name) != wanted:
        st.query_params[name] = wanted
    st.session_state[_seen(name)] = wanted


def forget() -> None:
    """Take every address as new: on another page its words ask for what is there."""
    for held in [key for key in st.session_state if str(key).startswith(_seen(""))]:
        del st.session_state[held]


def _seen(name: str) -> str:
    return f"address_{name}"
