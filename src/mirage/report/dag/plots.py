"""Writes pictures of a comparison of stage schedulers into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirage.dag.compare.dag_comparison import DagComparison
from mirage.dag.compare.dag_trial import Scene
from mirage.dag.setting import EpisodeSetting
from mirage.errors import ConfigurationError
from mirage.report.dag.comparison_chart import mean_jct_chart
from mirage.report.dag.executors_chart import EpisodeLog, executors_chart
from mirage.report.picture_file import write_picture

SHOWN = 2
"""Number of schedulers whose episode is drawn: the first ones."""


def check_plots_folder(folder: Path) -> None:
    """Creates the folder before the work.

    Raises:
        ConfigurationError: It cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write pictures to {folder}: {error.strerror}; name another folder") from error


def write_plots(
    folder: Path,
    comparison: DagComparison,
    scene: Scene,
    settings: Sequence[EpisodeSetting],
    seeds: Sequence[int],
    jobs: str,
) -> list[Path]:
    """Writes ``dag-jct.svg``, and ``dag-executors-N-JOBS.svg`` for each setting.

    The latter show the first episode of a setting under two schedulers.

    Args:
        folder: The folder for the pictures.
        comparison: The comparison.
        scene: The kinds of jobs, the cluster, and the schedulers; episodes of the first schedulers are drawn.
        settings: Sizes of cluster and episode.
        seeds: Seeds; the episode of the first one is drawn.
        jobs: Description of the jobs.

    Raises:
        ConfigurationError: A picture cannot be written.
    """
    note = f"{jobs}, {len(seeds)} seed{'s'[: len(seeds) > 1]}"
    pictures = {"dag-jct.svg": mean_jct_chart(comparison, note)}
    for setting in settings:
        logs = []
        for scheduler in scene.schedulers[:SHOWN]:
            played = scene.episode(setting, seeds[0], log=True)
            played.run(scheduler.decider, scheduler.parameters_for(seeds[0]))
            logs.append(EpisodeLog.of(scheduler.name, played.world, played.runs))
        heading = f"{setting.executors} executors, {setting.jobs} jobs, seed {seeds[0]}"
        pictures[f"dag-executors-{setting.executors}-{setting.jobs}.svg"] = executors_chart(logs, heading)
    for name, drawn in pictures.items():
        write_picture(drawn, folder / name)
    return [folder / name for name in pictures]
