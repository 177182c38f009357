"""Training of the small reader: the same prompts as in use, exact resume."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from midchart.core.errors import DataError, InputError
from midchart.core.protocol import Protocol
from midchart.core.readers.qwen import Qwen
from midchart.core.small_reader.batches import (
    BEGINNING,
    DATE,
    END,
    EVIDENCE_HEADS,
    PAD,
    answer_ids,
    encode,
    ids,
    predict,
    right_answers,
    save_tokenizer,
)
from midchart.core.small_reader.network import NAME
from midchart.core.small_reader.recipe import Recipe, Shape, Step
from midchart.core.small_reader.training import ReaderTrainer, ship
from midchart.core.synthetic.training_examples import ExamplePlan, TrainingExample, seeded_example
from midchart.core.synthetic.training_wordings import name_words
from midchart.core.training import Aborted
from midchart.core.types import Prompt
from tests.support.shipped import made_with

SHAPE = Shape(layers=3, width=112, heads=7, feed_forward=112, words=400, window=2048)
RECIPE = Recipe(steps=4, records=2, asked=(6, 6), lines=(6, 8, 8), long=12, judged=2, half=False)
PLAN = ExamplePlan(lines=(6, 10), asked=8)


@pytest.fixture(scope="module", autouse=True)
def few_lessons_for_words() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("midchart.core.small_reader.training.TOKENIZER_EXAMPLES", 25)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReaderTrainer, Path]:
    trainer = ReaderTrainer(RECIPE, SHAPE, save_every=2)
    folder = tmp_path_factory.mktemp("small")
    trainer.run(checkpoint=folder / "whole.safetensors")
    return trainer, folder


def put(example: TrainingExample, number: int) -> Prompt:
    return Prompt(example.prompt(number), example.asked[number].question, (), 0)


def test_training_and_inference_tokenise_identically(trained: tuple[ReaderTrainer, Path]) -> None:
    trainer, folder = trained
    save_tokenizer(trainer.tokenizer, folder / "words", 2048)
    same = Tokenizer.from_file(str(folder / "words" / "tokenizer.json"))
    for number in range(20):
        example = seeded_example(8, number, PLAN)
        taught = encode(trainer.tokenizer, example)
        for i in range(len(example.asked)):
            answer = answer_ids(trainer.tokenizer, example.written(i))
            block = taught.tokens[taught.block == i]
            shown = np.concatenate([taught.opening, block[: len(block) - len(answer) + 1]])
            assert np.array_equal(shown, ids(same, example.prompt(i)))
            # What is written back is what was to be written, lower-cased.
            answer_text = same.decode(answer[:-1].tolist(), skip_special_tokens=True).strip()
            assert answer_text == example.written(i).strip().lower()


def test_a_value_is_a_token_or_two(trained: tuple[ReaderTrainer, Path]) -> None:
    tokenizer = trained[0].tokenizer
    for text, pieces in (
        ("137", ["137"]),
        ("4.35", ["4", ".35"]),
        ("0.7", ["0", ".7"]),
        ("2014-03-09", ["2014", "-03", "-09"]),
        ("\n[", ["Ċ["]),
    ):
        assert tokenizer.encode(text, add_special_tokens=False).tokens == pieces


def test_a_known_name_is_one_token_anywhere(trained: tuple[ReaderTrainer, Path]) -> None:
    tokenizer = trained[0].tokenizer
    assert {"lisinopril", "zestril", "ferritin", "creatinine"} <= set(name_words())
    for name in name_words():
        for text in (f" {name}", name.upper(), f" {name.capitalize()}"):
            assert len(ids(tokenizer, text)) == 1
            assert tokenizer.decode(list(ids(tokenizer, text))) == text.lower()
    assert len(ids(tokenizer, " lisinoprilat")) > 1


def test_batched_questions_equal_single_questions(trained: tuple[ReaderTrainer, Path]) -> None:
    trainer, _ = trained
    example = seeded_example(8, 3, PLAN)
    taught = encode(trainer.tokenizer, example)
    with torch.inference_mode():
        together = predict(trainer.network, taught)
        for i in range(len(example.asked)):
            answer = answer_ids(trainer.tokenizer, example.written(i))
            tokens = np.concatenate([ids(trainer.tokenizer, example.prompt(i)), answer])
            alone = trainer.network(torch.from_numpy(tokens)[None]).logits[0, -len(answer) - 1 : -1]
            logits = together.logits[torch.from_numpy(taught.of) == i]
            assert torch.allclose(logits, alone, atol=1e-4)
            assert np.array_equal(taught.wanted[taught.of == i], answer)
    assert len(right_answers(together.logits, taught)) == len(example.asked)
    early = encode(trainer.tokenizer, example, full_answers=2)
    for i in range(len(example.asked)):
        answer = answer_ids(trainer.tokenizer, example.written(i))
        practised = answer if i < 2 else answer[: BEGINNING + 1]
        assert np.array_equal(early.wanted[early.of == i], practised)


def test_packed_attention_equals_transformers(
    trained: tuple[ReaderTrainer, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answers and gradients from torch's kernel and from the one that lessons use."""
    trainer, _ = trained
    monkeypatch.setattr("midchart.core.small_reader.network.CHUNK", 50)
    taught = encode(trainer.tokenizer, seeded_example(8, 3, PLAN))
    masks: list[tuple[torch.Tensor, ...]] = []
    for name in ("sdpa", NAME):
        trainer.network.set_attn_implementation(name)
        logits = predict(trainer.network, taught).logits
        loss = logits.logsumexp(-1).mean() + logits[:, 5].square().mean()
        masks.append((logits, *torch.autograd.grad(loss, list(trainer.network.parameters()))))
    trainer.network.set_attn_implementation("sdpa")
    assert len(taught.opening) > 120
    for torchs, ours in zip(*masks, strict=True):
        assert torch.allclose(torchs, ours, atol=2e-5, rtol=1e-3)


