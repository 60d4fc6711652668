"""Teachers: schedulers as trees learn of them, with how much they like each candidate where that can be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.dag.distilled.decisions import Teacher
from mirage.dag.schedulers.registry import Scheduler
from mirage.job_state import Floats, Ints


def teacher_of(scheduler: Scheduler) -> Teacher:
    """A scheduler as a teacher; a network also tells the probability of each stage, and its likeliest decision."""
    from mirage.dag.decima import deciders

    networks = (deciders.decide_2019, deciders.decide_spark_sched_sim, deciders.decide_own)
    if scheduler.decider not in networks:
        return Teacher(scheduler)
    return Teacher(scheduler, _likings, _likeliest(scheduler) if scheduler.seeded else None)


def _likeliest(scheduler: Scheduler) -> Scheduler:
    """A network that draws, made to take its likeliest decision."""
    from mirage.dag.decima.networks.workspace import ARGMAX

    space = scheduler.parameters.copy()
    space[ARGMAX : ARGMAX + 1].view(np.int64)[:] = 1
    return replace(scheduler, parameters=space, seeded=False)


def _likings(space: Floats, stages: Ints) -> Floats:
    """The probabilities with which a network picks stages, from the scores of its last decision."""
    from mirage.dag.decima.networks.graph import STAGES
    from mirage.dag.decima.networks.workspace import arrays_of

    _, graph, room = arrays_of(space)
    count = int(graph.size[STAGES])
    offered = graph.offered[:count]
    score = np.where(offered, room.stage_score[:count].astype(np.float64), -np.inf)
    chance = np.exp(score - score.max())
    of_stage = dict(zip(graph.stage[:count].tolist(), (chance / chance.sum()).tolist(), strict=True))
    return np.array([of_stage.get(int(stage), 0.0) for stage in stages])
