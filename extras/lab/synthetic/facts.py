"""Facts to ask about: templates that are stated once or repeatedly, drug steps, and lab values.

Values are drawn first; sentence, answer and wrong answers are written from them, so nothing is
parsed back from text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Literal

import numpy as np

from midchart.core.reference_tables import table_row
from midchart.extras.lab.synthetic.common import (
    capitalised,
    chance,
    pick,
    shuffled,
    worded,
    wordings,
)
from midchart.extras.lab.synthetic.medicine import (
    analytes,
    dose,
    drugs,
)
from midchart.extras.lab.synthetic.notes import Writer
from midchart.extras.lab.synthetic.patient import (
    DOMAINS,
    Course,
    Domain,
    DrugStep,
    Fact,
    Note,
    Patient,
    RecordItem,
    Statement,
)
from midchart.extras.lab.synthetic.reference import tsv_table, yaml_table
from midchart.extras.lab.synthetic.trajectory import active

_Section = Literal["pmh_text", "results_text", "allergy", "social", "exam", "meds_text", "hpi"]
"""Where a sentence belongs in a note."""


@table_row
class Single:
    """A fact stated in one sentence.

    ``slots`` are options by name; ``says`` sentences with ``{slot}``; ``ask_r`` and ``ask_n``
    questions of the task types R and Rn; ``answer`` the correct answer; ``vary`` the slot by which
    a wrong answer differs; ``need`` who can have it (see :func:`_suits`).
    """

    key: str
    domain: Domain
    section: _Section
    slots: dict[str, tuple[str, ...]]
    says: tuple[str, ...]
    answer: str
    keys: tuple[str, ...]
    vary: str
    noise: tuple[str, ...]
    ask_r: tuple[str, ...] = ()
    ask_n: tuple[str, ...] = ()
    need: str = ""
    specialty: str = "Internal Medicine"


@table_row
class Series:
    """A repeated finding: each of ``chains`` are values in time order, at least ``gap`` days
    apart; the question is for the most recent (R) or for all of them (S)."""

    key: str
    domain: Domain
    section: _Section
    chains: tuple[tuple[str, ...], ...]
    says: tuple[str, ...]
    answer_r: str
    answer_s: str
    noise: tuple[str, ...]
    ask_r: tuple[str, ...] = ()
    ask_s: tuple[str, ...] = ()
    need: str = ""
    specialty: str = "Internal Medicine"
    gap: int = 60


@table_row
class Facts:
    """The facts of one domain (``facts_<domain>.yaml``)."""

    singles: tuple[Single, ...]
    series: tuple[Series, ...]


_facts = [yaml_table(Facts, f"facts_{domain}.yaml") for domain in DOMAINS]


@cache
def singles() -> tuple[Single, ...]:
    """Every fact that is stated once."""
    return tuple(fact for facts in _facts for fact in facts().singles)


@cache
def series() -> tuple[Series, ...]:
    """Every finding that is repeated."""
    return tuple(fact for facts in _facts for fact in facts().series)


@dataclass(slots=True)
class Scene:
    """Where a fact may be put: the patient, the open notes in record order, and the note that the
    question is about."""

    p: Patient
    rng: np.random.Generator
    hosts: list[RecordItem]
    target: RecordItem
    used: set[str] = field(default_factory=set[str])


def _suits(p: Patient, need: str, when: datetime) -> bool:
    """Whether a patient can have a fact at ``when``.

    ``need`` is a list of conditions, all of which must hold: ``F``, ``M``, ``smoker``,
    ``drinks``, ``married``, ``>50`` (age), ``<40``, a disease key, or ``!`` and one of these.
    """
    for word in need.split():
        condition = word.lstrip("!")
        match condition:
            case "F" | "M":
                holds = p.sex[0] == condition
            case "smoker":
                holds = p.social["smoking"] == "former"
            case "drinks":
                holds = p.social["alcohol"] not in ("none", "none now")
            case "married" | "widowed" | "divorced":
                holds = p.social["marital"] == condition
            case "retired":
                holds = p.social["work"] == "retired"
            case "allergy":
                holds = bool(p.allergy[0])
            case _ if condition[0] == ">":
                holds = p.age(when) > int(condition[1:])
            case _ if condition[0] == "<":
                holds = p.age(when) < int(condition[1:])
            case _:
                holds = condition in active(p, when)
        if holds == word.startswith("!"):
            return False
    return True


def _note(item: RecordItem) -> Note:
    assert item.note is not None
    return item.note


# Templates.


def _draw_slots(scene: Scene, slots: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """The patient's words, plausible past years, and one option of every slot."""
    p, rng, when = scene.p, scene.rng, scene.target.when
    adult, latest = p.birth.year + 19, when.year - 1
    words = {
        **p.words,
        "y": str(int(rng.integers(max(adult, latest - 14), latest + 1))),
        "old_y": str(int(rng.integers(max(adult, latest - 30), max(latest - 9, adult + 1)))),
        "child_age": str(int(rng.integers(5, 14))),
        "age": str(p.age(when)),
    }
    return words | {name: pick(rng, options).format_map(p.words) for name, options in slots.items()}


