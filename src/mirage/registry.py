"""Registries: built-in things by name, and plug-ins from packages' entry points.

Entry points are read as ``importlib.metadata`` reads them, from the folders of ``sys.path``, but without that module:
its import alone takes half as long as ``mirage --help``.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, cast

from mirage.errors import ConfigurationError, MirageError, UnknownName, shown

PREFIX = "mirage."
"""The beginning of the names of all entry-point groups."""


class Specification(Protocol):
    """What a registry stores for each name."""

    @property
    def entry(self) -> str:
        """Location of the thing itself: ``module:attribute``."""
        ...


Spec = TypeVar("Spec", bound=Specification)


@dataclass(frozen=True, slots=True)
class PlugIn:
    """An entry point of an installed package.

    Attributes:
        group: The entry-point group.
        name: The name that it declares.
        value: The object it names, ``module:attribute``.
        package: The name of its package.
        summary: The package's own summary.
    """

    group: str
    name: str
    value: str
    package: str
    summary: str = ""


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
        declared = sorted(point.name for point in plug_ins(self.group) if point.name == _first_name(point.name))
        return tuple(dict.fromkeys([*self.builtin, *declared]))

    def spec(self, name: str) -> Spec:
        """Returns the specification of a name; an installed package's object is imported for it.

        Raises:
            UnknownName: The name is not registered; the message lists the known ones.
            ConfigurationError: Two packages declare the name, it is the first part of a declared one with a comma or
                colon, or the declared object cannot be used.
        """
        points = {point.value: point for point in plug_ins(self.group) if point.name == name == _first_name(name)}
        entries = [f"{point.value} (package {point.package})" for point in points.values()]
        if name in self.builtin:
            entries.insert(0, f"{self.builtin[name].entry} (built in)")
        if not entries:
            for point in plug_ins(self.group):
                if name in (point.name, _first_name(point.name)):
                    raise ConfigurationError(
                        f"the package {point.package} names a {self.kind} {point.name!r}; a name has no comma or colon"
                    )
            raise UnknownName(self.kind, name, self.names())
        if len(entries) > 1:
            raise ConfigurationError(f"the {self.kind} {name!r} is there twice: {' and '.join(entries)}; uninstall one")
        if name in self.builtin:
            return self.builtin[name]
        (point,) = points.values()
        remedy = f"fix or uninstall the package {point.package}"
        try:
            found = _imported(point.value)
        except MirageError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"the {self.kind} {name!r} cannot be loaded from {point.value}: {error}; {remedy}"
            ) from error
        spec = self.declared(point.value, found)
        if spec is None:
            raise ConfigurationError(
                f"the {self.kind} {name!r}: {point.value} is {shown(found)}, not {self.takes}; {remedy}"
            )
        return spec


def load_entry(entry: str) -> Any:
    """Imports ``module:attribute`` and returns it.

    Raises:
        ConfigurationError: An entry of another package cannot be imported; the message names the package.
    """
    try:
        return _imported(entry)
    except MirageError:
        raise
    except Exception as error:
        if entry.startswith(PREFIX):
            raise
        raise unusable(entry, f"cannot be loaded: {error}") from error


def load_kernel(entry: str, signature: Any, decorator: str) -> Callable[..., Any]:
    """Imports ``module:attribute``, a function that is compiled for a signature.

    Args:
        entry: ``module:attribute``.
        signature: Its type, as numba writes it.
        decorator: How it is compiled, for the message.

    Raises:
        ConfigurationError: It cannot be imported, or is not compiled for the signature; the message names its package.
    """
    import numba

    function: Callable[..., Any] = load_entry(entry)
    if not cast(Any, numba.config).DISABLE_JIT and signature.args not in getattr(function, "overloads", {}):
        raise unusable(entry, f"is {shown(function)}, not a function compiled with {decorator}")
    _remember_addresses(function, signature)
    return function


@cache
def _remember_addresses(function: Any, signature: Any) -> None:
    """Find the addresses of a compiled function once.

    Otherwise numba does so whenever the function is an argument, which takes as long as the rest of a short call.
    """
    if not hasattr(function, "get_compile_result"):
        return  # not compiled
    library = function.get_compile_result(signature).library
    function.get_compile_result = cache(function.get_compile_result)
    library.get_pointer_to_function = cache(library.get_pointer_to_function)


def call_entry(entry: str, *arguments: Any, **named: Any) -> Any:
    """Imports ``module:attribute``, calls it, and returns what it makes.

    Raises:
        ConfigurationError: It cannot be imported, or does not take these arguments; the message names its package.
    """
    made = load_entry(entry)
    if not callable(made):
        raise unusable(entry, f"is {shown(made)}, which cannot be called")
    try:
        inspect.signature(made).bind(*arguments, **named)
    except ValueError:
        pass  # a signature that Python cannot see
    except TypeError as error:
        given = ", ".join([*(shown(one) for one in arguments), *(f"{name}=…" for name in named)])
        raise unusable(entry, f"is called with ({given}), and does not take that: {error}") from error
    return made(*arguments, **named)


def unusable(entry: str, why: str) -> ConfigurationError:
    """Returns the error for an entry that cannot be used; it names the package.

    Args:
        entry: ``module:attribute``.
        why: What is wrong, as a verb and its object.
    """
    top = entry.partition(":")[0].partition(".")[0]
    package = next((point.package for point in plug_ins() if point.value.partition(":")[0].split(".")[0] == top), top)
    return ConfigurationError(f"{entry} {why}; fix or uninstall the package {package}")


def _first_name(text: str) -> str:
    """The first name of a list, without its parameter."""
    return text.partition(",")[0].partition(":")[0]


def _imported(entry: str) -> Any:
    module, _, attributes = entry.partition(":")
    try:
        found: Any = import_module(module)
    except SystemExit as error:
        raise ImportError(f"it calls sys.exit({error.code!r})") from error
    for name in filter(None, attributes.split(".")):
        found = getattr(found, name)
    return found


# -- entry points ------------------------------------------------------------------------------------------------------


def plug_ins(group: str = "") -> tuple[PlugIn, ...]:
    """Returns the entry points of a group, or of all groups of Mirage; nothing is imported.

    They are cached until a folder of ``sys.path`` changes: every simulation looks up its discipline.
    """
    points = _read_plug_ins(tuple((folder, _changed_ns(folder)) for folder in sys.path))
    return tuple(point for point in points if point.group == group) if group else points


def extending_packages() -> frozenset[str]:
    """Returns the top modules of the packages that extend Mirage by an entry point."""
    return frozenset(point.value.partition(":")[0].partition(".")[0] for point in plug_ins())


@lru_cache(maxsize=2)
def _read_plug_ins(folders: tuple[tuple[str, int], ...]) -> tuple[PlugIn, ...]:
    found: dict[str, tuple[PlugIn, ...]] = {}
    for folder, changed_ns in dict(folders).items():
        for metadata in _entries(folder) if changed_ns else ():
            distribution = metadata.partition("-")[0].lower().replace(".", "_")
            if metadata.endswith((".dist-info", ".egg-info")) and distribution not in found:
                found[distribution] = tuple(_points_of(os.path.join(folder, metadata)))
    return tuple(point for points in found.values() for point in points)


def _points_of(metadata: str) -> Iterator[PlugIn]:
    """Yields a package's entry points for Mirage."""
    text = _text(os.path.join(metadata, "entry_points.txt"))
    if f"[{PREFIX}" not in text:
        return
    facts = _text(os.path.join(metadata, "METADATA")) or _text(os.path.join(metadata, "PKG-INFO"))
    header = dict(line.partition(": ")[::2] for line in facts.partition("\n\n")[0].splitlines())
    package = header.get("Name") or os.path.basename(metadata).partition("-")[0]
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group.startswith(PREFIX) and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield PlugIn(group, name.strip(), value.partition("[")[0].strip(), package, header.get("Summary", ""))


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder or os.curdir))
    except OSError:  # an archive, or a folder that is forbidden
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _changed_ns(folder: str) -> int:
    """Returns when an entry was last added to or removed from a folder; 0 without a folder."""
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return 0
