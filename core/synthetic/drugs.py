"""The table of all drugs the generator knows, and how a dose is said."""

from __future__ import annotations

from core.synthetic.drugs_heart import HEART_DRUGS
from core.synthetic.drugs_other import OTHER_DRUGS
from core.synthetic.model import Drug

DRUGS: dict[str, Drug] = {drug.key: drug for drug in (*HEART_DRUGS, *OTHER_DRUGS)}


def dose(key: str, step: int) -> str:
    """The dose of ``step`` as prescribed, e.g. "20 mg daily"."""
    return DRUGS[key].steps[step][0]
