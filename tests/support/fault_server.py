"""A local HTTP server with scripted answers and errors, shared by the tests' services.

``fault(...)`` names what happens to the next requests, one each; then it answers as it should.
Every request is kept, headers and all, so a test can say what was sent and what was not.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

JSON = "application/json"


class FaultServer:
    """Serves on loopback until closed. Subclasses write ``answer(method, path, body, headers)``,
    which gives (status, document) or (status, bytes, content type). ``charset``: what each content
    type is said to have."""

    def __init__(self):
        self.requests, self.faults = [], deque()
        self.lock = threading.Lock()
        self.delay_s, self.charset = 0.0, ""
        self.busy = self.busiest = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else an answer's body waits 40 ms for its headers

            def log_message(self, *args):
                pass

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def do_GET(self):
                outer.handle(self, "GET")

            def do_POST(self):
                outer.handle(self, "POST")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def fault(self, *names):
        self.faults.extend(names)

    def asked(self, path, method="POST"):
        """Bodies of the requests to a path."""
        return [r["body"] for r in self.requests if (r["method"], r["path"]) == (method, path)]

    def handle(self, handler, method):
        length = int(handler.headers.get("content-length") or 0)
        raw = handler.rfile.read(length)
        body = json.loads(raw) if raw else {}
        path = handler.path.split("?")[0]
        with self.lock:
            self.requests.append(
                {
                    "method": method,
                    "path": path,
                    "body": body,
                    "headers": {k.lower(): v for k, v in handler.headers.items()},
                }
            )
            fault = self.faults.popleft() if self.faults else ""
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        try:
            time.sleep(self.delay_s)
            if fault and not self.fail(handler, fault):
                return
            headers = {k.lower(): v for k, v in handler.headers.items()}
            status, document, *kind = self.answer(method, path, body, headers)
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            charset = f"; charset={self.charset}" if self.charset else ""
            send(handler, status, data, f"{kind[0] if kind else JSON}{charset}")
        finally:
            with self.lock:
                self.busy -= 1

    def fail(self, handler, fault):
        """Do a fault; True where the request is to be answered after all."""
        name, _, value = fault.partition(":")
        if name == "ok":
            return True
        if name == "slow":
            time.sleep(float(value))
            return True
        if name.isdigit():
            extra = {"retry-after": value} if value else {}
            send(handler, int(name), json.dumps(self.error(int(name))).encode(), JSON, extra)
        elif name == "redirect":
            send(handler, 307, b"", JSON, {"location": value})
        elif name == "hang_up":
            handler.close_connection = True
            handler.connection.close()
        elif name == "drip":
            self.drip(handler)
        elif name == "large":
            send(handler, 200, b'{"id": "' + b"x" * int(value) + b'"}', JSON)
        elif name == "cut":
            send(handler, 200, b'{"id": "x", "cont', JSON, {"content-length": "4000"})
            handler.close_connection = True
        else:
            bodies = {"broken": b'{"id": ', "wrong": b'{"hello": [1]}', "empty": b"",
                      "html": b"<html>proxy</html>", "list": b"[]", "null": b"null"}  # fmt: skip
            send(handler, 200, bodies[name], "text/html" if name == "html" else JSON)
        return False

    def drip(self, handler):
        """A byte of the body every 0.05 s, for at most 5 s."""
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n")
        for _ in range(100):
            handler.wfile.write(b" ")
            time.sleep(0.05)

    def error(self, status):
        return {"error": {"message": f"no: {SECRET_TEXT}", "type": "server_error"}}


SECRET_TEXT = "Patient 0 takes lisinopril"
"""What a service might quote of a prompt in its error; no reason may hold it."""


def send(handler, status, data, kind, extra=None):
    handler.send_response(status)
    headers = {"content-type": kind, "content-length": str(len(data)), **(extra or {})}
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)
    handler.wfile.flush()
