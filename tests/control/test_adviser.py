"""The adviser: snapshots in, advice out, recorded and decided again; nothing is changed."""

from __future__ import annotations

import json
import os
import pwd
import random
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.control.adviser import Adviser, advice_json, summary
from mirage.control.model_profiles import job_model
from mirage.control.pools_file import Pools
from mirage.control.progress_files import JobProgress
from mirage.control.recording import decide_again, plan_text, read_recorded, record
from mirage.errors import ConfigurationError
from mirage.job_state import JobState
from mirage.schedule.schedulers.view_schedulers import REMEMBERING, VIEW_SCHEDULERS, ViewDecider
from mirage.slurm.records import QueuedJob
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, pending, running
from tests.support.hanging_files import hanging
from tests.support.toy_profiles import write_profiles

QUERIES = {"squeue", "sinfo", "scontrol --oneliner show reservation"}


def queries(cluster: ControlCluster) -> list[str]:
    return [" ".join(argv[:4]) if argv[0] == "scontrol" else argv[0] for argv in cluster.ran]


def test_one_snapshot_is_three_queries_and_the_plan_is_that_of_the_scheduler() -> None:
    cluster = ControlCluster(jobs=[pending(6, TimeLimit="50:00"), pending(7, TimeLimit="10:00", PriorityLong=50)])
    fifo = Adviser(cluster.slurm, POOLS).advise(NOW_S)
    assert queries(cluster) == ["squeue", "sinfo", "scontrol --oneliner show reservation"]
    assert [step.line(POOLS) for step in fifo.steps] == [
        "start 6: no command needed (head-of-queue)",
        "start 7: no command needed (head-of-queue)",
    ]
    sjf = Adviser(cluster.slurm, replace(POOLS, scheduler="sjf")).advise(NOW_S)
    assert [(step.kind, step.subject) for step in sjf.steps] == [("start", "7"), ("start", "6")]
    aryl = Adviser(cluster.slurm, replace(POOLS, scheduler="aryl")).advise(NOW_S)
    assert [(step.kind, step.subject) for step in aryl.steps][:2] == [("lend", "i1"), ("lend", "i2")]


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        (replace(POOLS, borrower_partition="trian"), "pool borrower: trian: no such partition"),
        (replace(POOLS, owner_partitions=("infer",)), "pool owner: infer: no such partition"),
        (replace(POOLS, borrower_nodes=("t1", "t9")), "pool borrower: t9: no such node"),
    ],
)
def test_pools_that_the_cluster_does_not_have_are_refused_at_the_first_snapshot(pools: Pools, message: str) -> None:
    cluster = ControlCluster(jobs=[])
    with pytest.raises(ConfigurationError, match=f"^{message}.*; name .* as sinfo does, in the file of pools$"):
        Adviser(cluster.slurm, pools).advise(NOW_S)
    cluster.status = 1
    adviser = Adviser(cluster.slurm, pools)
    assert adviser.advise(NOW_S).problem
    cluster.status, cluster.jobs = 0, [pending(6)]
    assert message in adviser.advise(NOW_S).problem, "nor after snapshots that failed"


def test_nodes_are_lent_and_used_by_one_plan(tmp_path: Path) -> None:
    cluster = ControlCluster(jobs=[
        running(5, "t[1-2]", tres_per_node="gres:gpu:8", NumNodes=2), pending(7, TimeLimit="40:00"),
        pending(8, TimeLimit="1:00:00"), pending(9, TimeLimit="30:00", tres_per_node="gres:gpu:3"),
    ])  # fmt: skip
    adviser = Adviser(cluster.slurm, replace(POOLS, scheduler="aryl"), tmp_path)
    advice = adviser.advise(NOW_S)
    assert advice.view is not None
    assert summary(advice.view)["lent_nodes"] == 0, "nothing is lent yet"
    lines = [step.line(POOLS) for step in advice.steps]
    assert [line.split(":")[0] for line in lines] == ["lend i1", "lend i2", "start 9", "start 7", "postpone 8"]
    assert "scontrol update JobId=9 ReservationName=mirage-loan-i1" in lines[2]
    assert "scontrol update JobId=7 ReservationName=mirage-loan-i2" in lines[3]
    recorded = sorted(path.name for path in tmp_path.glob("view-*.json"))
    assert recorded == ["view-000001-with-loans.json", "view-000001.json"]
    for name in recorded:
        found = read_recorded(tmp_path / name)
        assert decide_again(found) == found.plan
    cluster.nodes["i1"] = ("mixed", "gpu:t4:4", "gpu:t4:3", "inference train")
    cluster.jobs.append(pending(11, Partition="inference", Comment="", NumNodes=3))
    cluster.jobs[3] = running(9, "i1", tres_per_node="gres:gpu:3")
    cluster.reservations = [loan("i1")]
    kinds = [step.kind for step in adviser.advise(NOW_S + 36).steps]
    assert "preempt" in kinds
    assert "lend" not in kinds


