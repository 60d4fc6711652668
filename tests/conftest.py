"""What all tests share: the development data, which lie beside the checkout and are never part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of development data; a test that needs it is skipped where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("MIRAGE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no development data at {folder}; set MIRAGE_DATA to where they are")
    return folder
