"""A tree of the user's own, as a file."""

import pytest


@pytest.fixture
def mine(request, tmp_path):
    """The path of a file with the ``TREE`` of the test's module."""
    file = tmp_path / "mine.txt"
    file.write_text(request.module.TREE)
    return str(file)
