"""What a spec of kind ``inhibition`` may say, checked before a folder is made.

A variant is an attention with its options; its label is its name and what differs from the usual.
Everything else is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from core.attention import ATTENTIONS
from core.errors import SpecError, UnknownName
from core.experiments.inhibition.config import LABELS, PLACEMENTS, DecoderConfig, Measures, Recipe
from core.experiments.inhibition.records import VOCABULARY

USUAL = (
    "softmax", "differential", "gated_differential", "gated_softmax",
    {"name": "gated_differential", "labels": "shuffled"},
)  # fmt: skip
REFERENCE = "softmax"
"""The variant that the others are compared with."""
GATED, TAUGHT = "gated_differential", "gated_softmax"
"""The attention that subtracts by a gate, and its control that has the gate and does not."""
NOT_FOR_DECODERS = ("h2o",)
"""Attentions that drop positions for all who look."""
SEEDS = (1, 2, 3)
FIELDS = ("variants", "placements", "seeds", "decoder", "training", "measures", "device")
DECODER: Mapping[str, Any] = {
    "dim": 96, "heads": 3, "layers": 2, "feedforward": 192, "theta": 1e6, "look_back": True,
}  # fmt: skip
TRAINING = {
    name: value
    for name, value in asdict(Recipe()).items()
    if name not in ("placement", "seed", "save_every", "labels")
}
LEAST: Mapping[str, int] = {"shortest": 2, "warm_up": 0, "usual": 0, "seed": 0, "depths": 3}
"""The least that some whole numbers may be; others 1."""


def read_options(table: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The fields of a spec, complete, as JSON values; raises SpecError or UnknownName.

    ``seed`` draws the records that are examined; the trainings' own are ``seeds``.
    """
    for name in ("limit", "part"):
        if name in table:
            raise SpecError(f"a run of kind 'inhibition' takes no {name}: it makes its own records")
    variants = [_variant(value) for value in _list(table, "variants", USUAL)]
    labels = [one["label"] for one in variants]
    placements = _list(table, "placements", PLACEMENTS)
    for one in placements:
        if one not in PLACEMENTS:
            raise UnknownName("placement", str(one), PLACEMENTS)
    seeds = _list(table, "seeds", SEEDS)
    if any(type(one) is not int or one < 0 for one in seeds):
        raise SpecError(f"'seeds' of the spec is {seeds!r}; it takes whole numbers")
    for name, values in (("variants", labels), ("placements", placements), ("seeds", seeds)):
        if len(set(values)) < len(values):
            raise SpecError(f"{name!r} of the spec holds the same twice")
    device = table.get("device", "")
    if not isinstance(device, str):
        raise SpecError(f"'device' of the spec is {device!r}; it takes a name such as 'cpu'")
    options = {
        "variants": variants,
        "placements": placements,
        "seeds": seeds,
        "decoder": _table(table, "decoder", DECODER),
        "training": _table(table, "training", TRAINING),
        "measures": _table(table, "measures", measures_table(Measures(seed=seed))),
        "device": device,
    }
    _try(options)
    return options


def measures_table(measures: Measures) -> dict[str, Any]:
    """What is measured, as JSON values."""
    found = asdict(measures)
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}


def measures_of(options: Mapping[str, Any]) -> Measures:
    """What a plan measures."""
    given: Mapping[str, Any] = options["measures"]
    lists: dict[str, Any] = {name: tuple(given[name]) for name in ("lengths", "distractors")}
    return Measures(**{**given, **lists})


def decoder_of(options: Mapping[str, Any], variant: Mapping[str, Any]) -> DecoderConfig:
    """The shape of a plan's decoder with a variant's attention."""
    return DecoderConfig(
        VOCABULARY.size, variant["name"], dict(variant["options"]), **options["decoder"]
    )


def recipe_of(
    options: Mapping[str, Any], variant: Mapping[str, Any], placement: Any, seed: int
) -> Recipe:
    """A plan's recipe for a variant, a placement and a seed."""
    return Recipe(**options["training"], placement=placement, seed=seed, labels=variant["labels"])


