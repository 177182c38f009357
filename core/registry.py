"""One registry for every family: a folder is scanned, each file in it may register one member.

To add an arm, a judge, a loader, add one file to the family's folder. Files are imported when
the family is first asked for; a member's heavy imports belong in its constructor.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from core.errors import UnknownName

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class Registry(Generic[T]):
    """Name → factory for one family.

    ``family`` is the word used in messages ("arm"); ``package`` the folder that is scanned
    ("core.arms").
    """

    def __init__(self, family: str, package: str) -> None:
        self.family, self.package = family, package
        self._factories: dict[str, Callable[..., T]] = {}
        self._scanned = False

    def register(self, name: str) -> Callable[[F], F]:
        """Decorator that enters a class or function under ``name``; a name is taken once."""

        def enter(factory: F) -> F:
            if name in self._factories:
                raise ValueError(f"{self.family} {name!r} is registered twice")
            self._factories[name] = cast("Callable[..., T]", factory)
            return factory

        return enter

    def _scan(self) -> None:
        if self._scanned:
            return
        package = importlib.import_module(self.package)
        for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
            importlib.import_module(f"{self.package}.{module}")
        self._scanned = True

    def names(self) -> tuple[str, ...]:
        """All names of the family, sorted."""
        self._scan()
        return tuple(sorted(self._factories))

    def get(self, name: str) -> Callable[..., T]:
        """The factory called ``name``; raises UnknownName with the near and the valid names."""
        self._scan()
        if name not in self._factories:
            raise UnknownName(self.family, name, self._factories)
        return self._factories[name]

    def build(self, name: str, /, *args: object, **options: object) -> T:
        """Make the member called ``name``."""
        return self.get(name)(*args, **options)
