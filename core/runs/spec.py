"""A run's spec: read from TOML or a mapping, checked before a folder is made; schema and presets.

An error is one line that names the field, the value and what would be right.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cache, reduce
from itertools import product
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, create_model
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import core_schema

from midchart.core import config as settings
from midchart.core import parsing, weights
from midchart.core.access import needs
from midchart.core.arms import ARMS
from midchart.core.egress.owners_list import read_host
from midchart.core.errors import (
    DataError,
    InputError,
    MissingKey,
    MissingModel,
    SpecError,
    UnknownName,
)
from midchart.core.judges import JUDGES
from midchart.core.named_files import name_of
from midchart.core.options import (
    CheckpointPath,
    Chosen,
    CohortPath,
    Count,
    Options,
    RunName,
    Schema,
    Several,
    SpecSchema,
    Text,
    Whole,
    Words,
    read_table,
)
from midchart.core.parsing import read_named, toml_string, user_path
from midchart.core.protocol import PRESETS, Protocol, parse
from midchart.core.readers import READERS
from midchart.core.registry import Registry
from midchart.core.runs.experiment import EXPERIMENTS, MADE, Experiment
from midchart.core.runs.plan import (
    BUFFER_ALONE,
    READER,
    UNLIMITED,
    ArmConfig,
    ComponentSpec,
    Spec,
    default_primary,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler


E = TypeVar("E", ArmConfig, ComponentSpec)
LISTS: Mapping[str, Registry[Any]] = {"arms": ARMS, "readers": READERS, "judges": JUDGES}
SCALARS = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "CheckpointPath": CheckpointPath,
}
SET_BY_RUN = ("label", "withdrawn")
"""Constructor arguments of a plain type that the run sets, so that a spec cannot."""


def _host(value: str) -> str:
    try:
        return read_host(value)
    except InputError as error:
        raise SpecError(f"'allow_hosts' of the spec: {error}") from None


class SpecFields(Options):
    """Fields of a spec of any kind."""

    name: RunName | SkipJsonSchema[None] = None
    """Name of the run in lists; default: the file's name."""
    group: RunName | SkipJsonSchema[None] = None
    """Runs of one cohort with the same group are listed as one entry; default: none."""
    kind: Text
    """The experiment."""
    data: CohortPath = Field(title="Cohort")
    """Name of a folder in data/cohorts, or a path to a cohort folder or a record file."""
    protocol: Annotated[
        Any, BeforeValidator(parse, json_schema_input_type=Literal[*PRESETS] | Protocol)
    ] = Field("corrected", validate_default=True)
    """A preset, or a table with a preset and the fields that differ from it."""
    seed: Whole | SkipJsonSchema[None] = None
    """Seed of all randomness; default: the protocol's, 42."""
    limit: Count | SkipJsonSchema[None] = Field(None, title="Number of questions")
    """Only the first so many questions of the cohort; default: all."""
    part: Literal["train", "validation", "test"] | SkipJsonSchema[None] = Field(
        None, title="Part of the patients"
    )
    """Only questions about patients of this part of the split that gates are trained by."""
    allow_hosts: Several[Annotated[str, AfterValidator(_host)]] = Field(
        (), title="Hosts allowed to receive record text"
    )
    """Servers off this machine; the cohort's data-use tag must allow it too."""


class ArmBudget(Options):
    """What an arm of a spec may keep, where it differs from the protocol."""

    k: Whole | SkipJsonSchema[None] = None
    """Units that the arm keeps."""
    recency: Whole | SkipJsonSchema[None] = None
    """Latest events that the recency buffer may show."""
    tokens: Whole | SkipJsonSchema[None] = None
    """Token budget, recency buffer included; 0: none."""


