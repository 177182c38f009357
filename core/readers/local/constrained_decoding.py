"""An answer held to some texts: what the model chooses among is only how one of them goes on.

Greedy decoding under a constraint (Willard & Louf 2023, arXiv 2307.09702, of a grammar; here of a
list): at each step the likeliest of the tokens with which a text goes on. Where only one text is
left there is nothing to choose, and its rest is the answer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Tree = dict[int, Any]
"""A token's successors, by token, each with its own."""


def tree(texts: Iterable[Sequence[int]]) -> Tree:
    """The texts as a tree; each ends with a token that no text goes on after."""
    root: Tree = {}
    for text in texts:
        at = root
        for token in text:
            at = at.setdefault(token, {})
    return root


def likeliest(logits: Any, at: Tree) -> int:
    """The token of largest logit [vocabulary] with which a text goes on; of equals the lowest."""
    tokens = sorted(at)
    return tokens[int(logits[tokens].argmax())]


def rest(at: Tree) -> list[int]:
    """The tokens that follow while there is but one way to go on."""
    said: list[int] = []
    while len(at) == 1:
        token, at = next(iter(at.items()))
        said.append(token)
    return said
