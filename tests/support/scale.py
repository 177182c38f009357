"""How runs grow: ``python -m tests.support.scale [patients|tokens|items|arms …] [--most N]``.

Makes cohorts in MedAlign's form in a temporary folder that differ in one thing, patients, tokens of
a record, items (questions) or arms, and does a run of each with a reader and a judge that need no
model, in a process of its own. Tells seconds of processor time to open the cohort, plan the run, do
it, do another one of the same spec in a new process (``again_s``: what was stored of the records is
read), and make its report; and the memory of the process at its peak. The last row tells with which
power of what differs each figure grows. Then how many rows of 20 kB (an answer with its prompt) the
one writer of a run takes in a second. Processor time, so that other work on the machine counts
little.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from midchart.core.cli import table
from midchart.core.loaders.open import open_cohort
from midchart.core.results.report import report
from midchart.core.runs.directory import make_run, take_lock
from midchart.core.runs.planner import plan
from midchart.core.runs.schemas import ANSWERS
from midchart.core.runs.spec import read_spec
from midchart.core.runs.worker import do_run
from midchart.core.storage.rows import RowStore
from tests.support import run_members
from tests.support.run_helpers import write_questions

NOTE_WORDS, SENTENCE_WORDS, VOCABULARY = 240, 12, 4_000
DRUGS = ("warfarin", "metformin", "lisinopril", "atenolol", "digoxin", "heparin", "insulin")
FIGURES = {"open_s": 0.1, "plan_s": 0.1, "run_s": 0.3, "again_s": 0.3, "report_s": 0.3}
"""Figures that grow, and the least of each that is measured well."""


@dataclass(frozen=True)
class Size:
    """A cohort and a run: patients, tokens of each record, questions about it, arms."""

    patients: int
    tokens: int
    questions: int
    arms: int

    @property
    def items(self) -> int:
        """The run's work items."""
        return self.patients * self.questions * self.arms


SMALL = Size(2, 250, 1, 1)
SERIES: dict[str, tuple[Size, tuple[int, ...]]] = {
    "patients": (Size(0, 250, 1, 1), (40, 2_000, 20_000)),
    "tokens": (Size(2, 0, 4, 1), (10_000, 100_000, 1_000_000)),
    "items": (Size(100, 500, 0, 1), (1_000, 10_000, 100_000)),
    "arms": (Size(40, 2_000, 3, 0), (1, 4, 13)),
}
"""What differs → the rest of the size, and the numbers that are tried."""


