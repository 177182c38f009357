"""The documents and the tables of rows in a run's folder: their fields, columns, keys and ranges.

Further fields of documents are kept, as other versions may have more; a column that a file lacks
reads as null.
"""

from __future__ import annotations

import json
from datetime import MAXYEAR, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from midchart.core.format import finite
from midchart.core.provenance import digest
from midchart.core.runs.plan import ArmConfig
from midchart.core.storage.rows import Schema
from midchart.core.types import Selection

LARGEST = 1 << 53


def _moment(text: str) -> str:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or not 1 < moment.year < MAXYEAR:
        raise ValueError("is no moment of a run")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]


class _RunDocument(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _ComponentDocument(_RunDocument):
    model_config = ConfigDict(extra="forbid")
    name: str
    options: dict[str, Any] = {}
    label: str = ""


class _ArmDocument(_ComponentDocument):
    k: Annotated[int, Field(ge=0, le=LARGEST)]
    recency: Count
    tokens: Count | None


class _SpecDocument(_RunDocument):
    name: str
    kind: str
    data: str = ""
    arms: list[_ArmDocument]
    readers: list[_ComponentDocument]
    judges: list[_ComponentDocument]
    limit: Count | None
    part: str = ""
    options: dict[str, Any] = {}
    allow_hosts: list[str] = []
    group: str = ""
    primary_judge: str = ""


class _Tag(_RunDocument):
    synthetic: bool
    external_services_allowed: bool


class _CohortDocument(_RunDocument):
    path: str
    digest: str
    data_use: _Tag


class _Versions(_RunDocument):
    midchart: str
    code: str
    python: str
    packages: dict[str, str]


class _Position(_RunDocument):
    used: Literal["order", "time", "token"]
    named: bool
    median_events: float | None
    records: Count


class PlanDocument(_RunDocument):
    """``spec.json``."""

    run: str
    created: Moment
    spec: _SpecDocument
    protocol: dict[str, Any]
    position: _Position | None = None
    cohort: _CohortDocument
    versions: _Versions
    weights: dict[str, str] = {}
    instructions: Count = 0
    planned: Count
    facts: dict[str, Any] = Field({}, alias="found")


class DigestedDocument(_RunDocument):
    """A document with digests of the files of rows."""

    sha256: dict[str, str] = {}


class DoneDocument(DigestedDocument):
    """``done.json``."""

    run: str = ""
    finished: Moment = ""
    seconds: Seconds = 0.0
    planned: Count = 0
    done: Count
    failed: Count


class ImportedDocument(DigestedDocument):
    """``imported.json``."""

    cohort: str
    data: str


class QueueDocument(_RunDocument):
    """``queued.json``."""

    queue_number: Count
    wants: str


class EventLine(_RunDocument):
    """A line of ``events.jsonl``."""

    time: Moment
    event: str
    done: Count = 0
    failed: Count = 0
    planned: Count = 0
    seconds: Seconds = 0.0
    seconds_left: Seconds | None = None
    text: str = ""
    reason: str = ""
    versions: _Versions | None = None


class PersonLine(_RunDocument):
    """A line of ``people.jsonl``; ``is_account``: as of :class:`midchart.core.identity.Person`."""

    who: str
    action: str
    is_account: bool = False


class _GateDocument(_RunDocument):
    gate: str
    seen: list[str]


class GatesDocument(_RunDocument):
    """``gates.json``."""

    __pydantic_extra__: dict[str, _GateDocument]  # pyright: ignore[reportIncompatibleVariableOverride]


PLAN, DONE, GATES = TypeAdapter(PlanDocument), TypeAdapter(DoneDocument), TypeAdapter(GatesDocument)
DIGESTED, IMPORTED = TypeAdapter(DigestedDocument), TypeAdapter(ImportedDocument)
QUEUED, EVENT, PERSON = TypeAdapter(QueueDocument), TypeAdapter(EventLine), TypeAdapter(PersonLine)


# Columns and keys of tables of rows.
#
# `item` names the work (arm entry, reader, instruction; and judge): a row whose item is there is
# skipped on resume. `key` names the content (the same, the prompt and the protocol): it is unique
# in its table, and equal in two runs exactly where the same reader was given the same prompt.
# `status` is ok or failed; a failed row has a `reason` and is dropped and retried on resume. `band`
# and `middle` are those of the evidence by the protocol's position, "unlocated" and null where it
# was not found. `text_located`, `text_event`, `text_decile`, `text_zone`: where the source gives
# spans, whether locating the evidence by its text finds it, and in the same event, decile and zone.


_KEPT = "STRUCT(id VARCHAR, event BIGINT, score DOUBLE, kept_by VARCHAR)[]"
_LINES = "STRUCT(id VARCHAR, text VARCHAR)[]"
_TRACE = "STRUCT(name VARCHAR, value VARCHAR)[]"

LOCATION: Schema = {
    "location_score": "DOUBLE",
    **dict.fromkeys(("location_candidates", "evidence_pieces", "evidence_unlocated"), "BIGINT"),
    **dict.fromkeys(("text_located", "text_event", "text_decile", "text_zone"), "BOOLEAN"),
}
"""How the evidence of a row's question was located
(:func:`midchart.core.cohorts.gold.location_columns`)."""

_COMMON: Schema = {
    **dict.fromkeys(("key", "item", "status", "reason", "label", "arm"), "VARCHAR"),
    "k": "BIGINT",
    **dict.fromkeys(("record", "instruction"), "VARCHAR"),
    **dict.fromkeys(("order_position", "time_position", "token_position"), "DOUBLE"),
    **LOCATION,
    "band": "VARCHAR",
    "middle": "BOOLEAN",
    **dict.fromkeys(("task_type", "domain", "specialty", "time"), "VARCHAR"),
}

SELECTIONS: Schema = {
    **_COMMON,
    "selection": _KEPT,
    "wording": "VARCHAR",
    "lines": _LINES,
    **dict.fromkeys(("selection_tokens", "selection_cut"), "BIGINT"),
    "selection_seconds": "DOUBLE",
    "trace": _TRACE,
    "lexical": "BOOLEAN",
    **dict.fromkeys(("lexical_chance", "lexical_picked_chance"), "DOUBLE"),
    **dict.fromkeys(("evidence", "evidence_all"), "BOOLEAN"),
    **dict.fromkeys(("evidence_share", "evidence_chance", "evidence_picked_chance"), "DOUBLE"),
    **dict.fromkeys(("evidence_all_chance", "evidence_all_picked_chance"), "DOUBLE"),
    **dict.fromkeys(("buffer_tokens", "filler_tokens", "kept", "picked", "unmatched"), "BIGINT"),
    **dict.fromkeys(("lexical_kept", "lexical_picked", "evidence_kept"), "BIGINT"),
    **dict.fromkeys(("evidence_picked", "prompt_tokens"), "BIGINT"),
    "cut": "VARCHAR[]",
    **dict.fromkeys(("prompt_cut", "evidence_in_prompt", "evidence_all_in_prompt"), "BOOLEAN"),
    "evidence_in_prompt_picked": "BIGINT",
    **dict.fromkeys(("evidence_share_in_prompt", "evidence_in_prompt_chance"), "DOUBLE"),
    "evidence_in_prompt_picked_chance": "DOUBLE",
    "evidence_all_in_prompt_chance": "DOUBLE",
    "evidence_all_in_prompt_picked_chance": "DOUBLE",
}
"""One row an arm entry and instruction. ``lexical``: a kept sentence holds a content word of the
reference (null without one). ``evidence``, ``evidence_all``: any, all of the sentences with
evidence were kept (null where it is unlocated); ``evidence_share``: the share of its characters
inside the selected sentences. ``…_chance``: the probability that random sentences of as many tokens
as the context are such a hit, ``…_picked_chance``: as many as the arm's own picks
(:mod:`midchart.core.arms.hits`). ``wording`` and ``lines``: where an arm wrote its context itself,
"compressed" (at least half of the evidence must be left) or as "summaries" (what these hold is
null). ``kept`` counts the lines of the context, ``picked`` those that the arm itself chose; of
both, how many are hits. ``unmatched`` counts units chosen without a reason to keep them, null for
an arm that scores no units. ``buffer_tokens``, ``filler_tokens``: how many of ``selection_tokens``
are lines of the recency buffer that the arm did not choose, and lines that a draw added to fill a
token budget. ``…_in_prompt``: the same of what is in the prompt, by at least half of a sentence's
evidence. ``prompt_tokens``, ``cut`` (lines lost) and ``prompt_cut`` (anything lost) are those of
its reader's prompt; in a selection's row, which nobody reads, what the protocol's own limits
leave."""

ALL_KEPT = "coalesce(evidence_all, evidence_share > 0.999999)"
ALL_IN_PROMPT = "coalesce(evidence_all_in_prompt, evidence_share_in_prompt > 0.999999)"
"""SQL: all pieces of the evidence were kept, are in the prompt; null where that is not known."""

SEMANTIC: Schema = {
    **_COMMON,
    "about": "VARCHAR",
    "model": "VARCHAR",
    "entailment": "STRUCT(id VARCHAR, picked BOOLEAN, probability DOUBLE)[]",
    "best": "DOUBLE",
}
"""One row an arm entry and instruction: for each line of its context the larger probability of
entailment, of both directions, with the reference (``about`` says which: the answer or the
evidence), and the ``best``. Null without a reference. Thresholds are laid on these when a report is
made."""

ANSWERS: Schema = {
    **SELECTIONS,
    **dict.fromkeys(("reader", "prompt", "prompt_hash"), "VARCHAR"),
    "question_survived": "BOOLEAN",
    "answer": "VARCHAR",
    "sources": "VARCHAR[]",
    **dict.fromkeys(("read_tokens", "output_tokens", "reused_tokens"), "BIGINT"),
    **dict.fromkeys(("seconds", "peak_mb"), "DOUBLE"),
    **dict.fromkeys(("how", "failure_kind"), "VARCHAR"),
    **dict.fromkeys(("ended", "reasoning"), "VARCHAR"),
    "reasoning_tokens": "BIGINT",
    **dict.fromkeys(("template", "endpoint", "model"), "VARCHAR"),
    "cost_usd": "DOUBLE",
    "evidence_quoted": "BOOLEAN",
}
"""One row an arm entry, instruction and reader. ``read_tokens``, ``reused_tokens``: the prompt in
the reader's own tokens, and how many of them it had read for another prompt already.
``failure_kind``: what kind of failure the answer is if a judge says wrong
(:mod:`midchart.core.judges.rules`); null without answer or reference. ``ended``: how the answer
ended (null for a failed one); ``reasoning_tokens`` are part of ``output_tokens``. ``template``
rendered the prompt (:class:`midchart.core.types.Prompt`). ``evidence_quoted``: whether a sentence
that the reader names as its source holds evidence; null where it names none or the evidence is
unlocated."""

VERDICTS: Schema = {
    **_COMMON,
    **dict.fromkeys(("reader", "judge", "answer_key", "outcome"), "VARCHAR"),
    "refusal": "BOOLEAN",
    **dict.fromkeys(("raw", "prompt_hash"), "VARCHAR"),
    "nan_evidence": "BOOLEAN",
    "seconds": "DOUBLE",
    "repeat": "BIGINT",
    "model": "VARCHAR",
    **dict.fromkeys(("read_tokens", "reused_tokens", "output_tokens"), "BIGINT"),
    "cost_usd": "DOUBLE",
    "how": "VARCHAR",
    "without_value": "BOOLEAN",
}
"""One row an answer, judge and repeat. ``prompt_hash``: of what the judge was given (question,
reference, response). ``nan_evidence``: judged against the text "nan" (protocol fault question_100).
``repeat``: 0 for the verdict that counts, 1 and on for those asked again of the same text. From
``model`` on: what a judge that is a language model used (null for a rule); ``reused_tokens`` are
those of ``read_tokens`` found in its cache. ``without_value``: the judge ``exact`` found no value
in the reference to compare (:data:`midchart.core.judges.exact.IN_ORDER`)."""


COUNTS = "coalesce(repeat, 0) = 0"
"""Of a judge's repeats of one answer, the verdict that counts."""


def entry_text(entry: ArmConfig) -> str:
    """An arm entry, spelled out, for hashing."""
    options = dict(sorted(entry.options.items()))
    return json.dumps([entry.name, entry.k, entry.recency, entry.tokens, options])


def item_of(
    entry: ArmConfig, instruction_id: str, reader: str = "", judge: str = "", repeat: int = 0
) -> str:
    """The name of a piece of work in a run."""
    again = (str(repeat),) if repeat else ()
    return digest(entry_text(entry), instruction_id, reader, judge, *again)


def kept_rows(selection: Selection) -> list[dict[str, Any]]:
    """The selected sentences as they are stored in a row; a score that is not finite is null."""
    return [
        {
            "id": entry.sentence.id,
            "event": entry.sentence.span.event,
            "score": None if entry.score is None else finite(entry.score),
            "kept_by": entry.kept_by,
        }
        for entry in selection.kept
    ]


def wording(selection: Selection) -> str:
    """Whose words a reader sees: "sentences" of the record, "compressed" ones, or "summaries"."""
    if selection.lines is None:
        return "sentences"
    return "summaries" if any(line.shown == () for line in selection.lines) else "compressed"


def line_rows(selection: Selection) -> list[dict[str, str]] | None:
    """What an arm wrote instead of its sentences, as a row holds it; None where it did not."""
    if selection.lines is None:
        return None
    return [{"id": line.sentence_id, "text": line.text} for line in selection.lines]


def blank(schema: Schema) -> dict[str, Any]:
    """A row of nulls."""
    return dict.fromkeys(schema)
