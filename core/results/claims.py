"""Claims of the documents, checked against the runs that they are read from.

``docs/claims.toml`` lists each figure of README, guide, model card and pages: the words that state
it, the spec of its run and the cells of that run's report, the text it was measured on, and what
chose it. A claim whose run is not on this machine is not tested here, which is no success.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from midchart.core.config import ROOT
from midchart.core.errors import DataError, MidchartError
from midchart.core.parsing import read_toml
from midchart.core.regular_files import read_named
from midchart.core.results.report import report
from midchart.core.results.tables import read_published
from midchart.core.runs.directory import find_run
from midchart.core.runs.status import status
from midchart.core.synthetic.reference import table_row

FILE = ROOT / "docs" / "claims.toml"
Outcome = Literal["holds", "fails", "not tested here", "measured by others", "by command"]
FIGURE = re.compile(r"\d+(?:\.\d+)?(?: ?%| points\b)")
"""A share or a difference in points, as documents write them."""
_Words = Annotated[str, Field(min_length=1)]


@table_row
class StatedFigure:
    """A stated figure and where it is read: the row of ``table`` with the values ``where``, its
    ``column``, times ``times``; ``value`` as the document prints it, which also says to how many
    decimals."""

    table: str
    column: str
    value: str
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    times: float = 100


@table_row
class Claim:
    """A claim; ``docs/claims.toml`` describes the fields."""

    states: _Words
    documents: Annotated[tuple[str, ...], Field(min_length=1)]
    measured_on: _Words
    chosen_by: _Words
    spec: str = ""
    part: str = ""
    published: str = ""
    others: bool = False
    command: str = ""
    cells: tuple[StatedFigure, ...] = ()


@table_row
class Document:
    """A document all of whose figures one command prints."""

    document: _Words
    command: _Words


@table_row
class Setting:
    """A number of a document that is a choice or a definition, not a measurement."""

    states: _Words
    documents: Annotated[tuple[str, ...], Field(min_length=1)]


@table_row
class Claims:
    """The content of ``docs/claims.toml``."""

    claims: tuple[Claim, ...]
    settings: tuple[Setting, ...] = ()
    documents: tuple[Document, ...] = ()


def read_claims(file: Path = FILE) -> Claims:
    """The claims of a file; raises DataError where it is not one."""
    try:
        table = read_toml(read_named(file), file.name)
        claims = TypeAdapter(Claims).validate_python(table)
    except OSError as error:
        raise DataError(str(file), None, f"cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(file.name, None, f"{place}: {first['msg']}") from None
    for claim in claims.claims:
        sources = [claim.spec, claim.published, claim.command, claim.others]
        if sum(map(bool, sources)) != 1 or bool(claim.cells) != bool(claim.spec or claim.published):
            reason = (
                f"{claim.states!r}: names one of spec, published, command and others, and cells "
                "with the first two"
            )
            raise DataError(file.name, None, reason)
    return claims


def check_claims(run: Callable[[str], str] | None = None) -> list[dict[str, Any]]:
    """Each claim with its ``outcome`` and, where it fails or is not tested, the ``reason``.

    ``run`` executes a spec's file and gives the run's id; None: claims without a finished run here
    are not tested. A claim also fails where a document does not have its words.
    """
    runs: dict[str, tuple[str, str]] = {}
    rows: list[dict[str, Any]] = []
    for claim in read_claims().claims:
        missing = [name for name in claim.documents if not states(name, claim.states)]
        outcome: Outcome
        if missing:
            outcome, reason = "fails", f"not in {', '.join(missing)}"
        elif claim.others:
            outcome, reason = "measured by others", "on text that others have"
        elif claim.command:
            outcome, reason = "by command", claim.command
        elif claim.published:
            outcome, reason = _compared(claim, {claim.published: read_published(claim.published)})
        else:
            if claim.spec not in runs:
                runs[claim.spec] = _run_of(claim.spec, run)
            id, reason = runs[claim.spec]
            if id:
                outcome, reason = _compared(claim, report(id, claim.part)["tables"], id)
            else:
                outcome = "not tested here"
        rows.append(
            {
                "outcome": outcome,
                "claim": claim.states,
                "documents": list(claim.documents),
                "measured_on": claim.measured_on,
                "chosen_by": claim.chosen_by,
                "reason": reason,
            }
        )
    return rows


def states(document: str, words: str) -> bool:
    """Whether a document has these words, whatever its line breaks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return " ".join(words.split()) in " ".join(text.split())


def _run_of(spec: str, execute: Callable[[str], str] | None) -> tuple[str, str]:
    """The newest finished run of a spec's file, and "" or why there is none."""
    wanted = read_toml((ROOT / spec).read_bytes(), spec)
    for row in status():
        if row["status"] == "done" and row["kind"] == wanted["kind"] and _same(row["run"], wanted):
            return row["run"], ""
    if execute is None:
        return "", f"no finished run of {spec} here; midchart claims --run makes it"
    try:
        return execute(str(ROOT / spec)), ""
    except MidchartError as error:
        return "", str(error)


def _same(run: str, wanted: Mapping[str, Any]) -> bool:
    """Whether a run has a spec's name, cohort, preset, and its components by name and order.

    The spec is compared as it is written: its gates and models need not be on this machine.
    """
    plan = find_run(run).plan()
    protocol = wanted.get("protocol", "corrected")
    preset = protocol if isinstance(protocol, str) else protocol.get("preset", "corrected")
    arms = _names(wanted.get("arms", ()))
    return (
        (plan.name, plan.limit, plan.protocol.preset)
        == (wanted["name"], wanted.get("limit"), preset)
        and Path(plan.data).name == Path(wanted["data"]).name
        and [arm.name for arm in plan.arms][: len(arms)] == arms
        and [entry.name for entry in plan.reader_entries] == _names(wanted.get("readers", ()))
    )


def _names(entries: Sequence[str | Mapping[str, Any]]) -> list[str]:
    return [entry if isinstance(entry, str) else entry["name"] for entry in entries]


def _compared(
    claim: Claim, tables: Mapping[str, Sequence[Mapping[str, Any]]], run: str = ""
) -> tuple[Outcome, str]:
    """Whether every figure of a claim is the table's, rounded as it is printed."""
    wrong: list[str] = []
    for cell in claim.cells:
        rows = [
            row
            for row in tables.get(cell.table, ())
            if all(str(row.get(name)) == str(value) for name, value in cell.where.items())
        ]
        if len(rows) != 1:
            where = ", ".join(f"{name} = {value}" for name, value in cell.where.items())
            wrong.append(f"{len(rows)} rows of {cell.table} have {where}")
            continue
        number = rows[0].get(cell.column)
        if number is None or number == "":
            wrong.append(f"{cell.table}.{cell.column} is empty for {cell.value}")
            continue
        decimals = len(cell.value.partition(".")[2])
        shown = f"{cell.times * float(number):.{decimals}f}"
        if float(shown) != float(cell.value):
            wrong.append(f"{cell.value} is {shown}")
    return ("fails", f"{run}: {'; '.join(wrong)}".lstrip(": ")) if wrong else ("holds", run)


def unsupported(document: str, text: str, claims: Claims) -> list[str]:
    """The passages of a document's text that state a share or a difference in points which no claim
    or setting of the document carries."""
    carried = " ".join(text.split())
    for one in (*claims.claims, *claims.settings):
        if document in one.documents:
            carried = carried.replace(" ".join(one.states.split()), " ")
    return [
        carried[max(0, match.start() - 60) : match.end() + 20] for match in FIGURE.finditer(carried)
    ]
