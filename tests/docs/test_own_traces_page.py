"""Commands of docs/how-to/traces.md on one's own trace, on made-up and public rows."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirage.cli import root
from mirage.trace.read_trace import read_trace

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "traces.md").read_text(encoding="utf-8")
NAME = "graham_core.csv.gz"
HEADER = [
    "job_unique_id", "cluster_id", "submit_time", "eligible_time", "start_time", "end_time", "elapsed_time",
    "time_limit", "partition_id_x", "account_id", "req_cpus", "req_mem_total", "req_tres", "alloc_nodes", "state",
    "priority_x", "submit_wait_sec", "eligible_wait_sec", "run_time_sec", "time_limit_sec", "poll_time",
    "poll_wait_sec",
]  # fmt: skip
"""Of the public file, as it is; the page shows its beginning."""


FIRST = 10_000
"""Rows of the public file that are read; all of them take half a minute."""


def typed() -> list[str]:
    """The command lines of the page."""
    shell = [block.replace("\\\n", " ") for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
    return [line for block in shell for line in block.splitlines() if "--columns" in line]


def made_up(path: Path, jobs: int = 50) -> None:
    """Rows of the same shape."""
    rows = []
    for k in range(jobs):
        submit = datetime(2021, 5, 1, 4) + timedelta(minutes=7 * k)
        start, end = submit + timedelta(minutes=30), submit + timedelta(minutes=40 + k)
        nodes, limit = 1 + k % 3, timedelta(hours=2 + k % 30)
        tres = f"billing=4,cpu={4 * nodes},gres/gpu={k % 2},mem=4G,node={nodes}"
        days = f"{limit.days} days {timedelta(seconds=limit.seconds)!s:0>8}"
        rows.append([
            57_992_564 + k, 3, submit, submit, start, end, (end - start).seconds, days, 55, 18_437 + k % 4, 4 * nodes,
            4096, tres, nodes, ("COMPLETED", "TIMEOUT")[k % 2], 1_424_171 - k, 1800, 1800, (end - start).seconds,
            int(limit.total_seconds()), "2021-05-02 12:00:00", 60,
        ])  # fmt: skip
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to type in, with the page's mapping."""
    (mapping,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "graham.toml").write_text(mapping)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> str:
    words = shlex.split(line)
    assert words[0] == "mirage"
    done = CliRunner().invoke(root, words[1:])
    assert done.exit_code == 0, done.output
    return done.stdout


def assert_the_page_works(jobs: int) -> None:
    """Every command; what the two mappings have in common is read alike."""
    lines = typed()
    assert [line.split()[1:3] for line in lines] == [["trace", "info"], ["trace", "info"], ["trace", "convert"],
                                                     ["simulate", NAME]]  # fmt: skip
    printed = [run(line) for line in lines]
    assert f"{jobs:,} jobs, 0 steps, 0 skipped" in printed[0]
    statistics = json.loads(printed[1])["statistics"]
    assert statistics["jobs"] == jobs
    table = read_trace("graham.csv.gz").table
    option = shlex.split(lines[0])[-1]
    short = read_trace(NAME, columns=option).table
    for name in ("job_id", "submit_s", "start_s", "end_s", "limit_s", "nodes"):
        assert getattr(short, name).tolist() == getattr(table, name).tolist(), name
    assert len(table) == jobs
    assert len(table.account.names) > 3
    assert (table.gpus > 0).any()


def test_the_page_shows_the_beginning_of_the_header() -> None:
    (shown,) = re.findall(r"^(job_unique_id,.*),…$", PAGE, re.MULTILINE)
    assert shown.split(",") == HEADER[: shown.count(",") + 1]


def test_every_command_works_when_typed(folder: Path) -> None:
    made_up(folder / NAME)
    assert_the_page_works(50)


@pytest.mark.slow
def test_every_command_works_on_the_public_file(folder: Path, shared_data: Path) -> None:
    public = shared_data / "queue-wait-graham" / NAME
    if not public.exists():
        pytest.skip(f"there is no {public}")
    with gzip.open(public, "rt", encoding="utf-8") as file:
        lines = list(islice(file, FIRST + 1))
    assert lines[0].strip().split(",") == HEADER
    with gzip.open(folder / NAME, "wt", encoding="utf-8") as file:
        file.writelines(lines)
    assert_the_page_works(FIRST)
