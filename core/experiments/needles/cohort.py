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
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from midchart.core.cohorts.composed import composed, evidence_notes, moved
from midchart.core.cohorts.gold import LazyValues
from midchart.core.errors import DataError, SpecError
from midchart.core.experiments.needles.needles import Needle, make_needles
from midchart.core.protocol import Protocol
from midchart.core.provenance import seeded
from midchart.core.text import as_words, count_tokens, cut_event, event_text, sentences, words
from midchart.core.text.evidence import place_of
from midchart.core.text.prompt import day, line_text
from midchart.core.types import Cohort, Event, Gold, Instruction, Record, Sentence, Span

# Sites: what is placed where. A record or context of a site has a length in tokens of
# midchart.core.text.count_tokens of the lines of a prompt, dates included.


LEAST = 0.9
"""Share of a length that a record or context must hold."""


class Site(NamedTuple):
    """Source record, number of the needle, length in tokens, distractors, and depth in per cent."""

    record: str
    needle: str
    length: int
    distractors: int
    depth: int

    @property
    def id(self) -> str:
        """Id of its record and of its instruction."""
        return "/".join(map(str, self))


@dataclass(frozen=True)
class NeedleCohort(Cohort):
    """``cuts``: a row each source record and length, as JSON values; ``columns``: the columns of an
    instruction's rows that name its site
    (:data:`midchart.core.experiments.needles.tables.SITE`)."""

    cuts: tuple[dict[str, Any], ...] = ()
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])


class PlacedRecord(NamedTuple):
    """The record of a site and its question's gold; ``reached``: share of the ``tokens`` of all
    else in it that precede what was placed; ``distractors``: their spans."""

    record: Record
    gold: Gold
    reached: float
    tokens: int
    distractors: tuple[Span, ...] = ()


def _cohort_of(
    cohort: Cohort,
    asked: Mapping[Site, Instruction],
    cuts: Sequence[dict[str, Any]],
    place: Callable[[Site], PlacedRecord],
) -> NeedleCohort:
    """The cohort of sites of a cohort's records, each placed on access; ``asked``: the instruction
    of each, whose domain is its kind of fact. Raises SpecError where there is no site."""
    if not asked:
        reasons = dict.fromkeys(f"{cut['length']}: {cut['reason']}" for cut in cuts[:3])
        raise SpecError(
            f"no record of {cohort.path} can be used at any of 'lengths' and 'distractors' of the "
            "spec: " + ("; ".join(reasons) or "it holds no questions")
        )
    sites = {site.id: site for site in asked}
    instructions = {s.id: replace(i, id=s.id, record_id=s.id) for s, i in asked.items()}
    placed = LazyValues(list(sites), lambda id: place(sites[id]))

    def columns(id: str) -> dict[str, Any]:
        return {
            **sites[id]._asdict(),
            "fact": instructions[id].domain,
            "reached": placed[id].reached,
            "haystack_tokens": placed[id].tokens,
        }

    return NeedleCohort(
        cohort.path,
        cohort.format,
        cohort.manifest,
        LazyValues(list(sites), lambda id: placed[id].record),
        tuple(instructions.values()),
        LazyValues(list(sites), lambda id: placed[id].gold),
        skipped=cohort.skipped,
        warnings=cohort.warnings,
        patient={id: site.record for id, site in sites.items()},
        cuts=tuple(cuts),
        columns=LazyValues(list(sites), columns),
    )


def _pieces(note: Event, protocol: Protocol) -> tuple[Sequence[Sentence], list[int]]:
    """The sentences of a note, and its tokens up to the end of each."""
    pieces = cut_event(note, "sentence", protocol.sentence_tokens)
    costs = [count_tokens(line_text(piece, protocol)) for piece in pieces]
    return pieces, np.cumsum(costs).astype(int).tolist()


# A record cut to a length, and a needle inserted at a depth with its distractors. The cut is the
# latest stretch of whole events that holds 90 to 100 % of the length; its beginning is left out
# and, where a long note would not let whole events make up the length, some of its end. A shorter
# record is refused, never padded. Needle and distractors come on top of the length.


NAME = "Outside information"
"""Name of the note of a needle or distractor."""
UNDATED = date(2010, 1, 1)
"""First day of a record without dates."""


class InsertionPoint(NamedTuple):
    """Before event number ``event`` of the haystack, or, with ``at``, inside that event, a note, at
    the line end with this character; ``before`` are the tokens that precede it."""

    event: int
    at: int | None
    before: float


class Haystack(NamedTuple):
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


def tokens_of(record: Record, protocol: Protocol) -> list[int]:
    """The tokens of each event of a record."""
    per_event: Counter[int] = Counter()
    for sentence in sentences(record, protocol):
        per_event[sentence.span.event] += count_tokens(line_text(sentence, protocol))
    return [per_event[event.order] for event in record.events]


