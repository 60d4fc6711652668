"""Views: how much of what they show there is."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.policy.example_views import example_views
from mirage.policy.view import ChainView, Nodes, View


@pytest.mark.parametrize(
    ("pools", "capacity", "total"),
    [
        (True, [[3, 0], [0, 0], [4, 0]], 7),
        (False, [[8, 64], [0, 64], [4, 0]], 3),
        (False, [[0, 0], [1, 1]], 1),
        (True, [[0, 0]], 0),
        (False, [[0, 0]], 0),
    ],
)
def test_nodes_that_are_there_are_counted(pools: bool, capacity: list[list[int]], total: int) -> None:
    """A pool has a number of nodes; of shared nodes, those with any capacity count."""
    held = np.array(capacity)
    assert Nodes(pools, held, np.zeros_like(held), np.ones((1, len(capacity)), np.bool_)).total == total


def test_tables_are_as_long_as_their_rows() -> None:
    view = next(example_views())
    lengths = [len(table) for table in (view.pending, view.running, view.held, view.ended)]
    assert lengths == [13, 5, 0, 200]


def test_a_link_takes_whole_nodes_of_the_first_partition_by_default() -> None:
    chain = ChainView(2, 3600, 9, 10, 20, 3620, 60)
    assert (chain.user, chain.partition, chain.gpus, chain.cpus) == (0, 0, -1, -1)


def test_a_view_is_of_the_whole_cluster_unless_it_has_a_chain() -> None:
    shown = next(example_views())
    view = View(5, shown.nodes, shown.pending, shown.running, shown.held, shown.ended)
    assert (view.chain, view.phase_s) == (None, 0)
