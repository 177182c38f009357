"""Caching of results between reruns: one decorator, keyed on what changes with the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

import streamlit as st

Result = TypeVar("Result")


def cached(
    key: Callable[..., Any],
    *,
    entries: int = 8,
    spinner: str | bool = False,
    seconds: float | None = None,
    shared: bool = False,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Cache a function under ``key(*arguments)``, a small hashable value.

    The arguments themselves are never hashed. At most ``entries`` results are cached, each for
    ``seconds`` (None: until the key changes). ``shared``: hand out the object itself, not a copy;
    nobody may change it. The function gets a ``clear`` method.
    """
    store = st.cache_resource if shared else st.cache_data

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        def stored(key: Any, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> Result:
            return function(*_arguments, **_named)

        # Streamlit identifies a cache by module and qualified name.
        stored.__module__, stored.__qualname__ = function.__module__, function.__qualname__

        @lru_cache(maxsize=1)
        def cache() -> Any:
            # Modules are imported before the server is there, which a cache needs.
            return store(max_entries=entries, ttl=seconds, show_spinner=spinner)(stored)

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Result:
            return cache()(key(*arguments, **named), arguments, named)

        call.clear = lambda: cache().clear()  # pyright: ignore[reportAttributeAccessIssue]
        return call

    return decorate
