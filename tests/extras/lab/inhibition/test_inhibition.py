"""The inhibition lab: its decoder equals Qwen2, is causal and resumes exactly; needles move
alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from midchart.core.errors import DataError
from midchart.core.stats.within import crossed_bootstrap
from midchart.core.training import Aborted
from midchart.extras.lab.inhibition.records import (
    DATE0,
    DATES,
    ENTITIES,
    LINE,
    QUESTION,
    VOCABULARY,
    ask,
    draw_batch,
    draw_lines,
    edge_lines,
    haystacks,
    input_of,
    needle_positions,
    place,
    tokens_of,
)
from midchart.extras.lab.inhibition.spec import (
    DecoderConfig,
    DecoderRecipe,
    Measures,
)
from midchart.extras.lab.inhibition.training import (
    Decoder,
    DecoderNetwork,
    DecoderTrainer,
    LineGate,
    batch_of,
    evaluate,
    gate_of_keys,
    labels_of,
    own_parameters,
)

SHAPE = {"dim": 24, "heads": 3, "layers": 2, "feedforward": 40}
VARIANTS = (
    "softmax", "differential", "gated_differential", "gated_softmax", "entmax15", "sparsemax",
)  # fmt: skip
SMALL = {"steps": 4, "batch": 3, "questions": 4, "longest": 8, "save_every": 2}


def config(attention: str = "softmax", **more: object) -> DecoderConfig:
    return DecoderConfig(vocabulary=VOCABULARY, attention=attention, **{**SHAPE, **more})  # pyright: ignore


def build_network(attention: str) -> DecoderNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return DecoderNetwork(config(attention)).double().eval()


def test_with_softmax_it_equals_transformers_qwen2():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    decoder = build_network("softmax").decoder
    qwen = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=24,
            intermediate_size=40,
            num_hidden_layers=2,
            num_attention_heads=3,
            num_key_value_heads=3,
            rope_parameters={"rope_type": "default", "rope_theta": decoder.config.theta},
            tie_word_embeddings=True,
            attn_implementation="eager",
        )
    ).double()
    weights = {f"model.{name}": value for name, value in decoder.state_dict().items()}
    missing = qwen.load_state_dict(weights, strict=False)
    assert missing.missing_keys == ["lm_head.weight"] and not missing.unexpected_keys
    tokens = torch.randint(VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(0))
    causal = torch.ones(13, 13, dtype=torch.bool).tril()
    hidden, _ = decoder(tokens, torch.arange(13), causal)
    torch.testing.assert_close(hidden, qwen.eval()(tokens).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attention", VARIANTS)
def test_later_tokens_do_not_change_earlier_outputs(attention):
    network = build_network(attention)
    decoder = network.decoder
    tokens = torch.randint(4, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(1))
    causal = torch.ones(12, 12, dtype=torch.bool).tril()
    gate = torch.rand(2, 12, 12).double() if decoder.attention.gated else None
    before, maps = decoder(tokens, torch.arange(12), causal, gate, need_weights=True)
    other = tokens.clone()
    other[:, 7:] = 5
    after, _ = decoder(other, torch.arange(12), causal, gate)
    torch.testing.assert_close(after[:, :7], before[:, :7])
    assert (after[:, 7:] - before[:, 7:]).abs().max() > 1e-4
    assert all((one.masked_select(~causal) == 0).all() for one in maps)


@pytest.mark.parametrize("attention", ["softmax", "differential", "gated_differential"])
def test_questions_of_a_batch_do_not_influence_each_other(attention):
    network = build_network(attention)
    many = draw_batch(np.random.default_rng(0), 3, 6, 4, "uniform")
    together = network(many).answers
    for at in range(4):
        alone = type(many)(
            many.tokens, many.question[:, at : at + 1], many.answer[:, at : at + 1],
            many.line[:, at : at + 1],
        )  # fmt: skip
        torch.testing.assert_close(network(alone).answers[:, 0], together[:, at])


def test_variants_of_a_seed_share_start_records_and_parameters():
    starts = {
        name: DecoderTrainer(
            config(name), DecoderRecipe(**SMALL), "cpu"
        ).network.decoder.state_dict()
        for name in VARIANTS
    }
    shared = set.intersection(*(set(one) for one in starts.values()))
    assert "layers.1.mlp.up_proj.weight" in shared
    # The look back is of a part's width, so its biases alone may differ.
    for key in shared - {f"layers.0.self_attn.{p}_proj.bias" for p in "qk"}:
        assert all(torch.equal(one[key], starts["softmax"][key]) for one in starts.values()), key
    counts = {own_parameters(DecoderNetwork(config(name)))[0] for name in VARIANTS}
    assert len(counts) == 1
    uniform, edges = (
        batch_of(DecoderRecipe(placement=p, **SMALL), 2) for p in ("uniform", "edges")
    )
    assert np.array_equal(uniform.tokens, edges.tokens)


@pytest.mark.parametrize("attention", ["softmax", "differential"])
def test_the_first_heads_start_with_attention_to_previous_tokens(attention):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        decoder = Decoder(
            DecoderConfig(vocabulary=VOCABULARY, attention=attention, dim=96, heads=3)
        )
    batch = draw_batch(np.random.default_rng(0), 8, 10, 1, "uniform")
    tokens, positions, mask = map(torch.from_numpy, input_of(batch))
    _, maps = decoder(tokens, positions, mask, need_weights=True)
    for head in range(3):
        mean = maps[0][:, head, 20].mean(0)
        assert int(mean.argmax()) == 20 - (head + 1) and mean.max() > 0.5


def test_the_split_gate_layer_equals_the_full_one():
    gate = LineGate(VOCABULARY).double()
    batch = draw_batch(np.random.default_rng(0), 2, 5, 3, "uniform")
    tokens, question = torch.from_numpy(batch.tokens), torch.from_numpy(batch.question)
    logits = gate.logits(tokens, question)
    line = tokens[1, 1 + 4 * LINE : 1 + 4 * LINE + 3]
    pooled = torch.cat([gate.model.embedding(question[1, 2, None, :2]),
                        gate.model.embedding(line[None])], 1)  # fmt: skip
    torch.testing.assert_close(logits[1, 2, 4], gate.model.head(pooled)[0])
    spread = gate_of_keys(logits.sigmoid(), 1 + 5 * LINE + 3 * QUESTION, 1.0)
    at_line = spread[1, 1 + 5 * LINE + 2 * QUESTION]
    assert (at_line[1 + 4 * LINE : 1 + 5 * LINE] == logits[1, 2, 4].sigmoid()).all()
    assert at_line[0] == 1 and (at_line[1 + 5 * LINE :] == 1).all() and (spread[:, :21] == 1).all()


@pytest.mark.parametrize("attention", ["softmax", "gated_differential"])
def test_a_training_cut_off_goes_on_to_identical_bits(attention, tmp_path):
    uninterrupted = DecoderTrainer(config(attention), DecoderRecipe(**SMALL), "cpu")
    uninterrupted.run()
    file = tmp_path / "training.safetensors"
    cut = DecoderTrainer(config(attention), DecoderRecipe(**SMALL), "cpu")
    with pytest.raises(Aborted):
        cut.run(lambda stage, of: False, file)
    again = DecoderTrainer(config(attention), DecoderRecipe(**SMALL), "cpu")
    again.run(checkpoint=file)
    assert [one.loss for one in again.history] == [one.loss for one in uninterrupted.history]
    for name, value in uninterrupted.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name]), name
    with pytest.raises(DataError, match="another recipe"):
        DecoderTrainer(config(attention), DecoderRecipe(**{**SMALL, "seed": 9}), "cpu").run(
            checkpoint=file
        )


def test_shuffled_labels_are_a_records_own_lines_given_to_its_questions_by_chance():
    recipe = DecoderRecipe(batch=64, questions=16, steps=10, shortest=24)
    batch = batch_of(recipe, 9)
    assert labels_of(batch, recipe, 9) is batch.line
    shuffled = recipe.model_copy(update={"labels": "shuffled"})
    labels = labels_of(batch, shuffled, 9)
    assert (np.sort(labels, axis=1) == np.sort(batch.line, axis=1)).all()
    # Chance: two of a record's 16 questions have the same line, or the draw left one where it was.
    same = batch.line[:, :, None] == batch.line[:, None, :]
    assert (labels == batch.line).mean() == pytest.approx(
        same.mean(), abs=0.03
    ) and same.mean() < 0.2
    assert np.array_equal(labels, labels_of(batch, shuffled, 9))
    assert not np.array_equal(labels, labels_of(batch, shuffled, 8))


@pytest.mark.slow
def test_a_gate_learns_where_evidence_is_from_true_labels_alone():
    taught = {}
    for labels in ("true", "shuffled"):
        recipe = DecoderRecipe(
            steps=100, batch=8, questions=12, shortest=8, longest=8, labels=labels, save_every=20
        )
        trainer = DecoderTrainer(config("gated_differential"), recipe, "cpu")
        trainer.run()
        taught[labels] = trainer.history[-1].gate_loss
    # One line in 8 is the evidence: who knows this and no more has the loss of that share.
    share = 1 / 8
    ignorant = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert taught["true"] < 0.8 * ignorant < 0.95 * ignorant < taught["shuffled"]


def test_records_are_in_time_order_and_a_question_has_one_answer():
    lines = draw_lines(np.random.default_rng(0), 50, 24)
    assert (np.diff(lines.date, axis=1) >= 0).all() and lines.date.max() < DATES
    pairs = lines.date * ENTITIES + lines.entity
    assert all(len(set(row)) == 24 for row in pairs.tolist())
    batch = ask(lines, np.full((50, 1), 7))
    assert (batch.answer[:, 0] == tokens_of(lines)[:, 1 + 7 * LINE + 2]).all()
    with pytest.raises(ValueError, match="calendar has 120"):
        draw_lines(np.random.default_rng(0), 2, 121)


@pytest.mark.parametrize("lines", [8, 24])
def test_evidence_near_the_edges_is_near_the_edges(lines):
    batch = draw_batch(np.random.default_rng(0), 40, lines, 16, "edges")
    edge = edge_lines(lines)
    assert set(batch.line.ravel()) == {*range(edge), *range(lines - edge, lines)}
    every = draw_batch(np.random.default_rng(0), 40, lines, 16, "uniform")
    assert set(every.line.ravel()) == set(range(lines))


def test_a_needle_moves_alone_and_distractors_are_its_entity_on_other_days():
    lines, depths, most = 24, 7, 4
    sets = haystacks(np.random.default_rng(0), 20, lines, depths, most)
    bodies = []
    for at in needle_positions(lines, depths):
        for count in (0, most):
            placed = place(sets, int(at), count)
            body = placed.batch.tokens[:, 1:].reshape(20, lines, LINE)
            date, entity, value = (body[:, :, i] for i in range(3))
            same_entity = entity == placed.batch.question[:, :1, 1]
            assert (same_entity.sum(1) == count + 1).all() and same_entity[:, at].all()
            assert (placed.distractor.sum(1) == count).all() and (
                same_entity >= placed.distractor
            ).all()
            same_day = date == date[:, [at]]
            assert (same_day.sum(1) >= 2).all() and not (same_day & placed.distractor).any()
            answer = placed.batch.answer[:, :1]
            assert (value[:, at] == answer[:, 0]).all()
            assert not ((value == answer) & placed.distractor).any()
            assert (date == sets.date + DATE0).all()
        bodies.append(np.delete(body[:, :, 1:], at, axis=1))
    assert all(np.array_equal(bodies[0], other) for other in bodies[1:])


def test_needles_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="no room for 9 distractors"):
        haystacks(np.random.default_rng(0), 1, 8, 7, 9)


def test_attention_adds_up_and_measures_are_the_same_each_time():
    trainer = DecoderTrainer(config("softmax"), DecoderRecipe(**SMALL), "cpu")
    plan = Measures(records=5, depths=3, lengths=(6, 8), base=8, usual=1, distractors=(0, 1))
    cells = evaluate(trainer, plan, lambda done, of: None)
    assert [(c.length, c.distractors) for c in cells[::3]] == [(6, 1), (8, 1), (8, 0)]
    for cell in cells:
        assert cell.correct.shape == (5,) and cell.mass.shape == (2, 4, 5)
        np.testing.assert_allclose(cell.mass.sum(1), 1, atol=1e-5)
        assert (cell.mass[:, 1] == 0).all() == (cell.distractors == 0)
    again = evaluate(trainer, plan, lambda done, of: None)
    assert all(np.array_equal(a.mass, b.mass) for a, b in zip(cells, again, strict=True))


@pytest.mark.slow
def test_the_decoder_learns_lookup():
    recipe = DecoderRecipe(steps=260, batch=16, questions=12, longest=6, save_every=130)
    trainer = DecoderTrainer(
        DecoderConfig(vocabulary=VOCABULARY, dim=48, heads=3, feedforward=64), recipe, "cpu"
    )
    trainer.run()
    # One value in 64 by chance, one of about five lines by picking any of the record.
    assert trainer.history[-1].accuracy > 0.4 > 0.2 > trainer.history[0].accuracy


def test_crossed_intervals_account_for_both_groupings():
    rng = np.random.default_rng(0)
    seeds, records = rng.normal(size=(6, 1, 1)), rng.normal(size=(1, 40, 1))
    noise = 0.01 * rng.normal(size=(6, 40, 1))
    by_seed = crossed_bootstrap(seeds + noise, 2000, np.random.default_rng(1))
    by_record = crossed_bootstrap(records + noise, 2000, np.random.default_rng(1))
    # A mean of m things of variance v has standard error √(v/m); an interval is ± 1.96 of it.
    for interval, values in ((by_seed, seeds), (by_record, records)):
        wide = float(interval.high[0] - interval.low[0])
        assert wide == pytest.approx(2 * 1.96 * values.std() / values.size**0.5, rel=0.15)
        assert interval.estimate[0] == pytest.approx((values + 0 * noise).mean(), abs=0.01)
    with pytest.raises(ValueError, match="finite"):
        crossed_bootstrap(np.full((1, 1, 1), np.nan), 10, rng)