def _varied(scene: Scene, t: Single, words: dict[str, str]) -> dict[str, str]:
    """The words with another value of the slot by which wrong answers differ."""
    if t.vary in t.slots:
        options = [o.format_map(scene.p.words) for o in t.slots[t.vary]]
        other = pick(scene.rng, [o for o in options if o != words[t.vary]])
    else:
        other = str(int(words[t.vary]) + int(pick(scene.rng, (-7, -4, -3, -2, 2, 3, 4))))
    return words | {t.vary: other}


def make_fact(t: Single | Series, scene: Scene, task: str) -> Fact | None:
    """The fact of a template for a note; None where it has no question of this task type."""
    return _single(t, scene, task) if isinstance(t, Single) else _series(t, scene, task)


def _single(t: Single, scene: Scene, task: str) -> Fact | None:
    asks = {"R": t.ask_r, "Rn": t.ask_n}.get(task, ())
    if not asks or not _suits(scene.p, t.need, scene.target.when):
        return None
    words = _draw_slots(scene, t.slots)
    text = capitalised(pick(scene.rng, t.says).format_map(words))
    answer = capitalised(t.answer.format_map(words))
    question = pick(scene.rng, asks).format_map(words)
    recent = "most recent" in question or "current" in question
    if task == "R" and not recent and not answer.lower().startswith(("yes", "no")):
        answer = f"Yes. {answer}"
    return Fact(
        t.key,
        t.domain,
        task,
        question,
        answer,
        [Statement(text, _note(scene.target), t.section)],
        tuple(k.format_map(words) for k in t.keys),
        [capitalised(t.answer.format_map(_varied(scene, t, words))) for _ in range(4)],
        [(t.section, n.format_map(_varied(scene, t, words))) for n in t.noise],
        t.specialty,
    )


def _spread(scene: Scene, count: int, before_only: bool, gap: int) -> list[RecordItem]:
    """``count`` other notes for a series, at least ``gap`` days apart, over the record or over
    what precedes the target."""
    target = scene.target
    pool = [h for h in scene.hosts if h is not target and h.when.date() != target.when.date()]
    if before_only:
        pool = [h for h in pool if h.when < target.when]
    chosen: list[RecordItem] = []
    days = {target.when.date()}
    for host in shuffled(scene.rng, pool):
        day = host.when.date()
        if len(chosen) < count and all(abs((day - other).days) >= gap for other in days):
            chosen.append(host)
            days.add(day)
    return chosen


