"""Runs: compose one, see what it will do before it starts, watch it, compare it with others."""

from pages.ui import guard
from pages.ui.runs import compare as runs_compare
from pages.ui.runs import compose as runs_compose
from pages.ui.runs import watch as runs_watch

guard.page("Runs")

VIEWS = {
    runs_compose.WATCH: runs_watch.watch,
    "Compose": runs_compose.compose,
    "Compare": runs_compare.compare,
}

view = guard.view(VIEWS)
with guard.readable("The runs cannot be read"):
    VIEWS[view]()
