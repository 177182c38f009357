"""Judge choice: forms in which models answer a multiple-choice question, and what is unparsed."""

from __future__ import annotations

import pytest

from midchart.core.judges import JUDGES
from midchart.core.protocol import Protocol, parse
from midchart.core.text.choices import chosen_option
from midchart.core.types import Answer, Gold, Instruction

DRUGS = ("Aspirin", "Heparin", "Insulin glargine", "Digoxin", "None of the above")
LUNGS = ("left lung", "both lungs", "no lung is affected", "right lung and left lung")
YEARS = ("5 mg", "5.5 mg", "10 mg", "15 mg")
BLOOD = ("O", "A", "B", "AB")
GERMS = ("E. coli", "C. difficile colitis", "Hepatitis B", "Vitamin D deficiency")

READ = [
    # The letter alone, as chat models print it.
    ("B", DRUGS, "B"),
    (" B.\n", DRUGS, "B"),
    ("[b]", DRUGS, "B"),
    ("**B**", DRUGS, "B"),
    ("a", DRUGS, "A"),
    ("Option C", DRUGS, "C"),
    # Letter and text.
    ("(B) Heparin", DRUGS, "B"),
    ("**B**: Heparin", DRUGS, "B"),
    ("B. both lungs", LUNGS, "B"),
    ("A. The letter of March names it.", DRUGS, "A"),
    # The text alone.
    ("**Heparin**", DRUGS, "B"),
    ("Answer: Insulin   glargine", DRUGS, "C"),
    ("right lung and left lung", LUNGS, "D"),
    ("5.5 mg", YEARS, "B"),
    ("None of the above", DRUGS, "E"),
    ("E. coli", GERMS, "A"),
    ("AB", BLOOD, "D"),
    # Statements.
    ("The correct answer is B: Heparin.", DRUGS, "B"),
    ("The correct answer is **B**.", DRUGS, "B"),
    ("The most likely answer would be B", DRUGS, "B"),
    ("The answer to the question is: B", DRUGS, "B"),
    ("Answer: **(B)** Heparin was started in March.", DRUGS, "B"),
    ("Answer = B", DRUGS, "B"),
    ("## Answer\nB", DRUGS, "B"),
    ("The answer is a.", DRUGS, "A"),
    ("I would choose B because A is wrong.", DRUGS, "B"),
    ("Option B (Heparin) is correct.", DRUGS, "B"),
    ("A is incorrect. C is incorrect. D is not mentioned. B is the right answer.", DRUGS, "B"),
    ("The correct answer is B, not A.", DRUGS, "B"),
    ("Die richtige Antwort lautet: (B) Heparin", DRUGS, "B"),
    ("Lösung: B", DRUGS, "B"),
    ("The correct answer is B: Heparin.\nThe incorrect options are A, C and D.", DRUGS, "B"),
    ("B. Heparin\n\nWhy not the others:\nA. Aspirin was stopped\nC. Not given", DRUGS, "B"),
    ("B seems correct.", DRUGS, "B"),
    ("It cannot be A, so it must be B.", DRUGS, "B"),
    ("B (A is wrong)", DRUGS, "B"),
    ("A ❌\nB ✅\nC ❌", DRUGS, "B"),
    # Formats.
    (r"\boxed{D}", DRUGS, "D"),
    (r"The answer is \(\boxed{\text{D}}\).", DRUGS, "D"),
    ('{"answer": "B"}', DRUGS, "B"),
    ('{"answer": "B", "explanation": "The letter names it. Aspirin was stopped."}', DRUGS, "B"),
    ("<answer>B</answer>", DRUGS, "B"),
    ("| Answer | B |", DRUGS, "B"),
    # Reasoning first.
    ("the answer could be A.\n</think>\nB", DRUGS, "B"),
    (
        "<|channel|>analysis<|message|>The answer is A?<|end|><|start|>assistant"
        "<|channel|>final<|message|>B",
        DRUGS,
        "B",
    ),
    ("The letter of March names heparin. Aspirin was stopped.\n\nB", DRUGS, "B"),
    ("Either A or C is possible at first. The final answer is C.", DRUGS, "C"),
    (
        "A: Aspirin was stopped.\nB: Heparin was started.\nC: Insulin was never given.\n\n"
        "The correct answer is B.",
        DRUGS,
        "B",
    ),
    ("B\n\nExplanation: aspirin was stopped before.", DRUGS, "B"),
    ("A: Aspirin was stopped.\nB: Heparin was started.\n\nB", DRUGS, "B"),
    ("Based on the record, she received heparin (option B).", DRUGS, "B"),
    ("The drug that was started in March is heparin.", DRUGS, "B"),
    ("Sure! B because it was started in March", DRUGS, "B"),
]

