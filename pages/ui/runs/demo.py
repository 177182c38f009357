"""The demo comparison: every arm that is here, by what needs no key and no download."""

from __future__ import annotations

import tomllib
from typing import Any

from core import api
from pages.ui import navigation, state
from pages.ui.runs.begin import begin

SPEC = navigation.FOLDER.parent / "docs" / "demo.toml"


def demo_spec(cohort: str) -> dict[str, Any]:
    """The demo comparison on a cohort: every arm that is here, the offline reader and judges."""
    spec = tomllib.loads(SPEC.read_text(encoding="utf-8"))
    here = {name for name, _, problem in state.members("arm") if not problem}
    spec["arms"] = [
        arm for arm in spec["arms"] if (arm if isinstance(arm, str) else arm["name"]) in here
    ]
    return {**spec, "data": api.open_data(cohort).path, "name": f"comparison on {cohort}"}


def start(cohort: str, key: str, primary: bool = True) -> None:
    """A button that starts the demo comparison on a cohort, with what it will do said before."""
    spec = demo_spec(cohort)
    questions = len(api.open_data(cohort).instructions)
    readers, judges = " and ".join(spec["readers"]), " and ".join(spec["judges"])
    begin(
        spec,
        "Run the demo comparison",
        key,
        f"{len(spec['arms'])} arms × {questions:,} questions of {cohort}, read by {readers}, "
        f"judged by {judges}.",
        primary,
    )
