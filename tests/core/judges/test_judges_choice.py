"""Judge choice: forms in which models answer a multiple-choice question, and what is unparsed."""

from __future__ import annotations

import pytest

from midchart.core.errors import UnknownName
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
    ("b", DRUGS, "B"),
    ("b.", DRUGS, "B"),
    (" B.\n", DRUGS, "B"),
    ("(B)", DRUGS, "B"),
    ("[b]", DRUGS, "B"),
    ('"B"', DRUGS, "B"),
    ("B)", DRUGS, "B"),
    ("**B**", DRUGS, "B"),
    ("**B.**", DRUGS, "B"),
    ("__B__", DRUGS, "B"),
    ("`B`", DRUGS, "B"),
    ("### B", DRUGS, "B"),
    ("- B", DRUGS, "B"),
    ("Ⓑ", DRUGS, "B"),
    ("a", DRUGS, "A"),
    ("B<|im_end|>", DRUGS, "B"),
    ("B</s>", DRUGS, "B"),
    ("Option C", DRUGS, "C"),
    ("option c.", DRUGS, "C"),
    ("Answer B", DRUGS, "B"),
    ("Choice (D)", DRUGS, "D"),
    ("Probably B.", DRUGS, "B"),
    # Letter and text.
    ("B) Heparin", DRUGS, "B"),
    ("B. Heparin", DRUGS, "B"),
    ("B: heparin.", DRUGS, "B"),
    ("B - Heparin", DRUGS, "B"),
    ("B Heparin", DRUGS, "B"),
    ("(B) Heparin", DRUGS, "B"),
    ("**B) Heparin**", DRUGS, "B"),
    ("**B**: Heparin", DRUGS, "B"),
    ("Heparin (B)", DRUGS, "B"),
    ("Heparin (option B)", DRUGS, "B"),
    ("B. both lungs", LUNGS, "B"),
    ("B) Heparin was started at the second visit, aspirin was stopped before.", DRUGS, "B"),
    ("A. The letter of March names it.", DRUGS, "A"),
    # The text alone.
    ("Heparin", DRUGS, "B"),
    ("heparin.", DRUGS, "B"),
    ("**Heparin**", DRUGS, "B"),
    ("The correct answer is heparin.", DRUGS, "B"),
    ("Answer: Insulin   glargine", DRUGS, "C"),
    ("Heparin, because the letter says so.", DRUGS, "B"),
    ("The drug that was started was heparin.", DRUGS, "B"),
    ("right lung and left lung", LUNGS, "D"),
    ("The answer is right lung and left lung.", LUNGS, "D"),
    ("5.5 mg", YEARS, "B"),
    ("The answer is 5 mg.", YEARS, "A"),
    ("The correct answer is: 5.5 mg", YEARS, "B"),
    ("None of the above", DRUGS, "E"),
    ("None of the above.", DRUGS, "E"),
    ("E. coli", GERMS, "A"),
    ("C. difficile colitis", GERMS, "B"),
    ("The answer is hepatitis B.", GERMS, "C"),
    ("AB", BLOOD, "D"),
    # Statements.
    ("The answer is B. The letter of March names heparin.", DRUGS, "B"),
    ("The correct answer is B: Heparin.", DRUGS, "B"),
    ("The correct answer is (b).", DRUGS, "B"),
    ("the correct answer is option B", DRUGS, "B"),
    ("The correct answer is **B**.", DRUGS, "B"),
    ("The best answer is therefore (B) Heparin.", DRUGS, "B"),
    ("The most likely answer would be B", DRUGS, "B"),
    ("The answer is most likely B.", DRUGS, "B"),
    ("The correct option among those listed is D.", DRUGS, "D"),
    ("The answer to the question is: B", DRUGS, "B"),
    ("Correct: B", DRUGS, "B"),
    ("Correct answer: B", DRUGS, "B"),
    ("Correct option: (B)", DRUGS, "B"),
    ("Answer: B", DRUGS, "B"),
    ("Answer: **(B)** Heparin was started in March.", DRUGS, "B"),
    ("**Answer:** B", DRUGS, "B"),
    ("**Answer: B) Heparin**", DRUGS, "B"),
    ("ANSWER: b", DRUGS, "B"),
    ("Answer - B", DRUGS, "B"),
    ("Answer = B", DRUGS, "B"),
    ("Answer:\n\nB", DRUGS, "B"),
    ("## Answer\nB", DRUGS, "B"),
    ("Final answer: B", DRUGS, "B"),
    ("My answer is B.", DRUGS, "B"),
    ("The answer is a.", DRUGS, "A"),
    ("#### B", DRUGS, "B"),
    ("So the answer is B.", DRUGS, "B"),
    ("So, B.", DRUGS, "B"),
    ("It's B.", DRUGS, "B"),
    ("I would choose B because A is wrong.", DRUGS, "B"),
    ("I choose option (B).", DRUGS, "B"),
    ("I'd go with B.", DRUGS, "B"),
    ("I think B, since the letter says so.", DRUGS, "B"),
    ("I select C as the correct answer.", DRUGS, "C"),
    ("B is correct.", DRUGS, "B"),
    ("Option B is the correct answer.", DRUGS, "B"),
    ("Option B (Heparin) is correct.", DRUGS, "B"),
    ("B: Heparin is the best choice.", DRUGS, "B"),
    ("A is wrong and B is correct.", DRUGS, "B"),
    ("A is incorrect. C is incorrect. D is not mentioned. B is the right answer.", DRUGS, "B"),
    ("B, because the letter of March says so.", DRUGS, "B"),
    ("The correct answer is B, not A.", DRUGS, "B"),
    ("Not A but rather: the answer is B.", DRUGS, "B"),
    ("Heparin is the correct answer.", DRUGS, "B"),
    ("Antwort: B", DRUGS, "B"),
    ("Die richtige Antwort ist B.", DRUGS, "B"),
    ("Die richtige Antwort lautet: (B) Heparin", DRUGS, "B"),
    ("Richtig ist B.", DRUGS, "B"),
    ("Antwort B ist richtig.", DRUGS, "B"),
    ("Lösung: B", DRUGS, "B"),
    ("Ich würde B wählen.", DRUGS, "B"),
    ("Statement B is correct.", DRUGS, "B"),
    ("B only", DRUGS, "B"),
    ("A. Incorrect.\nB. Correct.\nC. Incorrect.", DRUGS, "B"),
    ("The correct answer is B: Heparin.\nThe incorrect options are A, C and D.", DRUGS, "B"),
    ("**B. Heparin**\n\n**Rationale:** Aspirin (A) was stopped; C was not given.", DRUGS, "B"),
    ("B. Heparin\n\nWhy not the others:\nA. Aspirin was stopped\nC. Not given", DRUGS, "B"),
    ("Of the options given, B is the only one supported by the record.", DRUGS, "B"),
    ("That makes B the correct answer.", DRUGS, "B"),
    ("B seems correct.", DRUGS, "B"),
    ("This points to B.", DRUGS, "B"),
    ("It cannot be A, so it must be B.", DRUGS, "B"),
    ("A and B are wrong. C is right.", DRUGS, "C"),
    ("Answer: C (not A or B)", DRUGS, "C"),
    ("B (A is wrong)", DRUGS, "B"),
    ("Based on the record, (B).", DRUGS, "B"),
    ("A ❌\nB ✅\nC ❌", DRUGS, "B"),
    ("- A: incorrect\n- B: correct\n- C: incorrect", DRUGS, "B"),
    ("None of the above are correct.", DRUGS, "E"),
    # Formats.
    (r"\boxed{D}", DRUGS, "D"),
    (r"$\boxed{D}$", DRUGS, "D"),
    (r"The answer is \(\boxed{\text{D}}\).", DRUGS, "D"),
    (r"\boxed{\text{D) Digoxin}}", DRUGS, "D"),
    (r"\boxed{Digoxin}", DRUGS, "D"),
    ('{"answer": "B"}', DRUGS, "B"),
    ('```json\n{"reasoning": "A is wrong.", "answer": "B"}\n```', DRUGS, "B"),
    ('{"answer": "B", "explanation": "The letter names it. Aspirin was stopped."}', DRUGS, "B"),
    ("{'correct_answer': 'heparin'}", DRUGS, "B"),
    ('{"answer_letter": "B", "answer_text": "Heparin"}', DRUGS, "B"),
    ("<answer>B</answer>", DRUGS, "B"),
    ("<answer>\nB) Heparin\n</answer>", DRUGS, "B"),
    ("| Answer | B |", DRUGS, "B"),
    # Reasoning first.
    ("<think>Is it A? The answer is A. No.</think> B", DRUGS, "B"),
    ("<think>\nA or C\n</think>\n\n**B**", DRUGS, "B"),
    ("the answer could be A.\n</think>\nB", DRUGS, "B"),
    ("[THINK]The answer is A[/THINK]B", DRUGS, "B"),
    (
        "<|channel|>analysis<|message|>The answer is A?<|end|><|start|>assistant"
        "<|channel|>final<|message|>B",
        DRUGS,
        "B",
    ),
    ("The letter of March names heparin. Aspirin was stopped.\n\nB", DRUGS, "B"),
    ("Let me go through them. A was stopped. Therefore, the answer is B.", DRUGS, "B"),
    ("The answer is A. Wait, that was stopped. The answer is B.", DRUGS, "B"),
    ("Either A or C is possible at first. The final answer is C.", DRUGS, "C"),
    (
        "A: Aspirin was stopped.\nB: Heparin was started.\nC: Insulin was never given.\n\n"
        "The correct answer is B.",
        DRUGS,
        "B",
    ),
    ("A: Aspirin\nB: Heparin\nC: Insulin glargine\nD: Digoxin\n\nAnswer: D", DRUGS, "D"),
    ("B\n\nExplanation: aspirin was stopped before.", DRUGS, "B"),
    ("B: Heparin\n\nQUESTION: Which was stopped?\nThe correct answer is A: Aspirin", DRUGS, "B"),
    ("Question: Which drug?\nAnswer: B", DRUGS, "B"),
]

