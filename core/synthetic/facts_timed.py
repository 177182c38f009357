"""Facts that follow from the life itself: why a drug was stopped, how high a value went.

These stand where they happened, so they are offered for the stretch of the record they fall in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from core.synthetic.common import pick
from core.synthetic.medicine import AnalyteKey, analytes, dose, drugs
from core.synthetic.model import Course, Fact, Item, Note, Patient, Statement, Step
from core.synthetic.notes_parts import Writer
from core.synthetic.reference import DATA, STRICT, read_tsv

InStretch = Callable[[int], bool]
"""Whether an event order lies in the wanted decile."""


@dataclass(frozen=True, slots=True)
class LabQuestion:
    """An analyte that is asked for, under the name a lay person has for it: one value, or the
    trend."""

    __pydantic_config__ = STRICT
    analyte: AnalyteKey
    asked: Literal["value", "trend"]
    lay: str
    specialty: str


@cache
def lab_questions() -> tuple[LabQuestion, ...]:
    """All analytes that are asked for."""
    return read_tsv(LabQuestion, DATA / "lab_questions.tsv")


def _asked_name(rng: np.random.Generator, step: Step, text: str) -> str:
    """A name of the drug that the sentence does not use, where there is one."""
    drug = drugs()[step.drug]
    names = [n for n in (drug.key, drug.brand) if n.lower() not in text.lower()]
    return pick(rng, names) if names else drug.key


def _why(p: Patient, step: Step) -> str:
    return step.why.format_map(p.words)


def _wrong_reasons(w: Writer, step: Step) -> list[str]:
    others = [_why(w.p, s) for _, s, _ in w.steps.values() if s.why != step.why]
    return [f"Because of {o}." for o in others[:3]] + [
        "It was not covered by insurance.",
        "Patient preference; no reason documented.",
    ]


def _steps_of(w: Writer, course: Course) -> list[tuple[str, Step, Note]]:
    rows = [(id_, step, note) for id_, (c, step, note) in w.steps.items() if c is course]
    return sorted(rows, key=lambda row: row[1].when)


def drug_facts(
    w: Writer, orders: dict[int, int], texts: dict[str, str], near: InStretch, task: str
) -> list[Fact]:
    """Facts on drug steps whose sentence lies in the wanted stretch.

    Args:
        w: the writer, who knows which sentence says which step; orders: ``id(note)`` to event
            order; texts: piece id to sentence; near: the stretch; task: R, Rn or S.
    """
    rng, p = w.rng, w.p
    made: list[Fact] = []
    for id_, (course, step, note) in sorted(w.steps.items()):
        if not near(orders[id(note)]) or step.why.startswith("replacement for"):
            continue
        text, why = texts[id_], _why(p, step)
        name = _asked_name(rng, step, text)
        lay = drugs()[step.drug].lay
        kind = f"drug-{step.drug}"
        main = Statement(text, note, "plan", id_)
        if task == "S":
            rows = _steps_of(w, course)
            if len(rows) < 2:
                continue
            first = [row for row in rows if row[0] == id_]
            rest = [row for row in rows if row[0] != id_]
            parts = [f"{s.when:%b %Y}: {_said(s)} ({_why(p, s)})" for _, s, _ in rows]
            made.append(
                Fact(
                    kind,
                    "medication",
                    "S",
                    pick(
                        rng,
                        (
                            f"List every start, change and stop of {name} with the reason.",
                            f"Summarize how treatment with {name} ({lay}) was adjusted and why.",
                            f"Describe the history of {name} in this patient.",
                        ),
                    ),
                    f"{step.drug}: " + "; ".join(parts) + ".",
                    [Statement(texts[i], n, "plan", i) for i, _, n in first + rest],
                    tuple(_why(p, s) for _, s, _ in rows),
                    [f"{step.drug}: {parts[0]}.", f"{step.drug} was never changed."],
                )
            )
            continue
        if step.action == "stop":
            asks = {
                "Rn": (
                    f"Why was {name} stopped?",
                    f"What made the team take {p.words['him']} off {name}?",
                    f"For what reason did the {lay} {name} end?",
                ),
                "R": (
                    f"Was {name} ever given up, and for what reason?",
                    f"Has {p.words['he']} had to come off {name}?",
                ),
            }[task]
            answer = f"{step.drug} was stopped because of {why}."
        elif step.action == "change":
            new, old = dose(step.drug, step.dose), dose(step.drug, step.before)
            asks = {
                "Rn": (
                    f"What led to the higher dose of {name} in {step.when:%B %Y}?",
                    f"Why was the {lay} ({name}) turned up in {step.when.year}?",
                ),
                "R": (
                    f"Was the dose of {name} raised in {step.when.year}, and why?",
                    f"Did the {lay} {name} go up in {step.when:%B %Y}?",
                ),
            }[task]
            answer = f"It went from {old} to {new}: {why}."
        else:
            asks = {
                "Rn": (f"Why was {name} begun?", f"For what purpose was the {lay} {name} added?"),
                "R": (f"Is it recorded why {name} was begun?",),
            }[task]
            answer = f"{step.drug} was begun: {why}."
        if task == "R":
            answer = "Yes. " + answer[0].upper() + answer[1:]
        noise = [
            ("hpi", f"{p.words['His']} sister takes {name} without any problem."),
            ("meds_text", f"Refill of the {lay} discussed; no new side effects today."),
        ]
        made.append(
            Fact(
                kind,
                "medication",
                task,
                pick(rng, asks),
                answer,
                [main],
                (why,),
                _wrong_reasons(w, step),
                noise,
            )
        )
    return made


def _said(step: Step) -> str:
    if step.action == "stop":
        return "stopped"
    verb = "started at" if step.action == "start" else "changed to"
    return f"{verb} {dose(step.drug, step.dose)}"


def _value(item: Item) -> str:
    return f"{item.text} {item.unit}".strip()


def lab_facts(rng: np.random.Generator, flat: list[Item], near: InStretch, task: str) -> list[Fact]:
    """Highest, lowest, latest and all values of analytes, where the reading is in the stretch."""
    rows: dict[str, list[Item]] = {}
    for item in flat:
        if item.type == "measurement":
            rows.setdefault(item.code, []).append(item)
    made: list[Fact] = []
    for asked in lab_questions():
        key, lay, specialty = asked.analyte, asked.lay, asked.specialty
        items = rows.get(analytes()[key].code, [])
        if len(items) < 3 or (asked.asked == "trend") != (task == "S"):
            continue
        if task == "S":
            if len(items) > 7 or not any(near(i.order) for i in items):
                continue
            main = next(i for i in items if near(i.order))
            short = analytes()[key].short
            parts = [f"{i.when:%b %Y}: {_value(i)}" for i in items]
            ordered = [main] + [i for i in items if i is not main]
            made.append(
                Fact(
                    f"trend-{key}",
                    "laboratory",
                    "S",
                    pick(
                        rng,
                        (
                            f"Summarize the {lay} values over the past years.",
                            f"Show the trend of the {lay}.",
                            f"List all {lay} results in order.",
                        ),
                    ),
                    f"{short}: " + "; ".join(parts) + ".",
                    [Statement(f"{i.name}: {_value(i)}", None, item=i) for i in ordered],
                    tuple(i.text for i in items),
                    [
                        f"{short}: {parts[-1]}.",
                        f"{short} was stable.",
                    ],
                    specialty=specialty,
                )
            )
            continue
        values = [float(i.text) for i in items]
        if len(items) < 5 and task == "Rn":
            continue
        for side, ask in ((max, "highest"), (min, "lowest")):
            best = side(values)
            item = items[values.index(best)]
            if values.count(best) != 1 or not near(item.order) or task != "Rn":
                continue
            wrong = [f"{_value(o)} on {o.when:%m/%d/%Y}." for o in items if o is not item]
            picks = [wrong[int(i)] for i in rng.permutation(len(wrong))[:4]]
            made.append(
                Fact(
                    f"extreme-{key}",
                    "laboratory",
                    "Rn",
                    pick(
                        rng,
                        (
                            f"What was the {ask} {lay} ever recorded, and when?",
                            f"When was the {lay} at its {ask}, and what was the value?",
                        ),
                    ),
                    f"{_value(item)} on {item.when:%m/%d/%Y}.",
                    [Statement(f"{item.name}: {_value(item)}", None, item=item)],
                    (item.text,),
                    picks,
                    specialty=specialty,
                )
            )
        last = items[-1]
        if task != "Rn" and near(last.order) and values.count(values[-1]) == 1:
            wrong = [f"{_value(o)} ({o.when:%m/%d/%Y})." for o in reversed(items[:-1])]
            made.append(
                Fact(
                    f"latest-{key}",
                    "laboratory",
                    "R",
                    pick(
                        rng,
                        (
                            f"What is the most recent {lay}?",
                            f"Is the {lay} on file, and what is the most recent value?",
                        ),
                    ),
                    f"{_value(last)} ({last.when:%m/%d/%Y}).",
                    [Statement(f"{last.name}: {_value(last)}", None, item=last)],
                    (last.text,),
                    wrong[:4],
                    specialty=specialty,
                )
            )
    return made
