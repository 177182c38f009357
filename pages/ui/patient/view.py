"""The sections of the Patient page: map, arms, evidence and files.

A card an arm says whether the evidence was kept, cut or dropped, what the reader answered and which
sentences were ranked best. Statuses are words in the borders of :mod:`pages.ui.shared.marks`, never
red or green; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api, figures
from midchart.pages.ui import state
from midchart.pages.ui.patient import controls, model, reasons, timeline
from midchart.pages.ui.patient.model import ArmView, Choice, Piece, head
from midchart.pages.ui.shared import chart, marks, tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick_linked, segments
from midchart.pages.ui.sign_in import download_button
from midchart.pages.ui.state import cached


def views_of(choice: Choice, heat: str) -> tuple[list[ArmView], model.Reading, dict[str, int]]:
    """The arms' results on the question, their thread and how far it is: what takes longer than a
    moment is shown once the thread has it."""
    titles = state.titles("arm")
    views: dict[str, ArmView] = {}
    able: dict[str, str] = {}
    for name in choice.arms:
        view = ArmView(name, titles[name], problem=model.problem(choice, name))
        views[name] = view
        if not view.problem:
            able[name] = view.title
    reading = model.reading(choice, able, model.reads(choice), heat)
    stages = reading.wait(model.MOMENT_S)
    for name in able:
        if stages[name] == model.WAITING:
            views[name] = replace(views[name], running=True)
        else:
            views[name] = model.view(choice, name, able[name], stages[name] == model.READ)
    return list(views.values()), reading, stages


def arms(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    reading: model.Reading,
    stages: Mapping[str, int],
) -> None:
    """What each arm kept and what the reader made of it, and what else the chart says."""
    titles = {view.name: view.title for view in views}
    st.html(cards(choice, views, pieces))
    if set(stages.values()) - {model.READ}:
        _at_work(reading, stages, titles)
    if choice.reader and model.reading_waits(choice):
        st.button(
            f"Answer with {choice.reader_title}", type="primary", key="patient_answer",
            on_click=model.ask_reader, icon=":material/quick_reference_all:", args=(choice,),
        )  # fmt: skip
    st.html(asked(choice, views, pieces, model.other_values(choice)))
    _limits(choice)


@st.fragment(run_every=0.7)
def _at_work(reading: model.Reading, stages: Mapping[str, int], titles: Mapping[str, str]) -> None:
    """Which arms and answers are not there yet; draws the page again when more are."""
    if reading.wait(0) != stages:
        st.rerun(scope="app")
    titles = {**titles, model.HEAT: "the heat of the map"}
    selecting = [titles[name] for name, stage in stages.items() if stage == model.WAITING]
    answering = [titles[name] for name, stage in stages.items() if stage == model.SELECTED]
    words = [f"{api.names_in_words(selecting)} (scoring sentences)"] if selecting else []
    words += [f"answers under {api.names_in_words(answering)}"] if answering else []
    with st.container(key="patient_at_work"):
        st.caption(
            f":material/hourglass_top: Running: {for_screen('; '.join(words))}. "
            "The first time on a "
            "record takes some seconds; the page shows them by itself."
        )


def facts(choice: Choice) -> str:
    """Who the chart is of, and what the question is about (markdown)."""
    instruction = choice.instruction
    words = ["Synthetic chart"] if choice.cohort.manifest.synthetic else []
    words += [model.facts(choice.record), instruction.domain, instruction.specialty]
    return for_screen(" · ".join(filter(None, words)))


def _limits(choice: Choice) -> None:
    instruction = choice.instruction
    words: list[str] = []
    note = model.evidence_note(choice.gold)
    if not note and choice.gold is not None and not choice.gold.exact:
        words.append("Evidence located by matching its text.")
    if instruction.cutoff is not None:
        words.append("Arms may not use events after the question's cut-off time.")
    words += [for_screen(controls.why_opened(instruction, choice.cohort_key))]
    st.caption(" · ".join(filter(None, words)))
    if note:
        st.info(for_screen(note))


# The map


def heat_of(choice: Choice) -> str:
    """The arm whose scores are the heat of the map, chosen above it; "" for none."""
    known = state.titles("arm")
    scored = [name for name in (GATE, *choice.arms) if name in known]
    titles = {
        name: f"Heat: {known[name]}"
        for name in dict.fromkeys(scored)
        if name in state.scored_arms() and not model.problem(choice, name)
    }  # fmt: skip
    titles[NO_HEAT] = "no heat"
    return pick_linked(
        "heat", "Heat of the map", titles, key="patient_heat", unlinked=next(iter(titles)),
        width=250, label_visibility="collapsed",
    )  # fmt: skip


GATE, NO_HEAT = "qccs", "none"


def _figure_key(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str, heat: str, hot: bool
) -> tuple[object, ...]:
    drawn = ((v.name, v.problem, v.running, v.prompt is not None) for v in views)
    about = (choice.reader, choice.run, by, figures.dark(), heat, hot)
    return *model.question_key(choice), *about, *drawn


@cached(_figure_key, entries=24, shared=True)
def _figure(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str, heat: str, hot: bool
) -> chart.Drawing:
    """The map: building it costs more than all else that a click on the page draws."""
    usable = hot and model.usable_scores(choice, heat) is not None
    table = model.scores(choice, heat) if usable else None
    title = api.title("arm", heat) if heat and (table is not None or not hot) else ""
    figure = timeline.figure(
        *(timeline.axis_of(choice.record), views, pieces, by, (title, table)),
        model.units(choice).places,
        {view.name: claim(choice, view, pieces).source for view in views},
    )  # fmt: skip
    return chart.Drawing.of(figure)


def axis_choice(choice: Choice) -> str:
    """Whether the map goes by order or by time."""
    timed = timeline.axis_of(choice.record).timed
    by = segments(
        "Axis", [timeline.ORDER, timeline.TIME], "axis", label_visibility="collapsed",
        width="content", disabled=not timed,
    )  # fmt: skip
    return by if timed else timeline.ORDER


def chart_map(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], by: str, heat: str, hot: bool
) -> tuple[chart.Drawing, str]:
    """The map of the chart, and what it shows in words; a click on a marker opens it in the record,
    and the record shows on the map where it is. ``hot``: the scores of its heat are there."""

    def select() -> None:
        if point := st.session_state["patient_timeline"].get("point"):
            event, _, _, sentence = map(int, point)
            units = model.units(choice).sentences
            id = units[sentence].id if sentence >= 0 else ""
            model.open_at(choice.record, choice.instruction, event, id)

    heat = "" if heat == NO_HEAT else heat
    drawing = _figure(choice, views, pieces, by, heat, hot and bool(heat))
    alt = timeline.alt(views, pieces, len(choice.record.events))

    chart.plot(drawing, alt, "patient_timeline", select, follows=True)
    return drawing, alt


def reading_the_map(choice: Choice, pieces: Sequence[Piece], by: str) -> None:
    """What the marks of the map mean."""
    words = [
        "Click a mark to open it in the record. ▼ the answer is from here; hollow: kept only as "
        "recent. Heat: ranks of the score, dark blue (last) to yellow (first)."
    ]
    if pieces:
        words.insert(0, "★ evidence; under an arm a ring: kept, crossed ring: cut, cross: dropped.")
    axis = timeline.axis_of(choice.record)
    if by == timeline.TIME and axis.undated:
        words.append(f"{axis.undated:,} undated events are not on this axis.")
    st.caption(" ".join(words))


# What is said of a question, as HTML


MOST_PIECES = 4
"""Pieces of evidence shown at once; more are folded."""
MOST_OTHERS = 2
"""Passages with another value shown at once; more are folded."""
MOST_CHARACTERS = 420
"""Characters of a passage shown."""

WRONG = "wrong or no answer"
"""The tag of a question that some arm answered wrongly, or not at all, with the evidence."""
UNKNOWN = "The share of the evidence in a summary is unknown."


def headline(views: Sequence[ArmView], pieces: Sequence[Piece], reference: str = "") -> str:
    """The sentence above everything else, as HTML: what was answered wrongly with the evidence in
    the prompt or without it; before an answer is judged, which arms dropped evidence and which kept
    it. What controls did is on their cards alone."""
    selected = [view for view in model.with_selection(views) if not view.summarised]
    if not pieces or not selected:
        return ""
    lost = {view.title: words for view in selected if (words := model.lost_words(view, pieces))}
    label = marks.CUT_EVIDENCE if lost else marks.KEPT_EVIDENCE
    if any(model.DROPPED in status for status in lost.values()):
        label = marks.DROPPED_EVIDENCE
    judged, harmful = _judged(selected, pieces, reference)
    if judged:
        methods = {view.title for view in selected if model.is_method(view.name)}
        label = WRONG if harmful and not lost.keys() & methods else label
        return _framed(label, judged, harmful)
    held = [view.title for view in selected if view.title not in lost]
    it = "it" if len(pieces) == 1 else "all of it"
    if not lost:
        words = f"{api.names_in_words(held)} kept {'the' if len(pieces) == 1 else 'all'} evidence."
    elif set(lost.values()) == {model.DROPPED}:
        words = f"{api.names_in_words(list(lost))} dropped the evidence."
    else:
        words = "; ".join(f"{name}: {status}" for name, status in lost.items()) + "."
    words += f" {api.names_in_words(held)} kept {it}." if lost and held else ""
    return _framed(label, words, bool(lost))


def _framed(label: str, headline: str, harmful: bool) -> str:
    """A sentence under a tag; the frame is dashed and the sentence bold where a person is
    harmed."""
    text = for_screen(headline, html=True)
    if not harmful:
        return f'<div class="mc-alarm mc-held">{marks.tag(label)}{text}</div>'
    tag = f'<span class="mc-dropped">{marks.tag(label)}</span>'
    return f'<div class="mc-alarm" role="status">{tag}<b>{text}</b></div>'


def asked(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    others: Sequence[api.OtherValue],
) -> str:
    """What the chart says of a question: the evidence with date and type, the reference answer, and
    ``others``, passages with another value or date of the evidence's item."""
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
    return marks.block(f'<dl class="mc-asked">{inside}</dl>' if rows else "")


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
        notes += [f"chosen: {api.names_in_words(by[index])}"] if index in by else []
        text = for_screen(api.option_text(options, index), html=True)
        text = f"<b>{text}</b>" if index == correct else text
        lines.append(f"<div>{text} <small>{for_screen(' · '.join(notes), html=True)}</small></div>")
    lines.append(f"<small>Guessing is correct in {100 / len(options):.0f} %.</small>")
    return "".join(lines)


