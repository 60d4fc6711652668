"""Executors by name: built-in, or from the entry points ``mirage.executors``.

An entry point names an ``ExecutorSpec``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mirage.errors import shown
from mirage.registry import Registry, call_entry, unusable
from mirage.study.executors.executor import Executor


@dataclass(frozen=True, slots=True)
class ExecutorRequest:
    """What a caller wants of an executor; None and empty where an option was not given.

    Attributes:
        folder: Holds the work and the results of remote jobs.
        name: Name of these jobs.
        workers: Number of processes.
        array_jobs: Largest number of remote jobs.
        sbatch: Options of sbatch, by their long names.
    """

    folder: Path
    name: str = "mirage"
    workers: int | None = None
    array_jobs: int | None = None
    sbatch: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExecutorSpec:
    """Facts about an executor that are known before it is loaded.

    Attributes:
        entry: ``module:function`` that takes an ``ExecutorRequest`` and makes the executor.
        summary: One line for menus.
        takes: The fields of a request that it uses, of ``workers``, ``array_jobs`` and ``sbatch``; options for others
            are refused.
        remote: Whether pieces are done on other machines, which must see the folder.
    """

    entry: str
    summary: str
    takes: tuple[str, ...] = ()
    remote: bool = False

    def make(self, request: ExecutorRequest) -> Executor:
        """Makes the executor.

        Raises:
            ConfigurationError: It cannot be imported, takes no request, or makes no executor.
        """
        made: Executor = call_entry(self.entry, request)
        if not callable(made):
            raise unusable(self.entry, f"makes {shown(made)}, which cannot be called with (begin, setup, pieces)")
        return made


def _local(request: ExecutorRequest) -> Executor:
    from mirage.study.executors.local_processes import LocalProcesses, available_cores

    return LocalProcesses(request.workers or available_cores())


def _slurm(request: ExecutorRequest) -> Executor:
    from mirage.study.executors.slurm_array import JOBS, SlurmArray

    return SlurmArray(request.folder, request.name, request.array_jobs or JOBS, request.sbatch)


def _hyperqueue(request: ExecutorRequest) -> Executor:
    from mirage.study.executors.hyperqueue import TASKS, HyperQueue

    return HyperQueue(request.folder, request.name, request.array_jobs or TASKS)


EXECUTORS: dict[str, ExecutorSpec] = {
    "local": ExecutorSpec(f"{__name__}:_local", "processes of this machine", ("workers",)),
    "slurm": ExecutorSpec(f"{__name__}:_slurm", "an array of Slurm jobs", ("array_jobs", "sbatch"), remote=True),
    "hyperqueue": ExecutorSpec(f"{__name__}:_hyperqueue", "tasks of HyperQueue", ("array_jobs",), remote=True),
}
"""Name → specification."""

_REGISTRY = Registry(
    "executor",
    "mirage.executors",
    EXECUTORS,
    lambda _, found: found if isinstance(found, ExecutorSpec) else None,
    "an ExecutorSpec",
)


def known_executors() -> tuple[str, ...]:
    """Names of the executors, built-in and of installed packages; imports nothing."""
    return _REGISTRY.names()


def executor_spec(name: str) -> ExecutorSpec:
    """The specification of an executor.

    Raises:
        UnknownName: No executor has that name.
        ConfigurationError: Two packages declare the name, or one cannot be loaded.
    """
    return _REGISTRY.spec(name)
