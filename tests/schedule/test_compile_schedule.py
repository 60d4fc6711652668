"""What is compiled ahead for clusters of GPUs is all that comparisons need."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from mirage.schedule import compile_schedule
from tests.support.compiled_ahead import further_kernels
from tests.support.toy_profiles import write_profiles

COMPARE = """
import sys
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.compare.gpu_comparison import compare
from mirage.schedule.compare.gpu_trial import GpuSetting
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS
folder, *names = sys.argv[1:]
small, large = ServerGroup("small", "slow", 2, 2), ServerGroup("large", "fast", 1, 4)
for groups in ((small,), (small, large)):
    setting = GpuSetting(GpuCluster(groups), folder + "/profiles")
    compare([folder + "/jobs.csv"], names, setting)
"""
SCHEDULERS = ("fifo", "sjf", "srtf", "easy", "tiresias", "aryl", "sia", "sia-plus", "gavel", "gavel-max-min")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("scipy") is None, reason="scipy is not installed")
def test_comparison_needs_no_kernel_beyond_those_compiled_ahead(tmp_path: Path) -> None:
    write_profiles(tmp_path / "profiles")
    jobs = [f"j{k},{30 * k},toy,{1 + k % 3},10" for k in range(8)]
    (tmp_path / "jobs.csv").write_text("\n".join(["name,time,application,num_replicas,batch_size", *jobs, ""]))
    assert further_kernels("schedule", COMPARE, str(tmp_path), *SCHEDULERS) == "further kernels:"


def test_schedulers_that_need_scipy_are_not_played_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []
    monkeypatch.setattr(compile_schedule, "_play", lambda name, types: played.append(name))
    monkeypatch.setattr(compile_schedule, "_choose", lambda unused: played.append("a choice"))
    monkeypatch.setattr(compile_schedule, "find_spec", lambda name: None)
    compile_schedule.use()
    assert played == ["fifo"]
