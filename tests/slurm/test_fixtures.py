"""Real outputs of two Slurm versions: text, JSON and REST give the same typed values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm import slurm_json as json_values
from mirage.slurm.survey import OLDEST, Version, parse_version
from mirage.slurm.text import machine as machine_text
from mirage.slurm.text import scontrol as scontrol_text

VERSIONS = {"22.05.8": "", "25.11.7": "25.11"}


@pytest.fixture(params=VERSIONS, ids=list(VERSIONS))
def fixtures(request, shared_data: Path) -> Path:
    return shared_data / "slurm-fixtures" / VERSIONS[request.param]


pytestmark = pytest.mark.usefixtures("utc")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def records(path: Path, name: str) -> list[dict]:
    return json.loads(text(path))[name]


def test_jobs_are_the_same_in_text_and_in_json(fixtures: Path) -> None:
    source = fixtures / ("scontrol.show.job.json" if fixtures.name == "25.11" else "squeue.json")
    by_json = {job.id: job for job in map(json_values.queued_job, records(source, "jobs"))}
    by_text = {job.id: job for job in scontrol_text.read_jobs(text(fixtures / "scontrol.show.job.o.txt"))}
    both = sorted(by_json.keys() & by_text.keys())
    assert len(both) >= 10
    settled = [k for k in both if by_json[k].state is by_text[k].state and by_json[k].start_s == by_text[k].start_s]
    assert len(settled) >= 8
    for number in settled:
        # the two commands ran a moment apart, and scontrol names neither array tasks nor priorities of ended jobs alike
        ours = [
            replace(job, priority=0.0, reason="", array="", end_s=MISSING, cpus=1, gpus=0)
            for job in (by_json[number], by_text[number])
        ]
        assert ours[0] == ours[1]
        assert by_json[number].gpus == by_text[number].gpus


def test_states_of_the_queue_are_all_known(fixtures: Path) -> None:
    found = {json_values.queued_job(record).state for record in records(fixtures / "squeue.json", "jobs")}
    assert JobState.UNKNOWN not in found
    assert {JobState.PENDING, JobState.RUNNING} <= found


def test_a_job_of_slurmrestd(fixtures: Path) -> None:
    (job,) = map(json_values.queued_job, records(fixtures / "rest.jobs.json", "jobs"))
    assert (job.id, job.state, job.name, job.user, job.nodes, job.gpus) == (
        1,
        JobState.RUNNING,
        "rest1",
        "labuser",
        2,
        16,
    )
    assert (job.limit_s, job.comment, job.nodelist, job.end_s - job.start_s) == (300, "from-rest", "n[1-2]", 300)


def test_nodes_are_the_same_in_text_and_from_slurmrestd(fixtures: Path) -> None:
    by_rest = {node.name: node for node in map(json_values.node, records(fixtures / "rest.nodes.json", "nodes"))}
    by_text = {node.name: node for node in scontrol_text.read_nodes(text(fixtures / "scontrol.show.node.o.txt"))}
    assert by_rest.keys() == by_text.keys() == {f"n{k}" for k in range(1, 9)}
    for name, node in by_text.items():
        assert (node.cpus, node.gpus, node.usable) == (64, 8, True)
        assert by_rest[name].gpus == 8
        assert set(by_rest[name].partitions) == set(node.partitions)


def test_partitions_are_the_same_in_text_and_from_slurmrestd(fixtures: Path) -> None:
    by_rest = {p.name: p for p in map(json_values.partition, records(fixtures / "rest.partitions.json", "partitions"))}
    by_text = {p.name: p for p in machine_text.read_partitions(text(fixtures / "scontrol.show.partition.o.txt"))}
    assert by_rest.keys() == by_text.keys()
    for name, partition in by_text.items():
        assert partition.max_time_s == UNLIMITED_S
        assert partition.default_time_s == 600
        assert replace(by_rest[name], default=partition.default) == partition


def test_accounting_in_json(fixtures: Path) -> None:
    jobs = [json_values.accounted_job(record) for record in records(fixtures / "sacct.json", "jobs")]
    assert len(jobs) >= 10
    assert JobState.COMPLETED in {job.state for job in jobs} or JobState.CANCELLED in {job.state for job in jobs}
    assert all(job.submit_s > 1_700_000_000 for job in jobs)
    assert all(job.limit_s > 0 for job in jobs)
    assert all(job.end_s >= job.start_s for job in jobs if job.end_s != MISSING)


def test_options_of_the_controller(fixtures: Path) -> None:
    options = machine_text.read_config(text(fixtures / "scontrol.show.config.txt"))
    assert options["schedulertype"] == "sched/backfill"
    assert options["prioritytype"] == "priority/multifactor"
    assert options["priorityweightage"] == "1000"
    assert "bf_interval" in options["schedulerparameters"]


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("slurm 25.11.7", Version(25, 11, 7)),
        ("slurm-wlm 22.05.8", Version(22, 5, 8)),
        ("slurm 26.05.0-0rc1", Version(26, 5, 0)),
    ],
)
def test_versions(printed: str, version: Version) -> None:
    assert parse_version(printed) == version
    assert version > OLDEST
