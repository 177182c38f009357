"""Readers for tests of needle runs: one that reads by dates and words, one that forgets the middle.

Both miss one question in four, whatever the place, by a hash of the needle and its place.
``enter`` puts them into the registries; a run's worker gets them through a ``sitecustomize``.
"""

from __future__ import annotations

import os
import re
import time
from zlib import crc32

from midchart.core.text import count_tokens, words
from midchart.core.types import Answer
from tests.support.run_members import registered

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Steady:
    """Finds the line that a question means; does not care where it stands."""

    name, title, window = "test_steady", "Steady", 100_000

    def __init__(self, protocol):
        self.delay_s = float(os.environ.get("TEST_READER_DELAY_S", "0"))

    def count_tokens(self, text):
        return count_tokens(text)

    def forgets(self, place):
        return False

    def read(self, prompt):
        time.sleep(self.delay_s)
        if os.environ.get("TEST_READER_FAILS_ON", "never") in prompt.question:
            raise RuntimeError(f"the record says: {prompt.text}")
        asked, days = set(words(prompt.question)), _DAY.findall(prompt.question)
        lines = [line.text.partition("] ")[2] for line in prompt.context]
        near = [len(asked & set(words(line))) + 10 * bool(_DAY.search(line)) for line in lines]
        if days:
            near = [n + 10 * (days[0] in line) for n, line in zip(near, lines, strict=True)]
        most = max(near)
        nearest = [i for i, n in enumerate(near) if n == most]
        best = max(nearest, key=lambda i: _DAY.findall(lines[i]) or [""])
        chance = crc32(f"{lines[best]} {best} {len(lines)}".encode()) % 100
        if chance < 25 or self.forgets(best / max(1, len(lines) - 1)):
            return Answer("I cannot tell.", prompt_tokens=prompt.tokens)
        return Answer(lines[best], prompt_tokens=prompt.tokens)


class Forgets(Steady):
    """The same, but blind to half of what stands in the middle."""

    name, title = "test_forgets", "Forgets the middle"

    def forgets(self, place):
        return 0.3 <= place <= 0.7 and int(place * 1000) % 2 == 0


READER_CLASSES = (Steady, Forgets)


enter, leave = registered(READER_CLASSES, ())
