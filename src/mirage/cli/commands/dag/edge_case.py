"""``--case``: an edge case by name, instead of the options that define it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from mirage.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from mirage.dag.setting import EpisodeSetting
    from mirage.dag.workload.edge_cases import Mix

case_option = click.option(
    "--case",
    metavar="NAME",
    help="An edge case: gap-15, gap-45, gap-75, executors-10, executors-25, executors-100, moving-delay-0, "
    "moving-delay-10, noise-0.5, large-job or split-stage. Other options still apply.",
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The episodes chosen by options and an edge case.

    Attributes:
        settings: Executors and jobs, in the form of ``--setting``.
        gap_s: Mean time between arrivals.
        moving_s: Time an executor needs to move to another job.
        noise: Largest relative stretch of a duration.
        mix: Mix of the arriving jobs.
    """

    settings: tuple[str, ...]
    gap_s: float
    moving_s: float
    noise: float
    mix: Mix

    def of(self, text: str, *, batch: bool = False) -> EpisodeSetting:
        """Returns the setting that one of ``settings`` names."""
        from mirage.dag.setting import setting_of

        return setting_of(text, self.gap_s, batch=batch, mix=self.mix)


def chosen(
    case: str | None,
    *,
    settings: tuple[str, ...] | None,
    gap_s: float | None,
    moving_s: float | None,
    noise: float | None,
    usual: tuple[str, ...],
    batch: bool = False,
) -> Chosen:
    """Returns the episodes that the options choose; None where an option was not given.

    Args:
        case: The edge case; None for none.
        settings: Value of ``--setting``.
        gap_s: Value of ``--gap``.
        moving_s: Value of ``--moving-delay``.
        noise: Value of ``--noise``.
        usual: The settings if neither the options nor the case define them.
        batch: Whether ``--batch`` submits all jobs at the beginning.

    Raises:
        UnknownName: There is no such edge case.
        ConfigurationError: A setting is named twice.
        UsageError: An option and the case define the same thing.
    """
    from mirage.dag.simulator.dag_world import DagCluster
    from mirage.dag.workload.dag_arrivals import GAP_S
    from mirage.dag.workload.edge_cases import EdgeCase, edge_case_of

    if settings and (twice := [text for text, times in Counter(settings).items() if times > 1]):
        raise ConfigurationError(f"the setting {shown(twice[0])} is named twice; name each once")
    edge, cluster = EdgeCase("as usual") if case is None else edge_case_of(case), DagCluster()
    for option, given, declared in (
        ("--setting", settings, edge.executors),
        ("--gap", gap_s, edge.gap_s),
        ("--batch", batch or None, edge.gap_s),
        ("--moving-delay", moving_s, edge.moving_s),
        ("--noise", noise, edge.noise),
    ):
        if given is not None and declared is not None:
            raise click.UsageError(f"--case {case} defines {option} already ({edge.about}); give one of them")
    return Chosen(
        settings=settings or (usual if case is None else (edge.setting,)),
        gap_s=_first(gap_s, edge.gap_s, GAP_S),
        moving_s=_first(moving_s, edge.moving_s, cluster.moving_s),
        noise=_first(noise, edge.noise, cluster.noise),
        mix=edge.mix,
    )


def _first(given: float | None, declared: float | None, usual: float) -> float:
    return next(value for value in (given, declared, usual) if value is not None)
