"""Cohorts by name or path: opened once, checked, generated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from midchart.core import config as settings
from midchart.core.access import CohortRef, LocalPath, needs
from midchart.core.cohorts.demo import DEMOS, Included, install
from midchart.core.cohorts.manifest import unconfirmed
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.identity import by_name_alone
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import cohort_folder, files_state, open_cohort
from midchart.core.named_files import name_of, shown_path
from midchart.core.parsing import user_path, valid_unicode
from midchart.core.protocol import Protocol
from midchart.core.storage.files import writing
from midchart.core.types import Cohort, Manifest


@dataclass(frozen=True, slots=True)
class CohortCard:
    """A cohort in ``data/cohorts``: its folder name, path, and why it cannot be opened if so.

    ``forecasts``: it has labels to forecast and no questions to ask. ``imported``: from the page.
    """

    name: str
    path: str
    problem: str = ""
    forecasts: bool = False
    imported: bool = False


_LINKED = "is a link, which is not followed for people who sign in; its owner can import the folder"


@needs("viewer")
def open_data(data: CohortRef) -> Cohort:
    """The cohort at a path, or the one of that name in ``data/cohorts``; raises DataError where it
    cannot be read, UnknownName where nothing has the name."""
    return open_cohort(find_cohort(data))


def find_cohort(data: str | Path) -> Path:
    """The path of the cohort of :func:`open_data`; raises as it does."""
    path = user_path(data)
    if not path.exists():
        named = settings.cohorts_folder() / str(data)
        if not named.exists():
            if "/" in str(data) or path.suffix:
                raise DataError(str(data), None, "there is no such file or folder")
            raise UnknownName("cohort", str(data), [card.name for card in cohorts()])
        path = named
    return path.resolve()


@needs("viewer", paths=("path",))
def cohorts() -> list[CohortCard]:
    """Every cohort in ``data/cohorts``; one that cannot be opened says why.

    The demo comes first and imported cohorts last, in the order in which they came: pages show the
    first one, so an import never changes what a page opens with.
    """
    folder = settings.cohorts_folder()
    if not folder.is_dir():
        return []
    cards: list[tuple[bool, str, str, CohortCard]] = []
    for path in sorted(p for p in folder.iterdir() if not p.name.startswith(".")):
        problem, forecasts, imported = "", False, ""
        try:
            if path.is_symlink() and by_name_alone():
                raise InputError(_LINKED)
            cohort = open_data(path)
            imported = cohort.manifest.imported
            forecasts = bool(cohort.labels) and not cohort.instructions
        except InputError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a loader's; its text may quote a record
            problem = f"{path.name}: cannot be read ({type(error).__name__})"
        name, place = map(valid_unicode, (path.name, str(path)))
        card = CohortCard(name, place, problem, forecasts, bool(imported))
        cards.append((path.name != "demo", imported, path.name, card))
    return [card for *_, card in sorted(cards, key=lambda entry: entry[:3])]


@needs("viewer", paths=("path",))
def check(
    data: CohortRef,
    progress: Callable[[int, int], None] | None = None,
    protocol: Protocol | None = None,
    locator: bool = False,
    validate: bool = False,
    leaves: bool = False,
) -> dict[str, Any]:
    """Read a cohort completely; report its contents, what was skipped and where (``check --json``).

    Evidence is located as ``protocol`` says (default: corrected); ``locator`` adds how often that
    goes wrong in this cohort, ``validate`` what of its FHIR resources is invalid. ``progress`` is
    called with how much is done and planned where millions of events are read in. ``leaves``: what
    became of every string, number and code also where the files are large.
    """
    return check_cohort(open_data(data), progress, protocol, locator, validate, leaves or None)


@needs("viewer")
def cohort_key(cohort: Cohort) -> str:
    """A short opaque key for caches: changes with the cohort's files."""
    state = repr((cohort.path, files_state(Path(cohort.path)))).encode()
    return hashlib.blake2b(state, digest_size=8).hexdigest()


@needs("researcher")
def prepare_demo(
    out: LocalPath | None = None,
    patients: int | None = None,
    events_per_patient: int | None = None,
    seed: int = 42,
    progress: Callable[[int, int], None] | None = None,
    kind: Literal["clinical", "letters", "ehrshot", "meds"] = "clinical",
) -> dict[str, Any]:
    """Install an included synthetic cohort at ``out``, by default in its place, or make another.

    "clinical" in its default place installs "letters" and "ehrshot" too. Another size, seed or
    layout is made by a generator (entry point ``synthetic`` of the group ``midchart.generators``).
    Raises InputError where there is none or nothing can be written.
    """
    included: Included = "ehrshot" if kind == "meds" else kind
    folder = settings.cohorts_folder() / DEMOS[included] if out is None else user_path(out)
    other = (patients, events_per_patient, seed) != (None, None, 42) or kind == "meds"
    with writing(folder):
        if other:
            make = generator()
            return make(kind, folder, patients, events_per_patient, seed, progress)
        counts = install(included, folder)
    if out is None and kind == "clinical":
        counts["letters"] = prepare_demo(kind="letters")
        counts["laboratory"] = prepare_demo(kind="ehrshot")
    return counts


def generator() -> Callable[..., dict[str, Any]]:
    """The installed generator of synthetic cohorts; raises InputError where there is none."""
    for point in entry_points(group="midchart.generators", name="synthetic"):
        return point.load()
    raise InputError(
        "demo: only the included cohorts can be installed here; the package midchart.extras.lab, "
        "which makes others, is not installed"
    )


@needs("viewer")
def unread(data: CohortRef) -> str:
    """The command that reads a cohort's events in, where that takes minutes and is still to do;
    empty where nothing is to do."""
    from midchart.core.cohorts.labelled import StoredRecords

    records = open_data(data).records
    if isinstance(records, StoredRecords) and not records.data.small():
        return f"midchart check {shown_path(Path(records.data.path))}"
    return ""


@needs("viewer")
def unconfirmed_permissions(data: CohortRef) -> list[str]:
    """The permissions in a cohort's ``midchart.toml`` that wait for a person's confirmation, since
    their last audited value is no; raises as :func:`open_data`."""
    cohort = open_data(data)
    return list(unconfirmed(cohort_folder(cohort.path), cohort.manifest))


@needs("owner")
def settle_columns(data: CohortRef, readings: Mapping[str, str]) -> None:
    """Say how columns of a cohort's tables are read (:func:`core.loaders.open.settle_columns`)."""
    from midchart.core.loaders import open

    open.settle_columns(open_data(data).path, readings)


@needs("owner")
def set_data_use(data: CohortRef, field: str, value: bool, reason: str) -> Manifest:
    """Set ``external_services_allowed`` or ``training_allowed`` of a cohort, by path or name.

    The reason goes to the audit file first. Raises InputErrors, each one line.
    """
    from midchart.core.loaders import open

    return open.set_data_use(open_data(data).path, field, value, reason)


@needs("viewer")
def listed_path(cohort: Cohort) -> str:
    """The path of a cohort as lists of cohorts and runs give it to who acts."""
    return name_of(cohort.path) if by_name_alone() else cohort.path
