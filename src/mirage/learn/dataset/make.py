"""Making a data set, shard by shard, by whichever executor.

made = make_data_set(recipe, Path("data"), Processes(4))
hand_overs = read_hand_overs(Path("data"))
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mirage.executors.executor import Executor
from mirage.executors.processes import Processes
from mirage.learn.dataset.recipe import Recipe, Shard
from mirage.learn.dataset.shards import Folder
from mirage.learn.dataset.window import WindowMaker
from mirage.learn.hand_overs import HandOvers
from mirage.learn.packages import check_packages
from mirage.provision.compile_ahead import FORECASTS, use

Progress = Callable[[int, int], None]
"""Called with how many windows are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class MadeShard:
    """A shard that has been made.

    Attributes:
        windows: How many.
        cpu_s: CPU time that it took.
    """

    windows: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Made:
    """What making a data set came to.

    Attributes:
        shards: How many there are.
        reused: How many of them had been made before.
        cpu_s: CPU time of those made now.
    """

    shards: int
    reused: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """What a process needs to make shards.

    Attributes:
        folder: Where they are written.
        digest: That they carry.
    """

    recipe: Recipe
    folder: Path
    digest: str


def make_data_set(
    recipe: Recipe, folder: Path, executor: Executor | None = None, progress: Progress | None = None
) -> Made:
    """Make what is missing of a data set.

    The same recipe gives the same data, whatever the number of processes and however often it was stopped and taken up
    again: a shard is written whole, and one that is there is kept.

    Args:
        folder: Where it is to lie; a new one, or one begun with the same recipe.
        executor: Where shards are made; None for this process. Their folder must be seen from there.
        progress: Told of windows that are done.

    Raises:
        ConfigurationError: There is no pyarrow, or the folder holds something else or cannot be written.
    """
    check_packages("a data set", ["pyarrow"])
    place, shards = Folder(folder), recipe.shards()
    digest = place.open_for(recipe)
    missing = [shard for shard in shards if not place.has(shard, recipe.shard_s, digest)]
    total = recipe.study.protocol.windows
    done = total - sum(len(shard.windows) for shard in missing)
    cpu_s = 0.0
    if progress:
        progress(done, total)
    work = Work(recipe, folder, digest)
    if missing:  # compiled once here, where it is told, rather than once by each worker
        use(recipe.study.scenario.discipline)
        if recipe.futures is not None:
            use(FORECASTS)
    for made in (executor or Processes())(shard_maker, work, missing):
        done, cpu_s = done + made.windows, cpu_s + made.cpu_s
        if progress:
            progress(done, total)
    return Made(len(shards), len(shards) - len(missing), cpu_s)


def shard_maker(work: Work, cpu_clock: Callable[[], float] = time.process_time) -> Callable[[Shard], MadeShard]:
    """What makes one shard after another, ascending in time, in one replay of the trace.

    The CPU time of the replay up to a shard counts as the shard's.
    """
    windows, folder = WindowMaker(work.recipe), Folder(work.folder)

    def make(shard: Shard) -> MadeShard:
        begun_s = cpu_clock()
        rows = HandOvers.joined([windows.make(window) for window in shard.windows])
        folder.write(shard, work.recipe.shard_s, work.digest, rows)
        return MadeShard(len(shard.windows), cpu_clock() - begun_s)

    return make
