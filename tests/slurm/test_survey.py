"""What ``mirage doctor`` finds of a site, from its configuration and its partitions."""

from __future__ import annotations

from typing import Any

import pytest

from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING
from mirage.slurm.records import AccountedJob, Machine, Node, Queue, QueuedJob, SlurmPartition, SlurmReservation
from mirage.slurm.runner import Completed
from mirage.slurm.survey import Finding, survey

ORDINARY = {
    "clustername": "polaris", "slurmctldhost[0]": "ctl1(10.0.0.1)", "slurmctldhost[1]": "ctl2", "slurmctldport": "6817",
    "schedulertype": "sched/backfill", "accountingstoragetype": "accounting_storage/none",
}  # fmt: skip


WITH_ACCOUNTS = {"accountingstoragetype": "accounting_storage/slurmdbd"}
WITH_WEIGHTS = WITH_ACCOUNTS | {"priorityweightage": "1", "priorityweightfairshare": "20"}


class Site:
    """A site with given answers."""

    def __init__(self, *partitions: SlurmPartition, **options: str) -> None:
        self.options = {**ORDINARY, **options}
        self.partitions = partitions or (partition("main", DAY_S),)
        self.runner = self
        self.accounts: tuple[AccountedJob, ...] | Exception = ()
        self.version, self.limits = "22.05.8", None

    def run(self, argv: list[str]) -> Completed:
        return Completed(0, f"slurm {self.version}\n", "")

    user = "ada"
    reserved: tuple[SlurmReservation, ...] | Exception = ()

    def reservations(self) -> tuple[SlurmReservation, ...]:
        if isinstance(self.reserved, Exception):
            raise self.reserved
        return self.reserved

    def accrual_limits(self) -> tuple[str, ...] | None:
        return self.limits

    submitted: tuple[str, ...] | None = None

    def submission_limits(self) -> tuple[str, ...] | None:
        return self.submitted

    def configuration(self) -> dict[str, str]:
        return self.options

    def machine(self) -> Machine:
        return Machine((Node("n1", "idle", True, 64, 0, ("main",)),), self.partitions)

    def observe(self) -> Queue:
        return Queue(5, (QueuedJob(1, 0, user="ada"),))  # type: ignore[arg-type]

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        if isinstance(self.accounts, Exception):
            raise self.accounts
        return self.accounts


def partition(name: str, longest_s: int, default_s: int = MISSING) -> SlurmPartition:
    return SlurmPartition(name, False, longest_s, default_s, ("n1",))


def found(site: Any) -> dict[str, Finding]:
    return {finding.what: finding for finding in survey(site)}


def test_the_cluster_and_its_controllers_are_named() -> None:
    findings = found(Site())
    assert (findings["cluster"].level, findings["cluster"].value) == ("ok", "polaris")
    assert findings["controller"].value == "ctl1, ctl2, port 6817; 1 job, 1 node"


def test_an_old_site_has_one_controller_under_another_name() -> None:
    site = Site(controlmachine="old")
    del site.options["slurmctldhost[0]"], site.options["slurmctldhost[1]"]
    assert found(site)["controller"].value.startswith("old, port 6817; ")


@pytest.mark.parametrize(
    ("partitions", "value", "advice"),
    [
        ([partition("main", DAY_S)], "main 1-00:00:00", ""),
        (
            [partition("main", UNLIMITED_S, 600), partition("long", DAY_S)],
            "main UNLIMITED (default 00:10:00), long 1-00:00:00",
            "without -t a job of main gets the default, not the longest",
        ),
        (
            [partition("main", UNLIMITED_S), partition("debug", HOUR_S, HOUR_S)],
            "main UNLIMITED, debug 01:00:00",
            "without -t a job of main never ends, and so never hands over",
        ),
    ],
)
def test_a_default_limit_is_a_limit(partitions: list[SlurmPartition], value: str, advice: str) -> None:
    findings = found(Site(*partitions))["time limits"]
    assert (findings.level, findings.value, findings.advice) == ("ok", value, advice)


