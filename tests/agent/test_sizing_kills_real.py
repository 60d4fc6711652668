"""kill -9 while links are sized and the chain is edited, on a real slurmctld."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.model import Link, LinkState
from mirage.agent.store.sql_store import open_store
from mirage.errors import SlurmError
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import QueuedJob
from tests.support.forked_processes import Process, mirage, start
from tests.support.killed_chain import QUICK
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell

KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "6"))

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

OTHER = ("PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP DefMemPerCPU=1000",)

SERVICE = """#!/bin/bash
#SBATCH --output=/dev/null
trap 'exit 0' USR2
echo "$MIRAGE_LINK $SLURM_JOB_ID" >> service.log
sleep 3 & wait $!
"""

POINTS = (
    "never", "never", "never", "after:add_link", "after:attempt", "after:submit", "before:update", "after:update",
    "before:change_link=sized", "after:change_link=sized", "before:change_link=sized-back", "after:change_link=started",
)  # fmt: skip
"""Where an agent dies that has not been killed before: a third of them at no point."""


@dataclass(frozen=True)
class Size:
    """What an edit sets: the minutes of a limit are those of one edit only."""

    minutes: int

    @property
    def nodes(self) -> int:
        return 1 + self.minutes % 2

    @property
    def partition(self) -> str:
        return ("main", "other")[self.minutes // 2 % 2]

    @property
    def words(self) -> tuple[str, ...]:
        return "-t", str(self.minutes), "-N", str(self.nodes), "-p", self.partition


class Soak:
    """One chain, a reservation that comes, moves and goes, and edits, some of them killed."""

    def __init__(self, shell: Shell, dice: random.Random) -> None:
        self.shell, self.dice = shell, dice
        self.sizes = [Size(minutes) for minutes in dice.sample(range(15, 90 + KILLS), 1 + KILLS)]
        self.edits = 0
        self.edited: list[tuple[float, int]] = []
        self.begins_s = MISSING
        self.done: Counter[str] = Counter()
        shell.script("serve.sh", SERVICE)
        shell.submit("soak", *self.sizes[0].words, "--policy", "dependency", "--least-life", "0", "--grace", "5s",
                     "--shortest-link", "5m", "--for", "10d", "serve.sh")  # fmt: skip

    def agent(self, point: str = "never") -> Process:
        return self.shell.agent_with(point, **{**QUICK, "sight_s": 3})

    def reserve(self) -> None:
        """Create, move or delete the reservation of all nodes."""
        lasts_s = self.dice.randrange(20, 58) * 60
        words = ["update", "ReservationName=maint"]
        if self.begins_s == MISSING:
            words = ["create", "reservation", "ReservationName=maint", "Nodes=ALL", "Users=root", "Duration=60",
                     "Flags=MAINT,IGNORE_JOBS"]  # fmt: skip
        elif self.dice.random() < 0.5:
            self.shell.cluster.run("scontrol", "delete", "ReservationName=maint")
            self.begins_s = MISSING
            self.done["reservations deleted"] += 1
            return
        self.begins_s = int(time.time()) + lasts_s
        begins = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self.begins_s))
        self.shell.cluster.run("scontrol", *words, f"StartTime={begins}")
        self.done["reservations made or moved"] += 1

    def edit(self) -> None:
        """Change limit, nodes and partition; some edits are killed, some replace the job."""
        self.edits += 1
        words = ["chain", "edit", "soak", *self.sizes[self.edits].words]
        words += ["--replace-waiting"] if self.dice.random() < 0.3 else []
        if self.dice.random() < 0.7:
            self.shell.mirage(*words)
            self.edited.append((time.time(), self.edits))
            self.done["edits"] += 1
            return
        command = start(mirage, *words, env=self.shell.environment, cwd=self.shell.folder,
                        out=self.shell.folder / "edit.log", err=self.shell.folder / "edit.log")  # fmt: skip
        AGENTS.append(command)
        time.sleep(self.dice.uniform(0.05, 0.4))
        self.done["edits killed" if command.poll() is None else "edits"] += 1
        command.kill()
        command.wait()

    def links(self) -> dict[int, Link]:
        with closing(open_store(f"sqlite:///{self.shell.environment['MIRAGE_HOME']}/store.db")) as store:
            return {link.number: link for link in store.links(store.chain("soak").id)}

    def violations(self) -> list[str]:
        """What must never be: a link twice, lost, or with options of two different edits."""
        jobs, links = self.shell.found("soak"), self.links()
        wrong = [f"link {n} has jobs {[job.id for job in found]}" for n, found in jobs.items() if len(found) > 1]
        if sorted(jobs) != list(range(1, len(jobs) + 1)):
            wrong.append(f"links {sorted(jobs)} have jobs")
        edits = {number: self._edit(job, links[number]) for number, (job, *_) in jobs.items() if number in links}
        wrong += [f"{links[n]} has the size of no edit: {jobs[n][0]}" for n, edit in edits.items() if edit == MISSING]
        known = [(number, edit) for number, edit in sorted(edits.items()) if edit != MISSING]
        wrong += [f"link {b} is older than link {a}" for (a, x), (b, y) in pairwise(known) if y < x]
        for number, edit in known:
            job = jobs[number][0]
            due = max((one for at_s, one in self.edited if job.submit_s > at_s + 2), default=0)
            if edit < due:
                wrong.append(f"link {number}, submitted at {job.submit_s}, is of edit {edit}, not {due}: {job}")
        return wrong

    def _edit(self, job: QueuedJob, link: Link) -> int:
        """The edit that a job has its limit, nodes and partition from; ``MISSING`` for none."""
        usual_s = max(job.limit_s, link.shortened_from_s)
        found = (usual_s, job.nodes, job.partition)
        fits = [k for k, one in enumerate(self.sizes) if (one.minutes * 60, one.nodes, one.partition) == found]
        return fits[0] if fits else MISSING

    def settle(self) -> None:
        """With a healthy agent the waiting link gets the size that is right now."""
        agent = self.agent()
        wrong = Counter[str]()

        def settled() -> bool:
            found = self.unsettled()
            wrong[found] += 1
            return not found

        try:
            self.shell.until(settled, 10, "the waiting link has its size")
        except AssertionError as error:
            raise AssertionError(f"{dict(wrong)}; {self.shell.cluster.run('scontrol', 'show', 'res')}") from error
        agent.kill()
        agent.wait()

    def unsettled(self) -> str:
        """What is wrong with the size of the waiting link; empty for nothing."""
        try:
            jobs, links = self.shell.found("soak"), self.links()
        except SlurmError as error:
            return str(error)
        waiting = [link for link in links.values() if link.state in (LinkState.HELD, LinkState.QUEUED)]
        running = [job for found in jobs.values() for job in found if job.state is JobState.RUNNING]
        if len(waiting) != 1 or waiting[0].number not in jobs or not running:
            return f"no link waits while one runs: {waiting}, {running}"
        (link,), job = waiting, jobs[waiting[0].number][0]
        usual_s = max(link.limit_s, link.shortened_from_s)
        if job.state is not JobState.PENDING or job.limit_s != link.limit_s:
            return f"{job} is not {link}"
        start_s = max(one.start_s + one.limit_s for one in running)
        fits = self.begins_s == MISSING or start_s + usual_s <= self.begins_s
        if fits:
            return "" if (job.limit_s, link.shortened_from_s) == (usual_s, MISSING) else f"{link} is not sized back"
        most_s = self.begins_s - start_s
        if most_s < 8 * 60:  # it gains too little to be shortened
            return "" if job.limit_s == usual_s or job.limit_s <= most_s else f"{link} is too long"
        return "" if 0 < job.limit_s <= most_s else f"{link} is too long"


@pytest.mark.timeout(60 * max(KILLS, 10))
def test_random_kills_of_an_agent_that_sizes_links_of_a_chain_that_is_edited(
    private_cluster: Any, tmp_path: Path
) -> None:
    shell = Shell(private_cluster(nodes=4, gpus=0, min_job_age_s=36_000, extra=OTHER), tmp_path)
    dice = random.Random(20261127)
    soak = Soak(shell, dice)
    for k in range(KILLS):
        agent = soak.agent(dice.choice(POINTS))
        time.sleep(dice.uniform(0.0, 1.0))
        soak.reserve()
        time.sleep(dice.uniform(0.0, 2.0))
        if dice.random() < 0.6:
            soak.edit()
        time.sleep(dice.uniform(0.0, 2.0))
        soak.done["killed at a point" if agent.poll() is not None else "killed"] += 1
        agent.kill()
        assert agent.wait() == -signal.SIGKILL, (tmp_path / "agent.log").read_text()[-3000:]
        if wrong := soak.violations():
            raise AssertionError(f"{wrong}\n{shell.mirage('chain', 'log', 'soak')[-3000:]}")
        if k % 6 == 5:
            soak.settle()
            assert soak.violations() == []
        print(f"{k + 1} kills, {dict(soak.done)}, {len(shell.log())} links started", flush=True)
    kinds = Counter(shell.kinds("soak"))
    sized = {kind: kinds[kind] for kind in ("sized", "sized-back", "size-refused", "edited")}
    print(f"soak: {KILLS} kills, {dict(soak.done)}, {len(shell.log())} links started, {sized}")
    started = [line.split()[0] for line in shell.log()]
    assert len(started) == len(set(started)), "no link runs twice"
    assert not kinds["vanished"]
    assert kinds["sized"] or KILLS < 20, "few kills may leave no time to size a link"
    shell.mirage("chain", "stop", "soak")
