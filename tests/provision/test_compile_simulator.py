"""Kernels that two processes compile."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from mirage.provision.compile_simulator import compile_with_forecasts
if __name__ == "__main__":
    compile_with_forecasts("slurm", {processes})
    print(*sorted({{"mirage.forecast.rollout_kernel", "mirage.sim.disciplines.slurm"}} & sys.modules.keys()))
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_the_discipline_is_compiled_elsewhere(processes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(processes=processes)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["mirage.forecast.rollout_kernel"]
    assert "Error" not in done.stderr
