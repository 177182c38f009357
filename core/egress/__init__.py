"""Egress policy: whether text may leave this program. It may not unless everything allows it.

The installation's owner lists what may be called: scheme, host and port, each with the one key that
it gets (:mod:`midchart.core.egress.owners_list`). Off this machine a call also needs the cohort's
data-use tag (``external_services_allowed``), https, and the user's explicit permission: the host
named in the run's spec (``allow_hosts``), or the cluster that is to do the work (``--on``). A port
of this machine that is not listed gets no key, and text only where the account itself listens
there. A run asks before its folder is made and again in its worker; a reader or judge cannot open a
connection without the :class:`Permit` that this module gives, and every request on that connection
is held to the permitted address and its methods, so that no redirect or link that a server sends
leads elsewhere. What was permitted is written to the audit file
(:mod:`midchart.core.egress.audit`).

An address is read so strictly that no two parsers disagree on it. Local is what cannot leave the
machine: 127.0.0.0/8, ::1 and ``localhost``. An address of a private network (10.x, 192.168.x,
``.local``) is another machine and is not local.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from midchart.core import config as settings
from midchart.core.config import Secret
from midchart.core.egress.addresses import Address, read_address, read_host
from midchart.core.egress.owners_list import (
    METHODS,
    Entry,
    check_listener,
    listed,
    proxy_to,
    require_cluster,
)
from midchart.core.errors import EgressRefused
from midchart.core.types import Manifest

__all__ = [
    "CLOSED",
    "Address",
    "EgressCheck",
    "Permit",
    "gate_of",
    "key_at",
    "read_address",
    "read_host",
    "require_cluster",
]


_KEYS = frozenset({"authorization", "x-api-key"})
_HEADERS = frozenset({
    "accept", "accept-encoding", "anthropic-beta", "anthropic-version", "connection",
    "content-length", "content-type", "host", "transfer-encoding", "user-agent",
})  # fmt: skip
"""Headers of a request that leaves; also those of the package's own version (x-stainless-…)."""
SCHEMES = frozenset({"https"})
"""How text of records may leave this machine."""


def key_at(address: Address, name: str) -> Secret | None:
    """The installation's key ``name`` where the owner gave it to exactly this scheme, host and
    port; None elsewhere."""
    entry = listed(address)
    return settings.secret(name) if entry is not None and entry.key == name else None


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to call one address. Only :meth:`EgressCheck.permit` creates one.

    ``entry``: of the owner's list; None for a port of this machine that is not on it.
    """

    address: Address
    entry: Entry | None = None

    @property
    def local(self) -> bool:
        """Whether nothing leaves this machine."""
        return self.address.local

    def key(self, name: str = "") -> Secret | None:
        """The key of the permitted address, where it is the one named ``name`` ("": any)."""
        if self.entry is None or not self.entry.key or name not in ("", self.entry.key):
            return None
        return settings.secret(self.entry.key)

    def check(self) -> None:
        """Raise EgressRefused where the port meanwhile belongs to another account; asked as a
        connection is made, which then stays with the program that accepted it."""
        if self.entry is None:
            check_listener(self.address, connecting=True)

    def hold(self, request: Any) -> None:
        """Refuse a request to any other address, or by another method; a client's hook before each
        request.

        ``request`` has a ``method`` and a ``url`` with scheme, host and port (httpx's form). Raises
        EgressRefused.
        """
        url = request.url
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
        asked = (url.scheme, url.host.strip("[]").lower(), port)
        if asked != (self.address.scheme, self.address.host, self.address.port):
            raise EgressRefused(
                f"a request to another address than the permitted {self.address.host} was stopped; "
                "redirects and links to other addresses are not followed"
            )
        methods = self.entry.methods if self.entry is not None else METHODS
        if request.method not in methods:
            raise EgressRefused(
                f"{self.address.host} may be asked by {', '.join(sorted(methods))}, "
                f"not by {request.method}"
            )

    def clear(self, request: Any) -> None:
        """Take out of a request (httpx's form) the headers that this program does not mean to send;
        a client's hook before each request.

        A provider's package adds those that the environment names (``ANTHROPIC_CUSTOM_HEADERS``),
        among them keys of other addresses. A key is left in where it is the permitted address's.
        """
        secret = self.key()
        permitted = (secret.reveal(), f"Bearer {secret.reveal()}") if secret else ()
        for name, value in list(request.headers.items()):
            lower = name.lower()
            if lower in _KEYS:
                remove = value not in permitted
            else:
                remove = lower not in _HEADERS and not lower.startswith("x-stainless-")
            if remove:
                del request.headers[name]
        request.headers["host"] = request.url.netloc.decode()

    def client(self) -> dict[str, Any]:
        """Arguments that restrict a :class:`midchart.core.client.limits.LimitedClient` to this
        permit.

        No redirect is followed, and no setting of the environment is read but a listed proxy's
        (:func:`midchart.core.egress.owners_list.proxy_to`).
        """
        return {
            "connecting": self.check,
            "event_hooks": {"request": [self.hold, self.clear]},
            "follow_redirects": False,
            "trust_env": False,
            "proxy": proxy_to(self.address),
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
            entry = listed(address)
            if entry is None:
                check_listener(address)
            return Permit(address, entry)
        host = address.host
        self._asked_of_the_tag(host, "use an address of this machine")
        if host not in self.hosts:
            raise EgressRefused(
                f"text of records may not go to {host} without your word: name it in the spec, "
                f'allow_hosts = ["{host}"]'
            )
        if address.scheme not in SCHEMES:
            raise EgressRefused(f"text of records leaves this machine by https only, not to {url}")
        entry = listed(address)
        if entry is None:
            place = f"{address.scheme}://{host}:{address.port}"
            raise EgressRefused(
                f"the owner of this installation has not allowed {place}: list it in "
                f"{settings.HOSTS}, in the environment or .streamlit/secrets.toml, with the key "
                f'that belongs to it ("{place}=MIDCHART_SERVED_KEY") or without one'
            )
        proxy_to(address)  # refuses one that is not listed
        return Permit(address, entry)

    def join(self, cluster: str) -> None:
        """Leave to have a run's work done by a cluster that the user named, which is their word.

        Raises EgressRefused where the tag or the owner's list does not allow it. No address of a
        cluster is local: on loopback, too, there may be the first of many machines.
        """
        self._asked_of_the_tag(f"the machines of {cluster}", "do the run here (--on here)")
        require_cluster(cluster)

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
