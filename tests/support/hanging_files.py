"""Files that hang when they are opened, as on a file system that does not answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirage.control import progress_files


@contextmanager
def hanging(*paths: Path, patience_s: float = 0.05, short_patience_s: float = 5.0) -> Iterator[None]:
    """Make pipes without a writer: to open one as a progress file waits.

    In this context, progress files are opened without O_NONBLOCK. At the end the openings return.

    Args:
        paths: The pipes.
        patience_s: Time that a reader waits for the first one.
        short_patience_s: Time that it waits for a file while others hang.
    """
    for path in paths:
        os.mkfifo(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "O_NONBLOCK", 0)
        patch.setattr(progress_files, "_PATIENCE_S", patience_s)
        patch.setattr(progress_files, "_SHORT_PATIENCE_S", short_patience_s)
        yield
    for path in paths:
        if path.is_fifo():
            os.close(os.open(path, os.O_RDWR))
