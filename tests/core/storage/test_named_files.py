"""A pipe, device, socket, folder or link in place of a file that a person names, or that the
program wrote: refused at once, or as if it were not there, and never waited for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from midchart.core import api, config
from midchart.core.arms import llmlingua2, map_reduce
from midchart.core.arms.certain import read_calibration
from midchart.core.cli import main
from midchart.core.errors import DataError, InputError
from midchart.core.other_systems.audit import joining
from midchart.core.protocol import Protocol
from midchart.core.regular_files import read_named, read_regular
from midchart.core.results.claims import read_claims
from midchart.core.runs import estimate
from midchart.core.runs.spec import read_spec
from midchart.core.sequences import store
from midchart.core.services import summary
from midchart.core.storage import derived
from midchart.core.storage.vectors import Vectors
from midchart.core.synthetic.common import TAG, is_synthetic
from midchart.core.training import trainer
from midchart.core.training_experiments.forecast import training as forecast
from midchart.core.training_experiments.forecast.evaluation import read_columns
from midchart.core.training_experiments.gate import experiment as gates
from midchart.core.types import Cohort, Manifest
from tests.support.run_helpers import in_time, make_socket, set_workspace, write_cohort
from tests.support.writers import Writer

AT_ONCE_S = 10.0
"""A pipe is waited for without end; a busy machine takes some of these seconds to import."""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_workspace(monkeypatch, tmp_path)
    return tmp_path


# Files that a person names.


def secret_of(file: Path) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_SECRETS", str(file))
        return config.secret("ANTHROPIC_API_KEY")


def ask(file: Path) -> object:
    return main(["ask", str(write_cohort(file.parent / "ward", records=1)), str(file)])


NAMED: dict[str, Callable[[Path], object]] = {
    "spec": read_spec,
    "spec of a probe": api.probe,
    "spec of a benchmark": api.benchmark,
    "result of a benchmark": api.read_benchmark,
    "claims": read_claims,
    "calibration": read_calibration,
    "ids of an audit": joining._ids,
    "keys": secret_of,
    "questions": ask,
    "marks": lambda file: main(["cards", "20200101-000001-aaaaaa", "--marks", str(file)]),
}


def link_to_pipe(file: Path) -> None:
    os.mkfifo(file.with_name("pipe"))
    file.symlink_to("pipe")


NO_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link to a pipe": link_to_pipe,
    "device without end": lambda file: file.symlink_to("/dev/zero"),
    "socket": make_socket,
    "folder": Path.mkdir,
}


def message(call: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a call, or what a command prints as one."""
    try:
        status = call()
    except InputError as error:
        return str(error)
    assert status == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("other", NO_FILES)
@pytest.mark.parametrize("named", NAMED)
def test_what_a_person_names_is_a_regular_file_or_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: str, other: str
) -> None:
    file = tmp_path / "named.toml"
    NO_FILES[other](file)
    text = str(in_time(lambda: message(lambda: NAMED[named](file), capsys), AT_ONCE_S))
    assert "named.toml" in text and len(text.strip().splitlines()) == 1
    kind = "folder" if other == "folder" else "pipe or device"
    assert f"is a {kind}, not a regular file; give a regular file" in text


def test_a_file_that_a_person_names_may_be_linked_and_has_a_limit(tmp_path: Path) -> None:
    place, link = tmp_path / "elsewhere", tmp_path / "link.toml"
    place.mkdir()
    (place / "spec.toml").write_text('kind = "selection"\ndata = "demo"\narms = ["bm25"]\n')
    link.symlink_to("middle")
    (tmp_path / "middle").symlink_to(place / "spec.toml")
    assert read_named(link, 100) == (place / "spec.toml").read_bytes()
    assert read_spec(link).kind == "selection"
    with pytest.raises(OSError, match="is larger than 0 MB"):
        read_named(link, 10)
    with pytest.raises(FileNotFoundError):
        read_named(tmp_path / "nothing")


@pytest.mark.skipif(sys.platform != "linux", reason="a file of Linux")
def test_a_limit_is_of_what_is_read_and_not_of_the_size_that_is_stated() -> None:
    with pytest.raises(OSError, match="too large"):
        read_regular(Path("/proc/self/status"), largest=10)


# Files that the program wrote, where another process may put something else.

Case = tuple[Path, Callable[[], object], object]
"""A file, what reads it, and what that gives where it is no file: a value, or an error's type."""


