"""Drugs that exist, in doses that exist. A code is RxNorm's where it is known for certain to be
that very product's; everything else has a plainly local code."""

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


def _drug(key: str, brand: str, group: str, lay: str, *steps: str) -> Drug:
    """``steps`` are "dose as prescribed | product name"."""
    made: list[tuple[str, str, str]] = []
    for step in steps:
        dose, product = (part.strip() for part in step.split("|"))
        code = f"RxNorm/{_KNOWN[product]}" if product in _KNOWN else local("RX", product)
        made.append((dose, product, code))
    return Drug(key, brand, group, lay, tuple(made))


def _tablets(key: str, salt: str, sig: str, *strengths: str) -> tuple[str, ...]:
    return tuple(f"{s} mg {sig} | {salt or key} {s} MG Oral Tablet" for s in strengths)


_LIST = [
    _drug(
        "lisinopril",
        "Zestril",
        "acei",
        "blood pressure pill",
        *_tablets("lisinopril", "", "daily", "5", "10", "20", "40"),
    ),
    _drug(
        "losartan",
        "Cozaar",
        "arb",
        "blood pressure pill",
        *_tablets("losartan", "losartan potassium", "daily", "25", "50", "100"),
    ),
    _drug(
        "sacubitril-valsartan",
        "Entresto",
        "arb",
        "heart failure pill",
        "24-26 mg BID | sacubitril 24 MG / valsartan 26 MG Oral Tablet",
        "49-51 mg BID | sacubitril 49 MG / valsartan 51 MG Oral Tablet",
        "97-103 mg BID | sacubitril 97 MG / valsartan 103 MG Oral Tablet",
    ),
    _drug(
        "amlodipine",
        "Norvasc",
        "ccb",
        "blood pressure pill",
        *_tablets("amlodipine", "", "daily", "2.5", "5", "10"),
    ),
    _drug(
        "hydrochlorothiazide",
        "Microzide",
        "thiazide",
        "water pill",
        *_tablets("hydrochlorothiazide", "", "daily", "12.5", "25"),
    ),
    _drug(
        "carvedilol",
        "Coreg",
        "beta",
        "beta-blocker",
        *_tablets("carvedilol", "", "BID", "3.125", "6.25", "12.5", "25"),
    ),
    _drug(
        "metoprolol succinate",
        "Toprol-XL",
        "beta",
        "beta-blocker",
        *(
            f"{s} mg daily | metoprolol succinate {s} MG Extended Release Oral Tablet"
            for s in ("25", "50", "100", "200")
        ),
    ),
    _drug(
        "furosemide",
        "Lasix",
        "loop",
        "water pill",
        *_tablets("furosemide", "", "daily", "20", "40", "80"),
    ),
    _drug(
        "spironolactone",
        "Aldactone",
        "mra",
        "potassium-sparing water pill",
        *_tablets("spironolactone", "", "daily", "12.5", "25", "50", "100"),
    ),
    _drug(
        "digoxin",
        "Lanoxin",
        "digoxin",
        "heart pill",
        "0.125 mg daily | digoxin 0.125 MG Oral Tablet",
    ),
    _drug(
        "empagliflozin",
        "Jardiance",
        "sglt2",
        "diabetes pill",
        *_tablets("empagliflozin", "", "daily", "10", "25"),
    ),
    _drug(
        "metformin",
        "Glucophage",
        "metformin",
        "sugar pill",
        *_tablets("metformin", "metformin hydrochloride", "BID", "500", "850", "1000"),
    ),
    _drug(
        "glipizide",
        "Glucotrol",
        "su",
        "diabetes pill",
        *_tablets("glipizide", "", "BID", "5", "10"),
    ),
    _drug(
        "sitagliptin",
        "Januvia",
        "dpp4",
        "diabetes pill",
        *_tablets("sitagliptin", "", "daily", "25", "50", "100"),
    ),
    _drug(
        "insulin glargine",
        "Lantus",
        "insulin",
        "long-acting insulin",
        *(
            f"{u} units nightly | insulin glargine 100 UNT/ML Injectable Solution"
            for u in ("10", "16", "22", "30", "38")
        ),
    ),
    _drug(
        "dulaglutide",
        "Trulicity",
        "glp1",
        "weekly diabetes injection",
        "0.75 mg weekly | dulaglutide 0.75 MG in 0.5 ML Pen Injector",
        "1.5 mg weekly | dulaglutide 1.5 MG in 0.5 ML Pen Injector",
    ),
    _drug(
        "simvastatin",
        "Zocor",
        "statin",
        "cholesterol pill",
        *_tablets("simvastatin", "", "nightly", "10", "20", "40"),
    ),
    _drug(
        "atorvastatin",
        "Lipitor",
        "statin",
        "cholesterol pill",
        *_tablets("atorvastatin", "", "daily", "10", "20", "40", "80"),
    ),
    _drug(
        "rosuvastatin",
        "Crestor",
        "statin",
        "cholesterol pill",
        *_tablets("rosuvastatin", "rosuvastatin calcium", "daily", "5", "10", "20"),
    ),
    _drug(
        "ezetimibe",
        "Zetia",
        "ezetimibe",
        "cholesterol pill",
        "10 mg daily | ezetimibe 10 MG Oral Tablet",
    ),
    _drug(
        "warfarin",
        "Coumadin",
        "warfarin",
        "blood thinner",
        *(
            f"{s} mg daily | warfarin sodium {s} MG Oral Tablet"
            for s in ("2.5", "4", "5", "6", "7.5")
        ),
    ),
    _drug(
        "apixaban", "Eliquis", "doac", "blood thinner", *_tablets("apixaban", "", "BID", "2.5", "5")
    ),
    _drug(
        "rivaroxaban",
        "Xarelto",
        "doac",
        "blood thinner",
        *_tablets("rivaroxaban", "", "daily with supper", "15", "20"),
    ),
    _drug(
        "aspirin",
        "baby aspirin",
        "antiplatelet",
        "baby aspirin",
        "81 mg daily | aspirin 81 MG Oral Tablet",
    ),
    _drug(
        "clopidogrel",
        "Plavix",
        "antiplatelet",
        "antiplatelet pill",
        "75 mg daily | clopidogrel 75 MG Oral Tablet",
    ),
    _drug(
        "ticagrelor",
        "Brilinta",
        "antiplatelet",
        "antiplatelet pill",
        "90 mg BID | ticagrelor 90 MG Oral Tablet",
    ),
    _drug(
        "tiotropium",
        "Spiriva",
        "lama",
        "daily inhaler",
        "18 mcg inhaled daily | tiotropium 0.018 MG Inhalation Powder",
    ),
    _drug(
        "fluticasone-salmeterol",
        "Advair",
        "ics",
        "purple disk inhaler",
        "250-50 mcg BID | fluticasone 0.25 MG / salmeterol 0.05 MG Dry Powder Inhaler",
        "500-50 mcg BID | fluticasone 0.5 MG / salmeterol 0.05 MG Dry Powder Inhaler",
    ),
    _drug(
        "albuterol",
        "ProAir",
        "saba",
        "rescue inhaler",
        "2 puffs q4h PRN | albuterol 0.09 MG/ACTUAT Metered Dose Inhaler",
    ),
    _drug(
        "prednisone",
        "Deltasone",
        "steroid",
        "steroid pills",
        *_tablets("prednisone", "", "daily", "5", "10", "20", "40"),
    ),
    _drug(
        "tamoxifen",
        "Nolvadex",
        "tamoxifen",
        "hormone pill",
        "20 mg daily | tamoxifen 20 MG Oral Tablet",
    ),
    _drug(
        "anastrozole", "Arimidex", "ai", "hormone pill", "1 mg daily | anastrozole 1 MG Oral Tablet"
    ),
    _drug(
        "letrozole", "Femara", "ai", "hormone pill", "2.5 mg daily | letrozole 2.5 MG Oral Tablet"
    ),
    _drug(
        "exemestane", "Aromasin", "ai", "hormone pill", "25 mg daily | exemestane 25 MG Oral Tablet"
    ),
    _drug(
        "methotrexate",
        "Trexall",
        "mtx",
        "weekly arthritis pills",
        *(f"{s} mg weekly | methotrexate 2.5 MG Oral Tablet" for s in ("10", "15", "20", "25")),
    ),
    _drug(
        "folic acid", "Folvite", "vitamin", "vitamin", "1 mg daily | folic acid 1 MG Oral Tablet"
    ),
    _drug(
        "hydroxychloroquine",
        "Plaquenil",
        "hcq",
        "arthritis pill",
        "200 mg BID | hydroxychloroquine sulfate 200 MG Oral Tablet",
    ),
    _drug(
        "adalimumab",
        "Humira",
        "biologic",
        "arthritis injection",
        "40 mg SC every 2 weeks | adalimumab 40 MG in 0.4 ML Pen Injector",
        "40 mg SC weekly | adalimumab 40 MG in 0.4 ML Pen Injector",
    ),
    _drug(
        "etanercept",
        "Enbrel",
        "biologic",
        "arthritis injection",
        "50 mg SC weekly | etanercept 50 MG in 1 ML Auto-Injector",
    ),
    _drug(
        "levothyroxine",
        "Synthroid",
        "thyroid",
        "thyroid pill",
        *(
            f"{s} mcg daily | levothyroxine sodium 0.{s.zfill(3)} MG Oral Tablet"
            for s in ("25", "50", "75", "88", "112")
        ),
    ),
    _drug(
        "lactulose",
        "Enulose",
        "lactulose",
        "liver syrup",
        "20 g BID | lactulose 667 MG/ML Oral Solution",
        "20 g TID | lactulose 667 MG/ML Oral Solution",
    ),
    _drug(
        "rifaximin",
        "Xifaxan",
        "rifaximin",
        "gut antibiotic for the liver",
        "550 mg BID | rifaximin 550 MG Oral Tablet",
    ),
    _drug(
        "nadolol", "Corgard", "beta", "beta-blocker", *_tablets("nadolol", "", "daily", "20", "40")
    ),
    _drug(
        "levetiracetam",
        "Keppra",
        "asm",
        "seizure pill",
        *_tablets("levetiracetam", "", "BID", "500", "750", "1000", "1500"),
    ),
    _drug(
        "lamotrigine",
        "Lamictal",
        "asm",
        "seizure pill",
        *_tablets("lamotrigine", "", "BID", "25", "50", "100", "150"),
    ),
    _drug(
        "phenytoin",
        "Dilantin",
        "asm",
        "seizure pill",
        "300 mg nightly | phenytoin sodium 100 MG Extended Release Oral Capsule",
    ),
    _drug(
        "sertraline",
        "Zoloft",
        "ssri",
        "antidepressant",
        *_tablets("sertraline", "", "daily", "25", "50", "100", "150"),
    ),
    _drug(
        "escitalopram",
        "Lexapro",
        "ssri",
        "antidepressant",
        *_tablets("escitalopram", "", "daily", "5", "10", "20"),
    ),
    _drug(
        "bupropion",
        "Wellbutrin XL",
        "bupropion",
        "antidepressant",
        *(
            f"{s} mg every morning | bupropion hydrochloride {s} MG Extended Release Oral Tablet"
            for s in ("150", "300")
        ),
    ),
    _drug(
        "duloxetine",
        "Cymbalta",
        "snri",
        "antidepressant",
        "30 mg daily | duloxetine 30 MG Delayed Release Oral Capsule",
        "60 mg daily | duloxetine 60 MG Delayed Release Oral Capsule",
    ),
    _drug(
        "trazodone",
        "Desyrel",
        "sleep",
        "sleeping pill",
        "50 mg nightly PRN | trazodone hydrochloride 50 MG Oral Tablet",
        "100 mg nightly | trazodone hydrochloride 100 MG Oral Tablet",
    ),
    _drug(
        "alendronate",
        "Fosamax",
        "bisphosphonate",
        "weekly bone pill",
        "70 mg weekly | alendronic acid 70 MG Oral Tablet",
    ),
    _drug(
        "denosumab",
        "Prolia",
        "bone",
        "twice-yearly bone injection",
        "60 mg SC every 6 months | denosumab 60 MG in 1 ML Prefilled Syringe",
    ),
    _drug(
        "insulin NPH",
        "Humulin N",
        "insulin",
        "insulin",
        *(
            f"{u} units nightly | insulin isophane human 100 UNT/ML Injectable Suspension"
            for u in ("8", "12", "16")
        ),
    ),
    _drug(
        "omeprazole",
        "Prilosec",
        "ppi",
        "acid pill",
        "20 mg daily | omeprazole 20 MG Delayed Release Oral Capsule",
        "40 mg daily | omeprazole 40 MG Delayed Release Oral Capsule",
    ),
    _drug(
        "gabapentin",
        "Neurontin",
        "gaba",
        "nerve pill",
        "100 mg TID | gabapentin 100 MG Oral Capsule",
        "300 mg TID | gabapentin 300 MG Oral Capsule",
        "600 mg TID | gabapentin 600 MG Oral Tablet",
    ),
    _drug(
        "ferrous sulfate",
        "Feosol",
        "iron",
        "iron pill",
        "325 mg daily | ferrous sulfate 325 MG Oral Tablet",
    ),
    _drug(
        "ceftriaxone",
        "Rocephin",
        "antibiotic",
        "IV antibiotic",
        "1 g IV daily | ceftriaxone 1000 MG Injection",
    ),
    _drug(
        "azithromycin",
        "Zithromax",
        "antibiotic",
        "antibiotic",
        "500 mg daily | azithromycin 500 MG Oral Tablet",
    ),
    _drug(
        "cephalexin",
        "Keflex",
        "antibiotic",
        "antibiotic",
        "500 mg QID | cephalexin 500 MG Oral Capsule",
    ),
    _drug(
        "heparin",
        "heparin",
        "heparin",
        "blood thinner drip",
        "infusion per protocol | heparin sodium 100 UNT/ML Injectable Solution",
    ),
    _drug(
        "enoxaparin",
        "Lovenox",
        "heparin",
        "blood thinner shot",
        "40 mg SC daily | enoxaparin sodium 40 MG in 0.4 ML Prefilled Syringe",
    ),
    _drug(
        "furosemide IV",
        "Lasix",
        "none",
        "water medicine by vein",
        "40 mg IV BID | furosemide 10 MG/ML Injectable Solution",
    ),
    _drug(
        "pantoprazole IV",
        "Protonix",
        "none",
        "acid medicine by vein",
        "40 mg IV BID | pantoprazole 40 MG Injection",
    ),
    _drug(
        "acetaminophen",
        "Tylenol",
        "none",
        "pain reliever",
        "650 mg q6h PRN | acetaminophen 325 MG Oral Tablet",
    ),
    _drug(
        "ondansetron",
        "Zofran",
        "none",
        "nausea pill",
        "4 mg q8h PRN | ondansetron 4 MG Oral Tablet",
    ),
    _drug(
        "levetiracetam IV",
        "Keppra",
        "none",
        "seizure medicine by vein",
        "1500 mg IV once | levetiracetam 100 MG/ML Injectable Solution",
    ),
    _drug(
        "octreotide",
        "Sandostatin",
        "none",
        "octreotide drip",
        "50 mcg/h infusion | octreotide 0.5 MG/ML Injectable Solution",
    ),
    _drug(
        "potassium chloride",
        "K-Dur",
        "none",
        "potassium",
        "20 mEq daily | potassium chloride 20 MEQ Extended Release Oral Tablet",
    ),
    _drug(
        "sodium polystyrene",
        "Kayexalate",
        "none",
        "potassium binder",
        "15 g once | sodium polystyrene sulfonate 15 G Oral Suspension",
    ),
]

DRUGS: dict[str, Drug] = {drug.key: drug for drug in _LIST}


def dose(key: str, step: int) -> str:
    """The dose of ``step`` as prescribed, e.g. "20 mg daily"."""
    return DRUGS[key].steps[step][0]
