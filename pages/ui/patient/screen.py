"""The first screen of the Patient page: the answer before anything else, as HTML.

From top to bottom: what was answered wrongly or was dropped, the evidence with date and type, the
reference answer, and a line per arm: evidence kept, cut or dropped, the answer with its source
sentence, the verdict. Statuses are words in the borders of :mod:`pages.ui.shared.marks`, never red
or green; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from midchart.core import api
from midchart.pages.ui.patient import harm, model
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.patient.panel import head
from midchart.pages.ui.shared import chart, marks, verdicts
from midchart.pages.ui.shared.formats import listed
from midchart.pages.ui.shared.marks import for_screen

MOST_PIECES = 4
"""Pieces of evidence shown at once; more are folded."""
MOST_OTHERS = 2
"""Passages with another value shown at once; more are folded."""
MOST_CHARACTERS = 420
"""Characters of a passage shown."""

WRONG = "wrong or no answer"
"""The tag of a question that some arm answered wrongly, or not at all, with the evidence."""
IN_PICKER = 100
"""Characters of a question that the picker of questions shows on a wide screen."""
UNKNOWN = "The share of the evidence in a summary is unknown."


def screen(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    size: tuple[int, int],
    others: Sequence[api.OtherValue],
) -> str:
    """The first screen. ``size``: the record's units of selection and tokens; ``others``: passages
    with another value or date of the evidence's item."""
    reference = choice.gold.answer if choice.gold is not None else ""
    alarm, rest = verdict(views, pieces, reference)
    body = alarm + _asked(choice, views, pieces, others, rest) + _arms(choice, views, pieces, size)
    return marks.block(body)


def verdict(
    views: Sequence[ArmView], pieces: Sequence[Piece], reference: str = ""
) -> tuple[str, str]:
    """The headline above everything else, and the sentences that follow it, as HTML: what was
    answered wrongly with the evidence in the prompt or without it; before an answer is judged,
    which arms dropped evidence and which kept it."""
    selected = [view for view in model.with_selection(views) if not view.summarised]
    if not pieces or not selected:
        return "", ""
    lost = {view.title: words for view in selected if (words := model.lost_words(view, pieces))}
    label = marks.CUT_EVIDENCE if lost else marks.KEPT_EVIDENCE
    if any(model.DROPPED in status for status in lost.values()):
        label = marks.DROPPED_EVIDENCE
    harms = harm.sentences(selected, pieces, reference)
    if harms is not None:
        methods = {view.title for view in selected if harm.is_method(view.name)}
        label = WRONG if harms.harmful and not lost.keys() & methods else label
        return _framed(label, harms.headline, harms.harmful), for_screen(harms.rest, html=True)
    held = [view.title for view in selected if view.title not in lost]
    it = "it" if len(pieces) == 1 else "all of it"
    if not lost:
        words = f"{listed(held)} kept {'the' if len(pieces) == 1 else 'all'} evidence."
    elif set(lost.values()) == {model.DROPPED}:
        words = f"{listed(list(lost))} dropped the evidence."
    else:
        words = "; ".join(f"{name}: {status}" for name, status in lost.items()) + "."
    words += f" {listed(held)} kept {it}." if lost and held else ""
    return _framed(label, words, bool(lost)), ""


def _framed(label: str, headline: str, harmful: bool) -> str:
    """A sentence under a tag; the frame is dashed and the sentence bold where a person is
    harmed."""
    text = for_screen(headline, html=True)
    if not harmful:
        return f'<div class="mc-alarm mc-held">{marks.tag(label)}{text}</div>'
    tag = f'<span class="mc-dropped">{marks.tag(label)}</span>'
    return f'<div class="mc-alarm" role="status">{tag}<b>{text}</b></div>'


