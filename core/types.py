"""Frozen dataclasses shared by all packages; interfaces are in :mod:`midchart.core.interfaces`.

A chart is a :class:`Record` of :class:`Event` entries in time order. An arm picks
:class:`Sentence` units of it for an :class:`Instruction`; a reader answers a :class:`Prompt`;
a judge gives a :class:`Verdict` by the :class:`Gold`. Gold is seen by judges and scoring alone:
no arm's or reader's signature takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import add
from typing import Any, Literal

INTERVAL_TEXTS = frozenset({"start", "end", "start|end"})
"""Texts by which an event only says that an interval (a drug, a visit) begins or ends."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a record.

    ``order`` is its index over all events of the record, in stable time order. ``time`` is naive
    (None where the source gives none). ``kind`` is the OMOP table (note, measurement, ...).
    ``author`` is who wrote a note, for display only.
    ``text`` is the raw text of the entry (a note's body, "start", a value as written);
    what is scored and shown is :func:`midchart.core.text.event_text`.
    """

    order: int
    time: datetime | None
    kind: str
    code: str = ""
    name: str = ""
    text: str = ""
    unit: str = ""
    note_id: str = ""
    visit_id: str = ""
    line: int | None = None
    author: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A patient's events in time order.

    ``digest`` is a hash of all content (hex). ``facts`` holds demographics as the source states
    them, for display only. ``analysed``: what a chart store holds of it.
    """

    id: str
    events: tuple[Event, ...]
    digest: str
    facts: tuple[tuple[str, str], ...] = ()
    source: str = ""
    analysed: Any = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` to ``end`` of the event text of event number ``event``."""

    event: int
    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Whether the two share at least one character."""
        return self.event == other.event and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Sentence:
    """The unit of selection: an event (``id`` is ``e<order>``) or a piece of one
    (``e<order>.<piece>``).

    ``text`` is what is shown, exported and counted; ``tokens`` its length by
    :func:`midchart.core.text.count_tokens`. ``title`` is what it is searched with besides its text:
    the title of its note, the heading and the table header above it.
    """

    id: str
    span: Span
    time: datetime | None
    kind: str
    text: str
    tokens: int
    title: str = ""

    @property
    def scored_text(self) -> str:
        """What arms score: the title on a line before the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text

    @property
    def section(self) -> str:
        """The title, or what an event is of that is no note: drug, condition, visit."""
        return self.title or ("" if self.kind == "note" else self.kind.partition("_")[0])


@dataclass(frozen=True, slots=True)
class Instruction:
    """A question about a record. It holds no answer.

    ``cutoff``: nothing of the record after this moment may be used (None: all of it).
    ``options``: of a multiple-choice question, in order; the reference is then the text of one.
    """

    id: str
    record_id: str
    question: str
    specialty: str = ""
    domain: str = ""
    task_type: str = ""
    cutoff: datetime | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gold:
    """What the right answer is and where the record says it; for judges and scoring only.

    ``snippets`` are the annotated pieces of evidence, ``spans`` their positions in the record
    (empty where none could be located). ``order``, ``time`` and ``token`` are the positions of the
    best-located evidence, each in [0, 1]; None where unlocated or undated. ``exact``: the source
    gave the spans (True), or matching found them (False). ``score`` is the match score of the
    best-located piece, ``candidates`` the number of places with that score, None where nothing was
    matched; ``unlocated`` counts the pieces without a match.
    """

    instruction_id: str
    answer: str
    snippets: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    order: float | None = None
    time: float | None = None
    exact: bool = False
    token: float | None = None
    score: float | None = None
    candidates: int | None = None
    unlocated: int = 0


@dataclass(frozen=True, slots=True)
class Response:
    """A model's answer included with the cohort, with the clinicians' verdict if there is one;
    ``extra`` holds every other column of its row; ``simulated`` marks synthetic ones."""

    instruction_id: str
    model: str
    text: str
    correct: bool | None
    used: bool = True
    simulated: bool = False
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """How much an arm may keep: ``k`` units, ``recency`` latest events, ``tokens`` in all."""

    k: int = 20
    recency: int = 5
    tokens: int | None = None


KeptBy = Literal["arm", "recency", "both", "filler"]
"""Who put a line into a context; "filler": a draw that fills a token budget, or an experiment that
lengthens the context."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A sentence that was kept, its score (None for recency alone), and why."""

    sentence: Sentence
    score: float | None
    kept_by: KeptBy


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One line of a reader's context: which sentence it shows and its text with its date.

    ``shown``: the spans of the record that the line gives verbatim; None is its complete sentence;
    an empty tuple is generated text (a summary), which is not evidence. ``title``, ``section``:
    those of its sentence.
    """

    sentence_id: str
    text: str
    shown: tuple[Span, ...] | None = None
    title: str = ""
    section: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The sentences an arm kept, in the order in which a reader sees them.

    ``tokens`` is their total; ``cut`` counts sentences the budget left out although the arm wanted
    them; ``trace`` gives details. ``lines``: what the reader sees instead of the sentences, where
    the arm writes its own context, each with the id of a sentence it represents; ``tokens`` is then
    theirs. ``window``: most tokens of a prompt and its answer, as the reader counts them, where the
    arm allows fewer than the reader (0: it does not).
    """

    record_id: str
    instruction_id: str
    arm: str
    kept: tuple[Kept, ...]
    tokens: int
    cut: int = 0
    trace: tuple[tuple[str, str], ...] = ()
    lines: tuple[ContextLine, ...] | None = None
    window: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a sentence's score and its source: a word, an n-gram; ``spans`` are all its
    occurrences in the sentence's text, ``part`` the sum of their contributions."""

    text: str
    part: float
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decomposed score: ``base`` and the parts of ``terms`` add up to it; ``note`` says how the
    parts were computed."""

    terms: tuple[Term, ...]
    base: float = 0.0
    note: str = ""

    @property
    def total(self) -> float:
        """``base`` and all parts, added from left to right."""
        return reduce(add, (term.part for term in self.terms), self.base)


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a reader.

    ``text`` is the complete prompt; ``context`` the lines that survived in it; ``cut`` the ids of
    those that did not; ``clipped``: of the last line only a part survived. ``question_survived`` is
    False only under the published right truncation.
    ``options`` are those of a multiple-choice question, which ``text`` lists after it.
    ``user`` is the user's message that ``text`` renders, for a backend that renders messages itself
    ("": the prompt was cut on the right, or is no conversation); ``template`` names what rendered
    it: "chatml", "messages" (the server does) or the digest of a chat template.
    """

    text: str
    question: str
    context: tuple[ContextLine, ...]
    tokens: int
    cut: tuple[str, ...] = ()
    clipped: bool = False
    question_survived: bool = True
    options: tuple[str, ...] = ()
    user: str = ""
    template: str = ""


Ended = Literal["stop", "length", "loop", "filter", "tool", "empty", "refusal"]
"""How an answer ended: by itself, at the limit of its tokens, where it began to repeat its line, at
a filter of the service, with the call of a tool, without any text, or with a refusal that the
service marks as one."""
CUT_OFF: tuple[Ended, ...] = ("length", "empty")
"""Ends of an answer that is neither right nor wrong: the model did not finish it, or wrote none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reader's answer. ``status`` is ok or failed (then ``reason``); ``sources`` are the ids
    of context sentences it is based on, where the reader knows them. ``reused_tokens`` are those of
    ``prompt_tokens`` read from a shared prefix; ``seconds`` is the time of the answer;
    ``peak_mb`` the most memory of the accelerator, in 10^6 bytes, at that time (0: unknown);
    ``how`` the reader's method, where it has several; ``quotes``: it is meant as a line of its
    context, with its date. ``reasoning`` is what the model wrote before its answer, which no judge
    sees, of ``reasoning_tokens`` tokens (part of ``output_tokens``). Of a service: ``endpoint`` its
    path, ``model`` the model that it says answered, ``cost_usd`` the price (None: not known).
    """

    text: str
    status: Literal["ok", "failed"] = "ok"
    reason: str = ""
    sources: tuple[str, ...] = ()
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    reused_tokens: int = 0
    peak_mb: float = 0.0
    how: str = ""
    quotes: bool = False
    ended: Ended = "stop"
    reasoning: str = ""
    reasoning_tokens: int = 0
    endpoint: str = ""
    model: str = ""
    cost_usd: float | None = None


Outcome = Literal["correct", "incorrect", "unparsed", "failed"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a call of a judge's model: the model that answered, tokens read (``cached_tokens``
    of them from its cache) and written, the price in US dollars (None: not known), and how the
    model was called (alone or in a batch, at which temperature)."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    how: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict: ``raw`` is the judge's reply, verbatim; ``reason`` why it failed;
    ``usage`` what its model used (None for a judge that is a rule)."""

    outcome: Outcome
    refusal: bool = False
    raw: str = ""
    reason: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Something of the input that could not be read: file, line and one-line reason."""

    file: str
    line: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the parts of a file or record: ``total`` in the source, ``shown`` in records,
    and the number left out by reason."""

    total: int
    shown: int
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def unaccounted(self) -> int:
        """Parts that are neither shown nor left out for a reason that is named."""
        return self.total - self.shown - sum(number for _, number in self.reasons)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A cohort's data-use tag (``midchart.toml``). What is not synthetic defaults to no and no."""

    name: str
    source: str = ""
    licence: str = ""
    training_allowed: bool = False
    external_services_allowed: bool = False
    deidentified: str = "unknown"
    synthetic: bool = False
    imported: str = ""
    """When it was imported from the page (ISO 8601, UTC); "" for a folder placed by hand."""


@dataclass(frozen=True, slots=True)
class LabelCount:
    """A task's labels: how many, how many of them positive, and (split, labels, positives)."""

    n: int
    positive: int
    splits: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class UnsettledColumn:
    """A column ("table.column") whose values prove no reading, and the ``readings`` that they may
    have."""

    column: str
    readings: tuple[str, ...]
    statement: str


@dataclass(frozen=True)
class Cohort:
    """Records and what is asked of them.

    ``records`` maps record id to :class:`Record`; loaders may read lazily, so reading one can
    raise :class:`midchart.core.errors.DataError` and adds to ``skipped``. ``gold`` is keyed by
    instruction id. Positions of gold come from :func:`midchart.core.text.evidence.locate`.
    ``labels`` are those of a cohort for forecasting, by task; looking one up may read them.
    ``accounts``: by (file or record, what: files, rows, resources, sections, …) what became of each
    part; those of a record are there once it was read. ``unsettled``: columns that a person should
    say how to read. ``patient``: the patient of each record where it is not the record's id.
    ``unconfined``: what this machine could not take from the process that read the files.
    """

    path: str
    format: str
    manifest: Manifest
    records: Mapping[str, Record]
    instructions: tuple[Instruction, ...] = ()
    gold: Mapping[str, Gold] = field(default_factory=dict[str, Gold])
    responses: tuple[Response, ...] = ()
    labels: Mapping[str, LabelCount] = field(default_factory=dict[str, LabelCount])
    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])
    accounts: dict[tuple[str, str], Account] = field(default_factory=dict[tuple[str, str], Account])
    unsettled: list[UnsettledColumn] = field(default_factory=list[UnsettledColumn])
    patient: Mapping[str, str] = field(default_factory=dict[str, str])
    unconfined: tuple[str, ...] = ()

    def patient_of(self, instruction: Instruction) -> str:
        """The patient whom an instruction asks about."""
        return self.patient.get(instruction.record_id, instruction.record_id)


Bands = Sequence[tuple[str, float, float]]
BANDS: Bands = (
    ("0-10", 0.0, 0.1),
    ("10-30", 0.1, 0.3),
    ("30-50", 0.3, 0.5),
    ("50-70", 0.5, 0.7),
    ("70-90", 0.7, 0.9),
    ("90-100", 0.9, 1.0),
)
"""Position bands, left-closed; the last is closed on both sides (docs/methods.md, Units)."""
UNLOCATED = "unlocated"
"""The band of evidence that was not found in the record."""
MIDDLE = (0.3, 0.7)
"""The middle, closed on both sides; the rest is the edge."""
