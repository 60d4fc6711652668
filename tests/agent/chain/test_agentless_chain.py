"""The use of limits that a chain without an agent starts with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage.agent.chain.agentless_chain import measured_use
from mirage.agent.chain.create import check_folder
from mirage.agent.model import StoreIdentity
from mirage.agent.paths import Home
from mirage.agentless.shell_features import LEAST_ENDED, THOUSAND, USE_S
from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.records import AccountedJob

NOW = 1_700_000_000


class Accounting:
    """Slurm with accounting only: the given jobs, or no answer."""

    def __init__(self, *jobs: AccountedJob) -> None:
        self.jobs = jobs
        self.since_s = 0

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        self.since_s = since_s
        if not self.jobs:
            raise SlurmUnreachable("no slurmdbd")
        return self.jobs


def ended(job: int, run_s: int, limit_s: int, nodes: int) -> AccountedJob:
    return AccountedJob(job, JobState.COMPLETED, nodes=nodes, limit_s=limit_s, start_s=NOW, end_s=NOW + run_s)


def test_jobs_in_accounting_count_by_the_node_time_that_they_requested() -> None:
    jobs = [ended(k, 60, 600, 1) for k in range(LEAST_ENDED)] + [ended(k, 1200, 1800, 4) for k in range(LEAST_ENDED)]
    endless, never = ended(1, 600, UNLIMITED_S, 9), ended(2, 0, 600, 9)
    slurm: Any = Accounting(*jobs, endless, never)
    assert measured_use(slurm, NOW) == round(THOUSAND * (60 + 4 * 1200) / (600 + 4 * 1800))
    assert slurm.since_s == NOW - USE_S


def test_limits_count_in_full_without_accounting() -> None:
    nothing: Any = Accounting()
    assert measured_use(nothing, NOW) == THOUSAND
    few: Any = Accounting(*(ended(k, 60, 600, 1) for k in range(LEAST_ENDED - 1)))
    assert measured_use(few, NOW) == THOUSAND


def test_no_chain_with_an_agent_gets_its_name(tmp_path: Path) -> None:
    home = Home(tmp_path, f"sqlite:///{tmp_path}/store.db")
    home.agentless_folder("alone").mkdir(parents=True)
    check_folder(home, "serve", StoreIdentity("a", ""))
    with pytest.raises(ConfigurationError, match=r"without an agent in .*/agentless/alone; choose another name"):
        check_folder(home, "alone", StoreIdentity("a", ""))
