"""One OpenAI-compatible server (vLLM, SGLang, ``transformers serve``, a hospital's own).

Decoding is greedy. A finished ChatML prompt goes to ``/v1/completions`` unchanged; a server without
that path gets the same system and user text through ``/v1/chat/completions``. What a server sends
is validated, never trusted.

Tokens are counted with the model's tokenizer on this machine (``tokenizer.json`` in a folder of the
models folder) exactly; otherwise an upper estimate for today's byte-pair tokenizers on clinical
text, so that a prompt that is estimated to fit does fit.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

from midchart.core import config as settings
from midchart.core.client.calls import (
    CallFailed,
    broken_response,
    call_failure,
    error_body,
    quiet_clients,
    token_count,
)
from midchart.core.config import Secret
from midchart.core.egress import Permit
from midchart.core.errors import InputError, MissingModel
from midchart.core.text.prompt import HEAD, TAIL

_Endpoint = Literal["completions", "chat"]
_TOP = 20
"""Most probable tokens that a server is asked for: as many as OpenAI's own API reports."""
_USER = "<|im_start|>user\n"
_SYSTEM = "<|im_start|>system\n"
_END = "<|im_end|>"


class _NoSuchPath(CallFailed):
    """The server does not know the path, or the model: both answer 404."""


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A server's answer: text, tokens read and written (0: not reported), and its path."""

    text: str
    prompt_tokens: int
    output_tokens: int
    path: _Endpoint


