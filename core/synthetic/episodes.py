"""Acute illnesses that begin and end: how they present, are treated, shift the labs and resolve."""

from __future__ import annotations

from core.synthetic.model import EpisodeKind

_ALL = (
    EpisodeKind(
        "chf",
        "Acute on chronic systolic heart failure",
        "SNOMED/443253003",
        "IP",
        (3, 7),
        "shortness of breath and leg swelling",
        (
            "{Name} is a {age} y.o. {man} with known systolic heart failure who presents with "
            "one week "
            "of worsening dyspnea, now at rest, and swelling to the knees. {He} ran out of {his} "
            "diuretic four days ago.",
            "{age} y.o. {man}, cardiomyopathy, here with orthopnea and a dry cough over five days "
            "after several restaurant meals. No chest pain, no fever.",
        ),
        ("JVP 14 cm, rales to the mid zones, S3, 3+ pitting edema to the knees.",),
        (
            "XR CHEST 2 VIEWS",
            "Cardiomegaly. Cephalisation of the pulmonary vessels and small "
            "bilateral pleural effusions, consistent with interstitial edema. No focal "
            "consolidation.",
        ),
        (
            "Diuresed with IV loop diuretic twice daily with good response and oxygen weaned to "
            "room "
            "air.",
            "Net negative over six liters; creatinine peaked mid-stay and settled by discharge.",
            "Telemetry without sustained ventricular arrhythmia.",
        ),
        ("furosemide IV", "potassium chloride", "enoxaparin"),
        ("bmp", "cbc", "bnp", "trop"),
        (("bnp", 5200), ("wt", 6), ("spo2", -7), ("hr", 18), ("rr", 8), ("na", -5)),
        ("Weigh every morning and bring the chart.", "Cardiology clinic within 7 days."),
    ),
    EpisodeKind(
        "pneumonia",
        "Pneumonia",
        "SNOMED/233604007",
        "IP",
        (2, 6),
        "fever and productive cough",
        (
            "{Name} is a {age} y.o. {man} brought in with three days of fever, rigors and "
            "rust-colored "
            "sputum, with right-sided pleuritic pain.",
            "{age} y.o. {man} with cough, temperature to 102 at home and confusion noted by family "
            "this morning.",
        ),
        ("Bronchial breathing and egophony at the right base, tachypneic, warm.",),
        (
            "XR CHEST 2 VIEWS",
            "Dense airspace opacity in the right lower lobe with air "
            "bronchograms. No effusion. Heart size normal.",
        ),
        (
            "Treated with a third-generation cephalosporin plus a macrolide; defervesced by day "
            "two.",
            "Blood cultures without growth at 5 days.",
            "Ambulatory saturation above 91 % before leaving.",
        ),
        ("ceftriaxone", "azithromycin", "acetaminophen", "enoxaparin"),
        ("bmp", "cbc", "crp"),
        (("wbc", 9), ("crp", 140), ("temp", 3.4), ("spo2", -6), ("hr", 24), ("rr", 8)),
        ("Complete the antibiotic course.", "Repeat chest film in 6 weeks."),
    ),
    EpisodeKind(
        "copdex",
        "Acute exacerbation of chronic obstructive airways disease",
        "SNOMED/195951007",
        "ED",
        (1, 3),
        "wheezing and dyspnea",
        (
            "{Name}, {age} y.o. {man} with COPD, arrives after two days of wheeze and green "
            "sputum; a "
            "grandchild had a cold. Rescue inhaler every two hours without relief.",
        ),
        ("Speaking in phrases, diffuse expiratory wheeze, accessory muscle use.",),
        (
            "XR CHEST 1 VIEW",
            "Hyperinflated lungs with flattened diaphragms. No infiltrate or pneumothorax.",
        ),
        (
            "Given back-to-back nebulisers, oral steroid and a macrolide with improvement over "
            "four "
            "hours.",
        ),
        ("prednisone", "azithromycin", "albuterol"),
        ("bmp", "cbc"),
        (("spo2", -7), ("rr", 9), ("hr", 20), ("wbc", 3), ("co2", 4)),
        ("Finish the five-day steroid burst.", "See pulmonary in two weeks."),
    ),
    EpisodeKind(
        "aki",
        "Acute renal failure syndrome",
        "SNOMED/14669001",
        "IP",
        (3, 6),
        "vomiting, poor intake and low urine output",
        (
            "{Name} is a {age} y.o. {man} who could not keep food down for four days while still "
            "taking all {his} tablets, and noticed that {he} was hardly passing urine.",
        ),
        ("Dry mucous membranes, flat neck veins, no flank tenderness.",),
        (
            "US RENAL",
            "Kidneys normal in size with mildly increased cortical echogenicity. No "
            "hydronephrosis. Bladder decompressed.",
        ),
        (
            "Responded to isotonic fluids; ACE inhibitor and diuretic held and nephrotoxins "
            "avoided.",
            "Urine sodium low, sediment bland, consistent with a prerenal state.",
            "Creatinine trended down daily and had returned close to baseline at follow-up.",
        ),
        ("ondansetron",),
        ("bmp", "cbc"),
        (("egfr%", -0.58), ("bun", 42), ("k", 0.9), ("co2", -6), ("sbp", -22)),
        ("Hold the diuretic until seen.", "BMP in one week."),
    ),
    EpisodeKind(
        "gib",
        "Gastrointestinal hemorrhage",
        "SNOMED/74474003",
        "IP",
        (3, 6),
        "black stools and lightheadedness",
        (
            "{Name} is a {age} y.o. {man} with two days of tarry stool and near-fainting on "
            "standing; "
            "no hematemesis, no abdominal pain.",
        ),
        ("Pale, orthostatic by pulse, melena on rectal exam.",),
        (
            "CT ABDOMEN AND PELVIS W CONTRAST",
            "No active extravasation. Scattered colonic diverticula. No mass or free air.",
        ),
        (
            "Two units of packed cells given; acid suppression by vein.",
            "Upper endoscopy on day two; hemostasis secured and no rebleeding seen on the ward.",
        ),
        ("pantoprazole IV",),
        ("bmp", "cbc", "inr"),
        (("hgb", -5.1), ("bun", 22), ("hr", 28), ("sbp", -24)),
        ("No NSAIDs.", "CBC in 5 days.", "GI clinic in 4 weeks."),
    ),
    EpisodeKind(
        "dvt",
        "Deep venous thrombosis of lower extremity",
        "SNOMED/404223003",
        "ED",
        (1, 2),
        "calf pain and swelling",
        (
            "{Name} is a {age} y.o. {man} with four days of unilateral calf swelling after a "
            "long car "
            "journey. No chest pain or cough.",
        ),
        ("Calf 4 cm larger than the other side, tender along the deep veins, no cords.",),
        (
            "US LOWER EXTREMITY VENOUS DUPLEX",
            "Non-compressible popliteal and posterior tibial "
            "veins with absent flow augmentation. Common femoral vein patent.",
        ),
        ("Anticoagulation begun in the department; no signs of embolism.",),
        ("enoxaparin",),
        ("bmp", "cbc", "inr"),
        (("hr", 8), ("crp", 22)),
        ("Three months of anticoagulation then reassess.", "Vascular clinic in 2 weeks."),
    ),
    EpisodeKind(
        "uti",
        "Urinary tract infectious disease",
        "SNOMED/68566005",
        "ED",
        (1, 2),
        "dysuria and flank pain",
        (
            "{Name}, {age} y.o. {man}, has had burning and frequency for three days with chills "
            "since "
            "last night.",
        ),
        ("Costovertebral angle tenderness on the left, suprapubic discomfort.",),
        ("US RENAL", "No stone or hydronephrosis. Trace perinephric fluid on the left."),
        ("One dose of cephalosporin by vein, then oral therapy; pain controlled.",),
        ("ceftriaxone", "cephalexin"),
        ("bmp", "cbc"),
        (("wbc", 6), ("temp", 2.4), ("hr", 18)),
        ("Finish antibiotics.", "Return for fever or vomiting."),
    ),
    EpisodeKind(
        "mi",
        "Acute non-ST segment elevation myocardial infarction",
        "SNOMED/401314000",
        "IP",
        (3, 5),
        "chest pressure",
        (
            "{Name} is a {age} y.o. {man} with 90 minutes of crushing central chest pressure "
            "radiating "
            "to the jaw with sweating, onset while shoveling.",
        ),
        ("Diaphoretic, S4 gallop, lungs clear, no mitral murmur.",),
        ("XR CHEST 1 VIEW", "No acute cardiopulmonary process. Mediastinal width normal."),
        (
            "Heparin drip, loading of antiplatelets and angiography within 24 hours.",
            "A drug-eluting stent was placed; no access-site complication.",
            "Seen by cardiac rehab before discharge.",
        ),
        ("heparin", "aspirin", "atorvastatin"),
        ("bmp", "cbc", "trop", "lipid"),
        (("trop", 14), ("hr", 16), ("wbc", 3)),
        ("Do not stop dual antiplatelet therapy.", "Cardiac rehab referral placed."),
    ),
    EpisodeKind(
        "seizure",
        "Seizure",
        "SNOMED/91175000",
        "ED",
        (1, 2),
        "witnessed convulsion",
        (
            "{Name} is a {age} y.o. {man} with epilepsy who had a two-minute convulsion at home, "
            "witnessed by family, with a bitten tongue and twenty minutes of confusion.",
        ),
        ("Drowsy but orientable, lateral tongue laceration, no focal weakness.",),
        (
            "CT HEAD WO CONTRAST",
            "No hemorrhage, mass effect or large-territory infarct. Mild generalised volume loss.",
        ),
        ("Loaded with anticonvulsant by vein; no further events over eight hours of observation.",),
        ("levetiracetam IV",),
        ("bmp", "cbc"),
        (("wbc", 3.5), ("co2", -5), ("hr", 22)),
        ("No driving.", "Neurology in one week."),
    ),
    EpisodeKind(
        "he",
        "Hepatic encephalopathy",
        "SNOMED/13920009",
        "IP",
        (3, 6),
        "confusion",
        (
            "{Name} is a {age} y.o. {man} with cirrhosis, brought by family for two days of "
            "sleeping "
            "through the day, slurred answers and getting lost in the house.",
        ),
        ("Oriented to person only, asterixis, icteric, no focal deficit.",),
        (
            "US ABDOMEN",
            "Nodular liver contour with splenomegaly and small-volume ascites. Portal "
            "vein patent with slow flow.",
        ),
        (
            "Cleared over three days on lactulose titrated to four stools daily; diagnostic tap "
            "showed "
            "no infection.",
            "Precipitant judged to be constipation and dehydration.",
        ),
        ("lactulose",),
        ("bmp", "lft", "cbc", "inr"),
        (("bili", 1.6), ("na", -6), ("wbc", 2), ("inr", 0.3)),
        ("Aim for three soft stools a day.", "Hepatology in 2 weeks."),
    ),
    EpisodeKind(
        "wrist",
        "Closed fracture of distal end of radius",
        "LOCAL/DX-closed-fracture-of-distal-end-of-radius",
        "ED",
        (1, 1),
        "fall onto outstretched hand",
        (
            "{Name}, {age} y.o. {man}, tripped on a rug and landed on the hand. No head strike, no "
            "loss of consciousness.",
        ),
        ("Dinner-fork deformity of the wrist, fingers warm, sensation intact.",),
        (
            "XR WRIST 3 VIEWS",
            "Dorsally angulated extra-articular fracture of the distal radius. "
            "Ulnar styloid intact.",
        ),
        ("Closed reduction under hematoma block and sugar-tong splint.",),
        ("acetaminophen",),
        ("bmp",),
        (("hr", 10), ("sbp", 12)),
        ("Keep the arm elevated.", "Orthopedics in 5-7 days."),
    ),
    EpisodeKind(
        "cellulitis",
        "Cellulitis",
        "SNOMED/128045006",
        "ED",
        (1, 2),
        "red, hot leg",
        (
            "{Name}, {age} y.o. {man}, has spreading redness of the shin since yesterday after a "
            "gardening scratch.",
        ),
        ("Ten by fifteen centimeter warm, tender erythema of the shin; no crepitus.",),
        (
            "US LOWER EXTREMITY VENOUS DUPLEX",
            "No deep vein thrombosis. Subcutaneous edema of the calf.",
        ),
        ("Margins marked, first dose given by vein, improved at recheck.",),
        ("ceftriaxone", "cephalexin"),
        ("bmp", "cbc"),
        (("wbc", 5), ("crp", 70), ("temp", 1.8)),
        ("Leg elevation.", "Wound check in 48 hours."),
    ),
    EpisodeKind(
        "delivery",
        "Delivery normal",
        "SNOMED/48782003",
        "IP",
        (2, 3),
        "contractions at term",
        (
            "{Name} is a {age} y.o. multigravida at 39 weeks with gestational diabetes, "
            "admitted in labor with ruptured membranes.",
        ),
        ("Cervix 5 cm, vertex, category I tracing.",),
        (
            "US OB LIMITED",
            "Single live intrauterine gestation, cephalic. Amniotic fluid normal. "
            "Estimated fetal weight at the 71st percentile.",
        ),
        ("Uncomplicated vaginal birth of a healthy infant; sugars normal off insulin.",),
        ("acetaminophen",),
        ("cbc", "glu"),
        (("hgb", -1.6), ("wbc", 5), ("hr", 14)),
        ("Glucose tolerance test at 6 weeks.", "Postpartum visit scheduled."),
    ),
)

EPISODES: dict[str, EpisodeKind] = {kind.key: kind for kind in _ALL}

RISKS: dict[str, tuple[tuple[str, float], ...]] = {
    "hfref": (("chf", 0.9), ("aki", 0.35)),
    "t2dm": (("cellulitis", 0.3), ("uti", 0.25)),
    "ckd": (("aki", 0.5),),
    "af": (("gib", 0.3),),
    "copd": (("copdex", 0.9), ("pneumonia", 0.5)),
    "cirrhosis": (("he", 0.7), ("gib", 0.35)),
    "epilepsy": (("seizure", 0.8),),
    "breast": (("dvt", 0.3), ("cellulitis", 0.25)),
    "ra": (("pneumonia", 0.3),),
    "osteoporosis": (("wrist", 0.6),),
    "depression": (("uti", 0.15),),
    "": (("pneumonia", 0.2), ("uti", 0.2), ("cellulitis", 0.1), ("dvt", 0.08)),
}
"""Which acute illnesses a long-term condition brings, and how often one happens at least once."""
