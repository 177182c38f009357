"""The Forecast page: its preset run, and the attention map, the weight of each event before one
prediction, by variant.

Sequences are numbered, and times are days before the prediction: the URL holds nothing of a
patient. The sign of a weight is shown by shape and place as well as colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.results import kit
from midchart.pages.ui.results.kit import Shown
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick_listed, pick_several


def _cohorts() -> str:
    """The cohort of labels, chosen; without one, how to make it."""
    with_questions = set(state.question_cohorts())
    cohorts = [n for n, _, problem in state.cohorts() if not problem and n not in with_questions]
    if not cohorts:
        st.info("No installed cohort has labels to forecast. Create the laboratory cohort, or "
            "place EHRSHOT or a MEDS folder among the cohorts:")  # fmt: skip
        st.code("midchart demo --laboratory ehrshot", language=None, wrap_lines=True)
        return ""
    return pick_listed("Cohort", cohorts, "cohort")


OFFER = presets.Offer(
    "forecast",
    "forecast.toml",
    "Train and compare the attentions",
    "No forecast run yet",
    "A forecast run trains small sequence models that differ only in their attention, with several "
    "seeds, on the official split of patients. Each is evaluated on held-out patients and compared "
    "with two count-based models.",
    _cohorts,
)
MOST = 6
"""Variants side by side: as many as the experiment has attentions."""
MEAN = "mean of heads"
WEIGHTS = api.View(
    "weights",
    "What did it attend to?",
    "weights",
    (api.Measure("weight", "weight", "", n=""),),
    "line",
    rows=("variant",),
    across="before",
    more=("event", "value", "days_before"),
    about="Before: 1 is the latest event before the prediction.",
)


def open_variant(shown: Shown, view: api.View, key: Mapping[str, Any]) -> None:
    """Show the held-out sequences of a task by the variant of a value."""
    st.session_state["view"] = "map"
    st.session_state["attended"] = [key["variant"]]
    if "task" in key:
        st.session_state["task"] = key["task"]


def draw(shown: Shown) -> None:
    """The controls, the figure, its text and its numbers."""
    try:
        _view(shown.run, str(shown.chosen["task"]))
    except MidchartError as error:
        st.info(for_screen(str(error)), icon=":material/visibility_off:")


def _view(run: dict[str, Any], task: str) -> None:
    seeds = state.of_run(run, api.forecast_sequences, task, None).seeds
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seed = seeds[0]
        if len(seeds) > 1:
            seed = st.selectbox("Seed", seeds, key="seed", bind="query-params", width=110)
        held_out = state.of_run(run, api.forecast_sequences, task, seed)
        last = len(held_out.label) - 1
        if st.session_state.get("sequence", 0) > last:
            st.session_state["sequence"] = last  # another task has fewer
        index = st.number_input("Held-out sequence", 0, last, 0, key="sequence",
                                bind="query-params", width=190)  # fmt: skip
        attended = state.of_run(run, api.attention_map, task, int(index), seed)
        events = attended.events
        layers, heads = attended.models[0].cls.shape
        layer = st.selectbox("Layer", list(range(1, layers + 1)), index=layers - 1, key="layer",
                             bind="query-params", width=110)  # fmt: skip
        head = st.selectbox("Head", [MEAN, *(str(i) for i in range(1, heads + 1))], key="head",
                            bind="query-params", width=170)  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = list(held_out.scores)
        chosen = pick_several(
            "attended", "Shown", names, partial(api.title, "variant"), key="attended",
            default=names[:MOST], max_selections=MOST, width=760,
        )  # fmt: skip
    outcome = "positive" if attended.label else "negative"
    st.markdown(
        for_screen(
            f"Sequence {attended.index:,} of {last + 1:,} held-out ones, "
            f"{api.in_words('task', task)}: {outcome}."
        )
    )
    if not events:
        st.info("There are no events before this prediction, so there is no attention to show.")
        return
    models = [model for model in attended.models if model.variant in chosen]
    if not models:
        st.info("Select a variant to see its weights.")
        return
    few = len(events) <= kit.MOST_COLUMNS
    rows = [
        {"variant": model.variant, "days_before": event.days}
        | {"before": f"{event.place}. {event.name}" if few else event.place}
        | {"event": event.name, "value": event.value, "weight": float(weight), "code": event.code}
        for model in models
        for event, weight in zip(events, _weights(model, int(layer), head), strict=True)
    ]
    where = f"layer {layer}, {head if head == MEAN else f'head {head}'}"
    kit.draw_rows(f"{run['run']}-attention-{attended.index}", WEIGHTS, rows)
    st.caption(
        f"n = {len(events):,} events of one sequence, {where}: weights from the CLS position to "
        "each event; one sequence and one training, so no interval. "
        + ("" if int(layer) == layers else "In this layer events also attend to each other. ")
        + " ".join(_words(model, held_out.scores[model.variant], int(layer), head)
                   for model in models)
    )  # fmt: skip
    if unknown := sum(not event.known for event in events):
        st.caption(f"{unknown:,} events have codes too rare in training to be distinguished.")


def _weights(model: Any, layer: int, head: str) -> NDArray[np.float64]:
    """The weight of each event [events] in a layer, of a head or the mean of all."""
    weights = np.asarray(model.weights[layer - 1], np.float64)  # [heads, events]
    return weights.mean(axis=0) if head == MEAN else weights[int(head) - 1]


def _words(model: Any, scores: Any, layer: int, head: str) -> str:
    """How many weights are zero or negative, and the rank of the prediction (markdown)."""
    weights = _weights(model, layer, head)
    counts = {"zero": int((weights == 0).sum()), "negative": int((weights < 0).sum())}
    words = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n) or "none zero or negative"
    above = 100 * float((scores < model.stored).mean())
    title = for_screen(api.title("variant", model.variant))
    return f"{title}: {words} of {len(weights)}, ranked above {above:.0f} %."
