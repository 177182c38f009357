"""What the generator knows of medicine: drugs, long-term conditions, acute illnesses and analytes.

The tables are files of ``extras/lab/synthetic/data``, read and checked on first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import Literal

from midchart.core.reference_tables import table_row
from midchart.extras.lab.synthetic.reference import by_key, tsv_table, yaml_table


@table_row
class Analyte:
    """A measured quantity. ``noise`` is its within-person standard deviation (share or units);
    ``low`` and ``high`` are hard limits of what is ever written; ``short`` is how notes name it."""

    key: str
    code: str
    name: str
    base: float
    spread: float
    noise: float
    digits: int
    low: float
    high: float
    short: str
    unit: str = ""


analytes: Callable[[], dict[str, Analyte]] = by_key(tsv_table(Analyte, "analytes.tsv"))
"""All analytes and vital signs by key."""
panels = yaml_table(dict[str, tuple[str, ...]], "panels.yaml")
"""Analytes that are drawn together, by the panel's name."""


@cache
def analyte_keys() -> dict[str, str]:
    """The key of each analyte's code."""
    return {row.code: row.key for row in analytes().values()}


def panel_analytes(name: str) -> tuple[str, ...]:
    """The analytes of a panel, or the analyte that has this name."""
    return panels().get(name, (name,))


def written(key: str, value: float) -> str:
    """The value as the record writes it: a whole number or two decimals, inside its limits."""
    a = analytes()[key]
    value = min(max(value, a.low), a.high)
    if a.digits == 0:
        return str(int(value + 0.5))
    # One decimal is what the analyser reports; the export pads it to two.
    fine = 2 if key in ("cr", "tsh", "trop") else 1
    return f"{round(value + 1e-9, fine):.2f}"


