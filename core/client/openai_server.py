"""One OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, a hospital's own).

Decoding is greedy. Messages go to ``/v1/chat/completions``, where the server renders them by its
model's own template; a finished text goes to ``/v1/completions``. Answers are streamed, so that a
proxy that cuts idle connections ends no long one. What a server sends is validated, never trusted.
A refused call names a parameter that the server does not take; the call is made again without it,
and so are all later ones.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from midchart.core import weights
from midchart.core.client.calls import (
    CallFailed,
    broken_response,
    call_failure,
    error_body,
    quiet_clients,
    reported_count,
)
from midchart.core.config import Secret
from midchart.core.egress import Permit
from midchart.core.errors import DataError, InputError, MissingModel
from midchart.core.parsing import read_json
from midchart.core.text.reasoning import split_reasoning
from midchart.core.types import Ended

if TYPE_CHECKING:
    from midchart.core.client.limits import LimitedClient

PathName = Literal["completions", "chat"]
ENDPOINTS: Mapping[str, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
_TOP = 20
"""Most probable tokens that a server is asked for: as many as OpenAI's own API reports."""
_OPTIONAL = (
    *("max_tokens", "temperature", "frequency_penalty", "repetition_penalty"),
    *("stream_options", "stream"),
)
"""Parameters that some servers or models refuse."""
_REFUSING = re.compile(
    r"unsupported|not support|does not support|unexpected|extra|unknown|unrecogni|not permitted"
    r"|not allowed|deprecated|forbidden"
)
ENDS: Mapping[str, Ended] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    "content_filter": "filter",
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "tool"),
    "refusal": "refusal",
}
"""What services call the end of an answer. None, which some send, is a stop."""


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A server's answer: text, tokens read and written (0: not reported), its path, how it ended,
    the reasoning before it with its tokens, the model that the server names, and how the call
    differed from a greedy one ("": not at all)."""

    text: str
    prompt_tokens: int
    output_tokens: int
    path: PathName
    ended: Ended = "stop"
    reasoning: str = ""
    reasoning_tokens: int = 0
    model: str = ""
    differs: str = ""


class OpenAIServer:
    """A connection to one server, safe between threads, that opens on the first call; ``effort``:
    ``reasoning_effort`` of chat calls ("": not sent)."""

    def __init__(
        self, permit: Permit, key: Secret | None, model: str, timeout_s: float, effort: str = ""
    ) -> None:
        self.permit, self.model, self.timeout_s = permit, model, timeout_s
        self.service = f"the server at {permit.address.host}"
        self.refused: frozenset[str] = frozenset()
        """Parameters that the server has refused."""
        self._effort = {"reasoning_effort": effort} if effort else {}
        self._key = key
        self._lock = threading.Lock()
        self._of_thread = threading.local()

    def _open(self) -> LimitedClient:
        """The client of this thread, with one connection: those of a shared client are all looked
        at for each request."""
        if not hasattr(self._of_thread, "client"):
            from midchart.core.client.limits import LimitedClient

            quiet_clients()
            address = self.permit.address
            self._of_thread.client = LimitedClient(
                self.service,
                self.timeout_s,
                base_url=address.url if address.path else f"{address.url}/v1",
                headers={"authorization": f"Bearer {self._key.reveal()}"} if self._key else {},
                **self.permit.client(),
            )
        return self._of_thread.client

    def complete(self, prompt: str, tokens: int, ends: Sequence[str] = ()) -> ServerReply:
        """The model's greedy continuation of a finished prompt; raises CallFailed. ``ends``: what a
        model that does not stop at the end of its turn writes before the next."""
        reply = self._ask("completions", tokens, prompt=prompt, **_STREAM)[0]
        for end in ends:
            text, turn_end, _ = reply.text.partition(end)
            if turn_end:
                reply = replace(reply, text=text.strip(), ended="stop")
        return reply if reply.text or reply.ended != "stop" else replace(reply, ended="empty")

    def chat(self, messages: Sequence[dict[str, str]], tokens: int) -> ServerReply:
        """The model's greedy answer to messages; raises CallFailed."""
        return self._ask("chat", tokens, messages=messages, **self._effort, **_STREAM)[0]

    def letter(self, asked: str | Sequence[dict[str, str]], letters: str) -> ServerReply:
        """The most probable of ``letters`` as the first token of an answer to a finished prompt or
        to messages; raises CallFailed."""
        path: PathName = "completions" if isinstance(asked, str) else "chat"
        request: dict[str, Any] = {"prompt": asked, "logprobs": _TOP}
        if path == "chat":
            request = {"messages": asked, "logprobs": True, "top_logprobs": _TOP, **self._effort}
        reply, choice = self._ask(path, 1, **request)
        probable = _first_token(choice, path)
        among = {
            token.strip(): value for token, value in sorted(probable.items(), key=itemgetter(1))
        }
        able = [letter for letter in letters if letter in among]
        if not able:
            raise CallFailed(
                f"{self.service} reports no log-probability of any option's letter; "
                'use choose = "text"'
            )
        return replace(reply, text=max(able, key=among.__getitem__), ended="stop")

    def log_likelihood(self, prompt: str, text: str) -> tuple[float, ServerReply]:
        """The log-likelihood of a text after a prompt; raises CallFailed.

        The server echoes the prompt's own log-probabilities (vLLM and SGLang do).
        """
        request = {"prompt": prompt + text, "echo": True, "logprobs": 1}
        reply, choice = self._ask("completions", 1, **request)
        echoed = _object(choice.get("logprobs"))
        values, offsets = echoed.get("token_logprobs"), echoed.get("text_offset")
        if not isinstance(values, list) or not isinstance(offsets, list):
            raise CallFailed(
                f'{self.service} does not echo log-probabilities; use choose = "letter" or "text"'
            )
        if not all(type(offset) is int for offset in offsets):
            raise broken_response(self.service)
        end = len(prompt) + len(text)
        pairs = zip(offsets, values, strict=False)
        # A token over the border holds some of the text.
        first = max((o for o in offsets if o <= len(prompt)), default=0)
        inside = [_logarithm(v) for o, v in pairs if first <= o < end and v is not None]
        if not inside or None in inside:
            raise broken_response(self.service)
        return sum(v for v in inside if v is not None), replace(reply, text=text, ended="stop")

    def _ask(
        self, path: PathName, tokens: int, **request: Any
    ) -> tuple[ServerReply, dict[str, Any]]:
        """A reply and the choice it was read from, at temperature 0 and without penalties: many
        servers apply those of the model's generation settings by default."""
        refused = self.refused
        endpoint = ENDPOINTS[path].removeprefix("/v1")
        while True:
            taken = {name: value for name, value in request.items() if name not in refused}
            body = {"model": self.model, **taken, **_parameters(tokens, refused)}
            try:
                response = _read_object(self._open().post(endpoint, json=body), self.service)
                reply, choice = _read_response(response, self.service, path)
            except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
                name = _refused_parameter(error)
                if not name or name in refused:
                    raise _server_failure(error, self.service) from None
                refused |= {name}
                continue
            with self._lock:
                self.refused |= refused
            return self.permit.without_key(replace(reply, differs=_differs(refused))), choice

    def window(self) -> int:
        """The longest prompt and answer of the model in tokens, as the server reports it; raises
        CallFailed, and InputError where it does not say."""
        try:
            models = _read_object(self._open().get("/models"), self.service).get("data")
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            raise _server_failure(error, self.service) from None
        if not isinstance(models, list):
            raise broken_response(self.service)
        for model in map(_object, models):
            reported = reported_count(model.get("meta"), "n_ctx")  # llama.cpp's
            length = reported_count(model, "max_model_len", reported)
            if model.get("id") == self.model and length:
                return length
        raise InputError(
            f"{self.service} does not report the window of {self.model}; set the reader's "
            "'window', in tokens"
        )


