"""What became of a cohort's files: what is left out, doubtful or shown."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from midchart.core.errors import DataError, one_line
from midchart.core.storage.sources import Source
from midchart.core.types import Account, Skip, UnsettledColumn


@dataclass(frozen=True, slots=True)
class LoadLog:
    """What was skipped and what is doubtful, collected while one cohort is read, and what became
    of each part of its files."""

    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])
    accounts: dict[tuple[str, str], Account] = field(default_factory=dict[tuple[str, str], Account])
    unsettled: list[UnsettledColumn] = field(default_factory=list[UnsettledColumn])
    opened: set[Source] = field(default_factory=set[Source])
    """Files that the loader takes for its own, whether or not they could be read."""
    _entered: set[str] = field(default_factory=set[str], repr=False)

    def skip(self, file: str, line: int | None, reason: str) -> None:
        """Enter a part of the input that is left out."""
        self.skipped.append(Skip(one_line(file), line, one_line(reason)))

    def skip_error(self, error: DataError) -> None:
        """Enter a file or record that cannot be read while the rest still loads."""
        reason = error.reason + (f" — {error.remedy}" if error.remedy else "")
        self.skip(error.file, error.line, reason)

    def warn(self, warning: str) -> None:
        """Enter a warning once."""
        warning = one_line(warning)
        if warning not in self._entered:
            self._entered.add(warning)
            self.warnings.append(warning)

    def unsettle(self, column: str, readings: tuple[str, ...], statement: str) -> None:
        """Enter a column that may be read in several ways, and warn of it.

        ``statement`` says what is doubtful in which file and how it is read until a person says.
        """
        quoted = " or ".join(f'"{reading}"' for reading in readings)
        remedy = f'say which in midchart.toml: [columns] "{column}" = {quoted}'
        self.warn(f"{statement}; {remedy}")
        if all(known.column != column for known in self.unsettled):
            self.unsettled.append(UnsettledColumn(column, readings, one_line(statement)))

    def account(
        self,
        part: str,
        what: str,
        *,
        total: int,
        shown: int,
        reasons: Mapping[str, int] | None = None,
    ) -> None:
        """Enter what became of the ``what`` (rows, sections, …) of a file or record ``part``.

        ``total`` is counted in the source and not derived from the others, so that what is lost
        shows as unaccounted. A part that is read again replaces what was entered for it.
        """
        stated = tuple((reason, number) for reason, number in (reasons or {}).items() if number)
        self.accounts[part, what] = Account(int(total), int(shown), stated)

    @contextmanager
    def skipping(self) -> Generator[None]:
        """Skip the file that cannot be read, as a DataError says."""
        try:
            yield
        except DataError as error:
            self.skip_error(error)

    @contextmanager
    def reading(self, file: Source) -> Generator[None]:
        """Enter a file as the loader's own, and skip it where it cannot be read."""
        self.opened.add(file)
        with self.skipping():
            yield

    def take(self) -> LoadLog:
        """What was entered, which this log then holds no more; :meth:`join` enters it again."""
        lists = [*self.skipped], [*self.warnings], {**self.accounts}, [*self.unsettled]
        taken = LoadLog(*lists, {*self.opened})
        for part in (self.skipped, self.warnings, self.accounts, self.unsettled, self.opened):
            part.clear()
        return taken

    def join(self, other: LoadLog) -> None:
        """Enter what another log holds, after what this one holds."""
        self.skipped.extend(other.skipped)
        for warning in other.warnings:
            self.warn(warning)
        self.accounts.update(other.accounts)
        known = {one.column for one in self.unsettled}
        self.unsettled.extend(one for one in other.unsettled if one.column not in known)
        self.opened.update(other.opened)

    def nothing_read(self, name: str, reason: str) -> DataError:
        """The error of a cohort with no readable part: its first skip, else ``reason``."""
        first = self.skipped[0] if self.skipped else Skip(name, None, reason)
        return DataError(first.file, first.line, first.reason)
