"""Facts about medicines that are said once: reactions, remedies, injections, who handles them."""

from __future__ import annotations

from core.synthetic.library import Single

SINGLES = (
    Single(
        "contrast",
        "medication",
        "allergy",
        {
            "r": (
                "wheals over the trunk",
                "throat tightness that needed epinephrine",
                "a flushed, itchy rash",
                "vomiting and a brief drop in pressure",
            ),
            "exam": ("an abdominal CT", "a coronary CT", "a pulmonary angiogram CT"),
        },
        (
            "Of note, iodinated dye given for {exam} in {y} brought on {r}.",
            "After {exam} in {y} {he} developed {r} within minutes of the dye.",
        ),
        (
            "Has {Name} ever reacted badly to the contrast used in scans?",
            "Is there any record of trouble with X-ray dye?",
        ),
        (
            "What happened when {he} was given contrast for {exam}?",
            "How did {Name} react to the dye used in radiology?",
        ),
        "Iodinated contrast in {y} caused {r}.",
        ("{r}", "{y}"),
        "r",
        (
            "No reaction to gadolinium at any MRI.",
            "{His} sister gets {r} from seafood; {he} eats shrimp without trouble.",
        ),
        specialty="Radiology",
    ),
    Single(
        "antibiotic_reaction",
        "medication",
        "allergy",
        {
            "r": (
                "blistering of the lips",
                "a fever with a measles-like rash on day eight",
                "facial swelling",
                "profuse watery diarrhea and belly cramps",
            ),
            "d": ("clindamycin", "levofloxacin", "cefuroxime", "nitrofurantoin"),
        },
        (
            "{He} mentions that {d}, taken in {y}, gave {him} {r}.",
            "A course of {d} in {y} had to be cut short for {r}.",
        ),
        (
            "Did {he} ever have a bad reaction to an antibiotic?",
            "Has an antimicrobial ever had to be cut short because of a reaction?",
        ),
        (
            "Which antimicrobial caused trouble in the past, and what did it do?",
            "What was the reaction to {d}?",
        ),
        "{d} taken in {y} caused {r}.",
        ("{d}", "{r}"),
        "r",
        (
            "Tolerated amoxicillin without {r} on two occasions.",
            "{His} son had {r} from an antibiotic; {he} has not been tested.",
        ),
        specialty="Infectious Diseases",
    ),
    Single(
        "herbal",
        "medication",
        "hpi",
        {
            "d": (
                "St. John's wort capsules",
                "turmeric 1,000 mg capsules",
                "a kava root tea",
                "ginkgo 120 mg tablets",
                "red yeast rice",
                "black cohosh drops",
            ),
            "w": ("from a health-food shop", "ordered online", "that a neighbor recommended"),
        },
        (
            "On direct questioning {he} admits to {d} {w} since {y}.",
            "Not on our list: {d} {w}, which {he} has used since {y}.",
        ),
        (
            "Does {he} take any supplement that is missing from the reconciled medicines?",
            "Is {Name} using herbal or natural products?",
        ),
        (
            "Which non-prescription remedy does {Name} use, and since when?",
            "What does {he} take that did not come from a prescriber?",
        ),
        "{He} uses {d}, since {y}.",
        ("{d}", "{y}"),
        "d",
        (
            "Denies {d}; {his} sister swears by it.",
            "Vitamin use discussed: a multivitamin on most days, no {d}.",
        ),
        specialty="Pharmacy",
    ),
    Single(
        "otc_pain",
        "medication",
        "hpi",
        {
            "d": (
                "naproxen 220 mg",
                "ibuprofen 400 mg",
                "aspirin-caffeine powders",
                "ketoprofen gel",
            ),
            "n": (
                "four tablets on most days",
                "two doses every evening",
                "six doses a week",
                "up to eight doses on bad days",
            ),
            "w": ("for the back", "for knee pain", "for headaches"),
        },
        (
            "{He} has been treating {himself} with {d} bought without prescription, {n}, {w}.",
            "Buys {d} at the supermarket {w} and reckons on {n}.",
        ),
        (
            "Is {he} using any over-the-counter anti-inflammatory?",
            "Does {Name} self-treat pain with drugstore products?",
        ),
        (
            "How much of which pain reliever does {he} buy without a prescription?",
            "What does {Name} use on {his} own for pain, and how often?",
        ),
        "{d} without prescription, {n}, {w}.",
        ("{d}", "{n}"),
        "n",
        (
            "NSAIDs were advised against; {he} says {he} has not had any since.",
            "{His} {spouse} takes {d} for arthritis.",
        ),
    ),
    Single(
        "steroid_knee",
        "medication",
        "hpi",
        {
            "d": ("triamcinolone 40 mg", "methylprednisolone 80 mg", "betamethasone 6 mg"),
            "s": ("left knee", "right shoulder", "right knee", "left hip bursa"),
            "r": ("eight weeks of relief", "no benefit at all", "four months of comfort"),
        },
        (
            "The {s} was injected with {d} in {y}, with {r}.",
            "Orthopedics put {d} into the {s} in {y}; {r} by {his} account.",
        ),
        (
            "Was a joint ever injected with a corticosteroid?",
            "Has {he} had a shot into a joint, and did it help?",
        ),
        (
            "What was injected into the {s}, and how long did it help?",
            "Which joint was injected, with what effect?",
        ),
        "The {s} was injected with {d} in {y}, with {r}.",
        ("{d}", "{r}"),
        "d",
        (
            "Declined an injection to the other side.",
            "Considering viscosupplementation; no steroid given today.",
        ),
        "!gdm",
        specialty="Orthopedics",
    ),
    Single(
        "vaccine",
        "medication",
        "hpi",
        {
            "d": (
                "recombinant zoster vaccine, second dose",
                "pneumococcal 23-valent vaccine",
                "tetanus-diphtheria-pertussis booster",
                "hepatitis B series, third dose",
            ),
            "w": (
                "at the county clinic",
                "at a supermarket pharmacy",
                "while visiting family in Oregon",
            ),
        },
        (
            "Outside immunisation: {d}, given in {y} {w}.",
            "{He} shows a card for {d}, received {w} in {y}.",
        ),
        ("Has {he} had the {d}?", "Did {Name} complete the {d} anywhere?"),
        ("Where and when was the {d} given?", "In what year did {Name} receive the {d}?"),
        "The {d} was given in {y} {w}.",
        ("{d}", "{y}"),
        "y",
        (
            "Vaccine registry queried; no entry for {d} in this state.",
            "Influenza vaccine given in the fall as usual.",
        ),
    ),
    Single(
        "pharmacist",
        "medication",
        "social",
        {
            "who": (
                "{his} daughter",
                "a visiting nurse",
                "{his} neighbor Joan",
                "{his} brother",
                "the pharmacy in blister packs",
            ),
            "n": ("every Sunday", "twice a month", "once a week", "every other Thursday"),
        },
        (
            "Pill boxes are filled by {who} {n}; {he} does not open the bottles.",
            "Tablets are set out by {who} {n}.",
        ),
        (
            "Does {he} have help with setting up tablets?",
            "Is somebody else preparing {his} medicines?",
        ),
        (
            "Who sets out the tablets, and how often?",
            "Who is in charge of filling the pill organizer?",
        ),
        "{who} fills the pill box {n}.",
        ("{who}", "{n}"),
        "who",
        ("Uses one pharmacy for everything.", "{He} remembers evening doses less well."),
        specialty="Pharmacy",
    ),
    Single(
        "sleep_otc",
        "medication",
        "hpi",
        {
            "d": (
                "diphenhydramine 50 mg",
                "doxylamine 25 mg",
                "melatonin 10 mg",
                "valerian 450 mg",
            ),
            "n": ("every night", "four nights out of seven", "only on Sunday nights"),
        },
        (
            "For sleep {he} relies on {d} {n}, which nobody had asked about before.",
            "Takes {d} {n} to fall asleep, bought at the drugstore.",
        ),
        (
            "Does {he} take anything at home for sleep that was not prescribed?",
            "Is {Name} using a drugstore sleep aid?",
        ),
        (
            "Which sleep aid does {he} buy, and how often is it used?",
            "What is {his} non-prescribed remedy for insomnia?",
        ),
        "{d}, {n}.",
        ("{d}", "{n}"),
        "d",
        ("Sleep hygiene handout given.", "Denies {d} and alcohol at bedtime."),
        "!gdm",
    ),
    Single(
        "enox_dose",
        "medication",
        "hpi",
        {
            "d": (
                "60 mg every 12 hours",
                "80 mg every 12 hours",
                "90 mg every 12 hours",
                "40 mg once daily",
            ),
            "why": (
                "knee arthroscopy",
                "hernia repair",
                "dental extractions",
                "cataract surgery",
                "a hip pinning",
            ),
        },
        (
            "Around {his} {why} in {y} {he} self-injected low-molecular-weight heparin {d}.",
            "For {why} in {y}, shots of Lovenox {d} were used.",
        ),
        (
            "Has {he} ever given {himself} blood-thinner shots around an operation?",
            "Was injectable anticoagulation used around the {why}?",
        ),
        (
            "What injection regimen against clots was used around the {why}?",
            "How was clotting prevented when {he} had {why}?",
        ),
        "Enoxaparin (Lovenox) {d} around {why} in {y}.",
        ("{d}", "{why}"),
        "d",
        (
            "Compression stockings only for the flight.",
            "{His} {spouse} was on blood-thinner shots after a leg fracture.",
        ),
        "!gdm >25",
        specialty="Hematology",
    ),
)
