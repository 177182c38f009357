"""Curve: is anything really lost in the middle? Answers by the position of their evidence, what
chance alone would give, and the controlled experiment with a made-up fact at every depth.
"""

from pages.ui import guard
from pages.ui.curve import needles as curve_needles
from pages.ui.curve import view as curve_view
from pages.ui.runs import panel as runs

guard.page("Curve")

VIEWS = {"Observed": curve_view.observed, "Needles": curve_needles.needles}

runs.panel()
view = guard.view(VIEWS)
with guard.readable("This cannot be read"):
    VIEWS[view]()
