"""What a controller reads: nodes with GPUs, and the queue."""

from __future__ import annotations

import pytest

from mirage.slurm.text.gpu_nodes import FIELD, gpu_type_of, read_gpu_nodes
from mirage.slurm.text.gpu_queue import gpu_queue_command, read_gpu_queue, requested_gpu_type
from tests.support.control_cluster import ControlCluster, pending, running


def test_a_node_of_several_partitions_is_one_node_with_its_free_gpus() -> None:
    text = "".join(
        FIELD.join(cells) + "\n"
        for cells in (
            ("n1", "mixed", "gpu:h100:8(S:0-1)", "gpu:h100:3(IDX:0-2)", "main*", ""),
            ("n1", "mixed", "gpu:h100:8(S:0-1)", "gpu:h100:3(IDX:0-2)", "train", ""),
            ("n2", "idle*", "gpu:4", "gpu:0", "train", ""),
            ("n3", "(null)", "(null)", "N/A", "train", ""),
        )
    )
    (n1, n2, n3), unreadable = read_gpu_nodes(text)
    assert (n1.gpu_type, n1.gpus, n1.used, n1.partitions) == ("h100", 8, 3, ("main", "train"))
    assert (n2.gpu_type, n2.gpus, n2.usable) == ("gpu", 4, False)
    assert (n3.gpus, unreadable) == (0, ())
    assert read_gpu_nodes("n1\x1fidle\n")[1] == ("n1\x1fidle",)


@pytest.mark.parametrize(
    ("state", "usable", "answers"),
    [("reserved", True, True), ("idle", True, True), ("planned", True, True), ("draining", False, True),
     ("down*", False, False), ("unknown", False, False), ("mixed", True, True), ("maint", False, True),
     ("mixed$", False, True), ("allocated^", False, True), ("mixed@", True, True)],
)  # fmt: skip
def test_a_reserved_node_is_usable_and_a_silent_one_is_not(state: str, usable: bool, answers: bool) -> None:
    ((node,), _) = read_gpu_nodes(FIELD.join(("n1", state, "gpu:4", "gpu:0", "main", "")))
    assert (node.usable, node.answers) == (usable, answers)


def test_types_of_gpus() -> None:
    assert [gpu_type_of(text) for text in ("gpu:a100:8(S:0-1)", "gpu:8", "craynetwork:4,gpu:t4:2", "")] == [
        "a100", "gpu", "t4", "gpu",
    ]  # fmt: skip
    assert [requested_gpu_type(text) for text in ("gres:gpu:h100:4", "gres/gpu:h100:4", "gres:gpu:4", "")] == [
        "h100", "h100", "", "",
    ]  # fmt: skip


def test_gpus_of_the_whole_job_are_read_and_a_forged_record_is_not() -> None:
    whole = pending(7, tres_per_job="gres:gpu:t4:6", tres_per_node="N/A", RestartCnt=2, Reservation="r", ReqNodes="t1")
    forged = pending(8, Comment=f"x{FIELD}\x1e9{FIELD}RUNNING")
    cluster = ControlCluster(jobs=[whole, forged, running(9, "t1")])
    jobs, unreadable = read_gpu_queue(cluster._answer(gpu_queue_command("ab12")), "ab12")
    assert [one.job.id for one in jobs] == [7, 8, 9]
    first = jobs[0]
    assert (first.job.gpus, first.gpu_type, first.restarts, first.reservation) == (6, "t4", 2, "r")
    assert (first.required_nodes, jobs[2].job.nodelist, jobs[2].job.gpus, unreadable) == ("t1", "t1", 4, ())


def test_a_record_of_an_array_is_named_by_its_tasks() -> None:
    cells = ({}, {"ArrayTaskID": "4-9,12%4"}, {"ArrayTaskID": "3", "ArrayJobID": 7}, {"ArrayTaskID": "0,2,4,..."})
    cluster = ControlCluster(jobs=[pending(7 + k, **of_array) for k, of_array in enumerate(cells)])
    jobs, _ = read_gpu_queue(cluster._answer(gpu_queue_command("ab12")), "ab12")
    assert [one.task for one in jobs[:3]] == ["", "8_[4-9,12]", "7_3"]
    assert [one.tasks_unknown for one in jobs] == [False, False, False, True]
