"""Drugs for lungs, joints, mood, nerves, liver, bone, cancer and acute care."""

from __future__ import annotations

from core.synthetic.drug_forms import make_drug, tablets

OTHER_DRUGS = (
    make_drug(
        "tiotropium",
        "Spiriva",
        "lama",
        "daily inhaler",
        "18 mcg inhaled daily | tiotropium 0.018 MG Inhalation Powder",
    ),
    make_drug(
        "fluticasone-salmeterol",
        "Advair",
        "ics",
        "purple disk inhaler",
        "250-50 mcg BID | fluticasone 0.25 MG / salmeterol 0.05 MG Dry Powder Inhaler",
        "500-50 mcg BID | fluticasone 0.5 MG / salmeterol 0.05 MG Dry Powder Inhaler",
    ),
    make_drug(
        "albuterol",
        "ProAir",
        "saba",
        "rescue inhaler",
        "2 puffs q4h PRN | albuterol 0.09 MG/ACTUAT Metered Dose Inhaler",
    ),
    make_drug(
        "prednisone",
        "Deltasone",
        "steroid",
        "steroid pills",
        *tablets("prednisone", "", "daily", "5", "10", "20", "40"),
    ),
    make_drug(
        "tamoxifen",
        "Nolvadex",
        "tamoxifen",
        "hormone pill",
        "20 mg daily | tamoxifen 20 MG Oral Tablet",
    ),
    make_drug(
        "anastrozole", "Arimidex", "ai", "hormone pill", "1 mg daily | anastrozole 1 MG Oral Tablet"
    ),
    make_drug(
        "letrozole", "Femara", "ai", "hormone pill", "2.5 mg daily | letrozole 2.5 MG Oral Tablet"
    ),
    make_drug(
        "exemestane", "Aromasin", "ai", "hormone pill", "25 mg daily | exemestane 25 MG Oral Tablet"
    ),
    make_drug(
        "methotrexate",
        "Trexall",
        "mtx",
        "weekly arthritis pills",
        *(f"{s} mg weekly | methotrexate 2.5 MG Oral Tablet" for s in ("10", "15", "20", "25")),
    ),
    make_drug(
        "folic acid", "Folvite", "vitamin", "vitamin", "1 mg daily | folic acid 1 MG Oral Tablet"
    ),
    make_drug(
        "hydroxychloroquine",
        "Plaquenil",
        "hcq",
        "arthritis pill",
        "200 mg BID | hydroxychloroquine sulfate 200 MG Oral Tablet",
    ),
    make_drug(
        "adalimumab",
        "Humira",
        "biologic",
        "arthritis injection",
        "40 mg SC every 2 weeks | adalimumab 40 MG in 0.4 ML Pen Injector",
        "40 mg SC weekly | adalimumab 40 MG in 0.4 ML Pen Injector",
    ),
    make_drug(
        "etanercept",
        "Enbrel",
        "biologic",
        "arthritis injection",
        "50 mg SC weekly | etanercept 50 MG in 1 ML Auto-Injector",
    ),
    make_drug(
        "levothyroxine",
        "Synthroid",
        "thyroid",
        "thyroid pill",
        *(
            f"{s} mcg daily | levothyroxine sodium 0.{s.zfill(3)} MG Oral Tablet"
            for s in ("25", "50", "75", "88", "112")
        ),
    ),
    make_drug(
        "lactulose",
        "Enulose",
        "lactulose",
        "liver syrup",
        "20 g BID | lactulose 667 MG/ML Oral Solution",
        "20 g TID | lactulose 667 MG/ML Oral Solution",
    ),
    make_drug(
        "rifaximin",
        "Xifaxan",
        "rifaximin",
        "gut antibiotic for the liver",
        "550 mg BID | rifaximin 550 MG Oral Tablet",
    ),
    make_drug(
        "nadolol", "Corgard", "beta", "beta-blocker", *tablets("nadolol", "", "daily", "20", "40")
    ),
    make_drug(
        "levetiracetam",
        "Keppra",
        "asm",
        "seizure pill",
        *tablets("levetiracetam", "", "BID", "500", "750", "1000", "1500"),
    ),
    make_drug(
        "lamotrigine",
        "Lamictal",
        "asm",
        "seizure pill",
        *tablets("lamotrigine", "", "BID", "25", "50", "100", "150"),
    ),
    make_drug(
        "phenytoin",
        "Dilantin",
        "asm",
        "seizure pill",
        "300 mg nightly | phenytoin sodium 100 MG Extended Release Oral Capsule",
    ),
    make_drug(
        "sertraline",
        "Zoloft",
        "ssri",
        "antidepressant",
        *tablets("sertraline", "", "daily", "25", "50", "100", "150"),
    ),
    make_drug(
        "escitalopram",
        "Lexapro",
        "ssri",
        "antidepressant",
        *tablets("escitalopram", "", "daily", "5", "10", "20"),
    ),
    make_drug(
        "bupropion",
        "Wellbutrin XL",
        "bupropion",
        "antidepressant",
        *(
            f"{s} mg every morning | bupropion hydrochloride {s} MG Extended Release Oral Tablet"
            for s in ("150", "300")
        ),
    ),
    make_drug(
        "duloxetine",
        "Cymbalta",
        "snri",
        "antidepressant",
        "30 mg daily | duloxetine 30 MG Delayed Release Oral Capsule",
        "60 mg daily | duloxetine 60 MG Delayed Release Oral Capsule",
    ),
    make_drug(
        "trazodone",
        "Desyrel",
        "sleep",
        "sleeping pill",
        "50 mg nightly PRN | trazodone hydrochloride 50 MG Oral Tablet",
        "100 mg nightly | trazodone hydrochloride 100 MG Oral Tablet",
    ),
    make_drug(
        "alendronate",
        "Fosamax",
        "bisphosphonate",
        "weekly bone pill",
        "70 mg weekly | alendronic acid 70 MG Oral Tablet",
    ),
    make_drug(
        "denosumab",
        "Prolia",
        "bone",
        "twice-yearly bone injection",
        "60 mg SC every 6 months | denosumab 60 MG in 1 ML Prefilled Syringe",
    ),
    make_drug(
        "insulin NPH",
        "Humulin N",
        "insulin",
        "insulin",
        *(
            f"{u} units nightly | insulin isophane human 100 UNT/ML Injectable Suspension"
            for u in ("8", "12", "16")
        ),
    ),
    make_drug(
        "omeprazole",
        "Prilosec",
        "ppi",
        "acid pill",
        "20 mg daily | omeprazole 20 MG Delayed Release Oral Capsule",
        "40 mg daily | omeprazole 40 MG Delayed Release Oral Capsule",
    ),
    make_drug(
        "gabapentin",
        "Neurontin",
        "gaba",
        "nerve pill",
        "100 mg TID | gabapentin 100 MG Oral Capsule",
        "300 mg TID | gabapentin 300 MG Oral Capsule",
        "600 mg TID | gabapentin 600 MG Oral Tablet",
    ),
    make_drug(
        "ferrous sulfate",
        "Feosol",
        "iron",
        "iron pill",
        "325 mg daily | ferrous sulfate 325 MG Oral Tablet",
    ),
    make_drug(
        "ceftriaxone",
        "Rocephin",
        "antibiotic",
        "IV antibiotic",
        "1 g IV daily | ceftriaxone 1000 MG Injection",
    ),
    make_drug(
        "azithromycin",
        "Zithromax",
        "antibiotic",
        "antibiotic",
        "500 mg daily | azithromycin 500 MG Oral Tablet",
    ),
    make_drug(
        "cephalexin",
        "Keflex",
        "antibiotic",
        "antibiotic",
        "500 mg QID | cephalexin 500 MG Oral Capsule",
    ),
    make_drug(
        "heparin",
        "heparin",
        "heparin",
        "blood thinner drip",
        "infusion per protocol | heparin sodium 100 UNT/ML Injectable Solution",
    ),
    make_drug(
        "enoxaparin",
        "Lovenox",
        "heparin",
        "blood thinner shot",
        "40 mg SC daily | enoxaparin sodium 40 MG in 0.4 ML Prefilled Syringe",
    ),
    make_drug(
        "furosemide IV",
        "Lasix",
        "none",
        "water medicine by vein",
        "40 mg IV BID | furosemide 10 MG/ML Injectable Solution",
    ),
    make_drug(
        "pantoprazole IV",
        "Protonix",
        "none",
        "acid medicine by vein",
        "40 mg IV BID | pantoprazole 40 MG Injection",
    ),
    make_drug(
        "acetaminophen",
        "Tylenol",
        "none",
        "pain reliever",
        "650 mg q6h PRN | acetaminophen 325 MG Oral Tablet",
    ),
    make_drug(
        "ondansetron",
        "Zofran",
        "none",
        "nausea pill",
        "4 mg q8h PRN | ondansetron 4 MG Oral Tablet",
    ),
    make_drug(
        "levetiracetam IV",
        "Keppra",
        "none",
        "seizure medicine by vein",
        "1500 mg IV once | levetiracetam 100 MG/ML Injectable Solution",
    ),
    make_drug(
        "octreotide",
        "Sandostatin",
        "none",
        "octreotide drip",
        "50 mcg/h infusion | octreotide 0.5 MG/ML Injectable Solution",
    ),
    make_drug(
        "potassium chloride",
        "K-Dur",
        "none",
        "potassium",
        "20 mEq daily | potassium chloride 20 MEQ Extended Release Oral Tablet",
    ),
    make_drug(
        "sodium polystyrene",
        "Kayexalate",
        "none",
        "potassium binder",
        "15 g once | sodium polystyrene sulfonate 15 G Oral Suspension",
    ),
)
