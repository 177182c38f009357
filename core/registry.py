"""Registry of a family's components: one file each, in the tree or in an installed package.

To add an arm, a judge or a loader, add one file with the component's name to the family's folder,
or name a class under the entry-point group ``midchart.<family>s`` of a package. Names are read from
the files, so listing imports nothing of the folder and looking up a component imports that one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar, cast

from midchart.core.errors import InputError, UnknownName

LOG = logging.getLogger(__name__)
_DECORATOR = re.compile(r'^@[A-Z]+\.register\("(\w+)"\)', re.MULTILINE)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class Registry(Generic[T]):
    """Name → factory for one family.

    ``family`` is the word used in messages ("arm") and in the entry-point group
    ("midchart.arms"); ``packages`` the folders of its files ("midchart.core.arms"), searched with
    all below; ``left`` says what to use instead of components that are no longer there.
    """

    def __init__(
        self, family: str, *packages: str, left: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.family, self.packages, self.left = family, packages, left
        self._factories: dict[str, Callable[..., T]] = {}

    def register(self, name: str) -> Callable[[F], F]:
        """Decorator that registers a class or function under ``name``, which must be unique."""

        def enter(factory: F) -> F:
            if name in self._factories:
                raise ValueError(f"{self.family} {name!r} is registered twice")
            self._factories[name] = cast("Callable[..., T]", factory)
            return factory

        return enter

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        """Name → module of the folders' components; a file with computed names is imported."""
        modules: dict[str, str] = {}
        for package in self.packages:
            folder = Path(import_module(package).__path__[0])
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                module, text = ".".join((package, *parts)), path.read_text(encoding="utf-8")
                names = _DECORATOR.findall(text)
                modules |= dict.fromkeys(names, module)
                if text.count(".register(") > len(names):
                    import_module(module)
        return modules

    @cached_property
    def _installed(self) -> Mapping[str, EntryPoint]:
        """Entry points of installed packages by name."""
        return {point.name: point for point in entry_points(group=f"midchart.{self.family}s")}

    def names(self) -> tuple[str, ...]:
        """All names of the family, sorted; a package that cannot be imported is logged."""
        known = {*self._modules, *self._factories}
        for name in self._installed.keys() - known:
            try:
                self._load(name)
            except InputError as error:
                LOG.warning("%s", error)
        return tuple(sorted({*known, *self._factories}))

    def get(self, name: str) -> Callable[..., T]:
        """The factory called ``name``.

        Raises UnknownName with the near and the valid names, and InputError where an installed
        package cannot be imported.
        """
        if name not in self._factories:
            modules = self._modules  # looking for them imports files with computed names
            if name in self._factories:
                return self._factories[name]
            if name in modules:
                import_module(modules[name])
            elif name in self._installed:
                self._load(name)
            elif name in self.left:
                raise InputError(f"the {self.family} {name!r} left; {self.left[name]}")
            else:
                raise UnknownName(self.family, name, self.names())
        return self._factories[name]

    def _load(self, name: str) -> None:
        """Import a component of an installed package, whose code may raise anything."""
        point = self._installed[name]
        try:
            factory = point.load()
        except Exception as error:  # noqa: BLE001 - another package's code; named in one line
            package = point.dist.name if point.dist else point.module
            raise InputError(
                f"{self.family} {name!r} of the package {package!r} cannot be imported "
                f"({type(error).__name__}); repair or uninstall that package"
            ) from None
        self._factories.setdefault(name, cast("Callable[..., T]", factory))

    def build(self, name: str, /, *args: object, **options: object) -> T:
        """Build the component called ``name``."""
        return self.get(name)(*args, **options)
