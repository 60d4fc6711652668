"""The checker of GPU schedulers finds violations; every built-in scheduler passes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from mirage.errors import ContractBroken
from mirage.schedule.check_gpu_scheduler import check_gpu_scheduler
from mirage.schedule.scheduler_contract import GpuPlan, GpuStart, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS, GpuSchedulerSpec

RUNS = [0]


class Right:
    """Starts jobs by number while they fit on one server."""

    reason = "fits"

    def decide(self, view: GpuView) -> GpuPlan:
        free, starts = view.servers.free.copy(), []
        for k in np.flatnonzero(view.jobs.pending)[self.order(view)]:
            gpus, server = int(view.jobs.gpus[k]), int(free.argmax())
            if gpus <= free[server]:
                free[server] -= gpus
                starts.append(GpuStart(int(view.jobs.id[k]), {server: gpus}, reason=self.reason))
        return GpuPlan(tuple(starts))

    def order(self, view: GpuView) -> Any:
        return np.argsort(view.jobs.id[view.jobs.pending])


class Speechless(Right):
    reason = ""


class Idle(Right):
    def decide(self, view: GpuView) -> GpuPlan:
        return GpuPlan()


class Late(Right):
    def decide(self, view: GpuView) -> GpuPlan:
        time.time()
        return super().decide(view)


class Moody(Right):
    def __init__(self) -> None:
        RUNS[0] += 1
        self.turn = RUNS[0] % 2

    def order(self, view: GpuView) -> Any:
        return super().order(view)[:: 1 if self.turn else -1]


class Hoarding(Right):
    """Stores a column of the last view, and decides by it."""

    last: Any = None

    def order(self, view: GpuView) -> Any:
        earlier, self.last = self.last, view.servers.gpus
        order = super().order(view)
        return order if earlier is None or earlier[0] > 0 else order[::-1]


class Overbooking(Right):
    def decide(self, view: GpuView) -> GpuPlan:
        return GpuPlan(tuple(GpuStart(int(job), {0: 4}, reason="all") for job in view.jobs.id[view.jobs.pending]))


def spec(name: str) -> GpuSchedulerSpec:
    return GpuSchedulerSpec(f"{__name__}:{name}", "")


def test_a_scheduler_that_satisfies_the_contract_passes() -> None:
    check_gpu_scheduler(spec("Right"))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Speechless", "without a reason; give one as word"),
        ("Idle", "jobs wait, nothing runs, and Idle starts none of them"),
        ("Late", "the scheduler reads the clock time while it decides; use view.now_s"),
        ("Moody", "a second run gives another schedule; decide by the views alone"),
        ("Hoarding", r"a second run gives another schedule; .*copy what you store of them \(view.copy\(\)\)"),
        ("Overbooking", "was refused: "),
    ],
)
def test_a_violation_is_named(name: str, complaint: str) -> None:
    RUNS[0] = 0
    with pytest.raises(ContractBroken, match=f"test_check_gpu_scheduler:{name} on .*{complaint}"):
        check_gpu_scheduler(spec(name))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_built_in_schedulers_pass(name: str) -> None:
    needed = {"service_gpu_s": (600.0, 3600.0, 86400.0)} if name == "gittins" else {}
    check_gpu_scheduler(name, seeds=1, **needed)
