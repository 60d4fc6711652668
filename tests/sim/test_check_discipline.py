"""The checker of disciplines finds violations; every registered discipline passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.errors import ConfigurationError, ContractBroken, UnknownName
from mirage.kernel.compile import kernel
from mirage.policy.plan import Plan
from mirage.registry import PlugIn
from mirage.sim.check_discipline import check_discipline
from mirage.sim.cluster import Cluster
from mirage.sim.disciplines.discipline_registry import (
    DISCIPLINES,
    PAUSED,
    DisciplineSpec,
    discipline_spec,
    known_disciplines,
)
from mirage.sim.kernel.arrays import DISCIPLINE, Reference, dereference
from mirage.sim.kernel.job_lifecycle import fits, pending, start
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

MINE = DisciplineSpec("some_package:kernel", "of another package")


@kernel(DISCIPLINE)
def idle(situation: Reference) -> int:
    """Starts nothing."""
    return 0


@kernel(DISCIPLINE)
def never_wide(situation: Reference) -> int:
    """Starts the head of the queue while it fits, but no job of three nodes."""
    world, state, scratch = dereference(situation)
    while state.clock[0].n_pending > 0:
        if state.live[pending(state)[0]].nodes == 3 or not start(world, state, scratch, 0):
            return 0
    return 0


@kernel(DISCIPLINE)
def widest(situation: Reference) -> int:
    """Finds all jobs that fit, and starts the widest of them."""
    world, state, scratch = dereference(situation)
    found = 0
    while found >= 0:
        found, most = -1, 0
        for at in range(state.clock[0].n_pending):
            job = state.live[pending(state)[at]]
            if fits(world, state, scratch, job) and job.nodes > most:
                found, most = at, job.nodes
        if found >= 0:
            start(world, state, scratch, found)
    return 0


def test_jobs_may_be_chosen_among_all_that_fit() -> None:
    """A start never uses the nodes that were picked for the job that was examined last."""
    check_discipline(DisciplineSpec(f"{__name__}:widest", "the widest that fits"))


@pytest.mark.parametrize("name", [name for name in DISCIPLINES if name != "mirage-2023"])
def test_every_discipline_passes(name: str) -> None:
    check_discipline(name)


def test_the_published_simulator_passes_too() -> None:
    check_discipline("mirage-2023")


@pytest.mark.parametrize("name", ["idle", "never_wide"])
def test_one_that_starts_nothing_or_forgets_jobs_is_found(name: str) -> None:
    with pytest.raises(ContractBroken, match=rf"{name} on one pool, seed 0: job \d+ never ran"):
        check_discipline(DisciplineSpec(f"{__name__}:{name}", "broken"))


def test_one_that_decides_by_more_than_it_is_handed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = iter([discipline_spec(name).load() for name in ("fcfs", "easy") * 9])
    monkeypatch.setattr(DisciplineSpec, "load", lambda _: next(kernels))
    with pytest.raises(ContractBroken, match="a second run gives another schedule"):
        check_discipline("fcfs")


@pytest.mark.parametrize(
    ("discipline", "seeds", "message"),
    [("easy", 0, "a check needs a workload, got 0 seeds"), (print, 1, "by its name or its DisciplineSpec")],
)
def test_a_check_needs_a_discipline_and_a_workload(discipline: Any, seeds: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_discipline(discipline, seeds)


def test_scratch_has_the_rows_that_a_discipline_declares() -> None:
    table = JobTable.build([1], submit_s=[0], elapsed_s=[9], limit_s=[9], nodes=[1])
    cluster = Cluster.pool(1)
    few, many = (
        Simulation(cluster, workload(table, cluster), replace(DISCIPLINES["fcfs"], scratch_rows=rows))
        for rows in (0, 5000)
    )
    assert len(few.scratch.timeline) < 5000 == len(many.scratch.timeline) == len(many.fork().scratch.slots)


class Patient:
    def decide(self, view: object) -> Plan:
        return Plan()


@pytest.mark.parametrize("wrong", [None, 3, Patient, lambda view: Plan(), "fcsf"])
def test_a_simulation_takes_a_name_a_specification_or_a_policy(wrong: Any) -> None:
    table = JobTable.build([1], submit_s=[0], elapsed_s=[9], limit_s=[9], nodes=[1])
    cluster = Cluster.pool(1)
    jobs = workload(table, cluster)
    for right in ("fcfs", DISCIPLINES["fcfs"]):
        assert Simulation(cluster, jobs, right).run().end_s.tolist() == [9]
    assert Simulation(cluster, jobs, Patient()).spec == PAUSED
    refusal, complaint = (
        (UnknownName, "Did you mean 'fcfs'")
        if isinstance(wrong, str)
        else (ConfigurationError, r"a discipline is a name, a DisciplineSpec or a policy .*; got")
    )
    with pytest.raises(refusal, match=complaint):
        Simulation(cluster, jobs, wrong)


def test_a_discipline_of_another_package_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        PlugIn("mirage.disciplines", "mine", f"{__name__}:MINE", "my-package"),
        PlugIn("mirage.disciplines", "wrong", f"{__name__}:idle", "my-package"),
    ]
    monkeypatch.setattr("mirage.registry.plug_ins", lambda group="": points)
    assert known_disciplines() == (*DISCIPLINES, "mine", "wrong")
    assert discipline_spec("mine") == MINE
    with pytest.raises(
        ConfigurationError,
        match=r"'wrong': .*:idle is .*, not a DisciplineSpec; fix or uninstall the package my-package",
    ):
        discipline_spec("wrong")
