"""Sample format: OpenTelemetry spans with OpenInference or GenAI attributes; one sample a trace.

https://arize-ai.github.io/openinference/spec/semantic_conventions.html and
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ name the attributes. Spans come as
JSON (a list, lines, OTLP, the answer of Phoenix) or as Parquet with a column an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from midchart.core.errors import DataError
from midchart.core.samples import SAMPLE_FORMATS
from midchart.core.samples.fields import (
    count_of,
    ended_of,
    fields_of,
    id_of,
    last_question,
    messages_of,
    number_of,
    text_of,
    unpacked,
)
from midchart.core.samples.files import (
    LINES,
    Trouble,
    files_of,
    head_of,
    listed,
    objects,
    parquet_columns,
    parquet_rows,
    place_name,
    suffix_of,
)
from midchart.core.samples.sample import Chunk, Message, Sample, Step

_SUFFIXES = (*LINES, ".json", ".parquet")
MOST_SPANS = 2_000_000
"""Spans in memory at a time: those of a trace may be anywhere in a file."""
MOST_PARTS = 10
"""Parts of an attribute's name between dots."""
_GENAI_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content"), "LLM"),
    "retrieval": "RETRIEVER",
}
"""``gen_ai.operation.name`` → the span kind of OpenInference."""
_INPUT_FIELDS = ("question", "query", "user_input", "input", "text", "content", "messages")

Tree = dict[str, Any]


@dataclass(slots=True)
class _Call:
    place: str
    kind: str
    parent: str
    start: int
    attributes: Tree


@dataclass(slots=True)
class _CallsOfTrace:
    spans: dict[str, _Call] = field(default_factory=dict[str, _Call])


