"""The decoder in which attentions are compared; training and evaluation of one.

Training asks many questions a record, with the loss on the answers alone. Every step has its own
seed, so all variants of a seed are trained on the same data in the same order. On one machine's CPU
the same seed gives bit-identical weights; another machine or a GPU (bfloat16) rounds differently.
All decoders are evaluated on the same needle records, so every comparison is paired.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import AttentionModule, Keys, Shape
from midchart.core.attention.code_gate import gate_loss
from midchart.core.attention.differential import Differential
from midchart.core.gate.checkpoint import GateConfig
from midchart.core.gate.ngrams import Hashing
from midchart.core.gate.training import GateModel
from midchart.core.stats.auroc import ranking_areas
from midchart.core.training import require_finite
from midchart.core.training.trainer import Trainer, forked_rng, one_thread
from midchart.extras.lab.inhibition.records import (
    LINE,
    QUESTION,
    Batch,
    Haystacks,
    PlacedNeedles,
    draw_batch,
    haystacks,
    input_of,
    needle_positions,
    place,
)
from midchart.extras.lab.inhibition.spec import (
    Cell,
    DecoderConfig,
    DecoderRecipe,
    Measures,
    Stage,
)

# The decoder: Qwen2's architecture, except for the attention. RMS norms before each part, rotary
# positions, biases on queries, keys and values only, a SwiGLU, and tied embeddings. Weights have
# Qwen2's names; with softmax attention it equals Qwen2 (tested).


EPSILON = 1e-6
SPREAD = 0.02
"""Standard deviation of Qwen2's initial weights, from a width of 1024."""
GAIN = 0.64
"""Times 1/√width: the standard deviation for narrower decoders."""
ADDED = 0.25
"""Initial scale of what a part adds to the residual stream, so that embeddings dominate."""
PEAK = 16.0
"""Attention score of the target position of a head initialised to look back."""
QUIET = 0.2
"""Initial scale of such a head's content weights, so that the position dominates."""
FALL = 0.6
"""Ratio between rotary frequencies in that score: fast ones are sharp, slow ones distinguish the
target from positions a full turn away."""


def angles(positions: Tensor, width: int, theta: float) -> Tensor:
    """Angles [time, width/2] of rotary positions (Su et al. 2021, equation 15)."""
    steps = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    return positions.float()[:, None] * theta ** (-steps / width)


def rotate(x: Tensor, angle: Tensor, parts: int) -> Tensor:
    """Rotate queries or keys [batch, heads, time, dim], each of ``parts`` parts separately.

    Pairs are half a part's width apart, as in Qwen2.
    """
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    cut = x.unflatten(-1, (parts, 2, -1))
    first, second = cut[..., 0, :], cut[..., 1, :]
    cos, sin = cos[:, None], sin[:, None]
    rotated = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-2)
    return rotated.flatten(-3)


class SelfAttention(nn.Module):
    """Projections, rotary positions and a variant of attention."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads, self.theta = config.heads, config.theta
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.variant: AttentionModule

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(
        self, x: Tensor, positions: Tensor, keys: Keys, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Mixed values [batch, time, dim], and the maps where needed."""
        q, k, v = (self._split(part(x)) for part in (self.q_proj, self.k_proj, self.v_proj))
        parts = self.variant.parts
        angle = angles(positions, q.shape[-1] // parts, self.theta)
        out, weights = self.variant(
            rotate(q, angle, parts), rotate(k, angle, parts), v,
            keys.mask, keys.gate, None, need_weights,
        )  # fmt: skip
        return self.o_proj(out.transpose(1, 2).flatten(2)), weights


class FeedForward(nn.Module):
    """SwiGLU (Shazeer 2020, equation 6)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        wide = config.feedforward
        self.gate_proj = nn.Linear(config.dim, wide, bias=False)
        self.up_proj = nn.Linear(config.dim, wide, bias=False)
        self.down_proj = nn.Linear(wide, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, dim] → the same."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Attention and feed-forward, each with a norm before it and a residual."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.self_attn, self.mlp = SelfAttention(config), FeedForward(config)
        self.input_layernorm = nn.RMSNorm(config.dim, eps=EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(config.dim, eps=EPSILON)

    def forward(
        self, x: Tensor, positions: Tensor, keys: Keys, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The residual stream [batch, time, dim] after the layer, and the maps where needed."""
        mixed, weights = self.self_attn(self.input_layernorm(x), positions, keys, need_weights)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), weights