def test_attention_of_guided_heads_equals_transformers(
    trained: tuple[ReaderTrainer, Path],
) -> None:
    trainer, _ = trained
    example = seeded_example(8, 3, PLAN)
    encoded = encode(trainer.tokenizer, example)
    p = len(encoded.opening)
    number = next(i for i, asked in enumerate(example.asked) if asked.line is not None)
    with torch.inference_mode():
        predicted = predict(trainer.network, encoded)
        trainer.network.set_attn_implementation("eager")
        tokens = torch.from_numpy(ids(trainer.tokenizer, example.prompt(number)))[None]
        maps = trainer.network(tokens, output_attentions=True).attentions
        trainer.network.set_attn_implementation("sdpa")
    place = int(np.flatnonzero(encoded.of == number)[0])
    answering = torch.from_numpy(encoded.line == example.asked[number].line)
    for head in range(EVIDENCE_HEADS):
        seen = maps[2][0, head, -1, :p]
        share = (seen[answering].sum() / seen.sum()).item()
        assert predicted.evidence[head, place].exp().item() == pytest.approx(share, rel=1e-3)
    # The line-start heads are evaluated from the token after a line's first word on.
    first = int(np.flatnonzero(encoded.line == 0)[0]) + DATE
    assert trainer.tokenizer.decode(encoded.opening[first - 1 : first]) == "]"
    for head, target in ((1, first), (2, first - 1)):
        share = maps[1][0, head, first + 1, target].item()
        assert predicted.line_start[head - 1, 0].exp().item() == pytest.approx(share, rel=1e-3)


@pytest.mark.slow
def test_examples_gain_kinds_then_lines_and_lose_invented_names_once_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = replace(
        RECIPE, steps=5, lines=(6, 7, 8), grow=1, made_up=(0.9, 0.1), judged=1, enough=-1.0
    )
    plans: list[ExamplePlan] = []

    def keep(_: np.random.Generator, plan: ExamplePlan) -> TrainingExample:
        plans.append(plan)
        return seeded_example(8, 3, PLAN)

    trainer = ReaderTrainer(recipe, SHAPE)
    monkeypatch.setattr("midchart.core.small_reader.training.make_example", keep)
    trainer.run()
    # A step's examples are all learned (`enough` is below any share): each step is one stage.
    assert [plan.kinds == recipe.kinds for plan in plans[::2]] == [False] + [True] * 4
    assert [plan.invented for plan in plans[::2]] == [0.9] * 2 + [0.1] * 3
    assert trainer.lines == 8
    hard = ReaderTrainer(replace(recipe, steps=2, enough=2.0, patience=100), SHAPE)
    hard.run()
    assert (hard.all_kinds, hard.lines) == (False, 7), "what is not learned stays"