def test_the_owner_gets_its_node_back_by_an_eviction_then_a_return() -> None:
    cluster = ControlCluster(jobs=[running(5, "i2"), pending(9, Partition="inference", Comment="", NumNodes=3)])
    cluster.nodes["i2"] = ("mixed", "gpu:t4:4", "gpu:t4:4", "inference train")
    cluster.reservations = [loan("i2")]
    adviser = Adviser(cluster.slurm, replace(POOLS, scheduler="aryl"))
    assert [(step.kind, step.subject) for step in adviser.advise(NOW_S).steps] == [("preempt", "5")]
    cluster.jobs[0] = pending(5, RestartCnt=1)
    cluster.nodes["i2"] = ("reserved", "gpu:t4:4", "gpu:t4:0", "inference train")
    steps = adviser.advise(NOW_S + 30).steps
    assert ("return", "i2") in [(step.kind, step.subject) for step in steps]


@pytest.mark.parametrize(
    "change",
    [
        {"status": 1},
        {"status": 1, "stderr": "Access/permission denied"},
        {"jobs": []},
        {"nodes": {}},
        {"reservations": ["gibberish"]},
        {"reservations": [""]},
        {"nodes": {"t1": ("idle", "gpu:8", "gpu:0", "train")}},
    ],
)
def test_a_snapshot_that_fails_or_is_empty_leads_to_no_action(change: dict) -> None:
    cluster = ControlCluster(jobs=[pending(6)])
    adviser = Adviser(cluster.slurm, POOLS)
    assert adviser.advise(NOW_S).steps
    for name, value in change.items():
        setattr(cluster, name, value)
    for k in range(20):
        advice = adviser.advise(NOW_S + 30 * k)
        assert (advice.steps, advice.plan) == ((), None)
        assert advice.problem
    assert (adviser.account.snapshots, adviser.account.without_decision) == (21, 20)
    assert set(queries(cluster)) <= QUERIES
    assert advice_json(advice, POOLS)["steps"] == []


def test_the_account_counts_a_step_once_and_what_slurm_did_itself() -> None:
    cluster = ControlCluster(jobs=[pending(6), pending(7)])
    adviser = Adviser(cluster.slurm, POOLS)
    assert adviser.advise(NOW_S).news == (True, True)
    assert adviser.advise(NOW_S + 30).news == (False, False)
    cluster.jobs = [running(6, "t1", StartTime=NOW_S + 40), pending(7)]
    adviser.advise(NOW_S + 60)
    cluster.jobs = [running(6, "t1", StartTime=NOW_S + 40)]
    adviser.advise(NOW_S + 90)
    found = adviser.account.as_json()
    assert (found["steps"], found["started_by_slurm"], found["mean_s_until_slurm_started"]) == ({"start": 2}, 1, 60)


def test_evictions_beyond_the_budget_of_a_job_or_an_hour_would_be_refused() -> None:
    pools = replace(POOLS, scheduler="aryl", evictions_per_hour=2)
    cluster = ControlCluster(reservations=[loan(name, 9000) for name in ("i1", "i2", "i3")])
    of_owner = pending(9, Partition="inference", Comment="", NumNodes=3)
    cluster.jobs = [*(running(k, f"i{k}") for k in (1, 2, 3)), of_owner]
    for name in ("i1", "i2", "i3"):
        cluster.nodes[name] = ("mixed", "gpu:t4:4", "gpu:t4:4", "inference train")
    adviser = Adviser(cluster.slurm, pools)
    evictions = lambda advice: [(s.subject, s.refused) for s in advice.steps if s.kind == "preempt"]  # noqa: E731
    for later_s in (0, 30):  # a step that was refused is so at the next snapshot, too
        advice = adviser.advise(NOW_S + later_s)
        assert evictions(advice) == [("1", ""), ("2", ""), ("3", "2 evictions in an hour")]
    assert not any(new for step, new in zip(advice.steps, advice.news, strict=True) if step.kind == "preempt")
    restarted = Adviser(cluster.slurm, pools)
    restarted.count_stops({"evict": [(NOW_S - 3601.0, 7), (NOW_S - 60.0, 1)], "resize": [(NOW_S - 50.0, 2)]})
    expected = [("1", "1 evictions of the job in an hour"), ("2", ""), ("3", "2 evictions in an hour")]
    assert evictions(restarted.advise(NOW_S)) == expected
    calm, cluster.jobs = cluster.jobs, [pending(8)]
    adviser.advise(NOW_S + 60)
    cluster.jobs = calm
    assert evictions(adviser.advise(NOW_S + 120))[0] == ("1", "1 evictions of the job in an hour")
    cluster.jobs = [pending(8)]
    adviser.advise(NOW_S + 3000)
    cluster.jobs = calm
    assert evictions(adviser.advise(NOW_S + 3700))[0] == ("1", "")
    assert adviser.account.refused["2 evictions in an hour"] >= 1


