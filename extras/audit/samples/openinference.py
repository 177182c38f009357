"""Sample format: OpenTelemetry spans with OpenInference or GenAI attributes; one sample a trace.

https://arize-ai.github.io/openinference/spec/semantic_conventions.html and
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ name the attributes. Spans come as
JSON (a list, lines, OTLP, the console exporter's output, Phoenix's answers and tables) or as
Parquet with a column an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from midchart.core.storage.sources import Source
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    at,
    ended_of,
    fields_of,
    first_at,
    id_of,
    last_question,
    messages_of,
    number_of,
    sample_of,
    text_of,
    unpacked,
)
from midchart.extras.audit.samples.files import (
    HEAD,
    LINES,
    FileFormat,
    Trouble,
    listed,
    objects,
    parquet_columns,
    parquet_rows,
    unreadable,
)
from midchart.extras.audit.samples.sample import Chunk, Message, Sample, Step

MOST_PARTS = 10
"""Parts of an attribute's name between dots."""
_GENAI_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content"), "LLM"),
    "retrieval": "RETRIEVER",
}
"""``gen_ai.operation.name`` → the span kind of OpenInference."""
_INPUT_FIELDS = (
    *("question", "query", "user_input", "user_query", "input", "text", "content", "messages"),
)
_STANDARD = frozenset({
    *("input", "output", "llm", "retrieval", "reranker", "embedding", "tool", "gen_ai", "metadata"),
    *("openinference", "session", "user", "tag", "exception", "http", "db", "server", "graph"),
})  # fmt: skip
"""Attributes with a meaning of their own: they name no patient."""
_LONGEST_ID = 200
_MOST_NAMES = 5
"""Levels of an instrumentation's own attributes in which a patient is looked for."""

Tree = dict[str, Any]


@dataclass(slots=True)
class _Call:
    place: str
    name: str
    kind: str
    parent: str
    start: int
    attributes: Tree
    service: str


@SAMPLE_FORMATS.register("openinference")
class OpenInferenceSamples(FileFormat):
    """Traces of Phoenix, Langfuse, an OpenTelemetry collector or a file exporter."""

    name, title = "openinference", "traces of OpenTelemetry (OpenInference or GenAI attributes)"

    suffixes: ClassVar = (*LINES, ".json", ".parquet", ".log", ".txt")
    """The last two are of a console exporter's captured output."""

    def has(self, file: Source) -> bool:
        """Whether a file's columns or first bytes are those of spans."""
        if file.ending == ".parquet":
            columns = parquet_columns(file)
            return "context.trace_id" in columns or {"context", "span_kind"} <= set(columns)
        head = file.start(HEAD)
        names = ("resourceSpans", "resource_spans", "traceId", "trace_id", "context.trace_id")
        return any(f'"{name}"'.encode() in head for name in names)

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        """The traces of a file in the order of their first spans in it."""
        traces: dict[str, dict[str, _Call]] = {}
        for number, (place, row) in enumerate(_rows(file, trouble), 1):
            trace, span_id = _identity(row)
            if not trace:
                reason = "is no span: it has no trace id"
                trouble(unreadable(place, reason, "export the spans with their context"))
                continue
            traces.setdefault(trace, {})[span_id or f"span {number}"] = _span(row, place)
        for trace, spans in traces.items():
            for question in _questions(trace.removeprefix("0x"), spans):
                if sample := _sample(question):
                    yield sample
                    continue
                reason = f"trace {trace[:40]} has no span with a question, a retrieval or a prompt"
                remedy = "record inputs and messages: they are off in some instrumentations"
                trouble(unreadable(question.root.place, reason, remedy))


# Spans as files have them.


