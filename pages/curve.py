"""Curve: is anything really lost in the middle? Accuracy by evidence position, compared with
chance, and the controlled experiment with a synthetic fact at every depth.
"""

from midchart.pages.ui import guard
from midchart.pages.ui.curve import needles, observed

guard.page("Curve")

VIEWS = {"Observed": observed.observed, "Needles": needles.needles}

view = guard.view(VIEWS)
with guard.readable("This cannot be read"):
    VIEWS[view]()