def sizes(what: str, most: int) -> Iterator[tuple[int, Size]]:
    """The sizes of a series up to a number."""
    base, numbers = SERIES[what]
    for number in numbers:
        if number <= most or number == numbers[0]:
            yield (
                number,
                (
                    replace(base, questions=number // base.patients)
                    if what == "items"
                    else replace(base, **{what: number})
                ),
            )


def write(folder: Path, size: Size) -> None:
    """A cohort of notes of made-up words, each question's evidence in one of them."""
    (folder / "ehrs").mkdir(parents=True)
    rng = random.Random(0)
    vocabulary = ["".join(rng.choices("abcdefghilmnoprstu", k=7)) for _ in range(VOCABULARY)]
    questions: list[dict[str, str]] = []
    for patient in range(size.patients):
        notes = max(1, size.tokens // NOTE_WORDS)
        facts: dict[int, list[str]] = {}
        for number in range(size.questions):
            drug, dose = DRUGS[number % len(DRUGS)], 10 + number
            fact = f"Order {number}: {drug} at a dose of {dose} milligram"
            facts.setdefault(rng.randrange(notes), []).append(fact)
            questions.append(
                {
                    "instruction_id": f"i{patient}-{number}",
                    "filename": f"{patient}.xml",
                    "person_id": str(patient),
                    "question": f"Which dose of {drug} has order {number}?",
                    "evidence": fact,
                    "clinician_response": f"{dose} milligram",
                    "submitter_specialty": "medicine",
                    "annotator_num": "Annotator_1",
                }
            )
        with (folder / "ehrs" / f"{patient}.xml").open("w", encoding="utf-8") as file:
            file.write(f'<eventstream person_id="{patient}"><encounter><events>')
            for note in range(notes):
                chosen = rng.choices(vocabulary, k=min(NOTE_WORDS, size.tokens))
                lines = [
                    " ".join(chosen[at : at + SENTENCE_WORDS]).capitalize() + "."
                    for at in range(0, len(chosen), SENTENCE_WORDS)
                ]
                text = "\n".join([*lines, *(f"{fact}." for fact in facts.get(note, ()))])
                file.write(
                    f'<entry timestamp="20{note % 20:02d}-01-{note % 28 + 1:02d} 08:00"><event '
                    f'type="note" note_id="n{note}" code="N" name="note">{text}</event></entry>'
                )
            file.write("</events></encounter></eventstream>")
    write_questions(folder, questions)


def spec(folder: Path, size: Size) -> dict[str, Any]:
    """The spec of the run: BM25 with another k in each arm."""
    return {
        "name": "scale",
        "kind": "answers",
        "data": str(folder),
        "arms": [{"name": "bm25", "k": 3 + arm} for arm in range(size.arms)],
        "readers": ["test_echo"],
        "judges": ["token_overlap"],
    }


def timed(do: Callable[[], Any]) -> tuple[Any, float]:
    """A call's result and the seconds of processor time it took."""
    begun = time.process_time()
    return do(), time.process_time() - begun


def measure(folder: Path, size: Size) -> dict[str, float]:
    """Seconds of each part of one run in this process, and its memory at the peak in MB."""
    _, open_s = timed(lambda: open_cohort(str(folder)))
    planned, plan_s = timed(lambda: plan(read_spec(spec(folder, size))))
    run = make_run(planned)
    lock = take_lock(run)
    try:
        _, run_s = timed(lambda: do_run(run))
    finally:
        lock.release()
    tables, report_s = timed(lambda: report(run.id))
    assert tables
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "open_s": open_s,
        "plan_s": plan_s,
        "run_s": run_s,
        "report_s": report_s,
        "peak_mb": round(peak),
    }


def measured_apart(what: str, number: int, size: Size) -> dict[str, Any]:
    """The row of one size."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cohort"
        write(folder, size)
        command = [sys.executable, "-m", __spec__.name, "--measure", str(folder)]
        command.append(json.dumps(asdict(size)))
        env = os.environ | {"MIDCHART_CACHE": f"{place}/cache", "MIDCHART_DATA": f"{place}/data"}
        first, again = (
            json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env).stdout)
            for _ in range(2)
        )
        stored = sum(f.stat().st_size for f in Path(place, "cache").rglob("*.parquet"))
    figures = {**first, "again_s": again["run_s"]}
    return {
        "by": what,
        "number": number,
        **{name: round(figures[name], 2) for name in FIGURES},
        "ms_item": round(first["run_s"] / size.items * 1000, 2),
        "peak_mb": first["peak_mb"],
        "stored_mb": round(stored / 1e6, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def exponents(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """With which power each figure grows, by its last size and the first at which it can be told
    from nothing; the memory, by what it is above that of the first."""
    last = rows[-1]
    shown: dict[str, str] = {}
    for name, least in FIGURES.items():
        first = next((row for row in rows if row[name] >= least), last)
        if first is not last:
            power = math.log(last["number"] / first["number"])
            shown[name] = f"^{math.log(last[name] / first[name]) / power:.2f}"
    between = [row["peak_mb"] - rows[0]["peak_mb"] for row in rows[-2:]]
    if len(rows) > 2 and between[0] > 0:
        power = math.log(last["number"] / rows[-2]["number"])
        shown["peak_mb"] = f"^{math.log(between[1] / between[0]) / power:.2f}"
    return dict.fromkeys(last, "") | {"by": last["by"]} | shown


def appended(rows: int = 3000, prompt: int = 20_000) -> float:
    """Rows a second that a store takes."""
    with tempfile.TemporaryDirectory() as place:
        store = RowStore(Path(place), {"answers": ANSWERS})
        blank = dict.fromkeys(ANSWERS) | {"status": "ok", "prompt": "x" * prompt}

        def append() -> None:
            for i in range(rows):
                store.append("answers", {**blank, "key": str(i), "item": str(i)})
            store.close()

        return rows / timed(append)[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", nargs="*", help=", ".join(SERIES))
    parser.add_argument("--most", type=int, default=1 << 40, help="largest number of a series")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        folder, size = chosen.measure
        run_members.enter()
        with tempfile.TemporaryDirectory() as place:  # what is loaded once is not measured
            write(Path(place) / "small", SMALL)
            measure(Path(place) / "small", SMALL)
        print(json.dumps(measure(Path(folder), Size(**json.loads(size)))))
        return
    for what in chosen.series or SERIES:
        rows: list[dict[str, Any]] = []
        for one in sizes(what, chosen.most):
            rows.append(measured_apart(what, *one))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)  # a series may be stopped
        rows += [exponents(rows)] if len(rows) > 1 else []
        table(rows, tuple(rows[0]))
    print(f"rows of 20 kB a second: {appended():,.0f}")


if __name__ == "__main__":
    main()
