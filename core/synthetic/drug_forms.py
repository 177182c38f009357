"""How a drug is written down: dose steps, products, codes.

A code is RxNorm's where it is known for certain to be that very product's; everything else has a
plainly local code.
"""

from __future__ import annotations

import re

from core.synthetic.model import Drug


def local(prefix: str, name: str) -> str:
    """A code that claims no outside vocabulary."""
    return f"LOCAL/{prefix}-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


_KNOWN = {
    "lisinopril 10 MG Oral Tablet": "314076",
    "lisinopril 20 MG Oral Tablet": "314077",
    "simvastatin 10 MG Oral Tablet": "314231",
    "simvastatin 20 MG Oral Tablet": "312961",
    "atorvastatin 10 MG Oral Tablet": "617312",
    "atorvastatin 20 MG Oral Tablet": "617310",
    "atorvastatin 40 MG Oral Tablet": "617311",
    "atorvastatin 80 MG Oral Tablet": "259255",
    "metformin hydrochloride 500 MG Oral Tablet": "861007",
    "metformin hydrochloride 1000 MG Oral Tablet": "861004",
    "amlodipine 5 MG Oral Tablet": "197361",
    "amlodipine 10 MG Oral Tablet": "308135",
    "hydrochlorothiazide 25 MG Oral Tablet": "310798",
    "furosemide 20 MG Oral Tablet": "310429",
    "furosemide 40 MG Oral Tablet": "313988",
    "clopidogrel 75 MG Oral Tablet": "309362",
    "aspirin 81 MG Oral Tablet": "243670",
    "ferrous sulfate 325 MG Oral Tablet": "310325",
    "warfarin sodium 5 MG Oral Tablet": "855332",
    "levothyroxine sodium 0.025 MG Oral Tablet": "966220",
}


def make_drug(key: str, brand: str, group: str, lay: str, *steps: str) -> Drug:
    """``steps`` are "dose as prescribed | product name"."""
    made: list[tuple[str, str, str]] = []
    for step in steps:
        dose, product = (part.strip() for part in step.split("|"))
        code = f"RxNorm/{_KNOWN[product]}" if product in _KNOWN else local("RX", product)
        made.append((dose, product, code))
    return Drug(key, brand, group, lay, tuple(made))


def tablets(key: str, salt: str, sig: str, *strengths: str) -> tuple[str, ...]:
    return tuple(f"{s} mg {sig} | {salt or key} {s} MG Oral Tablet" for s in strengths)