@SAMPLE_FORMATS.register("openinference")
class OpenInferenceSamples:
    """Traces of Phoenix, Langfuse, an OpenTelemetry collector or a file exporter."""

    name, title = "openinference", "traces of OpenTelemetry (OpenInference or GenAI attributes)"

    def recognises(self, path: Path) -> bool:
        """Whether a file's columns or first bytes are those of spans."""
        if path.is_dir():
            return any(self.recognises(file) for file in files_of(path, _SUFFIXES)[:20])
        if suffix_of(path) == ".parquet":
            columns = parquet_columns(path)
            return "context.trace_id" in columns or {"context", "span_kind"} <= set(columns)
        head = head_of(path)
        traced = (b'"resourceSpans"', b'"traceId"', b'"trace_id"')
        return suffix_of(path) in _SUFFIXES and any(mark in head for mark in traced)

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The traces of each file in the order of their first spans in it."""
        for file in files_of(path, _SUFFIXES):
            if path.is_dir() and not self.recognises(file):
                continue
            yield from _samples(file, place_name(file, path), trouble)


def _samples(path: Path, name: str, trouble: Trouble) -> Iterator[Sample]:
    traces: dict[str, _CallsOfTrace] = {}
    number = 0
    for number, (place, row) in enumerate(_rows(path, name, trouble), 1):
        if number > MOST_SPANS:
            limit = f"holds more than {MOST_SPANS:,} spans; the rest is left out"
            trouble(str(DataError(place, None, limit, "export fewer traces at a time")))
            break
        trace, span_id = _identity(row)
        if not trace:
            reason = "is no span: it has no trace id"
            trouble(str(DataError(place, None, reason, "export the spans with their context")))
            continue
        spans = traces.setdefault(trace, _CallsOfTrace()).spans
        spans[span_id or f"span {number}"] = _span(row, place)
    for trace, one in traces.items():
        sample = _sample(trace, one)
        if sample is None:
            reason = "has no span with a question, a retrieval or a prompt"
            place = next(iter(one.spans.values())).place
            remedy = "record inputs and messages: they are off in some instrumentations"
            trouble(str(DataError(place, None, f"trace {trace[:40]} {reason}", remedy)))
        else:
            yield sample


# Spans as files have them.


def _rows(path: Path, name: str, trouble: Trouble) -> Iterator[tuple[str, Tree]]:
    """The spans of a file, whatever lists and objects wrap them."""
    if suffix_of(path) == ".parquet":
        yield from parquet_rows(path, name, trouble)
        return
    for place, row in objects(path, name, trouble):
        if "resourceSpans" in row or "resource_spans" in row:
            yield from _otlp_spans(row, place, trouble)
            continue
        wrapped = next((row[n] for n in ("data", "spans") if isinstance(row.get(n), list)), None)
        if wrapped is None:
            yield place, row
        else:
            yield from listed(cast("list[Any]", wrapped), place, trouble)


def _otlp_spans(row: Tree, place: str, trouble: Trouble) -> Iterator[tuple[str, Tree]]:
    for resource in _objects_in(row, "resourceSpans", "resource_spans"):
        scopes = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope in _objects_in(resource, *scopes):
            spans = scope.get("spans")
            if isinstance(spans, list):
                yield from listed(cast("list[Any]", spans), place, trouble)


def _objects_in(row: Tree, *names: str) -> list[Tree]:
    for name in names:
        values = row.get(name)
        if isinstance(values, list):
            return [one for one in cast("list[Any]", values) if isinstance(one, dict)]
    return []


def _identity(row: Tree) -> tuple[str, str]:
    """Trace and span id of a span ("" for one that is absent)."""
    context = cast("Tree", row["context"]) if isinstance(row.get("context"), dict) else {}
    ids: list[str] = []
    for snake, camel in (("trace_id", "traceId"), ("span_id", "spanId")):
        places = (row.get(camel), row.get(snake), row.get(f"context.{snake}"), context.get(snake))
        ids.append(next(filter(None, map(id_of, places)), ""))
    return ids[0], ids[1]


def _span(row: Tree, place: str) -> _Call:
    flat = _attributes(row.get("attributes"))
    flat |= {k.removeprefix("attributes."): v for k, v in row.items() if "attributes." in k[:11]}
    events = unpacked(row.get("events"))
    if isinstance(events, list):
        for event in cast("list[Any]", events):
            if isinstance(event, dict):
                members = _attributes(cast("Tree", event).get("attributes"))
                flat |= {k: v for k, v in members.items() if k.startswith("gen_ai.")}
    tree = _nested({name: value for name, value in flat.items() if value is not None})
    stated = id_of(_at(tree, "openinference.span.kind") or row.get("span_kind"))
    operation = id_of(_at(tree, "gen_ai.operation.name"))
    kind = stated.upper() or _GENAI_KINDS.get(operation, "")
    parents = (row.get("parentSpanId"), row.get("parent_id"), row.get("parent_span_id"))
    times = (row.get(n) for n in ("startTimeUnixNano", "start_time", "start_time_unix_nano"))
    return _Call(
        place,
        kind,
        next(filter(None, map(id_of, parents)), ""),
        _nanoseconds(next((one for one in times if one is not None), None)),
        tree,
    )


def _attributes(value: Any) -> Tree:
    """The attributes of a span by name: an object, or OTLP's list of keys and values."""
    value = unpacked(value)
    if isinstance(value, dict):
        return dict(cast("Tree", value))
    if not isinstance(value, list):
        return {}
    pairs = (cast("Tree", one) for one in cast("list[Any]", value) if isinstance(one, dict))
    return {id_of(pair.get("key")): _otlp_value(pair.get("value")) for pair in pairs}


def _otlp_value(value: Any) -> Any:
    """The value of an ``AnyValue`` of OTLP."""
    if not isinstance(value, dict):
        return value
    for name, one in cast("Tree", value).items():
        if name in ("arrayValue", "array_value"):
            values = cast("Tree", one).get("values") if isinstance(one, dict) else None
            listed_values = cast("list[Any]", values) if isinstance(values, list) else []
            return [_otlp_value(part) for part in listed_values]
        if name in ("kvlistValue", "kvlist_value"):
            return _attributes(cast("Tree", one).get("values") if isinstance(one, dict) else None)
        return one
    return None


def _nested(flat: Mapping[str, Any]) -> Tree:
    """Attributes with dots in their names as nested objects; a name that is too long stays."""
    tree: Tree = {}
    for name, value in flat.items():
        parts = name.split(".")
        if len(parts) > MOST_PARTS:
            parts = [name]
        node = tree
        for part in parts[:-1]:
            below = node.get(part)
            if not isinstance(below, dict):
                below = node[part] = {} if below is None else {"": below}
            node = cast("Tree", below)
        there = node.get(parts[-1])
        inner = _inner(value)
        if isinstance(there, dict) and isinstance(inner, dict):
            _merge(cast("Tree", there), cast("Tree", inner))
        elif isinstance(there, dict):
            cast("Tree", there)[""] = inner
        else:
            node[parts[-1]] = inner
    return tree


