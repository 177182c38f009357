"""The Gate page: how a run is started, runs of gates trained on real questions, checkpoints."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.runs import picker, presets
from midchart.pages.ui.shared import tables
from midchart.pages.ui.shared.marks import for_screen, for_terminal

OFFER = presets.Offer(
    "gate",
    "gate.toml",
    "Train and evaluate the gates",
    "No gate run yet",
    "A gate run trains the QCCS gate in 27 configurations, with and without the question, with two "
    "losses, and with each fault of the published run, all on one split of patients. Every gate is "
    "evaluated on held-out patients.",
    state.pick_cohort,
)


def real_text() -> None:
    """Links to the runs that compare gates trained on real questions with other arms."""
    st.write(
        "The gate trained on real questions, each patient or article scored by a gate that was not "
        "trained on it, and arms without training at the same number of tokens."
    )
    for run in state.runs(("selection",)):
        if any("gate=" in label for label in api.run_entries(run["run"])["labels"]):
            page, address = picker.results_of(run)
            label = f"Results of “{for_screen(run['name'])}”"
            navigation.link(page, label, icon=":material/arrow_forward:", query_params=address)


def checkpoints() -> None:
    """A gate checkpoint, chosen among those in the cache, with its provenance."""
    cards = api.gate_cards()
    folders = [card["folder"].replace("\\", "/").rsplit("/", 1)[-1] for card in cards]
    by_name = {
        f"{card['made']} · {card.get('digest', folder)[:12]}": card
        for card, folder in zip(cards, folders, strict=True)
    }
    name = st.selectbox(
        "Checkpoint", list(by_name), key="checkpoint", persist_state="page", width=420,
        format_func=for_terminal,
    )  # fmt: skip
    card = by_name[name]
    if card["problem"]:
        st.error(for_screen(card["problem"]), title="This gate cannot be used")
    else:
        _show(card)


def _show(card: dict[str, Any]) -> None:
    facts, pairs = card["facts"], card["facts"].get("pairs", {})
    recipe, cohort = facts.get("recipe", {}), facts.get("cohort", {})
    auroc = facts.get("test_auroc")
    provenance = {
        "AUROC on test patients": None if auroc is None else f"{auroc:.3f} (no interval)",
        "Parameters": f"{card['parameters']:,}",
        "Temperature": f"{card['temperature']:.2f}",
        "SHA of the weights": card["digest"][:16],
        "Hash of n-grams": card["hash"],
        "n-gram length": card["n"],
        "Rows of the table": f"{card['buckets']:,}",
        "Dimensions": card["dim"],
        "Head": card["head"],
        "Uses the question": api.in_words("query", bool(card["query"])),
        **{name.capitalize(): recipe.get(name) for name in ("loss", "epochs", "seed")},
        "Cohort": cohort.get("name"),
        "Digest of the cohort": str(cohort.get("digest", ""))[:16],
        "Made": card["made"],
        **{
            f"Protocol: {name.replace('_', ' ')}": value
            for name, value in facts.get("protocol", {}).items()
            if name.startswith(("hash", "gate_"))
        },
    }
    known = {name: str(value) for name, value in provenance.items() if value not in (None, "")}
    frame = pd.DataFrame({"fact": list(known), "value": list(known.values())})
    tables.table(frame, "gate-provenance", "Provenance of this checkpoint")
    split = pd.DataFrame(
        {
            "part": part,
            "patients": count,
            "pairs": pairs.get(part, {}).get("n"),
            "positives": pairs.get(part, {}).get("positives"),
        }
        for part, count in card["patients"].items()
    )
    tables.table(split, "gate-split", "Patients, pairs and positives by split")
    st.caption(
        "One split of patients, saved with the weights and used for training, temperature "
        "and all figures on this page. No patient is in two parts."
    )
