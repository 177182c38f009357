"""The paper's tables, copied by value, as rows that this installation's figures are shown next to.

Each row: ``table`` (a key of TABLES), ``label`` (the arm as our tables label it, or what the paper
calls the line), ``what`` (a band, a task type, hit or miss, a quantity), ``value`` with ``low`` and
``high`` where the paper gives them, and ``unit``: "share" (0 to 1), "number", "n" or "points".
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core import config as settings

Row = dict[str, Any]
Printed = dict[str, str]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper: its file, its title, where the paper prints it, and where this
    installation's figures of it come from ("runs": the runs of a replication; else a page)."""

    file: str
    title: str
    source: str
    ours: str = "runs"


TABLES: Mapping[str, PaperTable] = {
    "stage2": PaperTable(
        "stage2_judge_accuracy.csv",
        "Answers judged correct, by where the evidence lies",
        "Table tab:llm, LLM Re-inference",
    ),
    "stage1": PaperTable(
        "stage1_recall.csv",
        "Questions with a lexical hit among what was kept",
        "Table tab:qccsgate, Evidence Retrieval Baselines",
    ),
    "k_sweep": PaperTable(
        "bm25_k_sweep.csv",
        "Fewer sentences: answers judged correct by k",
        "Table tab:ksweep, appendix BM25 Stage-2 Accuracy at Reduced k",
    ),
    "other_arms": PaperTable(
        "other_arms.csv",
        "Other arms: answers judged correct",
        "Tables tab:llmlingua2, tab:dosrag and tab:mmr, and map-reduce of tab:llm",
    ),
    "hit_miss": PaperTable(
        "conditional_accuracy_lexical.csv",
        "Answers judged correct, given a lexical hit and given none",
        "Table tab:condacc, appendix Stage-2 Accuracy Conditional on Stage-1",
    ),
    "hit_miss_semantic": PaperTable(
        "conditional_accuracy_semantic.csv",
        "Answers judged correct, given a semantic hit and given none",
        "Table tab:sem_condacc, appendix Semantic Validation",
    ),
    "task_type": PaperTable(
        "task_type.csv",
        "Answers judged correct, by kind of question",
        "Table tab:tasktype, appendix Task-Type Stratification",
    ),
    "token_overlap": PaperTable(
        "stage2_token_overlap.csv",
        "Answers with half of the reference's tokens, by where the evidence lies",
        "Table tab:tokoverlap, appendix Token-overlap Secondary Metric",
    ),
    "oracle": PaperTable(
        "oracle.csv",
        "Answers judged correct with the evidence handed over",
        "Table tab:oracle, appendix Stage-2 Accuracy Conditional on Stage-1",
    ),
    "reader_14b": PaperTable(
        "reader_14b.csv",
        "A larger reader (14B): answers judged correct",
        "Table tab:largerreader, appendix Larger Reader Model",
    ),
    "judge_agreement": PaperTable(
        "judge_agreement.csv",
        "Two judges: answers judged correct, and kappa",
        "Table tab:kappa, appendix Inter-rater Agreement",
    ),
    "blind_judge": PaperTable(
        "blind_judge.csv",
        "A judge that sees the evidence and one that does not",
        "Table tab:blindjudge, appendix Oracle-Blind Judge",
    ),
    "nli_recall": PaperTable(
        "nli_recall.csv",
        "Semantic and lexical hits",
        "Table tab:nli, appendix Semantic Validation",
    ),
    "nli_threshold": PaperTable(
        "nli_threshold.csv",
        "Semantic hits by the threshold of entailment",
        "Table tab:nli_thresh, appendix NLI Threshold Sensitivity",
    ),
    "failure_taxonomy": PaperTable(
        "failure_taxonomy.csv",
        "How wrong answers of BM25 are wrong",
        "Results and Discussion (text), 81 answers of BM25 judged wrong",
    ),
    "clitm_curve": PaperTable(
        "clitm_curve.csv",
        "Answers right by decile of the record",
        "Figure of CLitM is Real and Large in Clinical EHR",
        "Curve",
    ),
    "clitm_summary": PaperTable(
        "clitm_summary.csv",
        "The curve in figures, with its null",
        "CLitM is Real and Large in Clinical EHR; the null by permutation of the released outcomes",
        "Curve",
    ),
    "query_ablation": PaperTable(
        "query_ablation.csv",
        "The gate with and without the question",
        "Table tab:ablation_noq, appendix Query Conditioning Ablation",
        "Gate",
    ),
    "gate_ablation": PaperTable(
        "gate_ablation.csv",
        "27 shapes of the gate",
        "Table tab:gate_ablations, appendix QCCS Gate Architecture Ablations",
        "Gate",
    ),
    "ehrshot_attention": PaperTable(
        "ehrshot_attention.csv",
        "EHRSHOT: four attentions",
        "Table tab:ehrshot and the appendix Full EHRSHOT Results",
        "Forecast",
    ),
    "ehrshot_focal": PaperTable(
        "ehrshot_focal.csv",
        "EHRSHOT: the gate's loss",
        "Table tab:focal, appendix Focal BCE Robustness Check",
        "Forecast",
    ),
    "ehrshot_sparse": PaperTable(
        "ehrshot_sparse.csv",
        "EHRSHOT: sparse attentions",
        "Table tab:sparse_attn, appendix Entmax Sparse Attention",
        "Forecast",
    ),
}
"""All tables of the paper with figures, in the order in which they are offered."""
BANDS = ("overall", "middle", "edge")
KINDS = {"binary_retrieval": "R", "multi_step_reasoning": "Rn", "longitudinal_summary": "S"}
SHARE, NUMBER, COUNT, POINTS = "share", "number", "n", "points"
UNITS = {"pct": SHARE, "pp": POINTS, "n": COUNT, "p": NUMBER, "logit": NUMBER}


