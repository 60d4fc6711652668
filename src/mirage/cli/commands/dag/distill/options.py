"""Options of episodes that the commands on trees share, and the episodes themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage.cli.options import option_group
from mirage.cli.values import WORDS

if TYPE_CHECKING:
    from mirage.dag.distilled.tuning import Episodes
    from mirage.dag.simulator.world import DagCluster
    from mirage.dag.workload.templates import JobTemplate


@dataclass(frozen=True, slots=True)
class EpisodeOptions:
    """Which jobs come, on how many executors."""

    profiles: str | None
    settings: tuple[str, ...]
    seeds: str
    gap_s: float
    moving_s: float
    noise: float

    def templates(self) -> tuple[JobTemplate, ...]:
        """Kinds of jobs: those of a file, or the built-in ones."""
        return _templates(self.profiles)

    def episodes(self) -> list[Episodes]:
        """The episodes of each setting."""
        from mirage.dag.distilled.tuning import Episodes
        from mirage.dag.setting import seeds_of, setting_of
        from mirage.dag.workload.arrivals import poisson_arrivals

        templates, seeds, made = self.templates(), seeds_of(self.seeds), []
        for text in self.settings:
            setting = setting_of(text, self.gap_s)
            arrivals = [
                poisson_arrivals(setting.jobs, seed, gap_s=self.gap_s, templates=len(templates)) for seed in seeds
            ]
            made.append(Episodes(templates, arrivals, self._cluster(setting.executors), seeds))
        return made

    def plan(self) -> dict[str, object]:
        """All that decides about the episodes, as a resumed command must find it again."""
        from mirage.dag.workload.digest import templates_digest

        return {
            "profiles": templates_digest(self.templates()),
            "setting": ",".join(self.settings),
            "seeds": self.seeds,
            "gap": self.gap_s,
            "moving delay": self.moving_s,
            "noise": self.noise,
        }

    def _cluster(self, executors: int) -> DagCluster:
        from mirage.dag.simulator.world import DagCluster

        return DagCluster(executors, moving_s=self.moving_s, noise=self.noise)


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
        "settings",
        type=WORDS,
        default="50/200,10/50",
        show_default=True,
        metavar="N/JOBS,…",
        help="Executors and jobs of an episode.",
    ),
    click.option(
        "--seeds",
        default="1000-1007",
        show_default=True,
        metavar="LIST",
        help="Of arrivals and durations. Report on other seeds than those that a tree was made on.",
    ),
    click.option(
        "--gap", "gap_s", type=float, default=25.0, show_default=True, metavar="S", help="Mean time between arrivals."
    ),
    click.option(
        "--moving-delay",
        "moving_s",
        type=float,
        default=2.0,
        show_default=True,
        metavar="S",
        help="What an executor needs to get to another job.",
    ),
    click.option(
        "--noise", type=float, default=0.0, show_default=True, metavar="X", help="Stretch each duration by up to ± X."
    ),
)
"""``--profiles``, ``--setting``, ``--seeds`` and their kin."""
