"""Spec fields of kind ``forecast``, and the recipe of a training; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from midchart.core.attention import ATTENTIONS
from midchart.core.errors import SpecError
from midchart.core.options import Count, Different, Known, Options, Several, Whole
from midchart.core.sequences.store import SPLITS
from midchart.core.training_experiments.forecast.examples import BASELINES

GateTraining = Literal["joint", "frozen"]
GateLoss = Literal["bce", "focal"]
Choose = Literal["best", "last"]
Split = Literal["official", "random"]
REFERENCE = "softmax"
"""The variant that the others are compared with."""


class EncoderOptions(TypedDict, total=False):
    """Choices in which the encoders of the published run differed."""

    __pydantic_config__ = Options.model_config  # pyright: ignore[reportGeneralTypeIssues]
    norm: Literal["pre", "post"]
    """Layer norm before or after each block."""
    cls_gate: Literal["neutral", "zero"]
    """A gate's value for the summary token."""


class EncoderVariantOptions(Options):
    """An attention to train; further fields are the attention's options."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Known("attention", ATTENTIONS.names)]
    """The attention."""
    gate: GateTraining = "joint"
    """Train a gate with the encoder, or alone first and then freeze it."""
    loss: GateLoss = "bce"
    """The gate's own loss."""
    clip: Annotated[float, Field(ge=0)] = 1.0
    """Largest norm of all gradients together; 0 clips none."""
    choose: Choose = "best"
    """The epoch with the best tuning AUROC, or the last one: no tuning."""
    split: Split = "official"
    """The cohort's official split, or patients split at random."""
    encoder: EncoderOptions = Field(default_factory=EncoderOptions)
    """Overrides the run's."""

    @property
    def label(self) -> str:
        """The name and all fields set; unique among the variants of a run."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        fields |= {f"encoder.{key}": choice for key, choice in self.encoder.items()}
        if "clip" in fields:
            fields["clip"] = str(self.clip).removesuffix(".0")
        changed = [f"{key}={fields[key]}" for key in sorted(fields.keys() - {"name", "encoder"})]
        return " ".join([self.name, *changed])

    @model_validator(mode="after")
    def _valid(self) -> EncoderVariantOptions:
        if self.model_fields_set - {"name"}:
            from midchart.core.attention.base import Shape

            factory = ATTENTIONS.get(self.name)
            gate_fields = sorted({"gate", "loss"} & self.model_fields_set)
            if gate_fields and not getattr(factory, "gated", False):
                refused = " or ".join(gate_fields)
                raise SpecError(f"variant {self.name!r} has no gate, so it takes no {refused}")
            try:
                factory(Shape(), **(self.model_extra or {}))
            except (TypeError, ValueError) as error:
                raise SpecError(f"variant {self.name!r}: {error}") from None
        return self

    def plan(self) -> dict[str, Any]:
        """The variant as stored in a plan: the attention's options are a nested table."""
        fields = {name: getattr(self, name) for name in EncoderVariantOptions.model_fields}
        return {"label": self.label, "options": self.model_extra or {}} | fields


class Subsample(Options):
    """At most so many labels of each split; 0 means all."""

    train: Whole = 0
    tuning: Whole = 0
    held_out: Whole = 0


def _variant(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class ForecastOptions(Options):
    """The fields of kind ``forecast``."""

    tasks: Several[str] = ()
    """Prediction tasks of the cohort; an empty list means all."""
    variants: Different[
        Annotated[
            EncoderVariantOptions,
            BeforeValidator(
                _variant,
                json_schema_input_type=Annotated[str, Known("attention", ATTENTIONS.names)]
                | EncoderVariantOptions,
            ),
        ]
    ] = tuple(
        EncoderVariantOptions(name=name)
        for name in (
            "softmax", "differential", "gated_differential", "h2o", "entmax15", "sparsemax",
        )
    )  # fmt: skip
    """Attentions to compare: names, or tables with a name and options."""
    baselines: Several[Annotated[str, Known("baseline", lambda: BASELINES)]] = tuple(BASELINES)
    """Models of counts that the attentions are compared with."""
    seeds: Different[Whole] = (1, 2, 3)
    """One training for each."""
    epochs: Count = 40
    """Most epochs of a training."""
    values: bool = False
    """Read measured values in addition to codes."""
    subsample: Whole | Subsample = 0
    """At most so many labels of every split, or of each by name; 0 means all."""
    length: Count = 256
    """Latest events of a patient that are read."""
    encoder: EncoderOptions = Field(default_factory=EncoderOptions)
    """Defaults of all variants."""
    device: str = ""
    """Where to train, such as "cpu" or "cuda:1"; empty means the fastest there is."""

    def plan(self) -> dict[str, Any]:
        return super().plan() | {
            "variants": [one.plan() for one in self.variants],
            "baselines": list(dict.fromkeys(self.baselines)),
        }


def most_of(options: Mapping[str, Any]) -> dict[str, int]:
    """Most labels of each split; 0 means all."""
    value = options["subsample"]
    return dict(value) if isinstance(value, Mapping) else dict.fromkeys(SPLITS, value)


@dataclass(frozen=True, slots=True)
class EncoderRecipe:
    """Hyperparameters of a training (docs/methods.md, Experiment 2); none depends on the attention.

    ``clip``: largest norm of all gradients together; 0 clips none. ``choose``: the epoch with the
    best tuning AUROC, or the last one. ``gate_training``: "joint" with the encoder, or alone for
    ``gate_epochs`` and then "frozen".
    """

    epochs: int = 40
    batch: int = 64
    rate: float = 1e-3
    decay: float = 1e-4
    clip: float = 1.0
    seed: int = 42
    gate_training: GateTraining = "joint"
    gate_loss: GateLoss = "bce"
    gate_epochs: int = 5
    choose: Choose = "best"


@dataclass(frozen=True, slots=True)
class Epoch:
    """Measurements of an epoch.

    ``loss``, ``gate_loss``: means over the training examples (the gate's is nan without a gate).
    ``tuning_*``: on the tuning part after it. ``gate_gradient``, ``head_gradient``: mean norm of
    the gradient of the gate's and of the head's parameters over the steps, before clipping.
    ``gate_mean``, ``gate_sd``: of the gate at the tuning part's events.
    """

    epoch: int
    loss: float
    gate_loss: float
    tuning_loss: float
    tuning_auroc: float
    tuning_auprc: float
    gate_gradient: float
    head_gradient: float
    gate_mean: float
    gate_sd: float
    seconds: float


COLLAPSE_LOW, COLLAPSE_HIGH, COLLAPSE_SD = 0.45, 0.55, 0.05


def collapsed(mean: float, sd: float) -> bool:
    """Whether a gate has collapsed: mean in [.45, .55] and SD ≤ .05 over events (the paper's
    appendix on the focal loss, diagnostic columns of its table)."""
    return COLLAPSE_LOW <= mean <= COLLAPSE_HIGH and sd <= COLLAPSE_SD
