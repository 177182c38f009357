"""The offline judges and the kinds of failure, each rule by examples and for any text.

Failed, empty and refused answers; overlap; exact values, dates, polarity.
"""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.judges import JUDGES
from midchart.core.judges.rules import FAILURE_KINDS, OfflineJudge, failure_kind
from midchart.core.judges.values import Day, take_dates
from midchart.core.protocol import Protocol
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Answer, Gold, Instruction, Verdict

ASKED = Instruction("i1", "p1", "?")
RULES = [name for name in JUDGES.names() if issubclass(JUDGES.get(name), OfflineJudge)]
"""The judges that are rules; those that are language models have tests of their own."""


def judge(name: str, reference: str, answer: str, protocol: Protocol | None = None) -> Verdict:
    built = JUDGES.build(name, protocol or Protocol())
    return built.judge(ASKED, Gold("i1", reference), Answer(answer))


@pytest.mark.parametrize("name", RULES)
def test_a_judge_fails_without_answer_or_reference(name):
    built = JUDGES.build(name, Protocol())
    assert built.name == name and "(offline)" in built.title
    nothing = built.judge(ASKED, Gold("i1", "  ", (" ", "")), Answer("yes"))
    assert (nothing.outcome, nothing.reason) == (
        "failed", "the question has no reference answer or evidence",
    )  # fmt: skip
    wordless = built.judge(ASKED, Gold("i1", " — "), Answer("yes"))
    assert wordless.outcome == "failed" and "no word" in wordless.reason
    failed = built.judge(ASKED, Gold("i1", "yes"), Answer("", "failed", "out of memory"))
    assert (failed.outcome, failed.reason) == ("failed", "no answer (out of memory)")
    empty = built.judge(ASKED, Gold("i1", "yes"), Answer(" \n"))
    assert (empty.outcome, empty.refusal) == ("incorrect", False)


@pytest.mark.parametrize("name", RULES)
def test_evidence_replaces_an_empty_reference_answer(name):
    built = JUDGES.build(name, Protocol())
    gold = Gold("i1", "", ("metformin 500 mg",))
    assert built.judge(ASKED, gold, Answer("takes metformin 500 mg")).outcome == "correct"


HEDGES = (
    "It is possible that she took 5 mg of warfarin.",
    "Possibly 5 mg of warfarin",
    "The dose may have been 5 mg of warfarin. It could also be 5 mg of warfarin at night.",
    "I'm not sure, but 5 mg of warfarin",
    "Yes, it may be possible: 5 mg of warfarin",
    "There is some chance it was 5 mg of warfarin.",
)
COMMITTED = (
    "5 mg of warfarin",
    "She takes 5 mg of warfarin; it may be raised later.",
    "She may be started on aspirin. The dose of warfarin is 5 mg of warfarin.",
    "Probably 5 mg of warfarin",
    "In May 5 mg of warfarin",
)


def _rules() -> list[str]:
    return [name for name in ("exact", "token_overlap") if name in RULES]


@pytest.mark.parametrize("name", _rules())
@pytest.mark.parametrize("answer", HEDGES)
def test_a_hedged_answer_is_incorrect_though_its_words_are_right(name, answer):
    assert judge(name, "5 mg of warfarin", answer).outcome == "incorrect"
    assert judge(name, "yes", "It is possible that she smoked").outcome == "incorrect"
    # A reference that hedges itself is answered so.
    assert judge(name, "Possibly 5 mg of warfarin", answer).raw != "the answer hedges"


@pytest.mark.parametrize("name", _rules())
@pytest.mark.parametrize("answer", COMMITTED)
def test_an_unhedged_answer_is_judged_by_its_words(name, answer):
    assert judge(name, "5 mg of warfarin", answer).outcome == "correct"


@pytest.mark.parametrize("name", _rules())
def test_a_quoted_line_does_not_hedge(name):
    line = Answer("Dose may be 5 mg of warfarin", sources=("s1",))
    built = JUDGES.build(name, Protocol())
    assert built.judge(ASKED, Gold("i1", "5 mg of warfarin"), line).outcome == "correct"


@pytest.mark.parametrize("name", RULES)
def test_the_protocol_says_how_much_of_an_answer_counts(name):
    answer = "x " * 100 + "lisinopril"
    assert judge(name, "lisinopril", answer).outcome == "correct"
    cut = judge(name, "lisinopril", answer, Protocol(response_characters=200))
    assert cut.outcome == "incorrect"


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None)
@given(reference=st.text(max_size=30), answer=st.text(max_size=30))
def test_any_text_has_a_verdict(name, reference, answer):
    verdict = judge(name, reference, answer)
    assert verdict.outcome in ("correct", "incorrect", "unparsed", "failed")
    assert bool(verdict.reason) == (verdict.outcome == "failed")


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None)
@given(reference=st.text("ab1, .", min_size=1, max_size=30).filter(lambda t: t.strip(" ,.")))
def test_the_reference_itself_is_correct(name, reference):
    assert judge(name, reference, reference).outcome == "correct"


