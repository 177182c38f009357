"""Opening what a run works on: a cohort on disk, or nothing, for a kind that makes its records."""

from __future__ import annotations

from core.loaders.open import open_cohort
from core.run.kind import MADE
from core.run.provenance import content_digest
from core.types import Cohort, Manifest

__all__ = ["digest_of", "opened"]


def opened(place: str) -> Cohort:
    """The cohort at a place; an empty synthetic one for :data:`core.run.kind.MADE`.

    Records that a run makes up may go wherever the user sends them. Raises DataError.
    """
    if place != MADE:
        return open_cohort(place)
    manifest = Manifest(
        name=MADE, synthetic=True, training_allowed=True, external_services_allowed=True
    )
    return Cohort(MADE, "made", manifest, {})


def digest_of(place: str) -> str:
    """The hash of a cohort's content; of made records that of their name: seed and code, which a
    plan holds anyhow, decide the rest."""
    return MADE if place == MADE else content_digest(place)