@dataclass(frozen=True, slots=True)
class Component:
    """Annotation of an arm, reader or judge in a spec: a name, or a table with its options, those
    of the class's ``options_model``, or else the constructor's arguments of plain types."""

    registry: Registry[Any]

    @cache  # noqa: B019 (registries are module constants)
    def model(self, name: str) -> type[Options]:
        """The table of the component ``name``; raises UnknownName."""
        factory = self.registry.get(name)
        fields: dict[str, Any] = {"name": (Literal[name], ...)}
        declared: type[Options] | None = getattr(factory, "options_model", None)
        if declared is not None:
            options_model: type[Options] = create_model(name, __base__=declared, **fields)
            options_model.__doc__ = getattr(factory, "title", name)
            return options_model
        for key, one in inspect.signature(factory).parameters.items():
            written = getattr(one.annotation, "__name__", str(one.annotation)).split(" | ")
            names = [part for part in written if part in SCALARS] or [type(one.default).__name__]
            types = dict.fromkeys(SCALARS[part] for part in names if part in SCALARS)
            if key == READER:
                fields[key] = (str | dict[str, Any] | SkipJsonSchema[None], None)
            elif types and key not in SET_BY_RUN:
                default = ... if one.default is inspect.Parameter.empty else one.default
                fields[key] = (reduce(or_, types), default)
        base = ArmBudget if self.registry is ARMS else Options
        options_model = create_model(name, __base__=base, **fields)
        options_model.__doc__ = getattr(factory, "title", name)
        return options_model

    def check(self, value: Any) -> dict[str, Any]:
        """A name or table as a table with a name; raises SpecError or UnknownName."""
        list_name = f"'{self.registry.family}s' of the spec"
        if not isinstance(value, str | Mapping):
            raise SpecError(f"{list_name} holds {value!r}; it takes names or tables with a name")
        table = (
            {"name": value} if isinstance(value, str) else dict(cast("Mapping[str, Any]", value))
        )
        name = table.get("name")
        if not isinstance(name, str):
            raise SpecError(f"{list_name} holds a table whose name is {name!r}")
        read_table(self.model(name), table, f"the {self.registry.family} {name!r}")
        return table

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> Schema:
        names = list(self.registry.names())
        tables = [self.model(name).model_json_schema(schema_generator=SpecSchema) for name in names]
        return {"anyOf": [{"type": "string", "enum": names}, *tables]}


@cache
def _model(kind: str) -> type[SpecFields]:
    """The fields of a spec of a kind."""
    experiment = EXPERIMENTS.build(kind)
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, required in experiment.lists.items():
        entry: Any = Annotated[Any, Component(LISTS[name])]
        about = f"{name.capitalize()}: names, or tables with a name and options."
        default: Any = experiment.usual_arms if name == "arms" else ()
        fields[name] = (
            Chosen[entry] if required else Several[entry],
            Field(
                ... if required and not default else default,
                description=about,
                validate_default=True,
            ),
        )
    if "judges" in experiment.lists:
        about = "Label of the judge that decides; default: choice, else statements, else the first."
        fields["primary_judge"] = (
            Words | SkipJsonSchema[None],
            Field(None, description=about),
        )
    if experiment.makes_records:
        fields["data"] = (Literal[MADE], MADE)
    model: Any = create_model(f"{kind} spec", __base__=SpecFields, **fields)
    if (options := experiment.options_model) is not None:
        model = create_model(f"{kind} spec", __base__=(options, model))
    return model


@needs("viewer")
@cache
def spec_schema(kind: str = "") -> Schema:
    """JSON schema (draft 2020-12) of a spec of a kind, or of any kind; raises UnknownName."""
    names = [EXPERIMENTS.build(kind).name] if kind else EXPERIMENTS.names()
    definitions: Schema = {}
    for name in names:
        experiment = EXPERIMENTS.build(name)
        table = _model(name).model_json_schema(
            ref_template=f"#/$defs/{name}.{{model}}", schema_generator=SpecSchema
        )
        definitions |= {f"{name}.{key}": one for key, one in table.pop("$defs").items()}
        for field in LISTS.keys() & table["properties"].keys():
            definitions[field] = table["properties"][field]["items"]
            table["properties"][field]["items"] = {"$ref": f"#/$defs/{field}"}
        for field in experiment.refuses.keys() | ({"data"} if experiment.makes_records else set()):
            table["properties"].pop(field, None)
        definitions[name] = table | {"title": experiment.title, "description": f"kind = {name}"}
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if kind:
        return {**draft, **definitions.pop(kind), "$defs": definitions}
    kinds = [{"$ref": f"#/$defs/{name}"} for name in names]
    return {**draft, "title": "Midchart run spec", "oneOf": kinds, "$defs": definitions}


