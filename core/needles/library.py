"""What a needle can say: rare drugs, tests, procedures and exposures, and the ways to word them.

Every statement names its own date, a day before the record begins ("outside records"), and every
question names that day or asks for the most recent one. So neither changes with the place at
which the needle stands, and a distractor (same thing, other day, other value) leaves one right
answer. A reference answer is bare (a number, a day, "No"), the unit stands in the question: with
a unit in the reference, token overlap would call any line with "mg" half right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Thing:
    """What a needle is about.

    ``keys``: the words that must not occur in the record, lower-cased. A measured thing has a
    ``unit`` and values from ``low`` to ``high`` in steps of ``step``.
    """

    name: str
    keys: tuple[str, ...]
    unit: str = ""
    low: float = 0.0
    high: float = 0.0
    step: float = 1.0

    def values(self) -> list[str]:
        """Every value that can be drawn, as text."""
        decimals = 1 if self.step < 1 else 0
        count = round((self.high - self.low) / self.step) + 1
        return [f"{self.low + i * self.step:.{decimals}f}" for i in range(count)]


@dataclass(frozen=True, slots=True)
class Fact:
    """A kind of needle: its wordings, with the fields name, value, unit and day.

    ``found_by``: whether the question names the "day", or asks for the "latest" one.
    ``value``: what is drawn (a "number" or a "day"), or the fixed word of the needle, with
    ``other`` that of its distractors.
    """

    kind: str
    found_by: Literal["day", "latest"]
    value: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    things: tuple[Thing, ...]
    other: str = ""


def _drug(name: str, low: int, high: int, step: int) -> Thing:
    return Thing(name, (name,), "mg", low, high, step)


def _test(name: str, key: str, unit: str, low: float, high: float, step: float) -> Thing:
    return Thing(name, (key,), unit, low, high, step)


def _named(name: str, *keys: str) -> Thing:
    return Thing(name, keys)


DOSE = Fact(
    "dose",
    "day",
    "number",
    (
        "Outside pharmacy record: {name} {value} mg daily dispensed on {day}.",
        "Per outside clinic, {name} was started on {day} at {value} mg daily.",
        "Medication history from a former prescriber lists {name} {value} mg daily as of {day}.",
    ),
    (
        "What daily dose of {name}, in mg, is documented for {day}?",
        "How many mg of {name} daily did the patient take on {day}?",
    ),
    (
        _drug("trientine", 260, 1990, 10), _drug("nitisinone", 11, 97, 1),
        _drug("tiopronin", 310, 1490, 10), _drug("miglustat", 110, 590, 5),
        _drug("riluzole", 31, 149, 1), _drug("tetrabenazine", 13, 98, 1),
        _drug("pyrimethamine", 26, 99, 1), _drug("deferasirox", 260, 1740, 10),
        _drug("sapropterin", 210, 990, 10), _drug("mexiletine", 160, 890, 10),
        _drug("primidone", 55, 745, 5), _drug("dapsone", 26, 198, 1),
    ),
)  # fmt: skip
LAB = Fact(
    "lab",
    "day",
    "number",
    (
        "Faxed outside laboratory result: {name} {value} {unit}, sample of {day}.",
        "Referral letter quotes {name} of {value} {unit} measured on {day}.",
        "Scanned outside report, {name} on {day} was {value} {unit}.",
    ),
    (
        "What was the {name}, in {unit}, measured on {day}?",
        "What value did the {name} of {day} have, in {unit}?",
    ),
    (
        _test("serum selenium", "selenium", "ng/mL", 61, 189, 1),
        _test("serum copper", "copper", "mcg/mL", 0.6, 19.9, 0.1),
        _test("ceruloplasmin", "ceruloplasmin", "mg/dL", 12.1, 49.8, 0.1),
        _test("aldolase", "aldolase", "U/L", 1.6, 19.7, 0.1),
        _test("haptoglobin", "haptoglobin", "mg/dL", 31, 289, 1),
        _test("erythropoietin", "erythropoietin", "U/L", 2.6, 49.7, 0.1),
        _test("chromogranin A", "chromogranin", "ng/mL", 21, 389, 1),
        _test("plasma retinol", "retinol", "mcg/mL", 0.6, 29.9, 0.1),
        _test("plasma renin activity", "renin", "ng/mL", 0.6, 19.8, 0.1),
        _test("serum gastrin", "gastrin", "pg/mL", 21, 389, 1),
        _test("blood lead", "lead", "ng/mL", 11, 189, 1),
        _test("osteocalcin", "osteocalcin", "ng/mL", 9.1, 59.8, 0.1),
    ),
)
DATE = Fact(
    "date",
    "latest",
    "day",
    (
        "Outside records document {name} on {day}.",
        "Per the former practice, {name} was done on {day}.",
        "Copy of an outside report on file: {name}, {day}.",
    ),
    (
        "On which date was the most recent {name} documented by outside records?",
        "When was the latest {name} done elsewhere?",
    ),
    (
        _named("tympanometry", "tympanometry"), _named("sialography", "sialogra"),
        _named("rabies vaccination", "rabies"), _named("dacryocystography", "dacryocysto"),
        _named("nerve conduction study", "nerve conduction"),
        _named("capsule endoscopy", "capsule endoscopy"),
        _named("patch testing", "patch test"), _named("polysomnography", "polysomnogra"),
        _named("yellow fever vaccination", "yellow fever"),
        _named("slit lamp examination", "slit lamp", "slit-lamp"),
        _named("lymphoscintigraphy", "lymphoscint"), _named("urodynamic testing", "urodynamic"),
    ),
)  # fmt: skip
NEGATION = Fact(
    "negation",
    "day",
    "no",
    (
        "Screening questionnaire of {day}, {name}: {value}.",
        "Asked on {day} about {name}: {value}.",
        "Intake form dated {day}, item {name}: {value}.",
    ),
    (
        "Did the patient report {name} when asked on {day}?",
        "Was {name} reported on the form of {day}?",
    ),
    (
        _named("asbestos exposure", "asbestos"), _named("scuba diving", "scuba"),
        _named("beekeeping", "beekeep"), _named("drinking raw milk", "raw milk"),
        _named("travel to a malaria area", "malaria"), _named("contact with parrots", "parrot"),
        _named("work with welding fumes", "welding"), _named("a tick bite", "tick bite"),
        _named("spelunking", "spelunk"), _named("living on a farm", "farm"),
        _named("a jellyfish sting", "jellyfish"), _named("work in a foundry", "foundry"),
    ),
    other="yes",
)  # fmt: skip

FACTS: tuple[Fact, ...] = (DOSE, LAB, DATE, NEGATION)
"""All kinds; the needles of a record take turns through them."""
