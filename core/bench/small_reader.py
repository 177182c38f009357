"""Training of the small reader: gradients by its own attention, and steps with memory retained."""

from __future__ import annotations

import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from core.bench import BENCHES, compare
from core.small_reader.recipe import keep_memory

LINES, LONG_LINES, STEPS = 60, 100, 2


@BENCHES.register("small_lesson")
def small_lesson() -> dict[str, Any]:
    """A training example's gradient on one thread, by torch's attention kernel and by the reader's
    own, in bfloat16 where the processor computes in it; the network has the recipe's size."""
    import numpy as np
    import torch

    from core.small_reader.batches import END, PAD, encode, predict, train_tokenizer
    from core.small_reader.network import NAME, make_network
    from core.small_reader.recipe import Recipe, Shape
    from core.synthetic.training_examples import ExamplePlan, make_example
    from core.training.repeatable import one_thread

    recipe, shape = Recipe(), Shape()
    plan = ExamplePlan(lines=(LINES, LINES), asked=recipe.asked[1])
    examples = [make_example(np.random.default_rng([recipe.seed, n]), plan) for n in range(20)]
    tokenizer = train_tokenizer(examples, shape.words)
    end, pad = (tokenizer.token_to_id(token) for token in (END, PAD))
    model = make_network(shape, tokenizer.get_vocab_size(), end, pad, recipe.seed)
    example = encode(tokenizer, examples[0], recipe.complete)

    def learn(attention: str) -> None:
        model.set_attn_implementation(attention)
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.half):
            predicted = predict(model, example)
        wanted = torch.from_numpy(example.wanted)
        loss = torch.nn.functional.cross_entropy(predicted.logits.float(), wanted)
        torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    with one_thread():
        learn("sdpa")
        size = f"{LINES} lines, {len(examples[0].asked)} questions, {example.size:,} tokens"
        return compare("small_lesson", size, lambda: learn("sdpa"), lambda: learn(NAME), ask=1.0)


@functools.cache
def _trainer() -> Any:
    from core.small_reader.recipe import Recipe
    from core.small_reader.training import ReaderTrainer

    trainer = ReaderTrainer(Recipe(lines=(LONG_LINES, LONG_LINES, LONG_LINES)))
    trainer.total = STEPS
    return trainer


def _train() -> None:
    trainer = _trainer()
    trainer.history.clear()  # the same examples each time
    trainer.run()


@BENCHES.register("small_memory")
def small_memory() -> dict[str, Any]:
    """Two steps on long training examples, each side in its own process; the plain side returns
    memory to the system."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as plain, ProcessPoolExecutor(1, spawn) as keeping:
        retains_memory = keeping.submit(keep_memory).result()
        plain.submit(_train).result()
        size = f"{STEPS} steps of two training examples, {LONG_LINES} lines and more"
        size += "" if retains_memory else "; without glibc neither side retains memory"
        return compare(
            "small_memory",
            size,
            lambda: plain.submit(_train).result(),
            lambda: keeping.submit(_train).result(),
            ask=1.0,
        )
