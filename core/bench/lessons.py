"""What the small reader learns from a lesson, by its own attention and by transformers'.

Forward and backward of a record of sixty lines with its 28 questions, on one thread, in bfloat16
where the processor computes in it; the plain side is torch's own kernel in the same model.
"""

from __future__ import annotations

from typing import Any

from core.bench import BENCHES, compare

LINES = 60


@BENCHES.register("small_lesson")
def small_lesson() -> dict[str, Any]:
    """One lesson's gradient, of a network of the recipe's size with fresh weights."""
    import numpy as np
    import torch

    from core.small_reader.batches import encode, predict
    from core.small_reader.network import NAME, make_network
    from core.small_reader.recipe import Recipe, Shape
    from core.small_reader.tokens import END, PAD, train_tokenizer
    from core.synthetic.training_examples import ExamplePlan, make_example
    from core.training.repeatable import one_thread

    recipe, shape = Recipe(), Shape()
    plan = ExamplePlan(lines=(LINES, LINES), asked=recipe.asked[1])
    made = [make_example(np.random.default_rng([recipe.seed, n]), plan) for n in range(20)]
    tokenizer = train_tokenizer(made, shape.words)
    end, pad = (tokenizer.token_to_id(token) for token in (END, PAD))
    model = make_network(shape, tokenizer.get_vocab_size(), end, pad, recipe.seed)
    lesson = encode(tokenizer, made[0], recipe.whole)

    def learn(attention: str) -> None:
        model.set_attn_implementation(attention)
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.half):
            foretold = predict(model, lesson)
        wanted = torch.from_numpy(lesson.wanted)
        loss = torch.nn.functional.cross_entropy(foretold.logits.float(), wanted)
        torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    with one_thread():
        learn("sdpa")
        size = f"{LINES} lines, {len(made[0].asked)} questions, {lesson.size:,} tokens"
        return compare("small_lesson", size, lambda: learn("sdpa"), lambda: learn(NAME), ask=1.0)
