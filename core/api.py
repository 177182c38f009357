"""The functions that pages, notebooks and the command line call.

A module is imported when one of its names is first used (PEP 562), so that a command or a page
loads what it uses and no more. Each function checks the acting person's role at every call
(:mod:`midchart.core.services.permissions`).
"""

# pyright: reportUnusedImport=false
# ruff: noqa: F401 (the imports are for type checkers, and name each function's module)

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midchart.core.services.permissions import guarded

if TYPE_CHECKING:
    from midchart.core.arms.scores import ArmScores, ScoreTable, scored_arms
    from midchart.core.cohorts.gold import gold_under
    from midchart.core.cohorts.kept_questions import QuestionSet, read_questions
    from midchart.core.config import without_sign_in
    from midchart.core.egress.audit import accept as accept_audit
    from midchart.core.egress.audit import lines as audit_lines
    from midchart.core.egress.audit import verify as verify_audit
    from midchart.core.experiments.answers.tables import review_agreement
    from midchart.core.experiments.curve.tables import published_curve
    from midchart.core.experiments.needles.tables import needle_items
    from midchart.core.experiments.replication import VIEWS as PAPER_VIEWS
    from midchart.core.experiments.replication.paper import TABLES as PAPER_TABLES
    from midchart.core.experiments.replication.paper import (
        UNTESTED,
        findings,
        other_runs,
        paper_claims,
        paper_comparison,
    )
    from midchart.core.experiments.replication.steps import (
        arms_and_judges,
        faults_alone,
        paper_runs,
        readers_of,
        replication,
        step_specs,
        waterfall,
    )
    from midchart.core.figures.views import alt as figure_alt
    from midchart.core.figures.views import figure
    from midchart.core.format import (
        HIDDEN,
        MARKDOWN,
        about_left,
        duration,
        for_screen,
        for_terminal,
        p_number,
        p_value,
        percent,
        points,
        sheet_cell,
        shown,
        with_sign,
    )
    from midchart.core.identity import ROLES, Person, account, acting_as
    from midchart.core.identity import person as acting_person
    from midchart.core.identity import resolve as resolve_person
    from midchart.core.judges.values import single_value
    from midchart.core.loaders.fhir import can_validate
    from midchart.core.options import FORMAT, RECEIVED, type_text
    from midchart.core.protocol import PRESETS, Protocol, parse
    from midchart.core.readers.extractive import bare as undated
    from midchart.core.results.comparison import changed_questions, compare_runs
    from midchart.core.results.export import export_html, export_run
    from midchart.core.results.export_formats import export_to
    from midchart.core.results.importing import import_run
    from midchart.core.results.items import (
        answer,
        answered_by,
        asked_of,
        compared,
        disagreements,
        item,
        outcomes,
        rows,
        wrong_in_the_middle,
    )
    from midchart.core.results.report import (
        conclusion_of,
        failed_in_words,
        methods,
        report,
        report_csv,
        rows_warning,
        views_of,
        write_tables,
    )
    from midchart.core.results.reviews import REASONS as REVIEW_REASONS
    from midchart.core.results.reviews import (
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
    from midchart.core.results.titles import split_label, title
    from midchart.core.results.values import (
        Value,
        in_order,
        in_words,
        known_measures,
        options,
        rows_of,
        values,
    )
    from midchart.core.runs.declared import Conclusion, Ends, Measure, View
    from midchart.core.runs.estimate import estimate, preflight
    from midchart.core.runs.plan import default_primary
    from midchart.core.runs.process import cancel, cancel_runs, enqueue, resume, start, status, wait
    from midchart.core.runs.spec import (
        Preset,
        kinds,
        presets,
        read_toml,
        spec_schema,
        value_toml,
        write_toml,
    )
    from midchart.core.runs.status import (
        any_active,
        damaged_runs,
        failed_items,
        label_run,
        listed,
        log_tail,
        progress,
    )
    from midchart.core.services.audit_cards import audit_cards, deal_cards, mark_cards
    from midchart.core.services.audited_prompt import AuditedPrompt, audited_prompt
    from midchart.core.services.cohorts import (
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
    from midchart.core.services.components import (
        MemberCard,
        default_reader,
        folders,
        gate_cards,
        members,
        only_quotes,
    )
    from midchart.core.services.curve import (
        attention_map,
        curve,
        curve_bin,
        curve_choices,
        curve_locations,
        forecast_sequences,
    )
    from midchart.core.services.import_cohort import cohort_name, import_cohort, remove_cohort
    from midchart.core.services.import_results import import_results
    from midchart.core.services.objects import listed_path, received_files
    from midchart.core.services.other_values import RULE as OTHER_VALUES_RULE
    from midchart.core.services.other_values import OtherValue, other_values
    from midchart.core.services.permissions import may, role_needed
    from midchart.core.services.questions import (
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
    from midchart.core.services.received_logs import receive_log
    from midchart.core.services.removal import recover
    from midchart.core.services.runs import (
        download,
        export_bytes,
        open_examples,
        open_shipped,
        prepare_first_start,
        remove_run,
        replicate,
        replication_specs,
        run_cohort,
        shipped_runs,
    )
    from midchart.core.services.summary import ReadingProgress, check, reading_progress
    from midchart.core.services.training import make_gate
    from midchart.core.services.user_questions import (
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
    from midchart.core.text import event_text, for_prompt, sentences, words
    from midchart.core.text.choices import chosen_option, correct_option
    from midchart.core.text.evidence import band_of, evidence_parts, evidence_sentences
    from midchart.core.text.prompt import context_lines, option_text, was_cut
    from midchart.core.time_left import TimeLeft
    from midchart.core.types import (
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
    from midchart.core.weights import catalogue as models


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
