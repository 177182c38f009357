"""The shape of a fact template, and how one becomes a fact of one patient.

A *single* is a fact said once. A *series* is a finding that was repeated: the question is for the
most recent one, or for all of them. Values are drawn first; sentence, answer and wrong answers are
all written from the drawn values, so that nothing is read back from text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Annotated, Literal

import numpy as np

from core.synthetic.common import chance, pick
from core.synthetic.medicine import PERSON_SLOTS, Reason, diseases, slots_of
from core.synthetic.model import DOMAINS, Domain, Fact, Item, Note, Patient, Statement
from core.synthetic.reference import DATA, STRICT, Key, read_yaml
from core.synthetic.trajectory import active

Section = Literal["pmh_text", "results_text", "allergy", "social", "exam", "meds_text", "hpi"]
"""Where a sentence belongs in a note."""
_PERSON_NEEDS = frozenset(
    ["F", "M", "smoker", "drinks", "married", "widowed", "divorced", "retired", "allergy"]
)
_AGE = re.compile(r"[<>]\d+")


def _needs_named(need: str) -> list[str]:
    """The words of a need, but for ages."""
    words = (word.lstrip("!") for word in need.split())
    return [word for word in words if not _AGE.fullmatch(word)]


Need = Annotated[
    str, Key("patient property or condition", lambda: _PERSON_NEEDS.union(diseases()), _needs_named)
]


def _check_slots(key: str, templates: Iterable[str], slots: Iterable[str]) -> None:
    known = PERSON_SLOTS.union(slots)
    for text in templates:
        unknown = sorted(set(slots_of(text)) - known)
        if unknown:
            raise ValueError(f"{key}: unknown slot {unknown[0]!r} in {text!r}")


@dataclass(frozen=True, slots=True)
class Single:
    """A fact said in one sentence.

    ``slots`` maps a name to its options; ``says`` are sentences with ``{slot}``; ``ask_r`` and
    ``ask_n`` questions of the two kinds (empty: none); ``answer`` what is right; ``vary`` the slot
    by which a wrong answer differs; ``need`` who can have it (see :func:`suits`).
    """

    __pydantic_config__ = STRICT
    key: str
    domain: Domain
    section: Section
    slots: dict[str, tuple[Reason, ...]]
    says: tuple[str, ...]
    answer: str
    keys: tuple[str, ...]
    vary: str
    noise: tuple[str, ...]
    ask_r: tuple[str, ...] = ()
    ask_n: tuple[str, ...] = ()
    need: Need = ""
    specialty: str = "Internal Medicine"

    def __post_init__(self) -> None:
        slots = (*self.slots, "y", "old_y", "child_age", "age")
        texts = (*self.says, *self.ask_r, *self.ask_n, self.answer, *self.keys, *self.noise)
        _check_slots(self.key, (*texts, f"{{{self.vary}}}"), slots)


@dataclass(frozen=True, slots=True)
class Series:
    """A finding said again and again with new values; each of ``chains`` is in time order.

    ``gap`` is the fewest days between two of them: nobody has a bone scan every month.
    """

    __pydantic_config__ = STRICT
    key: str
    domain: Domain
    section: Section
    chains: tuple[tuple[Reason, ...], ...]
    says: tuple[str, ...]
    answer_r: str
    answer_s: Reason
    noise: tuple[str, ...]
    ask_r: tuple[Reason, ...] = ()
    ask_s: tuple[Reason, ...] = ()
    need: Need = ""
    specialty: str = "Internal Medicine"
    gap: int = 60

    def __post_init__(self) -> None:
        _check_slots(self.key, (*self.says, self.answer_r), ("v", "date"))
        _check_slots(self.key, self.noise, ("v",))


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one domain: what its file holds."""

    __pydantic_config__ = STRICT
    singles: tuple[Single, ...]
    series: tuple[Series, ...]


@cache
def _facts() -> list[Facts]:
    return [read_yaml(Facts, DATA / f"facts_{domain}.yaml") for domain in DOMAINS]


@cache
def singles() -> tuple[Single, ...]:
    """Every fact that is said once."""
    return tuple(fact for facts in _facts() for fact in facts.singles)


@cache
def series() -> tuple[Series, ...]:
    """Every finding that is repeated."""
    return tuple(fact for facts in _facts() for fact in facts.series)


