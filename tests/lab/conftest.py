"""What the tests of the lab share: a script to submit, and a zone that no default happens to be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a batch script in it, ``job.sh``, that asks for nothing."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    return tmp_path


@pytest.fixture
def newfoundland(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """3 h 30 min behind UTC in winter."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/St_Johns")
        time.tzset()
        yield
    time.tzset()
