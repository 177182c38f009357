"""Analytes and vital signs: names, LOINC codes, units, how they are written, and their panels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Analyte:
    """A measured quantity. ``noise`` is its within-person standard deviation (share or units);
    ``low`` and ``high`` are hard limits of what is ever written; ``short`` is how notes say it."""

    key: str
    code: str
    name: str
    unit: str
    base: float
    spread: float
    noise: float
    digits: int
    low: float
    high: float
    short: str


_SP = "in Serum or Plasma"
_TABLE: tuple[tuple[str, str, str, str, float, float, float, int, float, float, str], ...] = (
    ("na", "2951-2", f"Sodium [Moles/volume] {_SP}", "mmol/L", 139.5, 1.2, 1.5, 0, 118, 150, "Na"),
    ("k", "2823-3", f"Potassium [Moles/volume] {_SP}", "mmol/L", 4.0, 0.15, 0.2, 2, 2.7, 6.8, "K"),
    ("cl", "2075-0", f"Chloride [Moles/volume] {_SP}", "mmol/L", 103, 1.5, 1.6, 0, 85, 116, "Cl"),
    (
        "co2",
        "2028-9",
        f"Carbon dioxide, total [Moles/volume] {_SP}",
        "mmol/L",
        25.5,
        1,
        1.2,
        0,
        12,
        38,
        "CO2",
    ),
    ("bun", "3094-0", f"Urea nitrogen [Mass/volume] {_SP}", "mg/dL", 14, 2, 2, 0, 4, 140, "BUN"),
    ("cr", "2160-0", f"Creatinine [Mass/volume] {_SP}", "mg/dL", 0.9, 0, 0.03, 2, 0.4, 11, "Cr"),
    (
        "egfr",
        "33914-3",
        "Glomerular filtration rate/1.73 sq M.predicted [Volume Rate/Area] in Serum or Plasma by "
        "Creatinine-based formula (MDRD)",
        "mL/min/1.73m2",
        88,
        6,
        1.5,
        0,
        4,
        120,
        "eGFR",
    ),
    ("glu", "2345-7", f"Glucose [Mass/volume] {_SP}", "mg/dL", 94, 4, 9, 0, 42, 480, "glucose"),
    ("ca", "17861-6", f"Calcium [Mass/volume] {_SP}", "mg/dL", 9.4, 0.2, 0.2, 2, 7, 11.5, "Ca"),
    (
        "wbc",
        "6690-2",
        "Leukocytes [#/volume] in Blood by Automated count",
        "10*3/uL",
        6.9,
        1,
        0.7,
        2,
        1.2,
        28,
        "WBC",
    ),
    (
        "hgb",
        "718-7",
        "Hemoglobin [Mass/volume] in Blood",
        "g/dL",
        13.8,
        0.6,
        0.3,
        2,
        5.6,
        17,
        "Hgb",
    ),
    (
        "hct",
        "4544-3",
        "Hematocrit [Volume Fraction] of Blood by Automated count",
        "%",
        41,
        0,
        0.6,
        2,
        17,
        52,
        "Hct",
    ),
    (
        "plt",
        "777-3",
        "Platelets [#/volume] in Blood by Automated count",
        "10*3/uL",
        245,
        35,
        16,
        0,
        18,
        560,
        "Plt",
    ),
    (
        "a1c",
        "4548-4",
        "Hemoglobin A1c/Hemoglobin.total in Blood",
        "%",
        5.4,
        0.15,
        0.15,
        2,
        4.6,
        14,
        "A1c",
    ),
    (
        "inr",
        "6301-6",
        "INR in Platelet poor plasma by Coagulation assay",
        "",
        1.0,
        0.03,
        0.05,
        2,
        0.9,
        7.5,
        "INR",
    ),
    (
        "tsh",
        "3016-3",
        f"Thyrotropin [Units/volume] {_SP}",
        "mIU/L",
        2.0,
        0.6,
        0.35,
        2,
        0.02,
        60,
        "TSH",
    ),
    (
        "ldl",
        "2089-1",
        f"Cholesterol in LDL [Mass/volume] {_SP}",
        "mg/dL",
        128,
        22,
        7,
        0,
        28,
        230,
        "LDL",
    ),
    (
        "hdl",
        "2085-9",
        f"Cholesterol in HDL [Mass/volume] {_SP}",
        "mg/dL",
        49,
        9,
        3,
        0,
        22,
        95,
        "HDL",
    ),
    ("tg", "2571-8", f"Triglyceride [Mass/volume] {_SP}", "mg/dL", 135, 40, 18, 0, 45, 480, "TG"),
    (
        "alt",
        "1742-6",
        f"Alanine aminotransferase [Enzymatic activity/volume] {_SP}",
        "U/L",
        22,
        6,
        4,
        0,
        6,
        900,
        "ALT",
    ),
    (
        "ast",
        "1920-8",
        f"Aspartate aminotransferase [Enzymatic activity/volume] {_SP}",
        "U/L",
        23,
        5,
        4,
        0,
        8,
        900,
        "AST",
    ),
    (
        "alp",
        "6768-6",
        f"Alkaline phosphatase [Enzymatic activity/volume] {_SP}",
        "U/L",
        74,
        14,
        6,
        0,
        28,
        400,
        "ALP",
    ),
    (
        "bili",
        "1975-2",
        f"Bilirubin.total [Mass/volume] {_SP}",
        "mg/dL",
        0.6,
        0.15,
        0.1,
        2,
        0.2,
        18,
        "T bili",
    ),
    (
        "alb",
        "1751-7",
        f"Albumin [Mass/volume] {_SP}",
        "g/dL",
        4.2,
        0.2,
        0.12,
        2,
        1.6,
        5.1,
        "albumin",
    ),
    (
        "bnp",
        "33762-6",
        f"Natriuretic peptide.B prohormone N-Terminal [Mass/volume] {_SP}",
        "pg/mL",
        90,
        30,
        15,
        0,
        20,
        22000,
        "NT-proBNP",
    ),
    (
        "crp",
        "1988-5",
        f"C reactive protein [Mass/volume] {_SP}",
        "mg/L",
        2,
        1,
        0.8,
        2,
        0.2,
        260,
        "CRP",
    ),
    (
        "esr",
        "4537-7",
        "Erythrocyte sedimentation rate by Westergren method",
        "mm/h",
        12,
        5,
        3,
        0,
        1,
        125,
        "ESR",
    ),
    (
        "trop",
        "10839-9",
        f"Troponin I.cardiac [Mass/volume] {_SP}",
        "ng/mL",
        0.01,
        0.004,
        0.004,
        2,
        0.01,
        60,
        "troponin",
    ),
    (
        "uacr",
        "14959-1",
        "Microalbumin/Creatinine [Mass Ratio] in Urine",
        "mg/g",
        11,
        5,
        4,
        0,
        2,
        3200,
        "urine ACR",
    ),
    ("sbp", "8480-6", "Systolic blood pressure", "mmHg", 124, 6, 7, 0, 74, 224, "SBP"),
    ("dbp", "8462-4", "Diastolic blood pressure", "mmHg", 76, 4, 5, 0, 40, 122, "DBP"),
    ("hr", "8867-4", "Heart rate", "/min", 76, 6, 6, 0, 44, 152, "HR"),
    ("rr", "9279-1", "Respiratory rate", "/min", 16, 1, 1.2, 0, 10, 34, "RR"),
    ("temp", "8310-5", "Body temperature", "degF", 98.1, 0.2, 0.3, 2, 95.4, 104, "Temp"),
    (
        "spo2",
        "59408-5",
        "Oxygen saturation in Arterial blood by Pulse oximetry",
        "%",
        97.5,
        0.6,
        0.8,
        0,
        82,
        100,
        "SpO2",
    ),
    ("wt", "29463-7", "Body weight", "kg", 78, 12, 0.7, 2, 41, 170, "Wt"),
)

ANALYTES: dict[str, Analyte] = {row[0]: Analyte(*row) for row in _TABLE}

PANELS: dict[str, tuple[str, ...]] = {
    "bmp": ("na", "k", "cl", "co2", "bun", "cr", "egfr", "glu", "ca"),
    "cbc": ("wbc", "hgb", "hct", "plt"),
    "lft": ("alt", "ast", "alp", "bili", "alb"),
    "lipid": ("ldl", "hdl", "tg"),
    "vitals": ("sbp", "dbp", "hr", "rr", "temp", "spo2"),
    "flow": ("sbp", "dbp", "hr", "spo2"),
}
VITALS = ("sbp", "dbp", "hr", "rr", "temp", "spo2", "wt")


def written(key: str, value: float) -> str:
    """The value as the record writes it: a whole number or two decimals, inside its limits."""
    a = ANALYTES[key]
    value = min(max(value, a.low), a.high)
    if a.digits == 0:
        return str(int(value + 0.5))
    # One decimal is what the analyser reports; the export pads it to two.
    fine = 2 if key in ("cr", "tsh", "trop") else 1
    return f"{round(value + 1e-9, fine):.2f}"


def spoken(key: str, value: float) -> str:
    """The value as a clinician types it: no trailing zeros."""
    text = written(key, value)
    return text.rstrip("0").rstrip(".") if "." in text else text
