"""Pydantic base of everything a user writes (spec, protocol, options), and its one-line errors. A
field's type holds its limits; the docstring below it holds its meaning with units."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError, core_schema

from midchart.core.errors import InputError, SpecError, UnknownName

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Schema = dict[str, Any]
SPEC = "the spec"


def _title(name: str, _: object) -> str:
    return name.replace("_", " ").capitalize()


CONFIG = ConfigDict(
    strict=True,
    extra="forbid",
    allow_inf_nan=False,
    use_attribute_docstrings=True,
    field_title_generator=_title,
)
"""Unknown fields, values of another type and numbers that are not finite are errors."""


class SpecSchema(GenerateJsonSchema):
    """JSON schema in which a default of None is a field left out: TOML has no null."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> Schema:
        json_schema = super().default_schema(schema)
        if json_schema.get("default", "") is None:
            del json_schema["default"]
        return json_schema


class Options(BaseModel):
    """Fields of a table that a user writes."""

    model_config: ClassVar[ConfigDict] = {**CONFIG, "frozen": True}

    def plan(self) -> dict[str, Any]:
        """All fields as JSON values, as a plan holds them."""
        return self.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class Known:
    """Annotation of a value that must be one of ``valid()``; ``what`` names it."""

    what: str
    valid: Callable[[], Iterable[Any]]

    def check(self, value: Any) -> Any:
        """``value`` itself; raises UnknownName for one that is none of the valid ones."""
        valid = list(self.valid())
        if isinstance(value, bool) or value not in valid:
            raise UnknownName(self.what, str(value), map(str, valid))
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> Schema:
        return {**handler(schema), "enum": list(self.valid())}


def different(values: tuple[T, ...]) -> tuple[T, ...]:
    """The values themselves; an error for one (or a label) that is there twice."""
    shown = [getattr(value, "label", value) for value in values]
    for one in shown:
        if shown.count(one) > 1:
            raise PydanticCustomError("twice", "holds {one} twice", {"one": repr(one)})
    return values


Whole = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(pattern=r"\S")]
"""A text that is not blank."""
FORMAT = "format"
"""Keyword of the JSON schema that says what a text is: one of the formats below."""
COHORT = "cohort"
RECEIVED = "received file"
CHECKPOINT = "checkpoint"
WORDS = "words"
"""Formats of texts: three name a file or folder (:mod:`midchart.core.named_files`), words name
none. People who sign in may not write a path in a text without a format."""
CohortPath = Annotated[Text, Field(json_schema_extra={FORMAT: COHORT})]
"""A cohort's name or path."""
ReceivedPath = Annotated[str, Field(json_schema_extra={FORMAT: RECEIVED})]
"""The path, or name, of a file or folder that another system or person made; "" where there is
none."""
CheckpointPath = Annotated[str, Field(json_schema_extra={FORMAT: CHECKPOINT})]
"""The same of a trained gate's folder or of a calibration."""
Words = Annotated[Text, Field(json_schema_extra={FORMAT: WORDS})]
"""A text that is not blank and that no program opens."""
LONGEST_RUN_NAME = 200


def _printable(text: str) -> str:
    if not text.isprintable() or len(text) > LONGEST_RUN_NAME:
        rule = f"takes printable text of at most {LONGEST_RUN_NAME} characters"
        raise PydanticCustomError("unprintable", "{rule}", {"rule": rule})
    return text


RunName = Annotated[
    Words,
    StringConstraints(strip_whitespace=True),
    AfterValidator(_printable),
]
"""The name of a run, or of a group of runs, in lists: blanks at its ends are left out."""
_RUN_NAME: TypeAdapter[str] = TypeAdapter(RunName, config=CONFIG)


def read_run_name(name: str, of: str) -> str:
    """The name of a run without blanks at its ends, "" where it is blank; ``of``: what is named.
    Raises InputError."""
    try:
        return _RUN_NAME.validate_python(name) if name.strip() else ""
    except ValidationError:
        rule = f"printable text of {LONGEST_RUN_NAME} characters at most"
        raise InputError(f"{of}: name: {rule}") from None