def _inner(value: Any) -> Any:
    """An attribute's value with the dotted names inside it nested too."""
    if isinstance(value, dict):
        return _nested(cast("Tree", value))
    if isinstance(value, list):
        return [_inner(one) for one in cast("list[Any]", value)]
    return value


def _merge(into: Tree, other: Tree) -> None:
    for name, value in other.items():
        there = into.get(name)
        if isinstance(there, dict) and isinstance(value, dict):
            _merge(cast("Tree", there), cast("Tree", value))
        elif name not in into:
            into[name] = value


def _nanoseconds(value: Any) -> int:
    """A span's start as nanoseconds since 1970; 0 where it is not stated."""
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, int) and not isinstance(value, bool):
        return value
    elif isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 25:
        return int(value)
    else:
        try:
            moment = datetime.fromisoformat(text_of(value))
        except ValueError:
            return 0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


# What the spans of a trace say.


def _at(tree: Any, name: str) -> Any:
    """The value below a dotted name; None where there is none."""
    for part in name.split("."):
        if not isinstance(tree, dict):
            return None
        tree = cast("Tree", tree).get(part)
    if isinstance(tree, dict) and "" in tree:
        return cast("Tree", tree)[""]
    return tree


def _items(value: Any) -> list[Any]:
    """The items of a list, also one that is written with an index in each name."""
    value = unpacked(value)
    if isinstance(value, dict):
        members = cast("Tree", value)
        numbered = [(int(k), v) for k, v in members.items() if k.isdecimal() and len(k) < 10]
        return [one for _, one in sorted(numbered, key=lambda pair: pair[0])]
    return cast("list[Any]", value) if isinstance(value, list) else []


def _sample(trace: str, one: _CallsOfTrace) -> Sample | None:
    spans = sorted(one.spans.values(), key=lambda span: span.start)
    roots = [span for span in spans if span.parent not in one.spans] or spans
    root = roots[0]
    models = [span for span in spans if span.kind == "LLM" or _model(span)]
    last = models[-1] if models else None
    messages = _prompt(last.attributes) if last else ()
    steps = tuple(step for span in spans if (step := _step(span)).chunks)
    question = _input(root.attributes)
    for span in spans if not question else ():
        question = question or (_query(span) if span.kind in ("RETRIEVER", "RERANKER") else "")
    question = question or last_question(messages)
    if not question and not messages and not steps:
        return None
    answer = _answer(last.attributes) if last else ""
    answer = answer or text_of(unpacked(_at(root.attributes, "output.value")))
    usage = last.attributes if last else {}
    return Sample(
        id=trace.removeprefix("0x"),
        place=root.place,
        question=question,
        answer=answer,
        patient=_patient(root, spans),
        messages=messages,
        steps=steps,
        model=_model(last) if last else "",
        system=id_of(_first(root.attributes, "agent.name", "gen_ai.agent.name")),
        ended=_ended(usage),
        input_tokens=count_of(_first(usage, "llm.token_count.prompt", "gen_ai.usage.input_tokens")),
        output_tokens=count_of(
            _first(usage, "llm.token_count.completion", "gen_ai.usage.output_tokens")
        ),
        cost_usd=number_of(_first(usage, "llm.cost.total", "gen_ai.usage.cost")),
    )


def _first(tree: Tree, *names: str) -> Any:
    values = (_at(tree, name) for name in names)
    return next((value for value in values if value is not None), None)


def _model(span: _Call) -> str:
    if span.kind not in ("", "LLM"):
        return ""
    names = ("llm.model_name", "gen_ai.response.model", "gen_ai.request.model")
    return id_of(_first(span.attributes, *names))


def _input(tree: Tree) -> str:
    """The question in a span's input: its text, or that of a known field of a JSON object."""
    value = unpacked(_first(tree, "input.value", "traceloop.entity.input"))
    if isinstance(value, dict):
        members = cast("Tree", value)
        for name in _INPUT_FIELDS:
            one = members.get(name)
            if text := last_question(messages_of(one)) if one else "":
                return text
        return ""
    if isinstance(value, list):
        return last_question(messages_of(cast("list[Any]", value)))
    return text_of(value)


