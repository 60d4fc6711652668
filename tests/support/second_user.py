"""A second Unix user in addition to the one of the tests, on a cluster that both can use."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mirage.slurm.runner import Completed

OTHER = "nobody"
"""A second Unix user, who is on every machine."""


def as_other_user(cluster: Any, folder: Path, *argv: str) -> str:
    """Run a command of Slurm as the second user."""
    if os.geteuid() != 0:
        pytest.skip("becoming a second user needs root")
    user = pwd.getpwnam(OTHER)
    done = subprocess.run(
        argv, env={"HOME": str(folder), **cluster.environment}, cwd=folder, capture_output=True, text=True,
        user=user.pw_uid, group=user.pw_gid, extra_groups=[], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class SecondUser:
    """A runner of commands as the second user."""

    cluster: Any

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        user = pwd.getpwnam(OTHER)
        environment = {"HOME": "/tmp", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", **self.cluster.environment}
        done = subprocess.run(
            argv, env=environment, cwd="/tmp", user=user.pw_uid, group=user.pw_gid, extra_groups=[],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return Completed(done.returncode, done.stdout, done.stderr)


def opened(cluster: Any) -> Any:
    """The cluster, its files readable for the second user."""
    for folder in (cluster.spec.directory, *cluster.spec.directory.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    return cluster
