"""An OpenAI-compatible server for tests: models, completions and chat, with faults on demand."""

from __future__ import annotations

import json
import re
from collections import deque

from tests.support.fault_server import FaultServer

LINE = re.compile(r"^\[[^\]]+\] (.*)$", re.MULTILINE)


class OpenAIFake(FaultServer):
    """``window``: told by /v1/models (0: not told). ``paths``: those it offers. ``says``: what it
    answers to a prompt; by default the first line of its record that shares a word with the
    question, or YES where it is asked for one word. ``strict``: it knows no field that OpenAI's
    own API does not. ``replies``: documents of the next chat completions, each merged into a usual
    one; an integer before a document is its status. ``refuses``: a parameter → the error that a
    request with it gets. ``streams``: an answer is streamed where that is asked for."""

    def __init__(self, window=4096, paths=("completions", "chat/completions"), says=None):
        self.window, self.paths, self.says = window, paths, says or first_line
        self.usage, self.strict, self.streams = None, False, False
        self.replies, self.refuses = deque(), {}
        super().__init__()

    def answer(self, method, path, body, headers):
        if path == "/v1/models":
            entry = {"id": "tiny", "object": "model", "created": 0, "owned_by": "t"}
            if self.window:
                entry["max_model_len"] = self.window
            return 200, {"object": "list", "data": [entry]}
        kind = path.removeprefix("/v1/")
        if kind not in self.paths or body.get("model") != "tiny":
            return 404, {"error": {"message": "not found", "type": "not_found"}}
        if kind == "completions":
            prompt, choice = body["prompt"], {"text": self.says(body["prompt"])}
            if body.get("echo"):
                tokens = list(re.finditer(r"\S+\s*", prompt))
                values = [None, *(-1.0 / (1 + len(t.group())) for t in tokens[1:]), -9.0]
                offsets = [*(t.start() for t in tokens), len(prompt)]
                choice["logprobs"] = {"token_logprobs": values, "text_offset": offsets}
            elif "logprobs" in body:
                choice["logprobs"] = {"top_logprobs": [{" B": -0.5, "A": -2.0, "The": -0.1}]}
        else:
            prompt = "\n".join(m["content"] for m in body["messages"])
            choice = {"message": {"role": "assistant", "content": self.says(prompt)}}
            if body.get("logprobs"):
                tops = [{"token": "C", "logprob": -0.2}, {"token": "A", "logprob": -0.7}]
                choice["logprobs"] = {"content": [{"token": "C", "logprob": -0.2, "bytes": None,
                                                   "top_logprobs": tops}]}  # fmt: skip
        for name, error in self.refuses.items():
            if name in body:
                return 400, {"error": error}
        if self.strict and "repetition_penalty" in body:
            message = "Unexpected fields in the request: {'repetition_penalty'}"
            return 422, {"detail": message}
        words = len(prompt.split())
        limit = body.get("max_tokens", body.get("max_completion_tokens"))
        if self.window and words + limit > self.window:
            text = f"maximum context length is {self.window} tokens: {prompt[:50]}"
            return 400, {"error": {"message": text, "type": "BadRequestError"}}
        usage = self.usage or {"prompt_tokens": 2 * words, "completion_tokens": 3}
        document = {
            "id": "c", "object": "text_completion", "created": 0, "model": "tiny",
            "choices": [{"index": 0, "finish_reason": "stop", **choice}],
            "usage": {**usage, "total_tokens": 0},
        }  # fmt: skip
        document |= self.replies.popleft() if self.replies else {}
        if self.streams and body.get("stream"):
            return 200, streamed(document), "text/event-stream"
        return 200, document


def streamed(document):
    """A document as the chunks of a stream, each text in two parts, the usage last."""
    [choice] = document["choices"]
    name = "delta" if "message" in choice else "text"
    texts = choice.get("message") or {"text": choice["text"]}
    chunks = []
    for half in (0, 1):
        part = {k: v[len(v) // 2 :] if half else v[: len(v) // 2] for k, v in texts.items() if v}
        chunks.append({"index": 0, **({name: part} if name == "delta" else part)})
    ended = {"index": 0, "finish_reason": choice["finish_reason"], "delta": {}}
    events = [{"model": document["model"], "choices": [one]} for one in (*chunks, ended)]
    events.append({"choices": [], "usage": document["usage"]})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([": a comment\n\n", *lines, "data: [DONE]\n\n"]).encode()


def first_line(prompt):
    if "YES or NO" in prompt or "(YES)" in prompt:
        return "YES"
    question = prompt.rsplit("QUESTION: ", 1)[-1].split("<|im_end|>")[0]
    asked = set(re.findall(r"\w{4,}", question.lower()))
    lines = LINE.findall(prompt)
    return next((x for x in lines if asked & set(re.findall(r"\w{4,}", x.lower()))), "nothing")
