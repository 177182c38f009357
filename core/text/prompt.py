"""From a selection to what a reader is really given, with the question safe by construction.

The context is budgeted in the reader's own tokens before the prompt is put together, so a prompt
without its question and assistant header cannot be built. Every line of the context is one line
that begins with its date, and so is the question and each of its options: nothing a record says can
look like a part of the prompt. The published faults (build first, cut on the right; clip the full
record's context) are switches of the protocol and record what they cut (docs/methods.md, Stage 2:
reading).

Options of a multiple-choice question are listed after it; :mod:`midchart.core.text.choices` says
which one an answer chooses.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from datetime import time as clock
from functools import lru_cache

from midchart.core.access import needs
from midchart.core.errors import InputError, WorkFailed
from midchart.core.parsing import valid_unicode
from midchart.core.protocol import Protocol
from midchart.core.text import count_tokens, for_prompt, one_line
from midchart.core.types import ContextLine, Prompt, Selection, Sentence, Span

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST = len(LETTERS)
ANSWER_FORMAT = (
    'Answer with "The correct answer is", the letter of the correct option, a colon and its text.'
)
"""What a prompt asks for, as the authors of LongHealth do (arXiv 2401.14490)."""


def option_text(options: Sequence[str], index: int) -> str:
    """An option as prompts and answers write it: "B: both lungs"."""
    return f"{LETTERS[index]}: {one_line(options[index])}"


def listed(options: Sequence[str]) -> list[str]:
    """All options, a line each, and what an answer is to look like; none without options."""
    lines = [option_text(options, index) for index in range(len(options))]
    return [*lines, ANSWER_FORMAT] if lines else []


SYSTEM = "You are a clinical assistant."
"""The system message of every prompt."""
REQUEST = (
    "Based ONLY on the patient record below, answer the question briefly.\n\nPATIENT RECORD:\n"
)
"""The beginning of the user's message; context, :data:`MIDDLE` and question follow."""
HEAD = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{REQUEST}"
MIDDLE = "\n\nQUESTION: "
TAIL = "<|im_end|>\n<|im_start|>assistant\n"
NOT_DOCUMENTED = "Not documented."
"""What a reader that quotes says where no line answers; every judge counts it a refusal."""

_CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Frame:
    """The text of a prompt before the context, between context and question, and after it.

    A frame renders two messages, the system's and the user's, as ``template`` does (as in
    :class:`midchart.core.types.Prompt`).
    ``ends``: texts by which a model that does not stop there begins another turn. ``start``: the
    token at the head's beginning that a server's tokenizer writes by itself. ``control``: the
    model's control tokens of forms that ``for_prompt`` does not know, for it.
    """

    head: str
    middle: str
    tail: str
    template: str = ""
    ends: tuple[str, ...] = ()
    start: str = ""
    control: tuple[str, ...] = ()

    def text(self, context: str, question: str) -> str:
        """A prompt."""
        return self.head + context + self.middle + question + self.tail


_STARTS = ("<bos>",)
"""Control tokens that only the beginning of a prompt may be."""
CHATML = Frame(HEAD, MIDDLE, TAIL, "chatml", ("<|im_end|>", "<|im_start|>"))
"""The paper's prompt: Qwen's own template."""
MESSAGES = Frame(f"{SYSTEM}\n\n{REQUEST}", MIDDLE, "", "messages")
"""Both messages as they are, for a server that renders them itself."""
_USER = Frame(REQUEST, MIDDLE, "")


def frame_of(reader: object) -> Frame:
    """The frame of a reader's prompts: its attribute ``frame``, or ChatML."""
    return getattr(reader, "frame", CHATML)


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """The two messages of a prompt, as chat endpoints take them.

    Raises WorkFailed for a prompt that was cut on the right: its frame was not closed, and a chat
    endpoint would close it.
    """
    if not prompt.user:
        raise WorkFailed(
            "a prompt cut on the right can only go through /v1/completions (path = "
            '"completions", template = "chatml")'
        )
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt.user}]


_REFILLS = 2
"""How often lines that were cut are tried again in what the first cut left free."""


def day(time: datetime | None) -> str:
    """The ISO date of a time, or "undated"."""
    return time.date().isoformat() if time else "undated"


CODED = re.compile(r"^(?:.*, )?coded entry: ")
"""A line that is what was read of the codes of an entry."""
LINE_DATE = r"(?:\d{4}-\d\d-\d\d(?:T\d\d:\d\d)?|undated)"
"""Pattern of what :func:`line_date` writes."""


