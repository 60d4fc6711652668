"""What the tests of the lab share: a script to submit."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a batch script in it, ``job.sh``, without options."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    return tmp_path
