"""C-CDA documents: identity, versions, narrative, bodies, and an account of every part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import lxml.etree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.errors import DataError
from midchart.core.loaders.check import balance, check_cohort
from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol
from midchart.core.text import sentences
from midchart.core.types import Cohort
from tests.support.samples import SAMPLES

NAMESPACE = "urn:hl7-org:v3"
VENDORS = [SAMPLES / "ccda_vendor", SAMPLES / "ccda_examples"]


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


def cohort_of(folder: Path, **documents: str) -> Cohort:
    """The cohort of documents by file name without its ending."""
    for name, text in documents.items():
        (folder / f"{name}.xml").write_text(text, "utf-8")
    return read_cohort(folder)


def texts(cohort: Cohort, record: str = "7") -> list[str]:
    return [event.text for event in cohort.records[record].events]


# Identity.


def test_a_patient_is_root_and_number(tmp_path: Path) -> None:
    other = '<id root="9.9" extension="7"/>'
    cohort = cohort_of(tmp_path, a=document("one"), b=document("two", id=other, family="Brunel"))
    assert sorted(cohort.records) == ["7@1.2.3", "7@9.9"]
    assert texts(cohort, "7@1.2.3") == ["one"]
    assert texts(cohort, "7@9.9") == ["two"]
    assert cohort.skipped == []
    assert cohort.records.get("7") is None  # whose number it is would be a guess


def test_documents_of_one_patient_make_one_record(tmp_path: Path) -> None:
    later = document("two", time="20220101", family="QUARRIE-Brunel", born="1951")
    cohort = cohort_of(tmp_path, a=document("one"), b=later)
    assert list(cohort.records) == ["7"]
    assert texts(cohort) == ["one", "two"]
    assert cohort.records["b.xml"] is cohort.records["7"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"family": "Brunel"}, "(family name differs)"),
        ({"born": "19510204"}, "(birth date differs)"),
        ({"family": "Li", "born": "1988"}, "(family name, birth date differ)"),
    ],
)
def test_one_number_of_two_people_is_refused(
    tmp_path: Path, changed: dict[str, str], named: str
) -> None:
    cohort = cohort_of(tmp_path, a=document("one"), b=document("two", **changed))
    assert texts(cohort) == ["one"]
    (skip,) = cohort.skipped
    assert skip.file == "b.xml"
    assert named in skip.reason
    for value in changed.values():
        assert value not in skip.reason
    documents = next(one for one in balance(cohort.accounts) if one["what"] == "documents")
    assert (documents["total"], documents["shown"], documents["unaccounted"]) == (2, 1, 0)


def test_a_social_security_number_identifies_only_where_there_is_no_other_id(
    tmp_path: Path,
) -> None:
    security = '<id root="2.16.840.1.113883.4.1" extension="999"/>'
    number = '<id root="1.2.3" extension="7"/>'
    first, second = document("one", id=security + number), document("two", id=number + security)
    cohort = cohort_of(tmp_path, a=first, b=second, c=document("x", id=security, family="Other"))
    assert sorted(cohort.records) == ["7", "999"]


def test_a_document_without_an_id_is_a_patient_of_its_own(tmp_path: Path) -> None:
    for folder in ("ward-a", "ward-b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.xml").write_text(document(folder, id='<id nullFlavor="NI"/>'))
    cohort = read_cohort(tmp_path)
    assert sorted(cohort.records) == ["x@ward-a/x.xml", "x@ward-b/x.xml"]


def test_equal_people_under_two_numbers_are_named_and_stay_apart(tmp_path: Path) -> None:
    cohort = cohort_of(
        tmp_path, a=document("one"), b=document("two", id='<id root="8" extension="8"/>')
    )
    assert sorted(cohort.records) == ["7", "8"]
    (warning,) = cohort.warnings
    assert "may be one person: 7, 8" in warning


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


# Versions.


def test_a_replaced_document_is_left_out_and_counted(tmp_path: Path) -> None:
    old = document("10 mg daily", head='<id root="1.9" extension="d1"/>')
    parent = '<parentDocument><id root="1.9" extension="d1"/></parentDocument>'
    new = document(
        "10 mg weekly", head=f'<relatedDocument typeCode="RPLC">{parent}</relatedDocument>'
    )
    added = document("call", head=f'<relatedDocument typeCode="APND">{parent}</relatedDocument>')
    cohort = cohort_of(tmp_path, a=old, b=new, c=added)
    assert texts(cohort) == ["10 mg weekly", "call"]
    assert [(s.file, s.reason) for s in cohort.skipped] == [
        ("a.xml", "was replaced by a newer version, b.xml")
    ]


def test_the_newest_version_of_a_document_counts(tmp_path: Path) -> None:
    def version(number: int) -> str:
        head = f'<setId root="1.9" extension="s"/><versionNumber value="{number}"/>'
        return document(f"version {number}", head=head)

    cohort = cohort_of(tmp_path, a=version(2), b=version(10), c=version(1))
    assert texts(cohort) == ["version 10"]
    assert {skip.file for skip in cohort.skipped} == {"a.xml", "c.xml"}


# Files.


def test_files_of_sub_folders_and_other_endings_are_read_and_others_named(tmp_path: Path) -> None:
    inner = tmp_path / "ward" / "deep"
    inner.mkdir(parents=True)
    for number, ending in enumerate(("xml", "ccd", "CCDA", "cda")):
        (inner / f"d{number}.{ending}").write_text(
            document("x", id=f'<id root="1" extension="{number}"/>')
        )
    (inner / "about.txt").write_text("about")
    (tmp_path / "other.xml").write_text("<Other/>")
    cohort = read_cohort(tmp_path)
    assert sorted(cohort.records) == ["0", "1", "2", "3"]
    assert any("ward/deep/about.txt" in one and "other.xml" in one for one in cohort.warnings)
    files = next(one for one in check_cohort(cohort)["balance"] if one["what"] == "files")
    assert files == {
        "what": "files",
        "total": 6,
        "shown": 4,
        "left_out": {"is not part of the format": 2},
        "unaccounted": 0,
    }


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "windows-1252", "UTF-8", "UTF-16"])
def test_declared_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    text = document("Pénicilline", declaration=f'<?xml version="1.0" encoding="{encoding}"?>')
    (tmp_path / "a.xml").write_bytes(text.encode(encoding))
    assert texts(read_cohort(tmp_path)) == ["Pénicilline"]


@pytest.mark.parametrize("encoding", ["undefined", "punycode", "idna", "unicode_escape", "utf-7"])
def test_what_is_no_character_set_is_an_unknown_encoding(tmp_path: Path, encoding: str) -> None:
    declaration = f'<?xml version="1.0" encoding="{encoding}"?>'
    cohort = cohort_of(tmp_path, a=document("one", declaration=declaration), b=document("fine"))
    assert texts(cohort) == ["fine"]
    (skip,) = cohort.skipped
    assert (skip.file, skip.line) == ("a.xml", 1)
    assert skip.reason == "declares an unknown encoding — save it as UTF-8"


def test_a_wrong_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(document("caf\xe9").encode("latin-1"))
    (tmp_path / "b.xml").write_text(document("fine"))
    (skip,) = read_cohort(tmp_path).skipped
    assert (skip.file, skip.line) == ("a.xml", 1)
    assert "is not UTF-8 text — save it as UTF-8" in skip.reason


@pytest.mark.parametrize(
    ("written", "time", "born"),
    [
        ("2021", "2021-01-01 00:00:00", "1951"),
        ("202105", "2021-05-01 00:00:00", "1951-02"),
        ("20210510", "2021-05-10 00:00:00", "1951-02-03"),
        ("202105101530", "2021-05-10 15:30:00", "1951-02-03"),
        ("20210510153045.123-0500", "2021-05-10 15:30:45", "1951-02-03"),
    ],
)
def test_partial_dates(tmp_path: Path, written: str, time: str, born: str) -> None:
    cohort = cohort_of(tmp_path, a=document("x", time=written, born=born.replace("-", "")))
    record = cohort.records["7"]
    assert str(record.events[0].time) == time
    assert dict(record.facts)["birthdate"] == born
    rough = [one for one in cohort.warnings if "only the month or year" in one]
    assert bool(rough) == (len(written) < 8)


# Bodies.


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            '<text mediaType="text/plain">Potassium 5.9 on leaving.</text>',
            "Potassium 5.9 on leaving.",
        ),
        ('<text mediaType="text/plain" representation="B64">SG9tZQ==</text>', "Home"),
        ('<text mediaType="text/html" representation="B64">PGI+SG9tZTwvYj4=</text>', "Home"),
        (
            '<text mediaType="application/pdf" representation="B64">JVBERi0=</text>',
            "not read: the document's body is application/pdf, which is not read",
        ),
        (
            '<text mediaType="application/pdf"><reference value="x.pdf"/></text>',
            "not read: the document points to a file outside of it",
        ),
        *(
            (
                f'<text mediaType="application/rtf">{{\\rtf1 {damage} hi}}</text>',
                "not read: the document's body is RTF with a character or charset that is none",
            )
            for damage in ("\\u1114112?", f"\\u{'9' * 30}?", "\\u-99999?", "\\uc")
        ),
        *(
            (
                f'<text mediaType="text/plain; charset={charset}" representation="B64">'
                "aGVsbG8tOTl6eg==</text>",
                "not read: the document's body names a charset that is not known",
            )
            for charset in ("undefined", "punycode", "idna", "unicode_escape", "klingon")
        ),
    ],
)
def test_a_body_without_sections_leaves_a_dated_note(tmp_path: Path, body: str, text: str) -> None:
    head = "<title>Resuscitation order</title>"
    content = document(body=f"<nonXMLBody>{body}</nonXMLBody>", head=head)
    (event,) = cohort_of(tmp_path, a=content).records["7"].events
    assert (event.name, event.text, str(event.time)[:10]) == (
        "Resuscitation order",
        text,
        "2021-05-10",
    )


ENTRIES = """<component><section><title>Allergies</title>
 <entry><act><statusCode code="active"/><entryRelationship typeCode="SUBJ">
  <observation moodCode="EVN"><code code="ASSERTION"/><statusCode code="completed"/>
   <effectiveTime><low value="2010"/></effectiveTime>
   <value xsi:type="CD" code="419199007" displayName="Allergy to substance"/>
   <participant><participantRole><playingEntity><code displayName="Codeine"/></playingEntity>
   </participantRole></participant>
   <entryRelationship typeCode="MFST"><observation><code code="ASSERTION"/>
    <value xsi:type="CD" displayName="Anaphylaxis"/></observation></entryRelationship>
  </observation></entryRelationship></act></entry>
 <entry><observation negationInd="true"><code displayName="Allergy to latex"/></observation></entry>
 <entry><observation><statusCode code="nullified"/><code displayName="Sulfa"/></observation></entry>
 <entry><substanceAdministration moodCode="INT"><consumable><manufacturedProduct>
  <manufacturedMaterial><code displayName="Warfarin 5 MG"/></manufacturedMaterial>
  </manufacturedProduct></consumable><doseQuantity value="1.50" unit="mg"/>
 </substanceAdministration></entry>
 <entry><observation><code displayName="Ferritin"/>
  <value xsi:type="PQ" value="20.09414" unit="ug/L"/>
 </observation></entry></section></component>"""


def test_entries_are_read_where_a_section_has_no_narrative(tmp_path: Path) -> None:
    cohort = cohort_of(tmp_path, a=document(sections=ENTRIES))
    assert texts(cohort) == [
        "Codeine; Allergy to substance; from 2010; manifestation Anaphylaxis\n"
        "NEGATED; Allergy to latex\n"
        "PLANNED; Warfarin 5 MG; dose 1.50 mg\n"
        "Ferritin; 20.09414 ug/L"
    ]
    entries = next(one for one in balance(cohort.accounts) if one["what"] == "entries")
    assert (entries["total"], entries["shown"]) == (5, 4)
    assert entries["left_out"] == {"was cancelled or entered in error": 1}


def test_a_section_that_says_there_is_no_information_is_a_note(tmp_path: Path) -> None:
    section = '<component><section nullFlavor="NASK"><title>Allergies</title></section></component>'
    cohort = cohort_of(tmp_path, a=document(sections=section))
    assert texts(cohort) == ["not asked"]


# Public documents.


def _counts(folder: Path) -> Counter[str]:
    """Files, documents, sections and table rows of narratives, counted by lxml."""
    counts: Counter[str] = Counter()
    for file in (one for one in folder.rglob("*") if one.is_file()):
        counts["files"] += 1
        if file.suffix.lower() not in (".xml", ".ccd"):
            continue
        try:
            root = lxml.etree.parse(str(file)).getroot()
        except lxml.etree.XMLSyntaxError:
            continue
        counts["documents"] += 1
        sections = root.xpath("//*[local-name()='structuredBody']//*[local-name()='section']")
        counts["sections"] += len(sections)
        rows = "./*[local-name()='text']//*[local-name()='tr']"
        counts["rows"] += sum(len(section.xpath(rows)) for section in sections)
    return counts


@pytest.mark.parametrize("folder", VENDORS, ids=lambda folder: folder.name)
def test_every_file_section_and_row_of_public_documents_is_accounted_for(folder: Path) -> None:
    if not folder.is_dir():
        pytest.skip("the public samples are not on this machine")
    report = check_cohort(read_cohort(folder))
    counted = {one["what"]: one["total"] for one in report["balance"]}
    expected = _counts(folder)
    assert {what: counted[what] for what in expected} == dict(expected)
    assert all(one["unaccounted"] == 0 for one in report["balance"])
    named = {skip["file"] for skip in report["skipped"]}
    documents = next(one for one in report["balance"] if one["what"] == "documents")
    assert documents["total"] - documents["shown"] <= len(named)


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
Kareo Samples/Kareo_SummaryOfCare_export_Joey_Miller.xml|IMMUNIZATIONS|Vaccine Name: Pneumococcal (PCV, PPSV), [CVX: 33]; Date: 05/15/2014; Status: Completed
Partners HealthCare/LMR5TEST.xml|Results|Date: 02/11/2014 13:49; Test: SODIUM; Value: 140 mmol/L; Reference Range: 136-145 mmol/L; Abnormal Flag: Not available; Comments: Not available; Ordering Provider: RENNER,KARA E. M.D.
Partners HealthCare/LMR5TEST.xml|Results|Date: 02/11/2014 13:49; Test: POTASSIUM; Value: 4.0 mmol/L; Reference Range: 3.4-5.0 mmol/L; Abnormal Flag: Not available; Comments: Not available; Ordering Provider: RENNER,KARA E. M.D.
Partners HealthCare/LMR5TEST.xml|Allergies|Date: 02/12/2014 13:04; Allergies: No allergy data is applicable; Status: active
Greenway Samples/26789_ExportSummary_CCDA.xml|History of Procedures|Date Ordered: 1/21/2013 12:00 AM; Description: Arthritis panel; Order Status: Pending
Allscripts Samples/Professional EHR/dataport_Ambulatory.xml|Procedures|Procedure: CHEST X-RAY, PA AND LATERAL (71020); Details: Completed:30-May-2013
Allscripts Samples/Enterprise EHR/b2 Adam Everyman ToC.xml|Medications|Name: Proventil HFA 108 (90 Base) MCG/ACT Inhalation Aerosol Solution, INHALE 2 PUFFS Every 6 hours PRN wheezing, Quantity: 1; Details: Active
mTuitive OpNote Samples/breast surgery.xml|Specimen|- Sentinel node, negative on frozen section
Vitera/Vitera_CCDA_SMART_Sample.xml|Medications Administered|No Administered Medications Recorded
Cerner Samples/Transition_of_Care_Referral_Summary.xml|Encounter|Dates: 07/10/2013; Location: Local Community Hospital Organization, 4000 Hospital Dr. Portland, OR 97005- , USA; Diagnoses: Final: Exercise-induced angina, Final: Angina; Providers: Owens , Dale, Admit MD, Aaron, Nightengale RN, Nancy
"""  # noqa: E501
"""File, section and line: each was read in the file's XML by a person."""


@pytest.mark.parametrize("checked", HAND_CHECKED.strip().split("\n"))
def test_hand_checked_lines_of_vendor_documents(checked: str) -> None:
    file, section, line = checked.split("|")
    path = VENDORS[0] / file
    if not path.is_file():
        pytest.skip("the public samples are not on this machine")
    (record,) = read_cohort(path).records.values()
    events = [event for event in record.events if event.name == section]
    assert line in [one for event in events for one in event.text.split("\n")]
    units = [unit.text for unit in sentences(record, Protocol()) if unit.kind == "note"]
    assert line in units  # a row is one unit


def test_a_document_that_is_no_document_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(f'<ClinicalDocument xmlns="{NAMESPACE}"><unclosed>')
    with pytest.raises(DataError, match="not well-formed"):
        read_cohort(tmp_path)
