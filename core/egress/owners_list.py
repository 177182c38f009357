"""The owner's list of what this program may call: scheme, host and port → key and methods.

``MIDCHART_HOSTS`` (environment or secrets file), entries separated by commas::

    https://llm.ward.org=MIDCHART_SERVED_KEY, http://127.0.0.1:8000=MIDCHART_SERVED_KEY POST,
    https://open.org:8443, http://proxy.ward.org:3128 CONNECT, ray://10.0.0.5:6379

An entry is an address without a path, then the name of the one key that it gets, then the HTTP
methods that it may be asked by (GET and POST where none is named; CONNECT makes it a proxy). A name
alone is ``https://`` at port 443. The Claude API is on the list with its own key.

A port of this machine that is not listed may be called without a key by the account itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from midchart.core import config as settings
from midchart.core.egress.addresses import Address, read_address
from midchart.core.errors import EgressRefused, InputError
from midchart.core.identity import person

METHODS = frozenset({"GET", "POST"})
"""Those of an entry that names none, and of an unlisted port of this machine."""
PROXY = "CONNECT"
_KNOWN = METHODS | {PROXY, "HEAD", "PUT", "PATCH", "DELETE"}
_KEY = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_RAY, RAY_PORT = "ray", 6379


@dataclass(frozen=True, slots=True)
class Entry:
    """A destination on the list; ``key``: the name of its key ("": none)."""

    scheme: str
    host: str
    port: int
    key: str = ""
    methods: frozenset[str] = METHODS


def owners_list() -> dict[tuple[str, str, int], Entry]:
    """The entries by scheme, host and port; raises InputError for a list that cannot be read."""
    text = settings.secret(settings.HOSTS)
    claude = Entry("https", settings.CLAUDE_HOST, 443, settings.CLAUDE_KEY)
    entries = {(claude.scheme, claude.host, claude.port): claude}
    places: set[tuple[str, str, int]] = set()
    parts = text.reveal().split(",") if text is not None else []
    for number, part in enumerate(parts, 1):
        if not part.strip():
            continue
        where = f"entry {number} of {settings.HOSTS}"
        entry = _read_entry(part.split(), where)
        place = (entry.scheme, entry.host, entry.port)
        if place in places:
            raise InputError(f"{where} names an address twice; an address has one key")
        places.add(place)
        entries[place] = entry
    return entries


def _read_entry(words: list[str], where: str) -> Entry:
    """An entry; no error quotes it, as it may hold a key by mistake."""
    named, equals, key = words[0].partition("=")
    if equals and not _KEY.fullmatch(key):
        raise InputError(f"{where}: after '=' goes the name of a key, like MIDCHART_SERVED_KEY")
    methods = frozenset(word.upper() for word in words[1:])
    if not methods <= _KNOWN:
        raise InputError(f"{where}: methods are of {', '.join(sorted(_KNOWN))}")
    if named.startswith(f"{_RAY}://"):
        address = read_address(f"http://{named.removeprefix(f'{_RAY}://')}", where)
        port = address.port if re.search(r":\d+/?$", named) else RAY_PORT
        return Entry(_RAY, address.host, port)
    address = read_address(named if "://" in named else f"https://{named}", where)
    if address.path:
        raise InputError(f"{where}: an address is scheme, host and port, without a path")
    return Entry(address.scheme, address.host, address.port, key, methods or METHODS)


def listed(address: Address) -> Entry | None:
    """The entry of exactly an address's scheme, host and port."""
    return owners_list().get((address.scheme, address.host, address.port))


def require_cluster(cluster: str) -> None:
    """Raise EgressRefused where ``cluster``, as ray://HOST:PORT, is not on the list.

    What a cluster sends back is unpickled, so one on loopback is no exception.
    """
    entry = _read_entry([cluster], "the cluster")
    if (entry.scheme, entry.host, entry.port) not in owners_list():
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
    try:
        place = read_address(proxy, "proxy")
        entry = listed(place)
    except InputError:
        entry = None
        place = None
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
