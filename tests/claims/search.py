"""Evidence that arms keep, and answers of the extractive reader, on halves of real question sets.

``python -m tests.claims.search CHARTS NOTES ARTICLES``: the C-CDA documents of jmandel/sample_ccdas
(for the questions of ``tests/core/arms/ccda_questions.tsv``), and the plain-notes cohorts of
MedCalc-Bench and COVID-QA. The figures go to ``docs/measured.json``.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
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
from tests.support.run_helpers import ROOT

COMMAND = "python -m tests.claims.search CHARTS NOTES ARTICLES"
QUESTIONS = ROOT / "tests" / "core" / "arms" / "ccda_questions.tsv"
ARMS_COMPARED = ("random", "bm25", "bm25_analysed", "dense", "hybrid")
FIRST, TOKENS = 5, 300
Rows = list[dict[str, str]]


@contextmanager
def without(part: str) -> Iterator[None]:
    """The analysis without "clinical scores", "equivalents" or also "stems"."""
    read = analysis._table

    def table(name: str) -> Iterator[dict[str, str]]:
        for number, row in enumerate(read(name)):
            dropped = row["kind"] == "score" if part == "clinical scores" else number > 0
            if name != "equivalents.tsv" or not dropped:
                yield row

    with pytest.MonkeyPatch.context() as patch:
        if part:
            patch.setattr(analysis, "_table", table)
        if part == "stems":
            patch.setattr(analysis, "_stem", lambda word, language: word)
        patch.setattr(bm25_analysed, "_indexes", LRU(16))
        analysis.analyzer.cache_clear()
        yield
    analysis.analyzer.cache_clear()


def one_line(text: str) -> str:
    return " ".join(text.lower().split())


def charts(folder: Path, arm: str) -> tuple[int, int, int]:
    """Questions whose evidence is among the first sentences of an arm; among the sources of the
    extractive reader's answer to k = 20; and declined with it as the nearest line."""
    first = quoted = nearest = 0
    protocol, records = Protocol(), {}
    reader = READERS.build("extractive", protocol)
    for row in csv.DictReader(QUESTIONS.open(encoding="utf-8"), delimiter="\t"):
        if row["file"] not in records:
            cohort = open_cohort(str(folder / row["file"]))
            records[row["file"]] = next(iter(cohort.records.values()))
        record, evidence = records[row["file"]], one_line(row["evidence"])[:40]
        asked = Instruction("q", record.id, row["question"])
        built = ARMS.build(arm, protocol)
        selection = built.select(record, asked, Budget(FIRST, 0))
        first += any(evidence in one_line(k.sentence.text) for k in selection.kept)
        selection = built.select(record, asked, Budget())
        prompt = build_prompt(
            asked.question, selection, protocol, reader.window, reader.count_tokens
        )
        answer = reader.read(prompt)
        sources = [line.text for line in prompt.context if line.sentence_id in answer.sources]
        held = evidence in one_line(" ".join(sources))
        quoted += held and not answer.how
        nearest += held and bool(answer.how)
    return first, quoted, nearest


def recall_at_budget(folder: Path, arm: str) -> tuple[float, float]:
    """Share of questions of which all pieces of the evidence are kept at the budget, in percent,
    and the mean tokens used."""
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
    return 100 * sum(hits) / len(hits), sum(tokens) / len(tokens)


def measured(folders: Sequence[Path]) -> dict[str, Any]:
    """The figures by name: value, command, data and the SHA-256 of its files."""
    figures: dict[str, Any] = {}
    digests = {}
    for name, folder in zip(("charts", "notes", "articles"), folders, strict=True):
        total = sha256()
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            total.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
        digests[name] = total.hexdigest()

    def add(name: str, data: str, value: float) -> None:
        print(name, value, flush=True)
        figures[name] = {
            "value": value, "command": COMMAND, "data": data, "sha256": digests[data],
        }  # fmt: skip

    parts = [("", ARMS_COMPARED)]
    changed = ("clinical scores", "equivalents", "stems")
    parts += [(part, ("bm25_analysed", "hybrid")) for part in changed]
    for part, arms in parts:
        with without(part):
            for arm in arms:
                label = f"{arm} without {part}" if part else arm
                first, quoted, nearest = charts(folders[0], arm)
                add(f"search {label}, charts", "charts", first)
                for data, folder in zip(("notes", "articles"), folders[1:], strict=True):
                    share, tokens = recall_at_budget(folder, arm)
                    add(f"search {label}, {data}", data, round(share, 1))
                    add(f"search {label}, tokens of {data}", data, round(tokens))
                if label == "hybrid":
                    add("extractive quotes the evidence, charts", "charts", quoted)
                    add("extractive declines beside the evidence, charts", "charts", nearest)
    return figures


if __name__ == "__main__":
    file = ROOT / "docs" / "measured.json"
    everything = json.loads(file.read_text(encoding="utf-8"))
    everything |= measured([Path(one) for one in sys.argv[1:4]])
    file.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")
