"""Every column of the job table from every field that fills it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.trace.formats.swf import swf_bytes
from mirage.trace.read_trace import Trace, read_trace
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable

T0 = 1_705_305_600  # 2024-01-15T08:00:00Z


def row_of(table: JobTable, row: int = 0) -> dict[str, Any]:
    """What a row holds, without what is missing."""
    numbers = {name: int(getattr(table, name)[row]) for name in INT_COLUMNS}
    labels = {name: getattr(table, name).values()[row] for name in LABEL_COLUMNS}
    known = {name: value for name, value in numbers.items() if value != MISSING and name != "state"}
    return {"job_id": str(table.job_id[row]), "state": JobState(numbers["state"]).name, **known} | {
        name: text for name, text in labels.items() if text
    }


# -- sacct's text -------------------------------------------------------------------------------------------

FULL = {
    "JobID": "12_3", "JobName": "train", "User": "ada", "Account": "lab", "Partition": "gpu", "QOS": "high",
    "State": "COMPLETED", "Submit": "2024-01-15T08:00:00", "Eligible": "2024-01-15T08:01:00",
    "Start": "2024-01-15T08:05:00", "End": "2024-01-15T09:05:00", "Elapsed": "01:00:00", "Timelimit": "2-00:00:00",
    "NNodes": "2", "NCPUS": "8", "AllocTRES": "cpu=8,gres/gpu=4,mem=16G,node=2", "NodeList": "n[1-2]", "Priority": "77",
    "Dependency": "afterany:9",
}  # fmt: skip
KNOWN = {
    "job_id": "12_3", "state": "COMPLETED", "submit_s": T0, "eligible_s": T0 + 60, "start_s": T0 + 300,
    "end_s": T0 + 3900, "elapsed_s": 3600, "limit_s": 172_800, "nodes": 2, "gpus": 4, "cpus": 8,
    "memory_mib": 16_384, "priority": 77,
    "user": "ada", "account": "lab", "partition": "gpu", "qos": "high", "name": "train", "dependency": "afterany:9",
}  # fmt: skip
NO_TRES = {"memory_mib": None}


def sacct(tmp_path: Path, **changed: str | None) -> Trace:
    cells = {name: text for name, text in (FULL | changed).items() if text is not None}
    path = tmp_path / "sacct.txt"
    path.write_text("|".join(cells) + "\n" + "|".join(cells.values()) + "\n")
    return read_trace(path, format="sacct")


def test_a_row_of_sacct(tmp_path: Path) -> None:
    trace = sacct(tmp_path)
    assert row_of(trace.table) == KNOWN
    assert trace.report.notes == {}


WITHOUT = {"AllocTRES": None, "NNodes": None, "NCPUS": None, "NodeList": None}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"JobID": None, "JobIDRaw": "77"}, {"job_id": "77"}),
        ({"JobIDRaw": "77"}, {}),
        ({"User": None, "UID": "1000"}, {"user": "1000"}),
        ({"User": "", "UID": "1000"}, {"user": "1000"}),
        ({"UID": "1000"}, {}),
        ({"Elapsed": None, "ElapsedRaw": "61"}, {"elapsed_s": 61}),
        ({"ElapsedRaw": "61"}, {"elapsed_s": 61}),
        ({"ElapsedRaw": "0"}, {"elapsed_s": 0}),
        ({"ElapsedRaw": ""}, {}),
        ({"Elapsed": "INVALID"}, {"elapsed_s": None}),
        ({"Timelimit": "UNLIMITED"}, {"limit_s": UNLIMITED_S}),
        ({"Timelimit": "", "TimelimitRaw": "90"}, {"limit_s": 5400}),
        ({"Timelimit": None, "TimelimitRaw": "UNLIMITED"}, {"limit_s": UNLIMITED_S}),
        ({"Timelimit": "Partition_Limit", "TimelimitRaw": "Partition_Limit"}, {"limit_s": None}),
        ({"TimelimitRaw": "90"}, {}),
        ({"NNodes": None, "AllocNodes": "3", "NodeList": None}, {"nodes": 3}),
        ({"NNodes": "", "NodeList": "n[1-5]"}, {"nodes": 5}),
        ({"NNodes": "0", "NodeList": "None assigned"}, {"nodes": 2}),
        ({**WITHOUT, "ReqTRES": "cpu=4,node=6"}, {"nodes": 6, "cpus": 4, "gpus": 0, **NO_TRES}),
        ({**WITHOUT, "ReqNodes": "7"}, {"nodes": 7, "cpus": None, "gpus": None, **NO_TRES}),
        ({**WITHOUT, "NNodes": "0"}, {"nodes": 0, "cpus": None, "gpus": None, **NO_TRES}),
        ({"NCPUS": None, "AllocCPUS": "16"}, {"cpus": 16}),
        ({"NCPUS": "0"}, {"cpus": 8}),
        ({"NCPUS": "1"}, {"cpus": 1}),
        ({**WITHOUT, "NCPUS": "0"}, {"cpus": 0, "nodes": None, "gpus": None, **NO_TRES}),
        ({**WITHOUT, "NNodes": "2", "ReqCPUS": "6"}, {"cpus": 6, "gpus": None, **NO_TRES}),
        ({"AllocTRES": "", "ReqTRES": "gres/gpu=6"}, {"gpus": 6, **NO_TRES}),
        ({"AllocTRES": None, "AllocGRES": "gpu:3"}, {"gpus": 6, **NO_TRES}),
        ({"AllocTRES": None, "AllocGRES": "", "ReqGRES": "gpu:v100:1"}, {"gpus": 2, **NO_TRES}),
        ({"AllocTRES": None}, {"gpus": None, **NO_TRES}),
        ({"ReqMem": "1Gn", "ReqTRES": "mem=9G"}, {}),
        ({"AllocTRES": "gres/gpu=4", "ReqTRES": "mem=9G", "ReqMem": "1Gn"}, {"memory_mib": 9216}),
        ({"AllocTRES": "gres/gpu=4", "ReqMem": "1Gn"}, {"memory_mib": 2048}),
        ({"AllocTRES": "gres/gpu=4", "ReqMem": "1Gc"}, {"memory_mib": 8192}),
        ({"AllocTRES": "gres/gpu=4", "ReqMem": "1G"}, {"memory_mib": 1024}),
        ({"AllocTRES": "gres/gpu=4", "ReqMem": "0"}, {"memory_mib": 0}),
        ({"AllocTRES": "gres/gpu=4", "ReqMem": ""}, NO_TRES),
        ({"Priority": "Unknown"}, {"priority": None}),
        ({"Eligible": "Unknown"}, {"eligible_s": None}),
        ({"State": "CANCELLED by 7", "Elapsed": "00:00:00", "NodeList": "None assigned", "NNodes": "2"},
         {"state": "CANCELLED", "elapsed_s": 0, "start_s": None}),
        ({"State": "RUNNING"}, {"state": "RUNNING", "end_s": None}),
        ({"JobName%30": "wide", "JobName": None}, {"name": "wide"}),
    ],
)  # fmt: skip
def test_fields_of_sacct_that_differ(tmp_path: Path, changed: dict[str, str | None], expected: dict[str, Any]) -> None:
    found = row_of(sacct(tmp_path, **changed).table)
    assert found == {name: value for name, value in (KNOWN | expected).items() if value is not None}


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"NodeList": "n[1-3]"}, "row whose node list and NNodes differ (NNodes kept)"),
        ({"NodeList": "n[1-"}, "row with a node list that cannot be read"),
        ({"State": "ON_FIRE"}, "row in a state that is not one of Slurm's base states (read as UNKNOWN)"),
    ],
)
def test_notes_of_sacct(tmp_path: Path, changed: dict[str, str], note: str) -> None:
    assert sacct(tmp_path, **changed).report.notes == {note: 1}


def test_the_first_of_two_columns_of_one_name_counts(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|NNodes|NNodes\n1|2|3\n")
    assert read_trace(path).table.nodes.tolist() == [2]


# -- sacct's JSON -------------------------------------------------------------------------------------------

JOB: dict[str, Any] = {
    "job_id": 15, "array": {"job_id": 12, "task_id": {"set": True, "number": 3}, "task": ""}, "het": {"job_id": 0},
    "name": "train", "user": "ada", "account": "lab", "partition": "gpu", "qos": "high",
    "state": {"current": ["COMPLETED"]},
    "time": {
        "submission": T0, "eligible": T0 + 60, "start": T0 + 300, "end": T0 + 3900, "elapsed": 3600,
        "limit": {"set": True, "number": 2880},
    },
    "allocation_nodes": 2, "nodes": "n[1-2]", "priority": {"set": True, "number": 77},
    "tres": {
        "allocated": [
            {"type": "cpu", "name": "", "count": 8}, {"type": "node", "name": None, "count": 2},
            {"type": "gres", "name": "gpu", "count": 4}, {"type": "mem", "name": "", "count": 16_384},
        ],
        "requested": [
            {"type": "cpu", "name": "", "count": 6}, {"type": "node", "name": "", "count": 3},
            {"type": "gres", "name": "gpu", "count": 5}, {"type": "mem", "name": "", "count": 8192},
        ],
    },
    "required": {"CPUs": 5}, "steps": [{}, {}],
}  # fmt: skip
IN_JSON = {name: value for name, value in KNOWN.items() if name != "dependency"}


def read_json(tmp_path: Path, *jobs: dict[str, Any], **options: Any) -> Trace:
    path = tmp_path / "sacct.json"
    path.write_text(json.dumps({"meta": {"plugin": []}, "jobs": list(jobs)}))
    return read_trace(path, **options)


def test_a_job_of_sacct_s_json(tmp_path: Path) -> None:
    trace = read_json(tmp_path, JOB)
    assert row_of(trace.table) == IN_JSON
    report = trace.report
    assert (report.format, report.unit, report.lines, report.steps, report.jobs) == ("sacct-json", "record", 3, 2, 1)


def changed_time(**changed: Any) -> dict[str, Any]:
    return {"time": JOB["time"] | changed}


def without(kind: str) -> dict[str, Any]:
    return {"tres": JOB["tres"] | {kind: []}}


PLAIN = {"array": {"job_id": 0}}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({**PLAIN}, {"job_id": "15"}),
        ({"array": None, "het": None}, {"job_id": "15"}),
        ({"array": {"job_id": 12, "task_id": None, "task": "1-3"}}, {"job_id": "12_[1-3]"}),
        ({"array": {"job_id": 12, "task_id": None, "task": ""}}, {"job_id": "15"}),
        ({"array": {"job_id": 12, "task_id": 0}}, {"job_id": "12_0"}),
        ({**PLAIN, "het": {"job_id": 20, "job_offset": 1}}, {"job_id": "20+1"}),
        ({**PLAIN, "het": {"job_id": 20, "job_offset": {"set": True, "number": 0}}}, {"job_id": "20+0"}),
        ({**PLAIN, "het": {"job_id": 20, "job_offset": None}}, {"job_id": "15"}),
        ({"state": {"current": "FAILED"}}, {"state": "FAILED"}),
        ({"state": {"current": ["COMPLETING", "CANCELLED"]}}, {"state": "CANCELLED"}),
        ({"user": "", "association": {"user": "bob"}}, {"user": "bob"}),
        ({"user": None, "association": None}, {"user": None}),
        (changed_time(limit={"set": True, "infinite": True, "number": 0}), {"limit_s": UNLIMITED_S}),
        (changed_time(limit=2**32 - 1), {"limit_s": UNLIMITED_S}),
        (changed_time(limit=2**32 - 2), {"limit_s": None}),
        (changed_time(limit="60"), {"limit_s": 3600}),
        (changed_time(limit=0), {"limit_s": 0}),
        (changed_time(eligible=0), {"eligible_s": None}),
        (changed_time(elapsed=0), {"elapsed_s": 0}),
        ({"allocation_nodes": 0}, {}),
        ({"allocation_nodes": None, "nodes": "n[1-4]"}, {"nodes": 4}),
        ({"allocation_nodes": 0, "nodes": "n[1-"}, {"nodes": 3}),
        ({"allocation_nodes": 0, "nodes": "", "tres": {}}, {"nodes": 0, "cpus": 5, "gpus": None, **NO_TRES}),
        (without("allocated"), {"cpus": 6, "gpus": 5, "memory_mib": 8192}),
        ({"tres": None}, {"cpus": 5, "gpus": None, **NO_TRES}),
        ({"tres": None, "required": {"CPUs": 5, "memory": 3000}}, {"cpus": 5, "gpus": None, "memory_mib": 6000}),
        ({"tres": None, "required": {"CPUs": 5, "memory_per_cpu": {"set": True, "number": 100},
                                     "memory_per_node": {"set": False, "number": 0}}},
         {"cpus": 5, "gpus": None, "memory_mib": 500}),
        ({"tres": None, "required": {"CPUs": 5, "memory_per_node": {"set": True, "number": 0}}},
         {"cpus": 5, "gpus": None, "memory_mib": 0}),
        ({"tres": None, "required": None}, {"cpus": None, "gpus": None, **NO_TRES}),
        (
            {"tres": {"allocated": [{"type": "gres", "name": "gpu:a100", "count": 2},
                                    {"type": "gres", "name": "gpu:v100", "count": 1},
                                    {"type": "gres", "name": "mps", "count": 9}]}},
            {"gpus": 3, "cpus": 5, **NO_TRES},
        ),
        ({"tres": {"allocated": [{"type": "mem", "count": 2}]}}, {"gpus": 0, "cpus": 5, "memory_mib": 2}),
        ({"priority": None}, {"priority": None}),
        ({"priority": {"set": True, "infinite": True, "number": 0}}, {"priority": None}),
        ({"account": None, "partition": "", "qos": None, "name": None},
         {"account": None, "partition": None, "qos": None, "name": None}),
    ],
)  # fmt: skip
def test_keys_of_sacct_s_json_that_differ(tmp_path: Path, changed: dict[str, Any], expected: dict[str, Any]) -> None:
    found = row_of(read_json(tmp_path, JOB | changed).table)
    assert found == {name: value for name, value in (IN_JSON | expected).items() if value is not None}


def test_a_state_unheard_of_is_noted(tmp_path: Path) -> None:
    trace = read_json(tmp_path, JOB | {"state": {"current": ["ON_FIRE"]}})
    assert row_of(trace.table)["state"] == "UNKNOWN"
    assert list(trace.report.notes.values()) == [1]


# -- the Standard Workload Format, written ------------------------------------------------------------------


def test_a_workload_file_word_for_word() -> None:
    table = JobTable.build(
        ["a", "b", "c"],
        submit_s=[1000, 1010, MISSING],
        start_s=[1005, MISSING, MISSING],
        end_s=[1065, 1100, MISSING],
        elapsed_s=[60, 0, MISSING],
        limit_s=[600, UNLIMITED_S, 2**40 - 1],
        nodes=[1, 2, 2**40],
        cpus=[4, MISSING, 6],
        state=[int(JobState.COMPLETED), int(JobState.CANCELLED), int(JobState.PENDING)],
        user=["ada", "7", "bob\nx"],
        account=["", "lab", "lab"],
        name=["", "1", ""],
        dependency=["", "afterany:a", "afterok:a"],
    )
    assert swf_bytes(table).decode().splitlines() == [
        "; Version: 2.2",
        "; MaxJobs: 3",
        "; MaxRecords: 3",
        "; UnixStartTime: 1000",
        "; TimeZone: 0",
        "; TimeZoneString: UTC",
        "; Note: a processor is one node",
        "; Note: jobs are numbered again, in the order of the source",
        "; Note: user 1 is ada",
        r"; Note: user 2 is bob\nx",
        "; Note: account 1 is lab",
        f"; Note: 2 numbers of {2**40} or more are written as -1",
        "1 0 5 60 1 -1 -1 1 600 -1 1 1 -1 -1 -1 -1 -1 -1",
        "2 10 -1 0 2 -1 -1 2 -1 -1 5 7 1 1 -1 -1 1 -1",
        f"3 -1 -1 -1 -1 -1 -1 -1 {2**40 - 1} -1 -1 2 1 -1 -1 -1 -1 -1",
    ]


def test_a_workload_file_of_processors() -> None:
    table = JobTable.build(["5", "9"], submit_s=[0, 7], nodes=[1, 1], cpus=[4, 8], dependency=["", "afterany:3"])
    lines = swf_bytes(table).decode().splitlines()
    assert lines[6:] == [
        "; Note: a processor is one CPU",
        "5 0 -1 -1 4 -1 -1 4 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1",
        "9 7 -1 -1 8 -1 -1 8 -1 -1 -1 -1 -1 -1 -1 -1 3 -1",
    ]