class OpenAIServer:
    """A connection to one server, safe between threads. It opens on the first call.

    ``path``: "completions" or "chat" alone, or "auto", completions where the server has it.
    """

    def __init__(
        self, permit: Permit, key: Secret | None, model: str, timeout_s: float, path: str = "auto"
    ) -> None:
        self.permit, self.model, self.timeout_s = permit, model, timeout_s
        self.service = f"the server at {permit.address.host}"
        self.path: _Endpoint = "chat" if path == "chat" else "completions"
        self._fixed = path != "auto"
        self._key = key
        self._lock = threading.Lock()
        self._penalty = True
        self._client: Any = None

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                import openai

                from midchart.core.client.limits import LimitedClient

                quiet_clients()
                address = self.permit.address
                self._client = openai.OpenAI(
                    http_client=LimitedClient(self.service, self.timeout_s, **self.permit.client()),
                    api_key=self._key.reveal() if self._key else "none",
                    base_url=address.url if address.path else f"{address.url}/v1",
                    max_retries=0,  # core.client.calls retries, in step with the other calls
                    timeout=self.timeout_s,
                )
            return self._client

    def complete(self, prompt: str, tokens: int) -> ServerReply:
        """The model's greedy answer to a finished ChatML prompt; raises CallFailed."""
        reply = self._completed(prompt, tokens)
        # A model that does not stop at the end of its turn writes further turns.
        text = reply.text.split(_END, 1)[0].split("<|im_start|>", 1)[0]
        return replace(reply, text=text.strip())

    def _completed(self, prompt: str, tokens: int) -> ServerReply:
        if self.path == "completions":
            try:
                create = self._open().completions.create
                return self._ask(create, "completions", prompt=prompt, max_tokens=tokens)[0]
            except _NoSuchPath:
                if self._fixed:
                    raise
        reply = self.chat(_chat_messages(prompt), tokens)
        self.path = "chat"
        return reply

    def letter(self, prompt: str, letters: str) -> ServerReply:
        """The most probable of ``letters`` as the first token of an answer; raises CallFailed."""
        try:
            reply, probable = self._first_tokens(prompt)
        except _NoSuchPath:
            if self._fixed:
                raise
            self.path = "chat"
            reply, probable = self._first_tokens(prompt)
        among = {
            token.strip(): value for token, value in sorted(probable.items(), key=itemgetter(1))
        }
        able = [letter for letter in letters if letter in among]
        if not able:
            raise CallFailed(
                f"{self.service} reports no log-probability of any option's letter; "
                'use choose = "text"'
            )
        return replace(reply, text=max(able, key=among.__getitem__))

    def _first_tokens(self, prompt: str) -> tuple[ServerReply, dict[str, float]]:
        """A reply of one token, and the most probable tokens in its place."""
        client = self._open()
        if self.path == "chat":
            create, request = client.chat.completions.create, {"messages": _chat_messages(prompt)}
            more: dict[str, Any] = {"max_tokens": 1, "logprobs": True, "top_logprobs": _TOP}
            reply, response = self._ask(create, "chat", **request, **more)
            return reply, _first_chat_token(response)
        create = client.completions.create
        reply, response = self._ask(
            create, "completions", prompt=prompt, max_tokens=1, logprobs=_TOP
        )
        return reply, _first_completion_token(response)

    def log_likelihood(self, prompt: str, text: str) -> tuple[float, ServerReply]:
        """The log-likelihood of a text after a prompt; raises CallFailed.

        The server echoes the prompt's own log-probabilities (vLLM and SGLang do).
        """
        create = self._open().completions.create
        request = {"prompt": prompt + text, "max_tokens": 1, "echo": True, "logprobs": 1}
        reply, response = self._ask(create, "completions", **request)
        echoed: Any = getattr(response.choices[0], "logprobs", None)
        values, offsets = (
            getattr(echoed, "token_logprobs", None),
            getattr(echoed, "text_offset", None),
        )
        if not isinstance(values, list) or not isinstance(offsets, list):
            raise CallFailed(
                f'{self.service} does not echo log-probabilities; use choose = "letter" or "text"'
            )
        end = len(prompt) + len(text)
        pairs = zip(offsets, values, strict=False)
        # A token over the border holds some of the text.
        first = max((o for o in offsets if o <= len(prompt)), default=0)
        inside = [v for o, v in pairs if first <= o < end and isinstance(v, int | float)]
        if not inside:
            raise broken_response(self.service)
        return float(sum(inside)), replace(reply, text=text)

    def chat(self, messages: Sequence[dict[str, str]], tokens: int) -> ServerReply:
        """The model's greedy answer to messages; raises CallFailed."""
        create = self._open().chat.completions.create
        return self._ask(create, "chat", messages=messages, max_tokens=tokens)[0]

    def _ask(
        self, create: Callable[..., Any], path: _Endpoint, **request: Any
    ) -> tuple[ServerReply, Any]:
        """A reply and the response it was read from, at temperature 0 and without penalties.

        Many servers apply the repetition penalty of the model's generation settings (Qwen2.5's is
        1.05) by default; a server that rejects the field is asked without it.
        """
        request |= {"model": self.model, "temperature": 0, "frequency_penalty": 0}
        try:
            if self._penalty:
                try:
                    response = create(**request, extra_body={"repetition_penalty": 1.0})
                    return _read_response(response, self.service, path), response
                except Exception as error:
                    if not _rejects_penalty(error):
                        raise
                    self._penalty = False
            response = create(**request)
            return _read_response(response, self.service, path), response
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            raise _openai_failure(error, self.service) from None

    def window(self) -> int:
        """The longest prompt and answer of the model in tokens, as the server reports it.

        Raises CallFailed where it cannot be asked, InputError where it does not say.
        """
        try:
            models: Any = getattr(self._open().models.list(), "data", None)
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            raise _openai_failure(error, self.service) from None
        if not isinstance(models, list):
            raise broken_response(self.service)
        for model in models:
            length = getattr(model, "max_model_len", None)
            if getattr(model, "id", None) == self.model and type(length) is int and length > 0:
                return length
        raise InputError(
            f"{self.service} does not report the window of {self.model}; set the reader's "
            "'window', in tokens"
        )


def _first_completion_token(response: Any) -> dict[str, float]:
    """The most probable first tokens of a completion and their log-probabilities."""
    listed = getattr(getattr(response.choices[0], "logprobs", None), "top_logprobs", None)
    first = listed[0] if isinstance(listed, list) and listed else None
    return _numbers(first.items() if isinstance(first, dict) else ())


