"""Places of workers: what stays, what moves, and that everything finds room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirage.schedule.rounds.configurations import Configurations, JobColumns
from mirage.schedule.rounds.placement import Choice, Placement
from mirage.schedule.scheduler_contract import GpuResize


def _cluster(*sizes: int) -> Placement:
    return Placement.of(np.array(sizes), np.zeros(len(sizes), np.int64), 1)


def test_small_jobs_fill_servers_that_are_in_use_before_empty_ones() -> None:
    placement = _cluster(4, 4)
    placement.leave_in_place(0, {1: 2}, 0, movable=True)
    placement.place([(1, 0, 1)])
    placement.place([(2, 0, 4)])
    assert placement.places == {0: {1: 2}, 2: {0: 4}, 1: {1: 1}}
    assert not placement.moved


def test_a_job_in_the_way_of_a_whole_server_moves_and_one_that_may_not_move_stays() -> None:
    placement = _cluster(4, 4)
    placement.leave_in_place(0, {0: 2}, 0, movable=True)
    placement.leave_in_place(1, {1: 1}, 0, movable=False)
    placement.place([(2, 0, 4)])
    assert placement.places == {1: {1: 1}, 2: {0: 4}, 0: {1: 2}}
    assert placement.moved == {0}


def test_the_smallest_jobs_move_and_no_more_than_needed() -> None:
    placement = _cluster(8, 8)
    for job, (server, gpus) in enumerate([(0, 4), (0, 1), (0, 1), (1, 2), (1, 4)]):
        placement.leave_in_place(job, {server: gpus}, 0, movable=True)
    placement.place([(9, 0, 4)])  # 2 free on either server: the two single ones leave the first, or the pair the second
    assert placement.places[9] in ({0: 4}, {1: 4})
    assert sum(len(p) for p in placement.places.values()) == 6
    assert placement.moved in ({1, 2}, {3})


def test_where_nothing_can_move_a_job_is_spread_and_where_nothing_is_free_it_is_left_out() -> None:
    placement = _cluster(4, 4)
    placement.leave_in_place(0, {0: 3}, 0, movable=False)
    placement.leave_in_place(1, {1: 3}, 0, movable=False)
    placement.place([(2, 0, 2)])
    assert placement.places[2] == {0: 1, 1: 1}
    placement.place([(3, 0, 1)])
    assert placement.left_out == [3]


@given(st.lists(st.sampled_from([1, 2, 4, 8, 16, 24]), max_size=20), st.data())
def test_shapes_within_the_capacity_find_room_without_being_split(wanted: list[int], data: st.DataObject) -> None:
    placement, left, taken = _cluster(8, 8, 8), 24, []
    for gpus in wanted:
        if gpus <= left:
            taken.append(gpus)
            left -= gpus
    first = data.draw(st.integers(0, len(taken)))
    placement.place([(job, 0, gpus) for job, gpus in enumerate(taken[:first])])
    placement.place([(job, 0, gpus) for job, gpus in enumerate(taken)][first:])
    assert not placement.left_out
    for job, gpus in enumerate(taken):
        places = placement.places[job]
        assert sum(places.values()) == gpus
        assert len(places) == -(-gpus // 8)
    assert all(free >= 0 for free in placement.free)
    assert sum(placement.free) == left


def test_a_job_that_gets_more_gpus_gets_its_new_batch_too() -> None:
    jobs = SimpleNamespace(id=np.array([5]), held=np.array([1]), batch=np.array([32]), places=lambda k: {0: 1})
    shapes = SimpleNamespace(
        kind=np.zeros(2, np.int64), gpus=np.array([1, 2]), gpu_type=np.array([0]), kind_of=np.zeros(2, np.int64),
        capacity=np.array([8]),
    )  # fmt: skip
    choice = Choice(
        cast(JobColumns, jobs), np.array([0]), cast(Configurations, shapes), kind=np.array([0]), present=np.array([0]),
        chosen=np.array([1]), paused=np.array([False]),
    )  # fmt: skip
    (action,) = choice.actions(np.array([4, 4]), np.array([48]), ["t4"], "save")
    assert isinstance(action, GpuResize)
    assert (action.job, action.batch, action.reason) == (5, 48, "goodput:gpu_type=t4,gpus=2")
    assert action.places is not None
    assert sum(action.places.values()) == 2
