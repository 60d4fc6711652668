"""Troubles of a controller on a private real cluster, and what must hold afterwards.

Jobs are finite. Each writes its starts and its end into a file of its own, and holds a lock while it runs: so a job
that is lost, or that runs twice at once, is found without Slurm's help.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.control.adviser import Adviser
from mirage.control.executor_folder import lock_holder
from mirage.control.verbs import FENCE, LEASE, LOAN
from mirage.errors import SlurmError
from mirage.slurm.records import SlurmReservation
from mirage.slurm.text.reservations import RESERVATIONS_COMMAND, read_reservations
from tests.support.control_site import Site
from tests.support.forked_processes import Process, mirage, start
from tests.support.started_agents import AGENTS
from tests.support.waiting import until

FINITE = """#!/bin/bash
#SBATCH --output=/dev/null --requeue --mem=10
trap '' USR1
exec 9> $1.lock
flock --nonblock 9 || echo twice >> $1
echo start $(date +%s.%N) >> $1
sleep $2 && echo end >> $1
"""

SETTINGS = """
[rates]
requests_per_minute = 60
commands_per_minute = 600
evictions_per_hour = 1000
evictions_per_job_hour = 60
"""

PROMISE_S = 120
LOSS_S = 6.0
"""Slurmctld may lose a job, or its start, of less than this before it was killed."""

DELAY_S = 120
"""Slurm's delay of a requeued job that nobody releases: its default."""

