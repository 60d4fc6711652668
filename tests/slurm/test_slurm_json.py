"""Slurm's JSON, key by key, in the shapes of 22.05 and of later versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import AccountedJob, Node, QueuedJob, SlurmPartition
from mirage.slurm.slurm_json import (
    accounted_job,
    exit_of,
    instant,
    minutes_as_s,
    node,
    partition,
    queued_job,
    text,
    words,
)
from mirage.slurm_words.json_numbers import number_or


def set_to(value: object) -> dict[str, object]:
    """A number as later versions write it."""
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
INFINITE = {"set": True, "infinite": True, "number": 0}

# -- values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        (0, 0),
        (2.5, 2.5),
        (set_to(7), 7),
        (UNSET, MISSING),
        (INFINITE, UNLIMITED_S),
        ({"infinite": True}, UNLIMITED_S),
        ({"number": 7}, MISSING),
        (set_to(None), MISSING),
        (0xFFFFFFFE, MISSING),
        (0xFFFFFFFF, UNLIMITED_S),
        (set_to(0xFFFFFFFF), UNLIMITED_S),
        (None, MISSING),
        ("7", 7),
        (True, MISSING),
        ([7], MISSING),
    ],
)
def test_a_number_in_any_shape(value: object, expected: float) -> None:
    assert number_or(value) == expected
    if expected == MISSING:
        assert number_or(value, 3.0) == 3.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        (["one", 2, None], ["one"]),
        (None, []),
        (7, []),
        ({"a": 1}, []),
    ],
)
def test_words(value: object, expected: list[str]) -> None:
    assert words(value) == expected


def test_single_values() -> None:
    assert (text("a "), text("(null)"), text(None), text(7)) == ("a", "", "", "")
    assert (instant(5), instant(0), instant(None), instant(set_to(5)), instant(2.9)) == (5, MISSING, MISSING, 5, 2)
    assert (minutes_as_s(2), minutes_as_s(set_to(2)), minutes_as_s(0)) == (120, 120, 0)
    assert minutes_as_s(INFINITE) == minutes_as_s(0xFFFFFFFF) == UNLIMITED_S
    assert minutes_as_s(UNSET) == minutes_as_s(None) == MISSING


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, (0, 0)),
        (768, (3, 0)),
        (9, (0, 9)),
        (0xFFFF, (255, 127)),
        (None, (0, 0)),
        ({"return_code": 3, "signal": {"signal_id": 0}}, (3, 0)),
        ({"return_code": set_to(3), "signal": {"id": set_to(9)}}, (3, 9)),
        ({"return_code": set_to(3), "signal": {"id": UNSET, "name": ""}}, (3, 0)),
        ({"return_code": 1, "signal": {"signal_id": 15}}, (1, 15)),
        ({"return_code": 1, "signal": {"id": 2, "signal_id": 15}}, (1, 2)),
        ({"return_code": 1, "signal": None}, (1, 0)),
        ({"status": ["SUCCESS"]}, (0, 0)),
    ],
)
def test_exit_codes(value: object, expected: tuple[int, int]) -> None:
    assert exit_of(value) == expected


# -- jobs of the queue --------------------------------------------------------------------------------------

NEW: dict[str, Any] = {
    "job_id": 17, "job_state": ["RUNNING"], "name": "train", "user_name": "ada", "account": "lab", "partition": "gpu",
    "qos": "high", "array_task_string": "", "state_reason": "None", "priority": set_to(4031), "node_count": set_to(2),
    "cpus": set_to(128), "tres_alloc_str": "cpu=128,node=2,gres/gpu=16", "tres_req_str": "cpu=2,node=2,gres/gpu=2",
    "tres_per_node": "gres/gpu:8", "time_limit": set_to(2880), "submit_time": set_to(1000),
    "eligible_time": set_to(1001), "start_time": set_to(1060), "end_time": set_to(173_860), "dependency": "",
    "comment": "mirage:x:1", "exit_code": {"return_code": set_to(0), "signal": {"id": UNSET}}, "nodes": "n[1-2]",
    "shared": ["none"],
}  # fmt: skip
OLD = {
    **NEW, "job_state": "RUNNING", "priority": 4031, "node_count": 2, "cpus": 128, "time_limit": 2880,
    "submit_time": 1000, "eligible_time": 1001, "start_time": 1060, "end_time": 173_860, "exit_code": 0,
    "shared": "none",
}  # fmt: skip
JOB = QueuedJob(
    17, JobState.RUNNING, name="train", user="ada", account="lab", partition="gpu", qos="high", priority=4031.0,
    nodes=2, cpus=128, gpus=16, limit_s=172_800, submit_s=1000, eligible_s=1001, start_s=1060, end_s=173_860,
    comment="mirage:x:1", nodelist="n[1-2]", whole_nodes=True,
)  # fmt: skip


@pytest.mark.parametrize("record", [NEW, OLD], ids=["later", "22.05"])
def test_a_job_of_the_queue(record: dict[str, Any]) -> None:
    assert queued_job(record) == JOB


def test_a_job_with_nothing_but_its_number() -> None:
    assert queued_job({"job_id": 3}) == QueuedJob(3, JobState.UNKNOWN)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"job_state": ["RUNNING", "COMPLETING"]}, {"completing": True}),
        ({"job_state": ["COMPLETED", "COMPLETING"]}, {"completing": True}),
        ({"job_state": ["FAILED"]}, {"state": JobState.FAILED}),
        ({"job_state": []}, {"state": JobState.UNKNOWN}),
        (
            {"job_state": ["SUSPENDED"], "start_time": UNSET},
            {"state": JobState.SUSPENDED, "start_s": MISSING, "end_s": MISSING},
        ),
        ({"start_time": UNSET}, {"start_s": MISSING, "end_s": MISSING}),
        ({"job_state": ["FAILED"], "start_time": UNSET}, {"state": JobState.FAILED, "start_s": MISSING}),
        ({"node_count": UNSET}, {"nodes": 1}),
        ({"node_count": set_to(0)}, {"nodes": 1}),
        ({"cpus": None}, {"cpus": 1}),
        ({"priority": UNSET}, {"priority": 0.0}),
        ({"priority": -5}, {"priority": 0.0}),
        ({"priority": 0.5}, {"priority": 0.5}),
        ({"tres_alloc_str": ""}, {"gpus": 2}),
        ({"tres_alloc_str": None, "tres_req_str": None}, {"gpus": 16}),
        ({"tres_alloc_str": "", "tres_req_str": "", "tres_per_node": ""}, {"gpus": 0}),
        ({"tres_alloc_str": "cpu=5", "tres_per_node": "", "tres_per_job": "gres:gpu:3"}, {"gpus": 3}),
        ({"tres_alloc_str": "cpu=5", "tres_per_node": "", "tres_per_task": "gres/gpu:2", "tasks": 5}, {"gpus": 10}),
        ({"time_limit": INFINITE}, {"limit_s": UNLIMITED_S}),
        ({"time_limit": UNSET}, {"limit_s": MISSING}),
        ({"state_reason": "Resources"}, {"reason": "Resources"}),
        ({"dependency": "afterany:9(unfulfilled)"}, {"dependency": "afterany:9(unfulfilled)"}),
        ({"shared": []}, {"whole_nodes": False}),
        ({"shared": ["user"]}, {"whole_nodes": False}),
        ({"exit_code": {"return_code": set_to(3), "signal": {"id": set_to(9)}}}, {"exit_code": 3, "exit_signal": 9}),
        ({"array_task_string": "1-3"}, {}),
    ],
)  # fmt: skip
def test_keys_that_differ(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    assert queued_job(NEW | changed) == replace(JOB, **expected)


@pytest.mark.parametrize(("state", "array"), [("PENDING", "4-9%2"), ("REQUEUE_HOLD", "4-9%2"), ("RUNNING", "")])
def test_an_array_is_one_while_it_waits(state: str, array: str) -> None:
    assert queued_job(NEW | {"job_state": [state], "array_task_string": "4-9%2"}).array == array


# -- jobs of accounting -------------------------------------------------------------------------------------

ENDED: dict[str, Any] = {
    "job_id": 9, "state": {"current": ["FAILED"], "reason": "x"}, "name": "train", "user": "ada", "account": "lab",
    "partition": "gpu", "qos": "high", "allocation_nodes": 2, "comment": {"job": "mirage:x:1", "administrator": "no"},
    "time": {"limit": set_to(2880), "submission": 100, "eligible": 101, "start": 160, "end": 1060},
    "exit_code": {"return_code": set_to(1), "signal": {"id": set_to(2)}}, "submit_line": "sbatch job.sh",
    "tres": {"allocated": [{"type": "mem", "count": 3}, {"type": "cpu", "count": 24}, {"type": "node", "count": 2}]},
}  # fmt: skip
WAS = AccountedJob(
    9, JobState.FAILED, name="train", user="ada", account="lab", partition="gpu", qos="high", nodes=2, limit_s=172_800,
    submit_s=100, eligible_s=101, start_s=160, end_s=1060, exit_code=1, exit_signal=2, comment="mirage:x:1",
    submit_line="sbatch job.sh", cpus=24,
)  # fmt: skip


def test_a_job_of_accounting() -> None:
    assert accounted_job(ENDED) == WAS


def test_an_empty_job_of_accounting() -> None:
    assert accounted_job({"job_id": 3}) == AccountedJob(3, JobState.UNKNOWN)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"state": {"current": "FAILED"}}, {}),
        ({"tres": {"allocated": []}}, {"cpus": MISSING}),
        ({"tres": {"allocated": [None, {"type": "cpu", "count": None}]}}, {"cpus": MISSING}),
        ({"state": {"current": ["COMPLETED"]}}, {"state": JobState.COMPLETED}),
        ({"state": {"current": ["RUNNING"]}}, {"state": JobState.RUNNING, "end_s": MISSING}),
        ({"state": {"current": ["PENDING"]}}, {"state": JobState.PENDING, "end_s": MISSING}),
        ({"state": {"current": ["SUSPENDED"]}}, {"state": JobState.SUSPENDED, "end_s": MISSING}),
        ({"state": {}}, {"state": JobState.UNKNOWN, "end_s": MISSING}),
        ({"state": {"current": ["CANCELLED"]}}, {"state": JobState.CANCELLED}),
        ({"user": "", "association": {"user": "bob"}}, {"user": "bob"}),
        ({"user": None, "association": None}, {"user": ""}),
        ({"association": {"user": "bob"}}, {}),
        ({"allocation_nodes": 0}, {"nodes": 1}),
        ({"allocation_nodes": None}, {"nodes": 1}),
        ({"comment": "mirage:y:2"}, {"comment": "mirage:y:2"}),
        ({"comment": None}, {"comment": ""}),
        ({"exit_code": 256}, {"exit_code": 1, "exit_signal": 0}),
    ],
)
def test_keys_of_accounting_that_differ(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    assert accounted_job(ENDED | changed) == replace(WAS, **expected)


@pytest.mark.parametrize(("state", "start_s"), [("CANCELLED", MISSING), ("COMPLETED", 1060)])
def test_a_job_cancelled_while_it_waited_never_started(state: str, start_s: int) -> None:
    times = ENDED["time"] | {"start": 1060}
    assert accounted_job(ENDED | {"state": {"current": [state]}, "time": times}).start_s == start_s


# -- nodes and partitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"name": "n1", "state": ["IDLE"], "cpus": 64, "gres": "gpu:h100:8(S:0-1)", "partitions": ["gpu", "all"]},
            Node("n1", "idle", True, 64, 8, ("gpu", "all")),
        ),
        ({"name": "n1", "state": ["MIXED", "DRAIN"]}, Node("n1", "mixed", False, 1, 0, ())),
        (
            {"name": "n1", "state": "idle", "state_flags": ["DRAIN"], "cpus": set_to(8), "gres": "gres/gpu:2"},
            Node("n1", "idle", False, 8, 2, ()),
        ),
        ({"name": "n1", "state": ["ALLOCATED", "NOT_RESPONDING*"]}, Node("n1", "allocated", False, 1, 0, ())),
    ],
)
def test_a_node(record: dict[str, Any], expected: Node) -> None:
    assert node(record) == expected


FLAT = {
    "name": "gpu", "flags": ["default"], "max_time_limit": 2880, "default_time_limit": 60, "nodes": "n[1-2]",
    "priority_tier": 7,
}  # fmt: skip
GROUPED: dict[str, Any] = {
    "name": "gpu", "maximums": {"time": set_to(2880), "oversubscribe": {"jobs": 0, "flags": []}},
    "defaults": {"time": set_to(60)}, "partition": {"state": ["UP"]}, "flags": ["DEFAULT"],
    "nodes": {"configured": "n[1-2]", "total": 2}, "priority": {"tier": 7},
}  # fmt: skip
GPU = SlurmPartition("gpu", True, 172_800, 3_600, ("n1", "n2"), 7, False)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (FLAT, GPU),
        (FLAT | {"flags": []}, replace(GPU, default=False)),
        (FLAT | {"max_time_limit": 0xFFFFFFFF}, replace(GPU, max_time_s=UNLIMITED_S)),
        (FLAT | {"max_time_limit": None}, replace(GPU, max_time_s=UNLIMITED_S)),
        (FLAT | {"default_time_limit": None}, replace(GPU, default_time_s=MISSING)),
        (FLAT | {"nodes": None}, replace(GPU, nodes=())),
        (FLAT | {"priority_tier": None}, replace(GPU, priority_tier=1)),
        (GROUPED, replace(GPU, whole_nodes=True)),
        (GROUPED | {"flags": []}, replace(GPU, default=False, whole_nodes=True)),
        (GROUPED | {"flags": [], "partition": {"state": ["DEFAULT"]}}, replace(GPU, whole_nodes=True)),
        (GROUPED | {"partition": None, "flags": ["Default"]}, replace(GPU, whole_nodes=True)),
        (GROUPED | {"defaults": None}, replace(GPU, default_time_s=MISSING, whole_nodes=True)),
        (GROUPED | {"priority": None}, replace(GPU, priority_tier=1, whole_nodes=True)),
        (GROUPED | {"nodes": None}, replace(GPU, nodes=(), whole_nodes=True)),
        (FLAT | {"state": "DOWN"}, replace(GPU, down=True)),
        (GROUPED | {"partition": {"state": ["INACTIVE"]}}, replace(GPU, whole_nodes=True, down=True)),
        (GROUPED | {"maximums": {"time": INFINITE}}, replace(GPU, max_time_s=UNLIMITED_S)),
        (GROUPED | {"maximums": {"time": set_to(2880), "oversubscribe": {"jobs": 4}}}, GPU),
        (
            GROUPED | {"maximums": {"time": set_to(2880), "oversubscribe": {"jobs": 1, "flags": ["EXCLUSIVE"]}}},
            replace(GPU, whole_nodes=True),
        ),
        (GROUPED | {"maximums": {"time": set_to(2880), "oversubscribe": {"flags": ["FORCE"]}}}, GPU),
    ],
)
def test_a_partition(record: dict[str, Any], expected: SlurmPartition) -> None:
    assert partition(record) == expected


@pytest.mark.parametrize("name", ["none", "N/A", " two words ", "a|b", "Größe", ""])
def test_a_job_s_name_is_read_word_for_word(name: str) -> None:
    assert queued_job({"job_id": 7, "name": name}).name == accounted_job({"job_id": 7, "name": name}).name == name
    assert queued_job({"job_id": 7, "name": "\ud800"}).name == "\ufffd"
    assert queued_job({"job_id": 7, "name": None}).name == ""
