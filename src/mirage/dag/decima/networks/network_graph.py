"""Graphs of stages for networks, and the working arrays of a forward pass.

Rows are stages of the jobs in the system, the stages of a job consecutive, jobs in the order of their arrival.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.dag.decima.networks.layers import Floats32, Ints

Flags = NDArray[np.bool_]

JOBS, STAGES, LINKS = 0, 1, 2
"""Indices in ``Graph.size``."""


class NetworkGraph(NamedTuple):
    """The input of a network at one moment.

    Attributes:
        size: Shape (3,): present jobs, stages and links; the other arrays may be longer.
        begin: Shape (jobs + 1,): first row of each job.
        features: Shape (stages, features).
        child_begin: Shape (stages + 1,): first of each stage's children in ``child``.
        child: Shape (links,): rows of children.
        unfinished: Shape (stages,): whether some of its tasks have not ended.
        offered: Shape (stages,): whether it may be picked.
        stage: Shape (stages,): its number in the simulator.
        job: Shape (jobs,): its number in the simulator.
    """

    size: Ints
    begin: Ints
    features: Floats32
    child_begin: Ints
    child: Ints
    unfinished: Flags
    offered: Flags
    stage: Ints
    job: Ints


class Room(NamedTuple):
    """Arrays that a forward pass overwrites; its results are the scores.

    Attributes:
        initial: Shape (stages, width): stages before messages are passed.
        embedding: Shape (stages, width): stages with their descendants.
        message: Shape (stages, width): sums of messages.
        job_summary: Shape (jobs, width).
        global_summary: Shape (1, width).
        hidden: Shape (2, widest layer).
        level: Shape (stages,): depths.
        marked: Shape (3, stages).
        stage_score: Shape (stages,), valid where ``Graph.offered``.
        number_score: Shape (numbers,): scores of the numbers of executors, or of limits.
    """

    initial: Floats32
    embedding: Floats32
    message: Floats32
    job_summary: Floats32
    global_summary: Floats32
    hidden: Floats32
    level: Ints
    marked: Flags
    stage_score: Floats32
    number_score: Floats32