KILLED = ("planner", "executor", "both")


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A job that sbatch has accepted.

    Attributes:
        at_s: When, in seconds since 1970.
    """

    id: int
    name: str
    at_s: float


class Soak(Site):
    """A cluster with a stream of short jobs, and controllers that die.

    Attributes:
        most: How many jobs have not ended at a time.
        adviser: An adviser that outlives the controllers; None for none.
        jobs: All acknowledged jobs.
        slurmctld_killed_s: When slurmctld was killed, in seconds since 1970.
        counts: What was done.
        drain_s: How long the last jobs needed after the controller was switched off.
        slowest_end_s: The longest time that a controller needed to end after one of its processes was killed.
    """

    def __init__(self, private_cluster: Any, folder: Path, seed: int, most: int = 8, delay_s: int = DELAY_S) -> None:
        super().__init__(private_cluster, folder, nodes=6, cred_expire_s=delay_s)
        self.most = most
        self.dice = random.Random(seed)
        self.shell.script("finite.sh", FINITE)
        pools = (folder / "pools.toml").read_text().replace('"aryl"', '"aryl"\npoll = "6s"')
        pools = pools.replace("[borrower]", f'promise = "{PROMISE_S}s"\n[borrower]')
        (folder / "pools.toml").write_text(f'{pools}grace = "2s"\n{SETTINGS}')
        (folder / "jobs").mkdir()
        self.adviser: Adviser | None = None
        self.jobs: list[Acknowledged] = []
        self.slurmctld_killed_s: list[float] = []
        self.counts: Counter[str] = Counter()
        self.slowest_end_s = 0.0
        self.before = self.state()
        self.drain_s = 0.0
        self._open: list[Acknowledged] = []
        self._lives = 0

    # -- jobs --------------------------------------------------------------------------------------------------------

    def send_jobs(self) -> None:
        """Submit jobs until some have not ended; those of the owner are one of them at most."""
        self._open = [job for job in self._open if "end" not in self.lines(job)]
        owned = [job for job in self._open if job.name.startswith("owner")]
        if not owned and self.dice.random() < 0.5:
            width = self.dice.choice((1, 2, 4))
            self.finite("owner", 5, f"-N{width}", "--gpus-per-node=4", "-p", "inference", f"--reservation={FENCE}")
        while len(self._open) < self.most:
            gpus, seconds = self.dice.choice((1, 2, 3, 4, 4)), self.dice.choice((2, 5, self.most + 3))
            limit = str(self.dice.choice((1, 1, 2)))
            self.finite("train", seconds, f"--gpus={gpus}", "-p", "train", "--comment=mirage-control", "-t", limit)

    def finite(self, kind: str, seconds: float, *words: str) -> Acknowledged:
        """A job, by default of a minute at most."""
        name = f"{kind}-{len(self.jobs)}-{self.counts['not acknowledged']}"
        script = (str(self.folder / "finite.sh"), str(self.folder / "jobs" / name), str(seconds))
        try:
            number = int(self.run("sbatch", "--parsable", "-t", "1", "-J", name, *words, *script))
        except SlurmError:
            self.counts["not acknowledged"] += 1
            raise
        job = Acknowledged(number, name, time.time())
        self.jobs.append(job)
        self._open.append(job)
        return job

    def lines(self, job: Acknowledged) -> list[str]:
        """The lines of the file of a job."""
        return self._lines(job.name)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / "jobs" / name
        return path.read_text().splitlines() if path.exists() else []

    def wait_with_jobs(self, seconds: float) -> None:
        """Let time pass while jobs come, and the adviser takes snapshots."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.send_jobs()
            if self.adviser is not None:
                self.adviser.advise(time.time())
            time.sleep(min(0.3, max(end_s - time.monotonic(), 0.0)))

    # -- controllers -------------------------------------------------------------------------------------------------

    def controller(self, state: str = "state") -> Process:
        self._lives += 1
        words = ("control", "run", "--config", "pools.toml", "--act", "--state", state)
        views = ("--record", f"views-{self._lives}")
        log = self.folder / f"{state}.log"
        AGENTS.append(start(mirage, *words, *views, env=self.shell.environment, cwd=self.folder, out=log, err=log))
        return AGENTS[-1]

    def until_it_acts(self) -> None:
        """Wait until a controller has the lease, and its executor the lock."""
        log = self.folder / "state.log"
        until(lambda: lock_holder(self.folder / "state") is not None and self.has_lease(), 20, log.read_text)

    def has_recorded(self) -> bool:
        """Whether the newest controller has recorded a view."""
        return any(self.folder.glob(f"views-{self._lives}/view-*.json"))

    def has_lease(self) -> bool:
        return any(one.name == LEASE for one in self.all_reservations())

    def kill(self, controller: Process, which: str) -> None:
        """kill -9 of a controller's processes; both must end then."""
        executor = lock_holder(self.folder / "state")
        begun_s = time.monotonic()
        if which != "planner" and executor is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)
        if which != "executor" or executor is None:
            controller.kill()
        self.counts[f"{which} killed"] += 1
        ended = lambda: controller.poll() is not None and lock_holder(self.folder / "state") is None  # noqa: E731
        until(ended, 10, (self.folder / "state.log").read_text, pause_s=0.05)
        self.slowest_end_s = max(self.slowest_end_s, time.monotonic() - begun_s)

    def kill_between_requeue_and_release(self, controller: Process) -> None:
        """kill -9 as soon as the executor has requeued a job that runs on a lent node."""
        before = self.verbs_sent()["requeue"]
        long = [job for job in self._open if job.name.startswith("long") and "end" not in self.lines(job)]
        for _ in range(4 - len(long)):
            self.finite("long", 20, "--gpus=4", "-p", "train", "--comment=mirage-control")
        self._wait(self.borrowers, 25, 0.3)
        self.finite("owner", 3, "-N4", "--gpus-per-node=4", "-p", "inference", f"--reservation={FENCE}")
        requeues = self._wait(lambda: self.verbs_sent()["requeue"] > before, 25, 0.005)
        self.counts["killed after a requeue"] += requeues
        time.sleep(self.dice.choice((0.0, 0.02, 0.1, 0.5)))
        self.kill(controller, "executor")

    @staticmethod
    def _wait(condition: Callable[[], bool], seconds: float, pause_s: float) -> bool:
        end_s = time.monotonic() + seconds
        while not (found := condition()) and time.monotonic() < end_s:
            time.sleep(pause_s)
        return found

    def refuse_a_second(self, state: str) -> None:
        """A second controller must not begin, with the folder of the first or another."""
        why = "another controller acts with" if state == "state" else "another controller acts on this cluster"
        self.shell.mirage("control", "run", "--config", "pools.toml", "--act", "--state", state, status=1)
        assert why in self.shell.stderr, self.shell.stderr
        self.counts["second refused"] += 1

    def off(self) -> float:
        """Switch the controller off; returns the seconds that it took."""
        begun_s = time.monotonic()
        printed = self.shell.mirage("control", "off", "--config", "pools.toml", "--state", "state")
        assert printed.endswith("nothing of the controller is left in Slurm\n")
        return time.monotonic() - begun_s

    # -- slurmctld ---------------------------------------------------------------------------------------------------

    def kill_slurmctld(self, down_s: float) -> None:
        self.slurmctld_killed_s.append(time.time())
        self.cluster.kill_controller()
        time.sleep(down_s)
        self.cluster.start_controller()
        self.counts["slurmctld killed"] += 1
        self.resume_nodes()
        queued = set(self.run("squeue", "--noheader", "--format=%j").split())
        self._open = [job for job in self._open if job.name in queued]  # others come in place of those that are lost

    def resume_nodes(self) -> None:
        """Resume drained nodes, as an operator does.

        Slurmctld gives the id of a lost job to another one. It drains a node on which the lost one still runs: the node
        reports a "Duplicate jobid" (22.05.8).
        """
        drained = set(self.run("sinfo", "--noheader", "--Node", "--states=drain", "--format=%N").split())
        for node in sorted(drained):
            with contextlib.suppress(SlurmError):  # slurmctld does not know its state yet
                self.counts["nodes resumed"] += 1
                self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
                self.counts["drained by slurmctld"] += 1

    def reconfigure(self) -> None:
        self.run("scontrol", "reconfigure")
        self.counts["reconfigure"] += 1

    # -- what must hold ----------------------------------------------------------------------------------------------

    def all_reservations(self) -> Sequence[SlurmReservation]:
        return read_reservations(self.shell.slurm.output(RESERVATIONS_COMMAND))[0]

    def loans(self) -> dict[str, int]:
        """Loans by name, with their end."""
        return {one.name: one.end_s for one in self.all_reservations() if one.name.startswith(LOAN)}

    def borrowers(self) -> bool:
        """Whether a job that takes part runs on a node of the owner."""
        return bool(self.run("squeue", "--noheader", "--partition=train", "--nodelist=n[3-6]").strip())

    def state(self) -> dict[str, Any]:
        """What a controller could have changed: reservations, jobs, nodes and partitions."""
        jobs = self.run("squeue", "--noheader", "--format=%j %y %V %r").splitlines()
        nodes = self.run("sinfo", "--noheader", "--Node", "--format=%N %P %G %f %w").splitlines()
        return {
            "reservations": self.reservations(),
            "nices": sorted(line.split()[1] for line in jobs if line.split()[1] != "0"),
            "held": [line for line in jobs if "deleted" in line],
            "nodes": sorted(nodes),
        }

    def until_all_have_ended(self) -> None:
        """Wait for the jobs; a requeued job is held for two minutes without a release."""
        begun_s = time.monotonic()
        queue = lambda: self.run("squeue", "-O", "JobID,Name,State,Reason:60,Reservation")  # noqa: E731
        until(self._all_have_ended, 60, queue, pause_s=1)
        self.drain_s = time.monotonic() - begun_s

    def _all_have_ended(self) -> bool:
        """Whether no job is in the queue.

        Slurmctld forgets a start that it has not written; it starts the job again on the node where it runs, the node
        refuses, and the job is held (22.05.8). An operator releases it.
        """
        self.resume_nodes()
        rows = [line.split("|") for line in self.run("squeue", "--noheader", "--format=%i|%j|%r").splitlines()]
        for number, name, reason in rows:
            if "launch failed" in reason:
                has_ended = "end" in self._lines(name)
                self.run(*(("scancel", number) if has_ended else ("scontrol", "release", number)))
                self.counts["held by slurmctld"] += 1
        return not rows

    def lost(self) -> list[Acknowledged]:
        """Acknowledged jobs that have not ended."""
        return [job for job in self.jobs if "end" not in self.lines(job)]

    def twice(self) -> list[Acknowledged]:
        """Jobs that ran twice at once, or ended twice."""
        return [job for job in self.jobs if "twice" in self.lines(job) or self.lines(job).count("end") > 1]

    def killed_after_s(self, job: Acknowledged) -> float:
        """Seconds from the acknowledgement of a job to the kill of slurmctld; infinite for none."""
        return min((at_s - job.at_s for at_s in self.slurmctld_killed_s if at_s >= job.at_s), default=math.inf)

    def starts_s(self, job: Acknowledged) -> list[float]:
        """When a job started, in seconds since 1970."""
        return [float(line.split()[1]) for line in self.lines(job) if line.startswith("start ")]

    def is_slurms_own(self, job: Acknowledged) -> bool:
        """Whether slurmctld was killed soon after it acknowledged or started a job.

        A job whose start it has forgotten is started again, perhaps on another node, while it runs.
        """
        written = (job.at_s, *self.starts_s(job))
        return any(0 <= killed_s - at_s < LOSS_S for killed_s in self.slurmctld_killed_s for at_s in written)

    def reused(self) -> list[tuple[Acknowledged, Acknowledged]]:
        """Pairs of jobs with one id."""
        by_id: dict[int, Acknowledged] = {}
        found = []
        for job in self.jobs:
            if job.id in by_id:
                found.append((by_id[job.id], job))
            by_id[job.id] = job
        return found

    def recorded_submissions(self) -> Iterator[tuple[float, int, int]]:
        """Time of the view, id and first submission of each job in the recorded views."""
        for path in self.folder.glob("views-*/view-*.json"):
            with contextlib.suppress(ValueError):  # its process was killed
                view = json.loads(path.read_text())
                yield from ((view["now_s"], row["id"], row["submit_s"]) for row in view["slurm_jobs"])

    def verbs_sent(self) -> Counter[str]:
        """The commands in the journal, by verb."""
        path = self.folder / "state" / "journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(json.loads(line)["verb"]["name"] for line in lines if line.endswith("}"))

    def replay(self) -> int:
        """Decide all recorded views again; returns their number."""
        folders = sorted(str(path) for path in self.folder.glob("views-*") if any(path.glob("view-*.json")))
        found = json.loads(self.shell.mirage("control", "replay", "--json", *folders))
        assert found["different"] == []
        return int(found["views"])

    def administrators_requests(self) -> int:
        """Requests in slurmctld's log that need an administrator, without those of this site."""
        log = (self.cluster.spec.log / "slurmctld.log").read_text(errors="replace")
        assert "received opcode REQUEST_CREATE_RESERVATION" in log, "the log shows requests"
        kinds = "UPDATE_NODE|UPDATE_PARTITION|CREATE_PARTITION|DELETE_PARTITION|RECONFIGURE|SHUTDOWN|CONTROL"
        sent = Counter(re.findall(rf"received opcode REQUEST_({kinds})\b", log))
        own = {"RECONFIGURE": self.counts["reconfigure"], "UPDATE_NODE": self.counts["nodes resumed"]}
        return sum((sent - Counter(own)).values())

    def report(self, **figures: Any) -> dict[str, Any]:
        """The figures of a run; also printed."""
        restarts = sum(max(len(self.starts_s(job)) - 1, 0) for job in self.jobs)
        found = {
            **dict(self.counts), "jobs": len(self.jobs), "lost": len(self.lost()), "twice": len(self.twice()),
            "lost_by_slurmctld": sum(map(self.is_slurms_own, self.lost())), "reused_ids": len(self.reused()),
            "twice_by_slurmctld": sum(map(self.is_slurms_own, self.twice())),
            "oldest_lost_s": round(max(map(self.killed_after_s, self.lost()), default=0.0), 1), "restarts": restarts,
            "drain_s": round(self.drain_s, 1), "slowest_end_s": round(self.slowest_end_s, 2),
            "verbs": dict(self.verbs_sent()), **figures,
        }  # fmt: skip
        print(json.dumps(found))
        return found
