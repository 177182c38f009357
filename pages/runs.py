"""Runs: compose one, see what it will do before it starts, watch it, compare it with others."""

from midchart.pages.ui import guard
from midchart.pages.ui.runs import compare, compose, monitor

guard.page("Runs")

VIEWS = {
    compose.WATCH: monitor.monitor,
    "Compose": compose.compose,
    "Compare": compare.compare,
}

view = guard.view(VIEWS)
with guard.readable("The runs cannot be read"):
    VIEWS[view]()
