"""Batches of prompts of similar length or with a common prefix, and answers from a list of texts.

Pure planning over token ids, longest first, deterministic. Prompts that share a long prefix (the
same record under ``full``, with different questions) form a group whose prefix is read once; all
others are batched by length. ``batch_tokens`` bounds the padded tokens of a batch, answers
included, which determine the size of its key-value cache.

Constrained decoding: an answer must be one of a list of texts. Greedy decoding under a constraint
(Willard & Louf 2023, arXiv 2307.09702, for grammars; here for a list): at each step the most
probable token that continues an allowed text. Where only one text remains, its rest is appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
LEAST_SHARED = 256
"""Least tokens of a common prefix that is worth a separate pass."""


@dataclass(frozen=True, slots=True)
class Group:
    """Batches of prompts (by index) whose first ``shared`` tokens are the same."""

    shared: int
    batches: tuple[tuple[int, ...], ...]


def plan(prompts: Sequence[Ids], answer: int, batch_tokens: int, share: bool = True) -> list[Group]:
    """Groups that hold each prompt once.

    ``prompts`` are token ids, ``answer`` the tokens an answer may have. A prompt that is longer
    than ``batch_tokens`` is a batch alone. ``share`` False leaves prefixes unshared.
    """
    alike = _by_prefix(prompts) if share else []
    taken = {i for members, _ in alike for i in members}
    rest = [i for i in range(len(prompts)) if i not in taken]
    groups = [
        Group(shared, _cut(prompts, members, answer, batch_tokens)) for members, shared in alike
    ]
    if rest:
        groups.append(Group(0, _cut(prompts, rest, answer, batch_tokens)))
    return groups


def _by_prefix(prompts: Sequence[Ids]) -> list[tuple[list[int], int]]:
    """Groups of two or more prompts and the tokens they share, at least half of the longest."""
    groups: list[tuple[list[int], int]] = []
    for i in sorted(range(len(prompts)), key=lambda i: prompts[i].tobytes()):
        if groups:
            members, shared = groups[-1]
            # One token must remain, whose logits give the first token of the answer.
            n = min(len(prompts[members[-1]]), len(prompts[i]), len(prompts[members[0]]) - 1)
            n = min(n, len(prompts[i]) - 1)
            differs = np.flatnonzero(prompts[members[-1]][:n] != prompts[i][:n])
            both = min(shared, int(differs[0]) if len(differs) else n)
            longest = max(len(prompts[j]) for j in (*members, i))
            if both >= LEAST_SHARED and 2 * both >= longest:
                groups[-1] = ([*members, i], both)
                continue
        groups.append(([i], len(prompts[i])))
    return [(members, shared) for members, shared in groups if len(members) > 1]


def _cut(
    prompts: Sequence[Ids], members: Sequence[int], answer: int, batch_tokens: int
) -> tuple[tuple[int, ...], ...]:
    """Members by length, longest first, in batches of at most ``batch_tokens`` padded tokens."""
    batches: list[list[int]] = []
    for i in sorted(members, key=lambda i: (-len(prompts[i]), i)):
        if (
            not batches
            or (len(batches[-1]) + 1) * (len(prompts[batches[-1][0]]) + answer) > batch_tokens
        ):
            batches.append([])
        batches[-1].append(i)
    return tuple(tuple(batch) for batch in batches)


LONGEST_REPEAT, LEAST_REPEATED = 64, 36
"""Tokens of the longest piece that counts as repeated, and of the shortest repetition."""


def repeated(ids: Sequence[int]) -> int:
    """How many tokens at the end of an answer only say its line again and again (0: none): those
    after the first of at least three equal pieces of at most LONGEST_REPEAT tokens each."""
    for period in range(1, min(LONGEST_REPEAT, len(ids) // 3) + 1):
        length = period * max(3, -(-LEAST_REPEATED // period))
        if length <= len(ids):
            end = list(ids[-length:])
            if end[period:] == end[:-period]:
                while length < len(ids) and ids[-length - 1] == ids[period - length - 1]:
                    length += 1
                return length - period
    return 0


Tree = dict[int, Any]
"""A token's successors, by token, each with its own."""


def tree(texts: Iterable[Sequence[int]]) -> Tree:
    """The texts as a tree; each ends with a token that no text continues."""
    root: Tree = {}
    for text in texts:
        at = root
        for token in text:
            at = at.setdefault(token, {})
    return root


def rest(at: Tree) -> list[int]:
    """The following tokens while there is only one continuation."""
    generated: list[int] = []
    while len(at) == 1:
        token, at = next(iter(at.items()))
        generated.append(token)
    return generated
