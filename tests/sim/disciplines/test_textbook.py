"""Compiled disciplines against plain ones on random queues full of ties."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.sim.simulation import simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support import textbook
from tests.support.clusters import Case, cases, pools, with_reservations


def plainly(case: Case, pass_of: object) -> list[int]:
    jobs = [textbook.Job(int(j.submit_s), int(j.run_s), int(j.limit_s), int(j.nodes)) for j in case.jobs.jobs]
    return textbook.replay(jobs, case.cluster.nodes, pass_of, case.cluster.reservations)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_starts_are_the_textbook_ones(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(pools(), max_jobs=30))
    schedule = simulate(case.cluster, case.jobs, name)
    np.testing.assert_array_equal(schedule.start_s, plainly(case, getattr(textbook, name)))


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_starts_around_reservations_are_the_textbook_ones(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(with_reservations(pools()), max_jobs=30))
    schedule = simulate(case.cluster, case.jobs, name)
    np.testing.assert_array_equal(schedule.start_s, plainly(case, getattr(textbook, name)))


@settings(max_examples=60, deadline=None)
@given(case=cases(pools(), max_jobs=30), tested=st.integers(1, 5))
def test_conservative_plans_only_the_jobs_tested(case: Case, tested: int) -> None:
    schedule = simulate(case.cluster, case.jobs, "conservative", SlurmSettings(max_job_test=tested))
    plain = plainly(case, partial(textbook.conservative, tested=tested))
    np.testing.assert_array_equal(schedule.start_s, plain)