def read_spec(source: str | Path | Mapping[str, Any]) -> Spec:
    """A spec from a TOML file's path, whose name it has unless it states one, or from a mapping;
    raises SpecError, UnknownName or MissingModel, each one line."""
    if isinstance(source, Mapping):
        return parse_spec(source)
    path = user_path(source)
    try:
        table = read_toml(read_named(path), str(path))
    except FileNotFoundError:
        raise SpecError(f"{path}: there is no such spec file") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror})") from None
    spec = parse_spec({"name": path.stem, **table})
    return dataclasses.replace(spec, base=str(path.resolve().parent))


def parse_spec(table: Mapping[str, Any]) -> Spec:
    """A spec from a mapping; raises as :func:`read_spec` does."""
    name = table.get("kind")
    if not isinstance(name, str):
        problem = f"'kind' of the spec is {name!r}" if "kind" in table else "the spec lacks 'kind'"
        raise SpecError(f"{problem}. Valid: {', '.join(EXPERIMENTS.names())}")
    kind = EXPERIMENTS.build(name)
    _refuse(table, kind)
    fields = read_table(_model(name), table)
    written: Mapping[str, Any] = {field: getattr(fields, field, ()) for field in LISTS}
    protocol: Protocol = fields.protocol
    if fields.seed is not None:
        protocol = dataclasses.replace(protocol, seed=fields.seed)
    readers = _components(written["readers"], READERS, protocol)
    arms = _different([_arm(one, protocol, readers) for one in written["arms"]], "arms")
    options = kind.options(table, protocol)
    judges = _components(written["judges"], JUDGES, protocol)
    return Spec(
        name=fields.name or name,
        kind=name,
        data=fields.data,
        arms=(*arms, *token_twins(arms, options.get("token_matched", ()), protocol)),
        reader_entries=readers,
        judge_entries=judges,
        protocol=protocol,
        limit=fields.limit,
        part=fields.part or "",
        options=options,
        allow_hosts=fields.allow_hosts,
        written=dict(table),
        group=fields.group or "",
        named_primary=_primary(getattr(fields, "primary_judge", None), judges),
    )


def _primary(named: str | None, judges: Sequence[ComponentSpec]) -> str:
    """The label of the judge that a spec names as primary; "" for none. Raises UnknownName."""
    labels = [entry.label for entry in judges]
    valid = dict.fromkeys((*labels, *filter(None, [default_primary(labels)])))
    if named is not None and named not in valid:
        raise UnknownName("primary judge of the spec", named, list(valid))
    return named or ""


def _refuse(table: Mapping[str, Any], kind: Experiment) -> None:
    """Raise SpecError for fields of other kinds that a kind does not take."""
    for field in table:
        why = f": {kind.refuses[field]}" if field in kind.refuses else ""
        if why or (field in LISTS and field not in kind.lists):
            raise SpecError(f"a run of kind {kind.name!r} takes no {field}{why}")
    if kind.makes_records and table.get("data", MADE) != MADE:
        raise SpecError(f"a run of kind {kind.name!r} makes its own records: leave 'data' out")


def _components(
    tables: Sequence[Mapping[str, Any]], registry: Registry[Any], protocol: Protocol
) -> tuple[ComponentSpec, ...]:
    read = [_component(table, registry, protocol) for table in tables]
    return _different(read, f"{registry.family}s")


def _component(
    table: Mapping[str, Any], registry: Registry[Any], protocol: Protocol
) -> ComponentSpec:
    """A reader or judge from its checked table, its options checked by the component itself."""
    name: str = table["name"]
    factory = registry.get(name)
    defaults = inspect.signature(factory).parameters
    written = {key: option for key, option in table.items() if key != "name"}
    changed = {key: one for key, one in written.items() if one != defaults[key].default}
    try_options(factory, registry.family, name, protocol, changed)
    return ComponentSpec(name, changed, _label(name, changed))


