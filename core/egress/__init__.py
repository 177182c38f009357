"""Egress policy: whether text may leave this program. It may not unless everything allows it.

The installation's owner lists what may be called, each with the one key that it gets
(:mod:`midchart.core.egress.owners_list`). Off this machine a call also needs the cohort's data-use
tag (``external_services_allowed``), https, and the user's explicit permission: the host named in
the run's spec (``allow_hosts``), or the cluster that is to do the work (``--on``). A run asks
before its folder is made, again in its worker, and before each request whose text would leave this
machine. A reader or judge cannot open a connection without the :class:`Permit` that this module
gives, and every request on that connection is held to the permitted address, its methods, its key
and a list of headers, so that no redirect or link that a server sends leads elsewhere, and no
setting that a client's package reads by itself adds a key. What was permitted is written to the
audit log (:mod:`midchart.core.egress.audit`).

Local is what cannot leave the machine: 127.0.0.0/8, ::1 and ``localhost``. An address of a private
network (10.x, 192.168.x, ``.local``) is another machine and is not local.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from midchart.core import config as settings
from midchart.core.config import Secret
from midchart.core.egress.owners_list import (
    METHODS,
    PORTS,
    Address,
    Entry,
    check_unlisted,
    listed,
    proxy_to,
    read_address,
    require_cluster,
)
from midchart.core.errors import EgressRefused
from midchart.core.types import Manifest

SCHEMES = frozenset({"https"})
"""How text of records may leave this machine."""
_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    }
)
"""Headers of a request besides its key's."""
SHORTEST_KEY = 12
"""Characters from which a key is no word that an answer holds by chance."""
T = TypeVar("T")