class ErrorStatus(Exception):
    """A response with another status than success; ``body``: what it says, inspected and never
    passed on."""

    def __init__(self, response: Any) -> None:
        super().__init__(response.status_code)
        self.response, self.status_code = response, response.status_code
        try:
            document = response.json()
        except ValueError:
            document = response.text
        self.body = _object(document).get("error", document)


def _read_object(response: Any, service: str) -> dict[str, Any]:
    """The JSON object of a response; raises ErrorStatus, CallFailed and ValueError."""
    if not response.is_success:
        raise ErrorStatus(response)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return _assembled(response.text, service)
    document = response.json()
    if not isinstance(document, dict):
        raise broken_response(service)
    return document


_STREAM: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def _assembled(events: str, service: str) -> dict[str, Any]:
    """The document of a streamed answer, whose texts are joined; raises CallFailed."""
    document: dict[str, Any] = {}
    texts: dict[str, str] = {}
    finished: Any = None
    for line in events.splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        try:
            chunk = _object(read_json(data, service))
        except DataError:
            raise broken_response(service) from None
        if "error" in chunk:
            raise broken_response(service)
        document |= {name: chunk[name] for name in ("model", "usage") if chunk.get(name)}
        choices = chunk.get("choices")
        choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
        finished = choice.get("finish_reason") or finished
        for name, value in {"text": choice.get("text"), **_object(choice.get("delta"))}.items():
            parts = {name: value} if isinstance(value, str) else {}
            if name == "content" and isinstance(value, list):
                parts = dict(
                    zip(("content", "reasoning"), _read_content(value, service), strict=True)
                )
            elif isinstance(value, list) and value:
                parts = {name: "called"}
            for part, text in parts.items():
                texts[part] = texts.get(part, "") + text
    if finished is None:
        raise broken_response(service)
    answer: dict[str, Any] = {"message": texts} if "text" not in texts else texts
    return document | {"choices": [answer | {"finish_reason": finished}]}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parameters(tokens: int, refused: frozenset[str]) -> dict[str, Any]:
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    greedy = {"temperature": 0, "frequency_penalty": 0}
    parameters: dict[str, Any] = {limit: tokens}
    parameters |= {name: value for name, value in greedy.items() if name not in refused}
    if "repetition_penalty" not in refused:
        parameters["repetition_penalty"] = 1.0
    return parameters


