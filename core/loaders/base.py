"""Base classes of loaders: a loader reads its files, the base class makes the cohort.

A format with records of text (notes, resources, tables of an EHR) subclasses
:class:`RecordLoader`, a format of coded events with prediction tasks :class:`EventLoader`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from core.loaders.files import LoadLog
from core.loaders.gold import LazyGold
from core.loaders.labelled import EventFiles, LabelCounts, LabelledData, StoredRecords
from core.loaders.manifest import read_manifest
from core.loaders.questions import Questions
from core.loaders.records import LazyRecords
from core.types import Cohort, Manifest


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
    def accepts(self, path: str) -> bool:
        """Whether file names or headers at ``path`` are those of the format."""

    @abstractmethod
    def load(self, path: str) -> Cohort:
        """Open the cohort at ``path``; raises DataError where nothing of it can be read."""

    def root(self, place: Path) -> Path:
        """The cohort's folder, where its manifest is, for an accepted path."""
        folder = place if place.is_dir() else place.parent
        return folder.parent if folder.name in self.record_folders else folder

    def _cohort(self, place: Path, log: LoadLog, **parts: Any) -> Cohort:
        root = self.root(place)
        default = Manifest(
            root.name,
            source=self.source,
            licence=self.licence,
            deidentified=self.deidentified,
        )
        return Cohort(
            path=str(place),
            format=self.name,
            manifest=read_manifest(root, default, log),
            skipped=log.skipped,
            warnings=log.warnings,
            **parts,
        )


class RecordLoader(CohortLoader):
    """A format of records. Subclasses write ``read``, and ``accepts`` or ``suffix`` and ``marks``.

    ``suffix`` and ``marks``: the ending (lower case) of the format's files, and texts that the
    first ``sniffed`` bytes of each hold, or its first line where ``marks_in_line``.
    :class:`core.loaders.records.PatientEntries` collects the entries of patients,
    :func:`core.loaders.questions.read_question_tables` reads questions in MedAlign's columns.
    """

    suffix: ClassVar[str]
    marks: ClassVar[tuple[bytes, ...]]
    sniffed: ClassVar[int] = 1 << 16
    marks_in_line: ClassVar[bool] = False

    def accepts(self, path: str) -> bool:
        """A file with the format's marks, or a folder with one."""
        return bool(self.files(Path(path)))

    def files(self, place: Path) -> list[Path]:
        """The files with the format's marks: ``place`` itself, or those of the folder."""
        inside = [place] if place.is_file() else sorted(place.iterdir())
        return [f for f in inside if f.suffix.lower() == self.suffix and self._has_marks(f)]

    def _has_marks(self, path: Path) -> bool:
        if not path.is_file():
            return False
        with path.open("rb") as opened:
            head = (opened.readline if self.marks_in_line else opened.read)(self.sniffed)
        return all(mark in head for mark in self.marks)

    @abstractmethod
    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[LazyRecords, Questions]:
        """Records and questions at ``place``, a file or folder of the cohort's folder ``root``.

        Parts that cannot be read enter ``log``; raises DataError where no record can be read.
        """

    def load(self, path: str) -> Cohort:
        """Open the cohort; raises DataError where no record can be read."""
        place, log = Path(path), LoadLog()
        records, questions = self.read(place, self.root(place), log)
        return self._cohort(
            place,
            log,
            records=records,
            instructions=tuple(questions.instructions),
            gold=LazyGold(questions.gold, records, log, located=questions.located),
            responses=questions.responses,
        )


class EventLoader(CohortLoader):
    """A format of coded events with labels. Subclasses write ``accepts`` and ``open_files``."""

    @abstractmethod
    def open_files(self, place: Path, log: LoadLog) -> EventFiles:
        """Where events, splits, labels and code names are; raises DataError without events."""

    def load(self, path: str) -> Cohort:
        """Open the cohort; its events are read when they are first needed. Raises DataError."""
        place, log = Path(path), LoadLog()
        data = LabelledData(self.open_files(place, log), log)
        return self._cohort(place, log, records=StoredRecords(data), labels=LabelCounts(data))
