"""The documents and the rows in a run's folder: their fields, types and ranges.

A run of this installation is held to these models when it is read, one of another installation
before it appears, then also to lengths and counts (:data:`FOREIGN`). Further fields are kept: other
versions may have more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationInfo

from core.judges.rules import FAILURE_KINDS
from core.runs.evidence import UNLOCATED
from core.runs.plan import Plan
from core.storage.query import Schema, literal
from core.types import BANDS, Outcome

LONGEST_NAME = 1_000
LONGEST_NOTE = 100_000
MOST_ROWS = 50_000_000
LARGEST = 1 << 53
FOREIGN = {"foreign": True}
"""The context of a validation that also bounds lengths and counts."""


def _name(text: str, info: ValidationInfo) -> str:
    if info.context and (len(text) > LONGEST_NAME or any(ord(c) < 32 for c in text)):
        raise ValueError("is no name")
    return text


def _note(text: str, info: ValidationInfo) -> str:
    if info.context and len(text) > LONGEST_NOTE:
        raise ValueError("is too long")
    return text


def _folder(text: str, info: ValidationInfo) -> str:
    if info.context and (not text or text in (".", "..") or set(text) & set("/\\\0")):
        raise ValueError("is no name of a cohort")
    return text


def _count(count: int, info: ValidationInfo) -> int:
    if info.context and count > MOST_ROWS:
        raise ValueError("is too large")
    return count


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("has no time zone")
    return text


Name = Annotated[str, AfterValidator(_name)]
Note = Annotated[str, AfterValidator(_note)]
Moment = Annotated[str, Field(max_length=40), AfterValidator(_moment)]
Count = Annotated[int, Field(ge=0, le=LARGEST), AfterValidator(_count)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]


class _Document(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Component(_Document):
    model_config = ConfigDict(extra="forbid")
    name: Name
    options: dict[Name, Any] = {}
    label: Name = ""


class _Arm(_Component):
    k: Annotated[int, Field(ge=0, le=LARGEST)]
    recency: Count
    tokens: Count | None


class _Spec(_Document):
    name: Name
    kind: Name
    data: Annotated[Name, AfterValidator(_folder)] = ""
    arms: Annotated[list[_Arm], Field(max_length=1_000)]
    readers: Annotated[list[Name | _Component], Field(max_length=1_000)]
    judges: Annotated[list[Name | _Component], Field(max_length=1_000)]
    limit: Count | None
    part: Name = ""
    options: dict[Name, Any] = {}
    allow_hosts: list[Name] = []
    group: Name = ""


class _Tag(_Document):
    synthetic: bool
    external_services_allowed: bool


class _Cohort(_Document):
    path: Annotated[Name, AfterValidator(_folder)]
    digest: Name
    data_use: _Tag


class _Versions(_Document):
    midchart: Name
    code: Name
    python: Name
    packages: dict[Name, Name]


class _Position(_Document):
    used: Literal["order", "time", "token"]
    named: bool
    median_events: Annotated[float, Field(ge=0, le=LARGEST)] | None
    records: Count


class PlanDocument(_Document):
    """``spec.json``."""

    run: Name
    created: Moment
    spec: _Spec
    protocol: dict[Name, Any]
    position: _Position | None = None
    cohort: _Cohort
    versions: _Versions
    weights: dict[Name, Name] = {}
    instructions: Count = 0
    planned: Count
    facts: dict[Name, Any] = Field({}, alias="found")


class DigestedDocument(_Document):
    """A document with digests of the files of rows."""

    sha256: dict[str, str] = {}


class DoneDocument(DigestedDocument):
    """``done.json``."""

    run: Name = ""
    finished: Moment = ""
    seconds: Seconds = 0.0
    planned: Count = 0
    done: Count
    failed: Count


class ImportedDocument(DigestedDocument):
    """``imported.json``."""

    cohort: str
    data: str


class QueueDocument(_Document):
    """``queued.json``."""

    place: Annotated[int, Field(ge=0, le=LARGEST)]
    wants: str


class EventLine(_Document):
    """A line of ``events.jsonl``."""

    time: Moment
    event: Name
    done: Count = 0
    failed: Count = 0
    planned: Count = 0
    seconds: Seconds = 0.0
    text: Note = ""
    reason: Note = ""
    versions: _Versions | None = None


class PersonLine(_Document):
    """A line of ``people.jsonl``."""

    who: str
    action: str


class _Gate(_Document):
    gate: Name
    seen: list[Name]


class GatesDocument(_Document):
    """``gates.json``."""

    __pydantic_extra__: dict[str, _Gate]  # pyright: ignore[reportIncompatibleVariableOverride]


PLAN, DONE, GATES = TypeAdapter(PlanDocument), TypeAdapter(DoneDocument), TypeAdapter(GatesDocument)
DIGESTED, IMPORTED = TypeAdapter(DigestedDocument), TypeAdapter(ImportedDocument)
QUEUED, EVENT, PERSON = TypeAdapter(QueueDocument), TypeAdapter(EventLine), TypeAdapter(PersonLine)


# What the rows of a run's tables hold, beyond the declared types of their columns.


_REQUIRED = frozenset({
    "key", "item", "status", "label", "arm", "record", "instruction", "reader", "judge",
    "answer_key", "outcome", "variant", "task", "placement", "needle", "stratum", "value", "score",
})  # fmt: skip
"""Columns that no row of any kind lacks."""
_SHARE = re.compile(r".*(_position|_chance|_share(_in_prompt)?)|location_score")
_TOGETHER = {
    "evidence_unlocated": "evidence_pieces",
    "location_candidates": "location_score",
}
"""Column → the column with which it is null or not null."""
_PART_OF = {
    "evidence_unlocated": "evidence_pieces",
    **{f"{hit}_{of}": of for hit in ("lexical", "evidence") for of in ("kept", "picked")},
}
"""Column of a count → the count that it is a part of."""


def conditions(plan: Plan, schema: Schema) -> dict[str, str]:
    """Column → the SQL condition of each of its values; columns of any value are absent."""
    values: dict[str, Sequence[str]] = {
        "label": [arm.label for arm in plan.arms],
        "arm": [arm.name for arm in plan.arms],
        "reader": plan.readers,
        "judge": plan.judges,
        "outcome": get_args(Outcome),
        "band": [*(name for name, _, _ in BANDS), UNLOCATED],
        "failure_kind": FAILURE_KINDS,
        "status": ["ok", "failed"],
    }
    tests: dict[str, str] = {}
    for name, type in schema.items():
        test = {
            "DOUBLE": f"{name} BETWEEN -1e-6 AND 1.000001"
            if _SHARE.fullmatch(name)
            else f"isfinite({name})",
            "BIGINT": f"{name} BETWEEN 0 AND {LARGEST}",
        }.get(type, "")
        if values.get(name):
            test = f"{name} IN ({', '.join(map(literal, values[name]))})"
        if name == "time":
            test = f"try_cast({name} AS TIMESTAMPTZ) IS NOT NULL"
        if name in _REQUIRED:
            test = test or f"{name} IS NOT NULL"
        elif test:
            test = f"{name} IS NULL OR {test}"
        if name in _TOGETHER and _TOGETHER[name] in schema:
            test = f"({test}) AND ({name} IS NULL) = ({_TOGETHER[name]} IS NULL)"
        if name in _PART_OF and _PART_OF[name] in schema:
            test = f"({test}) AND coalesce({name} <= {_PART_OF[name]}, true)"
        if test:
            tests[name] = test
    return tests
