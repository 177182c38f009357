"""The owner's list of what this program may call: scheme, host and port → key and methods.

``MIDCHART_HOSTS`` (environment or secrets file), entries separated by commas::

    https://llm.ward.org=MIDCHART_SERVED_KEY, http://127.0.0.1:8000=MIDCHART_SERVED_KEY POST,
    https://open.org:8443, http://proxy.ward.org:3128 CONNECT, ray://10.0.0.5:6379

An entry is an address without a path, then the name of the one key that it gets, then the HTTP
methods that it may be asked by (GET and POST where none is named; CONNECT makes it a proxy). A name
alone is ``https://`` at port 443. The Claude API is on the list with its own key. A port of this
machine that is not listed may be called without a key by the account itself.

An address is read so strictly that no two parsers disagree on it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

from midchart.core import config as settings
from midchart.core.errors import EgressRefused, InputError
from midchart.core.identity import person

_URL = re.compile(
    r"(?P<scheme>(?i:https?))://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[A-Za-z0-9._~-]*)*)",
    re.ASCII,
)
_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII)
PORTS = {"http": 80, "https": 443}
RAY_PORT = 6379
METHODS = frozenset({"GET", "POST"})
"""Those of an entry that names none, and of an unlisted port of this machine."""
PROXY = "CONNECT"
_KNOWN = METHODS | {PROXY, "HEAD", "PUT", "PATCH", "DELETE"}
_KEY = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
Origin = tuple[str, str, int]
"""Scheme, host and port."""


@dataclass(frozen=True, slots=True)
class Address:
    """An http or https address; ``host`` is in lower case, an IPv6 one without brackets."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def origin(self) -> Origin:
        return self.scheme, self.host, self.port

    @property
    def local(self) -> bool:
        """Whether it is this machine, by its spelling alone."""
        with suppress(ValueError):
            ip = ip_address(self.host)
            return ip.is_loopback if ip.version == 4 else ip == IPv6Address("::1")
        return self.host == "localhost"

    @property
    def url(self) -> str:
        """The address as a client takes it, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def read_host(text: str) -> str:
    """A host as Midchart compares it: lower case, no brackets; raises InputError."""
    host = text.lower()
    if not _HOST.fullmatch(host):
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
    port = int(match["port"]) if match["port"] else PORTS[scheme]
    if not 0 < port < 65536:
        raise InputError(f"{where!r}: a port is a number from 1 to 65535")
    return Address(scheme, host, port, match["path"].rstrip("/"))


@dataclass(frozen=True, slots=True)
class Entry:
    """A destination on the list; ``key``: the name of its key ("": none)."""

    origin: Origin
    key: str = ""
    methods: frozenset[str] = METHODS


def owners_list() -> dict[Origin, Entry]:
    """The entries; raises InputError for a list that cannot be read."""
    text = settings.secret(settings.HOSTS)
    claude = "https", settings.CLAUDE_HOST, PORTS["https"]
    entries: dict[Origin, Entry] = {}
    for number, part in enumerate(text.reveal().split(",") if text is not None else (), 1):
        if part.strip():
            where = f"entry {number} of {settings.HOSTS}"
            entry = _read_entry(part.split(), where)
            if entry.origin in entries:
                raise InputError(f"{where} names an address twice; an address has one key")
            entries[entry.origin] = entry
    return {claude: Entry(claude, settings.CLAUDE_KEY)} | entries


def _read_entry(words: list[str], where: str) -> Entry:
    """An entry; no error quotes it, as it may hold a key by mistake."""
    named, equals, key = words[0].partition("=")
    if equals and not _KEY.fullmatch(key):
        raise InputError(f"{where}: after '=' goes the name of a key, like MIDCHART_SERVED_KEY")
    methods = frozenset(word.upper() for word in words[1:])
    if not methods <= _KNOWN:
        raise InputError(f"{where}: methods are of {', '.join(sorted(_KNOWN))}")
    if named.startswith("ray://"):
        address = read_address(f"http://{named.removeprefix('ray://')}", where)
        port = address.port if re.search(r":\d+/?$", named) else RAY_PORT
        return Entry(("ray", address.host, port))
    address = read_address(named if "://" in named else f"https://{named}", where)
    if address.path:
        raise InputError(f"{where}: an address is scheme, host and port, without a path")
    return Entry(address.origin, key, methods or METHODS)


def listed(address: Address) -> Entry | None:
    """The entry of exactly an address's scheme, host and port."""
    return owners_list().get(address.origin)


def require_cluster(cluster: str) -> None:
    """Raise EgressRefused where ``cluster``, as ray://HOST:PORT, is not on the list.

    What a cluster sends back is unpickled, so one on loopback is no exception.
    """
    if _read_entry([cluster], "the cluster").origin not in owners_list():
        raise EgressRefused(
            f"the owner of this installation has not listed {cluster}: a cluster can run code "
            f"here, so it has to be in {settings.HOSTS}, in the environment or "
            ".streamlit/secrets.toml"
        )


def proxy_to(address: Address) -> str | None:
    """The environment's proxy for an address off this machine; None without one.

    Raises EgressRefused for one that is not listed with the method CONNECT.
    """
    proxy = None if address.local else settings.environment_proxy(address.scheme, address.host)
    if not proxy:
        return None
    place, entry = None, None
    with suppress(InputError):
        place = read_address(proxy, "proxy")
        entry = listed(place)
    if place is None or entry is None or PROXY not in entry.methods:
        name = f"{place.scheme}://{place.host}:{place.port}" if place else "its address, bare,"
        raise EgressRefused(
            f"the environment names a proxy for {address.host} that the owner of this installation "
            f'has not listed: list "{name} {PROXY}" in {settings.HOSTS}, or name the host in '
            "NO_PROXY"
        )
    return place.url


def check_unlisted(address: Address) -> None:
    """Raise EgressRefused unless the account acts itself, which alone may call unlisted ports of
    this machine: of those who signed in, nobody may."""
    if not person().is_account:
        raise EgressRefused(
            f"port {address.port} of this machine is not listed, and with sign-in the owner lists "
            f'each: "{address.scheme}://{address.host}:{address.port}" in {settings.HOSTS}'
        )
