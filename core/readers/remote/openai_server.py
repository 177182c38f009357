"""One OpenAI-compatible server (vLLM, SGLang, ``transformers serve``, a hospital's own), called.

A finished ChatML prompt goes to ``/v1/completions`` as it stands. A server without that path gets
the same system and user text through ``/v1/chat/completions``, where it writes the frame itself.
Which of the two was used is told with every answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Literal

from core.client.calls import CallFailed, broken, quiet_clients
from core.client.openai_format import Greedy, NoSuchPath, answer, client_options, worded
from core.config import Secret
from core.egress import Permit
from core.errors import InputError
from core.text.prompt import HEAD, TAIL

Endpoint = Literal["completions", "chat"]
_USER = "<|im_start|>user\n"
_SYSTEM = "<|im_start|>system\n"
_END = "<|im_end|>"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered: text, tokens read and written (0: not told), and by which path."""

    text: str
    prompt_tokens: int
    output_tokens: int
    path: Endpoint


def chat_messages(prompt: str) -> list[dict[str, str]]:
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


class OpenAIServer:
    """A connection to one server, safe between threads. It opens on the first call."""

    def __init__(
        self, permit: Permit, key: Secret | None, model: str, path: str, timeout_s: float
    ) -> None:
        self.permit, self.model, self.timeout_s = permit, model, timeout_s
        self.service = f"the server at {permit.address.host}"
        self.path: Endpoint = "chat" if path == "chat" else "completions"
        self._fixed = path != "auto"
        self._key = key
        self._lock = threading.Lock()
        self._greedy = Greedy(self.service)
        self._client: Any = None

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                import httpx2
                import openai

                quiet_clients()
                http = httpx2.Client(timeout=self.timeout_s, **self.permit.client())
                options = client_options(self.permit, self._key, self.timeout_s)
                self._client = openai.OpenAI(http_client=http, **options)
            return self._client

    def complete(self, prompt: str, tokens: int) -> Reply:
        """The model's greedy answer to a finished prompt; raises CallFailed."""
        if self.path == "completions":
            try:
                return self._complete(prompt, tokens)
            except NoSuchPath:
                if self._fixed:
                    raise
        reply = self._chat(prompt, tokens)
        self.path = "chat"
        return reply

    def _complete(self, prompt: str, tokens: int) -> Reply:
        create = self._open().completions.create
        found = self._greedy.ask(create, model=self.model, prompt=prompt, max_tokens=tokens)
        return self._reply(found, "completions")

    def _chat(self, prompt: str, tokens: int) -> Reply:
        messages, create = chat_messages(prompt), self._open().chat.completions.create
        found = self._greedy.ask(create, model=self.model, messages=messages, max_tokens=tokens)
        return self._reply(found, "chat")

    def _reply(self, found: Any, path: Endpoint) -> Reply:
        told = answer(found, self.service)
        # A model that does not stop at its turn's end goes on with turns of its own making.
        text = told.text.split(_END, 1)[0].split("<|im_start|>", 1)[0]
        return Reply(text.strip(), told.prompt_tokens, told.output_tokens, path)

    def window(self) -> int:
        """The longest prompt and answer of the model in tokens, as the server tells it.

        Raises CallFailed where it cannot be asked, InputError where it does not say.
        """
        client = self._open()
        try:
            found = client.models.list()
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            raise worded(error, self.service) from None
        models: Any = getattr(found, "data", None)
        if not isinstance(models, list):
            raise broken(self.service)
        for model in models:
            length = getattr(model, "max_model_len", None)
            if getattr(model, "id", None) == self.model and type(length) is int and length > 0:
                return length
        raise InputError(
            f"{self.service} does not report the window of {self.model}; set the reader's "
            "'window', in tokens"
        )