ELASTIC = replace(POOLS, scheduler="aryl", most_gpus=12)


def elastic(gpus: int) -> dict[str, str]:
    return {"tres_per_job": f"gres:gpu:{gpus}", "tres_per_node": "N/A", "Comment": "mirage-control gpus=3-16"}


def test_an_elastic_job_grows_into_free_gpus_and_shrinks_for_one_that_waits(tmp_path: Path) -> None:
    cluster = ControlCluster(jobs=[running(5, "t1", TimeLimit="9:00:00", **elastic(3))])
    cluster.nodes["t1"] = ("mixed", "gpu:a100:8", "gpu:a100:3", "train")
    adviser = Adviser(cluster.slurm, replace(ELASTIC, owner_nodes=("i1",)), tmp_path)
    (grow,) = adviser.advise(NOW_S).steps
    assert (grow.kind, grow.subject, grow.reason) == ("resize", "5", "extra-workers")
    assert grow.commands(ELASTIC)[2:] == (
        ("scontrol", "update", "JobId=5", "TresPerJob=gres:gpu:12"),
        ("scontrol", "update", "JobId=5", "StartTime=now+2"),
    )  # fmt: skip
    assert grow.undo_commands(ELASTIC)[2][-1] == "TresPerJob=gres:gpu:3"
    cluster.jobs = [running(5, "t[1-2]", TimeLimit="9:00:00", RestartCnt=1, **elastic(12))]
    for name, used in (("t1", 6), ("t2", 6)):
        cluster.nodes[name] = ("mixed", "gpu:a100:8", f"gpu:a100:{used}", "train")
    assert adviser.advise(NOW_S + 36).steps == (), "it has its largest size"
    cluster.jobs.append(pending(6, tres_per_node="gres:gpu:6", TimeLimit="5:00"))
    steps = adviser.advise(NOW_S + 72).steps
    assert [(step.kind, step.subject) for step in steps] == [("resize", "5"), ("start", "6")]
    assert steps[0].commands(ELASTIC)[2][-1] == "TresPerJob=gres:gpu:10"
    for path in sorted(tmp_path.glob("view-*.json")):
        found = read_recorded(path)
        assert decide_again(found) == found.plan


def test_a_job_with_gpus_per_node_grows_on_one_node_only() -> None:
    cells = {"tres_per_node": "gres:gpu:a100:3", "Comment": "mirage-control gpus=3-16", "TimeLimit": "9:00:00"}
    cluster = ControlCluster(jobs=[running(5, "t1", **cells)])
    cluster.nodes["t1"] = ("mixed", "gpu:a100:8", "gpu:a100:3", "train")
    pools = replace(ELASTIC, owner_nodes=("i1",))
    (grow,) = Adviser(cluster.slurm, pools).advise(NOW_S).steps
    assert (grow.kind, grow.refused) == ("resize", "")
    assert grow.commands(pools)[2][-1] == "TresPerNode=gres:gpu:a100:8", "a node has no more"
    assert grow.undo_commands(pools)[2][-1] == "TresPerNode=gres:gpu:a100:3"
    cluster.jobs.append(running(6, "t1", tres_per_node="gres:gpu:4"))
    cluster.nodes["t1"] = ("mixed", "gpu:a100:8", "gpu:a100:7", "train")
    (grow,) = Adviser(cluster.slurm, pools).advise(NOW_S).steps
    assert (grow.kind, grow.subject) == ("resize", "5")
    assert grow.refused == "it requests GPUs per node, and its new size would be on several nodes"
    assert grow.verbs == ()


