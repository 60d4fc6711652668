"""Accounting of a private cluster: MariaDB, slurmdbd, two accounts and three QOS."""

from __future__ import annotations

import contextlib
import getpass
import shutil
from collections.abc import Callable
from pathlib import Path

from mirage.errors import SlurmUnreachable
from mirage.lab.real.cluster_processes import ClusterProcesses
from mirage.lab.real.lab_spec import DATABASE, DATABASE_DAEMON, LabSpec
from mirage.lab.real.ports import answers

Until = Callable[[Callable[[], bool], float, str, Path], None]
"""Waits for a condition for some real seconds, or raises with the condition's name and the end of a log."""


def start_accounting(spec: LabSpec, processes: ClusterProcesses, run: Callable[..., str], until: Until) -> None:
    """Start accounting processes that are not running, and create the accounts if missing.

    Raises:
        SlurmUnreachable: A daemon did not start.
    """
    if not processes.alive("mariadb"):
        _start_database(spec, processes, until)
    if not processes.alive("slurmdbd"):
        processes.daemon("slurmdbd")
    until(lambda: answers(spec.port + DATABASE_DAEMON), 60, "slurmdbd answers", spec.log / "slurmdbd.log")
    if not (spec.state / "accounts").exists():
        _make_accounts(spec, run)
        (spec.state / "accounts").touch()


def _start_database(spec: LabSpec, processes: ClusterProcesses, until: Until) -> None:
    if not (spec.state / "mysql" / "mysql").is_dir():
        _create_database(spec, processes)
    processes.background(
        "mariadb", "mariadbd", "--no-defaults", f"--datadir={spec.state}/mysql",
        f"--socket={spec.run}/mysql.sock", f"--port={spec.port + DATABASE}", "--bind-address=127.0.0.1",
        f"--pid-file={spec.run}/mariadbd.pid", f"--user={getpass.getuser()}", "--innodb-buffer-pool-size=128M",
        "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin",
    )  # fmt: skip
    log = spec.log / "mariadb.log"
    until((spec.run / "mysql.sock").exists, 60, "MariaDB answers", log)
    orders = (
        "CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm';"
        "CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY 'slurm';"
        "CREATE DATABASE IF NOT EXISTS slurm_acct;"
        "GRANT ALL ON slurm_acct.* TO slurm@'127.0.0.1'; GRANT ALL ON slurm_acct.* TO slurm@localhost;"
    )
    words = ("mariadb", "--no-defaults", "-u", "root", "-S", f"{spec.run}/mysql.sock", "-e", orders)
    until(lambda: processes.quiet(words), 60, "MariaDB takes orders", log)


def _create_database(spec: LabSpec, processes: ClusterProcesses, attempts: int = 2) -> None:
    """Create the database's own tables; a second time from nothing where the first failed."""
    for attempt in range(1, attempts + 1):
        try:
            processes.daemon(
                "mariadb-install-db", "--no-defaults", f"--datadir={spec.state}/mysql", "--skip-test-db",
                "--auth-root-authentication-method=normal", f"--user={getpass.getuser()}",
            )  # fmt: skip
            return
        except SlurmUnreachable as error:
            log = (spec.log / "mariadb-install-db.start").read_text(encoding="utf-8", errors="replace")
            causes = [line for line in log.splitlines() if "ERROR" in line]
            if attempt == attempts:
                raise SlurmUnreachable(str(error), "\n".join(causes)) from error
            shutil.rmtree(spec.state / "mysql", ignore_errors=True)


def _make_accounts(spec: LabSpec, run: Callable[..., str]) -> None:
    """Create one cluster, two accounts, three QOS; each QOS may preempt those below it."""
    user, cluster = getpass.getuser(), spec.cluster_name
    steps = (
        f"add cluster {cluster}",
        "add qos low,normal,high",
        "modify qos low set priority=0 preemptmode=requeue",
        "modify qos normal set priority=100 preempt=low preemptmode=requeue",
        "modify qos high set priority=1000 preempt=low,normal preemptmode=requeue",
        f"add account research cluster={cluster} fairshare=10",
        f"add account serving cluster={cluster} fairshare=10",
        f"add user {user} account=research,serving defaultaccount=research adminlevel=admin",
        f"modify user {user} set qos=low,normal,high defaultqos=normal",
    )
    for step in steps:
        with contextlib.suppress(SlurmUnreachable):  # sacctmgr fails if nothing new is added
            run("sacctmgr", "-i", *step.split())