@pytest.mark.parametrize(
    ("reference", "answer", "outcome", "raw"),
    [
        ("metformin and lisinopril", "Lisinopril, metformin", "correct", "2 of 3 words"),
        ("a b c d", "a b", "correct", "2 of 4 words"),
        ("a b c d e", "a b", "incorrect", "2 of 5 words"),
        ("fever fever cough", "cough", "correct", "1 of 2 words"),  # distinct words
        ("Lisinopril", "the question mentions lisinopril", "correct", "1 of 1 words"),
    ],
)
def test_token_overlap(reference, answer, outcome, raw):
    verdict = judge("token_overlap", reference, answer)
    assert (verdict.outcome, verdict.raw) == (outcome, raw)


@pytest.mark.parametrize(
    ("reference", "answer", "outcome"),
    [
        ("7.50", "the value was 7.5.", "correct"),
        ("7.5", "75", "incorrect"),
        ("5 mg", "takes 5mg daily", "correct"),
        ("5 mg", "takes 5 daily", "correct"),  # a unit left out is not missed
        ("5 mg", "5 g", "incorrect"),
        ("1 g", "1,000 mg", "correct"),
        ("1,200", "1200 mL", "correct"),
        ("10/03/2015", "on Oct 3, 2015", "correct"),
        ("2015-10-03", "10/3/15", "correct"),
        ("2015-10-03", "[2015-10-03] seen", "correct"),
        ("2015-10-03", "October 2015", "incorrect"),
        ("October 2015", "2015-10-03", "correct"),
        ("2015", "2015-10-03", "correct"),
        ("3", "2015-10-03", "incorrect"),  # a day of the month is no count
        ("120/80", "BP 120/80 mmHg", "correct"),
        ("5-10 mg", "5 to 10 mg", "correct"),
        ("-5", "it was -5", "correct"),
        ("-5", "3-5", "incorrect"),
        ("metformin 500 mg, glipizide 5 mg", "metformin 500 mg", "incorrect"),
        ("7.2", "A1c 7.2 %", "correct"),
        ("B12 was low", "B12 was low", "correct"),  # the number of a name is not a quantity
        ("12", "B12", "incorrect"),
        ("24 months", "2 years", "correct"),
        ("Lisinopril", "He takes lisinopril.", "correct"),
        ("heart failure", "failure of the heart", "incorrect"),
        ("yes", "Yes, she does.", "correct"),
        ("Yes.", "No.", "incorrect"),
        ("No", "The chart is silent. No, none.", "correct"),
        ("No, he never smoked", "No", "correct"),
        ("yes", "Answer: yes", "correct"),
        ("no", "She was seen in clinic", "unparsed"),
        ("yes", "Yes. No.", "unparsed"),
        ("No", "No information.", "incorrect"),  # a refusal is not the answer no
        ("No evidence of malignancy", "There is no evidence of malignancy", "correct"),
        ("Not mentioned in the record", "The record does not mention it", "correct"),
        ("Not mentioned in the record", "lisinopril", "incorrect"),
    ],
)
def test_exact(reference, answer, outcome):
    assert judge("exact", reference, answer).outcome == outcome


@settings(deadline=None)
@given(st.dates(date(1950, 1, 1), date(2049, 12, 31)), st.data())
def test_dates_in_any_format_are_equal(day, data):
    forms = [
        "%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%m/%d/%y", "%b %d, %Y", "%B %d %Y", "%d %B %Y",
        "%d %b, %Y", "%Y-%m-%dT14:30",
    ]  # fmt: skip
    text = day.strftime(data.draw(st.sampled_from(forms)))
    dates, rest = take_dates(f"seen {text}, stable")
    assert dates == [Day(day.year, day.month, day.day)]
    assert rest.split() == ["seen", ",", "stable"]


