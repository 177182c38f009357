"""Human verdicts as those of judges: ``review:<reviewer>`` and, of two or more, the majority.

A reviewer's verdict on a card is the verdict on every row with its words. An arm entry and reader
has one row a question, so within a cell of a table each card is one row; a table over all arms
counts cards (:mod:`core.run.review.agreement`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.judges.refusal import is_refusal
from core.run.folder import RunFolder
from core.run.members import MemberEntry
from core.run.plan import Plan
from core.run.review.book import CONSENSUS, reviewed, reviewers_of
from core.run.review.cards import Distinct, distinct_answers
from core.run.rows import VERDICTS, blank, digest

Said = Mapping[str, str]
"""Card → what was said of it: correct, incorrect or unparsed."""
LABEL = "review:"


@dataclass(frozen=True, slots=True)
class Reviews:
    """What people said of a run: ``cards``; ``said``, judge → its verdicts; ``seen``, card → how
    many reviewers saw it; ``reasons``, judge → why it could not judge, with how many cards."""

    cards: Mapping[str, Distinct]
    said: Mapping[str, Said]
    seen: Mapping[str, int]
    reasons: Mapping[str, Mapping[str, int]]

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges' labels: reviewers by name, then the consensus where there is one."""
        return tuple(self.said)

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
            for judge, said in self.said.items()
            for card, outcome in said.items()
            for key in self.cards[card].answers
        ]


NOBODY = Reviews({}, {}, {}, {})


def consensus(votes: Iterable[str]) -> str:
    """The verdict that more than half of those who saw a card gave, else "unparsed".

    Who could not judge ("unparsed") counts among those who saw it.
    """
    counted = Counter(votes)
    for outcome in ("correct", "incorrect"):
        if 2 * counted[outcome] > counted.total():
            return outcome
    return "unparsed"


def reviews_of(folder: RunFolder) -> Reviews:
    """All human verdicts on a run; :data:`NOBODY` where there are none."""
    people = reviewers_of(folder)
    if not people or "answers" not in folder.store(folder.plan().kind).schemas:
        return NOBODY
    cards = distinct_answers(folder)
    said: dict[str, Said] = {}
    reasons: dict[str, dict[str, int]] = {}
    for name in people:
        last = {key: line for key, line in reviewed(folder.id, name).items() if key in cards}
        scored = {key: line["outcome"] for key, line in last.items()}
        said[LABEL + name] = {
            key: outcome if outcome in ("correct", "incorrect") else "unparsed"
            for key, outcome in sorted(scored.items())
        }
        why = Counter(line.get("reason", "") for line in last.values())
        reasons[LABEL + name] = {reason: n for reason, n in sorted(why.items()) if reason}
    votes: dict[str, list[str]] = {}
    for one in said.values():
        for key, outcome in one.items():
            votes.setdefault(key, []).append(outcome)
    if len(people) > 1:
        said[LABEL + CONSENSUS] = {key: consensus(votes[key]) for key in sorted(votes)}
    return Reviews(cards, said, {key: len(given) for key, given in votes.items()}, reasons)


def with_reviews(plan: Plan, reviews: Reviews) -> Plan:
    """The plan with human judges after those of its spec."""
    people = tuple(
        MemberEntry("review", {"reviewer": label.removeprefix(LABEL)}, label)
        for label in reviews.judges
    )
    return replace(plan, judge_entries=plan.judge_entries + people)


def review_verdicts(folder: RunFolder, reviews: Reviews) -> list[dict[str, Any]]:
    """Human verdicts as rows of verdicts, a row an answer and judge."""
    rows = reviews.rows()
    if not rows:
        return []
    store = folder.store(folder.plan().kind)
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
    """A row a human judge: how many cards it judged, and what they stand for.

    ``cards`` it saw, of ``cards_in_all``; ``judged`` right or wrong, ``correct`` of them,
    ``cannot_judge`` (for the consensus: no majority) with ``reasons``; ``seen_by_two``: cards that
    two or more reviewers saw; ``patients``; ``answers``: rows of the run with the words judged.
    """
    rows: list[dict[str, Any]] = []
    for judge, said in reviews.said.items():
        scored = [key for key, outcome in said.items() if outcome != "unparsed"]
        why = reviews.reasons.get(judge, {})
        rows.append(
            {
                "judge": judge,
                "cards": len(said),
                "cards_in_all": len(reviews.cards),
                "judged": len(scored),
                "correct": sum(said[key] == "correct" for key in scored),
                "cannot_judge": len(said) - len(scored),
                "reasons": ", ".join(f"{reason} {n}" for reason, n in why.items()),
                "seen_by_two": sum(reviews.seen[key] > 1 for key in said),
                "patients": len({reviews.cards[key].record for key in said}),
                "answers": sum(len(reviews.cards[key].answers) for key in scored),
            }
        )
    return rows