def test_an_elastic_job_that_waits_has_the_size_of_its_start_or_its_smallest_one() -> None:
    busy = running(5, "t[1-2]", tres_per_node="gres:gpu:8", NumNodes=2)
    cluster = ControlCluster(jobs=[busy, pending(6, **elastic(8))])
    adviser = Adviser(cluster.slurm, replace(ELASTIC, owner_nodes=("i1",)))
    assert [step.line(ELASTIC) for step in adviser.advise(NOW_S).steps] == [
        "resize 6: scontrol update JobId=6 TresPerJob=gres:gpu:3 (waits-small)"
    ]
    cluster.jobs = [pending(6, **elastic(8))]
    (start,) = adviser.advise(NOW_S + 36).steps
    assert start.line(ELASTIC) == "start 6: scontrol update JobId=6 TresPerJob=gres:gpu:3 (shortest-waiting)"
    assert Adviser(cluster.slurm, replace(ELASTIC, scheduler="sjf")).advise(NOW_S).steps[0].verbs == ()


LIMIT, SMALL = "AssocGrpGRES", ["resize 6: scontrol update JobId=6 TresPerJob=gres:gpu:3 (waits-small)"]


@pytest.mark.parametrize(
    ("cells", "lines"),
    [
        ({"Reason": "Reservation"}, ["start 6: scontrol update JobId=6 TresPerJob=gres:gpu:3 (shortest-waiting)"]),
        ({"Reason": LIMIT}, SMALL),
        ({"Reason": "Resources", "ReqNodes": "t1"}, SMALL),
        ({"Reason": LIMIT, "RestartCnt": 0}, []),
        ({"Reason": LIMIT, "Reservation": "weekly"}, []),
        ({"Reason": "BeginTime"}, []),
        ({"Reason": "None", "EligibleTime": NOW_S + 1}, []),
    ],
)
def test_a_requeued_job_that_cannot_start_with_its_new_size_gets_its_smallest_one(
    cells: dict[str, object], lines: list[str]
) -> None:
    cluster = ControlCluster(jobs=[pending(6, **{"RestartCnt": 1, **elastic(8), **cells})])
    pools = replace(ELASTIC, owner_nodes=("i1",))
    adviser = Adviser(cluster.slurm, pools)
    assert [step.line(pools) for step in adviser.advise(NOW_S).steps] == lines
    assert not [
        verb
        for step in Adviser(cluster.slurm, replace(pools, scheduler="sjf")).advise(NOW_S).steps
        for verb in step.verbs
    ], "this scheduler changes no size"


def test_an_elastic_job_gets_its_smallest_size_if_its_start_is_refused() -> None:
    busy = running(5, "t[1-2]", tres_per_node="gres:gpu:8", NumNodes=2)
    cluster = ControlCluster(jobs=[busy, pending(6, **elastic(8), Reason="Reservation")])
    for name in ("t1", "t2"):
        cluster.nodes[name] = ("allocated", "gpu:a100:8", "gpu:a100:8", "train")
    lines = [step.line(ELASTIC) for step in Adviser(cluster.slurm, ELASTIC).advise(NOW_S).steps]
    assert SMALL[0] in lines
    assert "start 6: refused, its time limit is longer than the rest of the loan of i1 (shortest-waiting)" in lines


def test_a_job_on_a_lent_node_does_not_grow_and_resizes_have_a_budget() -> None:
    cluster = ControlCluster(jobs=[running(5, "i2", Reservation="mirage-loan-i2", **elastic(3))])
    cluster.nodes["i2"] = ("mixed", "gpu:t4:4", "gpu:t4:3", "inference train")
    cluster.reservations = [loan("i2")]
    assert "resize" not in {step.kind for step in Adviser(cluster.slurm, ELASTIC).advise(NOW_S).steps}
    cluster.jobs = [running(5, "t1", TimeLimit="9:00:00", **elastic(3))]
    adviser = Adviser(cluster.slurm, replace(ELASTIC, resizes_per_job_hour=1, evictions_per_hour=0))
    assert adviser.advise(NOW_S).steps[0].refused == ""
    cluster.jobs = [running(5, "t1", TimeLimit="9:00:00", **elastic(4)), pending(7, tres_per_node="gres:gpu:1")]
    adviser.advise(NOW_S + 36)
    cluster.jobs.pop()
    cluster.jobs = [running(6, "t2", TimeLimit="9:00:00", **elastic(3))]
    adviser.advise(NOW_S + 72)
    cluster.jobs = [running(5, "t1", TimeLimit="9:00:00", **elastic(3))]
    assert adviser.advise(NOW_S + 108).steps[0].refused == "1 resizes of the job in an hour"


