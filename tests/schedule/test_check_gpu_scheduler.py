"""The checker of GPU schedulers finds violations; every built-in scheduler passes."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
import pytest

from mirage.errors import ConfigurationError, ContractBroken, UnknownName
from mirage.schedule.check_gpu_scheduler import check_gpu_scheduler
from mirage.schedule.scheduler_contract import Event, GpuPlan, GpuStart, GpuView, Surroundings
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


class OnlyOneType(Right):
    """Starts no job on a server of another type than the first."""

    def decide(self, view: GpuView) -> GpuPlan:
        plan = super().decide(view)
        return GpuPlan(tuple(a for a in plan.actions if isinstance(a, GpuStart) and not view.servers.gpu_type.any()))


class Odd(Right):
    """Is right in its odd instances; the even ones, the second runs, may do something else.

    Its calls are rounds in which it decides by what it received at the beginning.
    """

    name, round_s, called_on = "Odd 1.0", 2500.0, int(Event.ENDED)

    def __init__(self) -> None:
        RUNS[0] += 1
        self.instance = RUNS[0]

    def begin(self, surroundings: Surroundings) -> None:
        self.jobs = surroundings.jobs

    def order(self, view: GpuView) -> Any:
        return super().order(view)[:: 1 if self.jobs == 30 else -1]

    def decide(self, view: GpuView) -> GpuPlan:
        return self.second(view) if self.instance % 2 == 0 else super().decide(view)

    def second(self, view: GpuView) -> GpuPlan:
        return super().decide(view)


class OddPlanless(Odd):
    def second(self, view: GpuView) -> Any:
        return None


class ThirdRun(Right):
    """Is idle from its third instance on."""

    def __init__(self) -> None:
        RUNS[0] += 1
        self.idle = RUNS[0] > 2

    def decide(self, view: GpuView) -> GpuPlan:
        return GpuPlan() if self.idle else super().decide(view)


class Recording(Right):
    """Records the first view of each job: its columns, its submission and its end."""

    jobs: ClassVar[list[dict[int, dict[str, float]]]] = []

    def __init__(self) -> None:
        self.observed: dict[int, dict[str, float]] = {}
        self.jobs.append(self.observed)

    def decide(self, view: GpuView) -> GpuPlan:
        names = ("submit_s", "gpus", "min_gpus", "max_gpus", "run_s", "restart_s", "pool")
        for k, job in enumerate(view.jobs.id.tolist()):
            self.observed.setdefault(job, {name: float(getattr(view.jobs, name)[k]) for name in names})
        return super().decide(view)


def spec(name: str) -> GpuSchedulerSpec:
    return GpuSchedulerSpec(f"{__name__}:{name}", "")


def broken(name: str, **options: Any) -> str:
    RUNS[0] = 0
    with pytest.raises(ContractBroken) as refused:
        check_gpu_scheduler(spec(name), **options)
    return str(refused.value)


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
        ("Overbooking", "action start of .* was refused: .*; fix the scheduler, or run it without strict"),
    ],
)
def test_a_violation_is_named(name: str, complaint: str) -> None:
    RUNS[0] = 0
    with pytest.raises(
        ContractBroken, match=f"test_check_gpu_scheduler:{name} on three servers, seed 0: .*{complaint}"
    ):
        check_gpu_scheduler(spec(name))


def test_the_whole_message_names_the_scheduler_the_cluster_and_the_seed() -> None:
    assert broken("Moody") == (
        f"{__name__}:Moody on three servers, seed 0: a second run gives another schedule; decide by the views alone, "
        "and copy what you store of them (view.copy())"
    )
    assert broken("Speechless").endswith(" without a reason; give one as word or word:key=value,…")


def test_a_scheduler_that_fails_on_several_gpu_types_is_found() -> None:
    assert broken("OnlyOneType").startswith(f"{__name__}:OnlyOneType on two GPU types, seed 0: at ")


def test_every_cluster_has_as_many_workloads_as_requested() -> None:
    assert broken("ThirdRun").startswith(f"{__name__}:ThirdRun on three servers, seed 1: at ")
    assert broken("ThirdRun", seeds=1).startswith(f"{__name__}:ThirdRun on two GPU types, seed 0: at ")


def test_in_the_second_run_a_scheduler_has_its_calls_its_name_and_its_surroundings() -> None:
    check_gpu_scheduler(spec("Odd"), seeds=1)
    assert broken("OddPlanless") == (
        f"{__name__}:OddPlanless on three servers, seed 0: Odd 1.0 returns None; let decide return a GpuPlan, an empty "
        "one to wait"
    )


def test_the_workloads_of_the_check_have_jobs_of_all_kinds() -> None:
    """Each fits on one server, and has an estimate and a cost of its own."""
    Recording.jobs.clear()
    check_gpu_scheduler(spec("Recording"))
    assert Recording.jobs[::2] == Recording.jobs[1::2], "two runs of each"
    first, second, *others = Recording.jobs[::2]
    assert [first, second] == others, "both clusters have the same workloads"
    assert first != second
    for jobs in (first, second):
        column = {name: np.array([jobs[job][name] for job in range(30)]) for name in jobs[0]}
        assert set(column["gpus"]) == {1, 2, 3, 4}
        assert (column["gpus"] == 1).sum() > 5
        assert (column["min_gpus"] == column["gpus"]).all()
        assert (column["max_gpus"] == column["gpus"]).all()
        assert (column["pool"] == -1).all()
        assert 0 <= column["submit_s"].min() < column["submit_s"].max() < 20_000
        assert 90 <= column["run_s"].min() < 1500 < 9000 < column["run_s"].max() < 1.5 * 7200
        assert 0 <= column["restart_s"].min() < 10 < 50 < column["restart_s"].max() < 60


def test_a_scheduler_that_cannot_be_made_is_not_checked() -> None:
    with pytest.raises(UnknownName, match="unknown GPU scheduler 'fofo'"):
        check_gpu_scheduler("fofo")
    with pytest.raises(ConfigurationError, match=r"gpu_fifo:scheduler has no parameter depth; it has none$"):
        check_gpu_scheduler("fifo", depth=3)


@pytest.mark.parametrize(
    ("scheduler", "seeds", "message"),
    [("fifo", 0, "a check needs a workload, got 0 seeds"), (Odd, 1, "by its name or its GpuSchedulerSpec; got <class")],
)
def test_a_check_needs_a_scheduler_and_a_workload(scheduler: Any, seeds: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_gpu_scheduler(scheduler, seeds)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_built_in_schedulers_pass(name: str) -> None:
    needed = {"service_gpu_s": (600.0, 3600.0, 86400.0)} if name == "gittins" else {}
    check_gpu_scheduler(name, seeds=1, **needed)
