"""Files of a private cluster: configuration, secrets, and devices in place of GPUs."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import shutil
import subprocess
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from mirage.atomic_file import check_place, write_atomically
from mirage.errors import ConfigurationError
from mirage.lab.real import slurm_packages
from mirage.lab.real.lab_spec import (
    CONTROLLER,
    DATABASE,
    DATABASE_DAEMON,
    NODES,
    REST,
    LabSpec,
    gres_conf,
    slurm_conf,
    slurmdbd_conf,
)
from mirage.lab.real.ports import check_free, free_ports
from mirage.slurm.client import user_name

SPEC = "spec.json"
LETTERS = "abcdefghjkmnpqrstuvwxyz"


def read_spec(spec: LabSpec) -> LabSpec:
    """Returns the description of the cluster in the directory; the given one if there is none.

    Raises:
        ConfigurationError: The description is damaged or another user's, or the directory is a loop of symbolic links.
    """
    check_place(spec.directory)
    directory = spec.directory.resolve()
    stored = directory / SPEC
    if not stored.exists():
        return replace(spec, directory=directory)
    if os.geteuid() not in (0, owner := stored.stat().st_uid):
        name = user_name(owner)
        raise ConfigurationError(f"the cluster in {spec.directory} belongs to {name}; run this as {name}")
    try:
        known = json.loads(stored.read_bytes())
        return LabSpec(**{**known, "directory": directory, "extra": tuple(known["extra"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(
            f"{stored} is not the description of a private cluster; name another directory, or, if this was one, end "
            f"the processes that still run, with the ids in {directory / 'run'}, and remove it"
        ) from error


def first_directory(directory: Path) -> Path:
    """Returns the directory in which a cluster's files were written, wherever they are now."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return Path(json.loads((directory / SPEC).read_bytes())["directory"])
    return directory


def is_written(spec: LabSpec) -> bool:
    """Whether the files exist."""
    return (spec.directory / SPEC).exists()


def write_files(spec: LabSpec) -> LabSpec:
    """Write all files; returns the description with its ports and its name filled in.

    Raises:
        ConfigurationError: The directory holds files that are not those of a cluster, or a port is in use.
    """
    if any(not one.is_relative_to(spec.home) for one in spec.directory.rglob("*")):
        raise ConfigurationError(
            f"{spec.directory} holds files, but no private cluster; name a directory that is new or empty"
        )
    if spec.port:
        used = [CONTROLLER, *([DATABASE_DAEMON, DATABASE] if spec.accounting else []), *([REST] if spec.rest else [])]
        check_free(spec.port + k for k in (*used, *range(NODES + 1, NODES + spec.nodes + 1)))
    user = getpass.getuser()
    for folder in (spec.etc, spec.run, spec.log, spec.state / "ctld", spec.dev):
        folder.mkdir(parents=True, exist_ok=True)
    for folder in (spec.directory, spec.run, spec.log):
        folder.chmod(0o755)
    name = spec.name or "lab" + "".join(secrets.choice(LETTERS) for _ in range(4))
    spec = replace(spec, port=spec.port or free_ports(NODES + spec.nodes + 1), name=name)
    _secret(spec.etc / "munge.key", 1024)
    _secret(spec.state / "jwt.key", 32)
    files = {
        "slurm.conf": slurm_conf(spec, user),
        "gres.conf": gres_conf(spec, _devices(spec)),
        "cgroup.conf": f"CgroupPlugin={'disabled' if version() >= 23 else 'cgroup/v1'}\n",  # cgroup/v2 needs D-Bus
        "slurmdbd.conf": slurmdbd_conf(spec, user),
    }
    for file, text in files.items():
        path = spec.etc / file
        path.touch(0o600 if file == "slurmdbd.conf" else 0o644)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600 if file == "slurmdbd.conf" else 0o644)
    write_atomically(spec.directory / SPEC, json.dumps(asdict(spec), default=str).encode())
    return spec


def remove_files(spec: LabSpec) -> None:
    """Remove the files of a cluster, and its directory if that is then empty."""
    for folder in (spec.etc, spec.run, spec.log, spec.state, spec.dev, spec.home):
        shutil.rmtree(folder, ignore_errors=True)
    (spec.directory / SPEC).unlink(missing_ok=True)
    with suppress(OSError):
        spec.directory.rmdir()


def version() -> int:
    """Returns the year of this machine's Slurm version; 0 if it is unknown."""
    done = subprocess.run(
        ["slurmctld", "-V"],
        env={**os.environ, "PATH": slurm_packages.PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    digits = done.stdout.split()[-1].partition(".")[0] if done.stdout.split() else ""
    return int(digits) if digits.isdecimal() else 0


def _devices(spec: LabSpec) -> str:
    """Stem of the files used as GPUs: clones of /dev/null if permitted, else consoles."""
    if os.getuid() != 0:
        return "/dev/tty"
    stem = spec.dev / "gpu"
    for k in range(spec.gpus):
        path = Path(f"{stem}{k}")
        if not path.exists():
            try:
                os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
            except PermissionError:
                return "/dev/tty"
    return str(stem)


def _secret(path: Path, size: int) -> None:
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(secrets.token_bytes(size))
