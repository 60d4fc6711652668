"""A hand-over of a streaming inference server, with and without draining it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_module import benchmark_module
from tests.support.postgres import free_port
from tests.support.reverse_proxies import program

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


def test_no_stream_is_cut_where_a_link_drains_and_some_are_by_default(private_cluster: Any, tmp_path: Path) -> None:
    """Both chains run at the same time.

    ``benchmarks/agent/served_hand_overs.py`` plays 10,000 requests.
    """
    program("nginx")
    cluster = private_cluster(nodes=8)
    played = benchmark_module("agent/served_hand_overs.py")
    found = played.play_chains(cluster, tmp_path, free_port, requests=150, clients=20, most=3_000)
    drained, default = found["drained"], found["default"]
    assert drained["requests"] >= 150
    assert (drained["cut"], drained["refused"]) == (0, 0), found
    assert drained["complete"] == drained["requests"]
    assert drained["hand_overs"] >= 1
    assert drained["drained_in"], "a link has waited for its requests, and left by itself"
    assert default["cut"] >= 1, found
    assert default["refused"] == 0, "the proxy has turned before the server ends"
