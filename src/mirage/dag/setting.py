"""Settings of episodes as people write them: executors and jobs, and lists of seeds."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.dag.workload.arrivals import GAP_S
from mirage.errors import ConfigurationError, shown


@dataclass(frozen=True, slots=True)
class Setting:
    """Executors, jobs, and how often jobs arrive."""

    executors: int
    jobs: int
    gap_s: float = GAP_S

    @property
    def name(self) -> str:
        """As ``setting_of`` reads it."""
        return f"{self.executors}/{self.jobs}"


def setting_of(text: str, gap_s: float = GAP_S) -> Setting:
    """A setting from ``EXECUTORS/JOBS``.

    Raises:
        ConfigurationError: The text is none.
    """
    executors, _, jobs = text.partition("/")
    if not (executors.isdecimal() and jobs.isdecimal() and int(executors) > 0 and int(jobs) > 0):
        raise ConfigurationError(f"{shown(text)} is no setting; write executors/jobs, as 50/200")
    return Setting(int(executors), int(jobs), gap_s)


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds from a list of numbers and ranges, as ``0,3,300-319``.

    Raises:
        ConfigurationError: The text is no such list, or names a seed twice.
    """
    seeds: list[int] = []
    for word in text.split(","):
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ConfigurationError(f"{shown(word)} is neither a seed nor a range of seeds; write 0,3 or 300-319")
        seeds += range(int(first), int(last or first) + 1)
    if len(set(seeds)) < len(seeds):
        raise ConfigurationError(f"{shown(text)} names a seed twice, which would count it twice")
    return tuple(seeds)
