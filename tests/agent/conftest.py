"""What tests of the agent have in common."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.agent.store.sql_store import SqlStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """An empty store in a file."""
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as opened:
        yield opened


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A batch script that does nothing."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    return tmp_path / "job.sh"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="mirage-two-users-") as name:
        Path(name).chmod(0o777)
        yield Path(name)
