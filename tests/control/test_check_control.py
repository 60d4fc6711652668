"""The check for a controller: what works, and what would be refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.control.check_control import check_control
from mirage.control.pools_file import Pools
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, pending, running


def found(cluster: ControlCluster, pools: Pools = POOLS) -> dict[str, tuple[str, str, str]]:
    """By subject; of several findings the worst counts."""
    worst = ("ok", "warn", "fail")
    findings = sorted(check_control(cluster.slurm, pools, NOW_S), key=lambda one: worst.index(one.level))
    return {one.what: (one.level, one.value, one.advice) for one in findings}


@pytest.mark.parametrize("word", ["Mirage-Control", "mirage-control2"])
def test_a_comment_that_is_nearly_the_word_is_named(word: str) -> None:
    rows = found(ControlCluster(jobs=[pending(5), pending(6, Comment=f"bert, {word}")]))
    why = f"1 job (has not opted in); a comment has '{word}', and the word of these pools is 'mirage-control'"
    assert rows["jobs"][2] == f"left out: {why}"


def test_a_cluster_that_is_ready() -> None:
    cluster = ControlCluster(jobs=[pending(5), running(6, "t1"), pending(7, Comment="")])
    cluster.reservations = [loan("i[1-3]", name="mirage-fence"), loan("i2")]
    rows = found(cluster)
    assert {level for level, _, _ in rows.values()} == {"ok"}
    assert rows["rights"][1] == "ops: operator"
    assert rows["owner"][1] == "3 nodes, 12 GPUs"
    assert rows["loans"][1] == "1 now"
    assert rows["jobs"][1:] == ("1 pending and 1 running jobs take part", "left out: 1 job (has not opted in)")
    assert rows["requests"][1] == "5 a minute: 5 every 60 s"
    changing = ("update", "create", "delete", "requeue", "modify")
    assert not [argv for argv in cluster.ran if set(changing) & set(argv) or argv[0] in ("scancel", "sbatch")]


def test_what_is_missing_is_named_with_the_remedy() -> None:
    cluster = ControlCluster(level="None", config="ClusterName = tundra\nJobRequeue = 0\nPreemptType = preempt/qos\n")
    cluster.reservations = [loan("i1", name="maintenance"), loan("i3", name="mirage-loan-i2")]
    cluster.reservations.append(loan("i1", name="mirage-controller"))
    cluster.nodes["i3"] = ("down", "gpu:t4:4", "gpu:t4:0", "inference")
    rows = found(cluster)
    assert rows["rights"][0] == "warn"
    assert rows["rights"][2].endswith("sacctmgr modify user ops set AdminLevel=Operator")
    assert "Nodes=i1,i2,i3" in rows["fence"][2]
    assert rows["loans"][1] == "mirage-loan-i2: not loans of these pools"
    assert rows["reservations"][1] == "maintenance on nodes of the owner"
    cluster.reservations = [loan("t1", name="course")]
    assert found(cluster)["reservations"][1] == "course on nodes of the borrower"
    assert rows["owner"][:2] == ("warn", "i3: not in train")
    assert rows["requeue"][1] == "JobRequeue=0"
    assert rows["preemption"][:2] == ("warn", "preempt/qos")
    assert rows["jobs"][:2] == ("warn", "0 pending and 0 running jobs take part")


def test_a_user_whom_this_host_does_not_know_can_be_in_no_fence() -> None:
    rows = found(ControlCluster(), replace(POOLS, owner_users=("root", "nosuchuser")))
    assert rows["fence"][:2] == ("fail", "nosuchuser: no such user")
    assert "Users=root" in found(ControlCluster(), replace(POOLS, owner_users=("root",)))["fence"][2]


def test_speeds_of_gpu_types_that_no_node_has_are_named() -> None:
    assert "gpu_speeds" not in found(ControlCluster(), replace(POOLS, gpu_speeds={"t4": 0.33}))
    level, value, advice = found(ControlCluster(), replace(POOLS, gpu_speeds={"t4": 0.33, "T4": 0.33}))["gpu_speeds"]
    assert (level, value) == ("warn", "T4: no node of the pools has this GPU type")
    assert advice.endswith("the types a100, t4")


def test_elastic_jobs_are_counted_and_ranges_that_do_not_count_are_named() -> None:
    cells = {"tres_per_job": "gres:gpu:2", "tres_per_node": "N/A", "Comment": "mirage-control gpus=2-8"}
    cluster = ControlCluster(jobs=[pending(5, **cells), pending(6, Comment="mirage-control gpus=2-8", NumTasks=2)])
    pools = replace(POOLS, scheduler="aryl", most_gpus=8)
    why = (
        "1: it has a size range, but was not submitted with --gpus only, or as one task on one node with GPUs per node"
    )
    assert found(cluster, pools)["sizes"] == ("warn", "1 of these jobs are elastic", why)
    cluster.jobs.pop()
    assert found(cluster, pools)["sizes"][0] == "ok"
    assert "sizes" not in found(cluster)
    absent = found(cluster, replace(pools, scheduler="sia", profiles="/no/such/folder"))
    assert absent["jobs"][:2] == ("fail", "no view")
    assert "/no/such/folder: no profiles" in absent["jobs"][2]


def test_pools_that_do_not_exist_fail() -> None:
    cluster = ControlCluster(jobs=[pending(5)])
    assert found(cluster, replace(POOLS, owner_nodes=("i1", "x7")))["owner"][:2] == ("fail", "x7: no such node")
    rows = found(cluster, replace(POOLS, borrower_partition="trian"))
    assert rows["borrower"][:2] == ("fail", "trian: no such partition, or one without nodes")
    cluster.nodes["t2"] = ("idle", "(null)", "(null)", "train")
    assert found(cluster)["borrower"][:2] == ("fail", "t2: no GPU in sinfo")


def test_an_old_version_a_new_one_and_no_answer() -> None:
    assert found(ControlCluster(version="slurm 20.11.9"))["version"][0] == "fail"
    assert found(ControlCluster(version="slurm 25.11.7"))["version"][0] == "warn"
    assert found(ControlCluster(status=1))["controller"][:2] == ("fail", "no answer")
    root = ControlCluster(config="ClusterName = tundra\nSlurmUser = ops(7)\n")
    assert found(root)["rights"][1] == "ops may do everything"
