"""Series on tests that are repeated outside the hospital's own laboratory.

Each question is for the latest value or for the whole course.
"""

from __future__ import annotations

from core.synthetic.library import Series

SERIES = (
    Series(
        "lev_level",
        "laboratory",
        "results_text",
        (
            ("8 mcg/mL", "14 mcg/mL", "23 mcg/mL", "31 mcg/mL"),
            ("19 mcg/mL", "12 mcg/mL", "27 mcg/mL", "16 mcg/mL"),
        ),
        (
            "Send-out anticonvulsant trough, {date}: {v}.",
            "Trough of the seizure medicine came back {v} ({date}).",
            "{date} trough level {v}, reference lab.",
            "Anticonvulsant level {v} on {date}.",
        ),
        ("What is the most recent seizure-drug level?",),
        ("List the anticonvulsant levels.", "Summarize drug levels over the past years."),
        "{v} ({date})",
        "Anticonvulsant troughs:",
        ("Level to be drawn before dose.",),
        "epilepsy",
        "Neurology",
    ),
    Series(
        "afp",
        "laboratory",
        "results_text",
        (
            ("3.1 ng/mL", "4.4 ng/mL", "6.8 ng/mL", "11.2 ng/mL"),
            ("7.2 ng/mL", "5.9 ng/mL", "8.3 ng/mL", "4.7 ng/mL"),
        ),
        (
            "Liver tumor marker of {date} at {v}.",
            "AFP {v} on {date} (send-out).",
            "{date} alpha-fetoprotein {v}.",
            "Alpha-fetoprotein reported as {v}, {date}.",
        ),
        ("What is the most recent liver tumor marker?",),
        (
            "Summarize the alpha-fetoprotein values over the past years.",
            "Show how the liver tumor marker developed.",
        ),
        "AFP {v} ({date})",
        "AFP:",
        ("No liver lesion on ultrasound.",),
        "cirrhosis",
        "Gastroenterology",
    ),
    Series(
        "ca153",
        "laboratory",
        "results_text",
        (
            ("14 U/mL", "17 U/mL", "16 U/mL", "22 U/mL"),
            ("26 U/mL", "21 U/mL", "19 U/mL", "24 U/mL"),
        ),
        (
            "Tumor marker CA 15-3 on {date}: {v}.",
            "CA 15-3 from {date} was {v}.",
            "{date}: CA 15-3 of {v}, stable by oncology.",
            "Marker drawn {date}, CA 15-3 {v}.",
        ),
        ("What is the most recent breast tumor marker?",),
        (
            "Summarize the breast tumor marker over the past years.",
            "List the marker values of cancer follow-up.",
        ),
        "CA 15-3 {v} ({date})",
        "CA 15-3:",
        ("CEA not followed.",),
        "breast",
        "Medical Oncology",
    ),
    Series(
        "psa",
        "laboratory",
        "results_text",
        (
            ("1.1 ng/mL", "1.9 ng/mL", "2.6 ng/mL", "3.8 ng/mL"),
            ("4.2 ng/mL", "3.4 ng/mL", "5.1 ng/mL", "4.7 ng/mL"),
        ),
        (
            "Men's health fair PSA ({date}) {v}.",
            "PSA {v} by the urologist, {date}.",
            "{date} prostate-specific antigen {v}.",
            "Urology sheet of {date}: PSA {v}.",
        ),
        ("What is the most recent prostate marker?",),
        ("Show the prostate marker values in order.", "Summarize PSA over the past years."),
        "PSA {v} ({date})",
        "PSA:",
        ("Father had prostate cancer at 80.",),
        "M >45",
        "Urology",
    ),
    Series(
        "b12",
        "laboratory",
        "results_text",
        (
            ("151 pg/mL", "198 pg/mL", "344 pg/mL", "512 pg/mL"),
            ("402 pg/mL", "288 pg/mL", "190 pg/mL", "233 pg/mL"),
        ),
        (
            "Cobalamin by the home-draw service, {date}: {v}.",
            "B12 of {date} read {v}.",
            "{date} vitamin B12 {v}, partner lab.",
            "Partner lab {date}, B12 at {v}.",
        ),
        ("What is the most recent B12?",),
        (
            "Summarize the cobalamin levels over the past years.",
            "Provide the course of vitamin B12.",
        ),
        "B12 {v} ({date})",
        "Vitamin B12:",
        ("Folate normal.", "Tongue not smooth."),
        "",
        "Hematology",
    ),
    Series(
        "uric",
        "laboratory",
        "results_text",
        (
            ("8.9 mg/dL", "7.7 mg/dL", "6.4 mg/dL", "5.5 mg/dL"),
            ("6.1 mg/dL", "7.2 mg/dL", "8.4 mg/dL", "9.3 mg/dL"),
        ),
        (
            "Urate on the fair's fingerstick, {date}: {v}.",
            "Uric acid {v} ({date}).",
            "{date}, urate of {v} from the podiatrist.",
            "Podiatry drew urate {date}: {v}.",
        ),
        ("What is the most recent uric acid?",),
        (
            "Summarize the urate results over the past years.",
            "List uric acid values with their dates.",
        ),
        "Uric acid {v} ({date})",
        "Uric acid:",
        ("No tophi.",),
        "",
    ),
    Series(
        "pth",
        "laboratory",
        "results_text",
        (
            ("72 pg/mL", "109 pg/mL", "146 pg/mL", "188 pg/mL"),
            ("88 pg/mL", "104 pg/mL", "131 pg/mL", "96 pg/mL"),
        ),
        (
            "Parathyroid hormone sent {date}: {v}.",
            "PTH back at {v} ({date}).",
            "{date} intact PTH {v}.",
            "Intact parathyroid hormone, {date}, {v}.",
        ),
        ("What is the most recent parathyroid hormone?",),
        ("Summarize parathyroid hormone over the past years.", "Show the PTH values in order."),
        "PTH {v} ({date})",
        "PTH:",
        ("Phosphorus within range.",),
        "ckd",
        "Nephrology",
    ),
)