def component_options(
    registry: Registry[Any], name: str, options: Any, protocol: Protocol
) -> Mapping[str, Any]:
    """Options of a reader or judge that is asked outside of a run, held to what a spec may say;
    raises SpecError, UnknownName."""
    if not isinstance(options, Mapping) or "name" in options:
        of = f"the {registry.family} {name!r}"
        raise SpecError(f"the options of {of} are {options!r}; they take a table of its options")
    table = {**cast("Mapping[str, Any]", options), "name": name}
    return _component(Component(registry).check(table), registry, protocol).options


def _label(name: str, options: Mapping[str, Any]) -> str:
    shown = {k: name_of(v) if isinstance(v, str) else v for k, v in sorted(options.items())}
    return " ".join([name, *(f"{key}={option}" for key, option in shown.items())])


def _different(entries: Sequence[E], field: str) -> tuple[E, ...]:
    """The entries; SpecError where two do the same (labels, or places, may differ in spelling)."""
    for at, entry in enumerate(entries):
        for other in entries[:at]:
            same = dataclasses.replace(entry, label="") == dataclasses.replace(other, label="")
            if same or entry.label == other.label:
                raise SpecError(f"{field!r} of the spec holds {entry.label!r} twice")
    return tuple(entries)


def token_twins(
    arms: Sequence[ArmConfig], budgets: Sequence[int], protocol: Protocol
) -> list[ArmConfig]:
    """For each budget of tokens every arm of a run once more, held to it instead of to a k.

    A twin compares the arms' own picks: it has no recency buffer, the arm that is nothing else
    excepted, unless the protocol serves the buffer first (published).
    """
    twins: dict[str, ArmConfig] = {}
    for tokens, entry in product(budgets, arms):
        without = protocol.recency_rule == "share" and entry.name != BUFFER_ALONE
        left_out = ("k=", "tokens=", *(("recency=",) if without else ()))
        name, *changed = entry.label.split(" ")
        others = [part for part in changed if not part.startswith(left_out)]
        label = " ".join([name, "k=all", f"tokens={tokens}", *others])
        twin = dataclasses.replace(entry, k=UNLIMITED, tokens=tokens, label=label)
        twins.setdefault(label, dataclasses.replace(twin, recency=0) if without else twin)
    return list(twins.values())


def _arm(
    table: Mapping[str, Any], protocol: Protocol, readers: tuple[ComponentSpec, ...]
) -> ArmConfig:
    """An arm from its checked table; the label shows what differs from the protocol."""
    name: str = table["name"]
    factory, usual = ARMS.get(name), asdict(protocol.budget())
    options = {k: v for k, v in table.items() if k not in ("name", *usual)}
    budget = {field: table.get(field, value) or 0 for field, value in usual.items()}
    changed = [f"{field}={n}" for field, n in budget.items() if n != (usual[field] or 0)]
    works_with_reader = READER in inspect.signature(factory).parameters
    shown, named = dict(options), options.pop(READER, None) if works_with_reader else None
    try_options(factory, ARMS.family, name, protocol, options, build=not works_with_reader)
    if works_with_reader:
        reader = _reader_of(name, named, protocol, readers)
        shown |= {READER: reader.label} if named is not None else {}
        options[READER] = asdict(reader)
    label = _label(" ".join([name, *changed]), shown)
    tokens = budget["tokens"] or None
    return ArmConfig(name, budget["k"], budget["recency"], tokens, options, label)


def _reader_of(
    arm: str, value: Any, protocol: Protocol, readers: tuple[ComponentSpec, ...]
) -> ComponentSpec:
    """The reader an arm works with: its own option, or else the run's first that writes."""
    named = readers
    if value is not None:
        named = (_component(Component(READERS).check(value), READERS, protocol),)
    for entry in named:
        if _writes(entry.name):
            return entry
    able = [name for name in READERS.names() if _writes(name)]
    quoting = ", ".join(repr(entry.name) for entry in named)
    why = f"{quoting} only picks lines of its prompt" if named else "this run has none"
    raise SpecError(
        f"the arm {arm!r} works with a reader that writes, and {why}; name one: "
        f'{{ name = "{arm}", reader = "{able[0]}" }}. Valid: {", ".join(able)}'
    )


