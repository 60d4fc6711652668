"""``mirage endpoint``: where a proxy finds the live job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from mirage.slurm.values import QueuedJob

Type = Callable[..., tuple[str, str]]


@pytest.mark.parametrize(
    ("kind", "nodes", "text"),
    [
        ("nginx", "gpu[07-08]", "upstream serve {\n    server gpu07:8000;\n}\n"),
        ("nginx", "", "upstream serve {\n    server 127.0.0.1:9 down;\n}\n"),
        ("haproxy", "gpu07", "backend serve\n    server live gpu07:8000 check init-addr last,libc,none\n"),
        ("haproxy", "", "backend serve\n"),
    ],
)
def test_the_endpoint_is_the_first_host_of_the_live_job(
    type_: Type, slurm: Any, kind: str, nodes: str, text: str
) -> None:
    slurm.jobs = (QueuedJob(101, JobState.TIMEOUT, nodelist="old1"), QueuedJob(102, JobState.RUNNING, nodelist=nodes))
    assert type_("endpoint", "serve", "--port", "8000", "--kind", kind) == (text, "")


def test_an_endpoint_in_a_file_is_written_once_and_what_follows_it_is_run(
    type_: Type, slurm: Any, tmp_path: Path
) -> None:
    slurm.jobs = (QueuedJob(102, JobState.RUNNING, nodelist="gpu07"),)
    words = ["endpoint", "serve", "--port", "80", "-o", "up.conf", "--reload"]
    assert type_(*words, "cp up.conf seen; false") == (
        "", "serve is at gpu07\nmirage: 'cp up.conf seen; false' failed\n",
    )  # fmt: skip
    assert (tmp_path / "seen").read_text() == (tmp_path / "up.conf").read_text()
    assert type_(*words, "false") == ("", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "80", "--watch"], "Error: --watch needs -o FILE"),
        (["--port", "0"], "Error: Invalid value for '--port': 0 is not in the range 1<=x<=65535."),
        (["--port", "80", "--every", "-1"], "Error: Invalid value for '--every': -1 is not in the range x>=1."),
        ([], "Error: Missing option '--port'."),
    ],
)
def test_an_endpoint_that_cannot_be_is_refused(type_: Type, words: list[str], message: str) -> None:
    assert type_("endpoint", "serve", *words, status=2)[1].splitlines()[-1] == message
