"""Makes a data set, shard by shard, with any executor.

made = make_data_set(recipe, Path("data"), LocalProcesses(4))
hand_overs = read_hand_overs(Path("data"))
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mirage.learn.dataset.recipe import Recipe, Shard
from mirage.learn.dataset.shards import DataSetFolder
from mirage.learn.dataset.window import WindowMaker
from mirage.learn.hand_overs import HandOvers
from mirage.learn.required_packages import check_packages
from mirage.provision.compile_simulator import FORECASTS, use
from mirage.study.executors.executor import Executor
from mirage.study.executors.local_processes import LocalProcesses
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.play_trials import Progress


@dataclass(frozen=True, slots=True)
class FinishedShard:
    """A finished shard.

    Attributes:
        windows: Number of windows.
        cpu_s: CPU time spent on it.
    """

    windows: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class DataSetSummary:
    """The result of making a data set.

    Attributes:
        shards: Number of shards.
        reused: Number of shards that had been made before.
        cpu_s: CPU time of the shards made now.
    """

    shards: int
    reused: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class ShardInputs:
    """The inputs of a process that makes shards.

    Attributes:
        folder: Where shards are written.
        digest: The digest that shards carry.
    """

    recipe: Recipe
    folder: Path
    digest: str


def make_data_set(
    recipe: Recipe, folder: Path, executor: Executor | None = None, progress: Progress | None = None
) -> DataSetSummary:
    """Makes the missing shards of a data set.

    The same recipe gives the same data, whatever the number of processes, and however often the work was interrupted
    and resumed: a shard is written whole, and an existing one is reused.

    Args:
        folder: A new folder, or one started with the same recipe.
        executor: Where shards are made; None for this process. It must share the folder.
        progress: Called as windows are finished.

    Raises:
        ConfigurationError: pyarrow is missing, or the folder holds something else or cannot be written.
    """
    check_packages("a data set", ["pyarrow"])
    data_set, shards = DataSetFolder(folder), recipe.shards()
    digest = data_set.open_for(recipe)
    missing = [shard for shard in shards if not data_set.has(shard, recipe.shard_s, digest)]
    total = recipe.study.protocol.windows
    done = total - sum(len(shard.windows) for shard in missing)
    cpu_s = 0.0
    if progress:
        progress(done, total)
    work = ShardInputs(recipe, folder, digest)
    if missing:  # compiled once here, where progress is visible, and not once by each worker
        use(recipe.study.scenario.discipline)
        if recipe.futures is not None:
            use(FORECASTS)
    for made in (executor or LocalProcesses())(shard_maker, work, missing):
        done, cpu_s = done + made.windows, cpu_s + made.cpu_s
        if progress:
            progress(done, total)
    return DataSetSummary(len(shards), len(shards) - len(missing), cpu_s)


@sent_to_jobs
def shard_maker(
    work: ShardInputs, cpu_clock: Callable[[], float] = time.process_time
) -> Callable[[Shard], FinishedShard]:
    """Returns the function that makes shards, in order of time, in one replay of the trace.

    The CPU time of the replay up to a shard counts as that shard's.
    """
    windows, folder = WindowMaker(work.recipe), DataSetFolder(work.folder)

    def make(shard: Shard) -> FinishedShard:
        begun_s = cpu_clock()
        rows = HandOvers.joined([windows.make(window) for window in shard.windows])
        folder.write(shard, work.recipe.shard_s, work.digest, rows)
        return FinishedShard(len(shard.windows), cpu_clock() - begun_s)

    return make