def _differs(refused: frozenset[str]) -> str:
    words = {"temperature": "the model's own temperature", "max_tokens": "max_completion_tokens"}
    return ", ".join(text for name, text in words.items() if name in refused)


def _refused_parameter(error: Exception) -> str:
    """The optional parameter that an error refuses, in its field ``param`` (OpenAI's form) or in
    words; "" for any other error."""
    if getattr(error, "status_code", 0) not in (400, 422) or _too_long(error):
        return ""
    body: Any = getattr(error, "body", None)
    named = body.get("param") if isinstance(body, dict) else None
    if named in _OPTIONAL:
        return str(named)
    text = error_body(error)
    return next((name for name in _OPTIONAL if name in text and _REFUSING.search(text)), "")


def _first_token(choice: dict[str, Any], path: PathName) -> dict[str, float]:
    part = _object(choice.get("logprobs")).get("content" if path == "chat" else "top_logprobs")
    first = _object(part[0] if isinstance(part, list) and part else None)
    pairs: Iterable[tuple[Any, Any]] = first.items()
    if path == "chat":
        tops = first.get("top_logprobs")
        listed = map(_object, tops if isinstance(tops, list) else ())
        pairs = [(top.get("token"), top.get("logprob")) for top in listed]
    read = {token: _logarithm(value) for token, value in pairs if isinstance(token, str)}
    return {token: value for token, value in read.items() if value is not None}


def _logarithm(value: Any) -> float | None:
    """A log-probability; None for what cannot be one (NaN, say, or a larger number than any)."""
    return float(value) if type(value) in (int, float) and abs(value) < 1e9 else None


