"""No FHIR record holds text of two people, whichever ids, servers, bundles and exports collide."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.loaders.fhir import Fhir
from midchart.core.types import Cohort
from tests.support.fhir import (
    balance,
    bundle,
    named,
    of_patient,
    patient,
    reading,
    resources_of,
    texts,
    write,
)

SERVERS = ("https://north.example/fhir", "https://south.example/fhir")


def opened(folder: Path, **files: Any) -> Cohort:
    """The cohort of files; a name's ``__`` is a dot and ``___`` a slash."""
    names = {n.replace("___", "/").replace("__", "."): content for n, content in files.items()}
    return Fhir().load(str(write(folder, names)))


def test_one_id_in_two_bundles_is_two_records_named_by_their_files(tmp_path: Path) -> None:
    cohort = opened(
        tmp_path,
        ann__json=bundle(patient("1", "Quarrie"), reading("o", "Potassium", "Patient/1")),
        tom__json=bundle(patient("1", "Brunel"), reading("o", "Sodium", "Patient/1")),
    )
    assert list(cohort.records) == ["1@ann", "1@tom"]
    assert texts(cohort, "1@ann") == ["Potassium: 7"]
    assert texts(cohort, "1@tom") == ["Sodium: 7"]
    assert cohort.records["ann.json"] is cohort.records["1@ann"]
    assert "1" not in cohort.records
    assert balance(cohort) == (4, 4, {})


def test_bundles_of_one_name_in_two_folders_are_named_by_their_paths(tmp_path: Path) -> None:
    files = {f"ward-{w}/all.json": bundle(patient("1"), reading("o", w, "Patient/1")) for w in "ab"}
    cohort = Fhir().load(str(write(tmp_path, files)))
    assert list(cohort.records) == ["1@ward-a-all", "1@ward-b-all"]


def test_one_id_on_two_servers_is_two_records_and_on_one_server_one(tmp_path: Path) -> None:
    north = bundle(patient("1"), reading("a", "North", "Patient/1"), server=SERVERS[0])
    south = bundle(patient("1"), reading("a", "South", "Patient/1"), server=SERVERS[1])
    again = bundle(patient("1"), reading("b", "More", f"{SERVERS[0]}/Patient/1"), server=SERVERS[0])
    cohort = opened(tmp_path, n__json=north, s__json=south, t__json=again)
    assert texts(cohort, "1@north.example-fhir") == ["North: 7", "More: 7"]
    assert texts(cohort, "1@south.example-fhir") == ["South: 7"]


def test_another_person_under_the_key_of_a_server_is_refused_with_all_of_that_file(
    tmp_path: Path,
) -> None:
    first = bundle(patient("1", "Quarrie", birthDate="1951"), reading("a", "A", "Patient/1"),
                   server=SERVERS[0])  # fmt: skip
    other = bundle(patient("1", "Brunel", birthDate="1988"), reading("b", "B", "Patient/1"),
                   server=SERVERS[0])  # fmt: skip
    third = bundle(reading("c", "C", "Patient/1"), server=SERVERS[0])
    cohort = opened(tmp_path, a__json=first, b__json=other, c__json=third)
    assert texts(cohort, "1") == ["A: 7"]
    lines = named(cohort)
    assert "b.json:None: is about another person than a.json" in lines
    assert "family name, birth date differ" in lines
    assert "b.json:2: belongs to a patient number under which these files have two" in lines
    assert "c.json:1: belongs to a patient number" in lines
    assert not {"Quarrie", "Brunel", "1951", "1988"} & set(lines.replace(":", " ").split())
    assert balance(cohort)[:2] == (5, 2)


def test_two_exports_in_two_folders_are_apart_and_folders_named_by_type_are_one(
    tmp_path: Path,
) -> None:
    wards = {
        f"{ward}/{kind}.ndjson": (resource,)
        for ward in ("a", "b")
        for kind, resource in (
            ("Patient", patient("1")),
            ("Observation", reading("o", ward, "Patient/1")),
        )
    }
    cohort = Fhir().load(str(write(tmp_path / "wards", wards)))
    assert [texts(cohort, id) for id in ("1@a", "1@b")] == [["a: 7"], ["b: 7"]]
    by_type = {
        "Patient/1.json": patient("1"),
        "observations/o.json": reading("o", "x", "Patient/1"),
    }
    assert texts(Fhir().load(str(write(tmp_path / "types", by_type))), "1") == ["x: 7"]


def test_an_export_with_two_people_of_one_id_gives_neither_of_them_what_is_unsure(
    tmp_path: Path,
) -> None:
    cohort = opened(
        tmp_path,
        Patient__ndjson=(patient("1", "Quarrie"), patient("1", "Brunel"), patient("2")),
        Observation__ndjson=(reading("a", "A", "Patient/1"), reading("b", "B", "Patient/2")),
    )
    assert texts(cohort, "1") == []
    assert texts(cohort, "2") == ["B: 7"]
    assert "Observation.ndjson:1: belongs to a patient number" in named(cohort)


def test_bundles_of_a_line_an_array_and_a_bundle_are_apart(tmp_path: Path) -> None:
    two = [bundle(patient("1"), reading("o", n, "Patient/1")) for n in ("first", "second")]
    nested = {"resourceType": "Bundle", "type": "collection",
              "entry": [{"resource": one} for one in two]}  # fmt: skip
    for files in ({"a.ndjson": tuple(two)}, {"a.json": two}, {"a.json": nested}):
        with TemporaryDirectory() as folder:
            cohort = Fhir().load(str(write(Path(folder), files)))
            assert [texts(cohort, id) for id in cohort.records] == [["first: 7"], ["second: 7"]]
            assert balance(cohort) == (4, 4, {})


