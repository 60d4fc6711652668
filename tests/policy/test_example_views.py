"""The example views: a chain from the submission of a link to its end."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from mirage.policy.example_views import BEGIN_S, LIMIT_S, NODES, QUEUED, STEP_S, example_views, queued_views
from mirage.policy.view import ChainView, View

HOUR = 3600


def columns(table: object) -> dict[str, list[float]]:
    return {field.name: getattr(table, field.name).tolist() for field in fields(table)}  # type: ignore[arg-type]


def test_the_moments_of_the_link() -> None:
    views = list(example_views())
    assert [view.now_s - BEGIN_S for view in views] == [
        0, 0, 24 * HOUR, 44 * HOUR, 47 * HOUR + HOUR // 2, 48 * HOUR,
    ]  # fmt: skip
    waits = ChainView(1, LIMIT_S, 0, BEGIN_S, -1, -1, STEP_S)
    runs = ChainView(1, LIMIT_S, 0, BEGIN_S - HOUR, BEGIN_S, BEGIN_S + LIMIT_S, STEP_S)
    assert [view.chain for view in views] == [waits, *[runs] * 5]


def test_the_link_is_the_last_that_waits_then_the_last_that_runs_then_gone() -> None:
    views = list(example_views())
    waits, runs, gone = views[0], views[1:5], views[5]
    assert waits.pending.id.tolist() == [*range(6, 18), 0]
    assert waits.running.id.tolist() == [*range(1, 6)]
    assert [view.running.id.tolist() for view in runs] == [[1, 2, 3, 4, 5, 0]] * 4
    assert gone.pending.id.tolist() == [*range(6, 18)]
    assert gone.running.id.tolist() == [*range(1, 6)]


@pytest.mark.parametrize("view", list(example_views(4)), ids=lambda view: str(view.now_s))
def test_the_queue_is_longer_than_the_cluster_is_free(view: View) -> None:
    assert view.pending.nodes.sum() > view.nodes.free[0, 0]
    assert view.nodes.capacity.tolist() == [[NODES, 0]]
    assert (view.pending.width == 0).all()
    assert (view.running.width == view.running.nodes).all()
    assert (view.running.done_s == view.now_s - view.running.start_s).all()


@pytest.mark.parametrize("view", list(example_views(4)), ids=lambda view: str(view.now_s))
def test_what_has_ended_comes_in_order_and_ran_after_it_was_submitted(view: View) -> None:
    ended = view.ended
    assert (np.diff(ended.end_s) >= 0).all()
    assert (ended.submit_s <= ended.start_s).all()
    assert (ended.start_s < ended.end_s).all()
    assert ended.end_s.max() <= view.now_s
    assert ended.end_s.min() > view.now_s - 96 * HOUR


def test_a_seed_is_a_cluster() -> None:
    first, again, other = (next(example_views(seed)) for seed in (1, 1, 2))
    for name in ("pending", "running", "ended"):
        assert columns(getattr(first, name)) == columns(getattr(again, name))
        assert columns(getattr(first, name)) != columns(getattr(other, name))


def test_a_queued_link_waits_or_is_held_as_in_its_chain() -> None:
    for view in queued_views():
        assert view.chain is not None
        assert view.chain.queued is not None
        competes = QUEUED in view.pending.id
        assert competes == (not view.chain.queued.held and view.chain.queued.begins_s <= view.now_s)
        assert (QUEUED in view.held.id) is not competes