def test_a_range_that_does_not_count_is_reported() -> None:
    cluster = ControlCluster(jobs=[pending(6, Comment="mirage-control gpus=2-8", MaxNodes=2)])
    advice = Adviser(cluster.slurm, ELASTIC).advise(NOW_S)
    why = "it has a size range, but was not submitted with --gpus only, or as one task on one node with GPUs per node"
    assert advice_json(advice, ELASTIC)["rigid"] == {why: 1}


def test_the_job_that_others_leave_for_comes_first_in_the_queue_before_they_leave(tmp_path: Path) -> None:
    """PickyMan evicts job 5 for job 7; without the new order Slurm would start job 6 there."""
    cluster = ControlCluster(jobs=[
        running(5, "t1", tres_per_node="gres:gpu:8", TimeLimit="10:00:00"),
        running(4, "t2", tres_per_node="gres:gpu:8", TimeLimit="40:00"),
        pending(6, tres_per_node="gres:gpu:8", TimeLimit="12:00:00", PriorityLong=200),
        pending(7, tres_per_node="gres:gpu:8", TimeLimit="5:00", PriorityLong=100),
    ])  # fmt: skip
    cluster.nodes["t1"] = cluster.nodes["t2"] = ("allocated", "gpu:a100:8", "gpu:a100:8", "train")
    pools = replace(POOLS, scheduler="pickyman", restart_s=5.0, save_s=5.0)
    lines = [step.line(pools).split(" (")[0] for step in Adviser(cluster.slurm, pools, tmp_path).advise(NOW_S).steps]
    assert lines[0].startswith("preempt 5: scancel --signal=USR1")
    assert lines[1:] == [
        "start 7: scontrol update JobId=7 Nice=-100",
        "postpone 6: scontrol update JobId=6 Nice=100",
    ]
    assert len(list(tmp_path.glob("view-*-after-evictions.json"))) == 1


def made_up(seed: int) -> ControlCluster:
    """A cluster in some state, with loans, demand and jobs of several widths."""
    dice = random.Random(seed)
    cluster, free = ControlCluster(), {"t1": 8, "t2": 8, "i1": 4, "i2": 4, "i3": 4}
    lent = [name for name in ("i1", "i2", "i3") if dice.random() < 0.5]
    cluster.reservations = [loan(name, dice.randrange(60, 5000)) for name in lent]
    for number in range(1, dice.randrange(3, 14)):
        gpus, minutes = dice.choice([1, 2, 4, 8]), dice.randrange(1, 600)
        cells = {"tres_per_node": f"gres:gpu:{gpus}", "TimeLimit": f"{minutes}:00", "RestartCnt": dice.randrange(3)}
        cells |= {"SubmitTime": NOW_S - dice.randrange(9000), "PriorityLong": dice.randrange(1, 500)}
        room = [name for name in ("t1", "t2", *lent) if free[name] >= gpus]
        if room and dice.random() < 0.6:
            free[room[0]] -= gpus
            cluster.jobs.append(running(number, room[0], StartTime=NOW_S - dice.randrange(6000), **cells))
        else:
            cluster.jobs.append(pending(number, **cells))
    cluster.jobs.append(pending(99, Partition="inference", Comment="", NumNodes=dice.randrange(4)))
    for name, left in free.items():
        size, kind = (8, "a100") if name.startswith("t") else (4, "t4")
        cluster.nodes[name] = ("mixed", f"gpu:{kind}:{size}", f"gpu:{kind}:{size - left}", "train inference")
    return cluster


