"""Habits, home, work, allergies and family: the truths that social questions are asked about.

Notes tell the coarse truth often ("former smoker") and each detail (the quit year) in one place.
"""

from __future__ import annotations

import numpy as np

from core.synthetic.model import Patient

JOBS = (
    "school bus driver", "welder", "high-school chemistry teacher", "florist", "court reporter",
    "machinist at a cannery", "piano tuner", "line cook", "postal carrier", "roofing contractor",
    "dental hygienist", "textile worker", "long-haul trucker", "librarian", "bookkeeper",
)  # fmt: skip
TOWNS = ("Salinas", "Duluth", "Yakima", "Macon", "Lowell", "Pueblo", "Toledo", "Bangor", "Fresno")
RELATIVES = (
    "mother",
    "father",
    "older sister",
    "younger brother",
    "maternal grandmother",
    "paternal uncle",
    "maternal aunt",
)
ALLERGIES = (
    ("sulfa antibiotics", "hives"), ("penicillin", "a childhood rash"), ("codeine", "itching"),
    ("latex gloves", "contact rash"), ("", ""), ("", ""),
)  # fmt: skip
_FAMILY = (
    "type 2 diabetes", "breast cancer", "colon cancer", "atrial fibrillation", "heart attack",
    "stroke", "rheumatoid arthritis", "an underactive thyroid", "emphysema", "epilepsy",
    "kidney failure on dialysis", "blood clots", "hip fracture", "depression", "cirrhosis",
)  # fmt: skip


def _one(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]


def draw_social(rng: np.random.Generator, p: Patient) -> None:
    """Fill ``p.social``, ``p.allergy`` and the laboratory baselines that habits explain."""
    smoker = 1.0 if "copd" in p.diseases else float(rng.random())
    p.social["smoking"] = "former" if smoker > 0.55 else "never"
    p.social["alcohol"] = (
        "none now" if "cirrhosis" in p.diseases
        else _one(rng, ("none", "rare", "one or two drinks on weekends"))
    )  # fmt: skip
    age = p.age(p.first)
    p.social["work"] = "retired" if age >= 66 else _one(rng, ("works full time", "works part time"))
    p.social["marital"] = _one(rng, ("married", "married", "widowed", "divorced"))
    p.allergy = ALLERGIES[int(rng.integers(len(ALLERGIES)))]


def draw_family(rng: np.random.Generator, p: Patient) -> None:
    """Relatives with the very diseases that the patient has, or is asked about."""
    own = {
        "t2dm": 0,
        "breast": 1,
        "af": 3,
        "cad": 4,
        "ra": 6,
        "hypothyroid": 7,
        "copd": 8,
        "epilepsy": 9,
        "ckd": 10,
        "osteoporosis": 12,
        "depression": 13,
        "cirrhosis": 14,
        "hfref": 4,
    }
    ills = [_FAMILY[own[key]] for key in p.diseases if key in own][:2]
    while len(ills) < 4:
        other = _one(rng, _FAMILY)
        if other not in ills:
            ills.append(other)
    order = [int(i) for i in rng.permutation(len(RELATIVES))]
    for ill, who in zip(ills, order, strict=False):
        p.family.append(f"{RELATIVES[who]} with {ill}")
