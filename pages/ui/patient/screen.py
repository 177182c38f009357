"""What the Patient page says of a question, as HTML.

What was answered wrongly or was dropped; a card an arm: evidence kept, cut or dropped, the answer
as the claim of its reader, the verdict, and the sentences that were ranked best; the evidence with
date and type, and the reference answer. Statuses are words in the borders of
:mod:`pages.ui.shared.marks`, never red or green; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from midchart.core import api
from midchart.pages.ui.patient import cached, model
from midchart.pages.ui.patient.model import ArmView, Choice, Piece, head
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
UNKNOWN = "The share of the evidence in a summary is unknown."


def asked(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    others: Sequence[api.OtherValue],
) -> str:
    """What the chart says of it: the evidence, the reference answer, and ``others``, passages with
    another value or date of the evidence's item."""
    return marks.block(_asked(choice, views, pieces, others))


def arms(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], size: tuple[int, int]
) -> str:
    """A card an arm. ``size``: the record's units of selection and tokens."""
    return marks.block(_arms(choice, views, pieces, size))


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
    harms = harm_sentences(selected, pieces, reference)
    if harms is not None:
        methods = {view.title for view in selected if is_method(view.name)}
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
) -> str:
    """The evidence with date and type, and the reference answer."""
    answer = choice.gold.answer if choice.gold is not None else ""
    rows: list[tuple[str, str]] = []
    if pieces:
        shown = [_evidence(choice.record, piece, views, len(pieces)) for piece in pieces]
        rows.append(("Evidence", _folded(shown, MOST_PIECES)))
    if answer:
        rows.append(
            ("Reference answer", f'<div class="mc-reference">{for_screen(answer, html=True)}</div>')
        )
    if choice.instruction.options:
        rows.append(("Options", _options(choice.instruction.options, answer, views)))
    if others:
        rows.append(("Same item, other value or date", _others(choice.record, others)))

    inside = "".join(f"<dt>{name}</dt><dd>{html}</dd>" for name, html in rows)
    return f'<dl class="mc-asked">{inside}</dl>' if rows else ""


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
    by = f"Answers of {reader}" if reader else "Arms"
    units = {unit.id: unit for unit in api.sentences(choice.record, choice.protocol)}
    rows = "".join(_arm(choice, view, pieces, size, units) for view in views)
    caption = f"<caption>{for_screen(by, html=True)}</caption>"
    return f'<table class="mc-by-arm">{caption}<tbody>{rows}</tbody></table>{_judges_differ(views)}'


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
            _answer(choice, view, pieces, units, size[0]) + _verdict(choice, view),
            _ranked(choice, view),
        ]
        if not pieces:  # what the chart says comes first, the reader's word after
            cells = [cells[2], cells[1], cells[0]]
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


def claim(choice: Choice, view: ArmView, pieces: Sequence[Piece]) -> api.Claim:
    """What an arm's answer rests on; without an answer, a claim of none."""
    if view.answer is None or view.prompt is None:
        return api.Claim("")
    evidence = model.gold_ids(pieces)
    prompt = {line.sentence_id: line.text for line in view.prompt.context}
    known = {k.sentence.id: k.sentence.text for k in view.kept if k.sentence.id in prompt}
    refused = any(verdict.refusal for verdict in view.verdicts.values())
    named = () if view.answer.how == "abstained" else view.answer.sources
    return api.claim_of(view.answer.text, named, known, evidence, refused)


def _answer(
    choice: Choice,
    view: ArmView,
    pieces: Sequence[Piece],
    units: Mapping[str, api.Sentence],
    sentences: int,
) -> str:
    """The answer as a claim of its reader, and the sentence that it rests on; ``sentences``: those
    of the record."""
    answer = view.answer
    if view.reading_problem:
        return f"<small>Not read: {for_screen(view.reading_problem, html=True)}</small>"
    if answer is None:
        return "<small>Not answered yet.</small>" if view.reader else ""
    if answer.status != "ok" or not answer.text.strip():
        reason = for_screen(answer.reason or "the reader wrote nothing", html=True)
        return f"No answer: {reason} {verdicts.ended_html(answer.ended)}"
    claimed = claim(choice, view, pieces)
    who = for_screen(view.reader.partition(" (")[0], html=True)
    got = len(view.prompt.context) if view.prompt is not None else 0
    if claimed.state == api.DECLINES:
        unit = choice.protocol.unit
        return (
            f"<small>{who} {claimed.state} in the {got:,} {unit}s it got (of {sentences:,}): "
            f"{for_screen(marks.shortened(answer.text, SHORT), html=True)}</small>"
        )
    text = f"<q>{for_screen(marks.shortened(answer.text, MOST_CHARACTERS), html=True)}</q>"
    text += f" {verdicts.ended_html(answer.ended)}"
    if view.prompt is not None and not view.prompt.question_survived:
        text += f" {marks.mark(marks.CUT_EVIDENCE, 'question was cut off')}"
    words = f"{who} {claimed.state}"
    if claimed.source in units:
        sentence = units[claimed.source]
        words += f"{'' if claimed.stated else ' (nearest line)'}: "
        words += for_screen(head(choice.record.events[sentence.span.event]), html=True)
        if " ".join(sentence.text.split()) not in " ".join(answer.text.split()):
            words += f": “{for_screen(marks.shortened(sentence.text), html=True)}”"
    return f"{text}<small>{words}</small>"


