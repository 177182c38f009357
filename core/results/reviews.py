"""Human verdicts as those of judges: ``review:<reviewer>`` and, of two or more, the majority.

A reviewer's verdict on a card is the verdict on every row with its words.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import count, zip_longest
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from midchart.core import config as settings
from midchart.core.access import RunRef, needs
from midchart.core.cohorts.kept_questions import QUESTIONS_FILE, SETS_FILE
from midchart.core.egress import audit
from midchart.core.errors import InputError, MidchartError, NotPermitted, UnknownName
from midchart.core.identity import ROLES, Person, account, person
from midchart.core.loaders.open import cohort_folder
from midchart.core.options import Options
from midchart.core.provenance import digest, now
from midchart.core.results.tables import pick
from midchart.core.runs.directory import RunDirectory, find_run, run_ids
from midchart.core.runs.plan import ComponentSpec, Plan
from midchart.core.runs.schemas import VERDICTS, Moment, blank
from midchart.core.storage.files import writing
from midchart.core.storage.jsonl import add_line, read_lines
from midchart.core.storage.lock import exclusive
from midchart.core.text import one_line
from midchart.core.text.refusals import is_refusal

# A card: one question of one patient and one distinct answer to it, the unit that is judged.


@dataclass(frozen=True, slots=True)
class Distinct:
    """A distinct answer: ``key`` its hash, ``record`` and ``instruction`` what was asked of whom,
    ``answers`` the keys of the rows that gave it."""

    key: str
    record: str
    instruction: str
    answer: str
    answers: tuple[str, ...]


def distinct_answers(folder: RunDirectory) -> dict[str, Distinct]:
    """The cards of a run by key, in the order of their keys; raises InputError for a run of a kind
    without answers."""
    plan = folder.plan()
    store = folder.store(plan)
    if "answers" not in store.schemas:
        raise InputError(f"the run {folder.id} of kind {plan.kind} holds no answers to review")
    where = "status = 'ok' AND answer IS NOT NULL"  # an imported run without text has none
    needles = "needle" in store.schemas["answers"]
    asked = "record || '/' || needle" if needles else "instruction"
    columns = f"key, record, instruction, {asked} AS asked, answer"
    rows = store.select("answers", columns, where)
    texts: dict[str, tuple[str, str, str]] = {}
    keys: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row["key"]):
        card = digest("review", row["asked"], one_line(row["answer"]))
        texts.setdefault(card, (row["record"], row["instruction"], row["answer"].strip()))
        keys.setdefault(card, []).append(row["key"])
    return {card: Distinct(card, *texts[card], tuple(keys[card])) for card in sorted(texts)}


def card_of_answer(cards: Mapping[str, Distinct]) -> dict[str, str]:
    """Key of a row of answers → key of its card."""
    return {answer: card.key for card in cards.values() for answer in card.answers}


# Reviewers' verdicts: an append-only file per run and reviewer.


OUTCOMES = ("correct", "incorrect", "cannot_judge")
REASONS = {
    "reference": "the reference answer is missing, wrong or unclear",
    "evidence": "the evidence shown does not settle it",
    "question": "the question can be read in several ways",
    "answer": "the answer cannot be understood",
    "expertise": "it is outside what I can judge",
    "other": "another reason, in the comment",
}
"""Why a card cannot be judged, with its words."""
MOST_CHARACTERS = 2_000
"""Characters of a comment."""
SHARED = 50
"""Cards that every reviewer of a run is given."""
DEALT_FILE = "_dealt"
"""The cards of a run of a kind with cards (``Experiment.cards``)."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
CONSENSUS = "consensus"


@needs("viewer")
def reviewer_name(text: str) -> str:
    """A reviewer's name as it is kept: small letters, digits and hyphens; raises InputError. It is
    part of file names and addresses, so it is a code and not a person's full name."""
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise InputError(
            "a reviewer's code is 1 to 32 small letters, digits or hyphens, such as 'reviewer-2'"
        )
    if name == CONSENSUS:
        raise InputError(
            f"{CONSENSUS!r} is the name of the reviewers' majority; a reviewer's code is another"
        )
    return name


def _file(run: str, reviewer: str) -> Path:
    return settings.reviews_folder(run) / f"{reviewer_name(reviewer)}.jsonl"