def line_date(time: datetime | None, protocol: Protocol) -> str:
    """The date that a line begins with: an ISO day or "undated"; under ``line_time = "time"`` with
    hours and minutes, unless they are midnight, as those of a source that has days alone are."""
    if protocol.line_time == "day" or time is None or time.time() == clock.min:
        return day(time)
    return time.isoformat()[:16]


def line_text(sentence: Sentence, protocol: Protocol) -> str:
    """A sentence as a reader sees it: its ISO date and its text on one line."""
    return f"[{line_date(sentence.time, protocol)}] {one_line(sentence.text)}"


_DATE = re.compile(rf"\[(?:{LINE_DATE}(?: to {LINE_DATE})?\] |[^\]]*\]?$)")
"""The date or dates of a line, or what a cut left of them."""


def without_date(line: str) -> str:
    """A context line without its date or dates, where it has any."""
    return line[match.end() :] if (match := _DATE.match(line)) else line


def body(line: ContextLine) -> str:
    """A context line's text without its date."""
    return without_date(line.text)


def is_heading(line: str) -> bool:
    """Whether a line ends with its only colon, has capitals only, or is marked as a heading."""
    text = line.strip()
    marked = text.startswith("#") or (text.startswith("**") and text.endswith("**"))
    labels = text.endswith(":") and text.count(":") == 1
    return marked or labels or (text.isupper() and not any(map(str.isdigit, text)))


def written(line: str | None) -> str:
    """What a reader that quotes writes: a context line verbatim, its date first,
    or that none answers. Tokens of a line are the same here as in the prompt."""
    return f" {NOT_DOCUMENTED}" if line is None else f"\n{line}"


def quoted(text: str, line: str) -> str:
    """A quote with the date of the line it is from, last and in brackets."""
    return f"{text} [{dated(line)}]"


_QUOTED = re.compile(rf" \[{LINE_DATE}\]$")


def undated(quote: str) -> str:
    """A quote without the date that :func:`quoted` gave it."""
    return _QUOTED.sub("", quote)


def dated(line: str) -> str:
    """The date of a context line, as :func:`line_date` wrote it."""
    return line.partition("] ")[0][1:]


@needs("viewer")
def context_lines(
    selection: Selection, protocol: Protocol, control: tuple[str, ...] = ()
) -> tuple[ContextLine, ...]:
    """The selection's sentences, or what its arm wrote in their place, as context lines.

    ``control``: control tokens of the model that reads, of :class:`Frame`.
    """
    if selection.lines is not None:
        return tuple(replace(line, text=_clean(line.text, control)) for line in selection.lines)
    return tuple(
        ContextLine(
            entry.sentence.id,
            _clean(line_text(entry.sentence, protocol), control),
            title=_clean(entry.sentence.title),
            section=_clean(entry.sentence.section),
        )
        for entry in selection.kept
    )


def context_texts(selection: Selection) -> list[str]:
    """What a reader learns of the record, line by line, without dates and as the record has it."""
    if selection.lines is not None:
        return [body(line) for line in selection.lines]
    return [entry.sentence.text for entry in selection.kept]


def was_cut(prompt: Prompt) -> bool:
    """Whether a prompt lost anything of its selection: a line, a part of one, or the question."""
    return bool(prompt.cut) or prompt.clipped or not prompt.question_survived


@lru_cache(maxsize=1 << 15)  # lines of a record, which many prompts show
def _clean(text: str, control: tuple[str, ...] = ()) -> str:
    """One line without control tokens, which every tokenizer can encode."""
    return for_prompt(valid_unicode(one_line(text)), control)