def _ranked(choice: Choice, view: ArmView) -> str:
    """The sentences that the arm ranked best of those that it kept: the chart's own words."""
    best = api.best_ranked(view.kept, MOST_RANKED)
    lines = "".join(
        f"<li><time>{for_screen(model.when(choice.record.events[one.span.event]), html=True)}"
        f"</time> {for_screen(marks.shortened(one.text, MOST_OF_RANKED), html=True)}</li>"
        for one in best
    )
    return f'<small>Ranked best</small><ul class="mc-ranked">{lines}</ul>' if best else ""


MOST_RANKED, MOST_OF_RANKED = 2, 160
"""Sentences that are listed under an answer, and characters of each."""


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


# What an answer means for the person it is about: first the wrong answers, with the evidence in the
# prompt and after it was dropped; then the questions without an answer; then what was right.


SHORT = 60
"""Characters of an answer in a sentence."""
HELD = ""
"""The status of evidence that is present whole."""


class Harm(NamedTuple):
    """The sentences on a question: ``headline`` and the others; ``harmful``: whether any answer was
    wrong or missing."""

    headline: str
    rest: str
    harmful: bool


def is_method(arm: str) -> bool:
    """Whether an arm is a method: no control, and not given the evidence."""
    return not chart.is_control(arm) and arm not in cached.NEEDS_EVIDENCE


Group = tuple[str, str, str]
"""The evidence that was lost, the outcome, and what was answered where that is wrong."""


def harm_sentences(
    views: Sequence[ArmView], pieces: Sequence[Piece], reference: str
) -> Harm | None:
    """The sentences on judged answers; None where no arm's answer is judged right or wrong.

    ``views``: arms with a selection, none that wrote summaries; ``reference``: the reference
    answer. What controls and the oracle did comes after the others.
    """
    first: list[str] = []
    rest: list[str] = []
    quoted = False
    for control in (False, True):
        groups: dict[Group, list[str]] = {}
        for view in views:
            outcome = _outcome_of(view)
            if outcome and is_method(view.name) != control:
                answer = view.answer.text if view.answer and outcome == "incorrect" else ""
                words = contrast(answer, reference)
                quoted |= words.startswith("“")
                key = _lost_evidence(view, pieces), outcome, words
                groups.setdefault(key, []).append(view.title)
        for outcome in ("incorrect", "no answer", "correct"):
            chosen = {key: names for key, names in groups.items() if key[1] == outcome}
            place = rest if control or outcome == "correct" else first
            place += _harm_groups(chosen)
    if not first and not rest:
        return None
    if quoted and reference.strip():
        rest.append(f"The reference answer is “{_short(reference)}”.")
    if unjudged := [view.title for view in views if not _outcome_of(view)]:
        rest.append(f"Not judged: {listed(unjudged)}.")
    harmful = bool(first)
    if not first:
        first, rest = rest, []
    return Harm(" ".join(first), " ".join(rest), harmful)


def _outcome_of(view: ArmView) -> str:
    """Of the judge that decides: "correct", "incorrect", "no answer" for a refusal
    or silence that is incorrect; "" where it says neither."""
    first = next(iter(view.verdicts.values()), None)
    if first is None or first.outcome not in ("correct", "incorrect"):
        return ""
    silent = first.refusal or view.answer is None or not view.answer.text.strip()
    return "no answer" if silent and first.outcome == "incorrect" else first.outcome


_DID = {
    "incorrect": "answered",
    "no answer": "gave no answer",
    "correct": "answered correctly",
}


def _harm_groups(groups: Mapping[Group, Sequence[str]]) -> list[str]:
    """A sentence each group of arms: those that kept the evidence first."""
    ordered = sorted(groups.items(), key=lambda group: group[0][0] != HELD)
    return [_sentence(*key, names) for key, names in ordered]


def _sentence(lost: str, outcome: str, words: str, names: Sequence[str]) -> str:
    did = f"{_DID[outcome]} {words}".strip()
    if lost == HELD:
        still = "" if outcome == "correct" else "still "
        return f"The evidence was in the prompt: {listed(names)} {still}{did}."
    if lost == model.DROPPED:
        return f"{listed(names)} dropped the evidence and {did}."
    return f"Evidence {lost}: {listed(names)} {did}."


def _lost_evidence(view: ArmView, pieces: Sequence[Piece]) -> str:
    """Which evidence was not in the prompt: :data:`HELD` for none, "dropped" for all of it, else in
    words."""
    if {view.status(piece) for piece in pieces} == {model.DROPPED}:
        return model.DROPPED
    return model.lost_words(view, pieces)


def _short(text: str) -> str:
    return marks.shortened(" ".join(api.undated(text).split()), SHORT).rstrip(".")


def contrast(answer: str, reference: str) -> str:
    """What was answered, and instead of what where each text has a single value; else the answer,
    shortened and quoted; "" without an answer."""
    if not answer.strip():
        return ""
    values = [api.single_value(api.undated(text)) for text in (answer, reference)]
    if all(values) and values[0] != values[1]:
        return f"{values[0]} instead of {values[1]}"
    return f"“{_short(answer)}”"