@pytest.mark.slow
def test_training_is_identical_for_any_number_of_threads(
    trained: tuple[ReaderTrainer, Path],
) -> None:
    trainer, _ = trained
    alone = ReaderTrainer(replace(RECIPE, threads=1), SHAPE)
    alone.run()
    state = trainer.network.state_dict()
    assert all(
        torch.equal(tensor, state[name]) for name, tensor in alone.network.state_dict().items()
    )


@pytest.mark.slow
def test_an_interrupted_training_resumes_bit_for_bit(trained: tuple[ReaderTrainer, Path]) -> None:
    trainer, folder = trained
    state = folder / "cut.safetensors"
    with pytest.raises(Aborted):
        ReaderTrainer(RECIPE, SHAPE, save_every=2).run(lambda step, of: False, state)
    longer = ReaderTrainer(replace(RECIPE, steps=400), SHAPE)
    with pytest.raises(DataError, match="training of 4 steps whose learning rate is decaying"):
        longer.load(folder / "whole.safetensors")
    seen: list[Step] = []
    resumed = ReaderTrainer(RECIPE, SHAPE, save_every=2)
    resumed.run(lambda step, of: seen.append(step) is None and of == 4, state)
    assert [step.step for step in seen] == [4]
    assert [step.step for step in resumed.history] == [2, 4]
    for (name, tensor), uninterrupted in zip(
        resumed.network.state_dict().items(), trainer.network.state_dict().values(), strict=True
    ):
        assert torch.equal(tensor, uninterrupted), name


def test_a_checkpoint_of_another_training_is_refused(trained: tuple[ReaderTrainer, Path]) -> None:
    _, folder = trained
    with pytest.raises(DataError, match="another recipe"):
        ReaderTrainer(replace(RECIPE, rate=1e-3), SHAPE).load(folder / "whole.safetensors")
    (folder / "broken.safetensors").write_bytes(b"x" * 64)
    with pytest.raises(DataError, match="not a checkpoint"):
        ReaderTrainer(RECIPE, SHAPE).load(folder / "broken.safetensors")


def test_the_learning_rate_warms_up_is_constant_and_decays() -> None:
    trainer = object.__new__(ReaderTrainer)
    trainer.recipe = Recipe(steps=1000, warm_up=100, rate=1e-3, falling=0.5, least=0.1)
    rates = [trainer.rate(step) for step in (0, 99, 300, 500, 750, 1000)]
    assert rates == pytest.approx([1e-5, 1e-3, 1e-3, 1e-3, 5e-4, 1e-4])


def test_exported_weights_give_the_trained_models_answers(
    trained: tuple[ReaderTrainer, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, folder = trained
    out = folder / "models" / "tiny"
    digest = ship(trainer.network, trainer.tokenizer, SHAPE, RECIPE, 4, out)
    assert len(digest) == 64
    assert made_with(out)["steps"] == 4
    monkeypatch.setenv("MIDCHART_MODELS", str(folder / "models"))
    reader = Qwen(Protocol(answer_tokens=12), model="tiny", window=2048, dtype="float32")
    example = seeded_example(8, 4, PLAN)
    prompts = [put(example, i) for i in range(4)]
    with torch.inference_mode():
        half = {k: v.half().float() for k, v in trainer.network.state_dict().items()}
        trainer.network.load_state_dict(half)
        for index, answer in reader.read_many(prompts):
            row = torch.from_numpy(ids(trainer.tokenizer, prompts[index].text))[None]
            end, pad = (trainer.tokenizer.token_to_id(token) for token in (END, PAD))
            written = trainer.network.generate(
                row, max_new_tokens=12, do_sample=False, eos_token_id=end, pad_token_id=pad
            )[0, row.shape[1] :]
            text = trainer.tokenizer.decode(written.tolist(), skip_special_tokens=True)
            assert answer.text == text.strip()


def test_the_command_trains_saves_and_reports_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from midchart.core import api
    from midchart.core.services import training as small

    monkeypatch.setattr(small, "Recipe", lambda: replace(RECIPE, steps=2))
    monkeypatch.setattr("midchart.core.small_reader.training.Shape", lambda: SHAPE)
    result = api.train_reader(tmp_path / "mine", seed=3)
    assert result["step"] == 2
    assert made_with(tmp_path / "mine")["recipe"]["seed"] == 3
    assert not (tmp_path / "mine" / small.CHECKPOINT).exists()
    (tmp_path / "mine" / small.CHECKPOINT).write_bytes(b"")
    with pytest.raises(InputError, match="--resume"):
        api.train_reader(tmp_path / "mine")