@pytest.mark.parametrize("scheduler", [name for name in VIEW_SCHEDULERS if name not in REMEMBERING])
def test_recorded_views_are_decided_again_to_the_byte(scheduler: str, tmp_path: Path) -> None:
    actions = 0
    adviser = None
    for seed in range(25):
        adviser = Adviser(made_up(seed).slurm, replace(POOLS, scheduler=scheduler), tmp_path)
        adviser.account.snapshots = seed
        advice = adviser.advise(NOW_S)
        assert advice.plan is not None
        actions += len(advice.plan.actions)
        found = {path.name: read_recorded(path) for path in tmp_path.glob(f"view-{seed + 1:06d}*.json")}
        assert all(decide_again(recorded) == recorded.plan for recorded in found.values())
        if len(found) == 1:
            assert found[f"view-{seed + 1:06d}.json"].plan == plan_text(advice.plan)
            continue
        (second,) = (name for name in found if name != f"view-{seed + 1:06d}.json")
        decided, planned = json.loads(found[second].plan)["actions"], json.loads(plan_text(advice.plan))["actions"]
        if "with-loans" in second:
            rest = [row for row in planned if row["action"] != "GpuLend"]
            assert [row for row in decided if row["action"] != "GpuLend"] == rest
        else:
            evicted = [row["job"] for row in planned if row["action"] == "GpuPreempt"]
            starts = [row for row in decided if row["action"] == "GpuStart" and row["job"] not in evicted]
            assert [row for row in planned if row["action"] == "GpuStart"] == starts
            assert evicted
    assert actions > 25
    assert len([path for path in tmp_path.glob("view-*.json") if path.stem.count("-") == 1]) == 25
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())


def sia_cluster() -> ControlCluster:
    cluster = ControlCluster()
    del cluster.nodes["i3"]
    for name in cluster.nodes:
        cluster.nodes[name] = ("idle", "gpu:slow:4", "gpu:slow:0", "train inference")
    return cluster


def test_sia_learns_from_its_views_and_replays_them(tmp_path: Path) -> None:
    profiles = write_profiles(tmp_path / "profiles")
    pools = replace(ELASTIC, scheduler="sia", profiles=str(profiles), owner_nodes=("i1", "i2"), resizes_per_job_hour=9)
    cluster, sized = sia_cluster(), {"tres_per_node": "N/A", "SubmitTime": NOW_S - 5000}
    words = "mirage-control gpus=1-8 model=toy batch=40"
    adviser = Adviser(cluster.slurm, pools, tmp_path)

    def steps(jobs: list[dict[str, str]], gpus: int, time_s: int) -> list[str]:
        cluster.jobs = jobs
        cluster.nodes["t1"] = ("mixed", "gpu:slow:4", f"gpu:slow:{gpus}", "train")
        return [step.line(pools) for step in adviser.advise(time_s).steps]

    one = {**sized, "Comment": words, "tres_per_job": "gres:gpu:1"}
    assert steps([pending(5, **one)], 0, NOW_S) == ["start 5: no command needed (goodput:gpu_type=slow,gpus=1)"]
    (grow,) = steps([running(5, "t1", **one)], 1, NOW_S + 60)
    assert "TresPerJob=gres:gpu:2" in grow
    two = {**one, "tres_per_job": "gres:gpu:2"}
    (grow,) = steps([running(5, "t1", RestartCnt=1, **two)], 2, NOW_S + 120)
    assert "TresPerJob=gres:gpu:4" in grow, "at most twice as many as before"
    assert adviser.account.steps == {"start": 1, "resize": 2}
    deciders: dict[str, ViewDecider] = {}
    recorded = [read_recorded(path) for path in sorted(tmp_path.glob("view-*.json"))]
    assert [decide_again(one, deciders) == one.plan for one in recorded] == [True] * 3
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="is no recorded view: it has no 'format'; record the views again"):
        read_recorded(tmp_path / "empty.json")
    for path in tmp_path.glob("speeds-*.npz"):
        for damaged in (b"no arrays", b"", path.read_bytes().replace(b"PK", b"P\x00", 1)):
            path.write_bytes(damaged)
            with pytest.raises(ConfigurationError, match="is no recorded view"):
                read_recorded(tmp_path / "view-000001.json")


def test_a_job_without_a_known_model_has_one_size_for_sia(tmp_path: Path) -> None:
    pools = replace(ELASTIC, scheduler="sia", profiles=str(write_profiles(tmp_path)), owner_nodes=("i1", "i2"))
    cluster = sia_cluster()
    cells = {"tres_per_job": "gres:gpu:2", "tres_per_node": "N/A"}
    words = ("gpus=2-8", "gpus=2-8 model=other", "gpus=2-8 model=toy", "model=other")
    cluster.jobs = [pending(k, Comment=f"mirage-control {word}", **cells) for k, word in enumerate(words, 5)]
    advice = Adviser(cluster.slurm, pools).advise(NOW_S)
    assert advice.view is not None
    assert advice.view.rigid == {"it names no model": 1, "its model is not in the profiles": 1}
    assert advice.view.view.jobs.max_gpus.tolist() == [2, 2, 8, 2]
    assert advice.view.view.jobs.model.tolist() == [-1, -1, 0, -1]
    assert {step.subject for step in advice.steps if step.kind == "start"} == {"5", "6", "7", "8"}