Several = Annotated[tuple[T, ...], Strict(False)]
"""A list."""
Chosen = Annotated[Several[T], Field(min_length=1)]
"""A list of at least one value."""
Different = Annotated[Several[T], Field(min_length=1), AfterValidator(different)]
"""A list of at least one value, none of them twice."""


def read_table(model: type[M], table: Mapping[str, Any], of: str = SPEC) -> M:
    """A table that a user wrote as ``model``; ``of``: its name in errors. Raises SpecError or
    UnknownName in one line."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise refusal(error, model, of) from None


_TAG = re.compile(r"int|str|float|bool|none|.*[^a-z0-9_].*|[A-Z].*")
"""What pydantic writes into a place for a form of a union."""


def _fields(model: Any, place: Iterable[int | str]) -> list[str]:
    """The fields of the table at a place in a table of ``model``."""
    for part in place:
        field = getattr(model, "model_fields", {}).get(part)
        model = field.annotation if field is not None else None
    names = getattr(model, "model_fields", getattr(model, "__pydantic_fields__", {}))
    return list(names)


def refusal(error: ValidationError, model: Any, of: str = SPEC) -> InputError:
    """One line for the first of the deepest errors, which in a union is of the type meant;
    ``model``: that of the table, which ``of`` names."""
    worst = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
    kind, value = worst["type"], worst["input"]
    unknown = kind in ("extra_forbidden", "unexpected_keyword_argument")
    *outer, last = worst["loc"] or ("",)
    place = [one for one in outer if isinstance(one, int) or not _TAG.fullmatch(one)]
    if unknown or isinstance(last, int) or not _TAG.fullmatch(last):
        place.append(last)  # a person's own key may look like a form
    path = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place)[1:]
    if unknown:
        table = of if len(place) == 1 else repr(path.rpartition(".")[0])
        return UnknownName(f"field of {table}", str(place[-1]), _fields(model, place[:-1]))
    if kind == "missing":
        return SpecError(f"{path.rpartition('.')[0] or of} lacks {place[-1]!r}")
    if kind in ("twice", "unprintable"):
        return SpecError(f"{path!r} of {of} {worst['msg']}")
    if kind in ("literal_error", "enum") and isinstance(value, str):
        known = re.findall(r"'([^']*)'", worst.get("ctx", {})["expected"])
        what = f"value of {path!r}" if of == SPEC else f"value of {path!r} of {of}"
        return UnknownName(what, value, [one or '""' for one in known])
    rule = worst["msg"].replace("Input", "it").replace("Tuple", "it").replace("tuple", "list")
    held = f"{path.rpartition('[')[0]!r} of {of} holds" if path.endswith("]") else ""
    return SpecError(f"{held or f'{path!r} of {of} is'} {value!r}; {rule}")


def received_fields(model: type[BaseModel] | None) -> frozenset[str]:
    """The fields of a model that name a received file."""
    fields = model.model_json_schema()["properties"] if model is not None else {}
    return frozenset(name for name, field in fields.items() if field.get(FORMAT) == RECEIVED)


class Configurable:
    """A reader or judge with a pydantic model of options: ``Component(protocol, **options)``. An
    ``__init__`` names the arguments which a run provides (egress, folder, label, watch) and passes
    ``**options`` on."""

    family: ClassVar[str]
    options_model: ClassVar[type[Options]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls, "options_model"):
            return
        arguments = list(inspect.signature(cls.__init__).parameters.values())[1:]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            for name, field in cls.options_model.model_fields.items()
        ]
        named = [one for one in arguments if one.kind is not inspect.Parameter.VAR_KEYWORD]
        cls.__signature__ = inspect.Signature([*named, *options])  # pyright: ignore

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> Any:
        """The options as the model of the class; raises SpecError or UnknownName."""
        name = getattr(cls, "name", cls.__name__)
        return read_table(cls.options_model, options, f"the {cls.family} {name!r}")
