"""Spec fields of kind ``inhibition``: decoder, training and measurements; without torch.

Everything but a variant's attention is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from midchart.core.attention import ATTENTIONS
from midchart.core.errors import SpecError
from midchart.core.options import Count, Different, Known, Options, Whole
from midchart.extras.lab.inhibition.records import (
    DATES,
    PLACEMENTS,
    VOCABULARY,
    Placement,
)

Labels = Literal["true", "shuffled"]
Positive = Annotated[float, Field(gt=0)]
REFERENCE = "softmax"
"""The variant that the others are compared with."""
GATED, GATED_SOFTMAX = "gated_differential", "gated_softmax"
"""The attention that subtracts by a gate, and its control with the gate and no subtraction."""
NOT_FOR_DECODERS = ("h2o",)
"""Attentions that drop positions for all queries."""
Attention = Annotated[
    str,
    Known(
        "attention of a decoder",
        lambda: [one for one in ATTENTIONS.names() if one not in NOT_FOR_DECODERS],
    ),
]


class DecoderOptions(Options):
    """The shape of a decoder of Qwen2's form, the same for every attention."""

    dim: Count = 96
    """Model width, split among the heads."""
    heads: Count = 3
    layers: Count = 2
    feedforward: Count = 192
    """Width between the two layers of a feed-forward block."""
    theta: Positive = 1e6
    """Base of rotary positions."""
    look_back: bool = True
    """Initialise the heads of the first layer to attend 1, 2, … tokens back."""

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.dim % (4 * self.heads):
            raise SpecError(
                f"a decoder of dim {self.dim} with {self.heads} heads has heads of "
                f"{self.dim / self.heads:g}; their width must be a multiple of 4"
            )
        return self


class DecoderConfig(DecoderOptions):
    """A decoder; ``attention`` is a name of ATTENTIONS, ``options`` its options."""

    vocabulary: Count
    attention: str = "softmax"
    options: Mapping[str, Any] = Field(default_factory=dict)


class TrainingOptions(Options):
    """One recipe for every variant: AdamW, with a linear warm-up, a constant rate, and a cosine
    to 0 over the second half."""

    steps: Count = 1000
    batch: Count = 16
    """Records a step."""
    questions: Count = 16
    """Questions about each record."""
    shortest: Annotated[int, Field(ge=2)] = 4
    """Fewest lines of a training record; drawn each step."""
    longest: Count = 24
    """Most lines of a training record."""
    rate: Positive = 3e-3
    """Learning rate."""
    warm_up: Whole = 50
    """Steps until the rate is full."""
    decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay."""
    clip: Positive = 1.0
    """Largest norm of all gradients together."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise SpecError("'training' of the spec: shortest is more than longest")
        return self


class DecoderRecipe(TrainingOptions):
    """The recipe of one training; only ``labels`` depends on the attention.

    ``save_every``: steps between checkpoints. ``labels``: the targets of a gate's own loss: the
    line of the evidence ("true"), or, as a control, that of another question ("shuffled").
    """

    placement: Placement = "uniform"
    seed: Whole = 1
    save_every: Count = 100
    labels: Labels = "true"


@dataclass(frozen=True, slots=True)
class Stage:
    """The state of a training after ``step`` steps.

    ``loss``, ``accuracy``, ``gate_loss`` (nan without a gate): means over the training questions
    since the previous stage; ``seconds`` spent on them.
    """

    step: int
    loss: float
    accuracy: float
    gate_loss: float
    seconds: float


PARTS = ("evidence", "distractors", "first", "rest")
"""Parts of a sequence that attention is summed over: the needle's line, the distractors' lines, the
first token of the record, and the rest (other lines and the question)."""


class Measures(Options):
    """The needle evaluation."""

    records: Count = 100
    """Records of each length and number of distractors."""
    depths: Annotated[int, Field(ge=3)] = 7
    """Positions of the needle in each record."""
    lengths: Different[Annotated[int, Field(ge=2)]] = (12, 24, 36, 48)
    """Lengths in lines, each at ``usual`` distractors."""
    base: Count = 24
    """The length at which every number of distractors is measured."""
    usual: Whole = 2
    distractors: Different[Whole] = (0, 1, 2, 4)
    seed: Whole = 42
    """Draws the records."""

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.base not in self.lengths:
            raise SpecError(f"'measures' of the spec: base {self.base} is none of its lengths")
        if min(self.lengths) <= self.depths:
            raise SpecError(
                "'measures' of the spec: a length has no more lines than there are depths"
            )
        return self

    @property
    def conditions(self) -> tuple[tuple[int, int], ...]:
        """(length, distractors) of every set of records, each once."""
        both = [(length, self.usual) for length in self.lengths]
        both += [(self.base, count) for count in self.distractors]
        return tuple(dict.fromkeys(both))


