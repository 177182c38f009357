"""The long passages of real notes: background of each problem, maintenance, counselling, templates.

They carry little and take much room, which is what makes a single sentence hard to find.
"""

from __future__ import annotations

from datetime import datetime

from core.synthetic.diseases import DISEASES
from core.synthetic.drugs import DRUGS
from core.synthetic.labs import spoken
from core.synthetic.model import Block, Piece
from core.synthetic.notes_parts import EXAM, Writer, day, fitting, some
from core.synthetic.patient import chance, pick
from core.synthetic.trajectory import active

_COUNSEL = (
    "Spent over half of the visit on education and coordination of care.",
    "Reviewed what each medicine is for and which ones must not be missed.",
    "Asked to bring all bottles, including vitamins, to every appointment.",
    "Warning signs that should prompt a call or a trip to the emergency room were gone over.",
    "Encouraged a plate that is half vegetables and to read labels for sodium.",
    "Discussed sleep, sun protection, seat belts and dental care.",
    "Immunisation record compared with the registry.",
    "Given the patient portal code; prefers letters for normal results.",
    "Teach-back was used and understanding confirmed.",
    "Goals of the next six months were written down together.",
    "Costs were discussed and generics chosen where possible.",
    "Advised against starting anything over the counter without asking first.",
)
_MAINTENANCE = (
    "Influenza vaccine: each fall", "Tetanus booster: per registry", "Lipid screening: done",
    "Hepatitis C screening: per birth cohort", "Depression screen: see flowsheet",
    "Fall risk: reviewed at rooming", "Dental: twice a year advised", "Skin: self-checks taught",
    "Hearing: whisper test passed", "Advance care planning: ask at each annual visit",
    "Eye care: yearly advised", "Tobacco: see social history",
)  # fmt: skip
_SYSTEMS = (
    "Gen: no unexplained weight loss, appetite fair, no night sweats.",
    "HEENT: no new headache, no tinnitus, no sinus drainage, no trouble swallowing.",
    "CV: no palpitations beyond those described, no claudication, no presyncope on standing.",
    "Pulm: no pleuritic pain, no new cough, no nocturnal wheeze beyond that described.",
    "GI: no early satiety, no constipation lasting over three days, no jaundice.",
    "GU: no urgency, no nocturia more than twice, no stones known.",
    "MSK: no back pain at night, no new deformity, no muscle cramps.",
    "Neuro: no tremor, no numbness of the face, no trouble finding words.",
    "Endo: no heat intolerance, no excessive thirst.",
    "Heme/Lymph: no lumps in neck, armpit or groin, no bleeding gums.",
    "Allergy/Immune: no hay fever this season, no recurrent infections.",
    "Derm: no itching, no nonhealing sores, nails unchanged.",
)
EXAM_LONG = (
    "Constitutional: well nourished, in no acute distress, sits up unaided.",
    "Eyes: pupils equal and reactive, extraocular movements full, conjunctivae pink.",
    "Ears/Nose/Throat: canals clear, membranes pearly, nasal mucosa not swollen, dentition fair.",
    "Neck: trachea midline, no bruit, no jugular distension beyond that stated.",
    "Chest: symmetric expansion, no tenderness over the ribs, percussion note as expected.",
    "Cardiovascular: apex not displaced, no heave, peripheral pulses palpable in all four limbs.",
    "Abdomen: bowel sounds present, no rebound, no hernia on coughing, no pulsatile mass.",
    "Lymphatic: no cervical, axillary or inguinal nodes enlarged.",
    "Musculoskeletal: full range of the large joints other than as described, normal stance.",
    "Neurologic: strength 5/5 in deltoids, grip, hip flexors and ankles; sensation as described.",
    "Reflexes: biceps and knee jerks symmetric, plantar responses flexor.",
    "Skin: warm and dry, turgor normal, no ecchymosis over the trunk.",
    "Psychiatric: oriented to person, place and date; insight and judgment intact.",
)
_COURSE = (
    "First recognised in {year}; care has been shared with {specialty} since then.",
    "On the problem list since {year}. Course has had better and worse stretches.",
    "Known since {year}, initially followed elsewhere.",
    "Diagnosed {year}. Prior records were summarised in the scanned documents.",
)
_FAMILY = (
    "There is a relative with the same condition, see family history.",
    "Does not recall anyone in the family with this.",
    "Family members ask about inheritance at times.",
)


