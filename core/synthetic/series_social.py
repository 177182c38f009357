"""Series on circumstances that change: home, work, habits, burdens.

Each question is for the latest value or for the whole course.
"""

from __future__ import annotations

from core.synthetic.library import Series

SERIES = (
    Series(
        "living",
        "social",
        "social",
        (
            (
                "alone in the family home",
                "with a roommate",
                "in {his} daughter's basement",
                "in assisted living at Cedar Court",
            ),
            (
                "with two cousins",
                "in a rented studio",
                "in a duplex next to {his} sister",
                "in senior housing on Elm Street",
            ),
        ),
        (
            "Housing update {date}: {v}.",
            "{He} tells us {he} is now {v} ({date}).",
            "As of {date} {he} lives {v}.",
            "Residence asked {date}: {v}.",
        ),
        ("What is the most recent living situation?", "What is {his} current residence?"),
        (
            "Summarize how {his} living situation changed.",
            "Describe where {Name} has lived over the past years.",
        ),
        "{v} ({date})",
        "Living situation:",
        ("Smoke detectors present.",),
        "!married",
    ),
    Series(
        "exercise",
        "social",
        "social",
        (
            (
                "pool class twice a week",
                "walking 20 minutes daily",
                "stretching at home only",
                "chair yoga on Mondays",
            ),
            ("cycling to work", "gym three times a week", "gardening only", "tai chi in the park"),
        ),
        (
            "Activity as of {date}: {v}.",
            "Asked about movement ({date}), {v}.",
            "{date} lifestyle entry - {v}.",
            "Lifestyle: {v} ({date}).",
        ),
        ("What is {his} most recent exercise habit?",),
        (
            "Describe how physical activity changed over the past years.",
            "Summarize {his} exercise habits.",
        ),
        "{v} ({date})",
        "Exercise:",
        ("Pedometer lost.", "{His} {spouse} runs marathons."),
    ),
    Series(
        "work_series",
        "social",
        "social",
        (
            (
                "night shifts at a bakery",
                "light duty in the office",
                "on short-term disability",
                "laid off, seeking work",
            ),
            (
                "full time in a warehouse",
                "part time at a garden center",
                "volunteering at the library",
                "consulting from home",
            ),
        ),
        (
            "Employment on {date}: {v}.",
            "Work status {v} ({date}).",
            "{date}: {v} by {his} own account.",
            "Job situation as told on {date}: {v}.",
        ),
        ("What is {his} most recent employment situation?",),
        ("Summarize {his} employment changes.", "List the jobs or work status in order."),
        "{v} ({date})",
        "Employment:",
        ("FMLA form completed for {his} sister.",),
        "!retired <66",
    ),
    Series(
        "stress",
        "social",
        "social",
        (
            (
                "lawsuit with a landlord",
                "care of a parent with dementia",
                "death of a close friend",
                "a grandchild's custody hearing",
            ),
            (
                "bankruptcy filing",
                "a divorce in the family",
                "a house fire next door",
                "an unpaid tax bill",
            ),
        ),
        (
            "Main stressor on {date}: {v}.",
            "What weighs on {him} ({date}) is {v}.",
            "Stress named {date}: {v}.",
            "{date}, burdened by {v}.",
        ),
        ("What is the most recent life stressor?",),
        (
            "List the life stressors that {Name} named.",
            "Summarize the social burdens throughout the record.",
        ),
        "{v} ({date})",
        "Stressors:",
        ("Good humor today.",),
        specialty="Psychiatry",
    ),
    Series(
        "food",
        "social",
        "social",
        (
            (
                "skips lunch to save money",
                "food pantry on Fridays",
                "SNAP approved",
                "meals delivered five days a week",
            ),
            (
                "cooks for {himself}",
                "eats at the diner daily",
                "frozen dinners mostly",
                "shared meals at church",
            ),
        ),
        (
            "Nutrition talk {date}: {v}.",
            "Meals ({date}): {v}.",
            "{date} on eating: {v}.",
            "Diet arrangement told {date}, {v}.",
        ),
        ("What is the most recent arrangement for meals?",),
        (
            "Describe how {Name} got {his} meals over the past years.",
            "Summarize the food situation.",
        ),
        "{v} ({date})",
        "Meals:",
        ("Weight diary not brought.",),
        specialty="Nutrition",
    ),
)
