"""How long a text is in the tokens of a model on another server.

With the model's own tokenizer here (``tokenizer.json`` in a folder of the models folder), exactly.
Without it, on the safe side: more than the byte-pair tokenizers of today's models make of
clinical text, so that a prompt that is thought to fit does fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from core import config as settings
from core.errors import InputError, MissingModel

_PIECE = re.compile(r"[A-Za-z]+|\s+|[^A-Za-z\s]")
LETTERS = 3
"""Letters a token of a rare word holds; common words are one token whatever their length."""


def cautious(text: str) -> int:
    """Tokens of ``text``, rather too many than too few.

    Every digit and mark counts one, every run of letters one for each three of them, every line
    break and every run of spaces one, every other character its bytes in UTF-8 (the most that a
    tokenizer that falls back to bytes can make of it).
    """
    total = 0
    for piece in _PIECE.findall(text):
        if piece.isspace():
            total += max(piece.count("\n"), int(len(piece) > 1))
        elif piece.isascii() and piece.isalpha():
            total += -(-len(piece) // LETTERS)
        else:
            total += len(piece.encode("utf-8", "replace"))
    return total


def counter(tokenizer: str) -> Callable[[str], int]:
    """What counts tokens: the tokenizer of that name, or :func:`cautious` for an empty name.

    Raises InputError for what is no name of a folder, MissingModel where it is not here.
    """
    if not tokenizer:
        return cautious
    if tokenizer in (".", "..") or "/" in tokenizer or "\\" in tokenizer:
        raise InputError("'tokenizer' names a folder of the models folder, not a path")
    file = settings.models_folder() / tokenizer / "tokenizer.json"
    if not file.is_file():
        raise MissingModel(f"there is no tokenizer at {file}; put the model's tokenizer.json there")
    from tokenizers import Tokenizer

    built = Tokenizer.from_file(str(file))
    return lambda text: len(built.encode(text, add_special_tokens=False).ids)
