"""HL7 version 2 messages: results (ORU), documents (MDM), visits (ADT), medicines, vaccinations.

A file holds one message or many, also framed for a socket (MLLP). A patient's messages make one
record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import hl7

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import Demographics, Key, People, record_names
from midchart.core.cohorts.parallel import each_file
from midchart.core.cohorts.records import Entry, PatientEntries, tables_in
from midchart.core.documents.hl7v2_segments import Hl7Message, messages_of
from midchart.core.documents.payloads import cell_text, payload_text
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.storage.sources import Source


@LOADERS.register("hl7v2")
class Hl7v2(RecordLoader):
    """Files of HL7 version 2 messages, and a table of questions."""

    name = "hl7v2"
    title = "HL7 v2 messages (ORU, MDM, ADT, VXU; one or many a file)"
    source = "HL7 v2"
    suffix = (".hl7", ".hl7v2", ".txt", ".dat", ".msg", ".er7", ".oru", ".mdm", ".adt")
    deep, unit = True, "message about a patient"

    def has_marks(self, file: Source) -> bool:
        """Whether a file begins with the head of a message or of a batch."""
        head = file.start(64).replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe\x0b\r\n ")
        return re.match(rb"(?:MSH|FHS|BHS)[^\w\s]", head) is not None

    def enter(self, place: Source, patients: PatientEntries) -> list[Source]:
        """The messages' patients, and the questions of tables in the folder."""
        log, messages = patients.log, list[tuple[Key, str, list[Entry]]]()
        people = People(log)
        for file, read in each_file(self.files(place), log, _read_file, list[_Read]):
            messages += _about_patients(file.name, read, people, log)
        names = record_names(key for key, *_ in messages)
        for key, name, entries in messages:
            patients.add(names[key], name, *entries)
            patients.name(names[key], key[1], name)
            facts = {"birthdate": people.of(key).born, "gender": people.of(key).sex}
            patients.facts[names[key]] = {n: v for n, v in facts.items() if v}
        people.name_shared(names)
        return tables_in(place)


_Read = tuple[
    str, str, tuple[Key, Demographics] | None, list[Entry], int, dict[str, int], list[str]
]
"""Place and text of a message, its patient and entries, the number of its segments, those that are
left out by reason, and problems."""


def _read_file(file: Source, log: LoadLog) -> list[_Read]:
    """The messages of a file; raises DataError where none can be read."""
    name, (text, _) = file.name, file.decoded()
    read: list[_Read] = []
    for number, one in enumerate(messages_of(text), 1):
        place = f"{name} (message {number:,})"
        try:
            message = Hl7Message(one, payload_text, cell_text)
            patient, entries = message.patient(PurePosixPath(name).stem), message.entries()
        except (hl7.HL7Exception, IndexError, KeyError, TypeError, ValueError, AttributeError):
            log.skip(place, None, "does not follow HL7 v2 — export it again")
            continue
        counts = (message.segments, message.left_out, message.problems)
        read.append((place, one, patient, entries, *counts))
    if not read:
        raise DataError(name, None, "holds no HL7 v2 message", "export it again")
    return read


def _about_patients(
    name: str, read: Sequence[_Read], people: People, log: LoadLog
) -> Iterator[tuple[Key, str, list[Entry]]]:
    """The messages of a file by patient; what is left out of each enters ``log``."""
    left_out, known = Counter[str](), set[str]()
    for place, one, patient, entries, segments, missing, problems in read:
        if one in known or patient is None or not people.same(*patient, place):
            reason = "its message is there twice" if one in known else (
                "its message names no patient" if patient is None
                else "its message is about another person under the same number"
            )  # fmt: skip
            left_out[reason] += segments
            log.skip(place, None, reason.replace("its message ", "") + " — it is not read")
            continue
        known.add(one)
        left_out.update(missing)
        for problem in problems:
            log.skip(place, None, problem)
        yield patient[0], name, entries
    total = sum(segments for *_, segments, _, _ in read)
    log.account(name, "segments", total=total, shown=total - left_out.total(), reasons=left_out)
