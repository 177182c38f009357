"""Finds the format of a log and reads its samples, each with a unique identifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from midchart.core.errors import DataError
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.sample import Sample, SampleFormat

ORDER = (
    *("inspect", "openinference", "promptfoo", "every_eval_ever", "lm_eval", "helm"),
    "table",
)
"""The formats in the order in which they are asked: a table may hold any columns."""


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

    Raises as :func:`format_of`.
    """
    times: Counter[str] = Counter()
    for sample in format_of(path, name).samples(path, trouble):
        times[sample.id] += 1
        identifier = f"{sample.id} ({times[sample.id]})" if times[sample.id] > 1 else sample.id
        while identifier != sample.id and times[identifier]:
            times[sample.id] += 1
            identifier = f"{sample.id} ({times[sample.id]})"
        times[identifier] += identifier != sample.id
        yield sample if identifier == sample.id else replace(sample, id=identifier)
