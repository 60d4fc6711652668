"""The tests' own work as that of an installed package: jobs accept nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.executor_work import pythonpath


@pytest.fixture(autouse=True)
def installed_work(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    monkeypatch.setenv("PYTHONPATH", pythonpath(folder), prepend=":")
    monkeypatch.syspath_prepend(folder)
    return folder
