"""A spec looked at before it starts: what it will do, how long, and what stands against it.

Unlike starting, it does not stop at the first thing that is missing on this machine: weights and
keys are gathered, so that all of them are told at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core import settings
from core.errors import MidchartError
from core.run.cluster.place import named_cluster, read_place, spelled
from core.run.compose.estimating import estimate
from core.run.compose.presets import read_toml
from core.run.members import gathering


def consider(source: str | Path | Mapping[str, Any], on: str = "") -> dict[str, Any]:
    """What a spec will do, and every reason why it cannot start.

    ``source``: TOML text, a TOML file's path (a ``Path``), or a mapping. ``on``: where its work is
    to be done (:mod:`core.run.cluster.place`). ``problems``: reasons in words, none where it can
    start; ``told``: what :func:`core.run.compose.estimating.estimate` tells, null where the spec is
    not understood; ``cluster``: the cluster whose machines would see records, "" where none would.
    Raises nothing for a spec or a place that is wrong.
    """
    told: dict[str, Any] | None = None
    problems: list[str] = []
    place = ""
    try:
        place = spelled(on)
        read_place(on)
    except MidchartError as error:
        problems.append(str(error))
    with gathering() as missing:
        try:
            if isinstance(source, Path):
                told = estimate(source, named_cluster(place))
            else:
                table = read_toml(source) if isinstance(source, str) else dict(source)
                told = estimate(table, named_cluster(place))
        except MidchartError as error:
            problems.append(str(error))
    problems += missing
    for away in ("leaves", "cluster"):
        if told is not None and told[away] and told[away]["refused"]:
            problems.append(told[away]["refused"])
    problems += _folder()
    return {
        "problems": list(dict.fromkeys(problems)),
        "told": told,
        "cluster": named_cluster(place),
    }


def _folder() -> list[str]:
    """Why no run could be written down."""
    runs = settings.runs_folder()
    place = next(path for path in (runs, *runs.parents) if path.exists())
    if os.access(place, os.W_OK | os.X_OK, effective_ids=True):
        return []
    return [f"{place} cannot be written to by this account, and a run is written there"]
