"""Digests of source code, which change only with the code of a module or its imports.

Docstrings, comments, layout and code for type checkers only do not count. Imported modules count, directly or not: a
constant changed three modules away changes the digest. Installed packages are left out, except Mirage and the package
that the module belongs to; a caller that depends on them adds their versions.

Parsing Mirage's sources takes a fifth of a second, so the digests of single files are stored in the cache folder, by
modification time and size.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from mirage.cache_folder import cache_folder

_ALWAYS_FOLLOWED = "mirage"
_NEVER_FOLLOWED = {"site-packages", "dist-packages"}
_RECORDS = f"source-digests-1-python{sys.version_info.major}.{sys.version_info.minor}.json"
"""Contains the format number, to be increased with the format, and Python's version, because syntax trees differ."""


class SourceFile(NamedTuple):
    """The contribution of one source file.

    Attributes:
        digest: Digest of its syntax tree.
        imports: The imports at the top level: ``module``, or ``module:name name …``.
    """

    digest: str
    imports: tuple[str, ...]


def source_digest(modules: Iterable[str]) -> str:
    """Returns the digest of some modules and of all their direct and indirect imports.

    Args:
        modules: Full names. The modules need not be imported yet, and are not imported here.

    Raises:
        ModuleNotFoundError: One of them has no source file.
    """
    total = hashlib.sha256()
    try:
        for name, file in sorted(_closure(modules).items()):
            total.update(f"{name} {_source_file(name, file).digest}\n".encode())
    finally:
        _records.save()
    return total.hexdigest()


def _closure(modules: Iterable[str]) -> dict[str, Path]:
    """Returns name and file of every module that counts."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    followed = {_ALWAYS_FOLLOWED, *(name.partition(".")[0] for name in waiting)}
    for name in waiting:
        if source_path(name) is None:
            raise ModuleNotFoundError(f"there is no source file of the module {name!r}", name=name)
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if name in found or not (top in followed or _is_ours(top)):
            continue
        file = source_path(name)
        if file is None:
            continue
        found[name] = file
        for imported in _source_file(name, file).imports:
            waiting += _modules_named(imported)
    return found


@cache
def _modules_named(imported: str) -> set[str]:
    """Returns the modules that an import reads; a name from a package may be a submodule."""
    module, _, names = imported.partition(":")
    file = source_path(module) if names else None
    if file is None or file.stem != "__init__":
        return {module}
    inside = [f"{module}.{name}" for name in names.split()]
    return {name if source_path(name) is not None else module for name in inside}


@cache
def _is_ours(top: str) -> bool:
    """Whether a package is neither Python's own nor installed, such as a script's neighbour."""
    if top in sys.stdlib_module_names:
        return False
    file = source_path(top)
    return file is not None and not _NEVER_FOLLOWED & set(file.parts)


@cache
def source_path(module: str) -> Path | None:
    """Returns the file of a module without importing it; None without one, as in a notebook."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is not None:
        return Path(loaded) if loaded.endswith(".py") else None
    top, _, inside = module.partition(".")
    if not inside:
        spec = find_spec(top) if top != "__main__" else None
        origin = spec.origin if spec else None
        return Path(origin) if origin and origin.endswith(".py") else None
    package = source_path(top)
    if package is None or package.stem != "__init__":
        return None
    place = package.parent.joinpath(*inside.split("."))
    files = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


# -- one file -------------------------------------------------------------------------------------------------------


@cache
def _source_file(module: str, file: Path) -> SourceFile:
    """Returns a file's contribution; cached, so that later edits do not count in this process."""
    status = file.stat()
    known = _records.of(file, status)
    if known is None:
        known = read_source(file.read_bytes(), module, is_package=file.stem == "__init__")
        _records.note(file, status, known)
    return known


def read_source(source: bytes, module: str, *, is_package: bool = False) -> SourceFile:
    """Parses a module.

    Args:
        module: Its full name; relative imports are resolved from it.
    """
    tree = _WhatCounts().visit(ast.parse(source))
    package = module if is_package else module.rpartition(".")[0]
    imports = tuple(dict.fromkeys(_imports(tree.body, package)))
    return SourceFile(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports)


class _WhatCounts(ast.NodeTransformer):
    """Drops string statements, such as docstrings, and code for type checkers only."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        tested = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        return node.orelse if tested == "TYPE_CHECKING" else node


def _imports(statements: Iterable[ast.AST], package: str) -> Iterator[str]:
    """Yields the imports of a module when it is loaded; those inside functions are left out."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield f"{module}:{' '.join(alias.name for alias in node.names)}"
        elif not isinstance(node, ast.expr | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(ast.iter_child_nodes(node), package)


# -- cache on disk --------------------------------------------------------------------------------------------------


class _Records:
    """Digests of files parsed earlier, by this or another process."""

    def __init__(self) -> None:
        self._known: dict[str, list[object]] | None = None
        self._changed = False

    def of(self, file: Path, status: os.stat_result) -> SourceFile | None:
        """Returns the stored contribution of the present version of a file, if any."""
        if self._known is None:
            self._known = self._load()
        match self._known.get(str(file)):
            case [mtime_ns, size, str(digest), [*imports]] if (mtime_ns, size) == (status.st_mtime_ns, status.st_size):
                return SourceFile(digest, tuple(str(imported) for imported in imports))
        return None

    def note(self, file: Path, status: os.stat_result, found: SourceFile) -> None:
        """Stores the contribution of a file."""
        assert self._known is not None
        self._known[str(file)] = [status.st_mtime_ns, status.st_size, found.digest, list(found.imports)]
        self._changed = True

    def save(self) -> None:
        """Writes new entries atomically; one lost to a concurrent process is computed again."""
        if not self._changed or self._known is None:
            return
        self._changed = False
        path = self._path()
        existing = {file: entry for file, entry in (self._load() | self._known).items() if os.path.exists(file)}
        with suppress(OSError):  # a digest that cannot be stored is made again
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
            temporary.write_text(json.dumps(existing), encoding="utf-8")
            temporary.replace(path)

    def _load(self) -> dict[str, list[object]]:
        with suppress(OSError, ValueError, TypeError):  # absent or in another format: all files are parsed again
            return dict(json.loads(self._path().read_text(encoding="utf-8")))
        return {}

    @staticmethod
    def _path() -> Path:
        return cache_folder() / _RECORDS


_records = _Records()