class Decoder(nn.Module):
    """Tokens → logits of the next token.

    Shared weights are initialised before those of the attentions, so decoders of one seed start
    with the same weights whatever their attention.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        if config.dim % config.heads:
            raise ValueError(f"a width of {config.dim} is not divisible by {config.heads} heads")
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.dim)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.dim, eps=EPSILON)
        self.apply(_start)
        with torch.no_grad():
            for layer in self.blocks:
                layer.self_attn.o_proj.weight.mul_(ADDED)
                layer.mlp.down_proj.weight.mul_(ADDED)
        for depth, layer in enumerate(self.blocks):
            shape = Shape(config.heads, config.dim // config.heads, depth)
            variant = ATTENTIONS.build(config.attention, shape, **config.options)
            layer.self_attn.variant = variant
        if config.look_back and config.layers:
            look_back(self.blocks[0].self_attn)

    @property
    def blocks(self) -> list[DecoderLayer]:
        """The layers, first to last."""
        return list(self.layers)

    @property
    def attention(self) -> AttentionModule:
        """The first layer's attention; all are gated or none."""
        return self.blocks[0].self_attn.variant

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        gate: Tensor | None = None,
        read: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits [batch, read, vocabulary] and, where needed, each layer's maps.

        ``tokens`` int [batch, time], ``positions`` [time], ``mask`` bool [time, time] (queries ×
        keys) or [batch, time, time]; ``gate`` [batch, time, time] for a gated attention; ``read``:
        the indices whose logits are needed (None: all). Maps are [batch, heads, time, time].
        """
        if mask.dim() == 2:
            mask = mask.expand(len(tokens), *mask.shape)
        keys, maps = Keys(mask, gate), list[Tensor]()
        x = self.embed_tokens(tokens)
        for layer in self.blocks:
            x, weights = layer(x, positions, keys, need_weights)
            if weights is not None:
                maps.append(weights)
        x = self.norm(x if read is None else x[:, read])
        return x @ self.embed_tokens.weight.T, tuple(maps)


def _start(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=max(SPREAD, GAIN * module.in_features**-0.5))
        for name, values in module.named_parameters(recurse=False):
            if name == "bias":
                nn.init.zeros_(values)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=max(SPREAD, GAIN * module.embedding_dim**-0.5))


@torch.no_grad()
def look_back(attention: SelfAttention) -> None:
    """Initialise head h = 0, 1, … to attend h + 1 tokens back, by biases of queries and keys.

    A key's bias is the query's, rotated back by h + 1 positions, so that rotary positions make
    their product largest there. Of a variant with two maps only the first looks back; the second
    starts uniform.
    """
    parts, heads = attention.variant.parts, attention.heads
    dim = attention.q_proj.out_features // heads
    width = dim // parts
    share = FALL ** torch.arange(width // 2).float()
    # q·k/√width is PEAK at the target: the shares of the pairs sum to PEAK·√width.
    size = (share / share.sum() * PEAK * width**0.5).sqrt()
    query = torch.zeros(heads, dim)
    query[:, : width // 2] = size
    back = torch.arange(1.0, heads + 1)
    angle = angles(back, width, attention.theta)
    key = torch.zeros(heads, dim)
    key[:, : width // 2] = size * angle.cos()
    key[:, width // 2 : width] = size * angle.sin()
    attention.q_proj.weight.mul_(QUIET)
    attention.k_proj.weight.mul_(QUIET)
    attention.q_proj.bias.copy_(query.flatten())
    attention.k_proj.bias.copy_(key.flatten())


def _slow_parameters(decoder: Decoder) -> list[nn.Parameter]:
    """The parameters that :func:`look_back` initialised, if any."""
    if not decoder.config.look_back:
        return []
    first = decoder.blocks[0].self_attn
    return [*first.q_proj.parameters(), *first.k_proj.parameters()]


LINE_INPUT = 3
"""Tokens of a line that the gate reads: date, entity, value."""
QUESTION_INPUT = 2
"""Tokens of a question that the gate reads: date, entity."""


class LineGate(nn.Module):
    """Scores of all lines for all questions of a record; padding (token 0) is ignored."""

    def __init__(self, vocabulary: int, dim: int = 32) -> None:
        super().__init__()
        # Without dropout, as the decoder has none.
        self.model = GateModel(GateConfig(Hashing(buckets=vocabulary), dim=dim, dropout=0.0))

    def logits(self, tokens: Tensor, question: Tensor) -> Tensor:
        """Logits [batch, questions, lines] of ``tokens`` [batch, 1 + 4·lines], ``question`` [batch,
        questions, 3].

        The first layer is linear in question and line, so each passes through it once.
        """
        table = self.model.embedding.weight
        lines = table[tokens[:, 1:].unflatten(1, (-1, LINE))[..., :LINE_INPUT]].mean(2)
        questions = table[question[..., :QUESTION_INPUT]].mean(2)
        first, *rest = self.model.layers
        of_question, of_line = first.weight.chunk(2, dim=1)
        x = (questions @ of_question.T + first.bias)[:, :, None] + (lines @ of_line.T)[:, None]
        for layer in rest:
            x = layer(torch.relu(x))
        return x.squeeze(-1)


def gate_of_keys(scores: Tensor, time: int, neutral: float) -> Tensor:
    """The gate of every key for every query [batch, time, time] of ``scores`` in [0, 1].

    ``scores`` are [batch, questions, lines]. Every token of a line has the line's gate for every
    token of the question. All other pairs are ``neutral``: the first token of the record, the
    question's own tokens, and queries within the record.
    """
    batch, questions, lines = scores.shape
    record = 1 + lines * LINE
    full = scores.new_full((batch, time, time), neutral)
    by_token = scores.repeat_interleave(LINE, 2).repeat_interleave(QUESTION, 1)
    full[:, record : record + questions * QUESTION, 1:record] = by_token
    return full


@dataclass(frozen=True, eq=False, slots=True)
class Output:
    """A network's output: logits [batch, questions, vocabulary] of each answer, the gate's logits
    [batch, questions, lines] (None without one), each layer's maps where needed."""

    answers: Tensor
    gate: Tensor | None
    maps: tuple[Tensor, ...]


