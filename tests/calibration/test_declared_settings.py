"""Settings declared by operators are used unchanged, and not inferred."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.calibration.declared_settings import (
    DeclaredSettings,
    check_associations,
    check_qos,
    read_declared_settings,
)
from mirage.calibration.fit_mechanisms import TraceSlice, choices
from mirage.calibration.inferred.capacity import queued
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.associations import Association
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.table import JobTable
from tests.support.made_up_site import Row, table

CONF = (
    "ClusterName=c\nSchedulerType=sched/backfill\nSchedulerParameters=bf_interval=1,bf_resolution=1,bf_window=1440,"
    "bf_max_job_test=1000,default_queue_depth=1000,preempt_youngest_first\nPriorityDecayHalfLife=1-0\n"
    "PriorityCalcPeriod=1\nPriorityMaxAge=1-0\nPriorityWeightAge=1000\nPriorityWeightFairShare=2000\n"
    "PriorityWeightJobSize=100\nPriorityWeightPartition=5000\nPriorityWeightQOS=10000\n"
    "PriorityWeightTRES=GRES/gpu=1000\nAccountingStorageEnforce=associations,limits,qos\n"
    "AccountingStorageType=accounting_storage/slurmdbd\n"
)
"""The slurm.conf of the cluster whose ``scontrol show config`` is among the data."""

QOS = "Name|Priority|Preempt|MaxTRESPU|MaxJobsPU\nnormal|0|||2\nlarge|100|normal|node=8|\n"
JOBS: tuple[Row, ...] = tuple(
    (f"u{user}", 24.0 * k + user, 24.0 * k + user + late, 8.0, 1)
    for k in range(28)
    for user in range(5)
    for late in (0, 0, 0, 9, 9)
)
"""Every day five jobs of every user, of which three run at once."""

ALL_OF_IT = TraceSlice(0, 28 * DAY_S)


@pytest.fixture
def qos(tmp_path: Path) -> str:
    (tmp_path / "qos.txt").write_text(QOS)
    return str(tmp_path / "qos.txt")


def site(jobs: JobTable, settings: SlurmSettings | None = None) -> Site:
    return Site.of(queued(jobs), settings or SlurmSettings(), ALL_OF_IT.from_s, ALL_OF_IT.until_s)


@pytest.mark.parametrize("version", ["", "25.11"])
def test_scontrol_show_config_declares_what_a_slurm_conf_does(shared_data: Path, tmp_path: Path, version: str) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    printed = str(shared_data / "slurm-fixtures" / version / "scontrol.show.config.txt")
    of_controller, of_file = read_declared_settings(printed), read_declared_settings(str(tmp_path / "slurm.conf"))
    assert replace(of_controller.settings, requeue_hold_s=0) == replace(of_file.settings, requeue_hold_s=0)
    assert of_controller.settings.weight_fairshare == 2000
    assert of_controller.settings.max_age_s == DAY_S
    assert of_controller.settings.requeue_hold_s == (6 if version else 121), "a credential of 5 s, of 2 min by default"
    assert of_controller.by == printed


def test_a_controller_without_multifactor_priorities_declares_no_weights(tmp_path: Path) -> None:
    text = "Configuration data as of 2026-11-20T21:30:54\nPriorityParameters      = (null)\nPriorityType            = "
    text += "priority/basic\nSchedulerParameters     = (null)\nPriorityWeightTRES = (null)\n"
    (tmp_path / "config.txt").write_text(text)
    assert read_declared_settings(str(tmp_path / "config.txt")).settings == SlurmSettings(
        limit_check_s=30, consecutive=True
    )


def test_what_is_not_declared_has_no_source() -> None:
    assert read_declared_settings() == DeclaredSettings(SlurmSettings(), "Slurm's defaults", None, "", (), "")
    assert read_declared_settings(settings="slurm-default").by == "Slurm's defaults"
    assert read_declared_settings(settings="lonestar6").by == "lonestar6"


def test_what_is_declared_has_the_name_of_its_file(qos: str, tmp_path: Path) -> None:
    (tmp_path / "assoc.txt").write_text(
        "Cluster|Account|ParentName|User|Partition|GrpJobsAccrue|MaxJobsAccrue\nlab|x|root|||4|\n"
    )
    found = read_declared_settings(qos=qos, associations=str(tmp_path / "assoc.txt"))
    assert (found.qos_by, found.associations_by) == (qos, str(tmp_path / "assoc.txt"))
    assert found.age_limits(table(JOBS[0], account=["x"])) == (Limit("all", ageing=4, accounts=("x",)),)


def test_names_stand_for_settings() -> None:
    assert read_declared_settings().settings == SlurmSettings()
    assert read_declared_settings(settings="lonestar6").settings == SlurmSettings.lonestar6()


@pytest.mark.parametrize("name", ["sprio.w.txt", "sacctmgr.qos.txt", "sacct.X.P.txt"])
def test_a_file_that_is_no_configuration_is_refused(shared_data: Path, name: str) -> None:
    path = str(shared_data / "slurm-fixtures" / name)
    with pytest.raises(ConfigurationError) as raised:
        read_declared_settings(path)
    assert str(raised.value) == (
        f"{path} has no settings of a scheduler (SchedulerType, PriorityType or SelectType); name a slurm.conf "
        "or the output of `scontrol show config`"
    )


def test_weights_of_sprio_override_those_of_the_file(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF.replace("PriorityWeightAge=1000", "PriorityWeightAge=7"))
    weights = str(shared_data / "slurm-fixtures" / "sprio.w.txt")
    found = read_declared_settings(str(tmp_path / "slurm.conf"), sprio=weights)
    assert (found.settings.weight_age, found.settings.bf_interval_s) == (1000, 1)
    assert found.by.endswith(f"weights {weights}")


def test_weights_that_slurmctld_ignores_are_none_though_sprio_prints_them(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF.replace("accounting_storage/slurmdbd", "accounting_storage/none"))
    settings = read_declared_settings(
        str(tmp_path / "slurm.conf"), sprio=str(shared_data / "slurm-fixtures/sprio.w.txt")
    ).settings
    assert (settings.weight_age, settings.weight_fairshare, settings.weight_partition) == (0, 0, 5000)


def test_a_declared_limit_on_jobs_of_a_user_is_not_inferred(qos: str) -> None:
    jobs = table(*JOBS, qos=["normal"] * len(JOBS))
    declared = read_declared_settings(qos=qos)
    assert declared.qos is not None
    inferred, given = site(jobs), replace(site(jobs), qos=declared.qos)
    assert not inferred.declares_user_jobs
    assert given.declares_user_jobs
    assert choices(inferred, ALL_OF_IT)["user_jobs"] == (None, 3)
    assert choices(given, ALL_OF_IT)["user_jobs"] == (None,)
    cluster = given.cluster(Mechanisms())
    assert cluster.limits == (Limit("user", jobs=2, qos=("normal",)), Limit("user", nodes=8, qos=("large",)))
    assert inferred.cluster(Mechanisms(user_jobs=5)).limits == (Limit("user", jobs=5),)


def test_limits_of_associations_on_age_count_the_jobs_of_their_accounts(tmp_path: Path) -> None:
    (tmp_path / "assoc.txt").write_text(
        "Cluster|Account|ParentName|User|Partition|GrpJobsAccrue|MaxJobsAccrue\n"
        "lab|root|||||\nlab|x|root|||4|\nlab|x||u1|||2\nlab|x||u2|||\nlab|other|root|||1|\n"
    )
    declared = read_declared_settings(associations=str(tmp_path / "assoc.txt"))
    jobs = table(*JOBS, account=["x"] * len(JOBS))
    known = Limit(ageing=2, users=("u1",), accounts=("x",)), Limit("all", ageing=4, accounts=("x",))
    assert declared.age_limits(jobs) == known
    given = replace(site(jobs), age_limits=declared.age_limits(jobs))
    assert given.cluster(Mechanisms(user_jobs=5)).limits == (*known, Limit("user", jobs=5))
    check_associations(declared, jobs)
    with pytest.raises(ConfigurationError, match=r"accounts 'other', 'root', 'x', .* contain the accounts of jobs; "):
        check_associations(declared, table(*JOBS))


def test_limits_on_nodes_alone_leave_a_limit_on_jobs_to_be_inferred(tmp_path: Path) -> None:
    (tmp_path / "qos.txt").write_text(QOS.replace("||2\n", "||\n"))
    declared = read_declared_settings(qos=str(tmp_path / "qos.txt"))
    given = replace(site(table(*JOBS, qos=["normal"] * len(JOBS))), qos=declared.qos)
    assert not given.declares_user_jobs
    assert choices(given, ALL_OF_IT)["user_jobs"] == (None, 3)
    assert given.cluster(Mechanisms(user_jobs=5)).limits == (Limit("user", nodes=8, qos=("large",)), Limit(jobs=5))


def test_a_declared_limit_holds_in_a_replay(qos: str) -> None:
    """Three jobs of a user are submitted at once; of those of the QOS, only two run at once."""
    rows: list[Row] = [("ada", 0.0, 0.0, 4.0, 1)] * 3 + [("bob", 0.0, 0.0, 4.0, 1)] * 3
    jobs = table(*rows, qos=["normal"] * 3 + ["large"] * 3)
    known = Site(jobs, SlurmSettings(), 8, -1.0)
    free = known.replay(Mechanisms(), jobs).wait_s
    held = replace(known, qos=read_declared_settings(qos=qos).qos).replay(Mechanisms(), jobs).wait_s
    assert (free < 600).all()
    assert (held >= 4 * 3600).tolist() == [False, False, True, False, False, False]


def test_declared_qos_count_in_priorities_unless_these_are_recorded(qos: str) -> None:
    known = site(table(*JOBS, qos=["normal"] * len(JOBS)), replace(SlurmSettings(), weight_qos=300.0))
    given = replace(known, qos=read_declared_settings(qos=qos).qos)
    assert known.scheduler(Mechanisms()).weight_qos == 0
    assert given.scheduler(Mechanisms()).weight_qos == 300
    assert given.scheduler(Mechanisms(recorded=True)).weight_qos == 0
    assert given.cluster(Mechanisms()).qos_factors == {"normal": 0.0, "large": 100.0}
    assert given.cluster(Mechanisms()).qos_preempts == {}, "a trace has jobs as they ran in the end"


@pytest.mark.parametrize(
    ("of_jobs", "why"), [([""], "it does not contain the QOS of jobs"), (["debug"], "its jobs have 'debug'")]
)
def test_qos_that_no_job_has_are_refused(qos: str, of_jobs: list[str], why: str) -> None:
    declared = read_declared_settings(qos=qos)
    with pytest.raises(ConfigurationError, match=why):
        check_qos(declared, table(JOBS[0], qos=of_jobs))
    check_qos(declared, table(JOBS[0], qos=["large"]))
    check_qos(read_declared_settings(), table(JOBS[0], qos=of_jobs))


def refusal(check: Callable[[DeclaredSettings, JobTable], None], declared: DeclaredSettings, jobs: JobTable) -> str:
    with pytest.raises(ConfigurationError) as raised:
        check(declared, jobs)
    return str(raised.value)


def test_a_refusal_names_what_is_declared_and_up_to_five_that_the_jobs_have(qos: str) -> None:
    declared = read_declared_settings(qos=qos)
    names = ["g", "f", "e", "d", "c", "b"]
    several = table(*JOBS[:6], qos=names, account=names)
    there = ", ".join(f"'{name}'" for name in names[:5])
    assert refusal(check_qos, declared, several) == (
        f"{qos} lists the QOS 'normal', 'large', but no job of the trace has one: its jobs have {there}; "
        "name a trace with the column QOS, or leave --qos out"
    )
    known = tuple(Association(name) for name in ("z", "w", "v", "x", "u", "y"))
    assert refusal(check_associations, replace(declared, associations=known, associations_by="a.txt"), several) == (
        "a.txt lists the accounts 'u', 'v', 'w', 'x', 'y', but no job of the trace has one: "
        f"its jobs have {there}; name a trace with the column Account, or leave --associations out"
    )
    unknown = refusal(
        check_associations, replace(declared, associations=known[:1], associations_by="a"), table(JOBS[0])
    )
    assert unknown == (
        "a lists the accounts 'z', but no job of the trace has one: it does not contain the accounts of jobs; "
        "name a trace with the column Account, or leave --associations out"
    )
    check_associations(read_declared_settings(), several)
    check_associations(replace(declared, associations=(*known, Association("c"))), several)