def test_a_bundle_inside_a_bundle_refers_to_the_patient_of_another_one(tmp_path: Path) -> None:
    parts = [bundle(patient("1"), type="searchset"),
             bundle(reading("o", "x", "Patient/1"), type="searchset")]  # fmt: skip
    entries = [{"resource": one, "response": {"status": "200"}} for one in parts]
    batch = {"resourceType": "Bundle", "type": "batch-response", "entry": entries}
    assert texts(opened(tmp_path, a__json=batch), "1") == ["x: 7"]


def test_a_bundle_refers_to_a_patient_of_the_export_around_it_and_of_no_other_bundle(
    tmp_path: Path,
) -> None:
    cohort = opened(
        tmp_path,
        Patient__ndjson=(patient("1"),),
        a__json=bundle(reading("o", "around", "Patient/1")),
        b__json=bundle(patient("2"), reading("o", "inside", "Patient/2")),
        c__json=bundle(reading("o", "whose", "Patient/2")),
    )
    assert texts(cohort, "1") == ["around: 7"]
    assert texts(cohort, "2@b") == ["inside: 7"]
    assert texts(cohort, "2@c") == ["whose: 7"]
    assert "1 patients are only named in references" in named(cohort)


def test_absolute_references_of_two_servers_are_not_one_patient(tmp_path: Path) -> None:
    one = (patient("1"), reading("a", "A", f"{SERVERS[0]}/Patient/1"))
    cohort = opened(tmp_path / "one", all__ndjson=one)
    assert texts(cohort, "1") == ["A: 7"]
    two = (*one, reading("b", "B", f"{SERVERS[1]}/Patient/1"))
    cohort = opened(tmp_path / "two", all__ndjson=two)
    assert texts(cohort, "1@north.example-fhir") == ["A: 7"]
    assert texts(cohort, "1@south.example-fhir") == ["B: 7"]
    assert texts(cohort, "1@export") == []


def test_an_identifier_of_two_patients_identifies_nobody(tmp_path: Path) -> None:
    same = [{"system": "mrn", "value": "77"}]
    asked = of_patient("Procedure", "Patient?identifier=mrn|77", code={"text": "X"})
    cohort = opened(
        tmp_path, all__ndjson=(patient("1", identifier=same), patient("2", identifier=same), asked)
    )
    assert texts(cohort, "1") == texts(cohort, "2") == []
    assert "all.ndjson:3: names a patient who cannot be identified" in named(cohort)


def test_linked_patients_and_equal_people_stay_apart_and_are_named(tmp_path: Path) -> None:
    same = {"birthDate": "1951-02-03", "gender": "female"}
    link = {"type": "replaced-by", "other": {"reference": "Patient/2"}}
    merged = patient("1", "Quarrie", **same, active=False, link=[link])
    cohort = opened(tmp_path, all__ndjson=(merged, patient("2", "QUARRIE", **same)))
    assert list(cohort.records) == ["1", "2"]
    assert dict(cohort.records["1"].facts)["record"] == "not in active use"
    assert "records 1 and 2 are linked (Patient.link)" in named(cohort)
    assert "2 records have the same family name, birth date and sex" in named(cohort)


def test_a_maiden_name_is_not_another_person(tmp_path: Path) -> None:
    names = [{"use": "maiden", "family": "Brunel"}, {"use": "official", "family": "Quarrie"}]
    pages = [bundle(patient("1") | {"name": order}, reading(f"o{n}", "x", "Patient/1"),
                    server=SERVERS[0])
             for n, order in enumerate((names, names[::-1]))]  # fmt: skip
    cohort = opened(tmp_path, a__json=pages[0], b__json=pages[1])
    assert texts(cohort, "1") == ["x: 7", "x: 7"]


def test_questions_name_a_record_by_its_file(tmp_path: Path) -> None:
    rows = ["filename\tquestion\tevidence\tclinician_response"]
    rows += [f"{name}\tHow high?\t\t7" for name in ("ann.json", "tom", "1@tom", "1")]
    cohort = opened(
        tmp_path,
        ann__json=bundle(patient("1"), reading("o", "Potassium", "Patient/1")),
        tom__json=bundle(patient("1"), reading("o", "Sodium", "Patient/1")),
        q__tsv="\n".join(rows),
    )
    assert [i.record_id for i in cohort.instructions] == ["1@ann", "1@tom"]
    assert "q.tsv:5: asks about a record that is not in the cohort" in named(cohort)


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


@pytest.mark.parametrize("reference", ["urn:uuid:11", "urn:oid:1.2.3"])
def test_unique_urls_are_one_resource_in_every_bundle(tmp_path: Path, reference: str) -> None:
    def page(name: str) -> dict[str, Any]:
        entries = [{"fullUrl": reference, "resource": patient("1", "Quarrie")},
                   {"resource": reading(name, name, reference)}]  # fmt: skip
        return {"resourceType": "Bundle", "type": "transaction", "entry": entries}

    cohort = opened(tmp_path, a__json=page("a"), b__json=page("b"))
    assert texts(cohort, "1") == ["a: 7", "b: 7"]
