"""C-CDA documents: identity, versions, narrative, bodies, and an account of every part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol
from midchart.core.text import sentences
from tests.support.cases import CASES
from tests.support.samples import SAMPLES

NAMESPACE = "urn:hl7-org:v3"
VENDORS = [SAMPLES / "ccda_vendor", SAMPLES / "ccda_examples"]
COPIED = CASES / "ccda_vendor"


def document(
    text: str = "",
    *,
    id: str = '<id root="1.2.3" extension="7"/>',
    family: str = "Quarrie",
    born: str = "19510203",
    time: str = "20210510",
    sections: str = "",
    head: str = "",
    body: str = "",
    declaration: str = '<?xml version="1.0" encoding="UTF-8"?>',
) -> str:
    """A document with one section of ``text``, or these ``sections``, or this ``body``."""
    one = f"<component><section><title>Section</title><text>{text}</text></section></component>"
    content = body or f"<structuredBody>{sections or one}</structuredBody>"
    return (
        f'{declaration}<ClinicalDocument xmlns="{NAMESPACE}" '
        f'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">{head}'
        f'<effectiveTime value="{time}"/><recordTarget><patientRole>{id}<patient>'
        f"<name><given>Nell</given><family>{family}</family></name>"
        f'<administrativeGenderCode code="F"/><birthTime value="{born}"/></patient></patientRole>'
        f"</recordTarget><component>{content}</component></ClinicalDocument>"
    )


PEOPLE = [("Quarrie", "19510203"), ("Brunel", "19880907"), ("Okafor", "1951"), ("Li", "19510204")]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(PEOPLE) - 1),
            st.sampled_from(["1.2", "1.3", ""]),
            st.sampled_from(["7", "07", "8", ""]),
            st.integers(1, 3),
            st.sampled_from(["", "ward/"]),
        ),
        min_size=1,
        max_size=7,
    )
)
def test_no_record_ever_holds_text_of_two_people(
    tmp_path_factory: pytest.TempPathFactory, collection: list[tuple[int, str, str, int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("people")
    (folder / "ward").mkdir()
    for number, (person, root, extension, version, below) in enumerate(collection):
        family, born = PEOPLE[person]
        head = f'<setId root="5" extension="s"/><versionNumber value="{version}"/>'
        id = f'<id root="{root}" extension="{extension}"/>' if root or extension else ""
        text = document(f"text of {family}", id=id, family=family, born=born, head=head)
        (folder / f"{below}{number}.xml").write_text(text)
    cohort = read_cohort(folder)
    shown = 0
    for record in cohort.records.values():
        shown += len(record.events)
        assert len({event.text for event in record.events}) == 1
    left = sum(
        one.total - one.shown for (_, what), one in cohort.accounts.items() if what == "documents"
    )
    assert shown + left == len(collection)


HAND_CHECKED = """
Greenway Samples/26840_ClinicalVisitSummary_CCDA.xml|Problem List|Description: Essential hypertension; Status: Active; Onset: 11/24/1999
Greenway Samples/26840_ClinicalVisitSummary_CCDA.xml|Problem List|Description: Coronary arteriosclerosis; Status: Active; Onset: 03/14/2004
Greenway Samples/26840_ClinicalVisitSummary_CCDA.xml|Problem List|Description: Cardiovascular Disease; Status: Active; Onset: 01/22/1999
Greenway Samples/26840_ClinicalVisitSummary_CCDA.xml|Problem List|Description: Anal Spasm; Status: Active; Onset: 06/21/1964
NIST Samples/CCDA_CCD_b1_Ambulatory_v2.xml|Medications|Medication: Albuterol 0.09 MG/ACTUAT inhalant solution; Directions: 0.09 MG/ACTUAT inhalant solution, 2 puffs once; Start Date: 20120806; Status: Active; Indications: Pneumonia (233604007 SNOMED CT); Fill Instructions: Generic Substitition Allowed
PracticeFusion Samples/PracticeFusion_SummaryOfCare_export_Maria_Teller.ccd|Problem List|Problem Description: Hypertension, benign; Problem StartDate: Not Applicable; Status: active
PracticeFusion Samples/PracticeFusion_SummaryOfCare_export_Maria_Teller.ccd|Problem List|Problem Description: Hyperlipidemia, mixed; Problem StartDate: Not Applicable; Status: active
PracticeFusion Samples/PracticeFusion_SummaryOfCare_export_Maria_Teller.ccd|Problem List|Problem Description: Diabetes II, uncomplicated; Problem StartDate: Not Applicable; Status: active
HL7 Samples/DS.sample.xml|Hospital Discharge Instructions|1. Take all of your prescription medication as directed.
HL7 Samples/DS.sample.xml|Hospital Discharge Instructions|4. Call your physician if you notice:
HL7 Samples/DS.sample.xml|Hospital Discharge Instructions|Bleeding or black stools.
HL7 Samples/DS.sample.xml|Hospital Discharge Instructions|6. Do not drive or operate machinery for 24 hours.
HL7 Samples/OpNote.sample.xml|Plan of Care|Planned Activity: Colonoscopy; Planned Date: April 21, 2000
HL7 Samples/DIR.sample.xml|Findings|45mm
HL7 Samples/Procedure_Note.sample.xml|Allergies, Adverse Reactions, Alerts|Substance: Penicillin; Reaction: Hives; Status: Active
HL7 Samples/Procedure_Note.sample.xml|Allergies, Adverse Reactions, Alerts|Substance: Aspirin; Reaction: Wheezing; Status: Active
HL7 Samples/Procedure_Note.sample.xml|Allergies, Adverse Reactions, Alerts|Substance: Codeine; Reaction: Nausea; Status: Active
HL7 Samples/HandP.sample.xml|VITAL SIGNS|Date / Time: Blood Pressure; Nov 14, 1999: 132/86 mmHg; April 7, 2000: 145/88 mmHg
HL7 Samples/Consults.sample.xml|ASSESSMENT|4. Hyperkalemia secondary to #3 and on ACE and K+ supplement.
Greenway Samples/26933_ClinicalVisitSummary_CCDA.xml|Results Summary|Data and Description: 8/6/2012 2:01 PM; Results: Hct Fr Bld Auto 45.0 %
Greenway Samples/26933_ClinicalVisitSummary_CCDA.xml|Results Summary|Data and Description: 8/6/2012 2:01 PM; Results: Hgb Bld-mCnc 14.20 g/dL, Platelet # Bld Auto 220.0 x10E3/uL, WBC # Bld Auto 7.60 x10E3/uL
Kareo Samples/Kareo_SummaryOfCare_export_Joey_Miller.xml|IMMUNIZATIONS|NOT GIVEN (coded entry); Vaccine Name: Pneumococcal (PCV, PPSV), [CVX: 33]; Date: 05/15/2014; Status: Completed
Partners HealthCare/LMR5TEST.xml|Results|Date: 02/11/2014 13:49; Test: SODIUM; Value: 140 mmol/L; Reference Range: 136-145 mmol/L; Abnormal Flag: Not available; Comments: Not available; Ordering Provider: RENNER,KARA E. M.D.
Partners HealthCare/LMR5TEST.xml|Results|Date: 02/11/2014 13:49; Test: POTASSIUM; Value: 4.0 mmol/L; Reference Range: 3.4-5.0 mmol/L; Abnormal Flag: Not available; Comments: Not available; Ordering Provider: RENNER,KARA E. M.D.
Partners HealthCare/LMR5TEST.xml|Allergies|Date: 02/12/2014 13:04; Allergies: No allergy data is applicable; Status: active
Greenway Samples/26789_ExportSummary_CCDA.xml|History of Procedures|Date Ordered: 1/21/2013 12:00 AM; Description: Arthritis panel; Order Status: Pending
Allscripts Samples/Professional EHR/dataport_Ambulatory.xml|Procedures|Procedure: CHEST X-RAY, PA AND LATERAL (71020); Details: Completed:30-May-2013
Allscripts Samples/Enterprise EHR/b2 Adam Everyman ToC.xml|Medications|Name: Proventil HFA 108 (90 Base) MCG/ACT Inhalation Aerosol Solution, INHALE 2 PUFFS Every 6 hours PRN wheezing, Quantity: 1; Details: Active
mTuitive OpNote Samples/breast surgery.xml|Discharge and Condition — Specimen|- Sentinel node, negative on frozen section
Vitera/Vitera_CCDA_SMART_Sample.xml|Medications Administered|No Administered Medications Recorded
Cerner Samples/Transition_of_Care_Referral_Summary.xml|Encounter|Dates: 07/10/2013; Location: Local Community Hospital Organization, 4000 Hospital Dr. Portland, OR 97005- , USA; Diagnoses: Final: Exercise-induced angina, Final: Angina; Providers: Owens , Dale, Admit MD, Aaron, Nightengale RN, Nancy
"""  # noqa: E501
"""File, section and line: each was read in the file's XML by a person."""


@pytest.mark.parametrize("checked", HAND_CHECKED.strip().split("\n"))
def test_hand_checked_lines_of_vendor_documents(checked: str) -> None:
    file, section, line = checked.split("|")
    vendor, _, name = file.partition(" Samples/")
    path = COPIED / vendor.lower() / "input" / name
    if not path.is_file():
        path = VENDORS[0] / file
    if not path.is_file():
        pytest.skip("the public samples are not on this machine")
    (record,) = read_cohort(path).records.values()
    events = [event for event in record.events if event.name == section]
    assert line in [one for event in events for one in event.text.split("\n")]
    units = [unit.text for unit in sentences(record, Protocol()) if unit.kind == "note"]
    assert line in units  # a row is one unit
