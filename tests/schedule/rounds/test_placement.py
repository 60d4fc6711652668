"""Places of workers: what stays, what moves, and that everything finds room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirage.schedule.rounds.configurations import JobColumns, configurations
from mirage.schedule.rounds.placement import Choice, Placement
from mirage.schedule.scheduler_contract import GpuAction, GpuPreempt, GpuResize, GpuStart


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


def _two_kinds() -> Placement:
    """Servers 0 and 2 of the first kind with 4 GPUs, 1 and 3 of the second with 2 and 2."""
    return Placement.of(np.array([4, 2, 4, 2]), np.array([0, 1, 0, 1]), 2)


def test_jobs_stay_within_their_kind_of_server() -> None:
    placement = _two_kinds()
    assert (placement.size, placement.free, placement.servers) == ([4, 2, 4, 2], [4, 2, 4, 2], [[0, 2], [1, 3]])
    placement.place([(0, 1, 1), (1, 0, 4), (2, 1, 3), (3, 0, 3)])
    assert placement.places == {1: {0: 4}, 2: {1: 2, 3: 1}, 3: {2: 3}, 0: {3: 1}}
    assert placement.free == [0, 0, 1, 0]
    placement.place([(4, 1, 1)])
    assert placement.left_out == [4]


def test_larger_jobs_are_placed_first_and_of_equal_ones_the_first() -> None:
    placement = _cluster(4, 4)
    placement.place([(3, 0, 2), (1, 0, 4), (2, 0, 2)])
    assert list(placement.places.items()) == [(1, {0: 4}), (2, {1: 2}), (3, {1: 2})]


def test_a_wide_job_gets_empty_servers_and_the_fullest_one_with_room() -> None:
    placement = _cluster(4, 4, 4, 4)
    placement.leave_in_place(0, {0: 1}, 0, movable=False)
    placement.leave_in_place(1, {2: 2}, 0, movable=False)
    placement.place([(2, 0, 6)])
    assert placement.places[2] == {1: 4, 2: 2}
    placement.place([(3, 0, 3)])
    assert placement.places[3] == {0: 3}
    assert placement.free == [0, 0, 0, 4]


def test_a_job_stays_with_all_its_gpus_and_moves_from_one_server_only() -> None:
    """Neither a job on two servers may move nor one that has a whole server."""
    placement = _cluster(4, 4, 4, 4)
    placement.leave_in_place(0, {0: 2, 1: 1}, 0, movable=True)
    placement.leave_in_place(1, {2: 4}, 0, movable=True)
    placement.leave_in_place(2, {3: 1}, 0, movable=True)
    assert (placement.free, placement.movable) == ([2, 3, 0, 3], {2: (0, 1)})
    placement.place([(3, 0, 4)])
    assert placement.places[3] == {3: 4}
    assert placement.moved == {2}
    assert placement.places[2] == {0: 1}, "the fullest with room"


def test_servers_with_the_fewest_used_gpus_are_emptied_and_no_more_than_needed() -> None:
    placement = _cluster(4, 4, 4)
    for job, (server, gpus) in enumerate([(0, 2), (1, 1), (2, 1)]):
        placement.leave_in_place(job, {server: gpus}, 0, movable=True)
    placement.place([(3, 0, 4)])
    assert placement.places == {0: {0: 2}, 2: {2: 1}, 3: {1: 4}, 1: {0: 1}}
    assert placement.moved == {1}


def test_no_server_is_emptied_if_not_all_that_are_needed_can_be() -> None:
    """The job of 8 needs two servers of three; on two of these a job may not move."""
    placement = _cluster(4, 4, 4)
    placement.leave_in_place(0, {0: 1}, 0, movable=True)
    placement.leave_in_place(1, {1: 1}, 0, movable=False)
    placement.leave_in_place(2, {2: 1}, 0, movable=True)
    placement.leave_in_place(3, {2: 1}, 0, movable=False)
    placement.place([(4, 0, 8)])
    assert placement.places[4] == {0: 3, 1: 3, 2: 2}
    assert placement.moved == set()


def test_only_smaller_jobs_make_room_the_smallest_first_where_they_hold_the_fewest_gpus() -> None:
    placement = _cluster(8, 8, 8)
    placement.leave_in_place(0, {0: 5}, 0, movable=False)
    placement.leave_in_place(1, {0: 2}, 0, movable=True)
    placement.leave_in_place(2, {1: 6}, 0, movable=True)
    placement.leave_in_place(3, {1: 1}, 0, movable=True)
    placement.leave_in_place(4, {2: 6}, 0, movable=False)
    placement.leave_in_place(5, {2: 1}, 0, movable=True)
    placement.place([(9, 0, 2)])  # one GPU is free on every server; the one of job 3 and that of job 5 are enough
    assert placement.places[9] == {1: 2}
    assert placement.moved == {3}
    assert placement.places[3] == {0: 1}
    assert placement.free == [0, 0, 1]


def test_jobs_of_the_same_size_do_not_make_room_for_each_other() -> None:
    placement = _cluster(4, 4)
    for job, server in ((0, 0), (1, 1)):
        placement.leave_in_place(job, {server: 3}, 0, movable=True)
    placement.place([(2, 0, 2)])
    assert placement.places[2] == {0: 1, 1: 1}
    assert placement.moved == set()


def test_a_job_that_was_placed_may_move_for_a_later_one() -> None:
    placement = _cluster(4, 4)
    placement.place([(0, 0, 1)])
    placement.leave_in_place(1, {1: 2}, 0, movable=True)
    placement.place([(2, 0, 4)])
    assert placement.places == {1: {1: 2}, 2: {0: 4}, 0: {1: 1}}
    assert placement.moved == {0}


def test_a_spread_job_is_on_as_few_servers_as_possible() -> None:
    placement = _cluster(4, 4, 4)
    for server, gpus in ((0, 3), (1, 2), (2, 2)):
        placement.leave_in_place(server, {server: gpus}, 0, movable=False)
    placement.place([(3, 0, 4)])
    assert placement.places[3] == {1: 2, 2: 2}
    assert placement.free == [1, 0, 0]
    assert not placement.movable


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


def _choice(*, present: list[int], chosen: list[int], paused: list[bool] | None = None, **jobs: Any) -> Choice:
    """Jobs on two servers of 4 T4 and one of 4 V100; each kind has shapes of 1, 2 and 4."""
    n = len(present)
    places = jobs.pop("places")
    columns = SimpleNamespace(
        id=10 + np.arange(n), held=np.array([sum(of.values()) for of in places]), batch=np.array(jobs["batch"]),
        places=lambda k: places[k],
    )  # fmt: skip
    shapes = configurations(np.array([1, 1, 0]), np.array([4, 4, 4]), np.zeros(3, np.int64), 4)
    assert list(zip(shapes.kind, shapes.gpus)) == [(0, 1), (0, 2), (0, 4), (1, 1), (1, 2), (1, 4)]
    kind = np.array([int(shapes.kind_of[next(iter(of))]) if of else -1 for of in places])
    return Choice(
        cast(JobColumns, columns), np.arange(n), shapes, kind, np.array(present), np.array(chosen),
        np.array(paused or [False] * n),
    )  # fmt: skip


def _actions(choice: Choice, *batch: int) -> list[GpuAction]:
    return list(choice.actions(np.array([4, 4, 4]), np.array(batch), ["v100", "t4"], "kill"))


ONE_V100, TWO_V100, FOUR_V100, ONE_T4, TWO_T4, FOUR_T4, NO_GPUS = 0, 1, 2, 3, 4, 5, -1


def test_a_job_that_gets_more_gpus_gets_its_new_batch_too() -> None:
    choice = _choice(present=[ONE_T4], chosen=[TWO_T4], places=[{1: 1}], batch=[32])
    assert _actions(choice, 48) == [GpuResize(10, {0: 2}, batch=48, reason="goodput:gpu_type=t4,gpus=2")]


def test_a_job_starts_changes_its_type_or_loses_its_gpus() -> None:
    choice = _choice(
        present=[NO_GPUS, TWO_T4, ONE_T4, NO_GPUS], chosen=[FOUR_T4, ONE_V100, NO_GPUS, NO_GPUS],
        places=[{}, {0: 2}, {1: 1}, {}], batch=[8, 8, 8, 8],
    )  # fmt: skip
    start, change, leave = _actions(choice, 1, 2, 3, 4)
    assert start == GpuStart(10, {0: 4}, batch=1, reason="goodput:gpu_type=t4,gpus=4")
    assert change == GpuResize(11, {2: 1}, batch=2, reason="goodput:gpu_type=v100,gpus=1")
    assert leave == GpuPreempt(12, "kill", reason="others-gain-more")


def test_a_job_that_stays_changes_its_batch_alone_and_only_if_it_is_another() -> None:
    choice = _choice(present=[TWO_T4, ONE_V100], chosen=[TWO_T4, ONE_V100], places=[{1: 2}, {2: 1}], batch=[8, 9])
    assert _actions(choice, 8, 9) == []
    assert _actions(choice, 8, 10) == [GpuResize(11, batch=10, reason="batch")]


def test_a_job_in_the_way_moves_for_that_reason() -> None:
    """The second job gets a whole server of the type, and either server has one GPU in use."""
    choice = _choice(
        present=[ONE_T4, NO_GPUS, ONE_T4],
        chosen=[ONE_T4, FOUR_T4, ONE_T4],
        places=[{0: 1}, {}, {1: 1}],
        batch=[8, 8, 8],
    )
    assert _actions(choice, 7, 8, 9) == [
        GpuResize(10, {1: 1}, batch=7, reason="moved:gpu_type=t4,gpus=1"),
        GpuStart(11, {0: 4}, batch=8, reason="goodput:gpu_type=t4,gpus=4"),
        GpuResize(12, batch=9, reason="batch"),
    ]


def test_a_job_that_starts_or_stops_is_left_unchanged_and_not_moved() -> None:
    choice = _choice(
        present=[ONE_T4, NO_GPUS, ONE_T4], chosen=[NO_GPUS, FOUR_T4, ONE_T4], places=[{0: 1}, {}, {1: 1}],
        batch=[8, 8, 8], paused=[True, False, False],
    )  # fmt: skip
    assert _actions(choice, 9, 8, 8) == [
        GpuStart(11, {1: 4}, batch=8, reason="goodput:gpu_type=t4,gpus=4"),
        GpuResize(12, {0: 1}, batch=8, reason="moved:gpu_type=t4,gpus=1"),
    ]


def test_a_spread_job_may_get_the_places_that_it_has() -> None:
    """It is not present in any shape, and its places are those that the new shape would have."""
    choice = _choice(present=[NO_GPUS], chosen=[TWO_T4], places=[{0: 2}], batch=[8])
    assert _actions(choice, 9) == []
