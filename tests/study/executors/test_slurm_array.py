"""Arrays of Slurm jobs where a command of Slurm is late."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import SlurmUnreachable
from mirage.slurm.runner import Completed
from mirage.study.executors.check_executor import begin_square
from mirage.study.executors.remote_work import RemoteWork
from mirage.study.executors.slurm_array import POLLS_PER_SQUEUE, SlurmArray


class BusyController:
    """Takes an array, and answers no squeue in time.

    Attributes:
        commands: Names of the commands that were run.
    """

    def __init__(self) -> None:
        self.commands: list[str] = []

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        self.commands.append(argv[0])
        if argv[0] == "squeue":
            raise SlurmUnreachable("squeue did not answer within 60 s")
        return Completed(0, "7\n", "")


def test_a_squeue_that_is_late_ends_no_study(tmp_path: Path) -> None:
    controller, slept = BusyController(), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2 * POLLS_PER_SQUEUE:
            (folder,) = tmp_path.glob("call-*")
            RemoteWork(folder, 2).do_part(0, 1)

    array = SlurmArray(tmp_path, jobs=1, sleep=sleep, clock=lambda: float(len(slept)), runner=controller)
    assert list(array(begin_square, 5, range(2))) == [5, 6]
    assert controller.commands == ["sbatch", "squeue", "squeue"], "and no job is cancelled"


@pytest.mark.parametrize("during", ["sbatch", "the wait"])
def test_a_signal_cancels_the_array(tmp_path: Path, during: str) -> None:
    class SignalledAt(BusyController):
        def run(self, argv: Sequence[str], **options: Any) -> Completed:
            if argv[0] == during:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().run(argv, **options)

    def sleep(_: float) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    controller = SignalledAt()
    array = SlurmArray(tmp_path, jobs=1, sleep=sleep, clock=lambda: 0.0, runner=controller)
    with pytest.raises(SystemExit) as ended:
        list(array(begin_square, 5, range(2)))
    assert (ended.value.code, controller.commands) == (128 + signal.SIGTERM, ["sbatch", "scancel"])
