"""Names of workloads: the file name without ending, with folders to be unique."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.schedule.compare.gpu_comparison_row import MEAN


@dataclass(frozen=True, slots=True)
class _Name:
    """A name that can still get more folders."""

    path: Path
    folders: int = 0
    ending: bool = False

    def __str__(self) -> str:
        stem = self.path.name if self.ending else self.path.name.removesuffix(".gz").rsplit(".", 1)[0]
        parts = self.path.parent.parts[1:]
        return "/".join([*parts[max(len(parts) - self.folders, 0) :], stem])


def workload_name(path: str) -> str:
    """The name of a single workload, ``workload-1`` for ``sia_philly/workload-1.csv``."""
    return workload_names([path])[0]


def workload_names(paths: Sequence[str]) -> tuple[str, ...]:
    """Unique names of workloads.

    Files with the same name get their folders; those in one folder, and ``mean``, get their ending.

    Raises:
        ConfigurationError: A file is given twice, possibly by a link.
    """
    _refuse_twice(paths)
    names = [_Name(_absolute(path)) for path in paths]
    names = [replace(name, ending=str(name) == MEAN) for name in names]
    while alike := _alike(names):
        for group in alike:
            in_one_folder = len({names[k].path.parent for k in group}) == 1
            for k in group:
                folders = names[k].folders + (not in_one_folder)
                names[k] = replace(names[k], folders=folders, ending=names[k].ending or in_one_folder)
    return tuple(map(str, names))


def _absolute(path: str) -> Path:
    """An absolute path; a link to a file has its own name."""
    given = Path(path)
    return given.parent.resolve() / given.name


def _alike(names: Sequence[_Name]) -> list[list[int]]:
    """Groups of indices of workloads with the same name."""
    places: dict[str, list[int]] = defaultdict(list)
    for k, name in enumerate(names):
        places[str(name)].append(k)
    return [group for group in places.values() if len(group) > 1]


def _refuse_twice(paths: Sequence[str]) -> None:
    found: dict[Path, str] = {}
    for path in paths:
        file = Path(path).resolve()
        if found.get(file) == path:
            raise ConfigurationError(f"workloads: {path} is given twice; name each once")
        if file in found:
            raise ConfigurationError(f"workloads: {found[file]} and {path} are the same file; name it once")
        found[file] = path
