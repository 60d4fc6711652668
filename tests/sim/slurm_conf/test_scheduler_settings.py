"""The scheduler's settings out of ``slurm.conf``, parameter by parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.duration import DAY_S, MINUTE_S, UNLIMITED_S
from mirage.errors import ConfigurationError, UnknownName
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.simulation import simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings, option_lines, read_options
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

SILENT = replace(SlurmSettings(), limit_check_s=30, consecutive=True)
"""What a slurm.conf means that says nothing."""

SLURMDBD = "AccountingStorageType=accounting_storage/slurmdbd"
"""Without it slurmctld ignores the weights of age and fair-share."""

Write = Callable[..., Path]


@pytest.fixture
def conf(tmp_path: Path) -> Write:
    def write(text: str, name: str = "slurm.conf") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("ClusterName=x", {}),
        ("SchedulerParameters=bf_interval=45", {"bf_interval_s": 45}),
        ("SchedulerParameters=bf_resolution=600", {"bf_resolution_s": 600}),
        ("SchedulerParameters=bf_window=2880", {"bf_window_s": 2 * DAY_S}),
        ("SchedulerParameters=bf_max_job_test=3000", {"max_job_test": 3000}),
        ("SchedulerParameters=default_queue_depth=7", {"default_queue_depth": 7}),
        ("SchedulerParameters=preempt_youngest_first", {"youngest_first": True}),
        (
            "SchedulerParameters=BF_WINDOW=2880,Preempt_Youngest_First",
            {"bf_window_s": 2 * DAY_S, "youngest_first": True},
        ),
        ("SchedulerParameters=defer, bf_interval=9 ,bf_continue", {"bf_interval_s": 9}),
        ("SchedulerParameters=bf_interval=45,bf_interval=60", {"bf_interval_s": 45}),
        ("SchedulerParameters=bf_interval=", {}),
        ("SchedulerParameters=bf_interval", {}),
        ("SchedulerParameters=bf_interval=-1", {"max_job_test": 0}),
        (
            "SchedulerType=sched/builtin\nSchedulerParameters=bf_max_job_test=50,bf_interval=9",
            {"bf_interval_s": 9, "max_job_test": 0},
        ),
        ("SchedulerType=sched/backfill", {}),
        ("SchedulerParameters=bf_window=-1,bf_resolution=0,bf_interval=0,bf_max_job_test=0,default_queue_depth=-1", {}),
        (f"{SLURMDBD}\nPriorityWeightAge=1000", {"weight_age": 1000}),
        (f"{SLURMDBD}\nPriorityWeightFairshare=2", {"weight_fairshare": 2}),
        (f"{SLURMDBD}\nPriorityType=priority/basic\nPriorityWeightAge=1\nPriorityWeightTRES=CPU=7", {}),
        ("PriorityType=priority/basic\nPriorityWeightQOS=1\nPriorityWeightPartition=2\nPriorityWeightJobSize=3", {}),
        ("PriorityWeightAge=1000\nPriorityWeightFairshare=2", {}),
        ("AccountingStorageType=accounting_storage/none\nPriorityWeightAge=1\nPriorityWeightQOS=5", {"weight_qos": 5}),
        ("PriorityWeightJobSize=3", {"weight_size": 3}),
        ("PriorityWeightPartition=4", {"weight_partition": 4}),
        ("PriorityWeightQOS=5", {"weight_qos": 5}),
        ("priorityweightqos = 6", {"weight_qos": 6}),
        ("PriorityDecayHalfLife=14-0", {"half_life_s": 14.0 * DAY_S}),
        ("PriorityDecayHalfLife=0", {"half_life_s": float(UNLIMITED_S)}),
        ("PriorityMaxAge=1-12", {"max_age_s": 1.5 * DAY_S}),
        ("PriorityMaxAge=UNLIMITED", {"max_age_s": float(UNLIMITED_S)}),
        ("PriorityCalcPeriod=1", {"calc_period_s": 60}),
        ("PriorityFavorSmall=YES", {"favor_small": True}),
        ("PriorityFavorSmall=no", {}),
        ("PriorityFlags=MAX_TRES, small_relative_to_time", {"size_over_time": True}),
        ("PriorityFlags=NO_FAIR_TREE", {}),
        ("AuthInfo=cred_expire=30", {"requeue_hold_s": 31}),
        ("AuthInfo=socket=/run/munge,CRED_EXPIRE=600", {"requeue_hold_s": 601}),
        ("AuthInfo=socket=/run/munge", {"requeue_hold_s": 121}),
        ("AccountingStorageEnforce=associations,Limits,qos", {"age_survives_hold": False}),
        ("AccountingStorageEnforce=safe", {"age_survives_hold": False}),
        ("AccountingStorageEnforce=associations", {}),
        ("AccountingStorageEnforce=limits\nPriorityFlags=ACCRUE_ALWAYS,MAX_TRES", {"age_survives_hold": True}),
        ('SchedulerParameters="bf_interval=45,bf_window=77"', {"bf_interval_s": 45, "bf_window_s": 77 * MINUTE_S}),
        ('PriorityWeightQOS = "5"', {"weight_qos": 5}),
        ("# PriorityWeightAge=9", {}),
    ],
)
def test_a_line_changes_what_it_names_and_nothing_else(conf: Write, line: str, changed: dict[str, Any]) -> None:
    assert SlurmSettings.from_slurm_conf(conf(f"{line}\n")) == replace(SILENT, **changed)


@pytest.mark.parametrize(("survives", "limited"), [(None, False), (False, False), (True, True)])
def test_limits_cost_a_held_job_its_age_unless_all_held_jobs_gain_it(survives: bool | None, limited: bool) -> None:
    settings = SlurmSettings(age_survives_hold=survives)
    assert settings.retains_age([Limit("user", jobs=8)]) == limited
    assert settings.retains_age([]) == (survives is not False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "PriorityWeightAge=-5",
            "{path}: PriorityWeightAge=-5 is less than 0, which slurmctld refuses; correct it there",
        ),
        ("PriorityWeightAge=much", "{path}: PriorityWeightAge='much' is not a whole number; correct it there"),
        ("PriorityWeightQOS=1.5", "{path}: PriorityWeightQOS='1.5' is not a whole number; correct it there"),
        ("SchedulerParameters=bf_window=1d", "{path}: bf_window='1d' is not a whole number; correct it there"),
        *(
            (
                f"PriorityCalcPeriod={none}",
                f"{{path}}: PriorityCalcPeriod={none} is no period for slurmctld; correct it there",
            )
            for none in ("0", "-1")
        ),
        (
            f"SchedulerParameters=default_queue_depth={10**20}",
            f"{{path}}: default_queue_depth is {10**20}; it must be from 0 to 1099511627776",
        ),
    ],
)
def test_a_value_that_is_no_number_is_named_with_its_file(conf: Write, line: str, message: str) -> None:
    path = conf(f"{line}\n")
    with pytest.raises(ConfigurationError) as refused:
        SlurmSettings.from_slurm_conf(path)
    assert str(refused.value) == message.format(path=path)


@pytest.mark.parametrize("key", ["PriorityDecayHalfLife", "PriorityMaxAge", "PriorityCalcPeriod"])
def test_a_time_that_is_none_is_named_with_its_file(conf: Write, key: str) -> None:
    path = conf(f"{key}=soon\n")
    with pytest.raises(ConfigurationError) as refused:
        SlurmSettings.from_slurm_conf(path)
    assert str(refused.value).startswith(f"{path}: {key.lower()}: 'soon' is no duration; write it as Slurm does")


def test_lines_are_read_as_slurm_reads_them(conf: Write) -> None:
    conf("B=from the other  # file\n", "other.conf")
    path = conf("A = 1 # one\n\n#B=2\n  include other.conf \nA=2\nnonsense\nNodeName=n[1-2] CPUs=4\n")
    assert option_lines(path) == [("a", "1"), ("b", "from the other"), ("a", "2"), ("nodename", "n[1-2] CPUs=4")]
    assert read_options(path)["a"] == "2", "the last one holds"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NodeName=n1,\\\nn2\n", "n1,n2"),
        ("NodeName=n1 \\\n  B=2\n", "n1   B=2"),
        ("NodeName=n1 \\ \t\nB=2\n", "n1 B=2"),
        ("NodeName=n1 \\  # one\nB=2\n", "n1 B=2"),
        ("NodeName=\\\nn1\n", "n1"),
        ("#NodeName=0 \\\nNodeName=n1\n", "n1"),
        ("NodeName=n1 # one \\\nnonsense\n", "n1"),
    ],
)
def test_a_line_is_continued_after_a_backslash_at_its_end(conf: Write, text: str, value: str) -> None:
    assert option_lines(conf(text)) == [("nodename", value)]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("SelectType=select/linear SelectTypeParameters=CR_Memory", "SelectType and SelectTypeParameters"),
        ('MinJobAge = "111"\t\\\nKillWait = 7 MaxJobCount=3', "MinJobAge and KillWait"),
        ("MinJobAge=113 PartitionName=q Nodes=n1", "MinJobAge and PartitionName"),
        ('RebootProgram="/usr/bin/env A=1"', ""),
        ("PriorityWeightTRES = CPU=1, Mem=2 ,Node=3", ""),
        ("HASH_VAL = Different Ours=0x1 Slurmctld=0x2", ""),
        ("AuthInfo = socket=/run/munge,cred_expire=5", ""),
        ("downnodes=n1 State=DOWN", ""),
    ],
)
def test_several_options_on_a_line_are_refused_as_by_slurmctld(conf: Write, line: str, options: str) -> None:
    path = conf(f"A=1,\\\n2\n{line}\n")
    if not options:
        assert option_lines(path)[0] == ("a", "1,2")
        return
    with pytest.raises(ConfigurationError) as refused:
        option_lines(path)
    assert (
        str(refused.value)
        == f"{path}:3: {options} are on one line, which slurmctld refuses; write each on its own line"
    )


def test_an_included_file_that_is_not_there_is_named_with_the_line(conf: Write, tmp_path: Path) -> None:
    conf("\ninclude absent.conf\n", "other.conf")
    path = conf("A=1,\\\n2\nInclude other.conf\n")
    with pytest.raises(ConfigurationError) as refused:
        option_lines(path)
    assert str(refused.value) == (
        f"{path}:3: Include other.conf: {tmp_path}/other.conf:2: Include absent.conf: "
        f"cannot read {tmp_path}/absent.conf: No such file or directory; name a readable slurm.conf"
    )


def test_the_name_of_the_cluster_may_be_in_that_of_an_included_file(conf: Write) -> None:
    conf("Include %c_b.conf\n", "abc_a.conf")
    conf("A=1\n", "abc_b.conf")
    assert read_options(conf('ClusterName="Abc"\nInclude %c_a.conf\n'))["a"] == "1"


def test_an_included_device_is_not_read(conf: Write) -> None:
    with pytest.raises(
        ConfigurationError, match=r":1: Include /dev/null: cannot read /dev/null: it is a device, .*; name a "
    ):
        option_lines(conf("Include /dev/null\n"))


def test_a_file_that_includes_itself_is_refused(conf: Write) -> None:
    conf("Include slurm.conf\n", "other.conf")
    path = conf("Include other.conf\n")
    with pytest.raises(ConfigurationError) as refused:
        option_lines(path)
    assert str(refused.value).endswith(f"/other.conf:1: Include slurm.conf: {path} includes itself; remove the Include")


def test_without_backfill_no_job_passes_the_head_of_the_queue() -> None:
    cluster = Cluster.pool(2)
    rows = {"submit_s": [0, 0, 0], "elapsed_s": [3600, 60, 60], "limit_s": [3600, 60, 60], "nodes": [1, 2, 1]}
    jobs = workload(JobTable.build(["a", "b", "c"], **rows), cluster)
    for planned, start_s in ((500, 0), (0, 3660)):
        played = simulate(cluster, jobs, "slurm", SlurmSettings(max_job_test=planned))
        assert played.start_s[2] == start_s


def test_an_unknown_priority_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown priority 'wpf'"):
        SlurmSettings(priority="wpf")  # type: ignore[arg-type]


def test_the_settings_of_the_published_cluster() -> None:
    assert SlurmSettings.lonestar6() == SlurmSettings(
        10, 600, 2 * DAY_S, 3000, 1000, 300, 2.0 * DAY_S, 7.0 * DAY_S, 7000, 4000, 100, 3000, 4000,
    )  # fmt: skip


def test_the_record_holds_the_settings_and_the_cluster_s_own() -> None:
    settings = replace(SlurmSettings.lonestar6(), favor_small=True, youngest_first=True, turnover_s=20)
    (record,) = settings.record(Cluster.pool(76), epoch_s=5)
    both = {name: record[name] for name in record.dtype.names if hasattr(settings, name)}
    assert both == {name: getattr(settings, name) for name in both}
    assert {
        "bf_window_s",
        "weight_age",
        "youngest_first",
        "requeue_hold_s",
        "consecutive",
        "turnover_s",
    } <= both.keys()
    assert (record.nodes, bool(record.stacked), record.epoch_s) == (76, True, 5)
    (shared,) = SlurmSettings().record(Cluster.gpu(2, 8), epoch_s=0)
    assert not shared.stacked