def controls_of(options: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Label of each variant that subtracts by a gate taught the truth → the labels of its controls.

    The first has the same gate and loss and subtracts nothing; the second's gate is taught
    shuffled labels. Whether the run has them, its variants say.
    """
    found: dict[str, tuple[str, str]] = {}
    for one in options["variants"]:
        if one["name"] == GATED and one.get("labels", "true") == "true":
            shuffled = {"name": GATED, **one["options"], "labels": "shuffled"}
            found[one["label"]] = (TAUGHT, _variant(shuffled)["label"])
    return found


def _variant(value: Any) -> dict[str, Any]:
    given: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise SpecError(
            f"'variants' of the spec holds {value!r}; it takes names, or tables with a name"
        )
    valid = [one for one in ATTENTIONS.names() if one not in NOT_FOR_DECODERS]
    if name not in valid:
        raise UnknownName("attention of a decoder", name, valid)
    given.pop("label", None)  # a plan's own form of a variant has its label and its options apart
    given |= given.pop("options", {})
    labels = given.pop("labels", "true")
    if labels not in LABELS:
        raise UnknownName("'labels' of a variant", str(labels), LABELS)
    shuffled = {} if labels == "true" else {"labels": labels}
    changed = " ".join(f"{key}={value}" for key, value in sorted((given | shuffled).items()))
    label = f"{name} {changed}".strip()
    return {"label": label, "name": name, "options": given, "labels": labels}


def _try(options: Mapping[str, Any]) -> None:
    """Hold shapes and sizes to what can be made; raises SpecError."""
    from core.attention.parts.base import Shape

    decoder, training = options["decoder"], options["training"]
    measures = measures_of(options)
    width = decoder["dim"] // decoder["heads"]
    if decoder["dim"] % decoder["heads"] or width % 4:
        raise SpecError(
            f"a decoder of dim {decoder['dim']} with {decoder['heads']} heads has heads of "
            f"{decoder['dim'] / decoder['heads']:g}; their width must be a multiple of 4"
        )
    for variant in options["variants"]:
        try:
            made = ATTENTIONS.build(variant["name"], Shape(1, width), **variant["options"])
        except (TypeError, ValueError) as error:
            raise SpecError(f"variant {variant['name']!r}: {error}") from None
        if variant["labels"] != "true" and not made.gated:
            raise SpecError(
                f"variant {variant['name']!r} has no gate, so there are no labels to shuffle"
            )
    if training["shortest"] > training["longest"]:
        raise SpecError("'training' of the spec: shortest is more than longest")
    if measures.base not in measures.lengths:
        raise SpecError(f"'measures' of the spec: base {measures.base} is none of its lengths")
    if max(training["longest"], *measures.lengths) > VOCABULARY.dates:
        raise SpecError(f"records of the lab have at most {VOCABULARY.dates} lines")
    if min(measures.lengths) <= measures.depths:
        raise SpecError("'measures' of the spec: a length has no more lines than there are depths")


def _table(table: Mapping[str, Any], name: str, usual: Mapping[str, Any]) -> dict[str, Any]:
    """A table of the spec whose values are of the types of the usual ones."""
    value = table.get(name, {})
    if not isinstance(value, Mapping):
        raise SpecError(f"{name!r} of the spec is {value!r}; it takes a table")
    given = cast("Mapping[str, Any]", value)
    for key, one in given.items():
        if key not in usual:
            raise UnknownName(f"field of {name!r}", str(key), usual)
        if not _fits(key, one, usual[key]):
            raise SpecError(f"{key!r} of {name!r} is {one!r}; it takes a value like {usual[key]!r}")
    return {**usual, **given}


def _fits(name: str, value: Any, usual: Any) -> bool:
    if isinstance(usual, bool):
        return isinstance(value, bool)
    if isinstance(usual, list):
        every = cast("list[Any]", value) if isinstance(value, list) else []
        least = 0 if name == "distractors" else 2
        whole = all(type(one) is int and one >= least for one in every)
        return whole and bool(every) and len(set(every)) == len(every)
    if isinstance(usual, int):
        return type(value) is int and value >= LEAST.get(name, 1)
    return (type(value) in (int, float) and value > 0) or (value == 0 and name == "decay")


def _list(table: Mapping[str, Any], name: str, usual: Sequence[Any]) -> list[Any]:
    value = table.get(name, list(usual))
    if not isinstance(value, list | tuple) or not value:
        raise SpecError(f"{name!r} of the spec is {value!r}; it takes a list")
    return list(cast("Sequence[Any]", value))
