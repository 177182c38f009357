"""Fields that logs of other systems have under many names: which column means what, and the texts,
chunks, messages and numbers that their values hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

from midchart.core.cohorts.columns import MISSING, MISSING_TYPED, known_names
from midchart.core.errors import DataError
from midchart.core.parsing import read_json, valid_unicode
from midchart.extras.audit.samples.sample import Chunk, Message, Sample, Step

COLUMNS: Mapping[str, Sequence[str]] = {
    "id": ("sample_id", "question_id", "qid", "item_id", "instruction_id"),
    "patient": ("patient_id", "person_id", "subject_id", "mrn", "record", "chart"),
    "question": ("query", "user_input", "instruction", "input"),
    "context": ("record_text", "chart_text"),
    "prompt": ("messages", "full_prompt", "prompt_text", "input_messages"),
    "answer": (
        *("response", "output", "actual_output", "generated_answer", "model_answer", "prediction"),
        *("completion", "generated_text"),
    ),
    "retrieved": (
        *("retrieved_contexts", "retrieval_context", "retrieved_documents", "retrieved_chunks"),
        *("contexts", "documents", "chunks"),
    ),
    "reranked": ("reranked_contexts", "reranked_documents", "reranked_chunks"),
    "reference": (
        *("ground_truth", "ground_truths", "expected_output", "reference_answer", "gold_answer"),
        *("expected", "target", "ideal", "gold", "references"),
    ),
    "evidence": ("reference_contexts", "gold_evidence", "supporting_facts", "evidences"),
    "options": ("choices",),
    "system": ("pipeline", "arm"),
    "model": ("model_name", "model_id"),
    "task": ("dataset", "benchmark", "task_name"),
    "ended": ("finish_reason", "stop_reason"),
    "input_tokens": ("prompt_tokens",),
    "output_tokens": ("completion_tokens",),
    "cost_usd": ("cost", "total_cost"),
}
"""Field of a sample → other names of a column; RAGAS, DeepEval and most notebooks have these."""
METRICS = frozenset({
    *("score", "correct", "accuracy", "exact_match", "f1", "bleu", "rouge", "passed"),
    *("faithfulness", "answer_relevancy", "response_relevancy", "answer_correctness"),
    *("answer_similarity", "semantic_similarity", "factual_correctness", "context_precision"),
    *("context_recall", "context_entity_recall", "llm_context_precision_with_reference"),
})  # fmt: skip
"""Columns that are scores; so is every column whose name begins with ``score_`` or ``scores.``."""
_ENDS: Mapping[str, str] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "complete", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "filter", "safety"), "filter"),
    **dict.fromkeys(("tool", "tool_calls", "tool_call", "tool_use", "function_call"), "tool"),
    "refusal": "refusal",
    "empty": "empty",
}
_ROLES = {"human": "user", "ai": "assistant", "developer": "system", "model": "assistant"}
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")
_PYTHON_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PYTHON_TEXTS = re.compile(rf"\[\s*(?:{_PYTHON_TEXT}\s*(?:,\s*{_PYTHON_TEXT}\s*)*)?\]", re.DOTALL)


def fields_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row by the sample's field (:data:`COLUMNS`), without missing ones."""
    names = _known(tuple(row))
    return {field: row[column] for column, field in names if not _is_missing(row[column])}


