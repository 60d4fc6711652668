"""Fixtures of the tests of what the agent does in the background."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.recording_server import RecordingServer


@pytest.fixture
def recording_server() -> Iterator[RecordingServer]:
    """A server that ends with its test."""
    made = RecordingServer()
    yield made
    made.server.shutdown()
    made.server.server_close()