@needs("reviewer")
def add_review(
    run: RunRef,
    reviewer: str,
    card: str,
    outcome: str,
    seconds: float | None = None,
    reason: str = "",
    comment: str = "",
) -> None:
    """Note a reviewer's verdict on a card; the code becomes the acting person's, if it is free.

    ``reason`` (:data:`REASONS`) is given with "cannot_judge" alone. Raises UnknownName, InputError,
    NotPermitted where the code is another person's, or WorkFailed where it cannot be written.
    """
    comment = comment.strip()
    if outcome not in OUTCOMES:
        raise InputError(f"a review says {', '.join(OUTCOMES)}, not {outcome!r}")
    if outcome == "cannot_judge" and reason not in REASONS:
        raise InputError(f"'cannot_judge' needs a reason: {', '.join(REASONS)}; not {reason!r}")
    if outcome != "cannot_judge" and reason:
        raise InputError(f"a reason belongs to 'cannot_judge', not to {outcome!r}")
    if reason == "other" and not comment:
        raise InputError("the reason 'other' needs a comment that says which")
    if len(comment) > MOST_CHARACTERS:
        raise InputError(f"a comment has at most {MOST_CHARACTERS:,} characters")
    file, folder = _file(run, reviewer), find_run(run)
    known = distinct_answers(folder)
    if card not in known:
        raise UnknownName("card of the run", card, known)
    take_code(file.stem)
    audit.note("judged", run=run, reviewer=file.stem, card=card)
    verdict = {"outcome": outcome, "reason": reason, "comment": comment, "seconds": seconds}
    add_line(file, {"time": now(), "card": card, **verdict}, durable=True)


def reviewed(run: str, reviewer: str) -> dict[str, dict[str, Any]]:
    """Card → a reviewer's last verdict on it, as it was noted."""
    return {line["card"]: line for line in _lines(_file(run, reviewer))}


def review_files(folder: RunDirectory) -> list[Path]:
    """The files of a run's reviewers."""
    return [settings.reviews_folder(folder.id) / f"{name}.jsonl" for name in reviewers_of(folder)]


class ReviewLine(Options):
    """A line of a reviewer's file."""

    time: Moment
    card: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    outcome: Annotated[str, Field(pattern=f"^({'|'.join(OUTCOMES)})$")]
    reason: Annotated[str, Field(pattern=f"^({'|'.join(REASONS)})?$")] = ""
    comment: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    seconds: Annotated[int | float, Field(ge=0, lt=1e9)] | None = None


_REVIEW = TypeAdapter(ReviewLine)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a reviewer's file; raises DataError for one that is none."""
    return read_lines(path, _REVIEW)


def checked_lines(name: str, text: bytes) -> list[dict[str, Any]]:
    """The lines of an imported reviewer's file of this ``name``, checked; raises InputError."""
    reviewer_name(name)
    try:
        lines = map(ReviewLine.model_validate_json, text.splitlines())
        return [line.model_dump() for line in lines]
    except ValueError:
        raise InputError(f"reviews/{name}.jsonl: holds no verdict that is read here") from None


@needs("viewer")
def reviewers(run: RunRef) -> list[str]:
    """Who has reviewed answers of a run, by name; raises UnknownName."""
    return reviewers_of(find_run(run))


def reviewers_of(folder: RunDirectory) -> list[str]:
    """:func:`reviewers` of a run whose folder is known."""
    there = settings.reviews_folder(folder.id)
    if not there.is_dir():
        return []
    stems = (path.stem for path in there.glob("*.jsonl"))
    return sorted(stem for stem in stems if _NAME.fullmatch(stem) and stem != CONSENSUS)


@needs("viewer")
def review_mark(run: RunRef) -> tuple[tuple[str, int], ...]:
    """Changes whenever a verdict is added, or the evidence of a card is marked: files with their
    sizes, in bytes."""
    folder = find_run(run)
    there = settings.reviews_folder(folder.id)
    files = sorted(there.glob("*.jsonl"))
    if there / f"{DEALT_FILE}.jsonl" in files:
        marks = cohort_folder(folder.cohort_path()) / QUESTIONS_FILE
        files += [marks] if marks.exists() else []
    return tuple((path.name, path.stat().st_size) for path in files)


CardVerdicts = Mapping[str, str]
"""Card → its verdict: correct, incorrect or unparsed."""
LABEL = "review:"