def build_prompt(
    question: str,
    selection: Selection,
    protocol: Protocol,
    window: int,
    count: _CountTokens,
    frame: Frame = CHATML,
    options: Sequence[str] = (),
) -> Prompt:
    """The prompt for a question over a selection; ``options`` are listed after the question.

    ``window`` is the reader's longest prompt plus answer, in tokens as ``count`` counts them; a
    selection may have another. Under truncation "context", lines are left out whole
    until the rest fits: for the arm ``full``, and for a context that its arm wrote, from the side
    that the protocol does not keep; for others the lowest scores first. Lines of the recency buffer
    are dropped before any pick, and under ``recency_rule = "events_first"`` after all of them.
    Raises InputError when the question alone does not fit, and when the reader's window would cut
    a context for which the selection has a longer one.
    """
    arm_window = selection.window
    longest, window = window, min(window, arm_window or window)
    question = _clean(question, frame.control)
    asked = "\n".join((question, *(_clean(line, frame.control) for line in listed(options))))
    user = _USER
    if protocol.question_place == "both":
        frame, user = _asked_first(frame, asked), _asked_first(user, asked)
    everything = context_lines(selection, protocol, frame.control)
    lines = everything
    if selection.arm == "full" and protocol.full_characters:
        lines = _clipped(everything, protocol.full_characters, _sentences(selection))
    if protocol.truncation == "right":
        limit = protocol.right_tokens
        if selection.arm == "full":
            limit = arm_window or protocol.right_tokens_full
        prompt = _cut_right(asked, lines, min(limit, window), count, frame, selection)
    else:
        prompt = _budgeted(asked, lines, selection, protocol, window, count, frame)
    cut = prompt.cut + tuple(line.sentence_id for line in everything[len(lines) :])
    if cut and arm_window > longest:
        raise InputError(
            f"the arm {selection.arm!r} has a window of {arm_window} tokens and the reader one of "
            f"{longest}, which would cut this context; give the reader a longer one, or the arm a "
            "shorter one"
        )
    context = "\n".join(line.text for line in prompt.context)
    uncut = prompt.text == frame.text(context, asked)
    return replace(
        prompt,
        question=question,
        cut=cut,
        clipped=bool(prompt.context) and prompt.context[-1] not in everything,
        options=tuple(options),
        user=user.text(context, asked) if uncut else "",
        template=frame.template,
    )


def _asked_first(frame: Frame, asked: str) -> Frame:
    """A frame with the question before the heading of the context too."""
    before, gap, heading = frame.head.rpartition("\n\n")
    start = "" if gap else next((one for one in _STARTS if heading.startswith(one)), "")
    question = frame.middle.lstrip("\n") + asked
    head = f"{before}{gap}{start}{question}\n\n{heading.removeprefix(start)}"
    return replace(frame, head=head)


def limited(question: str, selection: Selection, protocol: Protocol) -> Prompt:
    """What the protocol's own limits and the arm's window leave of a selection, whoever reads it.

    Tokens are those of :func:`midchart.core.text.count_tokens`; a reader's own window is not known
    here.
    """
    return build_prompt(question, selection, protocol, sys.maxsize, count_tokens)


def limits(protocol: Protocol) -> bool:
    """Whether a protocol limits prompts or their contexts itself."""
    return (
        protocol.truncation == "right"
        or protocol.context_tokens > 0
        or protocol.full_characters > 0
    )


def _budgeted(
    question: str,
    lines: Sequence[ContextLine],
    selection: Selection,
    protocol: Protocol,
    window: int,
    count: _CountTokens,
    frame: Frame,
) -> Prompt:
    """The context is cut to what the question leaves of the window."""
    # Tokens that are left for lines.
    around = count(frame.text("", question))
    room = window - protocol.answer_tokens - around
    if room < 0:
        raise InputError(
            f"the question is {around} tokens with its frame; the reader's window of {window} "
            f"less {protocol.answer_tokens} for the answer leaves no place for it"
        )
    if protocol.context_tokens:
        room = min(room, protocol.context_tokens)
    order = _drop_order(selection, len(lines), protocol)
    # A newline may or may not be a token; one is reserved a line so the sum is an upper bound.
    costs = [count(line.text) + 1 for line in lines]

    def put_together(indices: set[int]) -> tuple[Prompt, int]:
        """The prompt of these lines, and by how many tokens it is too long."""
        shown = tuple(line for i, line in enumerate(lines) if i in indices)
        context = "\n".join(line.text for line in shown)
        text = frame.text(context, question)
        cut = tuple(line.sentence_id for i, line in enumerate(lines) if i not in indices)
        prompt = Prompt(text, question, shown, count(text), cut)
        excess = prompt.tokens + protocol.answer_tokens - window
        if protocol.context_tokens:
            excess = max(excess, count(context) - protocol.context_tokens)
        return prompt, excess

    # Lines by the sum of their tokens, then fewer until the prompt fits.
    fitting = _fit(costs, room, order)
    prompt, excess = put_together(fitting)
    # Tokenizers are not exactly additive: lines are dropped until the complete prompt fits.
    while excess > 0 and fitting:
        fitting = _fit(
            costs,
            sum(costs[i] for i in fitting) - excess,
            [i for i in order if i in fitting],
        )
        prompt, excess = put_together(fitting)
    # More lines where the sum reserved too much.
    for _ in range(_REFILLS):
        more = _fit(costs, sum(costs[i] for i in fitting) - excess, order)
        if len(more) <= len(fitting):
            break
        fuller, over = put_together(more)
        if over > 0:
            break
        fitting, prompt, excess = more, fuller, over
    return prompt


