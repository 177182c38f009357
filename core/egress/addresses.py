"""Addresses, read so strictly that no two parsers disagree on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address

from midchart.core.errors import InputError

_URL = re.compile(
    r"(?P<scheme>(?i:https?))://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[A-Za-z0-9._~-]*)*)",
    re.ASCII,
)
_LOOPBACK = IPv4Network("127.0.0.0/8")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """An http or https address; ``host`` is in lower case, an IPv6 one without brackets."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def local(self) -> bool:
        """Whether it is this machine, by its spelling alone."""
        if self.host == "localhost":
            return True
        try:
            if ":" in self.host:
                return IPv6Address(self.host) == IPv6Address("::1")
            return IPv4Address(self.host) in _LOOPBACK
        except AddressValueError:
            return False

    @property
    def url(self) -> str:
        """The address as a client takes it, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def read_host(text: str) -> str:
    """A host as Midchart compares it: lower case, no brackets; raises InputError."""
    host = text.lower()
    if not re.fullmatch(r"\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", host, re.ASCII):
        raise InputError("a host is a name or an IP address alone, like api.anthropic.com")
    bare = host.strip("[]")
    try:
        if host.startswith("["):
            return str(IPv6Address(bare))
        # Clients read 127.1, 0x7f.1 and 2130706433 as IPv4; only the full form is let through.
        if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", bare.rsplit(".", 1)[-1]):
            return str(IPv4Address(bare))
    except AddressValueError:
        raise InputError("a host that is a number is written as a whole IP address") from None
    if ".." in bare:
        raise InputError("a host has no two dots in a row")
    return bare


def read_address(url: str, where: str = "url") -> Address:
    """The address of ``url``, the value of the option ``where``.

    Raises InputError, without quoting it: a wrong address may hold a key or a password.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise InputError(
            f"{where!r} is not an address like http://127.0.0.1:8000/v1 "
            "(http or https, a host, a port, a path; no user, no query)"
        )
    try:
        host = read_host(match["host"])
    except InputError as error:
        raise InputError(f"{where!r}: {error}") from None
    scheme = match["scheme"].lower()
    port = int(match["port"]) if match["port"] else _PORTS[scheme]
    if not 0 < port < 65536:
        raise InputError(f"{where!r}: a port is a number from 1 to 65535")
    return Address(scheme, host, port, match["path"].rstrip("/"))
