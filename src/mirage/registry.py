"""Registries: what ships with the package by name, and what installed packages add through entry points."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, Generic, Protocol, TypeVar

from mirage.errors import ConfigurationError, UnknownName


class Specification(Protocol):
    """What a registry holds of each name."""

    @property
    def entry(self) -> str:
        """Where the thing itself is: ``module:attribute``."""
        ...


Spec = TypeVar("Spec", bound=Specification)


@dataclass(frozen=True, slots=True)
class Registry(Generic[Spec]):
    """Specifications by name.

    Attributes:
        kind: What the names name, in the singular, for messages.
        group: The entry-point group of other packages.
        builtin: What ships with the package.
        declared: Makes a specification of what an entry point names, given its text; None where it cannot.
        takes: What an entry point may name, for messages.
    """

    kind: str
    group: str
    builtin: Mapping[str, Spec]
    declared: Callable[[str, Any], Spec | None]
    takes: str

    def names(self) -> tuple[str, ...]:
        """All names, the built-in ones first; nothing is imported."""
        return tuple(dict.fromkeys([*self.builtin, *sorted(installed_points(self.group).names)]))

    def spec(self, name: str) -> Spec:
        """The specification of a name; what an installed package declares is imported for it.

        Raises:
            UnknownName: Nothing has that name; the message lists the known ones.
            ConfigurationError: Two packages want the name, or what one declares cannot be used.
        """
        points = {point.value: point for point in installed_points(self.group).select(name=name)}
        entries = [*([self.builtin[name].entry] if name in self.builtin else []), *points]
        if not entries:
            raise UnknownName(self.kind, name, self.names())
        if len(entries) > 1:
            raise ConfigurationError(f"the {self.kind} {name!r} is there twice: {' and '.join(entries)}; uninstall one")
        if name in self.builtin:
            return self.builtin[name]
        (point,) = points.values()
        try:
            found = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"the {self.kind} {name!r} cannot be loaded from {point.value}: {error}; mend or uninstall its package"
            ) from error
        spec = self.declared(point.value, found)
        if spec is None:
            raise ConfigurationError(f"the {self.kind} {name!r}: {point.value} is {found!r}, and not {self.takes}")
        return spec


def installed_points(group: str) -> EntryPoints:
    """Entry points of a group; the packages are read again only when a folder of ``sys.path`` has changed.

    Reading them takes as long as a small simulation, and every simulation asks for its discipline.
    """
    return _read_points(group, tuple((folder, _changed_ns(folder)) for folder in sys.path))


@lru_cache(maxsize=8)
def _read_points(group: str, folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def _changed_ns(folder: str) -> int:
    """When something was last added to a folder or removed from it; 0 where there is none."""
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return 0
