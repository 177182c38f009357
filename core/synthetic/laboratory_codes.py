"""What the laboratory cohort is made of: its codes, conditions, drugs and the five labelled labs.

Effects are in the lab's own unit and are added to a patient's level; a drug's effect builds up over
the panels at which it is given. The levels are set so that prevalences come near the true ones
(PROTOCOL, Experiment 2: anemia 69.0 %, hyponatremia 28.5, thrombocytopenia 33.2, hyperkalemia
2.38); no figure is stated there for hypoglycemia, and about 1.3 % is taken.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lab:
    """A labelled lab: task, code, unit, what it is in a healthy patient, spread between patients,
    drift from panel to panel, noise of one reading, and the edges of mild, moderate and severe;
    ``low`` says whether it is below them that is abnormal."""

    task: str
    code: str
    name: str
    unit: str
    level: float
    between: float
    drift: float
    noise: float
    edges: tuple[float, float, float]
    low: bool = True


LABS = (
    Lab("anemia", "LOINC/718-7", "Hemoglobin", "g/L", 124.5, 6.0, 4.0, 6.0, (120, 110, 70)),
    Lab("hyponatremia", "LOINC/2951-2", "Sodium", "mmol/L", 139.4, 0.9, 0.9, 1.5, (135, 130, 125)),
    Lab("thrombocytopenia", "LOINC/777-3", "Platelets", "10*3/uL", 212.7, 28.0, 14.0, 22.0,
        (150, 100, 50)),
    Lab("hyperkalemia", "LOINC/2823-3", "Potassium", "mmol/L", 4.13, 0.14, 0.11, 0.28,
        (5.5, 6.0, 7.0), low=False),
    Lab("hypoglycemia", "LOINC/14749-6", "Glucose", "mmol/L", 8.0, 0.35, 0.35, 0.85,
        (3.9, 3.5, 3.0)),
)  # fmt: skip
"""In the order of every effect below."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A condition or a drug: its code, how many have it (a condition) or are started on it at a
    panel (a drug), its effects on :data:`LABS`, and which conditions make a drug likely."""

    code: str
    name: str
    share: float
    effects: tuple[float, float, float, float, float]
    stop: float = 0.0
    given_for: tuple[int, ...] = ()


CONDITIONS = (
    Cause("SNOMED/709044004", "Chronic kidney disease", 0.22, (-13, 0, -8, 0.38, 0)),
    Cause("SNOMED/19943007", "Cirrhosis of liver", 0.14, (-9, -3.2, -85, 0, -0.35)),
    Cause("SNOMED/363346000", "Malignant neoplastic disease", 0.26, (-12, -0.8, -20, 0, 0)),
    Cause("SNOMED/84114007", "Heart failure", 0.20, (-6, -1.9, 0, 0.1, 0)),
    Cause("SNOMED/44054006", "Diabetes mellitus type 2", 0.30, (-4, -0.3, 0, 0.1, 1.5)),
    Cause("SNOMED/74474003", "Gastrointestinal hemorrhage", 0.14, (-17, 0, 0, 0, 0)),
    Cause("SNOMED/109995007", "Myelodysplastic syndrome", 0.07, (-20, 0, -90, 0, 0)),
    Cause("SNOMED/55004003", "Inappropriate ADH secretion", 0.07, (0, -5.5, 0, 0, 0)),
)
DRUGS = (
    Cause("RxNorm/40048", "carboplatin", 0.22, (-13, 0, -70, 0, 0), 0.30, (2,)),
    Cause("RxNorm/4603", "furosemide", 0.20, (0, -0.8, 0, -0.35, 0), 0.15, (3, 1)),
    Cause("RxNorm/29046", "lisinopril", 0.10, (0, 0, 0, 0.4, 0), 0.06, (0, 3, 4)),
    Cause("RxNorm/9997", "spironolactone", 0.12, (0, -1.0, 0, 0.75, 0), 0.20, (1, 3)),
    Cause("RxNorm/8591", "potassium chloride", 0.06, (0, 0, 0, 0.5, 0), 0.45, (3,)),
    Cause("RxNorm/5487", "hydrochlorothiazide", 0.06, (0, -3.2, 0, -0.3, 0.2), 0.12, (4,)),
    Cause("RxNorm/36437", "sertraline", 0.05, (0, -1.8, 0, 0, 0), 0.08, ()),
    Cause("RxNorm/5224", "heparin", 0.08, (-2, 0, -45, 0, 0), 0.45, ()),
    Cause("RxNorm/5856", "insulin", 0.25, (0, 0, 0, -0.1, -2.7), 0.30, (4,)),
    Cause("RxNorm/4821", "glipizide", 0.12, (0, 0, 0, 0, -2.0), 0.15, (4,)),
    Cause("RxNorm/105694", "epoetin alfa", 0.15, (11, 0, 0, 0, 0), 0.20, (0, 6)),
)
UNLIKELY = 0.12
"""How much of a drug's start rate stays where no condition calls for it."""

