"""Schedulers as teachers of trees, with their preference for each candidate if known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.dag.distilled.decisions import Teacher
from mirage.dag.schedulers.stage_schedulers import StageScheduler


def teacher_of(scheduler: StageScheduler) -> Teacher:
    """Makes a teacher; a network also gives probabilities and its likeliest decision."""
    from mirage.dag.decima import deciders

    networks = (deciders.decide_2019, deciders.decide_spark_sched_sim, deciders.decide_own)
    if scheduler.decider not in networks:
        return Teacher(scheduler)
    return Teacher(scheduler, _likings, _likeliest(scheduler) if scheduler.seeded else None)


def _likeliest(scheduler: StageScheduler) -> StageScheduler:
    """A network that draws, changed to take its likeliest decision."""
    from mirage.dag.decima.networks.workspace import ARGMAX

    space = scheduler.parameters.copy()
    space[ARGMAX : ARGMAX + 1].view(np.int64)[:] = 1
    return replace(scheduler, parameters=space, seeded=False)


def _likings(space: Floats, stages: Ints) -> Floats:
    """The probabilities of stages in a network, from the scores of its last decision."""
    from mirage.dag.decima.networks.network_graph import STAGES
    from mirage.dag.decima.networks.workspace import arrays_of

    _, graph, room = arrays_of(space)
    count = int(graph.size[STAGES])
    offered = graph.offered[:count]
    score = np.where(offered, room.stage_score[:count].astype(np.float64), -np.inf)
    chance = np.exp(score - score.max())
    of_stage = dict(zip(graph.stage[:count].tolist(), (chance / chance.sum()).tolist(), strict=True))
    return np.array([of_stage.get(int(stage), 0.0) for stage in stages])
