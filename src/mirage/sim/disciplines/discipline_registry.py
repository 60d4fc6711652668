"""Queue disciplines by name: built-in, or from the entry points ``mirage.disciplines``.

An entry point names a ``DisciplineSpec``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirage.registry import Registry, load_kernel


@dataclass(frozen=True, slots=True)
class DisciplineSpec:
    """Properties of a queue discipline that the simulator needs.

    Attributes:
        entry: ``module:function`` of the kernel.
        summary: One line for menus.
        plans: Whether it uses an availability profile.
        one_pool: Whether it supports one pool of anonymous whole nodes only.
        minutes: Whether its time is a grid of minutes.
        tiers: Whether jobs of a partition of a higher tier come first.
        reservations: Whether it starts no job that would run into a reservation (``Cluster.reservations``).
        limits: Whether it enforces the limits on what runs at once (``Cluster.limits``).
        scratch_rows: Least number of rows of the arrays of ``Scratch``; they have room for all jobs in the
            system, bins, partitions and users in any case.
    """

    entry: str
    summary: str
    plans: bool = False
    one_pool: bool = False
    minutes: bool = False
    tiers: bool = False
    reservations: bool = False
    limits: bool = False
    scratch_rows: int = 0

    def load(self) -> Callable[..., Any]:
        """Imports and returns the compiled function.

        Raises:
            ConfigurationError: It cannot be imported, or is not compiled with the signature of a discipline.
        """
        from mirage.sim.kernel.arrays import DISCIPLINE

        return load_kernel(self.entry, DISCIPLINE, "@kernel(DISCIPLINE)")


_HERE = "mirage.sim.disciplines"
DISCIPLINES: dict[str, DisciplineSpec] = {
    "fcfs": DisciplineSpec(
        f"{_HERE}.fcfs:fcfs", "first come, first served, no backfill", reservations=True, limits=True
    ),
    "easy": DisciplineSpec(
        f"{_HERE}.easy:easy", "EASY backfill: the head of the queue has a reservation", reservations=True, limits=True
    ),
    "conservative": DisciplineSpec(
        f"{_HERE}.conservative:conservative",
        "every job has a reservation, re-planned at every event",
        plans=True,
        reservations=True,
        limits=True,
    ),
    "slurm": DisciplineSpec(
        f"{_HERE}.slurm:slurm",
        "Slurm's main and backfill loops with multifactor priority",
        plans=True,
        tiers=True,
        reservations=True,
        limits=True,
    ),
    "mirage-2023": DisciplineSpec(
        f"{_HERE}.mirage_2023:mirage_2023",
        "the published Mirage simulator, to the minute; for comparison",
        plans=True,
        one_pool=True,
        minutes=True,
    ),
    "srtf": DisciplineSpec(
        f"{_HERE}.srtf:srtf", "shortest remaining time first, preemptive, knows run times", one_pool=True
    ),
}
"""Name → specification; ``srtf`` uses true run times, which no scheduler knows: only for comparison."""

PAUSED = DisciplineSpec(f"{_HERE}.paused:paused", "stops after every event: a policy outside decides", limits=True)
"""The discipline of a simulation in which a policy decides instead."""

_REGISTRY = Registry(
    "queue discipline",
    "mirage.disciplines",
    DISCIPLINES,
    lambda _, found: found if isinstance(found, DisciplineSpec) else None,
    "a DisciplineSpec",
)


def known_disciplines() -> tuple[str, ...]:
    """Names of the built-in disciplines and those of installed packages; imports nothing."""
    return _REGISTRY.names()


def discipline_spec(name: str) -> DisciplineSpec:
    """The specification of a discipline.

    Raises:
        UnknownName: No discipline has that name.
        ConfigurationError: Two packages register the name, or one cannot be loaded.
    """
    return _REGISTRY.spec(name)
