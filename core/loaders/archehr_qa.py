"""ArchEHR-QA (PhysioNet, archehr-qa-bionlp-task-2025): note excerpts with labelled sentences.

A case of ``archehr-qa.xml`` is a record of one note, its sentences in order, and the clinician's
question. ``archehr-qa_key.json`` in its folder labels each sentence: the essential ones are the
evidence, exactly, or the supplementary ones where none is essential. The reference is the
clinician's answer where the key has one, else the essential sentences. Without a key the questions
have no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from xml.etree.ElementTree import Element

from pydantic import BaseModel, TypeAdapter

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.files import LoadLog, read_text, read_xml, without_hidden
from midchart.core.cohorts.records import PatientEntries, Questions, entry
from midchart.core.loaders import LOADERS
from midchart.core.parsing import read_document
from midchart.core.types import Span

LABELS = ("essential", "supplementary", "not-relevant")
_CITATION = re.compile(r"\s*\|[\d,\s]*\|")
_FORMAT = "see the format of ArchEHR-QA"


class _Label(BaseModel):
    sentence_id: str
    relevance: str


class _ArchehrCase(BaseModel):
    case_id: str
    answers: list[_Label]
    clinician_answer_without_citations: str = ""
    clinician_answer: str = ""

    def unknown(self, places: Mapping[str, tuple[int, int]]) -> int:
        """Number of labels that name no sentence or no label."""
        return sum(x.sentence_id not in places or x.relevance not in LABELS for x in self.answers)

    def gold(
        self, note: str, places: Mapping[str, tuple[int, int]]
    ) -> tuple[str, list[Span], bool]:
        """The answer, and the essential sentences or else the supplementary ones, exactly."""
        essential, supplementary = (
            [
                Span(0, *places[one.sentence_id])
                for one in self.answers
                if one.relevance == label and one.sentence_id in places
            ]
            for label in LABELS[:2]
        )
        spans = essential or supplementary
        stated = self.clinician_answer_without_citations or self.clinician_answer
        quoted = " ".join(note[span.start : span.end] for span in spans)
        return " ".join(_CITATION.sub("", stated).split()) or quoted, spans, True


_KEY = TypeAdapter(list[_ArchehrCase])


def _text(case: Element, tag: str) -> str:
    element = case.find(tag)
    return "" if element is None else " ".join(" ".join(element.itertext()).split())


def _note(case: Element) -> tuple[str, dict[str, tuple[int, int]]]:
    """The note, a line a paragraph, and where each sentence is in it, by its id."""
    text, paragraph, places = "", None, dict[str, tuple[int, int]]()
    for sentence in case.iterfind("note_excerpt_sentences/sentence"):
        words = " ".join("".join(sentence.itertext()).split())
        stated = sentence.get("paragraph_id")
        if text:
            text += " " if stated == paragraph else "\n"
        places[sentence.get("id", "")] = (len(text), len(text) + len(words))
        text, paragraph = text + words, stated
    return text, places


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """The sentences of a case by their ids: first character in the note and the one after, and the
    label that the key gives each (none without a key)."""

    places: Mapping[str, tuple[int, int]]
    labels: Mapping[str, str]


def labelled_cases(path: Path) -> dict[str, LabelledCase]:
    """The cases of the files at ``path``, a folder or one file, by id; raises DataError."""
    files = sorted(without_hidden(path, path.glob("*.xml"))) if path.is_dir() else [path]
    cases: dict[str, LabelledCase] = {}
    for file in files:
        key = _key(file, file.name, LoadLog())
        for number, case in enumerate(read_xml(file, file.name).iterfind("case"), 1):
            id = case.get("id") or str(number)
            stated = key[id].answers if id in key else []
            labels = {one.sentence_id: one.relevance for one in stated}
            cases[id] = LabelledCase(_note(case)[1], labels)
    return cases


@LOADERS.register("archehr_qa")
class ArchEhrQa(RecordLoader):
    """ArchEHR-QA's cases, with the key where it is there."""

    name = "archehr_qa"
    title = "ArchEHR-QA (XML of cases, JSON key of sentence labels)"
    source = "ArchEHR-QA"
    licence = "PhysioNet Credentialed Health Data License"
    suffix, marks, sniffed = ".xml", (b"<annotations", b"<case"), 1 << 14
    by_time, unit = False, "case"

    def companions(self, place: Path) -> list[Path]:
        """The key of a file of cases."""
        return [_key_file(place)] if place.is_file() else []

    def read_file(
        self, file: Path, name: str, patients: PatientEntries, questions: Questions
    ) -> None:
        """All cases with sentences, and their questions."""
        key = _key(file, name, patients.log)
        for number, case in enumerate(read_xml(file, name).iterfind("case"), 1):
            stated = case.get("id") or str(number)
            text, places = _note(case)
            if not text:
                patients.log.skip(name, None, f"case {stated} has no sentence — {_FORMAT}")
                continue
            id = patients.unused(stated, patients.entries)
            patients.add(id, name, entry(None, "note", name="note excerpt", text=text, note_id=id))
            asked = _text(case, "clinician_question") or _text(case, "patient_question")
            if not asked:
                patients.log.skip(name, None, f"case {id} has no question — {_FORMAT}")
                continue
            labels = key.get(stated)
            if labels is not None and (unknown := labels.unknown(places)):
                patients.log.warn(
                    f"{name}: {unknown} labels of case {id} name no sentence or label"
                )
            gold = None if labels is None else labels.gold(text, places)
            questions.ask(f"case-{id}", id, asked, gold)


def _key_file(file: Path) -> Path:
    return file.with_name(f"{file.stem}_key.json")


def _key(file: Path, name: str, log: LoadLog) -> dict[str, _ArchehrCase]:
    """The key of a file's cases, by their ids; none where it is not there or cannot be read."""
    path = _key_file(file)
    if not path.is_file():
        log.warn(f"{name}: no {path.name} is in its folder — questions lack evidence")
        return {}
    name = str(PurePath(name).with_name(path.name))
    with log.skipping(name):
        stated = read_document(read_text(path, name).encode(), name, _KEY, _FORMAT)
        return {one["case_id"]: _ArchehrCase.model_validate(one) for one in stated}
    return {}
