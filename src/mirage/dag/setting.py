"""Settings of episodes in text form: executors and jobs, and lists of seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.dag.simulator.stage_decision import MOST_EXECUTORS
from mirage.dag.workload.dag_arrivals import GAP_S, DagArrivals, batch_arrivals, check_gap, check_jobs, poisson_arrivals
from mirage.dag.workload.edge_cases import Mix
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ConfigurationError, shown

MOST_SEEDS = 100_000
"""Of one list: more are a typing error."""

LARGEST_SEED = 2**53
"""Beyond it neighbouring seeds are the same floating-point number."""

_LONGEST_NUMBER = 1000  # digits: far beyond any limit, and short enough to parse


@dataclass(frozen=True, slots=True)
class EpisodeSetting:
    """Executors, jobs, and the rate at which jobs arrive.

    Attributes:
        executors: Their number.
        jobs: Of an episode.
        gap_s: Mean time between two arrivals.
        batch: Whether all jobs are present at 0 instead.
        mix: The mix of jobs.

    Raises:
        ConfigurationError: No such cluster, or no such episode, can exist.
    """

    executors: int
    jobs: int
    gap_s: float = GAP_S
    batch: bool = False
    mix: Mix = Mix.USUAL

    def __post_init__(self) -> None:
        if not 1 <= self.executors <= MOST_EXECUTORS:
            raise ConfigurationError(f"{self.executors} executors; there are 1 to {MOST_EXECUTORS}")
        check_jobs(self.jobs)
        check_gap(self.gap_s)

    @property
    def name(self) -> str:
        """The form that ``setting_of`` reads."""
        return f"{self.executors}/{self.jobs}"

    def arrivals(self, seed: int, templates: int) -> DagArrivals:
        """The jobs of an episode, drawn from a number of templates.

        Their template numbers refer to the result of the method ``templates``.
        """
        if self.batch:
            usual = batch_arrivals(self.jobs, seed, templates=templates)
        else:
            usual = poisson_arrivals(self.jobs, seed, gap_s=self.gap_s, templates=templates)
        return self.mix.of(usual, seed, templates)

    def templates(self, usual: Sequence[JobTemplate]) -> tuple[JobTemplate, ...]:
        """The kinds of jobs in an episode."""
        return self.mix.templates(tuple(usual))


def setting_of(text: str, gap_s: float = GAP_S, *, batch: bool = False, mix: Mix = Mix.USUAL) -> EpisodeSetting:
    """A setting from ``EXECUTORS/JOBS``.

    Raises:
        ConfigurationError: The text is not a setting.
    """
    executors, _, jobs = text.partition("/")
    if not (_is_whole(executors) and _is_whole(jobs)):
        raise ConfigurationError(f"{shown(text)} is not a setting; write executors/jobs, as 50/200")
    if int(executors) == 0 or int(jobs) == 0:
        raise ConfigurationError(f"{shown(text)} has no {'jobs' if int(executors) else 'executors'}; write 50/200, say")
    return EpisodeSetting(int(executors), int(jobs), gap_s, batch, mix)


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds from a list of numbers and ranges, as ``0,3,300-319``.

    Raises:
        ConfigurationError: The text is not such a list, or names a seed twice.
    """
    seeds: list[int] = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not _is_whole(first) or (dash and not _is_whole(last)) or (dash and int(last) < int(first)):
            raise ConfigurationError(f"{shown(word)} is neither a seed nor a range of seeds; write 0,3 or 300-319")
        named = range(int(first), int(last or first) + 1)
        if named[-1] > LARGEST_SEED:
            raise ConfigurationError(f"{shown(word)} exceeds the largest seed; seeds are 0 to {LARGEST_SEED}")
        if len(seeds) + len(named) > MOST_SEEDS:
            raise ConfigurationError(
                f"{shown(text)} names more than {MOST_SEEDS:,} seeds, and each is an episode; name fewer"
            )
        seeds += named
    if len(set(seeds)) < len(seeds):
        raise ConfigurationError(f"{shown(text)} names a seed twice, which would count it twice")
    return tuple(seeds)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
