"""Heart, metabolic, kidney and lung conditions: how they are treated, followed and written about.

Templates are filled with pronouns (``{He}``, ``{his}``, ``{Name}``) and recent values (``{a1c}``,
``{cr}``, ``{bp}`` ...). Reasons for changing a drug are written into one note only.
"""

from __future__ import annotations

from core.synthetic.model import Disease, Plan

CARDIOMETABOLIC = (
    Disease(
        "hfref",
        "Heart failure with reduced ejection fraction",
        "HFrEF",
        "SNOMED/703272007",
        "Cardiovascular Disease",
        (
            Plan(
                "lisinopril",
                0.7,
                2,
                "afterload reduction in newly recognised systolic dysfunction",
                (
                    "blood pressure still had room and the target trial dose had not been reached",
                    "home systolic readings persistently above 130",
                ),
                (
                    (
                        "a dry hacking cough that kept {him} awake and cleared within two weeks of "
                        "holding it",
                        "losartan",
                    ),
                    ("swelling of the lips and tongue after a dose, treated in urgent care", ""),
                ),
                0.5,
            ),
            Plan(
                "carvedilol",
                0.85,
                20,
                "mortality benefit now that {he} is euvolemic",
                (
                    "resting rate still in the 80s without orthostasis",
                    "tolerating the previous step for a month with no fluid gain",
                ),
                (
                    (
                        "wheeze and nocturnal dyspnea within days of the last up-titration",
                        "metoprolol succinate",
                    ),
                ),
                0.2,
            ),
            Plan(
                "furosemide",
                0.9,
                0,
                "two-pillow orthopnea and pitting edema to the shins",
                (
                    "a four-kilogram gain over ten days with return of ankle swelling",
                    "ongoing exertional dyspnea and an elevated jugular venous pressure",
                ),
                (("over-diuresis with lightheadedness and a rising urea", ""),),
                0.15,
            ),
            Plan(
                "spironolactone",
                0.6,
                150,
                "persistent class III symptoms despite the first two agents",
                (),
                (
                    ("tender breast swelling that embarrassed {him}", ""),
                    ("a serum potassium above 5.8 on two successive draws", ""),
                ),
                0.5,
            ),
            Plan(
                "digoxin",
                0.2,
                500,
                "rate control at rest with borderline blood pressure",
                (),
                (("nausea and yellow-tinged vision with a level of 2.6", ""),),
                0.5,
            ),
        ),
        ("bmp", "bnp"),
        (
            "{Name} can climb one flight before stopping, sleeps on one pillow and has held {his} "
            "weight at {wt} kg.",
            "From a volume standpoint {he} has been steady: no PND, no orthopnea, shoes still fit in "
            "the evening.",
            "NYHA class II. Walks the dog around the block; {he} avoids the hill.",
        ),
        (
            "{He} notes more breathlessness carrying groceries and has been sleeping in the recliner "
            "since last week.",
            "Weight is up by several pounds after a salty holiday weekend and the ankles are tight by "
            "noon.",
        ),
        (
            "JVP not elevated at 45 degrees. Soft S3 not appreciated today. Trace ankle edema.",
            "JVP 9 cm, no hepatojugular reflux, faint bibasilar crackles that clear with cough.",
        ),
        (
            "Chronic systolic heart failure, NYHA II, ACC stage C, appears euvolemic.",
            "HFrEF, ischemic evaluation previously done, compensated on current therapy.",
        ),
        (
            "Daily weights; call for a gain of 3 lb in a day or 5 lb in a week.",
            "2 g sodium diet reinforced, fluid limit 2 L.",
            "Recheck BMP in 1-2 weeks after any titration.",
        ),
        ("Denies PND, palpitations or syncope.",),
    ),
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
                    "glycated hemoglobin above goal after three months",
                ),
                (
                    ("filtration having fallen below 30, with concern for lactic acidosis", ""),
                    (
                        "unrelenting loose stools four to five times a day even on the extended-release "
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
                        "two episodes of sweating and confusion before lunch with meter readings in the "
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
                    "a run of high fasting readings after the winter holidays",
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
            "Checks {his} sugars most mornings; the log shows values between 110 and 150 with no lows.",
            "Diabetes has been quiet: no polyuria, no hypoglycemia, A1c {a1c} at the last draw.",
            "{He} is walking after supper and has given up regular soda.",
        ),
        (
            "Fasting readings have crept up to the 180-210 range and {he} admits to eating out most "
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
            "Kidney numbers are about where they have been, creatinine {cr} with an eGFR of {egfr}.",
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
        "af",
        "Atrial fibrillation",
        "AF",
        "SNOMED/49436004",
        "Cardiovascular Disease",
        (
            Plan(
                "warfarin",
                0.75,
                5,
                "stroke prevention with a CHA2DS2-VASc of 3 or more",
                (
                    "the last two INRs came back at 1.6 and 1.7",
                    "a run of subtherapeutic checks after {he} took up a kale smoothie habit",
                ),
                (
                    ("wildly variable clinic checks in spite of good adherence", "apixaban"),
                    ("a nosebleed that needed packing with an INR of 4.8", "apixaban"),
                ),
                0.6,
            ),
            Plan(
                "metoprolol succinate",
                0.7,
                3,
                "resting ventricular rate in the 110s",
                (
                    "Holter mean rate of 104 with exertional palpitations",
                    "rate of 118 at the nurse visit",
                ),
                (("fatigue with a resting pulse of 46", ""),),
                0.2,
            ),
        ),
        ("inr", "bmp", "cbc"),
        (
            "Palpitations are infrequent, perhaps twice a month and under five minutes.",
            "{He} cannot tell when {he} is in or out of rhythm. No bleeding or bruising.",
        ),
        (
            "More frequent fluttering over the past month, worse with wine, with one near-syncope on "
            "the stairs.",
        ),
        (
            "Irregularly irregular, rate controlled, no murmur.",
            "Irregular rhythm, variable S1, no gallop.",
        ),
        (
            "AF, rate control strategy, anticoagulated.",
            "Atrial fibrillation with adequate rate control; stroke prophylaxis continued.",
        ),
        (
            "Bleeding precautions reviewed.",
            "INR or renal function per anticoagulation protocol.",
            "Holter if symptoms increase.",
        ),
        ("Denies melena, hematuria, epistaxis.",),
    ),
    Disease(
        "cad",
        "Coronary arteriosclerosis",
        "CAD",
        "SNOMED/53741008",
        "Cardiovascular Disease",
        (
            Plan(
                "aspirin",
                0.95,
                0,
                "secondary prevention",
                (),
                (("an iron-deficient gastric ulcer found at endoscopy", "clopidogrel"),),
                0.12,
            ),
            Plan(
                "ticagrelor",
                0.5,
                4,
                "dual antiplatelet therapy after the stent",
                (),
                (
                    (
                        "a sensation of air hunger at rest that began with the first tablets",
                        "clopidogrel",
                    ),
                ),
                0.6,
            ),
            Plan(
                "atorvastatin",
                0.8,
                1,
                "high-intensity lipid lowering after the infarct",
                ("LDL still above 70 mg/dL on the fasting panel",),
                (
                    (
                        "aching thighs and a CK of 1,140 that settled after four weeks off",
                        "rosuvastatin",
                    ),
                ),
                0.4,
            ),
            Plan(
                "metoprolol succinate",
                0.5,
                3,
                "post-infarct beta-blockade",
                ("angina at the top of the stairs with a pulse of 84",),
                (),
                0,
            ),
        ),
        ("lipid", "bmp", "cbc"),
        (
            "No chest pressure with yard work; has not opened {his} nitroglycerin bottle.",
            "Completed cardiac rehab and still uses the treadmill three mornings a week.",
        ),
        (
            "Describes tightness across the chest walking into a cold wind, gone after two minutes of "
            "rest.",
        ),
        ("Regular, normal S1 S2, no S4. Radial access site well healed.",),
        ("Stable ischemic heart disease.", "CAD s/p PCI, no angina at present workload."),
        (
            "Continue antiplatelet; do not stop without calling cardiology.",
            "Fasting lipids in 6-8 weeks.",
        ),
        ("Denies chest pain at rest.",),
    ),
    Disease(
        "htn",
        "Essential hypertension",
        "HTN",
        "SNOMED/59621000",
        "Internal Medicine",
        (
            Plan(
                "lisinopril",
                0.5,
                0,
                "clinic readings of 150s over 90s on three occasions",
                ("average home reading of 146/88",),
                (("a persistent tickling cough present since the second month", "losartan"),),
                0.4,
            ),
            Plan(
                "amlodipine",
                0.55,
                300,
                "pressure above goal on one agent",
                ("cuff readings above 140 at both spring visits",),
                (("ankle swelling that left sock marks to mid-calf", "hydrochlorothiazide"),),
                0.45,
            ),
            Plan(
                "hydrochlorothiazide",
                0.25,
                500,
                "third agent for resistant readings",
                (),
                (
                    ("a sodium of 126 found during work-up of a fall", ""),
                    ("an attack of gout in the left great toe", ""),
                ),
                0.4,
            ),
        ),
        ("bmp",),
        (
            "Home cuff readings mostly in the 120s to low 130s.",
            "BP today {bp}. Takes {his} pills with breakfast.",
        ),
        ("BP {bp} in clinic and high at the pharmacy machine as well.",),
        ("No carotid bruits. Fundi not examined.",),
        ("Hypertension, {bp} today.", "HTN, reasonably controlled."),
        ("Home BP log to next visit.", "DASH diet handout given."),
        ("Denies headache or visual change.",),
    ),
    Disease(
        "hld",
        "Hyperlipidemia",
        "HLD",
        "SNOMED/55822004",
        "Internal Medicine",
        (
            Plan(
                "simvastatin",
                0.6,
                10,
                "calculated ten-year risk above 10 %",
                ("LDL of 131 after eight weeks",),
                (
                    (
                        "muscle soreness in both calves and shoulders with a CK three times the limit",
                        "ezetimibe",
                    ),
                    ("an interaction warning once amlodipine was on board", "rosuvastatin"),
                ),
                0.5,
            ),
        ),
        ("lipid", "lft"),
        (
            "Following a lower-fat diet on weekdays.",
            "No muscle complaints on {his} cholesterol treatment.",
        ),
        ("LDL back up to {ldl}; {he} let the refills lapse.",),
        ("No xanthelasma or tendon xanthomata.",),
        ("Hyperlipidemia, LDL {ldl}.",),
        ("Repeat fasting lipid panel in a year.",),
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
                ("another winter flare on the lower strength",),
                (("recurrent oral thrush and a second pneumonia", ""),),
                0.4,
            ),
        ),
        ("cbc", "bmp"),
        (
            "Breathing is at {his} usual; walks on the flat, stops once on stairs. Morning cough with "
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
                    "TSH still above range at the eight-week check",
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
        ("Thyroid not enlarged, no nodules, reflexes with normal relaxation.",),
        ("Hypothyroidism, TSH {tsh}.", "Primary hypothyroidism on replacement."),
        ("TSH in 6-8 weeks after any change, then yearly.",),
        ("Denies hoarseness or neck swelling.",),
    ),
)
