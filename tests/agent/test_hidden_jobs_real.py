"""A chain on a real slurmctld that hides the jobs of other users (``PrivateData=jobs``)."""

from __future__ import annotations

import os
import pwd
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.agent import Agent
from mirage.agent.model import ChainSpec, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Submission
from mirage.slurm.runner import Completed, SystemRunner
from mirage.slurm.survey import survey
from tests.support.ready_shells import TrueShell
from tests.support.second_user import OTHER, opened
from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

HELD_S = 10

SERVICE = "#!/bin/bash\ntrap 'exit 0' USR2\nwhile true; do sleep 600 & wait $!; done\n"


class AsOther:
    """A runner of Slurm's commands as an ordinary user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        user = pwd.getpwnam(OTHER)
        self.before = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self.inner, self.count = SystemRunner(environment), Counter[str]()

    def run(self, argv: Sequence[str], **known: Any) -> Completed:
        self.count[argv[0]] += 1
        return self.inner.run([*self.before, *argv], **known)


def test_a_chain_learns_waits_from_its_own_jobs(private_cluster: Any, open_folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming a second user needs root")
    hides = {"accounting": True, "enforce": "", "extra": ("PrivateData=jobs",)}
    cluster = opened(private_cluster(nodes=3, gpus=0, min_job_age_s=36_000, **hides))
    (open_folder / "job.sh").write_text(SERVICE)
    (open_folder / "job.sh").chmod(0o755)
    runner = AsOther(cluster.environment)
    slurm = SlurmClient(runner, clock=time.time, user=OTHER)
    words = {"nodes": "1", "exclusive": None, "output": "/dev/null"}
    everybody = SlurmClient(SystemRunner(cluster.environment))
    others = [everybody.submit(Submission(str(open_folder / "job.sh"), {**words, "time": "60"})) for _ in range(2)]
    findings = {finding.what: finding for finding in survey(slurm)}
    assert findings["other users"].value == "their jobs are hidden: PrivateData=jobs"

    with closing(open_store(f"sqlite:///{open_folder}/store.db")) as store:
        submission = Submission(
            str(open_folder / "job.sh"), {**words, "time": "1"}, environment={"PATH": os.environ["PATH"]},
            directory=str(open_folder),
        )  # fmt: skip
        chain = store.add_chain("train", ChainSpec(submission, policy="auto", grace_s=5), int(time.time()))
        settings = AgentSettings(poll_s=1, busy_poll_s=1, sight_s=3, history_s=3_600, decide_s=2, early_s=3)
        agent = Agent(
            store, slurm, TrueShell(), clock=time.time, monotonic=time.monotonic, holder="me", settings=settings
        )

        def links(state: LinkState) -> list[Link]:
            cycle = agent.cycle()
            assert not cycle.trouble
            time.sleep(agent.pause_s(cycle, 0.0))
            return [link for link in store.links(chain.id) if link.state is state]

        until(lambda: bool(links(LinkState.HELD)), 60, "the next link is held")
        until(lambda: time.time() - links(LinkState.HELD)[0].submitted_s > HELD_S, 60, "it has been held for long")
        slurm.cancel(links(LinkState.RUNNING)[0].job)
        until(lambda: len(links(LinkState.ENDED)) == 1, 60, "the first link has ended")
        until(lambda: len(store.decisions(chain.id, last=1)) == 1, 60, "decisions are made")
        until(lambda: any(one.link == 2 for one in store.decisions(chain.id) if links(LinkState.HELD)), 60, "of link 2")
        for _ in range(4):  # accounting is late
            links(LinkState.HELD)
        (chosen,) = (event.detail for event in store.events(chain.id) if event.kind == "policy-chosen")
        assert chosen.startswith("user-waits: the jobs of other users are hidden (PrivateData=jobs)")
        decisions = store.decisions(chain.id)
        assert {one.policy for one in decisions} == {"user-waits for auto"}
        leads_s = [one.estimate["lead_s"] for one in decisions if one.link == 2]
        assert leads_s
        assert max(leads_s) < HELD_S / 2, "the time in which a link was held is no wait"
        assert "other users" not in {finding.what for finding in survey(everybody)}, "root sees all"
    for job in [*others, *(job.id for job in everybody.observe().jobs)]:
        everybody.cancel(job)
