"""Names of output files as sbatch expands them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.agent.failure.job_output import output_files


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


def test_output_files_are_paths() -> None:
    found = {"output": "d", "error": "f", "exclude": "n3", "job-name": "c"}
    assert isinstance(output_files(found, "/", 1, name="c", user="u", hosts=[])[0], Path)
