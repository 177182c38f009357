"""Reasoning that a model writes before its answer, in tags that its template defines."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\s*(?:<(think|thinking|reasoning)>|\[(THINK)\])")


def split_reasoning(text: str, opened: bool = False) -> tuple[str, str]:
    """The reasoning at the start of a text and the answer after it, both without outer white space.

    Reasoning is a first block ``<think>``, ``<thinking>``, ``<reasoning>`` (Qwen3, DeepSeek-R1) or
    ``[THINK]`` (Magistral). ``opened``: the prompt itself ended with the opening tag; a text with a
    closing ``</think>`` alone is of this kind too. A block that is not closed is all reasoning.
    """
    opening = _OPENING.match(text)
    if opening is None:
        before, closing, after = text.partition("</think>")
        if closing:
            return before.strip(), after.strip()
        return (text.strip(), "") if opened else ("", text.strip())
    tag = opening[1] or opening[2]
    close = f"[/{tag}]" if opening[2] else f"</{tag}>"
    inside, _, after = text[opening.end() :].partition(close)
    return inside.strip(), after.strip()
