"""The base, ``pip install mirage-hpc``, runs the main commands of a login node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mirage.extras import install
from tests.support.base_only import ROOT, base_distributions


def test_the_base_is_small() -> None:
    assert base_distributions() <= {
        "click", "greenlet", "llvmlite", "markdown-it-py", "mdurl", "numba", "numpy", "pygments", "rich", "sqlalchemy",
        "typing-extensions",
    }  # fmt: skip


@pytest.mark.slow
def test_the_main_commands_run_without_any_extra(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.base_only", tmp_path], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Submitted batch job" in done.stdout
    assert "lead-reached" in done.stdout
    refused = (
        f"metrics need prometheus-client, which is not installed; run: {install('metrics')}",
        f"Parquet needs pyarrow, which is not installed; run: {install('parquet')}",
        f"ChainEnv: the environment needs gymnasium, which is not installed; run: {install('env')}",
        f"DagEnv: the environment needs gymnasium, which is not installed; run: {install('env')}",
    )
    assert [line for line in refused if line not in done.stdout + done.stderr] == []
    assert "Traceback" not in done.stdout + done.stderr