def _read_response(
    response: dict[str, Any], service: str, path: PathName
) -> tuple[ServerReply, dict[str, Any]]:
    """A completion or chat completion and its choice; raises CallFailed for any other form."""
    choices = response.get("choices")
    choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
    if not choice:
        raise broken_response(service)
    ended = ENDS.get(str(choice.get("finish_reason") or "stop"))
    if ended is None:
        raise CallFailed(f"{service} ended an answer for a reason that Midchart does not know")
    message = choice.get("message")
    reasoning = refusal = ""
    if message is None and path == "completions":
        text = choice.get("text")
        if not isinstance(text, str):
            raise broken_response(service)
    elif not isinstance(message, dict):
        raise broken_response(service)
    else:
        text, reasoning = _read_content(message.get("content"), service)
        for name in ("reasoning_content", "reasoning"):
            value = message.get(name)
            reasoning = reasoning or (value if isinstance(value, str) else "")
        refusal = message.get("refusal")
        if message.get("tool_calls") or message.get("function_call"):
            ended = "tool"
    if not reasoning:
        reasoning, text = split_reasoning(text)
    text = text.strip()
    if isinstance(refusal, str) and refusal.strip():
        text, ended = text or refusal.strip(), "refusal"
    elif not text and ended == "stop":
        ended = "empty"
    usage = _object(response.get("usage"))
    read, written = (
        reported_count(usage, f"{kind}_tokens") or 0 for kind in ("prompt", "completion")
    )
    details = _object(usage.get("completion_tokens_details"))
    thought = reported_count(details, "reasoning_tokens") or 0
    model = response.get("model")
    name = model if isinstance(model, str) else ""
    reply = ServerReply(text, read, written, path, ended, reasoning.strip(), thought, name)
    return reply, choice


def _read_content(content: Any, service: str) -> tuple[str, str]:
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        raise broken_response(service)
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        part = _object(part)
        inner = part.get("thinking")
        if isinstance(inner, list):  # Mistral's form
            thoughts += [str(one.get("text", "")) for one in inner if isinstance(one, dict)]
        elif isinstance(inner, str):
            thoughts.append(inner)
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            raise broken_response(service)
    return "".join(texts), "".join(thoughts)


_TOO_LONG = ("context length", "context_length", "too long", "maximum length", "max_model")


def _too_long(error: Exception) -> bool:
    body = error_body(error)
    return getattr(error, "status_code", 0) == 400 and any(phrase in body for phrase in _TOO_LONG)


def _server_failure(error: Exception, service: str) -> CallFailed:
    if _too_long(error):
        return CallFailed(f"{service} finds the prompt too long for its model (status 400)")
    return call_failure(error, service)


LETTERS = 3
"""Letters of a token of a rare word; common words are one token whatever their length."""
_COUNTED = re.compile(rf"[A-Za-z]{{1,{LETTERS}}}|\n|(?<!\s)[^\S\n]{{2,}}(?!\s)")
_LETTERS_AND_SPACES = re.compile(r"[A-Za-z\s]+")


def cautious(text: str) -> int:
    """An upper estimate of the tokens of ``text``: digits and punctuation marks count one, a run of
    letters one for each three, line breaks and runs of spaces one, any other character its bytes in
    UTF-8."""
    others = _LETTERS_AND_SPACES.sub("", text)
    return len(_COUNTED.findall(text)) + len(others.encode("utf-8", "replace"))


def counter(tokenizer: str) -> Callable[[str], int]:
    """The token count of the tokenizer of that name, or :func:`cautious` for an empty name; raises
    SpecError, MissingModel."""
    if not tokenizer:
        return cautious
    from tokenizers import Tokenizer

    built = Tokenizer.from_file(str(tokenizer_folder(tokenizer) / "tokenizer.json"))
    return lambda text: len(built.encode(text, add_special_tokens=False).ids)


def tokenizer_folder(tokenizer: str) -> Path:
    """The folder of a tokenizer in the models folder; raises as :func:`counter` does."""
    folder = weights.in_models_folder(tokenizer)
    if not (folder / "tokenizer.json").is_file():
        raise MissingModel(
            f"there is no tokenizer at {folder / 'tokenizer.json'}; put the model's "
            "tokenizer.json there"
        )
    return folder
