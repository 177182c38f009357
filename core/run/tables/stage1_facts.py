"""The selections of a run as numbers, one row an arm entry and instruction, for tables of Stage 1.

A selection is made once, whatever reads it; with several readers it stands in several rows and is
counted once. Thresholds of entailment are laid on here, on the probabilities that were kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.run.plan import Plan
from core.run.tables.common import literal
from core.store import RowStore, snapshot, source

THRESHOLDS = (0.3, 0.4, 0.5, 0.6)
"""Probabilities above which a line is a semantic hit (PROTOCOL, Stage 1)."""
MAIN = 0.5
"""The paper's own threshold; the criterion "semantic" alone means this one."""
OF = ("kept", "picked")
"""All lines of a context, or those that the arm itself chose and not the recency buffer alone."""

CHANCES = ("chance", "picked_chance")
"""Ends of the columns that hold the chance of a hit: of the whole context, of the picks."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A way to say that a selection, or a line of it, is a hit.

    ``column`` holds whether the selection is; ``column_kept`` and ``column_picked`` how many of
    its lines are; ``column_chance`` and ``column_picked_chance`` the probability that random
    sentences of as many tokens are. ``share`` is the column of the share of the evidence's
    characters in the context. ``reader``: in whose prompt, where the criterion asks that.
    """

    name: str
    column: str
    reader: str = ""
    share: str = "evidence_share"


def semantic_name(threshold: float) -> str:
    """The criterion of a threshold, "semantic@0.3"."""
    return f"semantic@{threshold:g}"


def _column(threshold: float) -> str:
    return f"semantic_{round(100 * threshold)}"


LEXICAL = Criterion("lexical", "lexical")
EVIDENCE = Criterion("evidence-id", "evidence")
IN_PROMPT = "in prompt"
"""The criterion that evidence was not only kept but is in the prompt after all cuts."""
SEMANTIC = (
    Criterion("semantic", _column(MAIN)),
    *(Criterion(semantic_name(t), _column(t)) for t in THRESHOLDS),
)


@dataclass(frozen=True, slots=True)
class Stage1Facts:
    """Rows with ``label``, ``instruction``, ``record``, ``band``, ``middle``, ``kept``, ``picked``
    and the columns of ``criteria``: lexical and evidence-id, and semantic ones where they were
    scored (these have no chance: it would take scoring every sentence of the record).

    ``prompts``: the criterion :data:`IN_PROMPT`, one a reader (one without a reader where nobody
    read and the protocol limits prompts); ``COLUMN_picked``, ``COLUMN_cut`` and ``COLUMN_tokens``
    hold lines of evidence that the arm chose, whether the prompt lost anything, and its tokens.
    """

    rows: Sequence[Mapping[str, Any]]
    criteria: tuple[Criterion, ...]
    prompts: tuple[Criterion, ...] = ()


def stage1_facts(store: RowStore, plan: Plan) -> Stage1Facts:
    """The selections of a run as it is now, those that failed left out."""
    main = "selections" if "selections" in store.schemas else "answers"
    scored = bool(plan.options.get("semantic"))
    counts = [f"{c.column}_{of}" for c in (LEXICAL, EVIDENCE) for of in OF]
    chances = [f"{c.column}_{of}" for c in (LEXICAL, EVIDENCE) for of in CHANCES]
    alike = ["band", "middle", "kept", "picked", "lexical", "evidence", "evidence_share"]
    columns = ["record", *alike, *counts, *chances]
    firsts = ", ".join(f"first({name}) AS {name}" for name in columns)
    readers = [""] if main == "selections" else list(plan.readers)
    prompts = [
        Criterion(IN_PROMPT, f"prompt_{i}", name, f"prompt_{i}_share")
        for i, name in enumerate(readers)
    ]
    for prompt in prompts:
        whose = f" FILTER (reader = {literal(prompt.reader)})" if prompt.reader else ""
        firsts += (
            f", bool_or(evidence_in_prompt){whose} AS {prompt.column}"
            f", max(evidence_in_prompt_picked){whose} AS {prompt.column}_picked"
            f", bool_or(prompt_cut){whose} AS {prompt.column}_cut"
            f", max(prompt_tokens){whose} AS {prompt.column}_tokens"
            f", max(evidence_share_in_prompt){whose} AS {prompt.share}"
        )
        for of in CHANCES:
            firsts += f", max(evidence_in_prompt_{of}){whose} AS {prompt.column}_{of}"
    above: list[str] = []
    for t in THRESHOLDS if scored else ():
        name = _column(t)
        above += [
            f"best > {t} AS {name}",
            f"len(list_filter(entailment, lambda x: x.probability > {t})) AS {name}_kept",
            f"len(list_filter(entailment, lambda x: x.picked AND x.probability > {t})) "
            f"AS {name}_picked",
        ]

    def statements() -> list[str]:
        rows = source(store.folder, main, store.schemas[main])
        made = [
            f"CREATE OR REPLACE TEMP TABLE chosen AS SELECT label, instruction, {firsts} "
            f"FROM {rows} WHERE selection IS NOT NULL AND ({store.counted}) "
            "GROUP BY label, instruction"
        ]
        if scored:
            rows = source(store.folder, "semantic", store.schemas["semantic"])
            made.append(
                f"CREATE OR REPLACE TEMP TABLE entailed AS SELECT label, instruction, "
                f"{', '.join(above)} FROM {rows} WHERE best IS NOT NULL"
            )
        return made

    joined = " LEFT JOIN entailed USING (label, instruction)" if scored else ""
    with snapshot(statements) as ask:
        found = ask(f"SELECT * FROM chosen{joined} ORDER BY label, instruction")
    known = [p for p in prompts if any(row[p.column] is not None for row in found)]
    return Stage1Facts(found, (LEXICAL, EVIDENCE, *(SEMANTIC if scored else ())), tuple(known))
