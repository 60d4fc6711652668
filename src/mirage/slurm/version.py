"""The version of Slurm."""

from __future__ import annotations

import re
from typing import NamedTuple

from mirage.errors import SlurmUnreachable, shown
from mirage.slurm.runner import Runner, check_configured

_VERSION = re.compile(r"(\d\d)\.(\d\d)(?:\.(\d+))?")


class Version(NamedTuple):
    """Year, month and patch of a release: 22.05.8."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor:02d}.{self.patch}"


def parse_version(text: str) -> Version:
    """The version in ``slurm 22.05.8`` or ``slurm-wlm 22.05.8``.

    Raises:
        SlurmUnreachable: The text has none.
    """
    found = _VERSION.search(text)
    if found is None:
        raise SlurmUnreachable(f"{shown(text.strip())} names no version of Slurm")
    return Version(int(found[1]), int(found[2]), int(found[3] or 0))


def detect(runner: Runner) -> Version:
    """The version of the commands on PATH.

    Commands can talk to controllers up to two releases apart.

    Raises:
        SlurmUnreachable: They find no cluster, or print no version.
    """
    done = runner.run(["sinfo", "--version"])
    check_configured(done, "sinfo")
    return parse_version(done.stdout or done.stderr)
