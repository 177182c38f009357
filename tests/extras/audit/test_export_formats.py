"""Runs written as logs of Inspect AI and Every Eval Ever."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from midchart.core import api, cli
from midchart.core.errors import DataUseError, InputError, MissingModel
from midchart.core.loaders.open import set_data_use
from midchart.core.runs.directory import find_run
from midchart.extras.audit.exports import to_every_eval_ever, to_inspect
from midchart.extras.audit.other_results import import_results
from tests.support.exports import Exported, exported_run

needs_inspect = pytest.mark.skipif(
    importlib.util.find_spec("inspect_ai") is None, reason="inspect-ai is not installed"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    with exported_run(tmp_path_factory.mktemp("export")) as exported:
        yield exported


def accuracies(run: str) -> dict[tuple[str, str, str], float]:
    rows = api.report(run)["tables"]["accuracy"]
    return {
        (r["label"], r["reader"], r["judge"]): r["accuracy"] for r in rows if r["band"] == "overall"
    }


def texts(run: str) -> set[str]:
    folder = find_run(run)
    answers = folder.store(folder.plan()).select("answers", "prompt, answer")
    return {text for row in answers for text in row.values() if text and len(text) > 20}


def test_every_eval_ever_has_the_accuracies_and_no_text(place: Exported, tmp_path: Path):
    written = to_every_eval_ever(place.run, tmp_path / "eee")
    assert written["with_text"] is False
    shown = "".join((tmp_path / "eee" / name).read_text() for name in written["files"])
    assert not any(json.dumps(text)[1:-1] in shown for text in texts(place.run))
    scores = {}
    for name in written["files"]:
        if name.endswith(".jsonl"):
            continue
        document = json.loads((tmp_path / "eee" / name).read_text())
        details = document["detailed_evaluation_results"]
        samples = (tmp_path / "eee" / details["file_path"]).read_bytes()
        assert sha256(samples).hexdigest() == details["checksum"]
        instances = [json.loads(line) for line in samples.splitlines()]
        assert len(instances) == details["total_rows"] > 0
        for result in document["evaluation_results"]:
            judge, score = result["evaluation_result_id"], result["score_details"]["score"]
            arm = document["model_info"]["additional_details"]["arm"]
            scores[arm, document["model_info"]["name"], judge] = score
            judged = [i for i in instances if i["evaluation_result_id"] == judge]
            assert sum(i["evaluation"]["is_correct"] for i in judged) / len(
                judged
            ) == pytest.approx(score)
    assert scores == {
        key: value for key, value in accuracies(place.run).items() if value is not None
    }


def test_what_every_eval_ever_holds_is_imported_again(place: Exported, tmp_path: Path):
    to_every_eval_ever(place.run, tmp_path / "eee")
    run = import_results(tmp_path / "eee")["run"]
    try:
        rows = api.report(run)["tables"]["scores"]
        assert {r["metric"] for r in rows} == {judge for _, _, judge in accuracies(place.run)}
        assert all(r["patients"] for r in rows)
    finally:
        api.remove_run(run)


@needs_inspect
def test_inspect_reads_back_samples_scores_and_usage(place: Exported, tmp_path: Path):
    from inspect_ai.log import read_eval_log

    written = to_inspect(place.run, tmp_path / "inspect")
    scores = {}
    answers = 0
    for name in written["files"]:
        log = read_eval_log(str(tmp_path / "inspect" / name))
        key = log.eval.metadata["arm"], log.eval.metadata["reader"]
        scores |= {(*key, s.name): s.metrics["accuracy"].value for s in log.results.scores}
        answers += len(log.samples)
        for sample in log.samples:
            assert "left out" in sample.input and "left out" in sample.output.completion
        for score in log.results.scores:
            values = [s.scores[score.name].value for s in log.samples if score.name in s.scores]
            share = values.count("C") / len(values)
            assert share == pytest.approx(score.metrics["accuracy"].value)
    assert scores == {
        key: value for key, value in accuracies(place.run).items() if value is not None
    }
    folder = find_run(place.run)
    (row,) = folder.store(folder.plan()).select("answers", "count(*) AS n", "status = 'ok'")
    assert answers == row["n"]


def test_text_is_written_only_where_asked_for_and_allowed(place: Exported, tmp_path: Path):
    with pytest.raises(DataUseError):
        to_every_eval_ever(place.run, tmp_path / "a", with_text=True)
    assert not (tmp_path / "a").exists()
    reason = "the tests' own cohort, by agreement"
    set_data_use(place.cohort, "external_services_allowed", True, reason)
    try:
        written = to_every_eval_ever(place.run, tmp_path / "b", with_text=True)
        shown = "".join((tmp_path / "b" / name).read_text() for name in written["files"])
        assert any(json.dumps(t, ensure_ascii=False)[1:-1] in shown for t in texts(place.run))
        written = to_every_eval_ever(place.run, tmp_path / "c")
        assert written["with_text"] is False
    finally:
        set_data_use(place.cohort, "external_services_allowed", False, reason)


def test_what_cannot_be_written_is_refused(place: Exported, tmp_path: Path, monkeypatch):
    assert cli.main(["export", place.run, "--to", "helm"]) == 2
    with pytest.raises(InputError, match="is there already"):
        to_every_eval_ever(place.run, tmp_path)
    find = importlib.util.find_spec
    absent = lambda name, *rest: None if name == "inspect_ai" else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    with pytest.raises(MissingModel, match="pip install inspect-ai"):
        to_inspect(place.run, tmp_path / "b")
    assert not (tmp_path / "b").exists()
