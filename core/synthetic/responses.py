"""Six simulated models whose accuracy depends on the position of the answer in a declared way.

They exist to exercise the position analysis: what it finds can be held against what was put in.
They are no model's output, and are marked simulated wherever they appear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.synthetic.common import pick
from core.synthetic.model import Fact


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated model. ``base``: accuracy at the edges; ``dip``: how much is lost in the
    middle; ``tilt``: gain from the start of the record to its end."""

    name: str
    base: float
    dip: float
    tilt: float

    def accuracy(self, x: float) -> float:
        """Probability of a right answer for gold at order position ``x`` in [0, 1].

        ``base − dip · 4x(1 − x) + tilt · (x − 1/2)``, kept within [.02, .98].
        """
        return min(max(self.base - self.dip * 4 * x * (1 - x) + self.tilt * (x - 0.5), 0.02), 0.98)


MODELS = (
    Simulated("sim-model-a", 0.82, 0.30, 0.05),
    Simulated("sim-model-b", 0.74, 0.25, 0.15),
    Simulated("sim-model-c", 0.66, 0.20, 0.20),
    Simulated("sim-model-d", 0.70, 0.0, 0.0),
    Simulated("sim-model-e", 0.55, 0.35, 0.10),
    Simulated("sim-model-f", 0.60, 0.10, -0.20),
)

FORMULA = "accuracy(x) = clip(base - dip*4*x*(1-x) + tilt*(x-0.5), 0.02, 0.98)"

_REFUSALS = (
    "The record excerpt does not contain this information.",
    "I could not find documentation of this in the chart.",
    "There is insufficient information to answer the question.",
)
_RIGHT = (
    "{a}",
    "According to the record: {a}",
    "{a} This is documented in the notes.",
    "Based on the chart, {a}",
)


@dataclass(frozen=True, slots=True)
class Said:
    """One simulated response and whether it is right."""

    model: str
    text: str
    correct: bool


def respond(rng: np.random.Generator, fact: Fact, position: float, others: list[str]) -> list[Said]:
    """One response of each simulated model.

    Args:
        rng: generator of the patient's responses; fact: what is asked; position: order position
            of the decisive statement in [0, 1]; others: answers to other questions of the record.
    """
    said: list[Said] = []
    for model in MODELS:
        if float(rng.random()) < model.accuracy(position):
            frame = pick(rng, _RIGHT)
            said.append(Said(model.name, frame.replace("{a}", fact.answer), True))
            continue
        wrong = [x for x in fact.wrong if x and x != fact.answer]
        turn = float(rng.random())
        if turn < 0.55 and wrong:
            text = pick(rng, wrong)
        elif turn < 0.75 and others:
            text = pick(rng, others)
        else:
            text = pick(rng, _REFUSALS)
        said.append(Said(model.name, text, False))
    return said


def declared_effect() -> dict[str, object]:
    """The effect that was put in, for writing beside the responses."""
    return {
        "simulated": True,
        "position": "event order of the first evidence span / (events - 1)",
        "formula": FORMULA,
        "models": {m.name: {"base": m.base, "dip": m.dip, "tilt": m.tilt} for m in MODELS},
        "expected_by_decile": {
            m.name: [round(m.accuracy((d + 0.5) / 10), 4) for d in range(10)] for m in MODELS
        },
    }
