"""Semantic hits: entailment between kept sentences and the reference (docs/methods.md, Stage 1).

Scored after all selections, record by record, so that each distinct pair goes to the model once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from midchart.core.arms.hits import buffer_claims, own_pick
from midchart.core.embedding.pairs import Entailment
from midchart.core.errors import WorkFailed, reason_of
from midchart.core.provenance import digest, now
from midchart.core.runs.job import Job, Row
from midchart.core.runs.schemas import SEMANTIC, blank
from midchart.core.text import sentences
from midchart.core.text.prompt import body
from midchart.core.types import ContextLine

ABOUT = ("answer", "evidence")
"""What kept sentences are compared with: the reference answer, or the annotated evidence."""
_COLUMNS = (
    "label", "arm", "k", "record", "instruction", "order_position", "time_position",
    "token_position",    "location_score", "location_candidates", "band",
    "middle", "task_type", "domain", "specialty",
)  # fmt: skip

_Pair = tuple[str, str]
_Lines = list[tuple[str, bool, str]]
"""Lines of a selection: id, whether it is the arm's own pick, text."""
_PART = 256
"""Pairs that are scored between two looks at whether the run was cancelled."""


class SemanticPass:
    """One pass over the selections in a table that have no semantic row yet; none where the run's
    spec asks for none."""

    def __init__(self, job: Job, table: str) -> None:
        self.job, self.table = job, table
        self.about: str = job.plan.options.get("semantic", "")

    def run(self) -> None:
        """Score record by record; a record's rows are written when its pairs are scored."""
        if not self.about:
            return
        selected = self._selected()
        for record, asked in groupby(self.job.questions(), attrgetter("record_id")):
            rows = {_semantic_item(row): row for one in asked for row in selected.get(one.id, ())}
            todo = self.job.todo("semantic", rows, by="item")
            if todo:
                self._record(record, [rows[item] for item in todo])

    def _selected(self) -> dict[str, list[Row]]:
        """The selections by instruction; one that is in several readers' rows counts once."""
        selections: dict[str, dict[str, Row]] = {}
        columns = ", ".join((*_COLUMNS, "lines", "selection"))
        for row in self.job.store.select(self.table, columns):
            selections.setdefault(row["instruction"], {}).setdefault(row["label"], row)
        return {instruction: list(rows.values()) for instruction, rows in selections.items()}

    def _record(self, record: str, todo: Sequence[Row]) -> None:
        """Score a record's selections, all pairs at once."""
        texts: dict[str, str] = {}
        asked: list[tuple[Row, _Lines, Sequence[str], str]] = []
        for row in todo:
            try:
                if not texts and row["lines"] is None and row["selection"] is not None:
                    computed = sentences(self.job.cohort.records[record], self.job.protocol)
                    texts = {sentence.id: sentence.text for sentence in computed}
                asked.append((row, *self._asked(row, texts), ""))
            except Exception as error:  # noqa: BLE001 - becomes the row's reason
                asked.append((row, [], (), reason_of(error)))
        pairs = list(
            dict.fromkeys(
                (reference, text)
                for _, lines, references, _ in asked
                for reference in references
                for _, _, text in lines
            )
        )
        model: str | None = None
        scores: dict[_Pair, float] = {}
        problem = ""
        try:
            entailment = self.job.member("pair model", "entailment", Entailment)
            model = entailment.scorer.id
            for start in range(0, len(pairs), _PART):
                part = pairs[start : start + _PART]
                scores.update(zip(part, entailment.either_way(part).tolist(), strict=True))
                self.job.notify()
        except Exception as error:  # noqa: BLE001 - becomes the reason of the record's rows
            problem = reason_of(error)
        for selected, lines, references, why in asked:
            row = self._row(selected, lines, references, scores, why or problem)
            self.job.append("semantic", {**row, "model": model})

    def _asked(self, row: Row, texts: Mapping[str, str]) -> tuple[_Lines, Sequence[str]]:
        """The lines of a selection, and the references to compare them with."""
        if row["selection"] is None:
            raise WorkFailed("the selection failed")
        gold = self.job.cohort.gold.get(row["instruction"])
        references: tuple[str, ...] = ()
        if gold is not None:
            references = (gold.answer,) if self.about == "answer" else gold.snippets
        claims = buffer_claims(self.job.protocol, row["k"])
        picked = {
            sentence["id"]: own_pick(sentence["kept_by"], claims) for sentence in row["selection"]
        }
        if row["lines"] is None:
            lines = [(id, chosen, texts[id]) for id, chosen in picked.items()]
        else:
            written = [ContextLine(line["id"], line["text"]) for line in row["lines"]]
            lines = [(w.sentence_id, picked.get(w.sentence_id, False), body(w)) for w in written]
        return lines, [text for text in references if text.strip()]

    def _row(
        self,
        selected: Row,
        lines: _Lines,
        references: Sequence[str],
        scores: Mapping[_Pair, float],
        problem: str,
    ) -> Row:
        ids = ",".join(id for id, _, _ in lines)
        named = {name: selected[name] for name in _COLUMNS}
        row: Row = {
            **blank(SEMANTIC),
            **named,
            "key": digest("semantic", self.about, named["label"], named["instruction"], ids),
            "item": _semantic_item(selected),
            "about": self.about,
            "status": "failed" if problem else "ok",
            "reason": problem or None,
            "time": now(),
        }
        if problem or not references:
            return row
        judged = [
            {
                "id": id,
                "picked": picked,
                "probability": max(scores[one, text] for one in references),
            }
            for id, picked, text in lines
        ]
        best = max((line["probability"] for line in judged), default=0.0)
        return {**row, "entailment": judged, "best": best}


def _semantic_item(row: Mapping[str, Any]) -> str:
    return digest("semantic", row["label"], row["instruction"])
