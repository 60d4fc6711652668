"""Templates of jobs as arrays, prepared once for many episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.dag.simulator.dag_arrays import STAGE, WAVE, Records, records
from mirage.dag.workload.templates import FIRST, FRESH, LEVELS, REST, JobTemplate
from mirage.job_state import Ints


@dataclass(frozen=True, slots=True)
class PackedGraph:
    """One job's graph.

    Attributes:
        stages: STAGE, with indices into the next two counted from 0.
        parents: Of one stage after the other, as numbers of the job's stages.
        children: In the same form.
    """

    stages: Records
    parents: Ints
    children: Ints


@dataclass(frozen=True, slots=True)
class PackedTemplates:
    """Many templates.

    Attributes:
        graphs: By template.
        waves: WAVE, shape (stages of all templates, levels, 3).
        durations_ms: All durations, one wave after another.
    """

    graphs: tuple[PackedGraph, ...]
    waves: Records
    durations_ms: NDArray[np.int32]


@lru_cache(maxsize=4)
def pack_templates(templates: tuple[JobTemplate, ...], warm_up_ms: int) -> PackedTemplates:
    """Puts graphs and durations into arrays, with each gap in the measurements filled."""
    graphs, first_profile = [], 0
    for template in templates:
        graphs.append(_packed_graph(template, first_profile))
        first_profile += len(template.stages)
    return PackedTemplates(tuple(graphs), *_packed_durations(templates, warm_up_ms))


def _packed_durations(templates: Sequence[JobTemplate], warm_up_ms: int) -> tuple[Any, NDArray[np.int32]]:
    profiles = [stage for template in templates for stage in template.stages]
    waves = records(WAVE, len(profiles), len(LEVELS), 3)
    place: dict[int, int] = {}  # of arrays already added
    pieces: list[NDArray[np.int32]] = []
    filled = 0
    for row, profile in enumerate(profiles):
        for level, executors in enumerate(LEVELS):
            for wave in (FRESH, FIRST, REST):
                measured, added_ms = profile.measured(wave, executors, warm_up_ms)
                if id(measured) not in place:
                    place[id(measured)] = filled
                    pieces.append(measured)
                    filled += len(measured)
                waves[row, level, wave] = (place[id(measured)], len(measured), added_ms)
    return waves, np.concatenate(pieces)


def _packed_graph(template: JobTemplate, first_profile: int) -> PackedGraph:
    n = len(template.stages)
    stages = records(STAGE, n)
    stages.tasks = [stage.tasks for stage in template.stages]
    rough = [stage.rough_ms for stage in template.stages]
    stages.rough_ms = np.rint(rough)
    stages.profile = first_profile + np.arange(n)
    stages.critical_ms = np.rint(template.longest_path_ms(rough))
    work = stages.tasks * stages.rough_ms
    stages.below_ms = [sum(int(work[other]) for other in below) for below in template.stages_below()]
    parents: list[int] = []
    children: list[int] = []
    for stage in range(n):
        stages[stage].first_parent, stages[stage].first_child = len(parents), len(children)
        parents += sorted(parent for parent, child in template.edges if child == stage)
        children += sorted(child for parent, child in template.edges if parent == stage)
        stages[stage].n_parents = len(parents) - stages[stage].first_parent
        stages[stage].n_children = len(children) - stages[stage].first_child
    return PackedGraph(stages, np.array(parents, np.int64), np.array(children, np.int64))
