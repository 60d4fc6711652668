"""History of a cluster as the client reads it from accounting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mirage.errors import RequestNotSent, SlurmRefused, SlurmUnreachable
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import Completed

CONTROLLERS = "PrivateData = jobs\nTCPTimeout = 2 sec\n"


class Commands:
    """Answers every command with the same words."""

    def __init__(self, status: int, stdout: str = "", stderr: str = "") -> None:
        self.done, self.argv = Completed(status, stdout, stderr), ()

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        self.argv = tuple(argv)
        return self.done


def test_what_sacct_prints_is_handed_on_as_it_is() -> None:
    commands = Commands(0, "JobID|User\n1|ada\n")
    assert SlurmClient(commands).history(0, 60) == "JobID|User\n1|ada\n"
    assert commands.argv[0] == "sacct"


@pytest.mark.parametrize(
    ("stderr", "error"),
    [
        ("Slurm accounting storage is disabled", SlurmRefused),
        ("sacct: error: slurmdbd: Connection refused", SlurmUnreachable),
    ],
)
def test_a_failure_of_sacct_is_reported(stderr: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        SlurmClient(Commands(1, "", stderr)).history(0, 60)


@pytest.mark.parametrize(
    ("commands", "private"),
    [
        (Commands(0, f"{CONTROLLERS}SlurmDBD configuration:\nPrivateData = none\n"), False),
        (Commands(0, f"{CONTROLLERS}SlurmDBD configuration:\nPrivateData = jobs,usage\n"), True),
        (Commands(0, f"{CONTROLLERS}SlurmDBD configuration:\nPrivateData = users\n"), False),
        (Commands(0, CONTROLLERS), None),
        (Commands(1, "SlurmDBD configuration:\nPrivateData = none\n", "Access/permission denied"), None),
    ],
)
def test_the_accounting_daemon_counts_and_not_the_controller(commands: Commands, private: bool | None) -> None:
    assert SlurmClient(commands).accounts_are_private() is private


def test_without_sacctmgr_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> Completed:
        raise RequestNotSent("cannot run sacctmgr")

    commands = Commands(0)
    monkeypatch.setattr(commands, "run", absent)
    assert SlurmClient(commands).accounts_are_private() is None


def test_the_qos_are_requested_in_columns_with_bars() -> None:
    commands = Commands(0, "Name|Priority|Preempt\n")
    assert SlurmClient(commands).qos() == "Name|Priority|Preempt\n"
    assert commands.argv[:4] == ("sacctmgr", "--parsable2", "show", "qos")
    assert {"MaxJobsPU", "MaxJobsAccruePU"} <= set(commands.argv[4].removeprefix("format=").split(","))


def test_the_associations_of_one_cluster_are_requested() -> None:
    commands = Commands(0, "Cluster|Account\n")
    assert SlurmClient(commands).associations("ls6") == "Cluster|Account\n"
    assert commands.argv[2:5] == ("show", "assoc", "cluster=ls6")