class DecoderNetwork(nn.Module):
    """A decoder and, where its attention is gated, the QCCS gate of lines."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.decoder = Decoder(config)
        self.gate = LineGate(config.vocabulary) if self.decoder.attention.gated else None

    def forward(self, batch: Batch, need_weights: bool = False) -> Output:
        """Read records and answer their questions."""
        device = self.decoder.embed_tokens.weight.device
        tokens, positions, mask = (torch.from_numpy(x).to(device) for x in input_of(batch))
        record, time = batch.tokens.shape[1], tokens.shape[1]
        logits = gate = None
        if self.gate is not None:
            question = tokens[:, record:].unflatten(1, (-1, QUESTION))
            logits = self.gate.logits(tokens[:, :record], question)
            gate = gate_of_keys(logits.sigmoid(), time, self.decoder.attention.neutral_gate)
        read = torch.arange(record + QUESTION - 1, time, QUESTION, device=device)
        answers, maps = self.decoder(tokens, positions, mask, gate, read, need_weights)
        return Output(answers, logits, maps)


def own_parameters(network: DecoderNetwork) -> tuple[int, int]:
    """Parameters of the decoder, and those that the variant adds: λ, norms and the gate."""
    variants = [layer.self_attn.variant for layer in network.decoder.blocks]
    added = sum(p.numel() for module in variants for p in module.parameters())
    decoder = sum(p.numel() for p in network.decoder.parameters()) - added
    return decoder, sum(p.numel() for p in network.parameters()) - decoder


def strengths(network: DecoderNetwork) -> list[float] | None:
    """λ of each layer, mean over heads; None where the attention subtracts nothing."""
    variants = [layer.self_attn.variant for layer in network.decoder.blocks]
    if not all(isinstance(one, Differential) for one in variants):
        return None
    return [
        float(one.strength().detach().mean()) for one in variants if isinstance(one, Differential)
    ]


# Training and evaluation.


BETAS = (0.9, 0.98)
SHUFFLE = 1
"""Added to the seed of shuffled labels, which differs from that of the records."""
SLOW = 0.05
"""Relative learning rate of the heads initialised to look back."""
BATCH = 64
"""Needle records read at once."""
Floats = NDArray[np.float64]


def batch_of(recipe: DecoderRecipe, step: int) -> Batch:
    """The records and questions of a step; placements of one seed share their records.

    Records grow from ``shortest`` to ``longest`` over the first half of the steps, since lookup
    is learned sooner in short ones.
    """
    rng = np.random.default_rng([recipe.seed, step])
    grown = recipe.shortest + (recipe.longest - recipe.shortest) * min(1.0, 2 * step / recipe.steps)
    lines = int(rng.integers(recipe.shortest, math.ceil(grown) + 1))
    lines = min(lines, recipe.longest)
    return draw_batch(rng, recipe.batch, lines, recipe.questions, recipe.placement)


def labels_of(batch: Batch, recipe: DecoderRecipe, step: int) -> NDArray[np.int64]:
    """The lines [batch, questions] that are a gate's targets at a step.

    Shuffled ones are the true ones of a record, permuted among its questions.
    """
    if recipe.labels == "true":
        return batch.line
    rng = np.random.default_rng([recipe.seed, step, SHUFFLE])
    return rng.permuted(batch.line, axis=1)


def rate_at(recipe: DecoderRecipe, step: int) -> float:
    """The learning rate of a step."""
    warm = min(1.0, (step + 1) / max(1, recipe.warm_up))
    past = max(0.0, 2 * step / recipe.steps - 1)
    return recipe.rate * warm * 0.5 * (1 + math.cos(math.pi * past))


def device_of(name: str | None) -> torch.device:
    """The device of that name; None: a GPU where there is one."""
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


class DecoderTrainer(Trainer[DecoderNetwork, Stage]):
    """Trains a network in stages of ``save_every`` steps; ``device`` as in :func:`device_of`."""

    entry = Stage

    def __init__(
        self, config: DecoderConfig, recipe: DecoderRecipe, device: str | None = None
    ) -> None:
        self.config, self.recipe = config, recipe
        with forked_rng(seed=recipe.seed):
            network = DecoderNetwork(config)
        super().__init__(network.to(device_of(device)), recipe.steps, device=device_of(device))
        self.optimizer = torch.optim.AdamW(
            self._groups(),
            lr=recipe.rate,
            betas=BETAS,
            weight_decay=recipe.decay,
            fused=self.device.type == "cuda",
        )

    def _groups(self) -> list[dict[str, Any]]:
        """Parameters with their relative learning rates: slow for the heads that look back.

        At the full rate their initialisation would be lost before the layers above can use it.
        """
        slow = _slow_parameters(self.network.decoder)
        ids = {id(p) for p in slow}
        rest = [p for p in self.network.parameters() if id(p) not in ids]
        return [{"params": rest, "share": 1.0}, {"params": slow, "share": SLOW}]

    def read(self, batch: Batch, need_weights: bool = False) -> Output:
        """The network's output; in bfloat16 on a GPU."""
        on = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on):
            return self.network(batch, need_weights)

    def advance(self) -> Stage:
        start, first = time.perf_counter(), self.done
        last = min(first + self.recipe.save_every, self.recipe.steps)
        sums = torch.zeros(3, device=self.device)
        for step in range(first, last):
            sums += self._step(step)
        loss, accuracy, gate = (sums / (last - first)).tolist()
        require_finite(loss + gate, f"steps {first + 1} to {last}")
        gate = math.nan if self.network.gate is None else gate
        return Stage(last, loss, accuracy, gate, time.perf_counter() - start)

    def _step(self, step: int) -> Tensor:
        """One step; loss, accuracy and the gate's loss [3]."""
        batch = batch_of(self.recipe, step)
        answer = torch.from_numpy(batch.answer).to(self.device).flatten()
        output = self.read(batch)
        logits = output.answers.float().flatten(0, 1)
        loss = F.cross_entropy(logits, answer)
        gate_term = loss.new_zeros(())
        if output.gate is not None:
            positive = torch.zeros_like(output.gate, dtype=torch.float32)
            line = torch.from_numpy(labels_of(batch, self.recipe, step)).to(self.device)
            positive.scatter_(2, line[:, :, None], 1.0)
            gate_term = gate_loss(output.gate.float().flatten(), positive.flatten(), "bce")
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.recipe, step) * group["share"]
        self.optimizer.zero_grad(set_to_none=True)
        (loss + gate_term).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        correct = (logits.argmax(-1) == answer).float().mean()
        return torch.stack([loss.detach(), correct, gate_term.detach()])

    def identity(self) -> Any:
        return [self.config.model_dump(), self.recipe.model_dump()]