UNPARSED = [
    ("", DRUGS),
    ("A or B", DRUGS),
    ("A and C", DRUGS),
    ("The answer is A or B.", DRUGS),
    ("The answer is either (A) or (B).", DRUGS),
    ("The answer is aspirin and heparin.", DRUGS),
    ('{"answer": null}', DRUGS),
    ("The correct answers are A and B.", DRUGS),
    (r"\boxed{A, B}", DRUGS),
    ("A: Aspirin\nB: Heparin\nC: Insulin glargine\nD: Digoxin\nE: None of the above", DRUGS),
    ("The correct answer is B: Aspirin.", DRUGS),
    ("The correct answer is F: Codeine.", DRUGS),
    ("A patient was admitted with a cough.", DRUGS),
    ("I would need more of the record.", DRUGS),
    ("It is not A.", DRUGS),
    ("Neither A nor B.", DRUGS),
    ("B if the patient is allergic, else C.", DRUGS),
    ("None of the above", LUNGS),
    ("<think>The answer is B", DRUGS),
    ("The temperature was 38 °C.", DRUGS),
    ("C. difficile was ruled out.", DRUGS),
    ("Aspirin was stopped and heparin was started in March.", DRUGS),
    ("A", BLOOD),
    ("A. baumannii", DRUGS),
    ("both lungs are affected", LUNGS),
]


@pytest.mark.parametrize(("text", "options", "letter"), READ)
def test_the_option_that_an_answer_chooses(
    text: str, options: tuple[str, ...], letter: str
) -> None:
    assert chosen_option(text, options) == "ABCDE".index(letter)


@pytest.mark.parametrize(("text", "options"), UNPARSED)
def test_an_answer_that_cannot_be_read_or_contradicts_itself(
    text: str, options: tuple[str, ...]
) -> None:
    assert chosen_option(text, options) is None
    asked = Instruction("i", "r", "Which?", options=options)
    verdict = JUDGES.build("choice", Protocol()).judge(asked, Gold("i", options[1]), Answer(text))
    assert (verdict.outcome, verdict.raw) == ("unparsed", "none chosen, B is correct")


def outcome(text: str, options: tuple[str, ...], protocol: Protocol, **rule: str):
    asked = Instruction("i", "r", "Which?", options=options)
    judge = JUDGES.build("choice", protocol, **rule)
    return judge.judge(asked, Gold("i", options[1]), Answer(text))


@pytest.mark.parametrize("text", ["I cannot determine the answer.", "Not documented."])
def test_who_declines_is_incorrect_and_a_refusal_unless_an_option_declines(text: str) -> None:
    verdict = outcome(text, DRUGS, Protocol())
    assert (verdict.outcome, verdict.refusal) == ("incorrect", True)
    declining = ("Aspirin", "The question cannot be answered")
    verdict = outcome(text, declining, Protocol())
    assert (verdict.outcome, verdict.refusal) == ("unparsed", True)


@pytest.mark.parametrize(
    ("text", "authors", "any_form"),
    [
        ("The correct answer is B: Heparin.", "correct", "correct"),
        ("The correct answer is A: Aspirin.", "incorrect", "incorrect"),
        ("B", "incorrect", "correct"),
        ("The correct answer is **B**: Heparin.", "incorrect", "correct"),
        ("the correct answer is B: Heparin.", "incorrect", "correct"),
        ("The correct answer is b: Heparin.", "incorrect", "correct"),
        ("The correct answer is F: Codeine.", "incorrect", "unparsed"),
        ("The correct answer is B: Heparin. The correct answer is A: no.", "correct", "incorrect"),
        ("<think>The correct answer is A: Aspirin.</think>B", "incorrect", "correct"),
        ("A) or B)", "incorrect", "unparsed"),
        ("", "incorrect", "unparsed"),
    ],
)
def test_the_authors_rule_is_an_option_and_that_of_the_published_protocol(
    text: str, authors: str, any_form: str
) -> None:
    published, corrected = parse("published"), Protocol()
    assert outcome(text, DRUGS, corrected).outcome == any_form
    assert outcome(text, DRUGS, published).outcome == authors
    for protocol in (published, corrected):
        assert outcome(text, DRUGS, protocol, rule="authors").outcome == authors
        assert outcome(text, DRUGS, protocol, rule="any_form").outcome == any_form