@dataclass(slots=True)
class Scene:
    """Where a fact may be put: the patient, the open notes in record order, and the generator."""

    p: Patient
    rng: np.random.Generator
    hosts: list[Item]
    target: Item
    used: set[str] = field(default_factory=set[str])
    taken: set[int] = field(default_factory=set[int])
    """ids of notes' orders that already hold a statement of the same fact"""

    @property
    def when(self) -> datetime:
        """Time of the note that the question is about."""
        return self.target.when


def suits(p: Patient, need: str, when: datetime) -> bool:
    """Whether a patient can have a fact at ``when``.

    ``need`` is a list of conditions, all of which must hold: ``F``, ``M``, ``smoker``,
    ``never``, ``drinks``, ``married``, ``>50`` (age), ``<40``, a disease key, or ``!`` and one.
    """
    for word in need.split():
        negate = word.startswith("!")
        word = word.lstrip("!")
        match word:
            case "F":
                true = p.sex == "FEMALE"
            case "M":
                true = p.sex == "MALE"
            case "smoker":
                true = p.social["smoking"] == "former"
            case "drinks":
                true = p.social["alcohol"] not in ("none", "none now")
            case "married" | "widowed" | "divorced":
                true = p.social["marital"] == word
            case "retired":
                true = p.social["work"] == "retired"
            case "allergy":
                true = bool(p.allergy[0])
            case _ if word[0] == ">":
                true = p.age(when) > int(word[1:])
            case _ if word[0] == "<":
                true = p.age(when) < int(word[1:])
            case _:
                true = word in active(p, when)
        if true == negate:
            return False
    return True


