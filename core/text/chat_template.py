"""The chat template that a model's folder brings, as the frame of its prompts.

A template is a program (Jinja) that renders messages as the text a model was trained on. It is run
once, by transformers' sandbox, on messages whose context and question are marks; what it writes
around the marks is the frame of every prompt, so that a context can be cut to the last token before
anything is rendered. A template that refuses a system message, or leaves it out, gets its text at
the start of the user's message, as the model cards of Gemma and Mistral ask.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from midchart.core.errors import SpecError
from midchart.core.provenance import digest
from midchart.core.text import for_prompt
from midchart.core.text.prompt import MIDDLE, REQUEST, SYSTEM, Frame

_CONTEXT, _QUESTION = "[[midchart context]]", "[[midchart question]]"
_DATE = "26 Jul 2024"
"""The day that a template which writes the day of the call (Llama 3) gets, its own default."""


def has_template(folder: Path) -> bool:
    """Whether the folder of a model brings a chat template."""
    if (folder / "chat_template.jinja").is_file():
        return True
    file = folder / "tokenizer_config.json"
    return file.is_file() and bool(json.loads(file.read_text("utf-8")).get("chat_template"))


@lru_cache(maxsize=16)
def template_frame(folder: Path) -> Frame:
    """The frame of a folder's chat template; its name is the template's digest.

    Raises SpecError for a folder without a template, and for a template that does not write both
    parts of the user's message once and as they are.
    """
    if not has_template(folder):
        raise SpecError(f"{folder}: the tokenizer has no chat template, so there is no way to ask")
    transformers: Any = importlib.import_module("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(
        str(folder), local_files_only=True
    )
    ends = tuple(token for token in (tokenizer.eos_token,) if token)
    start = tokenizer.bos_token or ""
    if tokenizer("x").input_ids[:1] != [tokenizer.bos_token_id]:
        start = ""
    name = digest(str(tokenizer.get_chat_template()))
    frame = frame_of_template(lambda messages: _rendered(tokenizer, messages), folder, name)
    frame = replace(frame, ends=ends, start=start if frame.head.startswith(start) else "")
    added = tokenizer.added_tokens_decoder.values()
    return with_control(frame, [(one.content, one.special) for one in added])


@lru_cache(maxsize=16)
def added_tokens(folder: Path) -> tuple[tuple[str, bool], ...]:
    """What :func:`with_control` needs of a folder's ``tokenizer.json``."""
    from tokenizers import Tokenizer

    added = Tokenizer.from_file(str(folder / "tokenizer.json")).get_added_tokens_decoder()
    return tuple((one.content, one.special) for one in added.values())


def with_control(frame: Frame, added: Iterable[tuple[str, bool]]) -> Frame:
    """A frame with the control tokens of its model's tokenizer whose forms are not known.

    ``added``: the tokens that the tokenizer looks for in a text before all others, each with
    whether it is a special one. Special ones and those in the frame itself are control tokens;
    others, such as runs of blanks or tags of HTML, may stand in a record.
    """
    written = frame.text("", "")
    control = (text for text, special in added if special or text in written)
    return replace(frame, control=tuple(t for t in control if t.strip() and t == for_prompt(t)))


def frame_of_template(
    render: Callable[[list[dict[str, str]]], str], model: Path, name: str
) -> Frame:
    """The frame of the template that ``render`` applies ("" where it refuses the messages).

    ``model``: its place, for errors. Raises SpecError as :func:`template_frame` does.
    """
    user = REQUEST + _CONTEXT + MIDDLE + _QUESTION
    text = render([{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}])
    if SYSTEM not in text:
        text = render([{"role": "user", "content": f"{SYSTEM}\n\n{user}"}])
    head, _, rest = text.partition(_CONTEXT)
    middle, _, tail = rest.partition(_QUESTION)
    if not (
        head.endswith(REQUEST) and SYSTEM in head and middle == MIDDLE and text.count("[[") == 2
    ):
        raise SpecError(
            f"{model}: the chat template does not write messages as they are, so a context cannot "
            "be cut to its tokens"
        )
    return Frame(head, middle, tail, name)


def _rendered(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    """The text of messages and of the answer's beginning; "" where the template refuses them."""
    try:
        return tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, date_string=_DATE
        )
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        if type(error).__name__ != "TemplateError" or messages[0]["role"] != "system":
            raise SpecError(
                f"the chat template refuses a message ({type(error).__name__})"
            ) from None
        return ""
