"""The machine that options describe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from mirage.cli.machine_options import MachineOptions, discipline_help
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.slurm_conf.cluster_file import ClusterFile, Users, write_cluster_file
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.table import JobTable

CONF = (
    "SelectType=select/linear\nSchedulerParameters=bf_interval=45\nNodeName=n[1-3] CPUs=8\nPartitionName=p Nodes=ALL\n"
)
OF_CONF = Cluster((NodeGroup("n1", 3, 0, 8),), (Partition("p", ("n1",)),))
OF_FILE = ClusterFile(
    replace(Cluster.pool(5), limits=(Limit(jobs=3),), reservations=(Reservation(10, 20, "node", 5),)),
    SlurmSettings(bf_interval_s=7, weight_age=1000.0),
    users=Users(300),
)
NOTHING = MachineOptions(None, None, None, None, None, None, None, False)


@pytest.fixture(autouse=True)
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    write_cluster_file(tmp_path / "cluster.toml", OF_FILE)
    monkeypatch.chdir(tmp_path)


def test_nodes_that_replace_those_of_a_slurm_conf_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    replace(NOTHING, slurm_conf="slurm.conf", processors=9).machine()
    assert capsys.readouterr().err.startswith("mirage: --processors replaces the nodes and partitions of slurm.conf, ")
    Path("config.txt").write_text("SelectType = select/linear\n")
    for other in ({"slurm_conf": "slurm.conf"}, {"slurm_conf": "config.txt", "nodes": 9}):
        replace(NOTHING, **other).machine()
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "cluster"),
    [
        ({"nodes": 4}, Cluster.pool(4)),
        ({"processors": 352}, Cluster.pool(352)),
        ({"nodes": 4, "gpus_per_node": 8}, Cluster.gpu(4, 8, 64)),
        ({"nodes": 4, "gpus_per_node": 8, "cpus_per_node": 16}, Cluster.gpu(4, 8, 16)),
        ({"nodes": 4, "cpus_per_node": 16}, Cluster((NodeGroup("node", 4, 0, 16),), shared_nodes=True)),
        ({"slurm_conf": "slurm.conf"}, OF_CONF),
        ({"cluster": "cluster.toml"}, OF_FILE.cluster),
        ({"slurm_conf": "slurm.conf", "nodes": 9}, Cluster.pool(9)),
        ({"slurm_conf": "slurm.conf", "nodes": 9, "gpus_per_node": 2}, Cluster.gpu(9, 2)),
    ],
)
def test_the_nodes(given: dict[str, Any], cluster: Cluster) -> None:
    assert replace(NOTHING, **given).machine().cluster == cluster


def test_the_think_time_is_that_of_the_file() -> None:
    assert replace(NOTHING, cluster="cluster.toml").machine().think_s == 300
    assert replace(NOTHING, nodes=4).machine().think_s == 0


@pytest.mark.parametrize(
    ("given", "settings", "source"),
    [
        ({}, SlurmSettings(), "slurm-default"),
        ({"settings": "slurm-default"}, SlurmSettings(), "slurm-default"),
        ({"settings": "lonestar6"}, SlurmSettings.lonestar6(), "lonestar6"),
        ({"max_job_test": 7}, SlurmSettings(max_job_test=7), "slurm-default"),
        ({"settings": "lonestar6", "max_job_test": 7}, replace(SlurmSettings.lonestar6(), max_job_test=7), "lonestar6"),
        (
            {"slurm_conf": "slurm.conf", "max_job_test": 7},
            SlurmSettings(bf_interval_s=45, limit_check_s=30, consecutive=True, max_job_test=7),
            "slurm.conf",
        ),
    ],
)
def test_the_scheduler(given: dict[str, Any], settings: SlurmSettings, source: str) -> None:
    machine = replace(NOTHING, nodes=4, **given).machine()
    assert (machine.settings, machine.source) == (settings, source)


@pytest.mark.parametrize(
    ("discipline", "given", "warning"),
    [
        ("easy", {"settings": "slurm-default"}, "easy does not use --settings; conservative and slurm do\n"),
        ("fcfs", {"settings": "lonestar6", "max_job_test": 9}, "fcfs does not use --settings and --max-job-test; "),
        ("mirage-2023", {"cluster": "cluster.toml", "nodes": None, "max_job_test": 9}, "mirage-2023 does not use --m"),
        ("conservative", {"settings": "lonestar6", "max_job_test": 9}, ""),
        ("of-a-package", {"settings": "lonestar6", "max_job_test": 9}, ""),
        ("easy", {}, ""),
    ],
)
def test_parameters_that_a_discipline_does_not_have_are_a_warning(
    discipline: str, given: dict[str, Any], warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(NOTHING, **{"nodes": 4} | given).machine(discipline)
    printed = capsys.readouterr().err
    assert printed.startswith(f"mirage: warning: {warning}") if warning else not printed


MULTIFACTOR = "PriorityType=priority/multifactor\n"
WEIGHTS = f"{MULTIFACTOR}PriorityWeightAge=1000\nPriorityWeightFairshare=0\nPriorityWeightQOS=5\n"
DATABASE = "AccountingStorageType=accounting_storage/slurmdbd\n"


@pytest.mark.parametrize(
    ("conf", "remark"),
    [
        (
            WEIGHTS,
            "Slurm ignores PriorityWeightAge without AccountingStorageType=accounting_storage/slurmdbd; add that",
        ),
        (
            f"{WEIGHTS}PriorityWeightFairshare=7\n",
            "Slurm ignores PriorityWeightAge and PriorityWeightFairshare without",
        ),
        (
            f"{DATABASE}{WEIGHTS}PriorityType=priority/basic\n",
            "PriorityWeightAge and PriorityWeightQOS: PriorityType is",
        ),
        (
            f"{DATABASE}{MULTIFACTOR}PriorityWeightFairshare=7\nPriorityFlags=max_tres, no_fair_tree\n",
            "PriorityFlags=NO_FAIR_TREE is not simulated: users are ranked as by fair-tree, with equal shares",
        ),
        (
            f"{DATABASE}{MULTIFACTOR}PriorityWeightFairshare=7\nPriorityFlags=DEPTH_OBLIVIOUS\n",
            "PriorityFlags=DEPTH_OBLIVIOUS is not",
        ),
        (
            f"{WEIGHTS}PriorityWeightAge=0\nPriorityWeightFairshare=7\nPriorityFlags=NO_FAIR_TREE\n",
            "Slurm ignores PriorityWeightFairshare without",
        ),
        (f"{DATABASE}{WEIGHTS}PriorityFlags=NO_FAIR_TREE\n", ""),
        (
            "SchedulerParameters=Bf_Interval=-7, bf_window=90,default_queue_depth=0,bf_resolution=0\n",
            "Slurm ignores bf_interval=-7 and bf_resolution=0, too small a number, and takes its default",
        ),
        ("SchedulerParameters=bf_interval=-1\n", ""),
        (
            "SchedulerParameters=defer, BF_Max_Job_User=1,bf_window=90,defer,bf_continue,max_rpc_cnt=0\n",
            "SchedulerParameters that are not simulated: defer, bf_max_job_user\n",
        ),
        ("nodes = 4\n", "it has no line of a slurm.conf, so Slurm's defaults are simulated; name the slurm.conf of"),
        (f"{DATABASE}{WEIGHTS}", ""),
        (
            "PriorityWeightQOS=5\n",
            "the weights of priorities are simulated, but Slurm before 23.11 ignores them without",
        ),
        ("PriorityWeightTRES=CPU=5\nPriorityWeightQOS=0\n", "add the PriorityType that `scontrol show config` prints"),
        ("PriorityWeightQOS=0\n", ""),
        ("PriorityType=priority/basic\n", ""),
    ],
)
def test_weights_that_slurm_ignores_are_named(
    conf: str, remark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fair.conf"
    path.write_text(conf)
    replace(NOTHING, nodes=4, slurm_conf=str(path)).machine()
    printed = capsys.readouterr().err
    assert remark in printed
    assert printed.startswith(f"mirage: {path}: ") if remark else not printed
    assert printed.count("\n") == bool(remark)


@pytest.mark.parametrize(
    ("kind", "reported"),
    [("", True), ("SelectType=select/cons_tres\n", False), ("SelectType=select/linear\n", False)],
)
def test_nodes_that_older_versions_of_slurm_do_not_share_are_reported(
    kind: str, reported: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("older.conf").write_text(f"{kind}NodeName=n1\n")
    replace(NOTHING, slurm_conf="older.conf").machine()
    printed = capsys.readouterr().err
    assert printed.startswith("mirage: older.conf: jobs share the simulated nodes, but Slurm before 23.11") == reported
    assert bool(printed) == reported


@pytest.mark.parametrize(
    ("partitions", "closed"),
    [
        ("", ""),
        ("PartitionName=up Nodes=n1 State=up\nPartitionName=gone Nodes=n2 State=DOWN\n", ""),
        ("PartitionName=up Nodes=n1\nPartitionName=old Nodes=n1 State=Down\n", "old"),
        (
            "PartitionName=DEFAULT State=DRAIN Nodes=n1\nPartitionName=a State=UP\nPartitionName=b\n"
            "PartitionName=c State=INACTIVE\n",
            "b, c",
        ),
    ],
)
def test_partitions_that_are_not_up_are_reported(
    partitions: str, closed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("old.conf").write_text(f"SelectType=select/linear\nNodeName=n1\nNodeName=n2 State=DOWN\n{partitions}")
    replace(NOTHING, slurm_conf="old.conf").machine()
    remark = f"mirage: old.conf: partitions that are DOWN, DRAIN or INACTIVE are simulated as UP: {closed}\n"
    assert capsys.readouterr().err == (remark if closed else "")


def test_options_of_partitions_that_are_not_simulated_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    lines = "PartitionName=DEFAULT MaxNodes=1 qos=big\nPartitionName=p Nodes=n1\nPartitionName=q Nodes=n2 MinNodes=2\n"
    Path("old.conf").write_text(f"SelectType=select/linear\nNodeName=n1\nNodeName=n2 State=DOWN\n{lines}")
    replace(NOTHING, slurm_conf="old.conf").machine()
    assert capsys.readouterr().err == "mirage: old.conf: options of partitions that are not simulated: QOS\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give the size of the cluster: --nodes N, --processors N, --slurm-conf FILE or --cluster FILE"),
        (
            {"settings": "lonestar6", "gpus_per_node": 4},
            "give the size of the cluster: --nodes N, --processors N, --slurm-conf FILE or --cluster FILE",
        ),
        ({"nodes": 4, "processors": 4}, "--nodes and --processors exclude each other"),
        (
            {"nodes": 4, "slurm_conf": "slurm.conf", "settings": "lonestar6"},
            "--slurm-conf and --settings exclude each other",
        ),
        (
            {"slurm_conf": "slurm.conf", "gpus_per_node": 4},
            "--gpus-per-node and --cpus-per-node need --nodes N; without it --slurm-conf defines the nodes",
        ),
        (
            {"processors": 8, "cpus_per_node": 4},
            "--gpus-per-node and --cpus-per-node need --nodes N; --processors makes one pool without nodes",
        ),
        (
            {"slurm_conf": "slurm.conf", "cpus_per_node": 4},
            "--gpus-per-node and --cpus-per-node need --nodes N; without it --slurm-conf defines the nodes",
        ),
    ],
)
def test_options_that_describe_no_machine_or_two(given: dict[str, Any], message: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        replace(NOTHING, **given).machine()
    assert refused.value.message == message


@pytest.mark.parametrize("tested", [None, 7])
def test_the_scheduler_of_a_cluster_file(tested: int | None) -> None:
    machine = replace(NOTHING, cluster="cluster.toml", max_job_test=tested).machine()
    assert machine.settings == replace(OF_FILE.settings, max_job_test=tested or OF_FILE.settings.max_job_test)
    assert machine.source == "cluster.toml"


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"nodes": 4}, "--nodes"),
        ({"processors": 4}, "--processors"),
        ({"gpus_per_node": 4}, "--gpus-per-node"),
        ({"cpus_per_node": 4}, "--cpus-per-node"),
        ({"slurm_conf": "slurm.conf"}, "--slurm-conf"),
        ({"settings": "lonestar6"}, "--settings"),
    ],
)
def test_a_cluster_file_describes_all_of_it(given: dict[str, Any], option: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        replace(NOTHING, cluster="cluster.toml", **given).machine()
    assert refused.value.message == f"--cluster and {option} exclude each other; the file defines it"


def test_a_file_that_is_not_there_is_named_even_where_its_nodes_are_not_wanted() -> None:
    with pytest.raises(ConfigurationError, match=r"^cannot read no\.conf: No such file or directory; name a readable"):
        replace(NOTHING, nodes=4, slurm_conf="no.conf").machine()


@pytest.mark.parametrize(
    ("cluster", "warning"),
    [
        (
            Cluster((NodeGroup("n", 4),), (Partition("cpu"), Partition("long"))),
            "mirage: warning: 3 jobs of t.csv are of partitions that c.toml does not have (gpu, big): they run in its "
            "first one, cpu\n",
        ),
        (Cluster((NodeGroup("n", 4),), (Partition("gpu"), Partition("big"), Partition("cpu"))), ""),
        (Cluster.pool(4), ""),
    ],
)
def test_jobs_of_partitions_that_the_cluster_lacks_are_named(
    cluster: Cluster, warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {"submit_s": [0] * 5, "start_s": [0] * 5, "end_s": [60] * 5, "elapsed_s": [60] * 5, "nodes": [1] * 5}
    table = JobTable.build(
        range(5), **times, state=[3] * 5, limit_s=[9] * 5, partition=["big", "gpu", "cpu", None, "gpu"]
    )
    assert len(replace(NOTHING, cluster="c.toml").workload(table, cluster, "t.csv").jobs) == 5
    assert capsys.readouterr().err == warning


@pytest.mark.parametrize(("cpus", "warns"), [([1, 2], False), ([128, 256], True)])
def test_processors_for_a_trace_that_counts_nodes_are_a_warning(
    cpus: list[int], warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {name: [k, k + 1] for k, name in enumerate(("submit_s", "start_s", "end_s"))}
    table = JobTable.build(range(2), **times, state=[3, 3], nodes=[1, 2], cpus=cpus, limit_s=[9, 9])
    for machine in (replace(NOTHING, processors=4), replace(NOTHING, nodes=4)):
        machine.workload(table, Cluster.pool(4), "t.csv")
    printed = capsys.readouterr().err
    assert printed.count("t.csv counts nodes, with up to 128 CPUs each, and each node counts as one") == warns


@pytest.mark.parametrize(("gpus", "warns"), [([0, 0], True), ([0, 2], False), ([MISSING, MISSING], False)])
def test_gpus_per_node_for_a_trace_without_gpus_is_a_warning(
    gpus: list[int], warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {name: [k, k + 1] for k, name in enumerate(("submit_s", "start_s", "end_s"))}
    table = JobTable.build(range(2), **times, state=[3, 3], nodes=[1, 1], gpus=gpus, limit_s=[9, 9])
    for machine in (replace(NOTHING, nodes=4), replace(NOTHING, nodes=4, gpus_per_node=8)):
        machine.workload(table, Cluster.pool(4), "t.csv")
    assert capsys.readouterr().err.count("no job of t.csv has a GPU") == warns


@pytest.mark.parametrize(("limits", "warned"), [([60, -1], "1 job of"), ([-1, 0], "2 jobs of"), ([60, 60], "")])
def test_jobs_without_a_limit_are_a_warning(limits: list[int], warned: str, capsys: pytest.CaptureFixture[str]) -> None:
    times = {name: [k, k + 1] for k, name in enumerate(("submit_s", "start_s", "end_s"))}
    table = JobTable.build(range(2), **times, state=[3, 3], nodes=[1, 1], limit_s=limits)
    replace(NOTHING, nodes=4).workload(table, Cluster.pool(4), "t.csv")
    printed = capsys.readouterr().err
    assert f"{warned} t.csv without a time limit: the scheduler plans with" in printed if warned else not printed


def test_jobs_that_are_left_out_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    table = JobTable.build(["1", "2"], submit_s=[0, 0], elapsed_s=[9, 9], limit_s=[9, 9], nodes=[1, 4])
    replace(NOTHING, nodes=3, skip_impossible=True).workload(table, Cluster.pool(3), "t.csv")
    assert capsys.readouterr().err == "mirage: 1 job of t.csv left out: can never run\n"


def test_the_disciplines_are_printed_in_a_sentence() -> None:
    *names, last = discipline_help().replace(" or ", ", ").split(", ")
    assert discipline_help() == f"{', '.join(names)} or {last}"
    assert {"slurm", "easy", "fcfs", "mirage-2023"} <= {*names, last}