@lru_cache(maxsize=64)
def _known(columns: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The columns whose meaning is known, with their fields; the rows of a log have few headers."""
    return tuple(known_names(columns, COLUMNS).items())


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in MISSING)


def scores_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The scores among a row's columns, and those of an object in its column ``scores``."""
    scores: dict[str, float] = {}
    for column, metric in _score_columns(tuple(row)):
        if metric:
            scores |= numbers_of({metric: row[column]})
        elif isinstance(members := unpacked(row[column]), dict):
            scores |= numbers_of(members)
    return scores


@lru_cache(maxsize=64)
def _score_columns(columns: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The columns that are scores with their metric, "" for the object in ``scores``."""
    metrics: list[tuple[str, str]] = []
    for column in columns:
        name = column.strip().lower()
        if name == "scores":
            metrics.append((column, ""))
        elif name in METRICS or name.startswith(("score_", "scores.")):
            metrics.append((column, column.strip().removeprefix("scores.")))
    return tuple(metrics)


def numbers_of(values: Any) -> dict[str, float]:
    """The values of an object that are numbers or truth values, by name."""
    members = values.items() if isinstance(values, dict) else ()
    pairs = ((name, number_of(value)) for name, value in members)
    return {name: number for name, number in pairs if number is not None}


def number_of(value: Any) -> float | None:
    """A finite number, also one that is written as text or as true or false; else None."""
    if value is None:
        return None
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("true", "false"):
            return float(text == "true")
        if len(text) > 40 or not _NUMBER.fullmatch(text):
            return None
        value = float(text)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if isfinite(number) else None
    return None


def count_of(value: Any) -> int | None:
    """A count of tokens, zero or more; else None."""
    number = number_of(value)
    return int(number) if number is not None and 0 <= number < 1 << 63 else None


def ended_of(reason: Any) -> str:
    """How an answer ended by a log's own word for it; "" for a word that is not known."""
    if isinstance(reason, list | tuple):
        reason = reason[-1] if reason else ""
    return _ENDS.get(reason.strip().lower(), "") if isinstance(reason, str) else ""


def unpacked(value: Any) -> Any:
    """The value of a text that is a JSON array or object, or a list of texts as Python writes it;
    every other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return read_json(value, "cell")
    except DataError:
        text = value.strip()
        if not _PYTHON_TEXTS.fullmatch(text):
            return value
    try:
        return [ast.literal_eval(one) for one in re.findall(_PYTHON_TEXT, text, re.DOTALL)]
    except (ValueError, SyntaxError):
        return value


def text_of(value: Any) -> str:
    """A value as text: the content of a message, of its parts, or a number; "" for another."""
    if isinstance(value, str):
        return value if value.isascii() else valid_unicode(value)
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return _number_text(value)
    if isinstance(value, list | tuple):
        texts = (text_of(part) for part in value)
        return "\n".join(text for text in texts if text)
    if isinstance(value, dict):
        for name in _TEXTS:
            if name in value and (text := text_of(value[name])):
                return text
    return ""


_TEXTS = ("text", "content", "page_content", "parts", "value")
"""Members of an object that is a text, of which the first counts."""


def _number_text(value: int | float) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than Python writes
        return ""


def id_of(value: Any) -> str:
    """An identifier as text: stripped, "" where it is missing."""
    if value is None:
        return ""
    text = text_of(value).strip()
    return "" if text in MISSING_TYPED else text


def texts_of(value: Any) -> tuple[str, ...]:
    """The texts of a list, or the one text that a value is."""
    if value is None:
        return ()
    value = unpacked(value)
    if isinstance(value, list | tuple):
        texts = [text_of(one) for one in value]
        return tuple(text for text in texts if text)
    return (text,) if (text := text_of(value)) else ()


def chunks_of(value: Any) -> tuple[Chunk, ...]:
    """The chunks of a list of texts, or of objects with text, identifier and score."""
    value = unpacked(value)
    listed = value if isinstance(value, list | tuple) else [value]
    chunks = [_chunk(one) for one in listed]
    return tuple(chunk for chunk in chunks if chunk.text or chunk.identifier)


def _chunk(value: Any) -> Chunk:
    if not isinstance(value, dict):
        return Chunk(text_of(value))
    identifiers = [id_of(value[n]) for n in _IDENTIFIERS if n in value]
    scores = [value[n] for n in _SCORES if value.get(n) is not None]
    identifier = next(filter(None, identifiers), "")
    return Chunk(text_of(value), identifier, number_of(scores[0]) if scores else None)


_IDENTIFIERS = ("id", "identifier", "chunk_id", "doc_id")
_SCORES = ("score", "similarity", "relevance_score")
"""Members of an object that is a chunk, of which the first counts."""


def steps_of(fields: Mapping[str, Any]) -> tuple[Step, ...]:
    """The steps in a row's fields ``retrieved`` and ``reranked``."""
    names = [name for name in ("retrieved", "reranked") if name in fields]
    steps = [Step(name, chunks_of(fields[name])) for name in names]
    return tuple(step for step in steps if step.chunks)


def messages_of(value: Any) -> tuple[Message, ...]:
    """The messages of a prompt: of a list of them, or one user message of a text."""
    value = unpacked(value)
    if isinstance(value, dict):
        value = value.get("messages") or value.get("text")
    if isinstance(value, str):
        return (Message("user", text_of(value)),) if value else ()
    if not isinstance(value, list | tuple):
        return ()
    messages: list[Message] = []
    for one in value:
        if isinstance(one, str):
            messages.append(Message("user", text_of(one)))
        elif isinstance(one, dict):
            role = id_of(one.get("role") or one.get("type") or "user").lower()
            body = next((one[n] for n in ("content", "parts", "text") if n in one), None)
            messages.append(Message(_ROLES.get(role, role), text_of(body)))
    return tuple(messages)


def last_question(messages: Sequence[Message]) -> str:
    """The text of the last user message; "" without one."""
    return next((one.text for one in reversed(messages) if one.role == "user"), "")


def prompt_and_answer(messages: Sequence[Message]) -> tuple[tuple[Message, ...], str]:
    """A conversation divided into the prompt and the assistant's last message ("": none)."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "assistant":
            return tuple(messages[:at]), messages[at].text
    return tuple(messages), ""


def at(value: Any, name: str) -> Any:
    """The value below a dotted name; None where there is none. Of a name that is a value and an
    object, the value is the object's member ""."""
    for part in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    if isinstance(value, dict) and "" in value:
        return value[""]
    return value


def first_at(value: Any, *names: str) -> Any:
    """The value below the first of these dotted names that has one."""
    return next((one for name in names if (one := at(value, name)) is not None), None)


_READ: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("question", "answer", "context"), text_of),
    **dict.fromkeys(("patient", "system", "model", "task"), id_of),
    **dict.fromkeys(("options", "reference", "evidence"), texts_of),
    **dict.fromkeys(("input_tokens", "output_tokens"), count_of),
    "scores": numbers_of,
    "ended": ended_of,
    "cost_usd": number_of,
}
"""Field of a sample → the function that reads its value."""
_OF_PROGRAM = ("question", "patient", "context", "retrieved", "reranked", "evidence")


def sample_of(
    id: str,
    place: str,
    program: Any = None,
    messages: tuple[Message, ...] = (),
    steps: tuple[Step, ...] = (),
    **stated: Any,
) -> Sample:
    """A sample of the values that a log states, by field as they are written there.

    ``program``: an object of the program's own fields (metadata, variables), which go before in
    what a log's format has no place for: :data:`_OF_PROGRAM`. Without a question the last user
    message is it.
    """
    of_program = fields_of(program) if isinstance(program, dict) else {}
    stated |= {name: of_program[name] for name in _OF_PROGRAM if name in of_program}
    read = {"answer": "", **{name: of(stated.get(name)) for name, of in _READ.items()}}
    read["question"] = read["question"] or last_question(messages)
    return Sample(id, place, messages=messages, steps=steps or steps_of(stated), **read)