def spoken(key: str, value: float) -> str:
    """The value as a clinician types it: no trailing zeros."""
    text = written(key, value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def local(prefix: str, name: str) -> str:
    """A code that claims no outside vocabulary."""
    return f"LOCAL/{prefix}-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@table_row
class DrugGroup:
    """An effect class of drugs. A patient takes one at a time of it, or of ``one_of``, a wider
    class, unless ``several``. In full effect it lowers hemoglobin A1c and systolic pressure by
    ``a1c_drop`` (points) and ``sbp_drop`` (mmHg) and LDL by the share ``ldl_drop``, and raises
    potassium by ``k_rise`` (mmol/L); what else a class does is in
    :mod:`midchart.extras.lab.synthetic.trajectory`."""

    key: str
    meaning: str
    one_of: str = ""
    several: bool = False
    a1c_drop: float = 0.0
    ldl_drop: float = 0.0
    sbp_drop: float = 0.0
    k_rise: float = 0.0


drug_groups: Callable[[], dict[str, DrugGroup]] = by_key(tsv_table(DrugGroup, "drug_groups.tsv"))
"""All effect classes by key."""


@cache
def group_effects(
    name: Literal["a1c_drop", "ldl_drop", "sbp_drop", "k_rise"],
) -> tuple[tuple[str, float], ...]:
    """The effect classes that have this effect, and its size."""
    return tuple((key, size) for key, row in drug_groups().items() if (size := getattr(row, name)))


@table_row
class Drug:
    """A drug: its names, what a lay person calls it (``lay``), and its effect class (``group``).
    ``marketed`` is the first whole year in which it could be prescribed in the United States (0:
    always)."""

    key: str
    brand: str
    group: str
    lay: str
    marketed: int = 0

    @property
    def steps(self) -> list[tuple[str, str, str]]:
        """Dose as prescribed, product name and code of its dose steps, from the lowest."""
        return _dose_steps()[self.key]


drugs: Callable[[], dict[str, Drug]] = by_key(tsv_table(Drug, "drugs.tsv"))
"""All drugs by key."""


@table_row
class DoseRow:
    """A dose step of a drug: as prescribed, its product, and RxNorm's number where it is known."""

    drug: str
    dose: str
    product: str
    rxnorm: str = ""


_doses = tsv_table(DoseRow, "doses.tsv")


@cache
def _dose_steps() -> dict[str, list[tuple[str, str, str]]]:
    """The dose steps of each drug. A code is RxNorm's where it is known for certain to be that very
    product's; every other product has a plainly local code."""
    steps: dict[str, list[tuple[str, str, str]]] = {key: [] for key in drugs()}
    for row in _doses():
        code = f"RxNorm/{row.rxnorm}" if row.rxnorm else local("RX", row.product)
        steps[row.drug].append((row.dose, row.product, code))
    return steps


def dose(key: str, step: int) -> str:
    """The dose of ``step`` as prescribed, e.g. "20 mg daily"."""
    return drugs()[key].steps[step][0]


READING_SLOTS = ("a1c", "cr", "egfr", "k", "inr", "tsh", "ldl", "hgb", "plt", "wt")
"""Analytes of which a note's template may name the latest reading."""


@table_row
class Stop:
    """A reason for ending a drug: ``successor`` replaces it; ``shifts`` are what the side effect
    does to analytes that week (``egfr%``: a share of the filtration). A reason that holds only
    where filtration is below ``egfr_below`` is replaced by ``otherwise`` above it."""

    why: str
    successor: str = ""
    shifts: dict[str, float] = field(default_factory=dict[str, float])
    egfr_below: float | None = None
    otherwise: str = ""


@table_row
class TreatmentPlan:
    """How a condition is treated with one drug.

    ``share`` of patients get it, ``delay`` days after onset, for the reason ``start``. ``ups`` are
    reasons for a higher step, ``stops`` for ending it, which befalls ``stop_share`` of courses.
    """

    drug: str
    share: float
    delay: int
    start: str
    ups: tuple[str, ...] = ()
    stops: tuple[Stop, ...] = ()
    stop_share: float = 0.35


@table_row
class Limit:
    """The reading above which a condition is written about as doing badly."""

    analyte: str
    above: float


@table_row
class Disease:
    """A long-term condition with the sentences its notes are written from.

    ``labs`` are panels or analytes; ``worse_if`` says when it does badly (None: at times, by
    chance); ``relative`` is the wording of a relative's diagnosis; ``untrue`` are words of
    a normal examination that it makes untrue.
    """

    key: str
    name: str
    short: str
    code: str
    specialty: str
    labs: tuple[str, ...]
    plans: tuple[TreatmentPlan, ...]
    stable: tuple[str, ...]
    worse: tuple[str, ...]
    exam: tuple[str, ...]
    assess: tuple[str, ...]
    todo: tuple[str, ...]
    ros: tuple[str, ...] = ()
    worse_if: Limit | None = None
    relative: str = ""
    untrue: tuple[str, ...] = ()


diseases: Callable[[], dict[str, Disease]] = by_key(
    yaml_table(tuple[Disease, ...], "diseases.yaml")
)
"""All long-term conditions by key."""


@table_row
class Imaging:
    """A study and its report."""

    study: str
    report: str


@table_row
class EpisodeKind:
    """An acute illness that begins and ends: its sentences, treatment and laboratory effect.

    ``setting`` is a stay (IP) or the emergency room (ED), ``days`` its fewest and most days,
    ``effects`` the shift of each analyte at the peak.
    """

    key: str
    name: str
    code: str
    setting: Literal["IP", "ED"]
    days: tuple[int, int]
    complaint: str
    story: tuple[str, ...]
    exam: str
    imaging: Imaging
    course: tuple[str, ...]
    treatment: tuple[str, ...]
    labs: tuple[str, ...]
    effects: dict[str, float]
    discharge: tuple[str, ...]


episodes: Callable[[], dict[str, EpisodeKind]] = by_key(
    yaml_table(tuple[EpisodeKind, ...], "episodes.yaml")
)
"""All acute illnesses by key."""


@table_row
class Risk:
    """How often (``share``) a condition, or none in particular, brings an acute illness at least
    once."""

    episode: str
    share: float
    condition: str = ""


_risks = tsv_table(Risk, "risks.tsv")


@cache
def risks() -> dict[str, list[Risk]]:
    """What each condition brings; of the condition "", what befalls anyone."""
    by_condition: dict[str, list[Risk]] = {}
    for row in _risks():
        by_condition.setdefault(row.condition, []).append(row)
    return by_condition
