"""The cohort of a needle run, derived from another cohort; the same spec gives the same cohort.

Each prompt has a separate record, built on access. Either it is one source record, cut to one
length, with one needle at one depth and a number of distractors; or the note with a question's
evidence, at one depth among other notes of its record. Its gold is the needle's event or the
evidence. Needles and cuts are computed at once, so that a run's items are counted before it starts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from midchart.core.cohorts.composed import composed, evidence_notes, moved
from midchart.core.cohorts.lazy_values import LazyValues
from midchart.core.errors import DataError, SpecError
from midchart.core.experiments.needles.needles import Needle, make_needles
from midchart.core.protocol import Protocol
from midchart.core.provenance import seeded
from midchart.core.text import as_words, count_tokens, cut_event, event_text, sentences, words
from midchart.core.text.evidence import place_of
from midchart.core.text.prompt import day, line_text
from midchart.core.types import Cohort, Event, Gold, Instruction, Record, Span

# A record cut to a length, and a needle inserted at a depth with its distractors. The cut is the
# latest stretch of whole events that holds 90 to 100 % of the length; its beginning is left out
# and, where a long note would not let whole events make up the length, some of its end. A shorter
# record is refused, never padded. Lengths are tokens of midchart.core.text.count_tokens of the
# lines of a prompt, dates included; needle and distractors come on top of it.


LEAST = 0.9
"""Share of a length that a stretch must hold."""
NAME = "Outside information"
"""Name of the note of a needle or distractor."""


@dataclass(frozen=True, slots=True)
class InsertionPoint:
    """Before event number ``event`` of the haystack, or, with ``at``, inside that event, a note, at
    the line end with this character; ``before`` are the tokens that precede it."""

    event: int
    at: int | None
    before: float


@dataclass(frozen=True, slots=True)
class Haystack:
    """Events ``first`` to ``last`` (excluded) of a record, the tokens of each, and its insertion
    points in order: before, between and after its events, and at the line ends of its notes."""

    record: Record
    length: int
    first: int
    last: int
    tokens: tuple[int, ...]
    points: tuple[InsertionPoint, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the stretch."""
        return self.record.events[self.first : self.last]

    @property
    def total(self) -> int:
        """Tokens of the stretch."""
        return sum(self.tokens)


class Measured:
    """A record with the tokens of its events, to be cut to any length."""

    def __init__(self, record: Record, protocol: Protocol) -> None:
        self.record, self._protocol = record, protocol
        per_event: Counter[int] = Counter()
        for sentence in sentences(record, protocol):
            per_event[sentence.span.event] += count_tokens(line_text(sentence, protocol))
        self.tokens = tuple(per_event[event.order] for event in record.events)
        self._before = np.concatenate([[0], np.cumsum(self.tokens)]).astype(np.int64)
        self.total = int(self._before[-1])

    def cut(self, length: int) -> Haystack | str:
        """The record cut to ``length`` tokens (≥ 1), or why it cannot be."""
        before = self._before
        if self.total < length:
            return f"the record holds {self.total} tokens"
        for last in range(len(self.tokens), 0, -1):
            first = int(np.searchsorted(before, before[last] - length, side="left"))
            if before[last] - before[first] >= LEAST * length:
                tokens = self.tokens[first:last]
                return Haystack(self.record, length, first, last, tokens, self._points(first, last))
        return f"no stretch of whole events holds {LEAST:.0%} to 100%"

    def _points(self, first: int, last: int) -> tuple[InsertionPoint, ...]:
        points: list[InsertionPoint] = []
        before = 0.0
        for i, event in enumerate(self.record.events[first:last]):
            points.append(InsertionPoint(i, None, before))
            tokens = self.tokens[first + i]
            if event.kind == "note" and tokens:
                points += [
                    InsertionPoint(i, at, before + share * tokens)
                    for at, share in _line_ends(event, self._protocol)
                ]
            before += tokens
        return (*points, InsertionPoint(last - first, None, before))


def _line_ends(note: Event, protocol: Protocol) -> list[tuple[int, float]]:
    """Line ends of a note between two of its pieces, and the share of its tokens before each."""
    pieces = cut_event(note, "sentence", protocol.sentence_tokens)
    costs = np.cumsum([count_tokens(line_text(piece, protocol)) for piece in pieces])
    ends = [note.text.find("\n", a.span.end, b.span.start) for a, b in pairwise(pieces)]
    return [(at, float(cost / costs[-1])) for at, cost in zip(ends, costs, strict=False) if at >= 0]


