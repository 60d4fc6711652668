"""Pictures of a comparison of stage schedulers, in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirage.dag.compare.comparison import Comparison
from mirage.dag.compare.trial import Scene
from mirage.dag.setting import Setting
from mirage.errors import ConfigurationError
from mirage.report.dag.comparison_chart import jct_chart
from mirage.report.dag.executors_chart import EpisodeLog, executors_chart
from mirage.report.theme import standalone
from mirage.whole_file import write_output

SHOWN = 2
"""Schedulers whose episode is drawn: the first ones."""


def check_plots_folder(folder: Path) -> None:
    """Make the folder before the work.

    Raises:
        ConfigurationError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot keep pictures in {folder}: {error.strerror}; name another folder") from error


def write_plots(
    folder: Path,
    comparison: Comparison,
    scene: Scene,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    jobs: str,
) -> list[Path]:
    """Write ``dag-jct.svg``, and ``dag-executors-N-JOBS.svg`` for each setting: its first episode under two schedulers.

    Args:
        folder: Where they go.
        comparison: What was compared.
        scene: The kinds of jobs, the cluster, and the schedulers, of which the first ones' episodes are drawn.
        settings: Sizes of cluster and episode.
        seeds: The first one's episode is drawn.
        jobs: What jobs these are, in words.

    Raises:
        ConfigurationError: One cannot be written.
    """
    told = f"{jobs}, {len(seeds)} seed{'s'[: len(seeds) > 1]}"
    pictures = {"dag-jct.svg": jct_chart(comparison, told)}
    for setting in settings:
        logs = []
        for scheduler in scene.schedulers[:SHOWN]:
            played = scene.episode(setting, seeds[0], log=True)
            played.run(scheduler.decider, scheduler.parameters_for(seeds[0]))
            logs.append(EpisodeLog.of(scheduler.name, played.world, played.runs))
        heading = f"{setting.executors} executors, {setting.jobs} jobs, seed {seeds[0]}"
        pictures[f"dag-executors-{setting.executors}-{setting.jobs}.svg"] = executors_chart(logs, heading)
    for name, drawn in pictures.items():
        write_output(folder / name, standalone(drawn))
    return [folder / name for name in pictures]