def _rows(file: Source, trouble: Trouble) -> Iterator[tuple[str, Tree]]:
    """The spans of a file, whatever lists and objects wrap them."""
    if file.ending == ".parquet":
        yield from parquet_rows(file, trouble)
        return
    for place, row in objects(file, trouble):
        if "resourceSpans" in row or "resource_spans" in row:
            yield from _otlp_spans(row, place, trouble)
            continue
        wrapped = next((row[n] for n in ("data", "spans") if isinstance(row.get(n), list)), None)
        if wrapped is None:
            yield place, row
        else:
            yield from listed(wrapped, place, trouble)


def _otlp_spans(row: Tree, place: str, trouble: Trouble) -> Iterator[tuple[str, Tree]]:
    for resource in _objects_in(row, "resourceSpans", "resource_spans"):
        scopes = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope in _objects_in(resource, *scopes):
            spans = scope.get("spans")
            if isinstance(spans, list):
                for each, span in listed(spans, place, trouble):
                    yield each, {"resource": resource.get("resource"), **span}


def _objects_in(row: Tree, *names: str) -> list[Tree]:
    return [one for name in names for one in _items(row.get(name)) if isinstance(one, dict)]


def _identity(row: Tree) -> tuple[str, str]:
    """Trace and span id of a span ("" for one that is absent)."""
    context = row["context"] if isinstance(row.get("context"), dict) else {}
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
        for event in events:
            if isinstance(event, dict):
                members = _attributes(event.get("attributes"))
                flat |= {k: v for k, v in members.items() if k.startswith("gen_ai.")}
    tree = _nested({name: value for name, value in flat.items() if value is not None})
    stated = id_of(at(tree, "openinference.span.kind") or row.get("span_kind"))
    operation = id_of(at(tree, "gen_ai.operation.name"))
    kind = stated.upper() or _GENAI_KINDS.get(operation, "")
    parents = (row.get("parentSpanId"), row.get("parent_id"), row.get("parent_span_id"))
    times = (row.get(n) for n in ("startTimeUnixNano", "start_time", "start_time_unix_nano"))
    service = id_of(_attributes(at(row, "resource.attributes")).get("service.name"))
    return _Call(
        place,
        id_of(row.get("name")),
        kind,
        next(filter(None, map(id_of, parents)), ""),
        _nanoseconds(next((one for one in times if one is not None), None)),
        tree,
        "" if service.startswith("unknown_service") else service,
    )


def _attributes(value: Any) -> Tree:
    """The attributes of a span by name: an object, or OTLP's list of keys and values."""
    value = unpacked(value)
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, list):
        return {}
    pairs = (one for one in value if isinstance(one, dict))
    return {id_of(pair.get("key")): _otlp_value(pair.get("value")) for pair in pairs}


def _otlp_value(value: Any) -> Any:
    """The value of an ``AnyValue`` of OTLP."""
    if not isinstance(value, dict):
        return value
    name, one = next(iter(value.items()), ("", None))
    if name in ("arrayValue", "array_value"):
        return [_otlp_value(part) for part in _items(at(one, "values"))]
    if name in ("kvlistValue", "kvlist_value"):
        return _attributes(at(one, "values"))
    return one


def _nested(flat: Mapping[str, Any]) -> Tree:
    """Attributes with dots in their names as nested objects; a name that is too long stays."""
    tree: Tree = {}
    for name, value in flat.items():
        parts = name.split(".") if name.count(".") < MOST_PARTS else [name]
        inner = _inner(value)
        for part in reversed(parts):
            inner = {part: inner}
        _merge(tree, inner)
    return tree


def _inner(value: Any) -> Any:
    """An attribute's value with the dotted names inside it nested too."""
    if isinstance(value, dict):
        return _nested(value)
    if isinstance(value, list):
        return [_inner(one) for one in value]
    return value


def _merge(into: Tree, other: Tree) -> None:
    """Take over an object; of a name that is a value and an object, the value is its member ""."""
    for name, value in other.items():
        there = into.setdefault(name, value)
        if there is value or not (isinstance(there, dict) or isinstance(value, dict)):
            continue
        both = [one if isinstance(one, dict) else {"": one} for one in (there, value)]
        into[name] = both[0]
        _merge(*both)


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