@dataclass(frozen=True, slots=True)
class NeedleRecord:
    """A record with a needle: ``span`` of the needle, spans of its ``distractors``; ``reached``:
    share of the haystack's tokens that precede the needle."""

    record: Record
    span: Span
    distractors: tuple[Span, ...]
    reached: float


def insert(
    id: str, haystack: Haystack, needle: Needle, depth: float, distractors: int, seed: int
) -> NeedleRecord:
    """The record called ``id``: the haystack with the needle at the insertion point nearest to
    ``depth`` in [0, 1] (0 the first, 1 the last), and its first ``distractors`` distractors at
    random ones."""
    points = haystack.points
    before = np.array([point.before for point in points])
    chosen = int(np.argmin(np.abs(before - depth * haystack.total)))
    if depth in (0.0, 1.0):
        chosen = 0 if depth == 0.0 else len(points) - 1
    rng = seeded(seed, "gaps", haystack.record.id, needle.id, str(haystack.length))
    drawn: list[int] = rng.integers(0, len(points), size=len(needle.distractors)).tolist()
    statements: dict[int, list[str]] = {chosen: [needle.statement]}
    for other, statement in zip(drawn[:distractors], needle.distractors, strict=False):
        if other == chosen:
            other = chosen + 1 if chosen + 1 < len(points) else chosen - 1
        statements.setdefault(other, []).append(statement)

    events, spans = _with_statements(haystack, statements)
    digest = blake2b(f"{haystack.record.digest} {seed} {id}".encode(), digest_size=16)
    for number in sorted(statements):
        # The same statements at another point make another record.
        point = points[number]
        digest.update(f"\n{number} {point.event} {point.at}\n".encode())
        digest.update("\n".join(statements[number]).encode())
    record = replace(
        haystack.record, id=id, events=events, digest=digest.hexdigest(), analysed=None
    )
    others = tuple(span for number, of in spans.items() if number != chosen for span in of)
    return NeedleRecord(record, spans[chosen][0], others, points[chosen].before / haystack.total)


def _with_statements(
    haystack: Haystack, statements: dict[int, list[str]]
) -> tuple[tuple[Event, ...], dict[int, list[Span]]]:
    """The haystack's events with statements inserted, and the spans of each point's statements."""
    old = haystack.events
    between: dict[int, list[int]] = defaultdict(list)
    inside: dict[int, list[int]] = defaultdict(list)
    for number in sorted(statements):
        point = haystack.points[number]
        (between if point.at is None else inside)[point.event].append(number)
    events: list[Event] = []
    spans: dict[int, list[Span]] = defaultdict(list)
    for i in range(len(old) + 1):
        for number in between[i]:
            for statement in statements[number]:
                spans[number].append(Span(len(events), 0, len(statement)))
                time = _nearest_time(old, i)
                events.append(Event(len(events), time, "note", name=NAME, text=statement))
        if i == len(old):
            break
        text, written = "", 0
        for number in inside[i]:
            at = haystack.points[number].at
            text += old[i].text[written:at]
            written = at or 0
            for statement in statements[number]:
                text += "\n" + statement
                spans[number].append(Span(len(events), len(text) - len(statement), len(text)))
        events.append(replace(old[i], order=len(events), text=text + old[i].text[written:]))
    return tuple(events), spans


def _nearest_time(events: Sequence[Event], index: int) -> datetime | None:
    """The time of the nearest dated event before event number ``index``, else after it."""
    near = [*reversed(events[:index]), *events[index:]]
    return next((event.time for event in near if event.time is not None), None)


# The cohort.


UNDATED = date(2010, 1, 1)
"""First day of a record without dates."""


@dataclass(frozen=True, slots=True)
class Site:
    """Source record, number of the needle, length in tokens, distractors, and depth in per cent."""

    record: str
    needle: str
    length: int
    distractors: int
    depth: int

    @property
    def id(self) -> str:
        """Id of its record and of its instruction."""
        return f"{self.record}/{self.needle}/{self.length}/{self.distractors}/{self.depth}"


