"""MedAlign cohorts: a folder of record XML with its two tables, or one record's file.

Both XML dialects are read, told apart file by file (:mod:`core.loaders.medalign_xml`). Ids come
from the head of each file, so opening a cohort does not parse its records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.files import Row, data_error, read_table, shown, skip_of, stably
from core.loaders.gold import LazyGold
from core.loaders.manifest import MEDALIGN_TERMS, cohort_root, read_manifest
from core.loaders.medalign_xml import check_root, read_record, read_root
from core.loaders.questions import (
    QUESTION_COLUMNS,
    RESPONSE_COLUMNS,
    Questions,
    read_questions,
    read_responses,
)
from core.loaders.records import LazyRecords
from core.types import Cohort, Manifest, Record, Response, Skip

RECORD_FOLDERS = ("ehrs", "medalign_ehr_xml")
QUESTION_FILE = "clinician-instruction-responses.tsv"
RESPONSE_FILE = "clinician-reviewed-model-responses.tsv"


def _xml_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() == ".xml")


def record_files(path: Path) -> list[Path]:
    """The record files of a cohort folder, or the one file itself."""
    if path.is_file():
        return [path]
    for name in RECORD_FOLDERS:
        if (path / name).is_dir():
            return _xml_files(path / name)
    return _xml_files(path)


@LOADERS.register("medalign")
class MedAlign:
    """MedAlign's release (dialect a) and public sample (dialect b)."""

    name = "medalign"
    title = "MedAlign (record XML, instruction and response tables)"

    def accepts(self, path: str) -> bool:
        """A file ending in .xml, or a folder with ehrs/, medalign_ehr_xml/ or such files."""
        place = Path(path)
        if place.is_file():
            return place.suffix.lower() == ".xml"
        return place.is_dir() and bool(record_files(place))

    def load(self, path: str) -> Cohort:
        """Open the cohort; raises DataError where not one record can be read."""
        place = Path(path)
        skipped: list[Skip] = []
        warnings: list[str] = []
        try:
            files = record_files(place)
        except OSError as error:
            raise data_error(error, place.name) from None
        root = cohort_root(place, frozenset(RECORD_FOLDERS))
        records = _records(files, root, skipped, warnings)
        if place.is_file():
            _ = records[
                next(iter(records))
            ]  # a lone file that cannot be read is the caller's error
            questions, responses = Questions(), ()
        else:
            questions, responses = _tables(root, records, skipped, warnings)
        synthetic_or_ours = Manifest(root.name, source="MedAlign", licence=MEDALIGN_TERMS)
        return Cohort(
            path=str(place),
            format=self.name,
            manifest=read_manifest(root, synthetic_or_ours, skipped),
            records=records,
            instructions=tuple(questions.instructions),
            gold=LazyGold(questions.gold, records, warnings),
            responses=responses,
            skipped=skipped,
            warnings=warnings,
        )


def _records(
    files: Sequence[Path], root: Path, skipped: list[Skip], warnings: list[str]
) -> LazyRecords:
    readers: dict[str, Callable[[], tuple[Record, list[str]]]] = {}
    aliases: dict[str, str | None] = {}
    origin: dict[str, str] = {}
    for file in files:
        name = shown(file, root)
        try:
            tag, attributes = stably(file, name, partial(read_root, file, name))
            check_root(tag, name)
        except DataError as error:
            skipped.append(skip_of(error))
            _name(aliases, file, None)
            continue
        id = attributes.get("person_id", "").strip() or file.stem
        if id in readers:
            reason = f"has the person_id of {origin[id]} — keep one of the two"
            skipped.append(Skip(name, None, reason))
            _name(aliases, file, id if id == file.stem else None)
            continue
        readers[id] = partial(read_record, file, name, id)
        origin[id] = name
        _name(aliases, file, id)
    if not readers:
        first = skipped[0] if skipped else Skip(root.name, None, "holds no record")
        if len(files) == 1:
            raise DataError(first.file, first.line, first.reason)
        reason = f"none of its {len(files)} record files can be read"
        raise DataError(root.name, None, reason, f"the first: {first.file}: {first.reason}")
    for file in files:
        other = origin.get(file.stem)
        if other is not None and aliases[file.name] != file.stem:
            warnings.append(
                f"{shown(file, root)}: its name is the person_id of {other} — a table's filename "
                "means the file, its person_id the record; check that they agree"
            )
    return LazyRecords(readers, aliases, skipped, warnings)


def _name(aliases: dict[str, str | None], file: Path, id: str | None) -> None:
    """Enter a file's names; a stem that two files share is neither's."""
    aliases[file.name] = id
    aliases[file.stem] = id if aliases.get(file.stem, id) == id else None


def _rows(
    root: Path, file: str, columns: Sequence[str], skipped: list[Skip], warnings: list[str]
) -> list[Row]:
    path = root / file
    if not path.exists() and not path.is_symlink():
        return []
    try:
        return read_table(path, file, columns, skipped, warnings)
    except DataError as error:
        skipped.append(skip_of(error))
        return []


def _tables(
    root: Path, records: LazyRecords, skipped: list[Skip], warnings: list[str]
) -> tuple[Questions, tuple[Response, ...]]:
    rows = _rows(root, QUESTION_FILE, QUESTION_COLUMNS, skipped, warnings)
    questions = read_questions(rows, records, skipped, warnings)
    reviewed = _rows(root, RESPONSE_FILE, RESPONSE_COLUMNS, skipped, warnings)
    return questions, read_responses(reviewed, questions, records, skipped, warnings)
