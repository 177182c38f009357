"""Base classes of loaders: a loader reads its files, the base class makes the cohort.

A format with records of text (notes, resources, tables of an EHR) subclasses
:class:`RecordLoader`, a format of coded events with prediction tasks :class:`EventLoader`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.gold import LazyGold, LazyValues
from midchart.core.cohorts.identity import warn_of_twins
from midchart.core.cohorts.labelled import EventFiles, LabelledData, StoredRecords
from midchart.core.cohorts.manifest import read_manifest
from midchart.core.cohorts.records import (
    PatientEntries,
    Questions,
    ReadRecords,
    read_question_tables,
)
from midchart.core.storage.sources import DEEP, Source
from midchart.core.types import Cohort, Manifest


class CohortLoader(ABC):
    """What both kinds share. Subclasses set ``name``, ``title`` and ``source``."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """``source`` of the manifest of a cohort without one; ``licence`` and ``deidentified`` too."""
    licence: ClassVar[str] = ""
    deidentified: ClassVar[str] = "unknown"
    record_folders: ClassVar[tuple[str, ...]] = ()
    """Sub-folders of the cohort's folder that may hold its records."""

    @abstractmethod
    def accepts(self, place: Source) -> bool:
        """Whether file names or headers at a place are those of the format."""

    @abstractmethod
    def load(self, path: str) -> Cohort:
        """Open the cohort at ``path``; raises DataError where nothing of it can be read."""

    def root(self, place: Path) -> Path:
        """The cohort's folder, where its manifest is, for an accepted path."""
        folder = Source.at(place).root
        return folder.parent if folder.name in self.record_folders else folder

    def companions(self, place: Source) -> list[Source]:
        """The files outside of an accepted place that are read with it, where they are there."""
        return []

    def manifest(self, root: Path, log: LoadLog) -> Manifest:
        """The data-use tag of the cohort in the folder ``root``."""
        default = Manifest(
            root.name,
            source=self.source,
            licence=self.licence,
            deidentified=self.deidentified,
        )
        return read_manifest(root, default, log)

    def _cohort(self, place: Path, manifest: Manifest, log: LoadLog, **parts: Any) -> Cohort:
        return Cohort(
            path=str(place),
            format=self.name,
            manifest=manifest,
            skipped=log.skipped,
            warnings=log.warnings,
            accounts=log.accounts,
            unsettled=log.unsettled,
            **parts,
        )


class RecordLoader(CohortLoader):
    """A format of records. Subclasses write ``read_file`` and set ``suffix`` and ``marks``, or
    write ``enter`` and ``accepts``.

    ``suffix`` and ``marks``: the ending (lower case), or endings, of the format's files, and texts
    that the first ``sniffed`` bytes of each hold.
    ``deep``: whether files of sub-folders are read. ``by_time``: whether entries have times.
    ``unit``: what a file holds.
    """

    suffix: ClassVar[str | tuple[str, ...]]
    deep: ClassVar[bool] = False
    marks: ClassVar[tuple[bytes, ...]]
    sniffed: ClassVar[int] = 1 << 16
    by_time: ClassVar[bool] = True
    unit: ClassVar[str] = "record"

    def accepts(self, place: Source) -> bool:
        """A file with the format's marks, or a folder with one."""
        return bool(self.files(place))

    def files(self, place: Source) -> list[Source]:
        """The files with the format's marks: ``place`` itself, or those of the folder."""
        inside = place.entries(*((DEEP,) if self.deep else ()))
        those = (f for f in inside if f.ending.endswith(self.suffix) and f.is_file())
        return list(filter(self.has_marks, those))

    def has_marks(self, file: Source) -> bool:
        """Whether the head of a file has the format's marks."""
        head = file.start(self.sniffed)
        return all(mark in head for mark in self.marks)

    def read_file(self, file: Source, patients: PatientEntries) -> None:
        """Enter the records and questions of a file.

        Parts that cannot be read enter ``patients.log``; raises DataError where nothing of the file
        can be read.
        """
        raise NotImplementedError

    def enter(self, place: Source, patients: PatientEntries) -> Sequence[Source]:
        """Enter the files at ``place``; gives the tables of questions about their records."""
        for file in self.files(place):
            with patients.log.reading(file):
                self.read_file(file, patients)
        return ()

    def read(self, place: Source, log: LoadLog) -> tuple[ReadRecords, Questions]:
        """Records and questions at ``place``, a file or folder of the cohort's folder.

        Parts that cannot be read enter ``log``; raises DataError where no record can be read.
        """
        patients = PatientEntries(log)
        tables = self.enter(place, patients)
        records = patients.records(self.by_time)
        if not records:
            raise log.nothing_read(place.own_name, f"holds no {self.unit}")
        questions = read_question_tables(tables, records, log) if tables else patients.questions
        return records, questions

    def load(self, path: str) -> Cohort:
        """Open the cohort; raises DataError where no record can be read."""
        place, root = Path(path), self.root(Path(path))
        cohort = self.content(place, not self.manifest(root, LoadLog()).synthetic)
        log = LoadLog(cohort.skipped, cohort.warnings)
        return dataclasses.replace(cohort, manifest=self.manifest(root, log))

    def content(self, place: Path, named: bool) -> Cohort:
        """The cohort without its data-use tag; raises as :meth:`load`.

        ``named``: whether files that are no part of the format are named, as they are but in a
        synthetic cohort, whose generator describes it in files.
        """
        root, log = self.root(place), LoadLog()
        records, questions = self.read(Source(place, root), log)
        warn_of_twins(records, log)
        _account_files(Source(place, root), self.title, log, named)
        return self._cohort(
            place,
            Manifest(root.name),
            log,
            records=records,
            instructions=tuple(questions.instructions),
            gold=LazyGold(questions.gold, records, log),
            responses=questions.responses,
        )


def _account_files(place: Source, title: str, log: LoadLog, named: bool) -> None:
    """Enter every file at ``place`` as opened or not, and name those that were not if ``named``."""
    inside = filter(Source.is_file, place.entries(DEEP))
    files = [one for one in inside if place == one or not one.own_name.startswith("midchart.")]
    foreign = [file.name for file in files if file not in log.opened]
    if foreign and named:
        more = f" and {len(foreign) - _MOST_NAMED:,} more" if len(foreign) > _MOST_NAMED else ""
        log.warn(
            f"{len(foreign):,} {'files are' if len(foreign) > 1 else 'file is'} not part of the "
            f"format and not read: {', '.join(foreign[:_MOST_NAMED])}{more} — the format is {title}"
        )
    opened = len(files) - len(foreign)
    log.account(place.name, "files", total=opened, shown=opened)
    for name in foreign:
        log.account(name, "files", total=1, shown=0, reasons={"is not part of the format": 1})


_MOST_NAMED = 20
"""Files that one warning names."""


class EventLoader(CohortLoader):
    """A format of coded events with labels. Subclasses write ``accepts`` and ``open_files``."""

    @abstractmethod
    def open_files(self, place: Source, log: LoadLog) -> EventFiles:
        """Where events, splits, labels and code names are; raises DataError without events."""

    def load(self, path: str) -> Cohort:
        """Open the cohort; many events are read when they are first needed. Raises DataError."""
        place, log = Path(path), LoadLog()
        root = self.root(place)
        data = LabelledData(self.open_files(Source(place, root), log), log, path)
        if data.small():
            data.store()  # which patients have events, and what is wrong with them
        manifest = self.manifest(root, log)
        parts = {"records": StoredRecords(data), "labels": LazyValues(data.tasks, data.count)}
        return self._cohort(place, manifest, log, **parts)