def _folded(items: Sequence[str], most: int) -> str:
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
        f"{word} by {api.names_in_words(names)}"
        for word, names in statuses.items()
        if word in absent
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
    low, high = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    high = len(text) if high < 0 else high
    if start - low > MOST_CHARACTERS // 3:  # cut between words
        low = text.find(" ", start - MOST_CHARACTERS // 3, start) + 1 or start
    if high - end > MOST_CHARACTERS // 3:
        high = max(text.rfind(" ", end, end + MOST_CHARACTERS // 3), end)
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


def cards(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> str:
    """A card an arm: evidence kept, cut or dropped, the answer as the claim of its reader, the
    verdicts, and the sentences that were ranked best."""
    reader = next((view.reader for view in views if view.reader), "")
    caption = for_screen(f"Answers of {reader}" if reader else "Arms", html=True)
    rows = "".join(_card(choice, view, pieces) for view in views)
    return marks.block(
        f'<table class="mc-by-arm"><caption>{caption}</caption><tbody>{rows}</tbody></table>'
    )


def _card(choice: Choice, view: ArmView, pieces: Sequence[Piece]) -> str:
    look = figures.look_of(view.name)
    words = model.size_words(choice, view)
    name = (
        f"<i>{figures.GLYPHS.get(look.symbol, '●')}</i> <b>{for_screen(view.title, html=True)}</b>"
        f"<small>{for_screen(words, html=True)}</small>"
    )
    if view.selection is None:
        label = "running" if view.running else "not available"
        cells = [_note(label), for_screen(view.problem, html=True), ""]
    else:
        cells = [
            _status(view, pieces),
            _answer(choice, view, pieces) + _verdict(view),
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
        return ""
    if view.summarised:
        return _note("summarised") + f"<small>{UNKNOWN}</small>"
    lost = model.lost_words(view, pieces)
    if not lost:
        html = marks.mark(marks.KEPT_EVIDENCE, model.KEPT)
    else:
        dropped = model.DROPPED in lost or model.PARTLY in lost
        html = marks.mark(marks.DROPPED_EVIDENCE if dropped else marks.CUT_EVIDENCE, lost)
        html += f"<small>{for_screen(view.cut, html=True)}</small>" if model.CUT in lost else ""
    places = [
        f"{piece.number}: " * (len(pieces) > 1) + view.ranks[piece.number]
        for piece in pieces[:MOST_PIECES]
        if view.ranks.get(piece.number)
    ]
    return html + "".join(f"<small>{for_screen(place, html=True)}</small>" for place in places)


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


def _answer(choice: Choice, view: ArmView, pieces: Sequence[Piece]) -> str:
    """The answer as a claim of its reader, and the sentence that it rests on."""
    units = model.units(choice)
    answer = view.answer
    if view.reading_problem:
        return f"<small>Not read: {for_screen(view.reading_problem, html=True)}</small>"
    if answer is None:
        return "<small>Not answered yet.</small>" if view.reader else ""
    if answer.status != "ok" or not answer.text.strip():
        reason = for_screen(answer.reason or "the reader wrote nothing", html=True)
        return f"No answer: {reason} {marks.ended_html(answer.ended)}"
    claimed = claim(choice, view, pieces)
    who = for_screen(view.reader.partition(" (")[0], html=True)
    got = len(view.prompt.context) if view.prompt is not None else 0
    if claimed.state == api.DECLINES:
        unit = choice.protocol.unit
        return (
            f"<small>{who} {claimed.state} in the {got:,} {unit}s it got "
            f"(of {len(units.sentences):,}): "
            f"{for_screen(marks.shortened(answer.text, SHORT), html=True)}</small>"
        )
    text = f"<q>{for_screen(marks.shortened(answer.text, MOST_CHARACTERS), html=True)}</q>"
    text += f" {marks.ended_html(answer.ended)}"
    if view.prompt is not None and not view.prompt.question_survived:
        text += f" {marks.mark(marks.CUT_EVIDENCE, 'question was cut off')}"
    words = f"{who} {claimed.state}"
    if claimed.source in units.places:
        sentence = units.sentences[units.places[claimed.source]]
        words += f"{'' if claimed.stated else ' (nearest line)'}: "
        words += for_screen(head(choice.record.events[sentence.span.event]), html=True)
        if " ".join(sentence.text.split()) not in " ".join(answer.text.split()):
            words += f": “{for_screen(marks.shortened(sentence.text), html=True)}”"
    return f"{text}<small>{words}</small>"


def _ranked(choice: Choice, view: ArmView) -> str:
    scores = [one.score for one in view.kept if one.score is not None]
    if len(scores) > 1 and len({*scores}) == 1:  # it ranks none above another
        return ""
    best = api.best_ranked(view.kept, MOST_RANKED)
    lines = "".join(
        f"<li><time>{for_screen(model.when(choice.record.events[one.span.event]), html=True)}"
        f"</time> {for_screen(marks.shortened(one.text, MOST_OF_RANKED), html=True)}</li>"
        for one in best
    )
    return f'<small>Ranked best</small><ul class="mc-ranked">{lines}</ul>' if best else ""


MOST_RANKED, MOST_OF_RANKED = 2, 160
"""Sentences that are listed under an answer, and characters of each."""


def _verdict(view: ArmView) -> str:
    """The deciding judge's verdict first, then of the others those that differ or have a reason."""
    if not view.verdicts:
        return ""
    first, *others = view.verdicts.items()
    html = marks.outcome_html(first[1].outcome, first[1].refusal)
    differ = [one for one in others if one[1].outcome != first[1].outcome]
    decides = ", which decides" if differ else ""
    return f"{html}<small>by {_judge_words(*first)}{decides}</small>" + "".join(
        f"<small>{_judge_words(name, verdict, verdict.outcome)}</small>" for name, verdict in differ
    )


def _judge_words(name: str, verdict: api.Verdict, outcome: str = "") -> str:
    words = ": ".join(filter(None, (api.title("judge", name), outcome)))
    why = marks.shortened(verdict.reason or verdict.raw, SHORT)
    return for_screen(f"{words} ({why})" if why else words, html=True)


# What an answer means for the person it is about


SHORT = 60
"""Characters of an answer, or of a judge's reply, in a sentence."""
HELD = ""
"""The status of evidence that is present whole."""


def _judged(views: Sequence[ArmView], pieces: Sequence[Piece], reference: str) -> tuple[str, bool]:
    """The sentences on the judged answers of methods, and whether any is wrong or missing: wrong
    ones before missing ones, those with the evidence in the prompt first; what was right where all
    was."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for view in views:
        outcome = _outcome_of(view)
        if outcome and model.is_method(view.name):
            answer = view.answer.text if view.answer and outcome == "incorrect" else ""
            key = _lost_evidence(view, pieces), outcome, contrast(answer, reference)
            groups.setdefault(key, []).append(view.title)
    wrong = {key: names for key, names in groups.items() if key[1] != "correct"}
    ordered = sorted(
        (wrong or groups).items(),
        key=lambda group: (group[0][1] != "incorrect", group[0][0] != HELD),
    )
    return " ".join(_sentence(*key, names) for key, names in ordered), bool(wrong)


def _outcome_of(view: ArmView) -> str:
    """Of the judge that decides: "correct", "incorrect", "no answer" for a refusal
    or silence that is incorrect; "" where it says neither."""
    first = next(iter(view.verdicts.values()), None)
    if first is None or first.outcome not in ("correct", "incorrect"):
        return ""
    silent = first.refusal or view.answer is None or not view.answer.text.strip()
    return "no answer" if silent and first.outcome == "incorrect" else first.outcome


_DID = {"incorrect": "answered", "no answer": "gave no answer", "correct": "answered correctly"}


def _sentence(lost: str, outcome: str, words: str, names: Sequence[str]) -> str:
    did = f"{_DID[outcome]} {words}".strip()
    if lost == HELD:
        still = "" if outcome == "correct" else "still "
        return f"The evidence was in the prompt: {api.names_in_words(names)} {still}{did}."
    if lost == model.DROPPED:
        return f"{api.names_in_words(names)} dropped the evidence and {did}."
    return f"Evidence {lost}: {api.names_in_words(names)} {did}."


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


REASONS = {
    "why": ("Why was it kept?", reasons.why),
    "prompts": ("What did the reader get?", reasons.prompts),
}


@st.fragment
def why(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """Why a sentence was kept, and the prompts of two arms; each is made when it is opened."""
    for name, (title, draw) in REASONS.items():
        box = st.expander(title, on_change="rerun", key=f"patient_{name}")
        if box.open:
            with box:
                draw(choice, views, pieces)


# Files


COLUMNS = (
    *("arm", "sentence", "event", "time", "kind", "position"),
    *("status", "kept_by", "score", "text"),
)


def selections_frame(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]
) -> pd.DataFrame:
    """The sentences that each arm kept and the gold sentences that it dropped, with status."""
    gold, events = model.gold_ids(pieces), choice.record.events
    units = api.sentences(choice.record, choice.protocol) if gold else ()
    rows: list[tuple[Any, ...]] = []
    for view in model.with_selection(views):
        entries = [(k.sentence, k.kept_by, k.score) for k in view.kept]
        ids = {sentence.id for sentence, _, _ in entries}
        dropped = [(unit, "", None) for unit in units if unit.id in gold and unit.id not in ids]
        for sentence, kept_by, score in entries + dropped:
            event = sentence.span.event
            time = events[event].time and events[event].time.isoformat()
            rows.append(
                (
                    *(view.name, sentence.id, event, time, events[event].kind),
                    round(model.position(choice.record, event), 6),
                    model.label_of(view, sentence.id, sentence.id in gold),
                    *(kept_by, score, sentence.text),
                )
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def files(
    choice: Choice,
    views: Sequence[ArmView],
    pieces: Sequence[Piece],
    drawn: tuple[chart.Drawing, str],
) -> None:
    """What each arm kept and which evidence it dropped, as a file; and the map as a figure."""
    chart.export(drawn[0].figure, drawn[1], "patient_timeline")
    content = tables.csv_bytes(selections_frame(choice, views, pieces)).decode()
    name = f"midchart_{choice.instruction.id}.csv"
    download_button("Selections, CSV", name, "text/csv", partial(str, content))
    st.caption("It contains text of the record: store it only where the record may be stored.")