@dataclass(frozen=True)
class NeedleCohort(Cohort):
    """``cuts``: a row each source record and length, as JSON values; ``columns``: the columns of an
    instruction's rows that name its site
    (:data:`midchart.core.experiments.needles.tables.SITE`)."""

    cuts: tuple[dict[str, Any], ...] = ()
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


def needle_cohort(cohort: Cohort, options: Mapping[str, Any], protocol: Protocol) -> NeedleCohort:
    """The needle records of the first ``options["patients"]`` records of a cohort.

    Raises SpecError where no record can be used.
    """
    most = max(options["distractors"])
    cuts: list[dict[str, Any]] = []
    needles: dict[tuple[str, str], Needle] = {}
    haystacks: dict[tuple[str, int], Haystack] = {}
    used: set[str] = set()
    # Cut each record to each length, and draw needles that are new to it.
    for turn, id in enumerate(list(cohort.records)[: options["patients"]]):
        try:
            measured = Measured(cohort.records[id], protocol)
        except DataError as error:
            reason = f"{error.file}: {error.reason}"
            cuts += [_cut_row(id, length, reason) for length in options["lengths"]]
            continue
        by_length = {length: measured.cut(length) for length in options["lengths"]}
        usable = [cut for cut in by_length.values() if isinstance(cut, Haystack)]
        drawn: tuple[Needle, ...] = ()
        if usable:
            text = "\n".join(event_text(event) for event in measured.record.events)
            begins = _begins(measured.record, min(cut.first for cut in usable))
            drawn = make_needles(
                id, text, begins, options["needles"], most, protocol.seed, turn, used
            )
        reason = ""
        if len(drawn) < options["needles"]:
            reason = f"it mentions so much that only {len(drawn)} needles are new to it"
        cuts += [_cut_row(id, n, cut, measured.total, reason) for n, cut in by_length.items()]
        if not reason:
            haystacks |= {(id, cut.length): cut for cut in usable}
            needles |= {(id, needle.id): needle for needle in drawn}
            used.update(text for n in drawn for text in (n.statement, *n.distractors))
    # Refuse a spec to which no record fits.
    if not haystacks:
        reasons = dict.fromkeys(f"{cut['length']}: {cut['reason']}" for cut in cuts[:3])
        raise SpecError(
            f"no record of {cohort.path} can be cut to any of 'lengths' of the spec: "
            + "; ".join(reasons)
        )
    # One item for every needle, length, number of distractors and depth.
    sites = [
        Site(record, needle, length, distractors, depth)
        for record, needle in needles
        for length in options["lengths"]
        if (record, length) in haystacks
        for distractors in options["distractors"]
        for depth in options["depths"]
    ]

    def place(site: Site) -> PlacedRecord:
        haystack, needle = haystacks[site.record, site.length], needles[site.record, site.needle]
        depth, count = site.depth / 100, site.distractors
        built = insert(site.id, haystack, needle, depth, count, protocol.seed)
        order, time, token = place_of(built.record, built.span)
        snippets, spans = (needle.statement,), (built.span,)
        gold = Gold(site.id, needle.answer, snippets, spans, order, time, True, token)
        return PlacedRecord(built.record, gold, built.reached, haystack.total)

    def instruction(site: Site) -> Instruction:
        needle = needles[site.record, site.needle]
        return Instruction(site.id, site.id, needle.question, domain=needle.kind)

    return cohort_of(cohort, sites, tuple(cuts), place, instruction)


def _begins(record: Record, first: int) -> date:
    """The first day of a record from event number ``first`` on."""
    times = [event.time for event in record.events[first:] if event.time is not None]
    return times[0].date() if times else UNDATED


def _cut_row(
    record: str, length: int, cut: Haystack | str, tokens: int = 0, reason: str = ""
) -> dict[str, Any]:
    """A source record of so many tokens at a length: what is left of it, or why it is refused."""
    row = {"record": record, "length": length, "events": 0, "tokens": tokens, "begins": ""}
    row |= {"ends": "", "events_before": 0, "events_after": 0, "reason": cut}
    if isinstance(cut, str):
        return row
    events = cut.record.events
    return row | {
        "events": cut.last - cut.first,
        "tokens": cut.total,
        "begins": day(events[cut.first].time),
        "ends": day(events[cut.last - 1].time),
        "events_before": cut.first,
        "events_after": len(events) - cut.last,
        "reason": reason,
    }


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """The record of a site and its question's gold; ``reached``: share of the ``tokens`` of all
    else in it that precede what was placed."""

    record: Record
    gold: Gold
    reached: float
    tokens: int


