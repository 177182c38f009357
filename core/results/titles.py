"""Titles of labels: a component's name and the options that differ from the defaults ("bm25 k=5").

The title comes from the component's class, so a new component brings its own.
"""

from __future__ import annotations

import re
from functools import cache

from midchart.core.arms import ARMS
from midchart.core.attention import ATTENTIONS
from midchart.core.errors import MidchartError
from midchart.core.judges import JUDGES
from midchart.core.readers import READERS
from midchart.core.registry import Registry

_OPTION = re.compile(r" (?=[\w.]+=)")
"""Where a label is cut: before each ``name=value``."""
_BASELINES = {
    "constant": "Constant (prevalence)",
    "logistic_counts": "Logistic regression (counts)",
    "boosting_counts": "Gradient boosting (counts)",
}
"""Baselines of forecasts, which are no components."""
_OPTIONS: dict[tuple[str, str], str] = {("k", "all"): "", ("labels", "shuffled"): "shuffled labels"}
"""Options whose words are not made by a rule."""
_REGISTRIES: dict[str, Registry[object]] = {"arm": ARMS, "reader": READERS, "judge": JUDGES}  # pyright: ignore[reportAssignmentType]


def split_label(label: str) -> tuple[str, dict[str, str]]:
    """A label's component name and its options as text: ("bm25", {"k": "5"})."""
    name, *options = _OPTION.split(label)
    return name, dict(option.split("=", 1) for option in options)


def title(family: str, label: str) -> str:
    """The title of a label of the family "arm", "reader", "judge" or "variant" (of attention). The
    label itself where nothing of that name is installed (an imported run)."""
    name, options = split_label(label)
    known = _title(family, name)
    words = (_words(option, chosen) for option, chosen in options.items())
    return ", ".join(filter(None, [known, *words])) if known else label


@cache
def _title(family: str, name: str) -> str:
    if family == "variant":
        return _BASELINES.get(name) or (
            ATTENTIONS.title(name) if name in ATTENTIONS.names() else ""
        )
    try:
        return str(getattr(_REGISTRIES[family].get(name), "title", name))
    except MidchartError:
        return ""


def _words(option: str, chosen: str) -> str:
    """An option in words: "k = 5", "frozen gate", "without evidence", "600 tokens"."""
    if (option, chosen) in _OPTIONS:
        return _OPTIONS[option, chosen]
    named = option.replace("_", " ").replace(".", " ")
    if chosen in ("True", "False"):
        return f"{'with' if chosen == 'True' else 'without'} {named}"
    if option == "tokens":
        return f"{chosen} tokens"
    return f"{chosen} {named}" if chosen.isalpha() else f"{named} = {chosen}"
