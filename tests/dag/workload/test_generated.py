"""The built-in jobs: drawn anew, they are those that published figures were measured on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mirage.dag.workload.generated import generated_templates
from mirage.dag.workload.templates import LEVELS, JobTemplate, templates_digest


def test_the_built_in_jobs_are_the_published_ones() -> None:
    drawn = generated_templates.__wrapped__()  # without the cache
    check_graphs(drawn)
    check_tasks(drawn)
    check_durations(drawn)
    assert templates_digest(drawn) == templates_digest(generated_templates())


def check_graphs(drawn: Sequence[JobTemplate]) -> None:
    assert [job.name for job in drawn[::23]] == ["2g/g1", "5g/g2", "10g/g3", "20g/g4", "50g/g5", "80g/g6", "100g/g7"]
    stages = [9, 13, 12, 14, 6, 4, 16, 12, 7, 8, 8, 11, 17, 14, 5, 12, 2, 4, 8, 13, 8, 3]
    assert [len(job.stages) for job in drawn] == 7 * stages
    used_twice = [name for name, job in enumerate(drawn[:22], 1) if len(job.edges) == len(job.stages)]
    assert [len(job.edges) for job in drawn[:22]] == [
        count - (number not in used_twice) for number, count in enumerate(stages, 1)
    ]
    assert used_twice == [3, 8, 10, 12, 14, 21]
    assert drawn[0].edges == drawn[132].edges == ((0, 3), (1, 4), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8))


def check_tasks(drawn: Sequence[JobTemplate]) -> None:
    """Tasks grow with the size of the input where they read it."""
    tasks = {job.name: [stage.tasks for stage in job.stages] for job in drawn}
    assert tasks["2g/g1"] == [12, 2, 1, 200, 200, 200, 200, 200, 2]
    assert tasks["100g/g1"] == [590, 2, 1, 200, 200, 200, 200, 200, 2]
    assert tasks["2g/g4"] == [12, 3, 2, 2, 3, 200, 2, 200, 200, 200, 200, 200, 200, 2]
    assert tasks["100g/g22"] == [590, 200, 2]
    assert sum(map(sum, tasks.values())) == 168_954


def check_durations(drawn: Sequence[JobTemplate]) -> None:
    work_s = [272.3, 273.0, 212.2, 467.8, 53.9, 713.7, 1832.4, 1401.2, 2384.0, 3804.2, 1807.0]
    assert [job.work_s for job in drawn[::15]] == pytest.approx(work_s, abs=0.06)
    reads, gathers = drawn[133].stages[0], drawn[133].stages[-1]
    for measured, expected in (
        (reads.fresh_ms, {5: (8, 2910.4), 40: (8, 3400.5), 80: (8, 2951.0)}),
        (reads.first_ms, {5: (8, 1796.8), 40: (8, 2239.0), 80: (8, 2402.6)}),
        (reads.rest_ms, {5: (40, 1499.9), 40: (40, 1606.7), 80: (40, 1919.5)}),
        (gathers.fresh_ms, {5: (3, 770.0), 40: (3, 1033.0), 80: (3, 974.7)}),
        (gathers.first_ms, {5: (3, 166.0), 40: (3, 170.7), 80: (3, 275.7)}),
        (gathers.rest_ms, {5: (3, 26.0), 40: (3, 44.7), 80: (3, 82.7)}),
    ):
        assert tuple(measured) == LEVELS
        for level, (count, mean_ms) in expected.items():
            assert (len(measured[level]), measured[level].mean()) == (count, pytest.approx(mean_ms, abs=0.4))
    waves = [wave for job in drawn for stage in job.stages for wave in (stage.fresh_ms, stage.first_ms, stage.rest_ms)]
    durations = [measured for wave in waves for measured in wave.values()]
    assert {array.dtype for array in durations} == {np.dtype(np.int32)}
    assert min(int(array.min()) for array in durations) >= 1