@pytest.mark.parametrize(
    "text",
    [
        "No information.", "No relevant information is available", "There is no mention of it",
        "The record does not mention the dose", "This is not documented in the patient's chart",
        "Not mentioned.", "I cannot determine the dose", "It can't be determined from the notes",
        "Unable to answer the question", "I don’t know", "Unknown", "N/A",
        "not available in the provided record", "Insufficient information",
        "The context doesn't provide this.", "I am unable to find the date", "it isn't mentioned",
        "No documentation of an allergy", "No A1c result was found.", "No potassium is documented.",
        "There is no record of a hemoglobin A1c.", "The chart is silent on this.",
        "There is nothing in the chart about smoking.", "I do not see an A1c in the chart",
        "I'm sorry, but the notes do not say when.", "The reason is not documented.",
        "Based on the record, there is no information about smoking. The patient is 56 years old.",
        "Nicht dokumentiert.", "Die Akte enthält dazu keine Angaben.", "Keine Angabe",
        "Das geht aus den Unterlagen nicht hervor.", "Es wurde kein Wert dokumentiert.",
        "Non documenté.", "Le dossier ne mentionne pas la dose.", "Aucune information disponible",
        "Cette information n'est pas précisée dans le dossier.", "Je ne sais pas.",
        "No se menciona en la historia clínica.", "No hay información al respecto.", "sin datos",
        "El motivo no está documentado.", "No consta en la historia.",
        "Es gibt in der Akte keinen Hinweis auf das Datum.", "Ein Wert wurde nicht gefunden.",
        "It's unclear from the record which drug was used.", "Cela n'apparaît pas dans les notes.",
    ],
)  # fmt: skip
def test_refusals(text):
    assert is_refusal(text) and judge("token_overlap", "aspirin", text).refusal


@pytest.mark.parametrize(
    "text",
    [
        "", "No", "No evidence of disease", "The patient denies pain", "No known drug allergies",
        "The patient was not able to walk", "Patient unable to provide history",
        "The cause could not be identified", "Hemoglobin was not checked", "unknown etiology fever",
        "Metformin was stopped; the reason is not documented.", "10 mg, frequency not specified",
        "The dose was 20 mg, though the start date is not mentioned.", "never smoker",
        "Penicillin (reaction not documented)", "No fever was documented, BP 120/80.",
        "Not documented in the notes, but he reported 10 mg.", "No fracture was found on CT.",
        "The EGFR mutation was not detected.", "The note says the patient did not report pain.",
        "Der Patient raucht nicht.", "Keine Allergien bekannt", "Keine Hinweise auf Pneumonie.",
        "Abgesetzt, der Grund ist nicht dokumentiert.", "Pas d'allergie connue.",
        "Aucun signe de pneumonie.", "Sin alergias conocidas.", "El paciente niega dolor.",
        "Se suspendió la metformina; no se indica el motivo.",
        "Warfarin 5 mg daily, although no indication is recorded.",
    ],
)  # fmt: skip
def test_answers_that_are_no_refusals(text):
    assert not is_refusal(text)


QUESTION = "What treatment was chosen for the rash?"
REFERENCE = "clobetasol 0.05 % ointment (July 2008)"
CONTEXT = [
    "[2008-07-01] Skin: dermatology has moved him to clobetasol 0.05 % ointment.",
    "[2007-02-11] Scalp: ketoconazole shampoo twice weekly.",
]


def kind(answer: str, **options: object) -> str:
    return failure_kind(QUESTION, answer, REFERENCE, CONTEXT, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("", "empty"),
        (" … ", "empty"),
        ("The record does not mention a treatment.", "refusal"),
        ("[2007-02-11] Scalp: ketoconazole shampoo\n[2009-01-01] Weight: 80 kg", "continuation"),
        ("QUESTION: What else?", "continuation"),
        ("It is possible that clobetasol was chosen.", "hedged"),
        ("clobetasol 0.1 % ointment (July 2008)", "wrong value"),
        ("Ketoconazole shampoo.", "wrong entity"),
        ("Methotrexate by injection.", "unsupported"),
        ("An ointment.", "omission"),
        ("Yes", "other"),
        ("Clobetasol 0.05 % ointment, July 2008.", "other"),
    ],
)
def test_each_kind_has_its_rule(answer: str, expected: str):
    assert kind(answer) == expected


def test_a_reader_that_names_its_line_quotes_and_does_not_continue():
    line = CONTEXT[1]
    assert kind(line) == "continuation"
    assert kind(line, quotes=True) == "wrong entity"


def test_a_lost_question_is_recognised_by_the_topic_of_the_answer():
    carried_on = "mg daily. Return to clinic in six weeks."
    assert kind(carried_on, question_survived=False) == "continuation"
    assert kind(carried_on) != "continuation"
    # By chance on the subject: without the question it is no continuation that can be told.
    assert kind("The rash cleared by itself.", question_survived=False) != "continuation"


@given(st.text(max_size=200), st.text(max_size=80), st.booleans(), st.booleans())
def test_any_text_has_exactly_one_failure_kind(
    answer: str, reference: str, survived: bool, quotes: bool
):
    kind_found = failure_kind(QUESTION, answer, reference, CONTEXT, survived, quotes)
    assert kind_found in FAILURE_KINDS
    assert kind_found == failure_kind(QUESTION, answer, reference, iter(CONTEXT), survived, quotes)
