"""A simulated week of twenty healthy chains, alone and beside one in each kind of trouble: not a second differs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.agent import Agent
from mirage.agent.model import Chain, ChainSpec, Link
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.duration import DAY_S
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING
from mirage.lab.virtual.faults import FaultySlurm
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.slurm.values import Submission
from mirage.trace.table import JobTable

pytestmark = pytest.mark.slow

NODES, HEALTHY = 60, 20
WEEK_S = 7 * DAY_S
TROUBLED = "troubled"


class TroubledSlurm(FaultySlurm):
    """A simulated Slurm that has something against one chain.

    Attributes:
        against: What happens to its requests, by the method's name.
    """

    against: Mapping[str, Exception]

    def submit(self, submission: Submission) -> int:
        self._fail("submit", TROUBLED in (submission.options.get("comment") or ""))
        return super().submit(submission)

    def cancel(self, job: int) -> None:
        self._fail("cancel", self._is_troubled(job))
        super().cancel(job)

    def signal(self, job: int, name: str) -> None:
        self._fail("signal", self._is_troubled(job))
        super().signal(job, name)

    def update(self, job: Any, changes: Mapping[str, str]) -> None:
        jobs = [job] if isinstance(job, int) else list(job)
        self._fail("update", any(map(self._is_troubled, jobs)))
        super().update(job, changes)

    def _is_troubled(self, job: int) -> bool:
        return job in self.own and TROUBLED in self.own[job].comment

    def _fail(self, method: str, troubled: bool) -> None:
        if troubled and method in self.against:
            raise self.against[method]


class Shell:
    """A ready command that succeeds for everybody but the troubled chain, where it cannot even be started."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        if environment["MIRAGE_CHAIN"] == TROUBLED:
            raise OSError("no such directory")
        return True


Trouble = tuple[dict[str, Any], dict[str, Exception], Program]

NOTHING = Program()
TROUBLES: dict[str, Trouble] = {
    "every submission refused": ({}, {"submit": SlurmRefused("sbatch failed: no")}, NOTHING),
    "no submission answered": ({}, {"submit": SlurmUnreachable("sbatch did not answer")}, NOTHING),
    "no release allowed": ({}, {"update": SlurmRefused("access denied")}, NOTHING),
    "no signal known": ({"signal": "NOSUCH"}, {"signal": SlurmRefused("unknown signal")}, NOTHING),
    "no cancellation allowed": ({"grace_s": 60}, {"cancel": SlurmRefused("access denied")}, Program(leave_s=MISSING)),
    "a policy that fails": ({"policy": "lead:abc"}, {}, NOTHING),
    "a policy that is not there": ({"policy": "nonsense"}, {}, NOTHING),
    "jobs that end at once": ({"links": 10_000}, {}, Program(run_s=1)),
    "jobs that fail at once": ({}, {}, Program(run_s=1, exit_code=1)),
    "a ready command that cannot run": ({"ready_command": "x"}, {}, NOTHING),
    "a fault of ours": ({}, {"signal": KeyError("surprise")}, NOTHING),
}


class World:
    """Healthy chains, and perhaps a troubled one, on a machine with room for all."""

    def __init__(self, store: SqlStore, folder: Path, against: Mapping[str, Exception], program: Program) -> None:
        cluster = Cluster.pool(NODES)
        sim = Simulation(cluster, workload(JobTable.build([]), cluster), "easy", begin_s=1_795_255_200)
        (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 1\n")
        self.folder, self.store = folder, store
        programs = lambda asked: program if TROUBLED in (asked.options.get("comment") or "") else Program()  # noqa: E731
        self.slurm = TroubledSlurm(sim, programs)
        self.slurm.against = against
        self.agent = Agent(
            store, self.slurm, Shell(), clock=self.slurm.clock, monotonic=self.slurm.clock, holder="me",
            settings=AgentSettings(lease_s=DAY_S),
        )  # fmt: skip

    def add(self, name: str, limit: str, **spec: Any) -> Chain:
        submission = Submission(str(self.folder / "job.sh"), {"time": limit, "nodes": "1"})
        return self.store.add_chain(name, ChainSpec(submission, **spec), int(self.slurm.clock()))

    def live(self, seconds: int) -> None:
        end_s = self.slurm.clock() + seconds
        self.agent.run(self.slurm.sleep, lambda: self.slurm.clock() >= end_s)


def a_week(store: SqlStore, folder: Path, trouble: Trouble | None) -> dict[str, list[Any]]:
    """What became of each healthy chain: its links without their job numbers, and its events."""
    spec, against, program = trouble or ({}, {}, NOTHING)
    world = World(store, folder, against, program)
    chains = [
        world.add(f"c{k:02}", f"{6 + k % 7}:00:00", policy=f"lead:{1 + k % 3}", warmup_s=60 * (k % 4), grace_s=60 + k)
        for k in range(HEALTHY)
    ]
    if trouble is not None:
        world.add(TROUBLED, "6:30:00", **{"policy": "lead:1", **spec})
    world.live(WEEK_S)
    found: dict[str, list[Any]] = {}
    for chain in chains:
        links = [tuple(getattr(link, name) for name in TIMES) for link in world.store.links(chain.id)]
        found[chain.name] = [*links, *((e.time_s, e.link, e.kind) for e in world.store.events(chain.id))]
    return found


TIMES = tuple(name for name in Link.__dataclass_fields__ if name not in ("chain", "job"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("alone")
    with closing(open_store(f"sqlite:///{folder}/store.db")) as store:
        return a_week(store, folder, None)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_healthy_ones_do_not_differ_by_a_second(alone, tmp_path: Path, trouble: str) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        beside = a_week(store, tmp_path, TROUBLES[trouble])
        told = store.chain(TROUBLED)
    assert len(alone["c00"]) > 25 * 5, "there was something to disturb"
    for name, lived in alone.items():
        assert beside[name] == lived, f"{name} beside {trouble}"
    assert told.trouble or told.why or trouble in ("a fault of ours", "no cancellation allowed"), "and it is told"