def cohort_of(
    cohort: Cohort,
    sites: Iterable[Site],
    cuts: tuple[dict[str, Any], ...],
    place: Callable[[Site], PlacedRecord],
    instruction: Callable[[Site], Instruction],
) -> NeedleCohort:
    """The cohort of sites of a cohort's records, each placed on access; an instruction's domain is
    its kind of fact."""
    by_id = {site.id: site for site in sites}
    ids = list(by_id)
    placed = LazyValues(ids, lambda id: place(by_id[id]))
    instructions = {id: instruction(site) for id, site in by_id.items()}

    def columns(id: str) -> dict[str, Any]:
        site = by_id[id]
        return {
            "record": site.record,
            "needle": site.needle,
            "fact": instructions[id].domain,
            "length": site.length,
            "depth": site.depth,
            "distractors": site.distractors,
            "reached": placed[id].reached,
            "haystack_tokens": placed[id].tokens,
        }

    return NeedleCohort(
        cohort.path,
        cohort.format,
        cohort.manifest,
        LazyValues(ids, lambda id: placed[id].record),
        tuple(instructions.values()),
        LazyValues(ids, lambda id: placed[id].gold),
        skipped=cohort.skipped,
        warnings=cohort.warnings,
        patient={id: site.record for id, site in by_id.items()},
        cuts=cuts,
        columns=LazyValues(ids, columns),
    )


# Moved notes.
#
# A context is the note with the evidence, complete, and a number of other notes of its record,
# drawn once per question and in the record's order; where they are too long together, the longest
# end earlier, at a sentence, so that every context of a length has 90 to 100 % of it. The note with
# the evidence goes where the share of the other notes' tokens before it is nearest to the depth.
# Dates are unchanged, so that of the moved note is then out of order. Events that are no notes are
# left out, and so are notes that repeat a piece of the evidence.


Notes = dict[int, list[tuple[int, int]]]
"""The sentences of notes, by a note's number: where each ends, and the note's tokens up to there,
dates included."""


@dataclass(frozen=True, slots=True)
class Context:
    """The notes of a question: the number of the one with the evidence, the others in order,
    perhaps shortened, and how many of their tokens precede each place among them."""

    evidence: int
    others: tuple[Event, ...]
    before: tuple[int, ...]

    def place(self, depth: int) -> int:
        """How many of the other notes precede the evidence at a depth in per cent."""
        return int(np.argmin(np.abs(np.array(self.before) - depth / 100 * self.before[-1])))


def moved_cohort(cohort: Cohort, options: Mapping[str, Any], protocol: Protocol) -> NeedleCohort:
    """The first ``options["needles"]`` questions of the first ``options["patients"]`` records with
    questions, in a context of each length and number of other notes, at every depth.

    A question needs all of its evidence in one note. Raises SpecError where none can be used.
    """
    # Questions of each record whose evidence is in one note.
    by_record: dict[str, list[Instruction]] = defaultdict(list)
    for one in cohort.instructions:
        by_record[one.record_id].append(one)
    contexts: dict[Site, Context] = {}
    asked: dict[tuple[str, str], Instruction] = {}
    cuts: list[dict[str, Any]] = []
    for id in [id for id in cohort.records if id in by_record][: options["patients"]]:
        reasons: dict[tuple[int, int], list[str]] = {
            (length, count): [] for length in options["lengths"] for count in options["distractors"]
        }
        usable: list[tuple[Record, Instruction, Notes]] = []
        problem = "no question has all of its evidence in one note"
        try:
            record = cohort.records[id]
            measured = _measured(record, protocol)
            each = [(record, one, _notes(record, measured, one, cohort)) for one in by_record[id]]
            usable = [case for case in each if case[2]][: options["needles"]]
        except DataError as error:
            problem = f"{error.file}: {error.reason}"
        # A context for each length and number of distractors, or why there is none.
        for number, (record, one, notes) in enumerate(usable):
            asked[id, str(number)] = one
            for (length, count), refused in reasons.items():
                drawn = _context(record, notes, one, length, count, options["depths"], protocol)
                if isinstance(drawn, str):
                    refused.append(drawn)
                    continue
                for depth in options["depths"]:
                    contexts[Site(id, str(number), length, count, depth)] = drawn
        for (length, count), refused in reasons.items():
            row = {"record": id, "length": length, "distractors": count}
            reason = next((text for text, _ in Counter(refused).most_common(1)), "")
            row |= {"questions": len(usable), "refused": len(refused)}
            cuts.append(row | {"reason": reason if usable else problem})
    # Refuse a spec to which no question fits.
    if not contexts:
        shown = dict.fromkeys(f"{cut['length']}: {cut['reason']}" for cut in cuts[:3])
        raise SpecError(
            f"no question of {cohort.path} can be used at any of 'lengths' and 'distractors' of "
            "the spec: " + ("; ".join(shown) or "it holds no questions")
        )

    def place(site: Site) -> PlacedRecord:
        context, source = contexts[site], cohort.records[site.record]
        at = context.place(site.depth)
        notes = [*context.others[:at], source.events[context.evidence], *context.others[at:]]
        record, places = composed(site.id, source, notes)
        gold = moved(cohort.gold[asked[site.record, site.needle].id], site.id, record, places)
        total = context.before[-1]
        return PlacedRecord(record, gold, context.before[at] / total, total)

    def instruction(site: Site) -> Instruction:
        one = asked[site.record, site.needle]
        kind = one.task_type or one.domain or "question"
        return replace(one, id=site.id, record_id=site.id, domain=kind, cutoff=None)

    return cohort_of(cohort, contexts, tuple(cuts), place, instruction)


