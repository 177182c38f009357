"""Facts about illnesses and findings that are said once: old operations, imaging, pathology."""

from __future__ import annotations

from core.synthetic.library import Single

SINGLES = (
    Single(
        "appendix",
        "diagnosis",
        "pmh_text",
        {
            "op": (
                "appendectomy",
                "tonsillectomy",
                "inguinal hernia repair",
                "meniscus repair",
                "laparoscopic gallbladder removal",
            ),
            "c": (
                "a wound infection",
                "bleeding that needed a return to theater",
                "a stay in intensive care for aspiration",
                "difficult intubation",
            ),
        },
        (
            "Remote {op} ({old_y}) was complicated by {c}.",
            "{He} recalls that the {op} in {old_y} was followed by {c}.",
        ),
        (
            "Has {he} had a complication of surgery in the past?",
            "Were there problems after any old operation?",
        ),
        (
            "What went wrong after the {op}?",
            "Which complication followed {his} operation in {old_y}?",
        ),
        "The {op} in {old_y} was complicated by {c}.",
        ("{op}", "{c}"),
        "c",
        (
            "Denies anesthetic problems with dental work.",
            "{His} brother had {c} after an operation.",
        ),
        ">32",
        "Surgery",
    ),
    Single(
        "nodule",
        "diagnosis",
        "hpi",
        {
            "v": ("4 mm", "6 mm", "7 mm", "9 mm"),
            "l": ("left upper lobe", "lingula", "right middle lobe", "left lower lobe"),
        },
        (
            "Incidental on a trauma scan elsewhere in {y}: {v} solid nodule of the {l}.",
            "An outside chest CT in {y} had picked up a {v} nodule in the {l}.",
        ),
        ("Was anything ever seen by chance on lung imaging?", "Is there a known pulmonary nodule?"),
        (
            "How large was the spot found on the lung, and where is it?",
            "What incidental chest finding came from the outside CT in {y}?",
        ),
        "A {v} nodule in the {l}, seen in {y}.",
        ("{v}", "{l}"),
        "v",
        (
            "Thyroid nodule denied.",
            "Chest film without nodule or mass.",
            "{His} mother has a lung nodule under surveillance.",
        ),
        ">35 !gdm",
        "Pulmonary Disease",
    ),
    Single(
        "adrenal",
        "diagnosis",
        "hpi",
        {
            "v": ("1.4 cm", "1.8 cm", "2.2 cm", "2.7 cm"),
            "o": (
                "left adrenal adenoma",
                "right adrenal adenoma",
                "right renal angiomyolipoma",
                "splenic artery aneurysm",
            ),
        },
        (
            "Review of the {y} CT from another hospital: {v} {o}, stable in their comparison.",
            "Another hospital's CT ({y}) describes a {v} {o}.",
        ),
        (
            "Is there an incidental abdominal finding under watch?",
            "Has cross-sectional imaging elsewhere found anything unexpected in the belly?",
        ),
        (
            "What did the other hospital's abdominal scan find, and of what size?",
            "How big is the incidental abdominal lesion?",
        ),
        "A {v} {o} on the {y} CT.",
        ("{v}", "{o}"),
        "v",
        ("No abdominal mass palpable.", "Simple renal cysts are of no concern."),
        ">35 !gdm",
        "Radiology",
    ),
    Single(
        "biopsy",
        "diagnosis",
        "hpi",
        {
            "d": (
                "basal cell carcinoma, completely excised",
                "dysplastic nevus with moderate atypia",
                "squamous cell carcinoma in situ",
                "lichen planus",
                "lentigo maligna",
            ),
            "s": ("left temple", "right calf", "upper back", "nose tip"),
        },
        (
            "Skin sample of the {s} from {y} came back as {d}.",
            "Dermatology pathology, {s}, {y}: {d}.",
        ),
        (
            "Has {he} ever had a skin lesion examined under the microscope?",
            "Was a skin biopsy abnormal?",
        ),
        (
            "What did the pathologist say about the lesion of the {s}?",
            "What was the result of the skin biopsy in {y}?",
        ),
        "The {s} lesion ({y}) was {d}.",
        ("{d}", "{s}"),
        "d",
        (
            "Full skin check: seborrheic keratoses only.",
            "Father had melanoma; {he} has had no {d}.",
        ),
        ">28",
        "Dermatology",
    ),
    Single(
        "sleep",
        "diagnosis",
        "hpi",
        {
            "v": ("11", "18", "27", "34", "46"),
            "w": ("at a hotel lab", "with a home monitor", "at the Lakeside sleep center"),
        },
        (
            "The sleep study of {y} {w} counted {v} apneas and hypopneas an hour.",
            "Apnea-hypopnea index was {v} in {y}, recorded {w}.",
        ),
        (
            "Does {he} have sleep-disordered breathing by a formal study?",
            "Was {Name} ever tested for stopping to breathe at night?",
        ),
        (
            "How severe was sleep apnea by its index?",
            "What did overnight breathing monitoring in {y} find?",
        ),
        "The apnea-hypopnea index was {v} per hour in {y}.",
        ("{v}", "{y}"),
        "v",
        ("Snoring denied by bed partner.", "STOP-BANG 2 in preop clinic."),
        ">30 !gdm",
        "Sleep Medicine",
    ),
    Single(
        "childhood",
        "diagnosis",
        "pmh_text",
        {
            "d": (
                "rheumatic fever",
                "bacterial meningitis",
                "Kawasaki disease",
                "nephrotic syndrome",
                "poliomyelitis without paralysis",
            ),
            "r": ("a month in hospital", "no known sequelae", "a year of school missed"),
        },
        (
            "As a child of {child_age} {he} had {d}, with {r}.",
            "Childhood: {d} at {child_age}, {r}.",
        ),
        ("Was there a serious illness in childhood?", "Has {he} had a major pediatric illness?"),
        (
            "Which serious illness did {Name} have as a child, and at what age?",
            "What was the childhood illness that is on record?",
        ),
        "{d} at the age of {child_age}, with {r}.",
        ("{d}", "{child_age}"),
        "d",
        ("Usual childhood illnesses, immunised.", "{His} cousin had {d} as a baby."),
    ),
    Single(
        "head_injury",
        "diagnosis",
        "hpi",
        {
            "m": ("a horseback fall", "a bicycle crash", "a fall from a ladder", "a car rollover"),
            "i": (
                "a small subdural hematoma",
                "a linear parietal skull fracture",
                "three days of amnesia",
                "loss of smell",
            ),
        },
        ("In {y} {m} left {him} with {i}.", "Trauma: {m} in {y}, {i}."),
        ("Has there been a significant head injury?", "Did {he} ever injure {his} head?"),
        (
            "What was the mechanism and the result of {his} head injury?",
            "What did {Name} sustain in {y} by trauma to the head?",
        ),
        "In {y}, {m} caused {i}.",
        ("{m}", "{i}"),
        "i",
        ("No head strike with the recent stumble.", "Denies concussion in sports."),
        specialty="Neurology",
    ),
    Single(
        "retina",
        "diagnosis",
        "results_text",
        {
            "d": (
                "mild non-proliferative retinopathy, left eye",
                "moderate non-proliferative retinopathy, both eyes",
                "macular edema, right eye",
            ),
            "w": ("Dr. Ferrante", "the Vista eye group", "Dr. Moy"),
        },
        ("Letter from {w}, {y}: {d}.", "Eye report from {w} received ({y}): {d}."),
        (
            "Has diabetes affected {his} eyes according to the specialist?",
            "Is there a report about the back of the eye?",
        ),
        ("What did {w} find on the dilated exam?", "What was the state of the retina in {y}?"),
        "{w} ({y}) found {d}.",
        ("{d}", "{w}"),
        "d",
        ("Eye exam overdue, referred.", "{His} mother went blind from {d}."),
        "t2dm",
        "Ophthalmology",
    ),
    Single(
        "echo_valve",
        "diagnosis",
        "results_text",
        {
            "v": (
                "moderate mitral regurgitation",
                "mild aortic stenosis with a peak gradient of 19 mmHg",
                "severe tricuspid regurgitation",
                "bicuspid aortic valve",
            ),
            "w": ("Mercy Heart Institute", "the VA", "a community hospital in Reno"),
        },
        (
            "Outside echocardiogram ({w}, {y}) mentions {v}.",
            "Records of {w}: valve study of {y} with {v}.",
        ),
        ("Is a heart valve abnormal by outside records?", "Was valve disease ever described?"),
        (
            "Which valve problem did {w} describe?",
            "What did the {y} heart ultrasound say about the valves?",
        ),
        "{v} on the {y} study at {w}.",
        ("{v}", "{w}"),
        "v",
        ("No murmur heard.", "Father had a valve replaced at 70."),
        ">38",
        "Cardiovascular Disease",
    ),
    Single(
        "preg_loss",
        "diagnosis",
        "pmh_text",
        {
            "d": (
                "a stillbirth at 31 weeks",
                "an ectopic pregnancy treated with methotrexate",
                "preeclampsia at 34 weeks",
                "postpartum hemorrhage with transfusion",
            )
        },
        ("Obstetric past includes {d} in {y}.", "Prior pregnancy ({y}): {d}."),
        ("Has {he} had an obstetric complication?", "Were earlier pregnancies complicated?"),
        ("What happened in the pregnancy of {y}?", "Which obstetric complication is on record?"),
        "{d} in {y}.",
        ("{d}", "{y}"),
        "d",
        ("{His} sister had {d}.", "Contraception not discussed."),
        "F <46 >24",
        "Obstetrics and Gynecology",
    ),
)
