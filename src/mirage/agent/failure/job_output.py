"""The output files of a job, from the options of its sbatch.

Patterns are expanded as in sbatch(1), *filename pattern*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DEFAULT = "slurm-%j.out"

_FIELD = re.compile(r"%(\d{0,3})([%AaJjNnstux])")


def output_files(
    options: Mapping[str, str | None], directory: str, job: int, *, name: str, user: str, hosts: list[str]
) -> tuple[Path, ...]:
    """The files of a job's batch script: output, then errors where these have another one.

    Args:
        options: The effective options of its sbatch.
        directory: The working directory of sbatch.
        job: Number of the job.
        name: Name of the job.
        hosts: Its nodes; empty where they are not known, then no file with ``%N`` is found.
    """
    where = Path(directory) / (options.get("chdir") or "")
    output = options.get("output") or DEFAULT
    names = dict.fromkeys((output, options.get("error") or output))
    values = {
        "%": "%",
        "A": str(job),
        "J": str(job),
        "j": str(job),
        "a": str(2**32 - 2),  # NO_VAL, as for every job that is not part of an array
        "N": hosts[0].partition(".")[0] if hosts else "",
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": user,
        "x": name,
    }

    def value(match: re.Match[str]) -> str:
        width, letter = match.groups()
        return values[letter].zfill(min(int(width or 0), 10)) if letter in "AaJjnt" else values[letter]

    found = (pattern.replace("\\", "") if "\\" in pattern else _FIELD.sub(value, pattern) for pattern in names)
    return tuple(where / name for name in found)