def _asked(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    others: Sequence[api.OtherValue],
    rest: str,
) -> str:
    """The evidence with date and type, the reference answer, and the question where the picker
    above has no room for it."""
    answer = choice.gold.answer if choice.gold is not None else ""
    question = choice.instruction.question
    rows: list[tuple[str, str]] = []
    if pieces:
        shown = [_evidence(choice.record, piece, views, len(pieces)) for piece in pieces]
        rows.append(("Evidence", _folded(shown, MOST_PIECES)))
    if answer:
        rows.append(
            ("Reference answer", f'<div class="mc-reference">{for_screen(answer, html=True)}</div>')
        )
    if rest:
        rows.append(("Other arms", rest))
    if choice.instruction.options:
        rows.append(("Options", _options(choice.instruction.options, answer, views)))
    rows.append(("Question", for_screen(question, html=True)))
    if others:
        rows.append(("Same item, other value or date", _others(choice.record, others)))

    def row(name: str, html: str) -> str:
        repeat = name == "Question" and len(question) <= IN_PICKER
        style = ' class="mc-repeat"' if repeat else ""
        return f"<dt{style}>{name}</dt><dd{style}>{html}</dd>"

    return f'<dl class="mc-asked">{"".join(row(*pair) for pair in rows)}</dl>'


def _options(options: Sequence[str], reference: str, views: Sequence[ArmView]) -> str:
    """The options of a multiple-choice question, the correct one in bold, with the arms under which
    the reader chose each."""
    correct = api.correct_option(reference, options)
    by: dict[int | None, list[str]] = {}
    for view in views:
        if view.answer is not None:
            by.setdefault(api.chosen_option(view.answer.text, options), []).append(view.title)
    lines: list[str] = []
    for index in range(len(options)):
        notes = ["correct"] if index == correct else []
        notes += [f"chosen: {listed(by[index])}"] if index in by else []
        text = for_screen(api.option_text(options, index), html=True)
        text = f"<b>{text}</b>" if index == correct else text
        lines.append(f"<div>{text} <small>{for_screen(' · '.join(notes), html=True)}</small></div>")
    lines.append(f"<small>Guessing is correct in {100 / len(options):.0f} %.</small>")
    return "".join(lines)


def _folded(items: Sequence[str], most: int) -> str:
    """The first items, and the others behind a fold."""
    rest = items[most:]
    fold = f"<details><summary>{len(rest):,} more</summary>{''.join(rest)}</details>"
    return "".join(items[:most]) + (fold if rest else "")


def _evidence(record: api.Record, piece: Piece, views: Sequence[ArmView], n: int) -> str:
    event = record.events[piece.event]
    statuses: dict[str, list[str]] = {}
    for view in model.with_selection(views):
        if not view.summarised:
            statuses.setdefault(view.status_words(piece), []).append(view.title)
    absent = statuses.keys() - {model.KEPT}
    words = f"{head(event)} · at {model.percent(piece.at)} of the record"
    lost = "; ".join(
        f"{word} by {listed(names)}" for word, names in statuses.items() if word in absent
    )
    words = " · ".join(filter(None, (f"{piece.number}. {words}" if n > 1 else words, lost)))
    start, end = piece.span.start, piece.span.end
    return (
        f'<div class="mc-passage {"mc-absent" if absent else ""}">'
        f"<small>{for_screen(words, html=True)}</small>"
        f"<p>{passage(api.event_text(event), start, end)}</p></div>"
    )


