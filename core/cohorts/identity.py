"""Who a record is about: keys by authority, and demographics that show two people under one key.

A patient's key is an authority (the root of a C-CDA id, a FHIR server or bundle, an OMOP data set)
and the number that is unique there. Records are named by the number; where the same number is used
by several authorities of a cohort, each name says which (``77@1.2.3.101``).

One key with two sets of demographics is two people: the later file is refused by name. Two keys
with one person stay apart. Messages name files and fields, never their values.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from midchart.core.cohorts.files import LoadLog

Key = tuple[str, str]
"""Authority ("" where the format has one) and number."""


@dataclass(frozen=True, slots=True)
class Demographics:
    """Demographics that distinguish people, as written; "" where the source states none.

    ``born`` is an ISO date, or its beginning (a year, a month) where no more is known.
    """

    family: str = ""
    born: str = ""
    sex: str = ""

    def differences(self, other: Demographics) -> tuple[str, ...]:
        """The fields that both state and that differ, by name.

        Names are compared without case, accents and marks ("O'Neil", "ONeil"), and are the same
        where all words of one are words of the other ("Quarrie", "Quarrie-Brunel"); dates differ
        in what both state; sexes by their first letter, and only male and female.
        """
        names = (self.family, other.family)
        dates = (_digits(self.born), _digits(other.born))
        sexes = (_sex(self.sex), _sex(other.sex))
        shorter = min(map(len, dates))
        unequal = {
            "family name": all(map(_letters, names)) and not _same_name(*names),
            "birth date": dates[0][:shorter] != dates[1][:shorter],
            "sex": all(sexes) and sexes[0] != sexes[1],
        }
        return tuple(name for name, differs in unequal.items() if differs)


def _letters(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in folded if character.isalnum())


def _same_name(first: str, second: str) -> bool:
    if _letters(first) == _letters(second):
        return True
    words = [{*map(_letters, re.split(r"[\s-]+", name))} - {""} for name in (first, second)]
    return words[0] <= words[1] or words[1] <= words[0]


def _digits(date: str) -> str:
    return "".join(character for character in date[:10] if character.isdigit())


def _sex(text: str) -> str:
    first = text.strip().casefold()[:1]
    return first if first in ("m", "f") else ""


class People:
    """The people of a cohort by key, each as its first file states them."""

    def __init__(self, log: LoadLog) -> None:
        self._log = log
        self._people: dict[Key, tuple[Demographics, str]] = {}

    def same(self, key: Key, person: Demographics, file: str, line: int | None = None) -> bool:
        """Whether ``person`` of ``file`` may be the one of this key; if not, the file is named.

        What the first file left open is filled in by later ones.
        """
        if key not in self._people:
            self._people[key] = person, file
            return True
        known, first = self._people[key]
        differing = known.differences(person)
        if differing:
            self._log.skip(
                file,
                line,
                f"is about another person than {first}, under the same patient number "
                f"({', '.join(differing)} {'differ' if len(differing) > 1 else 'differs'}) — give "
                "each person a number, or put the file into another cohort",
            )
            return False
        merged = Demographics(
            known.family or person.family,
            max(known.born, person.born, key=len),
            known.sex or person.sex,
        )
        self._people[key] = merged, first
        return True

    def of(self, key: Key) -> Demographics:
        """The demographics of a key that was entered."""
        return self._people[key][0]

    def name_shared(self, names: Mapping[Key, str]) -> None:
        """Warn of records whose demographics are equal and complete: they may be one person.

        ``names``: key → the record's name. They stay apart.
        """
        by_person: dict[tuple[str, str, str], list[str]] = {}
        for key, (person, _) in self._people.items():
            parts = (_letters(person.family), _digits(person.born), _sex(person.sex))
            if key in names and all(parts) and len(parts[1]) == 8:
                by_person.setdefault(parts, []).append(names[key])
        for shared in (shared for shared in by_person.values() if len(shared) > 1):
            self._log.warn(
                f"{len(shared)} records have the same family name, birth date and sex and may be "
                f"one person: {', '.join(shared[:5])} — they stay apart"
            )


def record_names(keys: Iterable[Key]) -> dict[Key, str]:
    """The name of each key's record: its number, followed by the authority where it is shared."""
    ordered = list(dict.fromkeys(keys))
    numbers: dict[str, int] = {}
    for _, number in ordered:
        numbers[number] = numbers.get(number, 0) + 1
    return {
        (authority, number): number if numbers[number] == 1 else f"{number}@{authority}"
        for authority, number in ordered
    }


def warn_of_twins(ids: Iterable[str], log: LoadLog) -> None:
    """Name the ids that differ in case, blanks or Unicode's forms of one character alone: files of
    one patient, named by two programs, are two patients."""
    groups: dict[str, list[str]] = {}
    for id in sorted({*ids}):
        form = unicodedata.normalize("NFKC", id).casefold()
        groups.setdefault("".join(form.split()), []).append(id)
    if twins := [" and ".join(map(ascii, group)) for group in groups.values() if group[1:]]:
        log.warn(
            "ids that differ in case, blanks or forms of one character alone are different "
            f"patients here: {'; '.join(twins)} — give the files or rows of one patient one "
            "spelling"
        )