def stacks_of(plan: Measures) -> dict[int, Haystacks]:
    """The needle records of each length, with the most distractors of its conditions."""
    stacks: dict[int, Haystacks] = {}
    for length in dict.fromkeys(length for length, _ in plan.conditions):
        most = max(count for other, count in plan.conditions if other == length)
        rng = np.random.default_rng([plan.seed, length])
        stacks[length] = haystacks(rng, plan.records, length, plan.depths, most)
    return stacks


@torch.no_grad()
def evaluate(
    trainer: DecoderTrainer, plan: Measures, progress: Callable[[int, int], None]
) -> list[Cell]:
    """Every condition at every depth; ``progress`` gets the numbers done and in all."""
    stacks, cells = stacks_of(plan), list[Cell]()
    trainer.network.eval()
    with one_thread(trainer.device):
        for length, count in plan.conditions:
            for at in needle_positions(length, plan.depths):
                placed = place(stacks[length], int(at), count)
                cells.append(Cell(length, count, float(at) / (length - 1), *_read(trainer, placed)))
                progress(len(cells), len(plan.conditions) * plan.depths)
    return cells


def _read(trainer: DecoderTrainer, placed: PlacedNeedles) -> tuple[NDArray[np.bool_], Floats]:
    """Whether each record is answered correctly [records], and its attention masses."""
    correct, mass = list[NDArray[np.bool_]](), list[Floats]()
    every = placed.batch
    for begin in range(0, len(placed.distractor), BATCH):
        some = slice(begin, begin + BATCH)
        batch = Batch(
            *(part[some] for part in (every.tokens, every.question, every.answer, every.line))
        )
        output = trainer.read(batch, need_weights=True)
        correct.append(output.answers[:, 0].argmax(-1).cpu().numpy() == batch.answer[:, 0])
        mass.append(attention_mass(output.maps, batch.line[:, 0], placed.distractor[some]))
    return np.concatenate(correct), np.concatenate(mass, axis=2)


