"""What users write in a spec, as pydantic models, and what is wrong with it in one line.

A field's limits stand in its type and its meaning, with units, in the docstring below it; the JSON
schema and the errors are made of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from core.errors import InputError, SpecError, UnknownName

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Schema = dict[str, Any]


class Options(BaseModel):
    """Fields of a spec; a field that is not there and a value of another type are errors."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

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
Several = Annotated[tuple[T, ...], Strict(False)]
"""A list."""
Chosen = Annotated[Several[T], Field(min_length=1)]
"""A list of at least one value."""
Different = Annotated[Several[T], Field(min_length=1), AfterValidator(different)]
"""A list of at least one value, none of them twice."""


def read_table(model: type[M], table: Mapping[str, Any]) -> M:
    """A table of a spec as ``model``.

    Raises SpecError or UnknownName in one line: path, value and what would be right.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise _refusal(error, model.model_json_schema()) from None


def _refusal(error: ValidationError, schema: Schema) -> InputError:
    """The first of the errors that lie deepest, which of a union belong to the type meant."""
    worst = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
    kind, place, value = worst["type"], worst["loc"], worst["input"]
    if kind in ("extra_forbidden", "missing"):
        node, path = _walk(schema, place[:-1])
        of = repr(path) if path else "the spec"
        if kind == "missing":
            return SpecError(f"{of} lacks {place[-1]!r}")
        valid = [name for one in _forms(schema, node) for name in one.get("properties", ())]
        return UnknownName(f"field of {of}", str(place[-1]), valid)
    node, path = _walk(schema, place)
    if kind == "twice":
        return SpecError(f"{path!r} of the spec {worst['msg']}")
    if "enum" in node:
        return UnknownName(f"value of {path!r}", str(value), map(str, node["enum"]))
    held = isinstance(place[-1], int)
    where = f"{path.rpartition('[')[0]!r} of the spec holds" if held else f"{path!r} of the spec is"
    return SpecError(f"{where} {value!r}; it takes {_takes(schema, node)}")


def _forms(schema: Schema, node: Schema) -> list[Schema]:
    """The forms that a value may have, references followed."""
    if "$ref" in node:
        return [schema["$defs"][node["$ref"].rpartition("/")[2]]]
    return [form for one in node.get("anyOf", ()) for form in _forms(schema, one)] or [node]


def _walk(schema: Schema, place: tuple[int | str, ...]) -> tuple[Schema, str]:
    """The schema of the value at ``place`` and its path as users write it."""
    node, path = schema, ""
    for part in place:
        for form in _forms(schema, node):
            if isinstance(part, int) and "items" in form:
                node, path = form["items"], f"{path}[{part}]"
                break
            if part in form.get("properties", {}):
                node, path = form["properties"][part], f"{path}.{part}" if path else str(part)
                break
    return node, path


def _takes(schema: Schema, node: Schema) -> str:
    """What a field takes, in words."""
    return " or ".join(dict.fromkeys(_form(schema, one) for one in _forms(schema, node)))


def _form(schema: Schema, form: Schema) -> str:
    if "enum" in form:
        return "one of " + ", ".join(map(str, form["enum"]))
    kind = form.get("type", "object")
    if kind == "array":
        least = " of at least one, each " if form.get("minItems") else ", each "
        return f"a list{least}{_takes(schema, cast(Schema, form['items']))}"
    words = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
    limits = [
        f" {word} {form[name]:g}" if isinstance(form[name], float) else f" {word} {form[name]}"
        for name, word in (("exclusiveMinimum", "above"), ("minimum", "from"), ("maximum", "to"))
        if name in form
    ]
    return "".join([words.get(kind, "a text" if kind == "string" else "a table"), *limits])