def key_at(address: Address, name: str) -> Secret | None:
    """The installation's key ``name`` where the owner gave it to exactly this scheme, host and
    port; None elsewhere."""
    entry = listed(address)
    return settings.secret(name) if entry is not None and entry.key == name else None


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to call one address. Only :meth:`EgressCheck.permit` creates one.

    ``entry``: of the owner's list; None for a port of this machine that is not on it.
    ``gate``: that which gave it; None for an address of this machine. ``proxy``: a listed one.
    """

    address: Address
    entry: Entry | None = None
    gate: EgressCheck | None = None
    proxy: str | None = None

    def key(self, name: str = "") -> Secret | None:
        """The key of the permitted address, where it is the one named ``name`` ("": any)."""
        if self.entry is None or not self.entry.key or name not in ("", self.entry.key):
            return None
        return settings.secret(self.entry.key)

    def ask_again(self) -> None:
        """Raise EgressRefused once the cohort's tag no longer allows the call, or the owner's list
        no longer has its entry as it was, or its proxy; asked before each request."""
        if self.gate is not None:
            self.gate.ask_again()
        if self.entry is not None and listed(self.address) != self.entry:
            raise EgressRefused(
                f"{self.address.host} may no longer be called: the owner of this installation has "
                f"changed its entry in {settings.HOSTS}, or has taken it off; list it again, then "
                "resume the run"
            )
        if self.proxy is not None:
            proxy_to(self.address)

    def hold(self, request: Any) -> None:
        """Raise EgressRefused for a request to any other address, by another method, or once the
        cohort's tag no longer allows it, and take away each header that is neither needed nor the
        permitted address's key; a client's hook before each request (in httpx's form)."""
        url = request.url
        port = url.port or PORTS.get(url.scheme)
        if (url.scheme, url.host.strip("[]").lower(), port) != self.address.origin:
            raise EgressRefused(
                f"a request to another address than the permitted {self.address.host} was stopped; "
                "redirects and links to other addresses are not followed"
            )
        self.ask_again()
        methods = self.entry.methods if self.entry is not None else METHODS
        if request.method not in methods:
            raise EgressRefused(
                f"{self.address.host} may be asked by {', '.join(sorted(methods))}, "
                f"not by {request.method}"
            )
        key, headers, keyed = self.key(), request.headers, dict[str, str]()
        if key is not None:  # in any header in which a service may take it
            names = ("x-api-key", "api-key", "x-goog-api-key")
            bearer = {"authorization": f"Bearer {key.reveal()}"}
            keyed = {**bearer, **dict.fromkeys(names, key.reveal())}
        for name in {name.lower() for name in headers} - _HEADERS:
            if name not in keyed or headers[name] != keyed[name]:
                del headers[name]
        headers["host"] = url.netloc.decode("ascii")

    def without_key(self, reply: T) -> T:
        """What a server sent (a text, or a dataclass that holds some), with dots for the permitted
        address's key, unless that is so short that it may be a word of an answer."""
        key = self.key()
        text = key.reveal() if key is not None else ""
        return _without(reply, text) if len(text) >= SHORTEST_KEY else reply

    def client(self) -> dict[str, Any]:
        """Arguments that restrict a :class:`midchart.core.client.limits.LimitedClient` to this
        permit: no redirect is followed, and no setting of the environment is read."""
        return {
            "event_hooks": {"request": [self.hold]},
            "follow_redirects": False,
            "trust_env": False,
            "proxy": self.proxy,
        }


def _without(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return value.replace(key, "•••")
    if is_dataclass(value) and not isinstance(value, type):
        held = {one.name: getattr(value, one.name) for one in fields(value)}
        clean = {name: _without(one, key) for name, one in held.items()}
        return value if clean == held else replace(value, **clean)
    return value


@dataclass(frozen=True, slots=True)
class EgressCheck:
    """What a cohort's tag and a run's spec allow together.

    ``cohort``: its name. ``tagged``: the tag's ``external_services_allowed``. ``hosts``: the spec's
    ``allow_hosts``. ``still_tagged``: what the tag says now, of the files as they are now; None
    where it cannot change. ``cluster``: whose machines do the work ("": none).
    """

    cohort: str = ""
    tagged: bool = False
    hosts: frozenset[str] = frozenset()
    still_tagged: Callable[[], bool] | None = None
    cluster: str = ""

    def permit(self, url: str, where: str = "url") -> Permit:
        """Permission to call ``url``, the option ``where`` of a member; raises InputError for an
        invalid address, EgressRefused for one that is not allowed."""
        address = read_address(url, where)
        if address.local:
            entry = listed(address)
            if entry is None:
                check_unlisted(address)
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
        return Permit(address, entry, self, proxy_to(address))

    def join(self, cluster: str) -> EgressCheck:
        """The gate of a run whose work is done by a cluster that the user named, which is their
        word; raises EgressRefused where the tag or the owner's list does not allow it.

        No address of a cluster is local: on loopback may be the first of many machines.
        """
        self._asked_of_the_tag(f"the machines of {cluster}", "do the run here (--on here)")
        there = replace(self, cluster=cluster)
        there.ask_again()
        return there

    def ask_again(self) -> None:
        """Raise EgressRefused where the tag, or the files that it was confirmed for, changed, or
        the owner's list no longer has the cluster."""
        if self.cluster:
            require_cluster(self.cluster)
        if self.still_tagged is not None and not self.still_tagged():
            raise EgressRefused(
                "text of records may no longer leave this machine: the data-use tag of "
                f"{self.cohort or 'the cohort'} was changed, or its files were; allow it again "
                "with a reason (midchart data-use), then resume the run"
            )

    def _asked_of_the_tag(self, where: str, instead: str) -> None:
        if not self.tagged:
            raise EgressRefused(
                f"text of records may not go to {where}: the data-use tag of "
                f"{self.cohort or 'the cohort'} sets external_services_allowed = false; {instead}, "
                "or change the tag with a reason (midchart data-use)"
            )


CLOSED = EgressCheck()
"""Loopback alone: what holds wherever nobody gave a gate."""


def gate_of(
    manifest: Manifest, hosts: Iterable[str], still_tagged: Callable[[], bool] | None = None
) -> EgressCheck:
    """The gate of a cohort's tag and of the hosts that a spec names."""
    allowed = manifest.external_services_allowed
    return EgressCheck(manifest.name, allowed, frozenset(hosts), still_tagged)
