"""A server in the form of the Claude API for tests: messages, with faults.

It is as strict as the API of version 2026-10-21: a temperature is refused unless the request
names the version before it, and some models refuse one always.
"""

from __future__ import annotations

from tests.support.fault_server import SECRET_TEXT, FaultServer

TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}  # fmt: skip
NO_TEMPERATURE = ("claude-sonnet-5-5",)


class ClaudeFake(FaultServer):
    """``says``: what it answers to a prompt (default YES where the response holds a word of the
    evidence's last line)."""

    def __init__(self, says=None):
        self.says = says or (lambda prompt: "YES")
        self.stop_reason, self.content, self.usage = "end_turn", None, {}
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
        return 404, self.error(404)
