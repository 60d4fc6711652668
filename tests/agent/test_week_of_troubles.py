"""A simulated week of twenty healthy chains, the same with and without troubled ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.tag import parse_tag
from mirage.agent.model import Chain, ChainSpec, Link
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.duration import DAY_S
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.records import Submission
from mirage.trace.table import JobTable
from tests.support.agent_store import without_waiting_for_the_disk
from tests.support.faulty_slurm import FaultySlurm

pytestmark = pytest.mark.slow

HEALTHY = 20
WEEK_S = int(os.environ.get("MIRAGE_WEEK_DAYS", "1")) * DAY_S
"""One day in the gate, which has no time for seven."""
SETTINGS = AgentSettings(poll_s=1_800, busy_poll_s=600, decide_s=3_600, decisions_per_link=6, lease_s=DAY_S)
"""Fewer looks than on a cluster: a week is to pass in minutes."""

Trouble = tuple[dict[str, Any], dict[str, Exception], Program]
"""What the chain asks for, what its requests to Slurm meet, and what its jobs do."""

SERVES = Program()
TROUBLES: dict[str, Trouble] = {
    "t-submission-refused": ({}, {"submit": SlurmRefused("sbatch failed: no")}, SERVES),
    "t-submission-unanswered": ({}, {"submit": SlurmUnreachable("sbatch did not answer")}, SERVES),
    "t-release-refused": ({}, {"update": SlurmRefused("access denied")}, SERVES),
    "t-signal-unknown": ({"signal": "NOSUCH"}, {"signal": SlurmRefused("unknown signal")}, SERVES),
    "t-signal-unanswered": ({}, {"signal": SlurmUnreachable("scancel did not answer")}, SERVES),
    "t-cancel-refused": ({"grace_s": 60}, {"cancel": SlurmRefused("access denied")}, Program(leave_s=MISSING)),
    "t-policy-fails": ({"policy": "lead:abc"}, {}, SERVES),
    "t-policy-unknown": ({"policy": "nonsense"}, {}, SERVES),
    "t-ends-at-once": ({"links": 10_000}, {}, Program(run_s=1)),
    "t-fails-at-once": ({}, {}, Program(run_s=1, exit_code=1)),
    "t-never-ready": ({"ready_command": "false"}, {}, SERVES),
    "t-ready-cannot-run": ({"ready_command": "no-shell"}, {}, SERVES),
    "t-fault-of-ours": ({}, {"signal": KeyError("surprise")}, SERVES),
}


class TroubledSlurm(FaultySlurm):
    """A simulated Slurm that has something against some chains."""

    def submit(self, submission: Submission) -> int:
        self._fail("submit", _chain(submission.options.get("comment")))
        return super().submit(submission)

    def cancel(self, job: Any, *, only_pending: bool = False) -> None:
        for one in [job] if isinstance(job, int) else list(job):
            self._fail("cancel", self._chain_of(one))
        super().cancel(job, only_pending=only_pending)

    def signal(self, job: Any, name: str, *, to_batch_shell: bool = False) -> None:
        for one in [job] if isinstance(job, int) else list(job):
            self._fail("signal", self._chain_of(one))
        super().signal(job, name, to_batch_shell=to_batch_shell)

    def update(self, job: Any, changes: Mapping[str, str]) -> None:
        for one in [job] if isinstance(job, int) else list(job):
            self._fail("update", self._chain_of(one))
        super().update(job, changes)

    def _chain_of(self, job: int) -> str:
        return _chain(self.own[job].comment) if job in self.own else ""

    def _fail(self, method: str, chain: str) -> None:
        if chain in TROUBLES and method in TROUBLES[chain][1]:
            raise TROUBLES[chain][1][method]


def _chain(comment: str | None) -> str:
    tag = parse_tag(comment or "")
    return tag.chain if tag is not None else ""


class Shell:
    """Ready commands: ``false`` fails, ``no-shell`` cannot even be started."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        if command == "no-shell":
            raise OSError("no such directory")
        return command != "false"


def a_week(folder: Path, troubled: Mapping[str, Trouble]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Records of each healthy chain, and the reported problems of the troubled ones."""
    cluster = Cluster.pool(HEALTHY * 2 + len(TROUBLES) * 3)  # there is room for all: nobody waits for anybody
    sim = Simulation(cluster, workload(JobTable.build([]), cluster), "easy", begin_s=1_795_255_200)
    programs = lambda requested: troubled.get(_chain(requested.options.get("comment")), ({}, {}, SERVES))[2]  # noqa: E731
    slurm, script = TroubledSlurm(sim, programs), folder / "job.sh"
    script.write_text("#!/bin/sh\n")
    with closing(open_store(f"sqlite:///{folder}/store.db")) as store:
        without_waiting_for_the_disk(store)

        def add(name: str, limit: str, **spec: Any) -> Chain:
            requested = Submission(str(script), {"time": limit, "nodes": "1"})
            return store.add_chain(name, ChainSpec(requested, **spec), int(slurm.clock()))

        healthy = [
            add(f"c{k:02}", f"{6 + k % 7}:00:00", policy=f"lead:{1 + k % 3}", warmup_s=60 * (k % 4), grace_s=60 + k)
            for k in range(HEALTHY)
        ]
        for name, (spec, _, _) in troubled.items():
            add(name, "6:30:00", **{"policy": "lead:1", **spec})
        agent = Agent(
            store, slurm, Shell(), clock=slurm.clock, monotonic=slurm.clock, holder="me", settings=SETTINGS
        )  # fmt: skip
        end_s = slurm.clock() + WEEK_S
        agent.run(slurm.sleep, lambda: slurm.clock() >= end_s)
        lived = {
            chain.name: [
                *(tuple(getattr(link, name) for name in COMPARED) for link in store.links(chain.id)),
                *((event.time_s, event.link, event.kind) for event in store.events(chain.id)),
            ]
            for chain in healthy
        }
        reported = {
            name: " ".join(e.kind + " " + e.detail for e in store.events(store.chain(name).id)) for name in troubled
        }
        return lived, reported


COMPARED = tuple(name for name in Link.__dataclass_fields__ if name not in ("chain", "job", "nodelist"))


def test_the_healthy_ones_do_not_differ_by_a_second(tmp_path_factory: pytest.TempPathFactory) -> None:
    alone, _ = a_week(tmp_path_factory.mktemp("alone"), {})
    other, reported = a_week(tmp_path_factory.mktemp("beside"), TROUBLES)
    assert min(map(len, alone.values())) > WEEK_S // DAY_S * 2 * 6, "there was something to disturb"
    for name, lived in alone.items():
        assert other[name] == lived, f"{name} differs"
    for name, word in OUTPUTS.items():
        assert word in reported[name], f"{name}: {reported[name][-500:]}"


OUTPUTS = {
    "t-submission-refused": "paused sbatch refused 8 times",
    "t-submission-unanswered": "sbatch did not answer",
    "t-release-refused": "cannot be released: access denied",
    "t-signal-unknown": "signal-refused unknown signal",
    "t-signal-unanswered": "scancel did not answer",
    "t-cancel-refused": "cannot be cancelled",
    "t-policy-fails": "lead takes hours",
    "t-policy-unknown": "unknown policy",
    "t-ends-at-once": "paused 8 times in a row links end at once",
    "t-fails-at-once": "paused 3 links in a row failed",
    "t-fault-of-ours": "a fault of Mirage: KeyError",
}
"""What the log of a troubled chain says of it."""