def draw_words(scene: Scene, slots: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Pronouns, past years that make sense, and one option of every slot."""
    p, rng, when = scene.p, scene.rng, scene.when
    words = dict(p.words)
    adult = p.birth.year + 19
    latest = when.year - 1
    words["y"] = str(int(rng.integers(max(adult, latest - 14), latest + 1)))
    words["old_y"] = str(int(rng.integers(max(adult, latest - 30), max(latest - 9, adult + 1))))
    words["child_age"] = str(int(rng.integers(5, 14)))
    words["age"] = str(p.age(when))
    for name, options in slots.items():
        words[name] = pick(rng, options).format_map(p.words)
    return words


def _other(
    scene: Scene, slots: dict[str, tuple[str, ...]], words: dict[str, str], name: str
) -> dict[str, str]:
    changed = dict(words)
    if name in slots:
        options = [o.format_map(scene.p.words) for o in slots[name]]
        changed[name] = pick(scene.rng, [o for o in options if o != words[name]])
    else:
        shift = int(pick(scene.rng, (-7, -4, -3, -2, 2, 3, 4)))
        changed[name] = str(int(words[name]) + shift)
    return changed


def make_single(t: Single, scene: Scene, task: str) -> Fact | None:
    """The fact of this template for this patient, or None where it has no such question."""
    asks = t.ask_r if task == "R" else t.ask_n if task == "Rn" else ()
    if not asks or not suits(scene.p, t.need, scene.when):
        return None
    words = draw_words(scene, t.slots)
    note = _note(scene.target)
    text = sentence_case(pick(scene.rng, t.says).format_map(words))
    answer = sentence_case(t.answer.format_map(words))
    if task == "R" and not answer.lower().startswith(("yes", "no")):
        question = pick(scene.rng, asks).format_map(words)
        recent = "most recent" in question or "current" in question
        answer = answer if recent else f"Yes. {answer}"
    else:
        question = pick(scene.rng, asks).format_map(words)
    wrong = [
        sentence_case(t.answer.format_map(_other(scene, t.slots, words, t.vary))) for _ in range(4)
    ]
    noise = [(t.section, n.format_map(_other(scene, t.slots, words, t.vary))) for n in t.noise]
    return Fact(
        t.key,
        t.domain,
        task,
        question,
        answer,
        [Statement(text, note, t.section)],
        tuple(k.format_map(words) for k in t.keys),
        wrong,
        noise,
        t.specialty,
    )


def sentence_case(text: str) -> str:
    """The text with its first letter large."""
    return text[:1].upper() + text[1:]


def _note(item: Item) -> Note:
    assert item.note is not None
    return item.note


def _spread(scene: Scene, count: int, before_only: bool, gap: int) -> list[Item]:
    """``count`` other notes for a series, spaced over the record (or over what came before)."""
    target = scene.target
    pool = [h for h in scene.hosts if h is not target and h.when.date() != target.when.date()]
    if before_only:
        pool = [h for h in pool if h.when < target.when]
    kept: list[Item] = []
    days = {target.when.date()}
    for i in (int(i) for i in scene.rng.permutation(len(pool))):
        apart = all(abs((pool[i].when.date() - d).days) >= gap for d in days)
        if len(kept) < count and apart:
            kept.append(pool[i])
            days.add(pool[i].when.date())
    return kept


def make_series(t: Series, scene: Scene, task: str) -> Fact | None:
    """Most recent value (R) or all values (S) of a repeated finding."""
    asks = t.ask_r if task == "R" else t.ask_s if task == "S" else ()
    if not asks or not suits(scene.p, t.need, scene.when):
        return None
    rng = scene.rng
    chain = tuple(v.format_map(scene.p.words) for v in pick(rng, t.chains))
    wanted = int(rng.integers(1, 3)) if task == "R" else int(rng.integers(2, len(chain)))
    others = _spread(scene, min(wanted, len(chain) - 1), before_only=task == "R", gap=t.gap)
    others = [o for o in others if suits(scene.p, t.need, o.when)]
    if task == "S" and not others:
        return None
    hosts = sorted([*others, scene.target], key=lambda h: h.order)
    first = int(rng.integers(0, len(chain) - len(hosts) + 1))
    values = chain[first : first + len(hosts)]
    if len(set(values)) != len(values):
        return None
    words = scene.p.words
    said: list[tuple[Item, str, str]] = []
    order = [int(i) for i in rng.permutation(len(t.says))]
    for i, (host, value) in enumerate(zip(hosts, values, strict=True)):
        frame = t.says[order[i % len(t.says)]]
        stamp = f"{host.when:%m/%d/%Y}"
        said.append((host, value, frame.format_map({**words, "v": value, "date": stamp})))
    main = next(row for row in said if row[0] is scene.target)
    question = pick(rng, asks).format_map(words)
    if task == "R":
        statements = [Statement(main[2], _note(main[0]), t.section)]
        noise = [(t.section, n.format_map({**words, "v": pick(rng, chain)})) for n in t.noise]
        earlier = [row for row in said if row is not main]
        fact = Fact(
            t.key,
            t.domain,
            task,
            question,
            t.answer_r.format_map({**words, "v": main[1], "date": f"{main[0].when:%B %Y}"}),
            statements,
            (main[1],),
            [],
            noise,
            t.specialty,
        )
        # Older values stand in their own notes and are the likeliest wrong answers.
        for n, (host, value, text) in enumerate(earlier):
            fact.statements.append(Statement(text, _note(host), t.section, id=f"old{n}"))
            fact.wrong.append(
                t.answer_r.format_map({**words, "v": value, "date": f"{host.when:%B %Y}"})
            )
        for value in chain:
            if value not in values:
                fact.wrong.append(
                    t.answer_r.format_map({**words, "v": value, "date": f"{main[0].when:%B %Y}"})
                )
        return fact
    parts = [f"{host.when:%b %Y}: {value}" for host, value, _ in said]
    answer = t.answer_s.format_map(words) + " " + "; ".join(parts) + "."
    rows = [main, *(row for row in said if row is not main)]
    wrong = [
        t.answer_s.format_map(words) + " " + "; ".join(parts[:1]) + ".",
        t.answer_s.format_map(words)
        + " "
        + "; ".join(
            reversed(
                [
                    f"{h.when:%b %Y}: {v}"
                    for (h, _, _), v in zip(said, reversed(values), strict=True)
                ]
            )
        )
        + ".",
    ]
    noise = [(t.section, n.format_map({**words, "v": pick(rng, chain)})) for n in t.noise]
    if chance(rng, 0.5):
        noise = noise[:1]
    return Fact(
        t.key,
        t.domain,
        task,
        question,
        answer,
        [Statement(text, _note(host), t.section) for host, _, text in rows],
        tuple(values),
        wrong,
        noise,
        t.specialty,
    )