def written(file: Path, content: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    file.write_text(text, encoding="utf-8")
    return file


def case_probes(place: Path) -> Case:
    file = written(config.cache_folder() / estimate.PROBES, {"a": {}})
    return file, estimate._probed, {}


def case_summary(place: Path) -> Case:
    file = written(place / "a.json", {"counts": 1})
    return file, lambda: summary._read(file), None


def case_derived(place: Path) -> Case:
    place.mkdir(exist_ok=True)
    derived._write(place, "a", {"n": np.arange(3)})
    (file,) = place.glob("a-*.parquet")
    return file, lambda: derived._read(file), None


def case_prompt_summary(place: Path) -> Case:
    known = map_reduce._Summaries(Writer(identity="w"), Protocol())
    assert known._folder is not None
    content = {"text": "a", "prompt_tokens": 1, "output_tokens": 1}
    return written(known._folder / "a.json", content), lambda: known._find("a"), False


def case_tag(place: Path) -> Case:
    return written(place / TAG, "synthetic = true\n"), lambda: is_synthetic(place), False


def case_split(place: Path) -> Case:
    split = gates.Split(("a",), ("b",), ("c",))
    file = place / "split.json"
    place.mkdir(exist_ok=True)
    gates._saved(file, split)
    return file, lambda: gates._saved(file, split), DataError


def case_predictions(place: Path) -> Case:
    import pyarrow as arrow
    from pyarrow import parquet

    file = place / "forecast" / "a.parquet"
    file.parent.mkdir(parents=True)
    parquet.write_table(arrow.table({"score": [0.5]}), file)
    return file, lambda: read_columns(place, file), DataError


def case_forecast_card(place: Path) -> Case:
    file = written(place / "forecast" / "m.json", {"format": forecast.FORMAT})
    save_file({"a": torch.zeros(2)}, file.with_suffix(".safetensors"))
    return file, lambda: forecast.load_model(place / "forecast", "m"), DataError


def case_forecast_model(place: Path) -> Case:
    card, load, error = case_forecast_card(place)
    return card.with_suffix(".safetensors"), load, error


def case_checkpoint(place: Path) -> Case:
    file = place / "a.safetensors"
    trainer._save_checkpoint(file, 1, {"a": torch.zeros(2)})
    return file, lambda: trainer._load_checkpoint(file, 1), DataError


def case_compressor(place: Path) -> Case:
    place.mkdir(exist_ok=True)
    np.save(place / "a.npy", np.zeros((2, 3)))
    return place / "a.npy", lambda: llmlingua2._read(place / "a.npy", 3), None


def case_comparison(place: Path) -> Case:
    place.mkdir(exist_ok=True)
    one = joining.Comparison((), Cohort("ward", "notes", Manifest("ward"), {}))
    first, other = one._shingles.state()
    np.savez(place / "a.npz", records=np.zeros(0, np.int64), first=first, other=other)
    return place / "a.npz", lambda: one._read(place / "a.npz"), False


def case_column(place: Path) -> Case:
    place.mkdir(exist_ok=True)
    np.save(place / "code.npy", np.zeros(3, np.int32))
    return place / "code.npy", lambda: store._load(place, "code"), DataError


def case_vectors(place: Path) -> Case:
    vectors, key = Vectors(place, 2), b"0123456789abcdef"
    place.mkdir(exist_ok=True)
    vectors.add([key], np.ones((1, 2), np.float32))

    def stored() -> bool:
        known = bool(vectors.read([key])[0][0])
        vectors.add([b"another 16 bytes"], np.ones((1, 2), np.float32))
        return known

    return place / "vectors.bin", stored, False


CASES = [case for name, case in list(globals().items()) if name.startswith("case_")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path.resolve() / "place"


def result(call: Callable[[], object]) -> object:
    try:
        return call()
    except DataError as error:
        return error


@pytest.mark.parametrize("swap", ["pipe", "link"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_stands_in_place_of_a_file_of_the_program_is_not_read(
    place: Path, case: Callable[[Path], Case], swap: str
) -> None:
    file, call, none = case(place)
    before = result(call)
    assert "cannot be read" not in str(before)
    assert none is DataError or before != none, "it is read as it was written"
    outside = place.parent / "outside" / file.name
    outside.parent.mkdir()
    file.rename(outside)
    if swap == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(outside)
    content = outside.read_bytes()
    after = in_time(lambda: result(call), AT_ONCE_S)
    if none is DataError:
        assert isinstance(after, DataError) and "cannot be read (" in str(after)
    else:
        assert after == none
    assert outside.read_bytes() == content
