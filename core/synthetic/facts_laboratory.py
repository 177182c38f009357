"""Facts about tests that are said once in a note: outside values, serology, cultures, genes."""

from __future__ import annotations

from core.synthetic.library import Single

SINGLES = (
    Single(
        "ferritin",
        "laboratory",
        "results_text",
        {
            "v": ("7", "9", "12", "412", "610"),
            "w": ("the urgent-care lab", "a life-insurance physical", "the plasma center"),
        },
        (
            "Iron stores were checked at {w} in {y}: ferritin {v} ng/mL.",
            "Brought a printout from {w} ({y}) with a ferritin of {v} ng/mL.",
        ),
        (
            "Was an abnormal iron-store result ever brought in from outside?",
            "Has {his} ferritin been checked by anybody else?",
        ),
        (
            "What did the iron stores measure on the printout from {w}?",
            "How much ferritin was found at {w}?",
        ),
        "Ferritin {v} ng/mL at {w} in {y}.",
        ("{v}", "ferritin"),
        "v",
        ("Iron panel not sent today.", "{His} sister's ferritin was {v} ng/mL."),
        specialty="Hematology",
    ),
    Single(
        "hepb",
        "laboratory",
        "results_text",
        {
            "v": (
                "surface antibody 4 mIU/mL, not immune",
                "surface antibody 212 mIU/mL, immune",
                "core antibody positive, surface antigen negative",
                "surface antigen positive with low viral load",
            )
        },
        (
            "Occupational-health titers of {y}, hepatitis B: {v}.",
            "Hepatitis B serology from the blood bank ({y}): {v}.",
        ),
        (
            "Is {his} hepatitis B status on record?",
            "Was hepatitis B testing done by another party?",
        ),
        ("What is known of hepatitis B serology?", "What did the {y} titers mean for hepatitis B?"),
        "Hepatitis B in {y}: {v}.",
        ("{v}", "{y}"),
        "v",
        ("Hepatitis C antibody negative.", "HIV screen nonreactive, 4th generation."),
        specialty="Infectious Diseases",
    ),
    Single(
        "factor",
        "laboratory",
        "results_text",
        {
            "v": (
                "heterozygous factor V Leiden",
                "prothrombin G20210A, heterozygous",
                "protein S activity of 38 %",
                "a lupus anticoagulant, confirmed twice",
                "alpha-1 antitrypsin PiMZ",
                "hemochromatosis C282Y, one copy",
            )
        },
        (
            "A blood test at the university in {y} showed {v}.",
            "From the {y} university work-up: {v}.",
        ),
        (
            "Does {he} carry an inherited or acquired trait by blood testing?",
            "Has a special blood work-up been positive?",
        ),
        (
            "Which trait was found by the university work-up?",
            "What did the specialised blood test of {y} show?",
        ),
        "{v}, found in {y}.",
        ("{v}", "{y}"),
        "v",
        ("{His} cousin carries {v}.", "Karyotype never done."),
        specialty="Hematology",
    ),
    Single(
        "urine_cx",
        "laboratory",
        "results_text",
        {
            "v": (
                "Klebsiella pneumoniae resistant to ampicillin",
                "Escherichia coli producing extended-spectrum beta-lactamase",
                "Enterococcus faecalis, ampicillin susceptible",
                "Proteus mirabilis",
                "Pseudomonas aeruginosa",
            ),
            "n": ("over 100,000 colonies", "60,000 colonies", "80,000 colonies"),
        },
        (
            "Urine sent from the travel clinic in {y} had grown {v}, {n}.",
            "The {y} outside urine grew {v} ({n}).",
        ),
        (
            "Has a resistant or unusual germ ever grown from {his} urine?",
            "Was there ever a positive outside urine culture?",
        ),
        (
            "Which organism grew from the outside specimen in {y}?",
            "What grew in the urine at the other clinic?",
        ),
        "{v}, {n}, in {y}.",
        ("{v}", "{n}"),
        "v",
        ("Urine dip clean today.", "Roommate treated for {v}."),
        specialty="Infectious Diseases",
    ),
    Single(
        "vitd",
        "laboratory",
        "results_text",
        {
            "v": ("9", "13", "17", "22"),
            "w": ("the employer's wellness screen", "a research study", "the chiropractor's lab"),
        },
        (
            "25-hydroxy vitamin D from {w} ({y}) was {v} ng/mL.",
            "Vitamin D (25-OH) in {y} by {w}: {v} ng/mL.",
        ),
        (
            "Was a low vitamin level ever found elsewhere?",
            "Is there an outside 25-hydroxy measurement?",
        ),
        ("How low was vitamin D at {w}?", "What was the vitamin D level in {y}?"),
        "25-OH vitamin D {v} ng/mL ({w}, {y}).",
        ("{v}", "{y}"),
        "v",
        ("B12 412 on the same sheet.", "Takes no vitamin D."),
    ),
    Single(
        "blood_type",
        "laboratory",
        "pmh_text",
        {"v": ("anti-Kell", "anti-E", "anti-Jka", "anti-c")},
        (
            "The donor center wrote in {y} that {his} serum contains {v} antibody.",
            "Blood bank card from {y}: {v} antibody, needs antigen-negative units.",
        ),
        (
            "Does {he} have an antibody that matters for transfusion?",
            "Is there a red-cell antibody on record?",
        ),
        (
            "Which antibody makes cross-matching hard?",
            "What did the donor center find in {his} serum?",
        ),
        "{v}, reported in {y}.",
        ("{v}", "{y}"),
        "v",
        ("No transfusion reaction.", "Type and screen expired."),
        specialty="Hematology",
    ),
    Single(
        "hpylori",
        "laboratory",
        "results_text",
        {
            "v": (
                "positive breath test",
                "positive stool antigen",
                "negative breath test after eradication",
            ),
            "t": ("fourteen days of quadruple therapy", "triple therapy", "bismuth-based therapy"),
        },
        (
            "Helicobacter: {v} in {y}, the letter adds {t}.",
            "GI letter {y}, Helicobacter pylori with {v}; {t}.",
        ),
        ("Was the stomach bacterium ever tested for?", "Has Helicobacter been looked for?"),
        ("How was H. pylori tested and treated?", "Which Helicobacter result is on file?"),
        "H. pylori: {v} in {y}, {t}.",
        ("{v}", "{t}"),
        "t",
        ("Celiac serology negative.", "{His} {spouse} was treated for Helicobacter."),
        ">25",
        "Gastroenterology",
    ),
    Single(
        "tb",
        "laboratory",
        "results_text",
        {
            "v": (
                "interferon-gamma release assay positive",
                "indeterminate interferon-gamma release assay",
                "tuberculin skin test of 14 mm",
            ),
            "t": ("nine months of isoniazid", "four months of rifampin", "no treatment"),
        },
        ("Before a volunteer job in {y}: {v}, then {t}.", "TB screening {y}: {v}; received {t}."),
        (
            "Was {he} ever positive on latent tuberculosis screening?",
            "Is there evidence of prior TB exposure?",
        ),
        (
            "What was the tuberculosis screen, and what treatment followed?",
            "Which TB test result is recorded from {y}?",
        ),
        "{v} in {y}, {t}.",
        ("{v}", "{t}"),
        "t",
        ("Chest film without granuloma.", "Uncle had TB in the army."),
        "!gdm >24",
        "Infectious Diseases",
    ),
    Single(
        "baseline_cr",
        "laboratory",
        "hpi",
        {
            "v": ("1.05", "1.12", "1.21", "1.28"),
            "w": ("the VA", "Dr. Haldane's office", "the dialysis educator"),
        },
        (
            "According to {w} {his} usual creatinine before this decline was {v} ({y}).",
            "Old charts from {w}: resting creatinine {v} in {y}.",
        ),
        (
            "Is {his} usual kidney number known from before?",
            "Was a baseline for renal function documented elsewhere?",
        ),
        (
            "What was the baseline kidney function before the decline?",
            "What did {w} give as the usual creatinine?",
        ),
        "Creatinine {v} mg/dL in {y}, by {w}.",
        ("{v}", "{y}"),
        "v",
        ("Kidney stone denied.", "Brother's creatinine is {v}."),
        "ckd",
        "Nephrology",
    ),
    Single(
        "ana",
        "laboratory",
        "results_text",
        {"v": ("1:160 speckled", "1:320 homogeneous", "1:640 centromere", "1:80 nucleolar")},
        (
            "ANA elsewhere in {y}: {v}, other antibodies negative.",
            "Previous rheumatology packet ({y}) holds an ANA of {v}.",
        ),
        (
            "Has an antinuclear antibody ever been positive?",
            "Was autoimmune serology ever abnormal elsewhere?",
        ),
        ("At which titer was the antinuclear antibody found?", "What was the ANA in {y}?"),
        "ANA {v} in {y}.",
        ("{v}", "{y}"),
        "v",
        ("Rheumatoid factor pending.", "No sicca symptoms."),
        "",
        "Rheumatology",
    ),
)
