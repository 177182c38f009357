"""Question-answering systems with known losses, and the logs that they would write.

Each takes a cohort's questions with located evidence. It retrieves the sentences with evidence and
others, and loses some: what it lost is known, so an audit of its log can be held to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from midchart.core.protocol import Protocol
from midchart.core.text import sentences
from midchart.core.text.evidence import evidence_parts
from midchart.core.types import Cohort, Instruction, Sentence

INVENTED = (
    "The committee met twice in spring and postponed the matter of the garden wall.",
    "Tickets for the evening concert are sold at the harbour office until noon.",
    "Seven lanterns were hung along the canal before the regatta began.",
)
FRAME = ("Use the excerpts of the chart below.", "Answer in one sentence.")


@dataclass(frozen=True)
class Losses:
    """Chances and limits by which a system loses evidence; 0 or None: it does not.

    ``retrieval``: a sentence with evidence is not retrieved; ``middle``: it is not, if it lies in
    the middle of its record; ``reranking``: it is dropped by the reranker; ``tokens``: the prompt
    is cut after so many sentences. ``shuffled``: order in the prompt is random. ``foreign``,
    ``invented``: sentences of another patient, or of nobody, in each prompt.
    """

    retrieval: float = 0.0
    middle: float = 0.0
    reranking: float = 0.0
    sentences: int | None = None
    shuffled: bool = False
    foreign: int = 0
    invented: int = 0
    fillers: int = 12


@dataclass
class Truth:
    """Ids of the sentences with evidence after each step, by question; and all of them."""

    parts: dict[str, frozenset[str]] = field(default_factory=dict)
    steps: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)


def questions_of(cohort: Cohort) -> list[Instruction]:
    """The questions whose evidence is located."""
    return [i for i in cohort.instructions if cohort.gold.get(i.id) and cohort.gold[i.id].spans]


def write_log(
    cohort: Cohort,
    questions: Sequence[Instruction],
    losses: Losses,
    path: Path,
    rng: np.random.Generator,
    named: bool = True,
) -> Truth:
    """Write the log of a system with these losses, as JSON Lines; what it lost."""
    protocol, truth, lines = Protocol(), Truth(), []
    records = list(dict.fromkeys(question.record_id for question in questions))
    for question in questions:
        record = cohort.records[question.record_id]
        gold = cohort.gold[question.id]
        units = sentences(record, protocol)
        evidence = frozenset(evidence_parts(units, gold.spans))
        middle = gold.order is not None and 0.3 <= gold.order <= 0.7
        chance = losses.middle if middle else losses.retrieval
        # Retrieval: the evidence that is not lost, and others.
        others = [u for u in units if u.id not in evidence]
        drawn = rng.permutation(len(others))[: losses.fillers]
        retrieved = [u for u in units if u.id in evidence and rng.random() >= chance]
        retrieved += [others[i] for i in drawn]
        retrieved.sort(key=lambda unit: (unit.span.event, unit.span.start))
        reranked = [
            u for u in retrieved if u.id not in evidence or rng.random() >= losses.reranking
        ]
        if losses.shuffled:
            reranked = [reranked[i] for i in rng.permutation(len(reranked))]
        prompt = reranked[: losses.sentences]
        # Text that is not the patient's.
        other = cohort.records[records[(records.index(record.id) + 1) % len(records)]]
        strange = [u for u in sentences(other, protocol) if u.tokens > 12]
        added = [strange[int(rng.integers(len(strange)))].text for _ in range(losses.foreign)]
        added += [INVENTED[int(rng.integers(len(INVENTED)))] for _ in range(losses.invented)]
        truth.parts[question.id] = evidence
        truth.steps[question.id] = {
            name: evidence & {u.id for u in step}
            for name, step in (
                ("retrieved", retrieved), ("reranked", reranked), ("prompt", prompt),
            )
        }  # fmt: skip
        content = "\n".join([FRAME[0], *map(_line, prompt), *added, question.question, FRAME[1]])
        # It answers rightly where it has all of the evidence.
        right = truth.steps[question.id]["prompt"] == evidence
        lines.append(
            {
                "id": question.id,
                **({"patient": record.id} if named else {}),
                "question": question.question,
                "retrieved": [_line(u) for u in retrieved],
                "reranked": [_line(u) for u in reranked],
                "prompt": [{"role": "user", "content": content}],
                "answer": gold.answer if right else "It is not documented.",
            }
        )
    path.write_text("\n".join(map(json.dumps, lines)))
    return truth


def _line(unit: Sentence) -> str:
    """A sentence as many systems show it: its date, then its text."""
    date = f"[{unit.time:%Y-%m-%d}] " if unit.time else ""
    return date + " ".join(unit.text.split())


def outcomes(truth: Truth, step: str, every: bool) -> Mapping[str, bool]:
    """Whether a question's evidence is there after a step: every piece, or any."""
    return {
        id: (truth.steps[id][step] == parts if every else bool(truth.steps[id][step]))
        for id, parts in truth.parts.items()
    }


def as_spans(log: Path, path: Path) -> None:
    """Write a log of :func:`write_log` as spans with OpenInference's attributes, a trace a line."""
    spans = []
    for number, line in enumerate(map(json.loads, log.read_text().splitlines())):
        documents = {
            f"{prefix}.documents.{i}.document.content": text
            for prefix, texts in (
                ("retrieval", line["retrieved"]), ("reranker.output", line["reranked"]),
            )
            for i, text in enumerate(texts)
        }  # fmt: skip
        documents = {
            name.replace("reranker.output.documents", "reranker.output_documents"): text
            for name, text in documents.items()
        }
        [message] = line["prompt"]
        kinds = {
            "CHAIN": {"input.value": line["question"], "output.value": line["answer"]},
            "RETRIEVER": {n: t for n, t in documents.items() if n.startswith("retrieval")},
            "RERANKER": {n: t for n, t in documents.items() if n.startswith("reranker")},
            "LLM": {
                "llm.input_messages.0.message.role": message["role"],
                "llm.input_messages.0.message.content": message["content"],
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": line["answer"],
            },
        }
        for step, (kind, attributes) in enumerate(kinds.items()):
            spans.append(
                {
                    "name": kind.lower(),
                    "context": {
                        "trace_id": f"{number:032x}",
                        "span_id": f"{number * 8 + step:016x}",
                    },
                    "parent_id": f"{number * 8:016x}" if step else None,
                    "start_time": f"2026-01-01T00:00:{step:02}Z",
                    "end_time": f"2026-01-01T00:00:{step + 1:02}Z",
                    "attributes": {
                        "openinference.span.kind": kind,
                        "metadata": json.dumps({"patient_id": line["patient"]}),
                        **attributes,
                    },
                }
            )
    path.write_text("\n".join(map(json.dumps, spans)))
