"""The functions that pages, notebooks and the command line call.

A module is imported when one of its names is first used (PEP 562), so that a command or a page
loads what it uses and no more. Each function checks the acting person's role at every call
(:mod:`core.services.permissions`).
"""

# pyright: reportUnusedImport=false
# ruff: noqa: F401 (the imports are for type checkers, and name each function's module)

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.services.permissions import guarded

if TYPE_CHECKING:
    from core.arms.scores import ArmScores, ScoreTable, scored_arms
    from core.config import without_sign_in
    from core.egress.audit import lines as audit_lines
    from core.egress.audit import verify as verify_audit
    from core.experiments.answers.tables import review_agreement
    from core.experiments.curve.tables import published_curve, published_summary
    from core.experiments.needles.tables import needle_items
    from core.experiments.replication.claims import UNTESTED, paper_claims, paper_runs
    from core.experiments.replication.comparison import (
        arms_and_judges,
        faults_alone,
        readers_of,
        replication,
        step_specs,
        waterfall,
    )
    from core.experiments.replication.paper import TABLES as PAPER_TABLES
    from core.experiments.replication.paper import findings, other_runs, paper_comparison
    from core.format import duration, inert, p_number, p_value, percent, points, with_sign
    from core.identity import ROLES, Person, account, acting_as
    from core.identity import person as acting_person
    from core.identity import resolve as resolve_person
    from core.judges.values import single_value
    from core.loaders.fhir import can_validate
    from core.loaders.gold import gold_under
    from core.loaders.kept_questions import QuestionSet, read_questions
    from core.options import type_text
    from core.protocol import PRESETS, Protocol, parse
    from core.readers.extractive import bare as undated
    from core.results.claims import check_claims
    from core.results.comparison import changed_questions, compare_runs
    from core.results.export import export_run
    from core.results.importing import import_run
    from core.results.items import (
        answer,
        answered_by,
        asked_of,
        compared,
        different_only,
        disagreements,
        item,
        outcomes,
        rows,
        wrong_in_the_middle,
    )
    from core.results.report import (
        columns_of,
        failed_in_words,
        methods,
        report,
        report_csv,
        rows_warning,
        write_tables,
    )
    from core.results.reviews import OUTCOMES as REVIEW_OUTCOMES
    from core.results.reviews import REASONS as REVIEW_REASONS
    from core.results.reviews import (
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
    from core.runs.estimate import estimate, preflight
    from core.runs.plan import default_primary
    from core.runs.probe import probe
    from core.runs.process import cancel, cancel_runs, enqueue, resume, start, status, wait
    from core.runs.spec import (
        Preset,
        kinds,
        presets,
        read_toml,
        spec_schema,
        value_toml,
        write_toml,
    )
    from core.runs.status import (
        any_active,
        damaged_runs,
        failed_items,
        label_run,
        listed,
        log_tail,
        progress,
    )
    from core.services.abstention import default_reader, error_rates
    from core.services.benchmark import benchmark, benchmarks, read_benchmark
    from core.services.cohorts import (
        CohortCard,
        cohort_key,
        cohorts,
        open_data,
        prepare_demo,
        set_data_use,
        settle_columns,
        unconfirmed_permissions,
        unread,
    )
    from core.services.components import (
        MemberCard,
        folders,
        gate_cards,
        members,
        only_quotes,
        split_label,
        title,
    )
    from core.services.curve import (
        attention_map,
        curve,
        curve_bin,
        curve_choices,
        curve_locations,
        forecast_sequences,
    )
    from core.services.import_cohort import cohort_name, import_cohort, remove_cohort
    from core.services.other_values import RULE as OTHER_VALUES_RULE
    from core.services.other_values import OtherValue, other_values
    from core.services.permissions import may, role_needed
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
    from core.services.runs import (
        download,
        export_bytes,
        export_html,
        open_examples,
        open_shipped,
        remove_run,
        replicate,
        replication_specs,
        shipped_runs,
    )
    from core.services.summary import ReadingProgress, check, reading_progress
    from core.services.training import (
        evaluate_reader,
        make_calibration,
        make_gate,
        train_reader,
    )
    from core.services.user_questions import (
        KeptQuestion,
        answer_cells,
        answer_question,
        answer_summary,
        answers_csv,
        asked_questions,
        keep_question,
        mark_evidence,
        marking_agreement,
        own_question,
        own_questions,
        question_set_spec,
        question_sets,
        questions_table,
        run_entries,
        save_question_set,
        withdraw_question,
        withdraw_question_set,
    )
    from core.services.weak_sources import weak_source
    from core.storage.files import protect_new_files
    from core.text import event_text, neutralise, sentences, words
    from core.text.choices import chosen_option, correct_option
    from core.text.evidence import band_of, evidence_parts, evidence_sentences
    from core.text.prompt import context_lines, option_text, was_cut
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
    from core.weights import catalogue as models


def _homes() -> dict[str, tuple[str, str]]:
    """Name → its module and its name there, read from the imports above."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_HOMES = _homes()


def __getattr__(name: str) -> Any:
    """Import a name on first use; raises AttributeError for one that is not listed above."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = _HOMES[name]
    value = globals()[name] = guarded(name, getattr(import_module(module), original))
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