def paper_rows() -> list[Row]:
    """Every figure of every table, in the order of TABLES."""
    return [row for table, rows in _ROWS.items() for row in rows(table)]


def read(name: str) -> list[Printed]:
    """A file of the published figures, as printed."""
    path = settings.published_folder() / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _printed(table: str) -> list[Printed]:
    return read(TABLES[table].file)


def _row(
    table: str, label: str, what: str, value: str, low: str = "", high: str = "", unit: str = SHARE
) -> Row:
    scale = 100 if unit == SHARE else 1
    figures = [float(text) / scale if text else None for text in (value, low, high)]
    named = {"table": table, "label": label, "what": what, "unit": unit}
    return named | dict(zip(("value", "low", "high"), figures, strict=True))


def _banded(table: str) -> Iterator[Row]:
    for row in _printed(table):
        ends = (row.get("ci_low_pct", ""), row.get("ci_high_pct", ""))
        yield _row(table, row["arm"], row["band"], row["accuracy_pct"], *ends)


def _bands(table: str) -> Iterator[Row]:
    for row in _printed(table):
        for band in BANDS:
            yield _row(table, row["arm"], band, row[f"{band}_pct"])


def _sweep(table: str) -> Iterator[Row]:
    for row in _printed(table):
        label = row["arm"] if row["k"] == "20" else f"{row['arm']} k={row['k']}"
        for band in BANDS[:2]:
            yield _row(table, label, band, row[f"{band}_pct"])


def _hit_miss(table: str) -> Iterator[Row]:
    for row in _printed(table):
        for evidence in ("hit", "miss"):
            yield _row(table, row["arm"], evidence, row[f"accuracy_{evidence}_pct"])


def _kinds(table: str) -> Iterator[Row]:
    for row in _printed(table):
        for arm in ("qccs", "bm25", "full"):
            if row["task_type"] in KINDS:
                yield _row(table, arm, KINDS[row["task_type"]], row[f"{arm}_pct"])


def _oracle(table: str) -> Iterator[Row]:
    for row in _printed(table):
        yield _row(table, "oracle", row["condition"].replace("_", " "), row["accuracy_pct"])


def _by_column(*columns: tuple[str, str, str]) -> Callable[[str], Iterator[Row]]:
    """Rows of a table with a column ``arm``: (column, what it is, its unit) each."""

    def rows(table: str) -> Iterator[Row]:
        for row in _printed(table):
            for column, what, unit in columns:
                yield _row(table, row["arm"], what, row[column], unit=unit)

    return rows


def _thresholds(table: str) -> Iterator[Row]:
    for row in _printed(table):
        for arm in ("bm25", "qccs"):
            at = f"p > {float(row['threshold']):g}"
            yield _row(table, arm, f"semantic hit, {at}", row[f"{arm}_hit_pct"])
            yield _row(table, arm, f"right given a hit, {at}", row[f"{arm}_accuracy_hit_pct"])


TAXONOMY = {
    "bm25_wrong_entity_confabulation": ("bm25", "wrong entity"),
    "bm25_refusal": ("bm25", "refusal"),
    "qccs_recovers_bm25_failure": ("qccs", "right where bm25 was judged wrong"),
}


def _failures(table: str) -> Iterator[Row]:
    for row in _printed(table):
        yield _row(table, *TAXONOMY[row["quantity"]], row["value_pct"])


