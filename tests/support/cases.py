"""Case folders of ``tests/cases``: an ``input`` and what reading it gives, ``expected.json``.

``python -m tests.support.cases FOLDER…`` writes ``expected.json`` as the program reads the input
now; read the difference before it is committed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from midchart.core.errors import DataError, MidchartError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort
from midchart.core.types import Cohort

CASES = Path(__file__).parents[1] / "cases"
EXPECTED = "expected.json"
UNKEPT = {"order", "simulated", "used"}
"""Fields that others say as well."""


def cases() -> list[Path]:
    """The folders of all cases."""
    return sorted(file.parent for file in CASES.rglob(EXPECTED))


def described(case: Path) -> dict[str, Any]:
    """What reading a case gives: records, questions, gold and what was left out, or the error.

    A case of one file names it in ``open`` of its ``expected.json``.
    """
    stated = json.loads((case / EXPECTED).read_text("utf-8"))
    one = {"open": stated["open"]} if "open" in stated else {}
    place = case / "input" / one["open"] if one else case / "input"
    try:
        content = _cohort(open_cohort(place))
    except DataError as error:
        content = {"error": str(error)}
    text = json.dumps({**one, **content}, ensure_ascii=False).replace(str(case), "CASE")
    return json.loads(text)


def _cohort(cohort: Cohort) -> dict[str, Any]:
    records: dict[str, Any] = {}
    for id in cohort.records:
        try:
            record = cohort.records[id]
        except MidchartError as error:
            records[id] = str(error)
            continue
        facts = {"facts": dict(record.facts)} if record.facts else {}
        records[id] = {**facts, "events": [_stated(asdict(event)) for event in record.events]}
    gold = {one.id: cohort.gold.get(one.id) for one in cohort.instructions}
    labels = check_cohort(cohort).get("labels")
    content = {
        "format": cohort.format,
        "records": records,
        "questions": [_stated(asdict(one)) for one in cohort.instructions],
        "gold": {id: _stated(asdict(one)) for id, one in gold.items() if one},
        "responses": [_stated(asdict(one)) for one in cohort.responses],
        "labels": labels,
        "skipped": sorted((_stated(asdict(one)) for one in cohort.skipped), key=str),
        "warnings": sorted(cohort.warnings),
    }
    return {name: value for name, value in content.items() if value}


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value, as JSON has them."""
    return {
        name: str(value) if name in ("time", "cutoff") and not isinstance(value, float) else value
        for name, value in fields.items()
        if value not in (None, "", (), [], {}) and name not in UNKEPT
    }


def written(content: object, depth: int = 0) -> str:
    """A JSON document with a line for each record's event, question or message."""
    inner, outer = " " * (depth + 1), " " * depth
    if isinstance(content, dict) and content and (depth < 2 or "events" in content):
        rows = [f"{inner}{json.dumps(k)}: {written(v, depth + 1)}" for k, v in content.items()]
        return "{\n" + ",\n".join(rows) + f"\n{outer}}}"
    if isinstance(content, list) and content:
        rows = [f"{inner}{json.dumps(one, ensure_ascii=False)}" for one in content]
        return "[\n" + ",\n".join(rows) + f"\n{outer}]"
    return json.dumps(content, ensure_ascii=False)


def main() -> None:
    """Write ``expected.json`` of the named case folders."""
    for name in sys.argv[1:]:
        case = Path(name).resolve()
        if not (case / EXPECTED).exists():
            (case / EXPECTED).write_text("{}")
        (case / EXPECTED).write_text(written(described(case)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
