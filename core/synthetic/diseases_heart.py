"""Heart and vessel conditions: how they are treated, followed and written about.

Templates are filled with pronouns (``{He}``, ``{his}``, ``{Name}``) and recent values (``{a1c}``,
``{cr}``, ``{bp}`` ...). Reasons for changing a drug are written into one note only.
"""

from __future__ import annotations

from core.synthetic.model import Disease, Plan

HEART = (
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
                        "a dry hacking cough that kept {him} awake at night",
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
                    "tolerating the previous step with no fluid gain",
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
            "From a volume standpoint {he} has been steady: no PND, no orthopnea, shoes still "
            "fit in "
            "the evening.",
            "NYHA class II. Walks the dog around the block; {he} avoids the hill.",
        ),
        (
            "{He} notes more breathlessness carrying groceries and has been sleeping in the "
            "recliner "
            "since last week.",
            "Weight is up by several pounds after a salty holiday weekend and the ankles are "
            "tight by "
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
        "af",
        "Atrial fibrillation",
        "AF",
        "SNOMED/49436004",
        "Cardiovascular Disease",
        (
            Plan(
                "warfarin",
                0.9,
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
                "apixaban",
                1.0,
                4,
                "stroke prevention without the need for clotting checks",
                (),
                (("bleeding gums and a hematuria that cleared off the drug", ""),),
                0.12,
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
            "More frequent fluttering over the past month, worse with wine, with one "
            "near-syncope on "
            "the stairs.",
        ),
        (
            "Irregularly irregular, rate controlled, no murmur.",
            "Irregular rhythm, variable S1, no gallop.",
        ),
        (
            "AF, rate control strategy.",
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
                (("a bleeding gastric ulcer found at endoscopy", "clopidogrel"),),
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
                        "aching thighs with a CK of 1,140",
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
            "Describes tightness across the chest walking into a cold wind, gone after two "
            "minutes of "
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
                ("cuff readings above 140 at two nurse visits",),
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
        ("Hypertension, {bp} today.", "HTN, {bp} in the room."),
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
                ("a repeat LDL of 131",),
                (
                    (
                        "muscle soreness in both calves and shoulders with a CK three times the "
                        "limit",
                        "ezetimibe",
                    ),
                    ("an interaction warning from the pharmacy", "rosuvastatin"),
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
)
