"""The Gate page: views of a gate run, each with chart, text and table; the checkpoints in use."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared import empty, formats, results, tables
from midchart.pages.ui.shared.marks import for_screen, for_terminal

KIND = "gate"
SPEC = "gate.toml"


def spec(cohort: str) -> dict[str, Any]:
    """The preset gate run on a cohort."""
    return presets.spec(SPEC, cohort, f"gate on {cohort}")


def no_run() -> None:
    """The empty state with the button that starts a run."""
    with empty.state(
        "No gate run yet",
        "A gate run trains the QCCS gate in 27 configurations, with and without the question, "
        "with two losses, and with each fault of the published run, all on one split of "
        "patients. Every gate is evaluated on held-out patients.",
    ):
        presets.included(KIND)
        start()


def start() -> None:
    """The cohort and the button that starts the preset gate run."""
    if cohort := state.pick_cohort("Cohort"):
        presets.button(spec(cohort), "Train and evaluate the gates", KIND, file=SPEC)


CROSS_FITTED = "cross_fitted"
"""Folder of the included runs of gates that were trained on real questions."""
REFERENCES = ("random", "bm25", "hybrid")
"""Arms that a trained gate is compared with."""


def real_text() -> None:
    """Gates that runs name, such as those trained on real questions, next to arms that were not
    trained, at equal tokens."""
    st.write(
        "The gate trained on real questions, each patient or article scored by a gate that was not "
        "trained on it, and arms without training at the same number of tokens."
    )
    presets.included(folder=CROSS_FITTED)
    for run in state.runs(("selection",)):
        report = state.report(run) if run["status"] == "done" else {}
        frame = results.frame_of(report, "recall")
        if frame.empty or not frame["label"].map(_is_trained).any():
            continue
        st.header(for_screen(run["name"]), anchor=False)
        rows = results.where(frame, criterion="all pieces", band="overall")
        rows = rows[rows["budget"].str.contains("tokens") & ~rows["budget"].str.contains("k=")]
        shown = pd.DataFrame(
            {
                "budget": rows["budget"],
                "arm": rows["title"],
                "all pieces kept": formats.shares(rows, "recall", "patient_low", "patient_high"),
                "by chance": rows["chance"].map(formats.percent),
                "any piece": rows["any_piece"].map(formats.percent),
                "n": rows["n"],
            }
        )
        alt = "Evidence kept by budget and arm, by trained gates and by arms without training"
        tables.table(shown, f"{run['run']}-trained", alt, download=rows)
        pairs = results.where(results.frame_of(report, "differences"), criterion="all pieces")
        if len(pairs):
            pairs = pairs[pairs["second"].map(_is_trained) & pairs["first"].map(_is_reference)]
        if len(pairs):
            _trained_differences(run["run"], pairs)


def _is_trained(label: str) -> bool:
    return "gate=" in label


def _is_reference(label: str) -> bool:
    return label.partition(" ")[0] in REFERENCES and not _is_trained(label)


def _trained_differences(run: str, pairs: pd.DataFrame) -> None:
    ends = pairs.assign(
        difference=-pairs["difference"], low=-pairs["high"], high=-pairs["low"]
    )  # the trained gate minus the reference
    shown = pd.DataFrame(
        {
            "budget": ends["budget"],
            "trained gate": [api.title("arm", label) for label in ends["second"]],
            "minus": [api.title("arm", label) for label in ends["first"]],
            "all pieces": formats.differences(ends, "difference", "low", "high"),
            "n": ends["n"],
        }
    )
    alt = "Differences of trained gates from arms without training, by budget"
    tables.table(shown, f"{run}-trained-differences", alt, download=pairs)


def checkpoints() -> None:
    """A gate checkpoint, chosen among those in the cache, with its provenance."""
    cards = state.gate_cards()
    if not cards:
        st.info(
            "No gate has been trained yet. The arm trains one on the demo cohort at first use, "
            "in under a minute. To train one on another cohort:"
        )
        st.code("midchart train-gate DATA", language=None, wrap_lines=True)
        return
    by_name = {_name(card): card for card in cards}
    name = st.selectbox(
        "Checkpoint", list(by_name), key="checkpoint", persist_state="page", width=420,
        format_func=for_terminal,
    )  # fmt: skip
    card = by_name[name]
    if card["problem"]:
        st.error(for_screen(card["problem"]), title="This gate cannot be used")
    else:
        _show(card)


def _name(card: dict[str, Any]) -> str:
    folder = card["folder"].replace("\\", "/").rsplit("/", 1)[-1]
    return f"{card['made']} · {card.get('digest', folder)[:12]}"


def _show(card: dict[str, Any]) -> None:
    facts, patients = card["facts"], card["patients"]
    recipe, cohort = facts.get("recipe", {}), facts.get("cohort", {})
    pairs = facts.get("pairs", {})
    auroc = facts.get("test_auroc")
    metrics = {
        "AUROC on test patients": "–" if auroc is None else f"{auroc:.3f}",
        "Parameters": f"{card['parameters']:,}",
        "Temperature": f"{card['temperature']:.2f}",
        "Trained on": f"{patients['train']:,} patients",
    }
    for place, (title, value) in zip(st.columns(4), metrics.items(), strict=True):
        place.metric(title, value)
    st.caption(
        f"AUROC on n = {pairs.get('test', {}).get('n', 0):,} pairs of {patients['test']:,} test "
        f"patients, without an interval; a gate run gives one."
    )
    provenance = {
        "SHA of the weights": card["digest"][:16],
        "Hash of n-grams": card["hash"],
        "n-gram length": card["n"],
        "Rows of the table": f"{card['buckets']:,}",
        "Dimensions": card["dim"],
        "Head": card["head"],
        "Uses the question": "yes" if card["query"] else "no",
        "Loss": recipe.get("loss", "–"),
        "Epochs": recipe.get("epochs", "–"),
        "Seed": recipe.get("seed", "–"),
        "Cohort": cohort.get("name", "–"),
        "Records excluded, unreadable": facts.get("unread_records", "–"),
        "Digest of the cohort": str(cohort.get("digest", "–"))[:16],
        "Made": card["made"],
        "Folder": card["folder"],
    }
    left, right = st.columns([3, 2], gap="medium")
    with left:
        values = [str(value) for value in provenance.values()]
        frame = pd.DataFrame({"fact": list(provenance), "value": values})
        tables.table(frame, "gate-provenance", "Provenance of this checkpoint")
    with right:
        parts = [
            {
                "part": part,
                "patients": count,
                "pairs": pairs.get(part, {}).get("n"),
                "positives": pairs.get(part, {}).get("positives"),
            }
            for part, count in patients.items()
        ]
        tables.table(pd.DataFrame(parts), "gate-split", "Patients, pairs and positives by split")
        st.caption(
            "One split of patients, saved with the weights and used for training, temperature "
            "and all figures on this page. No patient is in two parts."
        )
        settings = {
            name.replace("_", " "): value
            for name, value in facts.get("protocol", {}).items()
            if name.startswith(("hash", "gate_"))
        }
        st.caption(" · ".join(for_screen(f"{name}: {value}") for name, value in settings.items()))
