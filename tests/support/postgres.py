"""A private PostgreSQL server on loopback, from Debian's own binaries."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server() -> Iterator[str]:
    """URL of an empty database; under root the server runs as the account ``postgres``."""
    home = Path(tempfile.mkdtemp(prefix="mirage-postgres-"))
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    account = pwd.getpwnam(user)
    os.chown(home, account.pw_uid, account.pw_gid)
    port = free_port()

    def run(*words: str) -> None:
        done = subprocess.run(
            [str(BINARIES[-1] / words[0]), *words[1:]], capture_output=True, text=True, cwd=home,
            user=account.pw_uid if os.getuid() == 0 else None, group=account.pw_gid if os.getuid() == 0 else None,
            extra_groups=[] if os.getuid() == 0 else None, env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    data = str(home / "data")
    run("initdb", "-D", data, "-U", "mirage", "--auth=trust", "--encoding=UTF8", "--no-sync")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={home} -c max_connections=40"
    run("pg_ctl", "-D", data, "-w", "-l", str(home / "log"), "-o", options, "start")
    try:
        yield f"postgresql+psycopg://mirage@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)