@dataclass(frozen=True, slots=True)
class Reviews:
    """Reviewers' verdicts on a run: ``cards``; ``by_judge``, judge → its verdicts; ``seen``, card →
    how many reviewers saw it; ``reasons``, judge → why it could not judge, with how many cards."""

    cards: Mapping[str, Distinct]
    by_judge: Mapping[str, CardVerdicts]
    seen: Mapping[str, int]
    reasons: Mapping[str, Mapping[str, int]]

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges' labels: reviewers by name, then the consensus where there is one."""
        return tuple(self.by_judge)

    def rows(self) -> list[dict[str, str | bool]]:
        """A row an answer and judge that judged its card: ``answer_key``, ``judge``, ``outcome``,
        ``refusal``."""
        return [
            {
                "answer_key": key,
                "judge": judge,
                "outcome": outcome,
                "refusal": is_refusal(self.cards[card].answer),
            }
            for judge, by_card in self.by_judge.items()
            for card, outcome in by_card.items()
            for key in self.cards[card].answers
        ]


NOBODY = Reviews({}, {}, {}, {})


def consensus(votes: Iterable[str]) -> str:
    """The verdict that more than half of those who saw a card gave, those who could not judge among
    them, else "unparsed"."""
    counted = Counter(votes)
    for outcome in ("correct", "incorrect"):
        if 2 * counted[outcome] > counted.total():
            return outcome
    return "unparsed"


def reviews_of(folder: RunDirectory) -> Reviews:
    """All human verdicts on a run; :data:`NOBODY` where there are none."""
    people = reviewers_of(folder)
    if not people or "answers" not in folder.store(folder.plan()).schemas:
        return NOBODY
    cards = distinct_answers(folder)
    outcomes: dict[str, CardVerdicts] = {}
    reasons: dict[str, dict[str, int]] = {}
    for name in people:
        last = {key: line for key, line in reviewed(folder.id, name).items() if key in cards}
        outcomes[LABEL + name] = {
            key: "unparsed" if line["outcome"] == "cannot_judge" else line["outcome"]
            for key, line in sorted(last.items())
        }
        why = Counter(line.get("reason", "") for line in last.values())
        reasons[LABEL + name] = {reason: n for reason, n in sorted(why.items()) if reason}
    votes: dict[str, list[str]] = {}
    for one in outcomes.values():
        for key, outcome in one.items():
            votes.setdefault(key, []).append(outcome)
    if len(people) > 1:
        outcomes[LABEL + CONSENSUS] = {key: consensus(votes[key]) for key in sorted(votes)}
    seen = {key: len(card_votes) for key, card_votes in votes.items()}
    return Reviews(cards, outcomes, seen, reasons)


def with_reviews(plan: Plan, reviews: Reviews) -> Plan:
    """The plan with all judges of its tables: the primary one, the others of its spec, people."""
    people = tuple(
        ComponentSpec("review", {"reviewer": label.removeprefix(LABEL)}, label)
        for label in reviews.judges
    )
    return replace(plan, judge_entries=plan.judge_entries + people)


def review_verdicts(folder: RunDirectory, reviews: Reviews) -> list[dict[str, Any]]:
    """Human verdicts as rows of verdicts, a row an answer and judge."""
    rows = reviews.rows()
    if not rows:
        return []
    store = folder.store(folder.plan())
    answers = {
        row["key"]: row for row in store.select("answers", ", ".join(("key", *_OF_THE_ANSWER)))
    }
    return [
        {
            **blank(VERDICTS),
            **{name: answers[row["answer_key"]][name] for name in _OF_THE_ANSWER},
            **row,
            "key": digest("review", str(row["answer_key"]), str(row["judge"])),
            "status": "ok",
            "nan_evidence": False,
            "repeat": 0,
        }
        for row in rows
    ]


_OF_THE_ANSWER = (
    "label", "arm", "k", "reader", "record", "instruction", "order_position", "time_position",
    "band", "middle", "task_type", "domain", "specialty",
)  # fmt: skip


