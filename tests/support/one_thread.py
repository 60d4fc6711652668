"""PyTorch on one thread: two wait for each other where cores are shared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Limits PyTorch to one thread, in folders with a ``conftest.py`` that imports this."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
