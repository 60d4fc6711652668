"""The cache of compiled kernels on disk, keyed by what a kernel does.

An entry belongs to a kernel, the types it was compiled for, the source digest of its module with all that it imports
(``mirage.source_digest``), this processor and the versions of Python, numba and llvmlite. numba's own cache only checks
the text of the kernel's own file: it recompiles for a comment and misses a change in a kernel that is called.

Each entry has its own files, named after all of that. Versions of Mirage therefore share the folder without evicting
each other's entries, and processes that compile the same kernel at once write identical files.

An administrator can compile into the installation, for all its users (``mirage compile --shared``). A process loads
from its user's folder, then from that one, and writes into its user's folder.

This is the only file that relies on numba's internals.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from mirage.cache_folder import cache_folder
from mirage.duration import DAY_S
from mirage.kernel.compile_listener import compiled, compiling
from mirage.source_digest import source_digest

UNUSED_S = 30 * DAY_S
"""Entries that no process has loaded for this time are deleted when a process compiles something."""

_config: Any = numba.config
_log = logging.getLogger("mirage.kernel")


def kernel_folder() -> Path:
    """The folder of compiled kernels, in the cache folder or in ``NUMBA_CACHE_DIR``."""
    chosen = _config.CACHE_DIR
    return (Path(chosen) / "mirage" if chosen else cache_folder()) / "kernels"


def shared_folder() -> Path:
    """The folder of kernels in the installation, for all its users; it may not exist."""
    return Path(sys.prefix) / "share" / "mirage" / "kernels"


def cache_on_disk(dispatcher: Any, variant: str = "") -> None:
    """Make a function of ``numba.njit`` load its compiled form from the cache, and store it.

    Args:
        dispatcher: The function.
        variant: Distinguishes functions that are compiled from one Python function with other options.

    A function without a source file, such as one typed into a notebook, is compiled again in every process.
    """
    with suppress(ModuleNotFoundError, OSError):
        dispatcher._cache = _KernelCache(dispatcher.py_func, variant)


@cache
def _stamp(module: str) -> str:
    return f"{source_digest([module])} numba {numba.__version__} llvmlite {llvmlite.__version__}"


class _Locator(_CacheLocator):
    """Locates the entries of a function and their source stamp."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._py_file = module  # in numba's warnings

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func.__module__)

    def get_cache_path(self) -> str:
        return str(kernel_folder())

    def get_source_stamp(self) -> str:
        return _stamp(self._module)

    def get_disambiguator(self) -> str:
        return self._module


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # type: ignore[list-item]  # noqa: RUF012


class _KernelCache(FunctionCache):
    """numba's cache of a function, with separate files for each entry."""

    _impl_class = _KernelCacheImpl

    def __init__(self, function: Any, variant: str) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._kernel = f"{function.__module__}.{function.__qualname__}"
        name = self._kernel.replace("<", "").replace(">", "") + (variant and f"-{variant}")
        self._cache_file: Any = _Entries(kernel_folder(), name, self._impl.locator.get_source_stamp())

    def _load_overload(self, signature: Any, target: Any) -> Any:
        found = super()._load_overload(signature, target)  # type: ignore[no-untyped-call]
        if found is None:
            compiling(self._kernel)
        return found

    def _save_overload(self, signature: Any, result: Any) -> None:
        compiled(self._kernel)
        try:
            super()._save_overload(signature, result)  # type: ignore[no-untyped-call]
            if kernel_folder() != shared_folder():  # its users cannot mark what they load as used
                _sweep(kernel_folder())
        except OSError as error:
            _report_not_stored(error.strerror or str(error))


@cache
def _report_not_stored(why: str) -> None:
    """Report, once per process, that the next one compiles again."""
    _log.warning(
        "Mirage's compiled kernels cannot be stored in %s (%s), so every process compiles them again, a minute or "
        "more; set NUMBA_CACHE_DIR to a folder that can be written",
        kernel_folder(), why,
    )  # fmt: skip


class _Entries:
    """The entries of one function, each with an index of its own that no process shares."""

    def __init__(self, folder: Path, name: str, stamp: str) -> None:
        self._folder, self._name, self._stamp = folder, name, stamp

    def load(self, key: Any) -> Any:
        for folder in (self._folder, shared_folder()):
            file = self._file(folder, key)
            result = None
            with suppress(Exception):  # a damaged entry can raise almost anything; it only costs a compilation
                result = file.load(key)
            if result is not None:
                with suppress(OSError):  # of a folder that this user only reads
                    for path in (file._index_path, file._data_path(file._data_name(1))):
                        os.utime(path)  # it has been used
                return result
        return None

    def save(self, key: Any, result: Any) -> None:
        file = self._file(self._folder, key)
        file._save_data(file._data_name(1), result)
        file._save_index({key: file._data_name(1)})

    def _file(self, folder: Path, key: Any) -> Any:
        what = f"{self._stamp}\n{key}\npython {sys.version_info[:2]}"
        digest = hashlib.sha256(what.encode()).hexdigest()[:24]
        return IndexDataCacheFile(str(folder), f"{self._name}-{digest}", self._stamp)  # type: ignore[no-untyped-call]


# -- old entries ----------------------------------------------------------------------------------------------------


@cache
def _sweep(folder: Path) -> None:
    """Delete, once per process, entries unused for ``UNUSED_S``; others may do so too."""
    now_s = folder.stat().st_mtime  # something has just been written into it
    for file in folder.iterdir():
        with suppress(OSError):
            if now_s - file.stat().st_mtime > UNUSED_S:
                file.unlink()
