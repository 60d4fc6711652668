"""Queue disciplines, each one compiled function from world, state and scratch to actions, found by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mirage.errors import UnknownName


@dataclass(frozen=True, slots=True)
class DisciplineSpec:
    """A queue discipline by name.

    Attributes:
        entry: ``module:function`` of the kernel.
        summary: One line for menus.
        plans: Whether it keeps an availability profile.
        one_pool: Whether it knows anonymous whole nodes only.
        minutes: Whether its time is a grid of minutes.
        tiers: Whether jobs of a partition of a higher tier come first.
    """

    entry: str
    summary: str
    plans: bool = False
    one_pool: bool = False
    minutes: bool = False
    tiers: bool = False

    def load(self) -> Callable[..., Any]:
        """The compiled function."""
        module, _, name = self.entry.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function


_HERE = "mirage.sim.disciplines"
DISCIPLINES: dict[str, DisciplineSpec] = {
    "fcfs": DisciplineSpec(f"{_HERE}.fcfs:fcfs", "first come, first served, no backfill"),
    "easy": DisciplineSpec(f"{_HERE}.easy:easy", "EASY backfill: the head of the queue has a reservation"),
    "conservative": DisciplineSpec(
        f"{_HERE}.conservative:conservative",
        "every job has a reservation, re-planned at every event",
        plans=True,
    ),
    "slurm": DisciplineSpec(
        f"{_HERE}.slurm:slurm", "Slurm's main and backfill loops with multifactor priority", plans=True, tiers=True
    ),
    "mirage-2023": DisciplineSpec(
        f"{_HERE}.mirage_2023:mirage_2023",
        "the published Mirage simulator, to the minute; for comparison",
        one_pool=True,
        minutes=True,
    ),
    "srtf": DisciplineSpec(
        f"{_HERE}.srtf:srtf", "shortest remaining time first, preemptive, knows run times", one_pool=True
    ),
    "paused": DisciplineSpec(f"{_HERE}.paused:paused", "stops after every event: a policy outside decides"),
}
"""Name → specification; ``srtf`` and other clairvoyants are bounds, not something a cluster can run."""


def discipline_spec(name: str) -> DisciplineSpec:
    """Look a discipline up.

    Raises:
        UnknownName: Nothing is registered under that name.
    """
    try:
        return DISCIPLINES[name]
    except KeyError:
        raise UnknownName("queue discipline", name, DISCIPLINES) from None
