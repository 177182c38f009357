"""The reader of any local model: its chat template, exact budgets, the answers of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from midchart.core.errors import InputError
from midchart.core.protocol import PRESETS, Protocol
from midchart.core.readers import READERS
from midchart.core.text.chat_template import template_frame
from midchart.core.text.prompt import CHATML, SYSTEM, build_prompt
from midchart.core.types import Kept, Selection, Sentence, Span
from tests.support.tiny_models import OTHER_TEMPLATE, make_gemma, make_other

PROTOCOL = Protocol(answer_tokens=24)
WITHOUT_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}" + OTHER_TEMPLATE
)
SILENT_SYSTEM = OTHER_TEMPLATE.replace(
    "{% for message in messages %}",
    "{% for message in messages if message['role'] != 'system' %}",
)
TYPES = ("llama", "mistral", "qwen3", "phi3", "gemma3_text")


@pytest.fixture(autouse=True)
def models_folder(models: Path) -> Path:
    return models


def selection(n=12):
    entries = []
    for i in range(n):
        text = f"Glucose: {90 + 7 * i} mg; Hemoglobin A1c: {5 + i / 10:.1f} %"
        entries.append(Kept(Sentence(f"e{i}", Span(i, 0, len(text)), None, "x", text, 9), i, "arm"))
    return Selection("p", "i", "bm25", tuple(entries), 9 * n)


def asked(reader, n=12, window=None, **options):
    return build_prompt(
        "When was the last glucose measured?",
        selection(n),
        reader.protocol,
        window or reader.window,
        reader.count_tokens,
        reader.frame,
        **options,
    )


def built(folder: Path, protocol=PROTOCOL, **options):
    return READERS.build("transformers", protocol, model=folder.name, dtype="float32", **options)


@pytest.mark.parametrize("model_type", TYPES)
def test_answers_are_those_of_transformers_with_the_model_s_own_template(models, model_type):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = make_other(models / f"other-{model_type}", model_type)
    reader = built(folder)
    prompts = [asked(reader, n) for n in (1, 5, 12)]
    answers = dict(reader.read_many(prompts))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for i, prompt in enumerate(prompts):
        chat = [
            {"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt.user},
        ]  # fmt: skip
        rendered = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        assert prompt.text == rendered
        ids = tokenizer(rendered, add_special_tokens=False, return_tensors="pt").input_ids
        assert prompt.tokens == ids.shape[1] == answers[i].prompt_tokens
        out = model.generate(ids, max_new_tokens=24, do_sample=False)[0, ids.shape[1] :].tolist()
        ended = "stop" if out[-1] == 4 else "length"
        text = tokenizer.decode(out, skip_special_tokens=True).strip()
        assert (answers[i].text, answers[i].ended) == (text, ended if text else "empty")
    assert len(prompts[0].template) == 32  # the template's digest


def test_a_context_is_cut_to_the_last_token_of_the_rendered_messages(models):
    reader = built(make_other(models / "other-llama", "llama"))
    complete = asked(reader)
    lines = {len(asked(reader, window=complete.tokens + 24 - cut).context) for cut in range(120)}
    assert len(asked(reader, window=complete.tokens + 24).context) == 12
    assert len(asked(reader, window=complete.tokens + 23).context) == 11
    assert lines == set(range(min(lines), 13))
    for cut in range(0, 120, 7):
        prompt = asked(reader, window=complete.tokens + 24 - cut)
        assert prompt.tokens + 24 <= complete.tokens + 24 - cut
        assert prompt.question_survived and prompt.question in prompt.user
        assert reader.read(prompt).status == "ok"


@pytest.mark.parametrize("template", [WITHOUT_SYSTEM, SILENT_SYSTEM])
def test_a_template_without_a_system_message_gets_it_in_the_user_s(models, template):
    name = f"quiet-{len(template)}"
    frame = template_frame(make_other(models / name, "llama", template))
    assert frame.head.startswith(f"<bos><|start|>user<|sep|>{SYSTEM}\n\nBased ONLY on")
    assert frame.tail == "<|end|><|start|>assistant<|sep|>"


def test_what_cannot_be_asked_is_refused_before_anything_is_loaded(models):
    with pytest.raises(InputError, match="needs 'model'"):
        READERS.build("transformers", PROTOCOL)
    make_gemma(models / "base")
    with pytest.raises(InputError, match="has no chat template"):
        READERS.build("transformers", PROTOCOL, model="base")


def test_the_published_preset_keeps_chatml(models):
    folder = make_other(models / "other-llama", "llama")
    reader = built(folder, PRESETS["published"])
    assert reader.frame == CHATML
    assert asked(reader).template == "chatml"


def test_qwen_s_own_template_is_the_paper_s_text():
    frame = READERS.build("qwen", PROTOCOL).frame
    assert (frame.head, frame.middle, frame.tail) == (CHATML.head, CHATML.middle, CHATML.tail)
    assert frame.template not in ("", "chatml")


def test_a_question_of_options_is_chosen_by_letter_and_by_likelihood(models):
    folder = make_other(models / "other-llama", "llama")
    for choose in ("letter", "likelihood"):
        reader = built(folder, choose=choose)
        answer = reader.read(asked(reader, options=("left", "right", "both")))
        assert answer.text in ("A: left", "B: right", "C: both")
        assert answer.ended == "stop"


def test_reasoning_is_kept_apart_and_has_its_own_tokens(models):
    opened = OTHER_TEMPLATE.replace("assistant<|sep|>", "assistant<|sep|><think>\n")
    reader = built(make_other(models / "thinker", "llama", opened), reasoning_tokens=30)
    answer = reader.read(asked(reader, 3))
    # Random weights never close the block: all that is written is reasoning.
    assert (answer.text, answer.reasoning != "") == ("", True)
    assert answer.ended in ("length", "empty") and answer.reasoning_tokens > 0
    assert reader.window == 4096 - 30
