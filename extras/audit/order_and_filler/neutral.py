"""Sentences that are about nothing clinical, to lengthen a context without information."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from midchart.core.reference_tables import slot_names, table_row, yaml_table

Template = Annotated[str, slot_names("subject", "word", "place")]


@table_row
class NeutralText:
    """Parts of sentences, and sentences with a word of a question (neutral.yaml)."""

    subjects: tuple[str, ...]
    actions: tuple[str, ...]
    places: tuple[str, ...]
    words: tuple[Template, ...]


neutral_text = yaml_table(NeutralText, Path(__file__).with_name("neutral.yaml"))


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def neutral_sentences(rng: np.random.Generator, words: Sequence[str] = ()) -> Iterator[str]:
    """Different sentences in random order, until there is no other; with ``words`` each holds one
    of them."""
    text = neutral_text()
    middles = text.words if words else text.actions
    shape = (len(text.subjects), len(middles), len(text.places), max(1, len(words)))
    order = np.unravel_index(rng.permutation(int(np.prod(shape))), shape)
    for subject, middle, place, word in zip(*(part.tolist() for part in order), strict=True):
        sentence = "{subject} " + middles[middle] + " {place}" if not words else middles[middle]
        yield _capitalised(
            sentence.format(
                subject=text.subjects[subject],
                place=text.places[place],
                word=words[word] if words else "",
            )
        )