def cut(record: Record, tokens: Sequence[int], length: int, protocol: Protocol) -> Haystack | str:
    """A record with these :func:`tokens_of` cut to ``length`` tokens (≥ 1), or why it cannot be."""
    before = np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)
    if before[-1] < length:
        return f"the record holds {before[-1]} tokens"
    for last in range(len(tokens), 0, -1):
        first = int(np.searchsorted(before, before[last] - length, side="left"))
        if before[last] - before[first] >= LEAST * length:
            inside = tuple(tokens[first:last])
            points = tuple(_points(record.events[first:last], inside, protocol))
            return Haystack(record, length, first, last, inside, points)
    return f"no stretch of whole events holds {LEAST:.0%} to 100%"


def _points(
    events: Sequence[Event], tokens: Sequence[int], protocol: Protocol
) -> Iterable[InsertionPoint]:
    before = 0.0
    for i, (event, count) in enumerate(zip(events, tokens, strict=True)):
        yield InsertionPoint(i, None, before)
        if event.kind == "note" and count:
            pieces, costs = _pieces(event, protocol)
            for (a, b), cost in zip(pairwise(pieces), costs, strict=False):
                at = event.text.find("\n", a.span.end, b.span.start)
                if at >= 0:
                    yield InsertionPoint(i, at, before + cost / costs[-1] * count)
        before += count
    yield InsertionPoint(len(events), None, before)


def insert(
    id: str, haystack: Haystack, needle: Needle, depth: float, distractors: int, seed: int
) -> PlacedRecord:
    """The record called ``id``: the haystack with the needle at the insertion point nearest to
    ``depth`` in [0, 1] (0 the first, 1 the last), and its first ``distractors`` distractors at
    random ones."""
    # Which statements go to which point.
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
    # The events with the statements: a note each between events, a line inside of notes.
    events: list[Event] = []
    spans: dict[str, Span] = {}
    for number, point in enumerate(points):
        for statement in statements.get(number, ()):
            if point.at is None:
                time = _nearest_time(haystack.events, point.event)
                spans[statement] = Span(len(events), 0, len(statement))
                events.append(Event(-1, time, "note", name=NAME, text=statement))
            else:
                text, grown = events[-1].text, len(haystack.events[point.event].text)
                at = point.at + len(text) - grown
                spans[statement] = Span(len(events) - 1, at + 1, at + 1 + len(statement))
                text = f"{text[:at]}\n{statement}{text[at:]}"
                events[-1] = replace(events[-1], text=text)
        if point.at is None and point.event < len(haystack.events):
            events.append(haystack.events[point.event])
    # The same statements at another point make another record; ties are drawn by its digest.
    digest = blake2b(f"{haystack.record.digest} {seed} {id}".encode(), digest_size=16)
    for number in sorted(statements):
        digest.update(f"\n{number} {points[number].event} {points[number].at}\n".encode())
        digest.update("\n".join(statements[number]).encode())
    record, _ = composed(id, haystack.record, events)
    record = replace(record, digest=digest.hexdigest())
    span = spans.pop(needle.statement)
    order, time, token = place_of(record, span)
    gold = Gold(id, needle.answer, (needle.statement,), (span,), order, time, True, token)
    reached = points[chosen].before / haystack.total
    return PlacedRecord(record, gold, reached, haystack.total, tuple(spans.values()))


def _nearest_time(events: Sequence[Event], index: int) -> datetime | None:
    """The time of the nearest dated event before event number ``index``, else after it."""
    near = [*reversed(events[:index]), *events[index:]]
    return next((event.time for event in near if event.time is not None), None)


def needle_cohort(cohort: Cohort, options: Mapping[str, Any], protocol: Protocol) -> NeedleCohort:
    """The needle records of the first ``options["patients"]`` records of a cohort. Raises SpecError
    where no record can be used."""
    lengths, most = options["lengths"], max(options["distractors"])
    cuts: list[dict[str, Any]] = []
    needles: dict[tuple[str, str], Needle] = {}
    haystacks: dict[tuple[str, int], Haystack] = {}
    used: set[str] = set()
    # Cut each record to each length, and draw needles that are new to it.
    for turn, id in enumerate(list(cohort.records)[: options["patients"]]):
        try:
            record = cohort.records[id]
            tokens = tokens_of(record, protocol)
        except DataError as error:
            reason = f"{error.file}: {error.reason}"
            cuts += [_cut_row(id, length, reason) for length in lengths]
            continue
        by_length = {length: cut(record, tokens, length, protocol) for length in lengths}
        usable = [one for one in by_length.values() if isinstance(one, Haystack)]
        drawn: tuple[Needle, ...] = ()
        if usable:
            text = "\n".join(event_text(event) for event in record.events)
            dated = (e.time for e in record.events[min(one.first for one in usable) :] if e.time)
            begins = next((time.date() for time in dated), UNDATED)
            count = options["needles"]
            drawn = make_needles(id, text, begins, count, most, protocol.seed, turn, used)
        reason = ""
        if len(drawn) < options["needles"]:
            reason = f"it mentions so much that only {len(drawn)} needles are new to it"
        cuts += [_cut_row(id, n, one, sum(tokens), reason) for n, one in by_length.items()]
        if not reason:
            haystacks |= {(id, one.length): one for one in usable}
            needles |= {(id, needle.id): needle for needle in drawn}
            used.update(text for n in drawn for text in (n.statement, *n.distractors))
    # One item for every needle, length, number of distractors and depth.
    asked: dict[Site, Instruction] = {}
    for (id, number), needle in needles.items():
        instruction = Instruction("", "", needle.question, domain=needle.kind)
        for length, *rest in product(lengths, options["distractors"], options["depths"]):
            if (id, length) in haystacks:
                asked[Site(id, number, length, *rest)] = instruction

    def place(site: Site) -> PlacedRecord:
        haystack, needle = haystacks[site.record, site.length], needles[site[:2]]
        return insert(site.id, haystack, needle, site.depth / 100, site.distractors, protocol.seed)

    return _cohort_of(cohort, asked, cuts, place)