def _measured(record: Record, protocol: Protocol) -> Notes:
    """The sentences of each note of a record, by its number."""
    notes: Notes = {}
    for event in record.events:
        pieces = cut_event(event, "sentence", protocol.sentence_tokens)
        if event.kind == "note" and pieces:
            tokens = [count_tokens(line_text(piece, protocol)) for piece in pieces]
            ends = (piece.span.end for piece in pieces)
            notes[event.order] = list(zip(ends, np.cumsum(tokens).tolist(), strict=True))
    return notes


def _notes(record: Record, measured: Notes, one: Instruction, cohort: Cohort) -> Notes:
    """The notes of a question's contexts, that with the evidence first; none where a single note
    does not hold all of the evidence."""
    gold = cohort.gold.get(one.id)
    numbers = evidence_notes(gold) if gold else []
    if gold is None or len(numbers) != 1:
        return {}
    snippets = [as_words(snippet) for snippet in gold.snippets if words(snippet)]
    notes: Notes = {}
    for number in sorted(measured, key=lambda number: (number != numbers[0], number)):
        event = record.events[number]
        if one.cutoff and (event.time is None or event.time > one.cutoff):
            continue
        text = as_words(event.text)
        if number == numbers[0] or not any(snippet in text for snippet in snippets):
            notes[number] = measured[number]
    return notes if numbers[0] in notes else {}


def _context(
    record: Record,
    notes: Notes,
    one: Instruction,
    length: int,
    count: int,
    depths: Sequence[int],
    protocol: Protocol,
) -> Context | str:
    """The context of a question with ``count`` other notes, or why there is none."""
    evidence, *rest = notes
    room = length - notes[evidence][-1][1]
    if room < 0:
        return "the note with the evidence is longer"
    if len(rest) < count:
        return f"fewer than {count} other notes"
    # The same order of drawing at every length and number: fewer notes are a part of more.
    order = seeded(protocol.seed, "notes", record.id, one.id).permutation(sorted(rest)).tolist()
    ends: dict[int, tuple[int, int]] = {}
    by_length = sorted(order[:count], key=lambda number: notes[number][-1][1])
    for left, number in zip(range(count, 0, -1), by_length, strict=True):
        fitting = [piece for piece in notes[number] if piece[1] <= room // left]
        if not fitting:
            return "a note's first sentence is longer than its share"
        ends[number] = fitting[-1]
        room -= fitting[-1][1]
    if length - room < LEAST * length:
        return f"the notes hold less than {LEAST:.0%}"
    shown = [(record.events[number], *ends[number]) for number in sorted(ends)]
    others = tuple(replace(event, text=event.text[:end]) for event, end, _ in shown)
    before = np.cumsum([0, *(tokens for _, _, tokens in shown)]).tolist()
    context = Context(evidence, others, tuple(before))
    if len({context.place(depth) for depth in depths}) < len(depths):
        return "two depths are at the same place among the notes"
    return context
