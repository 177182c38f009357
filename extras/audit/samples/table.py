"""Sample format: tables of questions and answers (CSV, TSV, JSON Lines, JSON, Parquet)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.tables import DELIMITERS, read_head, read_table
from midchart.core.errors import DataError, one_line
from midchart.core.storage.sources import Source
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    COLUMNS,
    fields_of,
    id_of,
    last_question,
    messages_of,
    prompt_and_answer,
    sample_of,
    scores_of,
    text_of,
    texts_of,
    unpacked,
)
from midchart.extras.audit.samples.files import (
    LARGEST_DOCUMENT,
    LINES,
    FileFormat,
    Objects,
    Trouble,
    document,
    first_object,
    listed,
    objects,
    parquet_columns,
    parquet_rows,
    unreadable,
)
from midchart.extras.audit.samples.sample import Sample

_ASKED = {"question", "prompt"}
_REST = {"answer", "context", "prompt", "retrieved", "reranked"}


@SAMPLE_FORMATS.register("table")
class TableSamples(FileFormat):
    """One row a question; columns may have the names of RAGAS, DeepEval or OpenAI's messages."""

    name, title = "table", "table of questions and answers (CSV, TSV, JSON, JSON Lines, Parquet)"

    suffixes: ClassVar = (".csv", ".tsv", ".psv", *LINES, ".json", ".parquet")

    def has(self, file: Source) -> bool:
        """Whether the columns of a table have a question or prompt, and what was made of it."""
        try:
            fields = fields_of(dict.fromkeys(_columns(file), "x")).keys()
        except DataError:
            return False
        return bool(fields & _ASKED) and bool(fields & _REST)

    def recognises(self, path: Path) -> bool:
        return path.is_file() and super().recognises(path)

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        for number, (place, row) in enumerate(_rows(file, trouble), 1):
            sample = _sample(row, place, str(number))
            if sample is None:
                reason = "has neither a question nor a prompt"
                remedy = f"name its column as one of {', '.join(sorted(_ASKED))}"
                trouble(unreadable(place, reason, remedy))
            else:
                yield sample


def _sample(row: Mapping[str, Any], place: str, number: str) -> Sample | None:
    """A row as a sample, by its columns' names; None where nothing was asked.

    ``number``: its identifier where it has none.
    """
    fields = fields_of(row)
    messages = messages_of(fields.get("prompt"))
    turns = unpacked(fields.get("question"))
    if isinstance(turns, list) and not messages:  # RAGAS: a conversation as the input
        messages = messages_of(turns)
        fields["question"] = last_question(messages)
    if not text_of(fields.get("answer")):
        messages, fields["answer"] = prompt_and_answer(messages)
    if not text_of(fields.get("question")) and not messages:
        return None
    fields.setdefault("question", "")
    context = unpacked(fields.get("context"))
    if isinstance(context, list):
        if not {"retrieved", "reranked"} & fields.keys():
            fields["retrieved"] = context
        fields["context"] = "\n\n".join(texts_of(context))
    identifier = id_of(fields.pop("id", None)) or number
    return sample_of(identifier, place, None, messages, scores=scores_of(row), **fields)


def _columns(file: Source) -> list[str]:
    """The columns of a table, by its header or its first object; raises DataError."""
    if file.ending == ".parquet":
        return parquet_columns(file)
    if file.ending in DELIMITERS:
        return read_head(file, list(COLUMNS)).header
    if file.ending in LINES:
        return list(first_object(file))
    value = document(file)
    if isinstance(value, dict):
        value = _list_in(value)
    value = value[0] if isinstance(value, list) and value else None
    return list(value) if isinstance(value, dict) else []


def _list_in(members: Mapping[str, Any]) -> list[Any] | None:
    """The rows of an object that wraps them: ``{"samples": [...]}``."""
    names = ("samples", "data", "rows", "examples", "results")
    values = (members.get(name) for name in names)
    return next((one for one in values if isinstance(one, list)), None)


def _rows(file: Source, trouble: Trouble) -> Objects:
    if file.ending == ".parquet":
        yield from parquet_rows(file, trouble)
    elif file.ending in DELIMITERS:
        yield from _delimited_rows(file, trouble)
    else:
        for place, row in objects(file, trouble):
            wrapped = None if fields_of(row).keys() & _ASKED else _list_in(row)
            if wrapped is None:
                yield place, row
            else:
                yield from listed(wrapped, file.name, trouble)


def _delimited_rows(file: Source, trouble: Trouble) -> Objects:
    log = _TroubleLog(trouble=trouble)
    try:
        if file.size > LARGEST_DOCUMENT:
            limit = f"is a table of more than {LARGEST_DOCUMENT >> 20} MB"
            raise DataError(file.name, None, limit, "split it, or write it as Parquet")
        for row in read_table(file, (), log):
            yield f"{file.name}:{row.line}", row.cells
    except DataError as error:
        trouble(str(error))


@dataclass(frozen=True, slots=True)
class _TroubleLog(LoadLog):
    """A log of a table of which each part that is left out is a trouble."""

    trouble: Trouble = field(kw_only=True)

    def skip(self, file: str, line: int | None, reason: str) -> None:
        """Report a part of the table that is left out."""
        self.trouble(str(DataError(one_line(file), line, one_line(reason))))
