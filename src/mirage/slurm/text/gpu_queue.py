"""The queue from ``squeue``, with more columns, for a controller of GPU jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mirage.slurm.records import QueuedJob
from mirage.slurm.text.squeue import FIELD, FIELDS, RECORD, command, queued_job
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.numbers import count_of, whole_number
from mirage.slurm_words.tres import gres_gpus_per_node

_MORE = ("tres-per-socket", "RestartCnt", "Reservation", "ReqNodes", "MaxNodes", "ArrayJobID", "HetJobID")
_ONE_TYPE = re.compile(r"gres[:/]gpu(?::([^:=,()]+))?[:=]\d+")
_TYPE = re.compile(r"gres[:/]gpu:([^:=,()]*[^:=,()\d][^:=,()]*)")


@dataclass(frozen=True, slots=True)
class GpuQueueJob:
    """A job of the queue, with what only a controller reads.

    Attributes:
        job: The job.
        restarts: Number of times that it was requeued. Slurm gives a requeued job a new submit time.
        gpu_type: The GPU type that it requests; empty for any.
        reservation: The reservation that it names; empty for none.
        required_nodes: Nodes that it requires, as a host list; empty for none.
        gpus_per_job: Whether it requests GPUs of one type for the whole job only (``--gpus``), and Slurm chooses the
            nodes. Slurm refuses another size of a job that also requests GPUs per task (22.05.8).
        gpus_on_one_node: Whether it is one task on one node, and requests GPUs of one type for each node only
            (``--gpus-per-node``, ``--gres``). Slurm may give several nodes to a job of several tasks.
        gpus_unknown: Whether it requests GPUs, and their number is not known (``--gpus-per-socket``).
        task: How commands name it if it is of an array: ``7_3``, or ``7_[4-9]`` for tasks that wait as one record. One
            record of an array has the id of the array, and commands take this id for all tasks (22.05.8). Empty for
            other jobs.
        tasks_unknown: Whether it is an array with more tasks than ``squeue`` lists (``SLURM_BITSTR_LEN``): no command
            can name these alone.
        heterogeneous: Whether it is a component of a heterogeneous job: a requeue of one component is one of all.
    """

    job: QueuedJob
    restarts: int = 0
    gpu_type: str = ""
    reservation: str = ""
    required_nodes: str = ""
    gpus_per_job: bool = False
    gpus_on_one_node: bool = False
    gpus_unknown: bool = False
    task: str = ""
    tasks_unknown: bool = False
    heterogeneous: bool = False


def gpu_queue_command(mark: str = "") -> tuple[str, ...]:
    """The command that requests every job; ``mark`` ends every separator."""
    *words, fields = command(mark)
    return (*words, ",".join((*(f"{name}:{FIELD}{mark}" for name in _MORE), fields)))


def read_gpu_queue(output: str, mark: str = "") -> tuple[tuple[GpuQueueJob, ...], tuple[str, ...]]:
    """The jobs in the output of the command, and the records that cannot be read."""
    jobs, unreadable = [], []
    for record in output.split(RECORD + mark):
        cells = record.lstrip("\n").split(FIELD + mark)
        if cells == [""]:
            continue
        if len(cells) != len(_MORE) + len(FIELDS) or whole_number(cells[len(_MORE)]) is None:
            unreadable.append(record.strip()[:200])
            continue
        row = dict(zip((*_MORE, *FIELDS), map(text_of, cells)))
        of_job, of_node, of_task, of_socket = (row[f"tres-per-{each}"] for each in ("job", "node", "task", "socket"))
        job = queued_job(cells[len(_MORE) :])
        listed = row["ArrayTaskID"].partition("%")[0]
        one, each = _ONE_TYPE.fullmatch(of_job), _ONE_TYPE.fullmatch(of_node)
        gpu_type = (
            one[1] or ""
            if one
            else each[1] or ""
            if each
            else requested_gpu_type(of_job or of_node or of_task or of_socket)
        )
        jobs.append(
            GpuQueueJob(
                job,
                count_of(row["RestartCnt"]),
                gpu_type,
                row["Reservation"],
                row["ReqNodes"],
                gpus_per_job=one is not None and not (of_node or of_task or of_socket),
                gpus_on_one_node=each is not None
                and not (of_job or of_task or of_socket)
                and count_of(row["NumTasks"]) == count_of(row["MaxNodes"]) == job.nodes == 1,
                gpus_unknown=job.gpus == 0 and gres_gpus_per_node(of_socket) > 0,
                task=f"{row['ArrayJobID']}_{listed if listed.isdecimal() else f'[{listed}]'}" if listed else "",
                tasks_unknown="..." in listed,
                heterogeneous=count_of(row["HetJobID"]) > 0,
            )
        )
    return tuple(jobs), tuple(unreadable)


def requested_gpu_type(tres: str) -> str:
    """The type in ``gres:gpu:h100:4``; empty where there is none."""
    found = _TYPE.search(tres)
    return found[1] if found else ""