@pytest.mark.parametrize(
    ("options", "what", "level", "value"),
    [
        (WITH_ACCOUNTS, "age", "ok", "no PriorityFlags"),
        (WITH_ACCOUNTS | {"priorityflags": "ACCRUE_ALWAYS"}, "age", "warn", "ACCRUE_ALWAYS"),
        (WITH_WEIGHTS | {"priorityflags": "MAX_TRES,no_fair_tree"}, "fair-share", "warn", "MAX_TRES,no_fair_tree"),
        ({}, "age", "warn", "counts for nothing without slurmdbd, nor does fair-share (measured on 22.05.8)"),
        (
            {"accountingstoragetype": ""},
            "age",
            "warn",
            "counts for nothing without slurmdbd, nor does fair-share (measured on 22.05.8)",
        ),
        ({"priorityflags": "ACCRUE_ALWAYS"}, "revisions", "ok", "a held link keeps its priority"),
        ({"prioritytype": "priority/basic"}, "age", "ok", "priority/basic"),
        (WITH_ACCOUNTS | {"prioritytype": "priority/basic"}, "age", "ok", "priority/basic"),
        ({"schedulerparameters": "BF_WINDOW=60, bf_interval=7"}, "backfill", "ok", "plans 60 min ahead, every 7 s"),
        ({"schedulertype": "sched/builtin"}, "backfill", "warn", "sched/builtin"),
        ({"minjobage": "60 sec"}, "MinJobAge", "warn", "60 s"),
        ({"minjobage": "300 sec"}, "MinJobAge", "ok", "300 s"),
        ({"preempttype": "preempt/qos"}, "preemption", "warn", "preempt/qos"),
        ({}, "accounting", "warn", "none"),
    ],
)
def test_what_a_setting_means(options: dict[str, str], what: str, level: str, value: str) -> None:
    findings = found(Site(**options))[what]
    assert (findings.level, findings.value) == (level, value)


@pytest.mark.parametrize(
    ("age", "share", "level", "advice"),
    [
        ("7000", "4000", "ok", "age weighs as much as fair-share or more"),
        ("4000", "4000", "ok", "age weighs as much as fair-share or more"),
        ("1000", "100000", "warn", "fair-share outweighs age"),
        ("0", "100000", "warn", "no job gains by its age"),
    ],
)
def test_what_holds_are_worth_against_fair_share(age: str, share: str, level: str, advice: str) -> None:
    options = {"prioritytype": "priority/multifactor", "priorityweightage": age, "priorityweightfairshare": share}
    findings = found(Site(**options, **WITH_ACCOUNTS, prioritymaxage="14-00:00:00"))["holds"]
    assert (findings.level, findings.value) == (
        level, f"PriorityWeightAge={int(age):,} after 14-00:00:00, PriorityWeightFairshare={int(share):,}",
    )  # fmt: skip
    assert advice in findings.advice


def test_without_slurmdbd_the_weights_of_holds_are_ignored() -> None:
    findings = found(
        Site(prioritytype="priority/multifactor", priorityweightage="7000", priorityweightfairshare="4000")
    )
    assert findings["holds"].value == "PriorityWeightAge=7,000 and PriorityWeightFairshare=4,000 are ignored"


def test_without_weights_there_is_no_finding_on_holds() -> None:
    assert "holds" not in found(Site())
    assert "holds" not in found(Site(prioritytype="priority/basic", priorityweightage="0"))


def test_fair_tree_needs_no_finding() -> None:
    assert "fair-share" not in found(Site(**WITH_WEIGHTS))
    assert "fair-share" not in found(Site(**WITH_WEIGHTS, priorityflags="MAX_TRES"))
    flags = {"priorityflags": "NO_FAIR_TREE"}
    assert "fair-share" not in found(Site(**{**WITH_WEIGHTS, "priorityweightfairshare": "0"}, **flags))
    assert "fair-share" not in found(Site(**{**WITH_WEIGHTS, "accountingstoragetype": ""}, **flags))


@pytest.mark.parametrize(
    ("limits", "enforced", "level"),
    [
        (("assoc lab ada MaxSubmitJobs=1", "qos low MaxSubmitJobsPU=10"), "limits", "fail"),
        (("qos debug MaxSubmitJobsPU=1",), "associations,safe", "warn"),
        (("assoc physics MaxSubmitJobs=1",), "limits", "warn"),  # perhaps not an account of this user
        (("assoc lab ada MaxSubmitJobs=1",), "associations", None),
        (("assoc lab ada MaxSubmitJobs=11",), "limits", None),
        (None, "limits", None),
    ],
)
def test_a_limit_below_the_two_jobs_of_a_chain_is_found(
    limits: tuple[str, ...] | None, enforced: str, level: str | None
) -> None:
    site = Site(**WITH_ACCOUNTS, accountingstorageenforce=enforced)
    site.submitted = limits
    finding = found(site).get("submissions")
    assert (finding and finding.level) == level
    assert finding is None or (limits and finding.value == limits[0])


SURVIVES = "measured on 22.05.8"
LIMITED = WITH_ACCOUNTS | {"accountingstorageenforce": "associations,limits,qos"}


