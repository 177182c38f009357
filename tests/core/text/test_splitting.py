"""Sentences of notes: wrapped lines are joined, separate layout lines stay separate."""

from __future__ import annotations

import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.text import count_tokens, cut_event, cut_note, one_line
from midchart.core.text.splitting import pieces
from midchart.core.types import Event

PROSE = (
    "Mr. Williams was admitted on 11/30/2015 for treatment of his Multiple Myeloma. He had "
    "2.5 mg of bortezomib b.i.d. for approx. 3 weeks (see Fig. 2; no. 4 was repeated. It was "
    "normal) and Dr. Lee saw no fever, e.g. none above 38.1 °C; C-reactive protein was 1.4 mg/dL. "
    "Multiple Myeloma of IgG kappa type was found by Prof. Salmon et al. in vitro vs. controls. "
    "The patient was discharged on 12/28/2015 to St. Mary Hospital, where Dr. Durie sees him."
)
SENTENCES = [
    "Mr. Williams was admitted on 11/30/2015 for treatment of his Multiple Myeloma.",
    "He had 2.5 mg of bortezomib b.i.d. for approx. 3 weeks (see Fig. 2; no. 4 was repeated. "
    "It was normal) and Dr. Lee saw no fever, e.g. none above 38.1 °C; "
    "C-reactive protein was 1.4 mg/dL.",
    "Multiple Myeloma of IgG kappa type was found by Prof. Salmon et al. in vitro vs. controls.",
    "The patient was discharged on 12/28/2015 to St. Mary Hospital, where Dr. Durie sees him.",
]


def sentence_texts(text: str) -> list[str]:
    return [one_line(text[a:b]) for a, b, _ in pieces(text)]


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80, 100, 2000])
@pytest.mark.parametrize("indent", ["", "   "])
def test_wrapping_changes_no_sentence(width: int, indent: str) -> None:
    lines = textwrap.wrap(PROSE, width, initial_indent=indent, subsequent_indent=indent)
    assert sentence_texts("\n".join(lines)) == SENTENCES
    assert sentence_texts("\r\n".join(lines)) == SENTENCES


LAYOUT = [
    "ALLERGIES",
    "Penicillin",
    "Medication:",
    "- Aspirin 81 mg p.o. daily",
    "- lisinopril 10 mg b.i.d.",
    "1. Sore throat.",
    "2) Hypertension",
    "** Laboratory **",
    "Na 138 mmol/L",
    "K 4.1 mmol/L (3.5-5.1)",
    "Hemoglobin: 13.5 g/dL",
    "creatinine   1.2   mg/dL",
    "glucose | 5.4 | mmol/L",
    "Sodium\t138\tmmol/L",
    "Family history",
    "Mother with diabetes",
    "BP 120/80, pulse 72",
    "Well today, no complaints; back in May.",
    "Walks daily.",
    "Stop aspirin.",
]


def test_lines_that_a_layout_keeps_apart_are_units_of_their_own() -> None:
    assert sentence_texts("\n".join(LAYOUT)) == [one_line(line) for line in LAYOUT]


def test_they_stay_apart_between_wrapped_paragraphs() -> None:
    wrapped = textwrap.fill(PROSE, 60)
    text = "\n".join([wrapped, *LAYOUT, wrapped])
    assert sentence_texts(text) == [*SENTENCES, *(one_line(line) for line in LAYOUT), *SENTENCES]


def test_a_wrapped_list_item_is_one_unit() -> None:
    item = "-   CT of the whole body on 03/11/2015 showed an osteolysis of the seventh vertebra"
    text = textwrap.fill(item, 50, subsequent_indent="    ")
    text = f"{text}\n{text}\n-   None"
    assert sentence_texts(text) == [one_line(item), one_line(item), "- None"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("pt seen today. denies pain. bp fine.", ["pt seen today.", "denies pain.", "bp fine."]),
        ("Given p.o. The rest i.v. today.", ["Given p.o.", "The rest i.v. today."]),
        ("Any pain? No. Fever! None.", ["Any pain?", "No.", "Fever!", "None."]),
        ("1. Aspirin 2. Statin 3. Rest", ["1. Aspirin", "2. Statin", "3. Rest"]),
        ("He is 62. She is 2. The end.", ["He is 62.", "She is 2.", "The end."]),
        ("Counts fell.Then they rose.[3] They stay.",
         ["Counts fell.", "Then they rose.[3]", "They stay."]),
        ("Grew E. coli and S. aureus. Treated.", ["Grew E. coli and S. aureus.", "Treated."]),
        ("(She left. He stayed.) Then", ["(She left. He stayed.)", "Then"]),
        ("a ( b. C d. E", ["a ( b.", "C d.", "E"]),
        ("Meds: • aspirin • statin", ["Meds:", "• aspirin", "• statin"]),
        ("Stopped in 1997; 31 pack-years by then; NRT used.",
         ["Stopped in 1997; 31 pack-years by then; NRT used."]),
        ("好。再来。", ["好。", "再来。"]),
        ("", []),
        (" \n\t\n", []),
        (".", ["."]),
    ],
)  # fmt: skip
def test_sentence_boundaries(text: str, sentences: list[str]) -> None:
    assert sentence_texts(text) == sentences


NOTE = st.text(
    alphabet=st.sampled_from("aAb .,;:!?\n\t19•-()[]*|\"'\r") | st.characters(codec="utf-8"),
    max_size=300,
)


