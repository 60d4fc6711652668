"""Accounts and settings of a cluster: gathered gently, whole, and refused if misleading."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.calibration.declared_settings import DeclaredSettings
from mirage.calibration.site.site_accounts import (
    PAUSE_S,
    SacctHistory,
    SiteAccounts,
    site_accounts,
    stores_accounts,
    with_associations,
)
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, RequestNotSent, SlurmRefused, SlurmUnreachable
from mirage.job_state import JobState
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.slurm.client import SlurmClient
from mirage.slurm.text.sacct import HISTORY_FIELDS
from mirage.trace.table import JobTable, Labels
from tests.support.site_slurm import BEGIN_S, POOL, SiteCommandLines, site_slurm

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture(scope="module")
def slurm() -> VirtualSlurm:
    return site_slurm()


class Login:
    """A login node of a cluster with a clock of real seconds; pauses are noted."""

    def __init__(self, slurm: VirtualSlurm, spool: Path, answers_s: float = 0.1, **of: Any) -> None:
        self.lines, self.now_s = SiteCommandLines(slurm, spool, **of), int(slurm.clock())
        self.slept_s: list[float] = []
        self.parts: list[tuple[int, int]] = []
        self.answers_s, self._real_s = answers_s, 0.0
        self.client = SlurmClient(self.lines, clock=slurm.clock, user="ada")
        self.history = SacctHistory(self.client, self.slept_s.append, self._real, self._part)

    def _real(self) -> float:
        """Every second reading of the clock is after an answer."""
        self._real_s += self.answers_s
        return self._real_s

    def _part(self, done_s: int, most_s: int) -> None:
        self.parts.append((done_s, most_s))

    def accounts(self, weeks: int = 12) -> SiteAccounts:
        return site_accounts(self.history, self.now_s, weeks)

    def stretches_s(self) -> list[float]:
        return [SiteCommandLines.stretch_s(argv) for argv in self.lines.queries]


@pytest.fixture(scope="module")
def gathered(slurm: VirtualSlurm, tmp_path_factory: pytest.TempPathFactory) -> tuple[Login, SiteAccounts]:
    login = Login(slurm, tmp_path_factory.mktemp("spool"))
    return login, login.accounts()


def everything(slurm: VirtualSlurm) -> set[tuple[int, int]]:
    """Job and start of all that has started."""
    return {(job.id, job.start_s) for job in slurm.accounting(0) if job.start_s >= 0}


def pairs(jobs: JobTable) -> set[tuple[int, int]]:
    known = jobs[jobs.start_s >= 0]
    return set(zip(known.job_id.astype(int).tolist(), known.start_s.tolist()))


def test_all_jobs_are_there_once_however_the_time_is_cut(slurm: VirtualSlurm, tmp_path: Path) -> None:
    login = Login(slurm, tmp_path, longest_s=3 * DAY_S)
    found = login.accounts(weeks=7)
    assert pairs(found.jobs) == everything(slurm)
    assert len(found.jobs) == len(slurm.accounting(0))
    assert (np.diff(found.jobs.submit_s) >= 0).all()
    assert login.stretches_s().count(4 * DAY_S) > 1, "it is tried again now and then"
    assert found.cluster == "simulated@localhost:6817"
    assert found.declared.settings.weight_age == 1000.0
    assert found.pool.partitions == ("main",)


def test_the_answers_decide_the_length_of_the_next_query(slurm: VirtualSlurm, tmp_path: Path) -> None:
    login = Login(slurm, tmp_path)
    answers_s = iter((0.1, 1.9, 2.1, 19.0, 21.0, 30.0, 99.0, 99.0, 0.1, 0.1, 0.1))
    real_s = 0.0

    def history(*_: int) -> str:
        nonlocal real_s
        real_s += next(answers_s, 0.1)
        return ""

    login.client.history = history  # type: ignore[method-assign]
    login.history.real_s = lambda: real_s
    assert len(login.history.gather(login.now_s, login.now_s - 28 * DAY_S)) == 0
    lengths_s = np.diff([0, *(done_s for done_s, _ in login.parts)])
    assert (lengths_s / DAY_S).tolist() == [1, 2, 4, 4, 4, 2, 1, 0.5, 0.25, 0.5, 1, 2, 4, 1.75]
    assert login.slept_s[:5] == pytest.approx([PAUSE_S, 3.8, 4.2, 38.0, 42.0]), "twice as long as the answer took"


def test_progress_ends_where_the_weeks_end(gathered: tuple[Login, SiteAccounts]) -> None:
    login, _ = gathered
    done, most = zip(*login.parts)
    assert done[-1] == most[-1] == 84 * DAY_S
    assert list(done) == sorted(done)


def test_what_runs_still_has_run_until_now(slurm: VirtualSlurm, gathered: tuple[Login, SiteAccounts]) -> None:
    login, jobs = gathered[0], gathered[1].jobs
    running = {job.id for job in slurm.accounting(0) if job.state is JobState.RUNNING}
    assert running
    rows = np.isin(jobs.job_id.astype(int), list(running))
    assert (jobs.end_s[rows] == login.now_s).all()
    assert (jobs.run_s[rows] == login.now_s - jobs.start_s[rows]).all()


def test_a_short_outage_of_accounting_is_waited_out_and_a_long_one_is_not(slurm: VirtualSlurm, tmp_path: Path) -> None:
    login = Login(slurm, tmp_path, longest_s=5 * HOUR_S)
    with pytest.raises(SlurmUnreachable, match="did not answer"):
        login.accounts()
    assert [length_s / HOUR_S for length_s in login.stretches_s()] == [24, 12, 6]
    assert login.slept_s == pytest.approx([0.2, 0.2])


def test_a_query_that_cannot_be_sent_is_not_repeated(slurm: VirtualSlurm, tmp_path: Path) -> None:
    login = Login(slurm, tmp_path)
    spans: list[tuple[int, int]] = []

    def not_sent(from_s: int, until_s: int) -> str:
        spans.append((from_s, until_s))
        raise RequestNotSent("cannot run sacct")

    login.client.history = not_sent  # type: ignore[method-assign]
    with pytest.raises(RequestNotSent):
        login.accounts()
    assert spans == [(login.now_s - DAY_S, login.now_s)]


@pytest.mark.parametrize(("private", "why"), [("jobs,usage", "PrivateData=jobs"), (None, "nothing shows")])
def test_where_only_one_s_own_jobs_are_shown_it_refuses_soon(private: str | None, why: str, tmp_path: Path) -> None:
    login = Login(site_slurm(users=1), tmp_path, private=private)
    with pytest.raises(ConfigurationError, match=f"only jobs of ada \\({why}.*calibration without them is wrong"):
        login.accounts()
    assert len(login.lines.queries) <= 4, "a week or two are enough to see it"


def test_where_not_even_one_s_own_jobs_are_shown_the_reason_is_not_too_little_history(tmp_path: Path) -> None:
    login = Login(site_slurm(days=1, jobs=1), tmp_path, private="jobs")
    with pytest.raises(ConfigurationError, match="PrivateData=jobs"):
        login.history.gather(BEGIN_S - DAY_S, BEGIN_S - 2 * DAY_S)


def test_a_single_user_of_a_cluster_that_hides_nothing_is_not_refused(tmp_path: Path) -> None:
    assert len(Login(site_slurm(users=1), tmp_path).accounts().jobs) > 500


def test_hidden_jobs_on_most_nodes_in_use_are_missed(slurm: VirtualSlurm, tmp_path: Path) -> None:
    class Coordinator(SiteCommandLines):
        """Sees the accounts of u1 alone."""

        def run(self, argv: Any, **more: Any) -> Any:
            completed = super().run(argv, **more)
            if argv[0] != "sacct":
                return completed
            lines = completed.stdout.splitlines()
            rows = [line for line in lines if line.startswith("JobID") or "|u1|" in line]
            return type(completed)(0, "\n".join(rows), "")

    login = Login(slurm, tmp_path)
    login.client.runner = Coordinator(slurm, tmp_path)
    with pytest.raises(ConfigurationError) as raised:
        login.accounts()
    assert re.fullmatch(
        r"\d nodes are in use, and accounting shows jobs on \d of them: jobs of others would be missing, and a "
        r"calibration without them is wrong; ask the operators for their accounts, or calibrate with a trace of theirs",
        str(raised.value),
    )


@pytest.mark.parametrize(
    ("of", "weeks", "message"),
    [
        (
            {"days": 20}, 12,
            r"accounts cover 20 days, but at least 42 are needed: two weeks to warm up, two to fit to, two to judge "
            r"by; try again in 22 days, or set a higher --weeks if older accounts exist",
        ),
        (
            {"jobs": 150}, 12,
            r"accounts contain 1[45]. jobs that ran, but at least 200 are needed to fit to and to judge by; "
            r"set a higher --weeks",
        ),
        ({"jobs": 1}, 1, "accounts cover 0 days.*"),
    ],
)  # fmt: skip
def test_too_little_history_is_reported(of: dict[str, Any], weeks: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Login(site_slurm(**of), tmp_path).accounts(weeks)
    assert re.fullmatch(message, str(raised.value))


def test_a_row_that_cannot_be_read_is_left_out(slurm: VirtualSlurm, tmp_path: Path) -> None:
    login = Login(slurm, tmp_path)
    whole = len(login.history.gather(login.now_s, login.now_s - 14 * DAY_S))
    damaged = Login(slurm, tmp_path)
    history = damaged.client.history

    def with_another(from_s: int, until_s: int) -> str:
        text = history(from_s, until_s)
        cells = dict(zip(HISTORY_FIELDS, text.splitlines()[-1].split("|"))) | {"Submit": f"soon{from_s}"}
        return "\n".join([text, "|".join(cells.values()), "a line of three|cells|", ""])

    damaged.client.history = with_another  # type: ignore[method-assign]
    assert len(damaged.history.gather(login.now_s, login.now_s - 14 * DAY_S)) == whole > 0


def test_jobs_of_before_the_weeks_are_left_out(slurm: VirtualSlurm, tmp_path: Path) -> None:
    login = Login(slurm, tmp_path)
    jobs = login.accounts(weeks=6).jobs
    assert jobs.submit_s.min() >= login.now_s - 42 * DAY_S
    assert login.now_s - 42 * DAY_S > BEGIN_S


def test_a_cluster_without_accounts_is_refused_before_any_query(tmp_path: Path) -> None:
    slurm = site_slurm(days=1, jobs=2)
    login = Login(slurm, tmp_path)
    login.client.configuration = lambda: {"accountingstoragetype": "accounting_storage/none"}  # type: ignore[method-assign]
    with pytest.raises(ConfigurationError) as raised:
        login.accounts()
    assert str(raised.value) == ("this cluster stores no accounts (AccountingStorageType): nothing to calibrate with")
    assert login.lines.queries == []


@pytest.mark.parametrize(
    ("options", "stores"),
    [
        ({}, False),
        ({"accountingstoragetype": ""}, False),
        ({"accountingstoragetype": "accounting_storage/none"}, False),
        ({"accountingstoragetype": "accounting_storage/slurmdbd"}, True),
    ],
)
def test_accounts_are_stored_by_any_plug_in_but_none(options: dict[str, str], stores: bool) -> None:
    assert stores_accounts(options) is stores


def test_a_refusal_of_sacct_is_quoted(slurm: VirtualSlurm, tmp_path: Path) -> None:
    class Closed(SiteCommandLines):
        def run(self, argv: Any, **more: Any) -> Any:
            completed = super().run(argv, **more)
            return type(completed)(1, "", "Access/permission denied") if argv[0] == "sacct" else completed

    login = Login(slurm, tmp_path)
    login.client.runner = Closed(slurm, tmp_path)
    with pytest.raises(SlurmRefused, match="Access/permission denied"):
        login.accounts()


def test_the_busiest_pool_is_taken_and_the_others_are_named(tmp_path: Path) -> None:
    apart = Cluster((NodeGroup("a", 4), NodeGroup("b", 4)), (Partition("main", ("a",)), Partition("side", ("b",))))
    found = Login(site_slurm(cluster=apart, partitions=("main", "main", "side")), tmp_path).accounts()
    assert found.pool.partitions == ("main",)
    assert set(found.jobs.partition.values()) == {"main"}
    assert found.remarks[0].startswith("only main: ")
    assert found.facts()["partitions"] == ["main"]


def test_jobs_that_share_nodes_are_refused(tmp_path: Path) -> None:
    shared = Cluster((NodeGroup("a", 4, 0, 4),), POOL.partitions, shared_nodes=True)
    with pytest.raises(ConfigurationError, match="jobs share nodes in every partition"):
        Login(site_slurm(cluster=shared), tmp_path).accounts()


def test_limits_of_qos_are_declared_where_sacctmgr_prints_them(gathered: tuple[Login, SiteAccounts]) -> None:
    declared = gathered[1].declared
    assert (declared.by, declared.qos_by) == ("scontrol show config", "sacctmgr show qos")
    assert declared.qos is not None
    assert [(limit.per, limit.jobs, limit.qos) for limit in declared.qos.limits] == [("user", 3, ("normal",))]


def test_limits_on_age_that_cannot_be_read_are_a_remark(slurm: VirtualSlurm, tmp_path: Path) -> None:
    login = Login(slurm, tmp_path)
    options = login.client.configuration() | {"accountingstorageenforce": "limits"}
    login.client.configuration = lambda: options  # type: ignore[method-assign]
    found = login.accounts()
    assert found.declared.associations == ()
    (remark,) = found.remarks
    assert remark.startswith("limits of users and accounts on jobs that accrue age are not known: ")
    assert "nothing found" in remark


ASSOCIATIONS = "Cluster|Account|ParentName|User|Partition|GrpJobsAccrue|MaxJobsAccrue\nls6|{}||ada|||2\n"


@pytest.mark.parametrize(("enforced", "account", "limits"), [("limits", "x", 1), ("limits", "y", 0), ("qos", "x", 0)])
def test_limits_of_associations_are_declared_where_slurm_enforces_them_and_they_count_jobs(
    gathered: tuple[Login, SiteAccounts], enforced: str, account: str, limits: int
) -> None:
    login, jobs = gathered[0], gathered[1].jobs
    own = jobs.with_columns(account=Labels.of(["x"] * len(jobs)))
    options = {"accountingstorageenforce": enforced, "clustername": "ls6"}
    printed = {"ls6": ASSOCIATIONS.format(account)}
    login.client.associations = printed.__getitem__  # type: ignore[method-assign]
    found = with_associations(DeclaredSettings(SlurmSettings.from_options(options, ""), ""), login.client, options, own)
    assert (len(found.age_limits(own)), found.associations_by) == (limits, "sacctmgr show assoc" if limits else "")


@pytest.mark.parametrize(
    ("qos", "remark"),
    [
        ("", "^limits of QOS are not known, and are inferred where possible: .*nothing found"),
        ("Name|Priority\nnormal|0\n", "^limits of QOS are not known, and are inf.*: .*no Preempt"),
        ("Name|Priority|Preempt|MaxJobsPU\nother|0||3\n", ""),
    ],
)
def test_qos_that_are_not_declared_or_not_of_any_job_limit_no_user(
    qos: str, remark: str, slurm: VirtualSlurm, tmp_path: Path
) -> None:
    found = Login(slurm, tmp_path, qos=qos).accounts()
    assert (found.declared.qos, found.declared.qos_by) == (None, "")
    assert bool(found.remarks) is bool(remark)
    assert not remark or re.search(remark, found.remarks[0])
