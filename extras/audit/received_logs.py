"""Logs of other systems that come in through the browser: each belongs to a cohort.

They lie in ``data/logs/COHORT``, hold text of its records, and are removed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

from midchart.core import config as settings
from midchart.core.access import CohortRef, Upload, guarded, needs
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError
from midchart.core.identity import by_name_alone
from midchart.core.named_files import name_of
from midchart.core.services.cohorts import find_cohort
from midchart.core.services.import_cohort import LimitedCopy
from midchart.core.services.removal import recover
from midchart.core.storage.files import incoming, sync_folder, writing
from midchart.core.storage.lock import exclusive
from midchart.extras.audit.samples.open import format_of


@guarded
@needs("owner")
def receive_log(
    data: CohortRef,
    files: Upload[Iterable[tuple[str, IO[bytes]]]],
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Store the log of a system that answered questions on a cohort; gives the path of its
    file, or to a person who signed in its name.

    ``data``: the cohort, which is in ``data/cohorts``; ``files``: one file's name and its bytes.
    ``progress`` is called with bytes copied and in all. Nothing is left where it is refused. Raises
    UnknownName and InputError for another cohort, for no or several files and for a name that is
    taken, DataError for a file of no known format or over the limits.
    """
    folder = find_cohort(data).resolve()
    if folder.parent != settings.cohorts_folder().resolve():
        raise InputError(
            "a log is received for a cohort in data/cohorts; give its path to an audit"
        )
    sources = list(files)
    if len(sources) != 1:
        raise InputError(f"a log is one file, not {len(sources)}; pack several into one folder")
    (name, source), logs = sources[0], settings.received_folder()
    target = logs / folder.name / name
    with writing(logs):
        logs.mkdir(parents=True, exist_ok=True)
        recover()
        with incoming(logs, settings.imports_lock()) as staging:
            LimitedCopy(staging, 0, progress).add(name, source)
            received = [path for path in staging.rglob("*") if path.is_file()]
            if [path.name for path in received] != [name]:
                raise DataError(name[:60], None, "has a name that is refused", "rename the file")
            try:
                format_of(received[0])
            except DataError as error:
                raise DataError(name, error.line, error.reason, error.remedy) from None
            with exclusive(settings.imports_lock()):  # no removal begins
                if not folder.is_dir():
                    raise InputError("the cohort was removed meanwhile; nothing was stored")
                if target.exists():
                    raise InputError(f"the cohort has a log {name!r} already; rename the file")
                target.parent.mkdir(mode=0o700, exist_ok=True)
                audit.note("received", cohort=folder.name, size=received[0].stat().st_size)
                received[0].rename(target)
                sync_folder(target.parent)
    return name_of(str(target)) if by_name_alone() else str(target)