def _items(value: Any) -> list[Any]:
    """The items of a list, also one that is written with an index in each name."""
    value = unpacked(value)
    if isinstance(value, dict):
        numbered = [(int(k), v) for k, v in value.items() if k.isdecimal() and len(k) < 10]
        return [one for _, one in sorted(numbered, key=lambda pair: pair[0])]
    return value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class _AskedCalls:
    """The spans of one question in the order of their start, the ``root`` among them, and those
    above it, the nearest first."""

    id: str
    root: _Call
    spans: Sequence[_Call]
    above: Sequence[_Call] = ()


def _questions(trace: str, spans: Mapping[str, _Call]) -> list[_AskedCalls]:
    """The questions of a trace: one, but where it has several outermost spans of one name that each
    state a question and call a model (a loop over questions). A span over several patients states
    none."""
    above = {id: _above(id, spans) for id in spans}
    calling = {one for id in spans if _is_model(spans[id]) for one in above[id]}
    stating = {id for id in calling if _states_question(spans[id])}
    patients: dict[str, set[str]] = {}
    for id in stating:
        for one in above[id]:
            patients.setdefault(one, set()).add(_patient([spans[id]]))
    stating = {id for id in stating if len(patients.get(id, set()) - {""}) < 2}
    parts = [id for id in spans if id in stating and not stating.intersection(above[id])]
    asked = {(_input(spans[id].attributes), _patient([spans[id]])) for id in parts}
    if len(asked) < 2 or len({spans[id].name for id in parts}) > 1:
        calls = sorted(spans.values(), key=lambda span: span.start)
        roots = [span for span in calls if span.parent not in spans] or calls
        return [_AskedCalls(trace, roots[0], calls)]
    return [
        _AskedCalls(
            f"{trace}/{id.removeprefix('0x')}",
            spans[id],
            sorted((spans[o] for o in spans if o == id or id in above[o]), key=lambda s: s.start),
            [spans[one] for one in above[id]],
        )
        for id in sorted(parts, key=lambda id: spans[id].start)
    ]


def _above(id: str, spans: Mapping[str, _Call]) -> list[str]:
    """The spans above one, the nearest first."""
    order: dict[str, None] = {}
    while (id := spans[id].parent) in spans and id not in order:
        order[id] = None
    return list(order)


def _is_model(span: _Call) -> bool:
    return span.kind == "LLM" or bool(_model(span))


def _states_question(span: _Call) -> bool:
    """Whether a span's input is a question; a list of texts is not one."""
    value = unpacked(first_at(span.attributes, "input.value", "traceloop.entity.input"))
    texts = isinstance(value, list) and all(isinstance(v, str) for v in value)
    return not texts and not _is_model(span) and bool(_input(span.attributes))


def _sample(question: _AskedCalls) -> Sample | None:
    root, spans = question.root, question.spans
    models = [span for span in spans if _is_model(span)]
    last = _answering(models, unpacked(at(root.attributes, "output.value")))
    messages = _prompt(last.attributes) if last else ()
    steps = _steps(spans)
    text = _input(root.attributes)
    for span in spans if not text else ():
        text = text or (_query(span) if span.kind in ("RETRIEVER", "RERANKER") else "")
    text = text or last_question(messages)
    if not text and not messages and not steps:
        return None
    answer = _answer(last.attributes) if last else ""
    usage = last.attributes if last else {}
    names = ("llm.token_count", "gen_ai.usage")
    return sample_of(
        question.id,
        root.place,
        None,
        messages,
        steps,
        question=text,
        answer=answer or text_of(unpacked(at(root.attributes, "output.value"))),
        patient=_patient([root, *spans, *question.above]),
        model=_model(last) if last else "",
        system=id_of(first_at(root.attributes, "agent.name", "gen_ai.agent.name")) or root.service,
        ended=_ended(usage),
        input_tokens=first_at(usage, f"{names[0]}.prompt", f"{names[1]}.input_tokens"),
        output_tokens=first_at(usage, f"{names[0]}.completion", f"{names[1]}.output_tokens"),
        cost_usd=first_at(usage, "llm.cost.total", "gen_ai.usage.cost"),
    )


