"""The functions that pages, notebooks and the command line call.

A module is imported when one of its names is first used (PEP 562), so that a command or a page
loads what it uses and no more. Each function of :data:`FUNCTIONS` checks the acting person's role
at every call (:mod:`midchart.core.access`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from midchart.core.access import guarded

FUNCTIONS: Mapping[str, str] = {
    "arms.scores": "scored_arms",
    "cohorts.gold": "gold_under",
    "egress.audit": "audit_lines=lines verify_audit=verify",
    "experiments.curve.tables": "published_curve",
    "experiments.needles.tables": "needle_items",
    "experiments.replication.paper": "findings other_runs paper_claims paper_comparison",
    "experiments.replication.steps": (
        "arms_and_judges faults_alone paper_runs readers_of replication step_specs waterfall"
    ),
    "results.agreement": "review_agreement",
    "results.comparison": "changed_questions compare_runs",
    "results.export": "export_html export_run",
    "results.funnel": "evidence_funnel",
    "results.importing": "import_run",
    "results.items": (
        "answered_by asked_of compared item outcomes primary_judge rows wrong_in_the_middle"
    ),
    "results.report": (
        "failed_in_words methods report report_csv rows_warning run_totals write_tables"
    ),
    "results.reviews": ("add_review review_cards review_mark review_rows reviewer_name reviewers"),
    "runs.estimate": "estimate preflight",
    "runs.process": "cancel cancel_runs enqueue resume start status wait",
    "runs.spec": "kinds presets spec_schema",
    "runs.status": "any_active damaged_runs failed_items label_run log_tail",
    "services.cohorts": (
        "check cohort_key cohorts listed_path open_data prepare_demo set_data_use settle_columns "
        "unconfirmed_permissions unread"
    ),
    "services.components": "default_reader folders gate_cards members",
    "services.curve": ("attention_map curve curve_bin curve_choices forecast_sequences"),
    "services.import_cohort": "cohort_name import_cohort remove_cohort",
    "services.other_values": "other_values",
    "services.questions": (
        "ask build_arm explain instruction_for judge scores select select_report typed_question"
    ),
    "services.runs": (
        "download export_bytes open_examples prepare_first_start remove_run "
        "replicate replication_specs run_cohort shipped_runs"
    ),
    "services.training": "make_gate",
    "services.user_questions": (
        "answer_cells answer_question answer_summary asked_questions chart_sentences "
        "keep_question mark_evidence marking_agreement own_question own_questions "
        "question_set_spec question_sets questions_table run_entries save_question_set "
        "withdraw_question withdraw_question_set"
    ),
    "text.prompt": "context_lines",
    "weights": "get_model models=catalogue server_command",
}
"""Module → functions that state the role they need; ``NAME=OTHER`` is called OTHER there."""
OPEN: Mapping[str, str] = {
    "access": "may role_needed",
    "arms.scores": "ArmScores ScoreTable",
    "charts": "reading",
    "cohorts.kept_questions": "QuestionSet read_questions",
    "config": "without_sign_in",
    "experiments.replication": "PAPER_VIEWS=VIEWS",
    "experiments.replication.paper": "PAPER_TABLES=TABLES UNTESTED",
    "figures.views": "figure figure_alt=alt view_headline=headline",
    "format": (
        "about_left counted=count duration for_screen for_terminal HIDDEN MARKDOWN "
        "names_in_words=listed p_number p_value percent points sheet_cell shown time_left "
        "with_interval with_sign"
    ),
    "identity": "account acting_as acting_person=person Person ROLES",
    "judges.values": "single_value",
    "loaders.fhir": "can_validate",
    "protocol": "parse PRESETS Protocol",
    "results.claims": "ANSWERS best_ranked Claim claim_of DECLINES",
    "results.funnel": "funnel_sentence=sentence STEPS",
    "results.report": "conclusion_of views_of",
    "results.reviews": "Card REVIEW_REASONS=REASONS",
    "results.titles": "split_label title",
    "results.values": "in_order in_words known_measures options rows_of Value values view_table",
    "runs.declared": "Conclusion Ends Measure View",
    "runs.plan": "default_primary",
    "runs.spec": "Preset read_toml value_toml write_toml",
    "runs.status": "listed progress",
    "services.cohorts": "CohortCard",
    "services.components": "MemberCard",
    "services.other_values": "OTHER_VALUES_RULE=RULE OtherValue",
    "services.questions": "gold_ids",
    "services.removal": "recover",
    "services.user_questions": "answers_csv KeptQuestion",
    "text": "event_text for_prompt sentences words",
    "text.choices": "chosen_option correct_option",
    "text.evidence": "band_of evidence_parts evidence_sentences",
    "text.prompt": "option_text undated=without_date was_cut",
    "types": (
        "Answer BANDS Cohort ContextLine Event Explanation Gold Instruction Manifest Prompt "
        "Record Selection Sentence Span Term Verdict"
    ),
}
"""Module → types, constants, and functions of their arguments alone or called before a sign-in."""


def _homes(modules: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Name → its module and its name there."""
    return {
        entry.partition("=")[0]: (module, entry.rpartition("=")[2])
        for module, names in modules.items()
        for entry in names.split()
    }


_CHECKED = _homes(FUNCTIONS)
HOMES = _CHECKED | _homes(OPEN)


def __getattr__(name: str) -> Any:
    """Import a name on first use; raises AttributeError for one that is not listed above."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = HOMES[name]
    value = getattr(import_module(f"midchart.core.{module}"), original)
    globals()[name] = value = guarded(value) if name in _CHECKED else value
    return value


def __dir__() -> list[str]:
    return sorted(HOMES)
