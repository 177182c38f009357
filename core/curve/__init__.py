"""The position curve: how often answers are right by where in the record the evidence lies, what
that curve would look like if position meant nothing, and what may be said of it in words.

Pure functions over arrays (PROTOCOL, Experiment 1). Rows that share an instruction and a place of
evidence are summed up first (:mod:`core.curve.placed`); everything after costs the same for six
answers to a question and for six thousand.
"""

from __future__ import annotations

from core.curve.bins import BINS, bin_edges, bins_of, is_middle_of
from core.curve.placed import Placed, assemble, place
from core.curve.study import Curve, study
from core.curve.verdict import verdict

__all__ = [
    "BINS",
    "Curve",
    "Placed",
    "assemble",
    "bin_edges",
    "bins_of",
    "is_middle_of",
    "place",
    "study",
    "verdict",
]