def _series(t: Series, scene: Scene, task: str) -> Fact | None:
    """Most recent value (R) or all values (S) of a repeated finding."""
    # Values that follow each other, and the notes that state them.
    asks = {"R": t.ask_r, "S": t.ask_s}.get(task, ())
    target, rng, words = scene.target, scene.rng, scene.p.words
    if not asks or not _suits(scene.p, t.need, target.when):
        return None
    chain = tuple(v.format_map(words) for v in pick(rng, t.chains))
    wanted = int(rng.integers(1, 3)) if task == "R" else int(rng.integers(2, len(chain)))
    others = _spread(scene, min(wanted, len(chain) - 1), before_only=task == "R", gap=t.gap)
    others = [o for o in others if _suits(scene.p, t.need, o.when)]
    if task == "S" and not others:
        return None
    hosts = sorted([*others, target], key=lambda h: h.order)
    first = int(rng.integers(0, len(chain) - len(hosts) + 1))
    values = chain[first : first + len(hosts)]
    if len(set(values)) != len(values):
        return None
    # A statement in each note, the question, and other texts on the subject.
    frames = shuffled(rng, t.says)
    statements = [
        Statement(
            frames[i % len(frames)].format_map(
                {**words, "v": value, "date": f"{host.when:%m/%d/%Y}"}
            ),
            _note(host),
            t.section,
        )
        for i, (host, value) in enumerate(zip(hosts, values, strict=True))
    ]
    question = pick(rng, asks).format_map(words)
    noise = [(t.section, n.format_map({**words, "v": pick(rng, chain)})) for n in t.noise]
    main = hosts.index(target)
    statements = [statements[main], *statements[:main], *statements[main + 1 :]]
    # Answer, keys and wrong answers, by type of question.
    if task == "R":

        def answer(value: str, host: RecordItem) -> str:
            return t.answer_r.format_map({**words, "v": value, "date": f"{host.when:%B %Y}"})

        # Older values are in their own notes and are the most likely wrong answers.
        for n, statement in enumerate(statements[1:]):
            statement.id = f"old{n}"
        older = [answer(v, h) for h, v in zip(hosts, values, strict=True) if h is not target]
        wrong = older + [answer(v, target) for v in chain if v not in values]
        keys, correct = (values[main],), answer(values[main], target)
    else:
        if chance(rng, 0.5):
            noise = noise[:1]

        def listed(values: Iterable[str]) -> list[str]:
            return [f"{h.when:%b %Y}: {v}" for h, v in zip(hosts, values, strict=False)]

        lead = t.answer_s.format_map(words)
        orders = (listed(values), listed(values[:1]), listed(values[::-1])[::-1])
        correct, *wrong = [f"{lead} {'; '.join(parts)}." for parts in orders]
        keys = values
    return Fact(
        t.key, t.domain, task, question, correct, statements, keys, wrong, noise, t.specialty
    )


# Drug steps and lab values, asked for in the decile in which they happened.

InDecile = Callable[[int], bool]
"""Whether an event order is in the wanted decile."""


@table_row
class LabQuestion:
    """An analyte that is asked for by its lay name: one value, or the trend."""

    analyte: str
    asked: Literal["value", "trend"]
    lay: str
    specialty: str


_lab_questions = tsv_table(LabQuestion, "lab_questions.tsv")
"""All analytes that are asked for."""


def _wrong_reasons(w: Writer, step: DrugStep) -> list[str]:
    others = [s.why.format_map(w.p.words) for _, s, _ in w.steps.values() if s.why != step.why]
    return [f"Because of {o}." for o in others[:3]] + [*wordings()["wrong_reasons"]]


def _drug_history(
    w: Writer, id_: str, course: Course, texts: dict[str, str], name: str
) -> Fact | None:
    """All steps of a course; None where it has only one."""
    rows = [(i, step, note) for i, (c, step, note) in w.steps.items() if c is course]
    rows.sort(key=lambda row: row[1].when)
    if len(rows) < 2:
        return None
    reasons = [step.why.format_map(w.p.words) for _, step, _ in rows]
    verbs = {"start": "started at ", "change": "changed to ", "stop": "stopped"}
    parts: list[str] = []
    for (_, step, _), why in zip(rows, reasons, strict=True):
        amount = "" if step.action == "stop" else dose(step.drug, step.dose)
        parts.append(f"{step.when:%b %Y}: {verbs[step.action]}{amount} ({why})")
    rows.sort(key=lambda row: row[0] != id_)
    return Fact(
        f"drug-{course.drug}",
        "medication",
        "S",
        w.worded("drug_history", name=name, lay=drugs()[course.drug].lay),
        f"{course.drug}: " + "; ".join(parts) + ".",
        [Statement(texts[i], note, "plan", i) for i, _, note in rows],
        tuple(reasons),
        [f"{course.drug}: {parts[0]}.", f"{course.drug} was never changed."],
    )


