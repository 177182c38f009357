"""Choices that are kept in the URL, by their ids.

A bound widget of Streamlit writes its *label* to the URL: that serves for fixed words only. What
has a title goes through :func:`pick`; what names, questions or text of a cohort are in through
:func:`pick_linked`, which writes a token that means nothing to who has not the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from midchart.pages.ui.shared import glossary
from midchart.pages.ui.shared.marks import for_screen, for_terminal, looks_marked

GONE = "The item in this link was not found; the first one is shown."
SOME_GONE = "Some items in this link were not found."
ABREAST = 3
"""Most choices that are shown side by side; more go into a list."""


def token(scope: str, identity: str) -> str:
    """An opaque stand-in for an id within a cohort or run: ten hex digits, always the same."""
    return hashlib.blake2b(f"{scope}\0{identity}".encode(), digest_size=5).hexdigest()


def pick(
    label: str,
    options: Sequence[str],
    key: str,
    titles: Mapping[str, str] | None = None,
    abreast: bool = False,
    **extra: Any,
) -> str:
    """One of a few options, the first by default; nothing is drawn where there is no choice.

    The URL holds the option, the page its title (``titles``). Many options go into a list, unless
    they are shown ``abreast``. So do options that markdown could interpret (an imported run names
    its own readers): a list shows them as they are.
    """
    if len(options) < 2:
        return options[0] if options else ""
    named = {option: (titles or {}).get(option, option) for option in options}
    if "help" not in extra and "label_visibility" not in extra:
        extra["help"] = glossary.of_options(named.values())
    plain = not any(map(looks_marked, named.values()))
    if abreast := plain and (abreast or len(options) <= ABREAST):
        return pick_linked(key, label, named, unlinked=options[0], abreast=True, **extra)
    return pick_linked(key, label, named, unlinked=options[0], **{"width": 260, **extra})


def segments(label: str, titles: Mapping[Any, str] | Sequence[str], key: str, **extra: Any) -> Any:
    """One of a page's own options (``titles``) as buttons side by side, the first by default; its
    title is in the URL, unless ``extra`` says where else its state is kept."""
    title_of = titles if isinstance(titles, Mapping) else {title: title for title in titles}
    linked = {} if "persist_state" in extra else {"bind": "query-params"}
    return st.segmented_control(
        label, list(title_of), default=next(iter(title_of)), required=True, key=key,
        format_func=title_of.__getitem__, **linked, **extra,
    )  # fmt: skip


def pick_listed(
    label: str, names: Sequence[str], key: str, captions: Mapping[str, str] | None = None
) -> str:
    """One of some names of folders, the first by default; in the URL as ``key``, as the list shows
    it: with its invisible characters visible. Those with ``captions`` are all shown while they are
    few."""
    asked = st.query_params.get(key)
    if asked in names and for_terminal(asked) != asked:  # a link names it as it is
        st.session_state[key] = asked
    options: dict[str, Any] = {"bind": "query-params", "format_func": for_terminal, "key": key}
    if captions and len(names) <= MOST_SHOWN and not any(map(looks_marked, names)):
        below = [for_screen(captions[name]) for name in names]
        return st.radio(label, names, horizontal=True, captions=below, **options)
    return st.selectbox(label, names, width=420, **options)


MOST_SHOWN = 12
"""Names that are shown side by side."""


def pick_linked(
    name: str,
    label: str,
    options: Mapping[str, str] | Sequence[str],
    title: Callable[[str], str] = str,
    *,
    key: str = "",
    token: Callable[[str], str] = str,
    unlinked: str | None = None,
    abreast: bool = False,
    below: bool = False,
    **extra: Any,
) -> str:
    """A selectbox, buttons side by side (``abreast``) or a list of all options one ``below`` the
    other, whose choice is in the URL as ``name``.

    The first option by default. ``title`` is what people read of an option (of a mapping its
    value), ``key`` that of the session (default: ``name``), ``token`` what the URL holds; a URL
    with the option itself or its title is understood too. The option ``unlinked`` is not in the
    URL. A URL that asks for another option gets a message; one that lost the parameter (the browser
    went back) means the default again.
    """
    if isinstance(options, Mapping):
        title, options = options.__getitem__, list(options)
    key = key or name
    known = {
        way(option): option for way in (title, token, str) for option in options
        if option != unlinked
    }  # fmt: skip
    if unlinked:  # a link by hand names it
        known.setdefault(unlinked, unlinked)
    restore(name, options[0], known, key, unlinked)
    draw: Callable[..., Any] = st.radio if below else st.selectbox
    if abreast:
        draw = partial(st.segmented_control, required=True)
    chosen = draw(
        label,
        options,
        format_func=lambda option: for_terminal(title(option)),
        key=key,
        persist_state="session",
        **extra,
    )
    write_url(name, [] if chosen == unlinked else [token(chosen)])
    return chosen


def restore(
    name: str, default: Any, known: Mapping[str, Any], key: str = "", unlinked: Any = None
) -> None:
    """Set the session's choice ``key`` (default: ``name``) to what the URL asks for.

    ``known``: the URL's value → option. Where the URL lost the parameter, the choice is
    ``unlinked``; where it asks for something else, the ``default``, with a message.
    """
    key = key or name
    wanted = new_in_url(name)
    chosen = st.session_state.get(key)
    if wanted:
        chosen = known.get(wanted[0])
        if chosen is None:
            st.info(GONE)
    elif wanted is not None:
        chosen = unlinked
    # Set again even where it is the same: the browser knows a choice by its label, and a label
    # (a run's status in it) may have changed since.
    options = {*known.values(), unlinked}
    st.session_state[key] = default if chosen is None or chosen not in options else chosen


def pick_several(
    name: str,
    label: str,
    options: Sequence[str],
    title: Callable[[str], str],
    *,
    key: str,
    default: Sequence[str] = (),
    **extra: Any,
) -> list[str]:
    """A multiselect whose choices are in the URL as ``name``, in their order.

    ``default`` is chosen at first, and then not in the URL.
    """
    wanted = new_in_url(name)
    selected = (wanted or default) if wanted is not None else st.session_state.get(key, default)
    present = [option for option in dict.fromkeys(selected) if option in options]
    if wanted and len(present) < len(set(wanted)):
        st.info(SOME_GONE)
    st.session_state[key] = present
    chosen = st.multiselect(
        label,
        options,
        format_func=lambda option: for_terminal(title(option)),
        key=key,
        persist_state="session",
        **extra,
    )
    write_url(name, [] if chosen == list(default) else chosen)
    return chosen


def known_in_url(name: str, options: Collection[str], what: str, present: str) -> None:
    """Stop the page with one line where the URL asks for an option that does not exist: ``what`` it
    would be, and what is ``present`` in its place."""
    wanted = new_in_url(name) or []
    known = {*options, *map(for_terminal, filter(None, options))}
    unknown = [value for value in wanted if value not in known]
    if unknown:
        st.error(f"There is no {what} {for_screen(unknown[0])}: {for_screen(present)}")
        st.stop()


def forget() -> None:
    """Take every URL as new: on another page its parameters have other options."""
    for key in [key for key in st.session_state if str(key).startswith(_written_key(""))]:
        del st.session_state[key]


def new_in_url(name: str) -> list[str] | None:
    """The URL's values of a parameter, where they are not those written last; else None.

    Empty where the parameter was written and is gone.
    """
    wanted = st.query_params.get_all(name)
    return None if wanted == st.session_state.get(_written_key(name), []) else wanted


def write_url(name: str, values: list[str]) -> None:
    """Write a parameter of the URL; without values, remove it."""
    if not values:
        st.query_params.pop(name, None)
    elif st.query_params.get_all(name) != values:
        st.query_params[name] = values
    st.session_state[_written_key(name)] = values


def _written_key(name: str) -> str:
    return f"address_{name}"
