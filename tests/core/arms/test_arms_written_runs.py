"""Arms that write their own context, in specs and runs: early refusal and complete reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core.errors import InputError
from midchart.core.readers import READERS
from midchart.core.runs.spec import parse_spec
from tests.support.run_helpers import members_place
from tests.support.writers import SpecWriter

GOOD = {"kind": "answers", "data": "demo", "readers": ["extractive"], "judges": ["token_overlap"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with members_place(tmp_path_factory.mktemp("written")) as folder:
        READERS.register("test_writer")(SpecWriter)
        yield folder
        READERS._factories.pop("test_writer")


def test_map_reduce_takes_its_own_reader_or_the_runs_first_that_writes(place: Path):
    with_reader = {
        "name": "map_reduce",
        "reader": {"name": "test_writer", "words": 5},
        "events": 10,
    }
    spec = parse_spec({**GOOD, "arms": ["bm25", with_reader]})
    assert spec.arms[1].label == "map_reduce events=10 reader=test_writer words=5"
    assert spec.arms[1].options["reader"]["name"] == "test_writer"
    first = parse_spec({**GOOD, "readers": ["extractive", "test_echo"], "arms": ["map_reduce"]})
    assert first.arms[0].options["reader"]["name"] == "test_echo"
    assert first.arms[0].label == "map_reduce"


@pytest.mark.parametrize(
    ("arm", "says"),
    [
        ("map_reduce", ["'extractive' only picks lines", "Valid: ", "qwen", "served"]),
        ({"name": "map_reduce", "reader": "extractive"}, ["only picks lines", 'reader = "']),
        ({"name": "map_reduce", "reader": "qwne"}, ["Did you mean qwen"]),
        ({"name": "map_reduce", "reader": "test_writer", "events": 0}, ["whole number from 1"]),
        ({"name": "map_reduce", "reader": "test_writer", "chunks": 3}, ["'chunks'", "events"]),
        ({"name": "full", "window": -1}, ["window of -1", "16384"]),
        ({"name": "full", "window": 1.5}, ["'window'", "1.5", "valid integer"]),
    ],
)
def test_invalid_arms_are_refused_before_a_run_is_made(place: Path, arm, says):
    with pytest.raises(InputError) as error:
        parse_spec({**GOOD, "arms": [arm]})
    assert "\n" not in str(error.value)
    for word in says:
        assert word in str(error.value)
