"""ArchEHR-QA (PhysioNet, archehr-qa-bionlp-task-2025): note excerpts with labelled sentences.

A case of ``archehr-qa.xml`` is a record of one note, its sentences in order, and the clinician's
question. ``archehr-qa_key.json`` in its folder labels each sentence: the essential ones are the
evidence, exactly, or the supplementary ones where none is essential. The reference is the
clinician's answer where the key has one, else the essential sentences. Without a key the questions
have no evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree.ElementTree import Element

from pydantic import BaseModel, TypeAdapter

from core.loaders import LOADERS
from core.loaders.base import RecordLoader
from core.loaders.files import LoadLog, read_text, read_xml, shown, unused
from core.loaders.questions import Questions, task_type_of
from core.loaders.records import LazyRecords, PatientEntries, entry
from core.parsing import read_document
from core.types import Instruction, Record, Span

LABELS = ("essential", "supplementary", "not-relevant")
_CITATION = re.compile(r"\s*\|[\d,\s]*\|")
_FORMAT = "see the format of ArchEHR-QA"


class _Label(BaseModel):
    sentence_id: str
    relevance: str


class _Case(BaseModel):
    case_id: str
    answers: list[_Label]
    clinician_answer_without_citations: str = ""
    clinician_answer: str = ""


_KEY = TypeAdapter(list[_Case])


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


@LOADERS.register("archehr_qa")
class ArchEhrQa(RecordLoader):
    """ArchEHR-QA's cases, with the key where it is there."""

    name = "archehr_qa"
    title = "ArchEHR-QA (XML of cases, JSON key of sentence labels)"
    source = "ArchEHR-QA"
    licence = "PhysioNet Credentialed Health Data License"
    suffix, marks, sniffed = ".xml", (b"<annotations", b"<case"), 1 << 14

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """All cases with sentences, and their questions."""
        cases: dict[str, tuple[Element, str, dict[str, tuple[int, int]], _Case | None]] = {}
        patients, numbers = PatientEntries(log), Counter[str]()
        for file in self.files(place):
            name = shown(file, root)
            with log.skipping(name):
                key = self._key(file, root, log)
                for number, case in enumerate(read_xml(file, name).iterfind("case"), 1):
                    stated = case.get("id") or str(number)
                    text, places = _note(case)
                    if not text:
                        log.skip(name, None, f"case {stated} has no sentence — {_FORMAT}")
                        continue
                    id = unused(stated, cases, numbers)
                    cases[id] = (case, name, places, key.get(stated))
                    note = entry(None, "note", name="note excerpt", text=text, note_id=id)
                    patients.add(id, name, note)
        if not cases:
            raise log.nothing_read(place.name, "holds no case")
        records, questions = patients.records(by_time=False), Questions()
        for id, (case, name, places, labels) in cases.items():
            asked = _text(case, "clinician_question") or _text(case, "patient_question")
            if not asked:
                log.skip(name, None, f"case {id} has no question — {_FORMAT}")
                continue
            instruction = Instruction(f"case-{id}", id, asked, task_type=task_type_of(asked))
            if labels is None:
                questions.instructions.append(instruction)
            else:
                self._ask(questions, instruction, records[id], places, labels, name, log)
        return records, questions

    def _key(self, file: Path, root: Path, log: LoadLog) -> dict[str, _Case]:
        path = file.with_name(f"{file.stem}_key.json")
        if not path.is_file():
            log.warn(
                f"{shown(file, root)}: no {path.name} is in its folder — questions lack evidence"
            )
            return {}
        name = shown(path, root)
        with log.skipping(name):
            stated = read_document(read_text(path, name).encode(), name, _KEY, _FORMAT)
            return {one["case_id"]: _Case.model_validate(one) for one in stated}
        return {}

    def _ask(
        self,
        questions: Questions,
        instruction: Instruction,
        record: Record,
        places: dict[str, tuple[int, int]],
        labels: _Case,
        file: str,
        log: LoadLog,
    ) -> None:
        unknown = [
            one for one in labels.answers
            if one.sentence_id not in places or one.relevance not in LABELS
        ]  # fmt: skip
        if unknown:
            log.warn(f"{file}: {len(unknown)} labels of case {record.id} name no sentence or label")
        by_label = [
            [
                Span(0, *places[one.sentence_id])
                for one in labels.answers
                if one.relevance == label and one.sentence_id in places
            ]
            for label in LABELS[:2]
        ]
        spans = by_label[0] or by_label[1]
        stated = labels.clinician_answer_without_citations or labels.clinician_answer
        quoted = " ".join(record.events[0].text[span.start : span.end] for span in spans)
        answer = " ".join(_CITATION.sub("", stated).split()) or quoted
        questions.locate(instruction, record, answer, spans, True)
