"""An OpenID Connect provider on loopback: discovery, keys, authorization code with PKCE, sign-out.

Its authorization page lists the people it knows; a click signs in as one of them, without a
password. It holds clients to their secret, redirect address and code verifier.
"""

from __future__ import annotations

import base64
import html
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

CLIENT, CLIENT_SECRET = "midchart", "the tests' client secret"


class Provider(ThreadingHTTPServer):
    """``people``: label on the page → claims of the identity token."""

    def __init__(self, people: Mapping[str, Mapping[str, Any]]) -> None:
        from joserfc.jwk import RSAKey

        super().__init__(("127.0.0.1", 0), _Handler)
        self.people = people
        self.key = RSAKey.generate_key(2048, {"kid": "tests", "use": "sig", "alg": "RS256"})
        self.codes: dict[str, dict[str, str]] = {}
        """Authorization code → the request it answers and the person; each is used once."""
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def identity_token(self, request: Mapping[str, str]) -> str:
        from joserfc import jwt

        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 3600,
            "nonce": request["nonce"],
            "sub": f"subject of {request['person']}",
            **self.people[request["person"]],
        }
        return jwt.encode({"alg": "RS256", "kid": "tests"}, claims, self.key)


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses hold codes."""

    def _send(self, status: int, body: str = "", type: str = "application/json", **headers: str):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        provider = self.server
        if url.path == "/.well-known/openid-configuration":
            ends = {
                "authorization_endpoint": "authorize",
                "token_endpoint": "token",
                "jwks_uri": "keys",
                "end_session_endpoint": "end",
            }
            document = {name: f"{provider.url}/{end}" for name, end in ends.items()}
            self._send(200, json.dumps({
                "issuer": provider.url,
                **document,
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }))  # fmt: skip
        elif url.path == "/keys":
            self._send(200, json.dumps({"keys": [provider.key.as_dict(private=False)]}))
        elif url.path == "/authorize" and "person" not in asked:
            assert asked["client_id"] == CLIENT and asked["code_challenge_method"] == "S256"
            links = (
                f'<li><a href="/authorize?{url.query}&person={quote(name)}">{html.escape(name)}</a>'
                for name in provider.people
            )
            self._send(200, f"<h1>Who are you?</h1><ul>{''.join(links)}</ul>", "text/html")
        elif url.path == "/authorize":
            code = secrets.token_urlsafe(16)
            provider.codes[code] = asked
            back = urlencode({"code": code, "state": asked["state"]})
            self._send(302, Location=f"{asked['redirect_uri']}?{back}")
        elif url.path == "/end":
            self._send(302, Location=asked["post_logout_redirect_uri"])
        else:
            self._send(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        request = self.server.codes.pop(asked.get("code", ""), None)
        scheme, _, credentials = self.headers.get("Authorization", "").partition(" ")
        client = unquote(base64.b64decode(credentials).decode()) if scheme == "Basic" else ""
        digest = sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            request is None
            or client != f"{CLIENT}:{CLIENT_SECRET}"
            or request["redirect_uri"] != asked.get("redirect_uri")
            or request["code_challenge"] != challenge
        ):
            self._send(400, json.dumps({"error": "invalid_grant"}))
            return
        self._send(200, json.dumps({
            "access_token": secrets.token_urlsafe(16),
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": self.server.identity_token(request),
        }))  # fmt: skip


@contextmanager
def provider(people: Mapping[str, Mapping[str, Any]]) -> Iterator[Provider]:
    """A provider that serves while the block runs."""
    server = Provider(people)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def secrets_toml(provider: Provider, roles: Mapping[str, str]) -> str:
    """The secrets file of an app that signs people in with the provider."""
    listed = "".join(f"{json.dumps(name)} = {json.dumps(role)}\n" for name, role in roles.items())
    return f"""[auth]
redirect_uri = "http://127.0.0.1:{{port}}/oauth2callback"
cookie_secret = "{secrets.token_hex()}"
client_id = "{CLIENT}"
client_secret = "{CLIENT_SECRET}"
server_metadata_url = "{provider.url}/.well-known/openid-configuration"

[roles]
{listed}"""
