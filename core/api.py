"""The front door: the plain functions that pages and the command line call.

Both see the same engine. This file only names what the door offers; ``core/door`` holds it.
"""

from __future__ import annotations

from core.arms.scores import ArmScores, ScoreTable, scored_arms
from core.door.asking import (
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
from core.door.catalogue import MemberCard, folders, members, models
from core.door.cohorts import CohortCard, check, cohort_key, cohorts, open_data, prepare_demo
from core.door.data_use import audit_lines, set_data_use
from core.door.gate_cards import gate_cards
from core.door.training import make_gate, make_plus
from core.evidence import band_of
from core.protocol import PRESETS, Protocol, parse
from core.run import (
    cancel,
    compared,
    different_only,
    disagreements,
    estimate,
    item,
    outcomes,
    report,
    report_csv,
    resume,
    rows,
    start,
    status,
    wait,
)
from core.text import event_text, neutralise, sentences
from core.types import (
    BANDS,
    Answer,
    Cohort,
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
    "PRESETS",
    "Answer",
    "ArmScores",
    "Cohort",
    "CohortCard",
    "Event",
    "Explanation",
    "Gold",
    "Instruction",
    "Manifest",
    "MemberCard",
    "Prompt",
    "Protocol",
    "Record",
    "ScoreTable",
    "Selection",
    "Sentence",
    "Span",
    "Term",
    "Verdict",
    "ask",
    "audit_lines",
    "band_of",
    "build_arm",
    "cancel",
    "check",
    "cohort_key",
    "cohorts",
    "compared",
    "different_only",
    "disagreements",
    "estimate",
    "event_text",
    "explain",
    "folders",
    "gate_cards",
    "gold_ids",
    "instruction_for",
    "item",
    "judge",
    "make_gate",
    "make_plus",
    "members",
    "models",
    "neutralise",
    "open_data",
    "outcomes",
    "parse",
    "prepare_demo",
    "report",
    "report_csv",
    "resume",
    "rows",
    "scored_arms",
    "scores",
    "select",
    "select_report",
    "sentences",
    "set_data_use",
    "start",
    "status",
    "typed_question",
    "wait",
]