def background(w: Writer, when: datetime, most: int) -> list[Piece]:
    """A paragraph on each long-term problem: since when, and what it is treated with.

    It is written as authors do from the list at hand, so it may name drugs of the last update.
    """
    pieces: list[Piece] = []
    for key in active(w.p, when)[:most]:
        disease, year = DISEASES[key], w.p.diseases[key].year
        frame = pick(w.rng, _COURSE)
        text = frame.format(year=year, specialty=disease.specialty)
        pieces.append(Piece(f"{disease.short[0].upper() + disease.short[1:]}: {text}"))
        at = w.list_when if w.list_when is not None and chance(w.rng, 0.5) else when
        drugs = [c.drug for c in w.p.courses if c.disease == key and c.dose_at(at) is not None]
        if drugs:
            names = [DRUGS[d].brand if chance(w.rng, 0.4) else d for d in drugs]
            pieces.append(Piece("Treated with " + ", ".join(names) + "."))
        if chance(w.rng, 0.4):
            pieces.append(Piece(pick(w.rng, _FAMILY)))
    return pieces


def history_of_values(w: Writer, when: datetime) -> list[Piece]:
    """Old values drawn into the note as a flowsheet, which is where stale numbers come from."""
    lines: list[Piece] = []
    for key, label in (("wt", "Weight"), ("sbp", "Systolic"), ("cr", "Cr"), ("hgb", "Hgb")):
        rows = [row for row in w.readings.get(key, []) if row[0] < when]
        chosen = rows[-40::10] if len(rows) > 12 else rows[-4:]
        if len(chosen) > 1:
            values = ", ".join(f"{spoken(key, float(value))} ({day(at)})" for at, value in chosen)
            lines.append(Piece(f"{label}: {values}"))
    return lines


def lengthen(w: Writer, when: datetime, blocks: list[Block], clinic: bool) -> list[Block]:
    """The note's blocks with the long passages put where authors put them.

    ``clinic``: a planned visit, with prevention and counselling; the acutely ill get neither, nor
    the template of a normal examination.
    """
    made: list[Block] = []
    for block in blocks:
        made.append(block)
        if block.kind == "ros":
            block.pieces = some(w, _SYSTEMS, 6, 11) + [
                p for p in block.pieces if p.text.startswith("Denies")
            ]
        elif block.kind == "exam" and clinic:
            long = some(w, EXAM_LONG, 5, 10)
            block.pieces = [p for p in block.pieces if p.text not in EXAM] + fitting(
                long, active(w.p, when)
            )
        elif block.kind in ("pmh", "hpi") and not any(b.kind == "background" for b in made):
            made.append(
                Block(
                    "background",
                    pick(
                        w.rng,
                        (
                            "Background",
                            "Problem Overview",
                            "Oncologic/Medical Summary"
                            if w.p.has("breast", when)
                            else "Medical Summary",
                        ),
                    ),
                    background(w, when, 5),
                )
            )
        elif block.kind == "results":
            made.append(Block("flow", "Flowsheet Trends", history_of_values(w, when), "list"))
        elif block.kind == "plan" and clinic:
            if chance(w.rng, 0.6):
                made.append(
                    Block("maintenance", "Health Maintenance", some(w, _MAINTENANCE, 4, 9), "list")
                )
            made.append(
                Block(
                    "counsel",
                    pick(w.rng, ("Counseling", "Patient Instructions")),
                    some(w, _COUNSEL, 4, 9),
                )
            )
    return made
