"""What a re-analysis of the paper's released outcomes found, each figure with its source.

A figure that the paper prints is read from its CSV (``data/published``), and its cell is named; one
that follows from such figures is computed; one that only the released outcomes show, which are not
shipped, is taken from ``restated.csv``, which names the document that states it.
"""

from __future__ import annotations

from typing import Any

from core.experiments.replication.paper import read

Finding = dict[str, Any]
STATED = "restated.csv"


class _Sources:
    """Figures of one finding and where each is from, noted as they are read."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.documents: list[str] = []

    def cell(self, file: str, column: str, **row: str) -> float:
        """The figure in a file's one row with these values; raises ValueError for another number
        of rows."""
        (found,) = [r for r in read(file) if all(r[name] == value for name, value in row.items())]
        named = "/".join(row.values()) or "only"
        self.cells.append(f"{file}, row {named}, column {column}: {found[column]}")
        return float(found[column])

    def stated(self, quantity: str) -> float:
        """A figure of the released outcomes that a document states."""
        (found,) = [row for row in read(STATED) if row["quantity"] == quantity]
        self.documents.append(f"{found['document']} ({found['passage']}): {found['value']}")
        return float(found["value"])


def findings() -> list[Finding]:
    """A row each: ``finding``, its ``figure`` as text, ``means``, and its sources: ``published``
    (cells of the paper's tables), ``stated`` (documents) and ``paper`` (where the paper prints or
    claims it). At least one of ``published`` and ``stated`` is not empty."""
    return [
        _judged_on_nan(),
        _correct_on_nan(),
        _correct_with_evidence(),
        _continuations(),
        _continuations_qccs(),
        _dos_rag(),
        _salted_hash(),
        _anemia_rows(),
        *(_prevalence(task) for task in ("anemia", "hyponatremia", "thrombocytopenia")),
        _kappa(),
        _gap(),
    ]


def _finding(name: str, figure: str, means: str, paper: str, sources: _Sources) -> Finding:
    return {
        "finding": name,
        "figure": figure,
        "means": means,
        "published": "; ".join(sources.cells),
        "stated": "; ".join(dict.fromkeys(sources.documents)),
        "paper": paper,
    }


def _questions(sources: _Sources) -> int:
    return int(sources.cell("stage2_judge_accuracy.csv", "n", band="overall", arm="qccs"))


def _qccs_correct(sources: _Sources) -> tuple[int, int]:
    """Answers of QCCS that were judged correct, of how many."""
    n = _questions(sources)
    share = sources.cell("stage2_judge_accuracy.csv", "accuracy_pct", band="overall", arm="qccs")
    return round(share / 100 * n), n


def _judged_on_nan() -> Finding:
    sources = _Sources()
    nan, n = int(sources.stated("answers_judged_on_nan")), _questions(sources)
    means = (
        "Evidence was joined to answers by the first 100 characters of the question; these were "
        'judged against the text "nan" in place of evidence.'
    )
    return _finding(
        "judged_on_nan", f"{nan} of {n}", means, "sec:exp3, Stage 2 evaluation: not told", sources
    )


def _correct_on_nan() -> Finding:
    sources = _Sources()
    nan = int(sources.stated("qccs_correct_on_nan"))
    correct, n = _qccs_correct(sources)
    means = (
        f'Of the QCCS answers judged correct ({correct} of {n}), so many were judged against "nan".'
    )
    return _finding("qccs_correct_on_nan", f"{nan} of {correct}", means, "Table tab:llm", sources)


def _correct_with_evidence() -> Finding:
    sources = _Sources()
    right = int(sources.stated("qccs_correct_with_evidence"))
    judged = int(sources.stated("answers_judged_with_evidence"))
    correct, n = _qccs_correct(sources)
    means = (
        f"QCCS where the judge had evidence: {100 * right / judged:.1f} % in place of the "
        f"{100 * correct / n:.1f} % that the paper prints."
    )
    return _finding(
        "qccs_correct_with_evidence", f"{right} of {judged}", means, "Table tab:llm", sources
    )


def _continuations() -> Finding:
    sources = _Sources()
    low = sources.stated("continuations_lowest_pct")
    high = sources.stated("continuations_highest_pct")
    means = (
        "Published answers of full, BM25, BM25 filtered, dense and cross-encoder that continue the "
        "record instead of answering: the prompt was cut at its end, where the question was."
    )
    where = "app:prompts names only the cut of full at 16,384 tokens"
    return _finding("continuations", f"{low:g} to {high:g} %", means, where, sources)


def _continuations_qccs() -> Finding:
    sources = _Sources()
    share = sources.stated("continuations_qccs_pct")
    means = (
        "The same for QCCS, whose contexts are short enough to leave the question in the prompt."
    )
    return _finding("continuations_qccs", f"{share:g} %", means, "not told", sources)


def _dos_rag() -> Finding:
    sources = _Sources()
    equal, n = int(sources.stated("dos_rag_prompts_equal")), _questions(sources)
    bm25 = sources.cell("stage2_judge_accuracy.csv", "accuracy_pct", band="overall", arm="bm25")
    dos_rag = sources.cell("other_arms.csv", "overall_pct", arm="bm25_temporal")
    means = (
        "Contexts of DOS-RAG that equal those of BM25: both were in time order already. The "
        f"printed {dos_rag:g} against {bm25:g} % is one answer of {n} and no effect of order."
    )
    return _finding("dos_rag_equals_bm25", f"{equal} of {n}", means, "Table tab:dosrag", sources)


def _salted_hash() -> Finding:
    sources = _Sources()
    recalls = (
        sources.cell("stage1_recall.csv", "overall_pct", arm="qccs"),
        sources.cell("nli_recall.csv", "lexical_pct", arm="qccs"),
        sources.stated("gate_recall_in_a_third_process_pct"),
    )
    ablation = sources.cell("gate_ablation.csv", "mean_recall_pct", factor="overall", value="all")
    buffer = sources.stated("recency_buffer_recall_pct")
    means = (
        f"Recall of the same gate in three processes, against {ablation:g} % in the ablation, "
        "which trained and scored in one: Python salts its hash in each. The recency buffer alone "
        f"reaches {buffer:g} %."
    )
    figure = " / ".join(f"{recall:g}" for recall in recalls) + " %"
    where = "Tables tab:qccsgate, tab:nli and tab:gate_ablations"
    return _finding("salted_hash", figure, means, where, sources)


def _anemia_rows() -> Finding:
    sources = _Sources()
    rows = int(sources.stated("anemia_test_rows"))
    labels = int(sources.stated("anemia_held_out_labels"))
    means = (
        f"Rows of the anemia test set behind one of the compared attentions, of {labels:,} labels "
        "of the official held-out split; splits differ between the columns of the table."
    )
    where = "Table tab:ehrshot; app:datasets claims the official splits"
    return _finding("anemia_test_rows", f"{rows} rows", means, where, sources)


def _prevalence(task: str) -> Finding:
    """A swapped prevalence, with the task whose true one is printed in its place."""
    sources = _Sources()
    printed = sources.cell("ehrshot_focal.csv", "positive_prevalence_pct", task=task)
    true = sources.stated(f"prevalence_{task}_pct")
    others = {
        row["quantity"].removeprefix("prevalence_").removesuffix("_pct"): float(row["value"])
        for row in read(STATED)
        if row["quantity"].startswith("prevalence_")
    }
    near = min(others, key=lambda other: abs(others[other] - printed))
    means = f"The prevalence printed for {task} is that of {near} ({others[near]:g} %)."
    return _finding(
        f"prevalence_{task}",
        f"{printed:g} % printed; {true:g} % true",
        means,
        "app:focal, Interpretation",
        sources,
    )


def _kappa() -> Finding:
    sources = _Sources()
    kappa = sources.cell("judge_agreement.csv", "cohen_kappa", arm="bm25_filtered")
    share = sources.cell("judge_agreement.csv", "primary_pct", arm="bm25_filtered")
    means = (
        f"Cohen's kappa of two judges that each call {share:g} % correct says nothing of how far "
        "they agree."
    )
    return _finding("kappa_degenerate", f"{kappa:g}", means, "Table tab:kappa", sources)


def _gap() -> Finding:
    sources = _Sources()
    gap = sources.cell("clitm_summary.csv", "value", quantity="peak_to_trough_gap")
    expected = sources.stated("gap_expected_without_position_effect_pp")
    p = sources.stated("p_of_gap")
    means = (
        f"Between the best and the worst decile a gap of {expected:g} points is expected where "
        f"position does nothing (permutation within clusters): p = {p:g}."
    )
    where = "sec:results, CLitM is Real and Large in Clinical EHR"
    return _finding("curve_gap", f"{gap:g} points", means, where, sources)
