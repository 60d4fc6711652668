"""The cache folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.cache_folder import cache_folder


@pytest.mark.parametrize("named", ["", "cache", "./cache"])
def test_a_relative_path_does_not_count(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_folder() == Path("/home/ada/.cache/mirage")
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch/ada")
    assert cache_folder() == Path("/scratch/ada/mirage")
