"""Gavel's placement: jobs that stay, jobs that lose their GPUs, and jobs that are spread."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirage.schedule.schedulers.gavel import first_fit


def test_a_job_stays_though_an_earlier_server_is_free() -> None:
    places = first_fit([(7, 0, 2)], {7: {1: 2}}, [4, 4], [[0, 1]])
    assert places == {7: {1: 2}}


def test_a_larger_job_takes_the_first_free_gpus_also_those_of_smaller_ones() -> None:
    # the four go on the first server that has any free; the two that were there go where they find something
    places = first_fit([(1, 0, 2), (2, 0, 4)], {1: {0: 2}}, [4, 4], [[0, 1]])
    assert places == {2: {0: 4}, 1: {1: 2}}


def test_no_job_makes_room_and_a_job_is_spread() -> None:
    # both threes stay, so that the two finds one GPU on either server
    places = first_fit([(1, 0, 3), (2, 0, 3), (3, 0, 2)], {1: {0: 3}, 2: {1: 3}}, [4, 4], [[0, 1]])
    assert places == {1: {0: 3}, 2: {1: 3}, 3: {0: 1, 1: 1}}


def test_of_one_size_those_that_stay_come_before_those_that_come_first() -> None:
    places = first_fit([(5, 0, 2), (1, 0, 2)], {1: {0: 2}}, [2, 2], [[0, 1]])
    assert places == {1: {0: 2}, 5: {1: 2}}


def test_kinds_of_servers_are_filled_each_for_itself() -> None:
    free = [1, 4, 4]
    places = first_fit([(1, 1, 4), (2, 0, 3)], {}, free, [[0, 2], [1]])
    assert places == {1: {1: 4}, 2: {0: 1, 2: 2}}
    assert free == [0, 0, 2]


@given(st.lists(st.integers(1, 6), max_size=12), st.integers(0, 2**16))
def test_every_job_that_fits_by_number_gets_all_its_gpus(sizes: list[int], bits: int) -> None:
    size = [4, 4, 4, 4]
    wanted: list[tuple[int, int, int]] = []
    for job, gpus in enumerate(sizes):
        if sum(entry[2] for entry in wanted) + gpus <= sum(size):
            wanted.append((job, 0, gpus))
    before = first_fit(wanted[::2], {}, size.copy(), [[0, 1, 2, 3]])
    held = {job: places for job, places in before.items() if bits >> job & 1}
    free = size.copy()
    places = first_fit(wanted, held, free, [[0, 1, 2, 3]])
    assert {job: sum(at.values()) for job, at in places.items()} == {job: gpus for job, _, gpus in wanted}
    used = [sum(at.get(server, 0) for at in places.values()) for server in range(4)]
    assert [u + f for u, f in zip(used, free)] == size
    assert min(free) >= 0