def summary(reviews: Reviews) -> list[dict[str, Any]]:
    """A row a human judge: how many cards it judged, and the answers they represent."""
    rows: list[dict[str, Any]] = []
    for judge, verdicts in reviews.by_judge.items():
        scored = [key for key, outcome in verdicts.items() if outcome != "unparsed"]
        why = reviews.reasons.get(judge, {})
        rows.append(
            {
                "judge": judge,
                "cards": len(verdicts),
                "cards_in_all": len(reviews.cards),
                "judged": len(scored),
                "correct": sum(verdicts[key] == "correct" for key in scored),
                "cannot_judge": len(verdicts) - len(scored),
                "reasons": ", ".join(f"{reason} {n}" for reason, n in why.items()),
                "seen_by_two": sum(reviews.seen[key] > 1 for key in verdicts),
                "patients": len({reviews.cards[key].record for key in verdicts}),
                "answers": sum(len(reviews.cards[key].answers) for key in scored),
            }
        )
    return rows


# Order of a reviewer's cards: the shared ones first, each part permuted for the reviewer.


@dataclass(frozen=True, slots=True)
class Card(Distinct):
    """One answer to be judged. ``shared`` says whether every reviewer gets it; ``outcome`` (None:
    nothing yet), ``reason`` and ``comment`` are the reviewer's latest."""

    shared: bool
    outcome: str | None
    reason: str = ""
    comment: str = ""


def _drawn(items: Iterable[str], *name: str) -> list[str]:
    """Items in an order that ``name`` alone decides."""
    rng = np.random.default_rng(int(digest(*name), 16))
    return rng.permutation(sorted(items)).tolist()


def overlap(run: str, cards: Mapping[str, Distinct]) -> frozenset[str]:
    """The keys of the :data:`SHARED` cards of a run that every reviewer gets."""
    by_patient: dict[str, list[str]] = defaultdict(list)
    for card in cards.values():
        by_patient[card.record].append(card.key)
    turns = zip_longest(
        *(_drawn(by_patient[p], "shared", run, p) for p in _drawn(by_patient, "patients", run))
    )
    order = [key for turn in turns for key in turn if key is not None]
    return frozenset(order[:SHARED])


@needs("reviewer")
def review_cards(run: RunRef, reviewer: str) -> list[Card]:
    """All cards of a run in the order of a reviewer, with that reviewer's verdicts so far; raises
    UnknownName, InputError, or NotPermitted where the code is another person's."""
    name = reviewer_name(reviewer)
    require_own(name)
    cards = distinct_answers(find_run(run))
    verdicts = reviewed(run, name)
    shared = overlap(run, cards)
    order: list[Card] = []
    for part in (shared, cards.keys() - shared):
        for key in _drawn(part, "order", run, name):
            verdict = {"outcome": None, "reason": "", "comment": "", **verdicts.get(key, {})}
            latest = pick(verdict, ("outcome", "reason", "comment"))
            order.append(Card(**asdict(cards[key]), shared=key in shared, **latest))
    return order


# All verdicts of a run's reviewers as one table.


TEXT = ("answer", "comment")
"""Columns that hold words of an answer or of a reviewer."""


@needs("viewer")
def review_rows(run: RunRef, reviewer: str = "") -> list[dict[str, Any]]:
    """Every verdict on a run, a row each, oldest first; of one ``reviewer`` where it is given.

    ``counts`` is False for a verdict that a later one replaced; ``copies`` is how many answers of
    the run have the card's words. Raises UnknownName, InputError.
    """
    folder = find_run(run)
    names = [name for name in reviewers_of(folder) if name == reviewer or not reviewer]
    return _rows(folder, names, distinct_answers(folder))


def review_tables(folder: RunDirectory, reviews: Reviews) -> dict[str, list[dict[str, Any]]]:
    """The tables of a report about its reviewers: a row a human judge, and a row a verdict without
    the words of answers and comments."""
    rows = _rows(folder, reviewers_of(folder), dict(reviews.cards)) if reviews.cards else []
    return {
        "reviews": summary(reviews),
        "review_verdicts": [
            {name: value for name, value in row.items() if name not in TEXT} for row in rows
        ],
    }


def _rows(
    folder: RunDirectory, names: list[str], cards: dict[str, Distinct]
) -> list[dict[str, Any]]:
    run = folder.id
    shared = overlap(run, cards)
    rows: list[dict[str, Any]] = []
    for name in names:
        lines = [line for line in _lines(_file(run, name)) if line["card"] in cards]
        last = {line["card"]: place for place, line in enumerate(lines)}
        for place, line in enumerate(lines):
            card = cards[line["card"]]
            verdict = {"reason": "", "comment": "", "seconds": None, **line}
            rows.append(
                {
                    "run": run,
                    "reviewer": name,
                    "time": line["time"],
                    "card": card.key,
                    "counts": last[card.key] == place,
                    "shared": card.key in shared,
                    "record": card.record,
                    "instruction": card.instruction,
                    "answer": card.answer,
                    "copies": len(card.answers),
                    **pick(verdict, ("outcome", "reason", "comment", "seconds")),
                }
            )
    return sorted(rows, key=lambda row: row["time"])


