"""Series on medicines: courses elsewhere, as-needed use, short trials.

Each question is for the latest value or for the whole course.
"""

from __future__ import annotations

from core.synthetic.library import Series

SERIES = (
    Series(
        "antibiotic_courses",
        "medication",
        "hpi",
        (
            (
                "amoxicillin-clavulanate for sinusitis",
                "doxycycline for a tick bite",
                "cephalexin for an infected toe",
                "azithromycin for bronchitis",
            ),
            (
                "nitrofurantoin for a bladder infection",
                "amoxicillin for a dental abscess",
                "doxycycline for a skin boil",
                "fosfomycin for a bladder infection",
            ),
        ),
        (
            "Since the last contact an urgent care gave {him} {v}, completed.",
            "Finished {v} about two weeks ago, prescribed elsewhere.",
            "Outside provider prescribed {v}; course finished without trouble.",
            "{He} reports one course of {v} in the interval.",
        ),
        ("Which is the most recent outside antibiotic course?",),
        (
            "List the antibiotic courses that other providers gave {him}.",
            "Summarize which infections were treated with antimicrobials outside this clinic.",
        ),
        "{v} ({date})",
        "Outside antibiotic courses:",
        ("No antibiotics in the past month.", "{His} {spouse} was on antibiotics last week."),
        specialty="Infectious Diseases",
    ),
    Series(
        "prn_use",
        "medication",
        "hpi",
        (
            (
                "two tablets a week",
                "five tablets a week",
                "nine tablets a week",
                "fourteen tablets a week",
            ),
            (
                "three tablets a month",
                "six tablets a month",
                "ten tablets a month",
                "one tablet a month",
            ),
        ),
        (
            "Use of the as-needed migraine pill (rizatriptan) stands at {v}.",
            "Diary: rizatriptan consumption {v}.",
            "Headaches: {he} gets through {v} of the triptan.",
            "Counted together with {him}, the triptan comes to {v}.",
        ),
        ("What is the most recent consumption of the migraine medicine?",),
        (
            "Describe how the use of the migraine pill changed.",
            "Summarize triptan consumption over the past years.",
        ),
        "{v} ({date})",
        "Rizatriptan use:",
        ("Family members with migraine use the same pill.", "Aura denied."),
        "!cad !hfref !af",
        specialty="Neurology",
    ),
    Series(
        "side_effects",
        "medication",
        "hpi",
        (
            (
                "dizziness from a muscle relaxant (cyclobenzaprine)",
                "constipation from codeine syrup",
                "nightmares from varenicline samples",
                "a racing heart from a decongestant (pseudoephedrine)",
            ),
            (
                "itching from tramadol",
                "sleepiness from cetirizine",
                "stomach upset from doxycycline",
                "a metallic taste from clarithromycin",
            ),
        ),
        (
            "Complains of {v}; the product was dropped within the week.",
            "Brief trial elsewhere ended because of {v}.",
            "{He} adds {v} to the things {he} does not want again.",
            "Short-lived problem since the last contact: {v}.",
        ),
        ("Which is the most recent intolerance that {he} reported?",),
        (
            "List the drug side effects that {he} reported outside of the allergy field.",
            "Provide a summary of medicines that {Name} did not tolerate in short trials.",
        ),
        "{v} ({date})",
        "Reported intolerances:",
        ("No new side effects.", "Tolerating everything on the printed sheet."),
        specialty="Pharmacy",
    ),
    Series(
        "inhaled_samples",
        "medication",
        "hpi",
        (
            (
                "hydrocortisone 1 % cream",
                "triamcinolone 0.1 % ointment",
                "clobetasol 0.05 % ointment",
                "tacrolimus 0.1 % ointment",
            ),
            (
                "clotrimazole 1 % cream",
                "ketoconazole 2 % cream",
                "terbinafine tablets 250 mg",
                "ciclopirox 8 % lacquer",
            ),
        ),
        (
            "Skin: dermatology has moved {him} to {v}.",
            "For the rash {he} now uses {v}.",
            "The skin doctor's latest choice is {v}.",
            "Rash treatment is {v} at this point.",
        ),
        ("What is the most recent treatment chosen for the rash?",),
        (
            "List what has been tried on the skin, in order.",
            "Summarize the sequence of dermatology treatments.",
        ),
        "{v} ({date})",
        "Skin treatments in order:",
        ("No rash today.", "Moisturiser only on the hands."),
        specialty="Dermatology",
    ),
)
