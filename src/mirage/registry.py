"""Registries: the built-in things by name, and those of installed packages' entry points."""

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
    """What a registry stores for each name."""

    @property
    def entry(self) -> str:
        """Location of the thing itself: ``module:attribute``."""
        ...


Spec = TypeVar("Spec", bound=Specification)


@dataclass(frozen=True, slots=True)
class Registry(Generic[Spec]):
    """Specifications by name.

    Attributes:
        kind: What the names stand for, in the singular, for messages.
        group: The entry-point group of other packages.
        builtin: The specifications that ship with this package.
        declared: Makes a specification from an entry point's text and the object it names; None where it cannot.
        takes: What an entry point may name, for messages.
    """

    kind: str
    group: str
    builtin: Mapping[str, Spec]
    declared: Callable[[str, Any], Spec | None]
    takes: str

    def names(self) -> tuple[str, ...]:
        """Returns all names, the built-in ones first; nothing is imported."""
        return tuple(dict.fromkeys([*self.builtin, *sorted(installed_points(self.group).names)]))

    def spec(self, name: str) -> Spec:
        """Returns the specification of a name; an installed package's object is imported for it.

        Raises:
            UnknownName: The name is not registered; the message lists the known ones.
            ConfigurationError: Two packages declare the name, or the declared object cannot be used.
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
                f"the {self.kind} {name!r} cannot be loaded from {point.value}: {error}; fix or uninstall its package"
            ) from error
        spec = self.declared(point.value, found)
        if spec is None:
            raise ConfigurationError(f"the {self.kind} {name!r}: {point.value} is {found!r}, not {self.takes}")
        return spec


def installed_points(group: str) -> EntryPoints:
    """Returns the entry points of a group, cached until a folder of ``sys.path`` changes.

    Reading them takes as long as a small simulation, and every simulation looks up its discipline.
    """
    return _read_points(group, tuple((folder, _changed_ns(folder)) for folder in sys.path))


def extending_packages() -> frozenset[str]:
    """Names of the installed packages that extend Mirage by an entry point of any group."""
    groups = [group for group in entry_points().groups if group.startswith("mirage.")]
    return frozenset(point.module.partition(".")[0] for group in groups for point in installed_points(group))


@lru_cache(maxsize=8)
def _read_points(group: str, folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def _changed_ns(folder: str) -> int:
    """Returns when an entry was last added to or removed from a folder; 0 without a folder."""
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return 0
