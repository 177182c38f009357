"""Search terms of texts and questions, and what the analysed search finds."""

from __future__ import annotations

import pytest

from midchart.core.arms import ARMS
from midchart.core.protocol import Protocol
from midchart.core.text.analysis import analyzer, folded, language_of
from midchart.core.types import Budget, Instruction
from tests.support.charts import chart


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Œdème", "oedeme"),
        ("STRASSE Straße", "strasse strasse"),
        ("ＢＭＩ ２０", "bmi 20"),
        ("ガ", "ガ"),  # its voicing mark is no accent
        ("naïve Ångström Øre", "naive angstrom ore"),
    ],
)
def test_texts_are_folded(text, result):
    assert folded(text) == result


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("english", "He was given the medications", ["medic"]),
        ("english", "20.0 mg/dL and 7,20 %", ["20", "20mg/dl", "7.2", "7.2%"]),
        ("english", "1,500 mL", ["1500", "1500ml"]),
        ("german", "Der Patient hat Allergien", ["allergi"]),
        ("french", "les œdèmes", ["oedem"]),
        ("english", "アナフィ", ["アナ", "ナフ", "フィ"]),
        ("english", "SystolicBP", ["systolicbp", "systol", "bp"]),
        ("english", "HbA1c PROzac", ["hba1c", "prozac"]),
        ("english", "Check up (procedure)", ["check"]),
        ("english", "Thrombectomy", ["thrombectomi", "ectomi"]),
    ],
)
def test_terms(language, text, terms):
    assert analyzer(language).terms(text) == terms


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The patient was admitted with pain in the chest.", "english"),
        ("Der Patient wurde mit Schmerzen in der Brust aufgenommen.", "german"),
        ("Le patient est admis pour des douleurs à la poitrine.", "french"),
        ("El paciente fue ingresado por dolor en el pecho.", "spanish"),
        ("K 4.1; Na 139; de novo", "english"),
    ],
)
def test_language(text, language):
    assert language_of([text]) == language


LINES = [
    *("ALLERGIES: penicillin", "Smoking Status: never", "Lower extremity oedema", "BP 120/80"),
    *("Myocardial infarction in 2009", "アナフィラキシーの既往あり", "Walks with a cane"),
    *("Platelets 349", "Furosemide 40 mg", "Status post appendectomy", "Lives with a sister"),
]


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("Is he allergic to any drug?", 0),
        ("Does the patient smoke?", 1),
        ("Is there any œdème or swelling?", 2),
        ("What was the blood pressure?", 3),
        ("Did she have a heart attack?", 4),
        ("アナフィラキシーはありますか", 5),
        ("Does he need a walking aid?", 6),
        ("What was the PLT?", 7),
        ("Which water pill is taken?", 8),
        ("Which operations were done?", 9),
        ("Welche Allergien hat der Patient?", 0),
        ("Quelle est la tension artérielle ?", 3),
        ("¿Fuma el paciente?", 1),
    ],
)
def test_a_question_finds_what_a_chart_writes_in_its_place(question, place):
    record = chart(*LINES, kind="x", digest="analysis")
    arm = ARMS.build("bm25_analysed", Protocol())
    [first, *_] = arm.select(record, Instruction("i", "p1", question), Budget(1, 0)).kept
    assert first.sentence.text == LINES[place]


def test_us_is_no_abbreviation_and_what_is_not_asked_is_not_kept():
    record = chart("Sonography of the liver", "Tell us more", kind="x", digest="us")
    arm = ARMS.build("bm25_analysed", Protocol())

    def texts(question: str) -> set[str]:
        selection = arm.select(record, Instruction("i", "p1", question), Budget(5, 0))
        return {one.sentence.text for one in selection.kept}

    assert texts("tell us") == {"Tell us more"}
    assert texts("last US?") == {"Sonography of the liver", "Tell us more"}
    assert texts("ferritin?") == set()