@pytest.mark.parametrize(
    ("options", "version", "limits", "level", "value", "advice"),
    [
        ({}, "22.05.8", None, "ok", "a held link keeps its priority", "only loses its turn"),
        (WITH_ACCOUNTS, "22.05.2", None, "ok", SURVIVES, "unknown, sacctmgr does not show them"),
        (WITH_ACCOUNTS, "22.05.8", (), "ok", SURVIVES, "none that sacctmgr shows"),
        (
            WITH_ACCOUNTS,
            "22.05.8",
            tuple(f"qos q{k} GrpJobsAccrue=1" for k in range(6)),
            "ok",
            SURVIVES,
            "=1 and 2 more",
        ),
        (WITH_ACCOUNTS, "25.11.7", None, "warn", "is not known for 25.11.7", "compare AccrueTime before and after"),
        (
            {"prioritytype": "priority/basic"},
            "22.05.8",
            None,
            "ok",
            "a held link keeps its priority",
            "only loses its turn",
        ),
        (LIMITED, "22.05.8", None, "warn", "age starts again", "AccountingStorageEnforce=associations,limits,qos: "),
        (LIMITED, "22.05.8", ("assoc x ada MaxJobsAccrue=2",), "warn", "starts again", "ada MaxJobsAccrue=2"),
        (
            LIMITED | {"priorityflags": "accrue_always"},
            "22.05.8",
            None,
            "ok",
            "held jobs gain age here",
            "costs no age",
        ),
        (
            WITH_ACCOUNTS | {"accountingstorageenforce": "associations"},
            "22.05.8",
            None,
            "ok",
            SURVIVES,
            "unknown, sacctmgr does not show them",
        ),
        (
            WITH_ACCOUNTS | {"priorityflags": "accrue_always"},
            "25.11.7",
            None,
            "ok",
            "held jobs gain age here",
            "costs no age",
        ),
    ],
)
def test_what_is_known_and_not_known_of_revisions(
    options: dict[str, str], version: str, limits: tuple[str, ...] | None, level: str, value: str, advice: str
) -> None:
    site = Site(**options)
    site.version, site.limits = version, limits
    findings = found(site)["revisions"]
    assert findings.level == level
    assert value in findings.value
    assert advice in findings.advice


def test_accounts_that_show_only_one_s_own_jobs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "ada")
    site = Site(accountingstoragetype="accounting_storage/slurmdbd")
    assert found(site)["accounting"].value == "0 jobs of the last day"
    site.accounts = (AccountedJob(1, 0, user="ada"),)  # type: ignore[arg-type]
    assert found(site)["accounting"].value == "1 job of the last day, your own only"
    site.accounts = (*site.accounts, AccountedJob(2, 0, user="bob"))  # type: ignore[arg-type]
    assert found(site)["accounting"].value == "2 jobs of the last day"
    site.accounts = SlurmRefused("no")
    assert (found(site)["accounting"].level, found(site)["accounting"].advice) == ("warn", "sacct failed: no")


def test_a_controller_that_is_away_is_the_only_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise SlurmUnreachable("no answer within 60 s")

    site = Site()
    monkeypatch.setattr(site, "configuration", away)
    *_, last = survey(site)  # type: ignore[arg-type]
    assert (last.level, last.what, last.advice) == ("fail", "controller", "no answer within 60 s")


def test_hidden_jobs_are_reported_with_what_decides_instead() -> None:
    assert "other users" not in found(Site())
    finding = found(Site(privatedata="jobs", **WITH_ACCOUNTS))["other users"]
    assert (finding.level, finding.value) == ("warn", "their jobs are hidden: PrivateData=jobs")
    assert finding.advice.endswith("auto learns waits from your own jobs in accounting")
    finding = found(Site(privatedata="jobs"))["other users"]
    assert finding.advice.endswith("use a fixed lead, --policy lead:6")


def test_the_next_reservations_are_reported(utc: None) -> None:
    site = Site()
    assert "reservations" not in found(site)
    site.reserved = tuple(SlurmReservation(f"r{k}", 7_200 * (9 - k), 7_200 * 9, ("n1", "n2")) for k in range(5))
    finding = found(site)["reservations"]
    assert finding.level == "ok"
    assert finding.value.startswith("r4, 2 nodes from 1970-01-01T10:00 to 1970-01-01T18:00; r3, ")
    assert finding.value.endswith("18:00 and 2 more")
    site.reserved = SlurmRefused("scontrol show reservation failed")
    assert "reservations" not in found(site)
