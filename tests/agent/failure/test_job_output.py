"""Names of output files as sbatch expands them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.agent.chain.submission import effective_options
from mirage.agent.failure.job_output import output_files
from mirage.slurm.records import Submission


def files(
    directory: str = "/home/ada", hosts: tuple[str, ...] = ("n017.site", "n018.site"), **options: str
) -> list[str]:
    found = output_files(options, directory, 4711, name="gpt", user="ada", hosts=list(hosts))
    return [str(path) for path in found]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/logs/%x-%j.out", "/logs/gpt-4711.out"),
        ("%6j_%A_%u.log", "/home/ada/004711_4711_ada.log"),
        ("%N/%t%%.%s", "/home/ada/n017/0%.batch"),
        ("%3N-%2t", "/home/ada/n017-00"),
        ("%z-%", "/home/ada/%z-%"),
        (r"/logs/\%j.out", "/logs/%j.out"),
    ],
)
def test_patterns_are_expanded(pattern: str, path: str) -> None:
    assert files(output=pattern) == [path]


def test_errors_have_a_file_of_their_own_only_where_one_is_given() -> None:
    assert files() == ["/home/ada/slurm-4711.out"]
    assert files(output="a", error="a") == ["/home/ada/a"]
    assert files(error="%x.err", chdir="run") == ["/home/ada/run/slurm-4711.out", "/home/ada/run/gpt.err"]
    assert files(chdir="/run", hosts=()) == ["/run/slurm-4711.out"]


def test_the_command_line_overrides_the_environment_and_that_the_script() -> None:
    script = b"#!/bin/sh\n#SBATCH --output=a --error=b -x n3\n#SBATCH -J c\nrun\n#SBATCH --chdir=/no\n"
    submission = Submission("job.sh", {"output": "d"}, environment={"SBATCH_OUTPUT": "e", "SBATCH_ERROR": "f"})
    found = effective_options(submission, script)
    assert found == {"output": "d", "error": "f", "exclude": "n3", "job-name": "c"}
    assert isinstance(output_files(found, "/", 1, name="c", user="u", hosts=[])[0], Path)