def _writes(reader: str) -> bool:
    return getattr(READERS.get(reader), "generative", True)


def try_options(
    factory: Callable[..., Any],
    family: str,
    name: str,
    protocol: Protocol,
    options: Mapping[str, Any],
    build: bool = True,
) -> None:
    """Let the member itself refuse its options before anything is written; a member without
    ``check`` may be built (``build``) for that."""
    check = getattr(factory, "check", None)
    try:
        if check is not None:
            check(protocol, **options)
            return
        weights_needed = getattr(factory, "needs", None)
        if weights_needed and (problem := weights.problem(weights_needed)):
            raise MissingModel(problem)
        if options and build:
            factory(protocol, **options)
    except (MissingModel, MissingKey) as error:
        missing = _gathered.get()
        if missing is None:
            raise
        missing.append(str(error))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise SpecError(f"the {family} {name!r} refuses its options: {error}") from None


_gathered: ContextVar[list[str] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering() -> Generator[list[str]]:
    """While a spec is read inside, weights and keys that are not here are gathered, not raised."""
    missing: list[str] = []
    token = _gathered.set(missing)
    try:
        yield missing
    finally:
        _gathered.reset(token)


# Specs as TOML, and presets: the files of ``docs/``, the paper's comparison among them.


DEMO = "demo"
FIRST = {
    "first": "First comparison, 20 questions",
    DEMO: "Every arm and control, two readers",
    "paper-corrected": "Paper, corrected",
    "paper-published": "Paper, as published",
}
"""The presets that are listed first, with their titles; the others have their specs' names."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset spec: a name that is safe in a URL, a title and its TOML."""

    name: str
    title: str
    text: str


@needs("viewer")
def kinds() -> list[dict[str, Any]]:
    """The kinds of run: ``name``, ``title``, ``answers``: its runs have answers to review, and
    ``cards``: its questions are dealt to clinicians, who mark their evidence."""
    built = [EXPERIMENTS.build(name) for name in EXPERIMENTS.names()]
    return [
        {"name": k.name, "title": k.title, "answers": "answers" in k.schemas, "cards": k.cards}
        for k in built
    ]


@needs("viewer")
def presets() -> list[Preset]:
    """All presets, the files of ``docs/``: those of :data:`FIRST`, then the others by name."""
    files = {path.stem: path for path in sorted((settings.ROOT / "docs").glob("*.toml"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    titles = {name: str(read_toml(text)["name"]) for name, text in texts.items()} | FIRST
    order = dict.fromkeys((*FIRST, *files))
    return [Preset(name, titles[name], texts[name]) for name in order if name in files]


def read_toml(text: str | bytes, name: str = "the spec") -> dict[str, Any]:
    """A spec's TOML as a mapping, fields unchecked; raises SpecError that begins with ``name``."""
    try:
        return parsing.read_toml(text, name)
    except DataError as error:
        raise SpecError(str(error)) from None


def write_toml(table: Mapping[str, Any]) -> str:
    """A spec as TOML, a field a line: :func:`read_toml` gives the same mapping, without the fields
    that are None.

    Raises SpecError for a value that a spec cannot hold.
    """
    fields = {name: value for name, value in table.items() if value is not None}
    return "".join(f"{_key(name)} = {value_toml(value)}\n" for name, value in fields.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_string(name)


def value_toml(value: Any) -> str:
    """A value of a spec as TOML; raises SpecError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = cast("Mapping[str, Any]", value)
        fields = ", ".join(
            f"{_key(k)} = {value_toml(v)}" for k, v in inside.items() if v is not None
        )
        return f"{{ {fields} }}" if fields else "{}"
    if isinstance(value, list | tuple):
        items = [value_toml(one) for one in cast("Sequence[Any]", value)]
        line = f"[{', '.join(items)}]"
        return line if len(line) < 80 else "[\n" + "".join(f"    {i},\n" for i in items) + "]"
    raise SpecError(f"a spec cannot hold {type(value).__name__}")
