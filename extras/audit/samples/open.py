"""Finds the format of a log and reads its samples, each with a unique identifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from midchart.core.errors import DataError
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.sample import Sample, SampleFormat, characters_of

ORDER = (
    *("inspect", "openinference", "promptfoo", "every_eval_ever", "lm_eval", "helm"),
    "table",
)
"""The formats in the order in which they are asked: a table may hold any columns."""
MOST_SAMPLES = 5_000_000
MOST_SCORES = 100
"""Scores of a sample that are read; HELM has some tens."""
MOST_TINY_SAMPLES, LEAST_TEXT = 100_000, 64
"""Samples of a log that may have any text; characters that those of a larger log have on average:
a question with its answer has more."""
MOST_UNREAD = 10_000
"""Parts of a log that may be unreadable where fewer are samples."""


def format_of(path: Path, name: str = "") -> SampleFormat:
    """The format called ``name``, or the first that recognises a file or folder.

    Raises UnknownName, and DataError where no format recognises it.
    """
    if name:
        return SAMPLE_FORMATS.build(name)
    if not path.exists():
        raise DataError(str(path), None, "there is no such file or folder", "check the path")
    names = SAMPLE_FORMATS.names()
    for one in [*(n for n in ORDER if n in names), *(n for n in names if n not in ORDER)]:
        if (sample_format := SAMPLE_FORMATS.build(one)).recognises(path):
            return sample_format
    remedy = f"name its format: {', '.join(names)}"
    raise DataError(str(path), None, "is a log of no format that is known", remedy)


def read_samples(path: Path, trouble: Callable[[str], None], name: str = "") -> Iterator[Sample]:
    """The samples of a log; an identifier that is there again has its number after it.

    Raises as :func:`format_of`, and DataError for too many samples, for too many of next to no
    text, and for too many parts that cannot be read.
    """
    times: Counter[str] = Counter()
    number = unread = characters = 0
    ended: DataError | None = None

    def counted(line: str) -> None:
        nonlocal unread, ended
        if ended is None:
            trouble(line)
            unread += 1
            if unread <= max(MOST_UNREAD, number):
                return
            reason = f"has {unread:,} parts that cannot be read and {number:,} samples ({line})"
            ended = DataError(str(path), None, reason, "check the format")
        raise ended  # again where a format hands it back as a trouble

    for number, sample in enumerate(format_of(path, name).samples(path, counted), 1):
        characters += characters_of(sample)
        if number > MOST_SAMPLES:
            limit = f"holds more than {MOST_SAMPLES:,} samples"
            raise DataError(str(path), None, limit, "split it")
        if number > MOST_TINY_SAMPLES and characters < LEAST_TEXT * number:
            limit = (
                f"holds more than {MOST_TINY_SAMPLES:,} samples of {characters // number} "
                f"characters on average, where a question with its answer has {LEAST_TEXT}"
            )
            raise DataError(str(path), None, limit, "check its columns, or split it")
        if len(sample.scores) > MOST_SCORES:
            reason = f"has more than {MOST_SCORES} scores; the first are read"
            counted(str(DataError(sample.place, None, reason, "export the metrics of interest")))
            first = dict(islice(sample.scores.items(), MOST_SCORES))
            sample = replace(sample, scores=first)
        times[sample.id] += 1
        identifier = f"{sample.id} ({times[sample.id]})" if times[sample.id] > 1 else sample.id
        while identifier != sample.id and times[identifier]:
            times[sample.id] += 1
            identifier = f"{sample.id} ({times[sample.id]})"
        times[identifier] += identifier != sample.id
        yield sample if identifier == sample.id else replace(sample, id=identifier)
