"""The role that each function of :mod:`midchart.core.api` needs, checked at every call.

Pages reach the engine through :mod:`midchart.core.api` alone, so no page, button or request passes
this check by. Without sign-in the account acts, which has every role.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from midchart.core.identity import ROLES, by_name_alone, person, require

ANYBODY = ""
FUNCTIONS = {
    ANYBODY: """
        about_left account acting_as acting_person answers_csv band_of can_validate chosen_option
        conclusion_of correct_option default_primary duration event_text evidence_parts
        evidence_sentences figure figure_alt gold_ids in_order in_words known_measures listed
        may for_prompt only_quotes option_text options p_number p_value parse percent points
        progress read_questions read_toml recover resolve_person role_needed
        rows_of sentences shown single_value split_label title type_text undated value_toml values
        views_of for_screen for_terminal sheet_cell was_cut
        with_sign without_sign_in words write_toml""",
    "viewer": """
        answer answer_cells answer_summary answered_by any_active arms_and_judges ask asked_of
        asked_questions attention_map audit_cards audited_prompt build_arm
        changed_questions check cohort_key cohort_name cohorts compare_runs compared
        context_lines curve curve_bin curve_choices curve_locations
        damaged_runs default_reader disagreements download estimate
        explain failed_in_words failed_items faults_alone findings folders forecast_sequences
        gate_cards gold_under instruction_for item judge kinds listed_path log_tail
        marking_agreement members
        methods models needle_items open_data other_runs other_values outcomes own_question
        own_questions paper_claims paper_comparison paper_runs preflight presets published_curve
        question_set_spec question_sets questions_table
        reading_progress readers_of replication report report_csv review_agreement review_mark
        review_rows reviewer_name reviewers rows rows_warning run_cohort run_entries scored_arms
        replication_specs scores select select_report shared_cards shipped_runs spec_schema status
        step_specs typed_question unconfirmed_permissions unread waterfall wrong_in_the_middle""",
    "reviewer": """
        add_review answer_question deal_cards keep_question mark_cards mark_evidence review_cards
        save_question_set
        withdraw_question withdraw_question_set""",
    "researcher": """
        cancel cancel_runs enqueue export_bytes export_html
        export_run export_to import_results import_run label_run make_gate
        open_examples open_shipped prepare_demo prepare_first_start received_files replicate
        resume share_cards start wait write_tables""",
    "owner": """
        accept_audit audit_lines import_cohort receive_log remove_cohort remove_run set_data_use
        settle_columns verify_audit""",
}
"""Role → the functions that it may call in addition to those of the roles above it;
:data:`ANYBODY`: those called before anybody has signed in, and functions of their arguments alone.
A function that is not listed needs the last role."""
_NEEDED = {name: role for role, names in FUNCTIONS.items() for name in names.split()}


def role_needed(function: str) -> str:
    """The role that a function of the interface needs."""
    return _NEEDED.get(function, ROLES[-1])


def may(function: str) -> bool:
    """Whether the acting person may call a function of the interface."""
    return person().may(role_needed(function))


def guarded(name: str, value: Any) -> Any:
    """A function that checks, at each call, the acting person's role and the objects that a person
    who signed in names, and tells such a person no path; other values as they are.

    The function raises NotPermitted.
    """
    if role_needed(name) == ANYBODY or not callable(value) or isinstance(value, type):
        return value
    function: Callable[..., Any] = value
    role = role_needed(name)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        require(role, name)
        if by_name_alone():
            from midchart.core.services.objects import known_arguments, without_paths

            known, known_named = known_arguments(name, function, arguments, named)
            return without_paths(name, function(*known, **known_named))
        return function(*arguments, **named)

    return call