OTHER_LABS = (
    ("LOINC/2160-0", "Creatinine", "mg/dL", 9.0, 3.0),
    ("LOINC/6690-2", "Leukocytes", "10*3/uL", 72.0, 22.0),
    ("LOINC/1742-6", "Alanine aminotransferase", "U/L", 280.0, 120.0),
    ("LOINC/1751-7", "Albumin", "g/dL", 38.0, 5.0),
    ("LOINC/8867-4", "Heart rate", "/min", 780.0, 110.0),
    ("LOINC/8480-6", "Systolic blood pressure", "mm[Hg]", 1260.0, 150.0),
    ("LOINC/8310-5", "Body temperature", "Cel", 369.0, 4.0),
    ("LOINC/59408-5", "Oxygen saturation", "%", 970.0, 15.0),
)
"""Code, name, unit, level and spread in tenths of the unit; creatinine goes up with kidney disease
and leukocytes down with carboplatin."""
TEXTS = (
    ("LOINC/5804-0", "Protein in urine", ("Negative", "Trace", "1+", "2+")),
    ("LOINC/72166-2", "Tobacco smoking status", ("Never smoker", "Former smoker", "Smoker")),
)
"""Measurements and observations whose value is a word."""
FILLER = 1600
"""Codes of procedures, observations and measurements that say nothing of the five labs."""
OF_CONDITION = 12
"""Codes of procedures and observations that go with each condition."""


@dataclass(frozen=True, slots=True)
class Code:
    """A code of the cohort: its OMOP table, name and unit."""

    code: str
    name: str
    kind: str
    unit: str = ""


def vocabulary() -> list[Code]:
    """All codes; an event holds an index into this list."""
    made = [
        Code("Gender/F", "Female", "person"),
        Code("Gender/M", "Male", "person"),
        Code("SNOMED/3950001", "Birth", "person"),
        Code("Visit/IP", "Inpatient visit", "visit_occurrence"),
        Code("Visit/OP", "Outpatient visit", "visit_occurrence"),
    ]
    made += [Code(lab.code, lab.name, "measurement", lab.unit) for lab in LABS]
    made += [Code(c.code, c.name, "condition_occurrence") for c in CONDITIONS]
    made += [Code(d.code, d.name, "drug_exposure") for d in DRUGS]
    made += [Code(code, name, "measurement", unit) for code, name, unit, *_ in OTHER_LABS]
    made += [Code(code, name, "observation") for code, name, _ in TEXTS]
    for i, condition in enumerate(CONDITIONS):
        made += [
            Code(
                f"LOCAL/C{i}{j:02d}",
                f"Care {j + 1} of {condition.name.lower()}",
                "procedure_occurrence",
            )
            for j in range(OF_CONDITION)
        ]
    kinds = ("procedure_occurrence", "observation", "measurement", "device_exposure")
    made += [Code(f"LOCAL/{i:04d}", f"Entry {i}", kinds[i % 4]) for i in range(FILLER)]
    return made


FIRST_LAB = 5
FIRST_CONDITION = FIRST_LAB + len(LABS)
FIRST_DRUG = FIRST_CONDITION + len(CONDITIONS)
FIRST_OTHER = FIRST_DRUG + len(DRUGS)
FIRST_TEXT = FIRST_OTHER + len(OTHER_LABS)
FIRST_CARE = FIRST_TEXT + len(TEXTS)
FIRST_FILLER = FIRST_CARE + len(CONDITIONS) * OF_CONDITION
"""Where each group begins in :func:`vocabulary`."""
WORDS = tuple(word for *_, words in TEXTS for word in words)
