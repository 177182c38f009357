"""What a spec of kind ``forecast`` may say, checked before a folder is made.

A variant is an attention with its options, and for a gated one how its gate is trained. Its label
is its name and what differs from the usual.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from core.attention import ATTENTIONS
from core.errors import SpecError, UnknownName
from core.experiments.forecast.baselines import BASELINES
from core.experiments.forecast.recipe import Choose, GateLoss, GateTraining
from core.sequences.store import SPLITS

USUAL = ("softmax", "differential", "gated_differential", "h2o", "entmax15", "sparsemax")
REFERENCE = "softmax"
"""The variant that the others are compared with."""
SEEDS = (1, 2, 3)
Split = Literal["official", "random"]
EPOCHS, LENGTH = 40, 256
ENCODER = {"norm": ("pre", "post"), "cls_gate": ("neutral", "zero")}
FIELDS = (
    "tasks", "variants", "baselines", "seeds", "epochs", "values", "subsample", "length",
    "encoder", "device", "devices",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """An attention to train: ``options`` are its own; ``gate``, ``loss`` how a gate is trained.

    The others are what the published run did not do alike for all, each off by default:
    ``clip`` (0: none), ``choose`` ("last": no tuning), ``split`` ("random": patients split anew)
    and ``encoder``, which goes before the run's own.
    """

    label: str
    name: str
    gate: GateTraining = "joint"
    loss: GateLoss = "bce"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    clip: float = 1.0
    choose: Choose = "best"
    split: Split = "official"
    encoder: Mapping[str, Any] = field(default_factory=dict[str, Any])


def read_options(table: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The fields of a spec, complete, as JSON values; raises SpecError or UnknownName.

    ``seed`` draws the labels where ``subsample`` is given; the trainings' own are ``seeds``.
    """
    for name in ("limit", "part"):
        if name in table:
            raise SpecError(
                f"a run of kind 'forecast' takes no {name}: it uses the official split; "
                "'subsample' takes so many labels a split"
            )
    variants = [_variant(value) for value in _list(table, "variants", USUAL)]
    labels = [one["label"] for one in variants]
    for label in labels:
        if labels.count(label) > 1:
            raise SpecError(f"'variants' of the spec holds {label!r} twice")
    baselines = _list(table, "baselines", tuple(BASELINES), empty=True)
    for name in baselines:
        if name not in BASELINES:
            raise UnknownName("baseline", str(name), BASELINES)
    seeds = _list(table, "seeds", SEEDS)
    if any(type(one) is not int or one < 0 for one in seeds) or len(set(seeds)) < len(seeds):
        raise SpecError(f"'seeds' of the spec is {seeds!r}; it takes different whole numbers")
    values = table.get("values", False)
    if type(values) is not bool:
        raise SpecError(f"'values' of the spec is {values!r}; it takes true or false")
    device = table.get("device", "")
    if not isinstance(device, str):
        raise SpecError(f"'device' of the spec is {device!r}; it takes a name such as 'cpu'")
    return {
        "tasks": [str(one) for one in _list(table, "tasks", (), empty=True)],
        "variants": variants,
        "baselines": list(dict.fromkeys(baselines)),
        "seeds": list(seeds),
        "epochs": _whole(table, "epochs", EPOCHS, 1),
        "values": values,
        "subsample": _subsample(table),
        "length": _whole(table, "length", LENGTH, 1),
        "encoder": _encoder(table.get("encoder", {})),
        "device": device,
        "devices": _whole(table, "devices", 1, 1),
    }


def variants_of(options: Mapping[str, Any]) -> list[Variant]:
    """The variants of a plan's options."""
    return [Variant(**one) for one in options["variants"]]


def _variant(value: Any) -> dict[str, Any]:
    given: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise SpecError(
            f"'variants' of the spec holds {value!r}; it takes names, or tables with a name"
        )
    if name not in ATTENTIONS.names():
        raise UnknownName("attention", name, ATTENTIONS.names())
    encoder = _encoder(given.pop("encoder", {}))
    told = given | {f"encoder.{key}": choice for key, choice in encoder.items()}
    changed = " ".join(f"{key}={told[key]}" for key in sorted(told))
    clip = given.pop("clip", 1.0)
    if type(clip) not in (int, float) or not 0 <= clip < math.inf:
        raise SpecError(f"'clip' of variant {name!r} is {clip!r}; it takes a number from 0")
    gate, loss = given.pop("gate", "joint"), given.pop("loss", "bce")
    choose, split = given.pop("choose", "best"), given.pop("split", "official")
    for key, choice, valid in (
        ("gate", gate, GateTraining),
        ("loss", loss, GateLoss),
        ("choose", choose, Choose),
        ("split", split, Split),
    ):
        if choice not in get_args(valid):
            listed = ", ".join(get_args(valid))
            raise SpecError(f"{key!r} of variant {name!r} is {choice!r}. Valid: {listed}")
    if changed:
        _try(
            name, given, {"gate", "loss"} & (value.keys() if isinstance(value, Mapping) else set())
        )
    label = f"{name} {changed}".strip()
    return {
        "label": label, "name": name, "gate": gate, "loss": loss, "options": given,
        "clip": float(clip), "choose": choose, "split": split, "encoder": encoder,
    }  # fmt: skip


def _try(name: str, options: Mapping[str, Any], of_gate: set[str]) -> None:
    """Make the attention once with its options; raises SpecError."""
    from core.attention.parts.base import Shape

    factory = ATTENTIONS.get(name)
    if of_gate and not getattr(factory, "gated", False):
        raise SpecError(f"variant {name!r} has no gate, so it takes no {' or '.join(of_gate)}")
    try:
        factory(Shape(), **options)
    except (TypeError, ValueError) as error:
        raise SpecError(f"variant {name!r}: {error}") from None


def _encoder(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise SpecError(f"'encoder' of the spec is {value!r}; it takes a table")
    given = cast("Mapping[str, Any]", value)
    for key, choice in given.items():
        if key not in ENCODER:
            raise UnknownName("field of 'encoder'", str(key), ENCODER)
        if choice not in ENCODER[key]:
            raise SpecError(f"{key!r} of 'encoder' is {choice!r}. Valid: {', '.join(ENCODER[key])}")
    return dict(given)


def _subsample(table: Mapping[str, Any]) -> int | dict[str, int]:
    """So many labels of every split, or of each by name; 0 is all."""
    value = table.get("subsample", 0)
    if not isinstance(value, Mapping):
        return _whole(table, "subsample", 0, 0)
    given = cast("Mapping[str, Any]", value)
    for name in given:
        if name not in SPLITS:
            raise UnknownName("split of 'subsample'", str(name), SPLITS)
    return {split: _whole(given, split, 0, 0) for split in SPLITS}


def most_of(options: Mapping[str, Any]) -> dict[str, int]:
    """At most so many labels of each split are used; 0 is all."""
    value = options["subsample"]
    return dict(value) if isinstance(value, Mapping) else dict.fromkeys(SPLITS, value)


def _list(
    table: Mapping[str, Any], name: str, usual: Sequence[Any], empty: bool = False
) -> list[Any]:
    value = table.get(name, list(usual))
    if not isinstance(value, list | tuple) or not (value or empty):
        raise SpecError(f"{name!r} of the spec is {value!r}; it takes a list")
    return list(cast("Sequence[Any]", value))


def _whole(table: Mapping[str, Any], name: str, usual: int, least: int) -> int:
    value = table.get(name, usual)
    if type(value) is not int or value < least:
        raise SpecError(f"{name!r} of the spec is {value!r}; it takes a whole number from {least}")
    return value
