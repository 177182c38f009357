"""No FHIR record holds text of two people, whichever ids, servers, bundles and exports collide."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.loaders.fhir import Fhir
from tests.support.fhir import (
    balance,
    bundle,
    of_patient,
    patient,
    reading,
    resources_of,
    write,
)

SERVERS = ("https://north.example/fhir", "https://south.example/fhir")


def test_a_deleted_patient_stays_so_in_all_older_versions_of_a_history(tmp_path: Path) -> None:
    history = bundle(*(patient("1", meta={"versionId": n}) for n in "21"), patient("2"),
                     server=SERVERS[0], type="history")  # fmt: skip
    request = {"method": "DELETE", "url": "Patient/1"}
    history["entry"].insert(0, {"fullUrl": f"{SERVERS[0]}/Patient/1", "request": request})
    cohort = Fhir().load(str(write(tmp_path, {"a.json": history})))
    assert list(cohort.records) == ["2"]
    assert balance(cohort) == (3, 1, {"Patient was deleted": 2})


def test_an_author_who_is_contained_in_a_document_is_named(tmp_path: Path) -> None:
    author = {"resourceType": "Practitioner", "id": "a", "name": {"family": "Quarrie"}}
    content = {"attachment": {"contentType": "text/plain", "data": "SGVsbG8="}}
    of_note = {"contained": [author], "author": {"reference": "#a"}, "content": content}
    note = of_patient("DocumentReference", **of_note)
    cohort = Fhir().load(str(write(tmp_path, {"a.ndjson": (patient(), note)})))
    assert [event.author for event in cohort.records["p1"].events] == ["Quarrie"]


# Any collection: people have a word of their own, which all text about them holds.


@dataclass(frozen=True)
class Someone:
    """A person of a generated collection: number among all, id, and references to them."""

    number: int
    id: str

    @property
    def word(self) -> str:
        """The word in every text about this person."""
        return f"person{self.number}x"

    def resource(self) -> dict[str, Any]:
        """The Patient; the year of birth is this person's alone."""
        return patient(self.id, self.word, birthDate=str(1900 + self.number))

    def readings(self, count: int, link: str) -> list[dict[str, Any]]:
        """Observations with ids that others use as well."""
        return [reading(f"o{n}", f"{self.word} reading {n}", link) for n in range(count)]


HOLDERS = ("bundle", "array", "lines", "nested", "server 0", "server 1", "folder a", "folder b")


@st.composite
def collections(draw: st.DrawFn) -> tuple[dict[str, Any], dict[int, tuple[int, tuple[str, str]]]]:
    """Files, and of each person the number of readings and the key that their holder gives."""
    files: dict[str, Any] = {}
    people: dict[int, tuple[int, tuple[str, str]]] = {}
    for at in range(draw(st.integers(1, 5))):
        holder = draw(st.sampled_from(HOLDERS))
        held: list[dict[str, Any]] = []
        stated = holder not in ("bundle", "lines", "nested") or draw(st.booleans())
        ids = st.lists(st.sampled_from("12"), min_size=1, max_size=2, unique=not stated)
        for id in draw(ids):
            person = Someone(len(people) + 1, id)
            count = draw(st.integers(1, 3))
            link = f"Patient/{id}"
            place = f"file {at}" if holder in ("bundle", "array", "lines", "nested") else holder
            if holder.startswith("server") and draw(st.booleans()):
                link = f"{SERVERS[int(holder[-1])]}/Patient/{id}"
            people[person.number] = count, (place, id)
            held += [person.resource()] * stated + person.readings(count, link)
            if draw(st.booleans()):
                held.reverse()
        if holder == "bundle":
            files[f"f{at}.json"] = bundle(*held)
        elif holder == "array":
            files[f"f{at}.json"] = held
        elif holder == "lines":
            files[f"f{at}.ndjson"] = (bundle(*held),)
        elif holder == "nested":
            files[f"f{at}.json"] = {"resourceType": "Bundle", "type": "collection",
                                    "entry": [{"resource": bundle(*held)}]}  # fmt: skip
        elif holder.startswith("server"):
            files[f"f{at}.json"] = bundle(*held, server=SERVERS[int(holder[-1])])
        elif draw(st.booleans()):
            files[f"{holder[-1]}/f{at}.ndjson"] = tuple(held)
        else:
            for n, resource in enumerate(held):
                files[f"{holder[-1]}/f{at}-{n}.json"] = resource
    return files, people


@settings(max_examples=150, deadline=None)
@given(collections())
def test_no_record_holds_text_of_two_people(
    collection: tuple[dict[str, Any], dict[int, tuple[int, tuple[str, str]]]],
) -> None:
    files, people = collection
    with TemporaryDirectory() as folder:
        cohort = Fhir().load(str(write(Path(folder), files)))
        shown: Counter[int] = Counter()
        for record in cohort.records.values():
            content = json.dumps([record.facts, [event.name for event in record.events]])
            inside = {n for n in people if f"person{n}x" in content or f'"{1900 + n}"' in content}
            assert len(inside) <= 1, (record.id, inside)
            for number in inside:
                shown[number] += len(record.events)
        total, _, _ = balance(cohort)
    assert total == len(resources_of(files.values()))
    keys = Counter(key for _, key in people.values())
    for number, (count, key) in people.items():
        if keys[key] == 1:
            assert shown[number] == count, "a person whose key is theirs alone is read in full"
