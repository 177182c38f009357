"""Lessons: records and questions made for training readers, and for nothing else.

They have the shape of what the application gives a reader, but patients, values and wordings of
their own, none of an evaluated cohort (``leakage_check.shared``; training refuses otherwise).
"""

from __future__ import annotations

from core.synthetic.training_examples.generate import kinds, lesson, make_example
from core.synthetic.training_examples.model import ExamplePlan, ExampleQuestion, TrainingExample

__all__ = [
    "ExamplePlan",
    "ExampleQuestion",
    "TrainingExample",
    "kinds",
    "lesson",
    "make_example",
]