UNPARSED = [
    ("", DRUGS),
    ("   \n", DRUGS),
    ("A) or B)", DRUGS),
    ("A or B", DRUGS),
    ("A, B", DRUGS),
    ("A and C", DRUGS),
    ("AB", DRUGS),
    ("Both A and B are correct.", DRUGS),
    ("The answer is A or B.", DRUGS),
    ("The correct answer is B and C", DRUGS),
    ("The answer is either (A) or (B).", DRUGS),
    ("Answer: A/B", DRUGS),
    ("Aspirin or heparin", DRUGS),
    ("The answer is aspirin and heparin.", DRUGS),
    ('{"answer": ["A", "B"]}', DRUGS),
    ('{"answer": null}', DRUGS),
    ("A\nB", DRUGS),
    ("B. Heparin\nA. Aspirin", DRUGS),
    ("The correct answers are A and B.", DRUGS),
    ("Answer: A patient was given aspirin", DRUGS),
    (r"\boxed{A, B}", DRUGS),
    ("D-dimer was high.", DRUGS),
    ("No option is correct.", DRUGS),
    ("A: Aspirin\nB: Heparin\nC: Insulin glargine\nD: Digoxin\nE: None of the above", DRUGS),
    ("B) Aspirin", DRUGS),
    ("The correct answer is B: Aspirin.", DRUGS),
    ("Aspirin (B)", DRUGS),
    ("F", DRUGS),
    ("The correct answer is F: Codeine.", DRUGS),
    (r"\boxed{}", DRUGS),
    ("A patient was admitted with a cough.", DRUGS),
    ("A cough is described.", DRUGS),
    ("A 65-year-old man took heparin before.", DRUGS),
    ("I would need more of the record.", DRUGS),
    ("The answer is not B.", DRUGS),
    ("It is not A.", DRUGS),
    ("I would not choose B.", DRUGS),
    ("B is wrong.", DRUGS),
    ("Neither A nor B.", DRUGS),
    ("The wrong answer is B.", DRUGS),
    ("B if the patient is allergic, else C.", DRUGS),
    ("The answer is B if the patient is allergic.", DRUGS),
    ("Codeine", DRUGS),
    ("None of the above", LUNGS),
    ("All of the above", DRUGS),
    ("<think>The answer is B", DRUGS),
    ("<think>The answer is B</think>", DRUGS),
    ("Vitamin D was low.", DRUGS),
    ("The temperature was 38 °C.", DRUGS),
    ("E. coli was grown.", DRUGS),
    ("C. difficile was ruled out.", DRUGS),
    ("B-cell lymphoma", DRUGS),
    ("The answer is a drug of the heart.", DRUGS),
    ("Aspirin was stopped and heparin was started in March.", DRUGS),
    ("The record does mention heparin, aspirin and digoxin.", DRUGS),
    ("A", BLOOD),
    ("Cannot choose between A and B.", DRUGS),
    ("Could be A, could be B.", DRUGS),
    ("A. baumannii", DRUGS),
    ("Group B streptococcus", DRUGS),
    ("both lungs are affected", LUNGS),
    ("The dose was 5.5 mg and later 10 mg.", YEARS),
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


def test_another_rule_is_refused() -> None:
    with pytest.raises(UnknownName, match="rule"):
        JUDGES.build("choice", Protocol(), rule="strict")