def attention_mass(
    maps: tuple[Tensor, ...], line: NDArray[np.int64], distractor: NDArray[np.bool_]
) -> Floats:
    """Mass of the last token's attention [layers, parts, records], mean over heads."""
    count, lines = distractor.shape
    of_line = np.stack([np.arange(lines) == line[:, None], distractor], axis=0)
    masses: list[Floats] = []
    for layer in maps:
        rows = layer[:, :, -1].float().mean(1).cpu().numpy().astype(np.float64)
        by_line = rows[:, 1 : 1 + lines * LINE].reshape(count, lines, LINE).sum(2)
        both = (by_line[None] * of_line).sum(2)
        rest = rows.sum(1) - both.sum(0) - rows[:, 0]
        masses.append(np.stack([*both, rows[:, 0], rest]))
    return np.stack(masses)


@torch.no_grad()
def gate_quality(trainer: DecoderTrainer, plan: Measures) -> dict[str, float] | None:
    """AUROC, mean and SD of a gate's scores of the lines of the base records, the needle at every
    depth; None without a gate."""
    gate = trainer.network.gate
    if gate is None:
        return None
    stack, scores, labels = stacks_of(plan)[plan.base], list[Floats](), list[NDArray[np.bool_]]()
    for at in needle_positions(plan.base, plan.depths):
        batch = place(stack, int(at), plan.usual).batch
        tokens, question = (
            torch.from_numpy(x).to(trainer.device) for x in (batch.tokens, batch.question)
        )
        score = gate.logits(tokens, question)[:, 0].float().sigmoid().cpu().numpy()
        scores.append(score.astype(np.float64).ravel())
        labels.append((np.arange(plan.base) == batch.line).ravel())
    every = np.concatenate(scores)
    area, _ = ranking_areas(every, np.concatenate(labels))
    return {"auroc": float(area), "mean": float(every.mean()), "sd": float(every.std())}