def _curve(table: str) -> Iterator[Row]:
    counts = {row["decile"]: row["n"] for row in read("clitm_counts.csv")}
    for row in _printed(table):
        ends = (row["cluster_ci_low"], row["cluster_ci_high"])
        share = (f"{100 * float(text):.1f}" for text in (row["accuracy"], *ends))
        yield _row(table, "six models", f"{row['decile']} %", *share)
        yield _row(table, "six models, n", f"{row['decile']} %", counts[row["decile"]], unit=COUNT)


def _summary(table: str) -> Iterator[Row]:
    for row in _printed(table):
        name = row["quantity"].replace("_", " ")
        ends = (row["ci_low"], row["ci_high"])
        yield _row(table, "the paper's curve", name, row["value"], *ends, unit=UNITS[row["unit"]])
    for row in read("clitm_null.csv"):
        name = row["quantity"].replace("_", " ")
        unit = UNITS[row["unit"]]
        ends = ("", "")
        if row["spread"]:  # value ± spread
            value, spread = float(row["value"]), float(row["spread"])
            ends = (f"{value - spread:g}", f"{value + spread:g}")
        yield _row(table, "re-analysis", name, row["value"], *ends, unit=unit)


def _ablation(table: str) -> Iterator[Row]:
    for row in _printed(table):
        ends = (row["low_pct"], row["high_pct"])
        label = f"{row['factor']} {row['value']}"
        yield _row(table, label, "mean recall (lowest to highest)", row["mean_recall_pct"], *ends)


def _query(table: str) -> Iterator[Row]:
    for row in _printed(table):
        for band in BANDS[:2]:
            yield _row(table, row["condition"].replace("_", " "), band, row[f"{band}_pct"])


def _attention(table: str) -> Iterator[Row]:
    for row in _printed(table):
        ends = (row["auroc_low"], row["auroc_high"])
        task, name = row["task"], row["attention"].replace("_", " ")
        yield _row(table, name, f"{task}, AUROC", row["auroc"], *ends, unit=NUMBER)
        yield _row(table, name, f"{task}, AUPRC", row["auprc"], unit=NUMBER)
        if row["validation_auroc"]:
            what = f"{task}, AUROC in validation"
            yield _row(table, name, what, row["validation_auroc"], unit=NUMBER)


def _focal(table: str) -> Iterator[Row]:
    for row in _printed(table):
        for column in ("differential_auroc", "qccs_plain_auroc", "qccs_focal_auroc"):
            label = column.removesuffix("_auroc").replace("_", " ")
            yield _row(table, label, f"{row['task']}, AUROC", row[column], unit=NUMBER)
        for column in ("gate_mean", "gate_sd"):
            label = column.replace("_", " ")
            yield _row(table, label, f"{row['task']}, gate", row[column], unit=NUMBER)
        what = f"{row['task']}, prevalence as printed"
        yield _row(table, "positive labels", what, row["positive_prevalence_pct"])


def _sparse(table: str) -> Iterator[Row]:
    for row in _printed(table):
        for column in ("auroc", "auprc", "mean_sparsity"):
            what = f"{row['task']}, {column.replace('_', ' ')}"
            yield _row(table, row["attention"], what, row[column], unit=NUMBER)


_ROWS: Mapping[str, Callable[[str], Iterator[Row]]] = {
    "stage2": _banded,
    "stage1": _bands,
    "k_sweep": _sweep,
    "other_arms": _bands,
    "hit_miss": _hit_miss,
    "hit_miss_semantic": _hit_miss,
    "task_type": _kinds,
    "token_overlap": _banded,
    "oracle": _oracle,
    "reader_14b": _banded,
    "judge_agreement": _by_column(
        ("primary_pct", "first judge", SHARE),
        ("second_pct", "second judge", SHARE),
        ("cohen_kappa", "Cohen's kappa", NUMBER),
    ),
    "blind_judge": _by_column(
        ("oracle_pct", "sees the evidence", SHARE),
        ("blind_pct", "blind", SHARE),
        ("agreement_pct", "agreement", SHARE),
    ),
    "nli_recall": _by_column(
        ("semantic_pct", "semantic", SHARE),
        ("lexical_pct", "lexical", SHARE),
        ("semantic_only_pct", "semantic only", SHARE),
        ("lexical_only_pct", "lexical only", SHARE),
    ),
    "nli_threshold": _thresholds,
    "failure_taxonomy": _failures,
    "clitm_curve": _curve,
    "clitm_summary": _summary,
    "query_ablation": _query,
    "gate_ablation": _ablation,
    "ehrshot_attention": _attention,
    "ehrshot_focal": _focal,
    "ehrshot_sparse": _sparse,
}