@dataclass(frozen=True, eq=False, slots=True)
class Cell:
    """A condition at a depth: ``correct`` bool [records], and the attention mass of the answering
    token, [layers, parts, records], mean over heads, by :data:`PARTS`. Of variants that subtract,
    mass may be negative and does not sum to 1."""

    length: int
    distractors: int
    depth: float
    correct: NDArray[np.bool_]
    mass: NDArray[np.float64]


class DecoderVariantOptions(Options):
    """An attention to train; further fields are the attention's options."""

    model_config = ConfigDict(extra="allow")

    name: Attention
    """The attention."""
    labels: Labels = "true"
    """Targets of a gate: the evidence, or as a control another question's evidence."""

    @property
    def label(self) -> str:
        """The name and the fields that differ from the defaults; unique among a run's variants."""
        changed = dict(self.model_extra or {})
        if self.labels != "true":
            changed["labels"] = self.labels
        return " ".join([self.name, *(f"{key}={changed[key]}" for key in sorted(changed))])

    def plan(self) -> dict[str, Any]:
        """The variant as stored in a plan: the attention's options are a nested table."""
        options = self.model_extra or {}
        return {"label": self.label, "name": self.name, "options": options, "labels": self.labels}


def _table(value: Any) -> Any:
    """A variant's table from its name, or from the table of a plan."""
    if not isinstance(value, Mapping):
        return {"name": value} if isinstance(value, str) else value
    fields = {key: one for key, one in value.items() if key not in ("label", "options")}
    return {**fields, **value.get("options", {})}


class InhibitionOptions(Options):
    """The fields of kind ``inhibition``."""

    variants: Different[
        Annotated[
            DecoderVariantOptions,
            BeforeValidator(_table, json_schema_input_type=Attention | DecoderVariantOptions),
        ]
    ] = (
        *(
            DecoderVariantOptions(name=name)
            for name in (REFERENCE, "differential", GATED, GATED_SOFTMAX)
        ),
        DecoderVariantOptions(name=GATED, labels="shuffled"),
    )
    """Attentions to compare: names, or tables with a name and options."""
    placements: Different[Placement] = PLACEMENTS
    """Positions of the evidence in training."""
    seeds: Different[Whole] = (1, 2, 3)
    """One training for each."""
    decoder: DecoderOptions = Field(default_factory=DecoderOptions)
    training: TrainingOptions = Field(default_factory=TrainingOptions)
    measures: Measures = Field(default_factory=Measures)
    device: str = ""
    """Where to train, such as "cpu" or "cuda:1"; empty means the fastest there is."""

    @model_validator(mode="after")
    def _valid(self) -> Self:
        """Construct each attention once; limit the lengths to the calendar."""
        from midchart.core.attention.base import Shape

        for one in self.variants:
            shape = Shape(1, self.decoder.dim // self.decoder.heads)
            try:
                attention = ATTENTIONS.build(one.name, shape, **(one.model_extra or {}))
            except (TypeError, ValueError) as error:
                raise SpecError(f"variant {one.name!r}: {error}") from None
            if one.labels != "true" and not attention.gated:
                raise SpecError(
                    f"variant {one.name!r} has no gate, so there are no labels to shuffle"
                )
        if max(self.training.longest, *self.measures.lengths) > DATES:
            raise SpecError(f"records of the lab have at most {DATES} lines")
        return self

    def plan(self) -> dict[str, Any]:
        return super().plan() | {"variants": [one.plan() for one in self.variants]}


def measures_of(options: Mapping[str, Any]) -> Measures:
    """A plan's needle evaluation."""
    return Measures(**options["measures"])


def decoder_of(options: Mapping[str, Any], variant: Mapping[str, Any]) -> DecoderConfig:
    """The shape of a plan's decoder with a variant's attention."""
    return DecoderConfig(
        vocabulary=VOCABULARY,
        attention=variant["name"],
        options=dict(variant["options"]),
        **options["decoder"],
    )


def recipe_of(
    options: Mapping[str, Any], variant: Mapping[str, Any], placement: Any, seed: int
) -> DecoderRecipe:
    """A plan's recipe for a variant, a placement and a seed."""
    return DecoderRecipe(
        **options["training"], placement=placement, seed=seed, labels=variant["labels"]
    )


def controls_of(options: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Label of each variant that subtracts by a gate with true labels → the labels of its controls.

    The first has the same gate and loss without subtraction; the second's gate has shuffled labels.
    They may be missing in the run.
    """
    return {
        one["label"]: (
            GATED_SOFTMAX,
            DecoderVariantOptions(name=GATED, labels="shuffled", **one["options"]).label,
        )
        for one in options["variants"]
        if one["name"] == GATED and one.get("labels", "true") == "true"
    }