def test_sia_needs_profiles_of_the_nodes(tmp_path: Path) -> None:
    cluster = sia_cluster()
    cluster.jobs = [pending(5)]
    with pytest.raises(ConfigurationError, match=r"sia needs measured speeds; give \[profiles\] folder"):
        Adviser(cluster.slurm, replace(POOLS, scheduler="sia"))
    pools = replace(POOLS, scheduler="sia", profiles=str(write_profiles(tmp_path)), owner_nodes=("i1", "i2"))
    for name in cluster.nodes:
        cluster.nodes[name] = ("idle", "gpu:4", "gpu:0", "train inference")
    with pytest.raises(ConfigurationError, match=r"GPUs without a type; give \[profiles\] gpu_type"):
        Adviser(cluster.slurm, pools).advise(NOW_S)
    assert not Adviser(cluster.slurm, replace(pools, profiles_gpu_type="fast")).advise(NOW_S).problem


@pytest.mark.parametrize(
    ("comment", "progress", "model"),
    [
        ("mirage-control model=toy,batch=40", None, ("toy", 40)),
        ("model=toy", JobProgress(0.1, 0.0, "other", 16), ("toy", 16)),
        ("batch=-4 batchsize=3", JobProgress(0.1, 0.0, "other", 16), ("other", 16)),
        ("batch=99999999999", None, ("", 0)),
    ],
)
def test_a_job_declares_its_model_in_its_comment_or_its_progress_file(
    comment: str, progress: JobProgress | None, model: tuple[str, int]
) -> None:
    assert job_model(QueuedJob(7, JobState.PENDING, comment=comment), progress) == model


def test_a_file_that_is_no_recorded_view_is_named(tmp_path: Path) -> None:
    advice = Adviser(made_up(1).slurm, POOLS).advise(NOW_S)
    assert advice.view is not None
    assert advice.plan is not None
    path = tmp_path / "view-000001.json"
    record(path, "fifo", advice.view, advice.plan)
    good = json.loads(path.read_text())
    short = {**good, "jobs": {**good["jobs"], "gpus": good["jobs"]["gpus"][1:]}}
    far = {**good, "held": {**good["held"], "server": [99] * len(good["held"]["server"])}}
    strange = {**good, "jobs": {**good["jobs"], "model": [0] * len(good["jobs"]["model"])}}
    for broken in (strange, {**good, "format": "other"}, {**good, "jobs": {}}, [], {**good, "servers": 3}, short, far):
        path.write_text(json.dumps(broken))
        with pytest.raises(ConfigurationError, match="view-000001"):
            read_recorded(path)
    path.write_text("{")
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_recorded(path)


@pytest.mark.parametrize("scheduler", ["sia", "sia-plus"])
def test_sia_follows_gpus_that_other_users_take_and_give_back(scheduler: str, tmp_path: Path) -> None:
    profiles = str(write_profiles(tmp_path))
    pools = replace(ELASTIC, scheduler=scheduler, profiles=profiles, owner_nodes=("i1", "i2"), most_gpus=4)
    cluster, per_job = sia_cluster(), {"tres_per_node": "N/A", "SubmitTime": NOW_S - 5000}
    cluster.nodes["t2"] = ("drained", "gpu:slow:4", "gpu:slow:0", "train")
    adviser = Adviser(cluster.slurm, pools)
    rigid = {**per_job, "Comment": "mirage-control", "tres_per_job": "gres:gpu:4"}
    elastic = {**per_job, "Comment": "mirage-control gpus=1-4 model=toy batch=40", "tres_per_job": "gres:gpu:2"}
    other = running(9, "t1", Comment="", tres_per_node="gres:gpu:2")

    def steps(time_s: int, used: int, *jobs: dict[str, str]) -> list[tuple[str, str]]:
        cluster.jobs = [*jobs]
        cluster.nodes["t1"] = ("mixed", "gpu:slow:4", f"gpu:slow:{used}", "train")
        advice = adviser.advise(time_s)
        assert not advice.problem
        return [(step.kind, step.subject) for step in advice.steps]

    assert steps(NOW_S, 0, pending(5, **rigid)) == [("start", "5")]
    assert steps(NOW_S + 60, 4, other, running(6, "t1", **elastic)) == [], "it has all that the other has left"
    assert steps(NOW_S + 120, 0, pending(7, **rigid)) == [("start", "7")]