def _answering(models: Sequence[_Call], output: Any) -> _Call | None:
    """The last call whose answer is in the question's output, else the last that has a prompt: a
    check of the answer, a title or a summary may come after it."""
    if not models:
        return None
    texts = {" ".join(text.split()) for text in _texts_in(output)} - {""}
    for span in reversed(models):
        if " ".join(_answer(span.attributes).split()) in texts:
            return span
    return next((one for one in reversed(models) if _prompt(one.attributes)), models[-1])


def _texts_in(value: Any) -> Iterator[str]:
    """The texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        for one in members:
            yield from _texts_in(one)


def _model(span: _Call) -> str:
    if span.kind not in ("", "LLM"):
        return ""
    names = ("llm.model_name", "gen_ai.response.model", "gen_ai.request.model")
    return id_of(first_at(span.attributes, *names))


def _input(tree: Tree) -> str:
    """The question in a span's input: its text, or that of a known field of a JSON object."""
    value = unpacked(first_at(tree, "input.value", "traceloop.entity.input"))
    if isinstance(value, dict):
        for name in _INPUT_FIELDS:
            one = value.get(name)
            if text := last_question(messages_of(one)) if one else "":
                return text
        return ""
    if isinstance(value, list):
        return last_question(messages_of(value))
    return text_of(value)


def _query(span: _Call) -> str:
    names = ("reranker.query", "gen_ai.retrieval.query.text")
    return text_of(first_at(span.attributes, *names)) or _input(span.attributes)


def _steps(spans: Sequence[_Call]) -> tuple[Step, ...]:
    """What was retrieved and what was kept after reranking, in order.

    Of rerankers one after another the last counts; those of several rounds of retrieval are one
    step, as each keeps what its round brought.
    """
    steps: list[Step] = []
    selected: list[tuple[Chunk, ...]] = []
    fresh = True
    for span in spans:
        to_rerank, reranked, retrieved = (
            tuple(map(_chunk, _items(first_at(span.attributes, *names)))) for names in _DOCUMENTS
        )
        if to_rerank and not steps:  # what a reranker was given, where no span retrieves it
            steps.append(Step("retrieved", to_rerank))
        if reranked:
            if not fresh and selected:
                selected.pop()
            selected.append(reranked)
            fresh = False
        elif retrieved:
            steps.append(Step("retrieved", retrieved))
            fresh = True
    if selected:
        steps.append(Step("reranked", tuple(chunk for chunks in selected for chunk in chunks)))
    return tuple(steps)


_DOCUMENTS = (
    ("reranker.input_documents",),
    ("reranker.output_documents",),
    ("retrieval.documents", "gen_ai.retrieval.documents"),
)


def _chunk(value: Any) -> Chunk:
    value = _within(value, "document")
    if not isinstance(value, dict):
        return Chunk(text_of(value))
    return Chunk(text_of(value), id_of(value.get("id")), number_of(value.get("score")))


def _within(value: Any, name: str) -> Any:
    """The object that an object wraps under this name, else the value itself."""
    value = unpacked(value)
    inner = at(value, name)
    return inner if isinstance(inner, dict) else value


def _prompt(tree: Tree) -> tuple[Message, ...]:
    """The messages of a model's span, as the model got them."""
    listed_messages = _items(at(tree, "llm.input_messages"))
    if not listed_messages:
        listed_messages = _items(first_at(tree, "gen_ai.input.messages", "gen_ai.prompt"))
        instructions = text_of(unpacked(at(tree, "gen_ai.system_instructions")))
        if instructions:
            listed_messages = [{"role": "system", "content": instructions}, *listed_messages]
    if listed_messages:
        return tuple(_message(one) for one in listed_messages)
    prompts = _items(at(tree, "llm.prompts"))
    value = prompts[0] if prompts else at(tree, "gen_ai.prompt")
    if isinstance(value, dict):
        value = at(value, "prompt.text")
    value = value if value is not None else at(tree, "input.value")
    return messages_of(value)


