"""Options of episodes that the commands on trees share, and the episodes they choose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage.cli.commands.dag.edge_case import Chosen, case_option, chosen
from mirage.cli.options import option_group
from mirage.cli.values import WORDS

if TYPE_CHECKING:
    from mirage.dag.distilled.tuning import Episodes
    from mirage.dag.workload.templates import JobTemplate


USUAL = ("50/200", "10/50")
"""Default settings."""


@dataclass(frozen=True, slots=True)
class EpisodeOptions:
    """The arriving jobs and the executors; None where an option was not given."""

    profiles: str | None
    setting: tuple[str, ...] | None
    seeds: str
    gap_s: float | None
    moving_s: float | None
    noise: float | None
    case: str | None

    @property
    def chosen(self) -> Chosen:
        """The given options, completed by those of the edge case and the defaults."""
        return chosen(
            self.case,
            settings=self.setting,
            gap_s=self.gap_s,
            moving_s=self.moving_s,
            noise=self.noise,
            usual=USUAL,
        )

    @property
    def settings(self) -> tuple[str, ...]:
        """Executors and jobs of each setting."""
        return self.chosen.settings

    def templates(self) -> tuple[JobTemplate, ...]:
        """Returns the kinds of jobs: those of a file, or the built-in ones."""
        return _templates(self.profiles)

    def episodes(self) -> list[Episodes]:
        """Returns the episodes of each setting."""
        from mirage.dag.distilled.tuning import Episodes
        from mirage.dag.setting import seeds_of
        from mirage.dag.simulator.dag_world import DagCluster

        chosen, templates, seeds = self.chosen, self.templates(), seeds_of(self.seeds)
        cluster = DagCluster(moving_s=chosen.moving_s, noise=chosen.noise)
        return [Episodes.drawn(templates, chosen.of(text), cluster, seeds) for text in chosen.settings]

    def plan(self) -> dict[str, object]:
        """Returns all that determines the episodes; a resumed command must match it."""
        from mirage.dag.workload.templates import templates_digest

        chosen = self.chosen
        return {
            "profiles": templates_digest(self.templates()),
            "setting": ",".join(chosen.settings),
            "seeds": self.seeds,
            "gap": chosen.gap_s,
            "moving delay": chosen.moving_s,
            "noise": chosen.noise,
            "jobs that come": chosen.mix.value,
        }


@cache
def _templates(profiles: str | None) -> tuple[JobTemplate, ...]:
    from mirage.dag.workload.generated import generated_templates
    from mirage.dag.workload.tpch import read_tpch

    return tuple(generated_templates()) if profiles is None else read_tpch(Path(profiles))


episode_options = option_group(
    "played",
    EpisodeOptions,
    click.option(
        "--profiles", metavar="FILE", help="Measured TPC-H profiles (JSON, or .gz of it).  [default: built-in jobs]"
    ),
    click.option(
        "--setting",
        type=WORDS,
        metavar="N/JOBS,…",
        help="Executors and jobs of an episode.  [default: 50/200,10/50, or those of the case]",
    ),
    click.option(
        "--seeds",
        default="1000-1007",
        show_default=True,
        metavar="LIST",
        help="Seeds of arrivals and durations. Report on other seeds than those a tree was made on.",
    ),
    click.option("--gap", "gap_s", type=float, metavar="S", help="Mean time between arrivals.  [default: 25]"),
    click.option(
        "--moving-delay",
        "moving_s",
        type=float,
        metavar="S",
        help="Time an executor needs to move to another job.  [default: 2]",
    ),
    click.option("--noise", type=float, metavar="X", help="Stretch each duration by up to ± X.  [default: 0]"),
    case_option,
)
"""``--profiles``, ``--setting``, ``--seeds`` and related options."""
