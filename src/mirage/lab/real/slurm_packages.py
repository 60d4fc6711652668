"""Programs that a private cluster needs, and the Debian packages that contain them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.lab.real.lab_spec import LabSpec

DEBIAN = (
    "slurm-wlm slurmctld slurmd slurm-client slurmdbd slurmrestd munge mariadb-server slurm-wlm-basic-plugins "
    "slurm-wlm-mysql-plugin slurm-wlm-jwt-plugin libpmi2-0 libpmix2 faketime libfaketime"
)
ADVICE = f"on Debian or Ubuntu: apt-get install --no-install-recommends {DEBIAN}"

ALWAYS = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "munged")
ACCOUNTING = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
REST = ("slurmrestd",)
CLOCK = ("faketime",)

PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"))


def missing(spec: LabSpec) -> list[str]:
    """Returns the programs that the cluster needs and that are not installed."""
    parts = ((True, ALWAYS), (spec.accounting, ACCOUNTING), (spec.rest, REST), (spec.speed > 1, CLOCK))
    wanted = [name for needed, names in parts if needed for name in names]
    found = [name for name in wanted if shutil.which(name, path=PATH) is None]
    if spec.speed > 1 and faketime_library() is None:
        found.append("libfaketimeMT.so.1")
    return found


def require(spec: LabSpec) -> None:
    """Check that all needed programs are installed.

    Raises:
        ConfigurationError: A program is missing; the message says how to install it.
    """
    if lacking := missing(spec):
        raise ConfigurationError(f"a private Slurm needs {', '.join(lacking)}, not found on this machine; {ADVICE}")


def faketime_library() -> Path | None:
    """Returns the libfaketime for programs with threads."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found else None