def _query(span: _Call) -> str:
    names = ("reranker.query", "gen_ai.retrieval.query.text")
    return text_of(_first(span.attributes, *names)) or _input(span.attributes)


def _step(span: _Call) -> Step:
    """The documents that a span gives, in its order; without any for other spans."""
    reranked = _items(_at(span.attributes, "reranker.output_documents"))
    names = ("retrieval.documents", "gen_ai.retrieval.documents")
    retrieved = _items(_first(span.attributes, *names))
    chunks = [_chunk(one) for one in reranked or retrieved]
    return Step("reranked" if reranked else "retrieved", tuple(chunks))


def _chunk(value: Any) -> Chunk:
    value = unpacked(value)
    if not isinstance(value, dict):
        return Chunk(text_of(value))
    members = cast("Tree", value)
    inner = members.get("document")
    members = cast("Tree", inner) if isinstance(inner, dict) else members
    score = number_of(members.get("score"))
    return Chunk(text_of(members), id_of(members.get("id")), score)


def _prompt(tree: Tree) -> tuple[Message, ...]:
    """The messages of a model's span, as the model got them."""
    listed_messages = _items(_at(tree, "llm.input_messages"))
    if not listed_messages:
        listed_messages = _items(_at(tree, "gen_ai.input.messages")) or _items(
            _at(tree, "gen_ai.prompt")
        )
        instructions = text_of(unpacked(_at(tree, "gen_ai.system_instructions")))
        if instructions:
            listed_messages = [{"role": "system", "content": instructions}, *listed_messages]
    if listed_messages:
        return tuple(_message(one) for one in listed_messages)
    prompts = _items(_at(tree, "llm.prompts"))
    value = prompts[0] if prompts else _at(tree, "gen_ai.prompt")
    if isinstance(value, dict):
        value = _at(value, "prompt.text")
    value = value if value is not None else _at(tree, "input.value")
    return messages_of(value)


def _message(value: Any) -> Message:
    value = unpacked(value)
    if not isinstance(value, dict):
        return Message("user", text_of(value))
    members = cast("Tree", value)
    inner = members.get("message")
    members = cast("Tree", inner) if isinstance(inner, dict) else members
    text = text_of(unpacked(members.get("content"))) or text_of(members.get("parts"))
    if not text:
        parts = [_at(part, "message_content.text") for part in _items(members.get("contents"))]
        text = "\n".join(filter(None, map(text_of, parts)))
    role = id_of(members.get("role")).lower() or "user"
    return Message(role, text)


def _answer(tree: Tree) -> str:
    names = ("llm.output_messages", "gen_ai.output.messages", "gen_ai.completion")
    for name in names:
        listed_messages = _items(_at(tree, name))
        if texts := [text for one in listed_messages if (text := _message(one).text)]:
            return texts[-1]
    choices = _items(_at(tree, "llm.choices"))
    if choices and (text := text_of(_at(choices[0], "completion.text"))):
        return text
    return text_of(unpacked(_first(tree, "gen_ai.completion", "output.value")))


def _ended(tree: Tree) -> str:
    names = ("llm.finish_reason", "llm.output_messages.0.message.finish_reason")
    reason = _first(tree, *names, "gen_ai.response.finish_reasons")
    if reason is None:
        outputs = [
            *_items(_at(tree, "gen_ai.output.messages")),
            *_items(_at(tree, "gen_ai.completion")),
        ]
        reason = next((_at(one, "finish_reason") for one in reversed(outputs)), None)
    return ended_of(unpacked(reason))


def _patient(root: _Call, spans: Sequence[_Call]) -> str:
    """The patient by metadata or an attribute of any span, the root's first; else the session.

    ``user.id`` is who asks, so it is not taken for the patient.
    """
    for span in (root, *spans):
        for members in (unpacked(_at(span.attributes, "metadata")), span.attributes):
            if isinstance(members, dict):
                stated = fields_of(cast("Tree", members)).get("patient")
                inner = cast("Tree", stated).get("id") if isinstance(stated, dict) else stated
                if patient := id_of(inner):
                    return patient
    names = ("session.id", "gen_ai.conversation.id")
    for span in (root, *spans):
        if session := id_of(_first(span.attributes, *names)):
            return session
    return ""