def passage(text: str, start: int, end: int) -> str:
    """The lines of a text that hold [start, end), which is underlined; shortened, as HTML."""
    low = max(text.rfind("\n", 0, start) + 1, start - MOST_CHARACTERS // 3)
    high = text.find("\n", end)
    high = min(len(text) if high < 0 else high, end + MOST_CHARACTERS // 3)
    cut = min(end, low + 2 * MOST_CHARACTERS)
    before = "… " if low and text[low - 1] != "\n" else ""
    after = " …" if cut < end or (high < len(text) and text[high] != "\n") else ""
    inside = marks.underlined(text, low, cut if cut < end else high, [(start, cut)])
    return f"{before}{inside.strip()}{after}"


# Passages with another value


def _others(record: api.Record, others: Sequence[api.OtherValue]) -> str:
    """Passages with another value or date of the evidence's item, the newest first and marked."""
    lines = [_other(record, other) for other in reversed(others)]
    newest = any(other.newest for other in others)
    note = "" if newest else "<small>The evidence is newer than each of them.</small>"
    how = for_screen(api.OTHER_VALUES_RULE, html=True)
    rule = f"<details><summary>How these are found</summary>{how}</details>"
    return note + _folded(lines, MOST_OTHERS) + rule


def _other(record: api.Record, other: api.OtherValue) -> str:
    event = record.events[other.sentence.span.event]
    words = head(event)
    if other.day is not None and (event.time is None or other.day.date() != event.time.date()):
        words = f"{other.day:%Y-%m-%d}, written in {words}"
    words += f" · {other.copies} times in the record" if other.copies > 1 else ""
    tag = marks.tag("newest") if other.newest else ""
    text = marks.shortened(other.sentence.text, MOST_CHARACTERS)
    heading, body = (for_screen(part, html=True) for part in (words, text))
    return f'<div class="mc-other"><small>{tag}{heading}</small><p>{body}</p></div>'


# One line per arm


def _arms(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], size: tuple[int, int]
) -> str:
    reader = next((words for view in views if (words := reader_words(view))), "")
    by = f"Answer of {reader}" if reader else "Answer"
    heads = ("Arm", "Evidence", for_screen(by, html=True), "Verdict")
    row = "".join(f'<th scope="col">{name}</th>' for name in heads)
    units = {unit.id: unit for unit in api.sentences(choice.record, choice.protocol)}
    rows = "".join(_arm(choice, view, pieces, size, units) for view in views)
    note = _judges_differ(views)
    return (
        f'<table class="mc-by-arm"><thead><tr>{row}</tr></thead><tbody>{rows}</tbody></table>{note}'
    )


def _arm(
    choice: Choice,
    view: ArmView,
    pieces: Sequence[Piece],
    size: tuple[int, int],
    units: Mapping[str, api.Sentence],
) -> str:
    look = chart.look_of(view.name)
    words = model.size_words(view, *size, choice.protocol.unit)
    name = (
        f"<i>{chart.GLYPHS.get(look.symbol, '●')}</i> <b>{for_screen(view.title, html=True)}</b>"
        f"<small>{for_screen(words, html=True)}</small>"
    )
    if view.selection is None:
        label = "running" if view.running else "not run" if view.pending else "not available"
        cells = [_note(label), for_screen(view.problem, html=True), ""]
    else:
        cells = [
            _status(view, pieces),
            _answer(choice, view, units, model.gold_ids(pieces)),
            _verdict(choice, view),
        ]
    inside = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr style="--mc-arm:{look.colour}"><th scope="row">{name}</th>{inside}</tr>'


def _note(words: str) -> str:
    return f'<span class="mc-note-word">{for_screen(words, html=True)}</span>'


def _status(view: ArmView, pieces: Sequence[Piece]) -> str:
    """Whether the evidence was kept, and its place in the arm's ranking."""
    if not pieces:
        return _note("no located evidence")
    if view.summarised:
        return _note("summarised") + f"<small>{UNKNOWN}</small>"
    lost = model.lost_words(view, pieces)
    if not lost:
        html = marks.mark(marks.KEPT_EVIDENCE, model.KEPT)
    else:
        dropped = model.DROPPED in lost or model.PARTLY in lost
        html = marks.mark(marks.DROPPED_EVIDENCE if dropped else marks.CUT_EVIDENCE, lost)
        html += f"<small>{for_screen(view.cut, html=True)}</small>" if model.CUT in lost else ""
    places = [_place(piece, view, len(pieces)) for piece in pieces[:MOST_PIECES]]
    return html + "".join(f"<small>{place}</small>" for place in places if place)


def _place(piece: Piece, view: ArmView, n: int) -> str:
    if piece.number not in view.ranks:
        return ""
    place = view.ranks[piece.number]
    words = [f"rank {place.rank:,} of {place.ranked:,}"] if place.rank else []
    words += [place.why] if place.why else []
    return for_screen((f"{piece.number}: " if n > 1 else "") + ", ".join(words), html=True)


class Source(NamedTuple):
    """The sentence an answer rests on; ``stated``: the reader names it, else it is the line of the
    prompt that shares most words with the answer."""

    sentence: api.Sentence
    stated: bool


def source_of(view: ArmView, units: Mapping[str, api.Sentence]) -> Source | None:
    """The source sentence of an arm's answer; None where there is none, as for a refusal."""
    if view.answer is None or view.prompt is None:
        return None
    for id in view.answer.sources:
        if id in units:
            return Source(units[id], view.answer.how != "abstained")
    answer = set(api.words(view.answer.text))
    shared = [
        (len(answer & set(api.words(units[line.sentence_id].text))), line.sentence_id)
        for line in view.prompt.context
        if line.sentence_id in units
    ]
    most, id = max(shared, key=lambda pair: pair[0], default=(0, ""))
    refused = any(verdict.refusal for verdict in view.verdicts.values())
    return Source(units[id], False) if 2 * most > len(answer) and not refused else None


def _answer(
    choice: Choice, view: ArmView, units: Mapping[str, api.Sentence], gold: frozenset[str]
) -> str:
    """The answer and its source sentence."""
    answer = view.answer
    if view.reading_problem:
        return f"<small>Not read: {for_screen(view.reading_problem, html=True)}</small>"
    if answer is None:
        return "<small>Not answered yet.</small>" if view.reader else ""
    if answer.status != "ok" or not answer.text.strip():
        reason = for_screen(answer.reason or "the reader wrote nothing", html=True)
        return f"No answer: {reason} {verdicts.ended_html(answer.ended)}"
    text = f"<q>{for_screen(marks.shortened(answer.text, MOST_CHARACTERS), html=True)}</q>"
    text += f" {verdicts.ended_html(answer.ended)}"
    if view.prompt is not None and not view.prompt.question_survived:
        text += f" {marks.mark(marks.CUT_EVIDENCE, 'question was cut off')}"
    source = source_of(view, units)
    if source is None:
        return f"{text}<small>No source sentence.</small>"
    sentence = source.sentence
    words = f"{'Source' if source.stated else 'Nearest line of the prompt'}: "
    words += head(choice.record.events[sentence.span.event])
    if gold:
        words += " · the evidence" if sentence.id in gold else " · not the evidence"
    if " ".join(sentence.text.split()) not in " ".join(answer.text.split()):
        words += f": “{marks.shortened(sentence.text)}”"
    return f"{text}<small>{for_screen(words, html=True)}</small>"


def reader_words(view: ArmView) -> str:
    """The reader's name, and whether it only quotes; "" without a reader."""
    return (
        f"{view.reader}{', which only quotes' if view.only_quotes else ''}" if view.reader else ""
    )


def _verdict(choice: Choice, view: ArmView) -> str:
    """The deciding judge's verdict first, then of the others those that differ."""
    if not view.verdicts:
        judged = view.answer is not None and choice.gold is None
        return "<small>Not judged: no reference answer.</small>" if judged else ""
    first, *others = view.verdicts.items()
    html = verdicts.outcome_html(first[1].outcome, first[1].refusal)
    html += f"<small>by {for_screen(api.title('judge', first[0]), html=True)}</small>"
    return html + "".join(
        f"<small>{for_screen(api.title('judge', name), html=True)}: "
        f"{for_screen(verdict.outcome, html=True)}</small>"
        for name, verdict in others
        if verdict.outcome != first[1].outcome
    )


def _judges_differ(views: Sequence[ArmView]) -> str:
    """Which judge decides, once for all arms, where judges differ."""
    for view in views:
        outcomes = {name: verdict.outcome for name, verdict in view.verdicts.items()}
        if note := verdicts.deciding_html(outcomes, next(iter(outcomes), "")):
            return note
    return ""