def test_a_progress_file_that_hangs_counts_as_absent(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    cluster = ControlCluster(jobs=[running(6, "t1", UserName=me), running(7, "t2", UserName=me)])
    (tmp_path / "7.json").write_text('{"step": 8, "steps": 10}')
    adviser = Adviser(cluster.slurm, replace(POOLS, progress_file=f"{tmp_path}/{{job}}.json"))
    with hanging(tmp_path / "6.json"):
        advice = adviser.advise(NOW_S)
    assert advice.view is not None
    assert advice.view.view.jobs.done.tolist() == pytest.approx([1 / 3, 0.8])


def test_sia_learns_the_model_of_a_job_from_a_later_progress_file(tmp_path: Path) -> None:
    pools = replace(
        ELASTIC, scheduler="sia", profiles=str(write_profiles(tmp_path / "profiles")), owner_nodes=("i1", "i2"),
        progress_file=f"{tmp_path}/{{job}}.json",
    )  # fmt: skip
    cluster = sia_cluster()
    me = pwd.getpwuid(os.getuid()).pw_name
    cells = {"Comment": "mirage-control gpus=1-8", "tres_per_job": "gres:gpu:1", "tres_per_node": "N/A", "UserName": me}
    cluster.jobs = [pending(5, **cells)]
    adviser = Adviser(cluster.slurm, pools)
    adviser.advise(NOW_S)
    (tmp_path / "5.json").write_text(
        json.dumps({"step": 3, "steps": 9000, "saved_step": 1, "model": "toy", "batch": 40})
    )
    cluster.jobs = [running(5, "t1", **cells)]
    cluster.nodes["t1"] = ("mixed", "gpu:slow:4", "gpu:slow:1", "train")
    advice = adviser.advise(NOW_S + 60)
    assert advice.view is not None
    assert advice.view.view.jobs.model.tolist() == [0]
    assert {step.kind for step in advice.steps} == {"resize"}, "it does not leave"


def test_other_gpus_than_at_the_beginning_end_no_controller(tmp_path: Path) -> None:
    pools = replace(POOLS, scheduler="sia", profiles=str(write_profiles(tmp_path)), owner_nodes=("i1", "i2"))
    cluster = sia_cluster()
    cluster.jobs = [pending(5)]
    adviser = Adviser(cluster.slurm, pools)
    assert not adviser.advise(NOW_S).problem
    cluster.nodes["t2"] = ("idle", "(null)", "(null)", "train")
    assert "GPUs without a type" in adviser.advise(NOW_S + 60).problem
    cluster.nodes["t2"] = ("idle", "gpu:slow:4", "gpu:slow:0", "train")
    assert not adviser.advise(NOW_S + 120).problem


def evicted(scheduler: str, *ran_s: int) -> list[str]:
    """Jobs that a short job evicts from two full nodes, by the time that those have run."""
    full = {"tres_per_node": "gres:gpu:a100:8", "tres_alloc": "gres/gpu=8", "TimeLimit": "2-00:00:00"}
    jobs = [running(5 + k, f"t{k + 1}", StartTime=NOW_S - ran, **full) for k, ran in enumerate(ran_s)]
    cluster = ControlCluster(jobs=[*jobs, pending(7, **{**full, "TimeLimit": "10:00", "tres_alloc": "node=1"})])
    cluster.nodes |= {name: ("allocated", "gpu:a100:8", "gpu:a100:8", "train") for name in ("t1", "t2")}
    steps = Adviser(cluster.slurm, replace(POOLS, scheduler=scheduler)).advise(NOW_S).steps
    return [step.subject for step in steps if step.kind == "preempt"]


@pytest.mark.parametrize(
    ("scheduler", "guaranteed_s"), [("pickyman-plus", 60), ("fitgpp", 600), ("slurm-preempt", 600)]
)
def test_no_job_is_evicted_before_the_run_time_that_its_scheduler_guarantees(scheduler: str, guaranteed_s: int) -> None:
    assert evicted(scheduler, guaranteed_s - 1, guaranteed_s - 1) == []
    assert evicted(scheduler, guaranteed_s - 1, guaranteed_s) == ["6"]


def test_the_youngest_job_is_evicted_first_if_its_scheduler_has_this_rule() -> None:
    assert evicted("slurm-preempt", 9000, 1000) == ["6"]
    assert evicted("slurm-preempt", 1000, 9000) == ["5"]
