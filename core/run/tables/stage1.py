"""What the kinds of run that select have in common: Stage 1 of the protocol.

Their fields of a spec: ``semantic`` asks for semantic hits, ``token_matched`` holds every arm once
more to a budget of tokens. What comes of both stands in the tables here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from core.errors import SpecError
from core.run.kind import KINDS, Table
from core.run.plan import Plan
from core.run.rows import SEMANTIC
from core.run.semantic import wanted
from core.run.tables.location import run_locations
from core.run.tables.precision import precision
from core.run.tables.recall import overlap, recall, recall_sweep, tokens
from core.run.tables.stage1_facts import stage1_facts
from core.store import RowStore, Schema

FIELDS = ("semantic", "token_matched")
SCHEMAS: Mapping[str, Schema] = {"semantic": SEMANTIC}
"""The table that stands beside a kind's own."""


def options(table: Mapping[str, Any]) -> dict[str, Any]:
    """The two fields, checked.

    ``semantic`` is "answer", "evidence" or "" (:func:`core.run.semantic.wanted`), ``token_matched``
    a list of budgets. Raises SpecError, and MissingModel where semantic hits are asked for and
    their model is not here.
    """
    return {"semantic": wanted(table), "token_matched": _budgets(table)}


def _budgets(table: Mapping[str, Any]) -> list[int]:
    value = table.get("token_matched", [])
    given = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    for budget in given:
        if type(budget) is not int or budget < 1:
            raise SpecError(
                f"'token_matched' of the spec is {value!r}; it takes a whole number from 1, or a "
                "list of such"
            )
    if len(set(given)) < len(given):
        raise SpecError(f"'token_matched' of the spec is {value!r}; it names a budget twice")
    return given


def stages(plan_options: Mapping[str, Any]) -> int:
    """How many items a selection makes beside its own row: one more where semantic hits are
    asked for."""
    return int(bool(plan_options.get("semantic")))


def tables(store: RowStore, plan: Plan) -> dict[str, Table]:
    """The tables of Stage 1, by name (PROTOCOL, Stage 1)."""
    facts = stage1_facts(store, plan)
    recalled = recall(facts, plan)
    precise = precision(facts, plan)
    spent = tokens(store, plan)
    return {
        "recall": recalled,
        "precision": precise,
        "recall_sweep": recall_sweep(plan, recalled, precise, spent),
        "overlap": overlap(facts, plan),
        "tokens": spent,
        "location": run_locations(store, plan, KINDS.build(plan.kind).main),
    }


def warnings(plan: Plan) -> list[str]:
    """What a reader of these tables should know."""
    about = plan.options.get("semantic", "")
    if not about:
        return ["semantic hits were not scored; a spec asks for them with: semantic = true"]
    return [f"semantic hits hold kept sentences against the reference {about}"]
