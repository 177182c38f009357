"""Metabolic, kidney, lung and thyroid conditions: how they are treated, followed and written about.

Templates are filled with pronouns (``{He}``, ``{his}``, ``{Name}``) and recent values (``{a1c}``,
``{cr}``, ``{bp}`` ...). Reasons for changing a drug are written into one note only.
"""

from __future__ import annotations

from core.synthetic.model import Disease, Plan

INNER = (
    Disease(
        "t2dm",
        "Type 2 diabetes mellitus",
        "T2DM",
        "SNOMED/44054006",
        "Endocrinology",
        (
            Plan(
                "metformin",
                0.9,
                3,
                "first-line glucose lowering after lifestyle change fell short",
                (
                    "morning sugars still in the 180s",
                    "glycated hemoglobin still above goal",
                ),
                (
                    ("filtration having fallen below 30, with concern for lactic acidosis", ""),
                    (
                        "unrelenting loose stools four to five times a day even on the "
                        "extended-release "
                        "form",
                        "sitagliptin",
                    ),
                ),
                0.45,
            ),
            Plan(
                "glipizide",
                0.4,
                400,
                "postprandial excursions and cost of newer agents",
                ("two-hour readings above 220 most evenings",),
                (
                    (
                        "two episodes of sweating and confusion before lunch with meter readings "
                        "in the "
                        "50s",
                        "sitagliptin",
                    ),
                ),
                0.5,
            ),
            Plan(
                "empagliflozin",
                0.3,
                900,
                "cardiorenal protection on top of glucose lowering",
                (),
                (("three yeast infections in four months", ""),),
                0.4,
            ),
            Plan(
                "insulin glargine",
                0.45,
                1100,
                "oral agents no longer holding {him} at target",
                (
                    "fasting log averaging 168",
                    "fasting readings above 150 on most mornings",
                    "a run of high fasting readings after a steroid shot",
                ),
                (),
                0,
            ),
            Plan(
                "dulaglutide",
                0.25,
                1500,
                "weight gain and a wish to avoid mealtime insulin",
                ("plateau in weight after twelve weeks",),
                (("severe nausea with vomiting after each weekly injection", ""),),
                0.4,
            ),
        ),
        ("a1c", "bmp", "uacr", "lipid"),
        (
            "Checks {his} sugars most mornings; the log shows values between 110 and 150 with no "
            "lows.",
            "Diabetes has been quiet: no polyuria, no hypoglycemia, A1c {a1c} at the last draw.",
            "{He} is walking after supper and has given up regular soda.",
        ),
        (
            "Fasting readings have crept up to the 180-210 range and {he} admits to eating out "
            "most "
            "nights.",
            "Sugars are worse; A1c now {a1c}. {He} has missed doses while caring for a relative.",
        ),
        (
            "Monofilament intact at 10/10 sites bilaterally, pedal pulses 2+, no ulceration.",
            "Feet: skin dry, no callus; vibration reduced at the great toes.",
        ),
        ("Type 2 diabetes, A1c {a1c}.", "DM2 with A1c of {a1c}, individualised goal below 7.5."),
        (
            "Annual dilated eye exam and foot exam reviewed.",
            "Repeat A1c in 3 months.",
            "Referred back to the diabetes educator for carbohydrate counting.",
        ),
        ("Denies polydipsia, polyuria, blurred vision.",),
    ),
    Disease(
        "ckd",
        "Chronic kidney disease stage 3",
        "CKD",
        "SNOMED/433144002",
        "Nephrology",
        (),
        ("bmp", "cbc", "uacr"),
        (
            "Kidney numbers are about where they have been, creatinine {cr} with an eGFR of "
            "{egfr}.",
            "No NSAID use, urine output unchanged, no foamy urine.",
        ),
        ("Renal function has slipped further since the last panel (Cr {cr}, eGFR {egfr}).",),
        (
            "No asterixis, no pericardial rub, trace edema.",
            "Volume status acceptable, no flank tenderness.",
        ),
        (
            "CKD, eGFR {egfr} by last panel; likely hypertensive and diabetic nephrosclerosis.",
            "Chronic kidney disease with Cr {cr}; slow decline.",
        ),
        (
            "Avoid nephrotoxins; renally dose all new prescriptions.",
            "Check PTH, phosphorus and urine ACR with next labs.",
            "BP goal below 130/80.",
        ),
        ("Denies hematuria, pruritus or metallic taste.",),
    ),
    Disease(
        "copd",
        "Chronic obstructive pulmonary disease",
        "COPD",
        "SNOMED/13645005",
        "Pulmonary Disease",
        (
            Plan("albuterol", 0.95, 0, "relief of exertional wheeze", (), (), 0),
            Plan(
                "tiotropium",
                0.75,
                30,
                "daily symptoms despite the rescue inhaler",
                (),
                (("acute urinary retention that needed a catheter", "fluticasone-salmeterol"),),
                0.25,
            ),
            Plan(
                "fluticasone-salmeterol",
                0.5,
                400,
                "two exacerbations in twelve months",
                ("another flare on the lower strength",),
                (("oral thrush that kept coming back", ""),),
                0.4,
            ),
        ),
        ("cbc", "bmp"),
        (
            "Breathing is at {his} usual; walks on the flat, stops once on stairs. Morning cough "
            "with "
            "a spoonful of clear sputum.",
            "Uses the rescue inhaler two or three times a week. mMRC 2.",
        ),
        (
            "Needs the rescue inhaler daily now and coughs up thicker, yellowish sputum in the "
            "mornings.",
        ),
        (
            "Prolonged expiration, distant breath sounds, no wheeze today.",
            "Hyperresonant chest, scattered end-expiratory wheezes.",
        ),
        ("COPD, GOLD group B.", "Obstructive lung disease, at baseline."),
        (
            "Inhaler technique observed and corrected.",
            "Pneumococcal and influenza vaccines reviewed.",
            "Pulmonary rehabilitation offered.",
        ),
        ("Denies hemoptysis.",),
    ),
    Disease(
        "hypothyroid",
        "Hypothyroidism",
        "hypothyroidism",
        "SNOMED/40930008",
        "Endocrinology",
        (
            Plan(
                "levothyroxine",
                1.0,
                2,
                "overt biochemical underactivity with fatigue and dry skin",
                (
                    "TSH still above range at the recheck",
                    "return of cold intolerance with TSH out of range",
                    "{he} began iron tablets, which lowered absorption",
                ),
                (),
                0,
            ),
        ),
        ("tsh",),
        (
            "Energy is fair, no cold intolerance, bowels regular. TSH {tsh}.",
            "Takes {his} thyroid pill on an empty stomach before coffee.",
        ),
        ("More fatigue, constipation and hair thinning; TSH {tsh}.",),
        ("Thyroid not enlarged, reflexes with normal relaxation.",),
        ("Hypothyroidism, TSH {tsh}.", "Primary hypothyroidism on replacement."),
        ("TSH in 6-8 weeks after any change, then yearly.",),
        ("Denies hoarseness or neck swelling.",),
    ),
)