# Whose a reviewer's code is: ``data/reviews/codes.jsonl``, which no export includes: of the person
# who first used it here. One that came with an import is the account's.


class _ReviewEntry(TypedDict):
    code: str
    who: str
    is_account: NotRequired[bool]


_LINE = TypeAdapter(_ReviewEntry)


def _owner(code: str) -> Person | None:
    """Who a code belongs to by the file of codes, and the account for its own name; None where
    neither says so."""
    if code == settings.user().lower():
        return account()
    for line in read_lines(settings.reviews_folder() / "codes.jsonl", _LINE):
        if line["code"] == code:
            name = str(line["who"])
            of_account = line.get("is_account", name == settings.user())  # absent: older version
            return account() if of_account else Person(name, ROLES[-1])
    return None


def data_of_runs() -> set[str]:
    """The cohorts of this installation's own runs."""
    paths: set[str] = set()
    for run in run_ids():
        folder = find_run(run)
        try:
            if not folder.imported.exists():
                paths.add(folder.cohort_path())
        except MidchartError:
            continue  # damaged: it is listed as such, and opens nothing
    return paths


def _is_used(code: str, file: Path | None) -> bool:
    """Whether a verdict, or a line of people's questions, bears a code: in the installation's own
    folders, in the cohorts of its runs, which may lie elsewhere, and in ``file``."""
    if any(settings.reviews_folder().glob(f"*/{code}.jsonl")):
        return True
    folders = set(settings.cohorts_folder().glob("*"))
    for data in map(Path, data_of_runs()):
        if data.is_absolute():  # a run may be on a part of a cohort, one or two folders below it
            folders |= {data, *data.parents[:2]}
    files = {one / name for one in folders for name in (QUESTIONS_FILE, SETS_FILE)}
    files = {one for one in files if os.path.isfile(one)} | ({file} if file else set())  # noqa: PTH113 - a place that may not be looked into has none
    return any(line.get("by") == code for one in files for line in read_lines(one))


def require_own(code: str, file: Path | None = None) -> None:
    """Raise NotPermitted where a code may belong to another person than the acting one; ``file``:
    questions of a cohort to which something is added."""
    owner, acting = _owner(code), person()
    if owner not in (None, acting):
        raise NotPermitted(f"the code {code!r} belongs to another person; choose your own")
    if owner is None and not acting.is_account and _is_used(code, file):
        raise NotPermitted(
            f"the code {code!r} was used before, and data/reviews/codes.jsonl does not say by "
            "whom; choose another code, or have the owner of this installation restore that file"
        )


def code_of_import(code: str, others: Collection[str]) -> str:
    """The code under which an imported reviewer's verdicts are stored: their own, or one with a
    number where it belongs to somebody here who does not import them, and that none of ``others``
    is."""
    if _owner(code) in (None, person()):
        return code
    numbered = (f"{code[:28]}-{number}" for number in count(2))
    return next(one for one in numbered if one not in others and _owner(one) is None)


def require_author(by: str, what: str) -> None:
    """Raise NotPermitted where somebody who signed in has not written ``what``, which bears the
    code or the name ``by``."""
    acting = person()
    of_code = _owner(by) == acting if _NAME.fullmatch(by) else by == acting.name != settings.user()
    if not (of_code or acting.is_account):
        raise NotPermitted(
            f"{what} is another person's: its author alone may change or withdraw it"
        )


def take_code(code: str, file: Path | None = None) -> None:
    """Make a free code the acting person's; raises as :func:`require_own`."""
    with writing(settings.reviews_folder()), exclusive(settings.reviews_folder() / ".codes.lock"):
        require_own(code, file)
        if _owner(code) is None:
            acting = person()
            who = {"who": acting.name, "is_account": acting.is_account}
            line = {"time": now(), "code": code, **who}
            add_line(settings.reviews_folder() / "codes.jsonl", line, durable=True)
