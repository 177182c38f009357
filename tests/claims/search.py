"""Evidence that arms keep, and answers of the extractive reader, on halves of real question sets.

``python -m tests.claims.search CHARTS NOTES ARTICLES``: the C-CDA documents of jmandel/sample_ccdas
(for the questions of ``tests/core/arms/ccda_questions.tsv``), and the plain-notes cohorts of
MedCalc-Bench and COVID-QA. The figures go to ``docs/measured.json``.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from midchart.core.arms import ARMS, bm25_analysed
from midchart.core.arms.hits import question_of
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol, parse
from midchart.core.readers import READERS
from midchart.core.storage.lru import LRU
from midchart.core.text import analysis
from midchart.core.text.prompt import build_prompt
from midchart.core.types import Budget, Instruction
from tests.claims.figures import MEASURED
from tests.support.run_helpers import ROOT
from tests.support.synthetic_files import digest

COMMAND = "python -m tests.claims.search CHARTS NOTES ARTICLES"
QUESTIONS = ROOT / "tests" / "core" / "arms" / "ccda_questions.tsv"
ARMS_COMPARED = ("random", "bm25", "bm25_analysed", "dense", "hybrid", "multilingual")
PARTS = ("clinical scores", "equivalents", "equivalents and stems")
FIRST, TOKENS = 5, 300


@contextmanager
def without(part: str) -> Iterator[None]:
    """The analysis without one of :data:`PARTS`."""
    read = analysis._table

    def table(name: str) -> Iterator[dict[str, str]]:
        for number, row in enumerate(read(name)):
            dropped = row["kind"] == "score" if part == "clinical scores" else number > 0
            if name != "equivalents.tsv" or not dropped:
                yield row

    with pytest.MonkeyPatch.context() as patch:
        if part:
            patch.setattr(analysis, "_table", table)
        if part.endswith("stems"):
            patch.setattr(analysis, "_stem", lambda word, language: word)
        patch.setattr(bm25_analysed, "_indexes", LRU(16))
        analysis._equivalents.cache_clear()
        yield
    analysis._equivalents.cache_clear()


def one_line(text: str) -> str:
    return " ".join(text.lower().split())


def charts(folder: Path, arm: str) -> tuple[int, int, int]:
    """Questions whose evidence is among the first sentences of an arm, those with the evidence
    among the sources of the extractive reader's answer to k = 20, and all questions."""
    first = quoted = asked = 0
    protocol, records = Protocol(), {}
    reader = READERS.build("extractive", protocol)
    for row in csv.DictReader(QUESTIONS.open(encoding="utf-8"), delimiter="\t"):
        if row["file"] not in records:
            cohort = open_cohort(str(folder / row["file"]))
            records[row["file"]] = next(iter(cohort.records.values()))
        record, evidence = records[row["file"]], one_line(row["evidence"])[:40]
        question, asked = Instruction("q", record.id, row["question"]), asked + 1
        built = ARMS.build(arm, protocol)
        selection = built.select(record, question, Budget(FIRST, 0))
        first += any(evidence in one_line(k.sentence.text) for k in selection.kept)
        selection = built.select(record, question, Budget())
        prompt = build_prompt(
            question.question, selection, protocol, reader.window, reader.count_tokens
        )
        answer = reader.read(prompt)
        sources = [line.text for line in prompt.context if line.sentence_id in answer.sources]
        quoted += evidence in one_line(" ".join(sources)) and not answer.how
    return first, quoted, asked


def recall_at_budget(folder: Path, arm: str) -> tuple[float, float, int]:
    """Share of questions of which all pieces of the evidence are kept at the budget, the mean
    tokens used, and the number of questions."""
    protocol = parse({"preset": "corrected", "recency": 0, "position": "token"})
    cohort, built = open_cohort(str(folder)), ARMS.build(arm, protocol)
    questions = [question_of(cohort, one, protocol) for one in cohort.instructions]
    hits, tokens = [], []
    for question in questions:
        if question.parts:
            budget = Budget(10**6, 0, TOKENS)
            selection = built.select(question.record(), question.instruction, budget)
            hits.append(question.hits(selection)["evidence_all"])
            tokens.append(selection.tokens)
    return sum(hits) / len(hits), sum(tokens) / len(tokens), len(hits)


def measured(folders: Mapping[str, Path]) -> dict[str, Any]:
    """The result as docs/measured.json has it: the command, the digest of each folder, single
    values, and a row for each arm."""
    data = {name: digest(folder) for name, folder in folders.items()}
    values: dict[str, Any] = {"tokens": TOKENS, "first": FIRST}
    rows: list[dict[str, Any]] = []
    parts = [("", ARMS_COMPARED)]
    parts += [(part, ("bm25_analysed", "hybrid")) for part in PARTS]
    for part, arms in parts:
        with without(part):
            for arm in arms:
                row: dict[str, Any] = {"arm": arm, "without": part}
                row["charts"], quoted, values["charts"] = charts(folders["charts"], arm)
                for name in ("notes", "articles"):
                    share, tokens, values[name] = recall_at_budget(folders[name], arm)
                    row |= {name: round(share, 3), f"tokens of {name}": round(tokens)}
                if arm == "hybrid" and not part:
                    values["quoted"] = quoted
                print(row, flush=True)
                rows.append(row)
    return {"command": COMMAND, "data": data, "values": values, "rows": rows}


if __name__ == "__main__":
    places = dict(zip(("charts", "notes", "articles"), map(Path, sys.argv[1:]), strict=True))
    results = json.loads(MEASURED.read_text("utf-8")) | {"search": measured(places)}
    MEASURED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
