"""Durations of tasks, drawn from measured ones.

The draw of a task depends only on the episode's seed, its stage and its number, and not on earlier draws: two
schedulers on one episode get the same durations, which makes their paired differences small.
"""

from __future__ import annotations

from mirage.dag.simulator.dag_arrays import NO_STAGE, DagState, DagWorld
from mirage.dag.workload.templates import FIRST, FRESH, REST
from mirage.kernel.compile import kernel
from mirage.kernel.random import BITS_32, mixed_32


@kernel()
def wave_of(state: DagState, executor: int, stage: int) -> int:
    """The wave of a task: an executor's first for a while, its first on the stage, or neither."""
    last = state.executors[executor].last_stage
    if last == NO_STAGE:
        return FRESH
    return REST if last == stage else FIRST


@kernel()
def duration_ms(world: DagWorld, state: DagState, stage: int, task: int, wave: int) -> int:
    """The duration of a task for an executor that is already counted at the job.

    Profiles were measured with few numbers of executors. Between two of them one is drawn, and the lower one is the
    likelier the closer the number is to the upper one: both published environments do this.
    """
    local = state.jobs[world.stages[stage].job].local
    bits = bits_of_task(world, stage, task)
    level = world.levels[local, 0] if bits < world.chance[local] * 2.0**32 else world.levels[local, 1]
    return drawn_ms(world, stage, level, wave, bits)


@kernel()
def bits_of_task(world: DagWorld, stage: int, task: int) -> int:
    """The random bits that all draws of a task start from."""
    return mixed_32(int(world.salts[stage] + 0x9E3779B9 * task & BITS_32))


@kernel()
def drawn_ms(world: DagWorld, stage: int, level: int, wave: int, bits: int) -> int:
    """The duration of a task at one of the ``LEVELS``, in a wave.

    Args:
        world: Fixed arrays of the episode.
        stage: The stage of the task.
        level: Index of the measured number of executors.
        wave: Fresh, first or rest.
        bits: From ``bits_of_task``.
    """
    place = world.waves[world.stages[stage].profile, level, wave]
    bits = mixed_32(bits ^ 0x5BD1E995)
    drawn = int(world.durations_ms[place.first + (bits * place.count >> 32)] + place.added_ms)
    noise = world.settings[0].noise
    if noise > 0.0:
        factor = 1.0 + noise * (mixed_32(bits ^ 0x3C6EF372) * 2.0**-31 - 1.0)
        drawn = max(1, int(drawn * factor))
    return drawn