@given(NOTE)
def test_every_visible_character_is_in_one_sentence(text: str) -> None:
    spans = [one[:2] for one in pieces(text)]
    covered = [i for start, end in spans for i in range(start, end)]
    assert covered == sorted(set(covered))
    assert {i for i, c in enumerate(text) if not c.isspace()} <= set(covered)
    for start, end in spans:
        assert start < end and text[start:end] == text[start:end].strip()


def test_a_long_sentence_is_split_at_punctuation() -> None:
    labs = "; ".join(f"test number {i} (normal: 1, 2; or 3), 1,{i:03d} mg/dL" for i in range(20))
    pieces = [labs[a:b] for a, b in cut_note(labs)]
    assert len(pieces) > 3
    assert all(count_tokens(piece) <= 96 for piece in pieces)
    assert all(piece.endswith("mg/dL;") for piece in pieces[:-1])
    clauses = ", ".join(["he was given aspirin and metoprolol in the morning"] * 12)
    assert all(clauses[a:b].endswith(",") for a, b in cut_note(clauses)[:-1])


@pytest.mark.parametrize("unit", [
    PROSE + "\n", textwrap.fill(PROSE, 60) + "\n", ".", "(", "[(", "2. ", "a. b. ", "ABC DEF\n",
    "of\n", "abc.Def", "a.[1] ", " • ", "a, ", "\n", " ", "x", "1.", "? ", "**", "a  ",
])  # fmt: skip
def test_time_is_linear_in_the_length(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit)) + "x"
        begun = time.process_time()
        cut_note(text)
        return time.process_time() - begun

    assert seconds(40_000) < 0.1 + 12 * seconds(10_000)


def test_a_sentence_somewhat_longer_than_asked_for_stays_whole_and_a_much_longer_one_does_not():
    sentence = "The patient was seen with " + "pain and " * 30 + "fever today."
    assert 64 < len(sentence.split()) <= 96
    assert cut_note(sentence, 64) == [(0, len(sentence))]
    assert len(cut_note(sentence, 40)) > 1


def titles(text: str) -> dict[str, str]:
    event = Event(0, None, "note", name="Letter", text=text)
    return {one_line(s.text): s.title for s in cut_event(event, "sentence", titled=True)}


def test_a_sentence_is_titled_by_its_note_and_the_nearest_heading_above_it() -> None:
    text = (
        "Seen today.\n\nALLERGIES\nCodeine causes a rash. Penicillin is fine.\n\n"
        "**Medication: **\n- Aspirin 81 mg\n----\n# Plan\nRest."
    )
    assert titles(text) == {
        "Seen today.": "Letter",
        "ALLERGIES": "Letter",
        "Codeine causes a rash.": "Letter · ALLERGIES",
        "Penicillin is fine.": "Letter · ALLERGIES",
        "**Medication: **": "Letter",
        "- Aspirin 81 mg": "Letter · Medication",
        "----": "",
        "# Plan": "Letter",
        "Rest.": "Letter · Plan",
    }
    assert titles("LETTER:\nRest well.")["Rest well."] == "Letter", "no word twice"


@pytest.mark.parametrize("gap", [" | ", "\t", "     "])
@pytest.mark.parametrize("rule", ["", "---- ---- ----\n"])
def test_a_row_of_a_table_is_titled_by_its_header(gap: str, rule: str) -> None:
    rows = ["Drug|Dose|When", "Aspirin|81 mg|daily", "Lisinopril|10 mg|at night"]
    header, first, second = (row.replace("|", gap) for row in rows)
    by_text = titles(f"Medication:\n{header}\n{rule}{first}\n{second}\nRest.")
    assert by_text[one_line(header)] == "Letter · Medication"
    assert by_text[one_line(first)] == by_text[one_line(second)]
    assert by_text[one_line(second)] == "Letter · Medication · Drug; Dose; When"
    assert by_text["Rest."] == "Letter · Medication"


@pytest.mark.parametrize(
    "table",
    [
        "Aspirin | 81 mg | daily\nLisinopril | 10 mg | at night",  # no header
        "Sex | male\nAge | 40",  # names and values, a row a pair
        "Codeine | Anaphylaxis | severe\nLatex | Rash | mild",  # nothing tells a header apart
    ],
)
def test_a_first_row_like_the_others_is_no_header(table: str) -> None:
    assert set(titles(table).values()) == {"Letter"}


def test_a_table_goes_on_after_a_heading_in_it() -> None:
    text = (
        "**Name**   **Value**   **Range**\n--------   ---------   -----\n**Electrolytes**\n"
        "Sodium     140         135-145\n\n**Other**\nAspirin   daily\n"
    )
    by_text = titles(text)
    assert by_text["Sodium 140 135-145"] == "Letter · Electrolytes · Name; Value; Range"
    assert by_text["Aspirin daily"] == "Letter · Other"


def test_a_piece_of_an_event_that_is_no_note_is_titled_by_its_name() -> None:
    event = Event(3, None, "condition", name="Findings", text="Rash.\nNo fever.")
    cut = cut_event(event, "sentence", titled=True)
    assert [(s.text, s.title) for s in cut] == [("Findings: Rash.", ""), ("No fever.", "Findings")]
    assert [s.title for s in cut_event(event, "event", titled=True)] == [""]
    assert {s.title for s in cut_event(event, "sentence")} == {""}
