"""Facts about habits, home, work and helpers that are said once."""

from __future__ import annotations

from core.synthetic.library import Single
from core.synthetic.social import JOBS, TOWNS

_WHO = ("{his} niece Carol", "{his} brother Dean", "{his} daughter Lena", "{his} friend Marguerite",
        "{his} son Anders", "{his} cousin Tomas")  # fmt: skip

SINGLES = (
    Single(
        "quit",
        "social",
        "social",
        {
            "n": ("12", "18", "24", "31", "38", "45"),
            "h": ("with patches", "cold turkey", "after hypnosis", "with varenicline"),
        },
        (
            "Put out {his} last cigarette in {y} {h}; {n} pack-years by then.",
            "{n} pack-years in all, gave it up {h} in {y}.",
        ),
        (
            "Has {he} given up cigarettes, and in which year?",
            "Is there a record of how much {he} smoked in {his} life?",
        ),
        (
            "When did {Name} give up tobacco, and how much had {he} smoked?",
            "What is the lifetime tobacco exposure?",
        ),
        "Quit in {y} {h} after {n} pack-years.",
        ("{y}", "{n}"),
        "y",
        (
            "{His} {spouse} still smokes on the porch.",
            "Brother quit smoking in {y}.",
            "Secondhand smoke in the childhood home.",
        ),
        "smoker",
    ),
    Single(
        "job_exposure",
        "social",
        "social",
        {"j": JOBS, "n": ("8", "11", "16", "22", "27"), "t": TOWNS},
        ("Earlier life: {n} years as a {j} in {t}.", "{He} worked as a {j} in {t} for {n} years."),
        ("Does the record say what {he} did for a living before?", "Is a former occupation known?"),
        (
            "What work did {Name} do in earlier years, and for how long?",
            "How did {he} earn a living in {t}?",
        ),
        "{n} years as a {j} in {t}.",
        ("{j}", "{n}"),
        "j",
        ("{His} father was a {j}.", "Work letter given for two days."),
        ">34",
        "Occupational Medicine",
    ),
    Single(
        "proxy",
        "social",
        "social",
        {"who": _WHO, "d": ("form scanned", "form signed and witnessed", "form in the safe")},
        (
            "Health-care agent is {who}, {d} in {y}.",
            "If {he} cannot speak for {himself}, {who} decides ({d}, {y}).",
        ),
        (
            "Is there a person who may decide for {him}?",
            "Has {he} named somebody to make decisions?",
        ),
        (
            "Who would make medical decisions if {Name} lost capacity?",
            "Whom did {he} appoint as {his} surrogate?",
        ),
        "{who} ({d}, {y}).",
        ("{who}", "{y}"),
        "who",
        ("Emergency contact: {who}.", "Advance directive brochure offered."),
        "",
        "Palliative Care",
    ),
    Single(
        "caregiver",
        "social",
        "social",
        {
            "who": _WHO,
            "n": (
                "three mornings a week",
                "every evening",
                "on Tuesdays and Fridays",
                "for two hours daily",
            ),
            "w": ("to help with bathing", "to cook and clean", "to help with stairs and laundry"),
        },
        ("Help: {who} comes {n} {w}.", "At home {who} is there {n} {w}."),
        ("Does {he} get help in the house?", "Is anyone assisting {him} at home?"),
        (
            "Who helps at home, how often and with what?",
            "What kind of support in the household does {Name} receive?",
        ),
        "{who} comes {n} {w}.",
        ("{who}", "{n}"),
        "who",
        ("Home health aide discussed and declined.", "{who} lives out of state."),
    ),
    Single(
        "transport",
        "social",
        "social",
        {
            "m": (
                "the county van",
                "two buses",
                "rides from church members",
                "a bicycle",
                "a paid driver",
            ),
            "n": ("35", "50", "70", "90"),
            "why": (
                "after failing the vision test",
                "since selling the car",
                "as the license lapsed",
            ),
        },
        (
            "{He} comes by {m}, {n} minutes each way, {why}.",
            "Getting here takes {n} minutes by {m}; {he} gave up driving {why}.",
        ),
        (
            "Is getting to appointments a problem for {him}?",
            "Does {he} depend on others or public means to come here?",
        ),
        (
            "How does {Name} get to the clinic?",
            "Why does {he} no longer drive, and how does {he} travel instead?",
        ),
        "By {m}, {n} minutes each way, {why}.",
        ("{m}", "{n}"),
        "m",
        ("Valet parking voucher given.", "{His} sister drives a school bus."),
    ),
    Single(
        "alcohol",
        "social",
        "social",
        {
            "n": ("six beers", "a pint of vodka", "two bottles of wine", "ten whiskeys"),
            "p": ("a day", "every weekend"),
            "h": ("a treatment program", "a drunk-driving arrest", "an ultimatum from the family"),
        },
        (
            "At {his} worst {he} drank {n} {p}, which ended in {y} after {h}.",
            "Heavy drinking in the past ({n} {p}) until {h} in {y}.",
        ),
        ("Was alcohol ever a problem for {him}?", "Has {he} been a heavy drinker?"),
        (
            "How much did {Name} drink at the worst, and what ended it?",
            "When and why did heavy drinking stop?",
        ),
        "{n} {p} until {y}, ended after {h}.",
        ("{n}", "{y}"),
        "n",
        ("{His} brother drinks {n} {p}.", "CAGE 0/4 on the form."),
        ">24 !gdm",
        "Addiction Medicine",
    ),
    Single(
        "military",
        "social",
        "social",
        {
            "b": ("the Navy", "the Coast Guard", "the Army", "the Air Force"),
            "x": (
                "asbestos in the boiler rooms",
                "burn-pit smoke",
                "jet fuel and loud engines",
                "solvents in the motor pool",
            ),
        },
        (
            "Served in {b} until {old_y} with exposure to {x}.",
            "Veteran of {b}, left {old_y}; reports {x}.",
        ),
        ("Is {he} a veteran with an exposure?", "Did military service bring an exposure?"),
        (
            "What was {Name} exposed to in uniform?",
            "In which branch did {he} serve and with what exposure?",
        ),
        "{b} until {old_y}, exposed to {x}.",
        ("{b}", "{x}"),
        "x",
        ("{His} uncle was in {b}.", "Not enrolled with the VA pharmacy."),
        ">40",
    ),
    Single(
        "housing",
        "social",
        "social",
        {
            "w": ("{his} car", "a shelter downtown", "a friend's garage", "a weekly motel"),
            "n": ("five weeks", "four months", "most of a winter"),
        },
        (
            "{He} spent {n} living in {w} in {y} after an eviction.",
            "Lost the lease in {y}, {n} in {w}.",
        ),
        (
            "Has {he} ever been without stable housing?",
            "Was there a time when {he} had no home of {his} own?",
        ),
        (
            "Where did {Name} stay when {he} lost {his} home, and for how long?",
            "What happened to {his} housing in {y}?",
        ),
        "{n} in {w} in {y}.",
        ("{n}", "{y}"),
        "w",
        ("Rent is current; no utilities shut off.", "A nephew is homeless."),
    ),
    Single(
        "language",
        "social",
        "social",
        {
            "l": ("Tagalog", "Portuguese", "Cantonese", "Haitian Creole", "Polish"),
            "p": ("for anything written", "for bad news and consent talks", "over the phone"),
            "t": TOWNS,
        },
        (
            "Prefers {l} {p}; raised in a {l}-speaking household in {t}.",
            "First language {l}; wants it {p} ({t} upbringing).",
        ),
        (
            "Does {he} prefer a language other than English in some situations?",
            "Is another language needed for part of {his} care?",
        ),
        (
            "Which language does {Name} want, and when?",
            "In what situations should English be avoided?",
        ),
        "{l}, {p}.",
        ("{l}", "{p}"),
        "l",
        ("English at the front desk was no problem.", "Neighbor translates mail."),
    ),
    Single(
        "faith",
        "social",
        "social",
        {
            "c": (
                "the last rites by a priest if gravely ill",
                "fasting from dawn in Ramadan",
                "no pork-derived gelatin capsules",
                "an examiner of the same sex whenever possible",
            ),
            "w": ("letter on file", "told to the front desk", "written on the intake sheet"),
        },
        ("Wishes regarding belief: {c} ({w}, {y}).", "{He} asks us to respect {c}; {w} in {y}."),
        (
            "Are there religious or cultural wishes that affect treatment?",
            "Is any treatment unacceptable to {him} by faith or custom?",
        ),
        (
            "Which personal belief must be respected in treatment?",
            "What did {Name} state about faith and treatment?",
        ),
        "{c} ({w}, {y}).",
        ("{c}", "{y}"),
        "c",
        ("Chaplain visit offered.", "Prayer blanket at the bedside of a roommate."),
    ),
)
