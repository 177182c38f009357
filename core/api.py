"""The plain functions that pages and the command line call.

Both see the same engine. This file only names what they may call; ``core/services`` holds what it
takes.
"""

from __future__ import annotations

from core.arms.scores import ArmScores, ScoreTable, scored_arms
from core.experiments.needles.items import needle_items
from core.experiments.replication.comparison import (
    arms_and_judges,
    beside,
    faults_alone,
    readers_of,
    replication,
    waterfall,
)
from core.experiments.replication.elsewhere import other_runs
from core.experiments.replication.findings import findings
from core.experiments.replication.paper import TABLES as PAPER_TABLES
from core.experiments.replication.steps import ARMS as PAPER_ARMS
from core.experiments.replication.steps import step_specs
from core.experiments.review.agreement import review_agreement
from core.loaders.gold import gold_under
from core.protocol import PRESETS, Protocol, parse
from core.runs.diff import (
    answer,
    asked_of,
    compared,
    different_only,
    disagreements,
    item,
    outcomes,
    rows,
)
from core.runs.estimate import consider, estimate
from core.runs.export import export_run
from core.runs.importing import import_run
from core.runs.items import compare_runs
from core.runs.presets import Preset, kinds, presets, read_toml, value_toml, write_toml
from core.runs.process import cancel, resume, start, wait
from core.runs.queue import enqueue, status
from core.runs.report import failed_in_words, report, report_csv, write_tables
from core.runs.reviews import OUTCOMES as REVIEW_OUTCOMES
from core.runs.reviews import REASONS as REVIEW_REASONS
from core.runs.reviews import (
    Card,
    add_review,
    review_cards,
    review_mark,
    review_rows,
    reviewer_name,
    reviewers,
    share_cards,
    shared_cards,
)
from core.runs.status import failed_items, log_tail
from core.services.cohorts import (
    CohortCard,
    audit_lines,
    check,
    cohort_key,
    cohorts,
    open_data,
    prepare_demo,
    prepare_laboratory,
    prepare_letters,
    set_data_use,
    unread,
)
from core.services.components import MemberCard, folders, gate_cards, members, models, only_quotes
from core.services.curve import (
    attention_map,
    curve,
    curve_bin,
    curve_choices,
    curve_locations,
    forecast_sequences,
    published_curve,
    published_summary,
)
from core.services.exports import export_bytes, export_html, open_shipped, shipped_runs
from core.services.questions import (
    ask,
    build_arm,
    explain,
    gold_ids,
    instruction_for,
    judge,
    scores,
    select,
    select_report,
    typed_question,
)
from core.services.training import evaluate_reader, make_gate, make_plus, train_reader
from core.storage.csv import inert
from core.text import event_text, neutralise, sentences
from core.text.evidence import band_of
from core.text.prompt import was_cut
from core.types import (
    BANDS,
    Answer,
    Cohort,
    ContextLine,
    Event,
    Explanation,
    Gold,
    Instruction,
    Manifest,
    Prompt,
    Record,
    Selection,
    Sentence,
    Span,
    Term,
    Verdict,
)

__all__ = [
    "BANDS",
    "PAPER_ARMS",
    "PAPER_TABLES",
    "PRESETS",
    "REVIEW_OUTCOMES",
    "REVIEW_REASONS",
    "Answer",
    "ArmScores",
    "Card",
    "Cohort",
    "CohortCard",
    "ContextLine",
    "Event",
    "Explanation",
    "Gold",
    "Instruction",
    "Manifest",
    "MemberCard",
    "Preset",
    "Prompt",
    "Protocol",
    "Record",
    "ScoreTable",
    "Selection",
    "Sentence",
    "Span",
    "Term",
    "Verdict",
    "add_review",
    "answer",
    "arms_and_judges",
    "ask",
    "asked_of",
    "attention_map",
    "audit_lines",
    "band_of",
    "beside",
    "build_arm",
    "cancel",
    "check",
    "cohort_key",
    "cohorts",
    "compare_runs",
    "compared",
    "consider",
    "curve",
    "curve_bin",
    "curve_choices",
    "curve_locations",
    "different_only",
    "disagreements",
    "enqueue",
    "estimate",
    "evaluate_reader",
    "event_text",
    "explain",
    "export_bytes",
    "export_html",
    "export_run",
    "failed_in_words",
    "failed_items",
    "faults_alone",
    "findings",
    "folders",
    "forecast_sequences",
    "gate_cards",
    "gold_ids",
    "gold_under",
    "import_run",
    "inert",
    "instruction_for",
    "item",
    "judge",
    "kinds",
    "log_tail",
    "make_gate",
    "make_plus",
    "members",
    "models",
    "needle_items",
    "neutralise",
    "only_quotes",
    "open_data",
    "open_shipped",
    "other_runs",
    "outcomes",
    "parse",
    "prepare_demo",
    "prepare_laboratory",
    "prepare_letters",
    "presets",
    "published_curve",
    "published_summary",
    "read_toml",
    "readers_of",
    "replication",
    "report",
    "report_csv",
    "resume",
    "review_agreement",
    "review_cards",
    "review_mark",
    "review_rows",
    "reviewer_name",
    "reviewers",
    "rows",
    "scored_arms",
    "scores",
    "select",
    "select_report",
    "sentences",
    "set_data_use",
    "share_cards",
    "shared_cards",
    "shipped_runs",
    "start",
    "status",
    "step_specs",
    "train_reader",
    "typed_question",
    "unread",
    "value_toml",
    "wait",
    "was_cut",
    "waterfall",
    "write_tables",
    "write_toml",
]