def drug_facts(
    w: Writer, orders: dict[int, int], texts: dict[str, str], near: InDecile, task: str
) -> list[Fact]:
    """Facts on drug steps whose sentence is in the wanted decile.

    Args:
        w: the writer of the notes; orders: ``id(note)`` to event order; texts: piece id to
            sentence; near: the decile; task: R, Rn or S.
    """
    facts: list[Fact | None] = []
    for id_, (course, step, note) in sorted(w.steps.items()):
        if not near(orders[id(note)]) or step.replaces:
            continue
        # A step of a drug near the target: its names and reason.
        drug, text, why = drugs()[step.drug], texts[id_], step.why.format_map(w.p.words)
        # A name of the drug that the sentence does not use, where there is one.
        names = [n for n in (drug.key, drug.brand) if n.lower() not in text.lower()]
        name = pick(w.rng, names) if names else drug.key
        if task == "S":
            facts.append(_drug_history(w, id_, course, texts, name))
            continue
        # Question and answer.
        words = {"name": name, "lay": drug.lay}
        month, year = f"{step.when:%B %Y}", step.when.year
        question = w.worded(f"{step.action}_{task}", month=month, year=year, **words)
        old, new = dose(step.drug, step.before), dose(step.drug, step.dose)
        answer = {
            "stop": f"{step.drug} was stopped because of {why}.",
            "change": f"It went from {old} to {new}: {why}.",
            "start": f"{step.drug} was begun: {why}.",
        }[step.action]
        if task == "R":
            answer = "Yes. " + capitalised(answer)
        noise = [
            (place, wordings()[f"drug_noise_{place}"][0].format_map({**w.p.words, **words}))
            for place in ("hpi", "meds_text")
        ]
        facts.append(
            Fact(
                f"drug-{step.drug}",
                "medication",
                task,
                question,
                answer,
                [Statement(text, note, "plan", id_)],
                (why,),
                _wrong_reasons(w, step),
                noise,
            )
        )
    return [fact for fact in facts if fact is not None]


def _value(item: RecordItem) -> str:
    return f"{item.text} {item.unit}".strip()


def lab_facts(
    rng: np.random.Generator, events: list[RecordItem], near: InDecile, task: str
) -> list[Fact]:
    """Trend (S), highest and lowest (Rn) or latest value (R) of analytes, where the reading is in
    the wanted decile."""
    # Values of each analyte.
    readings: dict[str, list[RecordItem]] = {}
    for event in events:
        if event.type == "measurement":
            readings.setdefault(event.code, []).append(event)
    facts: list[Fact] = []

    def add(
        kind: str, question: str, answer: str, items: list[RecordItem], wrong: list[str]
    ) -> None:
        statements = [Statement(f"{i.name}: {_value(i)}", None, item=i) for i in items]
        keys = tuple(i.text for i in sorted(items, key=lambda i: i.order))
        facts.append(
            Fact(
                f"{kind}-{lab.analyte}",
                "laboratory",
                task,
                question,
                answer,
                statements,
                keys,
                wrong,
                specialty=lab.specialty,
            )
        )

    # Questions for its trend, its extremes or its latest value.
    for lab in _lab_questions():
        analyte = analytes()[lab.analyte]
        items = readings.get(analyte.code, [])
        fewest = 5 if task == "Rn" else 3
        if len(items) < fewest or (lab.asked == "trend") != (task == "S"):
            continue
        values = [float(i.text) for i in items]
        if task == "S":
            main = next((i for i in items if near(i.order)), None)
            if len(items) > 7 or main is None:
                continue
            parts = [f"{i.when:%b %Y}: {_value(i)}" for i in items]
            wrong = [f"{analyte.short}: {parts[-1]}.", f"{analyte.short} was stable."]
            ordered = [main, *(i for i in items if i is not main)]
            question = worded(rng, "lab_trend", lay=lab.lay)
            add("trend", question, f"{analyte.short}: " + "; ".join(parts) + ".", ordered, wrong)
        elif task == "Rn":
            for value, side in ((max(values), "highest"), (min(values), "lowest")):
                item = items[values.index(value)]
                if values.count(value) != 1 or not near(item.order):
                    continue
                dated = [f"{_value(i)} on {i.when:%m/%d/%Y}." for i in items if i is not item]
                wrong = shuffled(rng, dated, 4)
                question = worded(rng, "lab_extreme", side=side, lay=lab.lay)
                answer = f"{_value(item)} on {item.when:%m/%d/%Y}."
                add("extreme", question, answer, [item], wrong)
        elif near(items[-1].order) and values.count(values[-1]) == 1:
            latest, *earlier = [f"{_value(i)} ({i.when:%m/%d/%Y})." for i in reversed(items)]
            question = worded(rng, "lab_latest", lay=lab.lay)
            add("latest", question, latest, [items[-1]], earlier[:4])
    return facts
