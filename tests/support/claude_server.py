"""A server in the form of the Claude API for tests: messages, streams, batches, with faults.

It is as strict as the API of version 2026-10-21: a temperature is refused unless the request
names the version before it, and some models refuse one always.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from tests.support.fault_server import SECRET_TEXT, FaultServer

TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}  # fmt: skip
NO_TEMPERATURE = ("claude-sonnet-5-5",)


class ClaudeFake(FaultServer):
    """``says``: what it answers to a prompt (default YES where the response holds a word of the
    evidence's last line). ``looks``: how many looks a batch takes to end. ``outcome``: what becomes
    of a batch's request by its place ("errored", "expired", "canceled"; else it succeeds)."""

    def __init__(self, says=None, looks=1, outcome=None):
        self.says, self.looks = says or (lambda prompt: "YES"), looks
        self.outcome = outcome or (lambda place: "succeeded")
        self.batches, self.stop_reason, self.results_url = {}, "end_turn", None
        self.cut_results, self.content, self.usage = 0, None, {}
        super().__init__()

    def error(self, status):
        message = f"no: {SECRET_TEXT}"
        return {"type": "error", "error": {"type": TYPES[status], "message": message}}

    def message(self, asked, version):
        """A message for the parameters of one, or an error."""
        if "temperature" in asked and (version != "2023-06-01" or asked["model"] in NO_TEMPERATURE):
            error = self.error(400)
            error["error"]["message"] = "temperature: Extra inputs are not permitted"
            return 400, error
        content = asked["messages"][0]["content"]
        parts = content if isinstance(content, list) else [{"text": content}]
        prompt = "".join(part["text"] for part in parts)
        response = self.says(prompt)
        stored = [part for part in parts if "cache_control" in part]
        return 200, {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"],
            "content": self.content or ([{"type": "text", "text": response}] if response else []),
            "stop_reason": self.stop_reason, "stop_sequence": None,
            "usage": {
                "input_tokens": len(prompt.split()), "output_tokens": 2,
                "cache_creation_input_tokens": len(stored), "cache_read_input_tokens": 0,
                **self.usage,
            },
        }  # fmt: skip

    def answer(self, method, path, body, headers):
        if headers.get("authorization") in (None, "Bearer wrong"):
            return 401, self.error(401)
        version = headers.get("anthropic-version")
        if path == "/v1/messages":
            return self.message(body, version)
        if path == "/v1/messages/batches" and method == "POST":
            id = f"msgbatch_{len(self.batches) + 1}"
            self.batches[id] = {"asked": body["requests"], "left": self.looks, "version": version}
            self.batches[id]["made"] = datetime.now(UTC)
            return 200, self.batch(id)
        id = path.split("/")[4]
        if path.endswith("/results"):
            lines = self.results(id)
            if self.cut_results:
                self.cut_results -= 1
                lines = lines[: len(lines) // 2]
            return 200, lines, "application/x-jsonl"
        self.batches[id]["left"] -= 1
        return 200, self.batch(id)

    def batch(self, id):
        held = self.batches[id]
        n, ended = len(held["asked"]), held["left"] <= 0
        return {
            "id": id, "type": "message_batch", "created_at": held["made"].isoformat(),
            "expires_at": (held["made"] + timedelta(days=1)).isoformat(), "archived_at": None,
            "cancel_initiated_at": None, "ended_at": held["made"].isoformat() if ended else None,
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {
                "processing": 0 if ended else n, "succeeded": n if ended else 0, "errored": 0,
                "canceled": 0, "expired": 0,
            },
            "results_url": self.results_url or f"{self.url}/v1/messages/batches/{id}/results",
        }  # fmt: skip

    def results(self, id):
        lines = []
        for place, request in enumerate(self.batches[id]["asked"]):
            status, message = self.message(request["params"], self.batches[id]["version"])
            kind = self.outcome(place) if status == 200 else "errored"
            result = {"type": kind}
            if kind == "succeeded":
                result["message"] = message
            elif kind == "errored":
                result["error"] = message if status != 200 else self.error(500)
            lines.append(json.dumps({"custom_id": request["custom_id"], "result": result}))
        return ("\n".join(reversed(lines)) + "\n").encode()  # in no particular order
