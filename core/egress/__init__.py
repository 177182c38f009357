"""Egress policy: whether text may leave this machine. It may not unless everything allows it.

Loopback addresses need no permission. Anything else needs the cohort's data-use tag
(``external_services_allowed``), the installation's owner (``MIDCHART_HOSTS``, which also says which
key belongs to which host; https alone) and the user's explicit permission: the host named in the
run's spec (``allow_hosts``), or the cluster that is to do the work (``--on``). A run asks before
its folder is made and again in its worker; a reader or judge cannot open a connection without the
:class:`Permit` that this module gives, and every request on that connection is held to the
permitted address, so that no redirect or link that a server sends leads elsewhere. What was
permitted is written to the audit file (:mod:`midchart.core.egress.audit`).

An address is read so strictly that no two parsers disagree on it. Local is what cannot leave the
machine: 127.0.0.0/8, ::1 and ``localhost``. An address of a private network (10.x, 192.168.x,
``.local``) is another machine and is not local.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Any

from midchart.core import config as settings
from midchart.core.config import Secret
from midchart.core.errors import EgressRefused, InputError
from midchart.core.types import Manifest

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


__all__ = [
    "CLOSED",
    "Address",
    "EgressCheck",
    "Permit",
    "gate_of",
    "key_at",
    "read_address",
    "read_host",
]


SCHEMES = frozenset({"https"})
"""How text of records may leave this machine."""


def key_at(address: Address, name: str) -> Secret | None:
    """The installation's key ``name`` where it belongs to an address: on this machine, or where
    the owner gave it to the host (``MIDCHART_HOSTS``); None elsewhere."""
    if address.local or settings.allowed_hosts().get(address.host) == name:
        return settings.secret(name)
    return None


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to call one address. Only :meth:`Gate.permit` creates one."""

    address: Address

    @property
    def local(self) -> bool:
        """Whether nothing leaves this machine."""
        return self.address.local

    def key(self, name: str) -> Secret | None:
        """:func:`key_at` of the permitted address."""
        return key_at(self.address, name)

    def hold(self, request: Any) -> None:
        """Refuse a request to any other address; a client's hook before each request.

        ``request`` has a ``url`` with scheme, host and port (httpx's form). Raises EgressRefused.
        """
        url = request.url
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
        asked = (url.scheme, url.host.strip("[]").lower(), port)
        if asked != (self.address.scheme, self.address.host, self.address.port):
            raise EgressRefused(
                f"a request to another address than the permitted {self.address.host} was stopped; "
                "redirects and links to other addresses are not followed"
            )

    def client(self) -> dict[str, Any]:
        """Arguments that restrict an httpx client to this permit.

        No redirect is followed. The environment's proxies serve only addresses off this machine:
        a loopback call through a proxy would leave it.
        """
        return {
            "event_hooks": {"request": [self.hold]},
            "follow_redirects": False,
            "trust_env": not self.local,
        }


@dataclass(frozen=True, slots=True)
class EgressCheck:
    """What a cohort's tag and a run's spec allow together.

    cohort: its name, for messages. tagged: the tag's ``external_services_allowed``. hosts: those
    the spec names in ``allow_hosts``.
    """

    cohort: str = ""
    tagged: bool = False
    hosts: frozenset[str] = frozenset()

    def permit(self, url: str, where: str = "url") -> Permit:
        """Leave to call ``url``, the option ``where`` of a member.

        Raises InputError for what is no address, EgressRefused for one that is not allowed.
        """
        address = read_address(url, where)
        if address.local:
            return Permit(address)
        host = address.host
        self._asked_of_the_tag(host, "use an address of this machine")
        if host not in self.hosts:
            raise EgressRefused(
                f"text of records may not go to {host} without your word: name it in the spec, "
                f'allow_hosts = ["{host}"]'
            )
        if host not in settings.allowed_hosts():
            raise EgressRefused(
                f"the owner of this installation has not allowed {host}: list it in "
                f"{settings.HOSTS}, in the environment or .streamlit/secrets.toml, with the key "
                f'that belongs to it ("{host}=MIDCHART_SERVED_KEY") or without one'
            )
        if address.scheme not in SCHEMES:
            raise EgressRefused(f"text of records leaves this machine by https only, not to {url}")
        return Permit(address)

    def join(self, cluster: str) -> None:
        """Leave to have a run's work done by a cluster that the user named, which is their word.

        Raises EgressRefused where the tag does not allow it. No address of a cluster is local: on
        loopback, too, there may be the first of many machines.
        """
        self._asked_of_the_tag(f"the machines of {cluster}", "do the run here (--on here)")

    def _asked_of_the_tag(self, where: str, instead: str) -> None:
        if not self.tagged:
            raise EgressRefused(
                f"text of records may not go to {where}: the data-use tag of "
                f"{self.cohort or 'the cohort'} sets external_services_allowed = false; {instead}, "
                "or change the tag with a reason (midchart data-use)"
            )


CLOSED = EgressCheck()
"""Loopback alone: what holds wherever nobody gave a gate."""


def gate_of(manifest: Manifest, hosts: Iterable[str]) -> EgressCheck:
    """The gate of a cohort's tag and of the hosts that a spec names."""
    return EgressCheck(manifest.name, manifest.external_services_allowed, frozenset(hosts))
