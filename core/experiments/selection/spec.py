"""The fields of a spec of kind ``selection`` or ``answers``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from core.embedding.pairs import require
from core.runs.options import Count, Known, Options, Several, different
from core.runs.semantic import ABOUT


def _about(value: Any) -> Any:
    """What semantic hits are held against: ``true`` is the answer, ``false`` asks for none."""
    return {True: ABOUT[0], False: ""}[value] if isinstance(value, bool) else value


def _here(about: str) -> str:
    """Raise MissingModel where semantic hits are asked for and their model is not here."""
    if about:
        require()
    return about


class SelectionOptions(Options):
    """The fields of kinds ``selection`` and ``answers``."""

    semantic: Annotated[
        str,
        AfterValidator(_here),
        Known("value of 'semantic'", lambda: ("", *ABOUT)),
        BeforeValidator(_about, json_schema_input_type=bool | str),
    ] = ""
    """Kept sentences are compared with the reference "answer" (or true) or the "evidence" too."""
    token_matched: Annotated[
        Several[Count],
        AfterValidator(different),
        BeforeValidator(
            lambda given: [given] if isinstance(given, int) else given,
            json_schema_input_type=Count | list[Count],
        ),
    ] = ()
    """Every arm once more with each of these budgets in tokens, instead of its k."""