def _message(value: Any) -> Message:
    value = _within(value, "message")
    if not isinstance(value, dict):
        return Message("user", text_of(value))
    text = text_of(unpacked(value.get("content"))) or text_of(value.get("parts"))
    if not text:
        parts = [at(part, "message_content.text") for part in _items(value.get("contents"))]
        text = "\n".join(filter(None, map(text_of, parts)))
    role = id_of(value.get("role")).lower() or "user"
    return Message(role, text)


def _answer(tree: Tree) -> str:
    names = ("llm.output_messages", "gen_ai.output.messages", "gen_ai.completion")
    for name in names:
        listed_messages = _items(at(tree, name))
        if texts := [text for one in listed_messages if (text := _message(one).text)]:
            return texts[-1]
    choices = _items(at(tree, "llm.choices"))
    if choices and (text := text_of(at(choices[0], "completion.text"))):
        return text
    return text_of(unpacked(first_at(tree, "gen_ai.completion", "output.value")))


def _ended(tree: Tree) -> str:
    names = ("llm.finish_reason", "llm.output_messages.0.message.finish_reason")
    reason = first_at(tree, *names, "gen_ai.response.finish_reasons")
    if reason is None:
        outputs = _items(first_at(tree, "gen_ai.output.messages", "gen_ai.completion"))
        reason = at(outputs[-1], "finish_reason") if outputs else None
    return ended_of(unpacked(reason))


def _patient(spans: Sequence[_Call]) -> str:
    """The patient whom the first span names that names one, in metadata, an attribute or its
    input; else the one patient of all documents; else the session.

    ``user.id`` is who asks, so it is not taken for the patient.
    """
    for span in spans:
        tree = span.attributes
        stated = (at(tree, "metadata"), _custom_attributes(tree), at(tree, "input.value"))
        for members in (*stated, at(tree, "llm.prompt_template.variables")):
            if patient := _named_patient(unpacked(members)):
                return patient
    names = {_named_patient(one) for span in spans for one in _document_facts(span.attributes)}
    if len(names) == 1 and (patient := names.pop()):
        return patient
    sessions = ("session.id", "gen_ai.conversation.id")
    return next(filter(None, (id_of(first_at(span.attributes, *sessions)) for span in spans)), "")


def _custom_attributes(tree: Tree) -> Tree:
    """The attributes outside the semantic conventions, whose names the program chose."""
    return {name: value for name, value in tree.items() if name not in _STANDARD}


def _named_patient(members: Any, deeper: int = _MOST_NAMES) -> str:
    """The patient in an object's fields or those of objects in it: an id, an object with one, or a
    FHIR reference."""
    if not isinstance(members, dict):
        return ""
    stated = fields_of(members).get("patient", members.get("subject"))
    if isinstance(stated, dict):
        values = (stated.get(name) for name in ("id", "identifier", "mrn", "reference", ""))
        stated = next((one for one in values if one is not None), None)
    if (patient := id_of(stated)) and len(patient) <= _LONGEST_ID and "\n" not in patient:
        return patient  # else it is the text of a chart
    if not deeper:
        return ""
    inner = (_named_patient(value, deeper - 1) for value in members.values())
    return next(filter(None, inner), "")


def _document_facts(tree: Tree) -> list[Any]:
    """The metadata of a span's documents that have some."""
    documents = [one for names in _DOCUMENTS for one in _items(first_at(tree, *names))]
    return [f for one in documents if (f := unpacked(at(_within(one, "document"), "metadata")))]
