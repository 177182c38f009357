"""Drugs for the heart, vessels, sugar, lipids and clotting."""

from __future__ import annotations

from core.synthetic.drug_forms import make_drug, tablets

HEART_DRUGS = (
    make_drug(
        "lisinopril",
        "Zestril",
        "acei",
        "blood pressure pill",
        *tablets("lisinopril", "", "daily", "5", "10", "20", "40"),
    ),
    make_drug(
        "losartan",
        "Cozaar",
        "arb",
        "blood pressure pill",
        *tablets("losartan", "losartan potassium", "daily", "25", "50", "100"),
    ),
    make_drug(
        "sacubitril-valsartan",
        "Entresto",
        "arb",
        "heart failure pill",
        "24-26 mg BID | sacubitril 24 MG / valsartan 26 MG Oral Tablet",
        "49-51 mg BID | sacubitril 49 MG / valsartan 51 MG Oral Tablet",
        "97-103 mg BID | sacubitril 97 MG / valsartan 103 MG Oral Tablet",
    ),
    make_drug(
        "amlodipine",
        "Norvasc",
        "ccb",
        "blood pressure pill",
        *tablets("amlodipine", "", "daily", "2.5", "5", "10"),
    ),
    make_drug(
        "hydrochlorothiazide",
        "Microzide",
        "thiazide",
        "water pill",
        *tablets("hydrochlorothiazide", "", "daily", "12.5", "25"),
    ),
    make_drug(
        "carvedilol",
        "Coreg",
        "beta",
        "beta-blocker",
        *tablets("carvedilol", "", "BID", "3.125", "6.25", "12.5", "25"),
    ),
    make_drug(
        "metoprolol succinate",
        "Toprol-XL",
        "beta",
        "beta-blocker",
        *(
            f"{s} mg daily | metoprolol succinate {s} MG Extended Release Oral Tablet"
            for s in ("25", "50", "100", "200")
        ),
    ),
    make_drug(
        "furosemide",
        "Lasix",
        "loop",
        "water pill",
        *tablets("furosemide", "", "daily", "20", "40", "80"),
    ),
    make_drug(
        "spironolactone",
        "Aldactone",
        "mra",
        "potassium-sparing water pill",
        *tablets("spironolactone", "", "daily", "12.5", "25", "50", "100"),
    ),
    make_drug(
        "digoxin",
        "Lanoxin",
        "digoxin",
        "heart pill",
        "0.125 mg daily | digoxin 0.125 MG Oral Tablet",
    ),
    make_drug(
        "empagliflozin",
        "Jardiance",
        "sglt2",
        "diabetes pill",
        *tablets("empagliflozin", "", "daily", "10", "25"),
    ),
    make_drug(
        "metformin",
        "Glucophage",
        "metformin",
        "sugar pill",
        *tablets("metformin", "metformin hydrochloride", "BID", "500", "850", "1000"),
    ),
    make_drug(
        "glipizide",
        "Glucotrol",
        "su",
        "diabetes pill",
        *tablets("glipizide", "", "BID", "5", "10"),
    ),
    make_drug(
        "sitagliptin",
        "Januvia",
        "dpp4",
        "diabetes pill",
        *tablets("sitagliptin", "", "daily", "25", "50", "100"),
    ),
    make_drug(
        "insulin glargine",
        "Lantus",
        "insulin",
        "long-acting insulin",
        *(
            f"{u} units nightly | insulin glargine 100 UNT/ML Injectable Solution"
            for u in ("10", "16", "22", "30", "38")
        ),
    ),
    make_drug(
        "dulaglutide",
        "Trulicity",
        "glp1",
        "weekly diabetes injection",
        "0.75 mg weekly | dulaglutide 0.75 MG in 0.5 ML Pen Injector",
        "1.5 mg weekly | dulaglutide 1.5 MG in 0.5 ML Pen Injector",
    ),
    make_drug(
        "simvastatin",
        "Zocor",
        "statin",
        "cholesterol pill",
        *tablets("simvastatin", "", "nightly", "10", "20", "40"),
    ),
    make_drug(
        "atorvastatin",
        "Lipitor",
        "statin",
        "cholesterol pill",
        *tablets("atorvastatin", "", "daily", "10", "20", "40", "80"),
    ),
    make_drug(
        "rosuvastatin",
        "Crestor",
        "statin",
        "cholesterol pill",
        *tablets("rosuvastatin", "rosuvastatin calcium", "daily", "5", "10", "20"),
    ),
    make_drug(
        "ezetimibe",
        "Zetia",
        "ezetimibe",
        "cholesterol pill",
        "10 mg daily | ezetimibe 10 MG Oral Tablet",
    ),
    make_drug(
        "warfarin",
        "Coumadin",
        "warfarin",
        "blood thinner",
        *(
            f"{s} mg daily | warfarin sodium {s} MG Oral Tablet"
            for s in ("2.5", "4", "5", "6", "7.5")
        ),
    ),
    make_drug(
        "apixaban", "Eliquis", "doac", "blood thinner", *tablets("apixaban", "", "BID", "2.5", "5")
    ),
    make_drug(
        "rivaroxaban",
        "Xarelto",
        "doac",
        "blood thinner",
        *tablets("rivaroxaban", "", "daily with supper", "15", "20"),
    ),
    make_drug(
        "aspirin",
        "baby aspirin",
        "antiplatelet",
        "baby aspirin",
        "81 mg daily | aspirin 81 MG Oral Tablet",
    ),
    make_drug(
        "clopidogrel",
        "Plavix",
        "antiplatelet",
        "antiplatelet pill",
        "75 mg daily | clopidogrel 75 MG Oral Tablet",
    ),
    make_drug(
        "ticagrelor",
        "Brilinta",
        "antiplatelet",
        "antiplatelet pill",
        "90 mg BID | ticagrelor 90 MG Oral Tablet",
    ),
)
