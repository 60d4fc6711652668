"""Agents that tests start as processes, and their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.forked_processes import Process

AGENTS: list[Process] = []
"""A test that starts an agent puts it here."""


@pytest.fixture(autouse=True)
def no_agent_outlives_its_test() -> Iterator[None]:
    """End the agents of a test that failed before it could."""
    yield
    while AGENTS:
        with AGENTS.pop() as agent:
            agent.kill()