def _cut_row(
    id: str, length: int, result: Haystack | str, tokens: int = 0, reason: str = ""
) -> dict[str, Any]:
    """A source record of so many tokens at a length: what is left of it, or why it is refused."""
    if isinstance(result, str):
        nothing = {"begins": "", "ends": "", "events_before": 0, "events_after": 0}
        row = {"record": id, "length": length, "events": 0, "tokens": tokens}
        return {**row, **nothing, "reason": result}
    events = result.events
    return {
        "record": id,
        "length": length,
        "events": len(events),
        "tokens": result.total,
        "begins": day(events[0].time),
        "ends": day(events[-1].time),
        "events_before": result.first,
        "events_after": len(result.record.events) - result.last,
        "reason": reason,
    }


# Moved notes.
#
# A context is the note with the evidence, complete, and a number of other notes of its record,
# drawn once per question and in the record's order; where they are too long together, the longest
# end earlier, at a sentence, so that every context of a length has 90 to 100 % of it. The note with
# the evidence goes where the share of the other notes' tokens before it is nearest to the depth.
# Dates are unchanged, so that of the moved note is then out of order. Events that are no notes are
# left out, and so are notes that repeat a piece of the evidence.


Notes = dict[int, list[tuple[int, int]]]
"""The sentences of notes, by a note's number: where each ends, and the note's tokens up to
there."""


class Context(NamedTuple):
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
    questions, in a context of each length and number of other notes, at every depth. A question
    needs all of its evidence in one note. Raises SpecError where none can be used."""
    by_record: dict[str, list[Instruction]] = defaultdict(list)
    for one in cohort.instructions:
        by_record[one.record_id].append(one)
    contexts: dict[Site, Context] = {}
    asked: dict[Site, Instruction] = {}
    cuts: list[dict[str, Any]] = []
    for id in [id for id in cohort.records if id in by_record][: options["patients"]]:
        usable: list[tuple[Record, Instruction, Notes]] = []
        problem = "no question has all of its evidence in one note"
        try:
            record = cohort.records[id]
            notes = {e.order: _pieces(e, protocol) for e in record.events if e.kind == "note"}
            measured = {
                number: [(piece.span.end, n) for piece, n in zip(*of, strict=True)]
                for number, of in notes.items()
                if of[0]
            }
            each = [(record, one, _notes(record, measured, one, cohort)) for one in by_record[id]]
            usable = [case for case in each if case[2]][: options["needles"]]
        except DataError as error:
            problem = f"{error.file}: {error.reason}"
        # A context for each length and number of distractors, or why there is none.
        sizes = list(product(options["lengths"], options["distractors"]))
        refused: dict[tuple[int, int], list[str]] = {size: [] for size in sizes}
        for (number, (record, one, notes)), size in product(enumerate(usable), sizes):
            drawn = _context(record, notes, one, *size, options["depths"], protocol)
            if isinstance(drawn, str):
                refused[size].append(drawn)
                continue
            kind = one.task_type or one.domain or "question"
            for depth in options["depths"]:
                site = Site(id, str(number), *size, depth)
                contexts[site], asked[site] = drawn, replace(one, domain=kind, cutoff=None)
        for (length, count), reasons in refused.items():
            row = {"record": id, "length": length, "distractors": count}
            reason = next((text for text, _ in Counter(reasons).most_common(1)), "")
            row |= {"questions": len(usable), "refused": len(reasons)}
            cuts.append(row | {"reason": reason if usable else problem})

    def place(site: Site) -> PlacedRecord:
        context, source = contexts[site], cohort.records[site.record]
        at, total = context.place(site.depth), context.before[-1]
        notes = [*context.others[:at], source.events[context.evidence], *context.others[at:]]
        record, places = composed(site.id, source, notes)
        gold = moved(cohort.gold[asked[site].id], site.id, record, places)
        return PlacedRecord(record, gold, context.before[at] / total, total)

    return _cohort_of(cohort, asked, cuts, place)


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