def _drop_order(selection: Selection, n: int, protocol: Protocol) -> list[int]:
    """Indices of ``n`` lines in the order in which they are dropped."""
    indices = list(range(n))
    if selection.arm == "full" or selection.lines is not None:
        return indices if protocol.full_side == "latest" else indices[::-1]
    worst = float("-inf")

    def rank(i: int) -> tuple[int, float, int]:
        entry = selection.kept[i]
        first = protocol.recency_rule == "events_first"
        buffered = entry.kept_by != "arm" if first else entry.kept_by == "recency"
        # Among equal scores the earlier line stays; among the buffer's lines the later one does.
        score = worst if entry.score is None else entry.score
        order = 0 if entry.kept_by == "filler" else 1 + (buffered == first)
        return (order, score, i if buffered else -i)

    return sorted(indices, key=rank)


def _fit(costs: Sequence[int], room: int, drop_order: Sequence[int]) -> set[int]:
    """What of ``drop_order`` is left when enough of its head is dropped; at least one goes
    where they do not fit."""
    remaining = set(drop_order)
    total = sum(costs[i] for i in drop_order)
    for i in drop_order:
        if total <= room:
            break
        remaining.discard(i)
        total -= costs[i]
    return remaining


def _cut_right(
    question: str,
    lines: Sequence[ContextLine],
    limit: int,
    count: _CountTokens,
    frame: Frame,
    selection: Selection,
) -> Prompt:
    """The published fault: the finished prompt is cut on the right at ``limit`` tokens."""
    context = "\n".join(line.text for line in lines)
    text = frame.text(context, question)
    tokens = count(text)
    if tokens <= limit:
        return Prompt(text, question, tuple(lines), tokens)
    high = min(len(text), 16 * (limit + 1))
    while high < len(text) and count(text[:high]) <= limit:
        high = min(len(text), 2 * high)
    # The longest prefix within the limit; count is monotone in the prefix.
    end = bisect_right(range(high + 1), limit, key=lambda n: count(text[:n])) - 1
    asked = len(text) - len(frame.tail)
    text = text[:end]
    shown = _clipped(lines, max(0, end - len(frame.head)), _sentences(selection))
    cut = tuple(line.sentence_id for line in lines[len(shown) :])
    return Prompt(text, question, shown, count(text), cut, question_survived=asked <= end)


def _sentences(selection: Selection) -> dict[str, Sentence]:
    return {entry.sentence.id: entry.sentence for entry in selection.kept}


def _clipped(
    lines: Sequence[ContextLine], characters: int, sentences: Mapping[str, Sentence]
) -> tuple[ContextLine, ...]:
    """The lines that the first ``characters`` of the joined context hold, the last in part.

    A line of which only the date is left is none.
    """
    shown: list[ContextLine] = []
    for line in lines:
        if characters <= 0:
            break
        if len(line.text) <= characters:
            shown.append(line)
        elif body(part := replace(line, text=line.text[:characters])).strip():
            shown.append(replace(part, shown=_lines_start(part, sentences.get(line.sentence_id))))
        characters -= len(line.text) + 1
    return tuple(shown)


def _lines_start(line: ContextLine, sentence: Sentence | None) -> tuple[Span, ...]:
    """What of the record a line gives that was cut on the right.

    A line has the visible characters of what it shows, in order; only white space may differ.
    """
    if sentence is None or line.shown == ():
        return ()
    left = sum(not character.isspace() for character in body(line))
    begin, spans = sentence.span.start, list[Span]()
    for span in line.shown if line.shown is not None else (sentence.span,):
        end = span.start
        while left and end < span.end:
            left -= not sentence.text[end - begin].isspace()
            end += 1
        if end > span.start:
            spans.append(Span(span.event, span.start, end))
    return tuple(spans)