def _first_chat_token(response: Any) -> dict[str, float]:
    """The same of a chat completion."""
    content = getattr(getattr(response.choices[0], "logprobs", None), "content", None)
    first = (
        getattr(content[0], "top_logprobs", None) if isinstance(content, list) and content else ()
    )
    return _numbers((getattr(x, "token", None), getattr(x, "logprob", None)) for x in first or ())


def _numbers(pairs: Iterable[tuple[Any, Any]]) -> dict[str, float]:
    return {t: v for t, v in pairs if isinstance(t, str) and isinstance(v, int | float)}


def _chat_messages(prompt: str) -> list[dict[str, str]]:
    """The system and user text of a finished ChatML prompt.

    Raises CallFailed for a prompt that was cut on the right: a chat server would close its frame.
    """
    if not (prompt.startswith(HEAD) and prompt.endswith(TAIL)):
        raise CallFailed(
            "a prompt cut on the right can only go through /v1/completions, which this server "
            "does not offer"
        )
    system = prompt[len(_SYSTEM) : prompt.index(_END)]
    user = prompt[prompt.index(_USER) + len(_USER) : len(prompt) - len(TAIL)]
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _read_response(response: Any, service: str, path: _Endpoint) -> ServerReply:
    """A completion or chat completion; raises CallFailed for any other form."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise broken_response(service)
    first: Any = choices[0]
    message = getattr(first, "message", None)
    text = getattr(first, "text", None) if message is None else getattr(message, "content", None)
    if not isinstance(text, str):
        raise broken_response(service)
    usage = getattr(response, "usage", None)
    read, written = (token_count(usage, f"{kind}_tokens") for kind in ("prompt", "completion"))
    return ServerReply(text, read, written, path)


def _openai_failure(error: Exception, service: str) -> CallFailed:
    """An error of the client as a CallFailed; its body is inspected and never passed on."""
    failed = call_failure(error, service)
    status = getattr(error, "status_code", None)
    if status in (404, 405, 501):
        return _NoSuchPath(str(failed))
    body = error_body(error)
    too_long = ("context length", "context_length", "too long", "maximum length", "max_model")
    if status == 400 and any(phrase in body for phrase in too_long):
        return CallFailed(f"{service} finds the prompt too long for its model (status 400)")
    return failed


def _rejects_penalty(error: Exception) -> bool:
    status = getattr(error, "status_code", 0)
    return status in (400, 422) and "repetition_penalty" in error_body(error)


_PIECE = re.compile(r"[A-Za-z]+|\s+|[^A-Za-z\s]")
LETTERS = 3
"""Letters of a token of a rare word; common words are one token whatever their length."""


def cautious(text: str) -> int:
    """An upper estimate of the tokens of ``text``.

    Digits and punctuation marks count one, a run of letters one for each three, line breaks and
    runs of spaces one, any other character its bytes in UTF-8 (the maximum of a tokenizer with
    byte fallback).
    """
    total = 0
    for piece in _PIECE.findall(text):
        if piece.isspace():
            total += max(piece.count("\n"), int(len(piece) > 1))
        elif piece.isascii() and piece.isalpha():
            total += -(-len(piece) // LETTERS)
        else:
            total += len(piece.encode("utf-8", "replace"))
    return total


def counter(tokenizer: str) -> Callable[[str], int]:
    """The token count of the tokenizer of that name, or :func:`cautious` for an empty name.

    Raises InputError for a name that is not a folder's, MissingModel where it is not installed.
    """
    if not tokenizer:
        return cautious
    if tokenizer in (".", "..") or "/" in tokenizer or "\\" in tokenizer:
        raise InputError("'tokenizer' names a folder of the models folder, not a path")
    file = settings.models_folder() / tokenizer / "tokenizer.json"
    if not file.is_file():
        raise MissingModel(f"there is no tokenizer at {file}; put the model's tokenizer.json there")
    from tokenizers import Tokenizer

    built = Tokenizer.from_file(str(file))
    return lambda text: len(built.encode(text, add_special_tokens=False).ids)
