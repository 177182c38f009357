"""From a selection to what a reader is really given, with the question safe by construction.

The context is budgeted in the reader's own tokens before the prompt is put together, so a prompt
without its question and assistant header cannot be built. The published fault (build first, cut
on the right) is a switch of the protocol and records what it cut (PROTOCOL, Stage 2: reading).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.errors import InputError
from core.protocol import Protocol
from core.text import neutralise, one_line
from core.types import ContextLine, Prompt, Selection, Sentence

HEAD = (
    "<|im_start|>system\nYou are a clinical assistant.<|im_end|>\n<|im_start|>user\n"
    "Based ONLY on the patient record below, answer the question briefly.\n\nPATIENT RECORD:\n"
)
MIDDLE = "\n\nQUESTION: "
TAIL = "<|im_end|>\n<|im_start|>assistant\n"

CountTokens = Callable[[str], int]


def line_text(sentence: Sentence) -> str:
    """A sentence as a reader sees it: its ISO date and its text on one line."""
    date = sentence.time.date().isoformat() if sentence.time else "undated"
    return f"[{date}] {one_line(sentence.text)}"


def context_lines(selection: Selection) -> tuple[ContextLine, ...]:
    """The selection's sentences as context lines, in the selection's order."""
    return tuple(
        ContextLine(kept.sentence.id, neutralise(line_text(kept.sentence)))
        for kept in selection.kept
    )


def build_prompt(
    question: str,
    selection: Selection,
    protocol: Protocol,
    window: int,
    count: CountTokens,
) -> Prompt:
    """The prompt for a question over a selection.

    ``window`` is the reader's longest prompt plus answer, in tokens as ``count`` counts them.
    Under truncation "context", lines are left out whole until the rest fits: for the arm
    ``full`` from the side that the protocol does not keep, for others the lowest scores first
    (recency lines last). Raises InputError when the question alone does not fit.
    """
    lines = context_lines(selection)
    question = neutralise(question)
    if protocol.truncation == "right":
        limit = protocol.right_tokens_full if selection.arm == "full" else protocol.right_tokens
        return _cut_right(question, lines, limit, count)
    frame = count(HEAD + MIDDLE + question + TAIL)
    room = window - protocol.answer_tokens - frame
    if room < 0:
        raise InputError(
            f"the question is {frame} tokens with its frame; the reader's window of {window} "
            f"less {protocol.answer_tokens} for the answer leaves no place for it"
        )
    if protocol.context_tokens:
        room = min(room, protocol.context_tokens)
    # A newline may or may not be a token; one is reserved a line so the sum is an upper bound.
    costs = [count(line.text) + 1 for line in lines]
    kept = _fit(costs, room, _drop_order(selection, protocol))
    while True:
        shown = tuple(line for i, line in enumerate(lines) if i in kept)
        text = HEAD + "\n".join(line.text for line in shown) + MIDDLE + question + TAIL
        tokens = count(text)
        if tokens + protocol.answer_tokens <= window or not kept:
            break
        # Tokenizers are not exactly additive: give way line by line until the whole fits.
        kept = _fit(costs, sum(costs[i] for i in kept) - 1, _drop_order(selection, protocol))
    cut = tuple(line.sentence_id for i, line in enumerate(lines) if i not in kept)
    return Prompt(text, question, shown, tokens, cut, True)


def _drop_order(selection: Selection, protocol: Protocol) -> list[int]:
    """Indices of lines in the order in which they give way."""
    indices = list(range(len(selection.kept)))
    if selection.arm == "full":
        return indices if protocol.full_side == "latest" else indices[::-1]
    worst = float("-inf")

    def rank(i: int) -> tuple[int, float, int]:
        kept = selection.kept[i]
        by_recency = kept.kept_by != "arm"
        return (by_recency, worst if kept.score is None else kept.score, i)

    return sorted(indices, key=rank)


def _fit(costs: Sequence[int], room: int, drop_order: Sequence[int]) -> set[int]:
    kept, total = set(range(len(costs))), sum(costs)
    for i in drop_order:
        if total <= room:
            break
        kept.discard(i)
        total -= costs[i]
    return kept


def _cut_right(
    question: str, lines: tuple[ContextLine, ...], limit: int, count: CountTokens
) -> Prompt:
    """The published fault: the finished prompt is cut on the right at ``limit`` tokens."""
    context = "\n".join(line.text for line in lines)
    text = HEAD + context + MIDDLE + question + TAIL
    tokens = count(text)
    if tokens <= limit:
        return Prompt(text, question, lines, tokens)
    low, high = 0, len(text)
    while low < high:  # longest prefix within the limit; count is monotone in the prefix
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= limit else (low, middle - 1)
    text = text[:low]
    shown: list[ContextLine] = []
    end = len(HEAD)
    for line in lines:
        if end >= low:
            break
        shown.append(ContextLine(line.sentence_id, line.text[: low - end]))
        end += len(line.text) + 1
    cut = tuple(line.sentence_id for line in lines[len(shown) :])
    survived = len(HEAD) + len(context) + len(MIDDLE) + len(question) <= low
    return Prompt(text, question, tuple(shown), count(text), cut, survived)
